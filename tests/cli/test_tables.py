"""tilewright explain, isa, targets, doctor, migrate: what they print, as text and as JSON."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from tilewright.catalogue import catalogue
from tilewright.cli.isa_example import example_calls, run_example
from tilewright.cli.main import cli
from tilewright.rules import implemented, load_rules
from tilewright.target import get_target, target_names
from tilewright.tile.record import TABLE

from .kit import CommandLine

COMMANDS = ["run", "check", "compile", "explain", "isa", "targets", "migrate", "doctor"]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_explains_and_gives_an_example(tilewright: CommandLine, command: str):
    result = tilewright(f"{command} --help".strip())
    assert result.code == 0 and result.err == ""
    assert "tilewright" in result.out
    if command:
        assert "Example" in result.out and "--target" in result.out and "--json" in result.out
    else:
        assert all(name in result.out for name in COMMANDS) and "Exit codes" in result.out


def test_version(tilewright: CommandLine):
    assert tilewright("--version").out.startswith("tilewright, version ")


@pytest.mark.parametrize("code", list(catalogue()))
def test_explain_a_code(tilewright: CommandLine, code: str):
    entry = catalogue()[code]
    text = tilewright(f"explain {code}").out
    assert text.startswith(f"{code}: {entry.title}\n")
    assert all(line.strip() in text for line in (entry.bad.source + entry.good.source).splitlines())
    document = tilewright(f"explain --json {code}").json
    assert (document["code"], document["bad"], document["good"]) == (code, entry.bad.source, entry.good.source)


def test_explain_a_rule(tilewright: CommandLine):
    rule = load_rules()["R-nc_matmul-20"]
    text = tilewright("explain R-nc_matmul-20").out
    assert (
        rule.text in text
        and "strict: error, lenient: warning, nki-0.3: error, sdk-2.26: error" in text
        and "implemented  yes" in text
    )
    assert "nki/api/nki/isa/__init__.py:541-545" in text
    document = tilewright("explain r-nc_matmul-20 --json").json
    assert document["severity"] == {
        "strict": "error",
        "lenient": "warning",
        "nki-0.3": "error",
        "sdk-2.26": "error",
    }
    assert (
        document["kind"] == "psum"
        and document["code"] == "E105"
        and document["when"] == "D"
        and document["implemented"]
    )


def test_explain_everything_that_exists(tilewright: CommandLine):
    listed = tilewright("explain").out
    assert all(code in listed and entry.title in listed for code, entry in catalogue().items())
    assert set(tilewright("explain --json").json) == set(catalogue())
    for rule in list(load_rules())[::25]:
        assert tilewright(f"explain {rule}").code == 0


def test_explain_something_unknown(tilewright: CommandLine):
    result = tilewright("explain E140")
    assert result.code == 2 and result.codes() == ["E705"] and "near matches: " in result.err
    assert tilewright("explain --json R-nothing").json["diagnostics"][0]["code"] == "E705"


def test_isa_lists_what_a_target_has(tilewright: CommandLine):
    for target in target_names():
        has = {name for name, record in TABLE.items() if record.since <= get_target(target).generation}
        printed = tilewright(f"isa --target {target}").out
        assert {line.split()[0] for line in printed.splitlines()[1:-1]} == has
        assert f"{len(has)} instructions on {target}" in printed
    rows = tilewright("isa --json").json
    assert {row["name"] for row in rows} == set(TABLE)


@pytest.mark.parametrize("name", sorted(TABLE))
def test_isa_describes_an_instruction(tilewright: CommandLine, name: str):
    text = tilewright(f"isa {name}").out
    record = TABLE[name]
    assert text.startswith(f"nisa.{name}(")
    assert all(operand in text for operand in record.operands)
    assert all(rule in text for rule in record.rule_ids())
    document = tilewright(f"isa --json nisa.{name}").json
    assert set(document["operands"]) == set(record.operands)


@pytest.mark.parametrize("target", target_names())
@pytest.mark.parametrize("name", sorted(TABLE))
def test_example_calls_are_legal(name: str, target: str):
    """The call of every instruction that `isa` prices also runs, on every target that has it."""
    hardware = get_target(target)
    if TABLE[name].since > hardware.generation:
        pytest.skip("a later generation's")
    run = run_example(example_calls()[name], hardware)
    assert not [each for each in run.diagnostics if each.severity == "error"]
    assert name in [op.name for op in run.session.graph.ops]


def test_isa_costs_depend_on_the_target(tilewright: CommandLine):
    costs = {name: tilewright(f"isa nc_matmul --json --target {name}").json["cost"] for name in ("trn1", "trn2")}
    assert costs["trn1"][0]["interval_ns"] > 0 and costs["trn1"] != costs["trn2"]


def test_isa_of_something_unknown(tilewright: CommandLine):
    result = tilewright("isa nc_matmull")
    assert result.code == 2 and result.codes() == ["E706"] and "nc_matmul" in result.err


def test_isa_counts_rules(tilewright: CommandLine):
    text = tilewright("isa --rules").out
    assert text.endswith(f"{len(implemented())} / {len(load_rules())} rules implemented\n")
    document = tilewright("isa --rules --json").json
    assert sum(each["total"] for each in document["sections"].values()) == document["total"] == len(load_rules())


def test_targets_compares(tilewright: CommandLine):
    text = tilewright("targets").out
    head = text.splitlines()[0].split()
    assert [name for name in head if name in target_names()] == list(target_names())
    assert "memory.sbuf_bytes" in text and "B per partition" in text
    assert len(tilewright("targets --all").out.splitlines()) > 100
    one = tilewright("targets --target inf2").out
    assert "NeuronCore-v2" in one and "AWS Neuron SDK" in one
    assert set(tilewright("targets --json").json) == set(target_names())
    assert tilewright("targets --target trn7").codes() == ["E601"]


@pytest.mark.req("S3-38")
def test_doctor_prints_what_people_ask_for(tilewright: CommandLine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "1")
    text = tilewright("doctor").out
    assert "NKI API level" in text and "real nki" in text and "NKI_PRECISE_FP=1" in text
    assert "nisa.nc_matmul(dst, stationary, moving," in text and "nisa.activation(dst, op, data," in text
    assert "nl.exp" in text and "nl.gelu" in text
    facts = tilewright("doctor --json --target trn1 --profile lenient").json
    assert facts["target"] == "trn1" and facts["profile"] == "lenient"
    assert "nl.rsqrt" in facts["activation_functions"]


LEGACY = """\
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

@nki.jit
def shifted(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i, j = nl.mgrid[0:128, 0:64]
    tile = nl.load(x[i, j])
    nl.store(out[i, j], tile + 1.0)
    return out
"""


def test_migrate_prints_the_difference(tilewright: CommandLine, tmp_path: Path):
    path = tmp_path / "old.py"
    path.write_text("psum[...] += nisa.nc_matmul(a, b)\n")
    result = tilewright("migrate", path)
    assert result.code == 0 and "+nisa.nc_matmul(psum, a, b)" in result.out and path.read_text().startswith("psum")
    assert tilewright("migrate --json", path).json[str(path)]["rewritten"] == [1]
    tilewright("migrate --write", path)
    assert path.read_text() == "nisa.nc_matmul(psum, a, b)\n"
    path.write_text("nisa.nc_matmul(a, b)\n")
    left = tilewright("migrate", path)
    assert left.code == 1 and left.codes() == ["W201"]
    assert f"{path}: nothing to change, 1 place left to you" in left.err
    path.write_text(LEGACY)
    assert f"{path}: 5 lines to change\n" in tilewright("migrate", path).err, "not only calls of nki.isa"
    assert tilewright("migrate", tmp_path / "none.py").codes() == ["E701"]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("ch", "plain,check"),
        ("check --for", "plain,--format"),
        ("check --format s", "plain,sarif"),
        ("check --target trn1", "plain,trn1"),
        ("isa --target trn3", "plain,trn3"),
        ("check my", "file,my"),
        ("run my_kernel.py in", "file,in"),
        ("compile mod", "file,mod"),
        ("profile --html out", "file,out"),
        ("profile my_kernel.py --ker", "plain,--kernel"),
        ("explain e10", "plain,E101"),
        ("explain R-nc_mat", "plain,R-nc_matmul-01"),
        ("isa nc_m", "plain,nc_matmul"),
        ("ops np.tak", "plain,np.take"),
    ],
)
def test_the_shell_completes(typed: str, found: str, monkeypatch: pytest.MonkeyPatch):
    words = ["tilewright", *typed.split()]
    monkeypatch.setenv("COMP_WORDS", " ".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    assert found in BashComplete(cli, {"obj": {}}, "tilewright", "_TILEWRIGHT_COMPLETE").complete().splitlines()

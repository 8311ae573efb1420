"""Bisection: what a failure needs of a kernel, its inputs and what ran before it."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.cli.kit import CommandLine
from tests.kit import nisa, nki, nl
from tests.provenance.kit import P, gathered, loaded, routed, stored
from tilewright.diagnose.bisection.reduction import Budget, Memory, fewest
from tilewright.diagnose.bisection.variants import Variant, instructions_of, removable, without
from tilewright.tile.verify import verify_graph

EYE = np.eye(P, dtype=np.float32)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(P, P)).astype(np.float32)


def chain(rounds: int) -> Any:
    """Products of matrices, and two other things that do not matter."""

    @nki.jit
    def kernel(x: Any, identity: Any, gates: Any) -> Any:
        t, eye, g = loaded(x), loaded(identity), loaded(gates)
        nisa.activation(g, nl.exp, g, scale=-1.0)  # overflows for gates below -88
        for _ in range(rounds):
            product = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(product, t, eye)
            moved = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(moved, product)
            t = moved
        nisa.tensor_tensor(t, t, g, nl.multiply)
        return stored(t)

    return kernel


def gates(lowest: float) -> np.ndarray:
    made = np.full((P, P), -1, np.float32)
    made[100, 7] = lowest
    return made


@pytest.mark.req("S0-32")
def test_values_are_blamed_and_not_the_length_of_the_kernel(tmp_path: Path) -> None:
    found = tw.bisect(chain(5), X, EYE, gates(-130), folder=tmp_path)
    assert found.axis == "inputs" and found.inputs == {"gates": [(100, 7)]}
    assert "`gates`" in found.report and "5 matmuls" in found.report and "[100, 7] = -130" in found.report
    assert sum(op.name == "nc_matmul" for op in found.kernel.ops) == 0
    passing, failing = found.edges["gates"]
    assert failing < -88.7228 < passing and passing - failing < 0.01
    assert f"With {failing:.6g} for that element of `gates` it fails, with {passing:.6g} it does not." in found.report


@pytest.mark.req("S0-33")
def test_the_reproduction_fails_alone(tmp_path: Path) -> None:
    found = tw.bisect(chain(2), X, EYE, gates(-130), folder=tmp_path)
    assert found.reproduction == tmp_path
    text = (tmp_path / "report.md").read_text()
    assert text == found.report
    assert all(head in text for head in ("## Configurations", "## Variants", "## What was tried", "## Key evidence"))
    done = subprocess.run([sys.executable, str(tmp_path / "reproduce.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "not finite" in done.stdout


@pytest.mark.req("S0-27")
@pytest.mark.req("S0-30")
@pytest.mark.parametrize("most", [0, 1, 4])
def test_an_injected_limit_is_found(most: int, tmp_path: Path) -> None:
    def oracle(variant: Variant) -> bool:
        return variant.count("nc_matmul") > most

    kernel = chain(6)
    told: list[str] = []
    found = tw.bisect(kernel, X, EYE, gates(-1), oracle=oracle, folder=tmp_path, calls=999, progress=told.append)
    assert [int(line.split(" of at most 999 tries")[0]) for line in told] == list(range(1, found.calls + 1))
    assert found.axis == "kernel" and sum(op.name == "nc_matmul" for op in found.kernel.ops) == most + 1
    count = 20
    assert found.calls <= 4 * count * math.log2(count) + 40
    rows = [row for row in found.tried if row[4] == "PASS"]
    assert max(row[1] for row in rows) == most


@pytest.mark.req("S0-28")
@pytest.mark.req("S0-29")
def test_variants_are_clean_and_the_last_is_minimal(tmp_path: Path) -> None:
    seen: list[Variant] = []

    def oracle(variant: Variant) -> bool:
        seen.append(variant)
        names = {op.name for op in variant.graph.ops}
        return {"nc_matmul", "activation"} <= names

    found = tw.bisect(chain(3), X, EYE, gates(-1), oracle=oracle, folder=tmp_path)
    for variant in seen:
        assert [value.name for value in variant.graph.inputs] == ["x", "identity", "gates"]
        assert len(variant.graph.outputs) == 1
        assert verify_graph(variant.graph, "trn2") == []
        variant.run()
    names = [op.name for op in instructions_of(found.kernel)]
    assert names.count("nc_matmul") == 1 and names.count("activation") == 1
    assert "tensor_scalar" not in names and "tensor_tensor" not in names


@pytest.mark.req("S0-28")
def test_a_variant_that_breaks_a_rule_does_not_count(tmp_path: Path) -> None:
    """Without the first product of a sum the second one would be added to zeros that no product wrote."""

    @nki.jit
    def summed(x: Any, identity: Any) -> Any:
        t, eye = loaded(x), loaded(identity)
        total = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(total, t, eye, accumulate=False)
        nisa.nc_matmul(total, eye, t, accumulate=True)
        nisa.tensor_copy(t, total)
        return stored(t)

    def oracle(variant: Variant) -> bool:
        return any(op.name == "nc_matmul" and op.attrs["accumulate"] is True for op in variant.graph.ops)

    found = tw.bisect(summed, X, EYE, oracle=oracle, folder=tmp_path)
    assert verify_graph(found.kernel, "trn2") == []
    assert sum(op.name == "nc_matmul" for op in found.kernel.ops) == 2


@nki.jit
def maker(x: Any) -> Any:
    t = loaded(x)
    nisa.activation(t, nl.exp, t)
    return stored(t)


@nki.jit
def router(x: Any, table: Any) -> Any:
    t = loaded(x)
    nisa.tensor_tensor(t, t, t, nl.subtract)
    return stored(routed(t, table))


def model(x: np.ndarray, table: np.ndarray) -> Any:
    other = maker(x * 0)
    return router(maker(x) + other, table)


@pytest.mark.req("S0-31")
def test_a_model_is_reduced_to_the_kernel_that_spoils_it(tmp_path: Path) -> None:
    x = RNG.normal(size=(P, 64)).astype(np.float32)
    x[3, 4] = 100
    found = tw.bisect(model, x, np.zeros((64, 64), np.float32), folder=tmp_path)
    assert found.axis == "inputs" and found.inputs == {"x": [(3, 4)]}
    assert found.kernel.name == "maker" and "maker is the first kernel" in found.report.lower()


@pytest.mark.req("S0-31")
def test_a_failure_that_needs_its_surroundings(tmp_path: Path) -> None:
    def layers(x: np.ndarray) -> Any:
        for _ in range(4):
            x = maker(x * np.float32(0.01))
        return chain(1)(np.broadcast_to(x[:, :1], (P, P)).copy(), EYE, gates(-1))

    def oracle(variant: Variant) -> bool:
        return len(variant.context) >= 2

    found = tw.bisect(layers, np.ones((P, 64), np.float32), oracle=oracle, folder=tmp_path)
    assert found.axis == "context" and found.context == ("maker", "maker")
    assert "context" in found.report


def test_errors_of_codes_and_classes(tmp_path: Path) -> None:
    @nki.jit
    def kernel(indices: Any, table: Any) -> Any:
        t = loaded(indices, nl.int32)
        nisa.tensor_scalar(t, t, nl.add, 1.0)
        return stored(gathered(table, t))

    indices = np.arange(P, dtype=np.int32).reshape(P, 1) % 64
    table = np.zeros((64, 64), np.float32)
    for number, oracle in enumerate((None, "E301", "R-dma_copy-11", IndexError)):
        found = tw.bisect(kernel, indices, table, oracle=oracle, folder=tmp_path / str(number))
        assert found.axis == "inputs" and len(found.inputs["indices"]) == 1


def test_a_reference_is_an_oracle(tmp_path: Path) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        t = loaded(x)
        nisa.activation(t, nl.relu, t)
        return stored(t)

    found = tw.bisect(kernel, X, reference=lambda x: np.abs(x), folder=tmp_path)
    assert found.axis == "inputs" and len(found.inputs["x"]) == 1


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (3, "reference=3 is no function"),
        (lambda x, y: x, "missing a required argument: 'y'"),
        (lambda x: x[:3], r"results of shape \(3, 128\), the kernel \(128, 128\)"),
        (lambda x: (x, x), r"\(128, 128\), \(128, 128\), the kernel \(128, 128\)"),
    ],
)
def test_a_reference_that_says_nothing_of_the_results_is_refused(reference: Any, said: str) -> None:
    with pytest.raises(tw.TileError, match=said) as caught:
        tw.bisect(maker, X, reference=reference)
    found = caught.value.diagnostic
    assert found.code == "E108" and "a function of x that gives what the kernel should return" in (found.hint or "")


LOOK = "import sys; sys.exit('activation' in open(sys.argv[1].replace('reproduce.py', 'kernel.tile.ir')).read())"


def test_a_command_is_an_oracle(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-c", LOOK]
    found = tw.bisect(maker, np.full((4, 4), 1, np.float32), oracle=command, folder=tmp_path)
    assert found.axis == "kernel" and [op.name for op in instructions_of(found.kernel)][-2:] == [
        "activation",
        "dma_copy",
    ]
    cut = tw.bisect(chain(2), X, EYE, gates(-1), oracle=command, folder=tmp_path / "cut", calls=5)
    assert not cut.complete


@pytest.mark.parametrize("held", ['{"case"', "[]", '{"case": 1, "known": []}'])
def test_a_memory_that_is_damaged_is_not_used(held: str, tmp_path: Path) -> None:
    file = tmp_path / "tried.json"
    file.write_text(held)
    assert Memory(file, "1").known == {} and Memory(file, "1").ask("it", lambda: True)
    assert Memory(file, "1").resumed == 1
    file.write_text('{"case": "1", "known": []}')
    assert Memory(file, "1").known == {}


def test_a_bisection_goes_on_where_it_was(tmp_path: Path) -> None:
    kernel = chain(4)
    cut = tw.bisect(kernel, X, EYE, gates(-130), folder=tmp_path, calls=12)
    assert not cut.complete and "budget" in cut.report
    told: list[str] = []
    whole = tw.bisect(kernel, X, EYE, gates(-130), folder=tmp_path, progress=told.append)
    alone = tw.bisect(kernel, X, EYE, gates(-130), folder=tmp_path / "other")
    assert whole.complete and whole.calls < alone.calls and whole.inputs == alone.inputs
    assert len(told) == whole.calls and "tries" in told[0]


CODES = [(lambda variant: False, "E710"), ("E301", "E710"), ("E999", "E705"), ("R-dma_copy-99", "E705"), (3, "E108")]


@pytest.mark.parametrize(("oracle", "code"), CODES)
def test_oracles_that_never_fail(oracle: Any, code: str, tmp_path: Path) -> None:
    with pytest.raises(tw.TileError) as caught:
        tw.bisect(maker, np.ones((4, 4), np.float32), oracle=oracle, folder=tmp_path)
    assert caught.value.diagnostic.code == code


def test_an_oracle_that_is_flaky(tmp_path: Path) -> None:
    verdicts = iter([True, True, False])
    with pytest.raises(tw.TileError) as caught:
        tw.bisect(maker, np.ones((4, 4), np.float32), oracle=lambda variant: next(verdicts), folder=tmp_path)
    assert caught.value.diagnostic.code == "E711" and "2 of 3 times" in caught.value.diagnostic.message


SCRIPT = """
import nki, nki.isa as nisa, nki.language as nl, numpy as np

@nki.jit
def decay(g):
    t = nl.ndarray(g.shape, dtype=g.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=g)
    nisa.activation(dst=t, op=nl.exp, data=t, scale=-1.0)
    out = nl.ndarray(g.shape, dtype=g.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)
    return out

decay(np.full((128, 8), {lowest}, np.float32))
"""


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, folder = tmp_path / "decay.py", tmp_path / "found"
    script.write_text(SCRIPT.format(lowest=-130))
    tilewright = CommandLine(capsys)
    result = tilewright(f"bisect -o {folder} --quiet", script)
    assert result.code == 1 and "depends on the values of `g`" in result.out
    assert (folder / "report.md").exists() and (folder / "reproduce.py").exists()
    document = tilewright(f"bisect --json --quiet -o {folder}", script).json
    assert document["axis"] == "inputs" and list(document["inputs"]) == ["g"]
    assert all(-89 < each < -88 for each in document["edges"]["g"])
    assert tilewright(f"bisect --quiet -o {script}/found", script).codes() == ["E707"]
    script.write_text(SCRIPT.format(lowest=-1))
    assert tilewright("bisect --quiet", script).codes() == ["E710"]
    script.write_text("print(1)\n")
    assert tilewright("bisect --quiet", script).codes() == ["E712"]
    assert tilewright("bisect --quiet", tmp_path / "absent.py").code == 2


@pytest.mark.req("S0-29")
@pytest.mark.req("S0-30")
@pytest.mark.parametrize("needed", [{0}, {255}, {97}, {3, 17, 101}, set(range(120, 128))], ids=str)
def test_few_tries_leave_nothing_that_could_go(needed: set[int]) -> None:
    """Each cause of n parts takes O(log n) tries; none of what is left can be left out."""
    tried: list[int] = []

    def fails(kept: Sequence[int]) -> bool:
        tried.append(len(kept))
        return needed <= set(kept)

    count = 256
    assert fewest(range(count), fails, Budget(calls=10**6)) == sorted(needed)
    assert len(tried) <= 4 * len(needed) * math.log2(count)


@pytest.mark.req("S0-29")
def test_what_can_go_only_after_something_behind_it_goes_too() -> None:
    """The first part is needed as long as the second is there: one look at each is not enough."""

    def fails(kept: Sequence[int]) -> bool:
        return 2 in kept and (0 in kept or 1 not in kept)

    assert fewest(range(3), fails, Budget(calls=10**6)) == [2]


@pytest.mark.req("S0-29")
def test_no_instruction_of_the_smallest_kernel_can_go(tmp_path: Path) -> None:
    def oracle(variant: Variant) -> bool:
        return variant.count("nc_matmul") > 2 and variant.count("activation") > 0

    found = tw.bisect(chain(4), X, EYE, gates(-1), oracle=oracle, folder=tmp_path)
    smallest = Variant(found.kernels, found.arrays, tw.get_target("trn2"))
    parts = removable(smallest)
    assert oracle(smallest) and parts
    for part in parts:
        less = without(smallest, [part])
        assert not oracle(less) or less.instructions >= smallest.instructions


@pytest.mark.parametrize("after", [5, 12])
def test_what_was_killed_goes_on(after: int, tmp_path: Path) -> None:
    """Verdicts are kept as they come; another kernel, or another oracle, does not get them."""
    asked: list[int] = []

    class Killed(BaseException):
        pass

    def oracle(variant: Variant) -> bool:
        asked.append(variant.instructions)
        if len(asked) == after:
            raise Killed
        return variant.count("nc_matmul") > 2

    arguments = (X, EYE, gates(-1))
    whole = tw.bisect(chain(5), *arguments, oracle=lambda variant: variant.count("nc_matmul") > 2)
    with pytest.raises(Killed):
        tw.bisect(chain(5), *arguments, oracle=oracle, folder=tmp_path)
    found = tw.bisect(chain(5), *arguments, oracle=oracle, folder=tmp_path)
    # The case itself is tried three times to begin with, and nothing of that is kept.
    assert found.resumed == after - 4 and found.calls == whole.calls - found.resumed
    assert str(found.kernel) == str(whole.kernel)
    assert f"{found.resumed} verdicts are from before" in found.report
    assert tw.bisect(chain(4), *arguments, oracle=oracle, folder=tmp_path).resumed == 0


@nki.jit
def copied(x: Any) -> Any:
    return stored(loaded(x))


@nki.jit
def turned(x: Any) -> Any:
    """By the Tensor engine, which before NeuronCore-v3 multiplies by an identity: infinity times zero is NaN."""
    made = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(made, loaded(x), engine=nisa.engine.tensor)
    out = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(out, made)
    return stored(out)


def test_a_function_runs_on_the_target_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_TARGET", raising=False)
    spoilt = X.copy()
    spoilt[3, 5] = np.inf

    def chained(x: Any) -> Any:
        return copied(turned(copied(x)))

    found = tw.bisect(chained, spoilt, target="trn1", folder=tmp_path)
    assert "turned is the first kernel that makes something not finite" in found.report
    assert tw.target.get_target().name == "trn2", "it was assumed for that time only"

"""tilewright run: scripts as python would run them, faults as diagnostics, everything else as the script's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.activate import deactivate

from .kit import CommandLine


def write(folder: Path, text: str, name: str = "script.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_script_runs_and_its_output_is_untouched(tilewright: CommandLine, script: Path):
    result = tilewright("run", script)
    assert (result.code, result.out, result.err) == (0, "sum 4096.0\n", "")


def test_arguments_belong_to_the_script(tilewright: CommandLine, script: Path):
    assert tilewright("run", script, "64").out == "sum 2048.0\n"


def test_argv_path_and_main_are_as_python_sets_them(tilewright: CommandLine, tmp_path: Path):
    write(tmp_path, "VALUE = 7\n", "beside.py")
    path = write(
        tmp_path,
        "import sys, __main__, beside\n"
        "assert sys.argv[0] == __file__\n"
        "print(sys.argv[1:], beside.VALUE, __name__, __main__.__file__ == __file__, sys.path[0])\n"
        "class Here: pass\n"
        "print(sys.modules['__main__'].Here is Here)\n",
    )
    before = list(sys.argv), list(sys.path), sys.modules["__main__"]
    result = tilewright("run", path, "--", "--target", "x", "-v")
    assert result.out == f"['--target', 'x', '-v'] 7 __main__ True {tmp_path}\nTrue\n"
    assert (list(sys.argv), list(sys.path), sys.modules["__main__"]) == before
    sys.modules.pop("beside")


def test_a_kernel_at_fault(tilewright: CommandLine, script: Path):
    result = tilewright("run", script, "256")
    assert result.code == 1 and result.out == ""
    line = 11
    # Before 3.11 Python does not say which expression of a line ran.
    underline = " " * 18 + "^" * 7 if sys.version_info >= (3, 11) else "^" * 57
    assert result.err == (
        "error[E104, R-tensor-01]: tensor of shape (256, 16): partition dimension 256 exceeds maximum 128\n"
        f"  --> {script}:{line}\n"
        "   |\n"
        "11 |     tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)\n"
        f"   |     {underline}\n"
        "   = hint: tile dim 0 by 128 (nl.tile_size.pmax)\n"
        "\n"
        "More: tilewright explain E104\n"
    )


def test_the_call_is_underlined(tilewright: CommandLine, tmp_path: Path):
    path = write(
        tmp_path,
        "import nki, nki.isa as nisa, nki.language as nl, numpy as np\n"
        "def k(a):\n"
        "    é = 'é'; nisa.dma_copy(dst=a, src=a[0:1]); x = 1\n"
        "nki.jit(k)(np.ones((2, 4), np.float32))\n",
    )
    lines = tilewright("run", path).err.splitlines()
    source = next(line for line in lines if "dma_copy(dst" in line)
    under = lines[lines.index(source) + 1]
    assert source[under.index("^") : under.rindex("^") + 1] == "nisa.dma_copy(dst=a, src=a[0:1])"


def test_an_error_of_the_script_shows_its_own_traceback(tilewright: CommandLine, tmp_path: Path):
    path = write(
        tmp_path,
        "import nki, nki.language as nl, numpy as np\n"
        "@nki.jit\n"
        "def k(a):\n"
        "    raise KeyError('mine')\n"
        "k(np.ones((2, 4), np.float32))\n",
    )
    result = tilewright("run", path)
    assert result.code == 1
    assert result.err.startswith("Traceback (most recent call last):\n")
    assert "line 5, in <module>" in result.err and "line 4, in k" in result.err
    assert result.err.endswith("KeyError: 'mine'\n")
    assert "runpy" not in result.err and "launch" not in result.err


def test_causes_are_shown_without_our_frames(tilewright: CommandLine, tmp_path: Path):
    path = write(
        tmp_path,
        "import nki, nki.language as nl, numpy as np\n"
        "def k(a):\n"
        "    nl.ndarray((256, 4), dtype=nl.float32, buffer=nl.sbuf)\n"
        "try:\n"
        "    nki.jit(k)(np.ones((2, 4), np.float32))\n"
        "except Exception as error:\n"
        "    raise RuntimeError('wrapped') from error\n",
    )
    result = tilewright("run", path)
    assert result.code == 1 and "RuntimeError: wrapped" in result.err and "E104" in result.err


@pytest.mark.parametrize(("statement", "code"), [("sys.exit(5)", 2), ("sys.exit()", 0), ("sys.exit('no')", 1)])
def test_exit_codes_of_the_script_pass_through(tilewright: CommandLine, tmp_path: Path, statement: str, code: int):
    path = write(tmp_path, f"import sys\n{statement.replace('5', '2')}\n")
    assert tilewright("run", path).code == code


def test_handled_faults_are_the_scripts_business(tilewright: CommandLine, tmp_path: Path):
    path = write(
        tmp_path,
        "import nki, nki.language as nl, numpy as np\n"
        "def k(a):\n"
        "    nl.ndarray((256, 4), dtype=nl.float32, buffer=nl.sbuf)\n"
        "try:\n"
        "    nki.jit(k)(np.ones((2, 4), np.float32))\n"
        "except nki.isa.NkiValidationError as error:\n"
        "    print('caught')\n",
    )
    assert tilewright("run", path) == type(tilewright("run", path))(0, "caught\n", "")


def test_missing_and_broken_scripts(tilewright: CommandLine, tmp_path: Path):
    missing = tilewright("run", tmp_path / "none.py")
    assert missing.code == 2 and missing.codes() == ["E701"] and "No such file" in missing.err
    assert tilewright("run", tmp_path).codes() == ["E701"]
    broken = tilewright("run", write(tmp_path, "def k(:\n"))
    assert broken.code == 2 and broken.codes() == ["E702"] and "script.py:1" in broken.err
    assert tilewright("run", write(tmp_path, "x = 1\0\n")).codes() == ["E702"]
    latin = tmp_path / "latin.py"
    for text in (b"x = '\xe9'\n", b"x = 1  # \xe9\n", b"# a\n# b\n# \xe9\n"):
        latin.write_bytes(text)
        assert tilewright("run", latin).codes() == ["E702"]
    latin.write_bytes(b"# coding: latin-1\r\nprint('\xe9' == chr(0xE9))\r\n")
    assert tilewright("run", latin).out == "True\n"


def test_unknown_targets_profiles_and_options(tilewright: CommandLine, script: Path, monkeypatch: pytest.MonkeyPatch):
    unknown = tilewright("run --target trn9", script)
    assert unknown.code == 2 and unknown.codes() == ["E601"] and "-->" not in unknown.err
    assert tilewright("run --profile loose", script).code == 2
    assert tilewright("run").code == 2
    assert "No such option" in tilewright("run --tarrget trn1", script).err
    monkeypatch.setenv("TILEWRIGHT_PROFILE", "loose")
    from_environment = tilewright("run", script)
    assert from_environment.code == 2 and from_environment.codes() == ["E605"]
    assert tilewright("frobnicate").code == 2


def test_targets_reach_the_kernel(tilewright: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write(tmp_path, "import os, nki.isa as nisa\nprint(nisa.get_nc_version().name)\n")
    assert tilewright("run --target trn1", path).out == "gen2\n"
    assert tilewright("run --target gen4", path).out == "gen4\n"
    assert tilewright("run", path).out == "gen3\n"
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    assert tilewright("run", path).out == "gen2\n"
    monkeypatch.setenv("TILEWRIGHT_TARGET", "trn3")
    assert tilewright("run", path).out == "gen4\n"
    assert os.environ["TILEWRIGHT_TARGET"] == "trn3"


DEVIATION = """
import nki, nki.isa as nisa, nki.language as nl, numpy as np
@nki.jit
def k(a):
    s = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=s, src=a)
    p = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.memset(p, value=0)
    for _ in range(3):
        nisa.nc_matmul(p, s, s, accumulate=True)
for _ in range(2):
    k(np.ones((128, 128), np.float32))
print("done")
"""


def test_lenient_lists_each_deviation_once(tilewright: CommandLine, tmp_path: Path):
    path = write(tmp_path, DEVIATION)
    assert tilewright("run", path).codes() == ["E105"]
    result = tilewright("run --profile lenient", path)
    assert result.code == 0 and result.out == "done\n"
    assert result.codes() == ["E105"]
    assert "1 deviation from the documentation that was let pass:" in result.err
    assert "warning[E105, R-nc_matmul-21]" in result.err


def test_profile_from_the_environment(tilewright: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TILEWRIGHT_PROFILE", "lenient")
    assert tilewright("run", write(tmp_path, DEVIATION)).code == 0


def test_json_of_a_run(tilewright: CommandLine, script: Path):
    good = tilewright("run --json", script)
    assert good.json["exit_code"] == 0 and good.json["diagnostics"] == [] and good.err == "sum 4096.0\n"
    assert good.json["kernels"][0]["instructions"] == 3
    bad = tilewright("run --json", script, "300")
    assert bad.code == 1
    (found,) = bad.json["diagnostics"]
    assert found["code"] == "E104" and found["rule"] == "R-tensor-01" and found["severity"] == "error"
    assert found["location"]["file"] == str(script) and found["location"]["line"] == 11


def test_json_of_a_script_error(tilewright: CommandLine, tmp_path: Path):
    result = tilewright("run --json", write(tmp_path, "1 / 0\n"))
    assert result.code == 1 and "ZeroDivisionError" in result.json["error"] and result.json["diagnostics"] == []


@pytest.mark.parametrize("command", ["check --json", "run --json --colour x", "paint --json", "isa --json --target"])
def test_json_of_a_command_line_that_does_not_parse(tilewright: CommandLine, command: str):
    result = tilewright(command)
    (found,) = result.json["diagnostics"]
    assert result.code == result.json["exit_code"] == 2 and found["code"] == "E708" and found["message"]
    assert found["hint"].startswith(("usage: tilewright", "see tilewright")) and not result.err


def test_json_of_wrong_usage(tilewright: CommandLine, tmp_path: Path):
    result = tilewright("run --json", tmp_path / "none.py")
    assert result.code == 2 and result.json["diagnostics"][0]["code"] == "E701"


def test_report_of_a_run(tilewright: CommandLine, script: Path):
    result = tilewright("run --report", script)
    assert "scale on trn2: 3 instructions" in result.err and "dma_copy x2" in result.err


def test_nonfinite_trace(tilewright: CommandLine, tmp_path: Path):
    path = write(
        tmp_path,
        "import nki, nki.isa as nisa, nki.language as nl, numpy as np\n"
        "@nki.jit\n"
        "def k(a):\n"
        "    t = nl.load(a)\n"
        "    nisa.activation(dst=t, op=nl.exp, data=t)\n"
        "k(np.full((4, 4), 1000, np.float32))\n",
    )
    assert tilewright("run", path).codes() == []
    traced = tilewright("run --trace-nonfinite", path)
    assert traced.codes() == ["W301"] and "script.py:5" in traced.err


def test_an_internal_error_is_kept_and_reported(
    tilewright: CommandLine, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    import tempfile

    import tilewright.sim.session as session

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(session, "execute", None)
    result = tilewright("run", script)
    assert result.code == 3
    assert "bug in tilewright" in result.err and "'NoneType' object is not callable" in result.err
    assert "Traceback" not in result.err
    (kept,) = tmp_path.glob("tilewright-internal-error-*.txt")
    assert str(kept) in result.err and "Traceback" in kept.read_text()


def test_an_installed_nki_is_left_alone(
    tilewright: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    request.addfinalizer(deactivate)
    deactivate()
    (tmp_path / "real").mkdir()
    write(tmp_path / "real", "NAME = 'the real one'\n", "nki.py")
    path = write(tmp_path, "import nki\nprint(getattr(nki, 'NAME', 'ours'))\n")
    monkeypatch.syspath_prepend(str(tmp_path / "real"))
    left = tilewright("run", path)
    assert left.out == "the real one\n" and "--simulate" in left.err
    sys.modules.pop("nki", None)
    assert tilewright("run --simulate", path).out == "ours\n"


@pytest.mark.parametrize("code", [None, ""])
def test_a_folder_called_nki_is_no_installed_nki(
    tilewright: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    code: str | None,
):
    """examples/nki or tests/nki of a project, without and with an __init__.py, on the path."""
    request.addfinalizer(deactivate)
    deactivate()
    (tmp_path / "examples" / "nki").mkdir(parents=True)
    if code is not None:
        write(tmp_path / "examples" / "nki", code, "__init__.py")
    path = write(tmp_path, "import nki\nimport nki.isa as nisa\nprint(nisa.nc_matmul.__name__)\n")
    monkeypatch.syspath_prepend(str(tmp_path / "examples"))
    assert tilewright("run", path).out == "nc_matmul\n"


def test_following_ends_with_the_command(tilewright: CommandLine, script: Path):
    tilewright("run", script)
    kernel = tw.simulate(lambda a: None)
    kernel(np.ones((1, 1), np.float32))
    assert kernel.run is not None


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [("tensor_cpy", "E114", "near matches: nisa.tensor_copy")],
)
def test_instructions_that_do_not_exist(tilewright: CommandLine, tmp_path: Path, name: str, code: str, words: str):
    path = write(
        tmp_path,
        "import nki, nki.isa as nisa, numpy as np\n"
        f"assert not hasattr(nisa, '{name}')\n"
        f"nki.jit(lambda a: nisa.{name}(a))(np.ones((2, 4), np.float32))\n",
    )
    result = tilewright("run", path)
    assert result.code == 1 and result.codes() == [code] and words in result.err and "script.py:3" in result.err


def test_a_reader_that_leaves(script: Path):
    command = f"{sys.executable} -m tilewright targets --all | head -n 1"
    ran = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stderr == "" and ran.stdout.count("\n") == 1


def test_options_of_the_script_are_not_ours(tilewright: CommandLine, tmp_path: Path):
    path = write(tmp_path, "import sys\nprint(sys.argv[1:])\n")
    assert tilewright("run", path, "--", "--help", "--json").out == "['--help', '--json']\n"


def test_own_options_are_taken_on_either_side_of_the_script(tilewright: CommandLine, tmp_path: Path):
    """They would get lost behind it; what stands behind -- is the script's."""
    script = tmp_path / "shows.py"
    script.write_text("import sys\nprint(sys.argv[1:])\n")
    for options in ("--target trn9", "--target=trn9"):
        for command in ("run", "check", "profile", "plan"):
            result = tilewright(f"{command} {script} {options}")
            assert result.code == 2 and "unknown target 'trn9'" in result.err, result
    assert "['--report', 'x']" in tilewright(f"run {script} -- --report x").out
    assert "['--mine', '-', '3']" in tilewright(f"run {script} --mine - --target trn1 3").out
    assert tilewright(f"run --mine {script}").code == 2


def test_a_report_asked_for_behind_the_script_is_written(tilewright: CommandLine, script: Path, tmp_path: Path):
    page = tmp_path / "page.html"
    assert tilewright(f"profile {script} 64 --html {page}").code == 0
    assert "<html" in page.read_text()


def test_lines_of_libraries_are_not_the_users(tilewright: CommandLine, script: Path, monkeypatch: pytest.MonkeyPatch):
    """A fault that no line of the script has shows none."""
    for command in ("check --kernel double --shape x=0x5", "profile --html /proc/none/x.html"):
        result = tilewright(command, script)
        assert result.code and "site-packages" not in result.err and "contextlib" not in result.err, result
    monkeypatch.setenv("TILEWRIGHT_PROFILE", "foo")
    result = tilewright("run", script, "64")
    assert "unknown profile 'foo'" in result.err and "contextlib" not in result.err, result


@pytest.mark.parametrize("command", ["run", "check", "profile", "plan", "bisect", "diff raises.py", "compile"])
def test_an_error_of_the_script_is_the_scripts(
    tilewright: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
):
    """Its traceback, without our frames nor those of what called the command; never a bug of ours."""
    monkeypatch.chdir(tmp_path)
    Path("raises.py").write_text("def f():\n    raise ValueError('mine')\n\n\nf()\n")
    result = tilewright(f"{command} raises.py")
    assert result.code == 1 and result.err.startswith("Traceback") and "ValueError: mine" in result.err, result
    assert result.err.count('  File "') == 2 and "click" not in result.err, result


COMPILED = """\
import numpy as np
import tilewright as tw

@tw.jit
def attention(q, k):
    scores = q @ k
    e = np.exp(scores)
    return e / e.sum(axis=-1, keepdims=True)

x = np.full((8, 8), 4, np.float32)
for _ in range(2):
    x = attention(x, x)
"""


def test_compiled_functions_are_kernels_of_a_script(tilewright: CommandLine, tmp_path: Path) -> None:
    script = tmp_path / "compiled.py"
    script.write_text(COMPILED)
    traced = tilewright("run --trace-nonfinite", script)
    assert traced.codes() == ["W301"] and "compiled.py:7" in traced.err and "np.exp(scores)" in traced.err
    assert "1 kernel checked" in tilewright("check", script).out
    ranges = tilewright("check --ranges q=-9..9,k=-9..9", script)
    assert "exp can overflow" in ranges.out + ranges.err and "compiled.py:7" in ranges.out + ranges.err
    assert "no diagnostics" in tilewright("check --ranges q=0..1,k=0..1", script).out
    assert tilewright("check --ranges nothing=0..1", script).codes() == ["E704"]
    found = tilewright("bisect --quiet --calls 30", script, "-o", tmp_path / "found")
    assert "activation turns finite inputs into NaN or infinity" in found.out and "compiled.py:7" in found.out


def test_a_check_of_the_script_that_fails_points_to_bisect(tilewright: CommandLine, script: Path, tmp_path: Path):
    failing = write(tmp_path, script.read_text() + "\nassert len(sys.argv) == 0, 'wrong'\n")
    result = tilewright("run", failing, "64", "a b")
    assert result.code == 1 and "AssertionError: wrong" in result.err
    assert result.err.endswith(f"Which kernel, and what of it: tilewright bisect {failing} 64 'a b'\n")
    # No kernel ran, or something else went wrong: there is nothing to reduce.
    for text in ("assert False", script.read_text() + "\nraise ValueError('odd')"):
        assert "bisect" not in tilewright("run", write(tmp_path, text)).err


def test_leaving_the_debugger_is_no_error_of_ours(tilewright: CommandLine, tmp_path: Path):
    result = tilewright("run", write(tmp_path, "import bdb\nprint('in')\nraise bdb.BdbQuit"))
    assert (result.code, result.out) == (1, "in\n") and "internal error" not in result.err


def test_warnings_of_kernels_in_programs_are_shown(tilewright: CommandLine, tmp_path: Path):
    script = tmp_path / "logs.py"
    script.write_text(
        "import nki, nki.isa as nisa, nki.language as nl, numpy as np\nimport tilewright as tw\n\n@nki.jit\n"
        "def logs(x):\n    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)\n    nisa.dma_copy(dst=t, src=x)\n"
        "    nisa.activation(dst=t, op=nl.log, data=t)\n"
        "    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n    nisa.dma_copy(dst=out, src=t)\n"
        "    return out\n\nx = np.zeros((128, 4), np.float32)\ntw.program(logs, x)(x)\n"
    )
    result = tilewright("run", script)
    assert result.code == 0 and result.codes() == ["E111"] and "logs.py:8" in result.err

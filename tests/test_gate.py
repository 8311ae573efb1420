"""The gate of other people's test runs: what counts as a kernel that ran, and which runs fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import pytest

from tilewright.gate.branches import branches_on_simulation
from tilewright.gate.lines import check_target
from tilewright.gate.marks import check_marks

HOST = '''
"""A library that computes by itself what its kernel is refused for."""
import os
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

@nki.jit
def doubled(x):
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(t, x)
    nisa.tensor_scalar(t, t, nl.multiply, 2.0)
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(y, t)
    if x.shape[0] == 3:
        nisa.tensor_scalar(t, t, nl.multiply, 2.0)
    return y

@nki.jit
def never(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(y, x)
    return y

def use_simulator():
    return os.environ.get("HOST_USE_SIMULATOR") == "1"

def double(x):
    if use_simulator():
        x = np.ascontiguousarray(x)
    try:
        return doubled(x)
    except Exception:
        return 2 * x
'''
RUNS = """
import numpy as np, pytest
from host import double, doubled

def test_runs():
    assert (double(np.ones((4, 8), np.float32)) == 2).all()
"""
FALLS_BACK = """
import numpy as np
from host import double

def test_falls_back():
    assert (double(np.ones((200, 8), np.float32)) == 2).all()  # too many partitions
"""


def gated(folder: Path, test: str, *options: str, **environment: str) -> tuple[int, str]:
    """The exit code of a run with --tilewright, and what it printed."""
    (folder / "host.py").write_text(HOST)
    (folder / "test_it.py").write_text(test)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TILEWRIGHT", "PYTEST"))}
    # Plugins that these runs do not use take as long to import as the run takes.
    unused = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:anyio")
    command = [sys.executable, "-m", "pytest", *unused, "--tilewright", *options]
    ran = subprocess.run(command, cwd=folder, env=clean | environment, capture_output=True, text=True, timeout=120)
    return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.req("S3-34")
@pytest.mark.req("S3-36")
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_kernels_that_ran_are_counted_and_their_lines(tmp_path: Path, workers: tuple[str, ...]) -> None:
    again = "\ndef test_again():\n    assert (doubled(np.ones((4, 8), np.float32)) == 2).all()\n"
    code, printed = gated(tmp_path, RUNS + again, "--tilewright-cov", "lines.lcov", *workers)
    assert code == 0, printed
    assert "tilewright: 2 kernels executed, 0 refused, 0 fell back" in printed
    # All lines of the kernel that ran but one, none of the other.
    assert "host.py     7 of    11    64%  not 17, 22-24" in printed, printed
    found = (tmp_path / "lines.lcov").read_text()
    assert "DA:16,1\n" in found and "DA:17,0\n" in found and "LF:11\nLH:7\n" in found


@pytest.mark.req("S3-36")
@pytest.mark.parametrize("again", [False, True], ids=["plain", "puts itself in place"])
def test_lines_are_seen_where_something_else_traces_too(tmp_path: Path, again: bool) -> None:
    """As coverage.py does: both see every line of a kernel, in the threads that it starts as well."""
    (tmp_path / "conftest.py").write_text(f"""
import sys, threading

class Other:
    lines = set()

    def __call__(self, frame, event, value):
        if event == "call" and {again}:
            sys.settrace(self)
        if event == "line" and frame.f_code.co_name in ("doubled", "apart"):
            self.lines.add((frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno))
        return self

other = Other()

def pytest_runtest_call(item):
    threading.settrace(other)
    sys.settrace(other)

def pytest_unconfigure(config):
    assert sys.gettrace() is other and threading.gettrace() is other
    sys.settrace(None)
    print("the other saw", len(other.lines))
""")
    test = """
import threading, numpy as np
from host import double, doubled, nki, nisa, nl

def apart(y, x):
    nisa.dma_copy(y, x)

@nki.jit
def threaded(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    apart(y, x)
    seen = threading.Thread(target=alone)
    seen.start()
    seen.join()
    return y

def alone():
    return 1

def test_runs():
    x = np.ones((4, 8), np.float32)
    assert (double(x) == 2).all() and (threaded(x) == 1).all()
"""
    code, printed = gated(tmp_path, test)
    assert code == 0, printed
    assert "host.py        7 of    11    64%  not 17, 22-24" in printed, printed
    assert "test_it.py     8 of     8   100%" in printed, printed
    assert "the other saw 8" in printed, printed


def test_tracing_ends_in_long_runs_and_the_summary_says_so(tmp_path: Path) -> None:
    short = "from tilewright.gate.lines import LineTracer\nLineTracer.MOST_CALLS = 1\n"
    (tmp_path / "conftest.py").write_text(short)
    _, printed = gated(tmp_path, RUNS)
    assert "lines of kernels that ran in the first 1 calls of functions (--tilewright-cov FILE: in all)" in printed
    assert "host.py     0 of    11" in printed, printed
    _, printed = gated(tmp_path, RUNS, "--tilewright-cov", "lines.lcov")
    assert "lines of kernels that ran\n" in printed and "host.py     7 of    11" in printed, printed


@pytest.mark.req("S1-21")
@pytest.mark.req("S3-34")
@pytest.mark.req("S3-35")
def test_a_kernel_that_was_refused_fails_the_run(tmp_path: Path) -> None:
    code, printed = gated(tmp_path, FALLS_BACK, "--junit-xml", "out.xml", GITHUB_ACTIONS="true")
    assert code == 1 and "1 passed" in printed, printed
    assert "tilewright: 0 kernels executed, 1 refused, 1 fell back" in printed
    assert "error: 0 of 1 kernels were executed, at least 1 should have been" in printed
    assert "test_it.py::test_falls_back: doubled: R-tensor-01" in printed
    assert "FallbackWarning: the test passed, but something else ran in place of kernel doubled: R-tensor-01" in printed
    assert "::error file=host.py,line=11,title=kernel refused while its test passed::" in printed
    properties = {each.get("name"): each.get("value") for each in xml.parse(tmp_path / "out.xml").iter("property")}
    assert properties["tilewright_executed"] == "0"
    assert json.loads(str(properties["tilewright_refused"]))[0]["code"] == "R-tensor-01"
    code, printed = gated(tmp_path, FALLS_BACK, "--tilewright-gate", "report")
    assert code == 0 and "warning: 1 kernel was refused in 1 test that passed" in printed


@pytest.mark.req("S3-35")
def test_what_is_refused_again_and_again_is_told_once_and_keeps_no_arrays(tmp_path: Path) -> None:
    """As numeric gradients do: an error that is kept keeps the arrays of every function that it went through."""
    test = """
import gc, weakref
import numpy as np
from host import double

def test_tries():
    tried = []
    for _ in range(300):
        x = np.ones((200, 8), np.float32)
        tried.append(weakref.ref(x))
        assert (double(x) == 2).all()
    gc.collect()
    assert sum(each() is not None for each in tried) <= 1
"""
    code, printed = gated(tmp_path, test, "--junit-xml", "out.xml")
    assert code == 1 and "1 passed, 1 warning" in printed, printed
    assert "tilewright: 0 kernels executed, 300 refused, 300 fell back" in printed
    assert "error: 300 kernels were refused in 1 test that passed" in printed
    assert printed.count("test_it.py::test_tries: doubled: R-tensor-01") == 1 and ", 300 times" in printed
    properties = {each.get("name"): each.get("value") for each in xml.parse(tmp_path / "out.xml").iter("property")}
    (told,) = json.loads(str(properties["tilewright_refused"]))
    assert told["times"] == 300


@pytest.mark.req("S3-36")
def test_packages_of_another_environment_are_no_code_of_kernels(tmp_path: Path) -> None:
    """An environment sees packages of others by a .pth file: what they run while a kernel does is none of its lines."""
    package = tmp_path / "lib" / "site-packages" / "elsewhere.py"
    package.parent.mkdir(parents=True)
    package.write_text("def wait():\n    return 0\n")
    test = f"""
import sys
sys.path.append({str(package.parent)!r})
import elsewhere, numpy as np
from host import nki, nl, nisa

@nki.jit
def copied(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    elsewhere.wait()
    nisa.dma_copy(y, x)
    return y

def test_runs():
    copied(np.ones((4, 8), np.float32))
"""
    code, printed = gated(tmp_path, test, TILEWRIGHT_PROFILE="lenient")
    assert code == 0 and "test_it.py" in printed.split("lines of kernels that ran")[1], printed
    assert "elsewhere" not in printed


@pytest.mark.req("S3-35")
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_a_kernel_that_is_refused_outside_of_a_test_fails_the_run(tmp_path: Path, workers: tuple[str, ...]) -> None:
    """While its file is imported, or when a fixture cleans up; in fixtures before the test it is the test's.

    A test that is skipped then has shown nothing, which is a fault too.
    """
    test = (
        RUNS
        + """
WANT = double(np.ones((200, 8), np.float32))

@pytest.fixture
def cleaned():
    yield
    double(np.ones((300, 8), np.float32))

@pytest.fixture
def skips():
    double(np.ones((400, 8), np.float32))
    pytest.skip("no kernel")

def test_before(cleaned):
    pass

def test_skipped(skips):
    pass
"""
    )
    code, printed = gated(tmp_path, test, *workers)
    assert code == 1 and "2 passed, 1 skipped" in printed, printed
    assert "tilewright: 1 kernels executed, 3 refused, 2 fell back" in printed
    assert "error: 1 kernel was refused in 1 test that passed: something else ran" in printed
    assert "error: 1 kernel was refused in imports of files: something else ran" in printed
    assert "  test_it.py::test_before: doubled: R-tensor-01" in printed and "  test_it.py: doubled: R-tensor" in printed
    assert "error: 1 kernel was refused in 1 test that was skipped then: nothing was tested" in printed, printed
    told = printed[printed.index("refused, whereupon the test was skipped") :].splitlines()[1]
    assert "test_it.py::test_skipped: doubled: R-tensor-01" in told and "400" in told


@pytest.mark.req("S3-34")
@pytest.mark.req("S3-35")
def test_kernels_of_forked_processes_count(tmp_path: Path) -> None:
    """Also those whose error a test waits for: it comes from the other process as a copy."""
    test = """
import multiprocessing, numpy as np, pytest
from host import double, doubled

def plainly(x):
    return doubled(x)

def elsewhere(function, rows):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.map(function, [np.ones((rows, 8), np.float32)])[0]

@pytest.mark.parametrize("rows", [4, 200])
def test_forks(rows):
    assert (elsewhere(double, rows) == 2).all()

def test_waits():
    with pytest.raises(Exception, match="200"):
        elsewhere(plainly, 200)
"""
    code, printed = gated(tmp_path, test)
    assert code == 1 and "3 passed" in printed, printed
    assert "tilewright: 1 kernels executed, 2 refused, 1 fell back" in printed, printed
    assert "  test_it.py::test_forks[200]: doubled: R-tensor-01" in printed


@pytest.mark.req("S3-34")
def test_kernels_of_programs_count_when_they_run(tmp_path: Path) -> None:
    """And not when a program is captured, or a kernel profiled, on arrays that are only described."""
    test = """
import numpy as np, pytest, tilewright as tw
from host import doubled

X = np.ones((4, 8), np.float32)
PROGRAM = tw.program(lambda x: doubled(doubled(x)) + 1, X)

def test_runs():
    assert (PROGRAM(X) == 5).all()

@pytest.mark.tilewright(max_us=1000)
def test_only_described():
    tw.program(lambda x: doubled(x[:2]), X)

def test_profiles():
    tw.kernels.swiglu.profile(X, X)
"""
    code, printed = gated(tmp_path, test, "--junit-xml", "out.xml")
    assert code == 0 and "tilewright: 3 kernels executed, 0 refused, 0 fell back" in printed, printed
    assert "rows.py" not in printed, "kernels of the library are not the user's"
    for case in xml.parse(tmp_path / "out.xml").iter("testcase"):
        ran = {each.get("name"): each.get("value") for each in case.iter("property")}["tilewright_executed"]
        assert ran == ("3" if case.get("name") == "test_runs" else "0")


def test_a_test_that_skips_where_its_kernel_is_refused_fails_the_run(tmp_path: Path) -> None:
    """A mark says that it may; an expected failure is no skip."""
    test = """
import numpy as np, pytest
from host import doubled

def attempt(otherwise):
    try:
        doubled(np.ones((200, 8), np.float32))
    except Exception:
        otherwise("no kernels here")

def test_skips():
    attempt(pytest.skip)

@pytest.mark.tilewright(refused=True)
def test_may_skip():
    attempt(pytest.skip)

def test_expected():
    attempt(pytest.xfail)
"""
    code, printed = gated(tmp_path, test, GITHUB_ACTIONS="true")
    assert code == 1 and "2 skipped, 1 xfailed" in printed, printed
    assert "error: 1 kernel was refused in 1 test that was skipped then: nothing was tested" in printed
    assert "title=kernel refused and its test skipped::test_it.py::test_skips: " in printed


def test_objects_that_answer_for_their_class_by_code_are_left_alone(tmp_path: Path) -> None:
    """torch has such an object, which warns; where warnings are errors the run ended in one."""
    test = (
        RUNS
        + """
class Proxy:
    @property
    def __class__(self):
        raise FutureWarning("deprecated")

KEPT = [Proxy()]
"""
    )
    code, printed = gated(tmp_path, test)
    assert code == 0 and "tilewright: 1 kernels executed" in printed, printed


@pytest.mark.req("S3-37")
def test_errors_that_a_test_waits_for_are_no_fallback(tmp_path: Path) -> None:
    test = (
        RUNS
        + """
import unittest
WRONG = np.ones((200, 8), np.float32)

def test_refused():
    with pytest.raises(Exception, match="partition"):
        doubled(WRONG)

def test_wrapped():
    with pytest.raises(RuntimeError):
        try:
            doubled(WRONG)
        except Exception as error:
            raise RuntimeError from error

@pytest.mark.tilewright(refused=True)
def test_knows():
    double(WRONG)

class Old(unittest.TestCase):
    def test_refused(self):
        with self.assertRaises(Exception):
            doubled(WRONG)

@pytest.mark.xfail(reason="not written for so many rows")
def test_fails():
    doubled(WRONG)

@pytest.mark.xfail(reason="mended long ago")
def test_passes():
    doubled(np.ones((4, 8), np.float32))
"""
    )
    code, printed = gated(tmp_path, test)
    assert code == 0, printed
    assert "tilewright: 2 kernels executed, 5 refused, 0 fell back" in printed
    assert "test_it.py::test_fails: not written for so many rows" in printed
    after = printed[printed.index("PASSED although failure was expected") :]
    assert "test_it.py::test_passes: mended long ago" in after


@pytest.mark.req("S3-34")
def test_a_run_in_which_no_kernel_ran_fails(tmp_path: Path) -> None:
    empty = "def test_nothing():\n    assert 2 > 1\n"
    code, printed = gated(tmp_path, empty)
    assert code == 1 and "0 of 0 kernels were executed, at least 1 should have been" in printed
    code, printed = gated(tmp_path, empty, "--tilewright-min-kernels", "0")
    assert code == 0 and "tilewright: 0 kernels executed" in printed
    code, printed = gated(tmp_path, RUNS, "--tilewright-min-kernels", "2")
    assert code == 1 and "1 of 1 kernels were executed, at least 2 should have been" in printed
    skipped = "import pytest\n\ndef test_skips():\n    pytest.skip('no device')\n"
    code, printed = gated(tmp_path, skipped)
    assert code == 0, printed
    # A number that somebody asks for holds whatever the tests do: all may be skipped, or none be there.
    for options in ((), ("-k", "nothing")):
        code, printed = gated(tmp_path, skipped, "--tilewright-min-kernels", "1", *options)
        assert code == 1 and "0 of 0 kernels were executed, at least 1 should have been" in printed, printed
    code, printed = gated(tmp_path, RUNS, "--tilewright-min-kernels", "2", "--collect-only")
    assert code == 0, printed


@pytest.mark.req("N3-2")
def test_host_code_that_asks_for_the_simulator_is_told(tmp_path: Path) -> None:
    code, printed = gated(tmp_path, RUNS)
    assert code == 0 and "host.py:30: if use_simulator():" in printed


@pytest.mark.req("N3-2")
def test_which_conditions_name_the_simulator(tmp_path: Path) -> None:
    file = tmp_path / "host.py"
    file.write_text(
        "import os\nfast = os.environ.get('X_SIMULATOR', '0') != '0'\n"
        "if fast:\n    pass\nif os.path.exists('simple'):\n    pass\n"
        "def pad(x):\n    return 128 if fast else x\nsize = 3 if nki.is_simulated() else 4\n"
    )
    assert [branch.line for branch in branches_on_simulation([str(file), str(tmp_path / "none.py")])] == [3, 8, 9]
    file.write_text(
        "import os\nclass Host:\n    fast: bool = 'SIMULATE' in os.environ\n    def set(self, mode):\n"
        "        self.padded = mode == 'simulator'\n        if self.padded or self.fast:\n            pass\n"
        "        match mode:\n            case 'simulator':\n                pass\n            case 'device':\n"
        "                pass\n        return [x for x in range(3) if self.fast]\n"
        "def cheap():\n    if os.environ.get('SIMULATED'):\n        return True\n    return False\n"
        "def other():\n    if cheap():\n        return 3\n    return 4\nif other():\n    pass\n"
        "def told():\n    print('ready')\nif told() is None:\n    pass\n"
    )
    user = tmp_path / "user.py"
    user.write_text("from host import cheap as quick\nsize = 3 if quick() else 4\nif cheap:\n    pass\n")
    found = [(Path(branch.file).name, branch.line) for branch in branches_on_simulation([str(file), str(user)])]
    assert found == [("host.py", line) for line in (6, 9, 13, 15, 19)] + [("user.py", 2)]


def test_budgets_and_a_baseline(tmp_path: Path) -> None:
    marked = RUNS.replace("def test_runs", "@pytest.mark.tilewright(max_us={us}, max_sbuf={sbuf})\ndef test_runs")
    code, printed = gated(tmp_path, marked.format(us=1e6, sbuf=1 << 16))
    assert code == 0, printed
    code, printed = gated(tmp_path, marked.format(us=0.001, sbuf=1))
    assert code == 1 and "doubled is predicted to take" in printed and "its budget is 0.0 us" in printed
    assert "doubled takes 32 bytes of SBUF per partition, its budget is 1" in printed
    code, printed = gated(tmp_path, RUNS, "--tilewright-baseline", "times.json")
    assert code == 0
    baseline = json.loads((tmp_path / "times.json").read_text())
    ((name, taken),) = baseline["test_it.py::test_runs"].items()
    assert name == "doubled" and taken["us"] > 1 and taken["sbuf"] == 32 and taken["target"] == "trn2"
    # Figures of one target say nothing about another.
    code, printed = gated(tmp_path, RUNS, "--tilewright-baseline", "times.json", TILEWRIGHT_TARGET="trn1")
    assert code == 0 and "  test_it.py::test_runs doubled (trn1)\n" in printed, printed
    code, printed = gated(tmp_path, RUNS, "--tilewright-baseline", "times.json")
    assert code == 0, printed
    taken["us"] /= 2
    (tmp_path / "times.json").write_text(json.dumps(baseline))
    code, printed = gated(tmp_path, RUNS, "--tilewright-baseline", "times.json")
    assert code == 1 and "test_it.py::test_runs doubled: " in printed and " -> " in printed
    assert "error: 1 kernel takes more than the baseline" in printed
    (tmp_path / "times.json").write_text("[]")
    code, printed = gated(tmp_path, RUNS, "--tilewright-baseline", "times.json")
    assert code != 0 and "is no baseline of tilewright" in printed and "Traceback" not in printed


def test_a_baseline_grows_and_keeps_what_did_not_run(tmp_path: Path) -> None:
    more = "\ndef test_again():\n    doubled(np.ones((4, 8), np.float32))\n"
    before = {"test_it.py::test_runs": {"doubled": {"us": 1.0, "sbuf": 32}}}
    (tmp_path / "times.json").write_text(json.dumps(before))
    code, printed = gated(tmp_path, RUNS + more, "--tilewright-baseline", "times.json", GITHUB_ACTIONS="true")
    assert code == 1 and "not in the baseline (--tilewright-update-baseline takes them in)\n" in printed, printed
    assert "  test_it.py::test_again doubled (trn2)\n" in printed
    assert "::error file=test_it.py,title=kernel takes more than the baseline::test_it.py::test_runs doubled" in printed
    update = "--tilewright-baseline", "times.json", "--tilewright-update-baseline", "-k", "again"
    code, printed = gated(tmp_path, RUNS + more, *update)
    assert code == 0 and "times.json has the figures of 1 tests anew" in printed, printed
    kept = json.loads((tmp_path / "times.json").read_text())
    assert kept["test_it.py::test_again"]["doubled"]["us"] > 1
    assert kept["test_it.py::test_runs"]["doubled"] == {"us": 1.0, "sbuf": 32, "target": ""}


class Item:
    """A test with a mark, as far as its checks look at it."""

    nodeid = "test_it.py::test_it"

    def __init__(self, mark: pytest.MarkDecorator) -> None:
        self.mark = mark.mark

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [self.mark] if self.mark.name == name else []


def test_marks_that_mean_nothing_are_usage_errors(tmp_path: Path) -> None:
    code, printed = gated(tmp_path, RUNS.replace("def test_runs", "@pytest.mark.tilewright(max_uss=3)\ndef test_runs"))
    assert code == 4 and "has max_uss; it takes max_us, max_sbuf, refused by name" in printed, printed
    assert "Traceback" not in printed
    mark: Any = pytest.mark.tilewright
    for wrong, told in ((mark(40), "has 40; it takes"), (mark(max_us="3"), "max_us='3'[)] is no number")):
        with pytest.raises(pytest.UsageError, match=told):
            check_marks([Item(wrong)])  # type: ignore[list-item]
    check_marks([Item(mark(max_us=3, max_sbuf=2, refused=True))])  # type: ignore[list-item]


def test_a_budget_that_holds_for_no_kernel_fails(tmp_path: Path) -> None:
    test = "import pytest\n@pytest.mark.tilewright(max_us=40)\ndef test_nothing():\n    pass\n"
    code, printed = gated(tmp_path, RUNS + test)
    assert code == 1 and "no kernel ran, so that nothing was held to the budget of the test" in printed
    assert "hidden" not in printed and "1 failed, 1 passed" in printed, printed


def test_where_warnings_are_errors_a_fallback_fails_its_test(tmp_path: Path) -> None:
    code, printed = gated(tmp_path, FALLS_BACK, "-W", "error")
    assert code == 1 and "1 failed" in printed and "INTERNALERROR" not in printed, printed
    assert "FallbackWarning: the test passed, but something else ran in place of kernel doubled: R-tensor-01" in printed


def test_options_that_mean_nothing(tmp_path: Path) -> None:
    """Usage errors before the first test, or warnings where another way to start the run gives them a meaning."""
    for bad in ("-1", "many", ""):
        code, printed = gated(tmp_path, RUNS, f"--tilewright-min-kernels={bad}")
        assert code == 4 and f"{bad} is no number of kernels" in printed, printed
    code, printed = gated(tmp_path, RUNS, "--tilewright-update-baseline")
    assert code == 4 and "say which file, with --tilewright-baseline FILE" in printed, printed
    (tmp_path / "times.json").write_text("times")
    code, printed = gated(tmp_path, RUNS, "--tilewright-baseline", "times.json")
    assert code == 4 and "times.json is no baseline of tilewright" in printed and "collected" not in printed, printed


def test_options_of_a_gate_that_is_off_are_warned_of(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_host():\n    pass\n")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TILEWRIGHT", "PYTEST"))}
    options = ("--tilewright-min-kernels", "5", "--tilewright-promotion", "device", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", *options]
    ran = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0 and "1 passed, 2 warnings" in ran.stdout, ran.stdout
    assert "--tilewright-min-kernels: nothing is counted without --tilewright" in ran.stdout
    assert "--tilewright-promotion: nothing is compiled without --tilewright-compile" in ran.stdout


def test_files_that_could_not_be_written_are_told_before_the_first_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, printed = gated(tmp_path, RUNS, "--tilewright-baseline", "nowhere/times.json")
    assert code == 4 and "nowhere/times.json: there is no folder nowhere" in printed, printed
    monkeypatch.setattr("tilewright.gate.lines.find_spec", lambda name: None)
    with pytest.raises(pytest.UsageError, match="pip install coverage"):
        check_target(tmp_path / "lines", is_lines=True)
    check_target(tmp_path / "lines.lcov", is_lines=True)


def test_compiled_functions_count_too(tmp_path: Path) -> None:
    test = """
import numpy as np, pytest, tilewright as tw

def test_compiled():
    x = np.ones((4, 8), np.float32)
    assert (tw.compile(lambda x: x + 1, x)(x) == 2).all()

def test_refused():
    def strange(x):
        return np.linalg.eigvals(x)
    x = np.eye(4, dtype=np.float32)
    try:
        tw.compile(strange, x)(x)
    except NotImplementedError:
        strange(x)
"""
    code, printed = gated(tmp_path, test)
    assert code == 1, printed
    assert "tilewright: 1 kernels executed, 1 refused, 1 fell back" in printed
    assert "test_it.py::test_refused: strange: E" in printed


@pytest.mark.req("S3-42")
def test_the_workflow_lints_tests_on_three_pythons_and_runs_kernels(tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    text = (root / ".github" / "workflows" / "test.yml").read_text()
    assert "make lint" in text and 'python: ["3.10", "3.11", "3.12"]' in text
    (command,) = [line.split("run: ")[1].split() for line in text.splitlines() if "run: pytest" in line]
    # The job as the service runs it, with its files elsewhere.
    written = [str(tmp_path / each) if each.startswith("kernels.") else each for each in command[1:]]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TILEWRIGHT", "PYTEST"))}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *written],
        cwd=root,
        env=clean,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "tilewright: 3 kernels executed, 1 refused, 0 fell back" in ran.stdout
    assert "examples/gate/test_scaled.py     6 of     6   100%" in ran.stdout
    assert (tmp_path / "kernels.lcov").exists() and (tmp_path / "kernels.xml").exists()

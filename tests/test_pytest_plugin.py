"""The pytest plugin: `import nki` in other people's tests, when asked for and not otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

from tilewright.pytest_plugin import leave_assertions

CONFTEST = "import nki.isa\nimport neuron_dtypes\n"
TEST = """
import nki
import nki.language as nl
import numpy as np

@nki.jit
def doubled(x):
    t = nl.load(x)
    y = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    nl.store(y, nl.add(t, t))
    return y

def test_kernel():
    x = np.ones((4, 4), np.float32)
    assert (doubled(x) == 2).all()
    assert "tilewright" in nki.__file__
"""


def run_tests(folder: Path, *options: str, activate: str | None = None, ini: str = "") -> tuple[int, str]:
    """Run the tests of somebody else's folder; returns the exit code and what was printed."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(TEST)
    (folder / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TILEWRIGHT", "PYTEST"))}
    if activate is not None:
        environment["TILEWRIGHT_ACTIVATE"] = activate
    # Plugins that these runs do not use take as long to import as the run takes.
    unused = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:anyio")
    command = [sys.executable, "-m", "pytest", *unused, *options]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    return ran.returncode, ran.stdout + ran.stderr


def test_the_plugin_is_installed() -> None:
    (found,) = entry_points(group="pytest11", name="tilewright")
    assert found.value == "tilewright.pytest_plugin"


@pytest.mark.parametrize(
    ("options", "activate", "ini"),
    [
        (["--tilewright", "-n", "1"], None, ""),
        (["-p", "tilewright"], None, ""),
        ([], "1", ""),
        ([], None, "tilewright = true"),
    ],
    ids=["flag", "plugin", "variable", "setting"],
)
def test_asking(tmp_path: Path, options: list[str], activate: str | None, ini: str) -> None:
    code, printed = run_tests(tmp_path, *options, activate=activate, ini=ini)
    assert code == 0 and "1 passed" in printed, printed
    assert "tilewright: nki is simulated" in printed


def test_not_asking(tmp_path: Path) -> None:
    code, printed = run_tests(tmp_path, activate="0", ini="tilewright = false")
    assert code != 0 and "No module named 'nki'" in printed
    assert "nki is simulated" not in printed


def test_an_installed_nki_is_left_alone_unless_forced(tmp_path: Path) -> None:
    own = tmp_path / "nki"
    own.mkdir()
    (own / "__init__.py").write_text("raise RuntimeError('the installed nki')\n")
    (own / "language.py").touch()
    (tmp_path / "pytest.ini").touch()
    code, printed = run_tests(tmp_path, "--tilewright", ini="pythonpath = .")
    assert code != 0 and "the installed nki" in printed
    code, printed = run_tests(tmp_path, activate="force", ini="pythonpath = .")
    assert code == 0, printed


def test_a_setting_that_means_nothing(tmp_path: Path) -> None:
    code, printed = run_tests(tmp_path, activate="perhaps")
    assert code != 0 and "TILEWRIGHT_ACTIVATE='perhaps' is not one of true, false and force" in printed
    assert "Traceback" not in printed


FAILING = """
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

@nki.jit
def wrong(x, fails=False):
    t = nl.ndarray((128, 16), x.dtype, nl.sbuf)
    if fails:
        raise ValueError("own")
    nisa.tensor_copy(t, x)  # here
    return x

def test_refused():
    wrong(np.ones((128, 16), np.float32))

def test_own():
    wrong(np.ones((128, 16), np.float32), True)
"""


def test_failures_show_the_line_of_the_kernel(tmp_path: Path) -> None:
    """Nothing of this package stands between a test and the kernel's line."""
    (tmp_path / "test_wrong.py").write_text(FAILING)
    code, printed = run_tests(tmp_path, "--tilewright", "test_wrong.py")
    assert code == 1 and ">       nisa.tensor_copy(t, x)  # here" in printed and "ValueError: own" in printed
    assert "src/tilewright" not in printed and "tilewright/nki/" not in printed
    assert "test_wrong.py:12: " in printed


def test_assertions_of_the_package_are_left_as_they_are(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch):
    """pytest marks every package that brings a plugin: what ours has is no test."""
    hook = AssertionRewritingHook(pytestconfig)
    hook.mark_rewrite("tilewright", "other")
    monkeypatch.setattr(sys, "meta_path", [hook])
    leave_assertions()
    assert hook._must_rewrite == {"other"}  # pyright: ignore[reportPrivateUsage]

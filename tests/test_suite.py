"""Suites of NumPy kernels through the compiler: one option, expected failures with reasons, types as on devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw

UTILS = """
import numpy as np
from nkipy.core import compile
from nkipy.core.trace import NKIPyKernel
from nkipy.runtime import is_neuron_compatible
from nkipy.runtime.execute import baremetal_run_traced_kernel

def on_device(function, mode, *args):
    assert is_neuron_compatible()
    return baremetal_run_traced_kernel(NKIPyKernel.trace(function, backend=mode), *args, artifacts_dir="here")
"""
TESTS = """
import numpy as np
import pytest
from nkipy.core import tensor_apis
from utils import on_device

A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)

@pytest.mark.parametrize("op", [np.add, np.multiply, np.maximum])
def test_op(op):
    np.testing.assert_allclose(on_device(lambda a, b: op(a, b), "hlo", A, B), op(A, B))

def test_wide_arguments():
    with pytest.warns(UserWarning, match="float64"):
        assert on_device(lambda a: a + 1, "hlo", A.astype(np.float64)).dtype == np.float32

def test_creation():
    np.testing.assert_allclose(on_device(lambda a: a + tensor_apis.zeros((2, 3), dtype=a.dtype), "hlo", A), A)

def test_topk():
    values, places = on_device(lambda a: tensor_apis.topk(a, k=2, axis=-1, is_ascend=True), "hlo", A)
    assert (values == A[:, :2]).all() and (places == [[0, 1], [0, 1]]).all()
    assert (on_device(lambda a: tensor_apis.topk(a, 1)[0], "hlo", A) == A[1:]).all()

def test_not_there_yet():
    on_device(lambda a: np.linalg.eig(a[:, :2])[0], "hlo", A)

def test_wrong():
    assert on_device(lambda a: a + 1, "hlo", A)[0, 0] == 7

def test_not_of_the_compiler():
    raise NotImplementedError("the test's own")

def test_fixture(tilewright_backend):
    assert (tilewright_backend(lambda a, b: a - b, A, B) == A - B).all()
"""
PLAIN = """
import numpy as np

def test_fixture(tilewright_backend):
    assert type(tilewright_backend(lambda a: a + 1, np.ones(3))[0]) is np.float64
"""


def suite(folder: Path, test: str, *options: str) -> str:
    (folder / "utils.py").write_text(UTILS)
    (folder / "test_it.py").write_text(test)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TILEWRIGHT", "PYTEST"))}
    # Plugins that these runs do not use take as long to import as the run takes.
    unused = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:anyio")
    command = [sys.executable, "-m", "pytest", *unused, "-rxf", *options]
    return subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, timeout=120).stdout


@pytest.mark.req("S4-94")
@pytest.mark.req("S4-96")
def test_a_suite_for_nkipy_runs_as_it_is(tmp_path: Path) -> None:
    printed = suite(tmp_path, TESTS, "--tilewright-compile")
    assert "2 failed, 7 passed, 1 xfailed" in printed, printed
    assert "FAILED test_it.py::test_wrong" in printed and "FAILED test_it.py::test_not_of_the_compiler" in printed
    assert "XFAIL test_it.py::test_not_there_yet - E803: np.linalg.eig is not supported" in printed
    assert "    1 E803: np.linalg.eig is not supported" in printed
    assert "tilewright: 9 kernels executed" in printed


@pytest.mark.req("S4-94")
def test_without_the_option_functions_are_numpys(tmp_path: Path) -> None:
    assert "1 passed" in suite(tmp_path, PLAIN)
    assert "No module named 'nkipy'" in suite(tmp_path, TESTS)


def mixed(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    return a + b, np.sqrt(a), np.where(b > 0, a, b), a / a, np.concatenate([a, b]), a + a, a * 0.5


def test_types_as_numpy_has_them_or_as_devices_do() -> None:
    a, b = np.arange(1, 9, dtype=np.int32), np.linspace(-1, 1, 8, dtype=np.float32)
    wanted = mixed(a, b)
    assert [each.dtype for each in tw.compile(mixed, a, b)(a, b)] == [each.dtype for each in wanted]
    made = tw.compile(mixed, a, b, promotion="device")(a, b)
    assert [each.dtype.name for each in made] == ["float32"] * 5 + ["int32", "float32"]
    assert tw.jit(mixed, promotion="device")(a, b)[0].dtype == np.float32
    for mine, theirs in zip(made, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)
    with pytest.raises(tw.TileError) as caught:
        tw.compile(mixed, a, b, promotion="torch")
    assert caught.value.diagnostic.code == "E108"

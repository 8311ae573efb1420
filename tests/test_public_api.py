"""The public names: they exist, work together, and what is slow to import waits until it is asked for."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import tilewright as tw
from tests.kit import nisa, nl, np


def double(a):
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_every_public_name_exists() -> None:
    assert all(getattr(tw, name) is not None for name in tw.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        tw.nonsense  # noqa: B018


@pytest.mark.parametrize("shape", [(-1, 3), (2.0, 2), ("128", 4), -5])
def test_shapes_that_no_array_has(shape: Any) -> None:
    with pytest.raises(ValueError) as caught:
        tw.spec(shape, "float32")
    assert isinstance(caught.value, tw.TileError) and caught.value.diagnostic.rule == "R-tensor-04"


def test_kernels_refuse_what_only_numpy_programs_take() -> None:
    for shape, dtype, code in ((0, 4), "float32", "E103"), ((4, 4), "int64", "E602"), ((4, 4), np.float64, "E602"):
        assert [found.code for found in tw.verify(double, tw.spec(shape, dtype))] == [code]


@pytest.mark.parametrize("shape", [(2, 3), [2, np.int64(3)], (np.prod((2, 1)), 3)])
def test_shapes_of_any_whole_numbers(shape: Any) -> None:
    sizes = tw.spec(shape, np.float32).shape
    assert sizes == (2, 3) and all(type(size) is int for size in sizes)


def test_unknown_targets_and_profiles_are_refused_before_the_call() -> None:
    for target, profile, code in ("trn9", None, "E601"), (None, "loose", "E605"):
        with pytest.raises(tw.TileError) as caught:
            tw.simulate(double, target, profile)
        assert caught.value.diagnostic.code == code


def test_ir_text_of_a_kernel_reads_back() -> None:
    kernel = tw.simulate(double, target="trn2")
    kernel(np.ones((4, 8), np.float32))
    assert kernel.run is not None
    text = str(kernel.run.session.graph)
    assert str(tw.parse(text)) == text
    with pytest.raises(tw.TileError) as caught:
        tw.parse(text.replace("dma_copy", "dma_cpy", 1), file="double.ir")
    assert str(caught.value.diagnostic.location).startswith("double.ir:")


def printed(code: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_modules_keep_their_names_apart() -> None:
    """tw.activate and tw.spec are functions, whichever of their modules was imported before."""
    code = "import tilewright.activate, tilewright.spec, tilewright as tw; print(callable(tw.activate and tw.spec))"
    assert printed(code) == "True"


def test_importing_the_package_does_not_import_the_simulator() -> None:
    code = "import sys, tilewright; print([m for m in sys.modules if m.startswith('tilewright.sim')])"
    assert printed(code) == "[]"


def test_compiled_functions_are_kernels_too() -> None:
    kernel = tw.compile(lambda x: np.tanh(x) @ x, tw.spec((64, 64), "float32"), target="trn1")
    x = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
    assert tw.verify(kernel) == tw.verify(kernel.tile_ir, target="trn1") == []
    assert tw.profile(kernel).latency_us == kernel.report.latency_us
    np.testing.assert_array_equal(tw.simulate(kernel)(x), kernel(x))
    for asked in (tw.verify, tw.profile, tw.simulate):
        with pytest.raises(tw.TileError, match="compiled for trn1"):
            asked(kernel, target="trn2")

"""Products of float32 by precision: against float64, and what the report says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import TARGETS, floats
from tilewright.tile.verify import verify_graph

# How far a product may be from the exact one, in units of the sum of the absolute products.
BOUNDS = {"float32": 2.0**-19, "bf16x3": 2.0**-15, "bf16": 2.0**-7}


def product(x: Any, y: Any) -> Any:
    return x @ y


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("shapes", [((130, 200), (200, 70)), ((2, 40, 300), (2, 300, 30)), ((3, 5), (5, 1))], ids=str)
def test_products_are_as_exact_as_asked(target: str, precision: str, shapes: tuple):
    x, y = floats(*shapes[0]), floats(*shapes[1], seed=1)
    x[..., 0] *= 1000
    kernel = tw.compile(product, x, y, target=target, precision=precision)
    assert verify_graph(kernel.tile_ir, kernel.target) == []
    exact = x.astype(np.float64) @ y.astype(np.float64)
    scale = np.abs(x).astype(np.float64) @ np.abs(y).astype(np.float64)
    error = float((np.abs(kernel(x, y) - exact) / scale).max())
    assert error <= BOUNDS[precision]
    if precision != "float32":
        exactness = list(BOUNDS)
        assert error > BOUNDS[exactness[exactness.index(precision) - 1]] / 64, "it does what it says"


def test_the_report_says_so():
    x = tw.spec((64, 64), "float32")
    assert not any(note.startswith("precision") for note in tw.compile(product, x, x).report.warnings)
    for precision in ("bf16", "bf16x3"):
        notes = tw.compile(lambda x, y: (x @ y) @ y, x, x, precision=precision).report.warnings
        assert notes[0].startswith(f"precision {precision}, 2 products of float32: ")


def test_less_precise_products_are_faster():
    x = tw.spec((512, 512), "float32")
    times = [tw.compile(product, x, x, precision=name).report.engine_busy_us["tensor"] for name in BOUNDS]
    assert times == sorted(times, reverse=True)


def test_other_products_are_left_alone():
    for dtype in ("bfloat16", "float16", "int32"):
        x = tw.spec((64, 64), dtype)
        assert str(tw.compile(product, x, x, precision="bf16").tile_ir) == str(tw.compile(product, x, x).tile_ir)
    wide = tw.compile(lambda x: np.exp(x).sum(axis=0), tw.spec((64, 64), "float32"), precision="bf16")
    assert not any(note.startswith("precision") for note in wide.report.warnings)


def test_functions_that_compile_themselves():
    doubled = tw.jit(product, precision="bf16", nki="0.4")
    x = floats(64, 64)
    kernel = doubled.compiled(x, x)
    assert kernel.options.precision == "bf16" and "for NKI 0.4" in kernel.source


@pytest.mark.parametrize("options", [{"precision": "half"}, {"nki": "0.1"}])
def test_unknown_names(options: dict[str, Any]):
    with pytest.raises(tw.TileError) as caught:
        tw.compile(product, floats(4, 4), floats(4, 4), **options)
    assert caught.value.diagnostic.code in ("E606", "E503") and "choose one of" in (caught.value.diagnostic.hint or "")
    with pytest.raises(tw.TileError):
        tw.jit(product, **options)

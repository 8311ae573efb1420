"""Integers that float32 holds are computed with as floats, and nobody can tell."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check
from tilewright.ir.walk import walk
from tilewright.lower.decisions import noted
from tilewright.tensor.ranges import EXACT

EDGES = np.array(
    [0, 1, -1, 5, EXACT - 1, EXACT, EXACT + 1, 1 - EXACT, -EXACT, -1 - EXACT, 2**31 - 1, -(2**31), 2**30 + 1, 7, 3, 2],
    np.int32,
)
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


@pytest.mark.parametrize("compare", COMPARISONS, ids=lambda f: f.__name__)
def test_comparisons_with_small_numbers(compare: Callable[[Any, Any], Any]):
    """Any 32-bit integer beside numbers below 2 ** 24, and beside others, where floats would not do."""
    places = np.arange(8, dtype=np.int32)

    def function(x: Any, y: Any) -> Any:
        mask = compare(x[:, None], places)
        bounds = [compare(x, n) for n in (EXACT - 1, EXACT, EXACT + 1, 1 - EXACT)]
        return mask, compare(places, x[:, None]).astype(np.float32), *bounds, compare(x, y)

    check(function, EDGES, EDGES[::-1].copy(), targets=("trn2",))
    small = np.arange(-8, 8, dtype=np.int8)
    check(lambda a, b: (compare(a, b), compare(a > 0, b > 0)), small, small[::-1].copy(), targets=("trn2",))


def test_sums_and_extremes():
    """Counts, sums and extremes of small integers; those of large ones stay what they are."""
    rng = np.random.default_rng(0)
    x = rng.integers(-100, 100, (130, 50)).astype(np.int8)
    large = rng.integers(-(2**31), 2**31, (130, 50)).astype(np.int32)

    def function(x: Any, large: Any) -> Any:
        counts = (x > 3).sum(axis=1), (x == 0).sum(axis=0), np.count_nonzero(x < 0)
        sums = x.sum(axis=1, dtype=np.int32), x.astype(np.int32).sum(axis=0), large.max(axis=1), large.min(axis=0)
        return *counts, *sums, x.max(axis=1), x.min(axis=0), (x > 0).mean(axis=1, dtype=np.float32)

    check(function, x, large, tolerance=1e-6)


def test_arithmetic_wraps_as_before():
    """Sums of small types leave them; floats of what does not are sums of floats."""
    x = np.array([[127, -128, 100, -100, 5, 0]] * 4, np.int8)
    y = np.array([[1, -1, 100, -100, 7, -128]] * 4, np.int8)

    def function(x: Any, y: Any) -> Any:
        wide = x.astype(np.int32) * y + 3
        chosen = np.where(x > y, x, y).astype(np.float32)
        return (x + y).astype(np.float32), (x - y) > 0, wide.astype(np.float32), wide > 100, chosen, -x

    check(function, x, y)
    unsigned = x.view(np.uint8)
    check(lambda a, b: ((a - b).astype(np.float32), (a - b) > 3, a + b), unsigned, y.view(np.uint8))


def test_masks_of_places():
    """Differences of places, compared: masks without a load."""

    def function(x: Any) -> Any:
        i, j = np.arange(130)[:, None], np.arange(70)[None, :]
        near = np.abs(i - j) < 5
        return np.where(near, x, 0), x * ((i - j) % 3 == 0), ((i >= j) & (j > 3)).astype(np.float32) + x

    check(function, np.random.default_rng(0).standard_normal((130, 70)).astype(np.float32))


def test_marks_are_one_instruction():
    """A mark per row is written in its type by one instruction: no integers on the way."""

    def marks(y: Any, x: Any) -> Any:
        return x * (np.arange(x.shape[1])[None, :] == y[:, None]).astype(np.float32)

    x = np.ones((256, 512), np.float32)
    k = tw.compile(marks, np.zeros(256, np.int32), x, target="trn2")
    wide = [op for op in walk(k.tile_ir) if op.name.startswith("tensor") and op.operands[0].free > 1]
    assert wide and all(op.operands[0].dtype == "float32" for op in wide)
    assert not any(op.name == "tensor_copy" for op in wide)


def test_ops_of_several_results():
    """Places of sorted numbers, as floats."""
    x = np.random.default_rng(0).integers(-9, 9, (4, 30)).astype(np.int16)
    check(lambda x: (np.argsort(x, axis=1, kind="stable").astype(np.float32), np.sort(x, axis=1) > 2), x)


def as_pixels(x: Any) -> Any:
    return np.clip(x, 0, 255).astype(np.uint8), np.minimum(np.abs(x), np.float32(4194304)).astype(np.int32)


def test_small_floats_are_made_integers() -> None:
    whole = np.arange(300, dtype=np.float32)
    near = [np.nextafter(whole, np.float32(end)) for end in (-1e9, 1e9)]
    x = np.concatenate([whole, whole + 0.5, *near, whole / 7, 4194304 - whole / 4, [-0.0, 1e-40, -3.5, np.inf]])
    check(as_pixels, x.astype(np.float32), tolerance=0)
    with noted() as taken:
        check(as_pixels, x.astype(np.float32), targets=("trn2",), tolerance=0)
    assert "rule: truncate_small" in taken
    assert "select: truncated" not in taken


def test_running_sums_that_stay_small_are_those_of_floats() -> None:
    def places(x: Any, y: Any, z: Any) -> Any:
        changes = (x[1:] != x[:-1]).cumsum()
        around = np.cumsum(z.astype(np.int16), dtype=np.int16)
        return changes, np.cumsum(y.astype(np.int32), axis=0), np.cumsum(y[0], dtype=np.int8), around

    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 99, 5000).astype(np.int32), rng.integers(-128, 128, (60, 70)).astype(np.int8)
    z = rng.integers(0, 256, 5000).astype(np.uint8)
    assert z.sum() > np.iinfo(np.int16).max, "the last one wraps around"
    with noted() as taken:
        check(places, x, y, z)
    assert "rule: scan_as_floats" in taken


NARROW = (np.int8, np.uint8, np.int16, np.uint16)


@pytest.mark.parametrize("dtype", NARROW, ids=lambda t: t.__name__)
def test_arithmetic_of_narrow_types_is_that_of_numpy(dtype: type[np.integer]) -> None:
    """Whatever leaves the type, whichever engine computes it: by tiles, columns and numbers, from both sides."""
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    edges = np.array([info.min, info.max, 0, 1, info.max // 2, info.min + 1, 3], dtype)
    x, y = (
        rng.permutation(np.concatenate([edges, rng.integers(info.min, info.max + 1, 57).astype(dtype)])) for _ in "ab"
    )
    x, y = x.reshape(8, 8), y.reshape(8, 8)

    def function(x: Any, y: Any) -> Any:
        column, seven = y[:, :1], dtype(7)
        sums = x + y, x - y, x - column, seven - x, x + seven, -x, column - x
        products = x * y, x * seven, np.square(x), x * column
        extremes = np.minimum(x, y), np.maximum(x, column), np.minimum(x, seven)
        return *sums, *products, *extremes, x < y, column >= x, x == seven

    check(function, x, y, tolerance=0)


def test_narrow_extremes_are_one_instruction_each() -> None:
    x = tw.spec((256, 512), "uint8")
    k = tw.compile(lambda x, y: np.minimum(np.maximum(x, y), 200), x, x, target="trn2")
    copies = [op for op in walk(k.tile_ir) if op.name == "tensor_copy"]
    assert not copies, "no tiles of 32-bit integers"

"""Programs that were wrong, crashed or gave an illegal kernel once, each with others of the same cause.

Every kernel is legal for its target and gives NumPy's results, infinities and NaN included; for some of them the
emitted source is run too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.emit.kit import run_source
from tests.lower.kit import TARGETS, check, floats
from tilewright.errors import TileError
from tilewright.target import get_target

BF16 = ml_dtypes.bfloat16


@dataclass(frozen=True)
class Row:
    """A function and its arguments; a tolerance is in units of the greatest value."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    tolerance: float | None = 1e-5


def holding(*shape: int, seed: int = 0, dtype: Any = np.float32, numbers: tuple[float, ...]) -> np.ndarray:
    """Random numbers, these among them at random places."""
    rng = np.random.default_rng(seed)
    made = rng.standard_normal(shape).astype(np.float32)
    made.reshape(-1)[rng.permutation(made.size)[: len(numbers)]] = numbers
    return made.astype(dtype)


INF = np.inf
BEYOND = (INF, -INF, np.nan)


# A contracted dim is no loop.
CONTRACTED = {
    "a.T @ b": Row(lambda a, b: np.tanh(a).T @ b, (floats(64, 96), floats(64, 64, seed=1))),
    "a.T @ b, both square": Row(lambda a, b: np.tanh(a).T @ b, (floats(64, 64), floats(64, 64, seed=1))),
    "batches of a.T @ b": Row(
        lambda a, b: np.tanh(a).swapaxes(1, 2) @ b, (floats(3, 64, 96), floats(3, 64, 64, seed=1))
    ),
    "ij,ik->jk": Row(lambda a, b: np.einsum("ij,ik->jk", np.tanh(a), b), (floats(64, 96), floats(64, 64, seed=1))),
    "b.T @ a, repeated": Row(
        lambda a, b: b.swapaxes(-1, -2) @ np.tanh(a), (floats(3, 1, 64, 96), floats(4, 64, 64, seed=1))
    ),
}

# No quotient of numbers below the normal ones is taken, where NumPy takes none of zero.
TINY = np.array([0.0, -0.0, 1e-40, -1e-39, 1e-20, 0.5, INF, np.nan], np.float32)
SMALLEST = {
    "sinc": Row(lambda x: np.sinc(x), (TINY,)),
    "sinc of 16 bits": Row(lambda x: np.sinc(x), (TINY.astype(np.float16),), 1e-3),
}

# Arrays and dims of one element.
ROW = np.sort(floats(10))
ONE = np.array([0.3], np.float32)
SINGLE = {
    "a number by a row": Row(lambda x: x[:, None] * np.arange(3, dtype=np.float32), (floats(1),)),
    "a number by two rows": Row(lambda x: x[:, None, None] * np.ones((2, 3), np.float32) + x, (floats(1),)),
    "interp": Row(lambda x, xp, fp: np.interp(x, xp, fp), (ONE, ROW, floats(10, seed=1))),
    "interp in known places": Row(lambda x: np.interp(x, ROW, np.arange(10.0)), (ONE,)),
    "digitize": Row(lambda x: np.digitize(x, ROW), (ONE,)),
    "searchsorted": Row(lambda x, xp: np.searchsorted(xp, x), (ONE, ROW)),
    "searchsorted in one": Row(lambda x, xp: np.searchsorted(xp, x), (ONE, ROW[:1])),
    "searchsorted of a scalar": Row(lambda x, xp: np.searchsorted(xp, x), (ONE.reshape(()), ROW)),
    "histogram": Row(lambda x: np.histogram(x, bins=4, range=(0, 1))[0], (ONE,)),
    "sums over dims of one": Row(lambda x: (x.sum(axis=1), x.mean(axis=(0, 2)), x.max(axis=2)), (floats(1, 1, 1),)),
}


def product_of_sums(a, b):
    s = np.einsum("bij,bij->bj", a, b)
    return (0.1 + s) * s


# Two operands of one instruction that are both in PSUM.
BOTH_IN_PSUM = {
    "sums times sums": Row(product_of_sums, (floats(3, 64, 128), floats(3, 64, 128, seed=1))),
    "product plus product": Row(lambda a, b: (a @ b) * (a @ b + 1), (floats(64, 64), floats(64, 64, seed=1))),
    "maximum of sums": Row(lambda a: np.maximum(a.sum(0) * 2, a.sum(0) * a.sum(0)), (floats(300, 64),)),
}

# float32 by bfloat16: the terms of a number may be zero where what they multiply is infinite.
SPLIT = {
    "infinite weight": Row(lambda x, b: x @ b, (floats(40, 64), holding(64, 32, dtype=BF16, numbers=BEYOND))),
    "infinite on both sides": Row(
        lambda x, b: x @ b,
        (holding(40, 64, numbers=(*BEYOND, 0.0, 3.4e38)), holding(64, 600, seed=1, dtype=BF16, numbers=BEYOND)),
    ),
    "zeros by infinities": Row(
        lambda x, b: x @ b,
        (np.zeros((4, 64), np.float32) + (np.arange(64) % 3 == 0), holding(64, 600, dtype=BF16, numbers=BEYOND)),
    ),
    "products that overflow": Row(
        lambda x, b: x @ b,
        (np.abs(floats(5, 64)) * np.float32(1e30), (np.abs(floats(64, 600, seed=1)) * 1e30).astype(BF16)),
    ),
    "the smallest by the largest": Row(
        lambda x, b: x @ b, (floats(5, 64) * np.float32(1e-37), (floats(64, 600, seed=1) * 5e37).astype(BF16))
    ),
    "many rows": Row(
        lambda x, b: x @ b, (holding(300, 200, numbers=BEYOND), holding(200, 700, seed=1, dtype=BF16, numbers=BEYOND))
    ),
    "long K": Row(
        lambda x, b: x @ b, (holding(20, 3200, numbers=BEYOND), holding(3200, 600, seed=1, dtype=BF16, numbers=BEYOND))
    ),
    "the other order": Row(
        lambda x, b: b.T @ x.T, (holding(40, 64, numbers=BEYOND), holding(64, 32, seed=1, dtype=BF16, numbers=BEYOND))
    ),
    "float16": Row(
        lambda x, b: x @ b, (holding(40, 64, numbers=BEYOND), holding(64, 32, seed=1, dtype=np.float16, numbers=BEYOND))
    ),
    "followed by more": Row(
        lambda x, b: np.maximum(np.tanh(x) @ b, 0).max(axis=-1),
        (floats(40, 64), holding(64, 600, seed=1, dtype=BF16, numbers=(INF, -INF))),
    ),
    "whole numbers stay whole": Row(
        lambda x, b: x @ b,
        (
            np.random.default_rng(0).integers(-9, 10, (70, 256)).astype(np.float32),
            np.random.default_rng(1).integers(-9, 10, (256, 700)).astype(BF16),
        ),
        None,
    ),
}

# Moves by products: zero times infinity is NaN.
MOVED = {
    "convolution": Row(lambda x, w: tw.conv(x, w), (floats(1, 5, 12, 12), holding(7, 5, 3, 3, numbers=(-INF,)))),
    "wide convolution": Row(
        lambda x, w: tw.conv(x, w), (floats(2, 130, 20), holding(140, 130, 3, numbers=(-INF, INF)))
    ),
    "convolution of bfloat16": Row(
        lambda x, w: tw.conv(x, w, padding=1),
        (floats(1, 5, 12, 12).astype(BF16), holding(7, 5, 3, 3, dtype=BF16, numbers=(-INF,))),
        2e-2,
    ),
    "windows by einsum": Row(
        lambda x, w: np.einsum("chwij,ocij->ohw", np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2)), w),
        (floats(4, 14, 14), holding(5, 4, 3, 3, numbers=(-INF,))),
    ),
    "transposes": Row(lambda a, b: np.tanh(a.T) + b, (holding(70, 50, numbers=BEYOND), floats(50, 70, seed=1))),
    "ij,kj->ik": Row(
        lambda a, b: np.einsum("ij,kj->ik", a, b),
        (holding(40, 50, numbers=BEYOND), holding(60, 50, seed=1, numbers=BEYOND)),
    ),
    "bihd,bjhd->bhij": Row(
        lambda a, b: np.einsum("bihd,bjhd->bhij", a, b),
        (holding(2, 30, 2, 20, numbers=BEYOND), holding(2, 40, 2, 20, seed=1, numbers=BEYOND)),
    ),
    "weighted counts": Row(
        lambda w: np.bincount(np.arange(300) % 7, weights=w, minlength=9), (holding(300, numbers=(INF, -INF)),)
    ),
}


# Members of a group are read as they lie: a row of the one may be a column of the other.
def normalised(x):
    middle = x.mean(1, keepdims=True)
    return (x - middle) / np.sqrt(((x - middle) ** 2).mean(1, keepdims=True) + 1e-3)


ROWS_AS_COLUMNS = {
    "columns by rows of sums": Row(lambda x: x.mean(-1, keepdims=True) * np.std(x, 1) + np.max(x, 1), (floats(2, 2),)),
    "the same, larger": Row(lambda x: x.mean(-1, keepdims=True) * np.std(x, 1) + np.max(x, 1), (floats(150, 150),)),
    "sums of both kinds": Row(lambda x: np.tanh(x.sum(1)) * x.min(1, keepdims=True) - x.max(1), (floats(16, 16),)),
    "normalised, maxima and minima": Row(
        lambda x: normalised(x) * x.max(1, keepdims=True) + x.min(1), (floats(16, 16),)
    ),
    "normalised, deviations": Row(lambda x: normalised(x) * np.std(x, 1) + x.max(1), (floats(16, 16),)),
}

# Remainders of whatever quotient; inverses that no float32 is.
FAR = holding(40, 50, numbers=(1e20, -1e20, 3e38, -3.4e38, 1e10, 5e8, 1e15, INF, -INF, np.nan, 1e-40, 2.0**24, 2.0**30))
SMALL = np.array([[1e-40, 2e-40, 1e-45, 0, 1e-38, 3e-39, 1.0, -2e-42]], np.float32)
FAR_APART = {
    **{f"fmod by {y}": Row(lambda x, y=y: np.fmod(x, np.float32(y)), (FAR,), None) for y in (2, 3, 0.7, 1e-30, 3e38)},
    **{f"mod by {y}": Row(lambda x, y=y: np.mod(x, np.float32(y)), (FAR,), None) for y in (0.5, -3.3, 1e-41, 100)},
    "fmod of arrays": Row(np.fmod, (FAR, FAR[::-1].copy()), None),
    "mod of arrays": Row(np.mod, (FAR, np.roll(FAR, 3)), None),
    "hypot of subnormal numbers": Row(np.hypot, (SMALL, SMALL[:, ::-1].copy())),
    "arctan2 of subnormal numbers": Row(np.arctan2, (SMALL, SMALL[:, ::-1].copy())),
    "divided by a subnormal number": Row(lambda x: x / np.float32(1e-40), (SMALL,)),
    "divided by a large number": Row(lambda x: x / np.float32(3e38), (FAR,)),
}

# Floats of 8 bits are multiplied as what the Tensor engine can turn.
EIGHT = floats(64, 96).astype(ml_dtypes.float8_e5m2)
EIGHT_BITS = {
    "a.T @ a of 8 bits, cast": Row(lambda x: x.astype(np.float32).T @ x.astype(np.float32), (EIGHT,)),
    "a @ b of 8 bits, cast": Row(lambda x, y: x.astype(np.float32) @ y.astype(np.float32), (EIGHT, EIGHT.T.copy())),
    "a @ b of 8 bits": Row(lambda x, y: (x @ y).astype(np.float32), (EIGHT, EIGHT.T.copy()), 0.3),
    "8 bits as 16": Row(lambda x: x.astype(BF16) @ x.T.astype(BF16), (EIGHT,), 2e-2),
}


# What is infinite in a narrow type stays so, whatever an engine computes in.
HALF = np.array([[6e4, 2, -3, 5e4, 1, -6e4, 0.5, INF]] * 3, np.float16)
NARROW = {
    "squares, cast": Row(lambda x: (x * x).astype(np.float32), (HALF,)),
    "sums, cast": Row(lambda x: (x + x).astype(np.float32) - 1, (HALF,)),
    "a product and a sum": Row(lambda x: x * np.float16(3) - x, (HALF,), 1e-3),
    "two numbers": Row(lambda x: (x * np.float16(3)) / np.float16(4), (HALF,), 1e-3),
    "a function of a product": Row(lambda x: np.sqrt(np.abs(x * np.float16(2))), (HALF,), 1e-3),
}


def updated_repeats(x, y):
    made = np.floor(np.broadcast_to(x[:, None], (len(x), 2)))
    made[:, 1:] += np.sum(y, axis=0)
    return made


def updated_rows(x):
    made = np.broadcast_to(np.tanh(x), (5, *x.shape)) * 2
    made[1:3] -= x.sum()
    return made


# Elements that repeat are one in storage: they are written out before some of them change.
REPEATED = {
    "a column added to": Row(updated_repeats, (floats(2), floats(2, 1, seed=1))),
    "a column of many added to": Row(updated_repeats, (floats(31), floats(127, 1, seed=1))),
    "rows added to": Row(updated_rows, (floats(12),)),
}


def many_times(x):
    for i in range(1200):
        x = x + np.float32(i % 3)
    return x


# Programs of many ops; operands in an order that no block of rows has.
LONG = {
    "1,200 sums": Row(many_times, (floats(8, 8),)),
    "rows that repeat, reduced": Row(
        lambda x: np.where(np.broadcast_to(x[:, :, None], (9, 9, 8)).max(0) > x[:, 1:], 2, x[:, :8] * 2),
        (floats(9, 9),),
    ),
    "a repeated difference @ b": Row(
        lambda x: (x - np.broadcast_to(x, (6, 7, 7))) @ (x[[1, 1, 2, 0, 5, 1]] >= 0).astype(np.float32).T,
        (floats(7, 7),),
    ),
}

ROWS = {
    **CONTRACTED,
    **SMALLEST,
    **SINGLE,
    **BOTH_IN_PSUM,
    **SPLIT,
    **MOVED,
    **ROWS_AS_COLUMNS,
    **FAR_APART,
    **EIGHT_BITS,
    **NARROW,
    **REPEATED,
    **LONG,
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ROWS)
def test_numpys_results(name: str, target: str):
    row = ROWS[name]
    check(row.function, *row.args, targets=[target], tolerance=row.tolerance)


SOURCES = ("a.T @ b", "a number by a row", "sums times sums", "infinite on both sides", "convolution")


@pytest.mark.parametrize("name", SOURCES)
def test_the_source_gives_the_same(name: str):
    row = ROWS[name]
    kernel = tw.compile(row.function, *row.args, target="trn2")
    made = run_source(kernel.source, [*row.args, *kernel.constants])
    np.testing.assert_array_equal(np.asarray(made.result), np.asarray(kernel(*row.args)))


def test_small_numbers_by_bfloat16_are_off_by_a_little():
    """Below 2**-110 there are bits that no bfloat16 number has (`lower.terms`)."""
    x, b = floats(40, 64) * np.float32(1e-38), floats(64, 32, seed=1).astype(BF16)
    off = np.abs(tw.compile(lambda x, b: x @ b, x, b, target="trn2")(x, b) - x @ b.astype(np.float32))
    assert (off <= 2.0**-134 * np.abs(b.astype(np.float64)).sum(axis=0) + 2.0**-148).all()
    larger = x * np.float32(2.0**20)
    check(lambda x, b: x @ b, larger, b, targets=["trn2"], tolerance=1e-6)


def test_an_illegal_kernel_reaches_nobody():
    """Its fault is the compiler's: a code, the rule and the line, whatever is asked of it first."""
    target = get_target("trn2").replace({"limits.matmul_stationary_free_max": 64})
    x = floats(128, 128)
    for ask in (lambda k: k.tile_ir, lambda k: k.source, lambda k: k.report, lambda k: k(x)):
        with pytest.raises(TileError) as caught:
            ask(tw.compile(lambda x: x @ x, x, target=target))
        found = caught.value.diagnostic
        assert found.code == "E504" and "R-nc_matmul" in found.message
        assert found.location is not None and found.location.file == __file__

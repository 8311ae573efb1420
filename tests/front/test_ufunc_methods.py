# pyright: reportArgumentType=false, reportCallIssue=false
"""Methods of ufuncs that NumPy makes of steps (reduce, accumulate, reduceat), bits of bytes, and functions by parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw

from .kit import check, check_error, refused, run, same_tree, traced

RNG = np.random.default_rng(8)
FLOATS = RNG.normal(size=(5, 9)).astype(np.float32)
WHOLE = RNG.integers(1, 60, (4, 6))
TRUTH = RNG.random((3, 21)) < 0.5
CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-6}


@pytest.mark.parametrize("axis", [0, 1, -1, (0, 1), None])
@pytest.mark.parametrize("ufunc", [np.hypot, np.gcd, np.lcm, np.logaddexp, np.logaddexp2], ids=lambda f: f.__name__)
def test_steps_in_any_order(ufunc: np.ufunc, axis: Any):
    x = WHOLE % 9 + 1 if ufunc in (np.gcd, np.lcm) else FLOATS
    if ufunc is np.lcm and not isinstance(axis, int):
        check_error(lambda x: ufunc.reduce(x, axis), x)
        return
    check(lambda x: ufunc.reduce(x, axis), x, **CLOSE)
    check(lambda x: ufunc.reduce(x, axis, keepdims=True, initial=2), x, **CLOSE)
    if isinstance(axis, int):
        check(lambda x: ufunc.accumulate(x, axis), x, **CLOSE)
    if ufunc.identity is not None:
        check(lambda x: ufunc.reduce(x, axis, where=x > 3), x, **CLOSE)
        check(lambda x: ufunc.reduce(x[:, :0], 1), x)
        check_error(lambda x: ufunc.reduce(x[0], where=x > 3), x)
    if axis != (0, 1):
        check(lambda x: (ufunc.reduce(-x[:1], 0), ufunc.accumulate(-x[:1]), ufunc.reduceat(-x, [1, 0, 2])), x, **CLOSE)
        check(lambda x: ufunc.reduce(-x[0, 0]), x, **CLOSE)


ORDERED = [np.subtract, np.divide, np.power, np.arctan2, np.copysign, np.fmod]


def by_steps(ufunc: np.ufunc, x: np.ndarray, axis: int) -> np.ndarray:
    """What accumulate should give, one call for each step.

    NumPy's loops of power and arctan2 for float32 on AVX-512 read ahead: reduced along rows, they give other numbers.
    """
    first, *rest = np.moveaxis(x, axis, 0)
    made = [first]
    for each in rest:
        made.append(ufunc(made[-1], each))
    return np.stack(made, axis)


@pytest.mark.parametrize("ufunc", ORDERED, ids=lambda f: f.__name__)
def test_steps_from_first_to_last(ufunc: np.ufunc):
    x = np.abs(FLOATS) + np.float32(0.5)
    for axis in (0, 1):
        steps = by_steps(ufunc, x, axis)
        same_tree(run(traced(lambda x, axis=axis: ufunc.reduce(x, axis), x), x), np.take(steps, -1, axis), **CLOSE)
        same_tree(run(traced(lambda x, axis=axis: ufunc.accumulate(x, axis), x), x), steps, **CLOSE)
    check(lambda x: ufunc.reduce(x, 0, initial=1.5), x, **CLOSE)
    check(lambda x: ufunc.reduce(x[:1]), x)
    check(lambda x: ufunc.accumulate(x[:1]), x)
    check_error(lambda x: ufunc.reduce(x, (0, 1)), x)
    check_error(lambda x: ufunc.reduce(x[:0]), x)


def test_types_of_steps():
    check(lambda x: np.divide.reduce(x), WHOLE, **CLOSE)
    check(lambda x: np.subtract.reduce(x, 1), WHOLE.astype(np.int8))
    check(lambda x: np.less.reduce(x, 1), TRUTH)
    check_error(lambda x: np.less.accumulate(x), FLOATS)
    check_error(lambda x: np.hypot.reduce(x, dtype=np.int64), FLOATS.astype(np.int32))
    check_error(lambda x: np.logical_xor.accumulate(x, dtype=np.int32), FLOATS)
    check_error(lambda x: np.copysign.reduceat(x, [0], dtype=np.int64), FLOATS.astype(np.int32))
    for ufunc in (np.add, np.hypot):

        def one(x, u=ufunc):
            return (u.accumulate(x, (-1,)), u.accumulate(x[0], None), u.reduceat(x[0], [0, 1], None))

        check(one, FLOATS, **CLOSE)
        for wrong in (None, (0, 1), (), (0, 0), (5,)):
            check_error(lambda x, u=ufunc, axis=wrong: u.accumulate(x, axis), FLOATS)
            check_error(lambda x, u=ufunc, axis=wrong: u.reduceat(x, [0], axis), FLOATS)
    refused("E803", lambda x: np.subtract.reduce(x, 0, where=x > 0, initial=1.0), FLOATS)


INDICES = [[0, 3, 1, 4], [0, 2, 4], [4, 3, 2, 0], [1], [0, 0, 2, 2], list(range(5)), []]


@pytest.mark.parametrize("indices", INDICES, ids=str)
def test_segments(indices: list[int]):
    for ufunc in (np.add, np.maximum, np.multiply, np.logaddexp, np.subtract):
        check(lambda x, ufunc=ufunc: ufunc.reduceat(x, np.array(indices, int)), FLOATS, **CLOSE)
        check(lambda x, ufunc=ufunc: ufunc.reduceat(x, np.array(indices, int), axis=-1), FLOATS, **CLOSE)
    check(lambda x: np.add.reduceat(x, np.array(indices, int), axis=1), WHOLE.astype(np.int8))
    check(lambda x: np.logical_or.reduceat(x > 40, np.array(indices, int), axis=1), WHOLE)


def test_segments_of_rows_and_what_cannot_be():
    starts = np.sort(RNG.choice(400, 60, replace=False))
    check(lambda x: np.add.reduceat(x, starts), RNG.integers(-9, 9, 400))
    check(lambda x: np.add.reduceat(x, [0, 1], dtype=np.float64), FLOATS, **CLOSE)
    check_error(lambda x: np.add.reduceat(x, [0, 5]), FLOATS)
    refused("E804", lambda x, i: np.add.reduceat(x, i), FLOATS, np.array([0, 1]))


@pytest.mark.parametrize("order", ["big", "little"])
def test_bits_of_bytes(order: str):
    for axis in (None, 0, 1, -1):
        check(lambda x, axis=axis: np.packbits(x, axis=axis, bitorder=order), TRUTH)
        check(lambda x, axis=axis: np.packbits(x, axis, order), WHOLE - 30)
        for count in (None, 7, -3, 40):
            whole = RNG.integers(0, 256, (2, 4)).astype(np.uint8)
            check(lambda x, a=axis, c=count: np.unpackbits(x, axis=a, count=c, bitorder=order), whole)
    check_error(lambda x: np.packbits(x), FLOATS)
    check_error(lambda x: np.unpackbits(x), WHOLE)


def test_functions_by_parts():
    check(lambda x: np.piecewise(x, [x < 0, x >= 1], [lambda v: -v, lambda v: v * 2, 3]), FLOATS)
    check(lambda x: np.piecewise(x, [x < 0, x < 1], [-1, lambda v: v - v.mean()]), FLOATS, **CLOSE)
    check(lambda x: np.piecewise(x[0], x[0] < 0, [lambda v, by: np.exp(v) * by, 0], 2), FLOATS, **CLOSE)
    check(lambda x: np.piecewise(x, [x > 30], [7.9, 1]), WHOLE)
    check_error(lambda x: np.piecewise(x, [x > 30], [1, 2, 3]), WHOLE)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_on_the_device(target: str):
    starts = [0, 7, 7, 12, 13]
    x = RNG.normal(size=(20, 6)).astype(np.float32)

    def several(x: Any) -> Any:
        bits = np.packbits(x > 0, axis=1)
        shares = np.logaddexp.accumulate(x, 1), np.hypot.reduce(x[:5], 0), np.linalg.slogdet(x[:3, :3])[1]
        return np.add.reduceat(x, starts), np.unpackbits(bits, axis=1), *shares

    for mine, theirs in zip(tw.compile(several, x, target=target, check="off")(x), several(x), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-5)
        assert mine.dtype == theirs.dtype

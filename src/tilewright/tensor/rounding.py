"""How far results of a program may lie from the exact ones: measured by running it with other roundings.

Every float that an op computes inexactly is changed by a few units in its last place, at random; of sums, in proportion
to the sum of what is added, without its signs. What the results of some such runs differ by is what rounding can do to
them. A result that does not change has to be the same bits, whatever order a kernel computes in.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tilewright.dtypes import DType
from tilewright.ir.core import Graph, Op, Value
from tilewright.tensor.interpret import Known, interpret, operands_of, run_op
from tilewright.tensor.wide import widened

RUNS = 3
UNITS = 4.0
"""By how many units in the last place an op may round differently."""
MARGIN = 8.0
"""What the greatest of a few random deviations is multiplied with."""
SUMS = {"sum", "cumsum", "matmul", "matmul_wide", "matmul_split", "conv", "combine_rows"}
PRODUCTS_OF = {"contraction", "window"}
"""Families whose terms are products of two operands' elements."""
ONE_BY_ONE = {"cumsum", "combine_rows"}
PRODUCTS = {"prod", "cumprod"}
MOVES = {"shape", "index", "sort", "creation", "collective"}
KEPT = {"max", "min", "maximum", "minimum", "where", "abs", "negative", "sign", "bitcast", "spacing", "nextafter"}
"""Ops that give elements of their operands, or what lies next to them."""
CANCELLING = {"logaddexp", "logaddexp2"}
"""Ops that add two parts which may cancel: a last digit is that of the greatest operand."""
OPEN_ZEROS = {*SUMS, "max", "min", "maximum", "minimum", "relu", "sort", "partition", "topk"}
"""Ops whose zeros have either sign, by the order in which NumPy adds or compares."""


@dataclass(frozen=True, slots=True)
class Expected:
    """An output, how far each element may be from it, and which elements rounding makes anything of."""

    array: np.ndarray
    within: np.ndarray
    loose: np.ndarray


def expected(graph: Graph, arrays: Sequence[np.ndarray], seed: int) -> list[Expected]:
    """The outputs of a graph, each with what rounding does to it."""
    plain = [np.asarray(x) for x in interpret(graph, arrays)]
    rng = np.random.default_rng(seed)
    return spread(plain, [otherwise_rounded(graph, arrays, rng) for _ in range(RUNS)])


def otherwise_rounded(
    graph: Graph, arrays: Sequence[np.ndarray], rng: np.random.Generator, sign: int = 1
) -> list[np.ndarray]:
    """The outputs of a graph when every inexact op rounds otherwise than NumPy does; with -1 to the other side."""
    return interpret(graph, arrays, lambda op, known: _rounded(op, known, rng, sign))


def spread(plain: Sequence[np.ndarray], others: Sequence[Sequence[np.ndarray]]) -> list[Expected]:
    """Outputs, each with what other runs show that rounding does to it."""
    with np.errstate(all="ignore"):
        return [_spread(np.asarray(x), [run[i] for run in others]) for i, x in enumerate(plain)]


def differs(found: np.ndarray, plain: np.ndarray, wanted: Expected) -> np.ndarray:
    """Where an output is wrong, given what the decomposed program makes it."""
    return beyond(found, plain, wanted) & beyond(found, wanted.array, wanted)


def beyond(found: np.ndarray, other: np.ndarray, wanted: Expected) -> np.ndarray:
    """Where two arrays are farther apart than rounding can bring them."""
    x, y = found.astype(np.float64), other.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        near = np.abs(x - y) <= wanted.within
    return ~(same | near | wanted.loose)


def _spread(x: np.ndarray, others: Sequence[np.ndarray]) -> Expected:
    wide = x.astype(np.float64)
    far = np.zeros(x.shape)
    loose = np.zeros(x.shape, bool)
    for other in others:
        y = other.astype(np.float64)
        loose |= np.isfinite(wide) != np.isfinite(y)
        loose |= np.isinf(wide) & (wide != y)
        if x.dtype.kind in "biu":
            loose |= wide != y
        else:
            far = np.maximum(far, np.where(np.isfinite(wide) & np.isfinite(y), np.abs(wide - y), 0))
    # Roundings may cancel by chance: every element may be as far off as they are on average.
    size = np.where(np.isfinite(wide), np.abs(wide), 0)
    relative = np.divide(far, size, out=np.zeros(x.shape), where=size > 0)
    return Expected(x, MARGIN * np.maximum(far, size * np.mean(relative) if x.size else 0), loose)


def _rounded(op: Op, known: Known, rng: np.random.Generator, sign: int) -> tuple[np.ndarray, ...]:
    results = run_op(op, known)
    if op.name in OPEN_ZEROS:
        results = tuple(_with_any_sign(x, rng) for x in results)
    if (op.definition.family in MOVES and op.name not in SUMS) or op.name in KEPT:
        return results
    if op.name == "cast" and op.result.type.dtype.is_integer:
        return (_undefined(results[0], known[op.operands[0]], rng),)
    floats = [value.type.dtype.is_float for value in op.results]
    if not any(floats):
        return results
    exact = _wide(op, known)
    if op.name == "divide":
        # By anything but a power of two: a kernel may multiply with the reciprocal.
        by = np.frexp(operands_of(op, known)[1].astype(np.float64))[0]
        exact = [np.where((np.abs(by) == 0.5) | (x == 0), x, np.nan) for x in exact]
    size = _sizes(op, known) if op.name in SUMS else results
    if op.name in SUMS and not _adds_exactly(op, known, size):
        # One that happens to be exact is not in another order.
        exact = [np.full(x.shape, np.nan) for x in exact]
    if op.name in ONE_BY_ONE and op.result.type.dtype.itemsize < 4:
        # NumPy rounds after each step, kernels once.
        size = tuple(np.abs(x.astype(np.float64)) * max(v.type.size for v in op.values()) for x in size)
    if op.definition.family == "linalg":
        # What is eliminated leaves an error of the size of the greatest element, in all of them. What becomes infinite
        # may be anything, but not where it is given.
        given = all(np.isfinite(known[value]).all() for value in op.values())
        sizes = [np.nan_to_num(np.abs(x.astype(np.float64)), posinf=None if given else 0) for x in results]
        size = tuple(np.full(x.shape, x.max(initial=0)) for x in sizes)
        exact = [np.full(x.shape, np.nan) for x in exact]
    if op.name in CANCELLING:
        parts = [np.abs(x.astype(np.float64)) for x in (*operands_of(op, known), *results)]
        size = (functools.reduce(np.maximum, parts),)
    if op.name in PRODUCTS:
        count = op.operands[0].type.size
        size = tuple(np.abs(x.astype(np.float64)) * count for x in results)
    return tuple(
        _noisy(x, y, np.abs(s.astype(np.float64)), value.type.dtype, rng, sign) if f else x
        for x, y, s, f, value in zip(results, exact, size, floats, op.results, strict=True)
    )


def _noisy(
    x: np.ndarray, exact: np.ndarray, size: np.ndarray, dtype: DType, rng: np.random.Generator, sign: int
) -> np.ndarray:
    wide = x.astype(np.float64)
    info = ml_dtypes.finfo(dtype.np)
    unit, least = float(info.eps) / 2, float(info.smallest_subnormal)
    # Of various sizes, so that those of several ops do not cancel each other.
    signs = (rng.integers(0, 2, x.shape, np.int8) * np.int8(2) - np.int8(1)) * np.int8(sign)
    parts = rng.uniform(0.5, 1.0, x.shape) * signs
    noise = parts * UNITS * np.where(np.isfinite(size) & (size != 0), np.maximum(unit * size, least), 0)
    noisy = np.where(wide == exact, wide, wide + noise)
    # Where a part of a sum may be more than the type holds, it is anything.
    over = np.isfinite(size) & (size > float(info.max))
    with np.errstate(over="ignore"):
        # Of all of them alike, or of each by itself.
        kinds = [[0.0, np.inf, np.nan], [0.0, np.inf], [0.0, np.nan]]
        anything, number, finite = (rng.choice(k, x.shape if rng.random() < 0.5 else ()) for k in kinds)
        other = np.where(np.isnan(wide), number, np.where(np.isinf(wide), finite, anything))
        found = np.where(over, other, noisy)
        # What is not a number has either sign.
        return np.where(np.isnan(found), np.copysign(found, parts), found).astype(dtype.np)


def _with_any_sign(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Zeros with signs at random."""
    zeros = x == 0
    if x.dtype.kind in "biu" or not zeros.any():
        return x
    return np.where(zeros & (rng.random(x.shape) < 0.5), -x, x)


def _undefined(x: np.ndarray, source: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What an integer type cannot hold is anything."""
    if source.dtype.kind in "biu" or x.dtype.kind == "b":
        return x
    wide, info = source.astype(np.float64), np.iinfo(x.dtype)
    fits = (wide > info.min - 1.0) & (wide < info.max + 1.0)
    return np.where(fits, x, rng.integers(info.min, info.max, x.shape, x.dtype, endpoint=True))


def _wide(op: Op, known: Known) -> list[np.ndarray]:
    """The results of an op in float64, as far as its meaning goes along."""
    wide = {value: widened(known[value]) for value in op.values()}
    found = op.definition.meaning(*operands_of(op, wide), **op.attrs)
    return [np.asarray(x).astype(np.float64) for x in (found if isinstance(found, tuple) else (found,))]


def _sizes(op: Op, known: Known) -> tuple[np.ndarray, ...]:
    """The results of a sum whose terms have no signs and are finite, in float64."""
    wide = {value: _positive(value, known[value]) for value in op.values()}
    found = op.definition.meaning(*operands_of(op, wide), **op.attrs)
    return tuple(np.asarray(x).astype(np.float64) for x in (found if isinstance(found, tuple) else (found,)))


def _adds_exactly(op: Op, known: Known, size: Sequence[np.ndarray]) -> bool:
    """Whether no sum of any terms needs more bits than its type has: those of what the operands are multiples of."""
    lowest = [_lowest_bit(known[value]) for value in op.values() if value.type.dtype.is_float]
    quantum = sum(lowest) if op.definition.family in PRODUCTS_OF else min(lowest, default=0)
    info = ml_dtypes.finfo(op.result.type.dtype.np) if lowest else None
    largest = max(float(np.abs(x.astype(np.float64)).max(initial=0)) for x in size)
    return info is None or largest < 2.0 ** min(quantum + info.nmant + 1, 1000)


def _lowest_bit(x: np.ndarray) -> int:
    """The largest n for which all numbers are multiples of 2 ** n."""
    wide = x.astype(np.float64)
    fraction, exponent = np.frexp(wide[np.isfinite(wide) & (wide != 0)])
    whole = (fraction * 2.0**53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] + exponent - 54
    return int(lowest.min(initial=1000))


def _positive(value: Value, x: np.ndarray) -> np.ndarray:
    return np.nan_to_num(np.abs(x.astype(np.float64)), posinf=0.0) if value.type.dtype.is_float else x

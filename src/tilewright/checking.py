"""Results beside what they should be: one comparison for compiled kernels, the command line and tests.

Floats may be off by a part of the largest number of the result they stand in, which their type tells; integers and
truth values may not. Differences that no normal float32 can tell do not count. NaN agrees with NaN, an infinity with
the same one, -0.0 with 0.0. Of results of more than `WHOLE` elements rows are sampled: the first, the last, and others
at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

from tilewright.dtypes import DType
from tilewright.errors import TileValueError, fail
from tilewright.ir.core import Graph, Value
from tilewright.tensor.rounding import KEPT, MOVES

FIRST, ALWAYS, OFF = CHECKS = ("first", "always", "off")
"""When a compiled kernel is compared: at its first call in a process, at every call, at none."""
FLOAT32 = 1e-5
"""How far float32 may be off, as a part of the largest number of the result."""
FLOAT16 = 3e-2
"""The same for floats of 16 bits. Smaller ones may be off by two units in their last place."""
SMALLEST = float(np.finfo(np.float32).tiny)
"""Differences below the smallest normal float32 do not count: what is smaller still, engines may take for zero."""
WHOLE = 1 << 24
"""Elements of a result that are all compared."""
SAMPLED = 1 << 21
"""About how many elements are compared of larger ones."""
_TOGETHER = 1 << 16
_RUN = 1 << 11


def check_name(name: str) -> None:
    """Refuse what is none of `CHECKS` (E108)."""
    if name not in CHECKS:
        raise fail("E108", f"check is {name!r}", hint=f"choose one of {', '.join(CHECKS)}", error=TileValueError)


@dataclass(frozen=True, slots=True)
class Difference:
    """How an array differs from what it should be; `error` is a part of `scale`, infinite where kinds of number differ.

    count: elements that are too far off, of so many that were compared. at: the one that is farthest off.
    """

    count: int
    of: int
    at: tuple[int, ...]
    mine: float | int | bool
    theirs: float | int | bool
    error: float
    tolerance: float

    def __str__(self) -> str:
        where = f"[{', '.join(map(str, self.at))}]" if self.at else ""
        exact = "they have to be the same" if not self.tolerance else f"{self.tolerance:.1g} is allowed"
        apart = "" if np.isinf(self.error) or not self.tolerance else f" ({self.error:.1e} of the largest number)"
        return (
            f"{self.count} of {self.of} elements are off, most of all {where or 'it'}: {self.mine} instead of "
            f"{self.theirs}{apart}; {exact}"
        )


def compare(mine: np.ndarray, theirs: np.ndarray, tolerance: float = FLOAT32) -> Difference | None:
    """How a result differs from another one by more than the tolerance allows; None where it does not.

    Integers and truth values are compared exactly, whatever the tolerance. Element types may differ in their bits.
    """
    assert mine.shape == theirs.shape, f"{mine.shape} beside {theirs.shape}"
    if not mine.size:
        return None
    rows = sampled_rows(mine.shape)
    x, y = (mine, theirs) if rows is None else (_as_runs(mine)[rows], _as_runs(theirs)[rows])
    if is_near(x, y, tolerance):
        return None
    wrong = far(x, y, tolerance)
    if not wrong.any():
        return None
    found = described(x, y, wrong, tolerance)
    if rows is None:
        return found
    flat = int(rows[found.at[0]]) * _run_of(mine.shape) + found.at[1]
    return replace(found, at=_place(flat, mine.shape))


def is_near(mine: np.ndarray, theirs: np.ndarray, tolerance: float) -> bool:
    """A quick answer for most arrays: True where nothing is off; False may be wrong."""
    x, y = mine.reshape(-1), theirs.reshape(-1)
    if _is_exact(x, y):
        return bool(np.array_equal(x, y))
    wide = np.float32 if max(x.itemsize, y.itemsize) <= 4 else np.float64
    largest = apart = wide(0)
    with np.errstate(all="ignore"):
        for start in range(0, x.size, _TOGETHER):
            a, b = (each[start : start + _TOGETHER].astype(wide, copy=False) for each in (x, y))
            size, off = np.abs(b).max(), np.abs(a - b).max()
            if not (np.isfinite(size) and np.isfinite(off)):
                return False
            largest, apart = max(largest, size), max(apart, off)
    return bool(apart <= max(tolerance * float(largest), SMALLEST))


def far(mine: np.ndarray, theirs: np.ndarray, tolerance: float) -> np.ndarray:
    """Which elements are off by more than the tolerance allows."""
    if _is_exact(mine, theirs):
        return np.asarray(mine != theirs)
    return distance(mine, theirs) > max(tolerance * scale_of(theirs), SMALLEST)


def distance(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """How far elements lie from each other: 0 where they are alike, infinite where one alone is NaN or infinite."""
    x, y = mine.astype(np.float64), theirs.astype(np.float64)
    with np.errstate(all="ignore"):
        alike = (x == y) | (np.isnan(x) & np.isnan(y))
        return np.where(alike, 0.0, np.nan_to_num(np.abs(x - y), nan=np.inf, posinf=np.inf))


def scale_of(array: np.ndarray) -> float:
    """The largest finite number of an array."""
    wide = np.abs(array.astype(np.float64))
    return float(wide[np.isfinite(wide)].max(initial=0.0))


def described(mine: np.ndarray, theirs: np.ndarray, wrong: np.ndarray, tolerance: float) -> Difference:
    """A difference for people, given which elements are wrong."""
    apart = np.where(wrong, distance(mine, theirs), -1.0)
    at = _place(int(apart.argmax()), apart.shape)
    error = float(apart[at]) / (scale_of(theirs) or 1.0)
    allowed = 0.0 if _is_exact(mine, theirs) else tolerance
    return Difference(int(wrong.sum()), wrong.size, at, mine[at].item(), theirs[at].item(), error, allowed)


def _place(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, shape))


def _is_exact(mine: np.ndarray, theirs: np.ndarray) -> bool:
    return mine.dtype.kind in "biu" and theirs.dtype.kind in "biu"


# Samples


def sampled_rows(shape: tuple[int, ...]) -> np.ndarray | None:
    """Which rows of a result are compared; None where all are. Every call of a process gives the same ones."""
    size = int(np.prod(shape))
    if size <= WHOLE:
        return None
    run = _run_of(shape)
    rows, wanted = -(-size // run), max(SAMPLED // run, 2)
    chosen = np.random.default_rng(size).choice(rows, min(wanted, rows), replace=False)
    return np.unique(np.concatenate([[0, rows - 1], chosen]))


def _run_of(shape: tuple[int, ...]) -> int:
    """How many elements a row has: the last dim, of an array of one dim a part of it."""
    return shape[-1] if len(shape) > 1 else _RUN


def _as_runs(x: np.ndarray) -> np.ndarray:
    run = _run_of(x.shape)
    flat = x.reshape(-1)
    left = -flat.size % run
    return np.pad(flat, (0, left)).reshape(-1, run) if left else flat.reshape(-1, run)


# Tolerances


def tolerances(graph: Graph, product_error: float = 0.0) -> list[float]:
    """How far each output of a graph may be off: by the coarsest float that anything it is made of is rounded to.

    product_error: how far products of matrices may be off (`tensor.passes.precision`), of which four times are allowed.
    """
    known: dict[Value, float] = dict.fromkeys(graph.inputs, FLOAT32)
    for op in graph.ops:
        inherited = max((known[value] for value in op.values()), default=FLOAT32)
        if op.definition.family == "contraction":
            inherited = max(inherited, 4 * product_error)
        rounds = op.name not in KEPT and op.definition.family not in MOVES
        for value in op.results:
            known[value] = max(inherited, tolerance_of(value.type.dtype) if rounds else FLOAT32)
    return [known[value] for value in graph.outputs]


def tolerance_of(dtype: DType) -> float:
    """How far numbers of a type may be off, as a part of the largest; of integers that is what they are made of."""
    if not dtype.is_float or dtype.itemsize >= 4:
        return FLOAT32
    return FLOAT16 if dtype.itemsize == 2 else 2 * float(ml_dtypes.finfo(dtype.np).eps)


def worst_error(mine: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> float:
    """The largest difference of any result, as a part of its largest number; of samples where results are large."""
    worst = 0.0
    for x, y in zip(mine, theirs, strict=True):
        rows = sampled_rows(x.shape)
        x, y = (x, y) if rows is None else (_as_runs(x)[rows], _as_runs(y)[rows])
        worst = max(worst, float(distance(x, y).max(initial=0.0)) / (scale_of(y) or 1.0))
    return worst

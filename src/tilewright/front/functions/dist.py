"""`tw.dist`: collectives among ranks that run the same program.

Each takes a rank's array and gives what that rank gets. `world` is the number of ranks. Shapes follow from it, so that
programs with collectives compile; `interpret_ranks` runs the tensor IR of one on NumPy for all ranks in step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.errors import TileNotImplementedError, TileValueError, fail
from tilewright.front.array import as_traced
from tilewright.front.functions.apply import apply, given
from tilewright.front.refusal import axis_in
from tilewright.front.trace import is_tracing
from tilewright.tensor.ops.collective import REDUCE
from tilewright.tensor.ranks import interpret_ranks

__all__ = ["all_gather", "all_reduce", "all_to_all", "interpret_ranks", "reduce_scatter"]

_NAMES: dict[Any, str] = {ufunc: name for name, ufunc in REDUCE.items()}


def all_reduce(x: Any, op: Any = np.add, *, world: int) -> Any:
    """op over the arrays of all ranks, on every rank; op is np.add, np.maximum or np.minimum."""
    return apply("all_reduce", _of_rank(x), combine=_reduction("all_reduce", op), world=_ranks("all_reduce", world))


def all_gather(x: Any, axis: int = 0, *, world: int) -> Any:
    """The arrays of all ranks one after the other along axis, on every rank: that dim grows by the factor world."""
    array = _of_rank(x)
    return apply("all_gather", array, axis=_axis("all_gather", array, axis), world=_ranks("all_gather", world))


def reduce_scatter(x: Any, op: Any = np.add, axis: int = 0, *, world: int) -> Any:
    """Of op over the arrays of all ranks, the part of this rank along axis: that dim shrinks by the factor world."""
    array, name = _of_rank(x), "reduce_scatter"
    where, ranks = _axis(name, array, axis), _ranks(name, world)
    _divides(name, array, where, ranks)
    return apply(name, array, combine=_reduction(name, op), axis=where, world=ranks)


def all_to_all(x: Any, split_axis: int = 0, concat_axis: int = 0, *, world: int) -> Any:
    """Part r along split_axis goes to rank r; what comes from all ranks is put together along concat_axis."""
    array, name = _of_rank(x), "all_to_all"
    parts, joined, ranks = _axis(name, array, split_axis), _axis(name, array, concat_axis), _ranks(name, world)
    _divides(name, array, parts, ranks)
    return apply(name, array, split_axis=parts, concat_axis=joined, world=ranks)


def _of_rank(x: Any) -> Any:
    """The array of one rank; outside of a program it cannot be anything but an array of NumPy, which E501 refuses."""
    array = given(x)
    return as_traced(array) if is_tracing() else array


def _reduction(name: str, op: Any) -> str:
    known = _NAMES.get(op) if isinstance(op, np.ufunc) else op if op in REDUCE else None
    if known is None:
        said = f"np.{op.__name__}" if isinstance(op, np.ufunc) else repr(op)
        raise fail(
            "E803",
            f"tw.dist.{name}: the reduction {said} is not supported",
            hint="np.add, np.maximum and np.minimum are",
            error=TileNotImplementedError,
        )
    return known


def _ranks(name: str, world: int) -> int:
    if not isinstance(world, (int, np.integer)) or world < 1:
        raise fail("E108", f"tw.dist.{name}: world is a number of ranks, not {world!r}", error=TileValueError)
    return int(world)


def _axis(name: str, x: Any, axis: int) -> int:
    if not x.shape:
        raise fail("E103", f"tw.dist.{name} of a scalar has no axis", hint="reshape it to (1,)", error=TileValueError)
    return axis_in(axis, len(x.shape))


def _divides(name: str, x: Any, axis: int, world: int) -> None:
    if x.shape[axis] % world:
        raise fail(
            "E103",
            f"tw.dist.{name}: dim {axis} of size {x.shape[axis]} is not a multiple of {world} ranks",
            error=TileValueError,
        )

"""Collectives among `world` ranks that run the same program. Ranks are numbered from 0.

The meaning takes what all ranks bring, as a tuple, and gives what each of them gets: `interpret_ranks` calls it so.
One rank alone cannot run a collective.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from tilewright.errors import TileNotImplementedError, fail
from tilewright.tensor.record import op
from tilewright.tensor.types import TensorType

REDUCE: dict[str, np.ufunc] = {"add": np.add, "max": np.maximum, "min": np.minimum}
"""What all_reduce and reduce_scatter can do with the ranks' arrays."""

Ranks = tuple[np.ndarray, ...]


def _among_ranks(meaning: Callable[..., Ranks]) -> Callable[..., Ranks]:
    """The meaning, which a single rank's array does not satisfy."""

    def checked(x: Ranks | np.ndarray, **attrs: Any) -> Ranks:
        if isinstance(x, np.ndarray):
            raise fail(
                "E501",
                f"{meaning.__name__} among {attrs['world']} ranks: a program of one rank cannot run collectives yet",
                hint="tw.dist.interpret_ranks runs it on NumPy with the arrays of all ranks",
                error=TileNotImplementedError,
            )
        return meaning(x, **attrs)

    checked.__name__, checked.__doc__ = meaning.__name__, meaning.__doc__
    return checked


def _same(x: TensorType, combine: str, world: int) -> TensorType:
    return x


@op(family="collective", operands="x", attrs=("combine", "world"), infer=_same, primitive=True)
@_among_ranks
def all_reduce(x: Ranks, combine: str, world: int) -> Ranks:
    """out = combine over ranks r of x of rank r, the same on every rank"""
    return (reduce(REDUCE[combine], x),) * world


def _grown(x: TensorType, axis: int, world: int) -> TensorType:
    return x.with_shape((*x.shape[:axis], x.shape[axis] * world, *x.shape[axis + 1 :]))


@op(family="collective", operands="x", attrs=("axis", "world"), infer=_grown, primitive=True)
@_among_ranks
def all_gather(x: Ranks, axis: int, world: int) -> Ranks:
    """out = x of rank 0, 1, ... one after the other along axis, the same on every rank"""
    return (np.concatenate(x, axis),) * world


def _shrunk(x: TensorType, combine: str, axis: int, world: int) -> TensorType:
    assert x.shape[axis] % world == 0, f"dim {axis} of {x} is no multiple of {world}"
    return x.with_shape((*x.shape[:axis], x.shape[axis] // world, *x.shape[axis + 1 :]))


@op(family="collective", operands="x", attrs=("combine", "axis", "world"), infer=_shrunk, primitive=True)
@_among_ranks
def reduce_scatter(x: Ranks, combine: str, axis: int, world: int) -> Ranks:
    """out on rank r = the r-th of world equal parts along axis of combine over all ranks' x"""
    return tuple(np.split(reduce(REDUCE[combine], x), world, axis))


def _exchanged(x: TensorType, split_axis: int, concat_axis: int, world: int) -> TensorType:
    assert x.shape[split_axis] % world == 0, f"dim {split_axis} of {x} is no multiple of {world}"
    shape = list(x.shape)
    shape[split_axis] //= world
    shape[concat_axis] *= world
    return x.with_shape(tuple(shape))


@op(family="collective", operands="x", attrs=("split_axis", "concat_axis", "world"), infer=_exchanged, primitive=True)
@_among_ranks
def all_to_all(x: Ranks, split_axis: int, concat_axis: int, world: int) -> Ranks:
    """out on rank r = the r-th part along split_axis of x of rank 0, 1, ... one after the other along concat_axis"""
    parts = [np.split(each, world, split_axis) for each in x]
    return tuple(np.concatenate([part[rank] for part in parts], concat_axis) for rank in range(world))

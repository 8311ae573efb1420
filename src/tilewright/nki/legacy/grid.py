"""Launch grids: numbers, nl.nc and nl.spmd_dim, and which core runs which program."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from tilewright.errors import TileTypeError, fail


class nc:
    """nl.nc(n): n cores. nl.nc(2) * 3 and 3 * nl.nc(2) make an axis of both (nl.spmd_dim)."""

    def __init__(self, count: int) -> None:
        self.count = int(count)

    def __mul__(self, other: int) -> spmd_dim:
        return spmd_dim(self, other)

    def __rmul__(self, other: int) -> spmd_dim:
        return spmd_dim(other, self)


class spmd_dim:
    """An axis of the grid in parts, the last one fastest; a part may be cores."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def __mul__(self, other: Any) -> spmd_dim:
        return spmd_dim(*self.parts, other)

    def __rmul__(self, other: Any) -> spmd_dim:
        return spmd_dim(other, *self.parts)


class Grid:
    """The axes of a launch: sizes, and for every core the programs that it runs, in order."""

    def __init__(self, axes: tuple[Any, ...]) -> None:
        self.axes = axes
        self.sizes = tuple(_size(axis) for axis in axes)
        self.cores = 1
        for axis in axes:
            self.cores *= _cores(axis)

    def programs(self, core: int) -> list[tuple[int, ...]]:
        """Places in the grid that a core runs."""
        places = product(*map(range, self.sizes))
        return [place for place in places if self._core(place) == core]

    def _core(self, place: tuple[int, ...]) -> int:
        core = 0
        for axis, number in zip(self.axes, place, strict=True):
            core = core * _cores(axis) + _core_of(axis, number)
        return core


def _size(axis: Any) -> int:
    """How many programs an axis has; each of its parts has one at least."""
    parts = axis.parts if isinstance(axis, spmd_dim) else (axis,)
    counts = [part.count if isinstance(part, nc) else part for part in parts]
    for count in counts:
        if not hasattr(count, "__index__") or int(count) < 1:
            raise fail(
                "E108",
                f"kernel[{count!r}]: an axis of the grid is a positive number",
                error=TileTypeError,
                hint="launch at least one program along every axis: kernel[1](...)",
            )
    return prod(int(count) for count in counts)


def _cores(axis: Any) -> int:
    parts = (axis,) if isinstance(axis, nc) else axis.parts if isinstance(axis, spmd_dim) else ()
    count = 1
    for part in parts:
        count *= part.count if isinstance(part, nc) else 1
    return count


def _core_of(axis: Any, number: int) -> int:
    """The core of a number along an axis."""
    if isinstance(axis, nc):
        return number
    if not isinstance(axis, spmd_dim):
        return 0
    core, step = 0, 1
    for part in reversed(axis.parts):
        size = part.count if isinstance(part, nc) else int(part)
        if isinstance(part, nc):
            core += number % size * step
            step *= size
        number //= size
    return core

"""Regions through ops that only move elements: back to the operands that are needed, and on to the result.

MOVES are the ops that engines need not compute: transfers, access patterns and the Tensor engine do them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.bounds.region import Band, Indices, Region, at_least, box, everything, nothing
from tilewright.bounds.reshaping import reshaped
from tilewright.ir.core import Op


def narrowed(region: Region, shape: tuple[int, ...]) -> Region:
    """Elements of an operand that broadcasting brings to a region of the result."""
    if region.is_all:
        return everything(shape)
    lead = len(region.shape) - len(shape)
    repeated = [a for a in range(len(region.shape)) if a < lead or shape[a - lead] != region.shape[a]]
    if not repeated:
        return region
    if region.number is not None:
        if repeated == [region.lines]:
            return everything(shape)
        return Region(shape, number=-(-region.number // max(prod(region.shape[a] for a in repeated), 1)))
    sets: list[Indices] = []
    band = region.band
    for axis in range(lead, len(region.shape)):
        if axis not in repeated:
            sets.append(region.along(axis) if band is not None and _crosses(band, repeated) else region.sets[axis])
        else:
            sets.append(None)
    if not region.count:
        return nothing(shape)
    keep = band is not None and not _crosses(band, repeated)
    return Region(
        shape, sets, Band(band.row - lead, band.column - lead, band.low, band.high) if keep and band else None
    )


def _crosses(band: Band, axes: Sequence[int]) -> bool:
    return band.row in axes or band.column in axes


def widened(region: Region, shape: tuple[int, ...]) -> Region:
    """Where the elements of an operand are in a result that it is broadcast to."""
    if region.is_all:
        return everything(shape)
    lead = len(shape) - len(region.shape)
    factor = prod(shape) // max(region.size, 1)
    if region.number is not None:
        return Region(shape, number=region.number * factor)
    sets: list[Indices] = [None] * lead
    for n, s in zip(shape[lead:], region.sets, strict=True):
        sets.append(None if s is None else np.broadcast_to(s, (n,)))
    band = region.band
    if band is None:
        return Region(shape, sets)
    if any(shape[lead + a] != region.shape[a] for a in (band.row, band.column)):
        return Region(shape, number=region.count * factor)
    return Region(shape, sets, Band(band.row + lead, band.column + lead, band.low, band.high))


def sliced(region: Region, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> Region:
    """What of a region a slice has."""
    shape = tuple(sizes)
    if region.is_all:
        return everything(shape)
    if region.number is not None:
        return Region(shape, number=region.number - region.size + prod(shape))
    sets = [
        None if s is None else s[start + step * np.arange(size)]
        for s, start, size, step in zip(region.sets, starts, sizes, steps, strict=True)
    ]
    band = region.band
    if band is not None:
        if steps[band.row] != 1 or steps[band.column] != 1:
            inside = region.both(box(region.shape, starts, sizes, steps))
            return Region(shape, number=inside.count)
        moved = starts[band.column] - starts[band.row]
        low, high = (None if x is None else x - moved for x in (band.low, band.high))
        band = Band(band.row, band.column, low, high)
    return Region(shape, sets, band)


def placed(region: Region, shape: tuple[int, ...], starts: Sequence[int], steps: Sequence[int]) -> Region:
    """Where the elements of a slice are in the array that it was cut from."""
    if region.number is not None or (region.band is not None and any(steps[a] != 1 for a in _axes(region.band))):
        return at_least(shape, region.count)
    sets: list[Indices] = []
    for n, s, size, start, step in zip(shape, region.sets, region.shape, starts, steps, strict=True):
        chosen = np.zeros(n, bool)
        chosen[start + step * np.arange(size)] = True if s is None else s
        sets.append(chosen)
    band = region.band
    if band is not None:
        moved = starts[band.column] - starts[band.row]
        low, high = (None if x is None else x + moved for x in (band.low, band.high))
        band = Band(band.row, band.column, low, high)
    return Region(shape, sets, band)


def _axes(band: Band) -> tuple[int, int]:
    return band.row, band.column


def offsets(op: Op) -> list[int]:
    """Where each part of a concatenation begins."""
    sizes = [part.type.shape[op.attrs["axis"]] for part in op.operands]
    return [sum(sizes[:i]) for i in range(len(sizes))]


# Back: what of an operand a region of the result needs.


def _of_part(op: Op, region: Region, position: int) -> Region:
    shape, axis = op.operands[position].type.shape, op.attrs["axis"]
    starts = [offsets(op)[position] if a == axis else 0 for a in range(len(shape))]
    return sliced(region, starts, shape, (1,) * len(shape))


def _of_updated(op: Op, region: Region, position: int) -> Region:
    x, part = op.operands
    starts, steps = op.attrs["starts"], op.attrs["steps"]
    if position == 1:
        return sliced(region, starts, part.type.shape, steps)
    return region.outside(box(x.type.shape, starts, part.type.shape, steps))


def _of_windows(op: Op, region: Region, position: int) -> Region:
    x, axes = op.operands[0].type, op.attrs["axes"]
    if region.number is not None or region.band is not None:
        return at_least(x.shape, 1 if region.count else 0)
    sets: list[Indices] = list(region.sets[: x.rank])
    for place, axis in enumerate(axes):
        ends = np.flatnonzero(region.indices(axis)) * op.attrs["stride"][place]
        inner = np.flatnonzero(region.indices(x.rank + place)) * op.attrs["dilation"][place]
        chosen = np.zeros(x.shape[axis], bool)
        chosen[np.add.outer(ends, inner).ravel()] = True
        sets[axis] = chosen
    return Region(x.shape, sets)


BACK: dict[str, Callable[[Op, Region, int], Region]] = {
    "reshape": lambda op, region, _: reshaped(region, op.operands[0].type.shape),
    "transpose": lambda op, region, _: region.permuted(np.argsort(op.attrs["perm"]).tolist()),
    "broadcast_to": lambda op, region, _: narrowed(region, op.operands[0].type.shape),
    "slice": lambda op, region, _: placed(region, op.operands[0].type.shape, op.attrs["starts"], op.attrs["steps"]),
    "concatenate": _of_part,
    "pad": lambda op, region, _: sliced(
        region, op.attrs["low"], op.operands[0].type.shape, (1,) * len(op.attrs["low"])
    ),
    "update_slice": _of_updated,
    "windows": _of_windows,
    "cast": lambda op, region, _: region,
    "bitcast": lambda op, region, _: region,
}
"""How each move needs its operands: (op, region of the result, which operand) -> region of that operand."""

MOVES = frozenset(BACK)

ONE_SOURCE = frozenset({"reshape", "transpose", "broadcast_to", "slice"})
"""Moves whose result is made of the elements of one operand and nothing else."""


# On: where a result is not a known number.


def _joined(op: Op, regions: Sequence[Region]) -> Region:
    shape, axis = op.result.type.shape, op.attrs["axis"]
    made = nothing(shape)
    for region, start in zip(regions, offsets(op), strict=True):
        starts = [start if a == axis else 0 for a in range(len(shape))]
        made = made.either(placed(region, shape, starts, (1,) * len(shape)))
    return made


def _updated(op: Op, regions: Sequence[Region]) -> Region:
    x, part = regions
    starts, steps = op.attrs["starts"], op.attrs["steps"]
    kept = x.outside(box(x.shape, starts, part.shape, steps))
    return kept.either(placed(part, x.shape, starts, steps))


ON: dict[str, Callable[[Op, Sequence[Region]], Region]] = {
    "reshape": lambda op, regions: reshaped(regions[0], op.result.type.shape),
    "transpose": lambda op, regions: regions[0].permuted(op.attrs["perm"]),
    "broadcast_to": lambda op, regions: widened(regions[0], op.result.type.shape),
    "slice": lambda op, regions: sliced(regions[0], op.attrs["starts"], op.attrs["sizes"], op.attrs["steps"]),
    "concatenate": _joined,
    "pad": lambda op, regions: placed(regions[0], op.result.type.shape, op.attrs["low"], (1,) * len(op.attrs["low"])),
    "update_slice": _updated,
    "cast": lambda op, regions: regions[0],
}
"""Where the result of each move is not a known number: (op, where its operands are not) -> region of the result."""


def source_of(value: Any) -> Any:
    """The value that the elements of another one come from, views and copies of one array left out."""
    while value.producer is not None and value.producer.name in ONE_SOURCE:
        value = value.producer.operands[0]
    return value


def region_of_source(value: Any, region: Region) -> Region:
    """The region of `source_of(value)` that a region of the value is made of."""
    while value.producer is not None and value.producer.name in ONE_SOURCE:
        region = BACK[value.producer.name](value.producer, region, 0)
        value = value.producer.operands[0]
    return region

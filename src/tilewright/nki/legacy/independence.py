"""Independence of iterations: those of nl.affine_range, and the programs of a grid, may run in any order.

So no two of them write the same element, and none reads what another writes (err_unexpected_output_dependencies). Sums
are exempt: matmuls that add to PSUM, `+=`, nl.loop_reduce and nl.atomic_rmw. Accesses whose place only data decide are
not looked at. Equal accesses are found when they happen, overlaps of others when the loop ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.errors import Location
from tilewright.nki.legacy.faults import fault
from tilewright.nki.legacy.loop_index import Loop
from tilewright.tile.memory import Buffer
from tilewright.tile.record import Record
from tilewright.tile.view import View

Key = tuple[Buffer, int, tuple[int, ...], tuple[int, ...]]

# Elements of a tensor up to which overlaps are searched element by element.
_MOST_ELEMENTS = 10**8


def note_write(loops: Sequence[Loop], born: Mapping[Buffer, int], view: View, location: Location | None) -> None:
    """An instruction writes a tensor that was there before some of the running loops."""
    if view.dynamic is not None:
        return
    key: Key | None = None
    for loop in loops[born.get(view.buffer, 0) :]:
        if loop.outcome is None:
            continue
        if key is None:
            key = (view.buffer, view.offset, view.sizes, view.strides)
        writes: dict[Key, tuple[int, Location | None]] = loop.outcome
        found = writes.get(key)
        if found is None:
            writes[key] = (loop.iteration, location)
        elif found[0] != loop.iteration:
            _report(loop, view, location, "write to", found[0])
            writes[key] = (loop.iteration, location)


def note_reads(
    loops: Sequence[Loop],
    born: Mapping[Buffer, int],
    record: Record,
    operands: Sequence[Any],
    location: Location | None,
) -> None:
    """An instruction reads tensors that were there before some of the running loops."""
    for position, view in enumerate(operands):
        if view.__class__ is not View or position in record.written or view.dynamic is not None:
            continue
        for loop in loops[born.get(view.buffer, 0) :]:
            if not loop.outcome:
                continue
            found = loop.outcome.get((view.buffer, view.offset, view.sizes, view.strides))
            if found is not None and found[0] != loop.iteration:
                _report(loop, view, location, "read what another wrote to", found[0])


def _report(loop: Loop, view: View, location: Location | None, what: str, other: int) -> None:
    who = "programs of the grid" if loop.kind == "grid" else "iterations of an nl.affine_range loop"
    fault(
        "err_unexpected_output_dependencies",
        f"Unexpected output dependencies, different {who} {what} `{view.buffer.name}` at the same place "
        f"({other} and {loop.iteration})",
        (view.buffer.name or "tensor", view),
        hint="index it with the loop's index, or use nl.sequential_range"
        if loop.kind != "grid"
        else "index it with nl.program_id",
        location=location,
    )


def check_overlaps(loop: Loop) -> None:
    """When a loop ends: elements that accesses of different iterations have in common although they differ."""
    writes: dict[Key, tuple[int, Location | None]] = loop.outcome
    if len(writes) < 2:
        return
    by_buffer: dict[Buffer, list[tuple[Key, tuple[int, Location | None]]]] = {}
    for key, found in writes.items():
        by_buffer.setdefault(key[0], []).append((key, found))
    for buffer, accesses in by_buffer.items():
        if len(accesses) < 2 or len({found[0] for _, found in accesses}) < 2:
            continue
        patterns = tuple((key[1], key[2], key[3], found[0]) for key, found in accesses)
        at = _overlap(buffer.shape, buffer.strides, patterns)
        if at is not None:
            one, two = accesses[at[0]], accesses[at[1]]
            view = View(buffer, buffer.dtype, two[0][1], two[0][2], two[0][3])
            loop.iteration = two[1][0]
            _report(loop, view, two[1][1], "write to", one[1][0])


Pattern = tuple[int, tuple[int, ...], tuple[int, ...], int]


@lru_cache(maxsize=5000)
def _overlap(shape: tuple[int, ...], strides: tuple[int, ...], accesses: tuple[Pattern, ...]) -> tuple[int, int] | None:
    """Two accesses of different iterations that share an element."""
    if _aligned(shape, strides, accesses):
        return None
    elements = int(np.prod(shape, dtype=np.int64))
    if elements > _MOST_ELEMENTS:
        return None
    owner = np.zeros(elements, np.int32)
    for number, (offset, sizes, steps, iteration) in enumerate(accesses, 1):
        mine = np.lib.stride_tricks.as_strided(owner[offset:], sizes, [step * owner.itemsize for step in steps])
        for other in np.unique(mine):
            if other and accesses[other - 1][3] != iteration:
                return int(other) - 1, number - 1
        mine[...] = number
    return None


def _aligned(shape: tuple[int, ...], strides: tuple[int, ...], accesses: tuple[Pattern, ...]) -> bool:
    """True when all accesses are tiles of one grid over the tensor: different ones are then apart."""
    _, sizes, steps, _ = accesses[0]
    if any(each[1:3] != (sizes, steps) for each in accesses):
        return False
    extents = [1] * len(shape)
    for size, step in zip(sizes, steps, strict=True):
        if size == 1:
            continue
        if step not in strides:
            return False
        at = (
            max(dim for dim, stride in enumerate(strides) if stride == step and shape[dim] >= size)
            if any(stride == step and shape[dim] >= size for dim, stride in enumerate(strides))
            else -1
        )
        if at < 0 or extents[at] != 1:
            return False
        extents[at] = size
    places = np.array([each[0] for each in accesses])
    for stride, extent in zip(strides, extents, strict=True):
        if ((places // stride) % extent).any():
            return False
        places = places % stride
    return True

"""Placement: every buffer on chip gets an address, all copies of a loop's buffer included.

Buffers that are alive at the same time lie apart. Others may share a place; who comes second has to wait until the
first is done with it, so a new place is preferred to a used one, and one that has been left long ago to one just left.
Operands that pass through a few tiles are the exception: one after the other they take turns in one place, so that none
takes bandwidth from one that is due before it.

Lives are taken generously at first (what a loop allocates keeps its place for the whole loop) and exactly where that
does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tilewright.errors import TileValueError, fail
from tilewright.ir.core import Graph, Op
from tilewright.lower.order.packing import Request, Solver, greedy, may_fit
from tilewright.lower.order.placement_optimal import optimal_solver
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.builder import STREAMED
from tilewright.lower.write.extents import Extent, extents
from tilewright.target import Target
from tilewright.tile.costed import op_cost
from tilewright.tile.memory import PSUM, SBUF, Address, Buffer, MemoryRegion, usable_psum_banks
from tilewright.tile.record import Record
from tilewright.tile.view import View

GREEDY, OPTIMAL = "greedy", "optimal"

_ENOUGH = 3
"""Copies of a tile with which a loop can load, compute and store at the same time."""

Copies = dict[Extent, int]


def place(graph: Graph, target: Target, placement: str = GREEDY) -> str | None:
    """Give every buffer of a kernel in SBUF and PSUM its address; says what has no room, None where all have."""
    solver = _solver(placement)
    found = [each for each in extents(graph.body.ops) if each.buffer.address is None]
    bank, align = target["memory.psum_bank_bytes"], target["memory.sbuf_min_align"]
    for memory, units, room in (
        (SBUF, (TUNING.neat_bytes, align), target["memory.sbuf_usable_bytes"]),
        (PSUM, (bank,), usable_psum_banks(target) * bank),
    ):
        here = [each for each in found if each.buffer.memory is memory]
        if not _place(here, memory, units, room, solver, target):
            return f"has {len(here)} tiles in {memory.value} that cannot be laid out in {room} bytes per partition"
    return None


PLACEMENTS = (GREEDY, OPTIMAL)


def check_placement(placement: str) -> None:
    """Refuse a name that is not known, or what is not installed (E108)."""
    _solver(placement)


def _solver(placement: str) -> Solver:
    if placement == GREEDY:
        return greedy
    if placement == OPTIMAL:
        return optimal_solver()
    hint = f"one of: {', '.join(PLACEMENTS)}"
    raise fail("E108", f"placement is {placement!r}", hint=hint, error=TileValueError)


def _place(
    found: Sequence[Extent], memory: MemoryRegion, units: Iterable[int], room: int, solver: Solver, target: Target
) -> bool:
    """Places for the buffers of a memory; says whether there are."""
    alone = [[each] for each in found]
    turns = _turns(found)
    for copies in _numbers_of_copies(found, memory, room, target):
        for unit in units:
            for sets in (turns, alone) if len(turns) < len(alone) else (alone,):
                places = solver([_joint_request(some, copies, unit) for some in sets], room // unit)
                if places is not None:
                    for some, at in zip(sets, places, strict=True):
                        for each in some:
                            _settle(each, copies[each], at * unit, unit)
                    return True
    return False


def _turns(found: Sequence[Extent]) -> list[list[Extent]]:
    """Buffers that get one place together: streams, one after the other; every other one by itself."""
    sets: list[list[Extent]] = []
    streams: list[list[Extent]] = []
    for each in sorted(found, key=lambda each: each.nest):
        if each.buffer.name != STREAMED or each.copies == 1:
            sets.append([each])
            continue
        before = next((some for some in streams if some[-1].nest[1] < each.nest[0]), None)
        if before is None:
            streams.append([each])
        else:
            before.append(each)
    return [*sets, *streams]


def _joint_request(some: Sequence[Extent], copies: Copies, unit: int) -> Request:
    """A place for all of some buffers, for as long as one of them needs it."""
    each = [_request(extent, copies[extent], unit) for extent in some]
    life = min(request.life[0] for request in each), max(request.life[1] for request in each)
    wide = min(request.wide[0] for request in each), max(request.wide[1] for request in each)
    return Request(max(request.units for request in each), life, wide)


def _numbers_of_copies(found: Sequence[Extent], memory: MemoryRegion, room: int, target: Target) -> Iterator[Copies]:
    """How many copies the tiles of loops may have, what is best first: in the end one of each."""
    asked = {each: each.copies for each in found}
    if memory is PSUM:
        yield _with_spare(found, room, target)
    elif fewer := _undivided(found, room):
        yield fewer
    while True:
        yield asked
        widest = max((each for each in found if asked[each] > 1), key=lambda each: each.buffer.row_bytes, default=None)
        if widest is None:
            return
        asked[widest] -= 1


def _undivided(found: Sequence[Extent], room: int) -> Copies | None:
    """Fewer copies, where there are many, so that tiles of a loop need not share places; None where that does not do.

    Two tiles of a loop in one place keep its trips from overlapping.
    """
    copies = {each: each.copies for each in found}
    while not may_fit(
        [_request(each, copies[each], TUNING.neat_bytes) for each in found], room // TUNING.neat_bytes, generous=True
    ):
        many = [each for each in found if copies[each] > _ENOUGH]
        if not many:
            return None
        copies[max(many, key=lambda each: copies[each] * each.buffer.row_bytes)] -= 1
    return copies


def _with_spare(found: Sequence[Extent], room: int, target: Target) -> Copies:
    """Copies with those that there are banks for besides: what takes longest to be emptied gets one more, in turn."""
    bank = target["memory.psum_bank_bytes"]
    copies = {each: each.copies for each in found}
    size = {each: -(-each.buffer.row_bytes // bank) for each in found}
    waiting = [each for each in found if each.loop != each.life]
    emptying = {each: each.most * _emptying_ns(each.buffer, target) for each in waiting}
    while waiting:
        each = max(waiting, key=lambda each: emptying[each] / copies[each])
        start, end = each.nest
        taken = sum(copies[other] * size[other] for other in found if other.nest[0] <= end and other.nest[1] >= start)
        # A copy pays when all of them are used more than once.
        if (taken + size[each]) * bank > room or each.most <= 2 * copies[each]:
            waiting.remove(each)
        else:
            copies[each] += 1
    return copies


def _emptying_ns(buffer: Buffer, target: Target) -> float:
    """How long engines take to read a tile."""
    total = 0.0
    for op in buffer.uses:
        if isinstance(op.definition, Record) and any(v.buffer is buffer for v in _read(op)):
            total += op_cost(op, target)[1].interval_ns
    return total


def _read(op: Op) -> Iterator[View]:
    record: Record = op.definition
    for spec, operand in zip(record.operands.values(), op.operands, strict=False):
        if isinstance(operand, View) and spec.reads and not spec.writes:
            yield operand


def _request(extent: Extent, copies: int, unit: int) -> Request:
    life = extent.life if copies == 1 else extent.loop
    return Request(copies * -(-extent.buffer.row_bytes // unit), life, extent.nest)


def _settle(extent: Extent, copies: int, byte: int, unit: int) -> None:
    buffer = extent.buffer
    apart = -(-buffer.row_bytes // unit) * unit
    buffer.depth = copies
    buffer.address = Address(0, byte, apart if copies > 1 and apart != buffer.row_bytes else 0)


# Greedy: one after the other, each where its neighbours in time are furthest away.

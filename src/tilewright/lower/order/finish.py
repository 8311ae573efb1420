"""The end of lowering: tiles get their places, and what the clock says about the whole kernel is done to it.

Where two instructions wait for each other is known only when all of them are written and every tile has its place. Each
change is made to the whole kernel, timed, and taken back if it gains nothing. All of it gains a few percent: forms of a
program are compared before, and only the one that is taken gets here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import inf, log2

from tilewright.ir.core import Graph, Op
from tilewright.ir.walk import walk
from tilewright.lower.decisions import decided
from tilewright.lower.order.account import account
from tilewright.lower.order.array_parts import has_few_rows, in_parts
from tilewright.lower.order.order import in_order, straight_ns
from tilewright.lower.order.placement import place
from tilewright.lower.order.psum_operands import Change, read_in_psum, redo, undo
from tilewright.lower.order.rebalance import Clock, rebalance
from tilewright.lower.order.straight import StraightLoops, executed
from tilewright.lower.order.together import TripsTogether
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.builder import copies_psum
from tilewright.lower.write.occupancy import occupancy
from tilewright.target import Target
from tilewright.tile.memory import Buffer
from tilewright.tile.ops import ALLOC, FOR


class Kernel:
    """A kernel whose tiles are given places more than once."""

    def __init__(self, graph: Graph, target: Target, placement: str) -> None:
        self.graph, self.target, self.placement = graph, target, placement
        made = [op.result for op in walk(graph) if op.definition is ALLOC]
        self.depths = {buffer: buffer.depth for buffer in made if isinstance(buffer, Buffer) and buffer.address is None}
        self.size = sum(1 for _ in walk(graph))

    def place(self) -> str | None:
        """Places for all tiles as they are now; says what has no room."""
        for buffer, depth in self.depths.items():
            buffer.address, buffer.depth = None, depth
        return occupancy(self.graph, self.target).misfit(self.target) or place(self.graph, self.target, self.placement)


def finish(kernel: Kernel, clock: Clock, profile: str, known: float | None) -> dict[Op, list[Op]]:
    """Do what makes a kernel faster whose tiles have their places; says which ops took the place of loops.

    profile: whose rules it keeps. known: how long it takes, where that was asked.
    """
    graph, target = kernel.graph, kernel.target
    replaced: dict[Op, list[Op]] = {}
    taken = account(graph.body.ops, target)
    if taken.instructions > TUNING.timed_instructions:
        return replaced
    best = _in_parts(kernel, clock, known) if has_few_rows(graph, target) else known
    changes = [] if copies_psum(profile) else read_in_psum(graph, target)
    undo(changes)
    straight = straight_ns(graph.body.ops, target) >= TUNING.much_straight * max(taken.engine_ns.values(), default=0.0)
    # Short kernels stay in the order of their program, for who reads them.
    unordered = straight and kernel.size >= TUNING.long_text
    if changes or unordered:
        best = clock(graph.body.ops) if best is None else best
        best = _without_copies(kernel, changes, clock, best) if changes else best
        if unordered:
            best = _in_order(kernel, clock, best)
            best = _written_out(kernel, clock, best, replaced)
    if not replaced:
        best = _together(kernel, clock, best, replaced)
    rebalance(graph, target, clock, profile, best)
    return replaced


def _in_parts(kernel: Kernel, clock: Clock, known: float | None) -> float:
    """Let products of few rows share the array where that gains something; the time. known: what it is as written."""
    best = clock(kernel.graph.body.ops) if known is None else known
    parts = in_parts(kernel.graph, kernel.target)
    is_able = parts.are_legal(kernel.target) and kernel.place() is None
    if is_able and (time := clock(kernel.graph.body.ops)) < best * (1 - TUNING.parts_gain):
        decided("order: parts of the array")
        return time
    parts.undo()
    kernel.place()
    return best


def _without_copies(kernel: Kernel, changes: Sequence[Change], clock: Clock, best: float) -> float:
    redo(changes)
    if kernel.place() is None and (time := clock(kernel.graph.body.ops)) < best:
        decided("order: read in PSUM")
        _drop_unused(change.copy.operands[0].buffer for change in changes)
        return time
    undo(changes)
    kernel.place()
    return best


def _drop_unused(buffers: Iterable[Buffer]) -> None:
    """Take away tiles that nobody writes or reads."""
    for buffer in dict.fromkeys(buffers):
        if not buffer.uses and buffer.producer is not None:
            buffer.producer.erase()


def _in_order(kernel: Kernel, clock: Clock, best: float) -> float:
    body = kernel.graph.body
    before = list(body.ops)
    body.ops[:] = in_order(before, kernel.target)
    if kernel.place() is None and (time := clock(body.ops)) < best * (1 - TUNING.least_gain):
        decided("order: as it starts")
        best = time
    else:
        body.ops[:] = before
        kernel.place()
    return best


def _written_out(kernel: Kernel, clock: Clock, best: float, replaced: dict[Op, list[Op]]) -> float:
    """Write loops out where their instructions, in the order in which they would start, are done sooner; the time."""
    body, windows = kernel.graph.body, (inf, TUNING.ahead_of_others)
    count = executed(body.ops)
    if not any(op.definition is FOR for op in body.ops) or count * len(windows) > TUNING.rebalanced:
        return best
    loops = StraightLoops(body)
    loops.replace()
    kernel.depths.update(dict.fromkeys(loops.tiles, 1))
    straight, found = body.ops, None
    for window in windows:
        body.ops = in_order(straight, kernel.target, window)
        if kernel.place() is None and (time := clock(body.ops)) < best * (1 - TUNING.least_gain):
            best, found = time, body.ops
    if found is None:
        loops.undo()
        for buffer in loops.tiles:
            del kernel.depths[buffer]
    else:
        decided("order: loops written out")
        body.ops = found
        replaced.update(loops.made)
    kernel.place()
    return best


def _together(kernel: Kernel, clock: Clock, known: float | None, replaced: dict[Op, list[Op]]) -> float | None:
    """Write several trips of loops together, in the order in which they could start, where that is done sooner; the
    time. known: what it is as written, where that was asked."""
    body = kernel.graph.body
    if not any(op.definition is FOR for op in body.ops):
        return known
    best, found = clock(body.ops) if known is None else known, None
    least, length = best, _length(kernel)
    for most, staggered in product(TUNING.trips_together, (False, True)):
        loops = TripsTogether(kernel.target, most, staggered)
        loops.replace(body)
        kernel.depths.update(loops.depths)
        time = clock(body.ops) if kernel.place() is None else inf
        # Who reads it has more to read.
        weighed = time * (1 + TUNING.together_gain * max(log2(_length(kernel) / length), 0.0))
        _back(kernel, loops)
        if weighed < least * (1 - (TUNING.together_gain if found is None else TUNING.least_gain)):
            best, least, found = time, weighed, (most, staggered)
    if found is not None:
        decided("order: trips together")
        loops = TripsTogether(kernel.target, *found)
        loops.replace(body)
        kernel.depths.update(loops.depths)
        replaced.update(loops.made)
    kernel.place()
    return best


def _length(kernel: Kernel) -> int:
    return sum(1 for _ in walk(kernel.graph))


def _back(kernel: Kernel, loops: TripsTogether) -> None:
    loops.undo()
    for buffer in loops.depths:
        del kernel.depths[buffer]

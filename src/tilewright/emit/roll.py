"""Loops for repetitions: ops that follow each other and differ only in where they access become one loop.

    matmul(acc, left[:, 0], right[:, 0])
    matmul(acc, left[:, 1], right[:, 1])        ->      for j in range(3): matmul(acc, left[:, j], right[:, j])
    matmul(acc, left[:, 2], right[:, 2])

A repetition may allocate tiles of its own, which nothing outside of it uses; their addresses move evenly too. The
stream of executed instructions stays the same. Transfers are left as they are: each line of them has its own queue.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.emit.places import move
from tilewright.emit.similar import Item, similar_items
from tilewright.ir.core import Graph, Op, Region, Value
from tilewright.tile.memory import Buffer
from tilewright.tile.ops import ALLOC, ROLLED, loop
from tilewright.tile.record import Record
from tilewright.tile.view import View

_LONGEST = 40
"""Ops of a repetition at most."""

_FEWEST = 3
"""Repetitions that are worth a loop; fewer are when it saves as many lines."""


_ROLLED = {ROLLED: True}


def is_rolled(loop: Op) -> bool:
    """Whether a loop was made here: the tiles of its trips are tiles of their own."""
    return loop.attrs is _ROLLED


def roll(graph: Graph) -> Graph:
    """Make loops where ops repeat themselves; `graph` is changed."""
    _roll(graph.body)
    return graph


def _roll(region: Region) -> None:
    for op in region.ops:
        for inner in op.regions:
            _roll(inner)
    items = similar_items(region.ops)
    period = 1
    while period <= _LONGEST:
        ops = _roll_period(region, items, period)
        if len(ops) == len(items):
            period += 1
            continue
        # What became a loop may repeat itself.
        items, period = similar_items(ops), 1
    region.ops[:] = [item.op for item in items]


def _roll_period(region: Region, items: list[Item], period: int) -> list[Op]:
    """Make loops of all repetitions of so many ops."""
    made: list[Op] = []
    at = 0
    # Most ops are not like the one that stands a period later.
    starts = [i for i in range(len(items) - period) if items[i].kind == items[i + period].kind]
    for start in starts:
        if start < at:
            continue
        count = _repetitions(items, start, period)
        if count == 1:
            continue
        body = items[start : start + period]
        saved = (count - 1) * sum(_lines(item.op) for item in body) - 1
        if (count >= _FEWEST or saved >= _FEWEST) and not any(_has_transfer(item.op) for item in body):
            made += [item.op for item in items[at:start]]
            at = start + count * period
            made.append(_looped(region, items[start:at], period, count))
    return made + [item.op for item in items[at:]]


def _has_transfer(op: Op) -> bool:
    if isinstance(op.definition, Record):
        return "dma" in op.definition.engines
    return any(_has_transfer(inner) for region in op.regions for inner in region.ops)


def _lines(op: Op) -> int:
    return 1 + sum(_lines(inner) for region in op.regions for inner in region.ops)


def _repetitions(items: list[Item], at: int, period: int) -> int:
    """How often the ops from `at` on repeat themselves, every access moving by the same amount each time."""
    count = 1
    while _repeats(items, at, at + count * period, period):
        count += 1
    return count if all(item.last_use < at + period for item in items[at : at + period]) else 1


def _repeats(items: list[Item], at: int, start: int, period: int) -> bool:
    """Whether the ops from `start` on are those from `at` on once more."""
    if start + period > len(items):
        return False
    for i in range(period):
        first, second, before, item = [items[k + i] for k in (at, at + period, start - period, start)]
        if item.kind != first.kind or item.last_use >= start + period:
            return False
        if item.steps(before) != second.steps(first):
            return False
        for (mine, made), (theirs, home) in zip(item.uses, first.uses, strict=True):
            # Made in the run: at the same place of its own repetition; made before it: the same value.
            if made >= at:
                if made - start != home - at:
                    return False
            elif mine is not theirs:
                return False
    return True


def _looped(region: Region, items: list[Item], period: int, count: int) -> Op:
    """The loop that stands for `items`: its body are the first of them, the others end here."""
    made, index = loop(count, name="j")
    made.attrs = _ROLLED
    made.location = items[0].op.location
    for item in items:
        item.op.unregister()
    for item in items[period:]:
        item.op.drop_inner_uses()
    for one, two in zip(items[:period], items[period:], strict=False):
        _move(one.op, index, iter(two.steps(one)))
        made.regions[0].append(one.op)
    made.register(region)
    return made


def _move(op: Op, index: Value, steps: Iterator[int]) -> None:
    """Let every view and address of an op, and of a loop's body, move by its step with `index`."""
    if op.definition is ALLOC:
        buffer = op.result
        assert isinstance(buffer, Buffer)
        if buffer.address is not None:
            move(op, index, next(steps))
        return
    for inner in [each for region in op.regions for each in region.ops]:
        _move(inner, index, steps)
    op.replace_operands([_moved(x, index, next(steps)) if isinstance(x, View) else x for x in op.operands])


def _moved(view: View, index: Value, step: int) -> View:
    if not step:
        return view
    terms = (*view.terms, (index, step))
    return View(view.buffer, view.dtype, view.offset, view.sizes, view.strides, terms, view.dynamic)

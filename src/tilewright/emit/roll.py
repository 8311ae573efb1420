"""Loops for repetitions: instructions that follow each other and differ only in where they access become one loop.

    matmul(acc, left[:, 0], right[:, 0])
    matmul(acc, left[:, 1], right[:, 1])        ->      for j in range(3): matmul(acc, left[:, j], right[:, j])
    matmul(acc, left[:, 2], right[:, 2])

The stream of executed instructions stays the same. Transfers are left as they are: each of them has its own queue.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from tilewright.ir.core import Graph, Op, Region, Value
from tilewright.tile.ops import FOR, loop, trips
from tilewright.tile.record import Record
from tilewright.tile.view import View

_LONGEST = 16
"""Instructions of a repetition at most."""

_FEWEST = 3
"""Repetitions that are worth a loop; fewer are when it saves as many lines."""


def roll(graph: Graph) -> Graph:
    """A copy of the kernel with loops where instructions repeat themselves."""
    made = graph.clone()
    _roll(made.body)
    return made


def _roll(region: Region) -> None:
    for op in region.ops:
        for inner in op.regions:
            _roll(inner)
    items = [_Item(op) for op in region.ops]
    period = 1
    while period <= _LONGEST:
        made = _roll_period(region, items, period)
        # What became a loop may repeat itself.
        period = period + 1 if len(made) == len(items) else 1
        items = made
    region.ops[:] = [item.op for item in items]


class _Item:
    """An op with everything about it but where its views start (None for what stays out of loops), and these places."""

    __slots__ = ("op", "places", "shape")

    def __init__(self, op: Op) -> None:
        self.op = op
        self.shape = _shape(op)
        self.places = list(_offsets(op))


def _roll_period(region: Region, items: list[_Item], period: int) -> list[_Item]:
    """Make loops of all repetitions of so many ops."""
    made: list[_Item] = []
    at = 0
    while at < len(items):
        count = _repetitions(items, at, period)
        saved = (count - 1) * sum(_lines(item.op) for item in items[at : at + period]) - 1 if count > 1 else 0
        if saved > 0 and (count >= _FEWEST or saved >= _FEWEST):
            made.append(_Item(_looped(region, items[at : at + count * period], period, count)))
            at += count * period
        else:
            made.append(items[at])
            at += 1
    return made


def _repetitions(items: list[_Item], at: int, period: int) -> int:
    """How often the ops from `at` on repeat themselves, every access moving by the same amount each time."""
    count = 1
    while True:
        start = at + count * period
        if start + period > len(items):
            return count
        for i in range(period):
            first, second, one, two = [items[k + i] for k in (at, at + period, start - period, start)]
            if first.shape is None or first.shape != two.shape or _steps(one, two) != _steps(first, second):
                return count
        count += 1


def _steps(one: _Item, two: _Item) -> list[int]:
    return [b - a for a, b in zip(one.places, two.places, strict=True)]


def _shape(op: Op) -> Hashable:
    if op.definition is FOR:
        inner = tuple([_shape(each) for each in op.regions[0].ops])
        index = op.regions[0].arguments[0]
        return None if None in inner else (trips(op), _without(inner, index))
    record = op.definition
    if not isinstance(record, Record) or "dma" in record.engines:
        return None
    operands = tuple([_operand_shape(operand) for operand in op.operands])
    return record.name, operands, tuple(map(repr, op.attrs.values())), op.location


def _operand_shape(operand: Any) -> Hashable:
    if not isinstance(operand, View):
        return operand.__class__, operand if isinstance(operand, Value) else repr(operand)
    dynamic = operand.dynamic
    held = None
    if dynamic is not None:
        index = dynamic.index
        held = (dynamic.kind, dynamic.stride, dynamic.limit, index if isinstance(index, Value) else _access(index))
    return operand.buffer, operand.dtype, operand.sizes, operand.strides, operand.terms, held


def _access(view: View) -> Hashable:
    return _operand_shape(view), view.offset


def _without(shape: Any, index: Value) -> Any:
    """The shape of a loop's body with a stand-in for its index, so that equal loops have equal shapes."""
    if isinstance(shape, tuple):
        return tuple([_without(each, index) for each in shape])
    return "index" if shape is index else shape


def _offsets(op: Op) -> Iterator[int]:
    """Where the views of an op, or of a loop's body, start."""
    for region in op.regions:
        for inner in region.ops:
            yield from _offsets(inner)
    for operand in op.operands:
        if isinstance(operand, View):
            yield operand.offset


def _lines(op: Op) -> int:
    return 1 + sum(_lines(inner) for region in op.regions for inner in region.ops)


def _looped(region: Region, items: list[_Item], period: int, count: int) -> Op:
    """The loop that stands for `items`: its body are the first of them, the others end here."""
    made, index = loop(count, name="j")
    made.location = items[0].op.location
    for item in items:
        item.op.unregister()
    for item in items[period:]:
        item.op.drop_inner_uses()
    for one, two in zip(items[:period], items[period:], strict=False):
        _move(one.op, index, iter(_steps(one, two)))
        made.regions[0].append(one.op)
    made.register(region)
    return made


def _move(op: Op, index: Value, steps: Iterator[int]) -> None:
    """Let every view of an op, and of a loop's body, move by its step with `index`."""
    for inner in [each for region in op.regions for each in region.ops]:
        _move(inner, index, steps)
    op.replace_operands([_moved(x, index, next(steps)) if isinstance(x, View) else x for x in op.operands])


def _moved(view: View, index: Value, step: int) -> View:
    if not step:
        return view
    terms = (*view.terms, (index, step))
    return View(view.buffer, view.dtype, view.offset, view.sizes, view.strides, terms, view.dynamic)

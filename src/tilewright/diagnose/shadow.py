"""Tile IR run on spreads: what every buffer can hold, instruction by instruction, by the records' own meanings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.diagnose.choices import chosen, gathered, scatter
from tilewright.diagnose.spread import PAIR, Order, Spread, Unfollowed, lifted, spread
from tilewright.dtypes import DType
from tilewright.ir.core import Graph, Op, Value
from tilewright.sim.threads import one_thread
from tilewright.target import Target
from tilewright.tile.memory import Buffer
from tilewright.tile.record import Call, Record
from tilewright.tile.view import View, same_access, whole
from tilewright.tile.visit import Visitor

Box = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""Offset, last element, sizes and strides of an access."""


class Shelf:
    """The intervals of a buffer's elements, which matmul sums they hold, and the order known of parts of them."""

    def __init__(self, buffer: Buffer) -> None:
        count = int(np.prod(buffer.shape))
        self.pairs = np.full(count, np.nan, PAIR)
        self.summed = np.zeros(count, bool)
        self.orders: dict[Box, Order] = {}

    def at(self, view: View, offset: int, flat: np.ndarray) -> np.ndarray:
        """The entries of an access as a view on `flat`."""
        strides = [stride * flat.itemsize for stride in view.strides]
        return np.ndarray(view.sizes, flat.dtype, flat, offset * flat.itemsize, strides)  # type: ignore[arg-type]


class ShadowRun(Visitor):
    """One run of a kernel on spreads.

    before(op): told which instruction comes. store(value, dtype): a value as a buffer of that type holds it.
    refuse(op, why): told of an instruction that cannot be followed; what it writes may be anything. after(op, view,
    pairs): told what an instruction has written.
    """

    def __init__(
        self,
        target: Target,
        before: Callable[[Op], None],
        store: Callable[[Spread, DType], Spread],
        refuse: Callable[[Op, str], None],
        after: Callable[[Op, View, np.ndarray], None] | None = None,
    ) -> None:
        self.target = target
        self.before, self.store, self.refuse, self.after = before, store, refuse, after
        self.shelves: dict[Buffer, Shelf] = {}
        self.values: dict[Value, Any] = {}
        self.state: dict[str, dict[str, Any]] = {}
        self.skips = False

    def run(self, graph: Graph, inputs: dict[Buffer, Spread]) -> None:
        """Run a kernel on these inputs."""
        for buffer, value in inputs.items():
            shelf = self.shelf(buffer)
            shelf.pairs[...] = value.pairs.reshape(-1)
            if value.order is not None:
                shelf.orders[_box(whole(buffer), 0)] = value.order
        with np.errstate(all="ignore"), one_thread():
            self.region(graph.body)

    # What a visitor says.

    def alloc(self, op: Op, buffer: Buffer) -> None:
        self.shelves[buffer] = Shelf(buffer)

    def dealloc(self, op: Op, buffer: Buffer) -> None:
        self.shelves.pop(buffer, None)

    def trip(self, index: Value, position: int) -> None:
        self.values[index] = position

    def register(self, op: Op) -> None:
        offset = op.attrs["offset"]
        held = [self.values.get(register) for register in op.operands]
        known = offset is not None and None not in held
        pairs = zip(held, op.attrs["factors"], strict=True)
        self.values[op.result] = offset + sum(number * factor for number, factor in pairs) if known else None  # type: ignore[operator]

    def instruction(self, op: Op) -> None:
        self.before(op)
        record: Record = op.definition
        self.skips = op.attrs.get("oob_mode") == "skip"
        try:
            inputs = self._inputs(op)
            made = record.meaning(*inputs, *self._arguments(op))
            self._store(op, list(made) if isinstance(made, tuple) else [made])
        except (Unfollowed, TypeError, ValueError, IndexError, AttributeError) as why:
            self.refuse(op, str(why))
            self._forget(op)

    def _store(self, op: Op, results: Sequence[Any]) -> None:
        record: Record = op.definition
        for position, value in zip(record.written, results, strict=True):
            view = op.operands[position]
            if isinstance(view, View) and value is not None:
                self._write(op, view, lifted(value))
                if self.after is not None and view.dynamic is None:
                    shelf = self.shelf(view.buffer)
                    self.after(op, view, shelf.at(view, self._offset(view), shelf.pairs))
            elif isinstance(view, Value):
                self.values[view] = _number(value)

    # Reading and writing.

    def shelf(self, buffer: Buffer) -> Shelf:
        """The shelf of a buffer, made at its first use."""
        if buffer not in self.shelves:
            self.shelves[buffer] = Shelf(buffer)
        return self.shelves[buffer]

    def _inputs(self, op: Op) -> list[Any]:
        found: list[Any] = []
        seen: list[tuple[View, Spread]] = []
        for position, many, flat, _ in op.definition.steps:
            operand = op.operands[position]
            if many:
                found.append([self.read(each) for each in op.operands[position:]])
            elif isinstance(operand, View):
                known = next((value for view, value in seen if same_access(view, operand)), None)
                value = self.read(operand) if known is None else known
                seen.append((operand, value))
                found.append(value.reshape(value.shape[0], -1) if flat and value.ndim != 2 else value)
            elif isinstance(operand, Value):
                if self.values.get(operand) is None:
                    raise Unfollowed("a register whose number is not known")
                found.append(self.values[operand])
            else:
                found.append(operand)
        return found

    def read(self, view: View) -> Spread:
        """What an access can hold."""
        shelf = self.shelf(view.buffer)
        if view.dtype.np != view.buffer.dtype.np:
            raise Unfollowed(f"{view.buffer.name} is looked at as {view.dtype}")
        if view.dynamic is not None:
            choices = view.choices()
            return gathered(view, shelf.at(choices, self._offset(choices), shelf.pairs), self._rows(view))
        offset = self._offset(view)
        pairs = shelf.at(view, offset, shelf.pairs)
        value = pairs.copy().view(Spread)
        value.logical = view.dtype.np
        box = _box(view, offset)
        # Whoever reads the same elements again gets the same array.
        value.order = shelf.orders.get(box)
        shelf.orders[box] = value.known_order()
        return value

    def _rows(self, view: View) -> np.ndarray | None:
        return chosen(view, self.read, self.values, self.skips)

    def _offset(self, view: View) -> int:
        held = [self.values.get(value) for value, _ in view.terms]
        if any(each is None or isinstance(each, Spread) for each in held):
            raise Unfollowed(f"where {view.buffer.name} is accessed is not known")
        return int(view.offset + sum(number * factor for number, (_, factor) in zip(held, view.terms, strict=True)))  # type: ignore[operator]

    def _write(self, op: Op, view: View, value: Spread) -> None:
        shelf = self.shelf(view.buffer)
        if view.dtype.np != view.buffer.dtype.np:
            self.refuse(op, f"{view.buffer.name} is written as {view.dtype}")
            self._forget(op)
            return
        order = value.order if value.shape == view.sizes else None
        stored = self.store(value, view.dtype)
        pairs = (
            np.broadcast_to(stored.pairs, view.sizes) if stored.size != view.size else stored.pairs.reshape(view.sizes)
        )
        if view.dynamic is not None:
            choices = view.choices()
            scatter(view, shelf.at(choices, self._offset(choices), shelf.pairs), pairs, self._rows(view))
            shelf.orders.clear()
            return
        offset = self._offset(view)
        held = shelf.at(view, offset, shelf.pairs)
        if op.definition.accumulates:
            pairs = self._accumulated(op, shelf, view, offset, pairs)
            order = None
        held[...] = pairs
        box = _box(view, offset)
        shelf.orders = {key: each for key, each in shelf.orders.items() if key[1] < box[0] or box[1] < key[0]}
        if order is not None and view.dtype.np == np.float32:
            shelf.orders[box] = order

    def _accumulated(self, op: Op, shelf: Shelf, view: View, offset: int, pairs: np.ndarray) -> np.ndarray:
        """A matmul adds to what matmuls wrote before."""
        summed = shelf.at(view, offset, shelf.summed)
        mode = op.attrs["accumulate"]
        adds = np.zeros(view.sizes, bool) if mode is False else summed | bool(mode)
        made = pairs
        if adds.any():
            held = shelf.at(view, offset, shelf.pairs).copy().view(Spread)
            total = np.add(held, pairs.copy().view(Spread))
            made = np.where(adds, np.asarray(total.pairs), pairs)
        summed[...] = True
        return made

    def _forget(self, op: Op) -> None:
        for position in op.definition.written:
            view = op.operands[position]
            if isinstance(view, View):
                shelf = self.shelf(view.buffer)
                shelf.pairs[...] = (np.nan, np.nan)
                shelf.orders.clear()
            elif isinstance(view, Value):
                self.values[view] = None

    def _registers(self) -> dict[str, Any]:
        """What an engine holds between instructions: its accumulators can hold intervals too."""
        return {"held": spread(np.zeros((self.target["limits.partitions"], 1)), 0.0)}

    def _arguments(self, op: Op) -> list[Any]:
        """What a meaning gets besides its operands."""
        record: Record = op.definition
        call = Call(record, op.operands, op.attrs, self.target)
        call.resolve_engine()
        view = op.operands[record.written[0] if record.written else 0]
        named = zip(record.operands, op.operands, strict=False)
        special: dict[str, Callable[[], Any]] = {
            "dtypes": lambda: {key: operand.dtype for key, operand in named if isinstance(operand, View)},
            "dtype": lambda: view.dtype,
            "target": lambda: self.target,
            "report": lambda: _silent,
            "state": lambda: self.state.setdefault(call.engine, self._registers()),
            "resolved_engine": lambda: call.engine,
            "shape": lambda: view.sizes,
            "lane": lambda: view.start_partition,
        }
        return [op.attrs[name] if name in record.attrs else special[name]() for name in record.asked]


def _box(view: View, offset: int) -> Box:
    reach = sum((size - 1) * stride for size, stride in zip(view.sizes, view.strides, strict=True) if stride > 0)
    return offset, offset + reach, view.sizes, view.strides


def _number(value: Any) -> Any:
    known = lifted(value)
    return float(known) if known.is_point else known


def _silent(*_args: Any, **_details: Any) -> None:
    """What a meaning reports of numbers is looked at in intervals."""

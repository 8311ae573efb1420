"""Verification of a kernel in tile IR: structure, every instruction's static rules, bounds over all loop indices,
lifetimes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

import numpy as np

from tilewright.errors import ERROR, Diagnostic, Location, NkiValidationError, TileIndexError
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.verify import verify
from tilewright.ir.walk import walk as walk_ops
from tilewright.rules import Reporter, restore_reporter, use_reporter
from tilewright.target import Target, get_target
from tilewright.tile.addresses import address_faults
from tilewright.tile.conflicts import RULE, conflicts
from tilewright.tile.memory import IN_PARTS, SBUF, Buffer, hbm_fault
from tilewright.tile.ops import ALLOC
from tilewright.tile.record import Record
from tilewright.tile.text import reach
from tilewright.tile.verdict import Verifier
from tilewright.tile.view import View
from tilewright.tile.visit import Visitor


def verify_graph(graph: Graph, target: str | Target | None = None, profile: str = "strict") -> list[Diagnostic]:
    """All findings about a kernel in tile IR, none raised."""
    machine = get_target(target)
    found = verify(graph) or [*_header(graph), *_hbm(graph, machine)]
    if found:
        return found
    walk = _Walk(machine, Reporter(profile, collect=True))
    token = use_reporter(walk.reporter)
    try:
        # Rules may look at what an immediate is in float32.
        with np.errstate(all="ignore"):
            walk.region(graph.body)
        walk.leaks(graph)
    finally:
        restore_reporter(token)
    return walk.reporter.diagnostics


def _header(graph: Graph) -> Iterator[Diagnostic]:
    """Inputs and outputs of a kernel are tensors, and they lie in HBM (R-tensor-14)."""
    for what, values in (("takes", graph.inputs), ("returns", graph.outputs)):
        for value in values:
            if not isinstance(value, Buffer):
                message = f"kernel {graph.name} {what} %{value.name}, which is no tensor"
                yield Diagnostic("E221", message, location=graph.location)
            elif value.on_chip:
                message = f"kernel {graph.name} {what} %{value.name}, which is in {value.memory.value}"
                hint = "inputs and outputs are tensors in HBM"
                yield Diagnostic("E101", message, "R-tensor-14", hint=hint, location=graph.location)


def _hbm(graph: Graph, target: Target) -> Iterator[Diagnostic]:
    """All tensors in HBM together have room there."""
    made = [op.result for op in walk_ops(graph) if op.definition is ALLOC]
    held = {x for x in (*graph.inputs, *graph.declared, *made) if isinstance(x, Buffer) and not x.on_chip}
    fault = hbm_fault(sum(buffer.row_bytes for buffer in held), target)
    if fault is not None:
        yield Diagnostic("E303", f"the tensors of {graph.name} {fault}", hint=IN_PARTS, location=graph.location)


def check_graph(graph: Graph, target: Target, profile: str) -> None:
    """Raise the first error that `verify_graph` finds."""
    raise_first(verify_graph(graph, target, profile))


def raise_first(found: Iterable[Diagnostic]) -> None:
    """Raise the first error among findings, if there is one."""
    for each in found:
        if each.severity == ERROR:
            raise (TileIndexError if each.code == "E301" else NkiValidationError)(each)


class _Walk(Visitor):
    def __init__(self, target: Target, reporter: Reporter) -> None:
        self.target = target
        self.reporter = reporter
        self.verifier = Verifier(target, reporter)
        self.ranges: dict[Value, range] = {}
        self.freed: dict[Value, Location | None] = {}
        self.allocated: list[Buffer] = []

    def alloc(self, op: Op, buffer: Buffer) -> None:
        self.freed.pop(buffer, None)
        self.allocated.append(buffer)
        limit = self.target["limits.partitions"]
        if buffer.on_chip and len(buffer.shape) < self.target["limits.min_tile_dims"]:
            self._say("R-tensor-02", f"{buffer.name} of shape {buffer.shape} has {len(buffer.shape)} dims", op)
        elif buffer.on_chip and buffer.shape[0] > limit:
            self._say("R-tensor-01", f"{buffer.name} has {buffer.shape[0]} partitions; the maximum is {limit}", op)
        elif buffer.on_chip:
            self._room(buffer, op)
        if buffer.on_chip and buffer.address is not None:
            for turn in range(buffer.depth):
                for fault in address_faults(buffer, buffer.place_of(turn), self.target):
                    self._say(fault.rule, fault.message, op)

    def _room(self, buffer: Buffer, op: Op) -> None:
        """One buffer alone has room in the memory that it is in."""
        on_sbuf = buffer.memory is SBUF
        room = self.target["memory.sbuf_usable_bytes" if on_sbuf else "memory.psum_bytes"]
        if buffer.row_bytes > room:
            rule = "R-tensor-11" if on_sbuf else "R-tensor-10"
            place = buffer.memory.value
            self._say(rule, f"{buffer.name} takes {buffer.row_bytes} bytes per partition; {place} has {room}", op)

    def loop(self, op: Op, index: Value, positions: range) -> None:
        """The body once, for all values of the index."""
        self.ranges[index] = positions
        if len(positions):
            self.region(op.regions[0])

    def trip(self, index: Value, position: int) -> None:
        raise AssertionError("loops are not iterated")

    def dealloc(self, op: Op, buffer: Buffer) -> None:
        if buffer in self.freed:
            self._say("R-tensor-08", f"{buffer.name} is freed twice", op)
        self.freed[buffer] = op.location

    def register(self, op: Op) -> None:
        """A register may hold any number."""

    def instruction(self, op: Op) -> None:
        record: Record = op.definition
        for value in op.values():
            if value in self.freed:
                self._say("R-tensor-08", f"{record.name} uses {value.name} after it was freed", op)
        for operand in op.operands:
            if isinstance(operand, View):
                self._bounds(record, operand, op)
        if self.verifier.check(record, op.operands, op.attrs, op.location).legal:
            for found in conflicts(record, op.operands, self.ranges):
                self.reporter.violate(
                    RULE, found.message, hint=found.hint, location=op.location, operands=found.operands
                )

    def _bounds(self, record: Record, view: View, op: Op) -> None:
        """R-tensor.index-01 over all loop indices: the access stays inside its buffer and, on chip, its partitions."""
        if view.dynamic is not None:
            if view.dynamic.limit < 1:
                return
            view = view.choices()
        if any(size < 1 for size in view.sizes):
            sizes = ", ".join(map(str, view.sizes))
            self._say("R-tensor.index-01", f"{record.name}: an access of {view.buffer.name} has [{sizes}] elements", op)
            return
        low, high = reach(view, self.ranges)
        row = view.row
        if low < 0 or high >= row * view.buffer.partitions:
            self._say(
                "R-tensor.index-01",
                f"{record.name}: an access reaches elements {low}..{high} of {view.buffer.name}, which holds "
                f"{row * view.buffer.partitions}",
                op,
            )
            return
        if view.on_chip:
            self._partition_bounds(record, view, op, row)

    def _partition_bounds(self, record: Record, view: View, op: Op, row: int) -> None:
        """On chip an access stays within the row of each partition: split the offset as the hardware does."""
        steps = [(value, factor % row) for value, factor in view.terms if factor % row]
        # A step of an index may lead back within the row: whichever way all of it stays there is how it is meant.
        ways = product(*([(value, step), (value, step - row)] for value, step in steps))
        reached = []
        for way in ways:
            inner = View(view.buffer, view.dtype, view.offset % row, view.sizes[1:], view.strides[1:], way)
            low, high = reach(inner, self.ranges)
            if low >= 0 and high < row:
                return
            reached.append(high if high >= row else low)
        self._say(
            "R-tensor.ap-03",
            f"{record.name}: an access of {view.buffer.name} reaches element {reached[0]} of a partition of {row}",
            op,
        )

    def leaks(self, graph: Graph) -> None:
        """Where a kernel frees buffers at all, it frees all on-chip ones that it allocates."""
        if not self.freed:
            return
        for buffer in self.allocated:
            if buffer.on_chip and buffer not in self.freed and buffer not in graph.outputs:
                self.reporter.warn("W303", f"{buffer.name} is never freed")

    def _say(self, rule: str, message: str, op: Op) -> None:
        self.reporter.violate(rule, message, location=op.location)

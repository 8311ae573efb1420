"""A run of a legacy kernel: the same recording and execution, with the destination of a result chosen by assignment.

In this dialect calls return their result, and `tile[...] = nisa.call(...)` says where it goes. So the last instruction
is held back until the next one, or until its result is assigned: then it writes to that destination, and the tile that
was made for the result is gone. Order and number of the instructions are those of the source.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.errors import Location, fail, user_location
from tilewright.ir.core import Op
from tilewright.nki.legacy.faults import fault, require_kernel
from tilewright.nki.legacy.independence import note_reads, note_write
from tilewright.nki.legacy.loop_index import Loop
from tilewright.nki.legacy.pieces import pieces
from tilewright.sim.machine import Machine
from tilewright.sim.places import Place
from tilewright.sim.session import Session, running_session
from tilewright.sim.storage import Codes, Storage
from tilewright.tile.memory import PSUM, SBUF, Buffer, MemoryRegion
from tilewright.tile.record import TABLE, Record
from tilewright.tile.view import Dynamic, View, whole


class Scope:
    """A block of the kernel that owns the tensors created in it; closed when the block is left."""

    __slots__ = ("open", "parent")

    def __init__(self, parent: Scope | None) -> None:
        self.parent = parent
        self.open = True


class LegacyMachine(Machine):
    """A machine that keeps what the instruction that is held back still needs."""

    kept: frozenset[Any] = frozenset()
    waiting: tuple[Buffer, ...] = ()
    choosing = False

    def check_owner(self, storage: Storage, place: Place, view: View, offset: int, location: Location | None) -> None:
        """R-legacy-15: a block that is read was not overwritten by another block of its tensor, with which it shares a
        physical tile; for other tensors the rule of addresses.
        """
        other = self.places[view.memory].loser(place, view, offset)
        if other is None or other.location != storage.buffer.location:
            super().check_owner(storage, place, view, offset, location)
            return
        name = storage.buffer.name or "tensor"
        self.reporter.violate(
            "R-legacy-15",
            f"[SCH713] a block of {name} is read after another block on the same physical tile overwrote it",
            hint="allocate more physical tiles (num_free_tiles, num_bank_tiles), as many as blocks that live at once",
            location=location,
            operands=[view.note(name)],
        )

    def index_of(self, dynamic: Dynamic, location: Location | None) -> np.ndarray:
        self.choosing = True
        try:
            return super().index_of(dynamic, location)
        finally:
            self.choosing = False

    def _undefined(
        self, view: View, array: np.ndarray, codes: Codes, must_be_defined: bool | str, location: Location | None
    ) -> tuple[np.ndarray, Codes | None]:
        """What a mask leaves out holds anything, and kernels compute on it as long as no output shows it.

        So undefined elements flow on everywhere but in indices.
        """
        return super()._undefined(view, array, codes, must_be_defined and self.choosing, location)

    def release(self, buffer: Buffer) -> None:
        if buffer in self.kept:
            self.waiting += (buffer,)
        else:
            super().release(buffer)

    def let_go(self) -> None:
        """Nothing is held back any more."""
        waiting, self.kept, self.waiting = self.waiting, frozenset(), ()
        for buffer in waiting:
            super().release(buffer)


class LegacySession(Session):
    """A session that holds back the last instruction, and knows the loops and blocks that are running."""

    machine_type = LegacyMachine
    machine: LegacyMachine
    compiler = "legacy"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.held: tuple[Record, list[Any], Mapping[str, Any], Location | None] | None = None
        # Results that no instruction has written yet, and tiles of a number that nobody has looked at yet.
        self.fresh: set[Buffer] = set()
        self.unset: dict[Buffer, tuple[float, Location | None]] = {}
        # Tiles that the kernel created itself; the others are results, which a copy may move.
        self.created: set[Buffer] = set()
        self.oversized: set[Buffer] = set()
        # PSUM tiles that something else than a matmul or zeros was written to.
        self.plain: set[Buffer] = set()
        self.nest: list[Loop] = []
        self.born: dict[Buffer, int] = {}
        # The tensors of `born` in the order of their creation: those of a loop are the last ones when it ends.
        self.in_loops: list[Buffer] = []
        self.most_dims: int = self.target["limits.max_view_dims"]
        self.scope = Scope(None)
        self.grid: tuple[int, ...] = ()
        self.place: tuple[int, ...] = ()
        # Shared tensors of the first program of the grid, which the others find again, in order.
        self.shared_tensors: list[Any] = []
        self.next_shared = 0
        self.allocated = False
        self.automatic: Location | None = None
        self.ignores_allocation = False
        self.mutable: set[Buffer] = set()
        self.updated: set[Buffer] = set()
        # Writes that may go to the same place in every iteration: sums.
        self.adding = False
        # Columns of ones that rows are multiplied by to be repeated on partitions, by element type and length.
        self.ones: dict[tuple[DType, int], Any] = {}
        # The kernel's own function, and how deep in loops and conditions of its own it is.
        self.depth = 0

    def allocate(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        memory: MemoryRegion,
        name: str | None = None,
        address: tuple[int, int] | None = None,
        location: Location | None = None,
    ) -> Buffer:
        buffer = super().allocate(shape, dtype, memory, name, address, location)
        if self.nest:
            self.born[buffer] = len(self.nest)
            self.in_loops.append(buffer)
        if buffer.on_chip and name is None and address is None:
            self.fresh.add(buffer)
        return buffer

    def _check_size(self, buffer: Buffer) -> None:
        """A tile larger than SBUF is refused when something reads it: the old compiler drops what nobody reads."""
        if (
            buffer.memory is SBUF
            and buffer.address is None
            and buffer.row_bytes > self.target["memory.sbuf_usable_bytes"]
        ):
            self.oversized.add(buffer)
        else:
            super()._check_size(buffer)

    # Instructions.

    def issue(self, record: Record, operands: Sequence[Any], attrs: Mapping[str, Any]) -> Op | None:
        """Hold back an instruction whose result is new; carry out any other."""
        self.flush()
        location = user_location(sys._getframe(2))
        if record.written:
            dst = operands[record.written[0]]
            if dst.__class__ is View and dst.buffer in self.fresh:
                self.held = (record, list(operands), attrs, location)
                self.machine.kept = frozenset(
                    value for each in operands if isinstance(each, View) for value in each.values()
                )
                return None
        self._carry_out(record, operands, attrs, location)
        return None

    def flush(self) -> None:
        """Carry out the instruction that is held back."""
        held = self.held
        if held is not None:
            self.held = None
            self._carry_out(*held)
            self.machine.let_go()

    def holds(self, buffer: Buffer) -> Record | None:
        """The record of the instruction that is held back, if it makes this buffer."""
        held = self.held
        if held is None or self.held_destination().buffer is not buffer:
            return None
        return held[0]

    def held_destination(self) -> View:
        """Where the instruction that is held back would write."""
        assert self.held is not None
        return self.held[1][self.held[0].written[0]]

    def redirect(self, dst: View, **attrs: Any) -> None:
        """Carry out the instruction that is held back with another destination; `attrs` replace some of its own."""
        assert self.held is not None
        record, operands, given, location = self.held
        self.held = None
        position = record.written[0]
        temporary = operands[position].buffer
        operands[position] = dst
        self.fresh.discard(temporary)
        for place in range(len(self._pending) - 1, -1, -1):
            if temporary in self._pending[place].results:
                del self._pending[place]
                break
        changed = record.attributes({**given, **attrs}) if attrs else given
        self._carry_out(record, operands, changed, location)
        self.machine.let_go()

    def _carry_out(
        self, record: Record, operands: Sequence[Any], attrs: Mapping[str, Any], location: Location | None
    ) -> None:
        if self.unset:
            self._fill(record, operands, attrs)
        if self.oversized:
            for position, operand in enumerate(operands):
                if operand.__class__ is View and position not in record.written and operand.buffer in self.oversized:
                    super()._check_size(operand.buffer)
        for position in record.written:
            dst = operands[position]
            if dst.__class__ is View:
                self._note_written(record, dst, attrs, location)
        if self.nest:
            note_reads(self.nest, self.born, record, operands, location)
        for piece in pieces(record, operands, self.most_dims):
            self.perform(record, piece, attrs, location)

    def _note_written(self, record: Record, dst: View, attrs: Mapping[str, Any], location: Location | None) -> None:
        buffer = dst.buffer
        self.fresh.discard(buffer)
        if buffer.memory is PSUM and not record.accumulates and attrs.get("value") != 0:
            self.plain.add(buffer)
        if buffer in self.inputs:
            self._note_update(buffer, dst, location)
        if self.nest and not self.adding and attrs.get("accumulate", False) is not None:
            note_write(self.nest, self.born, dst, location)

    def _note_update(self, buffer: Buffer, dst: View, location: Location | None) -> None:
        """A parameter is written: err_cannot_update_immutable_parameter unless it is marked."""
        self.updated.add(buffer)
        if buffer not in self.mutable:
            fault(
                "err_cannot_update_immutable_parameter",
                f"Cannot update immutable parameter `{buffer.name}`",
                ("dst", dst),
                hint="write to a new tensor in nl.shared_hbm and return that, or annotate the parameter with "
                "nt.mutable_tensor and return it",
                location=location,
            )

    def _fill(self, record: Record, operands: Sequence[Any], attrs: Mapping[str, Any]) -> None:
        """Write the number that a tile was created with before anything looks at it or writes a part of it.

        A tile of zeros whose first use is a matmul that adds to all of it needs no zeros: the first one overwrites.
        Transfers that leave out rows write a part, and so do instructions that update what is there.
        """
        specs = [*record.operands.values()]
        for position, operand in enumerate(operands):
            if operand.__class__ is not View or operand.buffer not in self.unset:
                continue
            value, location = self.unset.pop(operand.buffer)
            keeps = attrs.get("oob_mode") == "skip" or (specs[position].reads and not record.accumulates)
            whole_dst = position in record.written and operand.covers_buffer() and not keeps
            overwritten = whole_dst and not any(
                other.buffer is operand.buffer
                for place, other in enumerate(operands)
                if place != position and other.__class__ is View
            )
            if overwritten and not (record.accumulates and value):
                continue
            memset = TABLE["memset"]
            self.perform(memset, [whole(operand.buffer)], memset.attributes({"value": value}), location)

    def fill_all(self, buffer: Buffer) -> None:
        """Write what a tile was created with: something reads it besides instructions."""
        self.flush()
        found = self.unset.pop(buffer, None)
        if found is not None:
            memset = TABLE["memset"]
            self.perform(memset, [whole(buffer)], memset.attributes({"value": found[0]}), found[1])

    # Blocks and loops.

    def enter(self) -> Scope:
        """A new block."""
        self.scope = Scope(self.scope)
        return self.scope

    def leave(self, scope: Scope) -> None:
        """Close a block, and what was left open in it."""
        inner: Scope | None = self.scope
        while inner is not None and inner is not scope:
            inner.open = False
            inner = inner.parent
        if inner is None:
            return
        scope.open = False
        assert scope.parent is not None
        self.scope = scope.parent


def legacy_session(api: str) -> LegacySession:
    """The running session of a legacy kernel."""
    session = running_session()
    if session.__class__ is LegacySession:
        return session  # type: ignore[return-value]
    require_kernel(api)
    raise fail(
        "E110",
        f"{api} of neuronxcc.nki is called in a kernel of the current dialect",
        rule="R-jit-12",
        hint="decorate the kernel with neuronxcc's nki.jit, or import nki.language and nki.isa",
    )

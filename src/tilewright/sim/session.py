"""A session: one run of one kernel. It checks, records and executes each instruction as the kernel issues it.

Recording keeps the instruction stream as tile IR (`session.graph`); it can be turned off for long kernels. In shape
mode nothing is computed: rules, lifetimes and capacity are checked for full model shapes without the arithmetic.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import pairwise
from types import CodeType
from typing import Any, Literal

import numpy as np

from tilewright.dtypes import DType
from tilewright.errors import WARNING, Location, TileError, assigned_name, called_location, fail, user_location
from tilewright.ir.core import Graph, Op, Value
from tilewright.rules import Reporter, restore_reporter, use_reporter, violate
from tilewright.sim.cores import SharedMemory
from tilewright.sim.execute import execute
from tilewright.sim.machine import Machine
from tilewright.sim.shapes import trace_shapes
from tilewright.sim.storage import EVERYTHING, Storage
from tilewright.sim.streamed import ORDERS, Order
from tilewright.sim.wide import is_widened
from tilewright.target import Target
from tilewright.tile.addresses import address_faults, read_address
from tilewright.tile.conflicts import RULE
from tilewright.tile.memory import IN_PARTS, PSUM, SBUF, SHARED_HBM, Buffer, MemoryRegion, hbm_fault
from tilewright.tile.ops import ALLOC
from tilewright.tile.record import Record
from tilewright.tile.text import TILE
from tilewright.tile.verdict import Ruling, Verifier
from tilewright.tile.view import View


@dataclass(frozen=True, slots=True)
class Options:
    """How a session runs. `record`: keep the instruction stream. `shapes`: check without computing.

    `trace_nonfinite`: find the first instruction that turns finite inputs into NaN or infinity.
    `no_spill`: SBUF tensors that do not fit are an error instead of a warning.
    `illegal_accumulate`: what accumulate=True does on PSUM that no matmul has written, where the profile lets it pass:
    "add" to what is there (zero if nothing), "overwrite" it, or "poison" it with NaN. Hardware leaves it undefined.
    `precise`: bfloat16 and float8 round as they do on hardware; otherwise they are kept in float32 (R-simulate-04). The
    environment variable NKI_PRECISE_FP=0 changes the default.
    `orders`: so many other legal orders of the instructions are tried; the results must be the same.
    `stream`: instructions whose operands lie over each other go element by element, "forward" or "backward", and what
    R-engine-16 says of them is a warning.
    """

    record: bool = True
    shapes: bool = False
    trace_nonfinite: bool = False
    no_spill: bool = False
    illegal_accumulate: Literal["add", "overwrite", "poison"] = "add"
    precise: bool = field(default_factory=lambda: os.environ.get("NKI_PRECISE_FP") != "0")
    stream: Order | None = None
    orders: int = 0

    def __post_init__(self) -> None:
        if self.stream is not None and self.stream not in ORDERS:
            raise fail("E108", f"stream is {self.stream!r}", hint=f"choose {' or '.join(ORDERS)}")


@dataclass(slots=True)
class Counts:
    """Executed instructions by engine, name and source line, and what moved between HBM and the chip."""

    dma_transfers: int = 0
    hbm_read_bytes: int = 0
    hbm_write_bytes: int = 0
    # By engine, name and identity of the location, of which there is one object per line; hashing it takes longer.
    _places: dict[tuple[str, str, int], list[Any]] = field(default_factory=dict)

    def add(self, engine: str, name: str, location: Location | None) -> None:
        """Count one instruction."""
        key = (engine, name, id(location))
        place = self._places.get(key)
        if place is None:
            self._places[key] = [1, location]
        else:
            place[0] += 1

    @property
    def executed(self) -> dict[tuple[str, str, Location | None], int]:
        """How often each instruction ran, by engine, name and line."""
        found: dict[tuple[str, str, Location | None], int] = {}
        for (engine, name, _), (count, location) in self._places.items():
            key = (engine, name, location)
            found[key] = found.get(key, 0) + count
        return found

    @property
    def total(self) -> int:
        """All executed instructions."""
        return sum(count for count, _ in self._places.values())


@dataclass(frozen=True, eq=False, slots=True)
class Loop:
    """A loop on the device while it runs. `carries` is False where a loop inside cannot change registers of outside."""

    carries: bool


class Session:
    """State of one run: machine, verifier, recorded graph, counts and the program's place in the grid."""

    machine_type: type[Machine] = Machine
    compiler = "current"
    """Whose compiler makes an executable of the kernel, for whoever predicts its time."""

    def __init__(
        self,
        name: str,
        target: Target,
        reporter: Reporter,
        options: Options | None = None,
        shared: SharedMemory | None = None,
    ) -> None:
        self.name = name
        self.target = target
        self.reporter = reporter
        self.options = options or Options()
        self.machine = self.machine_type(target, reporter, name, self.options.illegal_accumulate)
        self.machine.precise = self.options.precise
        self.machine.stream = self.options.stream
        if self.options.stream is not None:
            reporter.severities[RULE] = WARNING
        self.machine.shapes = self.options.shapes
        self.verifier = Verifier(target, reporter)
        self._graph = Graph(name, dialect=TILE)
        self._pending: list[Op] = []
        self._moved: dict[Ruling, tuple[int, int]] = {}
        self.counts = Counts()
        self.program_id = 0
        self.num_programs = 1
        self.has_grid = False
        self.names: set[str] = set()
        # The kernel's function, where its loops must not create shared tensors, and its calls that created one.
        self.entry: CodeType | None = None
        self.sharing: set[int] = set()
        self.inputs: set[Buffer] = set()
        self._hbm_bytes = 0
        self.shared = shared
        if shared is not None:
            self.machine.origins = shared.origins
        self.constants: dict[Buffer, np.ndarray] = {}
        self.no_reorder = 0
        # What the kernel returned, and whether a loop on the device runs as often as data says.
        self.returned: list[View] = []
        self.follows_data = False
        # The loops on the device that are running, outermost first; names that were given to instructions.
        self.loops: tuple[Loop, ...] = ()
        self.instruction_names: dict[str, list[Op]] = {}
        # Instructions of each outermost block of nl.no_reorder, and pairs that depends_on orders; of recorded runs.
        self._blocks: list[list[Op]] = []
        self.edges: list[tuple[Op, Op]] = []
        self._unnamed = 0

    @property
    def graph(self) -> Graph:
        """The instruction stream so far as tile IR."""
        self.settle()
        return self._graph

    def settle(self) -> None:
        """Enter ops into the graph and its use-lists. They wait until somebody looks: most runs are never looked at."""
        self._graph.body.extend(self._pending)
        self._pending.clear()

    # Buffers.

    def allocate(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        memory: MemoryRegion,
        name: str | None = None,
        address: tuple[int, int] | None = None,
        location: Location | None = None,
    ) -> Buffer:
        """Check and make a buffer with storage."""
        place = None if address is None else read_address(address)
        broken = self._check_shape(shape, memory, name)
        location = location or called_location()
        buffer = Buffer(dtype, shape, memory, self._name(name, location), None if broken else place, 1, location)
        buffer.broken = broken
        self._check_size(buffer)
        if self.options.record:
            self._pending.append(Op(ALLOC, (), (buffer,), location=buffer.location))
        if memory is SHARED_HBM and self.shared is not None:
            key, known = self.shared.find(self.program_id, name, buffer)
            if known is not None:
                self.machine.adopt(buffer, known)
            else:
                self.shared.keep(key, self._storage(buffer))
        else:
            self._storage(buffer)
        return buffer

    def _storage(self, buffer: Buffer) -> Storage:
        return self.machine.allocate(buffer, _NO_BYTES if self.options.shapes else None)

    def constant(self, array: np.ndarray, dtype: DType) -> Buffer:
        """A tensor in shared HBM that holds `array` from the start: an argument that the kernel brings along."""
        buffer = Buffer(dtype, array.shape, SHARED_HBM, f"const{len(self.constants)}", location=user_location())
        self.constants[buffer] = array
        self.graph.body.arguments.append(buffer)
        wide = not self.options.precise and is_widened(dtype)
        held = np.array(array, np.float32 if wide else None, order="C").reshape(-1).view(np.uint8)
        self.machine.allocate(buffer, _NO_BYTES if self.options.shapes else held).written = EVERYTHING
        return buffer

    def _name(self, given: str | None, location: Location | None) -> str:
        if given:
            if given in self.names:
                violate(
                    "R-tensor-20",
                    f"two tensors are named {given!r}",
                    hint="names are unique in a kernel; leave the name out or add the loop index to it",
                )
            self.names.add(given)
            return given
        assigned = assigned_name(location)
        if assigned is not None:
            return assigned
        self._unnamed += 1
        return f"t{self._unnamed}"

    def _check_shape(self, shape: tuple[int, ...], memory: MemoryRegion, name: str | None) -> bool:
        """True when no memory has such a tensor, and the run goes on to find more."""
        what = f"tensor {name}" if name else "tensor"
        on_chip = memory in (SBUF, PSUM)
        if any(size < 1 for size in shape):
            violate(
                "R-tensor-04",
                f"{what} has shape {shape}; sizes are positive integers",
                hint="look at how the size is computed: n // tile is 0 where n is less than a tile",
                final=True,
            )
        if on_chip and len(shape) < self.target["limits.min_tile_dims"]:
            violate(
                "R-tensor-02",
                f"{what} of shape {shape} in {memory.value} has {len(shape)} dims; on chip a tensor has at least 2",
                hint="make it (partitions, 1) or (1, n)",
                final=not shape,
            )
        limit = self.target["limits.partitions"]
        if on_chip and shape[0] > limit:
            violate(
                "R-tensor-01",
                f"{what} of shape {shape}: partition dimension {shape[0]} exceeds maximum {limit}",
                hint=f"tile dim 0 by {limit} (nl.tile_size.pmax)",
            )
            return True
        return False

    def hold(self, buffer: Buffer) -> None:
        """Count what a tensor takes of HBM; E303 where a chip has no room for it beside the others."""
        self._hbm_bytes += buffer.row_bytes
        self.check_room(self._hbm_bytes, buffer.location)

    def check_room(self, needed: int, location: Location | None = None) -> None:
        """E303 for tensors of so many bytes where a chip has no room for them."""
        fault = hbm_fault(needed, self.target)
        if fault is not None:
            raise fail("E303", f"the tensors of {self.name} {fault}", hint=IN_PARTS, location=location)

    def _check_size(self, buffer: Buffer) -> None:
        target = self.target
        if not buffer.on_chip:
            self.hold(buffer)
        if buffer.memory is SBUF and buffer.row_bytes > target["memory.sbuf_usable_bytes"]:
            violate(
                "R-tensor-11",
                f"{buffer.name} needs {buffer.row_bytes} bytes per partition; {target.name} has "
                f"{target['memory.sbuf_usable_bytes']} usable",
                hint="tile the free dim",
            )
        if buffer.memory is PSUM:
            banks = target["limits.matmul_dst_banks_max"]
            if buffer.row_bytes > banks * target["memory.psum_bank_bytes"]:
                violate(
                    "R-tensor-09",
                    f"{buffer.name} needs {buffer.row_bytes} bytes per partition of psum; a tile has at most "
                    f"{banks * target['memory.psum_bank_bytes']} ({banks} of {target['memory.psum_banks']} banks)",
                    hint="tile the free dim by nl.tile_size.psum_bank_fmax",
                )
        if buffer.address is not None and buffer.on_chip:
            for fault in address_faults(buffer, buffer.address, target):
                violate(fault.rule, fault.message, hint=fault.hint, final=fault.final)

    # Instructions.

    def issue(self, record: Record, operands: Sequence[Any], attrs: Mapping[str, Any]) -> Op | None:
        """Check, record and execute one instruction; None where a session does that later."""
        # The caller is one of ours.
        return self.perform(record, operands, attrs, user_location(sys._getframe(2)))

    def perform(
        self, record: Record, operands: Sequence[Any], attrs: Mapping[str, Any], location: Location | None
    ) -> Op:
        """Check, record and execute one instruction that stands on this line; one on empty tensors does nothing."""
        for operand in operands:
            if operand.__class__ is View and 0 in operand.sizes:
                return Op(record, operands, (), attrs, (), location)
        collect, options, machine = self.reporter.collect, self.options, self.machine
        if collect and not _sound(operands):
            ruling = Ruling(record.engines[0], False, False)
        else:
            ruling = self.verifier.check(record, operands, attrs, location)
        op = Op(record, operands, (), attrs, (), location)
        if options.record:
            self._pending.append(op)
            if self.no_reorder:
                self._blocks[-1].append(op)
        self.counts.add(ruling.engine, record.name, location)
        if ruling.engine == "dma":
            self._count_transfer(op, ruling)
        if collect and not ruling.legal:
            self._assume_written(record, operands)
        elif options.shapes:
            trace_shapes(machine, op, ruling.engine)
        else:
            execute(machine, op, ruling)
        if machine.turns is not None:
            machine.turns.go_on(machine.core, location)
        return op

    def _count_transfer(self, op: Op, ruling: Ruling) -> None:
        """Count one DMA and what it moves from and to HBM."""
        moved = self._moved.get(ruling) or hbm_bytes(op)
        if ruling.shared:
            self._moved[ruling] = moved
        counts = self.counts
        counts.dma_transfers += 1
        counts.hbm_read_bytes += moved[0]
        counts.hbm_write_bytes += moved[1]

    def pass_over(self, record: Record, operands: Sequence[Any], error: TileError) -> Op:
        """Where errors are collected: keep that of an instruction with senseless attributes, and do not record it."""
        if not self.reporter.collect:
            raise error
        self.reporter.add(error.diagnostic)
        self._assume_written(record, operands)
        return Op(record, operands, (), {}, (), error.diagnostic.location)

    def _assume_written(self, record: Record, operands: Sequence[Any]) -> None:
        """After a violation the destination counts as written with unknown values: what follows is not its fault."""
        self.machine.clock += 1
        if record.meeting is not None and self.machine.turns is not None:
            self.machine.turns.excused = True
        for operand, spec in zip(operands, record.operands.values(), strict=False):
            if isinstance(operand, Value) and spec.writes:
                self.machine.values[operand] = None
            elif isinstance(operand, View) and spec.writes:
                storage = self.machine.storage[operand.buffer]
                storage.written = "everything"
                storage.accumulated = "everything"
                if storage.first_write < 0:
                    storage.first_write = self.machine.clock
                storage.last_access = self.machine.clock

    @contextmanager
    def in_order(self) -> Iterator[None]:
        """What is issued meanwhile runs in program order. The simulator always does; other orders keep it too."""
        if not self.no_reorder:
            self._blocks.append([])
        self.no_reorder += 1
        try:
            yield
        finally:
            self.no_reorder -= 1

    def ordered_edges(self) -> Iterator[tuple[Op, Op]]:
        """Pairs of instructions that the kernel itself has put in order."""
        yield from self.edges
        for block in self._blocks:
            yield from pairwise(block)

    @contextmanager
    def looping(self, carries: bool = True) -> Iterator[None]:
        """What is issued meanwhile belongs to one more loop on the device."""
        outside = self.loops
        self.loops = (*outside, Loop(carries))
        try:
            yield
        finally:
            self.loops = outside

    # The running session.

    @contextmanager
    def running(self) -> Iterator[Session]:
        """Make this the session that NKI calls reach."""
        token = _running.set(self)
        reporting = use_reporter(self.reporter)
        try:
            # Engines do not trap; non-finite results are data (trace_nonfinite finds where they begin).
            with np.errstate(all="ignore"):
                yield self
        finally:
            restore_reporter(reporting)
            _running.reset(token)


def hbm_bytes(op: Op) -> tuple[int, int]:
    """Bytes on the HBM side of a DMA, read and written."""
    specs = [*op.definition.operands.values()]
    read = written = 0
    for position, view in enumerate(op.operands):
        if isinstance(view, View) and not view.on_chip:
            # A list of tensors ends the operands.
            spec = specs[min(position, len(specs) - 1)]
            read += view.nbytes * spec.reads
            written += view.nbytes * spec.writes
    return read, written


def _sound(operands: Sequence[Any]) -> bool:
    """False when an operand is what a refused slice left behind: findings about it would only follow from that."""
    return not any(isinstance(operand, View) and operand.broken for operand in operands)


_NO_BYTES = np.empty(0, np.uint8)
_running: ContextVar[Session | None] = ContextVar("tilewright_session", default=None)


running_session = _running.get
"""The session of the kernel that is running in this thread, if any."""

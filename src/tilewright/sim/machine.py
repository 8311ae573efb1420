"""A NeuronCore's memories: storage for every live buffer, physical aliasing of addressed ones, run-time indices.

The machine reads and writes views; `sim.execute` drives it. It knows no instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dtypes import DType, round_to, tfloat32
from tilewright.errors import WARNING, Location, fail
from tilewright.ir.core import Op, Value
from tilewright.rules import Reporter
from tilewright.sim.bounds import OUT_OF_BOUNDS, notice_contended, report_out_of_bounds, report_partly_outside
from tilewright.sim.contest import Part
from tilewright.sim.cores import Turns
from tilewright.sim.evidence import Evidence, note_inputs
from tilewright.sim.flow import fit
from tilewright.sim.places import Place, Places
from tilewright.sim.shape_storage import ShapeStorage
from tilewright.sim.storage import EVERYTHING, Codes, Storage
from tilewright.sim.undefined import Origins, are_whole_lanes, hole_in, shown
from tilewright.sim.wide import WideStorage, is_widened
from tilewright.small_floats import assign
from tilewright.target import Target
from tilewright.tile.indirect import group_size, offset_tiles
from tilewright.tile.memory import SHARED_HBM, Address, Buffer, MemoryRegion
from tilewright.tile.patterns import extent_at
from tilewright.tile.record import LANES
from tilewright.tile.verdict import Ruling
from tilewright.tile.view import Dynamic, View

if TYPE_CHECKING:
    from tilewright.sim.plan import Plan


class Life:
    """When a buffer was first written and last used, in executed instructions; where it lay, if that was given."""

    __slots__ = ("buffer", "first", "last", "place")

    def __init__(self, buffer: Buffer, first: int, last: int, place: Address | None = None) -> None:
        self.buffer = buffer
        self.place = buffer.address if place is None else place
        self.first = first
        self.last = last


class Machine:
    """The memories of one core while a kernel runs."""

    def __init__(
        self, target: Target, reporter: Reporter, kernel: str = "kernel", illegal_accumulate: str = "add"
    ) -> None:
        self.target = target
        self.reporter = reporter
        self.kernel = kernel
        self.illegal_accumulate = illegal_accumulate
        self.clock = 0
        self.storage: dict[Buffer, Storage] = {}
        # Loop indices and registers; None is a number that nobody knows (shape mode, after a violation).
        self.values: dict[Value, Any] = {}
        self.scopes: list[list[Buffer]] = []
        self.left: set[Buffer] = set()
        self.lives: list[Life] = []
        self.accumulators: dict[str, Any] = {}
        self.plans: dict[Ruling, Plan] = {}
        # The present instruction: its line, and who runs it (where it finds column offsets depends on that).
        self.location: Location | None = None
        self.op: Op | None = None
        self.engine = "vector"
        self.places: dict[MemoryRegion, Places] = {}
        self.origins = Origins()
        self.precise = True
        self.shapes = False
        # In which order instructions go through their elements; None: all is read before anything is written.
        self.stream: str | None = None
        # Several cores run the kernel: whose turn it is, and which of them this is.
        self.turns: Turns | None = None
        self.core = 0
        self.on_execute: Callable[..., Callable[[list[Any]], None] | None] | None = None
        # Bad elements that were reported, for who looks where they come from.
        self.evidence: list[Evidence] = []

    # Allocation.

    def allocate(self, buffer: Buffer, data: np.ndarray | None = None, turn: int = 0) -> Storage:
        """Give a buffer storage: its own, the caller's bytes, or the physical bytes at its address.

        turn: how often a loop has allocated the buffer before; its copies take turns.
        """
        places = self._places(buffer, not self.shapes) if buffer.address is not None and buffer.on_chip else None
        if self.shapes:
            storage = ShapeStorage(buffer)
        elif not self.precise and is_widened(buffer.dtype):
            storage = WideStorage(buffer, data)
        else:
            storage = Storage(buffer, data) if places is None else places.storage(buffer, buffer.place_of(turn))
        if places is not None:
            places.settle(storage, buffer.place_of(turn))
        return self.adopt(buffer, storage)

    def adopt(self, buffer: Buffer, storage: Storage) -> Storage:
        """Let a buffer use this storage, which another core may use too."""
        self.storage[buffer] = storage
        if self.scopes:
            self.scopes[-1].append(buffer)
        return storage

    def _places(self, buffer: Buffer, with_bytes: bool) -> Places:
        if buffer.memory not in self.places:
            self.places[buffer.memory] = Places(buffer.memory, self.target, with_bytes)
        return self.places[buffer.memory]

    def release(self, buffer: Buffer) -> None:
        """Forget the bytes of a buffer that nothing can reach any more; its lifetime stays known."""
        storage = self.storage.pop(buffer, None)
        if storage is None or not buffer.on_chip:
            return
        if storage.place is not None:
            self.places[buffer.memory].release(storage.place)
        if storage.first_write >= 0:
            self.lives.append(Life(buffer, storage.first_write, storage.last_access))

    @contextmanager
    def scope(self) -> Iterator[None]:
        """The body of a loop on the device: what is allocated in it is gone after it."""
        self.scopes.append([])
        yield
        for buffer in self.scopes.pop():
            self.release(buffer)
            self.left.add(buffer)

    def all_lives(self) -> list[Life]:
        """Lifetimes of all on-chip buffers that were ever written."""
        live = [
            Life(buffer, storage.first_write, storage.last_access)
            for buffer, storage in self.storage.items()
            if buffer.on_chip and storage.first_write >= 0
        ]
        return self.lives + live

    def check_owner(self, storage: Storage, place: Place, view: View, offset: int, location: Location | None) -> None:
        """R-tensor.address-04: nothing at an overlapping address has overwritten what is read."""
        other = self.places[view.memory].loser(place, view, offset)
        if other is None:
            return
        name = storage.buffer.name or "tensor"
        self.reporter.violate(
            "R-tensor.address-04",
            f"{name} is read after {other.name} (allocated at {other.location}) at an overlapping address overwrote it",
            hint="give tensors that are needed at the same time addresses that do not overlap",
            location=location,
            operands=[view.note(name)],
            notes=[f"{name} was allocated at {storage.buffer.location}"],
        )

    def wrote(self, storage: Storage, view: View, offset: int, undefined: Codes | None = None) -> None:
        """Note that an access was written."""
        place = storage.place
        if place is not None and place.slot.contested:
            self.places[view.memory].claim(place, view, offset)
        if storage.first_write < 0:
            storage.first_write = self.clock
        if undefined is not None or storage.written is not EVERYTHING:
            storage.mark_written(view, offset, undefined)

    def has_rivals(self, buffer: Buffer) -> bool:
        """True when other buffers lie, or have lain, at its address, or it is not known where it lies."""
        storage = self.storage.get(buffer)
        return storage is None or storage.place is None or storage.place.slot.contested

    # Offsets.

    def offset_of(self, view: View) -> int:
        """The element offset of an access without a run-time index."""
        offset = view.offset
        for value, factor in view.terms:
            offset += self.values[value] * factor
        return offset

    def number(self, register: Value, location: Location | None) -> Any:
        """What a register holds: an int, a float, or None when that is not known."""
        if register not in self.values:
            self.reporter.violate(
                "R-register-03",
                "a register is used before anything was written to it",
                hint="give register_alloc a value, or write it with register_move or register_load",
                location=location,
            )
            self.values[register] = None
        return self.values[register]

    def define_register(self, op: Op) -> None:
        """Compute a new register from others: offset + sum of factor * register. Without an offset it holds nothing."""
        offset = op.attrs["offset"]
        if offset is None:
            self.values.pop(op.result, None)
            return
        held = [self.number(register, op.location) for register in op.operands]
        pairs = zip(held, op.attrs["factors"], strict=True)
        self.values[op.result] = None if None in held else offset + sum(number * factor for number, factor in pairs)

    def whole_number(self, register: Value, location: Location | None) -> int:
        """What a register holds where only a whole number makes sense: an index, a loop bound (unknown: 0)."""
        held = self.number(register, location)
        if isinstance(held, float):
            raise fail(
                "E108",
                f"a register that holds the float {held} is used as an index or loop bound",
                hint="load the register from a tensor of int32",
                location=location,
            )
        return 0 if held is None else held

    def index_of(self, dynamic: Dynamic, location: Location | None) -> np.ndarray:
        """The values of a run-time index (one for scalar, one per row for vector)."""
        index = dynamic.index
        if isinstance(index, Value):
            return np.array([self.whole_number(index, location)], np.int64)
        array, _ = self.read(index, True, location)
        # An index tile with several columns counts down its columns (dma_transpose). Stored bit patterns count as
        # unsigned where the type is unsigned: 0xFFFFFFFF is far out of bounds, never -1.
        return array.reshape(array.shape[0], -1).T.reshape(-1).astype(np.int64)

    def lanes(self, view: View, skip: bool, location: Location | None) -> tuple[np.ndarray, np.ndarray]:
        """Indices of a dynamic access and which of them are in bounds; raises for a bad one unless `skip`."""
        dynamic = view.dynamic
        assert dynamic is not None
        if dynamic.kind == "columns":
            chosen = self._offsets(view, location)
        else:
            chosen = self.index_of(dynamic, location)
            if dynamic.kind == "vector":
                chosen = chosen[: view.sizes[0]]
        valid = (chosen >= 0) & (chosen < dynamic.limit)
        if not valid.all() and not skip:
            parts = tuple(self._bad_indices(view, ~valid))
            self.evidence.append(Evidence(OUT_OF_BOUNDS, location, self.core, self.clock, parts, dynamic.limit))
            report_out_of_bounds(self.reporter, self.kernel, self.clock, view, chosen, valid, location)
        elif not valid.all() and dynamic.kind == "vector":
            report_partly_outside(self.reporter, view, self.offset_of(view), chosen, valid, location)
        return chosen, valid

    def _bad_indices(self, view: View, bad: np.ndarray) -> Iterator[tuple[View | Value, np.ndarray | None]]:
        """The tiles that a run-time index is read from, with the bad elements; the register of a scalar one."""
        dynamic = view.dynamic
        assert dynamic is not None
        if isinstance(dynamic.index, Value):
            yield dynamic.index, None
            return
        columns = dynamic.kind == "columns"
        for tile in offset_tiles(view, group_size(self.target, self.engine)) if columns else [dynamic.index]:
            # Indices count down the columns of their tile.
            own = np.zeros(tile.size, bool)
            own[: bad.size] = bad[: tile.size]
            bad = bad[tile.size :]
            yield tile, own.reshape(-1, tile.sizes[0]).T.reshape(tile.sizes)

    def _offsets(self, view: View, location: Location | None) -> np.ndarray:
        """The offset of every column of an indirect view (R-tensor.indirect-03)."""
        parts = offset_tiles(view, group_size(self.target, self.engine))
        held = [self.read(part, True, location)[0].T.reshape(-1) for part in parts]
        return np.concatenate(held).astype(np.int64)

    # Access.

    def touch(self, view: View) -> Storage:
        """The storage of an access, noting that it was used now."""
        storage = self.storage.get(view.buffer)
        if storage is None:
            storage = self._revive(view)
        storage.last_access = self.clock
        return storage

    def _revive(self, view: View) -> Storage:
        """R-fori_while-03: a tensor that was allocated in the body of a loop is used outside it."""
        buffer = view.buffer
        if buffer not in self.left:
            self._foreign(view)
        self.reporter.violate(
            "R-fori_while-03",
            f"{buffer.name}, allocated in the body of a loop (at {buffer.location}), is used outside that iteration",
            hint="allocate it before the loop and pass it in",
            operands=[view.note(buffer.name or "tensor")],
        )
        # Reported once; its values are unknown, and what follows from them is not worth repeating.
        storage = self.allocate(buffer)
        storage.written = EVERYTHING
        return storage

    def element(self, view: View) -> DType:
        """The type in which the elements of an access are held."""
        storage = self.storage.get(view.buffer) or self._revive(view)
        return view.dtype if storage.__class__ is Storage else storage.element(view)

    def _foreign(self, view: View) -> None:
        """R-tensor-17: a tensor that this core never allocated."""
        name = view.buffer.name or "tensor"
        self.reporter.violate(
            "R-tensor-17",
            f"{name} belongs to another core or to an earlier run: {view.memory.value} of one core is not visible here",
            hint="share data between cores through a tensor in nl.shared_hbm; keep no tensors outside the kernel",
            operands=[view.note(name)],
            final=True,
        )

    def read(
        self, view: View, must_be_defined: bool | str, location: Location | None, skip: bool = False
    ) -> tuple[np.ndarray, Codes | None]:
        """The elements of an access, and the origins of those that are not defined (None: all are)."""
        storage = self.storage.get(view.buffer) or self._revive(view)
        storage.last_access = self.clock
        if view.dynamic is None:
            offset = self.offset_of(view) if view.terms else view.offset
        elif view.dynamic.kind != "scalar":
            return self._gather(storage, view, must_be_defined, location, skip)
        else:
            offset = self.offset_of(view) + self.scalar_step(view, skip, location)
        array = storage.array(view, offset)
        if storage.place is not None and storage.place.tainted:
            self.check_owner(storage, storage.place, view, offset, location)
        if self.turns is not None and view.memory is SHARED_HBM:
            self._shared_read(storage, Part(view, offset, array.itemsize), location)
        if storage.drained is not None:
            storage.drained[extent_at(view, offset)] = location
        if storage.written is EVERYTHING or storage.is_written(view, offset):
            return array, None
        self.origins.number(storage, location)
        codes = storage.undefined(view, offset)
        return self._undefined(view, array, codes, must_be_defined, location)

    def _shared_read(self, storage: Storage, part: Part, location: Location | None) -> None:
        """A read of what other cores may write; where they have not yet, it waits for them, and that is a race."""
        turns = self.turns
        assert turns is not None
        turns.accesses.reads(self.core, storage, part, location)
        if storage.written is EVERYTHING or storage.is_written(part.view, part.offset):
            return
        with turns.accesses.too_early(self.core, storage):
            turns.let_others(self.core)

    def scalar_step(self, view: View, skip: bool, location: Location | None) -> int:
        """How far a scalar index moves an access, in elements."""
        chosen, valid = self.lanes(view, skip, location)
        assert view.dynamic is not None
        return int(chosen[0]) * view.dynamic.stride if valid[0] else 0

    def _gather(
        self, storage: Storage, view: View, must_be_defined: bool | str, location: Location | None, skip: bool
    ) -> tuple[np.ndarray, Codes | None]:
        chosen, valid = self.lanes(view, skip, location)
        if not valid.any():
            return np.zeros(view.sizes, storage.element(view).np), None
        safe = np.where(valid, chosen, chosen[np.argmax(valid)])
        choices = view.choices()
        offset = self.offset_of(choices)
        # Rows of a tensor in HBM, or columns of one on chip.
        axis = 1 if view.on_chip else 0
        array = storage.array(choices, offset).take(safe, axis)
        if self.turns is not None and view.memory is SHARED_HBM:
            self._shared_read(storage, Part(choices, offset, array.itemsize, chosen[valid]), location)
        if storage.place is not None and storage.place.tainted:
            for each in self._columns(view, safe):
                self.check_owner(storage, storage.place, each, each.offset, location)
        if storage.written is EVERYTHING:
            return array, None
        self.origins.number(storage, location)
        codes = storage.undefined(choices, offset).take(safe, axis)
        codes[(slice(None), ~valid) if axis else ~valid] = 0
        if not codes.any():
            return array, None
        return self._undefined(view, array, codes, must_be_defined, location)

    def _columns(self, view: View, chosen: np.ndarray) -> Iterator[View]:
        """Each column that run-time offsets chose, as a view of its own."""
        assert view.dynamic is not None
        start = self.offset_of(view)
        for offset in chosen.tolist():
            at = start + offset * view.dynamic.stride
            yield View(view.buffer, view.dtype, at, (view.sizes[0], 1), (view.strides[0], 1))

    def chosen_columns(self, view: View, location: Location | None) -> Iterator[tuple[int, View]]:
        """Number and place of each column of an indirect view, those outside of its tensor left out."""
        chosen, valid = self.lanes(view, False, location)
        return zip(np.flatnonzero(valid).tolist(), self._columns(view, chosen[valid]), strict=True)

    def _undefined(
        self, view: View, array: np.ndarray, codes: Codes, must_be_defined: bool | str, location: Location | None
    ) -> tuple[np.ndarray, Codes | None]:
        """Undefined elements were read: they flow on, or are refused where they matter."""
        if must_be_defined == LANES:
            must_be_defined = not are_whole_lanes(codes)
        if must_be_defined:
            self.origins.report(self.reporter, view, hole_in(codes), location)
        return shown(array, view.dtype, codes), None if must_be_defined else codes

    def require_written(self, view: View, location: Location | None, rule: str, rows: bool = False) -> None:
        """Refuse undefined elements of a tensor that leaves the kernel.

        rows: where the profile only warns, it does so of whole rows beside others that were written, as paddings are.
        """
        storage = self.touch(view)
        offset = self.offset_of(view)
        if view.dynamic is not None or storage.is_written(view, offset):
            return
        # An output that is not whole was not read by anybody.
        self.origins.number(storage, location if rule == "R-tensor-08" else None)
        final = False
        if isinstance(storage, ShapeStorage):
            hole = storage.hole(view, offset)
        else:
            codes = storage.undefined(view, offset)
            hole = hole_in(codes)
            final = rows and self.reporter.severity(rule) == WARNING and not are_whole_lanes(codes)
        self.origins.report(self.reporter, view, hole, location, rule, final)

    def write(
        self,
        view: View,
        value: Any,
        location: Location | None,
        undefined: Codes | None = None,
        skip: bool = False,
        keep: np.ndarray | None = None,
    ) -> None:
        """Store values, rounded to what the storage holds.

        undefined: origins of elements that hold nobody's data (None: all are defined). keep: elements to leave as they
        are (out-of-bounds lanes).
        """
        storage = self.storage.get(view.buffer) or self._revive(view)
        storage.last_access = self.clock
        if value.__class__ is np.ndarray:
            value = rounded(value, view.dtype if storage.__class__ is Storage else storage.element(view))
            if value.shape != view.sizes and value.size == view.size:
                value = value.reshape(view.sizes)
        if undefined is not None:
            undefined = fit(undefined, view.sizes)
        if view.dynamic is None:
            offset = self.offset_of(view) if view.terms else view.offset
        elif view.dynamic.kind != "scalar":
            self._scatter(storage, view, value, location, undefined, skip, keep)
            return
        else:
            chosen, valid = self.lanes(view, skip, location)
            if not valid[0]:
                return
            offset = self.offset_of(view) + int(chosen[0]) * view.dynamic.stride
        array = storage.array(view, offset)
        if storage.undo is not None:
            storage.undo.keep(Part(view, offset, array.itemsize))
        part = before = None
        if self.turns is not None and view.memory is SHARED_HBM:
            written = None if keep is None else np.broadcast_to(~keep, view.sizes)
            part = Part(view, offset, array.itemsize, where=written)
            before = self.turns.accesses.writing(self.core, storage, part, location)
        if keep is None:
            assign(array, value)
        else:
            np.copyto(array, value, casting="unsafe", where=~keep)
            self.origins.number(storage, None)
            kept = storage.undefined(view, offset)
            undefined = np.where(keep, kept, 0 if undefined is None else undefined)
        if self.turns is not None and part is not None and before is not None:
            self.turns.accesses.wrote(self.core, storage, part, before, location)
        self.wrote(storage, view, offset, undefined)

    def _scatter(
        self,
        storage: Storage,
        view: View,
        value: Any,
        location: Location | None,
        undefined: Codes | None,
        skip: bool,
        keep: np.ndarray | None,
    ) -> None:
        chosen, valid = self.lanes(view, skip, location)
        if keep is not None:
            # Lanes whose source is out of bounds; a lane is one row.
            valid = valid & ~keep.reshape(keep.shape[0], -1).any(axis=1)
        choices = view.choices()
        offset = self.offset_of(choices)
        # Rows of a tensor in HBM, or columns of one on chip; of two writes to one of them the later stays.
        targets: Any = (slice(None), chosen[valid]) if view.on_chip else chosen[valid]
        kept: Any = (slice(None), valid) if view.on_chip else valid
        array = storage.array(choices, offset)
        if storage.undo is not None:
            storage.undo.keep(Part(choices, offset, array.itemsize, chosen[valid]))
        part = before = None
        if self.turns is not None and view.memory is SHARED_HBM:
            part = Part(choices, offset, array.itemsize, chosen[valid])
            before = self.turns.accesses.writing(self.core, storage, part, location)
        rows = np.broadcast_to(value, view.sizes)[kept]
        if not view.on_chip:
            notice_contended(self, view, np.flatnonzero(valid), chosen[valid], rows, location)
        array[targets] = rows
        if self.turns is not None and part is not None and before is not None:
            self.turns.accesses.wrote(self.core, storage, part, before, location)
        if storage.place is not None and storage.place.slot.contested:
            for each in self._columns(view, chosen[valid]):
                self.places[view.memory].claim(storage.place, each, each.offset)
        if storage.first_write < 0:
            storage.first_write = self.clock
        storage.mark_chosen(choices, offset, targets, None if undefined is None else undefined[kept])

    def meet(self, op: Op, brought: Any) -> Any:
        """Wait for other cores where an instruction says so; returns what this one takes away from the meeting."""
        if self.turns is not None:
            specs = op.definition.operands.values()
            named = [each for each, spec in zip(op.operands, specs, strict=True) if not (spec.reads or spec.writes)]
            orders = tuple(self.storage[each.buffer] for each in named if each.buffer in self.storage)
            return self.turns.meet(self.core, op, brought, orders, self.reporter)
        rule = op.definition.since_rule
        assert rule is not None, f"{op.name} says with which rule it needs several cores"
        self.reporter.violate(
            rule,
            f"{op.name} in a kernel that runs on one core",
            hint="launch the kernel on two cores, kernel[2](...), or leave it out where nl.num_programs() is 1",
            location=op.location,
        )
        return brought

    def report(
        self,
        rule: str,
        message: str,
        bad: tuple[str, int] | None = None,
        wrong: np.ndarray | None = None,
        **details: Any,
    ) -> None:
        """Report a rule that the present instruction breaks. bad: the operand with indices, and their limit. wrong:
        which elements of what it reads first break it, though they are numbers like others."""
        note_inputs(self, rule, bad, wrong)
        self.reporter.violate(rule, message, location=self.location, **details)

    def bind(self, values: Mapping[Value, int]) -> None:
        """Set loop indices and registers."""
        self.values.update(values)


def rounded(value: np.ndarray, element: DType) -> np.ndarray:
    """Values as a storage of this type takes them."""
    # Other floats are rounded by NumPy when they are stored.
    if element is tfloat32 or element.itemsize == 1 or (value.dtype is not element.np and not element.is_float):
        return round_to(value, element)
    return value

"""What fits on chip: live bytes and banks over time, from first write to last access in executed order.

An SBUF tensor that may start at several partitions shares its bytes of the partitions with others of its height: two
tensors of up to 64 partitions, or four of up to 32, lie above each other. A PSUM tensor takes whole banks, whatever its
height. Addressed tensors count with the range they were given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tilewright.errors import Diagnostic, Location
from tilewright.ir.core import Op
from tilewright.rules import Reporter
from tilewright.sim.columns import Columns
from tilewright.sim.machine import Life
from tilewright.sim.session import Session
from tilewright.sim.spills import spilled_bytes
from tilewright.target import Target
from tilewright.tile.memory import PSUM, SBUF, Buffer, MemoryRegion, usable_psum_banks
from tilewright.tile.record import Record
from tilewright.tile.view import View


@dataclass(frozen=True, slots=True)
class Spill:
    """Tensors of one source line that the compiler would keep in HBM for want of room.

    buffer: the first of them. traffic_bytes: what they move to HBM and back. us: the time that takes.
    """

    buffer: Buffer
    traffic_bytes: int
    us: float
    count: int = 1


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Peak use of the on-chip memories and what was live then."""

    sbuf_peak_bytes: int
    sbuf_total_bytes: int
    psum_peak_banks: int
    sbuf_at_peak: tuple[Buffer, ...]
    psum_at_peak: tuple[Buffer, ...]
    sbuf_buffers: int
    psum_buffers: int
    spills: tuple[Spill, ...] = ()


def check_capacity(sessions: list[Session], reporter: Reporter) -> Occupancy:
    """Measure the use of SBUF and PSUM and report what does not fit."""
    measured = [occupancy_of(session) for session in sessions]
    for session, occupancy in zip(sessions, measured, strict=True):
        _report(session, occupancy, reporter)
    return max(measured, key=lambda occupancy: (occupancy.sbuf_peak_bytes, occupancy.psum_peak_banks))


def occupancy_of(session: Session) -> Occupancy:
    """The use of SBUF and PSUM by a kernel that ran, with what its compiler spills."""
    lives = [life for life in session.machine.all_lives() if not life.buffer.broken]
    if sum(life.buffer.row_bytes for life in lives) > session.target["memory.sbuf_usable_bytes"]:
        # Something may spill: use-lists say who writes it.
        session.settle()
    # Kernels of the legacy dialect were measured with spills of what finds no room at its first write, once each.
    return measure(lives, session.target, session.graph.body.ops if session.compiler == "current" else ())


def measure(lives: list[Life], target: Target, ops: Sequence[Op] = ()) -> Occupancy:
    """The use of SBUF and PSUM by buffers that live from a first write to a last access.

    ops: the instructions in the order in which they ran, where that is known, and what spills goes by it.
    """
    sbuf = [life for life in lives if life.buffer.memory is SBUF]
    psum = [life for life in lives if life.buffer.memory is PSUM]
    sbuf_peak, sbuf_live = _peak(sbuf, SBUF, target)
    psum_peak, psum_live = _peak(psum, PSUM, target)
    total = sum(life.buffer.row_bytes for life in sbuf)
    spills = _spills(sbuf, target, ops) if sbuf_peak > target["memory.sbuf_usable_bytes"] else ()
    return Occupancy(sbuf_peak, total, psum_peak, sbuf_live, psum_live, len(sbuf), len(psum), spills)


def _spills(lives: list[Life], target: Target, ops: Sequence[Op]) -> tuple[Spill, ...]:
    """Tensors that find no room at their first write, by source line, those that move most first.

    What they move, measured kernels could not hide behind other work (docs/timing.md). Without the instructions each is
    stored and loaded again once, but for what was only loaded: that is loaded later instead.
    """
    room = target["memory.sbuf_usable_bytes"]
    without, most = _without_room(lives, target)
    if ops:
        moved = spilled_bytes(ops, target, room - most)
    else:
        moved = {buffer: 0 if _is_loaded(buffer) else 2 * buffer.row_bytes * buffer.partitions for buffer in without}
    found: dict[Location | None, Spill] = {}
    for buffer in moved or without:
        traffic = moved.get(buffer, 0)
        before = found.get(buffer.location, Spill(buffer, 0, 0.0, 0))
        # GB/s is bytes per ns.
        us = before.us + traffic / target["dma.core_bandwidth"] / 1e3
        found[buffer.location] = Spill(before.buffer, before.traffic_bytes + traffic, us, before.count + 1)
    return tuple(sorted(found.values(), key=lambda spill: -spill.traffic_bytes))


def _without_room(lives: list[Life], target: Target) -> tuple[list[Buffer], int]:
    """Tensors that find no room at their first write, and the most bytes that others take at given addresses."""
    room = target["memory.sbuf_usable_bytes"]
    columns = Columns(target, whole=False)
    ranges = _Ranges(lives, 1)
    without: list[Buffer] = []
    most = 0
    for _, ends, number in _events(lives):
        buffer = lives[number].buffer
        if lives[number].place is not None:
            ranges.change(number, -1 if ends else 1)
            most = max(most, ranges.used)
            continue
        if ends:
            columns.remove(number)
            continue
        columns.add(number, buffer.partitions, buffer.row_bytes)
        if columns.highest() + ranges.used > room:
            columns.remove(number)
            without.append(buffer)
    return without, most


def _is_loaded(buffer: Buffer) -> bool:
    """True when only transfers write the buffer, as far as the recorded instructions tell."""
    writers = [op.definition for op in buffer.uses if _writes(op, buffer)]
    return bool(writers) and all("dma" in record.engines for record in writers)


def _writes(op: Op, buffer: Buffer) -> bool:
    record = op.definition
    if not isinstance(record, Record):
        return False
    written = [op.operands[position] for position in record.written if position < len(op.operands)]
    return any(isinstance(view, View) and view.buffer is buffer for view in written)


def _events(lives: list[Life]) -> list[tuple[int, int, int]]:
    """(time, 0 for a first write or 1 for a last access, number of the life), in order.

    At equal times starts come first: an instruction's inputs and outputs are live together.
    """
    events: list[tuple[int, int, int]] = []
    for number, life in enumerate(lives):
        events.append((life.first, 0, number))
        events.append((life.last, 1, number))
    return sorted(events)


def _peak(lives: list[Life], memory: MemoryRegion, target: Target) -> tuple[int, tuple[Buffer, ...]]:
    """The greatest use at any moment and the buffers live then (a sweep over first writes and last accesses)."""
    unit = target["memory.psum_bank_bytes"] if memory is PSUM else 1
    columns = Columns(target, whole=memory is PSUM)
    live: dict[int, None] = {}
    best = 0
    at_best: tuple[int, ...] = ()
    ranges = _Ranges(lives, unit)
    for _, ends, number in _events(lives):
        buffer = lives[number].buffer
        if lives[number].place is not None:
            ranges.change(number, -1 if ends else 1)
        elif ends:
            columns.remove(number)
        else:
            columns.add(number, buffer.partitions, -(-buffer.row_bytes // unit))
        if ends:
            del live[number]
            continue
        live[number] = None
        use = columns.highest() + ranges.used
        if use > best:
            best, at_best = use, tuple(live)
    return best, tuple(lives[number].buffer for number in at_best)


class _Ranges:
    """Units (bytes or banks) that live buffers with addresses cover; where these overlap, they count once."""

    def __init__(self, lives: list[Life], unit: int) -> None:
        self.used = 0
        found: dict[int, tuple[int, int]] = {}
        for number, life in enumerate(lives):
            if life.place is not None:
                start, end = life.place.byte, life.place.byte + life.buffer.row_bytes
                found[number] = (start // unit, -(-end // unit))
        bounds = sorted({bound for each in found.values() for bound in each})
        at = {bound: i for i, bound in enumerate(bounds)}
        self._widths = [high - low for low, high in pairwise(bounds)]
        self._users = [0] * len(bounds)
        self._parts = {number: range(at[start], at[end]) for number, (start, end) in found.items()}

    def change(self, number: int, by: int) -> None:
        """A buffer's life begins (1) or ends (-1)."""
        for part in self._parts[number]:
            before = self._users[part]
            self._users[part] = before + by
            if not before or not before + by:
                self.used += by * self._widths[part]


def _report(session: Session, occupancy: Occupancy, reporter: Reporter) -> None:
    target = session.target
    usable = target["memory.sbuf_usable_bytes"]
    if occupancy.sbuf_peak_bytes > usable:
        _report_spill(session, occupancy, usable, reporter)
    banks = usable_psum_banks(target)
    if occupancy.psum_peak_banks > banks:
        live = Counter(f"{b.name} ({b.location})" for b in occupancy.psum_at_peak)
        names = ", ".join(f"{count} x {name}" if count > 1 else name for name, count in [*live.items()][:12])
        reporter.violate(
            "R-tensor-10",
            f"{occupancy.psum_peak_banks} PSUM banks are live at once; {target.name} has {banks}",
            hint=_fewer_banks(occupancy.psum_at_peak, banks * target["memory.psum_bank_bytes"]),
            location=occupancy.psum_at_peak[-1].location,
            notes=(f"live at the peak: {names}",),
        )


def _fewer_banks(live: Sequence[Buffer], size: int) -> str:
    """What to do about tiles that need more banks than there are, in so many bytes."""
    used = sum(buffer.row_bytes for buffer in live)
    if used > size:
        return "copy results to sbuf before starting the next ones, so that fewer PSUM tiles live at the same time"
    return (
        f"each takes a bank of its own, but they have {used} of {size} bytes per partition: make one tile of several, "
        "such as (128, 4, 128)"
    )


def _described(buffer: Buffer) -> str:
    return f"{buffer.name} ({buffer.row_bytes} B, {buffer.location})"


def _report_spill(session: Session, occupancy: Occupancy, usable: int, reporter: Reporter) -> None:
    """SBUF tensors that do not fit: the compiler would move some through HBM (a warning, unless asked otherwise)."""
    spills = occupancy.spills
    message = (
        f"live SBUF tensors need {occupancy.sbuf_peak_bytes} bytes per partition at their peak; "
        f"{session.target.name} has {usable} usable"
    )
    tensors = [spill.buffer for spill in spills]
    names = ", ".join(f"{each.count} x {_described(each.buffer)}" for each in spills[:8])
    traffic, us = sum(spill.traffic_bytes for spill in spills), sum(spill.us for spill in spills)
    notes = (
        f"would spill to HBM, be loaded later or be stored sooner: {names}",
        f"predicted extra traffic {traffic} bytes, about {us:.1f} us",
    )
    hint = "use smaller tiles, or finish with a tensor before starting the next"
    where = tensors[0].location if tensors else None
    if session.options.no_spill or not tensors:
        reporter.violate("R-tensor-11", message, hint=hint, location=where, notes=notes)
    else:
        reporter.add(Diagnostic("W302", message, "R-tensor-11", "warning", hint, where, (), notes))

"""How much of the on-chip memories a kernel needs: every buffer from its first to its last access, all copies of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewright.ir.core import Graph, Op
from tilewright.target import Target
from tilewright.tile.memory import PSUM, SBUF, Buffer
from tilewright.tile.ops import ALLOC, DEALLOC, FOR
from tilewright.tile.view import View


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Peaks of a kernel: bytes per partition of SBUF, banks of PSUM, and the buffers alive at the first of them."""

    sbuf_bytes: int
    psum_banks: int
    at_peak: tuple[Buffer, ...]

    def misfit(self, target: Target) -> str | None:
        """What there is too much of for a target; None where it fits."""
        room, banks = target["memory.sbuf_usable_bytes"], target["memory.psum_banks"]
        if self.sbuf_bytes > room:
            return f"would take {self.sbuf_bytes} bytes of SBUF per partition; {target.name} has {room}"
        if self.psum_banks > banks:
            return f"would take {self.psum_banks} banks of PSUM; {target.name} has {banks}"
        return None


def occupancy(graph: Graph, target: Target) -> Occupancy:
    """The peaks. A buffer outside of a loop that uses it lives as long as the loop."""
    return occupancy_of(graph.body.ops, target)


def occupancy_of(ops: Sequence[Op], target: Target, kept: Iterable[Buffer] = ()) -> Occupancy:
    """The peaks of some ops of a kernel's body, beside buffers that live all the time."""
    spans, end = _spans(ops)
    for buffer in kept:
        spans[buffer] = [0, end]
    return _peaks(spans, target["memory.psum_bank_bytes"])


def occupancy_by_part(parts: Sequence[Sequence[Op]], target: Target) -> list[Occupancy]:
    """The peaks during each of the parts that make up a kernel's body, in order."""
    ends: list[int] = []
    spans, _ = _spans([op for part in parts for op in part], {part[-1]: None for part in parts if part}, ends)
    made: list[Occupancy] = []
    begin, after = 0, iter(ends)
    for part in parts:
        end = next(after) if part else begin
        during = {b: [max(s, begin), min(e, end)] for b, (s, e) in spans.items() if part and s <= end and e > begin}
        made.append(_peaks(during, target["memory.psum_bank_bytes"]))
        begin = end
    return made


Spans = dict[Buffer, list[int]]


def _spans(ops: Sequence[Op], last: Iterable[Op] = (), ends: list[int] | None = None) -> tuple[Spans, int]:
    """The first and the last use of each buffer, as positions in the text; `ends` gets those of the ops in `last`."""
    spans: Spans = {}
    clock = [0]

    def visit(ops: Sequence[Op]) -> tuple[set[Buffer], set[Buffer]]:
        own: set[Buffer] = set()
        used: set[Buffer] = set()
        for op in ops:
            clock[0] += 1
            if op.definition is ALLOC:
                assert isinstance(op.result, Buffer)
                own.add(op.result)
            elif op.definition is FOR:
                begin = clock[0]
                inner, copied = visit(op.regions[0].ops)
                for buffer in inner | copied:
                    # What a loop uses, and its own buffers that take turns with their copies, last as long as it.
                    note(buffer, begin)
                    note(buffer, clock[0])
                used |= inner
            elif op.definition is not DEALLOC:
                for operand in op.operands:
                    if isinstance(operand, View) and operand.on_chip:
                        note(operand.buffer, clock[0])
                        used.add(operand.buffer)
            if ends is not None and op in last:
                ends.append(clock[0])
        return used - own, {buffer for buffer in own if buffer.depth > 1}

    def note(buffer: Buffer, at: int) -> None:
        span = spans.setdefault(buffer, [at, at])
        span[0], span[1] = min(span[0], at), max(span[1], at)

    visit(ops)
    return spans, clock[0]


def _peaks(spans: Spans, bank: int) -> Occupancy:
    events: list[tuple[int, int, Buffer]] = []
    for buffer, (start, end) in spans.items():
        events += [(start, 1, buffer), (end + 1, -1, buffer)]
    events.sort(key=lambda event: (event[0], event[1]))
    sbuf = banks = best = best_banks = 0
    alive: dict[Buffer, None] = {}
    peak: tuple[Buffer, ...] = ()
    for _, sign, buffer in events:
        size = buffer.row_bytes * buffer.depth
        if buffer.memory is SBUF:
            sbuf += sign * size
        elif buffer.memory is PSUM:
            banks += sign * buffer.depth * -(-buffer.row_bytes // bank)
        if sign > 0:
            alive[buffer] = None
        else:
            alive.pop(buffer, None)
        best_banks = max(best_banks, banks)
        if sbuf > best:
            best, peak = sbuf, tuple(b for b in alive if b.memory is SBUF)
    return Occupancy(best, best_banks, peak)

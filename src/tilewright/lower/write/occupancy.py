"""How much of the on-chip memories a kernel needs: every buffer from its first to its last access, all copies of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tilewright.ir.core import Graph, Op
from tilewright.lower.write.extents import Extent, Span, extents, extents_of_parts
from tilewright.target import Target
from tilewright.tile.memory import PSUM, SBUF, Buffer
from tilewright.tile.ops import ALLOC


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Peaks of a kernel: bytes per partition of SBUF, banks of PSUM."""

    sbuf_bytes: int
    psum_banks: int

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
    """The peaks of some ops of a kernel's body, beside buffers that stay: those that were there before live all the
    time, those that the ops allocate from their first access on."""
    found = {each.buffer: each for each in extents(ops)}
    end = 1 + max((each.span[1] for each in found.values()), default=0)
    made = set(_allocated(ops))
    for buffer in kept:
        life = found[buffer].nest[0] if buffer in made and buffer in found else 0, end
        found[buffer] = Extent(buffer, 1, 1, life, life, life)
    return _peaks(list(found.values()), target)


def surely_fits(ops: Sequence[Op], target: Target, kept: Iterable[Buffer] = ()) -> bool:
    """True when there is room even if nothing that some ops allocate ever gave way: no lives need be found out."""
    bank = target["memory.psum_bank_bytes"]
    sbuf = banks = 0
    for buffer in dict.fromkeys([*_allocated(ops), *kept]):
        if buffer.memory is SBUF:
            sbuf += buffer.depth * buffer.row_bytes
        elif buffer.memory is PSUM:
            banks += buffer.depth * -(-buffer.row_bytes // bank)
    return sbuf <= target["memory.sbuf_usable_bytes"] and banks <= target["memory.psum_banks"]


def _allocated(ops: Sequence[Op]) -> Iterator[Buffer]:
    for op in ops:
        if op.definition is ALLOC:
            (buffer,) = op.results
            assert isinstance(buffer, Buffer)
            yield buffer
        for region in op.regions:
            yield from _allocated(region.ops)


def occupancy_by_part(ops: Sequence[Op], parts: Sequence[Sequence[Op]], target: Target) -> list[Occupancy]:
    """The peaks during each of the parts that make up a kernel's body, which may be put between each other."""
    found, ends = extents_of_parts([[op] for op in ops])
    # What no engine runs takes no time.
    spans = {op: (begin, end) for op, begin, end in zip(ops, [0, *ends], ends, strict=False) if begin < end}
    windows = [_window([spans[op] for op in part if op in spans]) for part in parts]
    waiting = sorted(found, key=lambda each: each.span[0], reverse=True)
    alive: list[Extent] = []
    made: dict[int, Occupancy] = {}
    for at, (begin, end) in sorted(enumerate(windows), key=lambda each: each[1]):
        while waiting and waiting[-1].span[0] <= end:
            alive.append(waiting.pop())
        alive = [each for each in alive if each.span[1] > begin]
        made[at] = _peaks([each for each in alive if end > begin and each.span[0] <= end], target)
    return [made[at] for at in range(len(parts))]


def _window(spans: Sequence[Span]) -> Span:
    return min((begin for begin, _ in spans), default=0), max((end for _, end in spans), default=0)


def _peaks(found: Sequence[Extent], target: Target) -> Occupancy:
    bank = target["memory.psum_bank_bytes"]
    # Changes of bytes and banks; what ends does so before what begins at the same place.
    changes: list[tuple[int, int, int, int]] = []
    for each in found:
        buffer, (first, last) = each.buffer, each.span
        if buffer.memory is SBUF:
            size, banks = each.copies * buffer.row_bytes, 0
        elif buffer.memory is PSUM:
            size, banks = 0, each.copies * -(-buffer.row_bytes // bank)
        else:
            continue
        changes += ((first, 1, size, banks), (last + 1, 0, -size, -banks))
    changes.sort()
    sbuf = held = best = best_banks = 0
    for _, _, size, banks in changes:
        sbuf += size
        held += banks
        best, best_banks = max(best, sbuf), max(best_banks, held)
    return Occupancy(best, best_banks)

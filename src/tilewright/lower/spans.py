"""How rows that a network sorts lie: each on one partition, several of them side by side, or across a number of them.

What is best is the way that takes the least time by a closed form; it is taken where searching does not take less.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.dtypes import float32
from tilewright.lower.indices import EXACT
from tilewright.lower.picker import Picker
from tilewright.lower.tuning import TUNING
from tilewright.target import Target

BYTES_PER_ELEMENT = 24
"""What is on chip at a time for each element of a partition: six numbers."""


def power(size: int) -> int:
    """The least power of two that is no less, and no less than 2."""
    return 1 << max(size - 1, 1).bit_length()


@dataclass(frozen=True, slots=True)
class Spans:
    """Rows of a size, each across `span` partitions; `blocks` of them side by side where span is 1."""

    size: int
    span: int
    blocks: int

    @property
    def chunk(self) -> int:
        """Elements of a row that a partition has."""
        return -(-self.size // self.span)

    @property
    def width(self) -> int:
        """The same with what fills up to a power of two."""
        return power(self.chunk)

    @property
    def bits(self) -> int:
        """Bits of a position in a row."""
        return (power(self.size) - 1).bit_length()

    def time_ns(self, target: Target, rows: int, pick: Picker) -> float:
        """About how long all rows take."""
        per_group = target["limits.partitions"] // self.span * self.blocks
        groups = -(-rows // per_group)
        network = self._network_ns(target)
        if not pick.wants_places or is_packed(pick, self.size):
            return groups * network
        if is_ranked(self.size):
            return groups * (2 * network + self._ranks_ns(target))
        return groups * CARRIED * network

    def _network_ns(self, target: Target) -> float:
        halvings, levels = self.width.bit_length() - 1, self.span.bit_length() - 1
        stages = halvings * (halvings + 1) // 2 + levels * halvings + levels * (levels + 1) // 2
        count = self.blocks * self.width / 2
        mine = (target["vector.overhead_cycles.other"] + count) / target["clock_ghz.vector"]
        its = target["gpsimd.fixed_cycles"] + target["gpsimd.cycles_per_element.tensor_tensor"] * count
        its /= target["clock_ghz.gpsimd"]
        latency, both = target["vector.latency_ns"], 2 * mine
        if not target["features.port_vector_gpsimd_sbuf"]:
            both = min(both, mine * (1 + max(its - mine, 0) / (its + mine)) + target["gpsimd.latency_ns"])
        # Through the Tensor engine, out of PSUM, and back.
        turned = 2 * (2 * count / target["clock_ghz.vector"] + 4 * target["tensor.latency_ns"])
        return stages * (both + latency / 2) + levels * turned

    def _ranks_ns(self, target: Target) -> float:
        count = self.blocks * self.chunk
        gathered = target["gpsimd.fixed_cycles"] + target["gpsimd.cycles_per_element.n_gather"] * count
        compared = 2 * (target["vector.overhead_cycles.other"] + count)
        step = gathered / target["clock_ghz.gpsimd"] + compared / target["clock_ghz.vector"]
        table = 0.0
        if self.span > 1:
            moved = target["limits.partitions"] * self.span * self.width * float32.itemsize
            table = 2 * target["dma.hwdge_start_ns"] + moved / target["dma.core_bandwidth"]
        return self.bits * (step + target["vector.latency_ns"]) + table


CARRIED = 4
"""How many times longer a network takes whose positions go with keys."""


def is_ranked(size: int) -> bool:
    """True where float32 holds a place in the row and a position in it."""
    return size * power(size) <= EXACT


def is_packed(pick: Picker, size: int) -> bool:
    """True where float32 holds an element, counted from the least possible, and a position in the row."""
    numbers = pick.numbers
    return numbers is not None and (numbers.high - numbers.low + 1) * power(size) <= EXACT


def spans(pick: Picker, rows: int, size: int) -> Spans | None:
    """How rows lie that a network sorts, or None where they are searched in less time."""
    target, low = pick.low.target, pick.low
    lanes = target["limits.partitions"]
    taken = sum(low.resident.values()) + sum(view.buffer.row_bytes for view in low.shared.values())
    room = (target["memory.sbuf_usable_bytes"] - taken) // BYTES_PER_ELEMENT
    found: list[Spans] = []
    span, most = 1, lanes if target["features.transpose_bit_exact"] else 1
    while span <= most:
        laid = Spans(size, span, 1)
        # A table of a whole row is on every partition too.
        held = laid.width + (span * laid.width // 4 if pick.wants_places and span > 1 else 0)
        if held <= room and laid.width <= TUNING.searched and span * laid.width <= TUNING.sorted_long:
            blocks = min(rows // lanes, room // held, TUNING.searched // laid.width) if span == 1 else 1
            found.append(Spans(size, span, max(blocks, 1)))
        span *= 2
    best = min(found, key=lambda laid: laid.time_ns(target, rows, pick), default=None)
    if best is None or best.time_ns(target, rows, pick) >= pick.time_ns(rows, size):
        return None
    return best

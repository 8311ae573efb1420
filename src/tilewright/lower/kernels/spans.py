"""How rows that a network sorts lie: each on one partition, several of them side by side, or across a number of them.

What is best is the way that takes the least time by a closed form; it is taken where searching does not take less.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from tilewright.dtypes import float32
from tilewright.errors import TileNotImplementedError, fail
from tilewright.ir.core import Op
from tilewright.lower.kernels.picker import Picker
from tilewright.lower.tuning import TUNING
from tilewright.target import Target
from tilewright.tensor.ranges import EXACT

BYTES_PER_ELEMENT = 24
"""What is on chip at a time for each element of a partition: six numbers."""
BYTES_PER_KEY = 40
"""The same where positions go with keys."""


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
        values = self._network_ns(target, pick.is_wide)
        if not pick.wants_places:
            return groups * values
        if is_packed(pick, self.size):
            return groups * self._network_ns(target, packed_count(pick, self.size) > EXACT)
        if is_ranked(self.size):
            packed = self._network_ns(target, self.size * power(self.size) > EXACT)
            return groups * (values + packed + self._ranks_ns(target))
        return groups * CARRIED * values

    def _network_ns(self, target: Target, integers: bool) -> float:
        halvings, levels = self.width.bit_length() - 1, self.span.bit_length() - 1
        stages = halvings * (halvings + 1) // 2 + levels * halvings + levels * (levels + 1) // 2
        count = self.blocks * self.width / 2
        mine = (target["vector.overhead_cycles.other"] + count) / target["clock_ghz.vector"]
        its = target["gpsimd.fixed_cycles"] + target["gpsimd.cycles_per_element.tensor_tensor"] * count
        its /= target["clock_ghz.gpsimd"]
        latency, both = target["vector.latency_ns"], 2 * mine
        if integers:
            both = 2 * its
        elif not target["features.port_vector_gpsimd_sbuf"]:
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


INTEGERS = 1 << 31
"""Integers of 32 bits that are not negative."""

CARRIED = 4
"""How many times longer a network takes whose positions go with keys."""


def is_ranked(size: int) -> bool:
    """True where an integer of 32 bits holds a place in the row and a position in it."""
    return size * power(size) <= min(INTEGERS, TUNING.ranked)


def packed_count(pick: Picker, size: int) -> float:
    """How many numbers there are of an element, counted from the least possible, and a position in the row."""
    numbers = pick.numbers
    return (numbers.high - numbers.low + 1) * power(size) if numbers is not None else inf


def is_packed(pick: Picker, size: int) -> bool:
    """True where an integer of 32 bits holds both."""
    return packed_count(pick, size) <= INTEGERS


def _layouts(target: Target, size: int) -> list[Spans]:
    """Every way in which rows of a size can lie."""
    most = target["limits.partitions"] if target["features.transpose_bit_exact"] else 1
    found = [Spans(size, 1 << i, 1) for i in range(most.bit_length())]
    return [laid for laid in found if laid.width <= TUNING.searched and laid.span * laid.width <= TUNING.sorted_long]


def sorts_wide(target: Target, op: Op) -> bool:
    """True for a topk of 32-bit integers that a network sorts as they are, in parts that are never long."""
    size, (_, places) = op.operands[0].type.shape[op.attrs["axis"]], op.results
    if not target["features.transpose_bit_exact"] or 2 * op.attrs["k"] <= size:
        return False
    # Where positions are asked for, a whole row is on every partition.
    fits = is_ranked(size) and 4 * power(size) * float32.itemsize <= target["memory.sbuf_usable_bytes"]
    return bool(_layouts(target, size)) and (not places.uses or fits)


def _held(pick: Picker, laid: Spans) -> int:
    """Bytes of each partition that sorting takes."""
    if not pick.wants_places or is_packed(pick, laid.size):
        return laid.width * BYTES_PER_ELEMENT
    if not is_ranked(laid.size):
        return laid.width * BYTES_PER_KEY
    # Elements are looked up in a table of a whole row, on every partition.
    table = laid.span * laid.width // 4 if laid.span > 1 else 0
    return (laid.width + table) * BYTES_PER_ELEMENT


def longest_row(pick: Picker) -> int:
    """Elements of the longest row that a network sorts with nothing else on chip."""
    target, size = pick.low.target, 2
    while any(_held(pick, laid) <= target["memory.sbuf_usable_bytes"] for laid in _layouts(target, 2 * size)):
        size *= 2
    return size


def spans(pick: Picker, rows: int, size: int) -> Spans | None:
    """How rows lie that a network sorts, or None where they are searched in less time."""
    target, low = pick.low.target, pick.low
    lanes = target["limits.partitions"]
    taken = sum(low.resident.values()) + sum(view.buffer.row_bytes for view in low.shared.values())
    room = target["memory.sbuf_usable_bytes"] - taken

    known = _layouts(target, size)
    found = [
        replace(laid, blocks=max(1, min(rows // lanes, room // _held(pick, laid), TUNING.searched // laid.width)))
        if laid.span == 1
        else laid
        for laid in known
        if _held(pick, laid) <= room
    ]
    if pick.is_wide and not found:
        if not known:
            raise fail(
                "E501",
                f"rows of {size} integers of 32 bits are longer than a network sorts",
                hint="sort shorter rows",
                location=pick.op.location,
                error=TileNotImplementedError,
            )
        found = [min(known, key=lambda laid: _held(pick, laid))]
    best = min(found, key=lambda laid: laid.time_ns(target, rows, pick), default=None)
    if best is None:
        return None
    if not pick.is_wide and best.time_ns(target, rows, pick) >= TUNING.network_worth * pick.time_ns(rows, size):
        return None
    return best

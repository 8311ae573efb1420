"""What a kernel moves between HBM and the chip, tensor by tensor: how much is compulsory, what is moved again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tilewright.errors import Location
from tilewright.ir.core import Graph, Op
from tilewright.tile.memory import Buffer
from tilewright.tile.record import Record
from tilewright.tile.view import View
from tilewright.timing.overlap import Pattern

_MOST_PATTERNS = 1 << 16
"""Accesses of one tensor that are told apart; further ones count as parts that were not touched before."""

_EXACT_UP_TO = 1 << 28
"""Bytes of different accesses up to which their overlaps are counted; beyond it they count as if there were none."""


@dataclass(slots=True)
class Moved:
    """Transfers of one tensor in one direction."""

    bytes: int = 0
    transfers: int = 0
    patterns: dict[Pattern, int] = field(default_factory=dict)
    untold: int = 0
    lines: dict[Location | None, int] = field(default_factory=dict)

    def add(self, pattern: Pattern | None, size: int, line: Location | None) -> None:
        """Note a transfer of `size` bytes; without a pattern its rows are chosen at run time."""
        self.bytes += size
        self.transfers += 1
        self.lines[line] = self.lines.get(line, 0) + size
        if pattern is None or (len(self.patterns) >= _MOST_PATTERNS and pattern not in self.patterns):
            self.untold += size
        else:
            self.patterns[pattern] = self.patterns.get(pattern, 0) + 1

    def merge(self, other: Moved) -> None:
        """Add the transfers of another core."""
        self.bytes += other.bytes
        self.transfers += other.transfers
        self.untold += other.untold
        for pattern, count in other.patterns.items():
            self.patterns[pattern] = self.patterns.get(pattern, 0) + count
        for line, size in other.lines.items():
            self.lines[line] = self.lines.get(line, 0) + size

    def touched(self, buffer: Buffer) -> int:
        """Bytes of the tensor that were moved at least once."""
        told = sum(map(_bytes, self.patterns))
        if len(self.patterns) > 1 and told <= _EXACT_UP_TO:
            told = _union(self.patterns, buffer.row_bytes)
        return min(buffer.row_bytes, told + self.untold)

    @property
    def busiest_line(self) -> Location | None:
        """The line that moved most."""
        return max(self.lines, key=lambda line: self.lines[line], default=None)


class Traffic:
    """All transfers of one core."""

    __slots__ = ("reads", "writes")

    def __init__(self) -> None:
        self.reads: dict[Buffer, Moved] = {}
        self.writes: dict[Buffer, Moved] = {}

    def add(self, op: Op, patterns: Mapping[View, Pattern]) -> None:
        """Note the transfers of an instruction, given the patterns of its accesses that are known."""
        record: Record = op.definition
        specs = list(record.operands.values())
        for position, view in enumerate(op.operands):
            if not isinstance(view, View) or view.on_chip:
                continue
            spec = specs[min(position, len(specs) - 1)]
            for wanted, table in ((spec.reads, self.reads), (spec.writes, self.writes)):
                if wanted:
                    moved = table.get(view.buffer)
                    if moved is None:
                        moved = table[view.buffer] = Moved()
                    moved.add(patterns.get(view), view.nbytes, op.location)

    def compulsory(self, graph: Graph) -> int:
        """Bytes of inputs that are read and of inputs and outputs that are written, each once."""
        return _compulsory([(graph, self)])

    def intermediates(self, graph: Graph) -> list[tuple[Buffer, Moved, Moved]]:
        """Tensors of the kernel's own in HBM that it writes and reads back, with both directions."""
        outside = {*graph.inputs, *graph.outputs}
        return [
            (buffer, written, self.reads[buffer])
            for buffer, written in self.writes.items()
            if buffer not in outside and buffer in self.reads
        ]


def compulsory_of_cores(cores: Iterable[tuple[Graph, Traffic]]) -> int:
    """Compulsory bytes of a kernel on several cores, which share inputs and outputs."""
    return _compulsory(list(cores))


def _compulsory(cores: list[tuple[Graph, Traffic]]) -> int:
    total = 0
    for role in ("inputs", "outputs"):
        count = max(len(getattr(graph, role)) for graph, _ in cores)
        for position in range(count):
            total += _of_tensor(cores, role, position)
    return total


def _of_tensor(cores: list[tuple[Graph, Traffic]], role: str, position: int) -> int:
    read, written = Moved(), Moved()
    tensor: Buffer | None = None
    for graph, traffic in cores:
        tensors = getattr(graph, role)
        if position >= len(tensors) or (role == "outputs" and tensors[position] in graph.inputs):
            continue
        if tensors[position] in tensors[:position]:
            # Returned twice, moved once.
            continue
        tensor = tensors[position]
        assert tensor is not None
        if role == "inputs" and tensor in traffic.reads:
            read.merge(traffic.reads[tensor])
        if tensor in traffic.writes:
            written.merge(traffic.writes[tensor])
    return 0 if tensor is None else read.touched(tensor) + written.touched(tensor)


def _bytes(pattern: Pattern) -> int:
    """Different bytes of one access; a dim that is broadcast adds none."""
    total = pattern[4]
    for size, stride in pattern[3]:
        total *= size if stride else 1
    return total


def _union(patterns: Iterable[Pattern], tensor_bytes: int) -> int:
    """Different bytes of several accesses of a tensor in HBM, counted in units of its smallest element."""
    patterns = list(patterns)
    unit = min(pattern[4] for pattern in patterns)
    mask = np.zeros(-(-tensor_bytes // unit), bool)
    for _, _, start, dims, itemsize in patterns:
        sizes = (*[size for size, _ in dims], itemsize // unit)
        strides = (*[stride // unit for _, stride in dims], 1)
        np.ndarray(sizes, bool, mask, start // unit, strides)[...] = True
    return int(np.count_nonzero(mask)) * unit

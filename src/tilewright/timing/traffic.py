"""What a kernel moves between HBM and the chip, tensor by tensor: how much is compulsory, what is moved again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tilewright.errors import Location
from tilewright.ir.core import Graph
from tilewright.tile.memory import Buffer
from tilewright.timing.touched import Kind, Starts, bytes_of, union


@dataclass(slots=True)
class Moved:
    """Transfers of one tensor in one direction.

    starts: where accesses began, by what they look like otherwise. untold: bytes of accesses that are not told apart:
    rows that are chosen at run time, and what lies beyond the number of places that are remembered.
    """

    bytes: int = 0
    transfers: int = 0
    untold: int = 0
    starts: dict[Kind, Starts] = field(default_factory=dict)
    lines: dict[Location | None, int] = field(default_factory=dict)
    # After so many transfers, so many bytes were touched.
    counted: tuple[int, int] | None = None

    def of_kind(self, kind: Kind) -> Starts:
        """Where accesses of one kind began."""
        known = self.starts.get(kind)
        if known is None:
            known = self.starts[kind] = Starts()
        return known

    def add(self, starts: Starts | None, start: int, size: int, line: Location | None) -> None:
        """Note a transfer of `size` bytes from byte `start` on; without `starts` its rows are chosen at run time."""
        self.bytes += size
        self.transfers += 1
        self.lines[line] = self.lines.get(line, 0) + size
        if starts is None or not starts.add(start):
            self.untold += size

    def merge(self, other: Moved) -> None:
        """Add the transfers of another core."""
        self.bytes += other.bytes
        self.transfers += other.transfers
        self.untold += other.untold
        for kind, starts in other.starts.items():
            mine = self.of_kind(kind)
            self.untold += sum(not mine.add(start) for start in starts.places()) * bytes_of(kind)
        for line, size in other.lines.items():
            self.lines[line] = self.lines.get(line, 0) + size

    def touched(self, buffer: Buffer) -> int:
        """Bytes of the tensor that were moved at least once."""
        known = self.counted
        if known is None or known[0] != self.transfers:
            told = union({kind: starts.places() for kind, starts in self.starts.items()}, buffer.row_bytes)
            known = self.counted = (self.transfers, min(buffer.row_bytes, told + self.untold))
        return known[1]

    def repeats(self) -> bool:
        """True when some access was made more than once."""
        return any(starts.added > len(starts.places()) for starts in self.starts.values())

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

    def moved(self, buffer: Buffer, writes: bool) -> Moved:
        """The transfers of a tensor in one direction."""
        table = self.writes if writes else self.reads
        known = table.get(buffer)
        if known is None:
            known = table[buffer] = Moved()
        return known

    @property
    def bytes(self) -> int:
        """Bytes on the HBM side of all transfers, both ways."""
        return sum(moved.bytes for table in (self.reads, self.writes) for moved in table.values())

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
    read: list[Moved] = []
    written: list[Moved] = []
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
            read.append(traffic.reads[tensor])
        if tensor in traffic.writes:
            written.append(traffic.writes[tensor])
    return 0 if tensor is None else _together(read).touched(tensor) + _together(written).touched(tensor)


def _together(cores: list[Moved]) -> Moved:
    """The transfers of all cores."""
    if len(cores) == 1:
        return cores[0]
    total = Moved()
    for each in cores:
        total.merge(each)
    return total

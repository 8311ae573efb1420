"""The few messages of Perfetto's trace format that a timeline needs, in protobuf's wire format.

A message is bytes: fields joined one after the other. Field numbers are those of perfetto_trace.proto; names and other
strings are interned (written once, then referred to by number), as Perfetto's own writers do.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import pack

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_CONTINUES = 1 << 7

SLICE_BEGIN, SLICE_END, COUNTER = 1, 2, 4
_EXPLICIT_ORDER = 3
_STATE_CLEARED, _NEEDS_STATE = 1, 2
_UNITS = {"count": 2, "bytes": 3}
_SEQUENCE = 1


@lru_cache(maxsize=1 << 12)  # Field keys and small numbers come again and again.
def varint(value: int) -> bytes:
    """A number of at least 0, seven bits per byte, lowest first."""
    made = bytearray()
    while value >= _CONTINUES:
        made.append(value & (_CONTINUES - 1) | _CONTINUES)
        value >>= 7
    made.append(value)
    return bytes(made)


def number(field: int, value: int) -> bytes:
    """A field that holds an unsigned number."""
    return varint(field << 3 | _VARINT) + varint(value)


def fixed(field: int, value: int) -> bytes:
    """A field that holds a number in eight bytes."""
    return varint(field << 3 | _FIXED64) + value.to_bytes(8, "little")


def real(field: int, value: float) -> bytes:
    """A field that holds a double."""
    return varint(field << 3 | _FIXED64) + pack("<d", value)


def nested(field: int, payload: bytes) -> bytes:
    """A field that holds a message or bytes."""
    return varint(field << 3 | _BYTES) + varint(len(payload)) + payload


def text(field: int, value: str) -> bytes:
    """A field that holds text."""
    return nested(field, value.encode())


class Interned:
    """One table of interned strings: each gets the next number, from 1."""

    def __init__(self, field: int) -> None:
        self.field = field
        self.numbers: dict[str, int] = {}

    def __getitem__(self, value: str) -> int:
        return self.numbers.setdefault(value, len(self.numbers) + 1)

    def message(self) -> bytes:
        """Its entries as fields of InternedData."""
        return b"".join(nested(self.field, number(1, iid) + text(2, value)) for value, iid in self.numbers.items())


class SourceLines:
    """Interned source locations."""

    field = 4

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, int], int] = {}

    def __getitem__(self, value: tuple[str, int]) -> int:
        return self.numbers.setdefault(value, len(self.numbers) + 1)

    def message(self) -> bytes:
        """Its entries as fields of InternedData."""
        return b"".join(
            nested(self.field, number(1, iid) + text(2, file) + number(4, line))
            for (file, line), iid in self.numbers.items()
        )


class Strings:
    """All interned tables of a trace. Make every event first, then write `packet` before them."""

    def __init__(self) -> None:
        self.categories = Interned(1)
        self.names = Interned(2)
        self.keys = Interned(3)
        self.lines = SourceLines()
        self.values = Interned(29)

    def packet(self) -> bytes:
        """The packet that every other one refers to."""
        tables = (self.categories, self.names, self.keys, self.lines, self.values)
        data = b"".join(table.message() for table in tables)
        return packet(nested(12, data) + number(13, _STATE_CLEARED | _NEEDS_STATE))


def packet(content: bytes) -> bytes:
    """A TracePacket as a field of Trace."""
    return nested(1, content + number(10, _SEQUENCE))


def group(uuid: int, name: str, rank: int) -> bytes:
    """The track that all tracks of a core belong to; they are shown in the order of their ranks.

    It is no process: Perfetto shows the tracks of a process in the order of their names.
    """
    return packet(nested(60, number(1, uuid) + text(2, name) + number(11, _EXPLICIT_ORDER) + number(12, rank)))


def track(uuid: int, parent: int, name: str, rank: int) -> bytes:
    """A track of slices. Tracks of one name and parent are shown as one."""
    return packet(nested(60, number(1, uuid) + text(2, name) + number(5, parent) + number(12, rank)))


def counter(uuid: int, parent: int, name: str, rank: int, unit: str) -> bytes:
    """A track of a number over time; unit: "count" or "bytes"."""
    kind = nested(8, number(3, _UNITS[unit]))
    return packet(nested(60, number(1, uuid) + text(2, name) + number(5, parent) + kind + number(12, rank)))


def event(at_ns: int, kind: int, track_uuid: int, content: bytes = b"") -> bytes:
    """The beginning or end of a slice, or a counter's new value."""
    made = nested(11, number(9, kind) + number(11, track_uuid) + content)
    return packet(number(8, at_ns) + made + number(13, _NEEDS_STATE))


def annotation(key: int, value: int, *, interned: bool) -> bytes:
    """An argument of a slice: a number, or an interned string."""
    return nested(4, number(1, key) + number(17 if interned else 3, value))


def flows(leaving: Iterable[int], arriving: Iterable[int]) -> bytes:
    """Arrows that leave a slice and that end at it."""
    return b"".join([fixed(47, each) for each in leaving] + [fixed(48, each) for each in arriving])

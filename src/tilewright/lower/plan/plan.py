"""What lowering decided, as plain data: steps, loops, residents, streams, buffers, and what was tried and refused.

`tell` (telling.py) makes it of a draft; `to_dict` and `Plan.from_dict` are JSON and back, `str` is for people.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache
from html import escape
from typing import Any

from tilewright.lower.plan.plan_text import plan_text


@dataclass(frozen=True, slots=True)
class PlannedOp:
    """An op of the tensor program: what it computes, how the dims of that lie, and the line it comes from.

    layout: the sizes with their roles, such as "8 loop, 512 rows, 64".
    """

    name: str
    result: str
    type: str
    layout: str
    line: str
    source: str


@dataclass(frozen=True, slots=True)
class Apart:
    """An op that reads a result of a group and is not in it, with the reason."""

    op: str
    line: str
    why: str


@dataclass(frozen=True, slots=True)
class Tried:
    """A way of writing a step; refused says what was wrong with it, None that it was taken."""

    way: str
    refused: str | None


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of a step: what it goes over, and how often it runs."""

    over: str
    trips: int


@dataclass(frozen=True, slots=True)
class Read:
    """A value from outside that a group reads: where it lives, and how the group takes it."""

    value: str
    type: str
    place: str
    how: str


@dataclass(frozen=True, slots=True)
class HbmStream:
    """What crosses HBM of one tensor in a step. times: how often each of its bytes does, on average.

    how: "once, before the loops", "block by block" or "within HBM"; tiles: copies of the tiles on chip that take turns.
    """

    tensor: str
    written: bool
    transfers: int
    bytes: int
    times: float
    how: str
    tiles: int


@dataclass(frozen=True, slots=True)
class Tile:
    """A buffer on chip that a step allocates; depth: how many copies of it take turns. stays: later steps use it."""

    name: str
    memory: str
    type: str
    bytes: int
    depth: int
    stays: bool


@dataclass(frozen=True, slots=True)
class Turn:
    """Transposes: the engine that makes them ("dma": the transfer itself), of what, and how many."""

    engine: str
    of: str
    count: int


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """Ops that share a loop nest, or an op by itself, and what it takes.

    why: why these ops are together. loops, reads, block_bytes (per partition, of the tiles of a block of rows) and room
    (for values that stay meanwhile): as planned; nest: as written, outermost first. sbuf_bytes (per partition) and
    psum_banks are peaks while it runs, with all that is resident. engine_us: time each engine is taken.
    """

    number: int
    kind: str
    ops: tuple[PlannedOp, ...]
    why: str
    apart: tuple[Apart, ...]
    loops: tuple[Loop, ...]
    reads: tuple[Read, ...]
    nest: tuple[str, ...]
    tried: tuple[Tried, ...]
    streams: tuple[HbmStream, ...]
    tiles: tuple[Tile, ...]
    turns: tuple[Turn, ...]
    resident: tuple[str, ...]
    block_bytes: int | None
    room: int
    sbuf_bytes: int
    psum_banks: int
    instructions: int
    hbm_bytes: int
    engine_us: dict[str, float]


@dataclass(frozen=True, slots=True)
class Residence:
    """A value that several steps touch: where it lives from step `first` to step `last`, and why."""

    value: str
    type: str
    place: str
    first: int
    last: int
    bytes: int
    reads: int
    reuse: float
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What lowering decided for a program on a target.

    given_up: why an earlier plan was, if one was.
    """

    program: str
    target: str
    sbuf_bytes: int
    sbuf_capacity: int
    psum_banks: int
    psum_capacity: int
    given_up: str | None
    steps: tuple[PlannedStep, ...]
    residents: tuple[Residence, ...]

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data."""
        return asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Plan:
        """A plan from what `to_dict` gave, perhaps by way of JSON; KeyError or TypeError for anything else."""
        return _read(Plan, data)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        return plan_text(self)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _read(kind: Any, data: Any) -> Any:
    if is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{each.name: _read(hints[each.name], data[each.name]) for each in fields(kind)})  # type: ignore[operator]
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return tuple(_read(inner[0], each) for each in data)
    if origin is dict:
        return {str(key): _read(inner[1], each) for key, each in data.items()}
    if origin is types.UnionType:
        return None if data is None else _read(next(each for each in inner if each is not types.NoneType), data)
    if not isinstance(data, (kind, int) if kind is float else kind):
        raise TypeError(f"{data!r} is not of type {kind.__name__}")
    return kind(data)

"""Tiles of a loop that take turns: as many as their depth says, allocated before the loop.

    tiles = []
    for i in range(4):
        tiles.append(nl.ndarray(...))
    for r in range(32):
        tile = tiles[r % 4]

Left to itself the compiler decides how many copies of a loop's tile there are; this way the kernel does. Only tiles in
SBUF: in PSUM a new tile is what starts a new accumulation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tilewright.emit.roll import is_rolled
from tilewright.ir.core import Op, Value
from tilewright.tile.memory import SBUF, Buffer
from tilewright.tile.ops import ALLOC, FOR, trips

LIST = "list"
"""The type of the value that stands for the tiles of a ring."""


@dataclass(frozen=True, slots=True)
class Ring:
    """The copies of a loop's tile; `tiles` stands for the list of them. loops: around the tile, outermost first."""

    buffer: Buffer
    tiles: Value
    count: int
    loops: tuple[Op, ...]


def turn(loops: Sequence[Op], count: int, names: Mapping[Value, str]) -> str:
    """Which of `count` copies a trip of nested loops uses, as text."""
    text = ""
    for loop in loops:
        bounds = trips(loop)
        number = names[loop.regions[0].arguments[0]]
        number = f"({number} - {bounds.start})" if bounds.start else number
        number = f"{number} // {bounds.step}" if bounds.step != 1 else number
        text = f"{_grouped(text)} * {len(bounds)} + {number}" if text else number
    return f"{_grouped(text)} % {count}"


def _grouped(text: str) -> str:
    return f"({text})" if " " in text else text


def rings(loop: Op) -> list[Ring]:
    """The rings of the tiles that a loop of the kernel's own, and such loops inside of it, allocate."""
    return [] if is_rolled(loop) else list(_rings((loop,)))


def _rings(loops: tuple[Op, ...]) -> Iterator[Ring]:
    for op in loops[-1].regions[0].ops:
        if op.definition is FOR and not is_rolled(op):
            yield from _rings((*loops, op))
        elif op.definition is ALLOC:
            buffer = op.result
            assert isinstance(buffer, Buffer)
            if buffer.memory is SBUF and buffer.address is None:
                count = min(buffer.depth, prod(len(trips(each)) for each in loops))
                yield Ring(buffer, Value(LIST, f"{buffer.name}_tiles" if buffer.name else None), max(count, 1), loops)

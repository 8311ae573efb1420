"""Loops that take an array in pieces: the size of the pieces, told by the slices of the loop's body.

for s in range(4): nisa.tensor_copy(dst=y[:, nl.ds(s * 512, 512)], src=x)      takes 512 columns of y at a time
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

LEAST = 32
"""Smaller sizes say more as numbers."""
_TILE = re.compile(r"(?:_tile)?(?:_\d+)?$")


@dataclass(frozen=True, slots=True)
class Chunk:
    """So many elements at a time: of what, and whether they are columns."""

    size: int
    array: str
    columns: bool

    @property
    def why(self) -> str:
        """What the size is, in words."""
        return f"{'columns' if self.columns else 'rows'} at a time"


def chunk_of(index: str, body: Iterable[str]) -> Chunk | None:
    """What a loop takes at a time, if its index steps by whole pieces; the first slice decides."""
    slices = re.compile(rf"nl\.ds\([^()]*\b{index} \* (?P<step>\d+)\b[^()]*, (?P<size>\d+)\)(?P<last>\])?")
    for line in body:
        for found in slices.finditer(line):
            size = int(found["size"])
            array = re.search(r"(\w+)\[[^\[\]]*$", line[: found.start()])
            if found["step"] == found["size"] and size >= LEAST and array is not None:
                return Chunk(size, _TILE.sub("", array[1]), found["last"] is not None)
    return None


def chunk_names(chunks: Iterable[Chunk], taken: Collection[str]) -> dict[int, tuple[str, str]]:
    """A name for each size, and what it is: CHUNK where there is one, else by the array that is taken so."""
    by_size: dict[int, Chunk] = {}
    for each in chunks:
        by_size.setdefault(each.size, each)
    made: dict[int, tuple[str, str]] = {}
    used = {*taken}
    for size, chunk in by_size.items():
        name = stem = "CHUNK" if len(by_size) == 1 else f"{chunk.array.upper()}_CHUNK"
        number = 1
        while name in used:
            number += 1
            name = f"{stem}_{number}"
        used.add(name)
        made[size] = (name, chunk.why)
    return made

"""Ops of tile IR that are not instructions: alloc and for. The dialect that prints and reads them is `tile.text`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Structure:
    """A structural op: no engine runs it."""

    name: str
    has_side_effects: bool = False
    region_count: int = 0


ALLOC = Structure("alloc")
FOR = Structure("for", has_side_effects=True, region_count=1)

TILE = None

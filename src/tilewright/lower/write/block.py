"""A block of rows while its body is written, and the tiles of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.ir.core import Value
from tilewright.lower.write.views import At, dropped, expanded, merged
from tilewright.tile.view import View


class Block:
    """One block of rows while its body is written: where it starts, how many rows, and the tiles made so far."""

    def __init__(self, batch: Sequence[At], start: At, number: At, partitions: int, per: int) -> None:
        self.batch = batch
        self.start = start
        self.number = number
        self.partitions = partitions
        self.per = per
        # Rows from one partition to the next.
        self.step = 1
        # Whether it is one of blocks with a row per partition, so that its number tells where it lies on chip.
        self.is_plain = per == 1
        # Whether the rows of a partition are as far apart as there are partitions: several such blocks side by side.
        self.is_wide = False
        self.tiles: dict[Value, View] = {}
        self.panel: tuple[Value | None, At, int] | None = None
        self.loaded: dict[tuple, View] = {}
        # Values from outside by the dims that they have as rows and in loops: an op may read one in several ways.
        self.fetched: dict[tuple[Value, tuple[int, ...], tuple[int, ...]], tuple[View, list[int]]] = {}
        self.split: dict[tuple, list[Any]] = {}
        # Values of which not all columns are there: with which they begin, how many they have, from which of these on a
        # mask matters, and up to which one does.
        self.short: frozenset[Value] = frozenset()
        self.begin = self.columns = self.open = self.near = 0
        # Values whose greatest elements are known in part: what they are so far, and columns that are left to look at.
        self.begun: dict[Value, tuple[View, list[tuple[int, int]]]] = {}
        # Which of some blocks with as many columns it is, and how many these are.
        self.place: tuple[At, int] | None = None

    @property
    def beside(self) -> int:
        """How many blocks with a row per partition it is made of, where its number tells where it lies on chip."""
        return self.per if self.is_wide else 1

    def width(self, value: Value, full: int) -> int:
        """Columns of a value in this block."""
        return self.columns if value in self.short else full


def flat(tile: View) -> View:
    """A tile as [partitions, elements] where its strides allow, else as it is."""
    made = merged(tile, 1, tile.ndim - 1)
    return tile if made is None else made


def with_dims(tile: View, dims: list[int], wanted: list[int]) -> View:
    """A tile [partitions, J, *dims] with other free dims: those that go or come have size 1."""
    for d in reversed([d for d in dims if d not in wanted]):
        tile = dropped(tile, 2 + dims.index(d))
    for i, d in enumerate(wanted):
        tile = tile if d in dims else expanded(tile, 2 + i)
    return tile

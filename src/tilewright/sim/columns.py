"""How much of the on-chip memories is in use, by range of partitions."""

from __future__ import annotations

from tilewright.target import Target


class Columns:
    """Bytes in use by range of partitions: a tensor goes where it may start and least is in use."""

    def __init__(self, target: Target, whole: bool) -> None:
        self._starts: tuple[tuple[int, tuple[int, ...]], ...] = target["memory.partition_starts"]
        self._whole = whole
        self._used = [0] * max(len(starts) for _, starts in self._starts)
        self._places: dict[int, tuple[range, int]] = {}

    def add(self, number: int, partitions: int, size: int) -> None:
        """Place a tensor of so many partitions and bytes, or more bytes of one beside those that it has here."""
        place, had = self._places.get(number, (None, 0))
        if place is None:
            choices = 1 if self._whole else next(len(starts) for limit, starts in self._starts if partitions <= limit)
            height = len(self._used) // choices
            spans = [range(first, first + height) for first in range(0, len(self._used), height)]
            place = min(spans, key=lambda span: max(self._used[column] for column in span))
        for column in place:
            self._used[column] += size
        self._places[number] = (place, had + size)

    def remove(self, number: int, size: int | None = None) -> None:
        """Free what a tensor used, or so many bytes of it, if it was placed here."""
        place, had = self._places.pop(number, (range(0), 0))
        freed = had if size is None else size
        for column in place:
            self._used[column] -= freed
        if freed < had:
            self._places[number] = (place, had - freed)

    def highest(self) -> int:
        """Bytes in use on the fullest partitions."""
        return max(self._used)

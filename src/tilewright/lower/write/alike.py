"""What is one and the same thing: sets that grow together (disjoint sets, by union and find)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Alike(Generic[T]):
    """Things of which some are said to be the same. `root` is what stands for all that are."""

    __slots__ = ("_above",)

    def __init__(self) -> None:
        self._above: dict[T, T] = {}

    def __iter__(self) -> Iterator[T]:
        """All that were asked for or joined, in that order."""
        return iter(list(self._above))

    def root(self, thing: T) -> T:
        """What stands for all that are the same as something."""
        known = self._above
        found = known.setdefault(thing, thing)
        # Most are roots, or just below one.
        if found == thing or known[found] == found:
            return known[found]
        while known[found] != found:
            found = known[found]
        while thing != found:
            known[thing], thing = found, known[thing]
        return found

    def join(self, one: T, other: T) -> None:
        """These are the same; what stands for the second now stands for both."""
        self._above[self.root(one)] = self.root(other)

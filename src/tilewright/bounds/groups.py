"""Work that may repeat other work: ops that make the same of parts of the same arrays.

A kernel that computes an element once and moves it serves all of them, so that of a group only those count that are
made of other elements of some input.
"""

from __future__ import annotations

from typing import Any

from tilewright.bounds.facts import Analysis, Origins, hull
from tilewright.ir.core import Op

_MOST = 50
"""Ops of a group that are compared one by one; more of them count where they differ from all others together."""


class _Group:
    """Ops that make the same: the greatest cost of one, and the sum of those that certainly do not repeat another."""

    __slots__ = ("_apart", "_together", "most", "sum")

    def __init__(self) -> None:
        self.most = self.sum = 0.0
        self._apart: list[Origins] = []
        self._together: Origins | None = None

    def add(self, cost: float, origins: Origins) -> None:
        self.most = max(self.most, cost)
        known = self._together
        others = len(self._apart) < _MOST and all(_are_apart(origins, other) for other in self._apart)
        if known is None or _are_apart(origins, known) or others:
            self._apart.append(origins)
            self._together = origins if known is None else hull([known, origins])
            self.sum += cost


class Groups:
    """Costs of ops by what they make."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._groups: dict[tuple[Any, int], _Group] = {}

    def add(self, op: Op, cost: float, kind: Any = None) -> None:
        """Count an op; `kind` tells apart what is added up."""
        made = self._analysis[op.results[0]]
        self._groups.setdefault((kind, made.number), _Group()).add(cost, made.origins)

    def sums(self) -> dict[Any, float]:
        """The cost of each kind."""
        found: dict[Any, float] = {}
        for (kind, _), group in self._groups.items():
            found[kind] = found.get(kind, 0.0) + max(group.most, group.sum)
        return found

    @property
    def total(self) -> float:
        """The cost of all."""
        return sum(self.sums().values())


def _are_apart(first: Origins, second: Origins) -> bool:
    """True when both are made of an input and have no element of it in common."""
    for value, region in first.items():
        other = second.get(value)
        if region is not None and other is not None and region.apart(other):
            return True
    return False

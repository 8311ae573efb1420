"""Memory ports that engines share: an instruction that needs one starts after the other engine's that has it.

Which engines exclude each other is a matter of the generation (`features.port_*`). Ports are named in `Cost.ports`.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.target import Target
from tilewright.tile.cost import RIVALS
from tilewright.tile.record import Cost
from tilewright.timing.node import Node, Port

_BANK_PAIR = {"vector:psum": "scalar:psum", "scalar:psum": "vector:psum"}


class Ports:
    """Who holds which port: the last instruction of each. A port is a name, and whether each bank is one of its own."""

    __slots__ = ("_held", "_rivals", "by_bank")

    def __init__(self, target: Target) -> None:
        self._rivals: dict[str, list[str]] = {}
        for feature, pair in RIVALS.items():
            if target[feature]:
                for port, rival in (pair, pair[::-1]):
                    self._rivals.setdefault(port, []).append(rival)
        self.by_bank: bool = target["features.port_psum_bank"]
        self._held: dict[str | tuple[str, int], Node] = {}

    def of(self, cost: Cost) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
        """The ports that would be in the way of such an instruction, and those of its own that others may want."""
        wants: list[Port] = []
        holds: list[Port] = []
        for port in cost.ports:
            rivals = self._rivals.get(port, [])
            wants += [(rival, False) for rival in rivals]
            if rivals:
                holds.append((port, False))
            if self.by_bank and port in _BANK_PAIR:
                wants.append((_BANK_PAIR[port], True))
                holds.append((port, True))
        return tuple(wants), tuple(holds)

    def holder(self, node: Node) -> Node | None:
        """The instruction of another engine that keeps a port of `node`'s longest."""
        found: Node | None = None
        for port in _named(node, node.kind.wants):
            held = self._held.get(port)
            if held is not None and (found is None or held.busy_end > found.busy_end):
                found = held
        return found

    def hold(self, node: Node) -> None:
        """`node` has its ports until its engine is free again."""
        for port in _named(node, node.kind.holds):
            self._held[port] = node


def _named(node: Node, ports: tuple[Port, ...]) -> Iterable[str | tuple[str, int]]:
    for name, by_bank in ports:
        if by_bank:
            for bank in node.banks:
                yield name, bank
        else:
            yield name

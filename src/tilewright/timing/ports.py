"""What instructions take from each other: memory ports that engines share, and parts of the Tensor engine's array.

An instruction that needs a port starts after the other engine's that has it. Which engines exclude each other is a
matter of the generation (`features.port_*`). Ports are named in `Cost.ports`, parts of the array are `Cost.tile`.
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

    __slots__ = ("_held", "_of", "_rivals", "by_bank")

    def __init__(self, target: Target) -> None:
        self._rivals: dict[str, list[str]] = {}
        for feature, pair in RIVALS.items():
            if target[feature]:
                for port, rival in (pair, pair[::-1]):
                    self._rivals.setdefault(port, []).append(rival)
        self.by_bank: bool = target["features.port_psum_bank"]
        self._held: dict[str | tuple[str, int], Node] = {}
        self._of: dict[tuple[str, ...], tuple[tuple[Port, ...], tuple[Port, ...]]] = {}

    def of(self, cost: Cost) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
        """The ports that would be in the way of such an instruction, and those of its own that others may want."""
        known = self._of.get(cost.ports)
        if known is None:
            known = self._of[cost.ports] = self._found(cost)
        return known

    def _found(self, cost: Cost) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
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


class Array:
    """The instructions that are under way in parts of the Tensor engine's array (`Cost.tile`)."""

    __slots__ = ("_until", "held")

    def __init__(self) -> None:
        self.held: list[Node] = []
        self._until = 0.0

    def holder(self, node: Node) -> Node | None:
        """The instruction that keeps a part which `node` needs longest; one without a tile needs all of them."""
        tile = node.kind.cost.tile
        inside = [each for each in self.held if tile is None or _squares(each) & tile.squares]
        return max(inside, key=lambda each: each.busy_end, default=None)

    def hold(self, node: Node) -> float:
        """`node`, which has started, has its part until then; for how long nothing else had kept the array busy."""
        self.held = [each for each in self.held if each.busy_end > node.start]
        if node.kind.cost.tile is not None:
            self.held.append(node)
        alone = node.busy_end - max(node.start, self._until)
        self._until = max(self._until, node.busy_end)
        return max(0.0, alone)


def _squares(node: Node) -> int:
    tile = node.kind.cost.tile
    assert tile is not None, "an instruction of all of the array is not under way beside others"
    return tile.squares


def _named(node: Node, ports: tuple[Port, ...]) -> Iterable[str | tuple[str, int]]:
    for name, by_bank in ports:
        if by_bank:
            for bank in node.banks:
                yield name, bank
        else:
            yield name

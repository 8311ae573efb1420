"""Memory ports that engines share: an instruction that needs one starts after the other engine's that has it.

Which engines exclude each other is a matter of the generation (`features.port_*`). Ports are named in `Cost.ports`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.target import Target

if TYPE_CHECKING:
    from tilewright.timing.replay import Node

_PAIRS = {
    "features.port_vector_gpsimd_sbuf": ("vector:sbuf", "gpsimd:sbuf"),
    "features.port_vector_scalar_psum": ("vector:psum", "scalar:psum"),
    "features.port_vector_fast_gpsimd": ("vector:fast", "gpsimd:sbuf"),
}
_BANK_PAIR = ("vector:psum", "scalar:psum")


class Ports:
    """Who holds which port: the last instruction of each."""

    __slots__ = ("_held", "_rivals", "by_bank")

    def __init__(self, target: Target) -> None:
        self._rivals: dict[str, list[str]] = {}
        for feature, pair in _PAIRS.items():
            if target[feature]:
                for port, rival in (pair, pair[::-1]):
                    self._rivals.setdefault(port, []).append(rival)
        self.by_bank: bool = target["features.port_psum_bank"]
        self._held: dict[str | tuple[str, int], Node] = {}

    def holder(self, node: Node) -> Node | None:
        """The instruction of another engine that keeps a port of `node`'s longest."""
        found: Node | None = None
        for port in self._wanted(node, rivals=True):
            held = self._held.get(port)
            if held is not None and (found is None or held.busy_end > found.busy_end):
                found = held
        return found

    def hold(self, node: Node) -> None:
        """`node` has its ports until its engine is free again."""
        for port in self._wanted(node, rivals=False):
            self._held[port] = node

    def _wanted(self, node: Node, rivals: bool) -> list[str | tuple[str, int]]:
        """The ports of an instruction that others may want, or those that would be in its way."""
        wanted: list[str | tuple[str, int]] = []
        for port in node.cost.ports:
            others = self._rivals.get(port)
            if others is not None:
                wanted += others if rivals else (port,)
            if node.banks and port in _BANK_PAIR:
                seen = _BANK_PAIR[1 - _BANK_PAIR.index(port)] if rivals else port
                wanted += [(seen, bank) for bank in node.banks]
        return wanted

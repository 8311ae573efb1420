"""Kernel.with_schedule: dependencies between instructions that a caller adds, by the names of the instructions.

The simulator runs in program order, which every such order is free to be, so that they are only checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from tilewright.errors import TileTypeError
from tilewright.ir.core import Op
from tilewright.rules import violate
from tilewright.sim.session import Session

Edge = tuple[str, str]


def read_edges(edges: Sequence[tuple[str, str | Sequence[str]]]) -> Iterator[Edge]:
    """(consumer, producer) for every edge; a consumer may have a list of producers."""
    for edge in edges:
        consumer, producers = edge if isinstance(edge, (tuple, list)) and len(edge) == 2 else (None, None)
        names = [producers] if isinstance(producers, str) else producers
        if not isinstance(consumer, str) or not isinstance(names, (tuple, list)) or not all(_is_name(n) for n in names):
            violate(
                "R-NkiInstruction-02",
                f"with_schedule: {edge!r} is no edge",
                hint='write pairs of names: ("consumer", "producer") or ("consumer", ["first", "second"])',
                final=True,
                error=TileTypeError,
            )
        for each in names or ():
            yield str(consumer), each


def _is_name(value: object) -> bool:
    return isinstance(value, str)


def edges_of(edges: Sequence[Edge], session: Session) -> Iterator[tuple[Op, Op]]:
    """The instructions that edges order: producer and consumer."""
    for consumer, producer in edges:
        for first in session.instruction_names.get(producer, ()):
            yield from ((first, second) for second in session.instruction_names.get(consumer, ()))


def check_edges(edges: Sequence[Edge], sessions: Sequence[Session]) -> None:
    """R-NkiInstruction-02: edges name instructions of the kernel, and there is an order that keeps them all."""
    known = {name for session in sessions for name in session.instruction_names}
    for name in dict.fromkeys(name for edge in edges for name in edge):
        if name not in known:
            violate(
                "R-NkiInstruction-02",
                f"with_schedule names {name!r}, but no instruction of the kernel is called so",
                hint=f"instructions get names by name=; there are: {', '.join(sorted(known)) or 'none'}",
            )
    order: TopologicalSorter[str] = TopologicalSorter()
    for consumer, producer in edges:
        order.add(consumer, producer)
    try:
        order.prepare()
    except CycleError as error:
        violate(
            "R-NkiInstruction-02",
            f"with_schedule: {' after '.join(error.args[1])} is a circle",
            hint="take one of the edges out: an instruction cannot wait for itself",
        )

"""The critical path: the chain of instructions, each waiting for the one before it, that ends with the kernel.

A link's time runs from its own start to the start of the next link (the last one's to the end of the kernel), so that
times are never negative and add up to the whole. What a link waited for is why it did not start earlier. A transfer
that found the bandwidth taken counts from when its bytes began to move, and follows the transfer before it.

`remember` is called for every instruction as it is issued. It folds the far end of long chains into sums, so that a
kernel of a million instructions keeps only the near end.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import Location
from tilewright.timing.node import (
    BANDWIDTH,
    BANK,
    DATA,
    ENGINE,
    OVERWRITE,
    PORT,
    READER,
    SLOT,
    START,
    Kind,
    Node,
)

_FOLD = 1000  # links that are kept apart

Link = tuple[Kind, str, "Kind | None"]
"""What links of a chain are added up by: what ran, why not earlier, and what it waited for."""


@dataclass(frozen=True, slots=True)
class Step:
    """Part of the critical path: what ran, where it was issued, how long, and why not earlier.

    wait is the kind of wait ("data", "engine", ...; "" for none), waited_for the same for people.
    """

    instruction: str
    engine: str
    line: Location | None
    us: float
    share: float
    wait: str
    waited_for: str


def remember(node: Node) -> None:
    """Note an issued instruction as the next link of the chain that it waited for."""
    for earlier in (node.cause, node.behind):
        if earlier is not None:
            if earlier.depth >= _FOLD:
                _fold(earlier)
            if node.depth <= earlier.depth:
                node.depth = earlier.depth + 1


def _fold(node: Node) -> None:
    """Put sums in place of the chains that lead to a node's start and to the start of its bytes."""
    issued = _link(node), node.start, _before(node, False)
    moved = (_link(node, node.behind), node.begin, _before(node, True)) if node.behind is not None else None
    node.past = issued, moved
    node.cause = node.behind = None
    node.depth = 0


def critical_path(last: Node | None, end_ns: float) -> tuple[Step, ...]:
    """The chain that leads to `last`, equal links added up, the largest share first."""
    if last is None or end_ns <= 0:
        return ()
    # Kinds that differ in their cost alone are one to the reader.
    times: dict[tuple[str, str, Location | None, str, str], float] = {}
    for (kind, why, cause), ns in _times(last, end_ns).items():
        shown = (kind.name, kind.unit, kind.line, why, _reason(why, cause))
        times[shown] = times.get(shown, 0.0) + ns
    total = sum(times.values())
    steps = [
        Step(name, engine, line, ns / 1e3, ns / total, why, reason)
        for (name, engine, line, why, reason), ns in times.items()
    ]
    return tuple(sorted(steps, key=lambda step: -step.share))


def _times(node: Node | None, until: float, done: bool = True) -> dict[Link, float]:
    """Time of each kind of link up to `until`, which is `node`'s own end on the chain.

    done: the chain goes on from what the node did, not just from its having been issued.
    """
    times: dict[Link, float] = {}
    while node is not None:
        if node.past is not None:
            issued, moved = node.past
            link, at, older = moved if done and moved is not None else issued
            times[link] = times.get(link, 0.0) + max(0.0, until - at)
            for each, ns in older.items():
                times[each] = times.get(each, 0.0) + ns
            return times
        behind = node.behind if done else None
        link, at = _link(node, behind), node.start if behind is None else node.begin
        times[link] = times.get(link, 0.0) + max(0.0, until - at)
        until = at
        if behind is None and node.cause is None:
            # Nothing is known to have held it up: the time before it is its own.
            times[link] += until
        done = behind is not None or node.why != ENGINE
        node = node.cause if behind is None else behind
    return times


def _before(node: Node, done: bool) -> dict[Link, float]:
    """Times of the links before a node."""
    if done and node.behind is not None:
        return _times(node.behind, node.begin)
    if node.cause is None:
        return {_link(node): node.start}
    return _times(node.cause, node.start, node.why != ENGINE)


def _link(node: Node, behind: Node | None = None) -> Link:
    if behind is not None:
        return node.kind, BANDWIDTH, behind.kind
    cause = node.cause
    return (node.kind, START, None) if cause is None else (node.kind, node.why, cause.kind)


_REASONS = {
    DATA: "the result of {}",
    OVERWRITE: "{}, which writes the same place first",
    READER: "{} to read what it overwrites",
    BANK: "a PSUM bank that {} used",
    SLOT: "a buffer that {} used",
    ENGINE: "its queue, behind {}",
    BANDWIDTH: "bandwidth, behind {}",
    PORT: "a memory port that {} has",
}


def _reason(why: str, cause: Kind | None) -> str:
    if cause is None:
        return "nothing"
    where = "" if cause.line is None else f", line {cause.line.line}"
    return _REASONS[why].format(f"{cause.name}{where}")

"""Which ops and values belong to a pattern, and looking for one everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from tilewright.ir.core import Graph, Op, Value


def between(inputs: Any, result: Value) -> list[Op]:
    """The ops that compute `result` from `inputs`, definitions before uses. Constants on the way belong to them."""
    stop, found = set(inputs), {}

    def visit(value: Value) -> None:
        op = value.producer
        if value in stop or op is None or op in found:
            return
        for operand in op.values():
            visit(operand)
        found[op] = None

    visit(result)
    return list(found)


def inner(ops: list[Op]) -> list[Value]:
    """The values of these ops that no other op reads."""
    own = set(ops)
    return [value for op in ops for value in op.results if all(user in own for user in value.uses)]


Found = TypeVar("Found")


def everywhere(graph: Graph, match: Callable[[Value], Found | None]) -> Iterator[Found]:
    """What `match` finds, at any value of a graph."""
    for op in graph.ops:
        for value in op.results:
            found = match(value)
            if found is not None:
                yield found

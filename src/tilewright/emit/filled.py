"""Tiles that hold one number all along: `ones` says more than the letter that the IR has for a constant."""

from __future__ import annotations

from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.walk import walk
from tilewright.tile.record import Record

_WORDS: dict[float, str] = {0: "zeros", 1: "ones"}


def filled(graph: Graph) -> dict[Value, str]:
    """Names for tiles of a one-letter name that a single instruction writes, and that from nothing but a number."""
    writers: dict[Value, list[Op]] = {}
    for op in walk(graph):
        if isinstance(op.definition, Record):
            for view, _, writes in op.definition.accesses(op.operands):
                if writes:
                    writers.setdefault(view.buffer, []).append(op)
    named = {buffer: _word(ops[0]) for buffer, ops in writers.items() if len(ops) == 1 and len(buffer.name or "c") == 1}
    return {buffer: word for buffer, word in named.items() if word is not None}


def _word(op: Op) -> str | None:
    number = op.attrs.get("value")
    if len(op.operands) != 1 or not isinstance(number, (int, float)):
        return None
    return _WORDS.get(number, "constant")

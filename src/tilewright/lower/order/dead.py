"""Tiles that nobody reads: they go, with the instructions that only write them.

An input that was loaded for several steps, and then had to make room, leaves such a tile.
"""

from __future__ import annotations

from tilewright.ir.core import Graph, Op
from tilewright.ir.walk import walk
from tilewright.lower.decisions import decided
from tilewright.tile.memory import SBUF, Buffer
from tilewright.tile.ops import ALLOC
from tilewright.tile.record import Record

WRITES_ONLY = ("dma_copy", "tensor_copy", "memset")
"""Instructions with no effect beside the one tile that they write."""


def erase_dead(graph: Graph) -> None:
    """Take away what nothing needs, until there is nothing more of it."""
    while dead := _dead(graph):
        for writers, alloc in dead.values():
            decided("order: dead tiles")
            for op in writers:
                op.erase()
            alloc.erase()


def _dead(graph: Graph) -> dict[Buffer, tuple[list[Op], Op]]:
    """Tiles that are only written, by instructions that do nothing else."""
    found: dict[Buffer, tuple[list[Op], Op]] = {}
    needed: set[Buffer] = set()
    for op in walk(graph):
        if op.definition is ALLOC:
            buffer = op.result
            assert isinstance(buffer, Buffer)
            if buffer.memory is SBUF:
                found[buffer] = ([], op)
        elif isinstance(op.definition, Record):
            for view, _, is_result in op.definition.accesses(op.operands):
                if is_result and view.buffer in found and op.name in WRITES_ONLY:
                    found[view.buffer][0].append(op)
                else:
                    needed.add(view.buffer)
    return {buffer: rest for buffer, rest in found.items() if buffer not in needed}

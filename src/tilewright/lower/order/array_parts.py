"""Products of few rows in parts of the Tensor engine's array, which run at the same time.

A product whose operands lie on half of the partitions or fewer keeps all of the array for as long as one of all of
them. So both operands are put on the other partitions as well, and each part of the array has some of the columns.

Expects a kernel before its tiles have places; guarantees the same results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewright.ir.core import Graph, Op, Region
from tilewright.ir.walk import walk
from tilewright.lower.order.account import account
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.views import sliced
from tilewright.rules import Reporter
from tilewright.target import Target
from tilewright.tile.costed import op_cost
from tilewright.tile.memory import SBUF, Buffer, BufferType
from tilewright.tile.ops import FOR, trips
from tilewright.tile.record import TABLE, Record
from tilewright.tile.verdict import Verifier
from tilewright.tile.view import View


@dataclass(frozen=True, slots=True)
class Parts:
    """What was changed: products that stand for others, copies of operands on further partitions, larger tiles."""

    products: list[tuple[Op, list[Op]]]
    copies: list[Op]
    tiles: dict[Buffer, int]

    def are_legal(self, target: Target) -> bool:
        """False where an instruction cannot begin at the partition that it would have to."""
        verifier = Verifier(target, Reporter(collect=True))
        made = [*self.copies, *(op for _, some in self.products for op in some)]
        return all(verifier.check(op.definition, op.operands, op.attrs, None).legal for op in made)

    def undo(self) -> None:
        """Have everything as it was."""
        for op, made in self.products:
            region = made[0].parent
            assert region is not None
            region.insert_before(made[0], op)
            for each in made:
                each.erase()
        for each in self.copies:
            each.erase()
        for buffer, partitions in self.tiles.items():
            _resize(buffer, partitions)


def has_few_rows(graph: Graph, target: Target) -> bool:
    """True where some products leave rows of the array free."""
    return any(_size(op, target) < target["limits.pe_rows"] for op in walk(graph))


def in_parts(graph: Graph, target: Target) -> Parts:
    """Let products of few rows share the array."""
    ops = [op for op in walk(graph) if isinstance(op.definition, Record)]
    rows = target["limits.pe_rows"]
    able = {op: size for op in ops if (size := _size(op, target)) < rows}
    strange = {view.buffer for op in ops for view in _written(op) if not _is_plain(view)}
    able = {op: size for op, size in able.items() if strange.isdisjoint(view.buffer for view in op.operands[1:3])}
    # Whatever reads a tile has parts of one size, the greatest that any of them needs.
    needed: dict[Buffer, int] = {}
    for _ in able:
        before = dict(able)
        for op, size in able.items():
            for view in op.operands[1:3]:
                needed[view.buffer] = max(needed.get(view.buffer, 0), size)
        able = {op: max(needed[view.buffer] for view in op.operands[1:3]) for op in able}
        if able == before:
            break
    tiles = {buffer: buffer.shape[0] for buffer in needed}
    for buffer in needed:
        _resize(buffer, rows)
    copies = _copied(ops, needed, account(graph.body.ops, target).engine_ns, target)
    return Parts([(op, _divided(op, size, rows)) for op, size in able.items()], copies, tiles)


def _size(op: Op, target: Target) -> int:
    """Rows of the array that a product needs, where it leaves others free and has columns for them; all otherwise."""
    rows = target["limits.pe_rows"]
    if op.name != "nc_matmul" or op.attrs["is_transpose"] or op.attrs["tile_size"]:
        return rows
    dst, *operands = op.operands[:3]
    if not all(view.memory is SBUF and _is_plain(view) and view.offset < view.buffer.row for view in operands):
        return rows
    most = max(view.buffer.shape[0] for view in operands)
    size = min((n for n in target["limits.pe_tile_sizes"] if n >= most), default=rows)
    columns = operands[1].sizes[-1]
    plain = dst.ndim == 2 == operands[1].ndim and operands[0].buffer is not operands[1].buffer
    return size if plain and columns * size // rows >= TUNING.part_columns else rows


def _is_plain(view: View) -> bool:
    """True for a view whose partitions are those of its buffer, wherever loops are."""
    return view.dynamic is None and view.strides[0] == view.buffer.row


def _resize(buffer: Buffer, partitions: int) -> None:
    buffer.shape = (partitions, *buffer.shape[1:])
    buffer.type = BufferType(buffer.dtype, buffer.shape, buffer.memory)


def _shifted(view: View, partitions: int) -> View:
    """The same of other partitions."""
    return View(
        view.buffer, view.dtype, view.offset + partitions * view.buffer.row, view.sizes, view.strides, view.terms
    )


def _copied(ops: Sequence[Op], needed: Mapping[Buffer, int], load: Mapping[str, float], target: Target) -> list[Op]:
    """What is written to a tile, on the other partitions too: by the engine that is least busy."""
    engines = ("vector", "scalar", "gpsimd") if target["features.scalar_tensor_copy"] else ("vector", "gpsimd")
    busy = {engine: load.get(engine, 0.0) for engine in engines}
    record, made = TABLE["tensor_copy"], list[Op]()
    for op in ops:
        for view in _written(op):
            size = needed.get(view.buffer)
            if size is None:
                continue
            own: list[Op] = []
            for first in range(size, target["limits.pe_rows"], size):
                engine = min(busy, key=lambda each: busy[each])
                copy = Op(record, (_shifted(view, first), view), (), {**record.defaults, "engine": engine})
                busy[engine] += _executions(op) * op_cost(copy, target)[1].interval_ns
                own.append(copy)
            region = op.parent
            assert region is not None
            for copy in reversed(own):
                region.insert_after(op, copy)
            made += own
    return made


def _written(op: Op) -> Iterator[View]:
    record: Record = op.definition
    for view, _, writes in record.accesses(op.operands):
        if writes:
            yield view


def _executions(op: Op) -> int:
    found, region = 1, op.parent
    while isinstance(region, Region) and region.parent is not None:
        if region.parent.definition is FOR:
            found *= len(trips(region.parent))
        region = region.parent.parent
    return found


def _divided(op: Op, size: int, rows: int) -> list[Op]:
    """A product by parts of its columns, each in a part of the array; it gives its place to them."""
    dst, stationary, moving, *others = op.operands
    columns, count = moving.sizes[1], rows // size
    each = -(-columns // count)
    made: list[Op] = []
    for i, start in enumerate(range(0, columns, each)):
        some = min(each, columns - start)
        part = _shifted(sliced(moving, 1, start, some), i * size)
        operands = (sliced(dst, 1, start, some), _shifted(stationary, i * size), part, *others)
        attrs = {**op.attrs, "tile_position": (i * size, 0), "tile_size": (size, rows)}
        made.append(Op(op.definition, operands, (), attrs, location=op.location))
    region = op.parent
    assert region is not None
    for each_op in made:
        region.insert_before(op, each_op)
    op.detach()
    return made

"""Long instructions in strips, so that engines and transfers work on different strips of a tile at the same time.

Where a step has a single block of rows, each instruction waits for the whole tile that the one before it makes: nothing
overlaps. In loops that is no matter, other trips are in work meanwhile. An instruction that computes each element by
itself may as well be several, of some columns each; who reads a strip waits for that strip alone.

Expects a kernel in which no instruction writes what it reads but element for element; guarantees the same results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.ir.core import Op, Region
from tilewright.lower.decisions import decided
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.builder import TileBuilder
from tilewright.lower.write.views import sliced
from tilewright.tile.costed import op_cost
from tilewright.tile.record import Record
from tilewright.tile.view import View

POINTWISE = (
    "activation",
    "dma_copy",
    "memset",
    "reciprocal",
    "scalar_tensor_tensor",
    "select_reduce",
    "tensor_copy",
    "tensor_copy_predicated",
    "tensor_scalar",
    "tensor_tensor",
)
"""Instructions that compute each element of their result from the same elements of their operands."""


def strips(b: TileBuilder, ops: Sequence[Op]) -> None:
    """Cut the long instructions among some, those in loops left out."""
    for op in ops:
        if isinstance(op.definition, Record) and op.name in POINTWISE:
            _cut(b, op)


def _cut(b: TileBuilder, op: Op) -> None:
    """Put strips in the place of an instruction."""
    record: Record = op.definition
    _, cost = op_cost(op, b.target)
    count = min(int(max(cost.busy_ns, cost.interval_ns) // TUNING.strip_ns), TUNING.most_strips)
    dim = _dim(op) if count > 1 else None
    if dim is None:
        return
    region, size = op.parent, _full(op)[0].sizes[dim]
    assert isinstance(region, Region)
    decided("order: strips")
    for start, width in _parts(size, min(count, size)):
        operands = tuple(sliced(x, dim, start, width) if isinstance(x, View) and x.free > 1 else x for x in op.operands)
        region.insert_before(op, Op(record, operands, (), op.attrs, location=op.location))
    op.erase()


def _parts(size: int, count: int) -> Iterator[tuple[int, int]]:
    for i in range(count):
        start, end = size * i // count, size * (i + 1) // count
        yield start, end - start


def _full(op: Op) -> list[View]:
    return [x for x in op.operands if isinstance(x, View) and x.free > 1]


def _dim(op: Op) -> int | None:
    """The dim to cut: the outermost of the free ones, where all operands have it."""
    record: Record = op.definition
    full, written = _full(op), [op.operands[i] for i in record.written]
    if len([x for x in written if isinstance(x, View)]) != 1 or any(x.dynamic is not None for x in full):
        return None
    if len({x.sizes for x in full}) != 1 or not any(x.on_chip for x in full):
        return None
    # A transfer may have its elements in other dims on the other side.
    if any(isinstance(x, View) and x.sizes[:1] != full[0].sizes[:1] for x in op.operands):
        return None
    sizes = full[0].sizes
    dim = next((d for d in range(1, len(sizes)) if sizes[d] > 1), None)
    if dim is None or (dim == len(sizes) - 1 and sizes[dim] * full[0].dtype.itemsize < 2 * TUNING.long_run):
        return None
    return dim

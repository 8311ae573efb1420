"""A few elements between one partition and many: the Tensor engine is done with them while a transfer still starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.lower.decisions import decision
from tilewright.lower.move.copy import passed_as, turn_tile
from tilewright.lower.write.boxes import thought
from tilewright.lower.write.builder import transposed
from tilewright.lower.write.homes import Chip
from tilewright.lower.write.patterns import identity
from tilewright.lower.write.transfers import moving
from tilewright.lower.write.views import as_type, expanded, picked, reshaped, sliced
from tilewright.tile.memory import PSUM
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


@decision("rehome: by the Tensor engine", if_found=True)
def by_products(low: Lowering, line: View, many: Chip, is_source: bool) -> bool:
    """The same by the Tensor engine, where that is sooner: a few elements pass through it while a transfer starts."""
    through, target = passed_as(low, line.dtype), low.target
    if through is None or through.itemsize != line.dtype.itemsize or not target["features.transpose_bit_exact"]:
        return False
    _, total, width = line.sizes
    rows = reshaped(many.view, (*many.view.sizes[:2], width))
    lanes, bank = many.view.sizes[0], target["memory.psum_bank_bytes"] // float32.itemsize
    if rows is None or bank < lanes or _products_ns(low, line, lanes, is_source, bank) > _transfers_ns(low, line, rows):
        return False
    line, rows = (as_type(view, through) for view in (line, rows))
    for column in range(width):
        one, other = picked(line, 2, column), sliced(rows, 2, column, 1)
        if is_source:
            _gathered(low, one, picked(other, 2, 0), bank)
        else:
            turn_tile(low, other, one, total)
    return True


def _products_ns(low: Lowering, line: View, lanes: int, is_source: bool, bank: int) -> float:
    """How long products take that move a line, with the copies out of PSUM. The Tensor engine's clock may be low."""
    b, (_, total, width) = low.b, line.sizes
    column, square, row = thought((lanes, 1), float32), thought((lanes, lanes), float32), thought((1, lanes), float32)
    operands = (column, square) if is_source else (row, thought((1, 1), float32))
    made = thought((1, lanes) if is_source else (lanes, 1), float32, PSUM)
    each = b.cost_ns("nc_matmul", made, *operands, is_transpose=True, is_moving_onezero=True)
    copies = -(-total // bank) if is_source else 1
    copied = thought((1, min(total, bank)) if is_source else (lanes, -(-total // lanes)), float32)
    copy = b.cost_ns("tensor_copy", copied, thought(copied.sizes, float32, PSUM), engine="vector")
    waits = 2 * low.target["tensor.latency_ns"] + 2 * low.target["semaphore.engine_ns"]
    return width * (-(-total // lanes) * each / low.target["tensor.throttle_fraction"] + copies * copy) + waits


def _transfers_ns(low: Lowering, line: View, rows: View) -> float:
    """The same for transfers, one for each block of rows."""
    lanes, blocks, width = rows.sizes
    one = moving(thought((lanes, width), line.dtype), thought((1, lanes, width), line.dtype), low.target)
    return one.ns + (blocks - 1) * one.issue_ns


def _gathered(low: Lowering, line: View, rows: View, bank: int) -> None:
    """[lanes, blocks] as one row, as many blocks at a time as a bank of PSUM has room for."""
    lanes, total = rows.sizes[0], line.sizes[1]
    unit = identity(low, rows.dtype)
    narrow = rows.dtype.itemsize == 2 and low.target["features.transpose_16bit_psum"]
    dtype = rows.dtype if narrow else float32
    for at in range(0, total, bank // lanes * lanes):
        count = min(bank // lanes * lanes, total - at)
        made = low.b.psum((1, count), dtype, transposed(rows, PSUM))
        for start in range(0, count, lanes):
            height = min(lanes, count - start)
            part = sliced(picked(rows, 1, (at + start) // lanes), 0, 0, height)
            square = sliced(sliced(unit, 0, 0, height), 1, 0, height)
            into = sliced(made, 1, start, height)
            low.b.op("nc_matmul", into, expanded(part, 1), square, is_transpose=True, is_moving_onezero=True)
        low.evict(sliced(line, 1, at, count), made)

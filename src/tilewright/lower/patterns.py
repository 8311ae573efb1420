"""Tiles that a rule describes: made on chip instead of loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.dtypes import DType
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def identity(low: Lowering, dtype: DType) -> View:
    """The identity matrix of the size of the Tensor engine, made once at the start of the kernel."""
    b, lanes = low.b, low.target["limits.partitions"]
    outer, depth = b.region, b._depth
    b.region, b._depth = b.graph.body, 0
    before = len(b.region.ops)
    ones = b.sbuf((lanes, lanes), dtype, "ones")
    made = b.sbuf((lanes, lanes), dtype, "identity")
    b.op("memset", ones, value=1.0)
    # p - f == 0 on the diagonal
    b.op("affine_select", made, ones, 0.0, pattern=((-1, lanes),), channel_multiplier=1, cmp_op="equal", offset=0)
    new = b.region.ops[before:]
    b.region.ops[:] = [*new, *b.region.ops[:before]]
    b.region, b._depth = outer, depth
    return made

"""Ops that no group computes, each with the function that lowers it by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.lower.indexed.combine import combine_rows
from tilewright.lower.indexed.elements import put_elements, take_elements
from tilewright.lower.indexed.gather import put_rows, take
from tilewright.lower.indexed.indices import pass_on
from tilewright.lower.kernels.bisect import count_before
from tilewright.lower.kernels.cholesky import cholesky_columns
from tilewright.lower.kernels.eliminate import gauss
from tilewright.lower.kernels.rows import reduce_rows
from tilewright.lower.kernels.scan_rows import scan_rows
from tilewright.lower.kernels.search import long_argmax
from tilewright.lower.kernels.topk import topk
from tilewright.lower.move.join import join, overlay, surround
from tilewright.lower.products.convolution import conv

SPECIAL: dict[str, Callable[[Any, Any], None]] = {
    **dict.fromkeys(("sum", "max", "min", "prod"), reduce_rows),
    "concatenate": join,
    "update_slice": overlay,
    "pad": surround,
    "checked_index": pass_on,
    "bounded_index": pass_on,
    "take": take,
    "put_rows": put_rows,
    "take_along_axis": take_elements,
    "put_along_axis": put_elements,
    "combine_rows": combine_rows,
    "argmax": long_argmax,
    "topk": topk,
    "count_before": count_before,
    **dict.fromkeys(("cumsum", "cumprod"), scan_rows),
    "conv": conv,
    "gauss": gauss,
    "cholesky_columns": cholesky_columns,
}
"""Op name -> function(lowering, op)."""

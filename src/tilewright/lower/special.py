"""Ops that no group computes, each with the function that lowers it by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.lower.bisect import count_before
from tilewright.lower.cholesky import cholesky_columns
from tilewright.lower.combine import combine_rows
from tilewright.lower.convolution import conv
from tilewright.lower.elements import put_elements, take_elements
from tilewright.lower.eliminate import gauss
from tilewright.lower.gather import put_rows, take
from tilewright.lower.indices import pass_on
from tilewright.lower.join import join, overlay, surround
from tilewright.lower.rows import reduce_rows
from tilewright.lower.scan_rows import scan_rows
from tilewright.lower.search import long_argmax
from tilewright.lower.topk import topk

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

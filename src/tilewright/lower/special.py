"""Ops that no group computes, each with the function that lowers it by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.lower.join import join, overlay, surround
from tilewright.lower.rows import reduce_rows

SPECIAL: dict[str, Callable[[Any, Any], None]] = {
    **{name: reduce_rows for name in ("sum", "max", "min", "prod")},
    "concatenate": join,
    "update_slice": overlay,
    "pad": surround,
}
"""Op name -> function(lowering, op)."""

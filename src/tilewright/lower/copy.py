"""Copies from HBM to HBM in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def copy_hbm(low: Lowering, source: View, out: View) -> None:
    """out = source, element by element, by one transfer."""
    low.b.op("dma_copy", out, source)

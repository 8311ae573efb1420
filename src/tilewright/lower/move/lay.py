"""Elements put in another order within their partitions, by the engines that are free."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.lower.decisions import decision
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.builder import TileBuilder
from tilewright.lower.write.dims import joined
from tilewright.lower.write.views import expanded, permuted, picked, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


@decision("move: laid in order")
def lay(low: Lowering, dst: View, src: View) -> None:
    """dst = src, in the order that takes the least time, a part by each engine."""
    b, engines = low.b, _engines(low.b)
    dst, src = _ordered(b, dst, src)
    parts = max(1, min(len(engines), dst.free // TUNING.least_laid))
    dim = max(range(1, dst.ndim), key=lambda d: min(dst.sizes[d], parts))
    each = -(-dst.sizes[dim] // parts)
    for first in range(0, dst.sizes[dim], each):
        some = tuple(sliced(view, dim, first, min(each, dst.sizes[dim] - first)) for view in (dst, src))
        low.selecting.share(*(("tensor_copy", some, {"engine": engine}, engine) for engine in engines))


def laying_ns(b: TileBuilder, dst: View, src: View) -> float:
    """About how long that takes."""
    dst, src = _ordered(b, dst, src)
    engines = max(1, min(len(_engines(b)), dst.free // TUNING.least_laid))
    return _ns(b, dst, src) / engines


def _engines(b: TileBuilder) -> list[str]:
    return ["vector", *["scalar"] * bool(b.target["features.scalar_tensor_copy"]), "gpsimd"]


def _ordered(b: TileBuilder, dst: View, src: View) -> tuple[View, View]:
    """Both with the dims merged that can be, those that an access pattern has no room for first, the best last."""
    views = joined({0: dst, 1: src})
    if views[0].ndim == 1:
        return expanded(views[0], 1), expanded(views[1], 1)
    short = sorted(range(1, views[0].ndim), key=lambda d: views[0].sizes[d])
    orders = [(0, *[d for d in short if d != last], last) for last in short]
    pairs = [(permuted(views[0], order), permuted(views[1], order)) for order in orders]
    return min(pairs, key=lambda pair: _ns(b, *pair))


def _ns(b: TileBuilder, dst: View, src: View) -> float:
    """The time of one engine, dims that an access pattern has no room for as loops."""
    loops = max(dst.ndim - b.target["limits.max_view_dims"], 0)
    one, other = dst, src
    for _ in range(loops):
        one, other = picked(one, 1, 0), picked(other, 1, 0)
    return prod(dst.sizes[1 : 1 + loops]) * b.cost_ns("tensor_copy", one, other, engine="vector")

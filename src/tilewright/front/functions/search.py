"""Searching and counting: searchsorted, digitize, isin, bincount, histogram."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from tilewright.dtypes import bool_, float64, int64
from tilewright.front.array import TracedArray, as_traced, holds_traced, new, returned
from tilewright.front.functions.index import depends_on_data, flat, positions, run_time_index
from tilewright.front.functions.moves import filled
from tilewright.front.promote import cast, promote, value_of
from tilewright.front.refusal import ask, numpy_error, unsupported
from tilewright.front.registry import call, implements
from tilewright.front.trace import emit


@implements(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> TracedArray:
    """np.searchsorted"""
    x, wanted = as_traced(a), as_traced(v)
    ask(np.searchsorted, np.zeros(0), 0, side=side)
    if x.ndim != 1:
        few = "object of too small depth for desired array"
        raise numpy_error(ValueError, few if not x.ndim else "object too deep for desired array")
    if _have_common_type(x, wanted):
        (ordered, values), _ = promote(x, wanted)
    else:
        ordered, values = (cast(each.value, float64) for each in (x, wanted))
    if sorter is not None:
        order = as_traced(sorter)
        if order.dtype.kind not in "iu":
            raise numpy_error(TypeError, "sorter must only contain integers")
        if order.shape != x.shape:
            raise numpy_error(ValueError, "sorter.size must equal len(a)")
        ordered = emit("take", ordered, positions(sorter, x.size), axis=0)
    return returned(emit("searchsorted", ordered, values, right=side == "right", dtype=int64))


@implements(np.digitize, note="bins are known while tracing")
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """np.digitize"""
    if holds_traced(bins):
        raise unsupported(
            "np.digitize", "bins", "whether they rise or fall is known only at run time", "use np.searchsorted"
        )
    edges = np.asarray(bins)
    ask(np.digitize, np.zeros(0), edges)
    side = "left" if right else "right"
    if edges.size and edges[0] > edges[-1]:
        return edges.size - searchsorted(edges[::-1], x, side)
    return searchsorted(edges, x, side)


@implements(np.isin)
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> TracedArray:
    """np.isin"""
    x, tests = as_traced(element), as_traced(test_elements)
    ask(np.isin, np.zeros(1, x.dtype), np.zeros(1, tests.dtype), kind=kind)
    if not tests.size:
        return new(filled(x.shape, bool_, bool(invert)))
    if not _have_common_type(x, tests):
        # Such as bfloat16 and int64, which NumPy compares although they have no common type.
        parts = [call(np.equal, x, test) for test in new(flat(tests.value))]
        found: Any = reduce(lambda a, b: a | b, parts)
        return new((~found if invert else found).value)
    (values, known), _ = promote(x, tests)
    ordered = emit("sort", flat(known), axis=0, descending=False)
    place = emit("searchsorted", ordered, values, right=False, dtype=int64)
    near = emit("take", ordered, emit("minimum", place, tests.size - 1), axis=0)
    return new(emit("not_equal" if invert else "equal", near, values))


def _have_common_type(x: TracedArray, y: TracedArray) -> bool:
    try:
        np.result_type(x.dtype, y.dtype)
    except TypeError:
        return False
    return True


@implements(np.bincount, note="minlength is the length of the result: larger numbers are an error at run time")
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> TracedArray:
    """np.bincount"""
    numbers = as_traced(x)
    ask(np.bincount, np.zeros((0,) * numbers.ndim, numbers.dtype), minlength=minlength)
    if not minlength:
        raise depends_on_data(
            "np.bincount", "the greatest number decides how long the result is", "give minlength=, one more than it"
        )
    if weights is not None and np.shape(weights) != numbers.shape:
        raise numpy_error(ValueError, "The weights and list don't have the same length.")
    dtype = int64 if weights is None else float64
    ask(np.bincount, np.zeros(1, np.int64), np.zeros(1, as_traced(weights).dtype) if weights is not None else None)
    if not numbers.size:
        # Of nothing NumPy counts, whatever the weights.
        return new(filled((int(minlength),), int64, 0))
    part = filled(numbers.shape, dtype, 1) if weights is None else value_of(weights, dtype)
    start = filled((int(minlength),), dtype, 0)
    return new(emit("combine_rows", start, run_time_index(numbers), part, combine="add"))


@implements(np.histogram, note="bins are edges, or a number of them with range=")
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """np.histogram"""
    x = as_traced(a)
    if holds_traced(bins) or holds_traced(range):
        raise unsupported("np.histogram", "bins", "the edges are known only at run time", "use np.searchsorted")
    if isinstance(bins, str) or (np.ndim(bins) == 0 and range is None and x.size):
        raise unsupported("np.histogram", "bins", "the data decide on the edges", "give edges, or range=(low, high)")
    edges = ask(np.histogram_bin_edges, np.zeros(0, x.dtype), bins, range)
    if weights is not None and np.shape(weights) != x.shape:
        raise numpy_error(ValueError, "weights should have the same shape as a.")
    values, bins = new(flat(x.value)), edges.size - 1
    # 0 is before all edges; the last edge belongs to the last interval. What lies outside is counted behind them.
    place: Any = searchsorted(edges, values, "right") - (values == edges[-1])
    place = np.where(place == 0, bins, place - 1)
    if weights is None:
        counts = bincount(place, minlength=bins + 1)[:bins]
    else:
        given = as_traced(weights)
        counts = bincount(place, new(flat(given.value)), minlength=bins + 1)[:bins].astype(given.dtype)
    if density:
        counts = counts / np.diff(edges).astype(float) / np.sum(counts)
    return counts, edges

"""np.pad: constants, copies of what lies inside, ramps and statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.front import views
from tilewright.front.array import TracedArray, holds_traced, new
from tilewright.front.functions.index import depends_on_data
from tilewright.front.functions.join import concatenate
from tilewright.front.functions.layout import column_major
from tilewright.front.functions.moves import joined, picked
from tilewright.front.functions.shape import along, array_of
from tilewright.front.indexing import fill
from tilewright.front.refusal import ask, numpy_error, unsupported
from tilewright.front.registry import call, implements
from tilewright.front.trace import emit, emit_unwritten
from tilewright.ir.core import Value

Widths = list[tuple[int, int]]
_COPIES = ("edge", "reflect", "symmetric", "wrap")
_STATISTICS: dict[str, Callable[..., Any]] = {
    "maximum": np.max,
    "minimum": np.min,
    "mean": np.mean,
    "median": np.median,
}


@implements(np.pad, note="mode is a name, not a function")
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> TracedArray:
    """np.pad"""
    x = array_of(array)
    if holds_traced(pad_width):
        raise depends_on_data("np.pad", "pad_width is known at run time only", "give it as Python numbers")
    if callable(mode):
        raise unsupported("np.pad", "mode", "a function works on parts of a NumPy array", "use one of NumPy's modes")
    # On an array of ones NumPy checks the arguments; traced ones are numbers to it.
    known = {name: 0 if holds_traced(given) else given for name, given in kwargs.items()}
    ask(np.pad, np.ones((1,) * x.ndim), pad_width, mode, **known)
    widths = _widths(pad_width, x.ndim)
    if 0 in x.shape and mode not in ("constant", "empty"):
        for axis, (size, width) in enumerate(zip(x.shape, widths, strict=True)):
            if not size and any(width):
                message = f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'"
                raise numpy_error(ValueError, message)
        mode, kwargs = "empty", {}
    value = _padded(x, widths, mode, kwargs).value
    return column_major(value) if x.shadow.flags.fnc else new(value)


def _padded(x: TracedArray, widths: Widths, mode: str, kwargs: dict[str, Any]) -> TracedArray:
    if mode in ("constant", "empty"):
        return _constant(x, widths, kwargs.get("constant_values", 0), emit if mode == "constant" else emit_unwritten)
    odd = kwargs.get("reflect_type", "even") == "odd"
    ends = _pairs(kwargs.get("end_values", 0), x.ndim)
    lengths = _pairs(kwargs.get("stat_length"), x.ndim)
    for axis, (low, high) in enumerate(widths):
        if not low and not high:
            continue
        size = x.shape[axis]
        if odd and size > 1:
            x = _odd_reflection(x, axis, low, high, mode == "symmetric")
        elif mode in _COPIES:
            index = np.pad(np.arange(size), (low, high), mode=mode)  # type: ignore[call-overload]
            before, after = (picked(x.value, axis, part) for part in (index[:low], index[low + size :]))
            x = new(joined([before, x.value, after], axis))
        elif mode == "linear_ramp":
            x = _ramps(x, axis, low, high, ends[axis])
        else:
            x = _statistics(x, axis, low, high, mode, lengths[axis])
    return x


def _widths(pad_width: Any, rank: int) -> Widths:
    if isinstance(pad_width, dict):
        widths = [(0, 0)] * rank
        for axis, width in pad_width.items():
            widths[axis] = (width, width) if isinstance(width, int) else width
        return widths
    return [(int(low), int(high)) for low, high in _pairs(pad_width, rank)]


def _pairs(given: Any, rank: int) -> list[tuple[Any, Any]]:
    """What an argument says for the beginning and the end of each axis."""
    if given is None:
        return [(None, None)] * rank
    if isinstance(given, TracedArray):
        if given.size != 1:
            raise unsupported("np.pad", "constant_values", "several numbers that are known at run time only")
        return [(given, given)] * rank
    table = np.empty(np.shape(given) if not holds_traced(given) else (len(given),), object)
    table[...] = given
    if table.size == 1:
        item = table.ravel()[0]
        # NumPy keeps the type of a single number, and makes Python numbers of several.
        item = np.asarray(given).ravel()[0] if not isinstance(item, TracedArray) else item
        return [(item, item)] * rank
    return [tuple(row) for row in np.broadcast_to(table, (rank, 2)).tolist()]


def _constant(x: TracedArray, widths: Widths, values: Any, make: Callable[..., Value]) -> TracedArray:
    pairs = _pairs(values, x.ndim)
    numbers = {_number(v, x) if not isinstance(v, TracedArray) else None for pair in pairs for v in pair}
    if len(numbers) == 1 and None not in numbers:
        low, high = (tuple(width[end] for width in widths) for end in (0, 1))
        return new(make("pad", x.value, low=low, high=high, value=numbers.pop()))
    for axis, (width, pair) in enumerate(zip(widths, pairs, strict=True)):
        x = _extended(x, axis, width, pair)
    return x


def _number(value: Any, like: TracedArray) -> bool | int | float:
    """A number as assigning it to an array would make it."""
    host = np.empty((), like.dtype)
    ask(host.__setitem__, ..., value)
    return host.item() if like.type.dtype.is_integer else float(host)


def _extended(x: TracedArray, axis: int, widths: tuple[int, int], ends: tuple[Any, Any]) -> TracedArray:
    """The array between what is written before and after it."""
    parts: list[TracedArray] = []
    for width, given in zip(widths, ends, strict=True):
        shape = tuple(width if a == axis else n for a, n in enumerate(x.shape))
        part = new(emit("full", shape=shape, dtype=x.type.dtype, value=0))
        if width:
            fill(part, given)
        parts.append(part)
    return concatenate([parts[0], x, parts[1]], axis)


def _odd_reflection(x: TracedArray, axis: int, low: int, high: int, with_edge: bool) -> TracedArray:
    """2 * edge - what lies inside, again and again where the array is shorter than what is added."""
    offset = 0 if with_edge else 1
    period = x.shape[axis] - offset
    while low or high:
        size = x.shape[axis]
        # Whole periods only, so that each turn starts at an edge of the original.
        reach = (size - offset) // period * period
        before, after = min(reach, low), min(reach, high)
        ends = [0, size - 1]
        chunks = [
            views.sliced(x, along(axis, offset + before - 1, before, -1)),
            views.sliced(x, along(axis, size - 1 - offset, after, -1)),
        ]
        edges = [views.sliced(x, along(axis, end, 1)) for end in ends]
        turned = [_doubled_minus(edge, chunk) for edge, chunk in zip(edges, chunks, strict=True)]
        x = _extended(x, axis, (before, after), (turned[0], turned[1]))
        low, high = low - before, high - after
    return x


def _doubled_minus(edge: TracedArray, chunk: TracedArray) -> TracedArray:
    return call(np.subtract, call(np.multiply, 2, edge), chunk)


def _ramps(x: TracedArray, axis: int, low: int, high: int, ends: tuple[Any, Any]) -> TracedArray:
    size = x.shape[axis]
    left = _ramp(ends[0], views.sliced(x, along(axis, 0, 1)), low, axis)
    right = _ramp(ends[1], views.sliced(x, along(axis, size - 1, 1)), high, axis)
    return _extended(x, axis, (low, high), (left, call(np.flip, right, axis)))


def _ramp(end: Any, edge: TracedArray, count: int, axis: int) -> TracedArray:
    """Steps from an end value towards the edge."""
    stop = call(np.squeeze, edge, axis)
    return call(np.linspace, end, stop, count, endpoint=False, dtype=edge.dtype, axis=axis)


def _statistics(x: TracedArray, axis: int, low: int, high: int, mode: str, lengths: tuple[Any, Any]) -> TracedArray:
    size = x.shape[axis]
    counts = [size if length is None else min(int(length), size) for length in lengths]
    if 0 in counts and mode in ("maximum", "minimum"):
        raise numpy_error(ValueError, "stat_length of 0 yields no value for padding")
    found: list[TracedArray] = []
    for start, count in ((0, counts[0]), (size - counts[1], counts[1])):
        part = call(_STATISTICS[mode], views.sliced(x, along(axis, start, count)), axis=axis, keepdims=True)
        # NumPy rounds to integers, not to truth values.
        whole = x.type.dtype.kind in "iu" and not part.type.dtype.is_integer
        found.append(call(np.round, part) if whole else part)
    return _extended(x, axis, (low, high), (found[0], found[1]))

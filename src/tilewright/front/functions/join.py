"""Putting arrays together and taking them apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import DType, host_dtype
from tilewright.front import views
from tilewright.front.array import TracedArray, new
from tilewright.front.functions.index import depends_on_data
from tilewright.front.functions.layout import ordered_as, sample_of
from tilewright.front.functions.moves import cast, joined
from tilewright.front.functions.shape import along, array_of, expand_dims, ravel, same_elements
from tilewright.front.promote import common_type, is_weak
from tilewright.front.refusal import ask, axis_in, numpy_error
from tilewright.front.registry import call, implements
from tilewright.front.ufunc import host_target


def _listed(arrays: Any) -> list[Any]:
    """A sequence of arrays; the rows of one array are a sequence too."""
    if isinstance(arrays, TracedArray):
        if not arrays.ndim:
            raise numpy_error(TypeError, "iteration over a 0-d array")
        return [views.sliced(arrays, (i,)) for i in range(arrays.shape[0])]
    return list(arrays)


def _sequence(arrays: Any) -> list[Any]:
    if not hasattr(arrays, "__getitem__"):
        raise numpy_error(TypeError, 'arrays to stack must be passed as a "sequence" type such as list or tuple.')
    return _listed(arrays)


@implements(np.concatenate)
def concatenate(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> TracedArray:
    """np.concatenate"""
    items = _listed(arrays)
    if not items:
        raise numpy_error(ValueError, "need at least one array to concatenate")
    if out is not None and dtype is not None:
        raise numpy_error(
            TypeError, "concatenate() only takes `out` or `dtype` as an argument, but both were provided."
        )
    found = _dtype(items, axis) if dtype is None else host_dtype(np.dtype(dtype))
    parts = [array_of(x) for x in items]
    place = _check_shapes(parts, axis)
    wanted = found if out is None else _target_type(out)
    for part in parts:
        if not np.can_cast(part.dtype, wanted.np, casting):  # type: ignore[arg-type]
            raise _no_cast(part.dtype, wanted.np, casting)
    if axis is None:
        parts = [ravel(part) for part in parts]
    value = joined([cast(part.value, wanted) for part in parts], place)
    if out is None:
        return ordered_as(np.concatenate([sample_of(part) for part in parts], axis=place), value)
    if out.shape != value.type.shape:
        flat = axis is None and out.ndim != 1
        raise numpy_error(ValueError, "Output array must be 1D" if flat else "Output array is the wrong shape")
    if any(call(np.may_share_memory, part, out) for part in parts):
        _assign_in_turn(parts, place, out)
    else:
        out.assign(value)
    return out


def _assign_in_turn(parts: list[TracedArray], place: int, out: TracedArray) -> None:
    """Parts that are views of `out` are read when those before them are there, as NumPy does."""
    start = 0
    for part in parts:
        end = start + part.shape[place]
        out[(slice(None),) * place + (slice(start, end),)] = part
        start = end


def _target_type(out: Any) -> DType:
    if not isinstance(out, TracedArray):
        raise host_target()
    return out.type.dtype


def _dtype(items: Sequence[Any], axis: Any) -> DType:
    """The common element type. Flattened numbers are weak; everything else is an array of its own type."""
    weak = [x for x in items if axis is None and is_weak(x)]
    typed = [array_of(x).dtype for x in items if not (axis is None and is_weak(x))]
    return common_type([*typed, *weak])


def _check_shapes(parts: list[TracedArray], axis: Any) -> int:
    """The axis as a number from 0, once all other dims agree."""
    if axis is None:
        return 0
    first = parts[0]
    if any(part.ndim == 0 for part in parts):
        raise numpy_error(ValueError, "zero-dimensional arrays cannot be concatenated")
    place = axis_in(axis, first.ndim)
    for at, part in enumerate(parts):
        if part.ndim != first.ndim:
            raise numpy_error(
                ValueError,
                "all the input arrays must have same number of dimensions, but the array at index 0 has "
                f"{first.ndim} dimension(s) and the array at index {at} has {part.ndim} dimension(s)",
            )
        for dim, (mine, size) in enumerate(zip(part.shape, first.shape, strict=True)):
            if dim != place and mine != size:
                sizes = f"the array at index 0 has size {size} and the array at index {at} has size {mine}"
                raise numpy_error(
                    ValueError,
                    "all the input array dimensions except for the concatenation axis must match exactly, but along "
                    f"dimension {dim}, {sizes}",
                )
    return place


@implements(np.stack)
def stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> TracedArray:
    """np.stack"""
    parts = [array_of(x) for x in _sequence(arrays)]
    if not parts:
        raise numpy_error(ValueError, "need at least one array to stack")
    if len({part.shape for part in parts}) != 1:
        raise numpy_error(ValueError, "all input arrays must have the same shape")
    place = axis_in(axis, parts[0].ndim + 1)
    return concatenate([expand_dims(part, place) for part in parts], place, out, dtype=dtype, casting=casting)


def _at_least(function: Any, arrays: Any) -> list[TracedArray]:
    return [call(function, x) for x in _sequence(arrays)]


@implements(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> TracedArray:
    """np.vstack"""
    return concatenate(_at_least(np.atleast_2d, tup), 0, dtype=dtype, casting=casting)


@implements(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> TracedArray:
    """np.hstack"""
    parts = _at_least(np.atleast_1d, tup)
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@implements(np.dstack)
def dstack(tup: Any) -> TracedArray:
    """np.dstack"""
    return concatenate(_at_least(np.atleast_3d, tup), 2)


@implements(np.column_stack)
def column_stack(tup: Any) -> TracedArray:
    """np.column_stack"""
    parts = [array_of(x) for x in _sequence(tup)]
    columns = [part if part.ndim > 1 else views.transposed(call(np.atleast_2d, part), (1, 0)) for part in parts]
    return concatenate(columns, 1)


@implements(np.block)
def block(arrays: Any) -> TracedArray:
    """np.block"""
    depth = _depth(arrays)
    rank = max(depth, *(array_of(x).ndim for x in _leaves(arrays)))
    found = _block(arrays, depth, rank)
    return found if depth else new(found.value)


def _depth(x: Any) -> int:
    """How deep lists are nested, which must be the same everywhere."""
    if isinstance(x, tuple):
        raise numpy_error(TypeError, "np.block: lists of lists are taken, a tuple is not")
    if not isinstance(x, list):
        return 0
    if not x:
        raise numpy_error(ValueError, "np.block: a list is empty")
    depths = {_depth(item) for item in x}
    if len(depths) > 1:
        raise numpy_error(ValueError, f"np.block: list depths are mismatched: {sorted(depths)}")
    return 1 + depths.pop()


def _leaves(x: Any) -> list[Any]:
    return [leaf for item in x for leaf in _leaves(item)] if isinstance(x, list) else [x]


def _block(x: Any, depth: int, rank: int) -> TracedArray:
    if not isinstance(x, list):
        array = array_of(x)
        return same_elements(array, array.shadow.reshape((*(1,) * (rank - array.ndim), *array.shape), copy=False))
    return concatenate([_block(item, depth - 1, rank) for item in x], axis=-depth)


@implements(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> TracedArray:
    """np.append"""
    arr, values = array_of(arr), array_of(values)
    if axis is None:
        return concatenate([ravel(arr), ravel(values)], arr.ndim - 1 if arr.ndim == 1 else 0)
    return concatenate([arr, values], axis)


# Taking apart


def _parts(function: Callable[..., Any], ary: Any, sections: Any, axis: int | None) -> list[TracedArray]:
    """Views of consecutive parts: NumPy says which, by splitting the numbers of the rows."""
    x = array_of(ary)
    if isinstance(sections, TracedArray):
        name = f"np.{function.__name__}"
        raise depends_on_data(name, "where to split is known at run time only", "give the positions as Python numbers")
    arguments = () if axis is None else (axis,)
    shapes = [part.shape for part in ask(function, x.shadow, sections, *arguments)]
    place = _default_axis(function, x) if axis is None else axis_in(axis, x.ndim)
    split = np.split if function in (np.hsplit, np.vsplit, np.dsplit) else function
    found: list[TracedArray] = []
    for rows, shape in zip(split(np.arange(x.shape[place]), sections), shapes, strict=True):
        part = views.sliced(x, along(place, int(rows[0]) if len(rows) else 0, len(rows)))
        assert part.shape == shape
        found.append(part)
    return found


def _default_axis(function: Any, x: TracedArray) -> int:
    return {np.vsplit: 0, np.dsplit: 2, np.hsplit: min(x.ndim - 1, 1)}[function]


@implements(np.split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[TracedArray]:
    """np.split"""
    return _parts(np.split, ary, indices_or_sections, axis)


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[TracedArray]:
    """np.array_split"""
    return _parts(np.array_split, ary, indices_or_sections, axis)


@implements(np.hsplit)
def hsplit(ary: Any, indices_or_sections: Any) -> list[TracedArray]:
    """np.hsplit"""
    return _parts(np.hsplit, ary, indices_or_sections, None)


@implements(np.vsplit)
def vsplit(ary: Any, indices_or_sections: Any) -> list[TracedArray]:
    """np.vsplit"""
    return _parts(np.vsplit, ary, indices_or_sections, None)


@implements(np.dsplit)
def dsplit(ary: Any, indices_or_sections: Any) -> list[TracedArray]:
    """np.dsplit"""
    return _parts(np.dsplit, ary, indices_or_sections, None)


@implements(np.unstack)
def unstack(x: Any, /, *, axis: int = 0) -> tuple[TracedArray, ...]:
    """np.unstack"""
    array = array_of(x)
    if not array.ndim:
        raise numpy_error(ValueError, "Input array must be at least 1-d.")
    place = axis_in(axis, array.ndim)
    before = (slice(None),) * place
    return tuple(views.sliced(array, (*before, i)) for i in range(array.shape[place]))


def _no_cast(source: np.dtype, wanted: np.dtype, casting: str) -> Exception:
    message = f"Cannot cast array data from {source!r} to {wanted!r} according to the rule '{casting}'"
    return numpy_error(TypeError, message)

"""Products of matrices and vectors: dot and its kin, cross, kron, chains."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.front import views
from tilewright.front.array import TracedArray, new, returned
from tilewright.front.functions.einsum import Term, sum_of_products
from tilewright.front.functions.moves import reshaped, transposed
from tilewright.front.functions.shape import array_of, expand_dims, ravel
from tilewright.front.promote import cast, result_type
from tilewright.front.refusal import ask, axis_in, numpy_error
from tilewright.front.registry import call, implements
from tilewright.front.trace import emit
from tilewright.front.ufunc import host_target
from tilewright.ir.core import Value


def _pair(a: Any, b: Any) -> tuple[TracedArray, TracedArray, Value, Value]:
    """Two arrays, and their values in the common element type. Numbers are arrays of rank 0 here."""
    x, y = array_of(a), array_of(b)
    dtype = result_type(x, y)
    return x, y, cast(x.value, dtype), cast(y.value, dtype)


def _shapes(x: TracedArray, y: TracedArray) -> str:
    return f"shapes {_spelled(x.shape)} and {_spelled(y.shape)}"


def _spelled(shape: tuple[int, ...]) -> str:
    return str(shape).replace(" ", "")


def _delivered(value: Value, out: Any) -> TracedArray:
    """The result of np.dot and its like; an `out` must have exactly its type and lie in rows."""
    if out is None:
        return returned(value)
    if not isinstance(out, TracedArray):
        raise host_target() if isinstance(out, np.ndarray) else numpy_error(TypeError, "'out' must be an array")
    if out.type != value.type or not out.shadow.flags.c_contiguous:
        message = (
            "output array is not acceptable (must have the right datatype, number of dimensions, and be a C-Array)"
        )
        raise numpy_error(ValueError, message)
    out.assign(value)
    return out


@implements(np.dot)
def dot(a: Any, b: Any, out: Any = None) -> TracedArray:
    """np.dot: over the last dim of a and the last but one of b"""
    x, y, left, right = _pair(a, b)
    if not x.ndim or not y.ndim:
        return _delivered(emit("multiply", left, right), out)
    inner = max(y.ndim - 2, 0)
    return _delivered(_summed_over(x, y, left, right, inner), out)


@implements(np.inner)
def inner(a: Any, b: Any, /) -> TracedArray:
    """np.inner: over the last dims of both"""
    x, y, left, right = _pair(a, b)
    if not x.ndim or not y.ndim:
        return returned(emit("multiply", left, right))
    return returned(_summed_over(x, y, left, right, y.ndim - 1))


def _summed_over(x: TracedArray, y: TracedArray, left: Value, right: Value, axis: int) -> Value:
    """The sum over the last dim of x and one dim of y; the other dims of both, in order."""
    last = x.ndim - 1
    if x.shape[last] != y.shape[axis]:
        sizes = f"{x.shape[last]} (dim {last}) != {y.shape[axis]} (dim {axis})"
        raise numpy_error(ValueError, f"{_shapes(x, y)} not aligned: {sizes}")
    rows = tuple(f"x{i}" for i in range(last))
    columns = tuple(f"y{i}" for i in range(y.ndim))
    terms = [Term(left, (*rows, "k")), Term(right, (*columns[:axis], "k", *columns[axis + 1 :]))]
    return sum_of_products(terms, (*rows, *columns[:axis], *columns[axis + 1 :]))


@implements(np.vdot)
def vdot(a: Any, b: Any, /) -> TracedArray:
    """np.vdot: of all elements"""
    x, y, left, right = _pair(a, b)
    if x.size != y.size:
        raise numpy_error(ValueError, f"cannot reshape array of size {y.size} into shape ({x.size},)")
    flat = [Term(reshaped(value, (x.size,)), ("k",)) for value in (left, right)]
    return returned(sum_of_products(flat, ()))


@implements(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> TracedArray:
    """np.outer"""
    x, y = ravel(array_of(a)), ravel(array_of(b))
    return call(np.multiply, expand_dims(x, 1), expand_dims(y, 0), out=out)


@implements(np.linalg.outer)
def linalg_outer(x1: Any, x2: Any, /) -> TracedArray:
    """np.linalg.outer"""
    x, y = array_of(x1), array_of(x2)
    if x.ndim != 1 or y.ndim != 1:
        message = f"Input arrays must be one-dimensional, but they are x1.ndim={x.ndim} and x2.ndim={y.ndim}."
        raise numpy_error(ValueError, message)
    return outer(x, y)


@implements(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> TracedArray:
    """np.tensordot"""
    x, y, left, right = _pair(a, b)
    over_x, over_y = _dot_axes(axes)
    if len(set(over_x)) != len(over_x) or len(set(over_y)) != len(over_y):
        raise numpy_error(ValueError, "duplicate axes are not allowed in tensordot")
    sizes = [[ask(array.shape.__getitem__, axis) for axis in over] for array, over in ((x, over_x), (y, over_y))]
    if sizes[0] != sizes[1]:
        raise numpy_error(ValueError, "shape-mismatch for sum")
    mine, theirs = [f"x{i}" for i in range(x.ndim)], [f"y{i}" for i in range(y.ndim)]
    for at, (i, j) in enumerate(zip(over_x, over_y, strict=True)):
        mine[i] = theirs[j] = f"k{at}"
    kept = tuple(label for label in [*mine, *theirs] if not label.startswith("k"))
    terms = [Term(left, tuple(mine)), Term(right, tuple(theirs))]
    return new(sum_of_products(terms, kept))


@implements(np.linalg.tensordot)
def linalg_tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> TracedArray:
    """np.linalg.tensordot"""
    return tensordot(x1, x2, axes)


def _dot_axes(axes: Any) -> tuple[list[int], list[int]]:
    if not np.iterable(axes):
        count = int(axes)
        return list(range(-count, 0)), list(range(count))
    first, second = axes
    return list(first) if np.iterable(first) else [first], list(second) if np.iterable(second) else [second]


@implements(np.kron)
def kron(a: Any, b: Any) -> TracedArray:
    """np.kron"""
    x, y = array_of(a), array_of(b)
    if not x.ndim or not y.ndim:
        return call(np.multiply, x, y)
    rank = max(x.ndim, y.ndim)
    shapes = [(*(1,) * (rank - array.ndim), *array.shape) for array in (x, y)]
    left = reshaped(x.value, tuple(n for size in shapes[0] for n in (size, 1)))
    right = reshaped(y.value, tuple(n for size in shapes[1] for n in (1, size)))
    product = call(np.multiply, new(left), new(right))
    return new(reshaped(product.value, tuple(m * n for m, n in zip(*shapes, strict=True))))


@implements(np.cross)
def cross(a: Any, b: Any, axisa: Any = -1, axisb: Any = -1, axisc: Any = -1, axis: Any = None) -> TracedArray:
    """np.cross"""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y, left, right = _pair(a, b)
    if not x.ndim or not y.ndim:
        raise numpy_error(ValueError, "At least one array has zero dimension")
    left, right = (
        _axis_last(value, axis_in(place, value.type.rank, name))
        for value, place, name in ((left, axisa, "axisa"), (right, axisb, "axisb"))
    )
    sizes = left.type.shape[-1], right.type.shape[-1]
    if not set(sizes) <= {2, 3}:
        message = "incompatible dimensions for cross product\n(dimension must be 2 or 3)"
        raise numpy_error(ValueError, message)
    ask(np.broadcast_shapes, left.type.shape[:-1], right.type.shape[:-1])
    p, q = ([new(_entry(value, i)) for i in range(value.type.shape[-1])] for value in (left, right))
    if sizes == (2, 2):
        return new(_cross_entry(p, q, 0, 1).value)
    parts = [_cross_entry(p, q, i, j) for i, j in ((1, 2), (2, 0), (0, 1))]
    found = call(np.stack, parts, axis=-1)
    return call(np.moveaxis, found, -1, axis_in(axisc, found.ndim, "axisc"))


def _axis_last(x: Value, axis: int) -> Value:
    return transposed(x, [*(a for a in range(x.type.rank) if a != axis), axis])


def _entry(x: Value, i: int) -> Value:
    shape = x.type.shape
    one = emit("slice", x, starts=(*(0,) * (len(shape) - 1), i), sizes=(*shape[:-1], 1), steps=(1,) * len(shape))
    return reshaped(one, shape[:-1])


def _cross_entry(p: list[TracedArray], q: list[TracedArray], i: int, j: int) -> TracedArray:
    """p[i] * q[j] - p[j] * q[i]; a third entry that a vector lacks is 0."""
    first = call(np.multiply, p[i], q[j]) if i < len(p) and j < len(q) else None
    second = call(np.multiply, p[j], q[i]) if j < len(p) and i < len(q) else None
    if first is None:
        return call(np.negative, second)
    return first if second is None else call(np.subtract, first, second)


@implements(np.linalg.cross)
def linalg_cross(x1: Any, x2: Any, /, *, axis: Any = -1) -> TracedArray:
    """np.linalg.cross: of vectors of three numbers"""
    x, y = array_of(x1), array_of(x2)
    sizes = [array.shape[axis_in(axis, array.ndim)] for array in (x, y)]
    if sizes != [3, 3]:
        message = "Both input arrays must be (arrays of) 3-dimensional vectors, but they are "
        raise numpy_error(ValueError, f"{message}{sizes[0]} and {sizes[1]} dimensional instead.")
    return cross(x, y, axis=axis)


# Chains of products


@implements(np.linalg.multi_dot)
def multi_dot(arrays: Any, *, out: Any = None) -> TracedArray:
    """np.linalg.multi_dot: in the order with the fewest multiplications"""
    parts = [array_of(x) for x in arrays]
    if len(parts) < 2:
        raise numpy_error(ValueError, "Expecting at least two arrays.")
    if len(parts) == 2:
        return dot(parts[0], parts[1], out)
    first, last = parts[0].ndim, parts[-1].ndim
    if first == 1:
        parts[0] = expand_dims(parts[0], 0)
    if last == 1:
        parts[-1] = expand_dims(parts[-1], 1)
    for part in parts:
        if part.ndim != 2:
            message = f"{part.ndim}-dimensional array given. Array must be two-dimensional"
            raise numpy_error(np.linalg.LinAlgError, message)
    target = None
    if out is not None:
        target = out if first == last == 2 else views.reshape(out, (parts[0].shape[0], parts[-1].shape[1]))
    found = _product_of(parts, _best_order([part.shape[0] for part in parts] + [parts[-1].shape[1]]), target)
    if first == last == 1:
        return returned(reshaped(found.value, ()))
    if out is not None:
        return out
    return found if first == last == 2 else ravel(found)


def _best_order(sizes: list[int]) -> Any:
    """Nested pairs of matrix numbers: matrix i has sizes[i] rows and sizes[i + 1] columns."""
    count = len(sizes) - 1
    best: dict[tuple[int, int], tuple[int, Any]] = {(i, i): (0, i) for i in range(count)}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = [
                (
                    best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1],
                    (best[i, k][1], best[k + 1, j][1]),
                )
                for k in range(i, j)
            ]
            best[i, j] = min(options, key=lambda option: option[0])
    return best[0, count - 1][1]


def _product_of(parts: list[TracedArray], order: Any, out: Any = None) -> TracedArray:
    if isinstance(order, int):
        return parts[order]
    left, right = (_product_of(parts, each) for each in order)
    return dot(left, right, out)

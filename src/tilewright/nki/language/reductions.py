"""Reductions over free dims, softmax and rms_norm.

The Vector engine reduces the last free dims (R-nl-08). Where a profile lets other axes pass, free dims are brought last
by the access pattern, and partitions are reduced on GpSimd, which has add and max.
"""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import DType, as_dtype, float32
from tilewright.errors import TileTypeError, fail
from tilewright.nki.language.axes import Axes, read_axes
from tilewright.nki.language.issue import issue, new_tile
from tilewright.nki.language.operands import result_dtype, same_shape, tile_of
from tilewright.nki.language.operators import operator, operator_as
from tilewright.nki.tensor import NkiTensor
from tilewright.rules import violate


def reduce_free(axes: Axes, op: str, dst: NkiTensor, negate: bool = False) -> None:
    """Reduce the free dims of `axes` into a tile with the elements that are kept."""
    count = len(axes.free)
    last = tuple(range(axes.data.ndim - count, axes.data.ndim))
    issue("tensor_reduce", dst, axes.data, op=op, axis=last, negate=negate)


def _reduce(api: str, op: str, x: Any, axis: Any, dtype: Any, keepdims: bool) -> NkiTensor:
    data = tile_of(api, "x", x)
    axes = read_axes(api, data, axis)
    dst = new_tile(axes.result_shape(keepdims), result_dtype(api, dtype, data))
    if axes.partitions:
        _reduce_partitions(api, axes, op, dst)
    else:
        reduce_free(axes, op, dst)
    return dst


def _reduce_partitions(api: str, axes: Axes, op: str, dst: NkiTensor) -> None:
    """Free dims on the Vector engine, then partitions on GpSimd; a minimum is the negated maximum of negated values."""
    known = {"add": "add", "maximum": "maximum", "minimum": "maximum"}
    if op not in known:
        violate(
            "R-nl-08",
            f"nl.{api} over partitions",
            hint="transpose first: partitions are reduced by add and max only",
            operands=[axes.data._view.note("x")],
            final=True,
        )
    sign = -1.0 if op == "minimum" else 1.0
    data = axes.data
    if axes.free:
        data = new_tile((axes.data.shape[0], *axes.kept_sizes()))
        reduce_free(axes, op, data)
    signed, row = new_tile(data.shape), new_tile((1, *data.shape[1:]))
    issue("tensor_scalar", signed, data, op0="multiply", operand0=sign)
    issue("tensor_partition_reduce", row, signed, op=known[op])
    issue("tensor_scalar", dst, row, op0="multiply", operand0=sign)


@operator
def sum(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Sum over the last free dims."""
    return _reduce("sum", "add", x, axis, dtype, keepdims)


@operator_as("maximum")
def max(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Maximum over the last free dims."""
    return _reduce("max", "maximum", x, axis, dtype, keepdims)


@operator_as("minimum")
def min(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Minimum over the last free dims."""
    return _reduce("min", "minimum", x, axis, dtype, keepdims)


@operator
def prod(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Product over the last free dims."""
    return _reduce("prod", "multiply", x, axis, dtype, keepdims)


@operator
def all(x: Any, axis: Any, dtype: Any = None) -> NkiTensor:
    """1 where no element over the last free dims is 0, else 0. Reduced dims stay, of size 1: there is no keepdims."""
    return _reduce("all", "logical_and", x, axis, dtype, True)


@operator
def mean(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Mean over the last free dims, through float32."""
    data = tile_of("mean", "x", x)
    axes = read_axes("mean", data, axis)
    total = new_tile(axes.result_shape(keepdims))
    if axes.partitions:
        _reduce_partitions("mean", axes, "add", total)
    else:
        reduce_free(axes, "add", total)
    return _scaled(total, 1.0 / axes.count(), result_dtype("mean", dtype, data))


def _scaled(x: NkiTensor, factor: float, dtype: DType) -> NkiTensor:
    dst = new_tile(x.shape, dtype)
    issue("tensor_scalar", dst, x, op0="multiply", operand0=factor)
    return dst


@operator
def var(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Variance over the last free dims: mean of squared distances from the mean. Reduced dims always stay (R-nl-09)."""
    data = tile_of("var", "x", x)
    axes = read_axes("var", data, axis, partitions=False)
    share = 1.0 / axes.count()
    total = new_tile(axes.result_shape(True))
    reduce_free(axes, "add", total, negate=True)
    distance, squares = new_tile(axes.data.shape), new_tile(axes.data.shape)
    issue("tensor_tensor", distance, axes.data, axes.spread(_scaled(total, share, float32)), op="add")
    issue("activation", squares, distance, op="square")
    reduce_free(axes.of(squares), "add", total)
    return _scaled(total, share, result_dtype("var", dtype, data))


@operator
def softmax(x: Any, axis: Any = -1, dtype: Any = None) -> NkiTensor:
    """exp(x - max) / sum of exp(x - max), over the last free dims."""
    data = tile_of("softmax", "x", x)
    axes = read_axes("softmax", data, axis, partitions=False, order=False)
    shape = axes.result_shape(True)
    lowest, total, inverse = new_tile(shape), new_tile(shape), new_tile(shape)
    reduce_free(axes, "maximum", lowest, negate=True)
    powers = new_tile(data.shape)
    dst = new_tile(data.shape, result_dtype("softmax", dtype, data))
    if axes.all_free:
        # One value per partition: the Scalar engine adds it and sums what comes out in the same pass.
        summing = {"reduce_op": "add", "reduce_cmd": "reset_reduce"}
        issue("activation", powers, data, bias=_column(lowest), op="exp", reduce_res=_column(total), **summing)
        issue("reciprocal", inverse, total)
        issue("tensor_scalar", dst, powers, op0="multiply", operand0=_column(inverse))
        return dst
    shifted = new_tile(data.shape)
    issue("tensor_tensor", shifted, data, axes.spread(lowest), op="add")
    issue("activation", powers, shifted, op="exp")
    reduce_free(axes.of(powers), "add", total)
    issue("reciprocal", inverse, total)
    issue("tensor_tensor", dst, powers, axes.spread(inverse), op="multiply")
    return dst


def _column(x: NkiTensor) -> NkiTensor:
    """(P, 1, ..., 1) as (P, 1)."""
    return x.reshape((x.shape[0], 1))


@operator
def rms_norm(
    x: Any, w: Any, axis: Any, n: int, epsilon: float = 1e-06, dtype: Any = None, compute_dtype: Any = None
) -> NkiTensor:
    """x / sqrt(sum of x * x / n + epsilon) * w, over the last free dims; intermediate tiles are `compute_dtype`."""
    data, weight = tile_of("rms_norm", "x", x), tile_of("rms_norm", "w", w)
    if not isinstance(n, int) or n < 1:
        raise fail(
            "E108",
            f"nl.rms_norm: n={n!r} is not a number of values",
            error=TileTypeError,
            hint="pass how many values a row has: x.shape[1]",
        )
    axes = read_axes("rms_norm", data, axis, partitions=False, order=False)
    inside = float32 if compute_dtype is None else as_dtype(compute_dtype)
    _, weight = same_shape("rms_norm", data, weight)
    shape = axes.result_shape(True)
    squares, total, mean_square, inverse = (
        new_tile(data.shape, inside),
        new_tile(shape),
        new_tile(shape),
        new_tile(shape),
    )
    summing = {"reduce_op": "add", "reduce_cmd": "reset_reduce"} if axes.all_free else {}
    issue("activation", squares, data, op="square", reduce_res=_column(total) if axes.all_free else None, **summing)
    if not axes.all_free:
        reduce_free(axes.of(squares), "add", total)
    issue("tensor_scalar", mean_square, total, op0="multiply", operand0=1.0 / n, op1="add", operand1=float(epsilon))
    issue("activation", inverse, mean_square, op="rsqrt")
    dst = new_tile(data.shape, result_dtype("rms_norm", dtype, data))
    if axes.all_free:
        issue("scalar_tensor_tensor", dst, data, _column(inverse), weight, op0="multiply", op1="multiply")
        return dst
    normal = new_tile(data.shape, inside)
    issue("tensor_tensor", normal, data, axes.spread(inverse), op="multiply")
    issue("tensor_tensor", dst, normal, weight, op="multiply")
    return dst


__all__ = ["all", "max", "mean", "min", "prod", "rms_norm", "softmax", "sum", "var"]

"""`.ap`: an explicit access pattern on the storage of a tensor, with an optional run-time index."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewright.dtypes import DType
from tilewright.errors import TileTypeError
from tilewright.ir.core import Value
from tilewright.rules import reporter, violate
from tilewright.tile.derive import check_dim, check_rank, whole_number
from tilewright.tile.memory import SBUF
from tilewright.tile.view import Dynamic, View, is_row_major


def access_pattern(
    view: View,
    pattern: Sequence[Sequence[int]],
    offset: int | None = None,
    scalar_offset: View | Value | None = None,
    vector_offset: View | None = None,
    indirect_dim: int = 0,
    dtype: DType | None = None,
) -> View:
    """An explicit [[step, count], ...] pattern on the storage of `view` (the `.ap` of NKI tensors).

    Address of element i: base + offset + sum(i_d * step_d) [+ index * stride of `indirect_dim`], in elements of
    `dtype` (R-tensor.ap-08, -10).
    """
    pairs = _pairs(pattern)
    check_rank(view, len(pairs))
    target = dtype or view.dtype
    if view.dynamic is not None:
        again = scalar_offset is not None or vector_offset is not None
        violate(
            "R-tensor.select-02" if again else "R-tensor.ap-09",
            ".ap of a view with a run-time index",
            hint="call .ap on the tensor itself, with the index as its scalar_offset or vector_offset",
            operands=[view.note("tensor")],
            final=True,
        )
    if scalar_offset is not None and vector_offset is not None:
        violate(
            "R-tensor.ap-04",
            "scalar_offset and vector_offset exclude each other",
            final=True,
            hint="pass one of them: one offset for the whole access, or one for each row",
        )
    start, terms = _base(view, target)
    start += 0 if offset is None else whole_number(offset, ".ap: offset", "R-tensor.ap-01")
    sizes = tuple([count for _, count in pairs])
    strides = tuple([step for step, _ in pairs])
    if view.on_chip:
        strides = (_partition_step(view, strides[0], sizes[0], target), *strides[1:])
    plain = View(view.buffer, target, start, sizes, strides, terms)
    plain.broken = view.broken
    if scalar_offset is None and vector_offset is None:
        plain.outside = plain.reach_outside() is not None
        return plain
    stride = _index_stride(view, check_dim(view, indirect_dim, ".ap: indirect_dim"), target)
    if vector_offset is not None:
        return _gathered(view, plain, stride, vector_offset, indirect_dim % view.ndim)
    assert scalar_offset is not None
    return _shifted(view, plain, stride, scalar_offset, indirect_dim % view.ndim)


def _pairs(pattern: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """R-tensor.ap-01: a list of [step, count] with positive counts."""
    pairs: list[tuple[int, int]] = []
    listed = isinstance(pattern, (list, tuple))
    for pair in pattern if listed else ():
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            listed = False
            break
        step = whole_number(pair[0], ".ap: step", "R-tensor.ap-01")
        pairs.append((step, whole_number(pair[1], ".ap: count", "R-tensor.ap-01")))
    if not listed or not pairs or any(count < 1 for _, count in pairs):
        violate(
            "R-tensor.ap-01",
            f"pattern {pattern!r} is not a list of [step, count] pairs with positive counts",
            final=True,
            error=TileTypeError,
            hint="write [[step of dim 0, count], [step of dim 1, count], ...]",
        )
    return pairs


def _base(view: View, target: DType) -> tuple[int, tuple[tuple[Value, int], ...]]:
    """Offset and loop terms of the view in elements of the pattern's dtype."""
    old, new = view.dtype.itemsize, target.itemsize
    amounts = [view.offset, *[factor for _, factor in view.terms]]
    if any(amount * old % new for amount in amounts) or (view.on_chip and view.buffer.row_bytes % new):
        violate(
            "R-tensor.ap-10",
            f"{view.dtype} storage does not divide into whole elements of {target} here",
            operands=[view.note("tensor")],
            final=True,
            hint="choose an element type of the same size, or a slice that it divides",
        )
    base = view.offset * old // new
    if base:
        reporter().warn(
            "W101",
            f".ap on a view that starts {base} elements into its storage: the offset is added to the view's own",
            rule="R-tensor.ap-09",
            hint="call .ap on the tensor itself with the full offset; the documentation contradicts itself on views",
        )
    return base, tuple((value, factor * old // new) for value, factor in view.terms)


def _index_stride(view: View, dim: int, target: DType) -> int:
    """Elements between consecutive values of the index: what lies to the right of `dim` (R-tensor.ap-08)."""
    stride = view.strides[dim]
    if is_row_major(view.sizes, view.strides):
        stride = prod(view.sizes[dim + 1 :])
    if stride * view.dtype.itemsize % target.itemsize:
        violate(
            "R-tensor.ap-10",
            f"a step of dim {dim} is no whole number of {target} elements",
            operands=[view.note("tensor")],
            final=True,
            hint="choose an element type of the same size, or a slice that it divides",
        )
    return stride * view.dtype.itemsize // target.itemsize


def _gathered(view: View, plain: View, stride: int, indices: View, dim: int) -> View:
    """One index per row. The rows' stride is the tensor's; the step of the first pair is ignored (R-tensor.ap-07)."""
    sizes, strides = plain.sizes, (stride, *plain.strides[1:])
    if view.on_chip or dim != 0:
        violate(
            "R-tensor.ap-06",
            "vector_offset needs a tensor in HBM and indirect_dim=0",
            operands=[view.note("tensor")],
            final=True,
            hint="gather from the tensor in HBM, or use nc_n_gather on chip",
        )
    check_vector_tile(indices, "R-tensor.ap-06")
    # A tile of several columns holds more indices than partitions (dma_transpose); dma_copy asks for (rows, 1).
    if indices.size < sizes[0]:
        violate(
            "R-tensor.ap-06",
            f"{indices.size} indices for {sizes[0]} rows of the pattern",
            operands=[indices.note("vector_offset")],
            final=True,
            hint="give every row of the pattern an index of its own",
        )
    limit = _limit(view, plain.offset, sizes[1:], strides[1:], stride, plain.row)
    dynamic = Dynamic("vector", indices, stride, limit, dim, 0)
    made = View(view.buffer, plain.dtype, plain.offset, sizes, strides, plain.terms, dynamic)
    made.broken, made.outside = plain.broken, made.reach_outside() is not None
    return made


def _shifted(view: View, plain: View, stride: int, index: View | Value, dim: int) -> View:
    """One index for the whole pattern."""
    if isinstance(index, View):
        check_scalar_tile(index)
    if view.on_chip and dim == 0:
        violate(
            "R-tensor.select-03",
            "run-time index on the partition dim",
            hint="partitions are fixed at compile time; index a free dim, or move rows with dma_copy",
            operands=[view.note("tensor")],
            final=True,
        )
    first = 1 if view.on_chip else 0
    start = plain.offset % plain.row if view.on_chip else plain.offset
    limit = _limit(view, start, plain.sizes[first:], plain.strides[first:], stride, plain.row)
    dynamic = Dynamic("scalar", index, stride, limit, dim)
    made = View(view.buffer, plain.dtype, plain.offset, plain.sizes, plain.strides, plain.terms, dynamic)
    made.broken, made.outside = plain.broken, made.reach_outside() is not None
    return made


def _limit(view: View, start: int, sizes: Sequence[int], strides: Sequence[int], stride: int, room: int) -> int:
    """How many index values keep the whole access inside `room` elements."""
    if stride == 0:
        return view.sizes[0]
    reach = start + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True) if s > 0)
    return max(0, (room - 1 - reach) // stride + 1)


def check_vector_tile(indices: View, rule: str, columns: int | None = None) -> None:
    """Row indices: integers in SBUF, with so many columns where that is asked for."""
    bad_columns = columns is not None and indices.free != columns
    if indices.memory is not SBUF or bad_columns or not indices.dtype.is_integer:
        violate(
            rule,
            "row indices are an SBUF tile of integers" + (" with one element per partition" if columns else ""),
            operands=[indices.note("vector_offset")],
            final=True,
            hint="load the indices as (rows, 1) of int32 or uint32 to sbuf",
        )


def check_scalar_tile(index: View) -> None:
    """R-tensor.ap-05: an index for the whole access is one integer in SBUF."""
    if index.size != 1 or index.memory is not SBUF or not index.dtype.is_integer:
        violate(
            "R-tensor.ap-05",
            "a scalar offset is a register or one integer in SBUF",
            operands=[index.note("scalar_offset")],
            final=True,
            hint="load it as (1, 1) of int32 or uint32 to sbuf, or to a register",
        )


def _partition_step(view: View, step: int, count: int, target: DType) -> int:
    """R-tensor.ap-02: the step of the first pair on chip is a partition of the storage, whatever part of it a view has.

    Kernels that take .ap of a slice write the slice's width; where the profile lets that pass, partitions are meant.
    """
    row = view.buffer.row_bytes // target.itemsize
    if count == 1 or step == row:
        return step
    violate(
        "R-tensor.ap-02",
        f"the first pair steps {step}, but a partition of this tensor holds {row} elements",
        hint=f"on chip the first pair is [{row}, partitions]: consecutive partitions, always",
        operands=[view.note("tensor")],
        final=step * target.itemsize != view.free * view.dtype.itemsize,
    )
    return row

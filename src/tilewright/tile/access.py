"""How views are made from views: slicing, permuting, reshaping, explicit access patterns, run-time indices.

Each function checks the rules of the `tensor.*` sections and returns a new view on the same buffer. A violation that
leaves no sensible view is final; an out-of-bounds slice is cut at the edge when diagnostics are only collected.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from tilewright.dtypes import DType
from tilewright.errors import TileTypeError, TileValueError
from tilewright.ir.core import Value
from tilewright.rules import reporter, violate
from tilewright.tile.memory import SBUF
from tilewright.tile.view import Dynamic, View, is_row_major, row_major


@dataclass(frozen=True, slots=True)
class Slice:
    """`size` elements from `start`, which may be a register or loop index (nl.ds)."""

    start: int | Value | View
    size: int


Key = object


def _derive(view: View, offset: int, sizes: Sequence[int], strides: Sequence[int], **changes) -> View:
    terms = changes.get("terms", view.terms)
    dynamic = changes.get("dynamic", view.dynamic)
    return View(view.buffer, changes.get("dtype", view.dtype), offset, tuple(sizes), tuple(strides), terms, dynamic)


def _check_dim(view: View, dim: int, name: str) -> int:
    if not -view.ndim <= dim < view.ndim:
        violate(
            "R-tensor.index-01",
            f"{name}: dim {dim} of a {view.ndim}-D tensor",
            operands=[view.note("tensor")],
            final=True,
        )
    return dim % view.ndim


def _require_free_dim(view: View, dim: int, rule: str, name: str) -> None:
    """Dim 0 is the partition dim on chip, and the row index of a gathered view: most view operations leave it alone."""
    if dim != 0:
        return
    gathered = view.dynamic is not None and view.dynamic.kind == "vector"
    if view.on_chip or gathered:
        what = "the partition dim" if view.on_chip else "the indexed dim"
        violate(rule, f"{name} on dim 0, {what}", operands=[view.note("tensor")], final=True)


def slice_dim(view: View, dim: int, start: int, stop: int, step: int = 1) -> View:
    """view[..., start:stop:step, ...] on one dim, with bounds checked instead of clipped."""
    dim = _check_dim(view, dim, "slice")
    size = view.sizes[dim]
    if not (0 <= start < stop <= size and step >= 1):
        empty = start >= stop or step < 1 or start < 0 or start >= size
        violate(
            "R-tensor.index-01",
            f"slice {start}:{stop}{'' if step == 1 else f':{step}'} is outside dim {dim} of size {size}",
            hint=f"keep 0 <= start < stop <= {size}; cut the last tile with min(stop, {size})",
            operands=[view.note("tensor")],
            final=empty,
        )
        stop = min(stop, size)
    if dim == 0:
        _require_no_indexed_dim(view, "slice")
        if view.on_chip and step != 1:
            violate(
                "R-tensor.index-04",
                f"step {step} over partitions; an access takes consecutive partitions",
                hint="copy the partitions you need to consecutive ones, or put this axis on the free dim",
                operands=[view.note("tensor")],
            )
    sizes, strides = list(view.sizes), list(view.strides)
    sizes[dim] = -(-(stop - start) // step)
    strides[dim] = strides[dim] * step
    return _derive(view, view.offset + start * view.strides[dim], sizes, strides)


def _require_no_indexed_dim(view: View, name: str) -> None:
    if view.dynamic is not None and view.dynamic.kind == "vector":
        violate(
            "R-tensor.select-04",
            f"{name} of the dim that a vector of indices addresses",
            operands=[view.note("tensor")],
            final=True,
        )


def _drop(view: View, dims: set[int], offset: int, **changes) -> View:
    """Remove dims of size 1, keeping the rank that the memory needs."""
    keep_at_least = 2 if view.on_chip else 1
    removable = [d for d in sorted(dims) if not (view.on_chip and d == 0)]
    # The innermost removed dim stays as size 1 when the rank would become too small.
    while removable and view.ndim - len(removable) < keep_at_least:
        removable.pop()
    kept = [d for d in range(view.ndim) if d not in removable]
    sizes = [1 if d in dims else view.sizes[d] for d in kept]
    return _derive(view, offset, sizes, [view.strides[d] for d in kept], **changes)


def select(view: View, dim: int, index: int) -> View:
    """One element along `dim`, which is removed (kept at size 1 where the memory needs the rank)."""
    dim = _check_dim(view, dim, "select")
    size = view.sizes[dim]
    position = index + size if index < 0 else index
    if not 0 <= position < size:
        violate(
            "R-tensor.select-01",
            f"index {index} is outside dim {dim} of size {size}",
            operands=[view.note("tensor")],
            final=True,
        )
    if dim == 0:
        _require_no_indexed_dim(view, "select")
    return _drop(view, {dim}, view.offset + position * view.strides[dim])


def _move(view: View, dim: int, start: int | Value | View) -> tuple[int, dict]:
    """Offset and changes for an access that begins at `start` along `dim`."""
    if isinstance(start, int):
        return start * view.strides[dim], {}
    if isinstance(start, Value) and start.type == "index":
        return 0, {"terms": (*view.terms, (start, view.strides[dim]))}
    return 0, {"dynamic": _scalar_index(view, dim, start)}


def _scalar_index(view: View, dim: int, index: Value | View) -> Dynamic:
    if view.dynamic is not None:
        violate(
            "R-tensor.select-02",
            "a view with a run-time index is indexed at run time again",
            operands=[view.note("tensor")],
            final=True,
        )
    if view.on_chip and dim == 0:
        violate(
            "R-tensor.select-03",
            "run-time index on the partition dim",
            hint="partitions are fixed at compile time; index a free dim, or move rows with dma_copy",
            operands=[view.note("tensor")],
            final=True,
        )
    if isinstance(index, View):
        _check_scalar_tile(index)
    return Dynamic("scalar", index, view.strides[dim], view.sizes[dim], dim)


def _check_scalar_tile(index: View) -> None:
    if index.size != 1 or index.memory is not SBUF:
        violate(
            "R-tensor.ap-05",
            "a scalar offset is a register or one element in SBUF",
            operands=[index.note("scalar_offset")],
            final=True,
        )


def index(view: View, key: Key) -> View:
    """view[key] as NKI defines it: ints, slices, nl.ds, Ellipsis; bounds are checked, never clipped."""
    parts = list(key) if isinstance(key, tuple) else [key]
    ellipses = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(ellipses) > 1 or len(parts) - len(ellipses) > view.ndim:
        violate(
            "R-tensor.index-05",
            f"{len(parts)} indices for a {view.ndim}-D tensor",
            operands=[view.note("tensor")],
            final=True,
        )
    if ellipses:
        at = ellipses[0]
        parts[at : at + 1] = [slice(None)] * (view.ndim - len(parts) + 1)
    dropped: set[int] = set()
    for dim, part in enumerate(parts):
        if isinstance(part, slice):
            if part != slice(None):
                view = slice_dim(view, dim, *_slice_bounds(part, view.sizes[dim]))
        elif isinstance(part, Slice):
            view = _index_slice(view, dim, part)
        elif isinstance(part, (Value, View)):
            offset, changes = _move(view, dim, part)
            sizes = [1 if d == dim else size for d, size in enumerate(view.sizes)]
            view = _derive(view, view.offset + offset, sizes, view.strides, **changes)
            dropped.add(dim)
        else:
            view = _index_int(view, dim, part)
            dropped.add(dim)
    return _drop(view, dropped, view.offset) if dropped else view


def _slice_bounds(part: slice, size: int) -> tuple[int, int, int]:
    start = 0 if part.start is None else _as_int(part.start)
    stop = size if part.stop is None else _as_int(part.stop)
    step = 1 if part.step is None else _as_int(part.step)
    return start + size if start < 0 else start, stop + size if stop < 0 else stop, step


def _as_int(value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        violate(
            "R-tensor.index-05",
            f"slice bound {value!r} is not an integer",
            hint="use nl.ds(start, size) for a start that is known only at run time",
            final=True,
            error=TileTypeError,
        )
        raise


def _index_slice(view: View, dim: int, part: Slice) -> View:
    if isinstance(part.start, int):
        return slice_dim(view, dim, part.start, part.start + part.size)
    if not 1 <= part.size <= view.sizes[dim]:
        violate(
            "R-tensor.index-01",
            f"ds of size {part.size} on dim {dim} of size {view.sizes[dim]}",
            operands=[view.note("tensor")],
            final=True,
        )
    offset, changes = _move(view, dim, part.start)
    if "dynamic" in changes:
        changes["dynamic"] = replace(changes["dynamic"], limit=view.sizes[dim] - part.size + 1)
    sizes = [part.size if d == dim else size for d, size in enumerate(view.sizes)]
    return _derive(view, view.offset + offset, sizes, view.strides, **changes)


def _index_int(view: View, dim: int, part: object) -> View:
    if isinstance(part, bool) or not hasattr(part, "__index__"):
        violate(
            "R-tensor.index-05",
            f"a tensor is indexed with {type(part).__name__}",
            hint="indices are ints, slices, nl.ds(start, size) and Ellipsis; for a run-time row index use "
            ".ap(..., vector_offset=) or .select(dim, index)",
            final=True,
            error=TileTypeError,
        )
    position = operator.index(part)  # type: ignore[arg-type]
    size = view.sizes[dim]
    actual = position + size if position < 0 else position
    if not 0 <= actual < size:
        violate(
            "R-tensor.index-01",
            f"index {position} is outside dim {dim} of size {size}",
            operands=[view.note("tensor")],
            final=True,
        )
    if dim == 0:
        _require_no_indexed_dim(view, "index")
    sizes = [1 if d == dim else s for d, s in enumerate(view.sizes)]
    return _derive(view, view.offset + actual * view.strides[dim], sizes, view.strides)


def permute(view: View, dims: Sequence[int]) -> View:
    """Dims in another order."""
    if sorted(dims) != list(range(view.ndim)):
        violate(
            "R-tensor.permute-01",
            f"permute({tuple(dims)}) of a {view.ndim}-D tensor",
            operands=[view.note("tensor")],
            final=True,
        )
    if dims[0] != 0:
        _require_free_dim(view, 0, "R-tensor.permute-02", "permute")
    return _derive(view, view.offset, [view.sizes[d] for d in dims], [view.strides[d] for d in dims])


def broadcast(view: View, dim: int, size: int) -> View:
    """Repeat a dim of size 1."""
    dim = _check_dim(view, dim, "broadcast")
    if view.sizes[dim] != 1:
        violate(
            "R-tensor.broadcast-01",
            f"broadcast of dim {dim}, whose size is {view.sizes[dim]}, not 1",
            operands=[view.note("tensor")],
            final=True,
        )
    if view.on_chip and dim == 0:
        violate(
            "R-tensor.broadcast-02",
            "broadcast of the partition dim",
            hint="copy to several partitions with a matmul by ones, nc_stream_shuffle or a DMA",
            operands=[view.note("tensor")],
            final=True,
        )
    sizes, strides = list(view.sizes), list(view.strides)
    sizes[dim], strides[dim] = size, 0
    return _derive(view, view.offset, sizes, strides)


def expand_dim(view: View, dim: int) -> View:
    """Insert a dim of size 1."""
    if not -view.ndim - 1 <= dim <= view.ndim:
        _check_dim(view, dim, "expand_dim")
    dim = dim + view.ndim + 1 if dim < 0 else dim
    _require_free_dim(view, dim, "R-tensor.expand_squeeze-01", "expand_dim")
    sizes, strides = list(view.sizes), list(view.strides)
    inner = strides[dim] * sizes[dim] if dim < view.ndim else 1
    sizes.insert(dim, 1)
    strides.insert(dim, inner)
    return checked_rank(_derive(view, view.offset, sizes, strides))


def squeeze_dim(view: View, dim: int) -> View:
    """Remove a dim of size 1."""
    dim = _check_dim(view, dim, "squeeze_dim")
    if view.sizes[dim] != 1:
        violate(
            "R-tensor.expand_squeeze-02",
            f"squeeze of dim {dim}, whose size is {view.sizes[dim]}",
            operands=[view.note("tensor")],
            final=True,
        )
    _require_free_dim(view, dim, "R-tensor.expand_squeeze-01", "squeeze_dim")
    sizes, strides = list(view.sizes), list(view.strides)
    del sizes[dim], strides[dim]
    return checked_rank(_derive(view, view.offset, sizes, strides))


def checked_rank(view: View) -> View:
    """A view has 2 to 5 dims on chip, at most 5 in HBM for an access pattern of an instruction."""
    if view.on_chip and view.ndim < 2:
        violate(
            "R-tensor-02",
            f"a {view.ndim}-D view of an on-chip tensor",
            hint="tiles have a partition dim and at least one free dim: keep a dim of size 1",
            operands=[view.note("tensor")],
            final=True,
        )
    return view


def _infer(shape: Sequence[int], total: int, rule: str) -> tuple[int, ...]:
    """Resolve one -1 in a shape of `total` elements."""
    unknown = [i for i, size in enumerate(shape) if size == -1]
    known = prod(size for size in shape if size != -1)
    resolved = list(shape)
    if len(unknown) == 1 and known > 0 and total % known == 0:
        resolved[unknown[0]] = total // known
    if len(unknown) > 1 or prod(resolved) != total or any(size < 1 for size in resolved):
        violate(rule, f"shape {tuple(shape)} does not hold {total} elements", final=True, error=TileValueError)
    return tuple(resolved)


def reshape_dim(view: View, dim: int, shape: Sequence[int]) -> View:
    """Split one dim into several."""
    dim = _check_dim(view, dim, "reshape_dim")
    resolved = _infer(shape, view.sizes[dim], "R-tensor.reshape_dim-01")
    if len(resolved) > 1:
        _require_free_dim(view, dim, "R-tensor.reshape_dim-02", "reshape_dim")
    inner = [step * view.strides[dim] for step in row_major(resolved)]
    sizes = [*view.sizes[:dim], *resolved, *view.sizes[dim + 1 :]]
    return _derive(view, view.offset, sizes, [*view.strides[:dim], *inner, *view.strides[dim + 1 :]])


def flatten_dims(view: View, start: int, end: int) -> View:
    """Merge dims start..end (inclusive), which must lie contiguously in memory."""
    start, end = _check_dim(view, start, "flatten_dims"), _check_dim(view, end, "flatten_dims")
    if start != end:
        _require_free_dim(view, start, "R-tensor.flatten_dims-02", "flatten_dims")
    merged = _merge(view.sizes[start : end + 1], view.strides[start : end + 1])
    if merged is None:
        violate(
            "R-tensor.flatten_dims-01",
            f"dims {start}..{end} do not lie contiguously in memory",
            operands=[view.note("tensor")],
            final=True,
        )
        raise AssertionError
    size, stride = merged
    sizes = [*view.sizes[:start], size, *view.sizes[end + 1 :]]
    return _derive(view, view.offset, sizes, [*view.strides[:start], stride, *view.strides[end + 1 :]])


def _merge(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, int] | None:
    """One (size, stride) that walks these dims in order, or None."""
    kept = [(n, s) for n, s in zip(sizes, strides, strict=True) if n != 1]
    if not kept:
        return 1, strides[-1] if strides else 1
    for (_, outer), (count, inner) in zip(kept, kept[1:], strict=False):
        if outer != count * inner:
            return None
    return prod(n for n, _ in kept), kept[-1][1]


def reshape(view: View, shape: Sequence[int]) -> View:
    """The same elements in row-major order under another shape, without a copy."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    resolved = _infer(shape, view.size, "R-tensor.reshape-01")
    if resolved == view.sizes:
        return view
    if (view.on_chip or (view.dynamic is not None and view.dynamic.kind == "vector")) and resolved[0] != view.sizes[0]:
        violate(
            "R-tensor.reshape-02",
            f"reshape of {view.sizes} to {resolved} moves elements between partitions",
            hint="dim 0 is the partition dim and must stay; transpose or DMA to move data across partitions",
            operands=[view.note("tensor")],
            final=True,
        )
    strides = _reshape_strides(view.sizes, view.strides, resolved)
    if strides is None:
        violate(
            "R-tensor.reshape-03",
            f"reshape of {view.sizes} to {resolved}: the view is not laid out so that no copy is needed",
            hint="copy the tile first, or reshape before slicing or permuting",
            operands=[view.note("tensor")],
            final=True,
        )
        raise AssertionError
    return checked_rank(_derive(view, view.offset, resolved, strides))


def _reshape_strides(sizes: Sequence[int], strides: Sequence[int], shape: Sequence[int]) -> list[int] | None:
    """Strides of `shape` over the same elements, or None when a copy would be needed.

    Both shapes are cut into the smallest groups of dims with equal products; each old group must be one run.
    """
    old = [(n, s) for n, s in zip(sizes, strides, strict=True) if n != 1]
    result: list[int] = []
    position = 0
    pending: list[int] = []
    for size in shape:
        pending.append(size)
        want = prod(pending)
        group: list[tuple[int, int]] = []
        while prod(n for n, _ in group) < want and position + len(group) < len(old):
            group.append(old[position + len(group)])
        if prod(n for n, _ in group) != want:
            continue
        merged = _merge([n for n, _ in group], [s for _, s in group]) if group else (1, 1)
        if merged is None:
            return None
        result += [step * merged[1] for step in row_major(pending)]
        position += len(group)
        pending = []
    return result + [1] * len(pending) if prod(pending) == 1 else None


def rearrange(view: View, source: Sequence, target: Sequence, fixed: dict[str, int] | None = None) -> View:
    """Split, reorder and merge dims by name: ("b", ("h", "w")) -> ("b", "w", "h")."""
    sizes = dict(fixed or {})
    names: list[str] = []
    if len(source) != view.ndim:
        violate(
            "R-tensor.permute-01", f"pattern {source} names {len(source)} dims of a {view.ndim}-D tensor", final=True
        )
    dim = 0
    for part in source:
        group = (part,) if isinstance(part, str) else tuple(part)
        view = reshape_dim(view, dim, [sizes.get(name, -1) for name in group])
        names += group
        dim += len(group)
    flat = [name for part in target for name in ((part,) if isinstance(part, str) else part)]
    if sorted(flat) != sorted(names):
        violate("R-tensor.permute-01", f"patterns {source} and {target} name different dims", final=True)
    view = permute(view, [names.index(name) for name in flat])
    dim = 0
    for part in target:
        if not isinstance(part, str):
            view = flatten_dims(view, dim, dim + len(part) - 1)
        dim += 1
    return view


def reinterpret(view: View, dtype: DType) -> View:
    """The same bytes as another element type; the last dim scales by the ratio of sizes."""
    if view.dynamic is not None:
        rule = "R-tensor.vector_select-04" if view.dynamic.kind == "vector" else "R-tensor.view-03"
        violate(rule, "view(dtype) of a tensor with a run-time index", operands=[view.note("tensor")], final=True)
    old, new = view.dtype.itemsize, dtype.itemsize
    if old == new:
        return _derive(view, view.offset, view.sizes, view.strides, dtype=dtype)
    if view.strides[-1] != 1 and view.sizes[-1] != 1:
        violate(
            "R-tensor.view-01",
            "view(dtype) of a tensor whose last dim is not contiguous",
            operands=[view.note("tensor")],
            final=True,
        )
    if (view.sizes[-1] * old) % new:
        violate(
            "R-tensor.view-02",
            f"{view.sizes[-1]} elements of {view.dtype} do not make whole elements of {dtype}",
            operands=[view.note("tensor")],
            final=True,
        )
    scaled = [view.offset * old, *(stride * old for stride in view.strides[:-1])]
    if any(amount % new for amount in scaled) or any(factor * old % new for _, factor in view.terms):
        violate(
            "R-tensor.view-02",
            f"rows of this view do not start at a multiple of {new} bytes",
            operands=[view.note("tensor")],
            final=True,
        )
    sizes = [*view.sizes[:-1], view.sizes[-1] * old // new]
    terms = tuple((value, factor * old // new) for value, factor in view.terms)
    return _derive(view, scaled[0] // new, sizes, [s // new for s in scaled[1:]] + [1], dtype=dtype, terms=terms)


def vector_select(view: View, dim: int, indices: View) -> View:
    """Rows of an HBM tensor by an index per partition: result[p] = view[indices[p]]."""
    if dim != 0:
        violate("R-tensor.vector_select-01", f"vector_select on dim {dim}", operands=[view.note("tensor")], final=True)
    if view.on_chip:
        violate(
            "R-tensor.vector_select-02",
            "vector_select of an on-chip tensor",
            hint="gather within partitions with nc_n_gather or local_gather",
            operands=[view.note("tensor")],
            final=True,
        )
    _check_vector_tile(indices, "R-tensor.vector_select-03", columns=1)
    if view.dynamic is not None:
        violate(
            "R-tensor.select-02",
            "a view with a run-time index is indexed at run time again",
            operands=[view.note("tensor")],
            final=True,
        )
    dynamic = Dynamic("vector", indices, view.strides[0], view.sizes[0])
    return _derive(view, view.offset, [indices.partitions, *view.sizes[1:]], view.strides, dynamic=dynamic)


def _check_vector_tile(indices: View, rule: str, columns: int | None = None) -> None:
    bad_columns = columns is not None and indices.free != columns
    if indices.memory is not SBUF or bad_columns or not indices.dtype.is_integer:
        violate(
            rule,
            "row indices are an SBUF tile of integers" + (" with one element per partition" if columns else ""),
            operands=[indices.note("vector_offset")],
            final=True,
        )


def dynamic_select(view: View, dim: int, chosen: View | Value) -> View:
    """One element along `dim` by a run-time index; the dim is removed."""
    dim = _check_dim(view, dim, "select")
    dynamic = _scalar_index(view, dim, chosen)
    sizes = [1 if d == dim else size for d, size in enumerate(view.sizes)]
    moved = _derive(view, view.offset, sizes, view.strides, dynamic=dynamic)
    return _drop(moved, {dim}, moved.offset)


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

    Address of element i: base + offset + sum(i_d * step_d) [+ index * stride of `indirect_dim`].
    """
    pairs = [tuple(pair) for pair in pattern]
    if not pairs or any(len(pair) != 2 or pair[1] < 1 for pair in pairs):
        violate("R-tensor.ap-01", f"pattern {pattern} is not a list of [step, count] pairs", final=True)
    target = dtype or view.dtype
    ratio_old, ratio_new = view.dtype.itemsize, target.itemsize
    base = view.offset * ratio_old // ratio_new
    if base and offset is not None:
        reporter().warn(
            "W101",
            f".ap on a view that starts {base} elements into its storage: the offset is added to the view's own",
            rule="R-tensor.ap-09",
            hint="call .ap on the tensor itself with the full offset; the documentation contradicts itself on views",
        )
    start = base + (offset or 0)
    sizes = tuple(int(count) for _, count in pairs)
    strides = tuple(int(step) for step, _ in pairs)
    if scalar_offset is not None and vector_offset is not None:
        violate("R-tensor.ap-04", "scalar_offset and vector_offset exclude each other", final=True)
    dynamic = view.dynamic
    if scalar_offset is not None or vector_offset is not None:
        if dynamic is not None:
            violate("R-tensor.select-02", "a view with a run-time index is indexed at run time again", final=True)
        dynamic = _pattern_index(
            view, sizes, strides, start, scalar_offset, vector_offset, indirect_dim, ratio_old, ratio_new
        )
        if vector_offset is not None:
            # The rows' stride comes from the tensor; the step of the first pair has no meaning (R-tensor.ap-07).
            strides = (dynamic.stride, *strides[1:])
    made = View(view.buffer, target, start, sizes, strides, view.terms, dynamic)
    _check_pattern_bounds(made)
    return checked_rank(made)


def _pattern_index(
    view: View,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    start: int,
    scalar_offset: View | Value | None,
    vector_offset: View | None,
    indirect_dim: int,
    old: int,
    new: int,
) -> Dynamic:
    dim = _check_dim(view, indirect_dim, ".ap indirect_dim")
    stride = prod(view.sizes[dim + 1 :]) * old // new if not view.on_chip or dim else view.row * old // new
    if not is_row_major(view.sizes, view.strides):
        stride = view.strides[dim] * old // new
    held = prod(view.buffer.shape) * view.buffer.dtype.itemsize // new
    if vector_offset is not None:
        if view.on_chip or dim != 0:
            violate(
                "R-tensor.ap-06",
                "vector_offset needs a tensor in HBM and indirect_dim=0",
                operands=[view.note("tensor")],
                final=True,
            )
        _check_vector_tile(vector_offset, "R-tensor.ap-06")
        # A tile of several columns holds more indices than partitions (dma_transpose); dma_copy asks for (rows, 1).
        if vector_offset.size < sizes[0]:
            violate(
                "R-tensor.ap-06",
                f"{vector_offset.size} indices for {sizes[0]} rows of the pattern",
                operands=[vector_offset.note("vector_offset")],
                final=True,
            )
        reach = start + sum((n - 1) * s for n, s in zip(sizes[1:], strides[1:], strict=True))
        return Dynamic("vector", vector_offset, stride, max(0, (held - 1 - reach) // stride + 1), dim)
    assert scalar_offset is not None
    if isinstance(scalar_offset, View):
        _check_scalar_tile(scalar_offset)
    if view.on_chip and dim == 0:
        violate("R-tensor.select-03", "run-time index on the partition dim", final=True)
    span = zip(sizes[1:], strides[1:], strict=True) if view.on_chip else zip(sizes, strides, strict=True)
    first = start % view.row if view.on_chip else start
    room = view.buffer.row_bytes // new if view.on_chip else held
    reach = first + sum((n - 1) * s for n, s in span if s > 0)
    return Dynamic("scalar", scalar_offset, stride, max(0, (room - 1 - reach) // stride + 1), dim)


def _check_pattern_bounds(view: View) -> None:
    """R-tensor.ap-02 and -03: the partition step, and every static address inside the storage."""
    row = view.row
    steps = list(zip(view.sizes, view.strides, strict=True))
    if view.on_chip:
        count, step = steps[0]
        if count > 1 and step != row:
            violate(
                "R-tensor.ap-02",
                f"the first pair steps {step}, but a partition of this tensor holds {row} elements",
                hint=f"on chip the first pair is [{row}, partitions]: consecutive partitions, always",
                operands=[view.note("tensor")],
                final=True,
            )
        first_partition, first = divmod(view.offset, row)
        low = first + sum((n - 1) * s for n, s in steps[1:] if s < 0)
        high = first + sum((n - 1) * s for n, s in steps[1:] if s > 0)
        if first_partition + count > view.buffer.partitions or low < 0 or high >= row or view.offset < 0:
            where = f"partitions {first_partition}..{first_partition + count - 1}, elements {low}..{high}"
            violate(
                "R-tensor.ap-03",
                f"the pattern reaches {where} of a tensor with {view.buffer.partitions} partitions of {row} elements",
                operands=[view.note("tensor")],
                final=True,
            )
        return
    if view.dynamic is not None and view.dynamic.kind == "vector":
        steps = steps[1:]
    low = view.offset + sum((n - 1) * s for n, s in steps if s < 0)
    high = view.offset + sum((n - 1) * s for n, s in steps if s > 0)
    if low < 0 or high >= row:
        violate(
            "R-tensor.ap-03",
            f"the pattern reaches elements {low}..{high} of a tensor with {row}",
            operands=[view.note("tensor")],
            final=True,
        )


__all__ = [
    "Slice",
    "access_pattern",
    "broadcast",
    "dynamic_select",
    "expand_dim",
    "flatten_dims",
    "index",
    "permute",
    "rearrange",
    "reinterpret",
    "reshape",
    "reshape_dim",
    "select",
    "slice_dim",
    "squeeze_dim",
    "vector_select",
]

"""How views are made from views by index: slices, integers, run-time indices. Other ways: `layout` and `pattern`.

Each function checks the rules of the `tensor.*` sections and returns a new view on the same buffer. A violation that
leaves no sensible view is final. A slice that ends outside its dim keeps the size that was asked for and is marked
broken, so that diagnostics which only follow from it are left out while collecting.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any

from tilewright.errors import ERROR, TileTypeError
from tilewright.ir.core import Value
from tilewright.rules import reporter, violate
from tilewright.tile.derive import NOWHERE, check_dim, derive, dynamic_at, require_unindexed, whole_number
from tilewright.tile.layout import (
    broadcast,
    expand_dim,
    flatten_dims,
    moves_partitions,
    permute,
    rearrange,
    reinterpret,
    reshape,
    reshape_dim,
    squeeze_dim,
)
from tilewright.tile.pattern import access_pattern, check_scalar_tile, check_vector_tile
from tilewright.tile.view import Dynamic, View


@dataclass(frozen=True, slots=True)
class Slice:
    """`size` elements from `start`, which may be a register or loop index (nl.ds)."""

    start: int | Value | View
    size: int


def index(view: View, key: object) -> View:
    """view[key] as NKI defines it: ints, slices, nl.ds, Ellipsis; bounds are checked, never clipped."""
    parts: tuple[Any, ...] = key if isinstance(key, tuple) else (key,)
    if len(parts) > len(view.sizes):
        parts = _without_ellipsis(view, parts)
    offset, sizes, strides = view.offset, list(view.sizes), list(view.strides)
    dropped: set[int] | None = None
    broken = view.broken
    dim = 0
    for part in parts:
        size = sizes[dim]
        start: Any
        stop: Any
        step = 1
        if part.__class__ is slice:
            start, stop = part.start, part.stop
            plain = part.step is None and start.__class__ is int and stop.__class__ is int
            if not plain or start < 0 or stop < 0:
                if start is None and stop is None and part.step is None:
                    dim += 1
                    continue
                start, stop, step = _slice_bounds(part, size)
        elif part.__class__ is int:
            start = part + size if part < 0 else part
            stop = start + 1
            if not 0 <= start < size:
                _outside(view, dim, f"index {part}")
            dropped = {dim} if dropped is None else dropped | {dim}
        elif isinstance(part, Slice) and isinstance(part.start, int):
            start = part.start
            stop = start + whole_number(part.size, "nl.ds: size")
        elif part is Ellipsis:
            return index(view, _without_ellipsis(view, parts))
        else:
            # What is left is rare: integers of other kinds, and starts that only a run knows.
            return _index_slowly(view, parts)
        if view.dynamic is not None:
            require_unindexed(view, dim, "a slice" if stop - start != 1 else "an index")
        if not 0 <= start < stop <= size or step != 1:
            broken = _check_slice(view, dim, start, stop, step) or broken
            strides[dim] *= step
            sizes[dim] = -((start - stop) // step)
            offset += start * view.strides[dim]
        else:
            sizes[dim] = stop - start
            offset += start * strides[dim]
        dim += 1
    made = View(view.buffer, view.dtype, offset, tuple(sizes), tuple(strides), view.terms, view.dynamic)
    made.broken = broken
    made.outside = view.outside and made.reach_outside() is not None
    return made if dropped is None else _drop(made, dropped)


def _without_ellipsis(view: View, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    positions = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(positions) != 1 or len(parts) - 1 > view.ndim:
        _too_many(view, len(parts))
    at = positions[0]
    return (*parts[:at], *[slice(None)] * (view.ndim - len(parts) + 1), *parts[at + 1 :])


def _too_many(view: View, count: int) -> None:
    violate(
        "R-tensor.index-05",
        f"{count} indices for a {view.ndim}-D tensor",
        hint="one index per dim; at most one Ellipsis",
        operands=[view.note("tensor")],
        final=True,
    )


def _slice_bounds(part: slice, size: int) -> tuple[int, int, int]:
    start = 0 if part.start is None else whole_number(part.start, "slice bound")
    stop = size if part.stop is None else whole_number(part.stop, "slice bound")
    step = 1 if part.step is None else whole_number(part.step, "slice step")
    return start + size if start < 0 else start, stop + size if stop < 0 else stop, step


def _outside(view: View, dim: int, what: str) -> None:
    violate(
        "R-tensor.index-01",
        f"{what} is outside dim {dim} of size {view.sizes[dim]}",
        hint=_in_range(view, dim),
        operands=[view.note("tensor")],
        final=True,
    )


def _in_range(view: View, dim: int) -> str:
    return f"stay within 0 to {view.sizes[dim] - 1}; check the loop's end and which dim is meant"


def _check_slice(view: View, dim: int, start: int, stop: int, step: int) -> bool:
    """R-tensor.index-01 and -04; True when the slice ends outside its dim and diagnostics are being collected."""
    size = view.sizes[dim]
    if 0 <= start == stop <= size and step >= 1 and reporter().severity("R-tensor.index-08") != ERROR:
        violate(
            "R-tensor.index-08",
            f"slice {start}:{stop} of dim {dim} is empty",
            hint="leave out what works on nothing, with an if",
            operands=[view.note("tensor")],
        )
        return True
    outside = not (0 <= start < stop <= size and step >= 1)
    if outside and step < 1:
        violate(
            "R-tensor.index-01",
            f"a slice of dim {dim} has the step {step}; it must be positive",
            hint="for elements in reverse order, copy them one by one, or gather them with nisa.nc_n_gather",
            operands=[view.note("tensor")],
            final=True,
        )
    elif outside:
        violate(
            "R-tensor.index-01",
            f"slice {start}:{stop}{'' if step == 1 else f':{step}'} is outside dim {dim} of size {size}",
            hint=f"keep 0 <= start < stop <= {size}; cut the last tile with min(stop, {size})",
            operands=[view.note("tensor")],
            final=start >= stop or start < 0 or start >= size,
        )
    elif view.on_chip and dim == 0 and step != 1 and stop - start > step:
        violate(
            "R-tensor.index-04",
            f"step {step} over partitions; an access takes consecutive partitions",
            hint="copy the partitions you need to consecutive ones, or put this axis on the free dim",
            operands=[view.note("tensor")],
        )
        return True
    return outside


def _drop(view: View, dims: set[int]) -> View:
    """Remove dims of size 1, keeping the rank that the memory needs (R-tensor.index-02 and -03)."""
    removable = [d for d in sorted(dims) if d or not view.on_chip]
    # The innermost removed dim stays as size 1 when the rank would become too small.
    while removable and view.ndim - len(removable) < (2 if view.on_chip else 1):
        removable.pop()
    kept = [d for d in range(view.ndim) if d not in removable]
    at = dynamic_at(view)
    at = kept.index(at) if at in kept else NOWHERE
    return derive(view, view.offset, [view.sizes[d] for d in kept], [view.strides[d] for d in kept], at=at)


def _index_slowly(view: View, parts: tuple[Any, ...]) -> View:
    """`index` one dim at a time: integers of any kind, loop indices, registers, index tiles."""
    if any(part is Ellipsis for part in parts):
        parts = _without_ellipsis(view, parts)
    dropped: set[int] = set()
    for dim, part in enumerate(parts):
        before = (slice(None),) * dim
        if isinstance(part, slice):
            view = index(view, (*before, part))
        elif isinstance(part, Slice):
            view = _index_slice(view, dim, part)
        elif isinstance(part, (Value, View)):
            view = _start_at(view, dim, part, 1)
            dropped.add(dim)
        else:
            position = _position(part)
            position += view.sizes[dim] if position < 0 else 0
            if not 0 <= position < view.sizes[dim]:
                _outside(view, dim, f"index {part}")
            view = index(view, (*before, slice(position, position + 1)))
            dropped.add(dim)
    return _drop(view, dropped) if dropped else view


def _position(part: object) -> int:
    try:
        if not isinstance(part, bool):
            return operator.index(part)  # type: ignore[arg-type]
    except TypeError:
        pass
    violate(
        "R-tensor.index-05",
        f"a tensor is indexed with {type(part).__name__}",
        hint="indices are ints, slices, nl.ds(start, size) and Ellipsis; for a run-time row index use "
        ".ap(..., vector_offset=) or .select(dim, index)",
        final=True,
        error=TileTypeError,
    )
    raise AssertionError


def _index_slice(view: View, dim: int, part: Slice) -> View:
    size = whole_number(part.size, "nl.ds: size")
    if not isinstance(part.start, (Value, View)):
        start = whole_number(part.start, "nl.ds: start")
        return index(view, (*(slice(None),) * dim, Slice(start, size)))
    if not 1 <= size <= view.sizes[dim]:
        _outside(view, dim, f"nl.ds of size {size}")
    return _start_at(view, dim, part.start, size)


def _start_at(view: View, dim: int, start: Value | View, size: int) -> View:
    """`size` elements along `dim` from a start that a loop index, a register or a tile holds."""
    require_unindexed(view, dim, "a slice")
    sizes = [size if d == dim else each for d, each in enumerate(view.sizes)]
    if isinstance(start, Value) and start.type == "index":
        terms = (*view.terms, (start, view.strides[dim]))
        return derive(view, view.offset, sizes, view.strides, terms=terms)
    dynamic = replace(_scalar_index(view, dim, start), limit=view.sizes[dim] - size + 1)
    return derive(view, view.offset, sizes, view.strides, dynamic=dynamic)


def _scalar_index(view: View, dim: int, index: Value | View) -> Dynamic:
    if view.dynamic is not None:
        violate(
            "R-tensor.select-02",
            "a view with a run-time index is indexed at run time again",
            operands=[view.note("tensor")],
            final=True,
            hint="copy what the first index chooses to a tile, and index that",
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
        check_scalar_tile(index)
    return Dynamic("scalar", index, view.strides[dim], view.sizes[dim], dim, dim)


def slice_dim(view: View, dim: int, start: int, stop: int, step: int = 1) -> View:
    """view[..., start:stop:step, ...] on one dim; no negative bounds."""
    dim = check_dim(view, dim, "slice")
    bounds = [whole_number(bound, "slice bound") for bound in (start, stop, step)]
    if min(bounds) < 0:
        # Python would count these from the end; NKI's slice does not.
        _outside(view, dim, f"slice {start}:{stop}")
    return index(view, (*(slice(None),) * dim, slice(*bounds)))


def select(view: View, dim: int, index: int) -> View:
    """One element along `dim`, which is removed (kept at size 1 where the memory needs the rank)."""
    dim = check_dim(view, dim, "select")
    position = whole_number(index, "select: index")
    if not 0 <= position < view.sizes[dim]:
        violate(
            "R-tensor.select-01",
            f"index {position} is outside dim {dim} of size {view.sizes[dim]}",
            hint=_in_range(view, dim),
            operands=[view.note("tensor")],
            final=True,
        )
    require_unindexed(view, dim, "select")
    sizes = [1 if d == dim else size for d, size in enumerate(view.sizes)]
    return _drop(derive(view, view.offset + position * view.strides[dim], sizes, view.strides), {dim})


def dynamic_select(view: View, dim: int, chosen: View | Value) -> View:
    """One element along `dim` by a run-time index; the dim is removed."""
    dim = check_dim(view, dim, "select")
    return _drop(_start_at(view, dim, chosen, 1), {dim})


def vector_select(view: View, dim: int, indices: View) -> View:
    """Rows of an HBM tensor by an index per partition: result[p] = view[indices[p]]."""
    if dim != 0:
        violate(
            "R-tensor.vector_select-01",
            f"vector_select on dim {dim}",
            operands=[view.note("tensor")],
            final=True,
            hint="rows are chosen along dim 0: permute the tensor, or choose one with select",
        )
    if view.on_chip:
        violate(
            "R-tensor.vector_select-02",
            "vector_select of an on-chip tensor",
            hint="gather within partitions with nc_n_gather or local_gather",
            operands=[view.note("tensor")],
            final=True,
        )
    check_vector_tile(indices, "R-tensor.vector_select-03", columns=1)
    if view.dynamic is not None:
        violate(
            "R-tensor.select-02",
            "a view with a run-time index is indexed at run time again",
            operands=[view.note("tensor")],
            final=True,
            hint="copy what the first index chooses to a tile, and index that",
        )
    dynamic = Dynamic("vector", indices, view.strides[0], view.sizes[0], 0, 0)
    return derive(view, view.offset, [indices.partitions, *view.sizes[1:]], view.strides, dynamic=dynamic)


__all__ = [
    "Slice",
    "access_pattern",
    "broadcast",
    "dynamic_select",
    "expand_dim",
    "flatten_dims",
    "index",
    "moves_partitions",
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

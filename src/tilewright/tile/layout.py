"""Views with other dims over the same elements: permute, broadcast, reshape and what belongs to them, view(dtype)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from tilewright.dtypes import DType
from tilewright.errors import TileValueError
from tilewright.rules import violate
from tilewright.tile.derive import (
    NOWHERE,
    check_dim,
    check_rank,
    derive,
    dynamic_at,
    require_free_dim,
    require_unindexed,
    whole_number,
    whole_numbers,
)
from tilewright.tile.view import View, row_major


def permute(view: View, dims: Sequence[int]) -> View:
    """Dims in another order."""
    order = whole_numbers(dims, "permute: dim", "R-tensor.permute-01")
    if sorted(order) != list(range(view.ndim)):
        violate(
            "R-tensor.permute-01",
            f"permute({order}) of a {view.ndim}-D tensor",
            hint=f"name each of the dims 0..{view.ndim - 1} once",
            operands=[view.note("tensor")],
            final=True,
        )
    if order[0] != 0:
        require_free_dim(view, 0, "R-tensor.permute-02", "permute")
    at = dynamic_at(view)
    at = at if at == NOWHERE else order.index(at)
    return derive(view, view.offset, [view.sizes[d] for d in order], [view.strides[d] for d in order], at=at)


def broadcast(view: View, dim: int, size: int) -> View:
    """Repeat a dim of size 1."""
    dim = check_dim(view, dim, "broadcast")
    size = whole_number(size, "broadcast: size", "R-tensor-04")
    if view.sizes[dim] != 1:
        violate(
            "R-tensor.broadcast-01",
            f"broadcast of dim {dim}, whose size is {view.sizes[dim]}, not 1",
            operands=[view.note("tensor")],
            final=True,
            hint="slice it to one element along that dim first",
        )
    if size < 1:
        violate(
            "R-tensor-04",
            f"broadcast to size {size}; sizes are positive integers",
            final=True,
            hint="look at how the size is computed",
        )
    if view.on_chip and dim == 0:
        violate(
            "R-tensor.broadcast-02",
            "broadcast of the partition dim",
            hint="copy to several partitions with a matmul by ones, nc_stream_shuffle or a DMA",
            operands=[view.note("tensor")],
            final=True,
        )
    if view.dynamic is not None and view.dynamic.kind == "vector":
        require_unindexed(view, dim, "broadcast")
    sizes, strides = list(view.sizes), list(view.strides)
    sizes[dim], strides[dim] = size, 0
    return derive(view, view.offset, sizes, strides)


def expand_dim(view: View, dim: int) -> View:
    """Insert a dim of size 1."""
    dim = whole_number(dim, "expand_dim: dim")
    if not -view.ndim - 1 <= dim <= view.ndim:
        check_dim(view, dim, "expand_dim")
    dim = dim + view.ndim + 1 if dim < 0 else dim
    require_free_dim(view, dim, "R-tensor.expand_squeeze-01", "expand_dim")
    sizes, strides = list(view.sizes), list(view.strides)
    outer = strides[dim] * sizes[dim] if dim < view.ndim else 1
    sizes.insert(dim, 1)
    strides.insert(dim, outer)
    at = dynamic_at(view)
    return derive(view, view.offset, sizes, strides, at=at + 1 if at >= dim else at)


def squeeze_dim(view: View, dim: int) -> View:
    """Remove a dim of size 1."""
    dim = check_dim(view, dim, "squeeze_dim")
    if view.sizes[dim] != 1:
        violate(
            "R-tensor.expand_squeeze-02",
            f"squeeze of dim {dim}, whose size is {view.sizes[dim]}",
            operands=[view.note("tensor")],
            final=True,
            hint="slice it to one element, or reshape the tensor",
        )
    require_free_dim(view, dim, "R-tensor.expand_squeeze-01", "squeeze_dim")
    check_rank(view, view.ndim - 1)
    sizes, strides = list(view.sizes), list(view.strides)
    del sizes[dim], strides[dim]
    at = dynamic_at(view)
    at = NOWHERE if at == dim else at - 1 if at > dim else at
    return derive(view, view.offset, sizes, strides, at=at)


def _infer(shape: Sequence[int], total: int, rule: str) -> tuple[int, ...]:
    """Resolve one -1 in a shape of `total` elements."""
    unknown = [i for i, size in enumerate(shape) if size == -1]
    known = prod(size for size in shape if size != -1)
    resolved = list(shape)
    if len(unknown) == 1 and known > 0 and total % known == 0:
        resolved[unknown[0]] = total // known
    if len(unknown) > 1 or prod(resolved) != total or any(size < 1 for size in resolved):
        violate(
            rule,
            f"shape {tuple(shape)} does not hold {total} elements",
            final=True,
            error=TileValueError,
            hint="the sizes multiply to the number of elements that there are",
        )
    return tuple(resolved)


def reshape_dim(view: View, dim: int, shape: Sequence[int]) -> View:
    """Split one dim into several."""
    dim = check_dim(view, dim, "reshape_dim")
    wanted = whole_numbers(shape, "reshape_dim: size", "R-tensor.reshape_dim-01")
    resolved = _infer(wanted, view.sizes[dim], "R-tensor.reshape_dim-01")
    if len(resolved) != 1:
        require_free_dim(view, dim, "R-tensor.reshape_dim-02", "reshape_dim")
    check_rank(view, view.ndim - 1 + len(resolved))
    inner = [step * view.strides[dim] for step in row_major(resolved)]
    sizes = [*view.sizes[:dim], *resolved, *view.sizes[dim + 1 :]]
    strides = [*view.strides[:dim], *inner, *view.strides[dim + 1 :]]
    at = dynamic_at(view)
    return derive(view, view.offset, sizes, strides, at=at + len(resolved) - 1 if at > dim else at)


def flatten_dims(view: View, start: int, end: int) -> View:
    """Merge dims start..end (inclusive), which must lie contiguously in memory."""
    start, end = check_dim(view, start, "flatten_dims"), check_dim(view, end, "flatten_dims")
    require_free_dim(view, start, "R-tensor.flatten_dims-02", "flatten_dims")
    merged = merged_dims(view.sizes[start : end + 1], view.strides[start : end + 1]) if start <= end else None
    if merged is None:
        why = "do not lie contiguously in memory" if start <= end else "are no range: the first comes after the last"
        violate(
            "R-tensor.flatten_dims-01",
            f"dims {start}..{end} {why}",
            hint="flatten before permuting or slicing, or copy the tile first",
            operands=[view.note("tensor")],
            final=True,
        )
        raise AssertionError
    size, stride = merged
    sizes = [*view.sizes[:start], size, *view.sizes[end + 1 :]]
    strides = [*view.strides[:start], stride, *view.strides[end + 1 :]]
    at = dynamic_at(view)
    return derive(view, view.offset, sizes, strides, at=at - (end - start) if at > end else min(at, start))


def merged_dims(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, int] | None:
    """One (size, stride) that walks these dims in order, or None."""
    kept = [(n, s) for n, s in zip(sizes, strides, strict=True) if n != 1]
    if not kept:
        return 1, strides[-1] if strides else 1
    for (_, outer), (count, inner) in pairwise(kept):
        if outer != count * inner:
            return None
    return prod(n for n, _ in kept), kept[-1][1]


def moves_partitions(view: View, shape: Sequence[int]) -> bool:
    """True when a reshape would move elements across partitions or gathered rows (R-tensor.reshape-04)"""
    fixed = view.on_chip or (view.dynamic is not None and view.dynamic.kind == "vector")
    return fixed and prod(shape) == view.size and shape[0] != view.sizes[0]


def reshape(view: View, shape: Sequence[int]) -> View:
    """The same elements in row-major order under another shape, without a copy."""
    wanted = whole_numbers(shape, "reshape: size", "R-tensor.reshape-01")
    resolved = _infer(wanted, view.size, "R-tensor.reshape-01")
    if resolved == view.sizes:
        return view
    check_rank(view, len(resolved))
    if moves_partitions(view, resolved):
        violate(
            "R-tensor.reshape-02",
            f"reshape of {view.sizes} to {resolved} moves elements between partitions",
            hint="dim 0 is the partition dim and must stay; transpose or DMA to move data across partitions",
            operands=[view.note("tensor")],
            final=True,
        )
    first = 1 if view.on_chip or dynamic_at(view) == 0 else 0
    inner = _reshape_strides(view.sizes[first:], view.strides[first:], resolved[first:])
    if inner is None:
        violate(
            "R-tensor.reshape-03",
            f"reshape of {view.sizes} to {resolved}: the view is not laid out so that no copy is needed",
            hint="copy the tile first, or reshape before slicing or permuting",
            operands=[view.note("tensor")],
            final=True,
        )
        raise AssertionError
    at = _position_after(view.sizes, resolved, dynamic_at(view))
    return derive(view, view.offset, resolved, [*view.strides[:first], *inner], at=at)


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
        merged = merged_dims([n for n, _ in group], [s for _, s in group])
        if merged is None:
            return None
        result += [step * merged[1] for step in row_major(pending)]
        position += len(group)
        pending = []
    assert not pending, "shapes of equal size fall into groups of equal products"
    return result


def _position_after(before: Sequence[int], after: Sequence[int], at: int) -> int:
    """The dim of `after` in which dim `at` of `before` begins."""
    if at == NOWHERE or before[at] == 1:
        return NOWHERE
    outer = prod(before[:at])
    for position in range(len(after)):
        if prod(after[: position + 1]) > outer:
            return position
    return NOWHERE


Pattern = Sequence[str | Sequence[str]]


def rearrange(view: View, source: Pattern, target: Pattern, fixed: dict[str, int] | None = None) -> View:
    """Split, reorder and merge dims by name: ("b", ("h", "w")) -> ("b", "w", "h")."""
    groups, merged = _groups(source), _groups(target)
    names = [name for group in groups for name in group]
    wanted = [name for group in merged for name in group]
    problem = _pattern_problem(view, groups, merged, fixed or {})
    if problem is not None:
        violate(
            "R-tensor.permute-01",
            f"rearrange: {problem}",
            operands=[view.note("tensor")],
            final=True,
            hint='name every dim once in both patterns: ("p", ("a", "b")) and ("p", "a", "b")',
        )
    dim = 0
    for group in groups:
        view = reshape_dim(view, dim, [(fixed or {}).get(name, -1) for name in group])
        dim += len(group)
    view = permute(view, [names.index(name) for name in wanted])
    for dim, group in enumerate(merged):
        if len(group) > 1:
            view = flatten_dims(view, dim, dim + len(group) - 1)
    return view


def _groups(pattern: Pattern) -> list[tuple[str, ...]]:
    """The names of a pattern, dim by dim."""
    if not isinstance(pattern, (tuple, list)) or not all(isinstance(part, (str, tuple, list)) for part in pattern):
        violate(
            "R-tensor.permute-01",
            f"rearrange: {pattern!r} is not a pattern",
            final=True,
            hint='name every dim, in parentheses what is one dim: ("p", ("a", "b"))',
        )
    return [(part,) if isinstance(part, str) else tuple(part) for part in pattern]


def _pattern_problem(view: View, groups: list, merged: list, fixed: dict[str, int]) -> str | None:
    names = [name for group in groups for name in group]
    if len(groups) != view.ndim:
        return f"the pattern names {len(groups)} dims of a {view.ndim}-D tensor"
    if not all(groups) or not all(merged):
        return "a group of dims is empty"
    if len(set(names)) != len(names):
        return f"a dim is named twice in {names}"
    if sorted(names) != sorted(name for group in merged for name in group):
        return "the two patterns name different dims"
    unknown = [name for name in fixed if name not in names]
    return f"fixed_sizes names {unknown[0]}, which no pattern has" if unknown else None


def reinterpret(view: View, dtype: DType) -> View:
    """The same bytes as another element type; the last dim scales by the ratio of sizes."""
    if view.dynamic is not None:
        rule = "R-tensor.vector_select-04" if view.dynamic.kind == "vector" else "R-tensor.view-03"
        violate(
            rule,
            "view(dtype) of a tensor with a run-time index",
            operands=[view.note("tensor")],
            final=True,
            hint="copy what it chooses to a tile first",
        )
    if view.strides[-1] != 1 and view.sizes[-1] != 1:
        violate(
            "R-tensor.view-01",
            "view(dtype) of a tensor whose last dim is not contiguous",
            operands=[view.note("tensor")],
            final=True,
            hint="copy it to a tile of its own first",
        )
    old, new = view.dtype.itemsize, dtype.itemsize
    if old == new:
        return derive(view, view.offset, view.sizes, view.strides, dtype=dtype)
    if (view.sizes[-1] * old) % new:
        violate(
            "R-tensor.view-02",
            f"{view.sizes[-1]} elements of {view.dtype} do not make whole elements of {dtype}",
            operands=[view.note("tensor")],
            final=True,
            hint="slice the last dim to a multiple first",
        )
    amounts = [view.offset, *[s for n, s in zip(view.sizes[:-1], view.strides[:-1], strict=True) if n > 1]]
    amounts += [factor for _, factor in view.terms]
    if any(amount * old % new for amount in amounts) or (view.on_chip and view.buffer.row_bytes % new):
        violate(
            "R-tensor.view-02",
            f"rows of this view do not start at a multiple of {new} bytes",
            operands=[view.note("tensor")],
            final=True,
            hint="begin the slice at a multiple first",
        )
    sizes = [*view.sizes[:-1], view.sizes[-1] * old // new]
    strides = [*[stride * old // new for stride in view.strides[:-1]], 1]
    terms = tuple((value, factor * old // new) for value, factor in view.terms)
    return derive(view, view.offset * old // new, sizes, strides, dtype=dtype, terms=terms)

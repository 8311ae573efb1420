"""tensor[...]: numbers and slices, or index tensors (advanced), or a tile of run-time indices (indirect).

Basic and advanced indices are not mixed; one number of a tile (tile[0, 0]) is basic. Block dims come first and take
numbers or slices. On chip a tile keeps its partition dim, and two dims at least.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import TileIndexError, TileTypeError, fail
from tilewright.nki.legacy.faults import fault, shown
from tilewright.nki.legacy.index import Grid, Index
from tilewright.nki.legacy.loop_index import Condition, LoopIndex, span
from tilewright.nki.legacy.mask import Mask
from tilewright.nki.legacy.tensor import ON_CHIP_INDEX, LegacyTensor, Reach
from tilewright.tile import access
from tilewright.tile.access import Slice
from tilewright.tile.derive import whole_number
from tilewright.tile.view import Dynamic, View


class Indirect:
    """A run-time index: a tile of indices plus an index tensor."""

    __slots__ = ("offset", "tile")

    def __init__(self, tile: LegacyTensor, offset: Index | int = 0) -> None:
        self.tile = tile
        self.offset = offset


def index(tensor: LegacyTensor, key: object) -> LegacyTensor:
    """tensor[key]."""
    if isinstance(key, (Mask, Condition)):
        return _masked(tensor, key)
    parts: list[Any] = []
    for part in key if isinstance(key, tuple) and not isinstance(key, Grid) else (key,):
        parts += part if isinstance(part, Grid) else [part]
    if not all(part.__class__ in _SIMPLE for part in parts):
        parts = [_plain(part) for part in parts]
    # Comparing with == would make masks of index tensors.
    if any(part is Ellipsis for part in parts):
        at = next(place for place, part in enumerate(parts) if part is Ellipsis)
        parts[at : at + 1] = [slice(None)] * (tensor.ndim - len(parts) + 1)
    if len(parts) > tensor.ndim:
        raise fail(
            "E108",
            f"{len(parts)} indices for a tensor of {tensor.ndim} dims, `{tensor.name}`",
            rule="R-tensor.index-05",
            error=TileIndexError,
            hint="index at most every dim once; reshape the tensor for more",
        )
    if tensor._blocks is not None:
        return _index_blocks(tensor, parts)
    advanced = [part for part in parts if part.__class__ in (Index, Indirect)]
    if not advanced:
        return _basic(tensor, parts)
    if any(part.__class__ is Index and len(part.sizes) == 1 for part in advanced):
        fault(
            "err_1d_arange_not_supported",
            f"indexing tensor `{tensor.name}` with 1d arange is not supported",
            *([(tensor.name, tensor._tile)] if tensor._tile is not None else []),
            hint="add an axis: nl.arange(n)[:, None], or use a slice",
            final=True,
        )
    return _advanced(tensor, _beside_numbers(tensor, parts) if all(map(_is_number, advanced)) else parts)


def _masked(tensor: LegacyTensor, mask: Mask | Condition) -> LegacyTensor:
    """tile[i < n]: the tile itself where the mask leaves all of it."""
    from tilewright.nki.legacy.produce import regions

    if regions(mask, tensor.shape) is not None:
        raise fail(
            "E108",
            f"a mask leaves out elements of `{tensor.name}` as an index",
            rule="R-tensor.index-05",
            hint="pass it to the call: mask=...",
            error=TileTypeError,
        )
    return tensor


def _is_number(part: Any) -> bool:
    """Whether an index is one number, known when the kernel runs: tile[0, 0]."""
    return part.__class__ is Indirect and part.offset.__class__ is int and part.tile._view.size == 1


_SIMPLE = frozenset({int, slice, Index, Slice, LoopIndex})


def _plain(part: Any) -> Any:
    """An index without NumPy's kinds of numbers."""
    if isinstance(part, LegacyTensor):
        return Indirect(part)
    if isinstance(part, (slice, Index, Indirect, Slice, LoopIndex)) or part is Ellipsis:
        return part
    if hasattr(part, "__index__") and not isinstance(part, (bool, np.bool_, np.ndarray)):
        return part.__index__()
    raise fail(
        "E108",
        f"a tensor is indexed with {type(part).__name__}",
        rule="R-tensor.index-05",
        hint="indices are numbers, slices, nl.ds, index tensors (nl.arange, nl.mgrid) and tiles of indices",
        error=TileTypeError,
    )


def _index_blocks(tensor: LegacyTensor, parts: list[Any]) -> LegacyTensor:
    """Choose a block by numbers, or several by slices."""
    blocks = tensor._blocks
    assert blocks is not None
    count = tensor.ndim - blocks[0].ndim
    outer, inner = parts[:count], parts[count:]
    sizes = tensor.shape[:count]
    for dim, part in enumerate(outer):
        if isinstance(part, int):
            _require_number(tensor, dim, part, sizes[dim])
        elif not isinstance(part, (slice, Slice)):
            fault(
                "err_failed_to_infer_tile_from_local_tensor",
                f"Failed to infer tile from tensor '{tensor.name}': its block dimension {dim} is indexed with "
                "an index tensor",
                hint="index block dimensions with numbers or loop indices",
                final=True,
            )
    if len(outer) == count and all(isinstance(part, int) for part in outer):
        place = 0
        for part, size in zip(outer, sizes, strict=True):
            place = place * size + int(part) % size
        return index(blocks[place], tuple(inner)) if inner else blocks[place]
    chosen = np.arange(len(blocks)).reshape(sizes)
    picks = tuple(int(p) if isinstance(p, int) else _as_slice(p) if isinstance(p, Slice) else p for p in outer)
    left = chosen[picks]
    if any(part != slice(None) for part in inner):
        fault(
            "err_failed_to_infer_tile_from_local_tensor",
            f"Failed to infer tile from tensor '{tensor.name}': {left.ndim} of its block dimensions are not indexed",
            hint="index block dimensions with numbers or loop indices",
            final=True,
        )
    made = LegacyTensor(None, tensor._handle, tensor._scope, (*left.shape, *blocks[0].shape))
    made._blocks = [blocks[place] for place in left.reshape(-1)]
    return made


def _as_slice(part: Slice) -> slice:
    start = int(part.start)  # type: ignore[arg-type]
    return slice(start, start + int(part.size))


def _require_number(tensor: LegacyTensor, dim: int, part: int, size: int) -> None:
    if -size <= int(part) < size:
        return
    low, high = span(part)
    tile = tensor._tile
    fault(
        "err_tensor_access_out_of_bound",
        f"Out-of-bound access for tensor `{tensor.name}` on dimension {dim}: index range [{low}, {high}] exceed "
        f"dimension size of {size}",
        *([(tensor.name, tile)] if tile is not None else []),
        hint="check the loop's end and which dimension is meant",
        final=True,
    )


def _basic(tensor: LegacyTensor, parts: list[Any]) -> LegacyTensor:
    """Numbers, slices and nl.ds. A slice that ends outside is let pass until an instruction without a mask uses it."""
    tile = tensor._tile
    assert tile is not None
    if tensor._outside is not None:
        tile = tensor._view
    plain: list[Any] = []
    outside: int | None = None
    for dim, part in enumerate(parts):
        size = tile.sizes[dim]
        if isinstance(part, int):
            _require_number(tensor, dim, part, size)
            plain.append(int(part) % size)
            continue
        start, stop, step = _bounds(part, size)
        if not 0 <= start < stop <= size:
            outside = dim if outside is None else outside
        plain.append((start, stop, step))
    if outside is None:
        key = tuple(part if isinstance(part, int) else slice(*map(int, part)) for part in plain)
        return tensor._with(access.index(tile, key))
    return _leaving(tensor, tile, plain)


def _bounds(part: Any, size: int) -> tuple[int, int, int]:
    """Start, stop and step of a slice or an nl.ds; a start may count from the end."""
    if isinstance(part, Slice):
        start: Any = part.start
        return start, start + part.size, 1
    start = 0 if part.start is None else part.start
    stop = size if part.stop is None else part.stop
    for bound in (start, stop):
        whole_number(bound, "a slice's bound")
    if start < 0:
        start = start + size
    if stop < 0:
        stop = stop + size
    return start, stop, 1 if part.step is None else int(part.step)


def _beside_numbers(tensor: LegacyTensor, parts: list[Any]) -> list[Any]:
    """Slices beside numbers that are known when the kernel runs, as index tensors: those are numbers like others."""
    tile = tensor._tile
    assert tile is not None
    if not any(isinstance(part, (slice, Slice)) for part in parts):
        return parts
    bounds = [
        _bounds(part, size) if isinstance(part, (slice, Slice)) else part
        for part, size in zip(parts, tile.sizes, strict=False)
    ]
    return _as_index_tensors(tensor, tile, bounds)


def _leaving(tensor: LegacyTensor, tile: View, parts: list[Any]) -> LegacyTensor:
    """A basic access that leaves its tensor, as an advanced one: masks may take back what lies outside."""
    return _advanced(tensor, _as_index_tensors(tensor, tile, parts))


def _as_index_tensors(tensor: LegacyTensor, tile: View, parts: list[Any]) -> list[Any]:
    """Numbers as they are; starts, stops and steps as index tensors, and dims that are left out as whole ones."""
    ranges = [*parts, *[(0, size, 1) for size in tile.sizes[len(parts) :]]]
    counts = [len(range(*map(int, part))) for part in ranges if isinstance(part, tuple)]
    if 0 in counts:
        raise fail(
            "E301",
            f"an empty slice of `{tensor.name}` {shown(tile.sizes)}",
            error=TileIndexError,
            rule="R-tensor.index-01",
            hint="check the bounds of the slice: its end is behind its start",
        )
    made: list[Any] = []
    for part in ranges:
        if not isinstance(part, tuple):
            made.append(part)
            continue
        place = sum(isinstance(each, Index) for each in made)
        coefs = tuple(part[2] if axis == place else 0 for axis in range(len(counts)))
        made.append(Index(part[0], coefs, tuple(counts)))
    return made


def _advanced(tensor: LegacyTensor, parts: list[Any]) -> LegacyTensor:
    """Index tensors and tiles of indices over a tile or a tensor in HBM."""
    tile = tensor._tile
    assert tile is not None
    if tensor._outside is not None or tile.dynamic is not None:
        tile = tensor._view
    _refuse_mixing(tensor, parts)
    rank = max((_rank(part) for part in parts if not _is_number(part)), default=0) or max(map(_rank, parts))
    sizes, strides, offset = [1] * rank, [0] * rank, tile.offset
    reach: list[Reach] = []
    dynamic: Dynamic | None = None
    kept: Any = None
    for dim, part in enumerate(parts):
        size, step = tile.sizes[dim], tile.strides[dim]
        if part.__class__ is Indirect:
            dynamic, kept = _indirect(tensor, parts, dim, part, sizes), part.tile
            if dynamic.kind == "vector":
                sizes[0], strides[0] = part.tile.shape[0], step
            part = part.offset
        if part.__class__ is Index:
            if len(part.sizes) != rank:
                raise fail(
                    "E103",
                    f"`{tensor.name}` is indexed with index tensors of different ranks",
                    hint="give all of them the same axes with None: nl.arange(n)[:, None] and nl.arange(m)[None, :]",
                )
            offset += int(part.const) * step
            _go_along(tensor, part, step, sizes, strides)
            if dynamic is None or dynamic.dim != dim:
                reach.append(Reach(dim, part.const, part.coefs, size))
        else:
            if dynamic is None or dynamic.dim != dim:
                _require_number(tensor, dim, part, size)
                part = int(part) % size
            offset += int(part) * step
    # Dims that a tile of indices leaves out are taken whole.
    for dim in range(len(parts), tile.ndim):
        sizes.append(tile.sizes[dim])
        strides.append(tile.strides[dim])
    outside = _dim_outside(reach, sizes[:rank])
    if tile.on_chip and dynamic is not None and dynamic.kind == "vector":
        outside = ON_CHIP_INDEX
    elif tile.on_chip:
        _require_tile(tensor, parts, tile, sizes, strides)
    view = View(tile.buffer, tile.dtype, offset, tuple(sizes), tuple(strides), (), dynamic)
    made = tensor._with(view, kept)
    made._reach = tuple(reach)
    made._outside = outside
    return made


def _go_along(tensor: LegacyTensor, index: Index, step: int, sizes: list[int], strides: list[int]) -> None:
    """Let the axes of an index tensor move along a dim whose entries are `step` apart."""
    for axis, (coef, count) in enumerate(zip(index.coefs, index.sizes, strict=True)):
        strides[axis] += coef * step
        if count == 1:
            continue
        if sizes[axis] not in (1, count):
            raise fail(
                "E103",
                f"`{tensor.name}` is indexed with index tensors of {sizes[axis]} and {count} entries along axis {axis}",
                hint="use one nl.arange for an axis in all dims of the index",
            )
        sizes[axis] = count


def _dim_outside(reach: Sequence[Reach], sizes: Sequence[int]) -> int | None:
    """The first dim beyond whose ends some entry lies."""
    bounds = [(0, size) for size in sizes]
    for each in reach:
        low, high = each.span(bounds)
        if low < 0 or high >= each.size:
            return each.dim
    return None


def _rank(part: Any) -> int:
    if part.__class__ is Index:
        return len(part.sizes)
    if part.__class__ is Indirect:
        own = part.tile.ndim
        return len(part.offset.sizes) if isinstance(part.offset, Index) else own
    return 0


def _refuse_mixing(tensor: LegacyTensor, parts: list[Any]) -> None:
    tile = tensor._tile
    assert tile is not None
    short = len(parts) < tile.ndim and not any(part.__class__ is Indirect for part in parts)
    if short or any(isinstance(part, (slice, Slice)) for part in parts):
        fault(
            "err_unsupported_mixing_basic_advanced_tensor_indexing",
            "Mixing basic tensor indexing and advanced tensor indexing is not supported: "
            f"`{tensor.name}{shown(tile.sizes)}`",
            (tensor.name, tile),
            hint="use slices alone, or an index tensor for every dimension",
            final=True,
        )


def _indirect(tensor: LegacyTensor, parts: list[Any], dim: int, part: Indirect, sizes: list[int]) -> Dynamic:
    """A run-time index: one for the whole access, or one per row of a tensor in HBM."""
    tile = tensor._tile
    assert tile is not None
    chosen = part.tile._view
    step, limit = tile.strides[dim], tile.sizes[dim]
    spanned = any(_spans(each) for each in parts[:dim])
    single = chosen.size == 1
    if single and spanned and not tile.on_chip:
        _report_free_dim(tensor, dim, chosen, final=False)
    if single:
        if isinstance(part.offset, Index):
            limit -= int(part.offset.const) + sum(
                coef * (size - 1) for coef, size in zip(part.offset.coefs, part.offset.sizes, strict=True)
            )
        return Dynamic("scalar", chosen, step, limit, dim)
    if tile.on_chip:
        return Dynamic("vector", chosen, step, limit, dim, 0)
    grid = any(isinstance(each, Index) and _spans_first(each) for each in parts)
    if chosen.free != 1 or spanned or grid:
        _report_free_dim(tensor, dim, chosen, final=True)
    return Dynamic("vector", chosen, step, limit, dim, 0)


def _report_free_dim(tensor: LegacyTensor, dim: int, chosen: View, final: bool) -> None:
    tile = tensor._tile
    assert tile is not None
    fault(
        "err_indirect_indices_free_dim",
        f"Dynamic indexing of `{tensor.name}{shown(tile.sizes)}` on dimension {dim} with indices "
        f"{shown(chosen.sizes)}: indirect indexing is supported on the partition or block dimension only",
        (tensor.name, tile),
        ("indices", chosen),
        hint="use a (partitions, 1) tile of indices, taken with nl.arange and not with nl.mgrid",
        final=final,
    )


def _spans(part: Any) -> bool:
    return isinstance(part, Index) and any(size > 1 and coef for size, coef in zip(part.sizes, part.coefs, strict=True))


def _spans_first(part: Index) -> bool:
    """Whether an index runs along the partitions itself: indices cannot then choose them."""
    return part.sizes[0] > 1 and part.coefs[0] != 0


def _require_tile(tensor: LegacyTensor, parts: list[Any], tile: View, sizes: list[int], strides: list[int]) -> None:
    """On chip axis 0 runs along the partitions and nothing else does."""
    row = tile.strides[0]
    first = parts[0]
    along = first.coefs if first.__class__ is Index else (0,) * len(sizes)
    others = [part for part in parts[1:] if part.__class__ is Index]
    crossed = any(coef and size > 1 for coef, size in zip(along[1:], sizes[1:], strict=False))
    skewed = sizes[0] > 1 and (along[0] == 0 or any(part.coefs[0] for part in others))
    if crossed or skewed:
        fault(
            "err_failed_to_infer_tile_from_local_tensor",
            f"Failed to infer tile from tensor '{tensor.name}': the first axis of the index must run along its "
            "partition dimension alone",
            (tensor.name, tile),
            hint="index dimension 0 with nl.arange(n)[:, None] and the others with nl.arange(m)[None, :]",
            final=True,
        )
    if sizes[0] == 1:
        strides[0] = row

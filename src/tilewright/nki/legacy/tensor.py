"""Tensors of the legacy dialect: tiles, tensors in HBM, and tensors of several tiles (block dims).

A tile is a view as everywhere else. A tensor with block dims before its partition dim is one buffer per block: the old
compiler places blocks one by one, and no instruction reaches more than one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tilewright.dtypes import DType, as_dtype
from tilewright.errors import TileTypeError, fail
from tilewright.nki.legacy.faults import fault, shown
from tilewright.nki.legacy.mask import Box
from tilewright.nki.legacy.session import LegacySession, Scope, legacy_session
from tilewright.nki.tensor import Handle, NkiTensor
from tilewright.tile import access
from tilewright.tile.derive import whole_numbers
from tilewright.tile.memory import SBUF, MemoryRegion
from tilewright.tile.view import View, whole

# Stands for the dim that an access leaves: a tile of indices chooses from a tile, which no instruction does.
ON_CHIP_INDEX = -1


class Reach:
    """How an advanced index runs over one dim of a tensor, so that masks can shrink it before bounds are checked."""

    __slots__ = ("coefs", "const", "dim", "size")

    def __init__(self, dim: int, const: int, coefs: tuple[int, ...], size: int) -> None:
        self.dim = dim
        self.const = const
        self.coefs = coefs
        self.size = size

    def span(self, bounds: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """The least and the greatest index within these bounds of the axes.

        A column that was loaded has an axis of size 1 more than its index, behind the others.
        """
        low = high = int(self.const)
        for coef, (start, stop) in zip(self.coefs, bounds, strict=False):
            if coef:
                ends = (coef * start, coef * (stop - 1))
                low, high = low + min(ends), high + max(ends)
        return low, high


class LegacyTensor(NkiTensor):
    """A tensor. Results of calls are new ones, whose instruction may still be held back (`LegacySession`).

    _tile: its view; None for one with block dims, whose tiles are `_blocks`. _reach: how an advanced index runs over
    the dims, _outside: the first dim that it leaves. _boxes: what was written, where a mask left a part (None: all).
    _given: the caller chose the dtype of the result. _scope: the block of the kernel that created it.
    """

    __slots__ = ("_blocks", "_boxes", "_given", "_outside", "_reach", "_scope", "_shape", "_tile", "_total")

    def __init__(self, view: View | None, handle: object, scope: Scope, shape: tuple[int, ...] | None = None) -> None:
        self._tile = view
        self._handle = handle
        self._scope = scope
        self._shape = shape
        self._blocks: list[LegacyTensor] | None = None
        self._reach: tuple[Reach, ...] = ()
        self._outside: int | None = None
        self._boxes: Sequence[Sequence[tuple[int, int]]] | None = None
        self._given = False
        self._total: Any = None

    @property
    def _view(self) -> View:  # type: ignore[override]
        """The view, for an instruction: it must be a tile, inside its tensor and in scope."""
        tile = self._tile
        if tile is None:
            return self._refuse_blocks()
        if self._total is not None:
            return self._total.settled(self)._view
        if self._outside is not None:
            self._refuse_outside([(0, size) for size in tile.sizes])
        if not self._scope.open:
            self._refuse_scope()
        return tile

    def inside(self, box: Sequence[tuple[int, int]]) -> View:
        """The view of a part; what it leaves out may lie outside the tensor. Axes of size 1 stay."""
        if self._tile is None:
            return self._view
        if not self._scope.open:
            self._refuse_scope()
        tile = self._tile if self._total is None else self._view
        if len(box) != len(tile.sizes):
            box = _fitted(box, tile.sizes)
        bounds = [(0, 1) if size == 1 else limits for size, limits in zip(tile.sizes, box, strict=True)]
        if self._outside is not None:
            self._refuse_outside(bounds)
        offset = tile.offset + sum(start * step for (start, _), step in zip(bounds, tile.strides, strict=True))
        sizes = tuple(stop - start for start, stop in bounds)
        dynamic = tile.dynamic
        if dynamic is not None and dynamic.kind == "vector" and bounds[0] != (0, tile.sizes[0]):
            index = dynamic.index
            assert isinstance(index, View)
            rows = access.slice_dim(index, 0, *bounds[0])
            dynamic = type(dynamic)("vector", rows, dynamic.stride, dynamic.limit, dynamic.dim, dynamic.at)
            offset -= bounds[0][0] * tile.strides[0]
        return View(tile.buffer, tile.dtype, offset, sizes, tile.strides, (), dynamic)

    def _refuse_blocks(self) -> View:
        fault(
            "err_failed_to_infer_tile_from_local_tensor",
            f"Failed to infer tile from tensor '{self.name}', whose first dimension is not the partition dimension: "
            f"shape {shown(self.shape)}",
            hint="index its block dimensions: a[i], or a[i, ix, iy] with nl.arange",
        )
        # While diagnostics are collected, one of its tiles stands for it.
        assert self._blocks is not None
        return self._blocks[0]._view

    def _refuse_outside(self, bounds: Sequence[tuple[int, int]]) -> None:
        from tilewright.nki.legacy.loop_index import span

        tile = self._tile
        assert tile is not None
        if self._outside == ON_CHIP_INDEX:
            fault(
                "err_indirect_indices_free_dim",
                f"Dynamic indexing of `{self.name}` on chip by several indices is not supported",
                (self.name, tile),
                hint="gather with nl.load from HBM, or copy one place at a time with nisa.tensor_copy_dynamic_src",
                final=True,
            )
        for reach in self._reach:
            low, high = reach.span(bounds)
            if low >= 0 and high < reach.size:
                continue
            first, last = span(reach.const)
            low, high = low - int(reach.const) + first, high - int(reach.const) + last
            fault(
                "err_tensor_access_out_of_bound",
                f"Out-of-bound access for tensor `{self.name}` on dimension {reach.dim}: index range "
                f"[{low}, {high}] exceed dimension size of {reach.size}",
                (self.name, tile),
                hint="check the indices, or mask what lies outside: mask=index < size",
                final=True,
            )

    def _refuse_scope(self) -> None:
        tile = self._tile
        fault(
            "err_local_variable_used_out_of_scope",
            f"Local variable '{self.name}' is referenced outside of its parent scope",
            *([(self.name, tile)] if tile is not None else []),
            hint="create it before the block with nl.ndarray, and write into it there: tile[...] = value",
            notes=[f"it was created at {self._buffer_of().location}"],
        )

    def _buffer_of(self) -> Any:
        tile: Any = self
        while tile._tile is None:
            tile = tile._blocks[0]
        return tile._tile.buffer

    # What a tensor says about itself.

    @property
    def shape(self) -> tuple[int, ...]:
        if self._shape is not None:
            return self._shape
        assert self._tile is not None
        return self._tile.sizes

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def name(self) -> str:
        return self._buffer_of().name or ""

    @property
    def dtype(self) -> DType:
        return self._buffer_of().dtype if self._tile is None else self._tile.dtype

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def buffer(self) -> MemoryRegion:
        return self._buffer_of().memory

    def _with(self, view: View, index: object = None) -> LegacyTensor:
        handle = (self._handle, index._handle) if isinstance(index, NkiTensor) else self._handle
        return LegacyTensor(view, handle, self._scope)

    # Views, copies of another type, and indexing.

    def reshape(self, shape: Any, *more: int) -> LegacyTensor:
        sizes = shape if not more and isinstance(shape, (tuple, list)) else (shape, *more)
        return self._with(access.reshape(self._view, whole_numbers(sizes, "reshape: size", "R-tensor.reshape-01")))

    def view(self, dtype: object) -> LegacyTensor:
        return self._with(access.reinterpret(self._view, as_dtype(dtype)))

    def expand_dims(self, axis: int) -> LegacyTensor:
        return self._with(access.expand_dim(self._view, axis))

    def astype(self, dtype: object) -> LegacyTensor:
        from tilewright.nki.legacy.elementwise import copy

        return copy(self, dtype=dtype)

    def broadcast_to(self, shape: Any) -> LegacyTensor:
        from tilewright.nki.legacy.operands import stretched

        return stretched(self, whole_numbers(shape, "broadcast_to: size", "R-tensor-04"))

    def as_tile(self) -> LegacyTensor:
        """The tensor itself: what was indexed is a tile already."""
        return self

    def assert_shape(self, shape: Any) -> LegacyTensor:
        """The tensor itself, if it has this shape."""
        require_shape(self, shape, self.name)
        return self

    def __getitem__(self, key: object) -> LegacyTensor:
        from tilewright.nki.legacy.indexing import index

        return index(self, key)

    def __setitem__(self, key: object, value: object) -> None:
        from tilewright.nki.legacy.assignment import assign

        assign(self, key, value)

    def __bool__(self) -> bool:
        from tilewright.nki.legacy.operators import truth

        return truth(self)

    def __repr__(self) -> str:
        return f"tensor({self.name}: {self.dtype}{list(self.shape)} in {self.buffer.value})"


def _fitted(box: Sequence[tuple[int, int]], sizes: Sequence[int]) -> Sequence[tuple[int, int]]:
    """A box for a tile that has dims of size 1 more or fewer than the mask has axes."""
    kept = [limits for limits in box if limits != (0, 1)]
    wide = [size for size in sizes if size != 1]
    if len(kept) != len(wide):
        raise fail(
            "E108",
            f"a mask of {len(box)} axes for a tile of shape {list(sizes)}",
            error=TileTypeError,
            hint="build the mask of the indices that the tile was indexed with",
        )
    rest = iter(kept)
    return [(0, 1) if size == 1 else next(rest) for size in sizes]


def new_tile(
    session: LegacySession, shape: Sequence[int], dtype: DType, memory: MemoryRegion = SBUF, **details: Any
) -> LegacyTensor:
    """A new tensor without block dims."""
    buffer = session.allocate(tuple(shape), dtype, memory, **details)
    handle = Handle(session.machine, buffer) if buffer.on_chip else None
    return LegacyTensor(whole(buffer), handle, session.scope)


def adopt(tensor: NkiTensor) -> LegacyTensor:
    """A tensor that a function of the current dialect made."""
    if isinstance(tensor, LegacyTensor):
        return tensor
    return LegacyTensor(tensor._view, tensor._handle, legacy_session("nl").scope)


def require_shape(tensor: LegacyTensor, shape: Any, name: str) -> None:
    """err_annotation_shape_mismatch unless the tensor has this shape."""
    wanted = tuple(int(size) for size in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    if tuple(tensor.shape) == wanted:
        return
    tile = tensor._tile
    fault(
        "err_annotation_shape_mismatch",
        f"shape of `{name}{shown(tensor.shape)}` does not match the expected shape of {shown(wanted)}",
        *([(name, tile)] if tile is not None else []),
        hint="change the annotation or the shape",
    )


__all__ = ["Box", "LegacyTensor", "Reach", "adopt", "new_tile", "require_shape"]

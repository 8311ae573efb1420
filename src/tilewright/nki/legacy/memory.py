"""Between HBM and the chip in the legacy nl: load, store, load_transpose2d, atomic_rmw."""

from __future__ import annotations

from math import prod
from typing import Any

from tilewright.dtypes import as_dtype
from tilewright.nki.legacy.allocation import refuse_transpose
from tilewright.nki.legacy.assignment import copy, fill
from tilewright.nki.legacy.faults import fault, shown
from tilewright.nki.legacy.operands import stretched, tile_of
from tilewright.nki.legacy.produce import attributes, issue, operator_of, produce, regions
from tilewright.nki.legacy.session import LegacySession, legacy_session
from tilewright.nki.legacy.tensor import LegacyTensor, new_tile
from tilewright.rules import violate
from tilewright.tile.attrs import as_number
from tilewright.tile.memory import OFF_CHIP, ON_CHIP, PSUM, SBUF
from tilewright.tile.record import TABLE
from tilewright.tile.view import View


def _as_tile(source: LegacyTensor) -> LegacyTensor:
    """An HBM tensor with the two dims that a tile has at least: (n,) becomes (n, 1)."""
    tile = source._tile
    if tile is None or tile.ndim >= 2:
        return source
    made = LegacyTensor(_of_two_dims(tile), source._handle, source._scope)
    made._reach, made._outside = source._reach, source._outside
    return made


def _of_two_dims(view: View) -> View:
    """A view of an HBM tensor with the two dims that a tile has at least."""
    sizes = (view.sizes[0] if view.ndim else 1, 1)
    return _part(view, view.offset, sizes, (view.strides[0] if view.ndim else 1, 1))


def _part(view: View, offset: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> View:
    """Another access to what a view lies in, at the same run-time index."""
    return View(view.buffer, view.dtype, offset, sizes, strides, view.terms, view.dynamic)


def _require_partitions(session: LegacySession, api: str, tensor: LegacyTensor, mask: Any) -> None:
    limit = session.target["limits.partitions"]
    if tensor.shape[0] > limit:
        fault(
            "err_num_partition_exceed_arch_limit",
            f"number of partitions {tensor.shape[0]} exceed architecture limitation of {limit}: "
            f"'{tensor.name}{shown(tensor.shape)}' of '{api}'",
            hint=f"load {limit} rows at a time",
            final=True,
        )


def load(src: Any, *, mask: Any = None, dtype: Any = None, mode: Any = None, **kwargs: Any) -> LegacyTensor:
    """A new tile with the elements of a tensor in HBM. mode: what becomes of rows whose run-time index is outside."""
    session = legacy_session("nl.load")
    source = _as_tile(tile_of("load", "src", src, OFF_CHIP))
    result = source.dtype if dtype is None else as_dtype(dtype)
    _require_partitions(session, "load", source, mask)
    # Rows that are left out stay what they are in the tile that is assigned: the transfer itself writes it, and casts.
    given = dtype is not None and mode is None
    return produce(session, "dma_copy", source.shape, result, [source], _outside(mode), mask=mask, given=given)


def _outside(mode: Any) -> dict[str, Any]:
    return {} if mode is None else {"oob_mode": mode}


def store(dst: Any, value: Any, *, mask: Any = None, mode: Any = None, **kwargs: Any) -> None:
    """Write a tile, or a number, to a tensor in HBM. mode: what becomes of rows whose run-time index is outside."""
    session = legacy_session("nl.store")
    target = tile_of("store", "dst", dst, OFF_CHIP)
    number = as_number(value)
    if number is not None:
        store_number(session, target, number, mask)
        return
    source = tile_of("store", "value", value, ON_CHIP)
    target = _as_tile(target)
    boxes = regions(mask, target.shape) if mask is not None else source._boxes
    if source.buffer is PSUM:
        source = _drained(session, source)
    if tuple(source.shape) != tuple(target.shape):
        source = _fitted(target, source)
    for box in (None,) if boxes is None else boxes:
        views = [each._view if box is None else each.inside(box) for each in (target, source)]
        record = TABLE["dma_copy"]
        session.issue(record, views, attributes(record, _outside(mode)))


def _drained(session: LegacySession, source: LegacyTensor) -> LegacyTensor:
    """A copy in SBUF of a tile in PSUM, which no DMA reads."""
    boxes = source._boxes
    made = new_tile(session, source.shape, source.dtype)
    for box in (None,) if boxes is None else boxes:
        pair = [each._view if box is None else each.inside(box) for each in (made, source)]
        copy(session, *pair)
    return made


def _fitted(target: LegacyTensor, source: LegacyTensor) -> LegacyTensor:
    """A source whose shape differs from the target's in dims of size 1, or that is repeated over it."""
    assert target._tile is not None and source._tile is not None
    if prod(target.shape) == prod(source.shape):
        return source
    if source.ndim == target.ndim and all(a in (1, b) for a, b in zip(source.shape, target.shape, strict=True)):
        return stretched(source, tuple(target.shape))
    fault(
        "err_store_dst_shape_smaller_than_other_shape",
        f"Illegal assignment destination shape in 'store': shape {shown(target.shape)} of parameter 'dst' is smaller "
        f"than other parameter shapes value{shown(source.shape)}.",
        ("dst", target._tile),
        ("value", source._tile),
        hint="index the value or the tensor so that they fit",
        final=True,
    )
    raise AssertionError


def store_number(session: LegacySession, target: LegacyTensor, number: float, mask: Any = None) -> None:
    """Fill a tensor in HBM with a number: from a tile, in rows that fit the partitions."""
    boxes = regions(mask, target.shape) if mask is not None else None
    for box in (None,) if boxes is None else boxes:
        view = target._view if box is None else target.inside(box)
        for part in _pieces(session, view):
            tile = new_tile(session, part.sizes, part.dtype)
            fill(session, tile, number)
            record = TABLE["dma_copy"]
            session.issue(record, [part, tile._view], record.attributes({}))


def _pieces(session: LegacySession, view: View) -> list[View]:
    """A tensor in HBM as pieces of as many rows as there are partitions."""
    limit = session.target["limits.partitions"]
    if view.ndim < 2:
        view = _of_two_dims(view)
    if view.dynamic is not None and view.dynamic.kind == "vector":
        # One index per row: there are no more rows than partitions.
        return [view]
    if view.ndim > 2 and view.sizes[0] <= view.sizes[1]:
        # The second dim makes better rows: one piece per entry of the first.
        inner = [
            _part(view, view.offset + i * view.strides[0], view.sizes[1:], view.strides[1:])
            for i in range(view.sizes[0])
        ]
        return [piece for each in inner for piece in _pieces(session, each)]
    found: list[View] = []
    for start in range(0, view.sizes[0], limit):
        rows = min(limit, view.sizes[0] - start)
        offset = view.offset + start * view.strides[0]
        found.append(_part(view, offset, (rows, *view.sizes[1:]), view.strides))
    return found


def load_transpose2d(src: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> LegacyTensor:
    """A new tile with the transpose of a 2-D tensor in HBM."""
    session = legacy_session("nl.load_transpose2d")
    source = tile_of("load_transpose2d", "src", src, OFF_CHIP)
    refuse_indirect("load_transpose2d", source)
    if source.ndim != 2:
        assert source._tile is not None
        fault(
            "err_exceed_max_supported_dimension",
            f"parameter 'src{shown(source.shape)}' of 'load_transpose2d' "
            "exceed max supported number of dimensions of 2.",
            ("src", source._tile),
            hint="index the outer dimensions: src[i]",
            final=True,
        )
    rows, columns = source.shape
    result = source.dtype if dtype is None else as_dtype(dtype)
    boxes = None if mask is None else regions(mask, source.shape)
    turned = new_tile(session, (columns, rows), source.dtype)
    for box in (None,) if boxes is None else boxes:
        dst = turned._view if box is None else turned.inside(box[::-1])
        view = source._view if box is None else source.inside(box)
        record = TABLE["dma_transpose"]
        session.issue(record, [dst, view], record.attributes({}))
    turned._boxes = None if boxes is None else [box[::-1] for box in boxes]
    if result == source.dtype:
        return turned
    made = produce(session, "tensor_copy", turned.shape, result, [turned], {}, given=dtype is not None)
    made._boxes = turned._boxes
    return made


def refuse_indirect(api: str, tensor: LegacyTensor) -> None:
    """err_indirect_indices_are_not_supported_with_nki_api."""
    tile = tensor._tile
    if tile is not None and tile.dynamic is not None:
        fault(
            "err_indirect_indices_are_not_supported_with_nki_api",
            f"'{api}' does not allow using tiles / tensors with indirect indices: '{tensor.name}'",
            ("src", tile),
            hint="load the rows with nl.load first, and transpose the tile",
            final=True,
        )


def atomic_rmw(dst: Any, value: Any, op: Any, *, mask: Any = None, **kwargs: Any) -> None:
    """dst = op(dst, value) on rows of a tensor in HBM that a tile of indices chooses (R-legacy-07)."""
    session = legacy_session("nl.atomic_rmw")
    target = tile_of("atomic_rmw", "dst", dst, OFF_CHIP)
    chosen = operator_of(op)
    if getattr(chosen, "op_name", None) != "add":
        violate(
            "R-legacy-07",
            f"nl.atomic_rmw(op={op}): only np.add is supported",
            final=True,
            hint="load, compute and store instead",
        )
    if target._tile is None or target._tile.dynamic is None:
        violate(
            "R-legacy-07",
            "nl.atomic_rmw: dst has no indirect index",
            hint="index it with a tile of indices: dst[indices, ix]; without, load, add and store",
            operands=[] if target._tile is None else [target._tile.note("dst")],
            final=True,
        )
    number = as_number(value)
    if number is None:
        source = tile_of("atomic_rmw", "value", value, (SBUF,))
    else:
        source = new_tile(session, target.shape, target.dtype)
        fill(session, source, number)
    boxes = None if mask is None else regions(mask, target.shape)
    session.adding = True
    try:
        for box in (None,) if boxes is None else boxes:
            pair = [each._view if box is None else each.inside(box) for each in (target, source)]
            accumulate_rows(session, *pair)
    finally:
        session.adding = False


def accumulate_rows(session: LegacySession, dst: View, src: View, oob_mode: Any = None) -> None:
    """dst += src by DMA."""
    attrs: dict[str, Any] = {"reduce_op": operator_of(_add)}
    if oob_mode is not None:
        attrs["oob_mode"] = oob_mode
    from tilewright.nki.legacy.produce import attributes

    record = TABLE["dma_compute"]
    session.issue(record, [dst, dst, src], attributes(record, attrs))


def _add() -> None: ...


_add.__name__ = "add"

__all__ = ["atomic_rmw", "issue", "load", "load_transpose2d", "refuse_transpose", "store"]

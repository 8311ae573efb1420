"""nki.isa of the legacy dialect: patterns, selections, searches, gathers, and what writes into a given tile."""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import as_dtype, uint8, uint32
from tilewright.errors import TileTypeError, fail
from tilewright.nki.legacy.index import Index
from tilewright.nki.legacy.isa.compute import in_sbuf
from tilewright.nki.legacy.loop_index import Condition
from tilewright.nki.legacy.mask import Mask
from tilewright.nki.legacy.operands import operand_of, tile_of
from tilewright.nki.legacy.produce import attributes, operator_of, produce, regions
from tilewright.nki.legacy.session import LegacySession, legacy_session
from tilewright.nki.legacy.tensor import LegacyTensor, new_tile
from tilewright.rules import violate
from tilewright.tile.record import TABLE


def pattern_of(expression: Index) -> dict[str, Any]:
    """An index tensor as what iota and affine_select generate: steps of the dims and an offset."""
    free = zip(expression.coefs[1:], expression.sizes[1:], strict=True)
    return {
        "pattern": [[int(coef), int(size)] for coef, size in free] or [[0, 1]],
        "offset": int(expression.const),
        "channel_multiplier": int(expression.coefs[0]),
    }


def iota(expr: Any, dtype: Any, *, mask: Any = None, **kwargs: Any) -> LegacyTensor:
    """A tile of the values of an index tensor, or of one number."""
    session = legacy_session("nisa.iota")
    if not isinstance(expr, Index):
        expr = Index(int(expr), (0, 0), (1, 1))
    if len(expr.sizes) == 1:
        from tilewright.nki.legacy.faults import fault

        fault(
            "err_1d_arange_not_supported",
            "nisa.iota of a 1d arange is not supported",
            hint="add an axis: nl.arange(n)[:, None] or nl.arange(n)[None, :]",
            final=True,
        )
    return produce(session, "iota", expr.sizes, as_dtype(dtype), [], pattern_of(expr), mask=mask)


def affine_select(
    pred: Any, on_true_tile: Any, on_false_value: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any
) -> LegacyTensor:
    """on_true_tile where a comparison of index tensors holds, else a number; on GpSimd."""
    session = legacy_session("nisa.affine_select")
    source = tile_of("affine_select", "on_true_tile", on_true_tile)
    result = source.dtype if dtype is None else as_dtype(dtype)
    boxes = None if mask is None else regions(mask, source.shape)
    _require_types(source, result)
    if boxes is not None and not boxes:
        return produce(session, "tensor_copy", source.shape, result, [source], {}, mask=False, given=dtype is not None)
    source = in_sbuf(session, source)
    number = operand_of("affine_select", "on_false_value", on_false_value)
    if isinstance(pred, (Condition, bool)):
        if pred:
            return produce(
                session, "tensor_copy", source.shape, result, [source], {}, mask=mask, given=dtype is not None
            )
        value = float(number)
        return produce(
            session, "memset", source.shape, result, [], {"value": value}, mask=mask, given=dtype is not None
        )
    if not isinstance(pred, Mask) or pred.difference is None or pred.op is None:
        raise fail(
            "E108",
            "affine_select: pred is not one comparison of index tensors",
            hint="write pred=(a < b); several are several calls",
            error=TileTypeError,
        )
    difference = pred.difference + Index(0, (0,) * source.ndim, tuple(source.shape))
    attrs = {**pattern_of(difference), "cmp_op": operator_of(_named(pred.op))}
    operands = [source, number]
    return produce(session, "affine_select", source.shape, result, operands, attrs, mask=mask, given=dtype is not None)


def _require_types(source: LegacyTensor, result: Any) -> None:
    """R-legacy-05: floats, and integers of 8 and 16 bits."""
    for dtype in (source.dtype, result):
        if dtype.is_integer and dtype.itemsize > 2:
            violate(
                "R-legacy-05",
                f"affine_select of {dtype}; it takes any float, and integers of 8 or 16 bits",
                hint="convert the tile to float32 first",
                operands=[] if source._tile is None else [source._tile.note("on_true_tile")],
            )


class _named:
    """An operator by name."""

    def __init__(self, name: str) -> None:
        self.__name__ = name


def range_select(
    *,
    on_true_tile: Any,
    comp_op0: Any,
    comp_op1: Any,
    bound0: Any,
    bound1: Any,
    reduce_cmd: Any = None,
    reduce_res: Any = None,
    reduce_op: Any = None,
    range_start: Any = 0,
    on_false_value: Any = None,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> LegacyTensor:
    """on_true_tile where bound0 and bound1 hold of the position, else the least float32."""
    session = legacy_session("nisa.range_select")
    source = tile_of("range_select", "on_true_tile", on_true_tile)
    bounds = [tile_of("range_select", "bound0", bound0), tile_of("range_select", "bound1", bound1)]
    from tilewright.tile.attrs import reduce_cmd as commands

    attrs: dict[str, Any] = {
        "comp_op0": operator_of(comp_op0),
        "comp_op1": operator_of(comp_op1),
        "reduce_cmd": commands.idle if reduce_cmd is None else reduce_cmd,
        "range_start": int(range_start),
    }
    if reduce_op is not None:
        attrs["reduce_op"] = operator_of(reduce_op)
    if on_false_value is not None:
        attrs["on_false_value"] = float(on_false_value)
    result = source.dtype if dtype is None else as_dtype(dtype)
    operands = [source, *bounds, reduce_res]
    return produce(session, "range_select", source.shape, result, operands, attrs, mask=mask, given=dtype is not None)


def select_reduce(
    *,
    dst: Any,
    predicate: Any,
    on_true: Any,
    on_false: Any,
    reduce_res: Any = None,
    reduce_cmd: Any = None,
    reduce_op: Any = None,
    reverse_pred: bool = False,
    mask: Any = None,
    **kwargs: Any,
) -> None:
    """dst = on_true where the predicate is not 0, else on_false; with a reduction over the free dims."""
    session = legacy_session("nisa.select_reduce")
    attrs: dict[str, Any] = {"reverse_pred": bool(reverse_pred)}
    if reduce_cmd is not None:
        attrs["reduce_cmd"] = reduce_cmd
    if reduce_op is not None:
        attrs["reduce_op"] = operator_of(reduce_op)
    chosen = predicate_tile(session, tile_of("select_reduce", "predicate", predicate))
    tiles = [
        tile_of("select_reduce", "dst", dst),
        chosen,
        tile_of("select_reduce", "on_true", on_true),
        operand_of("select_reduce", "on_false", on_false),
        reduce_res,
    ]
    into(session, "select_reduce", tiles, attrs, mask)


def predicate_tile(session: LegacySession, tile: LegacyTensor) -> LegacyTensor:
    """A predicate as unsigned integers."""
    if tile.dtype.kind == "u":
        return tile
    if tile.dtype.kind == "b":
        return LegacyTensor(tile.view(uint8)._tile, tile._handle, tile._scope)
    attrs = {"op0": operator_of(_named("not_equal"))}
    return produce(session, "tensor_scalar", tile.shape, uint8, [tile, 0.0, None], attrs)


def into(session: LegacySession, name: str, tiles: list[Any], attrs: dict[str, Any], mask: Any = None) -> None:
    """An instruction that writes into a given tile, or into the part that a mask leaves."""
    record = TABLE[name]
    boxes = None if mask is None else regions(mask, tiles[0].shape)
    for box in (None,) if boxes is None else boxes:
        views = [
            (each._view if box is None else each.inside(box)) if isinstance(each, LegacyTensor) else each
            for each in tiles
        ]
        session.issue(record, views, attributes(record, attrs))


def tensor_copy_predicated(
    *,
    src: Any,
    dst: Any,
    predicate: Any,
    reverse_pred: bool = False,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> None:
    """dst = src where the predicate is not 0; elsewhere dst stays."""
    session = legacy_session("nisa.tensor_copy_predicated")
    target = tile_of("tensor_copy_predicated", "dst", dst)
    chosen = predicate_tile(session, tile_of("tensor_copy_predicated", "predicate", predicate))
    source = operand_of("tensor_copy_predicated", "src", src)
    into(session, "tensor_copy_predicated", [target, source, chosen], {"reverse_pred": bool(reverse_pred)}, mask)


def nc_stream_shuffle(
    src: Any, dst: Any, shuffle_mask: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any
) -> None:
    """Move partitions within quadrants."""
    session = legacy_session("nisa.nc_stream_shuffle")
    tiles = [tile_of("nc_stream_shuffle", "dst", dst), tile_of("nc_stream_shuffle", "src", src)]
    into(session, "nc_stream_shuffle", tiles, {"shuffle_mask": list(shuffle_mask)}, mask)


def max8(*, src: Any, mask: Any = None, dtype: Any = None, **kwargs: Any) -> LegacyTensor:
    """The eight largest elements of each partition, in descending order."""
    session = legacy_session("nisa.max8")
    tile = tile_of("max8", "src", src)
    return _of_rows(session, "max8", tile, tile.dtype if dtype is None else as_dtype(dtype), [tile], mask)


def nc_find_index8(*, data: Any, vals: Any, mask: Any = None, dtype: Any = None, **kwargs: Any) -> LegacyTensor:
    """Where eight values stand in each partition."""
    session = legacy_session("nisa.nc_find_index8")
    tile, values = tile_of("nc_find_index8", "data", data), tile_of("nc_find_index8", "vals", vals)
    return _of_rows(session, "nc_find_index8", tile, uint32 if dtype is None else as_dtype(dtype), [tile, values], mask)


def _of_rows(
    session: LegacySession, name: str, tile: LegacyTensor, dtype: Any, operands: list[Any], mask: Any
) -> LegacyTensor:
    """Eight numbers per partition; a mask is about the tile that is searched."""
    if mask is None:
        return produce(session, name, (tile.shape[0], 8), dtype, operands, {})
    made = new_tile(session, (tile.shape[0], 8), dtype)
    record = TABLE[name]
    boxes = regions(mask, tile.shape)
    for box in [tuple((0, size) for size in tile.shape)] if boxes is None else boxes:
        rows = (box[0], (0, 8))
        views = [operands[0].inside(box), *[each.inside(rows) for each in operands[1:]]]
        session.issue(record, [made.inside(rows), *views], record.attributes({}))
    made._boxes = None if boxes is None else [(box[0], (0, 8)) for box in boxes]
    return made


def nc_match_replace8(
    *, data: Any, vals: Any, imm: Any, dst_idx: Any = None, mask: Any = None, dtype: Any = None, **kwargs: Any
) -> LegacyTensor:
    """data with the first occurrence of each of eight values replaced by a number; their places in dst_idx."""
    session = legacy_session("nisa.nc_match_replace8")
    tile, values = tile_of("nc_match_replace8", "data", data), tile_of("nc_match_replace8", "vals", vals)
    result = tile.dtype if dtype is None else as_dtype(dtype)
    attrs = {"imm": float(imm)}
    boxes = None if mask is None else regions(mask, tile.shape)
    if boxes is None:
        return produce(session, "nc_match_replace8", tile.shape, result, [dst_idx, tile, values], attrs)
    made = new_tile(session, tile.shape, result)
    record = TABLE["nc_match_replace8"]
    for box in boxes:
        rows = (box[0], (0, 8))
        index = None if dst_idx is None else dst_idx.inside(rows)
        views = [made.inside(box), index, tile.inside(box), values.inside(rows)]
        session.issue(record, views, attributes(record, attrs))
    made._boxes = boxes
    return made


def tensor_scalar_cumulative(
    *,
    src: Any,
    dst: Any,
    op0: Any,
    op1: Any,
    imm0: Any,
    imm1: Any = None,
    reduce_cmd: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> None:
    """dst[i] = op1(dst[i - 1], op0(src[i], imm0))."""
    session = legacy_session("nisa.tensor_scalar_cumulative")
    attrs: dict[str, Any] = {"op0": operator_of(op0), "op1": operator_of(op1)}
    if reduce_cmd is not None:
        attrs["reduce_cmd"] = reduce_cmd
    tiles = [
        tile_of("tensor_scalar_cumulative", "dst", dst),
        tile_of("tensor_scalar_cumulative", "src", src),
        operand_of("tensor_scalar_cumulative", "imm0", imm0),
        None if imm1 is None else operand_of("tensor_scalar_cumulative", "imm1", imm1),
    ]
    into(session, "tensor_scalar_cumulative", tiles, attrs, mask)


def local_gather(
    src_buffer: Any, index: Any, num_elem_per_idx: int = 1, num_valid_indices: Any = None, *, mask: Any = None
) -> LegacyTensor:
    """Gather elements within partitions by indices that groups of partitions share."""
    session = legacy_session("nisa.local_gather")
    source, chosen = tile_of("local_gather", "src_buffer", src_buffer), tile_of("local_gather", "index", index)
    group = session.target["limits.gpsimd_group_partitions"]
    count = chosen.shape[1] * group if num_valid_indices is None else int(num_valid_indices)
    shape = _gathered(source.shape[0], chosen.shape[1], group, count, int(num_elem_per_idx))
    attrs: dict[str, Any] = {"num_elem_per_idx": int(num_elem_per_idx)}
    if num_valid_indices is not None:
        attrs["num_valid_indices"] = int(num_valid_indices)
    return produce(session, "local_gather", shape, source.dtype, [source, chosen], attrs, mask=mask)


def _gathered(partitions: int, columns: int, group: int, count: int, each: int) -> tuple[int, ...]:
    """(P, columns, group, elements) where all indices are used, else (P, indices, elements)."""
    return (partitions, columns, group, each) if count == columns * group else (partitions, count, each)


def sequence_bounds(*, segment_ids: Any, dtype: Any = None) -> LegacyTensor:
    """Where the segment of each element begins and ends."""
    session = legacy_session("nisa.sequence_bounds")
    tile = tile_of("sequence_bounds", "segment_ids", segment_ids)
    if "sequence_bounds" not in TABLE:
        raise fail(
            "E501",
            "nisa.sequence_bounds is not supported by this simulator yet",
            hint="use nki.isa.sequence_bounds of the current dialect",
        )
    shape = (tile.shape[0], 2, *tile.shape[1:])
    return produce(session, "sequence_bounds", shape, tile.dtype if dtype is None else as_dtype(dtype), [tile], {})

"""nki.isa of the legacy dialect: DMA, matmul and transposes, copies with run-time indices."""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import DType, as_dtype, float32
from tilewright.errors import fail
from tilewright.nki.legacy.allocation import refuse_transpose
from tilewright.nki.legacy.faults import fault, shown
from tilewright.nki.legacy.isa.compute import _engine
from tilewright.nki.legacy.mask import Box, Mask
from tilewright.nki.legacy.memory import accumulate_rows, refuse_indirect
from tilewright.nki.legacy.operands import partition_mismatch, tile_of
from tilewright.nki.legacy.produce import attributes, operator_of, produce, regions
from tilewright.nki.legacy.session import LegacySession, legacy_session
from tilewright.nki.legacy.tensor import LegacyTensor, new_tile
from tilewright.rules import violate
from tilewright.tile.attrs import dge_mode as dge_modes
from tilewright.tile.attrs import matmul_perf_mode
from tilewright.tile.memory import OFF_CHIP, PSUM, SBUF
from tilewright.tile.record import TABLE

DMA = (*OFF_CHIP, SBUF)


def dma_copy(
    src: Any = None,
    dst: Any = None,
    *,
    mask: Any = None,
    dst_rmw_op: Any = None,
    oob_mode: Any = None,
    dge_mode: Any = None,
    **kwargs: Any,
) -> None:
    """Copy between tensors in HBM and SBUF; with dst_rmw_op add to what is there."""
    session = legacy_session("nisa.dma_copy")
    target, source = tile_of("dma_copy", "dst", dst, DMA), tile_of("dma_copy", "src", src, DMA)
    boxes = None if mask is None else regions(mask, target.shape)
    attrs: dict[str, Any] = {}
    if oob_mode is not None:
        attrs["oob_mode"] = oob_mode
    if dge_mode is not None:
        attrs["dge_mode"] = dge_mode
    for box in (None,) if boxes is None else boxes:
        pair = [each._view if box is None else each.inside(box) for each in (target, source)]
        if dst_rmw_op is not None:
            _add_rows(session, dst_rmw_op, pair, oob_mode)
        else:
            record = TABLE["dma_copy"]
            session.issue(record, pair, attributes(record, attrs))


def _add_rows(session: LegacySession, op: Any, pair: list[Any], oob_mode: Any) -> None:
    if getattr(operator_of(op), "op_name", None) != "add":
        violate(
            "R-legacy-07",
            f"nisa.dma_copy(dst_rmw_op={op}): only np.add is supported",
            final=True,
            hint="load, compute and store instead",
        )
    session.adding = True
    try:
        accumulate_rows(session, pair[0], pair[1], oob_mode)
    finally:
        session.adding = False


def dma_transpose(
    src: Any, *, axes: Any = None, mask: Any = None, dtype: Any = None, dge_mode: Any = None, **kwargs: Any
) -> LegacyTensor:
    """A transpose by DMA: (1, 0), (2, 1, 0) or (3, 1, 2, 0)."""
    session = legacy_session("nisa.dma_transpose")
    source = tile_of("dma_transpose", "src", src, DMA)
    if axes is None:
        refuse_indirect("dma_transpose", source)
    order = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}.get(source.ndim)
    if order is None:
        fault(
            "err_exceed_max_supported_dimension",
            f"parameter 'src{shown(source.shape)}' of 'dma_transpose' exceed max supported number of dimensions of 4.",
            hint="transpose fewer dimensions at a time",
            final=True,
        )
        raise AssertionError
    attrs: dict[str, Any] = {} if axes is None else {"axes": tuple(axes)}
    if dge_mode is not None and not (dge_mode is dge_modes.hwdge and not _fits_hardware(session, source)):
        attrs["dge_mode"] = dge_mode
    shape = tuple(source.shape[axis] for axis in order)
    made = produce(session, "dma_transpose", shape, source.dtype, [source], attrs)
    if dtype is None or as_dtype(dtype) == source.dtype:
        return made
    return produce(session, "tensor_copy", shape, as_dtype(dtype), [made], {}, given=True)


def _fits_hardware(session: LegacySession, source: LegacyTensor) -> bool:
    """Whether the generation has hardware descriptors; others write them before the run, as the old compiler did."""
    return bool(session.target["features.hwdge"])


def nc_matmul(
    stationary: Any,
    moving: Any,
    *,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    tile_position: Any = (),
    tile_size: Any = (),
    perf_mode: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> LegacyTensor:
    """stationary.T @ moving in PSUM; `psum += nc_matmul(...)` adds to what is there."""
    session = legacy_session("nisa.nc_matmul")
    left = tile_of("nc_matmul", "stationary", result_in_sbuf(session, stationary), (SBUF,))
    right = tile_of("nc_matmul", "moving", result_in_sbuf(session, moving), (SBUF,))
    partition_mismatch("nc_matmul", ("stationary", left), ("moving", right))
    attrs: dict[str, Any] = {
        "is_stationary_onezero": bool(is_stationary_onezero),
        "is_moving_onezero": bool(is_moving_onezero),
        "is_transpose": bool(is_transpose),
    }
    if tile_position:
        attrs["tile_position"] = tuple(int(part) for part in tile_position)
    if tile_size:
        attrs["tile_size"] = tuple(int(part) for part in tile_size)
    doubled = perf_mode is not None and "double_row" in str(getattr(perf_mode, "name", perf_mode))
    if doubled:
        attrs["perf_mode"] = matmul_perf_mode.double_row
    rows, columns = (_columns(each, doubled) for each in (left, right))
    passes = is_transpose and session.target["features.transpose_16bit_psum"]
    result = left.dtype if passes else float32
    _require_columns(session, "stationary", left, rows, "limits.matmul_stationary_free_max")
    _require_columns(session, "moving", right, columns, "limits.matmul_moving_free_max.float32")
    boxes = None if mask is None else regions(mask, (rows, columns))
    if not boxes:
        held = False if boxes is not None else None
        shape = (rows, columns) if doubled else (rows, *right.shape[1:])
        return produce(session, "nc_matmul", shape, result, [left, right], attrs, memory=PSUM, mask=held)
    return _columns_of_matmul(session, mask, boxes, left, right, result, attrs)


def _require_columns(session: LegacySession, name: str, tile: LegacyTensor, count: int, limit: str) -> None:
    most = session.target[limit]
    if count > most and tile._tile is not None:
        fault(
            "err_size_of_dimension_exceed_arch_limit",
            f"size of dimension 1 in '{name}{shown(tile.shape)}' of 'nc_matmul' exceed architecture limitation of "
            f"{most}.",
            (name, tile._tile),
            hint=f"multiply {most} columns at a time",
            final=True,
        )


def _is_about(mask: Any, columns: int) -> bool:
    """Whether indices along the second axis of a mask run over so many columns: those of stationary have it as well."""
    parts = mask.parts if isinstance(mask, Mask) else ()
    return all(part.sizes[1] == columns for part in parts if part.coefs[1])


def _columns_of_matmul(
    session: LegacySession,
    mask: Any,
    boxes: list[Box],
    left: LegacyTensor,
    right: LegacyTensor,
    dtype: DType,
    attrs: dict[str, Any],
) -> LegacyTensor:
    """A matmul under a mask, which may leave out columns of the moving tile."""
    rows, columns = left.shape[1], right.shape[1]
    if len(boxes) > 1 or boxes[0][0] != (0, rows) or right.ndim != 2 or not _is_about(mask, columns):
        raise fail(
            "E108",
            "nisa.nc_matmul: the mask is about more than the columns of moving",
            hint="slice the operands; conditions on loops and on columns of moving are fine",
        )
    made = new_tile(session, (rows, columns), dtype, PSUM)
    ((_, kept),) = boxes
    record = TABLE["nc_matmul"]
    moving = right.inside(((0, right.shape[0]), kept))
    session.issue(record, [made.inside(boxes[0]), left._view, moving], attributes(record, attrs))
    made._boxes = boxes
    return made


def result_in_sbuf(session: LegacySession, value: Any) -> Any:
    """A result that an instruction left in PSUM, copied to SBUF; tiles that the kernel placed in PSUM stay there."""
    tile = value._tile if isinstance(value, LegacyTensor) else None
    if tile is None or tile.memory is not PSUM or tile.buffer in session.created:
        return value
    made = produce(session, "tensor_copy", value.shape, value.dtype, [value], {}, mask=_boxed(value))
    made._boxes = value._boxes
    return made


def _boxed(value: LegacyTensor) -> Any:
    """A mask that leaves nothing, for a value of which nothing was made."""
    return False if value._boxes is not None and not value._boxes else None


def _columns(tile: LegacyTensor, doubled: bool) -> int:
    count = 1
    for size in tile.shape[2 if doubled else 1 :]:
        count *= size
    return count


def nc_transpose(data: Any, *, mask: Any = None, dtype: Any = None, engine: Any = None, **kwargs: Any) -> LegacyTensor:
    """data with partitions and free dims exchanged: in PSUM by the Tensor engine, in SBUF by the Vector engine."""
    session = legacy_session("nisa.nc_transpose")
    tile = tile_of("nc_transpose", "data", data)
    if tile.ndim < 2 or (tile.ndim > 2 and mask is not None):
        refuse_rank("nc_transpose", "data", tile)
    chosen = _engine(engine)
    vector = bool(chosen) and chosen["engine"].name == "vector"
    if not vector:
        refuse_transpose(session, f"nc_transpose of data{shown(tile.shape)} with TensorEngine")
    made = transposed(session, tile, vector, mask)
    if dtype is None or as_dtype(dtype) == tile.dtype:
        return made
    cast = produce(session, "tensor_copy", made.shape, as_dtype(dtype), [made], {}, given=True, memory=made.buffer)
    cast._boxes = made._boxes
    return cast


def refuse_rank(api: str, name: str, tile: LegacyTensor) -> None:
    """err_exceed_max_supported_dimension of functions that take two dims."""
    fault(
        "err_exceed_max_supported_dimension",
        f"parameter '{name}{shown(tile.shape)}' of '{api}' exceed max supported number of dimensions of 2.",
        *([(name, tile._tile)] if tile._tile is not None else []),
        hint="index or reshape it to two dimensions",
        final=True,
    )


def transposed(
    session: LegacySession, tile: LegacyTensor, vector: bool, mask: Any = None, api: str = "nc_transpose"
) -> LegacyTensor:
    """The transpose of a tile, whose free dims count as one."""
    limit, most = (session.target[f"limits.transpose_{engine}_max"] for engine in ("vector", "tensor"))
    rows, columns = tile.shape[0], tile.size // tile.shape[0]
    if not vector:
        limit = most
    elif mask is None and limit < max(rows, columns) <= most:
        return _transposed_in_pieces(session, tile, limit)
    for dim, size in enumerate((rows, columns)):
        if size > limit:
            name = "x" if api == "transpose" else "data"
            fault(
                "err_size_of_dimension_exceed_arch_limit",
                f"size of dimension {dim} in '{name}{shown(tile.shape)}' of '{api}' exceed architecture limitation of "
                f"{limit}.",
                *([(name, tile._tile)] if tile._tile is not None else []),
                hint=f"transpose {limit} rows and columns at a time",
                final=True,
            )
    if not vector and tile.buffer is PSUM:
        tile = produce(session, "tensor_copy", tile.shape, tile.dtype, [tile], {})
    from tilewright.tile.attrs import engine as engines

    attrs = {"engine": engines.vector if vector else engines.tensor}
    boxes = None if mask is None else regions(mask, tile.shape)
    memory = SBUF if vector else PSUM
    if boxes is None:
        return produce(session, "nc_transpose", (columns, rows), tile.dtype, [tile], attrs, memory=memory)
    made = new_tile(session, (columns, rows), tile.dtype, memory)
    record = TABLE["nc_transpose"]
    for box in boxes:
        session.issue(record, [made.inside(box[::-1]), tile.inside(box)], attributes(record, attrs))
    made._boxes = [box[::-1] for box in boxes]
    return made


def _transposed_in_pieces(session: LegacySession, tile: LegacyTensor, limit: int) -> LegacyTensor:
    """R-legacy-21: more than the Vector engine transposes at a time, which the old compiler takes all the same."""
    from tilewright.tile.attrs import engine as engines

    violate(
        "R-legacy-21",
        f"nc_transpose: data{shown(tile.shape)}; the Vector engine transposes at most [{limit}, {limit}]",
        code="err_size_of_dimension_exceed_arch_limit",
        hint="transpose it in pieces, or leave engine out: the Tensor engine takes more",
        operands=[tile._view.note("data")],
    )
    rows, columns = tile.shape[0], tile.size // tile.shape[0]
    flat = tile.reshape((rows, columns))
    made = new_tile(session, (columns, rows), tile.dtype)
    record = TABLE["nc_transpose"]
    attrs = attributes(record, {"engine": engines.vector})
    for row in range(0, rows, limit):
        for column in range(0, columns, limit):
            box = ((row, min(row + limit, rows)), (column, min(column + limit, columns)))
            session.issue(record, [made.inside(box[::-1]), flat.inside(box)], attrs)
    return made


def tensor_copy_dynamic_src(
    src: Any, *, mask: Any = None, dtype: Any = None, engine: Any = None, **kwargs: Any
) -> LegacyTensor:
    """A copy of a part of a tile whose place a tile of one index says."""
    session = legacy_session("nisa.tensor_copy_dynamic_src")
    tile = tile_of("tensor_copy_dynamic_src", "src", src)
    result = tile.dtype if dtype is None else as_dtype(dtype)
    return produce(
        session, "tensor_copy", tile.shape, result, [tile], _engine(engine), mask=mask, given=dtype is not None
    )


def tensor_copy_dynamic_dst(
    *, dst: Any, src: Any, mask: Any = None, dtype: Any = None, engine: Any = None, **kwargs: Any
) -> None:
    """A copy to a part of a tile whose place a tile of one index says."""
    session = legacy_session("nisa.tensor_copy_dynamic_dst")
    target, source = tile_of("tensor_copy_dynamic_dst", "dst", dst), tile_of("tensor_copy_dynamic_dst", "src", src)
    record = TABLE["tensor_copy"]
    session.issue(record, [target._view, source._view], attributes(record, _engine(engine)))


def builtin_custom_op(*args: Any, **kwargs: Any) -> Any:
    """Custom C++ operators are not simulated."""
    raise fail(
        "E501",
        "nisa.builtin_custom_op runs a compiled library, which is not simulated",
        hint="write it with instructions of nki.isa",
    )

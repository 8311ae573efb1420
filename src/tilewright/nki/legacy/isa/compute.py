"""nki.isa of the legacy dialect: compute instructions that return their result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.dtypes import as_dtype, float32
from tilewright.nki.legacy.allocation import require_bias
from tilewright.nki.legacy.faults import fault, shown
from tilewright.nki.legacy.operands import operand_of, partition_mismatch, stretched, tile_of, wanted
from tilewright.nki.legacy.produce import number_or_tile, operator_of, produce, produce_boxes, regions
from tilewright.nki.legacy.session import LegacySession, legacy_session
from tilewright.nki.legacy.tensor import LegacyTensor, adopt, new_tile
from tilewright.rules import violate
from tilewright.tile.derive import whole_numbers
from tilewright.tile.memory import PSUM
from tilewright.tile.record import TABLE
from tilewright.tile.view import View

_BIAS_TYPES = ("float32", "float16", "bfloat16")


def _bias_and_scale(api: str, data: LegacyTensor, bias: Any, scale: Any) -> tuple[Any, Any]:
    """Both as operands of activation, checked as the error reference says."""
    if bias is not None:
        bias = operand_of(api, "bias", bias)
        if isinstance(bias, LegacyTensor) and bias.dtype not in _BIAS_TYPES:
            assert bias._tile is not None
            fault(
                "err_activation_bias_invalid_type",
                f"Bias parameter of '{api}' must be a vector of type float32, float16, or bfloat16, but is "
                f"{bias.dtype}{shown(bias.shape)}",
                ("bias", bias._tile),
                hint="make the bias a float32 tile",
            )
            bias = None
    scale = operand_of(api, "scale", scale)
    if isinstance(scale, LegacyTensor):
        assert scale._tile is not None
        if scale.shape[0] != data.shape[0] or scale.size != scale.shape[0]:
            fault(
                "err_activation_scale_scalar_or_vector",
                f"Scale parameter of '{api}' must be either a scalar value or a 1D vector spanning the partition "
                f"dimension, but is scale{shown(scale.shape)} for data{shown(data.shape)}",
                ("scale", scale._tile),
                ("data", _view(data)),
                hint=f"give it shape {shown((data.shape[0], 1))}",
            )
            scale = 1.0
        elif scale.dtype != float32:
            fault(
                "err_activation_scale_invalid_type",
                f"Scale parameter of '{api}' must be a scalar or vector of type float32, but is "
                f"{scale.dtype}{shown(scale.shape)}",
                ("scale", scale._tile),
                hint="make the scale a float32 tile, or a number",
            )
            scale = 1.0
    if isinstance(bias, LegacyTensor):
        partition_mismatch(api, ("data", data), ("bias", bias))
    return _flat(bias), _flat(scale)


def _view(tile: LegacyTensor) -> View:
    # One with block dims says itself that it is no tile.
    return tile._tile if tile._tile is not None else tile._view


def _flat(column: Any) -> Any:
    """(P, 1, 1) as (P, 1)."""
    if isinstance(column, LegacyTensor) and column.ndim > 2 and column.size == column.shape[0]:
        return column.reshape((column.shape[0], 1))
    return column


def _bias_tile(session: LegacySession, bias: Any, data: LegacyTensor) -> Any:
    """A bias that is a number as the (P, 1) tile that older generations take."""
    if bias is None or isinstance(bias, LegacyTensor) or session.target["features.activation_scalar_bias"]:
        return bias
    tile = new_tile(session, (data.shape[0], 1), float32)
    record = TABLE["memset"]
    session.issue(record, [tile._tile], record.attributes({"value": float(bias)}))
    return tile


def activation(
    op: Any,
    data: Any,
    *,
    bias: Any = None,
    scale: Any = 1.0,
    reduce_op: Any = None,
    reduce_res: Any = None,
    reduce_cmd: Any = None,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> LegacyTensor:
    """op(data * scale + bias) on the Scalar engine."""
    session = legacy_session("nisa.activation")
    tile = tile_of("activation", "data", data)
    if bias is None:
        require_bias(session, "activation")
    bias, scale = _bias_and_scale("activation", tile, bias, scale)
    bias = _bias_tile(session, bias, tile)
    attrs: dict[str, Any] = {"op": operator_of(op)}
    if reduce_op is not None:
        attrs["reduce_op"] = operator_of(reduce_op)
    if reduce_cmd is not None:
        attrs["reduce_cmd"] = reduce_cmd
    result = tile.dtype if dtype is None else as_dtype(dtype)
    operands = [tile, bias, scale, reduce_res]
    return produce(session, "activation", tile.shape, result, operands, attrs, mask=mask, given=dtype is not None)


def activation_reduce(
    op: Any,
    data: Any,
    *,
    reduce_op: Any,
    reduce_res: Any,
    bias: Any = None,
    scale: Any = 1.0,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> LegacyTensor:
    """op(data * scale + bias), and its reduction over the free dims into reduce_res."""
    session = legacy_session("nisa.activation_reduce")
    tile = tile_of("activation_reduce", "data", data)
    if bias is None:
        require_bias(session, "activation_reduce")
    bias, scale = _bias_and_scale("activation_reduce", tile, bias, scale)
    bias = _bias_tile(session, bias, tile)
    attrs = {"op": operator_of(op), "reduce_op": operator_of(reduce_op)}
    result = tile.dtype if dtype is None else as_dtype(dtype)
    operands = [tile, bias, scale, reduce_res]
    return produce(
        session, "activation_reduce", tile.shape, result, operands, attrs, mask=mask, given=dtype is not None
    )


def tensor_tensor(
    data1: Any, data2: Any, op: Any, *, dtype: Any = None, mask: Any = None, engine: Any = None, **kwargs: Any
) -> LegacyTensor:
    """op(data1, data2), element by element."""
    session = legacy_session("nisa.tensor_tensor")
    a, b = tile_of("tensor_tensor", "data1", data1), tile_of("tensor_tensor", "data2", data2)
    partition_mismatch("tensor_tensor", ("data1", a), ("data2", b))
    attrs = {"op": operator_of(op)} | _engine(engine)
    shape = a.shape if a.size >= b.size else b.shape
    a, b = _repeated(a, b), _repeated(b, a)
    return produce(
        session, "tensor_tensor", shape, wanted(dtype, a, b), [a, b], attrs, mask=mask, given=dtype is not None
    )


def _repeated(tile: LegacyTensor, other: LegacyTensor) -> LegacyTensor:
    """R-legacy-20: one element per partition beside many, which the old compiler repeats."""
    if tile.size != tile.shape[0] or other.size == other.shape[0]:
        return tile
    violate(
        "R-legacy-20",
        f"tensor_tensor: {shown(tile.shape)} has 1 element per partition, {shown(other.shape)} has "
        f"{other.size // other.shape[0]}",
        hint="nisa.tensor_scalar takes a (P, 1) column, and nl.add and the like broadcast",
        operands=[_view(tile).note("narrow"), _view(other).note("wide")],
    )
    column = tile.reshape((tile.shape[0], *[1] * (other.ndim - 1)))
    return stretched(column, tuple(other.shape))


def _engine(engine: Any) -> dict[str, Any]:
    """The engine, where one is chosen; the old compiler takes numbers too (R-legacy-08)."""
    from tilewright.tile.attrs import engine as engines

    if engine is None or engine == 0 or engine is engines.unknown:
        return {}
    return {"engine": engine if isinstance(engine, engines) else engines(int(engine))}


def tensor_scalar(
    data: Any,
    op0: Any,
    operand0: Any,
    reverse0: bool = False,
    op1: Any = None,
    operand1: Any = None,
    reverse1: bool = False,
    *,
    dtype: Any = None,
    mask: Any = None,
    engine: Any = None,
    **kwargs: Any,
) -> LegacyTensor:
    """op1(op0(data, operand0), operand1) with numbers or one value per partition."""
    session = legacy_session("nisa.tensor_scalar")
    tile = tile_of("tensor_scalar", "data", data)
    first = operand_of("tensor_scalar", "operand0", operand0)
    second = None if operand1 is None else operand_of("tensor_scalar", "operand1", operand1)
    partition_mismatch("tensor_scalar", ("data", tile), ("operand0", first), ("operand1", second))
    attrs = {"op0": operator_of(op0), "reverse0": bool(reverse0), "reverse1": bool(reverse1)} | _engine(engine)
    if op1 is not None:
        attrs["op1"] = operator_of(op1)
    result = tile.dtype if dtype is None else as_dtype(dtype)
    operands = [tile, _wide(session, _flat(first)), _wide(session, _flat(second))]
    return produce(session, "tensor_scalar", tile.shape, result, operands, attrs, mask=mask, given=dtype is not None)


def _wide(session: LegacySession, column: Any) -> Any:
    """A value per partition in float32, which is what the Vector engine takes beside a tile."""
    if not isinstance(column, LegacyTensor) or not column.dtype.is_float or column.dtype == float32:
        return column
    return produce(session, "tensor_copy", column.shape, float32, [column], {})


def tensor_scalar_reduce(
    *,
    data: Any,
    op0: Any,
    operand0: Any,
    reduce_op: Any,
    reduce_res: Any,
    reverse0: bool = False,
    dtype: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> LegacyTensor:
    """op0(data, operand0), and its reduction over the free dims into reduce_res."""
    session = legacy_session("nisa.tensor_scalar_reduce")
    tile = tile_of("tensor_scalar_reduce", "data", data)
    first = operand_of("tensor_scalar_reduce", "operand0", operand0)
    attrs = {"op0": operator_of(op0), "reduce_op": operator_of(reduce_op), "reverse0": bool(reverse0)}
    result = tile.dtype if dtype is None else as_dtype(dtype)
    operands = [tile, _wide(session, _flat(first)), None, reduce_res]
    return produce(
        session, "tensor_scalar_reduce", tile.shape, result, operands, attrs, mask=mask, given=dtype is not None
    )


def scalar_tensor_tensor(
    *,
    data: Any,
    op0: Any,
    operand0: Any,
    op1: Any,
    operand1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    dtype: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> LegacyTensor:
    """op1(op0(data, operand0), operand1) with a second tile (R-legacy-06: tiles of two dims)."""
    session = legacy_session("nisa.scalar_tensor_tensor")
    tile = tile_of("scalar_tensor_tensor", "data", data)
    first = operand_of("scalar_tensor_tensor", "operand0", operand0)
    other = tile_of("scalar_tensor_tensor", "operand1", operand1)
    if tile.ndim != 2:
        violate(
            "R-legacy-06",
            f"scalar_tensor_tensor: data{shown(tile.shape)} has {tile.ndim} dims; it must have 2",
            hint="reshape it to (partitions, elements)",
            operands=[_view(tile).note("data")],
        )
    partition_mismatch("scalar_tensor_tensor", ("data", tile), ("operand0", first), ("operand1", other))
    attrs = {
        "op0": operator_of(op0),
        "op1": operator_of(op1),
        "reverse0": bool(reverse0),
        "reverse1": bool(reverse1),
    }
    operands = [tile, _wide(session, _flat(first)), other]
    result = wanted(dtype, tile, other)
    return produce(
        session, "scalar_tensor_tensor", tile.shape, result, operands, attrs, mask=mask, given=dtype is not None
    )


def tensor_reduce(
    op: Any,
    data: Any,
    axis: Any,
    *,
    mask: Any = None,
    dtype: Any = None,
    negate: bool = False,
    keepdims: bool = False,
    **kwargs: Any,
) -> LegacyTensor:
    """Reduce the last free dims (R-legacy-04)."""
    session = legacy_session("nisa.tensor_reduce")
    tile = tile_of("tensor_reduce", "data", data)
    result = tile.dtype if dtype is None else as_dtype(dtype)
    return reduced(session, "tensor_reduce", tile, op, axis, result, mask, dtype is not None, keepdims, negate)


def reduced(
    session: LegacySession,
    api: str,
    tile: LegacyTensor,
    op: Any,
    axis: Any,
    result: Any,
    mask: Any,
    given: bool,
    keepdims: bool = False,
    negate: bool = False,
) -> LegacyTensor:
    """A reduction over free axes; the access pattern puts those that are not the last ones there."""
    axes = reduction_axes(session, api, tile, axis)
    kept = [dim for dim in range(tile.ndim) if dim not in axes]
    shape = (
        [1 if dim in axes else size for dim, size in enumerate(tile.shape)]
        if keepdims
        else [tile.shape[d] for d in kept]
    )
    if len(shape) < 2:
        shape = [*shape, 1]
    data, last, order = tile, axes, [*range(tile.ndim)]
    boxes = None
    if axes != _last(tile, axes):
        boxes = None if mask is None else regions(mask, tile.shape)
        data, last, order = _moved_last(tile, kept, axes)
    attrs = {"op": operator_of(op), "axis": last, "negate": bool(negate)}
    if boxes is not None:
        return produce_boxes(session, "tensor_reduce", shape, result, data, attrs, boxes, (order, kept), given)
    return produce(
        session, "tensor_reduce", shape, result, [data], attrs, mask=mask, given=given, over=tile.shape, axes=kept
    )


def _moved_last(
    tile: LegacyTensor, kept: Sequence[int], axes: Sequence[int]
) -> tuple[LegacyTensor, tuple[int, ...], list[int]]:
    """The tile with the reduced dims last, which these are, and the order of its dims; dims of size 1 take no room in
    an access pattern."""
    wide = [dim for dim in axes if tile.shape[dim] > 1] or axes[-1:]
    order = [*(dim for dim in kept if dim == 0 or tile.shape[dim] > 1), *wide]
    dropped = [dim for dim in range(tile.ndim) if dim not in order]
    made = adopt(tile.permute((*order, *dropped)))
    for _ in dropped:
        made = adopt(made.squeeze_dim(made.ndim - 1))
    return made, _last(made, wide), order


def _last(tile: LegacyTensor, axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(range(tile.ndim - len(axes), tile.ndim))


def reduction_axes(session: LegacySession, api: str, tile: LegacyTensor, axis: Any) -> tuple[int, ...]:
    """R-legacy-04: consecutive free axes up to the last one."""
    given = whole_numbers(axis, f"{api}: axis", "R-legacy-04")
    if any(not -tile.ndim <= each < tile.ndim for each in given):
        violate(
            "R-legacy-04",
            f"{api}: axis={axis} of a tile of {tile.ndim} dims",
            hint="axis counts from 0, or from the end with -1",
            operands=[_view(tile).note("data")],
            final=True,
        )
    axes = tuple(sorted({each % tile.ndim for each in given}))
    if not axes or axes != _last(tile, axes) or 0 in axes:
        violate(
            "R-legacy-04",
            f"{api}: axis={axis} of a tile of {tile.ndim} dims; reduced ones are consecutive, free and the last",
            hint="reduce the last axes; transpose, or use nisa.tensor_partition_reduce, for partitions",
            operands=[_view(tile).note("data")],
            final=not axes or 0 in axes,
        )
    return axes


def tensor_partition_reduce(op: Any, data: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> LegacyTensor:
    """Reduce the partitions, on GpSimd."""
    session = legacy_session("nisa.tensor_partition_reduce")
    tile = in_sbuf(session, tile_of("tensor_partition_reduce", "data", data))
    result = tile.dtype if dtype is None else as_dtype(dtype)
    shape = (1, *tile.shape[1:])
    attrs = {"op": operator_of(op)}
    return produce(session, "tensor_partition_reduce", shape, result, [tile], attrs, given=dtype is not None)


def in_sbuf(session: LegacySession, tile: LegacyTensor) -> LegacyTensor:
    """A tile that GpSimd reaches: PSUM is copied first."""
    if tile.buffer is not PSUM:
        return tile
    return produce(session, "tensor_copy", tile.shape, tile.dtype, [tile], {})


def tensor_tensor_scan(
    data0: Any,
    data1: Any,
    initial: Any,
    op0: Any,
    op1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    *,
    dtype: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> LegacyTensor:
    """result[i] = op1(op0(data0[i], result[i - 1]), data1[i])."""
    session = legacy_session("nisa.tensor_tensor_scan")
    a, b = tile_of("tensor_tensor_scan", "data0", data0), tile_of("tensor_tensor_scan", "data1", data1)
    partition_mismatch("tensor_tensor_scan", ("data0", a), ("data1", b))
    attrs = {
        "op0": operator_of(op0),
        "op1": operator_of(op1),
        "reverse0": bool(reverse0),
        "reverse1": bool(reverse1),
    }
    start = operand_of("tensor_tensor_scan", "initial", initial)
    start = _flat(start) if isinstance(start, LegacyTensor) else float(start)
    operands = [a, b, start]
    return produce(
        session, "tensor_tensor_scan", a.shape, wanted(dtype, a, b), operands, attrs, mask=mask, given=dtype is not None
    )


def reciprocal(data: Any, *, dtype: Any = None, mask: Any = None, engine: Any = None, **kwargs: Any) -> LegacyTensor:
    """1 / data, on the Vector engine, or on the Scalar engine where that is asked for (R-legacy-08)."""
    session = legacy_session("nisa.reciprocal")
    tile = tile_of("reciprocal", "data", data)
    result = tile.dtype if dtype is None else as_dtype(dtype)
    chosen = _engine(engine).get("engine")
    if chosen is not None and chosen.name not in ("vector", "scalar"):
        violate("R-legacy-08", f"reciprocal cannot run on the {chosen.name} engine", hint="leave engine out")
    if chosen is not None and chosen.name == "scalar":
        return activation(_RECIPROCAL, tile, dtype=result, mask=mask)
    return produce(session, "reciprocal", tile.shape, result, [tile], {}, mask=mask, given=dtype is not None)


def _RECIPROCAL() -> None: ...


_RECIPROCAL.__name__ = "reciprocal"


def bn_stats(data: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> LegacyTensor:
    """Counts, means and variances of even and odd elements."""
    session = legacy_session("nisa.bn_stats")
    tile = tile_of("bn_stats", "data", data)
    boxes = None if mask is None else regions(mask, tile.shape)
    if boxes and any(box[1:] != tuple((0, size) for size in tile.shape[1:]) for box in boxes):
        violate(
            "R-legacy-02",
            "bn_stats: the mask involves the dimension that is reduced",
            hint="mask partitions only, and slice the free dimension",
            operands=[_view(tile).note("data")],
        )
    return _statistics(session, "bn_stats", tile, 6, dtype, mask)


def bn_aggr(data: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> LegacyTensor:
    """Mean and variance from statistics of bn_stats."""
    session = legacy_session("nisa.bn_aggr")
    return _statistics(session, "bn_aggr", tile_of("bn_aggr", "data", data), 2, dtype, mask)


def _statistics(
    session: LegacySession, name: str, tile: LegacyTensor, count: int, dtype: Any, mask: Any
) -> LegacyTensor:
    result = tile.dtype if dtype is None else as_dtype(dtype)
    return produce(
        session,
        name,
        (tile.shape[0], count),
        result,
        [tile],
        {},
        mask=mask,
        given=dtype is not None,
        over=tile.shape,
        axes=[0],
    )


def tensor_copy(src: Any, *, mask: Any = None, dtype: Any = None, engine: Any = None, **kwargs: Any) -> LegacyTensor:
    """A copy of a tile."""
    session = legacy_session("nisa.tensor_copy")
    tile = tile_of("tensor_copy", "src", src)
    result = tile.dtype if dtype is None else as_dtype(dtype)
    return produce(
        session, "tensor_copy", tile.shape, result, [tile], _engine(engine), mask=mask, given=dtype is not None
    )


def memset(
    shape: Sequence[int], value: Any, dtype: Any, *, mask: Any = None, engine: Any = None, **kwargs: Any
) -> LegacyTensor:
    """A new tile of a number (R-legacy-08: on the Vector engine or GpSimd)."""
    session = legacy_session("nisa.memset")
    kind = as_dtype(dtype)
    number = number_or_tile(value)
    number = int(number) if kind.is_integer else float(number)
    sizes = whole_numbers(shape, "memset: size", "R-tensor-04")
    _require_partitions(session, sizes)
    return produce(session, "memset", sizes, kind, [], {"value": number} | _engine(engine), mask=mask, given=False)


def _require_partitions(session: LegacySession, shape: Sequence[int]) -> None:
    limit = session.target["limits.partitions"]
    if shape[0] > limit:
        fault(
            "err_num_partition_exceed_arch_limit",
            f"number of partitions {shape[0]} exceed architecture limitation of {limit}: tile{shown(shape)}",
            hint=f"tile the partition dimension by {limit} (nl.tile_size.pmax)",
            final=True,
        )


def dropout(data: Any, prob: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> LegacyTensor:
    """data with elements set to 0 with probability `prob`."""
    session = legacy_session("nisa.dropout")
    tile = tile_of("dropout", "data", data)
    rate = _flat(operand_of("dropout", "prob", prob))
    made = produce(session, "dropout", tile.shape, tile.dtype, [tile, rate], {}, mask=mask)
    if dtype is None or as_dtype(dtype) == tile.dtype:
        return made
    return produce(session, "tensor_copy", tile.shape, as_dtype(dtype), [made], {}, mask=mask, given=True)

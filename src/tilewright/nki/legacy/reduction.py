"""Reductions of the legacy nl, matmul, transpose, where, softmax and other functions of whole tiles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod as product_of
from typing import Any

from tilewright.dtypes import as_dtype, float32
from tilewright.errors import TileValueError, fail
from tilewright.nki.language import matrix as current_matrix
from tilewright.nki.language import reductions as current
from tilewright.nki.legacy.allocation import refuse_transpose
from tilewright.nki.legacy.elementwise import LegacyOperator, binary, in_parts
from tilewright.nki.legacy.isa.compute import reduced, reduction_axes
from tilewright.nki.legacy.isa.movement import nc_matmul, refuse_rank, result_in_sbuf, transposed
from tilewright.nki.legacy.isa.selection import predicate_tile
from tilewright.nki.legacy.mask import Box
from tilewright.nki.legacy.operands import common_shape, operand_of, stretched, tile_of, wanted
from tilewright.nki.legacy.produce import produce, regions
from tilewright.nki.legacy.session import legacy_session
from tilewright.nki.legacy.tensor import LegacyTensor, adopt, new_tile
from tilewright.rules import violate
from tilewright.tile.memory import SBUF


def _reduction(name: str, op: str, doc: str) -> LegacyOperator:
    def function(
        x: Any, axis: Any, *, dtype: Any = None, mask: Any = None, keepdims: bool = False, **kwargs: Any
    ) -> LegacyTensor:
        session = legacy_session(f"nl.{name}")
        tile = tile_of(name, "x", x)
        result = tile.dtype if dtype is None else as_dtype(dtype)
        return reduced(session, name, tile, _Named(op), axis, result, mask, dtype is not None, keepdims)

    function.__doc__ = doc
    return LegacyOperator(function, name, op)


class _Named:
    """An operator by name."""

    def __init__(self, name: str) -> None:
        self.__name__ = name


sum = _reduction("sum", "add", "sum over the last free dims")
max = _reduction("max", "maximum", "maximum over the last free dims")
min = _reduction("min", "minimum", "minimum over the last free dims")
prod = _reduction("prod", "multiply", "product over the last free dims")


def all(x: Any, axis: Any, *, dtype: Any = bool, mask: Any = None, **kwargs: Any) -> LegacyTensor:
    """1 where no element over the last free dims is 0."""
    session = legacy_session("nl.all")
    return reduced(session, "all", tile_of("all", "x", x), _Named("logical_and"), axis, as_dtype(dtype), mask, True)


def mean(
    x: Any, axis: Any, *, dtype: Any = None, mask: Any = None, keepdims: bool = False, **kwargs: Any
) -> LegacyTensor:
    """Mean over the last free dims."""
    session = legacy_session("nl.mean")
    tile = tile_of("mean", "x", x)
    axes = reduction_axes(session, "mean", tile, axis)
    count = product_of(tile.shape[dim] for dim in axes)
    total = reduced(session, "mean", tile, _Named("add"), axis, float32, mask, False, keepdims)
    boxes = total._boxes
    made = binary("mean", "multiply", total, 1.0 / count, tile.dtype if dtype is None else dtype, None)
    made._boxes = boxes
    return made


def _adopted(
    name: str, inner: Any, *tiles: Any, dtype: Any, mask: Any, kept: Any = None, **details: Any
) -> LegacyTensor:
    """A function of the current dialect on the rows of tiles; `kept`: the dims that its result has, others are 1."""
    session, first = legacy_session(f"nl.{name}"), tiles[0]
    boxes = None if mask is None else regions(mask, first.shape)
    if boxes is None:
        return adopt(inner(*tiles, dtype=dtype, **details))
    _refuse_split_rows(name, boxes)
    shape = [size if kept is None or dim in kept else 1 for dim, size in enumerate(first.shape)]
    whole = new_tile(session, shape, wanted(dtype, first))
    return in_parts(whole, tiles, boxes, lambda *parts: inner(*parts, dtype=dtype, **details))


def _refuse_split_rows(name: str, boxes: Sequence[Box]) -> None:
    """Functions of whole rows need what a mask leaves of a row in one piece."""
    rows = sorted(box[0] for box in boxes)
    if any(after[0] < before[1] for before, after in pairwise(rows)):
        raise fail(
            "E108",
            f"mask: nl.{name} is a function of rows, and the mask leaves several pieces of a row",
            hint="mask the load instead, and give what it leaves out a value that changes no result",
            error=TileValueError,
        )


def var(x: Any, axis: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> LegacyTensor:
    """Variance over the last free dims."""
    tile = tile_of("var", "x", x)
    axes = reduction_axes(legacy_session("nl.var"), "var", tile, axis)
    dims = [dim for dim in range(tile.ndim) if dim not in axes]
    made = _adopted("var", current.var, tile, dtype=dtype, mask=mask, kept=dims, axis=axis)
    boxes, kept = made._boxes, [tile.shape[dim] for dim in dims]
    made = made.reshape(tuple(kept if len(kept) > 1 else [*kept, 1]))
    made._boxes = None if boxes is None else [tuple(box[dim] for dim in dims) for box in boxes]
    if made._boxes is not None and len(kept) == 1:
        made._boxes = [(*box, (0, 1)) for box in made._boxes]
    return made


def softmax(
    x: Any, axis: Any, *, dtype: Any = None, compute_dtype: Any = None, mask: Any = None, **kwargs: Any
) -> LegacyTensor:
    """Softmax over the last free dims."""
    _refuse_implicit("softmax")
    return _adopted("softmax", current.softmax, tile_of("softmax", "x", x), dtype=dtype, mask=mask, axis=axis)


def _refuse_implicit(api: str) -> None:
    """R-legacy-14: functions that need tiles of their own have no place in kernels that place all tiles."""
    session = legacy_session(f"nl.{api}")
    if session.allocated:
        violate(
            "R-legacy-14",
            f"nl.{api} makes tiles of its own, which an allocated kernel has no place for",
            hint="write it with nisa calls into tiles that the kernel allocates",
        )


def rms_norm(
    x: Any,
    w: Any,
    axis: Any,
    n: int,
    epsilon: float = 1e-06,
    *,
    dtype: Any = None,
    compute_dtype: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> LegacyTensor:
    """x / sqrt(mean of x * x + epsilon) * w over the last free dims."""
    _refuse_implicit("rms_norm")
    tile, weight = tile_of("rms_norm", "x", x), tile_of("rms_norm", "w", w)
    weight = stretched(weight, tuple(tile.shape))
    details = {"axis": axis, "n": int(n), "epsilon": epsilon, "compute_dtype": compute_dtype}
    return _adopted("rms_norm", current.rms_norm, tile, weight, dtype=dtype, mask=mask, **details)


def matmul(x: Any, y: Any, *, transpose_x: bool = False, mask: Any = None, **kwargs: Any) -> LegacyTensor:
    """x @ y, or x.T @ y with transpose_x=True, in PSUM."""
    session = legacy_session("nl.matmul")
    left = tile_of("matmul", "x", result_in_sbuf(session, x), (SBUF,))
    right = tile_of("matmul", "y", result_in_sbuf(session, y), (SBUF,))
    if not transpose_x:
        refuse_transpose(session, f"nl.matmul of x{_shape(left)} without transpose_x=True")
        turned = transposed(session, left, False)
        left = produce(session, "tensor_copy", turned.shape, turned.dtype, [turned], {})
    return nc_matmul(left, right, mask=mask)


def _shape(tile: LegacyTensor) -> str:
    return str(list(tile.shape))


def transpose(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> LegacyTensor:
    """The transpose of a 2-D tile."""
    session = legacy_session("nl.transpose")
    tile = tile_of("transpose", "x", x)
    if tile.ndim != 2:
        refuse_rank("transpose", "x", tile)
    refuse_transpose(session, f"nl.transpose of x{_shape(tile)} with TensorEngine")
    made = transposed(session, tile, False, mask, api="transpose")
    if dtype is None or as_dtype(dtype) == tile.dtype:
        return made
    return produce(session, "tensor_copy", made.shape, as_dtype(dtype), [made], {}, given=True)


def where(condition: Any, x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> LegacyTensor:
    """x where the condition is not 0, else y."""
    session = legacy_session("nl.where")
    chosen = tile_of("where", "condition", condition)
    first, second = operand_of("where", "x", x), operand_of("where", "y", y)
    shape = common_shape(
        "nl.where", *[each.shape for each in (chosen, first, second) if isinstance(each, LegacyTensor)]
    )
    result = wanted(dtype, *[each for each in (first, second) if isinstance(each, LegacyTensor)] or [first])
    chosen = stretched(predicate_tile(session, chosen), shape)
    first = _typed(session, first, shape, result)
    if isinstance(second, LegacyTensor):
        made = produce(session, "tensor_copy", shape, result, [stretched(second, shape)], {}, mask=mask)
    else:
        value = int(second) if result.is_integer else float(second)
        made = produce(session, "memset", shape, result, [], {"value": value}, mask=mask)
    from tilewright.nki.legacy.isa.selection import into

    boxes = made._boxes
    into(session, "tensor_copy_predicated", [made, first, chosen], {}, mask)
    made._boxes = boxes
    return made


def _typed(session: Any, value: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """What is copied where a condition holds: a tile of the result's type."""
    if not isinstance(value, LegacyTensor):
        number = int(value) if dtype.is_integer else float(value)
        return produce(session, "memset", shape, dtype, [], {"value": number})
    tile = stretched(value, shape)
    return tile if tile.dtype == dtype else produce(session, "tensor_copy", shape, dtype, [tile], {})


def expand_dims(data: Any, axis: int) -> Any:
    """A view with a dim of size 1 at `axis`; also of index tensors."""
    return data.expand_dims(axis)


def broadcast_to(src: Any, *, shape: Any, **kwargs: Any) -> Any:
    """src repeated up to `shape`."""
    return src.broadcast_to(shape)


def gather_flattened(data: Any, indices: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> LegacyTensor:
    """result[p, i] = data[p, indices[p, i]]."""
    legacy_session("nl.gather_flattened")
    source, chosen = tile_of("gather_flattened", "data", data), tile_of("gather_flattened", "indices", indices)
    return adopt(current_matrix.gather_flattened(source, chosen, dtype=dtype))

"""Matrix products, transposes, shapes, selection and gathering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.dtypes import as_dtype, uint8, uint32
from tilewright.errors import TileTypeError, fail
from tilewright.nki.context import require_session
from tilewright.nki.language.checks import require_boolean
from tilewright.nki.language.issue import issue, new_tile
from tilewright.nki.language.operands import operand_of, result_dtype, same_shape, stretch, tile_of
from tilewright.nki.tensor import NkiTensor
from tilewright.rules import violate
from tilewright.tile.memory import PSUM, SBUF


def matmul(x: Any, y: Any, transpose_x: bool = False) -> NkiTensor:
    """x @ y, or x.T @ y with transpose_x=True, as a float32 tile in PSUM."""
    left, right = tile_of("matmul", "x", x, "R-nl-12"), tile_of("matmul", "y", y, "R-nl-12")
    _check_matmul(left, right, transpose_x)
    if not transpose_x:
        violate(
            "R-nl-04",
            "nl.matmul without transpose_x=True is not supported",
            hint="load x transposed (nl.load_transpose2d) and pass transpose_x=True",
        )
        turned = new_tile(left.shape[::-1], left.dtype)
        issue("tensor_copy", turned, transpose(left))
        left = turned
    dst = new_tile((left.shape[1], right.shape[1]), memory=PSUM)
    issue("nc_matmul", dst, left, right)
    return dst


def _check_matmul(x: NkiTensor, y: NkiTensor, transpose_x: bool) -> None:
    """R-nl-12: memories, ranks, sizes and the contracted dim."""
    target = require_session("nl.matmul").target
    rows = target["limits.matmul_contraction_max"]
    limits = {
        "x": (rows, target["limits.matmul_stationary_free_max"]),
        "y": (rows, target["memory.psum_bank_bytes"] // 4),
    }
    notes = [x._view.note("x"), y._view.note("y")]
    message = None
    for name, tile in (("x", x), ("y", y)):
        if tile.buffer is not SBUF:
            message = f"{name} must be in sbuf, but is in {tile.buffer.value}"
        elif tile.ndim != 2:
            message = f"{name} has {tile.ndim} dims, not 2"
        elif tile.shape[0] > limits[name][0] or tile.shape[1] > limits[name][1]:
            message = f"{name} of shape {tile.shape} exceeds {limits[name]}"
        if message is not None:
            violate(
                "R-nl-12",
                f"nl.matmul: {message}",
                operands=notes,
                final=True,
                hint="load it to sbuf as a 2-D tile, and multiply tiles of that size",
            )
    contracted = x.shape[0] if transpose_x else x.shape[1]
    if contracted != y.shape[0]:
        message = f"x has {contracted} along the contracted dim, but y has {y.shape[0]} partitions"
        violate(
            "R-nl-12",
            f"nl.matmul: {message}",
            operands=notes,
            final=True,
            hint="slice them to equal sizes along the contracted dim",
        )


def transpose(x: Any, dtype: Any = None) -> NkiTensor:
    """The 2-D transpose of a tile, in PSUM."""
    data = tile_of("transpose", "x", x)
    limit = require_session("nl.transpose").target["limits.transpose_tensor_max"]
    if data.ndim != 2:
        violate(
            "R-nl-13",
            f"nl.transpose of a {data.ndim}-D tile",
            operands=[data._view.note("x")],
            final=True,
            hint="reshape it to (partitions, elements) first",
        )
    if data.shape[1] > limit:
        violate(
            "R-err-size_of_dimension_exceed_arch_limit-01",
            f"nl.transpose: the free dim is {data.shape[1]}, above {limit}",
            hint=f"transpose {limit} columns at a time",
            operands=[data._view.note("x")],
            final=True,
        )
    turned = _transposed_tile(data)
    issue("nc_transpose", turned, data)
    wanted = result_dtype("transpose", dtype, data)
    if wanted == data.dtype:
        return turned
    dst = new_tile(turned.shape, wanted, PSUM)
    issue("tensor_copy", dst, turned)
    return dst


def _transposed_tile(x: NkiTensor) -> NkiTensor:
    """Where a transpose of x goes: float8 is written as every second byte (R-nc_transpose-06)."""
    columns, rows = x.shape
    wide = x.dtype.startswith("float8") and require_session("nl.transpose").target["features.transpose_float8_as_16bit"]
    return new_tile((rows, 2 * columns), x.dtype, PSUM)[:, ::2] if wide else new_tile((rows, columns), x.dtype, PSUM)


def expand_dims(x: Any, axis: int) -> NkiTensor:
    """A view of x with a dim of size 1 at `axis`."""
    data = tile_of("expand_dims", "x", x)
    return data.expand_dim(axis)


def broadcast_to(x: Any, shape: Sequence[int], dtype: Any = None) -> NkiTensor:
    """x with dims of size 1 repeated up to `shape`, as a new tile in SBUF; x itself when nothing changes."""
    data = tile_of("broadcast_to", "x", x)
    sizes: tuple[Any, ...] = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    wanted = result_dtype("broadcast_to", dtype, data)
    fits = len(sizes) == data.ndim and not [
        1 for old, new in zip(data.shape, sizes, strict=True) if old not in (1, new)
    ]
    if not fits:
        violate(
            "R-nl-14",
            f"nl.broadcast_to: {data.shape} to {sizes}; ranks are equal, and each dim is equal or 1",
            operands=[data._view.note("x")],
            final=True,
            hint="add dims with expand_dim first, and slice dims that are too long",
        )
    if sizes == data.shape and wanted == data.dtype:
        return data
    view = stretch(data, sizes)
    if view is not data and view._view.covers_buffer() and wanted == data.dtype:
        return view
    dst = new_tile(sizes, wanted)
    issue("tensor_copy", dst, view)
    return dst


def where(condition: Any, x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """x where the condition is not 0, else y. The condition holds 1 and 0 (R-nl-19)."""
    chosen = tile_of("where", "condition", condition)
    require_boolean("where", chosen)
    first, second = operand_of("where", "x", x), operand_of("where", "y", y)
    tiles = [each for each in (first, second) if isinstance(each, NkiTensor)]
    chosen, *tiles = same_shape("where", chosen, *tiles)
    given = iter(tiles)
    first, second = (next(given) if isinstance(each, NkiTensor) else each for each in (first, second))
    wanted = result_dtype("where", dtype, *(tiles or [chosen]))
    dst = new_tile(chosen.shape, wanted)
    _put(dst, second)
    if isinstance(first, NkiTensor) and first.dtype != wanted:
        cast = new_tile(first.shape, wanted)
        issue("tensor_copy", cast, first)
        first = cast
    issue("tensor_copy_predicated", dst, first, _predicate(chosen))
    return dst


def _put(dst: NkiTensor, value: NkiTensor | float) -> None:
    if isinstance(value, NkiTensor):
        issue("tensor_copy", dst, value)
    else:
        issue("memset", dst, value=value)


def _predicate(condition: NkiTensor) -> NkiTensor:
    """What tensor_copy_predicated takes: unsigned integers."""
    if condition.dtype.kind == "u":
        return condition
    made = new_tile(condition.shape, uint8)
    issue("tensor_scalar", made, condition, op0="not_equal", operand0=0.0)
    return made


def gather_flattened(data: Any, indices: Any, axis: int = 0, dtype: Any = None) -> NkiTensor:
    """result[p, i] = data[p, indices[p, i]], with the free dims of data counted as one."""
    source, chosen = tile_of("gather_flattened", "data", data), tile_of("gather_flattened", "indices", indices)
    if axis != 0:
        raise fail(
            "E108",
            f"nl.gather_flattened: axis={axis!r}; elements are gathered within partitions, which is axis 0",
            error=TileTypeError,
            hint="leave axis out",
        )
    if chosen.dtype != uint32 and chosen.dtype.is_integer:
        numbers = new_tile(chosen.shape, uint32)
        issue("tensor_copy", numbers, chosen)
        chosen = numbers
    gathered = new_tile(chosen.shape, source.dtype)
    issue("nc_n_gather", gathered, source, chosen)
    if dtype is None or as_dtype(dtype) == source.dtype:
        return gathered
    dst = new_tile(chosen.shape, as_dtype(dtype))
    issue("tensor_copy", dst, gathered)
    return dst


__all__ = ["broadcast_to", "expand_dims", "gather_flattened", "matmul", "transpose", "where"]

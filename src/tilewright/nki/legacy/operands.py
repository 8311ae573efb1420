"""What legacy functions do with their arguments: memories, numbers, promotion of element types, broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import DType, as_dtype, bfloat16, float32, int16, int32, uint8
from tilewright.errors import TileTypeError, fail
from tilewright.nki.language.issue import issue
from tilewright.nki.language.issue import new_tile as new_result
from tilewright.nki.language.operands import to_partitions
from tilewright.nki.legacy.faults import fault, shown
from tilewright.nki.legacy.index import Index
from tilewright.nki.legacy.loop_index import Condition
from tilewright.nki.legacy.mask import Mask
from tilewright.nki.legacy.session import legacy_session
from tilewright.nki.legacy.tensor import LegacyTensor, adopt
from tilewright.nki.tensor import NkiTensor
from tilewright.tile.attrs import as_number
from tilewright.tile.memory import OFF_CHIP, ON_CHIP, PSUM, SBUF, MemoryRegion

CHIP = ON_CHIP
_SPACES = {SBUF: "sbuf", PSUM: "psum"}


def space(memories: Sequence[MemoryRegion]) -> str:
    """Memories as the error reference writes them: 'psum|sbuf', 'hbm'."""
    return "|".join(sorted({_SPACES.get(memory, "hbm") for memory in memories}))


def tile_of(api: str, name: str, value: Any, memories: Sequence[MemoryRegion] = CHIP) -> LegacyTensor:
    """A tensor argument in one of these memories."""
    if not isinstance(value, LegacyTensor):
        what, hint = instead_of_tile(value)
        raise fail("E108", f"{name} of {api} must be a tile, not {what}", error=TileTypeError, hint=hint)
    if value.buffer not in memories:
        tile = value._tile
        fault(
            "err_unsupported_memory",
            f"Expected operand '{name}' of '{api}' to be in address space '{space(memories)}', but got a tile in "
            f"'{space([value.buffer])}' instead.",
            *([(name, tile)] if tile is not None else []),
            hint="load it first with nl.load" if value.buffer in OFF_CHIP else "store it first with nl.store",
        )
        return _stand_in(value, memories[0])
    return value


def instead_of_tile(value: object) -> tuple[str, str]:
    """What a value is that is no tile, and what to write for it."""
    if isinstance(value, Index):
        return "an index tensor", "make it a tile: nisa.iota(index, dtype=nl.int32)"
    if isinstance(value, (Mask, Condition)):
        return "a comparison of indices", "pass it as mask=, or choose elements with nisa.affine_select(pred=...)"
    return type(value).__name__, "load it first: nl.load(tensor)"


def _stand_in(value: LegacyTensor, memory: MemoryRegion) -> LegacyTensor:
    """While diagnostics are collected: a tile of the same shape where it should be, with unknown values."""
    from tilewright.nki.legacy.session import legacy_session
    from tilewright.nki.legacy.tensor import new_tile

    session = legacy_session("nl")
    made = new_tile(session, value.shape, value.dtype, memory)
    assert made._tile is not None
    session.fresh.discard(made._tile.buffer)
    session.machine.storage[made._tile.buffer].written = "everything"
    return made


def operand_of(api: str, name: str, value: Any) -> Any:
    """A tile on chip, or a number."""
    number = as_number(value)
    return tile_of(api, name, value) if number is None else number


def wanted(dtype: Any, *operands: Any) -> DType:
    """`dtype` when it is given, else what the operands promote to (R-legacy-17)."""
    return promoted(*operands) if dtype is None else as_dtype(dtype)


def promoted(*operands: Any) -> DType:
    """float beats int, wider beats narrower; numbers without a type count as int32 or float32 (R-legacy-17)."""
    kinds = [operand.dtype if isinstance(operand, LegacyTensor) else _scalar_dtype(operand) for operand in operands]
    result = kinds[0]
    for other in kinds[1:]:
        result = _promote(result, other)
    return result


def _scalar_dtype(value: Any) -> DType:
    if isinstance(value, np.generic):
        known = as_number(value)
        return as_dtype(value.dtype) if value.dtype.itemsize <= float32.itemsize else _scalar_dtype(known)
    if isinstance(value, bool):
        return uint8
    return int32 if isinstance(value, int) else float32


def _promote(a: DType, b: DType) -> DType:
    if a == b:
        return a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.itemsize != b.itemsize and (a.is_float or a.kind == b.kind or _fits(a, b)):
        return a if a.itemsize > b.itemsize else b
    if a.is_float:
        # Types of one size that hold different ranges: float16 and bfloat16, the two float8, float32 and tfloat32.
        return float32 if a.itemsize > 1 else bfloat16
    unsigned, signed = (a, b) if a.kind != "i" else (b, a)
    if unsigned.kind == signed.kind:
        return a
    width = max(unsigned.itemsize * 2, signed.itemsize)
    return {2: int16, 4: int32}.get(width, float32)


def _fits(a: DType, b: DType) -> bool:
    wide, narrow = (a, b) if a.itemsize > b.itemsize else (b, a)
    return wide.min <= narrow.min and narrow.max <= wide.max


def common_shape(api: str, *shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that these broadcast to."""
    try:
        return tuple(int(size) for size in np.broadcast_shapes(*[tuple(shape) for shape in shapes]))
    except ValueError:
        raise fail(
            "E103",
            f"{api}: shapes {' and '.join(map(shown, shapes))} do not fit each other",
            hint="sizes are equal, or 1 where a tile is repeated: slice the larger one",
        ) from None


def stretched(tile: LegacyTensor, shape: tuple[int, ...]) -> LegacyTensor:
    """A tile repeated up to `shape`: free dims by the access pattern, partitions by a copy."""
    if tuple(tile.shape) == shape:
        return tile
    boxes = tile._boxes
    if tile.ndim < len(shape):
        # Missing dims are free ones: the partitions stay first.
        kept = [tile.shape[0], *[1] * (len(shape) - tile.ndim), *tile.shape[1:]]
        tile = tile.reshape(tuple(kept))
    if len(tile.shape) != len(shape) or any(old not in (1, new) for old, new in zip(tile.shape, shape, strict=True)):
        raise fail(
            "E103",
            f"a tile of shape {shown(tile.shape)} does not broadcast to {shown(shape)}",
            hint="sizes are equal, or 1 where the tile is repeated: slice it",
        )
    made = tile
    if tile.shape[0] != shape[0]:
        made = adopt(_repeated(tile, shape[0]))
    for dim in range(1, len(shape)):
        if made.shape[dim] != shape[dim]:
            made = adopt(made.broadcast(dim, shape[dim]))
    made._boxes = boxes
    return made


def _repeated(tile: LegacyTensor, count: int) -> NkiTensor:
    """The one partition of a tile on each of `count`: the compiler multiplies it by a column of ones.

    A published trn1 profile (NKIBench, mamba) counts exactly the flops of these products. Integers, and what does not
    lie where the Tensor engine reads, are shuffled instead.
    """
    session = legacy_session("nl")
    target, view = session.target, tile._view
    by_product = view.dtype in ("float32", "bfloat16", "float16") and view.memory is SBUF and view.ndim == 2
    if not by_product or view.start_partition % target["limits.quadrant_partitions"]:
        return to_partitions(tile, count)
    made = new_result((count, *view.sizes[1:]), view.dtype)
    ones = session.ones.get((view.dtype, count))
    if ones is None:
        ones = session.ones[view.dtype, count] = new_result((1, count), view.dtype)
        issue("memset", ones, value=1.0)
    columns, most = view.sizes[1], target["limits.matmul_moving_free_max.float32"]
    for start in range(0, columns, most):
        end = min(start + most, columns)
        product = new_result((count, end - start), float32, PSUM)
        issue("nc_matmul", product, ones, tile.slice(1, start, end))
        issue("tensor_copy", made.slice(1, start, end), product)
    return made


def partition_mismatch(api: str, *tiles: tuple[str, Any]) -> None:
    """err_num_partition_mismatch: instructions work on equal numbers of partitions."""
    found = [(name, tile) for name, tile in tiles if isinstance(tile, LegacyTensor)]
    counts = {tile.shape[0] for _, tile in found}
    if len(counts) > 1:
        texts = ", ".join(f"{name}{shown(tile.shape)}" for name, tile in found)
        fault(
            "err_num_partition_mismatch",
            f"number of partitions (dimension 0 size of a tile) mismatch in parameters ({texts}) of '{api}'",
            *[(name, tile._tile) for name, tile in found if tile._tile is not None],
            hint="broadcast the smaller one: tile.broadcast_to(shape)",
            final=True,
        )

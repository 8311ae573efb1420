"""New tensors of the legacy nl: uninitialised, filled, constant; block dims before the partition dim."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tilewright.dtypes import DType, as_dtype
from tilewright.errors import TileTypeError, fail, user_location
from tilewright.nki.language import creation as current
from tilewright.nki.legacy.allocation import (
    Allocation,
    Placer,
    note_allocation,
    refuse_value,
    require_tiles,
)
from tilewright.nki.legacy.faults import fault, shown
from tilewright.nki.legacy.session import LegacySession, legacy_session
from tilewright.nki.legacy.tensor import LegacyTensor, adopt, new_tile
from tilewright.nki.legacy.top_level import require_top_level
from tilewright.rules import violate
from tilewright.tile.memory import HBM, ON_CHIP, SBUF, SHARED_HBM, MemoryRegion


class par_dim(int):
    """nl.par_dim(n): the size of the dim that runs along the partitions."""


def _memory(buffer: Any) -> tuple[MemoryRegion, Allocation | None]:
    if buffer is None:
        return SBUF, None
    if isinstance(buffer, MemoryRegion):
        return buffer, None
    if isinstance(buffer, Placer):
        return buffer.memory, None
    if isinstance(buffer, Allocation):
        return buffer.memory, buffer if buffer.formula is not None else None
    raise fail(
        "E108",
        f"buffer={buffer!r} is not a memory",
        hint="pass nl.sbuf, nl.psum, nl.hbm, nl.private_hbm, nl.shared_hbm or an allocation of nki.compiler",
        error=TileTypeError,
    )


def ndarray(shape: Any, dtype: Any, *, buffer: Any = None, name: str = "", **kwargs: Any) -> LegacyTensor:
    """A new tensor; its elements are undefined until they are written."""
    session = legacy_session("nl.ndarray")
    memory, allocation = _memory(buffer)
    if session.ignores_allocation:
        allocation = None
    sizes = _sizes(shape)
    kind = as_dtype(dtype)
    if memory in ON_CHIP:
        note_allocation(session, allocation is not None)
        return _on_chip(session, sizes, kind, memory, name, allocation)
    if memory is HBM and session.allocated:
        _refuse_private(session, name)
    if memory is SHARED_HBM:
        return _shared(session, sizes, kind, name)
    return _in_hbm(session, sizes, kind, memory, name)


def _refuse_private(session: LegacySession, name: str) -> None:
    violate(
        "R-legacy-13",
        f"Non IO HBM tensor is not supported in allocated NKI kernel: {name or 'tensor'}",
        hint="keep it on chip, or create it in nl.shared_hbm and return it",
    )


def _sizes(shape: Any) -> tuple[int, ...]:
    items = shape if isinstance(shape, (tuple, list)) else (shape,)
    if any(not hasattr(size, "__index__") for size in items):
        raise fail(
            "E103",
            f"shape {shape!r} is not made of whole numbers",
            rule="R-tensor-04",
            error=TileTypeError,
            hint="pass ints: n // 128, not n / 128",
        )
    return tuple(size if isinstance(size, par_dim) else int(size) for size in items)


def _in_hbm(
    session: LegacySession, sizes: tuple[int, ...], dtype: DType, memory: MemoryRegion, name: str
) -> LegacyTensor:
    plain = tuple(int(size) for size in sizes) or (1,)
    return new_tile(session, plain, dtype, memory, name=_free_name(session, name))


def _free_name(session: LegacySession, name: str) -> str | None:
    """Names say what a tensor is; in loops several have the same."""
    return name if name and name not in session.names else None


def _shared(session: LegacySession, sizes: tuple[int, ...], dtype: DType, name: str) -> LegacyTensor:
    """A tensor that all programs of the grid see: the first creates it, the others find it again."""
    require_top_level(session)
    if session.next_shared < len(session.shared_tensors):
        found: LegacyTensor = session.shared_tensors[session.next_shared]
        session.next_shared += 1
        return LegacyTensor(found._tile, None, session.scope)
    made = _in_hbm(session, sizes, dtype, SHARED_HBM, name)
    assert made._tile is not None
    session.born.pop(made._tile.buffer, None)
    session.shared_tensors.append(made)
    session.next_shared += 1
    return made


def _on_chip(
    session: LegacySession,
    sizes: tuple[int, ...],
    dtype: DType,
    memory: MemoryRegion,
    name: str,
    allocation: Allocation | None,
) -> LegacyTensor:
    marked = [dim for dim, size in enumerate(sizes) if isinstance(size, par_dim)]
    at = marked[0] if marked else 0
    plain = tuple(int(size) for size in sizes)
    blocks, tile = plain[:at], plain[at:]
    if any(size < 1 for size in plain):
        violate(
            "R-tensor-04",
            f"{name or 'tensor'} has shape {plain}; sizes are positive integers",
            final=True,
            hint="look at how the size is computed: n // tile is 0 where n is less than a tile",
        )
    tile = tile if len(tile) > 1 else (*tile, 1)
    _require_partitions(session, plain, tile[0], name)
    if blocks:
        violate_block_dims(plain)
    if allocation is not None:
        require_tiles(allocation, len(blocks), tile[0], session)
    if not blocks and allocation is None:
        made = new_tile(session, tile, dtype, memory, name=_free_name(session, name))
        assert made._tile is not None
        _note_created(session, made)
        return made
    row_bytes = prod(tile[1:]) * dtype.itemsize
    made = []
    for block in product(*map(range, blocks)):
        place = None if allocation is None else allocation.address(session, block, tile[0], row_bytes)
        made.append(new_tile(session, tile, dtype, memory, name=None, address=place))
        _note_created(session, made[-1])
    if not blocks:
        return made[0]
    whole = LegacyTensor(None, [each._handle for each in made], session.scope, plain)
    whole._blocks = made
    return whole


def _note_created(session: LegacySession, tile: LegacyTensor) -> None:
    assert tile._tile is not None
    session.fresh.discard(tile._tile.buffer)
    session.created.add(tile._tile.buffer)


def violate_block_dims(shape: Sequence[int]) -> None:
    """err_leading_dimension_of_tensor_must_be_partition: SDK 2.26 has no block dims any more."""
    fault(
        "err_leading_dimension_of_tensor_must_be_partition",
        f"The leading dimension of SBUF/PSUM tensors must be the partition dimension: shape {shown(shape)}",
        hint="put the block dimensions behind the partition dimension, or make a list of tiles",
    )


def _require_partitions(session: LegacySession, shape: Sequence[int], partitions: int, name: str) -> None:
    limit = session.target["limits.partitions"]
    if partitions > limit:
        fault(
            "err_num_partition_exceed_arch_limit",
            f"number of partitions {partitions} exceed architecture limitation of {limit}: "
            f"{name or 'tensor'}{shown(shape)}",
            hint=f"tile the partition dimension by {limit} (nl.tile_size.pmax)",
            final=True,
        )


def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    *,
    buffer: Any = None,
    name: str = "",
    lazy_initialization: bool = False,
    **kwargs: Any,
) -> LegacyTensor:
    """A new tensor filled with a number. On chip the number is written when something looks at the tensor first,
    lazy_initialization or not."""
    session = legacy_session("nl.full")
    memory, _ = _memory(buffer)
    kind = as_dtype(np.float32 if dtype is None else dtype)
    made = ndarray(shape, kind, buffer=buffer, name=name)
    if memory not in ON_CHIP:
        _fill_hbm(session, made, fill_value)
        return made
    refuse_value(session)
    value = int(fill_value) if kind.is_integer else float(fill_value)
    session.flush()
    for block in made._blocks or [made]:
        assert block._tile is not None
        session.unset[block._tile.buffer] = (value, user_location())
    return made


def _fill_hbm(session: LegacySession, tensor: LegacyTensor, value: float) -> None:
    fault(
        "err_hbm_tensor_with_init_value_not_supported",
        "Creating HBM tensor with init value is not supported.",
        hint="create it with nl.ndarray and write the value with nl.store",
    )
    from tilewright.nki.legacy.memory import store_number

    store_number(session, tensor, value)


def zeros(
    shape: Any,
    dtype: Any = None,
    *,
    buffer: Any = None,
    name: str = "",
    lazy_initialization: bool = False,
    **kwargs: Any,
) -> LegacyTensor:
    """A new tensor of zeros."""
    return full(shape, 0, dtype, buffer=buffer, name=name)


def ones(
    shape: Any,
    dtype: Any = None,
    *,
    buffer: Any = None,
    name: str = "",
    lazy_initialization: bool = False,
    **kwargs: Any,
) -> LegacyTensor:
    """A new tensor of ones."""
    return full(shape, 1, dtype, buffer=buffer, name=name)


def zeros_like(
    a: LegacyTensor, dtype: Any = None, *, buffer: Any = None, name: str = "", **kwargs: Any
) -> LegacyTensor:
    """A new tensor of zeros with the shape and dtype of another."""
    return zeros(a.shape, a.dtype if dtype is None else dtype, buffer=buffer, name=name)


def empty_like(
    a: LegacyTensor, dtype: Any = None, *, buffer: Any = None, name: str = "", **kwargs: Any
) -> LegacyTensor:
    """A new, undefined tensor with the shape, dtype and memory of another."""
    memory = a.buffer if buffer is None else buffer
    return ndarray(a.shape, a.dtype if dtype is None else dtype, buffer=memory, name=name)


def shared_constant(constant: Any, dtype: Any = None, **kwargs: Any) -> LegacyTensor:
    """A tensor in HBM that holds a NumPy array."""
    legacy_session("nl.shared_constant").flush()
    array = np.load(constant) if isinstance(constant, str) else np.asarray(constant)
    if dtype is not None:
        array = array.astype(as_dtype(dtype).np)
    return adopt(current.shared_constant(array))


def shared_identity_matrix(n: int, dtype: Any = np.uint8, **kwargs: Any) -> LegacyTensor:
    """An identity matrix in HBM."""
    return shared_constant(np.eye(n, dtype=as_dtype(dtype).np))

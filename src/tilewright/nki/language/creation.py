"""New tensors: uninitialised, filled, like another, constant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.dtypes import DType, as_dtype
from tilewright.errors import TileTypeError, fail
from tilewright.nki.context import require_session
from tilewright.nki.function import require_top_level
from tilewright.nki.language.issue import issue, new_tile
from tilewright.nki.tensor import NkiTensor, VirtualRegister, new_tensor
from tilewright.rules import violate
from tilewright.tile.access import Slice
from tilewright.tile.derive import whole_number
from tilewright.tile.memory import SBUF, SHARED_HBM, MemoryRegion
from tilewright.tile.view import whole


def ndarray(
    shape: Sequence[int],
    dtype: object,
    buffer: Any = SBUF,
    name: str = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """A new tensor; its elements are undefined until they are written."""
    session = require_session("nl.ndarray")
    if not isinstance(buffer, MemoryRegion):
        violate(
            "R-tensor-05",
            f"buffer={buffer!r} is not a memory",
            hint="pass nl.sbuf, nl.psum, nl.hbm or nl.shared_hbm (strings are not accepted)",
            final=True,
            error=TileTypeError,
        )
    if buffer is SHARED_HBM:
        require_top_level(session)
    return new_tensor(session, _sizes(shape), as_dtype(dtype), buffer, name=name or None, address=address)


def _sizes(shape: Any) -> tuple[int, ...]:
    try:
        items = (shape,) if isinstance(shape, int) else tuple(shape)
        return tuple(size.__index__() for size in items)
    except (AttributeError, TypeError):
        raise fail(
            "E103",
            f"shape {shape!r} is not made of whole numbers",
            rule="R-tensor-04",
            error=TileTypeError,
            hint="pass ints: n // 128, not n / 128",
        ) from None


def full(shape: Sequence[int], fill_value: Any, dtype: object, buffer: Any = SBUF, name: str = "") -> NkiTensor:
    """A new tensor filled with a number. HBM, which no engine reaches, is filled by DMA from a tile."""
    made = ndarray(shape, dtype, buffer, name)
    if made._view.on_chip:
        made[...] = fill_value
        return made
    tile: NkiTensor | None = None
    for part in hbm_parts(made):
        if tile is None:
            tile = new_tile(part.shape, made.dtype)
            tile[...] = fill_value
        issue("dma_copy", part, tile[:, : part.shape[1]])
    return made


def hbm_parts(tensor: NkiTensor) -> Iterator[NkiTensor]:
    """All of a tensor in HBM: as many rows as divide it evenly, in pieces of the size that DMA moves well."""
    target = require_session("nl").target
    rows = next(count for count in range(target["limits.partitions"], 0, -1) if tensor.size % count == 0)
    columns = tensor.size // rows
    width = min(columns, target["dma.efficient_bytes_target"] // tensor.dtype.itemsize)
    flat = tensor.reshape((rows, columns))
    for start in range(0, columns, width):
        yield flat[:, start : min(start + width, columns)]


def _whole(dtype: object, value: int) -> int | float:
    """The number as the kind of the dtype: memset refuses a float for an integer tile (R-memset-01)."""
    return value if as_dtype(dtype).is_integer else float(value)


def zeros(shape: Sequence[int], dtype: object, buffer: Any = SBUF, name: str = "") -> NkiTensor:
    """A new tensor of zeros."""
    return full(shape, _whole(dtype, 0), dtype, buffer, name)


def ones(shape: Sequence[int], dtype: object, buffer: Any = SBUF, name: str = "") -> NkiTensor:
    """A new tensor of ones."""
    return full(shape, _whole(dtype, 1), dtype, buffer, name)


def zeros_like(x: NkiTensor, dtype: object = None, buffer: Any = None, name: str = "") -> NkiTensor:
    """A new tensor of zeros with the shape and dtype of x, in SBUF."""
    _require_tensor("zeros_like", x)
    return zeros(x.shape, x.dtype if dtype is None else dtype, SBUF if buffer is None else buffer, name)


def empty_like(x: NkiTensor, dtype: object = None, buffer: Any = None, name: str = "") -> NkiTensor:
    """A new, undefined tensor with the shape, dtype and memory of x."""
    _require_tensor("empty_like", x)
    return ndarray(x.shape, x.dtype if dtype is None else dtype, x.buffer if buffer is None else buffer, name)


def _require_tensor(api: str, x: object) -> None:
    if not isinstance(x, NkiTensor):
        raise fail(
            "E108",
            f"nl.{api}: x must be a tensor, not {type(x).__name__}",
            error=TileTypeError,
            hint="pass a tile, or a tensor that the kernel was given",
        )


CONSTANT_DTYPES = (
    *("float32", "float16", "bfloat16", "int32", "int16", "int8", "uint32", "uint16", "uint8"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"),
)


def shared_constant(constant: Any) -> NkiTensor:
    """A tensor in shared HBM that holds a NumPy array, or one read from a .npy file."""
    session = require_session("nl.shared_constant")
    array = np.load(constant) if isinstance(constant, (str, Path)) else constant
    if not isinstance(array, np.ndarray):
        raise fail(
            "E108",
            f"nl.shared_constant takes a NumPy array or the path of a .npy file, not {type(constant).__name__}",
            error=TileTypeError,
            hint="make it with NumPy outside of the kernel",
        )
    dtype = as_dtype(array.dtype)
    if dtype not in CONSTANT_DTYPES:
        violate("R-nl-16", f"nl.shared_constant of {dtype}", hint=f"convert it to one of {', '.join(CONSTANT_DTYPES)}")
    return NkiTensor(whole(session.constant(array, dtype)), None)


def shared_identity_matrix(n: int, dtype: object = "uint8", dst: NkiTensor | None = None) -> NkiTensor:
    """An n x n identity matrix in SBUF, loaded from a constant that all calls with this n and dtype share."""
    session = require_session("nl.shared_identity_matrix")
    kind: DType = as_dtype(dtype)
    n = whole_number(n, "nl.shared_identity_matrix: n", "R-tensor-04")
    tile = new_tile((n, n), kind) if dst is None else dst
    shape = (n, n)
    for buffer, array in session.constants.items():
        if buffer.dtype == kind and buffer.shape == shape and np.array_equal(array, np.eye(n, dtype=kind.np)):
            break
    else:
        buffer = session.constant(np.eye(n).astype(kind.np), kind)
    issue("dma_copy", tile, NkiTensor(whole(buffer), None))
    return tile


def ds(start: Any, size: int) -> Slice:
    """`size` elements from `start`, which may be known only at run time."""
    begin: Any = start
    if start is None or isinstance(start, (float, str)):
        begin = whole_number(start, "nl.ds: start")
    elif hasattr(start, "__index__") and not isinstance(start, (NkiTensor, VirtualRegister)):
        begin = start.__index__()
    return Slice(begin, whole_number(size, "nl.ds: size"))


__all__ = [
    "ds",
    "empty_like",
    "full",
    "ndarray",
    "ones",
    "shared_constant",
    "shared_identity_matrix",
    "zeros",
    "zeros_like",
]

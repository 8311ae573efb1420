"""Arrays in text: `dense(f32[2, 2], [1.0, 2.0, 3.0, 4.0])`, or the bytes in hexadecimal where a list would not do."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tilewright.dtypes import HOST_DTYPES, DType
from tilewright.ir.parse import Reader
from tilewright.ir.text import AttrKind, Printer

_LONGEST_LIST = 16
_BY_SHORT_NAME = {dtype.short: dtype for dtype in HOST_DTYPES.values()}


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """A constant array, never written to. Equal when element type, shape and every byte are."""

    array: np.ndarray
    dtype: DType

    def __post_init__(self) -> None:
        assert self.array.dtype == self.dtype.np, f"{self.array.dtype} array given as {self.dtype}"
        if self.array.flags.writeable or not self.array.flags.c_contiguous:
            own = np.array(self.array, order="C", copy=True)
            own.flags.writeable = False
            object.__setattr__(self, "array", own)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dense):
            return NotImplemented
        same = self.dtype is other.dtype and self.array.shape == other.array.shape
        return same and self.array.tobytes() == other.array.tobytes()

    def __hash__(self) -> int:
        return hash((self.dtype, self.array.shape, self.array.tobytes()))


def _write(printer: Printer, dense: Dense) -> str:
    array = dense.array
    head = f"{dense.dtype.short}[{', '.join(map(str, array.shape))}], "
    if array.size <= _LONGEST_LIST:
        items = _plain_items(array)
        if not any(map(math.isnan, items)):  # a list would lose the bits of a NaN
            assert _from_items(items, dense.dtype).tobytes() == array.tobytes()
            return head + printer.constant(items)
    # Little-endian whatever the machine, so that text means the same everywhere.
    return head + "0x" + array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes().hex()


def _plain_items(array: np.ndarray) -> list[bool] | list[int] | list[float]:
    if array.dtype.kind in "biu":
        return array.ravel().tolist()
    with np.errstate(invalid="ignore"):  # of a signalling NaN, which will not be written as a list
        return array.ravel().astype(np.float64).tolist()


def _from_items(items: list[bool] | list[int] | list[float], dtype: DType) -> np.ndarray:
    # By way of float64: the narrow float types do not all convert from a list.
    with np.errstate(over="ignore", invalid="ignore"):  # a number beyond the type's range is read as its infinity
        return np.array(items, dtype.np if dtype.np.kind in "biu" else np.float64).astype(dtype.np)


def _read(reader: Reader) -> Dense:
    token = reader.expect_kind("word")
    dtype = _BY_SHORT_NAME.get(token.text)
    if dtype is None:
        raise reader.error(f"there is no element type {token.text}", token)
    shape = _shape(reader)
    reader.expect(",")
    token = reader.peek()
    if token.kind == "hex":
        flat = _from_hex(reader, dtype)
    else:
        items = reader.constant()
        if not isinstance(items, list) or not all(_fits(item, dtype) for item in items):
            raise reader.error(f"expected a list of {dtype.short} numbers", token)
        flat = _from_items(items, dtype)
    count = math.prod(shape)
    if flat.size != count:
        raise reader.error(f"the shape has {count} elements, {flat.size} are given", token)
    return Dense(flat.reshape(shape), dtype)


def _shape(reader: Reader) -> tuple[int, ...]:
    shape: list[int] = []
    reader.expect("[")
    while not reader.accept("]"):
        token = reader.peek()
        size = reader.integer()
        if size < 0:
            raise reader.error(f"a dimension cannot be {size}", token)
        shape.append(size)
        if not reader.accept(",") and not reader.at("]"):
            reader.expect("]")
    # NumPy counts elements in 64 bits even where another dimension is 0.
    if math.prod(max(size, 1) for size in shape) >= 2**62:
        raise reader.error(f"an array of shape {shape} is too large")
    return tuple(shape)


def _from_hex(reader: Reader, dtype: DType) -> np.ndarray:
    token = reader.next()
    digits = token.text[2:]
    if len(digits) % (2 * dtype.itemsize):
        raise reader.error(f"{len(digits)} digits are no whole number of {dtype.short} elements", token)
    return np.frombuffer(bytes.fromhex(digits), dtype.np.newbyteorder("<")).astype(dtype.np)


def _fits(item: object, dtype: DType) -> bool:
    """True when a list item can stand for an element of the type."""
    if dtype.np.kind == "b":
        return isinstance(item, bool)
    if dtype.np.kind in "iu":
        info = np.iinfo(dtype.np)
        return isinstance(item, int) and not isinstance(item, bool) and info.min <= item <= info.max
    return isinstance(item, float) or (isinstance(item, int) and not isinstance(item, bool) and abs(item) < 2**53)


DENSE = AttrKind("dense", Dense, _write, _read)

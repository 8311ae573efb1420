"""Array specifications: shape and dtype without data."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import SupportsIndex

from tilewright.dtypes import HOST_DTYPES, DType, as_dtype, host_dtype
from tilewright.errors import TileValueError, fail

_MOST_DIMS = 32


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array that is only described."""

    shape: tuple[int, ...]
    dtype: DType

    def __post_init__(self) -> None:
        check_rank(self.shape)
        size = prod(self.shape) * self.dtype.itemsize
        if size > sys.maxsize:
            sizes = "x".join(map(str, self.shape))
            told = f"an array of {sizes} {self.dtype} has {size} bytes: no address reaches that far"
            raise fail("E103", told, hint="describe a part of it")


def check_rank(shape: tuple[int, ...]) -> None:
    """E103 for more dims than NumPy broadcasts."""
    if len(shape) > _MOST_DIMS:
        hint = f"NumPy itself broadcasts up to {_MOST_DIMS} dims: join some by reshape"
        raise fail("E103", f"an array of {len(shape)} dims", hint=hint)


def spec(shape: Sequence[SupportsIndex] | SupportsIndex, dtype: object) -> ArraySpec:
    """Describe an array: `tw.spec((128, 512), "float32")`.

    NumPy programs also take float64, int64 and uint64, rank 0 and dims of size 0; kernels refuse them.
    """
    items = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    sizes = tuple(size.__index__() for size in items if isinstance(size, SupportsIndex))
    if len(sizes) < len(items) or any(size < 0 for size in sizes):
        raise fail(
            "E103",
            f"a spec has shape {items}; sizes are whole numbers, none negative",
            rule="R-tensor-04",
            hint='such as tw.spec((128, 512), "float32")',
            error=TileValueError,
        )
    # None is float64 to NumPy, where an element type may be left out.
    if dtype is None:
        return ArraySpec(sizes, as_dtype(dtype))
    if isinstance(dtype, str):
        return ArraySpec(sizes, HOST_DTYPES.get(dtype) or as_dtype(dtype))
    return ArraySpec(sizes, host_dtype(dtype))

"""Array specifications: shape and dtype without data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import SupportsIndex

from tilewright.dtypes import DType, as_dtype
from tilewright.errors import TileValueError, fail


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array that is only described."""

    shape: tuple[int, ...]
    dtype: DType


def spec(shape: Sequence[SupportsIndex] | SupportsIndex, dtype: object) -> ArraySpec:
    """Describe an array: `tw.spec((128, 512), "float32")`."""
    items = (shape,) if isinstance(shape, SupportsIndex) else tuple(shape)
    sizes = tuple(size.__index__() for size in items if isinstance(size, SupportsIndex))
    if len(sizes) < len(items) or any(size < 1 for size in sizes):
        raise fail(
            "E103",
            f"a spec has shape {items}; sizes are positive whole numbers",
            rule="R-tensor-04",
            hint='such as tw.spec((128, 512), "float32")',
            error=TileValueError,
        )
    return ArraySpec(sizes, as_dtype(dtype))

"""Array specifications: shape and dtype without data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.dtypes import DType, as_dtype


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array that is only described."""

    shape: tuple[int, ...]
    dtype: DType


def spec(shape: Sequence[int] | int, dtype: object) -> ArraySpec:
    """Describe an array: `tw.spec((128, 512), "float32")`."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return ArraySpec(sizes, as_dtype(dtype))

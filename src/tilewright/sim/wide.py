"""Storage without rounding: float32 in place of the types that NumPy does not have itself (R-simulate-04)."""

from __future__ import annotations

from math import prod

import numpy as np

from tilewright.dtypes import DType, float32
from tilewright.errors import fail
from tilewright.sim.storage import Storage
from tilewright.tile.memory import Buffer
from tilewright.tile.view import View

_NATIVE = ("float32", "tfloat32", "float16", "float8_e8m0fnu")


def is_widened(dtype: DType) -> bool:
    """True for bfloat16 and the float8 types, whose NumPy types ml_dtypes brings; scales stay what they are."""
    return dtype.is_float and dtype not in _NATIVE


class WideStorage(Storage):
    """Elements of a low-precision buffer, held in float32. Their bytes cannot be looked at as another type."""

    __slots__ = ()

    def __init__(self, buffer: Buffer, data: np.ndarray | None = None) -> None:
        size = prod(buffer.shape) * float32.itemsize
        super().__init__(buffer, np.empty(size, np.uint8) if data is None else data)

    def array(self, view: View, offset: int) -> np.ndarray:
        """The elements of an access as a NumPy view on the bytes."""
        if view.dtype is not self.buffer.dtype:
            raise fail(
                "E501",
                f"{self.buffer.name} is looked at as {view.dtype}, but NKI_PRECISE_FP=0 keeps {self.buffer.dtype} as "
                f"float32",
                hint="run this kernel in precise mode",
            )
        size = float32.itemsize
        return np.ndarray(view.sizes, np.float32, self.data, offset * size, tuple([s * size for s in view.strides]))

    def element(self, view: View) -> DType:
        """The type in which elements of an access are held."""
        return float32

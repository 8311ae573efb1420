"""What a program of the corpus is: a NumPy function, its arguments, and what it should give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Arrays = tuple[np.ndarray, ...]

F32 = np.dtype(np.float32)
BF16 = np.dtype(ml_dtypes.bfloat16)
SHORT_NAMES = {F32: "f32", BF16: "bf16"}


@dataclass(frozen=True, slots=True)
class Program:
    """A NumPy function with arguments of given shapes and element types.

    make: the arguments, the same at every call. oracle: what to compare with, where it is not the function itself.
    """

    name: str
    fn: Callable[..., Any]
    make: Callable[[], Arrays]
    oracle: Callable[..., Any] | None = None

    def reference(self, arguments: Arrays) -> Arrays:
        """The results by NumPy; narrow floats are computed with in float32."""
        wide = tuple(a.astype(F32) if a.dtype == BF16 else a for a in arguments)
        with np.errstate(all="ignore"):
            made = (self.oracle or self.fn)(*wide)
        return made if isinstance(made, tuple) else (made,)


def normal(*shape: int, dtype: np.dtype = F32, scale: float = 1.0, seed: int = 0) -> np.ndarray:
    """Normally distributed numbers, the same for the same seed."""
    drawn = np.random.default_rng(seed).standard_normal(shape).astype(F32)
    return (drawn * F32.type(scale)).astype(dtype)

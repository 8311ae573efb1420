"""Where NaN and infinity begin: the first instruction that makes a non-finite value out of finite inputs (S0-09)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.errors import Diagnostic, Location
from tilewright.ir.core import Op


class NonFiniteTrace:
    """Looks at every executed instruction until it has found the first."""

    def __init__(self) -> None:
        self.instruction: Op | None = None
        self.location: Location | None = None
        self.count = 0
        self.index = 0
        self.operands: list[str] = []

    def look(self, op: Op, arrays: list[Any]) -> Callable[[list[Any]], None] | None:
        """Called before each instruction with the arrays it reads; the answer is called with what it wrote."""
        self.index += 1
        if self.instruction is not None or not all(_finite(array) for array in arrays):
            return None
        ranges = [_range(array) for array in arrays if isinstance(array, np.ndarray)]

        def look_after(written: list[Any]) -> None:
            if not all(_finite(value) for value in written):
                self.instruction = op
                self.location = op.location
                self.count = self.index
                self.operands = ranges

        return look_after

    def diagnostic(self) -> Diagnostic | None:
        """The finding, or None when everything stayed finite."""
        if self.instruction is None:
            return None
        return Diagnostic(
            "W301",
            f"{self.instruction.name} is the first instruction that turns finite inputs into NaN or infinity",
            None,
            "warning",
            "look at the ranges of its inputs: an exponent that overflows, a division by zero, infinity minus infinity",
            self.location,
            notes=(f"executed instruction {self.count}", *self.operands),
        )


def _finite(value: Any) -> bool:
    if isinstance(value, list):
        return all(_finite(each) for each in value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "iub":
            return True
        return bool(np.isfinite(value.astype(np.float32, copy=False)).all())
    return not isinstance(value, float) or bool(np.isfinite(value))


def _range(array: np.ndarray) -> str:
    if array.size == 0:
        return "empty input"
    values = array.astype(np.float32, copy=False)
    return f"input {list(array.shape)} ranges from {values.min():.6g} to {values.max():.6g}"

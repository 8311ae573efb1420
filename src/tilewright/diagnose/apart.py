"""How two values differ, as numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import Location


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first thing that is different: what it is, where, both values, and by how much they differ at most.

    op: an instruction, op, argument, variable or result in words. left_operands, right_operands: what it was made of.
    """

    op: str
    location: Location | None
    left: Any
    right: Any
    error: float
    other: Location | None = None
    left_operands: tuple[np.ndarray, ...] = ()
    right_operands: tuple[np.ndarray, ...] = ()
    made: tuple[str, ...] = ()
    """How kernels made the element of their result that differs most, and what only one of the runs did before."""

    def __str__(self) -> str:
        where = f", {self.location}" if self.location is not None else ""
        if self.other is not None and self.other != self.location:
            where += f" ({self.other})"
        return "; ".join((f"first difference: {self.op}{where}: {self.described()}", *self.made))

    def described(self) -> str:
        """How both values differ, in words."""
        if not isinstance(self.left, np.ndarray) or not isinstance(self.right, np.ndarray):
            return f"{self.left} against {self.right}"
        if self.left.shape != self.right.shape:
            return f"shape {self.left.shape} against {self.right.shape}"
        index = np.unravel_index(int(np.argmax(difference(self.left, self.right))), self.left.shape)
        at = [int(i) for i in index]
        types = [str(each.dtype) for each in (self.left, self.right)]
        told = f" ({types[0]} against {types[1]})" if types[0] != types[1] else ""
        return f"error {self.error:.3g}, {_shown(self.left[index])} against {_shown(self.right[index])} at {at}{told}"


def difference(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """How far elements lie apart; what is NaN or infinite in both alike does not."""
    a, b = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(all="ignore"):
        apart = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))


def _shown(value: Any) -> str:
    return f"{float(value):.6g}" if np.asarray(value).dtype.kind not in "iub" else str(int(value))

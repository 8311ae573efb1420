"""Where NaN and infinity begin: instructions that make them out of finite inputs, and the first of all (S0-09)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.errors import RUN, Diagnostic, Location, Span
from tilewright.ir.core import Op


class NonFiniteTrace:
    """Looks at every executed instruction; the first of each line that makes something not finite counts."""

    def __init__(self) -> None:
        self.instruction: Op | None = None
        self.location: Location | None = None
        self.count = 0
        self.index = 0
        self.notes: list[str] = []
        # By place and not by line: a line may hold several calls.
        self.births: dict[tuple[Location | None, Span | None], Diagnostic] = {}
        self._executions: dict[tuple[Location | None, Span | None], int] = {}

    def look(self, op: Op, arrays: list[Any], added_to: Any) -> Callable[[list[Any]], None] | None:
        """Called before each instruction with the arrays it reads; the answer is called with what it wrote.

        Attributes count as inputs: a kernel that fills a tile with infinity means it.
        """
        self.index += 1
        place = op.location, op.location and op.location.span
        executions = self._executions[place] = self._executions.get(place, 0) + 1
        if place in self.births:
            return None
        if not all(_finite(value) for value in (*arrays, added_to, *op.attrs.values())):
            return None
        inputs = [np.array(array) for array in arrays if isinstance(array, np.ndarray)]

        def look_after(written: list[Any]) -> None:
            bad = next((value for value in written if not _finite(value)), None)
            if bad is None:
                return
            notes = [f"executed instruction {self.index}, execution {executions} of this line"]
            notes += _first_value(bad, inputs)
            notes += [_range(array) for array in inputs]
            message = f"{op.name} turns finite inputs into NaN or infinity"
            self.births[place] = Diagnostic(
                "W301", message, severity="note", location=op.location, notes=tuple(notes), phase=RUN
            )
            if self.instruction is None:
                self.instruction = op
                self.location = op.location
                self.count = self.index
                self.notes = notes

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
            notes=tuple(self.notes),
            phase=RUN,
            births=list(self.births.values()),
        )


def _finite(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_finite(each) for each in value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "iub":
            return True
        return bool(np.isfinite(value.astype(np.float32, copy=False)).all())
    return not isinstance(value, float) or bool(np.isfinite(value))


def _first_value(written: Any, inputs: list[np.ndarray]) -> list[str]:
    """The first value that is not finite, with the inputs at the same place where they have the same shape."""
    values = np.asarray(written, np.float32)
    if values.ndim == 0:
        return []
    flat = values.reshape(values.shape[0], -1)
    p, f = (int(i) for i in np.argwhere(~np.isfinite(flat))[0])
    rows = [array.reshape(array.shape[0], -1) for array in inputs if array.ndim]
    same = [row for row in rows if len(row) == len(flat) and row.shape[1] in (1, flat.shape[1])]
    given = ", ".join(f"{float(row[p, f if row.shape[1] > 1 else 0]):.6g}" for row in same)
    return [f"the first is {flat[p, f]} in partition {p}, element {f}" + (f", from {given}" if given else "")]


def _range(array: np.ndarray) -> str:
    if array.size == 0:
        return "empty input"
    values = array.astype(np.float32, copy=False)
    return f"input {list(array.shape)} ranges from {values.min():.6g} to {values.max():.6g}"

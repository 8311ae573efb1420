"""Where NaN and infinity begin: instructions that make them out of finite inputs, and the first of all (S0-09).

NaN also begins where infinity meets infinity or zero: a mask of -infinity is meant, what becomes of it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.errors import RUN, WARNING, Diagnostic, Location, Span
from tilewright.ir.core import Op

Place = tuple[Location | None, Span | None]
FINITE, INFINITE, NAN = range(3)
TURNS = {FINITE: "turns finite inputs into NaN or infinity", INFINITE: "turns infinity into NaN"}


class NonFiniteTrace:
    """Looks at every executed instruction; the first of each line that makes something not finite counts."""

    def __init__(self) -> None:
        self.index = 0
        # By place and not by line: a line may hold several calls. Apart: what finite inputs and what infinity became.
        self._found: dict[int, dict[Place, Diagnostic]] = {FINITE: {}, INFINITE: {}}
        self._executions: dict[Place, int] = {}

    @property
    def births(self) -> dict[Place, Diagnostic]:
        """Where something not finite begins; where all of it began outside, NaN that is made of infinity."""
        return self._found[FINITE] or self._found[INFINITE]

    def look(self, op: Op, arrays: list[Any], added_to: Any) -> Callable[[list[Any]], None] | None:
        """Called before each instruction with the arrays it reads; the answer is called with what it wrote.

        Attributes count as inputs: a kernel that fills a tile with infinity means it.
        """
        self.index += 1
        place = op.location, op.location and op.location.span
        executions = self._executions[place] = self._executions.get(place, 0) + 1
        if any(place in found for found in self._found.values()):
            return None
        worst = max(map(badness, (*arrays, added_to, *op.attrs.values())), default=FINITE)
        if worst == NAN:
            return None
        inputs = [np.array(array) for array in arrays if isinstance(array, np.ndarray)]

        def look_after(written: list[Any]) -> None:
            bad = next((value for value in written if badness(value) > worst), None)
            if bad is None:
                return
            notes = [f"executed instruction {self.index}, execution {executions} of this line"]
            notes += _first_value(bad, inputs)
            notes += [_range(array) for array in inputs]
            message = f"{op.name} {TURNS[worst]}"
            self._found[worst][place] = Diagnostic(
                "W301", message, severity="note", location=op.location, notes=tuple(notes), phase=RUN
            )

        return look_after

    def diagnostic(self) -> Diagnostic | None:
        """The finding, or None when everything stayed finite."""
        births = list(self.births.values())
        if not births:
            return None
        first = births[0]
        name, _, does = first.message.partition(" ")
        hint = (
            "look at the ranges of its inputs: an exponent that overflows, a division by zero, infinity minus infinity"
        )
        message = f"{name} is the first instruction that {does}"
        return replace(first, message=message, severity=WARNING, hint=hint, births=births)


def badness(value: Any) -> int:
    """What is worst in a value: NaN, infinity, or nothing."""
    if isinstance(value, (list, tuple)):
        return max(map(badness, value), default=FINITE)
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "iub":
            return FINITE
        seen = value.astype(np.float32, copy=False)
        if np.isfinite(seen).all():
            return FINITE
        return NAN if np.isnan(seen).any() else INFINITE
    if not isinstance(value, float) or np.isfinite(value):
        return FINITE
    return NAN if np.isnan(value) else INFINITE


def _first_value(written: Any, inputs: list[np.ndarray]) -> list[str]:
    """The first value that is not finite, with the inputs at the same place where they have the same shape."""
    values = np.asarray(written, np.float32)
    if values.ndim == 0:
        return []
    flat = values.reshape(values.shape[0], -1)
    wrong = np.isnan(flat) if np.isnan(flat).any() else ~np.isfinite(flat)
    p, f = (int(i) for i in np.argwhere(wrong)[0])
    rows = [array.reshape(array.shape[0], -1) for array in inputs if array.ndim]
    same = [row for row in rows if len(row) == len(flat) and row.shape[1] in (1, flat.shape[1])]
    given = ", ".join(f"{float(row[p, f if row.shape[1] > 1 else 0]):.6g}" for row in same)
    return [f"the first is {flat[p, f]} in partition {p}, element {f}" + (f", from {given}" if given else "")]


def _range(array: np.ndarray) -> str:
    if array.size == 0:
        return "empty input"
    values = array.astype(np.float32, copy=False)
    return f"input {list(array.shape)} ranges from {values.min():.6g} to {values.max():.6g}"

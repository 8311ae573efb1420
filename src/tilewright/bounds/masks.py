"""Masks: where a constant is not zero, where what is added to scores leaves any of them, what a choice chooses.

Outside of its support a value is a number that is known without computing: a masked score, its exponential, zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.bounds.moves import ON, widened
from tilewright.bounds.region import Band, Region, at_least, everything, nothing
from tilewright.ir.core import Op, Value

FAR_BELOW = -1e3
"""Beside a number that is so much greater, the exponential of another one is zero."""


class Masks:
    """Regions of constant values: where they hold, and where they hide nothing when they are added."""

    def __init__(self) -> None:
        self._holds: dict[Value, Region] = {}
        self._lets: dict[Value, Region] = {}

    def learn(self, op: Op, value: Value) -> None:
        """Note what a constant op says, and what moves and truth operators make of constants."""
        for table, test in ((self._holds, _is_true), (self._lets, _is_near)):
            found = self._created(op, test) or self._derived(op, table)
            if found is not None:
                table[value] = found

    def holds(self, x: Value | float, shape: tuple[int, ...]) -> Region | None:
        """Where a constant operand is not zero in the result; None where that is not known."""
        return self._of(x, shape, self._holds, _is_true)

    def lets(self, x: Value | float, shape: tuple[int, ...]) -> Region | None:
        """Where a constant operand is not far below zero."""
        return self._of(x, shape, self._lets, _is_near)

    def _of(self, x: Value | float, shape: tuple[int, ...], table: dict[Value, Region], test: Any) -> Region | None:
        if not isinstance(x, Value):
            return everything(shape) if test(x) else nothing(shape)
        found = table.get(x)
        return None if found is None else widened(found, shape)

    def _created(self, op: Op, test: Any) -> Region | None:
        if op.name == "full":
            return everything(op.attrs["shape"]) if test(op.attrs["value"]) else nothing(op.attrs["shape"])
        if op.name == "constant":
            array = op.attrs["value"].array
            with np.errstate(invalid="ignore"):
                return at_least(array.shape, int(np.count_nonzero(test(array))))
        if op.name != "band":
            return None
        shape, rank = op.attrs["shape"], len(op.attrs["shape"])
        band = Band(rank - 2, rank - 1, op.attrs["low"], op.attrs["high"])
        inside, outside = test(op.attrs["inside"]), test(op.attrs["outside"])
        return _in_band(shape, band, bool(inside), bool(outside))

    def _derived(self, op: Op, table: dict[Value, Region]) -> Region | None:
        known = [table[x] for x in op.operands if isinstance(x, Value) and x in table]
        if not known or len(known) < len(op.operands) or len(op.results) > 1:
            return None
        if op.name in ON:
            return ON[op.name](op, known) if op.name not in ("pad", "concatenate", "update_slice") else None
        if op.name not in ("bitwise_and", "bitwise_or", "multiply") or table is not self._holds:
            return None
        first, second = (widened(each, op.result.type.shape) for each in known)
        return first.either(second) if op.name == "bitwise_or" else first.both(second)

    def chosen(self, op: Op) -> tuple[Region, Region] | None:
        """For `where` by a constant: the elements that come from the first array, and from the second."""
        shape = op.result.type.shape
        first = self.holds(op.operands[0], shape)
        if first is None:
            return None
        band = first.band
        limits = band.without() if band is not None and all(s is None for s in first.sets) else None
        if band is not None and limits is not None:
            return first, Region(shape, band=Band(band.row, band.column, *limits))
        plain = first.number is None and first.band is None
        return first, everything(shape).outside(first) if plain else at_least(shape, first.size - first.count)

    def visible(self, op: Op, operand: Value) -> Region:
        """Elements of an elementwise op's result for which it needs to know an operand."""
        shape = op.results[0].type.shape
        if op.name == "where":
            regions = self.chosen(op)
            if regions is None or op.operands[0] is operand:
                return everything(shape)
            picked = [region for x, region in zip(op.operands[1:], regions, strict=True) if x is operand]
            return picked[0].either(picked[1]) if len(picked) > 1 else picked[0]
        found = everything(shape)
        for other in op.operands:
            if other is operand or not isinstance(other, Value):
                continue
            table = self.lets if op.name == "add" else self.holds if op.name == "multiply" else None
            region = None if table is None else table(other, shape)
            found = found if region is None else found.both(region)
        return found

    def support(self, op: Op, supports: Mapping[Value, Region]) -> Region:
        """Where the result of an elementwise op is not a known number, from where its operands are not."""
        shape = op.results[0].type.shape
        parts = [widened(region, shape).both(self.visible(op, x)) for x, region in supports.items()]
        if not parts:
            return everything(shape)
        joint = parts[0]
        for part in parts[1:]:
            joint = joint.both(part) if op.name in ("multiply", "divide") else joint.either(part)
        return joint


def _in_band(shape: tuple[int, ...], band: Band, inside: bool, outside: bool) -> Region | None:
    if inside == outside:
        return everything(shape) if inside else nothing(shape)
    if inside:
        return Region(shape, band=band)
    limits = band.without()
    if limits is not None:
        return Region(shape, band=Band(band.row, band.column, *limits))
    return at_least(shape, Region(shape).size - Region(shape, band=band).count)


def _is_true(x: Any) -> Any:
    return x != 0


def _is_near(x: Any) -> Any:
    return np.asarray(x, np.float64) > FAR_BELOW

"""Masks: comparisons of index tensors joined with &. A mask shrinks the region that an instruction works on.

A mask is a conjunction of affine constraints `expression >= 0` (R-legacy-01). What remains of a tile is cut into boxes:
one where each constraint is about one axis, else as many as rows differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from tilewright.errors import TileTypeError, fail
from tilewright.nki.legacy.loop_index import Condition

if TYPE_CHECKING:
    from tilewright.nki.legacy.index import Index

Box = tuple[tuple[int, int], ...]
"""(start, stop) per axis."""


class Mask:
    """Constraints `each >= 0`; `holds` is False where a condition on loops rules everything out.

    difference, op: of a single comparison, its sides' difference and the comparison with 0, for nisa.affine_select.
    """

    __slots__ = ("difference", "holds", "op", "parts")
    _CALLED: ClassVar = "a mask"

    def __init__(
        self, parts: tuple[Index, ...], holds: bool = True, difference: Index | None = None, op: str | None = None
    ) -> None:
        self.parts = parts
        self.holds = holds
        self.difference = difference
        self.op = op

    @staticmethod
    def of(difference: Index, op: str) -> Mask:
        """The mask of `difference op 0`."""
        positive = {
            "greater": lambda: (difference - 1,),
            "greater_equal": lambda: (difference,),
            "less": lambda: (difference * -1 - 1,),
            "less_equal": lambda: (difference * -1,),
            "equal": lambda: (difference, difference * -1),
            "not_equal": lambda: (),
        }
        return Mask(positive[op](), True, difference, op)

    def __getitem__(self, key: object) -> NoReturn:
        raise fail(
            "E108",
            "a mask is not indexed: it has the axes of the index tensors that it compares",
            hint="give these their axes: nl.arange(n)[:, None] < rows",
            error=TileTypeError,
        )

    def __and__(self, other: Any) -> Any:
        if isinstance(other, Mask):
            self.require_convex()
            other.require_convex()
            return Mask(self.parts + other.parts, self.holds and other.holds)
        if isinstance(other, (Condition, bool)):
            return Mask(self.parts, self.holds and bool(other))
        return NotImplemented

    __rand__ = __and__

    def __invert__(self) -> Mask:
        opposite = {
            "less": "greater_equal",
            "less_equal": "greater",
            "greater": "less_equal",
            "greater_equal": "less",
            "equal": "not_equal",
            "not_equal": "equal",
        }
        if self.difference is None or self.op is None:
            raise _unsupported("~ of several comparisons")
        return Mask.of(self.difference, opposite[self.op])

    def __or__(self, other: Any) -> Any:
        raise _unsupported("| of comparisons")

    __ror__ = __or__

    def __bool__(self) -> bool:
        from tilewright.nki.legacy.index import refuse_condition

        return refuse_condition()

    def require_convex(self) -> None:
        """A region that is not one piece cannot be joined with others."""
        if self.op == "not_equal":
            raise _unsupported("!=")

    def boxes(self, sizes: Sequence[int]) -> list[Box]:
        """The region of a tile of these sizes in which all constraints hold."""
        self.require_convex()
        if not self.holds:
            return []
        bounds = [(0, int(size)) for size in sizes]
        mixed: list[Index] = []
        for part in self.parts:
            axes = [axis for axis, coef in enumerate(part.coefs) if coef and part.sizes[axis] > 1]
            if len(part.sizes) != len(sizes):
                raise _unsupported(f"{len(part.sizes)} axes for a tile of {len(sizes)}")
            if len(axes) > 1:
                mixed.append(part)
                continue
            if not axes:
                if part.const < 0:
                    return []
                continue
            bounds[axes[0]] = _narrowed(bounds[axes[0]], int(part.const), part.coefs[axes[0]])
        if any(start >= stop for start, stop in bounds):
            return []
        box = tuple(bounds)
        return _cut(box, mixed) if mixed else [box]


def _narrowed(bounds: tuple[int, int], const: int, coef: int) -> tuple[int, int]:
    """What is left of an axis where const + coef * i >= 0."""
    start, stop = bounds
    if coef > 0:
        return max(start, -(const // coef)), stop
    return start, min(stop, const // -coef + 1)


def _cut(box: Box, parts: Sequence[Index]) -> list[Box]:
    """Boxes that cover where constraints on several axes hold: runs of rows that share their last axis."""
    grids = np.meshgrid(*[np.arange(start, stop) for start, stop in box], indexing="ij", sparse=True)
    inside: Any = True
    for part in parts:
        value: Any = int(part.const)
        for coef, grid in zip(part.coefs, grids, strict=True):
            value = value + coef * grid
        inside = inside & (value >= 0)
    inside = np.broadcast_to(inside, [stop - start for start, stop in box])
    return _boxes(inside, [start for start, _ in box])


def _boxes(inside: np.ndarray, starts: Sequence[int]) -> list[Box]:
    if inside.ndim == 1:
        where = np.flatnonzero(inside)
        return [((starts[0] + int(where[0]), starts[0] + int(where[-1]) + 1),)] if where.size else []
    found: list[Box] = []
    first = 0
    rows = len(inside)
    for row in range(1, rows + 1):
        if row < rows and np.array_equal(inside[row], inside[first]):
            continue
        span = (starts[0] + first, starts[0] + row)
        found += [(span, *box) for box in _boxes(inside[first], starts[1:])]
        first = row
    return found


def _unsupported(what: str) -> Exception:
    return fail(
        "E108",
        f"mask: {what}",
        hint="a mask is made of affine comparisons of index tensors and loop indices, joined with &",
        error=TileTypeError,
    )

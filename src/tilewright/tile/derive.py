"""What every function that makes a view from a view needs: the new view, and the checks they share."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilewright.dtypes import DType
from tilewright.errors import TileTypeError
from tilewright.rules import violate
from tilewright.tile.view import Dynamic, View

NOWHERE = -1
"""`Dynamic.at` of a view in which the indexed dim no longer stands."""


def derive(
    view: View,
    offset: int,
    sizes: Sequence[int],
    strides: Sequence[int],
    *,
    dtype: DType | None = None,
    terms: tuple | None = None,
    dynamic: Dynamic | None = None,
    at: int | None = None,
) -> View:
    """A view on the same buffer. `at` is where the dim of a run-time index went; what is left out stays."""
    if view.dynamic is not None and view.dynamic.kind == "columns":
        require_unindexed(view, view.dynamic.at, "another view")
    chosen = dynamic or view.dynamic
    if at is not None and chosen is not None and chosen.at != at:
        chosen = replace(chosen, at=at)
    made = View(
        view.buffer,
        view.dtype if dtype is None else dtype,
        offset,
        tuple(sizes),
        tuple(strides),
        view.terms if terms is None else terms,
        chosen,
    )
    made.broken = view.broken
    made.outside = view.outside and made.reach_outside() is not None
    return made


def dynamic_at(view: View) -> int:
    """The dim of the view that a run-time index addresses, or NOWHERE."""
    return NOWHERE if view.dynamic is None else view.dynamic.at


def whole_number(value: object, what: str, rule: str = "R-tensor.index-05") -> int:
    """A Python int for Python and NumPy integers; anything else is refused."""
    if value.__class__ is int:
        return value  # type: ignore[return-value]
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        violate(
            rule,
            f"{what} {value!r} is not a whole number",
            hint=_instead(value),
            final=True,
            error=TileTypeError,
        )
        raise


def _instead(value: object) -> str:
    """What to write for a value that is no whole number."""
    if isinstance(value, float):
        return "pass an int: n // 128, not n / 128"
    if value is None or isinstance(value, (str, tuple, list, dict)):
        return "pass an int"
    return "use nl.ds(start, size) for a start that is known only at run time"


def whole_numbers(values: Any, what: str, rule: str) -> tuple[int, ...]:
    """A tuple of ints for a sequence of whole numbers, or a single one."""
    if isinstance(values, (tuple, list)):
        return tuple([whole_number(value, what, rule) for value in values])
    return (whole_number(values, what, rule),)


def check_dim(view: View, dim: int, name: str) -> int:
    """The dim counted from the front, refused when the view has no such dim."""
    dim = whole_number(dim, f"{name}: dim")
    if not -view.ndim <= dim < view.ndim:
        violate(
            "R-tensor.index-01",
            f"{name}: dim {dim} of a {view.ndim}-D tensor",
            operands=[view.note("tensor")],
            final=True,
            hint="dims count from 0, or from the end with -1",
        )
    return dim % view.ndim


def require_free_dim(view: View, dim: int, rule: str, name: str) -> None:
    """Dim 0 is the partition dim on chip, and the row index of a gathered view: most view operations leave it alone."""
    if dim != 0:
        return
    gathered = view.dynamic is not None and view.dynamic.kind == "vector"
    if view.on_chip or gathered:
        what = "the partition dim" if view.on_chip else "the indexed dim"
        violate(
            rule,
            f"{name} on dim 0, {what}",
            operands=[view.note("tensor")],
            final=True,
            hint="move it to another dim with permute in HBM, or transpose the tile",
        )


def require_unindexed(view: View, dim: int, name: str) -> None:
    """R-tensor.select-04: a dim that a run-time index addresses is not sliced or selected again.

    Column offsets belong to the partitions of their tile, so that they address both dims.
    """
    if view.dynamic is not None and (view.dynamic.at == dim or view.dynamic.kind == "columns"):
        violate(
            "R-tensor.select-04",
            f"{name} of dim {dim}, which a run-time index already addresses",
            hint="slice before indexing at run time, or let the index and size say it all",
            operands=[view.note("tensor")],
            final=True,
        )


def check_rank(view: View, ndim: int) -> None:
    """A view of this tensor has at least 2 dims on chip and at least 1 in HBM."""
    if view.on_chip and ndim < 2:
        violate(
            "R-tensor-02",
            f"a {ndim}-D view of an on-chip tensor",
            hint="tiles have a partition dim and at least one free dim: keep a dim of size 1",
            operands=[view.note("tensor")],
            final=True,
        )
    if ndim < 1:
        violate(
            "R-tensor.index-03",
            "a view without dims of a tensor in HBM",
            hint="views of HBM tensors have at least one dim: keep one of size 1",
            operands=[view.note("tensor")],
            final=True,
        )

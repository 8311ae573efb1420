"""Masks that are known at run time only, as keys: assignments through them keep the shape of the array."""

from __future__ import annotations

from typing import Any

from tilewright.front.array import TracedArray, new
from tilewright.front.assign import content_for
from tilewright.front.keys import Mask, is_basic
from tilewright.front.promote import as_input, cast, shape_of
from tilewright.front.selection import Selection, same_value, spread_mask, unknown_count
from tilewright.front.storage import reshaped
from tilewright.front.trace import emit
from tilewright.front.views import sliced
from tilewright.ir.core import Value


def select(x: TracedArray, items: tuple[Any, ...], adjacent: bool) -> Any:
    """x[mask]: what may become of it depends on what is done next."""
    mask = _only_mask(items, "x[mask, index]")
    base, axis = _without_mask(x, items)
    return Selection(new(base.value), mask.value, base.ndim - axis - max(mask.ndim, 1), axis if adjacent else 0)


def _only_mask(items: tuple[Any, ...], what: str) -> TracedArray:
    masks = [item.array for item in items if isinstance(item, Mask)]
    if len(masks) > 1 or not is_basic(tuple(item for item in items if not isinstance(item, Mask))):
        raise unknown_count(what, "np.where(mask, x, y) in place of it")
    return masks[0]


def write_masked(x: TracedArray, items: tuple[Any, ...], adjacent: bool, value: Any) -> None:
    """x[mask] = value as a choice between both, for values that do not depend on how many elements are selected."""
    mask = _only_mask(items, "x[mask, index] = value")
    base, axis = _without_mask(x, items)
    rank = max(mask.ndim, 1)
    if isinstance(value, Selection):
        if not same_value(value.mask, mask.value) or value.full.shape != base.shape:
            raise unknown_count("x[mask] = y[other]", "np.where(mask, y, x) with both in the same shape")
        content = cast(value.full.value, base.type.dtype)
    else:
        content = _masked_content(as_input(value), base, axis, rank, axis if adjacent else 0)
    spread = spread_mask(mask.value, base.ndim - axis - rank)
    base.assign(emit("where", spread, content, base.value))


def _masked_content(given: Any, base: TracedArray, axis: int, rank: int, place: int) -> Value:
    """A value that is written to all selected elements alike. They are one dim of what is written, at `place`."""
    rest = (*base.shape[:axis], *base.shape[axis + rank :])
    shape, behind = shape_of(given), len(rest) - place
    if len(shape) > behind and shape[len(shape) - behind - 1] != 1:
        raise unknown_count(
            f"x[mask] = value with a value of shape {shape}", "np.where(mask, value, x) with a value in the shape of x"
        )
    content = content_for(given, base, (*rest[:place], 1, *rest[place:]))
    return reshaped(content, (*rest[:axis], *(1,) * rank, *rest[axis:]))


def _without_mask(x: TracedArray, items: tuple[Any, ...]) -> tuple[TracedArray, int]:
    """The view by the other parts of the key, and the first of its dims that the mask selects from."""
    key: list[Any] = []
    axis, seen = 0, False
    named = sum(item.array.ndim if isinstance(item, Mask) else item not in (None, ...) for item in items)
    for item in items:
        if isinstance(item, Mask):
            key += [slice(None)] * item.array.ndim or [None]
            seen = True
        else:
            key.append(item)
            axis += 0 if seen or isinstance(item, int) else x.ndim - named if item is Ellipsis else 1
    return sliced(x, tuple(key)), axis

"""Joins, paddings and updates: what goes where in the result's place in HBM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.dtypes import DType
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.move.fill import Filling
from tilewright.lower.move.parts import Part, number
from tilewright.lower.move.together import put_together
from tilewright.lower.regions.delivery import joined_at, result_place
from tilewright.lower.write.homes import Hbm, device_dtype
from tilewright.tile.memory import Buffer
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def result_in_hbm(low: Lowering, op: Op, any_order: bool = False) -> View:
    """Where the result of an op lives in HBM: an output of the kernel, or a tensor of its own.

    any_order: of an output that is a view of it, too, whatever the order of its dims there.
    """
    views = low.outputs.get(op.result) if any_order else None
    out = views[0] if views else place_in_hbm(low, op.result, op.result.name or op.name)
    low.homes[op.result] = Hbm(out)
    return out


def place_in_hbm(low: Lowering, value: Value, name: str) -> View:
    """An output of the kernel where the value is one, or becomes one by updates alone; else a tensor of its own."""
    last = _updated(low, value)
    plain = [view for view in low.outputs.get(last, ()) if view.is_contiguous()]
    views = plain or [result_place(last, low.results)]
    return views[0] or low.b.hbm(value.type.shape, device_dtype(value.type.dtype), name)


def _updated(low: Lowering, value: Value) -> Value:
    """What a value is in the end, as long as updates of it are all that reads it, each a step of its own: groups may
    read what they change more than once."""
    while len(value.uses) == 1 and (op := value.uses[0]).name == "update_slice" and op.operands[0] is value:
        if not any(step is op for step in low.draft.steps):
            break
        value = op.result
    return value


def join(low: Lowering, op: Op) -> None:
    """Each part to its place along the axis, unless it is there."""
    out, axis, at = low.places.get(op.result) or result_in_hbm(low, op), op.attrs["axis"], 0
    low.homes[op.result] = Hbm(out)
    pieces: list[Piece] = []
    for x, place in joined_at(op, out):
        if not _lies_at(low, x, place):
            pieces.append((x, [at if d == axis else 0 for d in range(out.ndim)], [1] * out.ndim))
        at += x.type.shape[axis]
    _put(low, out, pieces)


def _lies_at(low: Lowering, x: Value, place: View) -> bool:
    """True for a value that was written to a place when it was made."""
    home = low.homes.get(x)
    if not isinstance(home, Hbm) or home.view.buffer is not place.buffer or home.view.offset != place.offset:
        return False
    steps = [[s for s, n in zip(each.strides, each.sizes, strict=True) if n != 1] for each in (home.view, place)]
    return home.view.sizes == place.sizes and steps[0] == steps[1] and home.view.terms == place.terms


def place_of_update(low: Lowering, op: Op) -> tuple[View, bool]:
    """Where the result of an update goes, and whether what it changes is there already."""
    place = low.in_place.get(op)
    if place is None:
        return result_in_hbm(low, op), False
    low.homes[op.result] = Hbm(place)
    return place, True


def copied_to_update(low: Lowering, op: Op) -> View:
    """Where the result of an update goes, with what it changes there."""
    x, (out, is_there) = op.operands[0], place_of_update(low, op)
    if x.type.size and not is_there and not low.fill(x, out):
        low.store(low.home(x), out)
    return out


def overlay(low: Lowering, op: Op) -> None:
    """The part over the whole: where that lies if nothing else reads it, else over a copy."""
    x, part = op.operands
    over = (part, op.attrs["starts"], op.attrs["steps"])
    place = low.in_place.get(op) or _place_to_change(low, op)
    if place is not None:
        low.homes[op.result] = Hbm(place)
        _put(low, place, [over])
        return
    out = result_in_hbm(low, op)
    _put(low, out, [(x, [0] * out.ndim, [1] * out.ndim), over])


@decision("update: in place", if_found=True)
def _place_to_change(low: Lowering, op: Op) -> View | None:
    """Where the operand of an update lies in HBM, if it may be written there: it is no input, and of no use later."""
    x, part = op.operands
    home, new = low.homes.get(x), low.homes.get(part)
    if not isinstance(home, Hbm) or home.view.buffer in low.b.graph.inputs or not home.view.is_contiguous():
        return None
    buffer = home.view.buffer
    if (isinstance(new, Hbm) and new.view.buffer is buffer) or not low.is_free(buffer, op):
        return None
    # What is returned goes to its own place.
    return home.view if place_of(low, op.result) in (None, buffer) else None


def place_of(low: Lowering, value: Value) -> Buffer | None:
    """The output of the kernel that a value is, if it is one."""
    views = low.outputs.get(value, ())
    found = views[0] if views else result_place(value, low.results)
    return None if found is None else found.buffer


def surround(low: Lowering, op: Op) -> None:
    """The border is one number, the middle the operand."""
    (x,) = op.operands
    out = result_in_hbm(low, op)
    step, start, sizes = [1] * out.ndim, [0] * out.ndim, list(out.sizes)
    edges: list[Part] = []
    for d, size in enumerate(x.type.shape):
        before, after = op.attrs["low"][d], op.attrs["high"][d]
        for first, count in ((0, before), (before + size, after)):
            if count:
                start[d], sizes[d] = first, count
                edges.append(number(op.attrs["value"], sizes, start, step, out.dtype))
        start[d], sizes[d] = before, size
    _put(low, out, [(x, start, step)], edges)


Piece = tuple[Value, Sequence[int], Sequence[int]]
"""A value and where it goes: from where on along each dim, and how far apart."""


def _put(low: Lowering, out: View, pieces: Sequence[Piece], edges: Sequence[Part] = ()) -> None:
    """Write what a result in HBM consists of, later pieces over earlier ones."""
    parts = [*edges, *[_part(low, *piece, out.dtype) for piece in pieces if piece[0].type.size]]
    if all(part is not None for part in parts):
        put_together(low, out, [part for part in parts if part is not None])
        return
    put_together(low, out, edges)
    for (x, start, step), part in zip(pieces, parts[len(edges) :], strict=True):
        place = number(0, x.type.shape, start, step, out.dtype).of(out)
        if part is None:
            low.store(low.home(x), place)
        else:
            put_together(low, place, [Part(part.source, (0,) * out.ndim, (1,) * out.ndim, part.value)])


def _part(low: Lowering, x: Value, start: Sequence[int], step: Sequence[int], dtype: DType) -> Part | None:
    """A value as a part of a result, unless it is on chip."""
    op = x.producer
    if op is not None and op.name == "full":
        return number(op.attrs["value"], x.type.shape, start, step, dtype)
    home = low.home(x)
    return Part(home.view, tuple(start), tuple(step)) if isinstance(home, Hbm) else None


def fill_hbm(low: Lowering, out: View, value: float) -> None:
    """Every element of a view in HBM the same."""
    if out.size:
        Filling(low, out, value).write()

"""Results that are views of what is computed: it is written to the result's place at once, in the result's order."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.core import OUTPUTS, Op, Value
from tilewright.lower.regions.grouping import Group
from tilewright.lower.write.homes import device_dtype
from tilewright.lower.write.views import merged, permuted, reshaped
from tilewright.tile.memory import SHARED_HBM, Buffer
from tilewright.tile.view import View, whole


def behind_views(value: Value, out: View) -> tuple[Value, View] | None:
    """What a result is a view of, and `out`, where the result goes, in its order; None where that is no such view."""
    first = value
    while (op := value.producer) is not None and op.name in ("transpose", "reshape"):
        (value,) = op.operands
        if op.name == "transpose":
            perm = op.attrs["perm"]
            out = permuted(out, tuple(perm.index(d) for d in range(len(perm))))
            continue
        made = reshaped(out, value.type.shape)
        if made is None:
            return None
        out = made
    if value is first or value.producer is None or value.producer.definition.family == "creation":
        return None
    # Elements that are neighbours stay so.
    long = [stride for size, stride in zip(out.sizes, out.strides, strict=True) if size != 1]
    return (value, out) if long and long[-1] == 1 else None


def result_place(value: Value, results: Sequence[tuple[Value, View]]) -> View | None:
    """The place of a result that is another shape of a value, in the value's shape; None where there is none."""
    for result, out in results:
        while result is not value and (op := result.producer) is not None and op.name == "reshape":
            (result,) = op.operands
        if result is value:
            return reshaped(out, value.type.shape)
    return None


def can_deliver(group: Group, value: Value, out: View) -> bool:
    """True where the blocks of a group can write a value to a place of another order."""
    first, stop = group.roles[value].rows
    return out.is_contiguous() or first == stop or merged(out, first, stop - 1) is not None


def is_only_delivered(value: Value, group: Group) -> bool:
    """True for a value of a group that nothing reads but results of the program, which it is written to at once."""
    return all(_is_result(value, use, group) for use in value.uses)


def _is_result(value: Value, use: Op, group: Group) -> bool:
    """True for the end of the program, and for views that lead there alone."""
    if use.definition is OUTPUTS:
        return True
    if use.name not in ("transpose", "reshape") or not use.result.uses:
        return False
    if any(each.definition is OUTPUTS for each in use.result.uses):
        type = use.result.type
        place = whole(Buffer(device_dtype(type.dtype), type.shape, SHARED_HBM))
        found = behind_views(use.result, place)
        if found is None or found[0] is not value or not can_deliver(group, *found):
            return False
    return all(_is_result(value, each, group) for each in use.result.uses)

"""Results that are views of what is computed, or joined of it: it is written to the result's place at once, in the
result's order."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from tilewright.ir.core import OUTPUTS, Graph, Op, Value
from tilewright.lower.regions.grouping import Group, Step, computed_by
from tilewright.lower.regions.in_place import Replacement, old_readers, replaceable
from tilewright.lower.write.homes import device_dtype
from tilewright.lower.write.views import merged, permuted, reshaped, sliced
from tilewright.target import Target
from tilewright.tile.dma import contiguous_runs
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
    return (value, out) if _has_neighbours(out) else None


def _has_neighbours(out: View) -> bool:
    """True where elements that are neighbours in a value are so in its place."""
    long = [stride for size, stride in zip(out.sizes, out.strides, strict=True) if size != 1]
    return bool(long) and long[-1] == 1


def joined_at(op: Op, out: View) -> Iterator[tuple[Value, View]]:
    """The parts of a join, and where in its place each of them goes."""
    at = 0
    for x in op.operands:
        size = x.type.shape[op.attrs["axis"]]
        yield x, sliced(out, op.attrs["axis"], at, size)
        at += size


def behind_join(op: Op, out: View) -> Iterator[tuple[Value, View]]:
    """What is computed for the parts of a join that nothing else reads, and where in its place that goes."""
    for x, place in joined_at(op, out):
        if len(x.uses) != 1:
            continue
        if x.producer is not None and x.producer.name not in ("transpose", "reshape"):
            yield from [(x, place)] if _has_neighbours(place) else []
        elif (behind := behind_views(x, place)) is not None:
            yield behind


def placed_parts(steps: Sequence[Step], target: Target) -> dict[Op, list[Value]]:
    """Joins that are steps by themselves, and what groups write to its place in them at once: parts whose runs there
    are not so short that writing them takes longer than joining them later."""
    made_by = {x: step for step in steps if isinstance(step, Group) for x in step.roles}
    found: dict[Op, list[Value]] = {}
    for op in steps:
        if isinstance(op, Group) or op.name != "concatenate" or not op.result.type.size:
            continue
        out = whole(Buffer(device_dtype(op.result.type.dtype), op.result.type.shape, SHARED_HBM))
        for x, at in behind_join(op, out):
            is_long = contiguous_runs(at)[0] >= target["dma.small_hbm_write_below"]
            if x in made_by and is_long and can_deliver(made_by[x], x, at):
                found.setdefault(op, []).append(x)
    return found


def written_in_place(program: Graph, steps: Sequence[Step]) -> list[Replacement]:
    """Arguments that are changed where they lie: the updates are steps of their own, and no later step reads what they
    change."""
    last = {op: at for at, step in enumerate(steps) for op in computed_by(step)}
    alone = {step: at for at, step in enumerate(steps) if isinstance(step, Op)}
    return [
        each
        for each in replaceable(program)
        if all(op in alone and all(last[use] < alone[op] for use in old_readers(op)) for op in each.updates)
    ]


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


def is_only_delivered(value: Value, group: Group, placed: Container[Value]) -> bool:
    """True for a value of a group that nothing reads but results of the program, which it is written to at once.

    placed: values that are written to where a join has them.
    """
    return all(_is_result(value, use, group, placed) for use in value.uses)


def _is_result(value: Value, use: Op, group: Group, placed: Container[Value]) -> bool:
    """True for the end of the program, for views that lead there alone, and for a join that the value is a part of."""
    if use.definition is OUTPUTS:
        return True
    if use.name == "concatenate" and value in placed:
        return True
    if use.name not in ("transpose", "reshape") or not use.result.uses:
        return False
    if any(each.definition is OUTPUTS for each in use.result.uses):
        type = use.result.type
        place = whole(Buffer(device_dtype(type.dtype), type.shape, SHARED_HBM))
        found = behind_views(use.result, place)
        if found is None or found[0] is not value or not can_deliver(group, *found):
            return False
    return all(_is_result(value, each, group, placed) for each in use.result.uses)

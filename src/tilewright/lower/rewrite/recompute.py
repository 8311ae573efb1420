"""Values that are computed again where they are read again, instead of leaving the chip in between.

What a later pass reads has to wait for a reduction or a product of it: an array that is scaled by its own norm in the
end. Where elementwise ops make it of what is there anyway, or in HBM, each pass may have a copy of these ops.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from tilewright.ir.core import OUTPUTS, Graph, Op, Value, clone_op
from tilewright.lower.decisions import decided
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import is_view


@dataclass(frozen=True, slots=True)
class Recomputation:
    """Which ops are computed again, and for whom, by their numbers in a program.

    makers: in order; the last one makes what is read. readers: those of each pass that has a copy of them.
    """

    makers: tuple[int, ...]
    readers: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        return " for ".join(" ".join(map(str, numbers)) for numbers in (self.makers, *self.readers))

    @staticmethod
    def parse(text: str) -> Recomputation | None:
        """The same from its text; None for any other."""
        parts = [part.split() for part in text.split(" for ")]
        if len(parts) < 2 or not all(parts) or not all(word.isdecimal() for part in parts for word in part):
            return None
        makers, *readers = (tuple(map(int, part)) for part in parts)
        return Recomputation(makers, tuple(readers))


def recompute(program: Graph, asked: Recomputation) -> Graph | None:
    """The program in which some passes compute a value for themselves; None where that has no such ops."""
    count, makers = len(program.ops), asked.makers
    read = [number for numbers in asked.readers for number in numbers]
    if not makers or list(makers) != sorted(set(makers)) or len(set(read)) < len(read) or max(*makers, *read) >= count:
        return None
    if not all(_is_light(program.ops[number]) for number in makers):
        return None
    users = program.ops[makers[-1]].result.uses
    if not all(program.ops[number] in users for number in read):
        return None
    decided("form: recomputed")
    made = program.clone()
    ops = list(made.ops)
    for numbers in asked.readers:
        mapping: dict[Value, Value] = {}
        for number in makers:
            made.body.insert_before(ops[min(numbers)], clone_op(ops[number], mapping))
        for number in numbers:
            use = ops[number]
            use.replace_operands([x.substitute(mapping) if isinstance(x, Value) else x for x in use.operands])
    return made


def recomputation(program: Graph, value: Value, step_of: Mapping[Op, int], stored: Container[Value]) -> str | None:
    """How passes after the first would compute a value of what is `stored` or small, as text; None where a single one
    reads it, or where it is made by other than elementwise ops, or of more than it is.

    step_of: who reads what in the same pass, as far as nothing is made of all of the value in between.
    """
    op = value.producer
    makers = None if op is None or not _is_light(op) else _makers(op, stored)
    readers = _later(value, step_of)
    if makers is None or not readers:
        return None
    order = {each: i for i, each in enumerate(program.ops)}
    numbers = (tuple(order[each] for each in some) for some in readers)
    return str(Recomputation(tuple(order[each] for each in makers), tuple(numbers)))


def _makers(op: Op, stored: Container[Value]) -> list[Op] | None:
    size = op.result.type.size
    found: dict[Op, None] = {}
    read: dict[Value, None] = {}
    todo = [op]
    while todo:
        maker = todo.pop()
        if maker in found:
            continue
        found[maker] = None
        for x in maker.values():
            # What is small, such as a number for each row, is there.
            if x.type.size * TUNING.few_makers <= size:
                continue
            if x.producer is None or x in stored:
                read[x] = None
            elif not _is_light(x.producer):
                return None
            else:
                todo.append(x.producer)
    region = op.parent
    assert region is not None
    return None if sum(x.type.size for x in read) > 2 * size else [each for each in region.ops if each in found]


def _later(value: Value, step_of: Mapping[Op, int]) -> list[list[Op]]:
    """Who reads a value in later passes: in other steps, or after something was made of all of it."""
    if any(use.definition is OUTPUTS for use in value.uses):
        # It is written to HBM in any case.
        return []
    depth = {value: 0}
    todo = [*value.uses]
    while todo:
        use = todo.pop()
        if use.definition is OUTPUTS:
            continue
        deep = max(depth[x] for x in use.values() if x in depth)
        deep += use.definition.family not in ("elementwise", "shape") and not is_view(use)
        for result in use.results:
            if depth.get(result, -1) < deep:
                depth[result] = deep
                todo += result.uses
    passes: dict[tuple[int, int], list[Op]] = {}
    for use in dict.fromkeys(value.uses):
        deep = max(depth[x] for x in use.values() if x in depth)
        passes.setdefault((step_of.get(use, -1), deep), []).append(use)
    return [passes[at] for at in sorted(passes)][1:]


def _is_light(op: Op) -> bool:
    """True for elementwise ops, views, and arrays that a rule makes."""
    return len(op.results) == 1 and (op.definition.family in ("elementwise", "creation") or is_view(op))

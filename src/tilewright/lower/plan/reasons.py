"""Why a group of ops ends where it does: what kept the readers of its results from joining it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tilewright.ir.core import OUTPUTS, Op, Value
from tilewright.lower.regions.grouping import Group, reads_apart
from tilewright.lower.regions.roles import PRODUCTS, Roles, carried, row_count
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import is_view


def endings(group: Group, is_ready: Callable[[Value], bool]) -> Iterator[tuple[Op, str]]:
    """Every op that reads a result, or a view of one, and is not in the group, with the reason.

    is_ready: whether a value is computed before the group or by it.
    """
    inside = {*group.inside, *group.shared}
    known = dict(group.roles)
    work = [use for value in group.results for use in value.uses]
    seen = set(inside)
    while work:
        op = work.pop(0)
        if op in seen or op.definition is OUTPUTS:
            continue
        seen.add(op)
        made = carried(op, known) if is_view(op) else None
        if made is None:
            yield op, why_apart(op, group, known, is_ready)
        else:
            known[op.result] = made
            work += op.result.uses


def why_apart(op: Op, group: Group, known: Mapping[Value, Roles], is_ready: Callable[[Value], bool]) -> str:
    """Why an op that reads values whose roles in a group are known is computed apart from it."""
    if is_view(op):
        return "it rearranges rows"
    missing = [v for v in op.values() if v not in known and not is_ready(v)]
    if missing:
        return f"it also needs {missing[0].name or 'a value'}, which is not computed yet"
    if op.name in PRODUCTS and op.operands[1] in known:
        return "as its right operand, of which every block of rows needs all"
    made = carried(op, known)
    if made is None:
        return _cannot_carry(op, known)
    shape = op.result.type.shape
    if row_count(shape, made) != group.rows or tuple(shape[d] for d in made.batch) != group.batch:
        return f"it has other rows than the group's {group.rows}"
    if group.rows < TUNING.few_rows and op.result.type.size > TUNING.much_work:
        return f"{group.rows} partitions would be long at work that more could share"
    if reads_apart(op, made, group):
        return "an operand would be loaded element by element"
    return "it is computed with the ops that read it"


def _cannot_carry(op: Op, known: Mapping[Value, Roles]) -> str:
    """Why no block of rows is enough for an op."""
    if op.definition.family in ("reduction", "scan"):
        axes = op.attrs["axes"] if "axes" in op.attrs else (op.attrs["axis"],)
        if not all(known[op.operands[0]].is_free(a) for a in axes):
            return f"it goes over dim {', '.join(map(str, axes))}, which lies across blocks of rows"
        return "its lines are too long for rows"
    if op.name in PRODUCTS:
        return "its rows are other dims than the group's"
    if op.definition.family == "elementwise":
        return "it reads the group's values with other dims as rows"
    return "it needs more than a block of rows"

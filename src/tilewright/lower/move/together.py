"""Results in HBM of parts of other tensors, in any order: the way that takes the least time.

Each part by one transfer where runs of elements stay together; through SBUF with the order changed inside each
partition, all parts at once (`assemble.py`); or with blocks of two long dims turned by the Tensor engine (`copy.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.lower.decisions import decision
from tilewright.lower.move.assemble import Assembly, Plan, excess_ns
from tilewright.lower.move.copy import Turn
from tilewright.lower.move.fill import Filling
from tilewright.lower.move.parts import Part, everything
from tilewright.lower.write.boxes import thought
from tilewright.lower.write.transfers import moving, transfer
from tilewright.lower.write.views import sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering

Choice = tuple[float, Callable[[], None]]
"""About how long something takes, and what writes it."""


def copy_hbm(low: Lowering, source: View, out: View) -> None:
    """out = source, element by element."""
    put_together(low, out, [everything(source)])


def put_together(low: Lowering, out: View, parts: Sequence[Part]) -> None:
    """Write all parts of a result, later ones over earlier ones, the quickest way."""
    _together(low, out, parts)[1]()


def _together(low: Lowering, out: View, parts: Sequence[Part]) -> Choice:
    """At once by way of SBUF, each for itself, or piece by piece of the first dim that is not the same of all parts."""
    choices = [_in_turn(low, [_alone(low, part, part.of(out)) for part in parts])]
    if len(parts) > 1:
        pieces = _pieces(out, parts)
        if pieces:
            choices.append(_in_turn(low, [_together(low, *piece) for piece in pieces]))
        best = min(choices, key=lambda choice: choice[0])
        assembly = Assembly(low, out, parts)
        plan = assembly.best(best[0])
        if plan is not None:
            choices.append((plan.ns, lambda: _with_rest(low, assembly, plan)))
    return min(choices, key=lambda choice: choice[0])


def _in_turn(low: Lowering, choices: Sequence[Choice]) -> Choice:
    """One after the other, of which all but the first begin while another is on its way."""

    def write() -> None:
        for _, each in choices:
            each()

    one = thought((1, 1), float32)
    begin = moving(one, one, low.target).ns - low.target["dma.core_interval_ns"]
    return sum(ns - begin for ns, _ in choices) + begin, write


@decision("copy: put together on chip")
def _with_rest(low: Lowering, assembly: Assembly, plan: Plan) -> None:
    for rest, left in assembly.write(plan):
        put_together(low, rest, left)


def _pieces(out: View, parts: Sequence[Part]) -> list[tuple[View, list[Part]]]:
    """The result cut where parts begin and end along the first dim that some part is not all of; none if they mix."""
    for d, size in enumerate(out.sizes):
        if all(part.is_whole(d, size) for part in parts):
            continue
        if any(part.step[d] != 1 for part in parts):
            return []
        begins, ends = {p.start[d] for p in parts}, {p.start[d] + p.source.sizes[d] for p in parts}
        made: list[tuple[View, list[Part]]] = []
        for first, stop in pairwise(sorted({0, size} | begins | ends)):
            some = [part.between(d, first, stop) for part in parts]
            made.append((sliced(out, d, first, stop - first), [part for part in some if part is not None]))
        return made if any(len(some) > 1 for _, some in made) else []
    return []


def _alone(low: Lowering, part: Part, out: View) -> Choice:
    """A part by itself."""
    if part.value is not None:
        filling = Filling(low, out, part.value)
        return filling.ns, filling.write
    assembly = Assembly(low, out, [everything(part.source)])
    out, source = assembly.out, assembly.parts[0].source
    direct = moving(out, source, low.target, out.ndim).ns + excess_ns(source, source, low.target)
    plan = assembly.best(direct)
    ns = direct if plan is None else plan.ns
    turn = Turn.of(low, source, out)
    if turn is not None and turn.ns < ns:
        return turn.ns, turn.write
    if plan is None:
        return ns, lambda: transfer(low.b, out, source, out.ndim)
    return ns, lambda: _with_rest(low, assembly, plan)

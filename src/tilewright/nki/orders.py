"""Do results depend on an order that nothing fixes: that of the cores, or of a core's instructions?

Where cores race, the kernel runs once more with the cores in other orders, and is compared (`sim.cores.other_orders`).
Where the results are the same, the race is one that nobody can see, such as of rows that are masked out afterwards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilewright.errors import TileError
from tilewright.interop import is_torch, torch_to_numpy
from tilewright.nki.arrays import Arguments
from tilewright.rules import Reporter
from tilewright.sim.cores import Order, other_orders
from tilewright.sim.orders import Edge, Given, Replays
from tilewright.sim.races import UNSEEN, Accesses, report_loose, report_races, told
from tilewright.sim.session import Session

ORDER_RULE = "R-schedule-01"


def check_orders(reporter: Reporter, session: Session, given: Given, edges: Sequence[Edge], count: int) -> None:
    """R-schedule-01: the results are the same in other legal orders of the instructions."""
    found = Replays(session, given, edges).find(count)
    if found is None:
        return
    first, second = found
    reporter.violate(
        ORDER_RULE,
        f"the results are different when {second.name} runs before the {first.name} at {first.location}, and nothing "
        f"orders the two",
        hint=f"put both into `with nl.no_reorder():`, or let the {second.name} wait: .depends_on(...)",
        location=second.location,
        notes=[f"the {first.name} is at {first.location}"],
        code="E402",
    )


Again = Callable[[dict[int, np.ndarray], Order], tuple[Any, Arguments] | None]
"""Runs the kernel in another order on what was given for arguments that were written to; None when it breaks rules."""


@contextmanager
def beside_races(accesses: Accesses | None) -> Iterator[None]:
    """An error that is raised meanwhile says where cores race: an output with holes may be one that both write."""
    try:
        yield
    except TileError as error:
        clashes = accesses.clashes.values() if accesses is not None else ()
        notes = [f"cores race, at {clash.location}: {told(clash, view)}" for clash, view in clashes]
        error.tell(dataclasses.replace(error.diagnostic, notes=(*error.diagnostic.notes, *notes)))
        raise


def judge_races(reporter: Reporter, accesses: Accesses, result: Any, arguments: Arguments, again: Again) -> None:
    """Report the races of a run as errors if the results depend on the order of the cores, and else as warnings."""
    report_loose(reporter, accesses)
    if not accesses.clashes:
        return
    if any(clash.certain for clash, _ in accesses.clashes.values()):
        report_races(reporter, accesses, False, "")
    given = {key: held.before().copy() for key, held in arguments.held.items() if held.undo.written}
    here = [*_arrays(result), *_written(arguments, given)]
    for order in other_orders(accesses):
        other = again(given, order)
        if other is None:
            report_races(reporter, accesses, True, "in the other order the kernel breaks rules")
            return
        there = [*_arrays(other[0]), *_written(other[1], given)]
        if len(here) != len(there) or not all(_same(a, b) for a, b in zip(here, there, strict=False)):
            report_races(reporter, accesses, True, order.seen)
            return
    report_races(reporter, accesses, False, UNSEEN)


def _arrays(result: Any) -> Iterator[np.ndarray]:
    if isinstance(result, np.ndarray):
        yield result
    elif is_torch(result):
        yield torch_to_numpy(result)
    elif isinstance(result, (tuple, list)):
        for each in result:
            yield from _arrays(each)
    elif isinstance(result, dict):
        for each in result.values():
            yield from _arrays(each)


def _written(arguments: Arguments, given: dict[int, np.ndarray]) -> Iterator[np.ndarray]:
    return (held.used for key, held in arguments.held.items() if key in given)


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()

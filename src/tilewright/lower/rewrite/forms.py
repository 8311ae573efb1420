"""Forms of a program: the same computation rewritten in ways that help some kernels and not others."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir.core import Graph
from tilewright.lower.regions.stencils import find_stencils
from tilewright.lower.rewrite.digits import split_into_digits
from tilewright.lower.rewrite.naming import name_values
from tilewright.lower.rewrite.prepare import prepare
from tilewright.lower.rewrite.spread_rows import spread_over_rows
from tilewright.lower.rewrite.spread_taps import spread_taps
from tilewright.lower.schedule.data import PLAIN
from tilewright.target import Target

PATCHED, SPREAD_TAPS, DIGITS, SPREAD_ROWS = "patches", "spread taps", "digits", "spread rows"


def plain(given: Graph, target: Target) -> Graph:
    """With what always helps."""
    program = given.clone()
    prepare(program, target)
    return program


def has_neighbours(program: Graph, target: Target) -> bool:
    """True where elements are computed from their neighbours, so that the work can be cut into patches."""
    return bool(find_stencils(program, target["limits.partitions"]))


def with_spread_taps(given: Graph, target: Target) -> Graph | None:
    """With convolutions as sums of shifted arrays, where that leaves work to be cut into patches."""
    program = given.clone()
    if not spread_taps(program):
        return None
    prepare(program, target)
    return program if has_neighbours(program, target) else None


def in_digits(given: Graph, target: Target) -> tuple[Graph, bool] | None:
    """With dims as the digits that reshapes make of them, and whether rows were spread besides."""
    program = given.clone()
    if not split_into_digits(program):
        return None
    prepare(program, target)
    # Simplifying moves ops before reshapes again, where they have the dims of one side only.
    split_into_digits(program)
    name_values(program)
    return program, spread_over_rows(program)


def with_spread_rows(prepared: Graph) -> Graph | None:
    """With few long rows as more and shorter ones."""
    program = prepared.clone()
    return program if spread_over_rows(program) else None


Form = Callable[[Graph, Target], "Graph | None"]
FORMS: dict[str, tuple[Form, bool]] = {
    PLAIN: (plain, False),
    PATCHED: (lambda given, target: _if_neighbours(plain(given, target), target), True),
    SPREAD_TAPS: (with_spread_taps, True),
    DIGITS: (lambda given, target: (in_digits(given, target) or (None, False))[0], False),
    SPREAD_ROWS: (lambda given, target: _spread(given, target), False),
}
"""Name -> what makes a program of this form, where it has one, and whether work on neighbours is cut into patches."""


def _if_neighbours(program: Graph, target: Target) -> Graph | None:
    return program if has_neighbours(program, target) else None


def _spread(given: Graph, target: Target) -> Graph | None:
    return with_spread_rows(plain(given, target)) if not split_into_digits(given.clone()) else None

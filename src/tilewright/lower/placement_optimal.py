"""Placement by constraint programming (OR-tools): a layout is found wherever there is one, with the longest rests.

A place rests between two buffers that use it; the longer, the less the second one waits. The shortest rest is made as
long as it can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

from tilewright.errors import TileValueError, fail
from tilewright.lower.placement import Request, Solver

_EFFORT = 5.0
"""Bound of the search for one layout, in the solver's deterministic seconds: the same layout is found every time."""


def optimal_solver() -> Solver:
    """The solver; refused where OR-tools is not installed."""
    return partial(_optimal, _constraints())


def _optimal(model: Any, requests: Sequence[Request], room: int) -> list[int] | None:
    """Where each request goes, in units; None where there is no way, or none was found within the bound."""
    best = _layout(model, requests, room, [request.life for request in requests])
    if best is None:
        return None
    end = max((request.wide[1] for request in requests), default=0)
    # A rest beyond the end means that nothing shares a place at all.
    low, high = -1, end + 2
    while low + 1 < high:
        rest = (low + high) // 2
        made = _layout(model, requests, room, [_rested(request, rest) for request in requests])
        low, high = (low, rest) if made is None else (rest, high)
        best = made or best
    return best


def _rested(request: Request, rest: int) -> tuple[int, int]:
    """A life with the rest of its place after it; tiles of a loop have their places for the whole of it."""
    start, end = request.wide
    return start, end + rest


def _layout(
    cp_model: Any, requests: Sequence[Request], room: int, lives: Sequence[tuple[int, int]]
) -> list[int] | None:
    """Rectangles in time and space that do not overlap."""
    if not requests:
        return []
    if any(request.units > room for request in requests):
        return None
    model = cp_model.CpModel()
    places = [model.new_int_var(0, room - request.units, f"at{i}") for i, request in enumerate(requests)]
    times = [model.new_fixed_size_interval_var(start, end - start + 1, f"t{i}") for i, (start, end) in enumerate(lives)]
    spaces = [
        model.new_fixed_size_interval_var(place, request.units, f"s{i}")
        for i, (place, request) in enumerate(zip(places, requests, strict=True))
    ]
    model.add_no_overlap_2d(times, spaces)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = _EFFORT
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return [solver.value(place) for place in places]


def _constraints() -> Any:
    """OR-tools' constraint solver, where it is installed."""
    try:
        return import_module("ortools.sat.python.cp_model")
    except ModuleNotFoundError:
        raise fail(
            "E108",
            "placement 'optimal' needs OR-tools, which is not installed",
            hint="pip install tilewright[ortools], or leave placement out",
            error=TileValueError,
        ) from None

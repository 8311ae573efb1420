"""Placement by constraint programming (OR-tools): a layout is found wherever there is one, with the fewest short rests.

A place rests between two buffers that use it; the shorter, the more the second one waits. Every pair that shares a
place costs the inverse of its rest, tiles of one loop most of all; the sum is made as small as it can be, from the
greedy layout on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from tilewright.errors import TileValueError, fail
from tilewright.lower.order.packing import Request, Solver, greedy

_EFFORT = 2.0
"""Bound of the search for one layout, in the solver's deterministic seconds: the same layout is found every time."""

_NEIGHBOURS = 12
"""Later buffers that a buffer had better not share its place with; those after them come late enough."""

_SCALE = 1000
"""What a rest of one position costs."""


def optimal_solver() -> Solver:
    """The solver; refused where OR-tools is not installed."""
    try:
        model = import_module("ortools.sat.python.cp_model")
    except ModuleNotFoundError:
        raise fail(
            "E108",
            "placement 'optimal' needs OR-tools, which is not installed",
            hint="pip install tilewright[ortools], or leave placement out",
            error=TileValueError,
        ) from None
    return partial(_optimal, model)


def _optimal(cp_model: Any, requests: Sequence[Request], room: int) -> list[int] | None:
    """Where each request goes, in units; None where there is no way, or none was found within the bound."""
    known = greedy(requests, room)
    if not requests or any(request.units > room for request in requests):
        return known
    model = cp_model.CpModel()
    places = [model.new_int_var(0, room - request.units, f"at{i}") for i, request in enumerate(requests)]
    times = [model.new_fixed_size_interval_var(s, e - s + 1, f"t{i}") for i, (s, e) in enumerate(_lives(requests))]
    spaces = [
        model.new_fixed_size_interval_var(place, request.units, f"s{i}")
        for i, (place, request) in enumerate(zip(places, requests, strict=True))
    ]
    model.add_no_overlap_2d(times, spaces)
    costs: list[Any] = []
    for one, two, cost in _pairs(requests):
        below, above, shared = (model.new_bool_var(f"{what}{one}_{two}") for what in ("below", "above", "shared"))
        model.add(places[one] + requests[one].units <= places[two]).only_enforce_if(below)
        model.add(places[two] + requests[two].units <= places[one]).only_enforce_if(above)
        model.add_bool_or([below, above, shared])
        costs.append(cost * shared)
    model.minimize(sum(costs))
    for place, at in zip(places, known or (), strict=False):
        model.add_hint(place, at)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = _EFFORT
    status = solver.solve(model)
    return [solver.value(at) for at in places] if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else known


def _lives(requests: Sequence[Request]) -> list[tuple[int, int]]:
    return [request.life for request in requests]


def _pairs(requests: Sequence[Request]) -> Iterator[tuple[int, int, int]]:
    """Pairs that may share a place but had better not, with what that costs."""
    order = sorted(range(len(requests)), key=lambda i: requests[i].life)
    for number, one in enumerate(order):
        left = _NEIGHBOURS
        for two in order[number + 1 :]:
            rest = requests[two].life[0] - requests[one].life[1]
            if rest <= 0:
                continue
            if requests[two].wide[0] <= requests[one].wide[1]:
                # Tiles of one loop: its trips could not overlap.
                yield one, two, _NEIGHBOURS * _SCALE
                continue
            if not left:
                break
            left -= 1
            yield one, two, -(-_SCALE // rest)

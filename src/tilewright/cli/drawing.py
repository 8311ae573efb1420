"""Arrays that `compile --check` runs a kernel on: random, by what the function uses them for and by --range."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from tilewright.cli.check_ranges import read_ranges
from tilewright.diagnose.uses import Demand, demands, orders
from tilewright.dtypes import DType
from tilewright.errors import fail
from tilewright.front.binding import Bound, bind
from tilewright.front.function import Traced
from tilewright.front.pytree import argument_leaves, map_leaves
from tilewright.spec import ArraySpec

_ASKED = "--range"
_INTEGERS = 99
"""How far from zero integers are drawn that the function says nothing of."""

Ranges = dict[str, tuple[float, float]]
Call = tuple[list[Any], dict[str, Any]]


def read_drawn(texts: Sequence[str]) -> Ranges:
    """What --range says, NAME=LOW..HIGH; E704 for a range in which no number lies."""
    found = read_ranges(texts, _ASKED)
    for name, (low, high) in found.items():
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            hint = "give the lower end first: x=0..255"
            raise fail("E704", f"{_ASKED} {name}: there is no number from {low:g} to {high:g}", hint=hint)
    return found


def check_drawn(ranges: Ranges, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """E704 for a range of what is no described array of a call, or that holds other numbers than its element type."""
    described = _described(bind(function, args, kwargs))
    for name, (low, high) in ranges.items():
        if name not in described:
            hint = f"arrays that are drawn: {', '.join(described)}" if described else "no array is drawn at random"
            raise fail("E704", f"{_ASKED} {name}: no array of that name is drawn", hint=hint)
        dtype = described[name].dtype
        demand = _asked(dtype, low, high)
        if demand.low > demand.high or demand.low < dtype.min or demand.high > dtype.max:
            hint = f"{dtype} holds {dtype.min:g} to {dtype.max:g}{'' if dtype.is_float else ', whole numbers only'}"
            raise fail("E704", f"{_ASKED} {name}={low:g}..{high:g} does not suit {dtype}", hint=hint)


def _described(bound: Bound) -> dict[str, ArraySpec]:
    return {path: x for path, x in argument_leaves(bound.arguments) if isinstance(x, ArraySpec)}


def _asked(dtype: DType, low: float, high: float) -> Demand:
    return Demand(low, high, _ASKED) if dtype.is_float else Demand(math.ceil(low), math.floor(high), _ASKED)


class Drawing:
    """Draws the arrays that a call of a traced function only describes."""

    def __init__(self, traced: Traced, args: Sequence[Any], kwargs: dict[str, Any], ranges: Ranges) -> None:
        self._bound = bind(traced.function, args, kwargs)
        asked, ordered = demands(traced.graph), orders(traced.graph)
        by_use = {each.path: asked.get(traced.graph.inputs[each.place]) for each in traced.inputs}
        described = _described(self._bound)
        self._demands = {path: _demand(path, x.dtype, by_use.get(path), ranges) for path, x in described.items()}
        self._orders = {each.path: ordered.get(traced.graph.inputs[each.place], 0) for each in traced.inputs}

    def calls(self, seeds: int) -> Iterator[Call]:
        """The arguments of so many calls."""
        for seed in range(seeds):
            fill = partial(self._filled, np.random.default_rng(seed))
            given = {name: map_leaves(x, fill, name) for name, x in self._bound.arguments.items()}
            yield list(self._bound.args(given)), self._bound.kwargs(given)

    def said(self) -> list[str]:
        """What was drawn otherwise than anyone would expect: `idx from 0..999 (an index)`."""
        return [f"{path} {what}" for path in self._demands if (what := self._said_of(path))]

    def _said_of(self, path: str) -> str:
        demand = self._demands[path]
        parts = [] if demand is None else [f"from {demand.low:g}..{demand.high:g}{_use(demand)}"]
        order = self._orders.get(path, 0)
        return ", ".join([*parts, *([f"in {'rising' if order > 0 else 'falling'} order"] if order else [])])

    def _filled(self, rng: np.random.Generator, path: str, x: Any) -> Any:
        if not isinstance(x, ArraySpec):
            return x
        drawn = self._drawn(rng, self._demands[path], x)
        order = self._orders.get(path, 0)
        return np.sort(drawn)[::order].copy() if order else drawn

    def _drawn(self, rng: np.random.Generator, demand: Demand | None, x: ArraySpec) -> np.ndarray:
        dtype = x.dtype
        if dtype.is_float:
            drawn = rng.standard_normal(x.shape) if demand is None else rng.uniform(demand.low, demand.high, x.shape)
            return drawn.astype(dtype.np)
        low, high = (0, 1) if demand is None else (int(demand.low), int(demand.high))
        wide = np.uint64 if high > np.iinfo(np.int64).max else np.int64
        return rng.integers(low, high, x.shape, wide, endpoint=True).astype(dtype.np)


def _use(demand: Demand) -> str:
    return f" ({demand.use})" if demand.use else ""


def _demand(path: str, dtype: DType, by_use: Demand | None, ranges: Ranges) -> Demand | None:
    """What is drawn for an array; None for the usual: normal floats, zeros and ones for truth values."""
    if path in ranges:
        return _asked(dtype, *ranges[path])
    if by_use is None:
        plain = Demand(-_INTEGERS, _INTEGERS, "")
        return None if dtype.is_float or dtype.kind == "b" else _within(plain, dtype)
    return by_use if dtype.is_float else _within(by_use, dtype)


def _within(demand: Demand, dtype: DType) -> Demand:
    low, high = max(demand.low, dtype.min), min(demand.high, dtype.max)
    return Demand(low, max(low, high), demand.use)

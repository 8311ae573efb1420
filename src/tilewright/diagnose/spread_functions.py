"""Intervals of functions of one variable: where each rises, where it is defined, what its extremes are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np

from tilewright.diagnose.spread import Order, Spread, Unfollowed, lifted, watch
from tilewright.diagnose.spread_arithmetic import divide, square
from tilewright.diagnose.spread_results import made_of, sorted_bounds
from tilewright.tile.alu import ACTIVATIONS


@dataclass(frozen=True, slots=True)
class Shape:
    """How a function runs.

    least, most: its values lie between these. rising: it never falls; falling: it never rises. turn: it falls before
    and rises after. From `start` on it is defined; open: not at `start` itself.
    """

    least: float = -inf
    most: float = inf
    rising: bool = False
    falling: bool = False
    turn: float | None = None
    start: float = -inf
    is_open: bool = False


SHAPES: dict[str, Shape] = {
    **dict.fromkeys(("copy", "relu", "prelu", "softplus", "rint", "floor", "ceil", "trunc"), Shape(rising=True)),
    **dict.fromkeys(("expm1", "cbrt", "sinh", "arcsinh"), Shape(rising=True)),
    "cosh": Shape(1.0, turn=0.0),
    **dict.fromkeys(("log2", "log10"), Shape(rising=True, start=0.0, is_open=True)),
    **dict.fromkeys(("exp", "exp2"), Shape(0.0, rising=True)),
    "sigmoid": Shape(0.0, 1.0, rising=True),
    **dict.fromkeys(("tanh", "erf", "sign"), Shape(-1.0, 1.0, rising=True)),
    "arctan": Shape(-1.6, 1.6, rising=True),
    "log": Shape(rising=True, start=0.0, is_open=True),
    "log1p": Shape(rising=True, start=-1.0, is_open=True),
    "sqrt": Shape(0.0, rising=True, start=0.0),
    "rsqrt": Shape(0.0, falling=True, start=0.0, is_open=True),
    "absolute": Shape(0.0, turn=0.0),
    "abs": Shape(0.0, turn=0.0),
    **dict.fromkeys(("sin", "cos"), Shape(-1.0, 1.0)),
    # Gates: below every number they are a little negative, above they go with it.
    **dict.fromkeys(("gelu", "gelu_apprx_tanh", "gelu_tanh", "gelu_apprx_sigmoid"), Shape(-0.2)),
    **{"silu": Shape(-0.3), "mish": Shape(-0.4)},
    **dict.fromkeys(("gelu_dx", "gelu_apprx_sigmoid_dx", "silu_dx"), Shape(-0.2, 1.25)),
    "erf_dx": Shape(0.0, 1.13),
}

_NUMPY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    **{
        name: getattr(np, name)
        for name in (
            *("rint", "floor", "ceil", "trunc", "expm1", "exp2", "log1p", "log2", "log10", "absolute"),
            *("sin", "cos", "sinh", "cosh", "arcsinh", "cbrt"),
        )
    },
}


def function_of(name: str, x: Spread) -> Spread:
    """The interval of a function, by its shape; says where its argument can be outside of what it is defined for."""
    if name == "square":
        return square(x)
    if name == "reciprocal":
        return divide(lifted(np.float32(1)), x)
    shape = SHAPES.get(name)
    if shape is None:
        raise Unfollowed(f"{name} of intervals")
    lo, hi = x.lo, x.hi
    outside = lo < shape.start if not shape.is_open else lo <= shape.start
    if outside.any():
        edge = "at most" if shape.is_open else "below"
        watch().wrong("domain", f"{name} of a number that can be {edge} {shape.start:g}", outside)
        lo = np.maximum(lo, shape.start)
    made = made_of((x,), *_bounds(name, shape, lo, hi), name)
    pairs = made.pairs
    np.clip(pairs["lo"], shape.least, shape.most, out=pairs["lo"])
    np.clip(pairs["hi"], shape.least, shape.most, out=pairs["hi"])
    pairs["lo"][outside] = pairs["hi"][outside] = np.nan
    if shape.rising and x.order is not None and x.order.crest > -inf:
        own = made.known_order()
        crest = float(_value(name, np.array([x.order.crest]))[0])
        made.order = Order(own.above, own.below, {}, crest)
    return made


def _bounds(name: str, shape: Shape, lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if shape.rising or shape.falling:
        return sorted_bounds(_value(name, lo), _value(name, hi))
    if shape.turn is not None:
        low, high = sorted_bounds(_value(name, lo), _value(name, hi))
        least = float(_value(name, np.array([shape.turn]))[0])
        return np.where((lo <= shape.turn) & (hi >= shape.turn), least, low), high
    lost = np.isnan(lo)
    # Bounded on both sides, or a gate: not above what it lets through.
    most = np.full(hi.shape, shape.most) if shape.most < inf else np.maximum(hi, 0.0)
    least = np.full(lo.shape, shape.least)
    known, value = lo == hi, _value(name, lo)
    least, most = np.where(known, value, least), np.where(known, value, most)
    return np.where(lost, np.nan, least), np.where(lost, np.nan, most)


def _value(name: str, x: np.ndarray) -> np.ndarray:
    """The function itself, in float64."""
    function = _NUMPY.get(name) or ACTIVATIONS[name].apply
    with np.errstate(all="ignore"):
        # Where both ends are infinite the meaning itself may give NaN; its limit is what its shape says.
        made = np.asarray(function(x), np.float64)
        return np.where(np.isnan(made) & ~np.isnan(x), np.sign(x) * inf, made)

"""Intervals of NumPy's functions: sound bounds, and what can go wrong said where it first can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.diagnose import spread_positions
from tilewright.diagnose.spread import Order, Spread, Unfollowed, lifted, spread, watch
from tilewright.diagnose.spread_arithmetic import (
    add,
    constant_of,
    divide,
    has_zero,
    multiply,
    negative,
    square,
    subtract,
)
from tilewright.diagnose.spread_order import (
    both,
    chosen_of,
    either,
    equal,
    less,
    less_equal,
    maximum,
    minimum,
    negated,
    one_of_both,
)
from tilewright.diagnose.spread_products import matmul
from tilewright.diagnose.spread_reductions import REDUCTIONS, accumulated, products_so_far, reduced
from tilewright.diagnose.spread_results import floating, made_of, sorted_bounds


def call_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """A ufunc of which some argument is a spread."""
    out = keywords.pop("out", None)
    keywords.pop("casting", None)
    if method == "__call__" and ufunc.__name__ in RULES and "where" not in keywords:
        made = RULES[ufunc.__name__](*map(lifted, inputs))
    elif method == "reduce" and ufunc.__name__ in REDUCTIONS and keywords.get("where", True) is True:
        made = reduced(ufunc.__name__, lifted(inputs[0]), inputs[1:], keywords)
    elif method == "accumulate" and ufunc.__name__ in ("add", "maximum", "minimum"):
        made = accumulated(ufunc, lifted(inputs[0]), *inputs[1:], **keywords)
    else:
        raise Unfollowed(f"{ufunc.__name__}.{method} of intervals")
    if out is None:
        return made
    (target,) = out
    if not isinstance(target, Spread):
        raise Unfollowed("an interval is written to an array of numbers")
    target.pairs[...] = made.pairs
    target.order = made.order
    return target


MOVES = frozenset(
    {
        *(np.broadcast_to, np.concatenate, np.stack, np.take, np.transpose, np.reshape, np.swapaxes, np.moveaxis),
        *(np.tile, np.repeat, np.flip, np.roll, np.expand_dims, np.squeeze, np.ravel, np.take_along_axis, np.split),
        *(np.array_split, np.diagonal, np.rot90, np.vstack, np.hstack),
    }
)


def call_function(function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """A function of NumPy of which some argument is a spread."""
    if function is np.take_along_axis and isinstance(args[1], Spread) and not args[1].is_point:
        return spread_positions.taken(*args, **keywords)
    if function in spread_positions.FUNCTIONS:
        return spread_positions.FUNCTIONS[function](*args, **keywords)
    if function in MOVES:
        logical = next(each.logical for each in _leaves(args) if isinstance(each, Spread))
        made = function(*[_plain(each) for each in args], **keywords)
        return [_wrapped(each, logical) for each in made] if isinstance(made, list) else _wrapped(made, logical)
    if function is np.where and len(args) == 3:
        return chosen_of(*map(lifted, args))
    if function in (np.sort, np.partition):
        axis = keywords.get("axis", args[-1] if len(args) > (1 if function is np.sort else 2) else -1)
        value = args[0]
        return spread(np.sort(value.lo, axis), np.sort(value.hi, axis), value.logical)
    if function is np.clip:
        low, high = args[1], args[2]
        value = args[0] if low is None else np.maximum(args[0], low)
        return value if high is None else np.minimum(value, high)
    if function in (np.sum, np.max, np.amax, np.min, np.amin, np.prod, np.any, np.all):
        ufunc = _METHODS[function]
        return call_ufunc(ufunc, "reduce", args, {key: value for key, value in keywords.items() if key != "where"})
    if function is np.mean:
        total = np.add.reduce(*args, **keywords)
        return total / np.float32(args[0].size / max(1, np.size(total)))
    if function is np.cumsum:
        return np.add.accumulate(*args, **keywords)
    if function is np.cumprod:
        return products_so_far(*args, **keywords)
    if function in (np.shape, np.ndim, np.size):
        return function(_plain(args[0]), **keywords)
    if function in (np.zeros_like, np.ones_like, np.full_like):
        value = {np.zeros_like: 0, np.ones_like: 1}.get(function, args[1] if len(args) > 1 else 0)
        return np.full(args[0].shape, value, args[0].logical)
    if function is np.empty_like:
        return spread(np.zeros(args[0].shape), 0.0, args[0].logical)
    if function in (np.matmul, np.dot) and args[0].ndim >= 2:
        return np.matmul(*args)
    raise Unfollowed(f"{function.__name__} of intervals")


_METHODS = {
    **{np.sum: np.add, np.max: np.maximum, np.amax: np.maximum, np.min: np.minimum, np.amin: np.minimum},
    **{np.prod: np.multiply, np.any: np.logical_or, np.all: np.logical_and},
}


def _leaves(value: Any) -> list[Any]:
    return [leaf for each in value for leaf in _leaves(each)] if isinstance(value, (list, tuple)) else [value]


def _plain(value: Any) -> Any:
    if isinstance(value, Spread):
        return value.pairs
    if isinstance(value, (list, tuple)) and any(isinstance(each, Spread) for each in value):
        return type(value)(lifted(each).pairs for each in value)
    return value


def _wrapped(pairs: np.ndarray, logical: np.dtype) -> Spread:
    made = pairs.view(Spread)
    made.logical = logical
    return made


def _power(x: Spread, y: Spread) -> Spread:
    exponent = constant_of(y)
    if exponent is not None and exponent == int(exponent) and exponent > 0:
        lo, hi = sorted_bounds(x.lo**exponent, x.hi**exponent)
        return made_of((x,), np.where(has_zero(x) & (exponent % 2 == 0), 0.0, lo), hi, "power")
    from tilewright.diagnose.spread_functions import function_of

    if (x.lo <= 0).any():
        watch().wrong("domain", "a power of a number that can be 0 or negative", x.lo <= 0)
        return spread(np.full(np.broadcast_shapes(x.shape, y.shape), np.nan), np.nan, floating(x, y))
    return function_of("exp", multiply(function_of("log", x), y))


def _sum_of_powers(function: np.ufunc) -> Callable[[Spread, Spread], Spread]:
    """The logarithm of a sum of two powers: it rises with both, and is never less than either."""

    def rule(x: Spread, y: Spread) -> Spread:
        made = made_of((x, y), function(x.lo, y.lo), function(x.hi, y.hi), function.__name__)
        order, own = maximum(x, y).known_order(), made.known_order()
        made.order = Order({**order.above, **own.above}, own.below, {}, order.crest)
        return made

    return rule


def _inverse(function: np.ufunc, is_open: bool) -> Callable[[Spread], Spread]:
    """A function that rises or falls all the way, and is defined from -1 to 1."""

    def rule(x: Spread) -> Spread:
        outside = (np.abs(x.lo) >= 1) | (np.abs(x.hi) >= 1) if is_open else (x.lo < -1) | (x.hi > 1)
        if outside.any():
            edge = "not between" if is_open else "outside of"
            watch().wrong("domain", f"{function.__name__} of a number that can be {edge} -1 and 1", outside)
        with np.errstate(all="ignore"):
            ends = function(np.clip(x.lo, -1, 1)), function(np.clip(x.hi, -1, 1))
        return made_of((x,), *sorted_bounds(*ends), function.__name__)

    return rule


def _function(name: str) -> Callable[[Spread], Spread]:
    def rule(x: Spread) -> Spread:
        from tilewright.diagnose.spread_functions import function_of

        return function_of(name, x)

    return rule


def _of_truth(rule: Callable[[Spread, Spread], Spread]) -> Callable[[Spread, Spread], Spread]:
    """What is done to bits, where they are truth values."""

    def of_bits(x: Spread, y: Spread) -> Spread:
        if x.logical.kind != "b" or y.logical.kind != "b":
            raise Unfollowed("bits of intervals")
        return rule(x, y)

    return of_bits


RULES: dict[str, Callable[..., Spread]] = {
    **{"add": add, "subtract": subtract, "multiply": multiply, "divide": divide, "negative": negative},
    **{"matmul": matmul, "square": square, "maximum": maximum, "minimum": minimum, "power": _power},
    **{"fmax": maximum, "fmin": minimum, "reciprocal": lambda x: divide(lifted(np.float32(1)), x)},
    **{"less": less, "less_equal": less_equal, "equal": equal, "not_equal": lambda x, y: negated(equal(x, y))},
    **{"greater": lambda x, y: less(y, x), "greater_equal": lambda x, y: less_equal(y, x)},
    **{"logical_and": both, "logical_or": either, "logical_xor": one_of_both, "logical_not": negated},
    **{name: _sum_of_powers(getattr(np, name)) for name in ("logaddexp", "logaddexp2")},
    **{"positive": lambda x: x, "bitwise_and": _of_truth(both), "bitwise_or": _of_truth(either)},
    **{name: _function(name) for name in ("exp", "log", "sqrt", "tanh", "sin", "cos", "arctan", "absolute", "sign")},
    **{name: _function(name) for name in ("rint", "floor", "ceil", "trunc", "log1p", "expm1", "exp2", "erf")},
    **{name: _function(name) for name in ("log2", "log10", "cbrt", "sinh", "cosh", "arcsinh")},
    **{"arcsin": _inverse(np.arcsin, False), "arccos": _inverse(np.arccos, False)},
    "arctanh": _inverse(np.arctanh, True),
    **spread_positions.RULES,
}

"""Elementwise functions that are no ufuncs: choosing, bounding, rounding, replacing NaN, comparing approximately."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy._core.umath import clip as _clip_ufunc  # type: ignore[import-untyped, unused-ignore]

from tilewright.dtypes import DType, bool_, host_dtype
from tilewright.errors import fail
from tilewright.front.array import TracedArray, as_traced, new, returned
from tilewright.front.conversion import astype
from tilewright.front.functions.operands import is_inexact
from tilewright.front.promote import Input, Operand, as_input, cast, is_weak, operand, result_type, shape_of, value_of
from tilewright.front.refusal import ask, numpy_error
from tilewright.front.registry import call, implements
from tilewright.front.trace import emit
from tilewright.front.ufunc import apply, broadcast, result_layout
from tilewright.ir.core import Value

NoValue = np._NoValue  # type: ignore[attr-defined]


@implements(np.where, note="with one argument the shape of the result depends on data: E804")
def where(condition: Any, x: Any = NoValue, y: Any = NoValue, /) -> TracedArray:
    """np.where"""
    if x is NoValue and y is NoValue:
        raise fail(
            "E804",
            "np.where(condition): how many elements hold depends on data",
            hint="use np.where(condition, x, y), or tw.nonzero(condition, size=...)",
        )
    if x is NoValue or y is NoValue:
        raise numpy_error(ValueError, "either both or neither of x and y should be given")
    inputs = [as_input(each) for each in (condition, x, y)]
    dtype = result_type(*inputs[1:])
    shape = ask(np.broadcast_shapes, *map(shape_of, inputs))
    first, second = (_wrapped(each, dtype) for each in inputs[1:])
    if not isinstance(first, Value) and not isinstance(second, Value):
        first = value_of(first, dtype)
    found = broadcast(emit("where", value_of(inputs[0], bool_), first, second), shape)
    return new(found, result_layout(inputs, found.type, "K"))


def _wrapped(x: Input, dtype: DType) -> Operand:
    """An operand of a choice: integers that the type cannot hold wrap, unlike those of ufuncs."""
    return operand(np.asarray(x) if is_weak(x) else x, dtype)


@implements(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> TracedArray:
    """np.select"""
    if len(condlist) != len(choicelist):
        raise numpy_error(ValueError, "list of cases must be same length as list of conditions")
    if not condlist:
        raise numpy_error(ValueError, "select with an empty condition list is not possible")
    conditions = [as_traced(each) for each in condlist]
    choices = [as_input(each) for each in (*choicelist, default)]
    dtype = result_type(*choices)
    for place, condition in enumerate(conditions):
        if condition.dtype != np.bool_:
            raise numpy_error(TypeError, f"invalid entry {place} in condlist: should be boolean ndarray")
    shape = ask(np.broadcast_shapes, *(c.shape for c in conditions), *map(shape_of, choices))
    last = _wrapped(choices[-1], dtype)
    found = broadcast(last if isinstance(last, Value) else value_of(last, dtype), shape)
    for condition, choice in reversed(list(zip(conditions, choices[:-1], strict=True))):
        found = emit("where", condition.value, _wrapped(choice, dtype), found)
    return new(found)


@implements(np.piecewise, note="a function gets x[condition], which takes elementwise functions and sums")
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> TracedArray:
    """np.piecewise: a number, or a function of the elements, where a condition holds; of several the last"""
    given: Any = as_traced(x)
    single = np.isscalar(condlist) or (given.ndim and not np.ndim(condlist[0]))
    arrays: Any = [condlist] if single else condlist
    conditions: list[Any] = [astype(as_traced(each), bool) for each in arrays]
    if len(funclist) == len(conditions) + 1:
        conditions.append(~np.any(np.stack(conditions), axis=0))
    elif len(funclist) != len(conditions):
        count = len(conditions)
        message = f"with {count} condition(s), either {count} or {count + 1} functions are expected"
        raise numpy_error(ValueError, message)
    found: Any = np.zeros_like(given)
    for condition, function in zip(conditions, funclist, strict=True):
        found[condition] = function(given[condition], *args, **kw) if callable(function) else function
    return found


def _clipped(x: Any, low: Any, high: Any) -> Value:
    return emit("minimum", emit("maximum", x, low), high)


@implements(np.clip)
def clip(
    a: Any,
    a_min: Any = NoValue,
    a_max: Any = NoValue,
    out: Any = None,
    *,
    min: Any = NoValue,
    max: Any = NoValue,
    **kwargs: Any,
) -> TracedArray:
    """np.clip"""
    if a_min is NoValue and a_max is NoValue:
        a_min, a_max = (None if each is NoValue else each for each in (min, max))
    elif a_min is NoValue or a_max is NoValue:
        missing = "a_min" if a_min is NoValue else "a_max"
        raise numpy_error(TypeError, f"clip() missing 1 required positional argument: '{missing}'")
    elif min is not NoValue or max is not NoValue:
        raise numpy_error(
            ValueError, "Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden."
        )
    x = as_traced(a)
    # Python integers beyond the type are no bounds.
    if x.dtype.kind in "iu":
        info = np.iinfo(x.dtype)
        a_min = None if type(a_min) is int and a_min <= info.min else a_min
        a_max = None if type(a_max) is int and a_max >= info.max else a_max
    if a_min is None and a_max is None:
        return call(np.positive, x, out=out, **kwargs)
    if a_min is None:
        return call(np.minimum, x, a_max, out=out, **kwargs)
    if a_max is None:
        return call(np.maximum, x, a_min, out=out, **kwargs)
    return apply(_clip_ufunc, _clipped, x, a_min, a_max, out=out, **kwargs)


@implements(np.round, np.around)
def round_(a: Any, decimals: Any = 0, out: Any = None) -> TracedArray:
    """np.round: scale by a power of ten, round to nearest even, scale back"""
    x = as_traced(a)
    places = ask(operator.index, decimals)
    if x.dtype.kind in "iu" and places >= 0:
        return call(np.positive, x, out=out)
    if places == 0:
        return call(np.rint, x, out=out)
    # Each step is stored in the type of the result; integers are computed in float64.
    within = (np.dtype(np.float64) if x.dtype.kind in "iu" else x.dtype) if out is None else out.dtype
    ten = 10.0 ** abs(places)
    there, back = (np.multiply, np.divide) if places > 0 else (np.divide, np.multiply)
    scaled = _stored(there, within, x, ten)
    found = _stored(back, within, _stored(np.rint, within, scaled), ten)
    if out is not None:
        return call(np.positive, found, out=out)
    return returned(cast(found.value, x.type.dtype))


def _stored(ufunc: np.ufunc, dtype: np.dtype, *operands: Any) -> TracedArray:
    """A ufunc's result as another type, if NumPy would write it into an array of that type."""
    found = call(ufunc, *operands)
    if not np.can_cast(found.dtype, dtype, "same_kind"):
        rule = f"from {found.dtype!r} to {dtype!r} with casting rule 'same_kind'"
        raise numpy_error(TypeError, f"Cannot cast ufunc '{ufunc.__name__}' output {rule}")
    return returned(cast(found.value, host_dtype(dtype)))


@implements(np.fix)
def fix(x: Any, out: Any = None) -> TracedArray:
    """np.fix"""
    return call(np.trunc, x, out=out)


@implements(np.isposinf)
def isposinf(x: Any, out: Any = None) -> TracedArray:
    """np.isposinf"""
    return call(np.logical_and, np.isinf(x), ~np.signbit(x), out=out)


@implements(np.isneginf)
def isneginf(x: Any, out: Any = None) -> TracedArray:
    """np.isneginf"""
    return call(np.logical_and, np.isinf(x), np.signbit(x), out=out)


@implements(np.nan_to_num)
def nan_to_num(x: Any, copy: Any = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> TracedArray:
    """np.nan_to_num"""
    given = as_traced(x)
    target = returned(given.value) if copy or not given.shape else given
    if is_inexact(given.dtype):
        # float64 is computed as float32, whose limits are others.
        limits = np.finfo(np.float32 if given.dtype == np.float64 else given.dtype)
        found = given.value
        for mask, value in (
            (call(np.isnan, given), nan),
            (isposinf(given), limits.max if posinf is None else posinf),
            (isneginf(given), limits.min if neginf is None else neginf),
        ):
            found = emit("where", mask.value, operand(as_input(value), given.type.dtype), found)
        if target is given:
            target.assign(broadcast(found, given.shape))
        else:
            target = returned(broadcast(found, given.shape))
    return target


@implements(np.sinc)
def sinc(x: Any) -> TracedArray:
    """np.sinc: sin(pi x) / (pi x), 1 at 0"""
    scaled = np.pi * as_traced(x)
    # What NumPy takes for 0, so that no quotient is 0 / 0; engines have no quotient of the smallest numbers either.
    eps = np.finfo(scaled.dtype).eps if scaled.dtype.kind == "f" else 1e-20
    nonzero = where(np.abs(scaled) < eps, eps, scaled)
    return np.sin(nonzero) / nonzero


@implements(np.angle)
def angle(z: Any, deg: Any = False) -> TracedArray:
    """np.angle of real numbers"""
    found = call(np.arctan2, 0, as_traced(z))
    return found * (180 / np.pi) if deg else found

"""Steps of random programs that compute: elementwise, reductions, products, functions of networks."""

from __future__ import annotations

import numpy as np

from tests.front.fuzz_choices import (
    BFLOAT16,
    DTYPES,
    EXACT,
    MANTISSA,
    NEAR,
    SAME,
    TOLERANCE,
    Choices,
    NothingFits,
    Step,
    Var,
    magnitude,
    named,
    of,
    worst,
)

# Elementwise

_PLAIN = ["negative", "abs", "square", "sign", "positive", "conjugate", "real"]
_JUMPS = ["floor", "ceil", "trunc", "rint", "isnan", "isinf", "isfinite", "logical_not", "fix"]
_SMOOTH = ["tanh", "sin", "cos", "arctan", "exp2", "exp", "expm1", "sinh", "cosh", "arcsinh", "tan"]
_POSITIVE = ["sqrt", "log1p", "cbrt", "log", "log2", "log10", "reciprocal"]


def unary(c: Choices) -> Step:
    """A function of one array."""
    roll = c.int(0, 9)
    if roll < 4:
        x = c.var("iuf")
        name = c.one(_PLAIN)
        return Step(f"np.{name}({x.name})", [x], scale=worst(x, x))
    if roll < 6:
        x = c.var(exact=True)
        return Step(f"np.{c.one(_JUMPS)}({x.name})", [x])
    x = c.var(exact=True)
    if roll < 8:
        return Step(f"np.{c.one(_SMOOTH)}(np.clip({x.name}, {'0' if x.kind in 'bu' else '-3'}, 3))", [x], SAME)
    return Step(f"np.{c.one(_POSITIVE)}(np.abs({x.name}))", [x], SAME)


_ARITHMETIC = ["+", "-", "*"]
_EXACT_BINARY = ["maximum", "minimum", "fmax", "fmin", "add", "subtract", "multiply"]
_COMPARE = ["==", "!=", "<", "<=", ">", ">="]
_LOGICAL = ["logical_and", "logical_or", "logical_xor"]
_BITS = ["&", "|", "^"]
_DIVISION = ["//", "%"]
_SENSITIVE = ["divide", "true_divide", "fmod", "arctan2", "hypot", "logaddexp", "floor_divide", "remainder", "copysign"]


def binary(c: Choices) -> Step:
    """A function or operator of two."""
    roll = c.int(0, 11)
    if roll < 4:
        x = c.var()
        y = c.other(x)
        if c.flip():
            x, y = (x, y) if c.flip() else (y, x)
            return Step(f"{named(x)} {c.one(_ARITHMETIC)} {named(y)}", of(x, y), scale=worst(x, y))
        return Step(f"np.{c.one(_EXACT_BINARY)}({named(x)}, {named(y)})", of(x, y), scale=worst(x, y))
    x = c.var(exact=True)
    y = c.other(x, exact=True)
    if roll < 6:
        return Step(f"{named(x)} {c.one(_COMPARE)} {named(y)}", of(x, y))
    if roll < 7:
        return Step(f"np.{c.one(_LOGICAL)}({named(x)}, {named(y)})", of(x, y))
    if roll < 8:
        x = c.var("biu")
        return Step(f"{named(x)} {c.one(_BITS)} {named(c.other(x))}", [x])
    if roll < 9:
        x = c.var("iu")
        return Step(f"{x.name} {c.one(['<<', '>>'])} {c.int(0, 5)}", [x])
    if roll < 10:
        return Step(f"{named(x)} {c.one(_DIVISION)} {named(y)}", of(x, y), SAME)
    if roll < 11:
        return Step(f"np.{c.one(_SENSITIVE)}({named(x)}, {named(y)})", of(x, y), SAME)
    return Step(f"{x.name} ** {c.one(['2', '3', '1', '0'])}", [x], SAME)


def choice(c: Choices) -> Step:
    """where, clip, select, nan_to_num, isin."""
    x = c.var()
    y = c.other(x)
    roll = c.int(0, 5)
    condition = c.var("b", exact=True)
    if roll < 2 and c.broadcasts(x.array, condition.array):
        return Step(f"np.where({condition.name}, {named(x)}, {named(y)})", of(x, y, condition))
    if roll < 3:
        return Step(f"np.clip({x.name}, {c.one(['None', '0', '1'])}, {c.int(2, 5)})", [x])
    if roll < 4:
        return Step(f"np.nan_to_num({x.name}, nan=2, posinf=3, neginf=1)", [x])
    if roll < 5:
        test = [c.int(0, 4) for _ in range(c.int(0, 4))]
        x = c.var("iuf", exact=True)
        if not x.array.size:  # NumPy compares by other rules then
            raise NothingFits
        return Step(f"np.isin({x.name}, {test}, invert={c.flip()})", [x])
    return Step(f"np.select([{condition.name}], [{x.name}], {c.number(x.kind)})", [x, condition])


def cast(c: Choices) -> Step:
    """astype: to integers only what fits them."""
    x = c.var(exact=True)
    dtype = c.one(DTYPES)
    if x.kind == "f" and dtype.kind in "iu":
        low = "0" if dtype.kind == "u" else "-3"
        return Step(f"np.clip(np.nan_to_num({x.name}), {low}, 9).astype(np.{dtype})", [x])
    if x.kind == "f" and TOLERANCE.get(str(dtype), 0) > TOLERANCE[str(x.array.dtype)]:
        # Too large for the narrow type is an infinity, which is exact too.
        return Step(f"{x.name}.astype({_type(dtype)})", [x])
    return Step(f"{x.name}.astype({_type(dtype)})", [x])


def _type(dtype: np.dtype) -> str:
    return "bfloat16" if dtype == BFLOAT16 else f"np.{dtype}" if dtype != np.bool_ else "np.bool_"


# Reductions

_SUMS = ["sum", "mean", "prod", "cumsum", "cumprod", "var", "std"]
_FEW = 8
_PICKS = ["max", "min", "any", "all", "argmax", "argmin", "count_nonzero", "ptp", "nanmax", "nansum"]


def reduction(c: Choices) -> Step:
    """Over axes."""
    x = c.var()
    rank = x.array.ndim
    keepdims = f", keepdims={c.flip()}" if c.flip() else ""
    if c.flip():
        name = c.one(_PICKS)
        x = c.var(exact=name in ("any", "all", "argmax", "argmin", "count_nonzero", "nansum"))
        rank = x.array.ndim
        axis = c.axes(rank)
        if name in ("argmax", "argmin"):
            axis = str(c.axis(rank)) if rank and c.flip(0.7) else "None"
        if name == "nansum" and x.kind == "f" and x.array.itemsize == 2 and x.array.size > _FEW:
            # NumPy rounds every sum to 16 bits: many of them stop to grow.
            name = "nanmax"
        if name == "nansum":
            return Step(f"np.nansum({x.name}, axis={axis}{keepdims})", [x], _sum_level(x), worst(x) * x.array.size)
        if name in ("max", "min", "any", "all", "argmax", "argmin") and c.flip(0.4):
            return Step(f"{x.name}.{name}(axis={axis}{keepdims})", [x])
        initial = ", initial=0" if name in ("max", "min") and c.flip(0.3) and x.kind != "b" else ""
        return Step(f"np.{name}({x.name}, axis={axis}{keepdims}{initial})", [x])
    name = c.one(_SUMS)
    if name in ("cumsum", "cumprod"):
        x = c.var(exact=name == "cumprod")
        if name == "cumprod" and x.kind == "f" and x.array.itemsize == 2 and x.array.size > _FEW:
            # NumPy rounds every product to 16 bits: many of them pass through infinity.
            name = "cumsum"
        axis = str(c.axis(x.array.ndim)) if x.array.ndim and c.flip(0.8) else "None"
        level = _sum_level(x) if name == "cumsum" else _product_level(x)
        return Step(f"np.{name}({x.name}, axis={axis})", [x], level, worst(x) * max(x.array.size, 1))
    if name == "prod":
        x = c.var(exact=True)
        if x.kind == "f" and x.array.itemsize == 2 and x.array.size > _FEW:
            return Step(f"np.max({x.name}, axis={c.axes(x.array.ndim)}{keepdims})", [x])
        return Step(f"np.prod({x.name}, axis={c.axes(x.array.ndim)}{keepdims})", [x], _product_level(x))
    axis = c.axes(rank)
    if name == "sum":
        dtype = f", dtype={c.one(['np.float32', 'np.int32'])}" if c.flip(0.2) and x.kind != "f" else ""
        return Step(f"np.sum({x.name}, axis={axis}{dtype}{keepdims})", [x], _sum_level(x), worst(x) * x.array.size)
    square = worst(x, x) * max(x.array.size, 1)
    if name == "std" and x.level != EXACT:  # the root of a small variance makes its error large
        name = "var"
    ddof = ", ddof=1" if name != "mean" and c.flip(0.3) else ""
    return Step(f"np.{name}({x.name}, axis={axis}{ddof}{keepdims})", [x], NEAR, square)


def _sum_level(x: Var) -> int:
    """A sum of few whole numbers is exact in any order."""
    if x.kind != "f":
        return EXACT
    wide = x.array.astype(np.float64)
    whole = bool(np.all(np.isfinite(wide) & (wide == np.rint(wide))))
    return EXACT if whole and np.sum(np.abs(wide)) < 2 ** MANTISSA[str(x.array.dtype)] else NEAR


def _product_level(x: Var) -> int:
    if x.kind != "f":
        return EXACT
    wide = np.abs(x.array.astype(np.float64))
    simple = bool(np.all(np.isin(wide, (0.0, 1.0, 2.0))))
    return EXACT if simple and np.sum(wide == 2) < 15 else NEAR


def statistics(c: Choices) -> Step:
    """Norms, medians, differences."""
    roll = c.int(0, 4)
    x = c.ordered()
    rank = x.array.ndim
    if roll < 1:
        return Step(f"np.median({x.name}, axis={c.axes(rank)})", [x], SAME)
    if roll < 2:
        return Step(f"np.linalg.norm({x.name}, axis={c.axis(rank)}, ord={c.one(['None', '1', 'np.inf'])})", [x], NEAR)
    if roll < 3:
        return Step(f"np.diff({x.name}, n={c.int(0, 2)}, axis={c.axis(rank)})", [x])
    if roll < 4:
        return Step(f"np.quantile({x.name}, {c.one(['0.5', '0.25', '[0.0, 1.0]'])}, axis={c.axes(rank)})", [x], NEAR)
    return Step(f"np.average({x.name}, axis={c.axes(rank)})", [x], NEAR)


# Contractions


def contraction(c: Choices) -> Step:
    """Products of matrices, made to fit by reshaping."""
    x = c.var("iuf", rank=1)
    k = x.array.shape[-1]
    fit = [v for v in c.variables if v.array.ndim and v.array.shape[-1] == k and v.kind != "b"]
    y = c.one(fit)
    if not all(np.isfinite(v.array.astype(np.float64)).all() for v in (x, y)):
        raise NothingFits  # libraries of linear algebra leave out zeros, also where infinity meets them
    size = x.array.size * y.array.size // max(k, 1)
    forms = [
        (f"np.inner({x.name}, {y.name})", True),
        (f"np.matmul({x.name}, np.swapaxes({y.name}, -1, -2))", y.array.ndim > 1 and size <= c.largest),
        (f"{x.name} @ {y.name}", y.array.ndim == 1),
        (f"np.dot({x.name}, {y.name}.T)", x.array.ndim <= 2 and y.array.ndim <= 2),
        (f"np.tensordot({x.name}, {y.name}, axes=([-1], [-1]))", True),
        (
            f"np.einsum('...k,...k->...', {x.name}, {y.name})",
            c.broadcasts(x.array, y.array) and BFLOAT16 not in (x.array.dtype, y.array.dtype),
        ),
        (f"np.outer({x.name}, {y.name})", x.array.size * y.array.size <= c.largest),
        (f"np.vecdot({x.name}, {y.name})", c.broadcasts(x.array, y.array)),
    ]
    text = c.one([form for form, fits in forms if fits and size <= c.largest])
    level = max(_dot_level(x, y), x.level, y.level)
    return Step(text, [x, y], level, worst(x, y) * max(k, 1))


def _dot_level(x: Var, y: Var) -> int:
    if "f" not in (x.kind, y.kind):
        return EXACT
    held = min(MANTISSA.get(str(v.array.dtype), 24) for v in (x, y))
    arrays = [v.array.astype(np.float64) for v in (x, y)]
    whole = all(bool(np.all(np.isfinite(a) & (a == np.rint(a)))) for a in arrays)
    return EXACT if whole and magnitude(x.array) * magnitude(y.array) * max(x.array.shape) < 2**held else NEAR


# Calls with more arguments


def call(c: Choices) -> Step:
    """out=, where=, dtype= and casting= of ufuncs, and their methods."""
    x = c.var("iuf")
    y = c.other(x)
    roll = c.int(0, 6)
    rank = x.array.ndim
    masks = [v for v in c.variables if v.kind == "b" and v.level == EXACT and c.broadcasts(v.array, x.array)]
    if roll == 0:
        fit = [v for v in c.variables if v.array.dtype == x.array.dtype and v.array.shape == x.array.shape]
        shared = [v for v in c.variables if v is x or np.may_share_memory(v.array, x.array)]
        y = c.one(fit)
        name = c.one(["add", "multiply", "maximum"])
        return Step(f"np.{name}({x.name}, {y.name}, out={x.name})", [x, y], scale=worst(x, y), changes=shared)
    if roll == 1:
        m = c.one(masks)
        name = c.one(["sum", "max", "min", "all", "any"])
        initial = ", initial=1" if name in ("max", "min") else ""
        x = x if x.level == EXACT else c.var("iuf", exact=True)
        if not c.broadcasts(m.array, x.array):
            raise NothingFits
        level = _sum_level(x) if name == "sum" else EXACT
        scale = worst(x) * max(x.array.size, 1)
        return Step(f"np.{name}({x.name}, where={m.name}{initial})", [x, m], level, scale)
    if roll == 2:
        m = c.one([v for v in masks if v.array.shape == x.array.shape])
        return Step(f"np.add({x.name}, {named(y)}, where={m.name}, out=np.zeros_like({x.name}))", of(x, y, m))
    if roll == 3:
        return Step(f"np.add({x.name}, {named(y)}, dtype={c.one(['np.float32', 'np.float64'])})", of(x, y), SAME)
    if roll == 4 and c.flip():
        x = c.var(exact=True)
        name = c.one(["maximum", "minimum", "logical_or"])
        return Step(f"np.{name}.reduce({x.name}, axis={c.axis(x.array.ndim)})", [x])
    if roll == 4:
        level = _sum_level(x)
        return Step(f"np.add.accumulate({x.name}, axis={c.axis(rank)})", [x], level, worst(x) * max(x.array.size, 1))
    if roll == 5:
        small = [v for v in c.variables if v.array.size * x.array.size <= c.largest]
        z = c.one(small)
        return Step(f"np.{c.one(['add', 'multiply', 'subtract'])}.outer({x.name}, {z.name})", [x, z], scale=worst(x, z))
    fit = [v for v in c.variables if v.array.shape == x.array.shape]
    z = c.one(fit)
    return Step(f"np.array([{x.name}, {z.name}])", [x, z])


def product(c: Choices) -> Step:
    """kron, cross, trace, powers of matrices."""
    x = c.var("iuf", rank=1)
    roll = c.int(0, 3)
    if roll == 0:
        y = c.one(
            [v for v in c.variables if v.array.size * x.array.size <= c.largest and v.array.ndim and v.kind != "b"]
        )
        return Step(f"np.kron({x.name}, {y.name})", [x, y], scale=worst(x, y))
    if roll == 1:
        y = c.one([v for v in c.variables if v.array.ndim and v.array.shape[-1] == 3 and v.kind in "iuf"])
        x = c.one([v for v in c.variables if v.array.shape == y.array.shape])
        return Step(f"np.cross({x.name}, {y.name})", [x, y], scale=worst(x, y))
    if roll == 2:
        x = c.var(rank=2)
        return Step(f"np.trace({x.name}, {c.int(-1, 1)})", [x], _sum_level(x), worst(x) * max(x.array.size, 1))
    x = c.var("f", rank=2, exact=True)
    return Step(f"np.linalg.norm({x.name}, axis=(-2, -1))", [x], NEAR, worst(x, x) * max(x.array.size, 1))


def network(c: Choices) -> Step:
    """Functions of networks."""
    x = c.var("f", exact=True)
    rank = x.array.ndim
    roll = c.int(0, 4)
    if roll < 2:
        name = c.one(["sigmoid", "silu", "gelu", "relu", "erf"])
        return Step(f"tw.nn.{name}(np.clip({x.name}, -5, 5))", [x], NEAR)
    if roll == 2:
        name = c.one(["softmax", "log_softmax"])
        return Step(f"tw.nn.{name}(np.clip({x.name}, -9, 9), axis={c.axis(rank)})", [x], NEAR)
    if roll == 3:
        return Step(f"tw.nn.rms_norm({x.name}, axis={c.axis(rank)}, eps=0.1)", [x], NEAR, worst(x, x) * x.array.size)
    x = c.var("f", rank=3, exact=True)
    if x.array.ndim > 3 or 0 in x.array.shape:
        raise NothingFits
    weight = f"np.ones((2, {x.array.shape[1]}, 1), {x.name}.dtype)"
    return Step(f"tw.conv({x.name}, {weight}, stride={c.int(1, 2)}, padding={c.int(0, 1)})", [x], NEAR, worst(x) * 50)

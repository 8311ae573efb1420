"""Steps of random NumPy programs: each writes one line of Python about the variables there are.

A variable is `EXACT` (every way to compute it gives the same bits), `SAME` (NumPy's own function gives the same bits,
a decomposition need not) or `NEAR` (the order of a sum matters). Functions that jump, or that make errors larger, get
`EXACT` arguments alone, so that a difference is a mistake and not rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

EXACT, SAME, NEAR = 0, 1, 2
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(name) for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")]
DTYPES += [np.dtype(name) for name in ("float16", "float32", "float32", "float32", "float64")] + [BFLOAT16]
MANTISSA = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 24}
TOLERANCE = {"float16": 2e-2, "bfloat16": 0.1, "float32": 1e-4, "float64": 1e-4}
LARGEST = 400
"""No array of a program has more elements."""


@dataclass
class Var:
    """A variable: its present content, how exact it is, how large the numbers were that it is made of."""

    name: str
    array: np.ndarray
    level: int = EXACT
    scale: float = 0.0
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        self.scale = max(self.scale, magnitude(self.array))
        self.tolerance = max(self.tolerance, TOLERANCE.get(str(self.array.dtype), 0.0))

    @property
    def kind(self) -> str:
        """b, i, u or f."""
        return "f" if self.array.dtype == BFLOAT16 else self.array.dtype.kind


def magnitude(array: np.ndarray) -> float:
    """The greatest finite number, at least 1."""
    wide = np.abs(np.asarray(array).astype(np.float64))
    return float(np.max(wide, initial=1.0, where=np.isfinite(wide)))


@dataclass
class Step:
    """A line `name = expression`, or a statement that changes variables; what it reads, and how exact its result is."""

    text: str
    reads: Sequence[Var]
    level: int = EXACT
    scale: float = 0.0
    changes: Sequence[Var] = field(default_factory=tuple)


class NothingFits(Exception):
    """No variable fits what a step needs."""


class Choices:
    """Random choices that steps are made of."""

    def __init__(self, rng: np.random.Generator, variables: list[Var]) -> None:
        self.rng = rng
        self.variables = variables

    def int(self, low: int, high: int) -> int:
        """low <= n <= high."""
        return int(self.rng.integers(low, high + 1))

    def flip(self, p: float = 0.5) -> bool:
        """True with probability p."""
        return bool(self.rng.random() < p)

    def one(self, items: Sequence[Any]) -> Any:
        """One of the items."""
        if not len(items):
            raise NothingFits
        return items[int(self.rng.integers(len(items)))]

    def var(self, kinds: str = "biuf", exact: bool = False, rank: int = 0) -> Var:
        """A variable, later ones more likely."""
        fit = [
            v for v in self.variables if v.kind in kinds and (not exact or v.level == EXACT) and v.array.ndim >= rank
        ]
        if not fit:
            raise NothingFits
        return fit[-1 - min(int(self.rng.exponential(3)), len(fit) - 1)]

    def ordered(self) -> Var:
        """A variable that NumPy can sort: bfloat16 with NaN it cannot."""
        x = self.var(exact=True)
        if x.array.dtype == BFLOAT16 and np.isnan(x.array.astype(np.float32)).any():
            raise NothingFits
        return x

    def axis(self, rank: int) -> int:
        """An axis, negative ones too."""
        return self.one(range(-rank, rank))

    def axes(self, rank: int) -> str:
        """What `axis=` of a reduction may be."""
        if not rank or self.flip(0.2):
            return "None"
        if self.flip(0.6):
            return str(self.axis(rank))
        some = [a - (rank if self.flip(0.3) else 0) for a in range(rank) if self.flip()]
        return str(tuple(some))

    def number(self, kind: str) -> str:
        """A Python number that an array of a kind takes."""
        if kind == "f":
            return self.one(["2", "0.5", "-1.0", "1.5", "3", "0", "-2", "np.float32(0.25)"])
        if kind == "b":
            return self.one(["True", "False", "1"])
        return self.one(["1", "2", "3", "7"] + (["-1", "-3"] if kind == "i" else []))

    def other(self, x: Var, exact: bool = False) -> Var | str:
        """Something that may broadcast with x: a variable, or a number."""
        fit = [v for v in self.variables if _broadcast(x.array, v.array) and (not exact or v.level == EXACT)]
        if self.flip(0.3) or not fit:
            return self.number(x.kind)
        return self.one(fit)


def _broadcast(x: np.ndarray, y: np.ndarray) -> bool:
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return math.prod(shape) <= LARGEST


def named(x: Var | str) -> str:
    """How a step writes an operand."""
    return x if isinstance(x, str) else x.name


def of(*operands: Var | str) -> list[Var]:
    """The variables among operands."""
    return [x for x in operands if isinstance(x, Var)]


def worst(*operands: Var | str) -> float:
    """The product of how large operands are: what an error of one is multiplied with."""
    return math.prod(x.scale if isinstance(x, Var) else 8.0 for x in operands)


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
    if roll < 2 and _broadcast(x.array, condition.array):
        return Step(f"np.where({condition.name}, {named(x)}, {named(y)})", of(x, y, condition))
    if roll < 3:
        return Step(f"np.clip({x.name}, {c.one(['None', '0', '1'])}, {c.int(2, 5)})", [x])
    if roll < 4:
        return Step(f"np.nan_to_num({x.name}, nan=2, posinf=3, neginf=1)", [x])
    if roll < 5:
        test = [c.int(0, 4) for _ in range(c.int(0, 4))]
        x = c.var("iuf", exact=True)
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
        if name == "nansum":
            return Step(f"np.nansum({x.name}, axis={axis}{keepdims})", [x], _sum_level(x), worst(x) * x.array.size)
        if name in ("max", "min", "any", "all", "argmax", "argmin") and c.flip(0.4):
            return Step(f"{x.name}.{name}(axis={axis}{keepdims})", [x])
        initial = ", initial=0" if name in ("max", "min") and c.flip(0.3) and x.kind != "b" else ""
        return Step(f"np.{name}({x.name}, axis={axis}{keepdims}{initial})", [x])
    name = c.one(_SUMS)
    if name in ("cumsum", "cumprod"):
        x = c.var(exact=name == "cumprod")
        axis = str(c.axis(x.array.ndim)) if x.array.ndim and c.flip(0.8) else "None"
        level = _sum_level(x) if name == "cumsum" else _product_level(x)
        return Step(f"np.{name}({x.name}, axis={axis})", [x], level, worst(x) * max(x.array.size, 1))
    if name == "prod":
        x = c.var(exact=True)
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
    size = x.array.size * y.array.size // max(k, 1)
    forms = [
        (f"np.inner({x.name}, {y.name})", True),
        (f"np.matmul({x.name}, np.swapaxes({y.name}, -1, -2))", y.array.ndim > 1 and size <= LARGEST),
        (f"{x.name} @ {y.name}", y.array.ndim == 1),
        (f"np.dot({x.name}, {y.name}.T)", x.array.ndim <= 2 and y.array.ndim <= 2),
        (f"np.tensordot({x.name}, {y.name}, axes=([-1], [-1]))", True),
        (
            f"np.einsum('...k,...k->...', {x.name}, {y.name})",
            _broadcast(x.array, y.array) and BFLOAT16 not in (x.array.dtype, y.array.dtype),
        ),
        (f"np.outer({x.name}, {y.name})", x.array.size * y.array.size <= LARGEST),
        (f"np.vecdot({x.name}, {y.name})", _broadcast(x.array, y.array)),
    ]
    text = c.one([form for form, fits in forms if fits and size <= LARGEST])
    level = max(_dot_level(x, y), x.level, y.level)
    return Step(text, [x, y], level, worst(x, y) * max(k, 1))


def _dot_level(x: Var, y: Var) -> int:
    if "f" not in (x.kind, y.kind):
        return EXACT
    held = min(MANTISSA.get(str(v.array.dtype), 24) for v in (x, y))
    arrays = [v.array.astype(np.float64) for v in (x, y)]
    whole = all(bool(np.all(np.isfinite(a) & (a == np.rint(a)))) for a in arrays)
    return EXACT if whole and magnitude(x.array) * magnitude(y.array) * LARGEST < 2**held else NEAR


# Shapes


def shape(c: Choices) -> Step:
    """Other shapes and orders of the same elements."""
    x = c.var()
    rank, dims = x.array.ndim, x.array.shape
    roll = c.int(0, 17)
    name = x.name
    if roll == 0:
        sizes = _factors(c, x.array.size)
        return Step(f"np.reshape({name}, {sizes}{c.one(['', ', order=' + repr('F')])})", [x])
    if roll == 1:
        return Step(f"{name}.{c.one(['ravel()', 'flatten()', 'T', 'copy()', 'squeeze()'])}", [x])
    if roll == 2:
        return Step(f"np.transpose({name}, {tuple(int(a) for a in c.rng.permutation(rank))})", [x])
    if roll == 3:
        return Step(f"np.swapaxes({name}, {c.axis(rank)}, {c.axis(rank)})", [x])
    if roll == 4:
        return Step(f"np.moveaxis({name}, {c.axis(rank)}, {c.axis(rank)})", [x])
    if roll == 5:
        return Step(f"np.expand_dims({name}, {c.int(-rank - 1, rank)})", [x])
    if roll == 6:
        extra = (c.int(1, 3), *(n if n != 1 else c.int(1, 3) for n in dims))
        if math.prod(extra) <= LARGEST:
            return Step(f"np.broadcast_to({name}, {extra})", [x])
    if roll == 7:
        return Step(f"np.flip({name}, {c.one(['None', str(c.axis(rank)) if rank else 'None'])})", [x])
    if roll == 8:
        return Step(f"np.roll({name}, {c.int(-4, 4)}, {c.one(['None', str(c.axis(rank)) if rank else 'None'])})", [x])
    if roll == 9:
        return Step(f"np.rot90({name}, {c.int(-1, 4)})", [x])
    if roll == 10 and x.array.size < 60:
        where = c.one(["None", str(c.axis(rank)) if rank else "None"])
        return Step(f"np.repeat({name}, {c.int(0, 3)}, axis={where})", [x])
    if roll == 11 and x.array.size < 40:
        return Step(f"np.tile({name}, {c.one([2, (2, 1), (1, 2, 1)])})", [x])
    if roll == 12:
        return Step(f"np.{c.one(['tril', 'triu'])}({name}, {c.int(-2, 2)})", [x])
    if roll == 13:
        return Step(f"np.diagonal({name}, {c.int(-1, 1)})", [x])
    if roll == 14 and x.array.size < 100:
        mode = c.one(["constant", "edge", "reflect", "symmetric", "wrap"])
        width = [(c.int(0, 2), c.int(0, 2)) for _ in range(rank)] or 0
        return Step(f"np.pad({name}, {width}, {mode!r})", [x])
    if roll == 15 and rank == 1 and x.array.size < 15:
        return Step(f"np.diag({name}, {c.int(-1, 1)})", [x])
    if roll == 16:
        return Step(f"np.atleast_{c.int(1, 3)}d({name})", [x])
    return Step(f"np.{c.one(['zeros', 'ones'])}_like({name})", [x])


def _factors(c: Choices, size: int) -> tuple[int, ...]:
    if size == 0:
        return (0, c.int(1, 3))
    found: list[int] = []
    for _ in range(c.int(0, 3)):
        part = c.one([n for n in range(1, size + 1) if size % n == 0])
        found.append(part)
        size //= part
    found.append(size if c.flip() else -1)
    return tuple(found)


def join(c: Choices) -> Step:
    """Several arrays as one, or parts of one."""
    x = c.var(rank=1)
    rank, dims = x.array.ndim, x.array.shape
    axis = c.axis(rank)
    roll = c.int(0, 4)
    if roll < 2 and x.array.size < 100:
        place = axis % rank
        fit = [
            v
            for v in c.variables
            if v.array.ndim == rank and all(a == place or v.array.shape[a] == dims[a] for a in range(rank))
        ]
        parts = [c.one(fit) for _ in range(c.int(1, 3))]
        return Step(f"np.concatenate([{', '.join(v.name for v in [x, *parts])}], axis={axis})", [x, *parts])
    if roll < 3 and x.array.size < 100:
        fit = [v for v in c.variables if v.array.shape == dims]
        y = c.one(fit)
        return Step(f"np.stack([{x.name}, {y.name}], axis={c.int(-rank - 1, rank)})", [x, y])
    if roll < 4:
        count = c.int(1, 3)
        return Step(f"np.array_split({x.name}, {count}, axis={axis})[{c.int(0, count - 1)}]", [x])
    at = sorted(c.int(0, 5) for _ in range(2))
    return Step(f"np.split({x.name}, {at}, axis={axis})[{c.int(0, 2)}]", [x])


# Indices


def key(c: Choices, dims: tuple[int, ...], advanced: bool = True) -> str:
    """What stands between brackets."""
    items: list[str] = []
    used = arrays = 0
    while used < len(dims) and c.flip(0.8):
        n = dims[used]
        roll = c.int(0, 9)
        if roll == 0 and n:
            items.append(str(c.int(-n, n - 1)))
        elif roll == 1:
            items.append("None")
            continue
        elif roll == 2 and "..." not in items:
            items.append("...")
            break
        elif roll == 3 and n and advanced and not arrays:
            items.append(str([c.int(-n, n - 1) for _ in range(c.int(0, 4))] or [0]))
            arrays += 1
        else:
            bounds = [str(c.int(-n - 1, n + 1)) if c.flip() else "" for _ in range(2)]
            items.append(f"{bounds[0]}:{bounds[1]}:{c.one(['', '', '2', '-1', '-2', '3'])}")
        used += 1
    return ", ".join(items) or "..."


def index(c: Choices) -> Step:
    """x[...], take, take_along_axis."""
    x = c.var()
    roll = c.int(0, 6)
    if roll < 4:
        return Step(f"{x.name}[{key(c, x.array.shape)}]", [x])
    if roll < 5:
        where = c.one(["None", str(c.axis(x.array.ndim)) if x.array.ndim else "None"])
        places = [c.int(-3, 6) for _ in range(c.int(1, 4))]
        return Step(f"np.take({x.name}, {places}, axis={where}, mode={c.one(['wrap', 'clip'])!r})", [x])
    i = c.var("iu", exact=True, rank=1)
    axis = c.axis(x.array.ndim)
    if roll < 6:
        n = x.array.shape[axis]
        if x.array.size * i.array.size // max(n, 1) > LARGEST:
            raise NothingFits
        return Step(f"np.take({x.name}, {i.name} % {max(n, 1)}, axis={axis})", [x, i])
    x = c.ordered()
    axis = c.axis(x.array.ndim)
    return Step(f"np.take_along_axis({x.name}, np.argsort({x.name}, axis={axis}, kind='stable'), axis={axis})", [x])


def order(c: Choices) -> Step:
    """Sorting and searching."""
    x = c.ordered()
    rank = x.array.ndim
    axis = c.axis(rank)
    roll = c.int(0, 5)
    if roll == 0:
        return Step(f"np.sort({x.name}, axis={axis}, kind='stable')", [x])
    if roll == 1:
        return Step(f"np.argsort({x.name}, axis={axis}, kind='stable')", [x])
    if roll == 2:
        k = c.int(0, x.array.shape[axis])
        return Step(f"tw.topk({x.name}, {k}, axis={axis}, ascending={c.flip()})[{c.int(0, 1)}]", [x])
    if roll == 3:
        y = c.var("iuf", exact=True)
        if y.array.size > LARGEST // 4:
            raise NothingFits
        return Step(f"np.searchsorted(np.sort({x.name}, axis=None), {y.name}, {c.one(['left', 'right'])!r})", [x, y])
    if roll == 4:
        x = c.var("f", exact=True)
        return Step(f"np.digitize({x.name}, [-1.0, 0.0, 2.0, 2.5])", [x])
    x = c.var("iu", exact=True)
    return Step(f"np.bincount(np.ravel({x.name} % 5).astype(np.int32), minlength=5)", [x])


def write(c: Choices) -> Step:
    """Statements that change an array, often through a view of another one."""
    x = c.var()
    roll = c.int(0, 5)
    shared = [v for v in c.variables if v is x or np.may_share_memory(v.array, x.array)]
    if roll < 2:
        place = key(c, x.array.shape, advanced=c.flip(0.4))
        value = c.number(x.kind) if c.flip() else named(c.other(x))
        reads = [v for v in c.variables if v.name == value]
        return Step(f"{x.name}[{place}] = {value}", [x, *reads], changes=shared)
    if roll < 4:
        y = c.other(x)
        operator = c.one(_ARITHMETIC)
        return Step(f"{x.name} {operator}= {named(y)}", of(x, y), scale=worst(x, y), changes=shared)
    if roll < 5:
        mask = [v for v in c.variables if v.kind == "b" and v.level == EXACT and v.array.shape == x.array.shape]
        m = c.one(mask)
        return Step(f"{x.name}[{m.name}] = {c.number(x.kind)}", [x, m], changes=shared)
    name = c.one(["np.put({0}, [0, -1], [1, 2])", "np.fill_diagonal({0}, 1)", "{0}.fill(1)", "{0}.sort()"])
    if name == "{0}.sort()":
        x = c.ordered()
        shared = [v for v in c.variables if v is x or np.may_share_memory(v.array, x.array)]
    return Step(name.format(x.name), [x], changes=shared)


STEPS: list[tuple[Callable[[Choices], Step], int]] = [
    *((unary, 4), (binary, 6), (choice, 2), (cast, 2), (reduction, 4), (statistics, 1), (contraction, 2)),
    *((shape, 5), (join, 2), (index, 4), (order, 2), (write, 3)),
]
"""Kinds of steps, and how often each is tried."""

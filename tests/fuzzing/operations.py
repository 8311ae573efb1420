"""Operations of random programs: each gives the text of an expression of a wanted shape."""

from __future__ import annotations

from collections.abc import Callable
from string import ascii_lowercase

import numpy as np

from tests.fuzzing.grow import Grower, NothingFits
from tests.fuzzing.readings import Shape

Operation = Callable[[Grower, Shape, int], str]

FUNCTIONS = (
    "np.tanh({})",
    "np.abs({})",
    "np.exp(np.minimum({}, 3))",
    "np.sqrt(np.abs({}))",
    "np.log(np.abs({}) + 1)",
    "(1 / (1 + np.exp(-{})))",
    "np.maximum({}, 0)",
    "np.square({})",
    "(1 / (np.abs({}) + 0.5))",
    "np.sin({})",
    "np.cos({})",
    "np.sign({})",
    "np.floor({})",
    "np.rint({})",
    "(-{})",
    "np.clip({}, -1, 2)",
    "np.arctan({})",
    "np.log1p(np.abs({}))",
    "np.expm1(np.clip({}, -2, 2))",
    "np.isnan({})",
    "np.nan_to_num({})",
)
ANGLES = ("np.sin({})", "np.cos({})")


def function(g: Grower, want: Shape, depth: int) -> str:
    """A function of floats."""
    form, x = str(g.one_of(FUNCTIONS)), g.floating(want, depth - 1)
    # Angles beyond 1.3e7 have no sine here (docs/numpy.md).
    return form.format(f"np.clip({x}, -1e6, 1e6)" if g.is_unbounded and form in ANGLES else x)


def arithmetic(g: Grower, want: Shape, depth: int) -> str:
    """Two operands, in either order."""
    one, other = g.expression(want, depth - 1), g.beside(want, depth - 1)
    kinds = {one.kind, other.kind}
    if kinds == {"b"}:
        signs = ["&", "|", "^", "+", "*"]
    elif "f" in kinds:
        signs = ["+", "-", "*", "+", "-", "*", "/"][: 6 if g.values == "tiny" else 7]
    else:
        signs = ["+", "-", "*", "&", "|", "^"]
    sign = g.one_of(signs)
    first, second = (one.text, other.text) if g.chance(0.5) else (other.text, one.text)
    if sign == "/" and g.values == "zeros":
        return f"({first} / {second})"
    if sign == "/":
        return f"({first} / (np.abs({second}) + 1))"
    return f"({first} {sign} {second})"


def extreme(g: Grower, want: Shape, depth: int) -> str:
    """The greater or the lesser of two, and other functions of two."""
    one, other = g.expression(want, depth - 1), g.beside(want, depth - 1)
    name = g.one_of(["maximum", "minimum", "maximum", "minimum", "hypot", "arctan2", "copysign", "fmod", "power"])
    if name in ("hypot", "arctan2", "copysign") and {one.kind, other.kind} != {"f"}:
        name = "maximum"
    if name in ("fmod", "power"):
        if one.kind != "f":
            raise NothingFits
        return f"np.{name}({one.text}, {g.one_of([2, 3])})"
    return f"np.{name}({one.text}, {other.text})"


def choice(g: Grower, want: Shape, depth: int) -> str:
    """One of two by a condition."""
    return (
        f"np.where({g.truth(want, depth - 1)}, {g.expression(want, depth - 1).text}, {g.beside(want, depth - 1).text})"
    )


def condition(g: Grower, want: Shape, depth: int) -> str:
    """Truth values."""
    return g.truth(want, depth)


def converted(g: Grower, want: Shape, depth: int) -> str:
    """Another element type."""
    made = g.expression(want, depth - 1)
    to = g.one_of(["np.float32", "np.float32", "np.int32", "bfloat16", "np.float16", "np.int8", "bool"])
    if made.kind == "f" and to in ("np.int32", "np.int8"):
        return f"np.clip(np.nan_to_num({made.text}), -100, 100).astype({to})"
    return f"{made.text}.astype({to})"


def reduction(g: Grower, want: Shape, depth: int) -> str:
    """A reduction of something with one dim more, or with more of a dim."""
    name = g.one_of(["sum", "sum", "max", "min", "mean", "std", "argmax", "argmin"])
    ones = [d for d, n in enumerate(want) if n == 1]
    if ones and g.chance(0.5):
        d = int(g.one_of(ones))
        shape = (*want[:d], g.dim(), *want[d + 1 :])
        return f"np.{name}({g.expression(shape, depth - 1).text}, axis={d}, keepdims=True)"
    if len(want) > 3:
        raise NothingFits
    d = int(g.rng.integers(len(want) + 1))
    return f"np.{name}({g.expression((*want[:d], g.dim(), *want[d:]), depth - 1).text}, axis={d})"


def product(g: Grower, want: Shape, depth: int) -> str:
    """A matrix product, an operand transposed or not."""
    if not want:
        raise NothingFits
    k = g.dim()
    if len(want) == 1:
        if g.chance(0.5):
            return f"({g.floating((want[0], k), depth - 1)} @ {g.floating((k,), depth - 1)})"
        return f"({g.floating((k,), depth - 1)} @ {g.floating((k, want[0]), depth - 1)})"
    *batch, m, n = want
    left = g.floating((*batch, m, k), depth - 1) if g.chance(0.7) else f"{g.floating((k, m), depth - 1)}.T"
    shared = batch if g.chance(0.5) else []
    right = g.floating((*shared, k, n), depth - 1) if g.chance(0.6) else f"{g.floating((n, k), depth - 1)}.T"
    return f"({left} @ {right})"


def contraction(g: Grower, want: Shape, depth: int) -> str:
    """np.einsum of one to three operands: every dim is in some of them, one or two are summed over."""
    if len(want) > 4:
        raise NothingFits
    sizes = {ascii_lowercase[8 + i]: n for i, n in enumerate(want)}
    out = "".join(sizes)
    for i in range(int(g.rng.integers(1 if len(out) < 3 else 0, 3))):
        sizes["abc"[i]] = g.dim()
    letters = list(sizes)
    count = int(g.rng.choice([1, 2, 2, 2, 3]))
    parts: list[list[str]] = [[x for x in letters if g.chance(0.6)] for _ in range(count)]
    for x in letters:
        if not any(x in part for part in parts):
            parts[int(g.rng.integers(count))].append(x)
    if any(not part or len(part) > 4 for part in parts):
        raise NothingFits
    for part in parts:
        g.rng.shuffle(part)
    if g.is_unbounded and any(sum(x in part for part in parts) == 1 for x in set(letters) - set(out)):
        raise NothingFits  # such a dim is summed before the product, which gives other infinities
    texts = [g.floating(tuple(sizes[x] for x in part), min(depth - 1, 1)) for part in parts]
    return f"np.einsum('{','.join(map(''.join, parts))}->{out}', {', '.join(texts)})"


def scan(g: Grower, want: Shape, depth: int) -> str:
    """A running sum, differences, a sorted axis."""
    if not want:
        raise NothingFits
    d = int(g.rng.integers(len(want)))
    kind = g.one_of(["cumsum", "cumsum", "diff", "sort", "flip", "argsort"])
    if kind == "diff":
        return f"np.diff({g.expression((*want[:d], want[d] + 1, *want[d + 1 :]), depth - 1).text}, axis={d})"
    if kind == "flip":
        return f"np.flip({g.expression(want, depth - 1).text})"
    more = ", kind='stable'" if kind == "argsort" else ""
    return f"np.{kind}({g.floating(want, depth - 1)}, axis={d}{more})"


def join(g: Grower, want: Shape, depth: int) -> str:
    """Parts side by side."""
    axes = [d for d, n in enumerate(want) if n > 1]
    if not axes:
        raise NothingFits
    d = int(g.one_of(axes))
    at = int(g.rng.integers(1, want[d]))
    parts = [g.expression((*want[:d], n, *want[d + 1 :]), depth - 1).text for n in (at, want[d] - at)]
    return f"np.concatenate([{', '.join(parts)}], axis={d})"


def stacked(g: Grower, want: Shape, depth: int) -> str:
    """Equal parts along a new axis."""
    axes = [d for d, n in enumerate(want) if 2 <= n <= 4]
    if not axes:
        raise NothingFits
    d = int(g.one_of(axes))
    part = (*want[:d], *want[d + 1 :])
    return f"np.stack([{', '.join(g.expression(part, depth - 1).text for _ in range(want[d]))}], axis={d})"


def places(g: Grower, want: Shape, depth: int) -> str:
    """Numbers that depend on the place alone, and triangles."""
    if not want:
        raise NothingFits
    last = want[-1]
    if len(want) >= 2 and g.chance(0.6):
        return f"np.{g.one_of(['tril', 'triu'])}({g.expression(want, depth - 1).text}, {int(g.rng.integers(-2, 3))})"
    sign = g.one_of(["+", "*", "<", "-"])
    return f"({g.floating(want, depth - 1)} {sign} np.arange({last}, dtype=np.float32))"


_TABLE: tuple[tuple[Operation, float], ...] = (
    (arithmetic, 9),
    (function, 4),
    (extreme, 1.5),
    (choice, 1.5),
    (condition, 0.7),
    (converted, 1),
    (reduction, 2.5),
    (product, 2.5),
    (contraction, 1.2),
    (scan, 0.8),
    (join, 1.5),
    (stacked, 0.5),
    (places, 0.6),
)
UNDIVIDED = (arithmetic, choice, condition, join, stacked)
"""Operations that divide nothing and compute no function."""
OPERATIONS: tuple[Operation, ...] = tuple(each for each, _ in _TABLE)
WEIGHTS = np.array([weight for _, weight in _TABLE]) / sum(weight for _, weight in _TABLE)

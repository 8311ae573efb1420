"""How a value may be read so that it has a wanted shape: slices, reversals, shifts, transposes, reductions, joins.

Every function gives a text that reads `x`, of shape `have`, with the shape `want`, or None where there is no such.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

Shape = tuple[int, ...]
Reading = Callable[[np.random.Generator, str, Shape, Shape], str | None]


def _pick(rng: np.random.Generator, count: int) -> int:
    return int(rng.integers(count))


def itself(rng: np.random.Generator, x: str, have: Shape, want: Shape) -> str | None:
    return x if have == want else None


def turned_around(rng: np.random.Generator, x: str, have: Shape, want: Shape) -> str | None:
    """Reversed along some axis."""
    if have != want or not have:
        return None
    axis = _pick(rng, len(have)) if rng.random() < 0.4 else len(have) - 1
    return f"{x}[{', '.join('::-1' if d == axis else ':' for d in range(axis + 1))}]"


def shifted(rng: np.random.Generator, x: str, have: Shape, want: Shape) -> str | None:
    """Rolled around, or moved on with an end that is doubled."""
    if have != want or not have:
        return None
    axis = _pick(rng, len(have))
    by = _pick(rng, 2 * have[axis] + 1) - have[axis]
    return f"np.roll({x}, {by}, {axis})"


def cut(rng: np.random.Generator, x: str, have: Shape, want: Shape) -> str | None:
    """A slice: the start, the end, the middle, every other element, backwards."""
    if len(have) != len(want) or have == want or any(h < w for h, w in zip(have, want, strict=True)):
        return None
    texts = [_span(rng, h, w) for h, w in zip(have, want, strict=True)]
    return f"{x}[{', '.join(texts)}]"


def _span(rng: np.random.Generator, have: int, want: int) -> str:
    if have == want and rng.random() < 0.8:
        return ":"
    step = 2 if have >= 2 * want and rng.random() < 0.3 else 1
    room = have - (want - 1) * step - 1
    start = int(rng.choice([0, room, _pick(rng, room + 1)]))
    last = start + (want - 1) * step
    if rng.random() < 0.25:
        return f"{last}:{start - 1 if start else ''}:{-step}"
    return f"{start or ''}:{last + 1 if last + 1 < have else ''}" + (f":{step}" if step > 1 else "")


def transposed(rng: np.random.Generator, x: str, have: Shape, want: Shape) -> str | None:
    """Dims in another order."""
    if len(have) < 2 or sorted(have) != sorted(want):
        return None
    left = list(range(len(have)))
    order: list[int] = []
    for n in want:
        fits = [d for d in left if have[d] == n]
        order.append(fits[_pick(rng, len(fits))])
        left.remove(order[-1])
    if order == sorted(order):
        return None
    return f"{x}.T" if order == [1, 0] else f"{x}.transpose({', '.join(map(str, order))})"


def reshaped(rng: np.random.Generator, x: str, have: Shape, want: Shape) -> str | None:
    """The same elements in another shape."""
    if have == want or prod(have) != prod(want):
        return None
    return f"{x}.reshape({', '.join(map(str, want)) or '()'})"


def reduced(rng: np.random.Generator, x: str, have: Shape, want: Shape) -> str | None:
    """A reduction over one axis or several, kept or not."""
    kept = len(have) == len(want)
    if kept:
        axes = [d for d, n in enumerate(have) if n != want[d]]
        if not axes or any(want[d] != 1 for d in axes):
            return None
    else:
        found = _dropped(have, want)
        if found is None:
            return None
        axes = found
    name = str(rng.choice(["sum", "max", "min", "mean", "sum", "std", "prod", "argmax", "any", "all"], p=_WEIGHTS))
    if name in ("prod", "argmax") and len(axes) > 1:
        name = "sum"
    axis = axes[0] if len(axes) == 1 else tuple(axes)
    return f"np.{name}({x}, axis={axis}{', keepdims=True' if kept else ''})"


_WEIGHTS = [0.25, 0.2, 0.1, 0.15, 0.1, 0.08, 0.03, 0.05, 0.02, 0.02]


def _dropped(have: Shape, want: Shape) -> list[int] | None:
    """Axes whose loss makes a shape of another."""
    at, axes = 0, []
    for d, n in enumerate(have):
        if (
            at < len(want)
            and want[at] == n
            and len(have) - d > len(want) - at - 1
            and (len(have) - d - 1 >= len(want) - at - 1)
        ):
            at += 1
        else:
            axes.append(d)
    return axes if at == len(want) and axes else None


def picked(rng: np.random.Generator, x: str, have: Shape, want: Shape) -> str | None:
    """One entry of an axis."""
    axes = _dropped(have, want)
    if axes is None or len(axes) > 2:
        return None
    texts = [str(_pick(rng, n) - (n if rng.random() < 0.3 else 0)) if d in axes else ":" for d, n in enumerate(have)]
    return f"{x}[{', '.join(texts)}]"


def chosen(rng: np.random.Generator, x: str, have: Shape, want: Shape) -> str | None:
    """Known entries of an axis, some of them twice."""
    differ = [d for d, (h, w) in enumerate(zip(have, want, strict=True)) if h != w] if len(have) == len(want) else []
    if len(differ) != 1 or want[differ[0]] > 12:
        return None
    index = [_pick(rng, have[differ[0]]) for _ in range(want[differ[0]])]
    return f"{x}[{', '.join([':'] * differ[0] + [str(index)])}]"


def repeated(rng: np.random.Generator, x: str, have: Shape, want: Shape) -> str | None:
    """Repeated, tiled or spread along an axis."""
    if len(have) != len(want):
        axes = _dropped(want, have)
        if axes is None or len(axes) > 1:
            return None
        there = [":" if d not in axes else "None" for d in range(len(want))]
        return f"np.broadcast_to({x}[{', '.join(there)}], {want})"
    differ = [d for d, (h, w) in enumerate(zip(have, want, strict=True)) if h != w]
    if len(differ) != 1 or want[differ[0]] % max(have[differ[0]], 1) or not have[differ[0]]:
        return None
    d, times = differ[0], want[differ[0]] // have[differ[0]]
    if rng.random() < 0.5:
        return f"np.repeat({x}, {times}, {d})"
    return f"np.concatenate([{', '.join([x] * times)}], {d})" if times < 5 else f"np.repeat({x}, {times}, {d})"


def padded(rng: np.random.Generator, x: str, have: Shape, want: Shape) -> str | None:
    """With something around it: numbers, its own edge, its mirror image, or a part of itself."""
    if len(have) != len(want) or have == want or any(h > w for h, w in zip(have, want, strict=True)):
        return None
    missing = [w - h for h, w in zip(have, want, strict=True)]
    if sum(map(bool, missing)) == 1 and rng.random() < 0.5:
        d = next(d for d, n in enumerate(missing) if n)
        if missing[d] <= have[d]:
            part = f"{x}[{', '.join([':'] * d + [_span(rng, have[d], missing[d])])}]"
            both = [x, part] if rng.random() < 0.5 else [part, x]
            return f"np.concatenate([{', '.join(both)}], {d})"
    before = [_pick(rng, n + 1) for n in missing]
    widths = tuple((b, n - b) for b, n in zip(before, missing, strict=True))
    modes = ["constant", "edge"] if any(n >= h for n, h in zip(missing, have, strict=True)) else _MODES
    return f"np.pad({x}, {widths}, mode='{rng.choice(modes)}')" if all(have) else None


_MODES = ["constant", "edge", "reflect", "wrap", "symmetric"]

READINGS: tuple[tuple[Reading, float], ...] = (
    (itself, 5),
    (turned_around, 3),
    (shifted, 1.5),
    (cut, 5),
    (transposed, 4),
    (reshaped, 1.5),
    (reduced, 3),
    (picked, 2),
    (chosen, 1),
    (repeated, 1),
    (padded, 1),
)


def readings(rng: np.random.Generator, x: str, have: Shape, want: Shape) -> str | None:
    """Some way to read a value with a wanted shape; None where there is none."""
    if not all(have) and have != want:
        return None
    found = [(text, weight) for each, weight in READINGS if (text := each(rng, x, have, want)) is not None]
    if not found:
        return None
    weights = np.array([weight for _, weight in found])
    return found[int(rng.choice(len(found), p=weights / weights.sum()))][0]

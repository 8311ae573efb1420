"""Steps of random programs that move elements: shapes, joins, indices, sorting, assignments."""

from __future__ import annotations

import math

import numpy as np

from tests.front.fuzz_choices import EXACT, NEAR, Choices, NothingFits, Step, named, of, worst

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
        if math.prod(extra) <= c.largest:
            return Step(f"np.broadcast_to({name}, {extra})", [x])
    if roll == 7:
        return Step(f"np.flip({name}, {c.one(['None', str(c.axis(rank)) if rank else 'None'])})", [x])
    if roll == 8:
        return Step(f"np.roll({name}, {c.int(-4, 4)}, {c.one(['None', str(c.axis(rank)) if rank else 'None'])})", [x])
    if roll == 9:
        return Step(f"np.rot90({name}, {c.int(-1, 4)})", [x])
    if roll == 10 and x.array.size < c.largest // 6:
        where = c.one(["None", str(c.axis(rank)) if rank else "None"])
        return Step(f"np.repeat({name}, {c.int(0, 3)}, axis={where})", [x])
    if roll == 11 and x.array.size < c.largest // 10:
        return Step(f"np.tile({name}, {c.one([2, (2, 1), (1, 2, 1)])})", [x])
    if roll == 12:
        return Step(f"np.{c.one(['tril', 'triu'])}({name}, {c.int(-2, 2)})", [x])
    if roll == 13:
        return Step(f"np.diagonal({name}, {c.int(-1, 1)})", [x])
    if roll == 14 and x.array.size < c.largest // 4:
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
    if roll < 2 and x.array.size < c.largest // 4:
        place = axis % rank
        fit = [
            v
            for v in c.variables
            if v.array.ndim == rank and all(a == place or v.array.shape[a] == dims[a] for a in range(rank))
        ]
        parts = [c.one(fit) for _ in range(c.int(1, 3))]
        return Step(f"np.concatenate([{', '.join(v.name for v in [x, *parts])}], axis={axis})", [x, *parts])
    if roll < 3 and x.array.size < c.largest // 4:
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
        # NumPy never ends wrapping an index around nothing.
        mode = c.one(["wrap", "clip"]) if x.array.size else "clip"
        return Step(f"np.take({x.name}, {places}, axis={where}, mode={mode!r})", [x])
    i = c.var("iu", exact=True, rank=1)
    axis = c.axis(x.array.ndim)
    if roll < 6:
        n = x.array.shape[axis]
        if x.array.size * i.array.size // max(n, 1) > c.largest:
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
        y = c.ordered()
        if y.array.size > c.largest // 4:
            raise NothingFits
        return Step(f"np.searchsorted(np.sort({x.name}, axis=None), {y.name}, {c.one(['left', 'right'])!r})", [x, y])
    if roll == 4:
        x = c.var("f", exact=True)
        return Step(f"np.digitize({x.name}, [-1.0, 0.0, 2.0, 2.5])", [x])
    x = c.var("iu", exact=True)
    return Step(f"np.bincount(np.ravel({x.name} % 5).astype(np.int32), minlength=5)", [x])


def make(c: Choices) -> Step:
    """An array that the program makes itself; later steps may write to it."""
    x = c.var()
    dims = x.array.shape if c.flip() else tuple(c.int(1, 4) for _ in range(c.int(0, 3)))
    dtype = c.one(["np.float32", "np.int32", "np.int64", "np.float64", "np.uint8"])
    if c.flip(0.3):
        return Step(f"np.arange({c.int(0, 9)}, dtype={dtype})", [])
    if c.flip(0.2):
        return Step(f"np.eye({c.int(1, 4)}, {c.int(1, 4)}, dtype={dtype})", [])
    return Step(f"np.{c.one(['zeros', 'ones'])}({dims}, {dtype})", [])


def write(c: Choices) -> Step:
    """Statements that change an array, often through a view of another one."""
    x = c.var()
    roll = c.int(0, 5)
    shared = [v for v in c.variables if v is x or np.may_share_memory(v.array, x.array)]
    if roll < 2:
        place = key(c, x.array.shape, advanced=c.flip(0.4))
        value = c.number(x.kind) if c.flip() else named(c.other(x))
        reads = [v for v in c.variables if v.name == value]
        if x.kind in "iu" and not all(np.isfinite(v.array.astype(np.float64)).all() for v in reads):
            raise NothingFits  # what NaN is as an integer is not defined
        return Step(f"{x.name}[{place}] = {value}", [x, *reads], changes=shared)
    if roll < 4:
        y = c.other(x)
        operator = c.one(["+", "-", "*"])
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


def scatter(c: Choices) -> Step:
    """Rows and elements written or added to at places that are computed."""
    x = c.var(rank=1)
    n = x.array.shape[0]
    i = c.var("iu", exact=True, rank=1)
    if not n or i.array.size * (x.array.size // n) > c.largest:
        raise NothingFits
    if not x.array.flags.writeable:
        # np.add.at of NumPy writes to read-only arrays all the same.
        raise NothingFits
    place = f"np.ravel({i.name}) % {n}"
    shared = [v for v in c.variables if v is x or np.may_share_memory(v.array, x.array)]
    number = c.number(x.kind)
    if x.kind == "b" or c.flip(0.4):
        return Step(f"{x.name}[{place}] = {number}", [x, i], changes=shared)
    if c.flip(0.4):
        return Step(f"{x.name}[{place}] *= {number}", [x, i], scale=worst(x, "number"), changes=shared)
    level = EXACT if x.kind != "f" else NEAR
    scale = worst(x, "number") + 8.0 * i.array.size
    return Step(f"np.add.at({x.name}, {place}, {number})", [x, i], level, scale, changes=shared)

"""Statements of people who do not know this compiler: causal attention, updates through views, masks, products of every
rank, mixed types, channels by themselves, arrays without elements.
"""

from __future__ import annotations

from tests.fuzzing.grow import Grower, NothingFits, Statement


def causal_attention(g: Grower) -> None:
    """As many keys as queries, of which each sees those before it; what a mask leaves out is not multiplied."""
    if g.is_unbounded:
        raise NothingFits
    n, d = int(g.one_of([6, 17, 24, 40, 64])), int(g.one_of([2, 4, 8]))
    batch = (2,) if g.chance(0.3) else ()
    q, k, v = (g.argument((*batch, n, d), "float32") for _ in range(3))
    s = g.assign(f"{q} @ np.swapaxes({k}, -1, -2) * 0.5")
    forms = [
        f"np.where(np.tri({n}, dtype=bool), {s}, -np.inf)",
        f"np.where(np.tril(np.ones(({n}, {n}), bool)), {s}, -1e30)",
        f"{s} + np.triu(np.full(({n}, {n}), -1e30, np.float32), 1)",
        f"np.where(np.triu(np.ones(({n}, {n}), bool), 1), -np.inf, {s})",
        f"np.where(np.abs(np.arange({n})[:, None] - np.arange({n})) < 5, {s}, -np.inf)",
    ]
    s = g.assign(str(g.one_of(forms)))
    e = g.assign(f"np.exp({s} - {s}.max(axis=-1, keepdims=True))")
    g.assign(f"({e} / {e}.sum(-1)[..., None]) @ {v}")


def through_views(g: Grower) -> None:
    """What was computed is changed through views of it, and read again."""
    m, n = g.dim() + 2, g.dim() + 2
    x = g.argument((m, n), "float32")
    y = g.assign(f"{x} * {g.one_of([1, 2, 0.5])}")
    lines = [
        f"{y}[1:] += {y}[:-1]",
        f"{y}[:, ::-1] -= {x}",
        f"{y}.T[1:] = {y}.T[:-1]",
        f"{y}[::2, 1:] *= {x}[::2, :-1]",
        f"{y}[{x} > 0] = 0.5",
        f"{y}[0], {y}[-1] = {y}[-1] * 2, {x}[0]",
        f"{y}.reshape(-1)[::3] = 1",
        f"{y}[1:-1] = ({y}[2:] - {y}[:-2]) / 2",
        f"np.add({y}[:-1], {y}[1:], out={y}[:-1])",
        f"{y}[:, [0, -1]] = {y}[:, [-1, 0]]",
    ]
    for _ in range(int(g.rng.integers(1, 4))):
        g.run(str(g.one_of(lines)), y)
    g.assign(str(g.one_of([f"{y} - {x}", f"{y}.sum(axis=0) + {x}", f"{y}[::-1].T @ {x}", f"np.cumsum({y}, 1) * {x}"])))


def of_many_dims(g: Grower) -> None:
    """Reductions over several dims, transposes with reversals, columns and rows made of each other."""
    shape = tuple(int(n) for n in g.rng.choice([1, 2, 3, 5, 9, 17], int(g.rng.integers(3, 5))))
    x = g.argument(shape, "float32")
    last = len(shape) - 1
    perm = tuple(int(d) for d in g.rng.permutation(len(shape)))
    forms = [
        f"{x}.sum(axis=(0, {last}), keepdims=True) * {x} - {x}.max(axis=1, keepdims=True)",
        f"{x}.transpose({perm})[::-1].mean(axis=(0, 1)) + {x}.min()",
        f"({x} - {x}.mean(axis=(0, {last}), keepdims=True)) / ({x}.std(axis=(0, {last}), keepdims=True) + 0.1)",
        f"np.swapaxes({x}, 0, {last})[..., ::-1].cumsum(0) * 2",
        f"{x}.reshape({shape[0]}, -1).T.reshape({shape}) + {x}[..., :1]",
        f"np.moveaxis({x} * {x}, 0, -1).argmax(axis=0)",
        f"np.sort({x} * {x}, axis=1)[:, ::-1] - {x}",
        f"{x}[:, ::-1].sum(axis={last}) * {x}.max(axis={last}) - {x}.sum(axis=tuple(range({last})))[0]",
        f"np.einsum('i...,i...->...', {x}, {x}[::-1]) + {x}.any(axis=0)",
        f"np.flip({x}, (0, {last})).transpose({perm}).copy().reshape(-1)[1:] - {x}.reshape(-1)[:-1]",
    ]
    g.assign(str(g.one_of(forms)))


def products(g: Grower) -> None:
    """Products of one, two and more dims, with each other and with themselves."""
    m, k, n = g.dim(), g.dim(), g.dim()
    plain = [((k,), (k,)), ((k,), (k, n)), ((m, k), (k,)), ((m, 0), (0, n))]
    batched = [((2, m, k), (k,)), ((k,), (2, k, n)), ((2, m, k), (k, n)), ((m, k), (3, k, n)), ((1, m, k), (2, k, n))]
    a, b = g.one_of([*plain, *batched, ((3, 1, m, k), (2, k, n))])
    x, y = g.argument(a, "float32"), g.argument(b, str(g.one_of(["float32", "float32", "bfloat16"])))
    made = g.assign(f"{x} @ {y}")
    g.assign(
        str(g.one_of([f"{made} * {made} + 1", f"np.maximum({made}, 0) - ({x} * 2) @ {y}", f"{made}.sum() * {made}"]))
    )


def letters(g: Grower) -> None:
    """Subscripts with repeated letters, and with dims that only one operand has."""
    n, m = g.dim(), g.dim()
    x, y = g.argument((n, n), "float32"), g.argument((n, m), "float32")
    forms = ["ii->i", "ii", "ij->ji", "ij->j"]
    both = ["ii,ij->j", "ij,jk->ik", "ij,jk->ki", "ij,ik->jk", "ij,ij,ik->jk", "ij,jk->i", "ij,kl->", "ij,ik->ijk"]
    if g.chance(0.3):
        g.assign(f"np.einsum('{g.one_of(forms)}', {x}) * 2")
        return
    form = str(g.one_of(both))
    third = f", {x}" if form.count(",") == 2 else ""
    g.assign(f"np.einsum('{form}', {x}{third}, {y}) * {x}.sum() - {x}[0, 0]")


def of_all_types(g: Grower) -> None:
    """Arrays of several types with one another."""
    shape = (g.dim(), g.dim())
    kinds = [
        str(k) for k in g.rng.choice(["float32", "int32", "bool", "bfloat16", "float16", "uint8", "int16"], 3, False)
    ]
    x, y, z = (g.argument(shape, kind) for kind in kinds)
    c = g.assign(f"{x} > {y}")
    forms = [
        f"np.where({c}, {x}, {z}) + {y}",
        f"{c}.sum(axis=1, keepdims=True) * {z} - {c}",
        f"np.where({c} & ({z} > 0), {x} * 1.5, np.where({c}, -1, {z}))",
        f"({x} * {y}).astype(np.float32).mean(axis=0) + {c}.mean(axis=1).sum()",
        f"np.cumsum({c}, axis=1) * {c} + {c}.argmax(axis=1)[:, None]",
        f"np.take_along_axis({x}, np.argsort({z}, axis=1, kind='stable'), axis=1)",
        f"np.sort({y}, axis=0)[::-1] + {c}",
    ]
    g.assign(str(g.one_of(forms)))


def by_channel(g: Grower) -> None:
    """Convolutions with channels by themselves, over all of the input, or with strides."""
    c, n = int(g.one_of([2, 3, 9])), g.dim() + 4
    kind = int(g.rng.integers(3))
    if kind == 0:
        x, w = g.argument((2, c, n), "float32"), g.argument((c, 1, 3), "float32")
        g.assign(f"tw.conv({x}, {w}, groups={c}, padding=1)")
    elif kind == 1:
        x, w = g.argument((2, c, 5, 3), "float32"), g.argument((4, c, 5, 3), "float32")
        g.assign(f"tw.conv({x}, {w})")
    else:
        x, w = g.argument((1, c, n, 9), "float32"), g.argument((5, c, 3, 3), "float32")
        g.assign(f"tw.conv({x}, {w}, stride={g.one_of([1, 2])}, padding={g.one_of([0, 1])})")


def whole_rows(g: Grower) -> None:
    """Integers sorted, searched and added up along rows; products of 8 bits."""
    m, n = g.dim(), int(g.one_of([5, 33, 130, 300]))
    if g.chance(0.3):
        k = g.dim()
        x, y = g.argument((m, k), "float8_e5m2"), g.argument((k, m), "float8_e5m2")
        g.assign(f"{x}.astype(np.float32) @ {y}.astype(np.float32)")
        return
    x = g.argument((m, n), str(g.one_of(["int32", "int32", "uint32", "int16"])))
    forms = [
        f"np.sort({x} * 1000003, axis=1)",
        f"np.argsort({x} * 1000003, axis=1, kind='stable')",
        f"np.cumsum({x} // 1, axis=1) - {x}",
        f"np.cumsum({x}, axis=0)[::-1]",
        f"np.argmax({x} * 70001, axis=1)",
        f"{x}.max(axis=0) - {x}.min(axis=0)",
        f"({x} * {x}).sum(axis=(0, 1)) + {x}",
    ]
    g.assign(str(g.one_of(forms)))


def long_along(g: Grower) -> None:
    """Entries of long rows, and long columns that are reduced by parts."""
    m, n = int(g.one_of([1, 2, 3])), int(g.one_of([200, 300, 700]))
    x = g.argument((m, n), "float32")
    kind = int(g.rng.integers(4))
    if kind == 0:
        index = g.argument((m, 4), "int32")
        g.assign(f"np.take_along_axis({x}, np.abs({index}), axis=1)")
    elif kind == 1:
        index = g.argument((m, 3), "int32")
        y = g.assign(f"{x} + 0")
        g.run(f"np.put_along_axis({y}, np.abs({index})[:, :1], 7.0, axis=1)", y)
    elif kind == 2:
        g.assign(f"{x}.reshape({m}, -1, 10).sum(axis=(0, 1)) + {x}.sum()")
    else:
        g.assign(f"np.pad({x}[:, :0], ((0, 1), (2, 1)), constant_values=3) + np.sort({x}.reshape(-1))[-3:].sum()")


OUTSIDE: tuple[Statement, ...] = (
    causal_attention,
    causal_attention,
    through_views,
    through_views,
    of_many_dims,
    of_many_dims,
    products,
    letters,
    of_all_types,
    by_channel,
    whole_rows,
    long_along,
)

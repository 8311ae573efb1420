"""Statements aimed at decisions that random programs hardly reach: programs begin with those that `--only` names."""

from __future__ import annotations

from tests.fuzzing.grow import Grower, NothingFits, Statement


def _bounded(g: Grower) -> None:
    # What a mask leaves out is left out, also where NumPy multiplies zero by infinity (docs/numpy.md).
    if g.is_unbounded:
        raise NothingFits


def few_masked_queries(g: Grower) -> None:
    """A query or a few of many keys, of which a mask or a length leaves some out."""
    _bounded(g)
    heads, m, n, d = (int(g.one_of(sizes)) for sizes in ([1, 2, 4], [1, 2, 3], [24, 40, 65, 129], [2, 4]))
    q, k, v = (g.argument((heads, size, d), "float32") for size in (m, n, n))
    masks = [
        f"np.arange({n}) < {n - 3}",
        f"np.tril(np.ones(({m}, {n}), bool), {n - m})",
        f"np.arange({n})[None, :] % 3 > 0",
    ]
    s = g.assign(f"{q} @ {k}.swapaxes(1, 2) * 0.5")
    if g.chance(0.5):
        s = g.assign(f"{s} + {g.argument(g.one_of([(n,), (m, n), (heads, 1, n)]), 'float32')}")
    else:
        s = g.assign(f"np.where({g.one_of(masks)}, {s}, {g.one_of(['-1e9', '-np.inf'])})")
    e = g.assign(f"np.exp({s} - {s}.max(axis=-1, keepdims=True))")
    g.assign(f"({e} / {e}.sum(axis=-1, keepdims=True)) @ {v}")


def causal_products(g: Grower) -> None:
    """As many queries as keys, each of which sees those before it."""
    _bounded(g)
    n, d = int(g.one_of([9, 17, 33])), int(g.one_of([2, 4]))
    q, k, v = (g.argument((n, d), "float32") for _ in range(3))
    s = g.assign(f"np.where(np.tri({n}, dtype=bool), {q} @ {k}.T, -np.inf)")
    e = g.assign(f"np.exp({s} - {s}.max(axis=-1, keepdims=True))")
    g.assign(f"({e} / {e}.sum(axis=-1, keepdims=True)) @ {v}")


def running_products(g: Grower) -> None:
    """Products along an axis, of floats and of small integers."""
    m, n = g.dim(), g.dim()
    x = g.argument((m, n), str(g.one_of(["float32", "int32", "int8", "bool"])))
    small = f"({x} % 3 - 1).astype(np.float32)" if g.is_unbounded else f"(np.tanh({x}) + 1)"
    forms = ["np.prod({}, axis=0)", "np.prod({}, axis=1)", "np.cumprod({}, axis=1)", "np.cumprod({}, axis=0)"]
    g.assign(str(g.one_of(forms)).format(small))


def places(g: Grower) -> None:
    """Where numbers belong in tables, short and long, and how many lie below them."""
    n, m = int(g.one_of([1, 5, 17, 70, 200])), g.dim()
    kind = str(g.one_of(["float32", "int32"]))
    table, x = g.argument((n,), kind), g.argument((m, 3), kind)
    forms = [
        f"np.searchsorted(np.sort({table}), {x}, side='{g.one_of(['left', 'right'])}')",
        f"np.digitize({x}, np.arange({n}))",
        f"np.sort({table})[np.searchsorted(np.sort({table}), {x}) % {n}]",
        f"np.choose(np.abs({x}).astype(np.int32) % 3, [{x} * 2, {x} + 1, {x}])",
        f"np.bincount(np.abs({x}).astype(np.int32).reshape(-1) % {n}, minlength={n})",
        f"np.interp({x}, np.arange({n}), np.sort({table}))",
    ]
    g.assign(str(g.one_of(forms)))


def sorted_keys(g: Grower) -> None:
    """Orders of rows of all kinds of numbers, and what is taken in that order."""
    m, n = int(g.one_of([1, 3, 9, 17])), int(g.one_of([2, 7, 16, 33, 70]))
    x = g.argument((m, n), str(g.one_of(["int8", "uint8", "int16", "int32", "float32", "bfloat16"])))
    axis = int(g.rng.integers(2))
    order = g.assign(f"np.argsort({x}, axis={axis}, kind='stable')")
    forms = [
        f"np.take_along_axis({x}, {order}, axis={axis})",
        f"np.argsort({order}, axis={axis}, kind='stable')",
        f"np.take_along_axis({x} * 2, {order}[..., :2], axis=1)",
        f"{order}.argmin(axis={axis}) + np.argmax({x}, axis={axis})",
    ]
    g.assign(str(g.one_of(forms)))


def few_bits(g: Grower) -> None:
    """Products of truth values and of integers of all widths, with nothing between too."""
    m, k, n = g.dim(), int(g.one_of([0, 1, 2, 5, 9])), g.dim()
    kinds = ["bool", "int8", "uint8", "int16", "int32", "float32"]
    x, y = g.argument((m, k), str(g.one_of(kinds))), g.argument((k, n), str(g.one_of(kinds)))
    g.assign(str(g.one_of([f"{x} @ {y}", f"np.einsum('ik,kj->ij', {x}, {y})", f"np.dot({x} > 0, {y})"])))


def turned(g: Grower) -> None:
    """What is computed one way and stored, added up or loaded the other way."""
    m, n = int(g.one_of([5, 9, 17, 33])), int(g.one_of([4, 9, 20, 40]))
    x, y = g.argument((m, n), g.dtype), g.argument((n, m), g.dtype)
    forms = [
        f"({x} * 2).T",
        f"({x} + {y}.T).T + {y}",
        f"({x} - {x}.max(axis=1, keepdims=True)).T",
        f"({x}.T * {x}.sum(axis=1)).sum(axis=0) + {x}.T",
        f"np.stack([{x}.T, {y}]).transpose(1, 2, 0)",
        f"np.concatenate([{x}[::2], {x}[1::2]]).T * 3",
        f"{x}.reshape(-1, 1).T + 1",
    ]
    g.assign(str(g.one_of(forms)))


def parts_together(g: Grower) -> None:
    """Parts of one array beside each other, and rows that follow each other."""
    b, m, n = int(g.one_of([2, 3, 4])), g.dim(), int(g.one_of([2, 5, 8]))
    x = g.argument((b, m, 2 * n), "float32")
    forms = [
        f"np.concatenate([-{x}[..., {n}:], {x}[..., :{n}]], axis=-1) * {x}",
        f"{x}[..., ::2] * {x}[..., 1::2] - {x}[..., :{n}]",
        f"{x}.reshape({b}, {m}, 2, {n}).swapaxes(1, 2).reshape({2 * b}, {m}, {n}) + 1",
        f"np.stack([{x}[0], {x}[{b - 1}]]) @ {x}[:2].swapaxes(1, 2)",
        f"np.lib.stride_tricks.sliding_window_view({x}, 2, axis=2).sum(axis=-1)",
        f"{x}[:, ::-1][:, :2].reshape({b}, -1)",
    ]
    g.assign(str(g.one_of(forms)))


def met_rows(g: Grower) -> None:
    """Rows and numbers that meet at equal places."""
    m, n, count = int(g.one_of([3, 9, 20])), int(g.one_of([1, 2, 9])), int(g.one_of([4, 11, 40]))
    index, rows = g.argument((count,), "int32"), g.argument((count, n), str(g.one_of(["float32", "int32"])))
    where = g.assign(f"np.abs({index}) % {m}")
    y = g.assign(f"np.zeros(({m}, {n}), {rows}.dtype)")
    how = str(g.one_of(["np.add.at({}, {}, {})", "np.maximum.at({}, {}, {})", "{}[{}] = {}", "{}[{}] += {}"]))
    g.run(how.format(y, where, rows), y)
    g.assign(f"{y}[{where}] - {rows}")


def one_channel_each(g: Grower) -> None:
    """Convolutions of channels by themselves, and of signals by longer kernels."""
    b, c, n, w = int(g.one_of([1, 2])), int(g.one_of([1, 3, 9])), int(g.one_of([9, 20, 41])), int(g.one_of([2, 3, 5]))
    x = g.argument((b, c, n), "float32")
    if g.chance(0.5):
        k = g.argument((c, w), "float32")
        seen = g.assign(f"np.lib.stride_tricks.sliding_window_view({x}, {w}, axis=2)")
        g.assign(f"np.einsum('bcnw,cw->bcn', {seen}, {k})")
        return
    k = g.argument((w,), "float32")
    g.assign(f"np.stack([np.convolve(row, {k}, mode='same') for row in {x}[0]])")


def norms_of_groups(g: Grower) -> None:
    """Channels in groups: what is computed of a group, and then with what each channel, or each image, has."""
    _bounded(g)
    b, groups, each, n = (int(g.one_of(sizes)) for sizes in ([1, 2, 3], [1, 2, 4], [1, 2, 4], [1, 5, 24, 60]))
    channels = groups * each
    x = g.argument((b, channels, n), "float32")
    scale, column = g.argument((channels,), "float32"), g.argument((b, 1), "float32")
    shapes = [((b, groups, each * n), "-1"), ((b, groups, each, n), "(2, 3)"), ((b * groups, each * n), "-1")]
    shape, axes = shapes[int(g.rng.integers(len(shapes)))]
    y = g.assign(f"{g.one_of([x, f'np.tanh({x})'])}.reshape{shape}")
    total = str(g.one_of(["mean", "max", "sum"]))
    y = g.assign(f"{y} - {y}.{total}(axis={axes}, keepdims=True)")
    if g.chance(0.5):
        y = g.assign(f"{y} / (1 + np.abs({y}).max(axis={axes}, keepdims=True))")
    z = g.assign(f"{y}.reshape({b}, {channels}, {n})")
    forms = [
        f"{z} * {scale}[:, None] + {x}",
        f"{z} * {scale}[None, :, None] - {column}[:, :, None]",
        f"{z}.mean(axis=2) * {scale} + {column}",
        f"{z} / (1 + np.abs({x}.mean(axis=2) * {scale})[:, :, None])",
    ]
    g.assign(str(g.one_of(forms)))


def trips_that_share(g: Grower) -> None:
    """Weights of rows of many matrices, with what some of the matrices share."""
    _bounded(g)
    b, h, m, n = (int(g.one_of(sizes)) for sizes in ([2, 3], [2, 4], [3, 8, 9], [2, 9, 20]))
    x, bias = g.argument((b, h, m, n), "float32"), g.argument((h, n), "float32")
    s = g.assign(f"{x} + {bias}[None, :, None, :]")
    e = g.assign(f"np.exp({s} - {s}.max(axis=-1, keepdims=True))")
    g.assign(f"{e} / {e}.sum(axis=-1, keepdims=True)")


def frames(g: Grower) -> None:
    """Windows of a signal by indices that are known."""
    size, hop, count = (int(g.one_of(sizes)) for sizes in ([3, 8, 9, 20], [1, 2, 5, 8], [3, 5, 9, 24]))
    start = int(g.one_of([0, 0, 3]))
    rows = (int(g.one_of([1, 3, 9])),) if g.chance(0.4) else ()
    x = g.argument((*rows, start + (count - 1) * hop + size + int(g.one_of([0, 1, 6]))), "float32")
    made = str(g.one_of([x, f"(np.tanh({x}) * {x})", f"{x}[..., ::-1]"]))
    seen = g.assign(f"{made}[..., {start} + {hop} * np.arange({count})[:, None] + np.arange({size})]")
    forms = [
        f"{seen} * np.hanning({size}).astype(np.float32)",
        f"{seen}.max(axis=-1) - {x}.sum(axis=-1, keepdims=True)",
        f"({seen} - {seen}.mean(axis=-1, keepdims=True))[..., ::-1]",
        f"{seen}.swapaxes(-1, -2) @ {seen}",
        f"np.tanh({seen}) + {seen}[..., :1]",
    ]
    g.assign(str(g.one_of(forms)))


def small_roundings(g: Grower) -> None:
    """Numbers of known size to the nearest whole one, and what is computed with them."""
    x = g.floating((g.dim(), g.dim()), 1)
    small = str(g.one_of([f"np.tanh({x}) * 7", f"np.clip({x}, -8, 8)", f"np.sin(np.clip({x}, -9, 9)) * 100"]))
    q = g.assign(f"{g.one_of(['np.rint', 'np.round', 'np.floor', 'np.trunc'])}({small})")
    g.assign(
        str(g.one_of([f"{q} * 0.25 + {small}", f"({q} - 3) * {q}", f"{q}.sum(axis=-1)", f"np.abs({q} - {small})"]))
    )


def long_chains(g: Grower) -> None:
    """Wide rows of which many values are there at once."""
    x = g.argument((g.dim(), int(g.one_of([40, 70, 130, 250]))), "float32")
    known = [x]
    for _ in range(int(g.one_of([4, 8, 14]))):
        a, b = (str(g.one_of(known)) for _ in range(2))
        known.append(
            g.assign(f"np.tanh({a}) * 0.5 - {g.one_of([b, f'{b}[:, ::-1]', f'{b}.max(axis=1, keepdims=True)'])}")
        )
    g.assign(" + ".join(known[::-1]))


def columns_of_many_rows(g: Grower) -> None:
    """What goes over all rows of what is computed row by row, and is read by every row again."""
    m, n = int(g.one_of([20, 60, 130, 300])), int(g.one_of([1, 3, 6, 20]))
    x, w = g.argument((m, n), "float32", large=True), g.argument((n, int(g.one_of([1, 4, 9]))), "float32")
    y = g.assign(str(g.one_of([f"np.tanh({x} @ {w})", f"{x} - {x}.mean(axis=1, keepdims=True)", f"np.abs({x}) @ {w}"])))
    forms = [
        f"({y} - {y}.mean(axis=0)) / ({y}.std(axis=0) + 1)",
        f"{y}.T @ {x} + {y}.sum(axis=0)[:, None]",
        f"{y} * {y}.max(axis=0) - {y}.sum()",
        f"{y}.sum(axis=0) @ ({y}.T @ {x})",
        f"np.tanh({y} - {y}.max(axis=0)).sum(axis=0) + ({y}.T @ {y}).max()",
    ]
    g.assign(str(g.one_of(forms)))


AIMED: tuple[Statement, ...] = (
    frames,
    small_roundings,
    long_chains,
    columns_of_many_rows,
    few_masked_queries,
    causal_products,
    running_products,
    places,
    sorted_keys,
    few_bits,
    turned,
    parts_together,
    met_rows,
    one_channel_each,
    norms_of_groups,
    trips_that_share,
)

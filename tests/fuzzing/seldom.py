"""Statements that reach what others seldom do: long rows, products of integers, groups of heads, tables, channels."""

from __future__ import annotations

from tests.fuzzing.grow import Grower, Statement


def long_attention(g: Grower) -> None:
    """Many keys, for a few queries or for more."""
    m, n, d = int(g.one_of([1, 2, 3, 9, 16])), int(g.one_of([40, 65, 200, 500])), int(g.one_of([2, 3]))
    q, k, v = (g.assign(f"{g.argument((size, d), 'float32')} * 1") for size in (m, n, n))
    s = g.assign(f"{q} @ {k}.T * 0.5")
    if g.chance(0.4) and not g.is_unbounded:
        s = g.assign(f"np.where(np.tril(np.ones(({m}, {n}), bool), {n - m}), {s}, -1e9)")
    e = g.assign(f"np.exp({s} - {s}.max(axis=-1, keepdims=True))")
    g.assign(f"({e} / {e}.sum(axis=-1, keepdims=True)) @ {v}")


def long_rows(g: Grower) -> None:
    """Rows of which several partitions, or several parts, have a piece each."""
    x = g.argument((int(g.one_of([1, 2, 3])), int(g.one_of([100, 130, 500, 600]))), "float32")
    forms = [
        f"np.sort({x}, axis=1)",
        f"np.argsort({x}, axis=1, kind='stable')",
        f"np.sort({x}, axis=1)[:, -5:]",
        f"np.argmax({x}, axis=1) + np.max({x}, axis=1)",
        f"np.cumsum({x}, axis=1) - {x}",
        f"({x} - {x}.mean(axis=1, keepdims=True)) / ({x}.std(axis=1, keepdims=True) + 1)",
        f"np.exp(np.minimum({x}, 2)) / np.exp(np.minimum({x}, 2)).sum(axis=1, keepdims=True)",
    ]
    g.assign(str(g.one_of(forms)))


def whole_numbers(g: Grower) -> None:
    """Products of integers and of truth values, exact."""
    m, k, n = g.dim(), g.dim(), g.dim()
    kinds = g.one_of([("int32", "int32"), ("int8", "int8"), ("bool", "bool"), ("uint8", "uint8"), ("int16", "int32")])
    x, y = g.argument((m, k), kinds[0]), g.argument((k, n), kinds[1])
    g.assign(f"{x} @ {y}")


def mixed_product(g: Grower) -> None:
    """float32 times bfloat16."""
    m, k, n = g.dim(), g.dim(), g.dim()
    x, y = g.argument((m, k), "float32"), g.argument((k, n), "bfloat16")
    g.assign(f"{x} @ {y} + ({x} * {x}) @ {y}")


def shared_heads(g: Grower) -> None:
    """Keys that several heads share."""
    heads, m, d = int(g.one_of([1, 2, 3])), g.dim(), int(g.one_of([2, 4]))
    q, k = g.argument((2 * heads, m, d), "float32"), g.argument((heads, m, d), "float32")
    g.assign(f"{q} @ np.repeat({k}, 2, axis=0).swapaxes(1, 2)")


def channels(g: Grower) -> None:
    """Channels between the dims that are reduced."""
    b, c, n = int(g.one_of([2, 3, 9])), int(g.one_of([3, 5, 8, 12])), g.dim()
    x = g.argument((b, c, n), "float32")
    mean = g.assign(f"{x}.mean(axis=(0, 2), keepdims=True)")
    var = g.assign(f"(({x} - {mean}) ** 2).mean(axis=(0, 2), keepdims=True)")
    g.assign(f"({x} - {mean}) / np.sqrt({var} + 1e-2)")


def along(g: Grower) -> None:
    """Entries of rows by indices that are data."""
    m, n = g.dim(), g.dim()
    count = max(n - 1, 1) if g.chance(0.5) else g.dim()
    x, index = g.argument((m, n), "float32"), g.argument((m, count), "int32")
    where = g.assign(f"np.abs({index}) % {n}")
    if g.chance(0.6):
        g.assign(f"np.take_along_axis({x}, {where}, axis=1)")
        return
    y = g.assign(f"{x} + 0")
    g.run(f"np.put_along_axis({y}, {where}[:, :1], 7.0, axis=1)", y)


def tables(g: Grower) -> None:
    """Places that are counted, and rows that meet at equal indices."""
    m, n, count = g.dim(), int(g.one_of([1, 3, 8])), g.dim()
    index, rows = g.argument((count,), "int32"), g.argument((count, n), "float32")
    where = g.assign(f"np.abs({index}) % {m}")
    kind = int(g.rng.integers(4))
    if kind == 0:
        g.assign(f"np.bincount({where}, weights={rows}[:, 0], minlength={m})")
        return
    if kind == 1:
        g.assign(f"np.take({rows}, {where}, axis=0, mode='clip')")
        return
    y = g.assign(f"np.zeros(({m}, {n}), np.float32)")
    g.run(f"np.{'add' if kind == 2 else 'maximum'}.at({y}, {where}, {rows})", y)


def looked_up(g: Grower) -> None:
    """Numbers and short rows of small tables, by indices that are data, computed with."""
    size, m, n = int(g.one_of([2, 5, 9])), g.dim(), g.dim()
    index = g.argument((m, n), "int32")
    where = g.assign(f"np.abs({index}) % {size}" if g.chance(0.7) else f"np.abs({index}) % {size} - {size}")
    kind = int(g.rng.integers(4))
    if kind == 0:
        g.assign(f"{g.argument((size,), 'float32')}[{where}] + {g.argument((m, 1), 'float32')}")
    elif kind == 1:
        found = g.assign(f"{g.argument((size,), 'float32')}[{where}]")
        g.assign(f"{found} - {found}.max(axis=1, keepdims=True)")
    elif kind == 2:
        g.assign(f"{g.argument((size, 2), 'float32')}[{where}].transpose(2, 0, 1) * {g.argument((2, m, n), 'float32')}")
    else:
        g.assign(f"{g.argument((size, 3), 'float32')}[{where}[:, 0]] * 2")
    if g.chance(0.5):
        edges = f"np.linspace(-1, 1, {size}).astype(np.float32)"
        steps = g.assign(f"np.searchsorted({edges}, {g.argument((m, n), 'float32')})")
        g.assign(f"{steps} * 2")


def factors(g: Grower) -> None:
    """Running products, and a matrix's factor."""
    m, n = g.dim(), g.dim()
    if g.chance(0.5) or g.is_unbounded:
        x = g.argument((m, n), "float32")
        axis = int(g.rng.integers(2))
        g.assign(f"np.{g.one_of(['cumprod', 'prod'])}(np.tanh({x}) + 1, axis={axis})")
        return
    n = int(g.one_of([2, 3, 6]))
    x = g.argument((n, n), "float32")
    a = g.assign(f"{x} @ {x}.T + {n} * np.eye({n}, dtype=np.float32)")
    g.assign(f"np.linalg.cholesky({a})")


def filtered(g: Grower) -> None:
    """Convolutions of signals and of channels by themselves."""
    n = g.dim() + 6
    if g.chance(0.5):
        x, w = g.argument((n,), "float32"), g.argument((int(g.one_of([2, 3, 5])),), "float32")
        g.assign(f"np.convolve({x}, {w}, mode='{g.one_of(['full', 'same', 'valid'])}')")
        return
    c = int(g.one_of([2, 5, 9]))
    x, w = g.argument((c, n), "float32"), g.argument((c, 3), "float32")
    seen = g.assign(f"np.lib.stride_tricks.sliding_window_view({x}, 3, axis=1)")
    g.assign(f"np.einsum('cnw,cw->cn', {seen}, {w})")


def nothing(g: Grower) -> None:
    """Parts without elements."""
    x = g.argument((g.dim(), g.dim()), "float32")
    g.assign(str(g.one_of([f"{x}[:, :0] @ np.zeros((0, 3), np.float32)", f"np.concatenate([{x}, {x}[:0]]) * 2"])))


SELDOM: tuple[Statement, ...] = (
    long_attention,
    long_attention,
    long_rows,
    long_rows,
    whole_numbers,
    mixed_product,
    shared_heads,
    channels,
    along,
    tables,
    looked_up,
    factors,
    filtered,
    nothing,
)

"""Statements for decisions that hardly any other statement reaches: masks over many keys, rows longer than all
partitions hold, types of 8 bits, indices that are checked by themselves, the best of long rows.
"""

from __future__ import annotations

from tests.fuzzing.grow import Grower, NothingFits, Statement


def masked_attention(g: Grower) -> None:
    """Scores that do not fit on chip, with what is added to them: nothing behind the diagonal, or an argument."""
    if g.is_unbounded:
        raise NothingFits
    if g.chance(0.5):
        n, batch = g.one_of([(128, ()), (260, ()), (330, ()), (48, (3,)), (48, (2,))])
        q, k, v = (g.argument((*batch, n, 2), "float32", large=True) for _ in range(3))
        added = f"np.triu(np.full(({n}, {n}), -1e30, np.float32), 1)"
    else:
        m, n = g.one_of([(1, 200), (3, 130), (24, 300), (40, 500)])
        q, k, v = g.argument((m, 2), "float32"), *(g.argument((n, 2), "float32") for _ in range(2))
        added = g.argument((m, n), "float32", large=True)
    s = g.assign(f"{q} @ np.swapaxes({k}, -1, -2) * 0.5 + {added}")
    e = g.assign(f"np.exp({s} - {s}.max(axis=-1, keepdims=True))")
    g.assign(f"({e} / {e}.sum(-1, keepdims=True)) @ {v}")


def narrow_keys(g: Grower) -> None:
    """A few queries of float32 for many keys of bfloat16, masked or not."""
    m, n = int(g.one_of([1, 1, 2, 3])), int(g.one_of([40, 130, 200]))
    q, k, v = g.argument((m, 2), "float32"), g.argument((n, 2), "bfloat16"), g.argument((n, 2), "bfloat16")
    mask = f" + {g.argument((1, n), 'float32')}" if m == 1 and g.chance(0.6) else ""
    s = g.assign(f"{q} @ {k}.astype(np.float32).T * 0.5{mask}")
    e = g.assign(f"np.exp({s} - {s}.max(axis=-1, keepdims=True))")
    g.assign(f"({e} / {e}.sum(-1, keepdims=True)) @ {v}.astype(np.float32)")


def longest_rows(g: Grower) -> None:
    """One to three rows that are longer than all partitions hold together."""
    m, n = int(g.one_of([1, 2, 3])), int(g.one_of([2100, 2500, 3000]))
    x = g.argument((m, n), "float32", large=True)
    forms = [
        f"{x}.sum(axis=-1) + {x}.max(axis=-1)",
        f"np.cumsum({x}, axis=-1) * 0.1",
        f"np.exp(np.minimum({x}, 2)).mean(axis=-1, keepdims=True) * {x}",
        f"np.argsort(-{x}[:, :2000], axis=-1, kind='stable')[:, :{g.one_of([3, 9, 24])}]",
        f"np.sort({x}[:, :1900], axis=-1)[:, -{g.one_of([5, 12, 30])}:]",
    ]
    g.assign(str(g.one_of(forms)))


def eight_bits(g: Grower) -> None:
    """Products of floats of 8 bits, in their own type."""
    m, k, n = g.dim(), g.dim(), g.dim()
    x, y = g.argument((m, k), "float8_e5m2"), g.argument((k, n), "float8_e5m2")
    g.assign(f"{x} @ {y}")


def chosen_by_data(g: Grower) -> None:
    """Indices that are checked: arguments of uint8 are less than 10."""
    shape = g.one_of([(g.dim(),), (g.dim(), g.dim()), (2, 300)])
    i, x = g.argument(shape, "uint8"), g.argument(shape, "float32")
    of_ten = ", ".join([x, f"{x} * 2", f"-{x}", *["1.5"] * 7])
    forms = [
        f"np.choose({i}, [{of_ten}])",
        f"np.unravel_index({i}, (2, 5))[1] * 3",
        f"np.ravel_multi_index(({i}, {i}), (10, 10)) - {i}",
        f"{g.argument((10, g.dim()), 'float32')}[np.unravel_index({i}, (10,))[0]]",
    ]
    g.assign(str(g.one_of(forms)))


def best_of_rows(g: Grower) -> None:
    """So many of so long rows that they are found by groups of neighbours first."""
    m, n, k = int(g.one_of([9, 20])), int(g.one_of([50, 90, 200])), int(g.one_of([3, 9]))
    x = g.argument((m, n), "float32", large=True)
    forms = [f"tw.topk({x}, {k}, ascending=True)[1]", f"np.sort({x}, axis=-1)[:, :{k}]", f"tw.topk({x}, {k})[0]"]
    g.assign(str(g.one_of(forms)))


def whole_convolution(g: Grower) -> None:
    """Integers, which no product of floats takes."""
    kind = str(g.one_of(["int32", "uint8", "int16"]))
    x, y = g.argument((g.dim() + 5,), kind), g.argument((int(g.one_of([1, 3, 5])),), kind)
    g.assign(f"np.{g.one_of(['convolve', 'correlate'])}({x}, {y}, '{g.one_of(['full', 'same', 'valid'])}')")


def between_constants(g: Grower) -> None:
    """Many small matrices between two that are known."""
    many, k = int(g.one_of([40, 100, 300])), int(g.one_of([1, 2]))
    x = g.argument((many, 2, k), "float32", large=True)
    left, right = "np.array([[1, 2], [-1, 0.5]], np.float32)", f"np.arange({k * 3}, dtype=np.float32).reshape({k}, 3)"
    g.assign(f"{left} @ {x} @ {right}")


def counted_off(g: Grower) -> None:
    """Integers beside the numbers of their places."""
    n = int(g.one_of([4, 10, 17]))
    i = g.argument((g.dim(),), "int32")
    forms = [f"({i}[:, None] % {n} == np.arange({n})).astype(np.float32)", f"{i}[:, None] % {n} + np.arange({n})"]
    g.assign(str(g.one_of(forms)))


def rounded(g: Grower) -> None:
    """Floats to the nearest integer of some type."""
    if g.is_unbounded:
        raise NothingFits
    x = g.floating((g.dim(), g.dim()), 1)
    forms = [
        f"np.rint({x}).astype(np.int32)",
        f"np.round({x}.sum(axis=-1)).astype(np.int32) * 2",
        f"np.rint(np.clip({x} * 30, -100, 100)).astype(np.{g.one_of(['int8', 'int16'])})",
        f"np.rint(np.tanh({x}) * 9 + 10).astype(np.uint8) + np.uint8(3)",
    ]
    g.assign(str(g.one_of(forms)))


def whole_windows(g: Grower) -> None:
    """One window that sees all of the input, products over nothing, and what is put around nothing."""
    c, n, m = int(g.one_of([1, 2, 3])), int(g.one_of([2, 3, 5])), g.dim()
    kind = int(g.rng.integers(3))
    if kind == 0:
        x, w = g.argument((2, c, n, 3), "float32"), g.argument((m, c, n, 3), "float32")
        g.assign(f"tw.conv({x}, {w})")
    elif kind == 1:
        x, y = g.argument((m, 0), "float32"), g.argument((0, n), "float32")
        g.assign(f"{x} @ {y} + {g.floating((m, n), 0)}")
    else:
        x = g.argument((m, 0), "float32")
        g.assign(f"np.pad({x}, ((0, 1), (2, {n})), constant_values=3) * 2")


def steps(g: Grower) -> None:
    """One slice after the other: what each step does by itself, and a recurrence beside it."""
    n, m, k = int(g.one_of([4, 5, 8])), g.dim(), int(g.one_of([1, 3, 6]))
    x, y = g.argument((n, m, k), "float32"), g.argument((m, n * k), "float32")
    if g.chance(0.4):
        h = g.assign(f"{x}[0] * 0.5")
        parts = []
        for t in range(1, n):
            h = g.assign(f"np.tanh({x}[{t}]) * {h} + {y}[:, {t * k}:{t * k + k}] * 0.1")
            parts.append(h)
        g.assign(f"np.stack([{', '.join(f'({p} * {x}[{t + 1}]).sum(-1)' for t, p in enumerate(parts))}])")
        return
    a, b = f"{x}[t]", f"{y}[:, t * {k}:t * {k} + {k}]"
    forms = [
        f"np.stack([np.tanh({a}) * {b} - {x}[0] for t in range({n})])",
        f"np.concatenate([({a} - {b})[::-1] * {x}[{n - 1} - t] for t in range({n})], axis=-1)",
        f"sum(({a} * np.abs({b})).max(0) for t in range({n}))",
        f"np.stack([{a}.T @ {b} + {x}[(t + 1) % {n}].sum() for t in range({n})])",
        f"np.stack([np.maximum({a}, {b}).T.reshape({k}, {m}) * {x}[t, :, 0] for t in range({n - 1})], 1)",
    ]
    g.assign(str(g.one_of(forms)))


RARE: tuple[Statement, ...] = (
    masked_attention,
    narrow_keys,
    longest_rows,
    eight_bits,
    chosen_by_data,
    best_of_rows,
    whole_convolution,
    between_constants,
    counted_off,
    rounded,
    whole_windows,
    steps,
)

"""Statements for the latest of lowering: shared sums, joins, short axes, logarithms, signs, places, recurrences."""

from __future__ import annotations

from tests.fuzzing.grow import Grower, NothingFits, Statement
from tests.fuzzing.sizes import SMALL, TOY


def many(g: Grower, *sizes: int) -> int:
    """One of some extents of toy programs; of real ones several times as much, or about that."""
    size = int(g.one_of(sizes))
    if g.sizes is TOY:
        return size
    return size * int(g.one_of([3, 8] if g.sizes is SMALL else [16, 40, 64])) + int(g.one_of([0, 0, 1, -1]))


def _bounded(g: Grower) -> None:
    if g.is_unbounded:
        raise NothingFits


def weighted_neighbours(g: Grower) -> None:
    """Sums, and greatest and least, of one array at many places: inside, on a ring, beyond its ends; twice or more."""
    m, n = many(g, 3, 4, 7, 12, 20), many(g, 3, 5, 16, 33)
    x = g.argument((m, n), g.dtype if g.chance(0.3) else "float32")
    if g.chance(0.4):
        x = g.assign(f"{x} * 2 - {x}[::-1]")
    reach = int(g.one_of([1, 1, 2]))
    places = [(i, j) for i in range(-reach, reach + 1) for j in range(-reach, reach + 1)]
    kept = [p for p in places if g.chance(0.7)] or places
    kept += [kept[0]] * int(g.chance(0.3))
    weights = [int(g.one_of([1, 1, 2, -1])) if g.chance(0.5) else abs(i) + 1 for i, _ in kept]
    how = int(g.rng.integers(3))
    if how == 0:
        padded = g.assign(f"np.pad({x}, {reach}, mode='{g.one_of(['edge', 'constant', 'wrap', 'reflect'])}')")
        parts = [f"{padded}[{reach + i}:{reach + i + m}, {reach + j}:{reach + j + n}]" for i, j in kept]
    elif how == 1:
        parts = [f"np.roll({x}, ({i}, {j}), (0, 1))" for i, j in kept]
    else:
        if min(m, n) <= 2 * reach:
            raise NothingFits
        parts = [f"{x}[{reach + i}:{m - reach + i}, {reach + j}:{n - reach + j}]" for i, j in kept]
    if g.chance(0.25):
        best = str(g.one_of(["np.maximum", "np.minimum"]))
        text = parts[0]
        for part in parts[1:]:
            text = f"{best}({text}, {part})"
        g.assign(text)
        return
    total = g.assign(" + ".join(f"{w} * {p}" if w != 1 else p for w, p in zip(weights, parts, strict=True)))
    forms = [f"{total} * 0.1", f"{total} - 4 * {parts[0]}", f"np.tanh({total}) * {parts[-1]} - {total}"]
    g.assign(str(g.one_of(forms)))


def joined_late(g: Grower) -> None:
    """Parts that are joined, interleaved or repeated, and then computed with."""
    m, n = many(g, 2, 5, 8, 17), many(g, 2, 6, 9, 16)
    x, y = g.argument((m, n), "float32"), g.argument((m, n), "float32")
    a, b = g.assign(f"{x} * 2 - {y}"), g.assign(f"np.tanh({x}) + {y}")
    axis = int(g.rng.integers(3))
    pair = {0: (2 * m, n), 1: (m, 2 * n), 2: (m, 2 * n)}[axis]
    joins = [
        (f"np.stack([{a}, {b}], axis={axis}).reshape{pair}", pair),
        (f"np.concatenate([{a}, {b}, {x}], axis={axis % 2})", (3 * m, n) if axis % 2 == 0 else (m, 3 * n)),
        (f"np.repeat({a}, 2, axis={axis % 2})", (2 * m, n) if axis % 2 == 0 else (m, 2 * n)),
        (f"np.repeat(np.repeat({b}, 2, axis=0), 2, axis=1)", (2 * m, 2 * n)),
        (f"np.tile({a}, (2, 3))", (2 * m, 3 * n)),
        (
            f"np.stack([{a}, {b}, {x}, {y}], -1).reshape({m}, {n}, 2, 2).transpose(0, 2, 1, 3).reshape{2 * m, 2 * n}",
            (2 * m, 2 * n),
        ),
    ]
    text, (_, columns) = joins[int(g.rng.integers(len(joins)))]
    j = g.assign(text)
    w = g.argument((columns,), "float32")
    forms = [
        f"{j} * {w} + 1",
        f"({j} - {j}.mean(axis=1, keepdims=True)) * {w}",
        f"{j}.sum(axis={axis % 2}) - {j}.max()",
        f"np.maximum({j}, 0)[1:, ::2] * 0.5 - {j}[:-1, ::2]",
        f"{j}.T @ {j}[:, :3]",
        f"np.where({j} > {w}, {j}, -{j})[::-1] + {j}",
    ]
    g.assign(str(g.one_of(forms)))


def short_last_axes(g: Grower) -> None:
    """Points of a few coordinates, and what is reduced over these."""
    m, n, k = many(g, 3, 8, 16, 40), many(g, 3, 9, 16, 33), int(g.one_of([2, 3, 3, 4, 8]))
    p, q = g.argument((m, k), "float32"), g.argument((n, k), "float32")
    d = g.assign(str(g.one_of([f"{p}[:, None, :] - {q}[None, :, :]", f"{p}[:, None] * {q} + {p}[:, None]"])))
    r = g.assign(f"({d} * {d}).sum(axis=-1)")
    forms = [
        f"({d} / ({r}[..., None] + 1)).sum(axis=1)",
        f"np.abs({d}).max(axis=-1) - {r}",
        f"(np.exp(-{r})[..., None] * {d}).sum(axis=1) - {p}",
        f"{r}.argmin(axis=1)",
        f"np.sqrt({r} + 1e-3).min(axis=0)",
        f"np.where({r}[..., None] < 1, {d}, 0).sum(axis=0)",
        f"np.linalg.norm({d}, axis=-1) * {d}.min(axis=2)",
        f"{d}.prod(axis=-1) + {d}.mean(axis=-1)",
        f"({d} == {d}.max(axis=-1, keepdims=True)).sum(axis=1)",
    ]
    g.assign(str(g.one_of(forms)))


def logarithms(g: Grower) -> None:
    """Logarithms of what is known in part: above 0, at least 1, of sums of exponentials, of anything."""
    m, n = g.dim(), g.dim()
    x = g.argument((m, n), str(g.one_of(["float32"] * 4 + ["bfloat16", "int32"])))
    f = x if g.space[x].dtype.kind not in "iu" else f"{x}.astype(np.float32)"
    forms = [
        f"np.log(1 + np.exp({f}))",
        f"np.log1p(np.exp(-np.abs({f}))) + np.maximum({f}, 0)",
        f"{f} * np.tanh(np.log1p(np.exp({f})))",
        f"np.logaddexp({f}, {f} * 0.5) - {f}",
        f"np.log(np.abs({f}) + 1e-6) * {f}",
        f"np.log({f})",
        f"np.log1p({f})",
        f"np.log2({f} * {f} + 0.5) - np.log10(np.abs({f}) + 2)",
        f"np.log(1 / (1 + np.exp(-{f})) + 1e-7)",
        f"np.log1p(-1 / (2 + {f} * {f}))",
        f"np.log(np.exp({f} - {f}.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True)) - {f}",
        f"np.log(np.maximum({f}, 1e-30)) + np.log(np.clip({f}, 0.1, 4))",
        f"np.log1p({f} * 1e-4) * 1e4 - np.log1p(np.square({f}))",
        f"-(np.exp({f}) / (1 + np.exp({f}))) * np.log(1 + np.exp(-{f}))",
        f"np.arcsinh({f}) - np.arctanh(np.tanh({f}) * 0.5)",
    ]
    y = g.assign(str(g.one_of(forms)))
    if g.chance(0.4):
        g.assign(f"{y} * {y} - {y}")


def signs_and_factors(g: Grower) -> None:
    """Signs and numbers that could move: into products, functions, sums; zeros keep their signs."""
    m, k, n = g.dim(), int(g.one_of([3, 8, 17])), int(g.one_of([4, 9]))
    x, y = g.argument((m, n), "float32"), g.argument((n,), "float32")
    c = str(g.one_of(["2", "-0.5", "3.5", "-1", "0.1"]))
    inner = str(
        g.one_of([f"-{x} * {y}", f"{c} * {x} * {y}", f"{x} * -{y}", f"({c} * {x}) * ({c} * {y})", f"-({x} - {y})"])
    )
    z = g.assign(inner)
    forms = [
        f"np.exp(np.minimum({z} * {c}, 3)) + np.exp(np.minimum(-{z}, 3))",
        f"np.tanh({c} * {z}) * {z} - {z} * {c}",
        f"{z} - {c} * {x} + {x} * {c} - -{z}",
        f"np.copysign(1, {z}) * np.signbit(np.nan_to_num(-{z}))",
        f"np.arctan2({z}, -1) + np.arctan2(-{z}, -1)",
        f"-np.maximum(-{z}, {c} * {x}) * {c}",
        f"({z} * {c}).sum(axis=1) - (-{z}).max(axis=1)",
        f"np.abs({c} * {z}) * np.sign(-{z}) / (1 + np.square({c} * {z}))",
        f"-(-{z} / (1 + np.abs({z}))) + ({c} * {z})**2",
    ]
    if not g.is_unbounded:
        w = g.argument((n, k), "float32")
        forms += [f"(-{z}) @ {w} * {c} + 1", f"-({c} * {z} @ -{w})", f"({z} @ ({c} * {w})) - ({z} @ {w})"]
    g.assign(str(g.one_of(forms)))


def compared_with_places(g: Grower) -> None:
    """Numbers by the places that integers say: segments, their sums, counts and greatest, one-hot rows."""
    m, k = many(g, 5, 16, 60, 130, 400), int(g.one_of([2, 7, 16, 40, 130]))
    kind = str(g.one_of(["int32", "int32", "int8", "uint8", "int16"]))
    raw, v = g.argument((m,), kind), g.argument((m,), str(g.one_of(["float32", "float32", "bfloat16"])))
    i = g.assign(
        f"{raw}.astype(np.int32) * {int(g.one_of([1, 3, 11]))} % {k}" if g.chance(0.8) else f"{raw}.astype(np.int32)"
    )
    hot = g.assign(f"{i}[:, None] == np.arange({k})")
    forms = [
        f"np.where({hot}, {v}[:, None], -np.inf).max(axis=0)",
        f"({hot} * {v}[:, None]).sum(axis=0)",
        f"{hot}.sum(axis=0) - {hot}.any(axis=0)",
        f"{hot}.astype(np.float32).T @ {v}.astype(np.float32)",
        f"np.exp({v} - np.where({hot}, {v}[:, None], -1e9).max(axis=0)[{i} % {k}])",
        f"np.where({hot}, {v}[:, None], 0).min(axis=1)",
        f"{hot}.argmax(axis=1) + {i}",
        f"np.where(np.arange({k}) >= {i}[:, None], {v}[:, None], 0)",
        f"np.where(np.arange({m})[:, None] == {i}[None, :{k}] * 2, 1.0, 0.0).sum(axis=1) * {v}",
        f"(np.arange({k})[None, :] < {i}[:, None]).astype(np.float32).mean(axis=0)",
    ]
    g.assign(str(g.one_of(forms)))


def long_signals(g: Grower) -> None:
    """One long kernel for a signal: all modes, steps, batches of signals."""
    _bounded(g)
    n, k = many(g, 60, 129, 300, 1000), int(g.one_of([50, 51, 64, 70]))
    x, w = g.argument((n,), "float32"), g.argument((min(k, n),), "float32")
    mode = str(g.one_of(["full", "same", "valid"]))
    windows = f"np.lib.stride_tricks.sliding_window_view({x}, {min(k, n)})"
    forms = [
        f"np.convolve({x}, {w}, '{mode}') * 2",
        f"np.correlate({x}, {w}, '{mode}')",
        f"np.convolve({x}, {w}, 'same') - {x}" if n >= k else f"np.convolve({x}, {w})",
        f"{windows}[::{int(g.one_of([1, 2, 3]))}] @ {w}",
        f"({windows} * {w}).max(axis=1)",
    ]
    g.assign(str(g.one_of(forms)))


def rows_added(g: Grower) -> None:
    """Rows added to many places, or the greatest and least there, by equal and negative indices, into what there is."""
    m, rows, n = many(g, 1, 5, 40, 130), many(g, 3, 9, 33, 140), int(g.one_of([1, 4, 16, 17]))
    raw, v = g.argument((m,), "int32"), g.argument((m, n), "float32")
    at = g.assign(f"{raw} * 5 % {rows}" if g.chance(0.7) else f"{raw} % {rows} - {rows}")
    if g.chance(0.5):
        v = g.assign(f"{v} * 2 + {v}")
    start = str(g.one_of([f"np.zeros(({rows}, {n}), np.float32)", f"np.full(({rows}, {n}), 0.5, np.float32)"]))
    if g.chance(0.3):
        start = f"{g.argument((rows, n), 'float32')}.copy()"
    out = g.assign(start)
    how = "add" if g.chance(0.6) else str(g.one_of(["maximum", "minimum", "subtract", "multiply"]))
    g.run(f"np.{how}.at({out}, {at}, {v})", out)
    forms = [f"{out} * 0.5 + {out}[::-1]", f"{out}[{at}] - {v}", f"{out}.sum(axis=1)"]
    forms += [f"{out} / np.maximum(np.bincount({at} % {rows}, minlength={rows}), 1)[:, None].astype(np.float32)"]
    g.assign(str(g.one_of(forms)))


def recurrences(g: Grower) -> None:
    """States that go on: by products and sums, backwards, through functions, several at once."""
    _bounded(g)
    t, n = int(g.one_of([3, 5, 9])), many(g, 1, 4, 9, 20)
    a, b = g.argument((t, n), "float32"), g.argument((t, n), "float32")
    s = g.assign(str(g.one_of([f"1 / (1 + np.exp(-{a}))", f"np.tanh({a}) * 0.9", f"np.exp(-np.abs({a}))"])))
    h = g.assign(str(g.one_of([f"np.zeros({n}, np.float32)", f"{b}[0] * 1"])))
    order = list(range(t)) if g.chance(0.6) else list(range(t - 1, -1, -1))
    kind, states = int(g.rng.integers(5)), []
    for i in order:
        steps = [
            f"{s}[{i}] * {h} + {b}[{i}]",
            f"{s}[{i}] * {h} + (1 - {s}[{i}]) * {b}[{i}]",
            f"np.tanh({h} * {s}[{i}] + {b}[{i}])",
            f"np.maximum({h} + {b}[{i}], {s}[{i}])",
            f"0.9 * {h} + {s}[{i}] * {b}[{i}] * {b}[{i}]",
        ]
        h = g.assign(steps[kind])
        states.append(h)
    forms = [
        f"np.stack([{', '.join(states)}])",
        f"np.stack([{', '.join(states)}]) * {s} - {b}",
        f"{states[-1]} + {states[0]} * {states[len(states) // 2]}",
        f"np.stack([{', '.join(states)}], axis=1).sum(axis=1) + {h}",
    ]
    g.assign(str(g.one_of(forms)))


def parts_of_rows(g: Grower) -> None:
    """Many small systems, each computed by its elements: rows of an axis that all ops treat alike."""
    _bounded(g)
    m, k = many(g, 5, 33, 130), int(g.one_of([2, 3, 4]))
    x = g.argument((m, k, k), "float32")
    e = [[g.assign(f"{x}[:, {i}, {j}]") for j in range(2)] for i in range(2)]
    det = g.assign(f"{e[0][0]} * {e[1][1]} - {e[0][1]} * {e[1][0]} + 3")
    forms = [
        f"np.stack([{e[1][1]}, -{e[0][1]}, -{e[1][0]}, {e[0][0]}], 1).reshape(-1, 2, 2) / {det}[:, None, None]",
        f"{x} / {det}[:, None, None] + {x}.swapaxes(1, 2)",
        f"{x} @ {x} - {det}[:, None, None] * {x}",
        f"np.einsum('bij,bj->bi', {x}, {x}[:, 0]) * {det}[:, None] + {x}[:, :, 0]",
        f"np.sqrt(np.abs({det}))[:, None] * {x}[:, 0, ::-1] - {x}.sum(axis=2)",
        f"{x}.transpose(1, 2, 0).reshape({k * k}, {m}) * {det} + {x}.reshape({m}, -1).T",
    ]
    g.assign(str(g.one_of(forms)))


LATEST: tuple[Statement, ...] = (
    weighted_neighbours,
    joined_late,
    short_last_axes,
    logarithms,
    signs_and_factors,
    compared_with_places,
    long_signals,
    rows_added,
    recurrences,
    parts_of_rows,
)

"""Statements for what came last to lowering: arguments changed where they lie, integers at shifted places, bounds
before roundings, tables filled cell by cell, losses."""

from __future__ import annotations

from tests.fuzzing.grow import Grower, NothingFits, Statement
from tests.fuzzing.latest import many


def changed_where_it_lies(g: Grower) -> None:
    """Parts of an argument that are written, once or twice, from other parts of it, and read before and after."""
    m, n = many(g, 6, 9, 20, 33), many(g, 5, 12, 17)
    x = g.argument((m, n), g.dtype if g.chance(0.3) else "float32")
    v, i = g.argument((n,), str(g.space[x].dtype)), g.argument((4,), "int32")
    at = g.assign(f"{i} * 3 % {m}" if g.chance(0.7) else f"{i} % {m} - {m}")
    before = [f"{x}[1] * 2", f"{x}.sum(axis=0)", f"{x}[{at}]", f"{x} * 1", f"np.maximum({x}[::-1], {v})", f"{x}.T[0]"]
    made = [g.assign(str(g.one_of(before)))] if g.chance(0.6) else []
    writes = [
        f"{x}[2] = {v}",
        f"{x}[1:] = {x}[:-1] * 2",
        f"{x}[:-1] += {x}[1:]",
        f"{x}[:, 1:] = {x}[:, :-1] - {v}[1:]",
        f"{x}[::2] = {x}[::2][::-1]",
        f"{x}[{at}] = {v}",
        f"{x}[{at}] += {x}[0]",
        f"{x}[{at}] = {x}[{at}[::-1]] * 2",
        f"np.add.at({x}, {at}, {v})",
        f"np.add.at({x}, {at}, {x}[:4])",
        f"np.maximum.at({x}, {at}, {v} * 2)",
        f"{x}[:, 3] = {x}[:, 4] - {x}[:, 3]",
        f"{x}[0], {x}[1] = {x}[1].copy(), {x}[0].copy()",
        f"{x}[{x} > 1] = 0",
        f"{x} += {x}[::-1]",
        f"{x}[3:5][:, ::2] *= 2",
        f"np.clip({x}[:4], -1, 1, out={x}[:4])",
        f"{x}[1:-1, 1:-1] = {x}[2:, 1:-1] + {x}[:-2, 1:-1] - {x}[1:-1, 2:]",
    ]
    for _ in range(int(g.rng.integers(1, 4))):
        g.run(str(g.one_of(writes)), x)
        if g.chance(0.5):
            made.append(g.assign(str(g.one_of(before))))
    g.assign(f"{x}[2:4].sum(axis=0) + {x}[-1] * {v}" if not made else f"{made[-1]} + {x}[1, 2]")


def shifted_integers(g: Grower) -> None:
    """Neighbours of integers, which wrap around, and of truth values; what they are compared with."""
    m, n = many(g, 4, 9, 16), many(g, 5, 12, 33)
    x = g.argument((m, n), str(g.one_of(["int32", "int8", "uint8", "int16", "bool", "uint32"])))
    whole = x if g.chance(0.6) else g.assign(f"({x} > 0).astype(np.{g.one_of(['int32', 'uint8', 'int8'])})")
    places = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]
    kept = [p for p in places if g.chance(0.8)] or places
    if g.chance(0.6):
        parts = [f"np.roll({whole}, ({a}, {b}), (0, 1))" for a, b in kept]
    else:
        padded = g.assign(f"np.pad({whole}, 1, mode='{g.one_of(['constant', 'edge', 'wrap'])}')")
        parts = [f"{padded}[{1 + a}:{1 + a + m}, {1 + b}:{1 + b + n}]" for a, b in kept]
    if g.space[whole].dtype.kind == "b":
        parts = [f"{part}.astype(np.int32)" for part in parts]
    t = g.assign(" + ".join(parts) + str(g.one_of(["", f" - {parts[0]}", f" + 3 * {parts[-1]}", f" * 2 - {parts[0]}"])))
    forms = [
        f"({t} == 3) | (({whole} != 0) & ({t} == 2))",
        f"np.where(({t} > 2) & ({x} > 0), {t}, {whole})",
        f"(({t} == 3) ^ ({x} == 1)).astype(np.uint8) + {whole}",
        f"({t} < 4) * {t} - ({t} >= 2) * {whole}",
        f"~(({t} <= 2) & ({t} != 0)) | ({whole} > 0)",
    ]
    g.assign(str(g.one_of(forms)))


def bounded_roundings(g: Grower) -> None:
    """Roundings between bounds, and casts of them."""
    m, n = many(g, 3, 8, 17), many(g, 5, 16, 33)
    x = g.argument((m, n), str(g.one_of(["float32", "float32", "bfloat16"])))
    f = g.assign(f"np.nan_to_num({x}, nan=0.0, posinf=300.0, neginf=-300.0) * {g.one_of([1, 3, 17.5, 100])}")
    low, high = g.one_of([(0, 255), (0, 15), (-8, 7), (-128, 127), (0, 1), (-3, 0), (2, 9)])
    rounded = str(g.one_of(["np.round({})", "np.rint({})", "np.floor({})", "np.trunc({})", "np.ceil({} + 0.25)"]))
    kind = "uint8" if low >= 0 else "int8"
    forms = [
        f"np.clip({rounded.format(f)}, {low}, {high}).astype(np.{kind})",
        f"{rounded.format(f'np.clip({f}, {low}, {high})')}.astype(np.int32)",
        f"np.maximum({rounded.format(f)}, {low}) - {f}",
        f"np.minimum(np.maximum({rounded.format(f)}, {low}), {high}) * 0.25",
        f"np.clip(({f} + 0.5).astype(np.int32), {low}, {high})",
        f"np.copysign(1, np.maximum({rounded.format(f)}, 0.0)) * np.clip({rounded.format(f)}, 0, {max(high, 1)})",
    ]
    g.assign(str(g.one_of(forms)))


def tables_by_cells(g: Grower) -> None:
    """Tables that are filled cell by cell from what lies before, of floats and integers, by minima, maxima and sums."""
    if g.is_unbounded:
        raise NothingFits
    b, n = many(g, 1, 5, 9), int(g.one_of([3, 4, 6]))
    kind = str(g.one_of(["float32", "float32", "int32"]))
    c = g.argument((b, n, n), kind)
    d = g.assign(f"np.zeros(({b}, {n + 1}, {n + 1}), np.{kind})")
    if g.chance(0.7):
        g.run(f"{d}[:, 0, 1:] = {g.one_of(['100', '9'])}", d)
    best, other = g.one_of([("minimum", "minimum"), ("maximum", "maximum"), ("minimum", "maximum")])
    before = f"np.{best}(np.{other}({d}[:, i, j + 1], {d}[:, i + 1, j]), {d}[:, i, j])"
    steps = [
        f"{c}[:, i, j] + {before}",
        f"np.{best}({d}[:, i, j + 1] + 1, {d}[:, i, j] + {c}[:, i, j])",
        f"np.{best}({d}[:, i + 1, j] + {c}[:, i, j], {c}[:, j, i])",
        f"np.maximum({before} - 1, 0) + {c}[:, i, j]",
    ]
    cell = str(g.one_of(steps))
    g.run("\n    ".join([f"for i in range({n}):", f"    for j in range({n}): {d}[:, i + 1, j + 1] = {cell}"]), d)
    g.assign(str(g.one_of([f"{d}[:, -1, -1] * 2", f"{d}[:, 1:, 1:] - {c}", f"{d}.max(axis=2)"])))


def losses(g: Grower) -> None:
    """Losses of rows by what is picked of logarithms, with smoothing, weights and masks."""
    if g.is_unbounded:
        raise NothingFits
    m, n = many(g, 3, 8, 20), many(g, 4, 10, 33)
    x, y = g.argument((m, n), str(g.one_of(["float32", "float32", "bfloat16"]))), g.argument((m,), "int32")
    at = g.assign(f"{y} * 3 % {n}")
    s = g.assign(f"{x}.astype(np.float32) - {x}.astype(np.float32).max(axis=1, keepdims=True)")
    p = g.assign(f"{s} - np.log(np.exp({s}).sum(axis=1, keepdims=True))")
    picked = f"{p}[np.arange({m}), {at}]"
    forms = [
        f"-{picked}.mean()",
        f"-(0.9 * {picked} + 0.1 * {p}.mean(axis=1))",
        f"-(0.9 * {picked} + 0.1 / {n} * {p}.sum(axis=1)) * ({y} > 0)",
        f"np.exp({p}) - (np.arange({n}) == {at}[:, None])",
        f"-(np.exp({p}) * {p}).sum(axis=1) + {picked}",
        f"np.take_along_axis({p}, {at}[:, None], axis=1) * np.exp({p}[:, :1])",
        f"({p}.argmax(axis=1) == {at}).astype(np.float32) - {picked}",
    ]
    g.assign(str(g.one_of(forms)))


TIP: tuple[Statement, ...] = (changed_where_it_lies, shifted_integers, bounded_roundings, tables_by_cells, losses)

"""Statements for the newest of lowering: products in turn, columns of tables, masked queries, bits, forms, systems."""

from __future__ import annotations

import numpy as np

from tests.fuzzing.grow import Grower, NothingFits, Statement


def _bounded(g: Grower) -> None:
    if g.is_unbounded:
        raise NothingFits


def products_in_turn(g: Grower) -> None:
    """A few rows that pass products one after the other, with terms that are there before."""
    _bounded(g)
    steps, m = int(g.one_of([2, 3, 4])), int(g.one_of([1, 2, 3, 5]))
    k, n = int(g.one_of([3, 8, 12])), int(g.one_of([4, 8, 9, 16, 20]))
    first = bool(g.chance(0.5))
    x = g.argument((steps, m, k) if first else (m, steps, k), "float32")
    w, u, b = g.argument((k, n), "float32"), g.argument((n, n), "float32"), g.argument((n,), "float32")
    z = g.assign(f"{x} @ {w}") if g.chance(0.4) else ""
    at = "[{}]" if first else "[:, {}]"
    h = g.assign(str(g.one_of([f"np.zeros(({m}, {n}), np.float32)", f"np.tanh({x}{at.format(0)} @ {w})"])))
    how = int(g.rng.integers(4))
    states = []
    for t in range(steps):
        term = f"{z}{at.format(t)}" if z else f"{x}{at.format(t)} @ {w}"
        total = [f"{term} + {h} @ {u} + {b}", f"{b} + ({h} @ {u} + {term})", f"{term} - {h} @ {u}"][how % 3]
        gate = "" if how < 3 else f" * {x}{at.format(t)}[:, :1] + {h}"
        h = g.assign(f"np.tanh({total}){gate}")
        states.append(h)
    forms = [
        f"np.stack([{', '.join(states)}], {int(g.rng.integers(2))})",
        f"{h}.sum(axis=0) + {h}.max(axis=1, keepdims=True)",
        f"{states[0]}.T @ {h}",
        f"np.concatenate([{h}, {states[0]}], 1)[:, {n // 2}:] * 2",
        f"({h} - {h}.mean(-1, keepdims=True)) @ {u}.T",
    ]
    g.assign(str(g.one_of(forms)))


def layers_of_few_rows(g: Grower) -> None:
    """Layers with norms, gates and residuals, for a few rows."""
    _bounded(g)
    m, k, n = int(g.one_of([1, 2, 3, 7])), int(g.one_of([5, 9, 12])), int(g.one_of([8, 12, 17, 24]))
    x, w, u = g.argument((m, k), "float32"), g.argument((k, n), "float32"), g.argument((n, n), "float32")
    h = g.assign(f"np.maximum({x} @ {w}, 0)")
    norms = [f"{h} - {h}.mean(-1, keepdims=True)", f"{h} / (1 + np.abs({h}).sum(-1, keepdims=True))", f"{h} * 0.5"]
    h = g.assign(str(g.one_of(norms)))
    for _ in range(int(g.rng.integers(1, 4))):
        kinds = [f"({h} @ {u}) * {x}[:, :1] + {h}", f"np.tanh({h} @ {u} * {u}[0]) - {h}", f"{h} @ {u} + {h} @ {u}.T"]
        h = g.assign(f"({g.one_of(kinds)}) * 0.25")
    forms = [f"{h}[:, 1:] - {h}[:, :-1]", f"{h}.T", f"{h}.argmax(1)", f"np.pad({h}, ((0, 1), (2, 0)))", f"{h} @ {w}.T"]
    g.assign(str(g.one_of(forms)))


def queries_with_masks(g: Grower) -> None:
    """A few queries for each head, masks that choose or add, most of them the same for all queries of a head."""
    _bounded(g)
    h, m, d = int(g.one_of([1, 2, 3, 4])), int(g.one_of([1, 1, 2, 3])), int(g.one_of([2, 3, 4]))
    n = int(g.one_of([33, 40, 64, 65, 100, 129]))
    q, k, v = (g.argument((h, size, d), "float32") for size in (m, n, n))
    s = f"{q} @ {k}.swapaxes(-1, -2)" + str(g.one_of(["", " * 0.5", " / 4"]))
    shape = g.one_of([(n,), (h, 1, n), (h, 1, n), (1, 1, n), (h, m, n), (m, n)])
    kind = int(g.rng.integers(5))
    if kind == 0:
        length = g.argument((h,), "int32")
        valid = g.assign(f"np.arange({n})[None, :] < np.abs({length})[:, None] * {n // 9} + 1")
        s = f"np.where({valid}[:, None, :], {s}, {g.one_of(['-1e9', '-np.inf', '-30.0'])})"
    elif kind < 3:
        mask = g.argument(shape, "bool")
        s = f"np.where({mask}, {s}, {g.one_of(['-1e9', '-np.inf', '2.0'])})"
        s = s if g.chance(0.5) else f"{s} + {g.argument((n,), 'float32')}"
    elif kind == 3:
        s = f"{s} + {g.argument(shape, 'float32')}"
    else:
        scale = g.argument((h,), "float32")
        bias = g.assign(f"-np.abs({scale})[:, None] * np.arange({n})[::-1].astype(np.float32)")
        s = f"{s} + {bias}[:, None, :]"
    s = g.assign(s)
    e = g.assign(f"np.exp({s} - {s}.max(axis=-1, keepdims=True))")
    o = g.assign(f"({e} / {e}.sum(axis=-1, keepdims=True)) @ {v}")
    if g.chance(0.4):
        g.assign(f"{o}.swapaxes(0, 1).reshape({m}, {h * d}) * 2")


def columns_of_tables(g: Grower) -> None:
    """Rows of tables of a few columns or many, by many indices, read again in several ways."""
    rows, width = int(g.one_of([5, 17, 40, 130, 260])), int(g.one_of([1, 2, 3, 4, 8, 12]))
    count = int(g.one_of([16, 33, 64, 100, 250]))
    table = g.argument((rows, width), str(g.one_of(["float32", "float32", "bfloat16", "int32"])))
    index = g.argument((count,), "int32")
    at = g.assign(
        f"{index} * {int(g.one_of([1, 7, 31]))} % {rows}" if g.chance(0.8) else f"{index} % 9 - {min(rows, 5)}"
    )
    if g.chance(0.4) and g.space[table].dtype.kind != "i":
        table = g.assign(f"{table} * 2 + 1")
    r = g.assign(f"{table}[{at}]")
    forms = [
        f"{r} * 2 - {r}",
        f"{r}.sum(axis=1) + {index}",
        f"{r}.T - {r}.max(axis=1)",
        f"{table}[{at}[::-1]] + {r}",
        f"{table}[{at}.reshape(-1, 2 if {count} % 2 == 0 else 1)].sum(axis=1)",
        f"{r}.reshape(-1, 1) * {r}[0, 0]",
        f"np.concatenate([{r}, {table}[{at} // 2]], axis=1)",
        f"{r}[:, None, :] - {table}[:3]",
    ]
    for _ in range(1 + g.chance(0.5)):
        g.assign(str(g.one_of(forms)))


def known_places(g: Grower) -> None:
    """Rows, columns and elements by indices that are known: all different, or some of them more than once."""
    m, n = int(g.one_of([6, 9, 20, 40])), int(g.one_of([3, 8, 17]))
    x = g.argument((m, n), g.dtype)
    mixed = [int(i) for i in g.rng.permutation(m)]
    again = [int(i) for i in g.rng.integers(0, m, int(g.one_of([4, 12, 30])))]
    columns = [int(i) for i in g.rng.integers(-n, n, 4)]
    forms = [
        f"{x}[{mixed}] * 2",
        f"{x}[{again}] - {x}[{again[::-1]}]",
        f"{x}[{mixed}][:, {columns}] + 1",
        f"{x}[np.ix_({again}, {columns})] * {x}[0, 0]",
        f"{x}[{[again[:4], mixed[:4]]}] - {x}[1]",
        f"np.take_along_axis({x}, np.array({[mixed[:3]]}).T % {m}, axis=0)",
        f"{x}[{mixed[:4]}, {columns}] + {x}.sum()",
    ]
    g.assign(str(g.one_of(forms)))


def read_after_its_total(g: Grower) -> None:
    """What later passes need again: scaled by its norm, compared with its maximum, with what it was made of."""
    m, n = int(g.one_of([16, 40, 100, 200])), int(g.one_of([8, 24, 40]))
    x, w = g.argument((m, n), "float32", large=True), g.argument((n,), "float32")
    h = g.assign(str(g.one_of([f"np.maximum({x}, 0) * {w}", f"{x} * {x} + {w}", f"np.abs({x} - {w}) + 1"])))
    forms = [
        f"{h} / (np.abs({h}).max() + 1)",
        f"({h} - {h}.mean()) * ({h} > {h}.max() * 0.5)",
        f"{h} * (1 / (1 + np.abs({h}.sum(axis=0)))) + {x}",
        f"np.where({h} == {h}.max(), {h}, {x}) - {h}.min()",
        f"{h} - {h}.max(axis=0) - {h}.sum()",
    ]
    g.assign(str(g.one_of(forms)))


def read_from_the_left(g: Grower) -> None:
    """Square matrices that several products read from the left, in as much room as there is."""
    _bounded(g)
    machine = g.program.setting.machine
    lanes, room = machine["limits.partitions"], machine["memory.sbuf_usable_bytes"]
    # More than half of the room, and less than all of it, or anything.
    full = int((g.one_of([0.55, 0.7, 0.8]) * room / lanes / 4) ** 0.5)
    n = int(g.one_of([max(full, 2) * lanes, max(full, 2) * lanes, 16, 24])) if g.program.setting.is_toy else 64
    k = int(g.one_of([2, 6, 9, 16]))
    a, p = g.argument((n, n), "float32", large=True), g.argument((n, k), "float32")
    made = [f"np.tanh({a})", f"np.exp(np.minimum({a}, 1))", f"np.abs({a}) / (1 + np.abs({a}).sum(0))", f"{a} * 0.5"]
    s = g.assign(str(g.one_of(made)))
    for _ in range(int(g.rng.integers(2, 4))):
        p = g.assign(f"({s} @ {p}) * {g.one_of(['0.1', '0.05'])} + 0.1")
    # Nothing else reads it half of the time: then it is turned in its place where there is no room for both.
    if g.chance(0.5):
        forms = [f"{s}.max(1) * {p}[:, 0]", f"{p}.T @ {s}", f"{s}[3] + {p}[3, 0]", f"{s} @ {s} * 0.1"]
        g.assign(str(g.one_of(forms)))


def joins_within_joins(g: Grower) -> None:
    """Joins of joins, of paddings and of stacks, of floats and of integers, along the same dim or others."""
    m, n = g.dim(), int(g.one_of([2, 3, 5, 8]))
    kind = str(g.one_of(["float32", "int32", "int8", "uint8", "bfloat16", "bool"]))
    x, y = g.argument((m, n), kind), g.argument((m, n), kind)
    inner = [
        f"np.concatenate([{x}, {y}], 1)",
        f"np.concatenate([{y}[:, 1:], {x}[:, :1]], 1)",
        f"np.concatenate([{x}[:, ::-1], np.concatenate([{y}, {y}[:, :1]], 1)], 1)",
        f"np.pad({x}, ((0, 0), (1, 2)))",
        f"np.stack([{x}, {y}], axis=2).reshape({m}, {2 * n})",
    ]
    a, b = (
        g.assign(f"{text}{scale}") for text, scale in ((str(g.one_of(inner)), g.one_of(["", " * 2"])) for _ in "ab")
    )
    outer = [
        f"np.concatenate([{a}, {b}, {x}], 1)",
        f"np.concatenate([{b}[:, 1:], {a}, {b}[:, :1]], 1)",
        f"np.concatenate([np.concatenate([{a}, {b}], 1), np.concatenate([{b}, {a}], 1)], 0)",
        f"np.pad(np.concatenate([{a}, {x}], 1), ((0, 0), (2, 1)))",
        f"np.stack([{a}[:, :{n}], {b}[:, :{n}], {x}]).transpose(1, 0, 2).reshape({m}, -1)",
    ]
    g.assign(str(g.one_of(outer)))


def narrow_bits(g: Grower) -> None:
    """Bit operators, alone and one after the other, with numbers, in integers of all widths."""
    m, n = g.dim(), g.dim()
    kind = str(g.one_of(["int8", "uint8", "int16", "uint16", "int32", "uint32"]))
    x = g.argument((m, n), kind)
    y = g.argument((m, n), kind if g.chance(0.7) else str(g.one_of(["uint8", "int8", "int16"])))
    bits = g.space[x].dtype.itemsize * 8
    numbers = [1, 3, 15, 127] + ([255, 4095] if bits > 8 and kind != "int8" else [])
    c, d, s = int(g.one_of(numbers)), int(g.one_of(numbers)), int(g.rng.integers(0, bits + 1))
    forms = [
        f"({x} & {c}) | {d}",
        f"({x} ^ {y}) & {c}",
        f"({x} >> {s}) & {c}",
        f"({x} << {s}) ^ {y}",
        f"~({x} | {y}) >> {s}",
        f"(({x} << {s}) | ({x} >> {max(bits - s - 1, 0)})) & {d}",
        f"({x} & {y}[0]) - ({x} ^ {c})",
        f"np.where({x} & 1, {x} ^ {y}, ~{x})",
        f"np.concatenate([{x} & {c}, {x} >> {min(s, bits - 1)}], 1)",
        f"(({x} & {c}) == {c}).sum(axis=1)",
        f"np.bitwise_xor.reduce({x}, axis=1) | {y}[:, 0]",
        f"({x} & ~{y}) << ({y} & 3)",
    ]
    for _ in range(1 + g.chance(0.5)):
        g.assign(str(g.one_of(forms)))


def refined_systems(g: Grower) -> None:
    """Systems and inverses of matrices that are nothing in particular: pivots, weights, batches, several at once."""
    _bounded(g)
    batch, n = g.one_of([(), (), (2,), (5,)]), int(g.one_of([2, 3, 4, 7, 8, 9, 16, 17]))
    x = g.argument((*batch, n, n), "float32")
    b = g.argument((*batch, n, int(g.one_of([1, 2, 5]))), "float32")
    a = g.assign(
        str(g.one_of([f"{x} * 1", f"{x}[..., ::-1, :] * 2", f"{x} + 3 * np.eye({n}, dtype=np.float32)[::-1]"]))
    )
    if g.space[a].dtype.name != "float32" or float(np.max(np.linalg.cond(g.space[a]))) > 300:
        raise NothingFits
    forms = [
        f"np.linalg.solve({a}, {b})",
        f"np.linalg.inv({a})",
        f"np.linalg.inv({a}) @ {b} - {b}",
        f"np.linalg.solve(np.swapaxes({a}, -1, -2), {b}) * 2",
        f"np.linalg.solve({a}, {b}).sum(axis=-2) + {b}[..., 0, :]",
        f"np.linalg.solve({a}, np.linalg.solve({a}, {b}))",
    ]
    g.assign(str(g.one_of(forms)))


NEWEST: tuple[Statement, ...] = (
    products_in_turn,
    layers_of_few_rows,
    queries_with_masks,
    columns_of_tables,
    known_places,
    read_after_its_total,
    read_from_the_left,
    joins_within_joins,
    narrow_bits,
    refined_systems,
)

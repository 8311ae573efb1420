"""Statements for what lowering has learnt since: short sorts, loops that are scans, tables, diagonals, batches."""

from __future__ import annotations

from tests.fuzzing.grow import Grower, NothingFits, Statement


def _bounded(g: Grower) -> None:
    if g.is_unbounded:
        raise NothingFits


def short_sorts(g: Grower) -> None:
    """Many rows of a few elements, sorted or their median: by itself or among shifted parts."""
    n, m = int(g.one_of([2, 3, 4, 5])), int(g.one_of([64, 129, 400]))
    x = g.argument((m, n), str(g.one_of(["float32", "bfloat16", "int8"])))
    y = g.argument((m,), "float32")
    forms = [
        f"np.sort({x}, axis=1)",
        f"np.median({x}, axis=1) - {x}[:, 0]",
        f"np.sort({x}.T, axis=0)[::-1] + {x}.T",
        f"np.median(np.stack([{y}[:-2], {y}[1:-1], {y}[2:]]), axis=0) * {y}[1:-1]",
        f"np.sort(np.lib.stride_tricks.sliding_window_view({y}, {n}), axis=1)[:, {n // 2}]",
    ]
    g.assign(str(g.one_of(forms)))


def steps_that_go_on(g: Grower) -> None:
    """y[t] = a[t] * y[t-1] + b[t], written as a loop."""
    _bounded(g)
    t, n = int(g.one_of([3, 6, 11])), int(g.one_of([1, 5, 17]))
    a, b = g.argument((t, n), "float32"), g.argument((t, n), "float32")
    decay = g.assign(str(g.one_of([f"np.tanh({a})", f"1 / (1 + np.exp(-{a}))", f"{a} * 0.5"])))
    y = g.assign(f"{b} * {g.one_of([1, 2])}")
    step = str(g.one_of([f"{decay}[t] * {y}[t - 1] + {b}[t]", f"{y}[t - 1] * 0.9 + {b}[t]"]))
    g.run(f"for t in range(1, {t}): {y}[t] = {step}", y)
    g.assign(str(g.one_of([f"{y} - {decay}", f"{y}.sum(axis=0) * {b}", f"{y}[-1] + {y}[0]"])))


def small_tables(g: Grower) -> None:
    """Rows and numbers of tables that every partition may have, looked up many times."""
    count, size, m = int(g.one_of([2, 3, 5])), int(g.one_of([1, 2, 4])), int(g.one_of([12, 40, 150]))
    table, index = g.argument((count, size), "float32"), g.argument((m,), "int32")
    forms = [
        f"{table}[{index} % {count}]",
        f"{table}[{index} % {count}].T * 2",
        f"{table}[{index} % {count}].sum(axis=1) + {index}",
        f"{table}[:, 0][{index}[:, None] % {count}] * np.ones({size}, np.float32)",
    ]
    g.assign(str(g.one_of(forms)))


def diagonals(g: Grower) -> None:
    """Diagonals of matrices that are computed, and read elsewhere too."""
    n, k = int(g.one_of([2, 5, 9, 17, 33])), int(g.one_of([1, 3, 8]))
    x = g.argument((n, k), "float32")
    s = g.assign(str(g.one_of([f"{x} @ {x}.T", f"np.exp(-np.abs({x} @ {x}.T))", f"{x}[:, :1] + {x}[:, 0] * 2"])))
    forms = [
        f"np.diag({s}) - {s}.sum(axis=1)",
        f"{s}[np.arange({n}), np.arange({n})] * {s}.max()",
        f"np.einsum('ii->i', {s}) + {s}",
        f"{s} / np.sqrt(np.abs(np.outer(np.diag({s}), np.diag({s}))) + 1)",
        f"np.diag({s}, 1)[:, None] * {s}[1:] if {n} > 1 else {s}",
        f"np.trace({s}) + {s} - np.diagonal({s})",
    ]
    g.assign(str(g.one_of(forms)))


def ordered_back(g: Grower) -> None:
    """What is put where a sort says: ranks, and rows in their former order."""
    m, n = g.dim(), int(g.one_of([6, 9, 24, 40]))
    x, y = g.argument((m, n), "float32"), g.argument((m, n), "float32")
    order = g.assign(f"np.argsort({x}, axis=1, kind='stable')")
    z = g.assign(str(g.one_of([f"np.zeros_like({x})", f"{y} * 2"])))
    part = str(g.one_of([y, f"np.cumsum({y}, axis=1)", f"np.sort({y}, axis=1)"]))
    g.run(f"np.put_along_axis({z}, {order}, {part}, axis=1)", z)
    g.assign(f"{z} - {x}")


def every_other(g: Grower) -> None:
    """Slices of every second and third element of what is computed: pairs, halves, rotations of them."""
    m, n = g.dim(), int(g.one_of([2, 4, 6, 12, 24, 48]))
    x = g.argument((m, n), "float32")
    y = g.assign(str(g.one_of([f"np.tanh({x})", f"{x} * 2", f"{x} - {x}.mean(axis=1, keepdims=True)"])))
    forms = [
        f"{y}[:, 0::2] + {y}[:, 1::2]",
        f"np.stack([-{y}[:, 1::2], {y}[:, 0::2]], axis=-1).reshape({m}, {n}) * {x}",
        f"np.maximum({y}[:, ::2], {y}[:, 1::2]).sum(axis=1)",
        f"({y}.T[::2] - {y}.T[1::2]) * {x}.T[::2]",
    ]
    g.assign(str(g.one_of(forms)))


def floors_of_positives(g: Grower) -> None:
    """Integers made of floats that are known to be small and positive: bins, levels, digits."""
    m, n = g.dim(), g.dim()
    x = g.argument((m, n), "float32")
    top = int(g.one_of([7, 100, 255]))
    forms = [
        f"(np.clip({x}, 0, {top})).astype(np.int32)",
        f"(1 / (1 + np.exp(-{x})) * {top}).astype(np.int32) % 5",
        f"(np.abs(np.tanh({x})) * {top}).astype(np.int16) + 1",
        f"np.clip(np.abs({x}) * 8, 0, {top}).astype(np.uint8)",
    ]
    g.assign(str(g.one_of(forms)) if not g.is_unbounded else forms[0].replace(x, f"np.nan_to_num({x})"))


def chosen_or_a_number(g: Grower) -> None:
    """Elements where a mask is set, else a number, or a number of each row."""
    m, n = g.dim(), g.dim()
    x, y = g.argument((m, n), "float32"), g.argument((m, 1), "float32")
    mask = str(g.one_of([f"{x} > 0.5", f"np.abs({x}) < {y}", f"({x} > 0) & ({x} < 1)"]))
    forms = [
        f"np.where({mask}, {x}, 0)",
        f"np.where({mask}, {y}, {x} * 2)",
        f"np.where({mask}, np.tanh({x}), {y})",
        f"np.where({mask}, -1.5, {x} + {y}).sum(axis=0)",
    ]
    g.assign(str(g.one_of(forms)))


def small_members(g: Grower) -> None:
    """Products of a batch of small matrices, and what is computed of each beside them."""
    b, m, k, n = (int(g.one_of(sizes)) for sizes in ([2, 4, 7, 16], [2, 4, 8], [4, 8, 12], [2, 4, 5]))
    x, y = g.argument((b, m, k), "float32"), g.argument((b, k, n), "float32")
    p = g.assign(f"{x} @ {y}")
    forms = [
        f"{p} + {p}.max(axis=-1, keepdims=True)",
        f"np.tanh({p}) @ {y}.swapaxes(1, 2) - {x}",
        f"np.einsum('bij,bjk->bik', {x} * 2, {y}) * {p}",
        f"{p}.reshape({b * m}, {n}) * 2",
        f"{p}.swapaxes(0, 1) - {p}.mean()",
    ]
    g.assign(str(g.one_of(forms)))


def blocks_of_rows(g: Grower) -> None:
    """Dims in front of full partitions that number blocks of rows, or no longer do: heads, windows, patches."""
    a, h, d = (int(g.one_of(sizes)) for sizes in ([2, 4], [1, 2, 3], [1, 2, 4]))
    rows = int(g.one_of([4, 8, 16]))
    x, w = g.argument((a, rows, 3), "float32"), g.argument((3, h * d), "float32")
    y = g.assign(f"{x} @ {w}")
    forms = [
        f"{y}.reshape({a}, {rows}, {h}, {d}).transpose(0, 2, 1, 3) * 2",
        f"np.exp({y} - {y}.max(axis=-1, keepdims=True))[::-1, 1:]",
        f"{y}.sum(axis=-1)[:, :, None] * {y}[0] - {y}[-1]",
        f"{y}.reshape({a * rows}, {h * d})[{rows}:] @ {w}.T",
        f"{y}[1].T @ {x}[0] + {y}.sum(axis=0).T @ {x}[1]",
    ]
    g.assign(str(g.one_of(forms)))


def rows_times_a_matrix(g: Grower) -> None:
    """Many short rows times small matrices, with what goes over each row, over all rows, and further products."""
    _bounded(g)
    m, k, n = (int(g.one_of(sizes)) for sizes in ([40, 64, 90, 200], [1, 3, 9, 17], [1, 2, 5, 12]))
    x, w = g.argument((m, k), "float32"), g.argument((k, n), "float32")
    y = g.assign(str(g.one_of([f"{x} @ {w}", f"np.tanh({x}) @ {w} + {w}[0]", f"({x} * {x}) @ {w} - {x} @ ({w} * 2)"])))
    z = g.assign(str(g.one_of([f"np.tanh({y})", f"np.exp({y} - {y}.max(axis=1, keepdims=True))", f"{y} / {k}"])))
    forms = [
        f"{z} / (1 + np.abs({z}).sum(axis=1, keepdims=True))",
        f"{z}.T @ {x}",
        f"({z} @ {w}.T) * {x} + {y}[:, :1]",
        f"({z} - {z}.mean(axis=0)) * {y}",
        f"{z}.argmax(axis=1) + {z}.sum(axis=1)",
    ]
    for _ in range(1 + g.chance(0.5)):
        g.assign(str(g.one_of(forms)))


def updates_one_by_one(g: Grower) -> None:
    """Rows, columns and elements of an array written one after the other, some of it read meanwhile."""
    m, n = int(g.one_of([3, 9, 20])), int(g.one_of([4, 7, 12]))
    x = g.argument((m, n), "float32")
    y = g.assign(f"np.zeros(({m}, {n}), np.float32)")
    parts = [f"{y}[t, t:] = {x}[t, t:] * 2", f"{y}[t, 1] = {x}[t].sum()", f"{y}[:, t] = {x}[:, t] + {y}[:, t - 1]"]
    parts += [f"{y}[t, t % 2 :: 2] = np.abs({x}[t, t % 2 :: 2])", f"{y}[t] = {y}[t - 1] + {x}[t]"]
    g.run(f"for t in range(1, 3): {g.one_of(parts)}", y)
    if g.chance(0.5):
        g.assign(f"{y} * 2")
    g.run(f"for t in range(1, 3): {g.one_of(parts)}", y)
    g.assign(str(g.one_of([f"{y}.T", f"{y} + {x}", f"{y}[1:] - {y}[:-1]"])))


RECENT: tuple[Statement, ...] = (
    short_sorts,
    steps_that_go_on,
    small_tables,
    diagonals,
    ordered_back,
    every_other,
    floors_of_positives,
    chosen_or_a_number,
    small_members,
    blocks_of_rows,
    rows_times_a_matrix,
    updates_one_by_one,
)

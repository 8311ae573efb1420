"""Statements for strategies that a program has to be made for: long axes in lines, taps, tables by index, networks that
sort, weights of 8 bits, recurrences, many small systems. Sizes are those at which a toy target decides either way.
"""

from __future__ import annotations

from tests.fuzzing.grow import Grower, NothingFits, Statement


def long_axis(g: Grower) -> None:
    """A row that all partitions together do not hold, reduced to numbers."""
    n = int(g.one_of([2048, 4096, 9216, 9600, 16384, 8200]))
    shape = g.one_of([(n,), (1, n), (2, n // 2), (n // 64, 64)])
    x, y = g.argument(shape, "float32", large=True), g.argument(shape, "float32", large=True)
    axis = g.one_of(["", "", "-1"]) if shape[0] < 4 else ""
    made = str(
        g.one_of([f"({x} * {y})", f"(({x} - {y}) ** 2)", f"np.exp(np.minimum({x} + {y}, 2))", f"np.abs({x})", x])
    )
    over = f"{made}.reshape(-1)" if shape[0] >= 4 else made
    g.assign(f"{over}.{g.one_of(['sum', 'max', 'min', 'mean'])}({axis})")
    if g.chance(0.3):
        g.assign(f"np.tanh({x}).{g.one_of(['sum', 'max'])}({axis})")


def taps(g: Grower) -> None:
    """A convolution that is written offset by offset, channels first or last."""
    c, o, n = int(g.one_of([1, 2, 3, 5])), int(g.one_of([1, 2, 4, 7])), int(g.one_of([3, 5, 8]))
    wide, high = int(g.one_of([2, 3])), int(g.one_of([1, 2]))
    step, batch = int(g.one_of([1, 1, 2])), int(g.one_of([1, 2, 3]))
    size = [(n - 1) * step + wide, (n - 1) * step + high]
    last = g.chance(0.5)
    x = g.argument((batch, *size, c) if last else (batch, c, *size), "float32")
    w = g.argument((wide, high, c, o), "float32")
    terms = []
    for i in range(wide):
        for j in range(high):
            cut = f"{i}:{i + (n - 1) * step + 1}:{step}, {j}:{j + (n - 1) * step + 1}:{step}"
            if last:
                terms.append(f"{x}[:, {cut}] @ {w}[{i}, {j}]")
            else:
                terms.append(f"np.einsum('nchw,co->nohw', {x}[:, :, {cut}], {w}[{i}, {j}])")
    g.assign(" + ".join(terms + ["1"] * g.chance(0.3)))


def added_by_index(g: Grower) -> None:
    """Rows, or numbers, added to the places that indices say: few places or many, few rows or many."""
    places, count = int(g.one_of([3, 8, 30, 100, 700])), int(g.one_of([9, 40, 150, 400]))
    n = int(g.one_of([1, 1, 4, 12]))
    index = g.argument((count,), "int32", large=True)
    where = g.assign(f"np.abs({index}) % {places}")
    rows = g.argument((count, n) if n > 1 else (count,), "float32", large=True)
    kind = int(g.rng.integers(4))
    if kind == 0 and n == 1:
        weights = f", weights={rows}" if g.chance(0.5) else ""
        g.assign(f"np.bincount({where}{weights}, minlength={places})")
        return
    start = f"np.zeros(({places}{f', {n}' if n > 1 else ','}), np.float32)"
    y = g.assign(start)
    if kind == 1:
        g.run(f"{y}[{where}] = {rows}", y)
    else:
        g.run(f"np.{g.one_of(['add', 'add', 'add', 'maximum', 'subtract'])}.at({y}, {where}, {rows})", y)
    if g.chance(0.3):
        g.assign(f"{y}[{where}] * {rows}")


def sorted_rows(g: Grower) -> None:
    """Rows of any type that are sorted, with their positions, from one to more than all partitions hold."""
    m, n = int(g.one_of([1, 2, 3, 8, 9, 20])), int(g.one_of([7, 16, 30, 33, 64, 100, 200]))
    kind = str(g.one_of(["float32", "float32", "int32", "uint8", "bfloat16", "int16"]))
    x = g.argument((m, n), kind, large=True)
    if kind == "int32" and g.chance(0.5):
        x = g.assign(f"{x} * {g.one_of([1_000_003, 70_001])}")
    k = min(int(g.one_of([1, 4, 8, 9, 30])), n)
    forms = [
        f"np.sort({x}, axis=-1)",
        f"np.argsort({x}, axis=-1, kind='stable')",
        f"np.sort({x}, axis=-1)[:, ::-1][:, :{k}]",
        f"tw.topk({x}, {k})[1]",
        f"tw.topk({x}, {k}, ascending=True)[0]",
        f"np.take_along_axis({x}, np.argsort({x}, axis=-1, kind='stable'), axis=-1)",
        f"np.take_along_axis({x}, tw.topk({x}, {k})[1].astype(np.int32), axis=-1)",
        f"np.argsort(np.argsort({x}, axis=-1, kind='stable'), axis=-1, kind='stable')",
        f"np.cumsum(np.sort({x}, axis=-1)[:, ::-1].astype(np.float32), axis=-1)",
    ]
    g.assign(str(g.one_of(forms)))


def weights_of_eight_bits(g: Grower) -> None:
    """Products with integers of 8 bits and a scale for each column, or each group of rows."""
    m, k, n = int(g.one_of([1, 3, 9, 17])), int(g.one_of([4, 8, 20, 33])), int(g.one_of([3, 8, 20, 40]))
    x, w = g.argument((m, k), "float32"), g.argument((k, n), str(g.one_of(["int8", "int8", "uint8"])))
    scale = g.argument(g.one_of([(n,), (1, n), (k, 1)]), "float32")
    forms = [
        f"{x} @ ({w}.astype(np.float32) * {scale})",
        f"{x} @ (({w}.astype(np.float32) - 3) * {scale})",
        f"np.maximum({x}, 0) @ ({w}.astype(np.float32) * {scale}) + {x}[:, :1]",
        f"({x} @ {w}.astype(np.float32)) * 0.5",
    ]
    g.assign(str(g.one_of(forms)))


def one_token(g: Grower) -> None:
    """One query for each head, and keys of many steps, as sums over named dims."""
    h, s, d = int(g.one_of([1, 2, 5, 9])), int(g.one_of([8, 40, 130])), int(g.one_of([2, 4]))
    q = g.argument((h, d), "float32")
    k, v = (g.argument((s, h, d), "float32", large=True) for _ in range(2))
    t = g.assign(f"np.einsum('hd,shd->hs', {q}, {k}) * 0.5")
    if g.chance(0.4) and not g.is_unbounded:
        t = g.assign(f"np.where(np.arange({s}) < {int(g.one_of([1, 5, s]))}, {t}, -1e9)")
    e = g.assign(f"np.exp({t} - {t}.max(-1, keepdims=True))")
    g.assign(f"np.einsum('hs,shd->hd', {e} / {e}.sum(-1, keepdims=True), {v})")


def many_systems(g: Grower) -> None:
    """Systems, inverses, determinants and factors of one matrix or many, far from singular."""
    if g.is_unbounded:
        raise NothingFits
    batch, n = g.one_of([(), (), (2,), (7,), (3, 4)]), int(g.one_of([1, 2, 3, 5, 9]))
    x = g.argument((*batch, n, n), "float32")
    a = g.assign(f"{x} @ np.swapaxes({x}, -1, -2) * 0.2 + {n + 1} * np.eye({n}, dtype=np.float32)")
    b = g.argument((*batch, n, int(g.one_of([1, 3, 12]))), "float32")
    forms = [
        f"np.linalg.solve({a}, {b})",
        f"np.linalg.cholesky({a})",
        f"np.linalg.det({a} * 0.2)",
        f"np.linalg.inv({a})",
        f"np.linalg.slogdet({a}).logabsdet",
        f"np.linalg.solve({a} + np.triu({x}, 1) * 0.1, {b}) - {b}",
    ]
    g.assign(str(g.one_of(forms)))


def whole_scans(g: Grower) -> None:
    """Running sums, products and greatest of floats and of integers, along either dim."""
    shape = g.one_of([(1, 2500), (3, 900), (20, 40), (70, 9), (5, 4, 30), (300,)])
    kind = str(g.one_of(["float32", "float32", "int32", "uint8", "int16"]))
    x = g.argument(shape, kind, large=True)
    axis = int(g.rng.integers(len(shape)))
    if kind == "float32":
        small = f"(np.tanh({x}) * 0.2 + 1)"
        forms = [f"np.cumsum({x}, axis={axis})", f"np.cumprod({small}, axis={axis})", f"np.prod({small}, axis={axis})"]
    else:
        forms = [
            f"np.cumsum({x}, axis={axis})",
            f"np.cumsum({x} > 3, axis={axis})",
            f"np.cumprod({x} % 2, axis={axis})",
        ]
    g.assign(str(g.one_of([*forms, f"np.maximum.accumulate({x}, axis={axis})", f"np.add.reduceat({x}, [0, 2])"])))


def placed(g: Grower) -> None:
    """Rows and entries taken by data: by blocks, one by one, outside bounds clipped; written where rows are equal."""
    m, n, count = int(g.one_of([5, 30, 100])), int(g.one_of([1, 4, 30])), int(g.one_of([1, 6, 40]))
    x, i = g.argument((m, n), "float32", large=True), g.argument((count,), "int32")
    j = g.argument((count,), "uint8")
    forms = [
        f"np.take({x}, {i}, axis=0, mode='{g.one_of(['clip', 'wrap'])}')",
        f"{x}[np.abs({i}) % {m}, {j} % {n}]",
        f"{x}[np.abs({i}) % {m}][:, {j} % {n}]",
        f"np.take({x}.T, np.abs({i}) % {m}, axis=1) * 2",
        f"{x}[np.abs({i}[0]) % {m}] - {x}[{j}[-1] % {m}]",
        f"{x}.reshape(-1)[np.clip({i} * 7, 0, {m * n - 1})]",
        f"np.searchsorted(np.sort({x}[:, 0]), {x}[:{count}, -1], side='{g.one_of(['left', 'right'])}')",
        f"np.stack([{x}[{j} % {m}] * 0.5, {x}[np.abs({i}) % {m}]])",
    ]
    g.assign(str(g.one_of(forms)))


def updated_rows(g: Grower) -> None:
    """A cache: rows that are written at known and unknown places, and read with all others."""
    m, n = int(g.one_of([8, 20, 40])), int(g.one_of([4, 17]))
    x, r = g.argument((m, n), "float32"), g.argument((3, n), "float32")
    y = g.assign(f"{x} * {g.one_of([1, 2])}")
    at = int(g.rng.integers(m - 2))
    lines = [f"{y}[{at}:{at + 3}] = {r}", f"{y}[{at}:{at + 3}] += {r}", f"{y}[{at}] = {r}[0] - {r}[1]"]
    g.run(str(g.one_of(lines)), y)
    k = g.argument((n, 5), "float32")
    g.assign(str(g.one_of([f"{y} @ {k}", f"{y}.sum(axis=1) * {x}[:, 0]", f"{y}.T @ {x}", f"np.exp({y} - {y}.max(0))"])))


STRATEGIES: tuple[Statement, ...] = (
    long_axis,
    taps,
    added_by_index,
    sorted_rows,
    sorted_rows,
    weights_of_eight_bits,
    one_token,
    many_systems,
    whole_scans,
    placed,
    updated_rows,
)

"""Statements as people write them, a few lines that belong together: attention, normalisation, windows, sorting.

They reach strategies that single operations seldom do.
"""

from __future__ import annotations

from tests.fuzzing.grow import Grower, NothingFits, Statement


def _matrix(g: Grower) -> tuple[str, int, int]:
    """A matrix of floats by name."""
    m, n = g.dim(), g.dim()
    name = g.assign(g.floating((m, n), 1))
    return name, m, n


def softmax(g: Grower) -> None:
    shape = g.sizes.shape(g.rng, g.dims)
    if not shape:
        raise NothingFits
    axis = int(g.one_of([-1, -1, 0]))
    x = g.assign(g.floating(shape, 1))
    e = g.assign(f"np.exp({x} - {x}.max(axis={axis}, keepdims=True))")
    g.assign(f"{e} / {e}.sum(axis={axis}, keepdims=True)")


def attention(g: Grower) -> None:
    """Queries, keys and values of one array or of several, batched or not, masked or not."""
    m, n, d = g.dim(), g.dim(), int(g.one_of([2, 4, 8, 5, 16]))
    batch = (2,) if g.chance(0.3) else ()
    q = g.assign(g.floating((*batch, m, d), 0))
    k = g.assign(g.floating((*batch, n, d), 0))
    v = k if g.chance(0.3) else g.assign(g.floating((*batch, n, int(g.one_of([d, d, 3]))), 0))
    turned = f"{k}.swapaxes(-1, -2)" if batch else f"{k}.T"
    s = g.assign(f"{q} @ {turned} * 0.3")
    # What a mask leaves out is not multiplied: 0 * inf is not NaN then.
    if g.chance(0.4) and not g.is_unbounded:
        s = g.assign(f"np.where(np.tril(np.ones(({m}, {n}), bool), {max(n - m, 0)}), {s}, -1e9)")
    elif g.chance(0.3):
        s = g.assign(f"{s} + {g.floating((m, n), 0)}")
    e = g.assign(f"np.exp({s} - {s}.max(axis=-1, keepdims=True))")
    p = g.assign(f"{e} / {e}.sum(axis=-1, keepdims=True)")
    g.assign(f"{p} @ {v}")


def layer_norm(g: Grower) -> None:
    x, _, n = _matrix(g)
    axis = int(g.one_of([-1, -1, 0]))
    mean = g.assign(f"{x}.mean(axis={axis}, keepdims=True)")
    var = g.assign(f"(({x} - {mean}) ** 2).mean(axis={axis}, keepdims=True)")
    y = g.assign(f"({x} - {mean}) / np.sqrt({var} + 1e-3)")
    if g.chance(0.6):
        g.assign(f"{y} * {g.leaf((n,)).text} + {g.leaf((n,)).text}")


def windows(g: Grower) -> None:
    """Sliding windows: their sums, their greatest, a product with a small kernel."""
    n, width = g.dim() + 4, int(g.one_of([2, 3, 4, 5]))
    if g.chance(0.5):
        x = g.assign(g.floating((g.dim(), n), 0))
        w = g.assign(f"np.lib.stride_tricks.sliding_window_view({x}, {width}, axis=-1)")
        g.assign(g.one_of([f"{w}.max(-1)", f"{w}.mean(-1)", f"{w} @ {g.leaf((width,)).text}", f"{w}[:, ::2].sum(-1)"]))
        return
    c, m = int(g.one_of([1, 2, 3, 5])), g.dim() + 4
    x = g.assign(g.floating((c, m, n), 0))
    w = g.assign(f"np.lib.stride_tricks.sliding_window_view({x}, ({width}, 2), axis=(1, 2))")
    o = int(g.one_of([1, 2, 4, 9]))
    forms = [
        f"np.einsum('cmnhw,ochw->omn', {w}, {g.floating((o, c, width, 2), 0)})",
        f"np.einsum('cmnhw,chw->cmn', {w}, {g.floating((c, width, 2), 0)})",
        f"{w}.max(axis=(-1, -2))",
    ]
    g.assign(str(g.one_of(forms)))


def _index(g: Grower, count: int, size: int) -> str:
    """Indices that an argument gives, whatever it holds."""
    name = g.argument((count,), "int32")
    return f"(np.abs({name}) % {size})"


def taken(g: Grower) -> None:
    """Rows or entries by indices that are data, written back or added up."""
    m, n, count = g.dim(), g.dim(), g.dim()
    index = g.assign(_index(g, count, m))
    x = g.assign(g.floating((m, n), 0))
    kind = int(g.rng.integers(6))
    if kind == 0:
        g.assign(f"{x}[{index}] * {x}[{index}]")
    elif kind == 1:
        g.assign(f"np.take({x}, {index} % {n}, axis=1)")
    elif kind == 2:
        y = g.assign(f"{x} * 1")
        g.run(f"np.add.at({y}, {index}, {g.floating((count, n), 0)})", y)
    elif kind == 3:
        y = g.assign(f"{x} + 0")
        g.run(f"{y}[{index}] = {g.floating((n,), 0)}", y)
    elif kind == 4:
        g.assign(f"np.bincount({index}, minlength={m})")
    else:
        places = g.assign(f"np.argsort({x}, axis=1, kind='stable')")
        g.assign(f"np.take_along_axis({x}, {places}, axis=1) + {x}")


def ordered(g: Grower) -> None:
    """Sorted rows and what is read of them."""
    x, m, n = _matrix(g)
    axis = int(g.one_of([0, 1, 1]))
    k = min(int(g.one_of([1, 2, 3, 9, 40])), (m, n)[axis])
    forms = [
        f"np.sort({x}, axis={axis})",
        f"np.argsort({x}, axis={axis}, kind='stable')",
        f"np.sort({x}, axis={axis})[{':, ' * axis}-{k}:]",
        f"np.argmax({x}, axis={axis})",
        f"np.median({x}, axis={axis})",
        f"np.searchsorted(np.sort({x}[0]), {x}[-1])",
        f"np.cumsum({x}, axis={axis})",
        f"np.max({x}, axis={axis}) - np.min({x}, axis={axis})",
    ]
    g.assign(str(g.one_of(forms)))


def network(g: Grower) -> None:
    """Two layers and what goes past them."""
    m, n, h = g.dim(), g.dim(), g.dim()
    x = g.assign(g.floating((m, n), 0))
    hidden = g.assign(f"np.maximum({x} @ {g.floating((n, h), 0)} * 0.2 + {g.floating((h,), 0)}, 0)")
    g.assign(f"{hidden} @ {g.floating((h, n), 0)} * 0.2 + {x}")


def step_of_an_optimiser(g: Grower) -> None:
    """Moments of a gradient, and a step along them."""
    shape = g.sizes.shape(g.rng, g.dims)
    x, y = g.assign(g.floating(shape, 0)), g.assign(g.floating(shape, 0))
    moment = g.assign(f"0.9 * {x} + 0.1 * {y}")
    second = g.assign(f"0.999 * {x} * {x} + 0.001 * {y} * {y}")
    g.assign(f"{x} - 0.01 * {moment} / (np.sqrt({second}) + 1e-3)")


def around(g: Grower) -> None:
    """Neighbours of every element: differences and stencils."""
    m, n = g.dim() + 2, g.dim() + 2
    x = g.assign(g.floating((m, n), 1))
    forms = [
        f"{x}[:, 1:] - {x}[:, :-1]",
        f"np.exp(np.minimum({x}, 2))[:, 1:] - {x}[:, :-1]",
        f"{x}[1:-1, 1:-1] * 4 - {x}[:-2, 1:-1] - {x}[2:, 1:-1] - {x}[1:-1, :-2] - {x}[1:-1, 2:]",
        f"np.concatenate([{x}[:, 1:], (2 * {x})[:, :1]], 1)",
        f"{x}[:, ::-1] + ({x} + np.tanh({x}))",
        f"np.maximum({x}[1:], {x}[:-1]) + {x}[1:] * {x}[:-1]",
        f"({x} + 1) * {x}",
        f"0.5 * {x} * {x}",
        f"({x} * -1.5 + {x}).T * 2",
    ]
    g.assign(str(g.one_of(forms)))


def solved(g: Grower) -> None:
    """A system of equations that is far from singular."""
    n = int(g.one_of([2, 3, 5, 9]))
    a = g.assign(f"{g.floating((n, n), 0)} * 0.1 + {n} * np.eye({n}, dtype=np.float32)")
    if g.space[a].dtype.name not in ("float32", "float64") or g.is_unbounded:
        raise NothingFits
    g.assign(str(g.one_of([f"np.linalg.solve({a}, {g.floating((n, 3), 0)})", f"np.linalg.inv({a}) @ {a}"])))


IDIOMS: tuple[Statement, ...] = (
    softmax,
    attention,
    layer_norm,
    windows,
    taken,
    ordered,
    network,
    step_of_an_optimiser,
    around,
    around,
    solved,
)

"""Statements that change a value in place: slices, rows, masks, entries by index, and NumPy's `out`."""

from __future__ import annotations

import numpy as np

from tests.fuzzing.grow import Grower, NothingFits


def update(g: Grower) -> None:
    """Change a variable or, now and then, an argument."""
    names = [n for n in g.known() if np.ndim(g.space[n]) and (n not in g.program.inputs or g.chance(0.3))]
    names = [n for n in names if isinstance(g.space[n], np.ndarray) and g.space[n].flags.writeable]
    if not names:
        raise NothingFits
    name = str(g.one_of(names))
    if name in g.program.inputs and g.chance(0.7):
        name = g.assign(f"{name}.copy()")
    g.one_of([_whole, _slice, _slice, _masked, _out, _entries])(g, name)


def _sign(g: Grower, name: str) -> str:
    if g.space[name].dtype.kind == "b":
        return str(g.one_of(["|=", "&=", "="]))
    return str(g.one_of(["+=", "*=", "-=", "="]))


def _whole(g: Grower, name: str) -> None:
    sign = _sign(g, name)
    target = name if sign != "=" else f"{name}[...]"
    g.run(f"{target} {sign} {g.beside(g.space[name].shape, 1).text}", name)


def _slice(g: Grower, name: str) -> None:
    """A part of it, computed from another part."""
    shape = g.space[name].shape
    axis = int(g.rng.integers(len(shape)))
    n = shape[axis]
    if n < 2:
        raise NothingFits
    text, count = g.one_of(
        [("1:", n - 1), (":-1", n - 1), ("::2", -(-n // 2)), (f"{n // 2}:", n - n // 2), ("::-1", n), (f"{n - 1}:", 1)]
    )
    part = (*shape[:axis], count, *shape[axis + 1 :])
    where = ", ".join([":"] * axis + [text])
    g.run(f"{name}[{where}] {_sign(g, name)} {g.beside(part, 1).text}", name)


def _masked(g: Grower, name: str) -> None:
    value = g.one_of([0, 1, 2])
    g.run(f"{name}[{g.truth(g.space[name].shape, 1)}] = {value}", name)


def _out(g: Grower, name: str) -> None:
    shape = g.space[name].shape
    function = g.one_of(["add", "multiply", "maximum", "subtract"])
    g.run(f"np.{function}({g.expression(shape, 1).text}, {g.beside(shape, 1).text}, out={name})", name)


def _entries(g: Grower, name: str) -> None:
    """Rows by known index, all different."""
    shape = g.space[name].shape
    index = [int(i) for i in g.rng.permutation(shape[0])[: min(3, shape[0])]]
    g.run(f"{name}[{index}] {_sign(g, name)} {g.beside((len(index), *shape[1:]), 1).text}", name)

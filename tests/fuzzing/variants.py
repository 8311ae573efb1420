"""Programs that have to give what another one gives: more outputs, arguments permuted or split, other targets.

The results of a variant, put back as the original has them, are those of the original: bit for bit, or as near as
rounding allows (both are compared with NumPy besides).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tests.fuzzing.program import Program, Spec
from tests.fuzzing.toys import REAL, Setting, toys

Variant = Callable[[Program, np.random.Generator], Program | None]


def more_outputs(program: Program, rng: np.random.Generator) -> Program | None:
    """Everything that has a name is returned, what was returned first."""
    names = dict.fromkeys(line.split(" = ")[0] for line in program.lines if line.startswith("v") and " = " in line)
    more = [name for name in names if name.isidentifier() and name not in program.returns]
    return replace(program, returns=[*program.returns, *more]) if more else None


def permuted(program: Program, rng: np.random.Generator) -> Program | None:
    """An argument is given with its dims in another order, and put back first."""
    name = _some_argument(program, rng, 2)
    if name is None:
        return None
    array = _arrays(program)[name]
    order = [int(d) for d in rng.permutation(array.ndim)]
    back = [order.index(d) for d in range(array.ndim)]
    turned = np.ascontiguousarray(array.transpose(order))
    # In NumPy's order, in which the program reads it: what is computed of it may be viewed in another shape.
    line = f"{name} = {name}.transpose({', '.join(map(str, back))}).copy()"
    return _with(program, {name: turned}, line)


def split(program: Program, rng: np.random.Generator) -> Program | None:
    """An argument is given in two parts, and put together first."""
    name = _some_argument(program, rng, 1)
    if name is None:
        return None
    array = _arrays(program)[name]
    axes = [d for d, n in enumerate(array.shape) if n > 1]
    if not axes:
        return None
    axis = int(rng.choice(axes))
    at = int(rng.integers(1, array.shape[axis]))
    first, second = (np.ascontiguousarray(x) for x in np.split(array, [at], axis))
    line = f"{name} = np.concatenate([{name}, {name}b], axis={axis})"
    return _with(program, {name: first, f"{name}b": second}, line)


def elsewhere(program: Program, rng: np.random.Generator) -> Program | None:
    """The same for another target."""
    others = [t for t in (toys() if program.setting.is_toy else REAL) if t != program.setting.target]
    return replace(program, setting=Setting(str(rng.choice(others))))


VARIANTS: tuple[Variant, ...] = (more_outputs, permuted, split, elsewhere)


def _arrays(program: Program) -> dict[str, np.ndarray]:
    return dict(zip(program.inputs, program.arrays(), strict=True))


def _some_argument(program: Program, rng: np.random.Generator, rank: int) -> str | None:
    """An argument that the program does not write to: writing to a copy of it would leave it as it was."""
    changed = {line.split(" ")[0].split("[")[0] for line in program.lines if not line.startswith("v")}
    views = {line.split(" = ")[1] for line in program.lines if " = " in line}
    names = [n for n, spec in program.inputs.items() if len(spec.shape) >= rank and n not in changed | views]
    text = "\n".join(program.lines)
    names = [n for n in names if f"out={n}" not in text and f"at({n}" not in text and f"= {n}[" not in text]
    return str(rng.choice(names)) if names else None


def _with(program: Program, arrays: dict[str, np.ndarray], line: str) -> Program:
    """The program on other arguments, after a line that makes the old one of them."""
    kept = _arrays(program)
    specs = {n: Spec(x.shape, program.inputs[n.removesuffix("b")].dtype) for n, x in {**kept, **arrays}.items()}
    return replace(program, inputs=specs, lines=[line, *program.lines], given={**kept, **arrays})

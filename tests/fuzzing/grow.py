"""Random NumPy functions, grown by shape and biased to reuse: one value is read again and again in different ways.

An expression of a wanted shape is a reading of a known value (readings.py), or an operation on expressions. NumPy runs
every part as it is written, so that element types and magnitudes are known. Arguments are added as they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any
from zlib import crc32

import numpy as np

from tests.fuzzing.program import NAMES, Program, Spec, quiet
from tests.fuzzing.readings import Shape, readings
from tests.fuzzing.sizes import Sizes
from tests.fuzzing.toys import Setting

DTYPES = ("float32", "bfloat16", "float16", "int32", "int16", "int8", "uint8", "uint32", "bool", "int64")
VALUES = {"plain": 0.65, "whole": 0.14, "special": 0.13, "zeros": 0.04, "tiny": 0.04}
MOST_INPUTS = 5
LARGEST = 1e4
"""Numbers beyond this are not computed with, where arguments are plain."""


class NothingFits(Exception):
    """There is no expression of that kind here."""


@dataclass(frozen=True)
class Node:
    """An expression and its value."""

    text: str
    array: np.ndarray

    @property
    def kind(self) -> str:
        """b for truth values, i for integers, f for floats."""
        kind = self.array.dtype.kind
        return kind if kind == "b" else "i" if kind in "iu" else "f"


class Grower:
    """A program in the making."""

    def __init__(self, seed: int, sizes: Sizes, setting: Setting, only: Sequence[str] = ()) -> None:
        self.only = only
        self.rng = np.random.default_rng(seed)
        self.program = Program(seed, {}, [], [], setting)
        self.sizes = sizes
        self.space: dict[str, Any] = dict(NAMES)
        self.values = str(self.rng.choice(list(VALUES), p=list(VALUES.values())))
        if only and self.values == "tiny":
            self.values = "plain"  # statements are not for numbers below the normal ones
        self.dims = sizes.dims(self.rng)
        self.dtype = "float32" if self.chance(0.65) else str(self.rng.choice(DTYPES))
        self.mixed = self.chance(0.25)
        self.hub = ""
        self.hub = self.argument(sizes.shape(self.rng, self.dims))

    @property
    def is_unbounded(self) -> bool:
        """True where arguments make infinities."""
        return self.values in ("special", "zeros")

    # Chance.

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def one_of(self, items: Any) -> Any:
        """Any of several."""
        return items[int(self.rng.integers(len(items)))]

    def dim(self) -> int:
        """A size that other values have, most of the time."""
        return int(self.one_of(self.dims))

    def shape(self) -> Shape:
        """A shape to compute: half of the time one that a part of the value in favour has."""
        have = np.shape(self.space[self.hub])
        if not have or self.chance(0.5):
            return self.sizes.shape(self.rng, self.dims)
        if self.chance(0.5):
            return have
        less = int(self.rng.integers(len(have)))
        return tuple(max(n - 1, 1) if d == less else n for d, n in enumerate(have))

    # What there is.

    def argument(self, shape: Shape, dtype: str | None = None, large: bool = False) -> str:
        """Another argument.    large: it may have more elements than others."""
        if len(self.program.inputs) >= MOST_INPUTS or prod(shape) > self.sizes.largest * (10 if large else 1):
            raise NothingFits
        name = "xyzwu"[len(self.program.inputs)]
        if dtype is None:
            dtype = str(self.one_of(DTYPES)) if self.mixed and self.chance(0.5) else self.dtype
        spec = self.program.inputs[name] = Spec(shape, dtype, self.values)
        self.space[name] = spec.array(self.program.seed + crc32(name.encode()))
        return name

    def known(self) -> list[str]:
        """All variables, the newest last."""
        return [name for name, x in self.space.items() if isinstance(x, (np.ndarray, np.generic))]

    def node(self, text: str) -> Node:
        """An expression that NumPy takes and whose numbers are of use."""
        with quiet():
            try:
                found = np.asarray(eval(text, self.space))
            except Exception:  # noqa: BLE001  (whatever NumPy refuses is not written)
                raise NothingFits from None
        if found.size > self.sizes.largest or found.dtype.kind == "O" or found.dtype.kind == "c":
            raise NothingFits
        if not self.is_unbounded and found.dtype.kind not in "b" and found.size:
            if not float(np.abs(np.nan_to_num(found.astype(np.float32), nan=np.inf)).max()) <= LARGEST:
                raise NothingFits
        return Node(text, found)

    # Expressions.

    def leaf(self, want: Shape) -> Node:
        """A known value, read with a wanted shape: the same one again, if that can be."""
        names = self.known()
        for _ in range(5):
            name = self.hub if self.chance(0.75) else self.one_of(names)
            text = readings(self.rng, name, np.shape(self.space[name]), want)
            # Products of the greatest and the least numbers are infinite in one order, and not in another.
            if text is not None and not (self.is_unbounded and "np.prod(" in text):
                return self.node(text)
        return self.node(self.argument(want))

    def beside(self, want: Shape, depth: int) -> Node:
        """The other operand: as large, or a number, a row or a column."""
        if self.chance(0.6) or not want:
            return self.expression(want, depth)
        if self.chance(0.35):
            return self.node(str(self.one_of([2, 3, 0.5, -1.5, 1, 0.25, 7, -1])))
        cut = self.one_of([want[-1:], (*want[:-1], 1), tuple(n if self.chance(0.5) else 1 for n in want), ()])
        return self.expression(cut, min(depth, 1))

    def expression(self, want: Shape, depth: int) -> Node:
        """Any expression of a shape."""
        from tests.fuzzing.operations import OPERATIONS, UNDIVIDED, WEIGHTS

        if depth <= 0 or self.chance(0.15):
            return self.leaf(want)
        for _ in range(4):
            operation = OPERATIONS[int(self.rng.choice(len(OPERATIONS), p=WEIGHTS))]
            if self.values == "tiny" and operation not in UNDIVIDED:
                continue
            try:
                return self.node(operation(self, want, depth))
            except NothingFits:
                continue
        return self.leaf(want)

    def floating(self, want: Shape, depth: int) -> str:
        """An expression of floats."""
        made = self.expression(want, depth)
        return made.text if made.kind == "f" else f"{made.text}.astype(np.float32)"

    def truth(self, want: Shape, depth: int) -> str:
        """A condition."""
        made = self.expression(want, depth)
        if made.kind == "b":
            return made.text
        sign = self.one_of(["<", ">", "<=", ">=", "==", "!="])
        other = "0" if self.chance(0.4) else self.beside(want, 0).text
        return f"({made.text} {sign} {other})"

    # Statements.

    def assign(self, text: str, name: str | None = None) -> str:
        """A line that gives a value a name."""
        with quiet():
            try:
                found = eval(text, self.space)
            except Exception:  # noqa: BLE001  (whatever NumPy refuses is not written)
                raise NothingFits from None
        name = name or f"v{len(self.program.lines)}"
        self.space[name] = found
        self.program.lines.append(f"{name} = {text}")
        return name

    def run(self, line: str, changed: str) -> None:
        """A line that changes a value in place."""
        before = np.array(self.space[changed])
        with quiet():
            try:
                exec(line, self.space)
            except Exception:  # noqa: BLE001  (whatever NumPy refuses is not written)
                raise NothingFits from None
        after = np.asarray(self.space[changed])
        if not self.is_unbounded and after.dtype.kind != "b":
            if not float(np.abs(np.nan_to_num(after.astype(np.float32), nan=np.inf)).max(initial=0)) <= LARGEST:
                self.space[changed][...] = before
                raise NothingFits
        self.program.lines.append(line)

    def statement(self) -> None:
        """One more line, or a few that belong together."""
        from tests.fuzzing.aimed import AIMED
        from tests.fuzzing.idioms import IDIOMS
        from tests.fuzzing.latest import LATEST
        from tests.fuzzing.newest import NEWEST
        from tests.fuzzing.outside import OUTSIDE
        from tests.fuzzing.rare import RARE
        from tests.fuzzing.recent import RECENT
        from tests.fuzzing.seldom import SELDOM
        from tests.fuzzing.strategies import STRATEGIES
        from tests.fuzzing.tip import TIP
        from tests.fuzzing.updates import update

        if self.only and not self.program.lines:
            every = (*IDIOMS, *OUTSIDE, *SELDOM, *RARE, *STRATEGIES, *AIMED, *RECENT, *NEWEST, *LATEST, *TIP)
            self.one_of([each for each in every if each.__name__ in self.only])(self)
        elif self.chance(0.15) and self.program.lines:
            update(self)
        elif self.chance(0.34) and self.values != "tiny":
            self.one_of(
                self.one_of([IDIOMS, OUTSIDE, SELDOM, STRATEGIES] * 2 + [RARE, AIMED, RECENT, NEWEST, LATEST, TIP])
            )(self)
        else:
            depth = int(self.rng.choice([1, 2, 3], p=[0.3, 0.5, 0.2]))
            made = self.expression(self.shape(), depth)
            self.assign(made.text)


Statement = Callable[[Grower], None]


def read_again(g: Grower) -> None:
    """The value in favour once more, three times in one expression."""
    x = g.hub
    forms = [f"{x} * {x} - {x}", f"np.maximum({x}, {x} * 0.5) + {x}", f"({x} + 1) * {x} * {x}"]
    try:
        g.assign(g.node(str(g.one_of(forms))).text)
    except NothingFits:
        return


def grow(seed: int, sizes: Sizes, setting: Setting, only: Sequence[str] = ()) -> Program:
    """A random program; what nothing else reads is returned, now and then more.

    only: names of statements, of which the program begins with one.
    """
    grower = Grower(seed, sizes, setting, only)
    wanted = int(grower.rng.integers(1, 4))
    tries = 0
    while len(grower.program.lines) < wanted and tries < 30:
        tries += 1
        try:
            grower.statement()
        except NothingFits:
            continue
        if grower.chance(0.25) and grower.program.lines:
            grower.hub = grower.one_of(grower.known()[-2:])
    program = grower.program
    if program.lines and not program.reuses() and grower.chance(0.3):
        read_again(grower)
    if not program.lines:
        grower.assign(f"{grower.hub} + {grower.hub}")
    made = list(dict.fromkeys(line.split(" = ")[0] for line in program.lines if line.split(" = ")[0] in grower.space))
    read = program.uses()
    leaves = [name for name in made if not read[name]] or made[-1:]
    extra = [name for name in made if name not in leaves and grower.chance(0.1)]
    program.returns = [name for name in made if name in leaves or name in extra]
    return program

"""What steps of random NumPy programs are made of: variables, and random choices among them.

A variable is `EXACT` (every way to compute it gives the same bits), `SAME` (NumPy's own function gives the same bits,
a decomposition need not) or `NEAR` (the order of a sum matters). Functions that jump, or that make errors larger, get
`EXACT` arguments alone, so that a difference is a mistake and not rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

EXACT, SAME, NEAR = 0, 1, 2
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(name) for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")]
DTYPES += [np.dtype(name) for name in ("float16", "float32", "float32", "float32", "float64")] + [BFLOAT16]
MANTISSA = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 24}
TOLERANCE = {"float16": 2e-2, "bfloat16": 0.1, "float32": 1e-4, "float64": 1e-4}


@dataclass(frozen=True)
class Sizes:
    """How large arrays are: the most elements, the extents of inputs and how likely each is."""

    largest: int
    extents: Sequence[int]
    weights: Sequence[float]


SMALL = Sizes(400, (0, 1, 2, 3, 5, 7), (3, 17, 25, 25, 20, 10))
LARGE = Sizes(
    40_000, (0, 1, 2, 3, 7, 33, 64, 127, 128, 129, 200, 257, 600), (1, 12, 12, 12, 11, 9, 7, 5, 8, 8, 6, 5, 4)
)
"""Extents beyond the 128 partitions of the hardware, multiples of it and not."""


@dataclass
class Var:
    """A variable: its present content, how exact it is, how large the numbers were that it is made of."""

    name: str
    array: np.ndarray
    level: int = EXACT
    scale: float = 0.0
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        self.scale = max(self.scale, magnitude(self.array))
        self.tolerance = max(self.tolerance, TOLERANCE.get(str(self.array.dtype), 0.0))

    @property
    def kind(self) -> str:
        """b, i, u or f."""
        return "f" if self.array.dtype == BFLOAT16 else self.array.dtype.kind


def magnitude(array: np.ndarray) -> float:
    """The greatest finite number, at least 1."""
    wide = np.abs(np.asarray(array).astype(np.float64))
    return float(np.max(wide, initial=1.0, where=np.isfinite(wide)))


@dataclass
class Step:
    """A line `name = expression`, or a statement that changes variables; what it reads, and how exact its result is."""

    text: str
    reads: Sequence[Var]
    level: int = EXACT
    scale: float = 0.0
    changes: Sequence[Var] = field(default_factory=tuple)


class NothingFits(Exception):
    """No variable fits what a step needs."""


class Choices:
    """Random choices that steps are made of."""

    def __init__(self, rng: np.random.Generator, variables: list[Var], largest: int = SMALL.largest) -> None:
        self.rng = rng
        self.variables = variables
        self.largest = largest

    def int(self, low: int, high: int) -> int:
        """low <= n <= high."""
        return int(self.rng.integers(low, high + 1))

    def flip(self, p: float = 0.5) -> bool:
        """True with probability p."""
        return bool(self.rng.random() < p)

    def one(self, items: Sequence[Any]) -> Any:
        """One of the items."""
        if not len(items):
            raise NothingFits
        return items[int(self.rng.integers(len(items)))]

    def var(self, kinds: str = "biuf", exact: bool = False, rank: int = 0) -> Var:
        """A variable, later ones more likely."""
        fit = [
            v for v in self.variables if v.kind in kinds and (not exact or v.level == EXACT) and v.array.ndim >= rank
        ]
        if not fit:
            raise NothingFits
        return fit[-1 - min(int(self.rng.exponential(3)), len(fit) - 1)]

    def ordered(self) -> Var:
        """A variable that NumPy can sort: bfloat16 with NaN it cannot."""
        x = self.var(exact=True)
        if x.array.dtype == BFLOAT16 and np.isnan(x.array.astype(np.float32)).any():
            raise NothingFits
        return x

    def axis(self, rank: int) -> int:
        """An axis, negative ones too."""
        return self.one(range(-rank, rank))

    def axes(self, rank: int) -> str:
        """What `axis=` of a reduction may be."""
        if not rank or self.flip(0.2):
            return "None"
        if self.flip(0.6):
            return str(self.axis(rank))
        some = [a - (rank if self.flip(0.3) else 0) for a in range(rank) if self.flip()]
        return str(tuple(some))

    def number(self, kind: str) -> str:
        """A Python number that an array of a kind takes."""
        if kind == "f":
            return self.one(["2", "0.5", "-1.0", "1.5", "3", "0", "-2", "np.float32(0.25)"])
        if kind == "b":
            return self.one(["True", "False", "1"])
        return self.one(["1", "2", "3", "7"] + (["-1", "-3"] if kind == "i" else []))

    def other(self, x: Var, exact: bool = False) -> Var | str:
        """Something that may broadcast with x: a variable, or a number."""
        fit = [v for v in self.variables if self.broadcasts(x.array, v.array) and (not exact or v.level == EXACT)]
        if self.flip(0.3) or not fit:
            return self.number(x.kind)
        return self.one(fit)

    def broadcasts(self, x: np.ndarray, y: np.ndarray) -> bool:
        """True when both broadcast to something that is not too large."""
        try:
            shape = np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            return False
        return math.prod(shape) <= self.largest


def named(x: Var | str) -> str:
    """How a step writes an operand."""
    return x if isinstance(x, str) else x.name


def of(*operands: Var | str) -> list[Var]:
    """The variables among operands."""
    return [x for x in operands if isinstance(x, Var)]


def worst(*operands: Var | str) -> float:
    """The product of how large operands are: what an error of one is multiplied with."""
    return math.prod(x.scale if isinstance(x, Var) else 8.0 for x in operands)

"""A random program: a NumPy function as text, its arguments as data, and what it is compiled for."""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import ml_dtypes
import numpy as np

import tilewright as tw
from tests.fuzzing.toys import Setting

NAMES: dict[str, Any] = {"np": np, "tw": tw, "bfloat16": ml_dtypes.bfloat16, "float8_e5m2": ml_dtypes.float8_e5m2}
SPECIAL = (np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-37, -3e-36, 3e38, -2e30, 1.0, 6e4)
ZEROS = (0.0, -0.0, 1.0, -2.0, 0.5)
TINY = (1e-40, -3e-39, 1e-45, 1e-38, 0.0, -0.0)


@dataclass(frozen=True)
class Spec:
    """An argument: `values` is "plain" (as a normal distribution), "whole" (small integers), "special", "zeros" (of
    either sign, and a few numbers) or "tiny".

    Tiny ones are no normal numbers: what divides by them is not defined to the last bit.
    """

    shape: tuple[int, ...]
    dtype: str
    values: str = "plain"

    def array(self, seed: int) -> np.ndarray:
        """The argument, the same for the same seed."""
        rng = np.random.default_rng(seed)
        kind = np.dtype(NAMES.get(self.dtype, self.dtype))
        if kind.kind == "b":
            return np.asarray(rng.integers(0, 2, self.shape)).astype(bool)
        if kind.kind in "iu":
            return np.asarray(rng.integers(0 if kind.kind == "u" else -9, 10, self.shape)).astype(kind)
        if self.values == "whole":
            return np.asarray(rng.integers(-4, 5, self.shape)).astype(kind)
        found = np.asarray(rng.standard_normal(self.shape, np.float32))
        if self.values == "special":
            found = np.where(rng.random(self.shape) < 0.12, rng.choice(SPECIAL, self.shape), found)
        if self.values == "zeros":
            found = np.asarray(rng.choice(ZEROS, self.shape))
        if self.values == "tiny":
            found = np.where(rng.random(self.shape) < 0.5, rng.choice(TINY, self.shape), found)
        with quiet():
            return np.asarray(found).astype(kind)


@dataclass
class Program:
    """A function of some lines; `returns` names what it gives back."""

    seed: int
    inputs: dict[str, Spec]
    lines: list[str]
    returns: list[str]
    setting: Setting = field(default_factory=lambda: Setting("trn2"))
    given: dict[str, np.ndarray] = field(default_factory=dict)
    """Arguments that are not made by the seed."""

    def source(self) -> str:
        """The function as text."""
        body = "".join(f"    {line}\n" for line in self.lines)
        given = ", ".join(self.returns)
        return f"def program({', '.join(self.inputs)}):\n{body}    return {given}\n"

    def function(self) -> Any:
        """The function itself."""
        space = dict(NAMES)
        exec(compile(self.source(), f"<program {self.seed}>", "exec"), space)
        return space["program"]

    def arrays(self) -> list[np.ndarray]:
        """What it is called with: each argument by the seed and its own name."""
        return [
            self.given[name].copy() if name in self.given else spec.array(self.seed + crc32(name.encode()))
            for name, spec in self.inputs.items()
        ]

    def __str__(self) -> str:
        given = ", ".join(f"{n}: {s.dtype}{list(s.shape)} {s.values}" for n, s in self.inputs.items())
        return f"# seed {self.seed}, {self.setting}\n# {given}\n{self.source()}"

    def uses(self) -> Counter[str]:
        """How often each variable is read."""
        names = {*self.inputs, *(line.split(" = ")[0] for line in self.lines)}
        return Counter(word for line in self.lines for word in read_names(line) if word in names)

    def reuses(self) -> bool:
        """True where some variable is read three times or more."""
        return max(self.uses().values(), default=0) >= 3


def read_names(line: str) -> Iterator[str]:
    """Names that a line reads, as often as it does."""
    for node in ast.walk(ast.parse(line)):
        if isinstance(node, ast.Name) and (isinstance(node.ctx, ast.Load) or "=" in re.split(r"\b\W*=", line)[0]):
            yield node.id


@contextmanager
def quiet() -> Iterator[None]:
    """NumPy's warnings are not ours."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield

"""What tests of bounds share: the bound of a NumPy function, without lowering it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.bounds.program import Bound, bound
from tilewright.front.function import trace
from tilewright.target import get_target
from tilewright.tensor.passes.pipeline import run


def spec(*shape: int, dtype: Any = np.float32) -> Any:
    """A described array."""
    return tw.spec(shape, dtype)


def bound_of(function: Callable[..., Any], *args: Any, target: str = "trn2", precision: str = "float32") -> Bound:
    """The bound of a function for described arguments."""
    traced = trace(function, list(args), {})
    graph = run(traced.graph, "simplify").graph
    return bound(graph, get_target(target), precision, traced.writes)


def tensor_us(columns: float, cycles: float, target: str = "trn2") -> float:
    """Time of so many columns of the Tensor engine."""
    return columns * cycles / get_target(target)["clock_ghz.tensor"] / 1e3

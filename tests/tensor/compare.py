"""What tests of passes share: arrays full of special numbers, and comparison of results bit by bit or in ulp."""

from __future__ import annotations

import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from tilewright.dtypes import DType
from tilewright.ir.core import Graph
from tilewright.ir.verify import verify
from tilewright.tensor.interpret import interpret
from tilewright.tensor.text import parse_tensor
from tilewright.tensor.types import TensorType

SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-30, 1e30, -3.0)


def sample(type: TensorType, rng: np.random.Generator, special: bool = True) -> np.ndarray:
    """An array of this type: random numbers, of floats every fourth one special."""
    dtype = type.dtype
    if dtype.kind == "b":
        return rng.integers(0, 2, type.shape).astype(np.bool_)
    if dtype.is_integer:
        low, high = int(dtype.min), int(dtype.max)
        near = rng.integers(max(low, -4), 5, type.shape)
        far = rng.integers(low, high, type.shape, dtype=dtype.np, endpoint=True)
        return np.where(rng.random(type.shape) < 0.7, near.astype(dtype.np), far).astype(dtype.np)
    numbers = rng.standard_normal(type.shape) * 3
    if special:
        numbers = np.where(rng.random(type.shape) < 0.25, rng.choice(SPECIAL, type.shape), numbers)
    with np.errstate(all="ignore"):
        return numbers.astype(dtype.np)


def inputs_of(graph: Graph, seed: int = 0, special: bool = True) -> list[np.ndarray]:
    """Arrays for a graph's inputs."""
    rng = np.random.default_rng(seed)
    return [sample(value.type, rng, special) for value in graph.inputs]


def as_wide(array: np.ndarray) -> np.ndarray:
    """An array in float64, or as it is where its elements are integers."""
    return array if array.dtype.kind in "biu" else array.astype(np.float64)


def assert_same(after: np.ndarray, before: np.ndarray, zeros: bool = True, note: str = "") -> None:
    """The same type, shape and numbers, NaN for NaN; with `zeros` also the signs of zeros."""
    assert after.dtype == before.dtype and after.shape == before.shape, note
    a, b = as_wide(after), as_wide(before)
    equal = (a == b) | ((a != a) & (b != b))
    if zeros and a.dtype.kind == "f":
        equal &= (np.signbit(a) == np.signbit(b)) | (a != a)
    assert equal.all(), f"{note}: {a[~equal][:5]} instead of {b[~equal][:5]}"


def ulps(got: np.ndarray, wanted: np.ndarray, dtype: DType, scale: np.ndarray | float = 0.0) -> np.ndarray:
    """The error in ulp of the wanted number, given in float64, or of `scale` where that is larger."""
    info = ml_dtypes.finfo(dtype.np)
    with np.errstate(all="ignore"):
        size = np.maximum(np.maximum(np.abs(wanted), scale), float(info.tiny))
        unit = np.ldexp(float(info.eps), np.frexp(np.minimum(size, float(info.max)))[1] - 1)
        wide, rounded = got.astype(np.float64), wanted.astype(dtype.np).astype(np.float64)
        same = (wide == rounded) | ((wide != wide) & (rounded != rounded))
        return np.where(same, 0.0, np.abs(wide - wanted) / unit)


def outputs(graph: Graph, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What a graph gives, which verifies and reads back from its text."""
    assert verify(graph) == []
    assert str(parse_tensor(str(graph))) == str(graph)
    return interpret(graph, arrays)

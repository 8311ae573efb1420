"""What tests of compute instructions share: kernels that run a body on tiles loaded from arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import pytest

from tests.kit import full_run, nisa, nl, np

bf16 = ml_dtypes.bfloat16
f8 = ml_dtypes.float8_e4m3

FLOATS = (np.float32, np.float16, bf16)
SHAPES = ((128, 64), (32, 7), (1, 1), (65, 3, 5), (128, 2, 3, 4))


def covers(kind: str, *rules: str) -> Callable[[Any], Any]:
    """Mark a test with several rules at once."""

    def mark(test: Any) -> Any:
        for rule in rules:
            test = pytest.mark.rule(rule, kind)(test)
        return test

    return mark


def loaded(array: Any, memory: Any = nl.sbuf) -> Any:
    """Inside a kernel: an on-chip copy of an argument."""
    made = nl.ndarray(array.shape, dtype=array.dtype, buffer=nl.sbuf)
    nisa.dma_copy(made, array)
    if memory is nl.sbuf:
        return made
    moved = nl.ndarray(array.shape, dtype=array.dtype, buffer=memory)
    nisa.tensor_copy(moved, made)
    return moved


def empty(like: Any, dtype: Any = None, memory: Any = nl.sbuf, shape: Any = None) -> Any:
    """Inside a kernel: an unwritten tile."""
    return nl.ndarray(shape or like.shape, dtype=dtype or like.dtype, buffer=memory)


def returned(made: Any) -> Any:
    """Inside a kernel: an HBM copy of a tile, to return."""
    if made.buffer is nl.psum:
        moved = nl.ndarray(made.shape, dtype=made.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(moved, made)
        made = moved
    out = nl.ndarray(made.shape, dtype=made.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, made)
    return out


def kernel_of(body: Callable[..., Any], memories: tuple[Any, ...] = ()) -> Callable[..., Any]:
    """A kernel that loads its arguments, runs the body on the tiles and returns the tiles it returns."""

    def kernel(*args: Any) -> Any:
        regions = memories or (nl.sbuf,) * len(args)
        made = body(*[loaded(each, region) for each, region in zip(args, regions, strict=True)])
        return tuple(returned(each) for each in made) if isinstance(made, tuple) else returned(made)

    return kernel


def on_tiles(body: Callable[..., Any], *arrays: np.ndarray, memories: tuple[Any, ...] = (), **options: Any) -> Any:
    """The result of a body on tiles loaded from arrays."""
    return full_run(kernel_of(body, memories), *arrays, **options).result


def codes(body: Callable[..., Any], *arrays: np.ndarray, memories: tuple[Any, ...] = (), **options: Any) -> list[str]:
    """Codes of the warnings that a body gives."""
    return [each.code for each in full_run(kernel_of(body, memories), *arrays, **options).diagnostics]


def randoms(*shape: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """Normal values, or small whole ones for integer dtypes."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        low = 0 if dtype.kind == "u" else -100
        return rng.integers(low, 100, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def wide(array: np.ndarray) -> np.ndarray:
    """Values in float64."""
    return array.astype(np.float32).astype(np.float64)

"""Kernels that apply one nl function to tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.kit import full_run, nl, np
from tilewright.errors import Diagnostic
from tilewright.nki.kernel import Run


def kernel_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that loads its arguments, applies the function and stores what comes out."""

    def kernel(*tensors: Any) -> Any:
        result = function(*[nl.load(tensor) for tensor in tensors])
        out = nl.ndarray(result.shape, result.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(result) if nl.is_psum(result.buffer) else result)
        return out

    return kernel


def apply(function: Callable[..., Any], *arrays: np.ndarray, **options: Any) -> np.ndarray:
    """The function of tiles that hold the arrays."""
    return full_run(kernel_of(function), *arrays, **options).result


def record(function: Callable[..., Any], *arrays: np.ndarray, **options: Any) -> Run:
    """The run of `apply`."""
    return full_run(kernel_of(function), *arrays, **options)


def without_result(function: Callable[..., Any]) -> Callable[..., None]:
    """A kernel that calls the function and returns nothing."""

    def kernel(*tensors: Any) -> None:
        function(*tensors)

    return kernel


def instructions(run: Run) -> list[str]:
    """What the kernel issued, in order, without its allocations."""
    return [op.name for op in run.session.graph.body.ops if op.name != "alloc"]


def hint_of(found: Diagnostic) -> str:
    """The hint of a diagnostic, which must have one."""
    assert found.hint
    return found.hint


def random(*shape: int, dtype: Any = np.float32, seed: int = 0, low: float = -4.0, high: float = 4.0) -> np.ndarray:
    """Uniform random numbers as `dtype`."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def wide(array: np.ndarray) -> np.ndarray:
    """The values in float64, for an oracle that does not round."""
    return np.asarray(array).astype(np.float64)

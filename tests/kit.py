"""What tests of kernels share: small kernels made from one call, and what it means that a rule accepts or rejects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.errors import Diagnostic, TileError
from tilewright.nki.kernel import Run, run_kernel

__all__ = ["accepts", "full_run", "nisa", "nki", "nl", "np", "rejects", "run", "tile"]


def run(kernel: Callable[..., Any], *arrays: Any, target: str = "trn2", profile: str = "strict", **options: Any) -> Any:
    """The result of a kernel function on the simulator."""
    return full_run(kernel, *arrays, target=target, profile=profile, **options).result


def full_run(
    kernel: Callable[..., Any], *arrays: Any, target: str = "trn2", profile: str = "strict", **options: Any
) -> Run:
    """The whole run of a kernel function."""
    return run_kernel(kernel, arrays or (np.zeros((1, 1), np.float32),), {}, target, profile, **options)


def accepts(
    kernel: Callable[..., Any], *arrays: Any, target: str = "trn2", profile: str = "strict", warns: str | None = None
) -> Any:
    """The kernel runs without any diagnostic but warnings of the rule `warns`; returns its result."""
    done = full_run(kernel, *arrays, target=target, profile=profile)
    others = [found for found in done.diagnostics if found.rule != warns or warns is None]
    assert not others, "\n".join(map(str, others))
    return done.result


def rejects(
    rule: str, kernel: Callable[..., Any], *arrays: Any, target: str = "trn2", profile: str = "strict"
) -> Diagnostic:
    """The kernel is refused for exactly this rule, on a line of this test, with a message; returns the diagnostic."""
    with pytest.raises(TileError) as caught:
        run(kernel, *arrays, target=target, profile=profile)
    found = caught.value.diagnostic
    assert found.rule == rule, f"expected {rule}, got:\n{found}"
    assert found.location is None or "/tilewright/" not in found.location.file.replace("\\", "/").split("/src/")[-1]
    assert found.message
    return found


def tile(shape: tuple[int, ...], dtype: Any = nl.float32, buffer: Any = nl.sbuf, value: Any = 0) -> Any:
    """Inside a kernel: a tile filled with a value, so that it may be read."""
    made = nl.ndarray(shape, dtype=dtype, buffer=buffer)
    nisa.memset(made, value=value)
    return made

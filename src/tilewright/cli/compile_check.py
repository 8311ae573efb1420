"""A compiled kernel against the NumPy function it was made of, on random arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.checking import worst_error
from tilewright.compiler import Compiled
from tilewright.front.pytree import map_leaves
from tilewright.spec import ArraySpec


def compared(kernel: Compiled, args: list[Any], kwargs: dict[str, Any]) -> tuple[str, bool]:
    """How a kernel's results differ from NumPy's, in words, and whether they are the same within rounding."""
    rng = np.random.default_rng(0)
    args, kwargs = map_leaves((args, kwargs), lambda _, x: _filled(x, rng))
    found, results = kernel.examine(*args, **kwargs)
    notes = "".join(f"; {note}" for note in found.notes)
    if found.problem is not None:
        return f"DIFFERS from {found.oracle} on random arrays: {found.problem}{notes}", False
    worst = worst_error(results, found.expected)
    agrees = f"agrees with {found.oracle} on random arrays; largest difference {worst:.1e} of the largest number"
    return f"{agrees}{notes}", True


def _filled(x: Any, rng: np.random.Generator) -> Any:
    """A random array in place of one that is described: normal floats, zeros and ones otherwise."""
    if not isinstance(x, ArraySpec):
        return x
    if x.dtype.is_float:
        return rng.standard_normal(x.shape).astype(x.dtype.np)
    return rng.integers(0, 2, x.shape).astype(x.dtype.np)

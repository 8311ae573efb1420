"""Random numbers of the legacy nl, and what kernels print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import as_dtype
from tilewright.nki.language import program as current_program
from tilewright.nki.language import random as current
from tilewright.nki.legacy.operands import tile_of
from tilewright.nki.legacy.produce import regions
from tilewright.nki.legacy.session import legacy_session
from tilewright.nki.legacy.tensor import LegacyTensor, adopt


def rand(shape: Sequence[int], dtype: Any = np.float32, **kwargs: Any) -> LegacyTensor:
    """A tile of random numbers, uniform between 0 and 1."""
    legacy_session("nl.rand")
    return adopt(current.rand(tuple(int(size) for size in shape), as_dtype(dtype)))


def random_seed(seed: Any, *, mask: Any = None, **kwargs: Any) -> None:
    """Seed the random numbers with a tile of one element."""
    legacy_session("nl.random_seed")
    tile = tile_of("random_seed", "seed", seed)
    if mask is not None and regions(mask, tile.shape) == []:
        return
    current.random_seed(tile)


def dropout(x: Any, rate: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> LegacyTensor:
    """x with elements set to 0 with probability `rate`."""
    from tilewright.nki.legacy.isa.compute import dropout as instruction

    return instruction(tile_of("dropout", "x", x), rate, dtype=dtype, mask=mask)


def device_print(prefix: str, x: Any, *, mask: Any = None, **kwargs: Any) -> None:
    """Print a tile as it is now."""
    session = legacy_session("nl.device_print")
    session.fill_all(x._view.buffer)
    current_program.device_print(prefix, x)

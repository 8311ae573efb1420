"""Random numbers: named, so that kernels that use them get an answer; the engines' generators are not simulated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors import TileError, TileNotImplementedError, fail
from tilewright.nki.context import require_session
from tilewright.nki.tensor import NkiTensor
from tilewright.tile.memory import SBUF


def _unsupported(api: str) -> TileError:
    require_session(f"nl.{api}")
    return fail(
        "E501",
        f"nl.{api} needs a random number generator of the engines, which this simulator does not have yet",
        hint="make the random numbers on the host and pass them to the kernel",
        error=TileNotImplementedError,
    )


def rand(shape: Sequence[int], dtype: object, buffer: Any = SBUF, name: str = "") -> NkiTensor:
    """A new tensor of random numbers, uniform between 0 and 1 (not simulated yet)."""
    raise _unsupported("rand")


def random_seed(seed: Any) -> None:
    """Seed the generator with the 32-bit value of a [1, 1] tile (not simulated yet)."""
    raise _unsupported("random_seed")


def dropout(x: Any, rate: Any, dtype: Any = None) -> NkiTensor:
    """x with elements set to 0 with probability `rate` (not simulated yet)."""
    raise _unsupported("dropout")


__all__ = ["dropout", "rand", "random_seed"]

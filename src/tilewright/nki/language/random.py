"""Random numbers of the Vector engine's generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.dtypes import uint32
from tilewright.nki.language.creation import ndarray
from tilewright.nki.language.issue import issue, new_tile
from tilewright.nki.language.operands import operand_of, result_dtype, tile_of
from tilewright.nki.tensor import NkiTensor
from tilewright.rules import violate
from tilewright.tile.memory import SBUF

# Bits of a random number that float32 holds exactly, so that no result rounds up to 1.
_KEPT_BITS = 24


def rand(shape: Sequence[int], dtype: object, buffer: Any = SBUF, name: str = "") -> NkiTensor:
    """A new tensor of random numbers, uniform in [0, 1)."""
    made = ndarray(shape, dtype, buffer, name)
    rows = made.shape if made._view.on_chip else (made.shape[0], made.size // made.shape[0])
    bits, high = new_tile(rows, uint32), new_tile(rows, uint32)
    issue("rng", bits)
    issue("tensor_scalar", high, bits, op0="right_shift", operand0=32 - _KEPT_BITS)
    tile = made if made._view.on_chip else new_tile(rows, made.dtype)
    issue("tensor_scalar", tile, high, op0="multiply", operand0=2.0**-_KEPT_BITS)
    if tile is not made:
        issue("dma_copy", made, tile)
    return made


def random_seed(seed: Any) -> None:
    """Seed the generator with the 32-bit value of a [1, 1] tile."""
    if not isinstance(seed, NkiTensor) or seed.shape != (1, 1) or not seed._view.on_chip or seed.dtype.itemsize != 4:
        what = f"a {seed.dtype} tile of shape {seed.shape}" if isinstance(seed, NkiTensor) else repr(seed)
        violate(
            "R-nl-15",
            f"nl.random_seed of {what}; the seed is a (1, 1) tile of 32-bit elements",
            hint="seed = nl.full((1, 1), 42, dtype=nl.int32)",
            final=True,
        )
    issue("set_rng_seed", seed)


def dropout(x: Any, rate: Any, dtype: Any = None) -> NkiTensor:
    """x with elements set to 0 with probability `rate`: a number, or a tile with one value per partition."""
    data = tile_of("dropout", "x", x)
    dropped = new_tile(data.shape, data.dtype)
    issue("dropout", dropped, data, operand_of("dropout", "rate", rate))
    wanted = result_dtype("dropout", dtype, data)
    if wanted == data.dtype:
        return dropped
    dst = new_tile(data.shape, wanted)
    issue("tensor_copy", dst, dropped)
    return dst


__all__ = ["dropout", "rand", "random_seed"]

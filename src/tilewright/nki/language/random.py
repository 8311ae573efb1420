"""Random numbers: new tensors of them, seeds, dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.dtypes import uint32
from tilewright.errors import TileTypeError
from tilewright.nki.context import require_session
from tilewright.nki.language.creation import hbm_parts, ndarray
from tilewright.nki.language.issue import issue, new_tile
from tilewright.nki.language.operands import operand_of, result_dtype, tile_of
from tilewright.nki.tensor import NkiTensor
from tilewright.rules import violate
from tilewright.tile.memory import SBUF


def rand(shape: Sequence[int], dtype: object, buffer: Any = SBUF, name: str = "") -> NkiTensor:
    """A new tensor of random numbers, uniform between 0 and 1."""
    made = ndarray(shape, dtype, buffer, name)
    if made._view.on_chip:
        _fill(made)
        return made
    for part in hbm_parts(made):
        tile = new_tile(part.shape, made.dtype)
        _fill(tile)
        issue("dma_copy", part, tile)
    return made


def _fill(tile: NkiTensor) -> None:
    if require_session("nl.rand").target["features.rand2"]:
        issue("rand2", tile, 0.0, 1.0)
        return
    # As many random bits as a float32 holds exactly, then scaled to [0, 1).
    bits = new_tile(tile.shape, uint32)
    issue("rng", bits)
    issue("tensor_scalar", bits, bits, 8, op0="right_shift")
    issue("tensor_scalar", tile, bits, 2.0**-24, op0="multiply")


def random_seed(seed: Any) -> None:
    """Seed the generator of the Vector engine with the 32-bit value of a [1, 1] tile."""
    require_session("nl.random_seed")
    if not isinstance(seed, NkiTensor) or seed.shape != (1, 1):
        what = f"a tensor of shape {seed.shape}" if isinstance(seed, NkiTensor) else repr(seed)
        violate(
            "R-nl-15",
            f"nl.random_seed of {what}; it takes a tile of shape (1, 1)",
            hint="nl.random_seed(nl.full((1, 1), 42, dtype=nl.int32))",
            final=True,
            error=TileTypeError,
        )
    issue("set_rng_seed", seed)


def dropout(x: Any, rate: Any, dtype: Any = None) -> NkiTensor:
    """x with elements set to 0 with probability `rate`, a number or a (partitions, 1) tile."""
    tile = tile_of("dropout", "x", x)
    dropped = new_tile(tile.shape, tile.dtype)
    issue("dropout", dropped, tile, operand_of("dropout", "rate", rate))
    wanted = result_dtype("dropout", dtype, tile)
    if wanted == tile.dtype:
        return dropped
    cast = new_tile(tile.shape, wanted)
    issue("tensor_copy", cast, dropped)
    return cast


__all__ = ["dropout", "rand", "random_seed"]

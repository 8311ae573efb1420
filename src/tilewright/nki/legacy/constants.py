"""neuronxcc.nki.language.constants: the sizes of nl.tile_size, and the size of an element."""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import as_dtype
from tilewright.errors import TileAttributeError, fail
from tilewright.nki.language.memory import tile_size


def sizeinbytes(dtype: Any) -> int:
    """The bytes of an element."""
    return as_dtype(dtype).itemsize


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return getattr(tile_size, name)
    except AttributeError:
        hint = "it has sizeinbytes, and what nl.tile_size has"
        raise fail("E114", f"nki.language.constants has no {name}", hint=hint, error=TileAttributeError) from None

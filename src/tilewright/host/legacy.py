"""neuronxcc.nki, the legacy dialect: a clear refusal instead of a kernel that half works."""

from __future__ import annotations

from typing import Any

from tilewright.errors import TileError, TileImportError, fail


def unsupported(name: str) -> TileError:
    """The error for anything of the legacy dialect but its annotations."""
    return fail(
        "E502",
        f"{name} belongs to the legacy dialect (SDK 2.26 and older), which is not supported yet",
        rule="R-jit-12",
        hint="port the kernel to the current dialect: import nki, nki.isa, nki.language; instructions take dst first",
        error=TileImportError,
    )


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise unsupported(f"neuronxcc.nki.{name}")

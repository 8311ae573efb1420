"""Files that a command writes: what cannot be written is the caller's mistake, told before a long run if possible."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tilewright.errors import TileError, fail
from tilewright.files import check_kept


def check_output(file: str, sources: Iterable[str] = ()) -> None:
    """E707 when a file of that name could not be made, or is one of the sources of what is to be written."""
    path = Path(file)
    check_kept(path, sources)
    if path.is_dir():
        raise _cannot_write(file, "Is a directory")
    if not path.parent.is_dir():
        raise _cannot_write(file, f"{path.parent} is not a directory")


def _cannot_write(file: str, reason: str) -> TileError:
    return fail("E707", f"cannot write {file}: {reason}", hint="give the name of a file in a directory that exists")

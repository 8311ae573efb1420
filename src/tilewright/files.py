"""Paths that users give, what they say when the system refuses to write there, and JSON that may hold anything."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilewright.errors import TileTypeError, fail


def as_path(given: str | os.PathLike[str], what: str) -> Path:
    """A path; E108 for what is none."""
    if isinstance(given, (str, os.PathLike)) and str(given) and "\0" not in str(given):
        return Path(given)
    hint = "give the path as a text, or a pathlib.Path"
    raise fail("E108", f"{what} is {given!r}, which is no path", hint=hint, error=TileTypeError)


def json_of(text: str | bytes) -> Any:
    """What JSON says; ValueError also for what is nested too deeply to be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_kept(place: Path, sources: Iterable[str | os.PathLike[str]]) -> None:
    """E707 where a file that is to be written is one of those that were read: what users wrote is not written over."""
    for source in sources:
        if place.exists() and Path(source).exists() and place.samefile(source):
            hint = "give another name, or another folder"
            raise fail("E707", f"cannot write {place}: it is what was read, and would be lost", hint=hint)


@contextmanager
def writing(place: str | os.PathLike[str]) -> Iterator[None]:
    """E707 when the system refuses what is written meanwhile."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        hint = "give a place that exists and may be written to"
        raise fail("E707", f"cannot write {place}: {error.strerror or type(error).__name__}", hint=hint) from None

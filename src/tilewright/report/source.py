"""Lines of the user's source, and the part of a line that a diagnostic is about."""

from __future__ import annotations

import linecache
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilewright.errors import Diagnostic, Location
from tilewright.report.parts import narrowed


def source_line(location: Location) -> str | None:
    """The text of a line without its newline, or None when the file cannot be read."""
    text = linecache.getline(location.file, location.line).rstrip()
    return text.expandtabs(1) or None


def shown_path(file: str) -> str:
    """The file as a person in the current directory would name it."""
    return _below(file, str(Path.cwd()))


@cache
def _below(file: str, here: str) -> str:
    path = Path(file)
    return str(path.relative_to(here)) if path.is_absolute() and path.is_relative_to(here) else file


def shown_paths(text: str) -> str:
    """A text with the files below the current directory named as a person there would."""
    return text.replace(f"{Path.cwd()}{os.sep}", "")


@dataclass(frozen=True, slots=True)
class Underlined:
    """A line of source and the part of it that a diagnostic is about: columns in characters from 0, `stop` excluded."""

    number: int
    text: str
    start: int
    stop: int


def underlined(diagnostic: Diagnostic) -> Underlined | None:
    """What a diagnostic is about, on the line where it begins: the whole line where nothing closer is known."""
    location = narrowed(diagnostic).location
    if location is None:
        return None
    span = location.part or location.span
    number = location.line if span is None else span.line
    text = source_line(Location(location.file, number))
    if text is None:
        return None
    if span is None:
        return Underlined(number, text, len(text) - len(text.lstrip()), len(text))
    # The parser counts columns in bytes.
    encoded = text.encode()
    stop = span.end_column if span.end_line == span.line else len(encoded)
    start, stop = (len(encoded[:column].decode(errors="replace")) for column in (span.column, stop))
    return Underlined(number, text, start, stop)

"""Lines of the user's source, and the part of a line that a diagnostic is about."""

from __future__ import annotations

import ast
import linecache
import os
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

from tilewright.errors import Diagnostic, Location

_SUBJECT = re.compile(r"^(?:nl\.|nisa\.)?(\w+)(?:\(\))?(?:: | got | takes | is | of | on | needs )")


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


def underlined(diagnostic: Diagnostic) -> tuple[str, int, int] | None:
    """(line, first column, last column + 1) of what a diagnostic is about.

    The call that the message begins with, when it starts on that line, else the whole line.
    """
    location = diagnostic.location
    if location is None or (line := source_line(location)) is None:
        return None
    start, stop = len(line) - len(line.lstrip()), len(line)
    subject = _SUBJECT.match(diagnostic.message)
    if subject is not None:
        calls = list(_calls(location.file, location.line, subject[1]))
        if calls:
            first, last = next((call for call in calls if call[0] == location.column), calls[0])
            # The parser counts columns in bytes.
            encoded = line.encode()
            return line, len(encoded[:first].decode()), stop if last is None else len(encoded[:last].decode())
    return line, start, stop


def _calls(file: str, line: int, name: str) -> Iterator[tuple[int, int | None]]:
    """Columns of the calls of `name` that begin on a line; the end is None when the call goes on below."""
    for node in _call_nodes(file):
        function = node.func
        called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
        if called == name and node.lineno == line:
            yield node.col_offset, node.end_col_offset if node.end_lineno == line else None


@lru_cache(maxsize=16)
def _call_nodes(file: str) -> tuple[ast.Call, ...]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.Call))

"""Diagnostics for the terminal: the finding, the user's line with the part underlined, the operands, a hint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from tilewright.errors import ERROR, Diagnostic, Location
from tilewright.report.parts import narrowed
from tilewright.report.source import shown_path, shown_paths, source_line, underlined

_STYLES = {"error": "bold red", "warning": "bold yellow"}
_FRAME = "blue"


def render(diagnostic: Diagnostic, targets: Sequence[str] = ()) -> Text:
    """A diagnostic as text; `targets` names those on which it was found when there are several."""
    tag = f"{diagnostic.code}, {diagnostic.rule}" if diagnostic.rule else diagnostic.code
    diagnostic = narrowed(diagnostic)
    text = Text()
    text.append(f"{diagnostic.severity}[{tag}]", _STYLES.get(diagnostic.severity, "bold"))
    text.append(f": {shown_paths(diagnostic.message)}", "bold")
    location = diagnostic.location
    gutter = " " * _width(location)
    if location is not None:
        text.append(f"\n{gutter[:-1]}--> ", _FRAME).append(f"{shown_path(location.file)}:{location.line}")
        _append_source(text, diagnostic, location)
    for operand in diagnostic.operands:
        text.append(f"\n{gutter}| ", _FRAME).append(shown_paths(operand.shown(location)))
    if targets:
        text.append(f"\n{gutter}= ", _FRAME).append(f"on: {', '.join(targets)}")
    for note in diagnostic.notes:
        text.append(f"\n{gutter}= ", _FRAME).append(f"note: {shown_paths(note)}")
    for birth in diagnostic.births:
        text.append(f"\n{gutter}= ", _FRAME).append("born", "magenta").append(f": {shown_paths(birth.told())}")
    if diagnostic.hint:
        text.append(f"\n{gutter}= ", _FRAME).append("hint", "green").append(f": {shown_paths(diagnostic.hint)}")
    return text


def _append_source(text: Text, diagnostic: Diagnostic, location: Location) -> None:
    found = underlined(diagnostic)
    if found is None:
        return
    gutter = " " * _width(location)
    text.append(f"\n{gutter}|", _FRAME)
    if found.number != location.line:
        # The argument at fault stands below the beginning of its call.
        _append_line(text, location.line, source_line(location) or "", gutter)
        if found.number > location.line + 1:
            text.append(f"\n{gutter}| ", _FRAME).append("...")
    _append_line(text, found.number, found.text, gutter)
    text.append(f"\n{gutter}| ", _FRAME)
    text.append(" " * found.start + "^" * max(1, found.stop - found.start), "bold red")


def _append_line(text: Text, number: int, line: str, gutter: str) -> None:
    text.append(f"\n{str(number).rjust(len(gutter) - 1)} | ", _FRAME).append(line)


def _width(location: Location | None) -> int:
    """How wide the column of line numbers is."""
    if location is None:
        return 3
    last = location.line if location.part is None else location.part.line
    return max(3, len(str(last)) + 1)


def summary(diagnostics: Iterable[Diagnostic]) -> str:
    """One line that counts errors and warnings."""
    found = list(diagnostics)
    errors = sum(each.severity == ERROR for each in found)
    warnings = len(found) - errors
    parts = [_count(number, word) for number, word in ((errors, "error"), (warnings, "warning")) if number]
    return " and ".join(parts) or "no diagnostics"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"

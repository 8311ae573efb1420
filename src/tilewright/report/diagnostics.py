"""Diagnostics for the terminal: the finding, the user's line with the part underlined, the operands, a hint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from tilewright.errors import ERROR, Diagnostic
from tilewright.report.source import shown_path, shown_paths, underlined

_STYLES = {"error": "bold red", "warning": "bold yellow"}
_FRAME = "blue"


def render(diagnostic: Diagnostic, targets: Sequence[str] = ()) -> Text:
    """A diagnostic as text; `targets` names those on which it was found when there are several."""
    tag = f"{diagnostic.code}, {diagnostic.rule}" if diagnostic.rule else diagnostic.code
    text = Text()
    text.append(f"{diagnostic.severity}[{tag}]", _STYLES.get(diagnostic.severity, "bold"))
    text.append(f": {diagnostic.message}", "bold")
    location = diagnostic.location
    gutter = " " * (3 if location is None else max(3, len(str(location.line)) + 1))
    if location is not None:
        text.append(f"\n{gutter[:-1]}--> ", _FRAME).append(f"{shown_path(location.file)}:{location.line}")
        _append_source(text, diagnostic, location.line, gutter)
    for operand in diagnostic.operands:
        text.append(f"\n{gutter}| ", _FRAME).append(str(operand))
    if targets:
        text.append(f"\n{gutter}= ", _FRAME).append(f"on: {', '.join(targets)}")
    for note in diagnostic.notes:
        text.append(f"\n{gutter}= ", _FRAME).append(f"note: {shown_paths(note)}")
    for birth in diagnostic.births:
        text.append(f"\n{gutter}= ", _FRAME).append("born", "magenta").append(f": {shown_paths(birth.told())}")
    if diagnostic.hint:
        text.append(f"\n{gutter}= ", _FRAME).append("hint", "green").append(f": {diagnostic.hint}")
    return text


def _append_source(text: Text, diagnostic: Diagnostic, number: int, gutter: str) -> None:
    found = underlined(diagnostic)
    if found is None:
        return
    line, start, stop = found
    text.append(f"\n{gutter}|\n{str(number).rjust(len(gutter) - 1)} | ", _FRAME).append(line)
    text.append(f"\n{gutter}| ", _FRAME).append(" " * start + "^" * max(1, stop - start), "bold red")


def summary(diagnostics: Iterable[Diagnostic]) -> str:
    """One line that counts errors and warnings."""
    found = list(diagnostics)
    errors = sum(each.severity == ERROR for each in found)
    warnings = len(found) - errors
    parts = [_count(number, word) for number, word in ((errors, "error"), (warnings, "warning")) if number]
    return " and ".join(parts) or "no diagnostics"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"

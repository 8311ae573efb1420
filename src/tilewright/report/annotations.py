"""Diagnostics as workflow commands of GitHub Actions, which show them beside the lines of a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import ERROR, Diagnostic
from tilewright.report.parts import narrowed
from tilewright.report.source import shown_path


def annotation(diagnostic: Diagnostic, targets: Sequence[str] = ()) -> str:
    """One line such as `::error file=k.py,line=3,col=5,endLine=3,endColumn=9,title=E104::the message`."""
    title = diagnostic.code if diagnostic.rule is None else f"{diagnostic.code} {diagnostic.rule}"
    fields: dict[str, object] = {}
    location = narrowed(diagnostic).location
    if location is not None:
        span = location.part or location.span
        fields = {"file": shown_path(location.file), "line": location.line}
        if span is not None:
            counted = span.to_dict(location.file)
            fields |= {"line": counted["line"], "endLine": counted["end_line"]}
            # GitHub takes columns of what is on one line only.
            if counted["line"] == counted["end_line"]:
                fields |= {"col": counted["column"], "endColumn": counted["end_column"]}
    said = [diagnostic.message, *diagnostic.notes]
    said += [f"on {', '.join(targets)}"] if targets else []
    said += [f"hint: {diagnostic.hint}"] if diagnostic.hint else []
    named = ",".join(f"{name}={_escaped(str(value), ':,')}" for name, value in {**fields, "title": title}.items())
    kind = "error" if diagnostic.severity == ERROR else "warning"
    return f"::{kind} {named}::{_escaped(chr(10).join(said))}"


def _escaped(text: str, more: str = "") -> str:
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text

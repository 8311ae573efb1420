"""Diagnostics as the language server protocol has them: of a text as it stands, and of a script that has been run."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lsprotocol.types import (
    Diagnostic,
    DiagnosticRelatedInformation,
    DiagnosticSeverity,
    Location,
    Position,
    Range,
)
from pygls.uris import from_fs_path
from pygls.workspace import PositionCodec

from tilewright.errors import TileError
from tilewright.nki.static import examine_source
from tilewright.report.parts import as_data

Found = Mapping[str, Any]
"""A diagnostic as `Diagnostic.to_dict` gives it."""

_SEVERITIES = {"error": DiagnosticSeverity.Error, "warning": DiagnosticSeverity.Warning}


def examine_text(text: str, file: str, profile: str) -> tuple[tuple[str, ...], list[Found]]:
    """The kernels of a text, and what its source alone decides. Nothing is run."""
    # Columns are counted in the text as it is typed, which is not the one that was saved.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    try:
        examined = examine_source(text, file, profile)
    except TileError as error:
        return (), [as_data(error.diagnostic)]
    return examined.kernels, [as_data(each) for each in examined.diagnostics]


def of_check(document: Mapping[str, Any] | None) -> list[Found]:
    """The findings in what `tilewright check --json` printed."""
    if document is None:
        return []
    found: list[Found] = list(document.get("diagnostics", []))
    for target in document.get("targets", {}).values():
        found += target["diagnostics"]
    return found


def shown(found: Iterable[Found], file: Path, lines: Sequence[str], codec: PositionCodec) -> list[Diagnostic]:
    """Those of one file, as an editor shows them."""
    made: list[Diagnostic] = []
    for each in found:
        place = each["location"]
        if place is not None and Path(place["file"]) != file:
            continue
        said = [each["message"], *each["notes"], *([f"hint: {each['hint']}"] if each["hint"] else [])]
        made.append(
            Diagnostic(
                range=span(place, lines, codec),
                message="\n".join(said),
                severity=_SEVERITIES.get(each["severity"], DiagnosticSeverity.Information),
                code=each["code"] if each["rule"] is None else f"{each['code']} {each['rule']}",
                source="tilewright",
                related_information=_related(each["births"], lines, codec) or None,
            )
        )
    return made


def _related(births: Iterable[Found], lines: Sequence[str], codec: PositionCodec) -> list[DiagnosticRelatedInformation]:
    return [
        DiagnosticRelatedInformation(
            Location(from_fs_path(birth["location"]["file"]) or "", span(birth["location"], lines, codec)),
            birth["message"],
        )
        for birth in births
        if birth["location"] is not None
    ]


def span(place: Mapping[str, Any] | None, lines: Sequence[str], codec: PositionCodec) -> Range:
    """A location in the client's units; the whole line where no columns are known."""
    if place is None:
        return Range(Position(0, 0), Position(0, 0))
    exact = place["part"] or place
    first: int = exact["line"] - 1
    text = lines[first].rstrip("\r\n") if first < len(lines) else ""
    if exact["column"] is None:
        start, end = len(text) - len(text.lstrip()), Position(first, len(text))
    else:
        start, end = exact["column"] - 1, Position(exact["end_line"] - 1, exact["end_column"] - 1)
    # A block would be underlined from end to end.
    if end.line != first:
        end = Position(first, len(text))
    return codec.range_to_client_units(lines, Range(Position(first, start), end))

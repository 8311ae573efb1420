"""Diagnostics as SARIF 2.1.0, the format that code-scanning services and editors read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tilewright.errors import ERROR, WARNING, Diagnostic, Location
from tilewright.report.parts import narrowed

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {ERROR: "error", WARNING: "warning"}

Found = tuple[Diagnostic, Sequence[str]]
"""A finding, and the targets that it was made on."""


def sarif(found: Sequence[Found], version: str, explained: Callable[[str], tuple[str, str]]) -> dict[str, object]:
    """The whole document: one run, its rules the codes that were found.

    explained: the title of a code and what it means.
    """
    codes = sorted({diagnostic.code for diagnostic, _ in found})
    driver = {
        "name": "tilewright",
        "version": version,
        "rules": [_rule(code, *explained(code)) for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"uri": f"{Path.cwd().as_uri()}/"}},
        "results": [_result(diagnostic, codes.index(diagnostic.code), targets) for diagnostic, targets in found],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str, title: str, text: str) -> dict[str, object]:
    return {
        "id": code,
        "shortDescription": {"text": title},
        "fullDescription": {"text": text},
        "help": {"text": f"{text}\n\nMore: tilewright explain {code}"},
    }


def _result(diagnostic: Diagnostic, index: int, targets: Sequence[str]) -> dict[str, object]:
    said = [diagnostic.message, *diagnostic.notes, *([f"hint: {diagnostic.hint}"] if diagnostic.hint else [])]
    made: dict[str, object] = {
        "ruleId": diagnostic.code,
        "ruleIndex": index,
        "level": _LEVELS.get(diagnostic.severity, "note"),
        "message": {"text": "\n".join(said)},
        "properties": {"rule": diagnostic.rule, "targets": list(targets), "phase": diagnostic.phase},
    }
    location = narrowed(diagnostic).location
    if location is not None:
        made["locations"] = [{"physicalLocation": _place(location)}]
    born = [birth for birth in diagnostic.births if birth.location is not None]
    if born:
        made["relatedLocations"] = [
            {"id": number, "message": {"text": birth.message}, "physicalLocation": _place(birth.location)}
            for number, birth in enumerate(born)
            if birth.location is not None
        ]
    return made


def _place(location: Location) -> dict[str, object]:
    span = location.part or location.span
    region: dict[str, object] = {"startLine": location.line}
    if span is not None:
        counted = span.to_dict(location.file)
        names = {"line": "startLine", "column": "startColumn", "end_line": "endLine", "end_column": "endColumn"}
        region = {names[name]: value for name, value in counted.items()}
    return {"artifactLocation": _artifact(location.file), "region": region}


def _artifact(file: str) -> dict[str, str]:
    """A file below the current folder by its path there, which is what services want; others as they are."""
    path = Path(file)
    if not path.is_absolute():
        return {"uri": file.replace(" ", "%20")}
    if path.is_relative_to(Path.cwd()):
        whole, base = path.as_uri(), Path.cwd().as_uri()
        return {"uri": whole.removeprefix(f"{base}/"), "uriBaseId": "SRCROOT"}
    return {"uri": path.as_uri()}

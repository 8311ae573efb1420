"""How `tilewright check` says what it found: as text, JSON, SARIF, or annotations of GitHub Actions."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import tilewright
from tilewright.catalogue import catalogue
from tilewright.cli.check_source import SOURCE
from tilewright.cli.common import Exit, err, show, show_diagnostic, show_json
from tilewright.cli.crash import report_internal_error
from tilewright.cli.findings import Findings
from tilewright.cli.script import ScriptEnd
from tilewright.errors import Diagnostic
from tilewright.report.annotations import annotation
from tilewright.report.diagnostics import summary
from tilewright.report.parts import as_data
from tilewright.report.sarif import sarif

TEXT, JSON, SARIF, GITHUB = FORMATS = ("text", "json", "sarif", "github")


def show_checked(checked: Sequence[Findings], form: str, shapes: bool) -> int:
    """Print what was found in one script on one or several targets, or in several; the exit code."""
    code = _exit_code(checked, shapes)
    scripts = list(dict.fromkeys(each.script for each in checked))
    if form == JSON:
        made = [_document(name, [each for each in checked if each.script == name], code) for name in scripts]
        show_json(made[0] if len(made) == 1 else {"exit_code": code, "scripts": made})
    elif form == SARIF:
        show_json(sarif(_merged(checked), tilewright.__version__, _explained))
        _show_ends(checked, shapes)
    else:
        several = len({each.target for each in checked}) > 1
        for diagnostic, where in _merged(checked):
            if form == GITHUB:
                print(annotation(diagnostic, where if several else ()))
            else:
                show_diagnostic(diagnostic, where if several else ())
        _show_ends(checked, shapes)
        for each in checked:
            _show_summary(each, shapes)
    return code


def _explained(code: str) -> tuple[str, str]:
    entry = catalogue()[code]
    return entry.title, entry.text


def _exit_code(checked: Sequence[Findings], shapes: bool) -> int:
    if any(each.end is not None and each.end.internal for each in checked):
        return Exit.INTERNAL
    if any(each.errors for each in checked):
        return Exit.KERNEL
    # Without arithmetic a script's own checks of the results cannot hold.
    own = any(each.end is not None and each.end.exit_code for each in checked)
    return Exit.KERNEL if own and not (shapes and all(each.kernels for each in checked)) else Exit.OK


def _show_summary(each: Findings, shapes: bool) -> None:
    kernels = f"{len(each.kernels)} kernel{'' if len(each.kernels) == 1 else 's'}"
    # A script that fails by itself says nothing about what it did not get to.
    failed = each.end is not None and each.end.error is not None and not (shapes and each.kernels)
    result = "the script failed" if failed and not each.diagnostics else summary(each.diagnostics)
    if each.end is not None and each.end.exit_code and not failed:
        result += f"; the script ended with exit code {each.end.exit_code}"
    by = "by the source alone" if each.target == SOURCE else f"for {each.target}"
    for name, said in each.verdicts.items():
        show(f"{name}: {said}")
    show(f"{each.script}: {kernels} checked {by}: {result}")


def _merged(checked: Sequence[Findings]) -> list[tuple[Diagnostic, tuple[str, ...]]]:
    """Findings that are equal on several targets, once, with those targets."""
    merged: dict[tuple[object, ...], tuple[Diagnostic, list[str]]] = {}
    for each in checked:
        for found in each.diagnostics:
            key = (found.code, found.rule, found.location)
            merged.setdefault(key, (found, []))[1].append(each.target)
    return [(found, tuple(targets)) for found, targets in merged.values()]


def _show_ends(checked: Sequence[Findings], shapes: bool) -> None:
    for each in checked:
        _show_end(each, shapes)


def _show_end(findings: Findings, shapes: bool) -> None:
    """Say what ended the script early, when something of its own did."""
    end = findings.end
    if end is None or end.error is None or end.fault is not None:
        if end is not None and end.fault is not None:
            err().print("The script ended there; what it would have done afterwards is not checked.", soft_wrap=True)
        return
    if end.internal:
        report_internal_error(end.error)
    elif findings.errors or shapes:
        kind = "results are not computed with --shapes" if shapes else "which may follow from the errors above"
        err().print(f"The script then ended with {type(end.error).__name__}: {end.error} ({kind}).", soft_wrap=True)
    else:
        sys.stderr.write(end.traceback())


def _document(script: str, checked: Sequence[Findings], code: int) -> dict[str, object]:
    return {
        "script": script,
        "exit_code": code,
        "targets": {
            each.target: {
                "kernels": each.kernels,
                "diagnostics": [as_data(found) for found in each.diagnostics],
                "error": _own_error(each.end),
            }
            for each in checked
        },
    }


def _own_error(end: ScriptEnd | None) -> str | None:
    return end.traceback() if end is not None and end.error is not None and end.fault is None else None

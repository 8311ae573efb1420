"""What the source of kernels alone decides: nothing of the user's is run.

Names are followed as far as one file shows them; what is not known is not reported.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tilewright.errors import UNREADABLE, Diagnostic, Location, unreadable
from tilewright.nki.constructs import first_findings, separator
from tilewright.nki.static.api_names import missing_names
from tilewright.nki.static.blocks import Walker
from tilewright.nki.static.names import CURRENT, LEGACY, Function, SourceNames
from tilewright.rules import Reporter


@dataclass(frozen=True, slots=True)
class Examined:
    """The kernels of a file, and what is wrong with them."""

    kernels: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]


def examine_source(source: str, file: str, profile: str = "strict") -> Examined:
    """All findings in the kernels of a file, and in the functions that they call."""
    try:
        tree = ast.parse(source, file)
    except UNREADABLE as error:
        raise unreadable("E205", "the file", file, error) from None
    names = SourceNames.of(tree)
    reporter = Reporter(profile, collect=True)
    legacy, current = names.kernels(LEGACY), names.kernels(CURRENT)
    for each in names.reached(legacy):
        missing_names(each, names, LEGACY, file, reporter)
        if isinstance(each, ast.FunctionDef):
            Walker(file, names, reporter, legacy, helper=each not in legacy).function(each)
    for each in names.reached(current):
        missing_names(each, names, CURRENT, file, reporter)
        _subset(each, each in current, names, file, reporter)
    found = sorted(reporter.diagnostics, key=lambda each: each.location.line if each.location is not None else 0)
    kernels = sorted([*legacy, *current], key=lambda each: each.lineno)
    return Examined(tuple(each.name for each in kernels), tuple(found))


def _subset(node: Function, kernel: bool, names: SourceNames, file: str, reporter: Reporter) -> None:
    """The rules about the compiler's part of Python."""
    found = [*first_findings(node, names)]
    if kernel and node.args.kwonlyargs and node.args.vararg is None:
        found.append(separator(node.name, min([node.lineno, *[each.lineno for each in node.decorator_list]])))
    for each in found:
        reporter.violate(each.rule, each.message, hint=each.hint, location=Location(file, each.line, each.span))


__all__ = ["Examined", "examine_source"]

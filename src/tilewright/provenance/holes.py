"""Tensors that were not written as a whole: which instructions wrote the rest, one of which was meant to do more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tilewright.errors import Diagnostic, Location
from tilewright.provenance.tape import Tape

RULES = ("R-tensor-08", "R-tensor-18")
"""What is used, and what is returned, has been written."""

_MOST_LINES = 3


def is_hole(diagnostic: Diagnostic) -> bool:
    """Whether a diagnostic is about elements that nobody wrote."""
    return diagnostic.rule in RULES and bool(diagnostic.births)


def with_writers(diagnostic: Diagnostic, tape: Tape) -> Diagnostic:
    """The diagnostic, each of its births telling who wrote other elements of its tensor."""
    return replace(diagnostic, births=[_told(birth, tape) for birth in diagnostic.births])


def _told(birth: Diagnostic, tape: Tape) -> Diagnostic:
    if birth.location is None:
        return birth
    lines = list(dict.fromkeys(_writers(birth.location, tape)))
    if not lines:
        return replace(birth, message=f"{birth.message}: nothing writes to it")
    some = " and ".join(lines[:_MOST_LINES]) + (f" and {len(lines) - _MOST_LINES} others" * (len(lines) > _MOST_LINES))
    return replace(birth, message=f"{birth.message}: the rest is by {some}")


def _writers(allocated: Location, tape: Tape) -> Iterable[str]:
    for step in tape.steps:
        for target in step.targets:
            view = None if target is None else target.view
            if view is not None and view.buffer.location == allocated:
                yield f"{step.op.name} at {step.op.location}"


def holes_told(diagnostics: Sequence[Diagnostic], tape: Tape) -> list[Diagnostic]:
    """The diagnostics, those about holes told who wrote around them."""
    return [with_writers(each, tape) if is_hole(each) else each for each in diagnostics]

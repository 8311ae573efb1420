"""An error is told where its bad value comes from: the kernel runs once more, watched, and the walk goes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace

import numpy as np

from tilewright.errors import Diagnostic, TileError
from tilewright.provenance.holes import holes_told, is_hole, with_writers
from tilewright.provenance.kinds import INFINITE, NAN, SENTINEL, UNWRITTEN
from tilewright.provenance.lineage import lineage
from tilewright.provenance.script import Made
from tilewright.provenance.tape import Found, Tape
from tilewright.provenance.tell import origin, told, too_narrow
from tilewright.provenance.walk import Birth, Walk
from tilewright.sim.bounds import OUT_OF_BOUNDS
from tilewright.sim.evidence import Evidence

Rerun = Callable[[Tape], object]
"""Runs the failed kernel once more on the arrays it had at first, every machine of it watched by the tape."""

Before = Callable[[Sequence[Birth], int | None], list[Birth]]
"""Births of what an argument brought along, in kernels that ran before."""

Outside = Callable[[Birth], Made | None]
"""Where a script made an argument that no kernel did."""

_explaining: ContextVar[bool] = ContextVar("tilewright_explaining", default=True)


@contextmanager
def unexplained() -> Iterator[None]:
    """Errors that are raised meanwhile are not looked into: somebody runs many variants, or is looking already."""
    token = _explaining.set(False)
    try:
        yield
    finally:
        _explaining.reset(token)


def is_explaining() -> bool:
    """Whether errors are looked into."""
    return _explaining.get()


def explained(
    diagnostics: Sequence[Diagnostic],
    evidence: Sequence[Evidence],
    rerun: Rerun,
    before: Before | None = None,
    outside: Outside | None = None,
) -> list[Diagnostic]:
    """The same diagnostics; those that the evidence is about tell the births of their values."""
    holes = any(map(is_hole, diagnostics))
    if not (evidence or holes) or not _explaining.get():
        return list(diagnostics)
    about = {(each.rule, each.location): each for each in reversed(evidence)}
    wanted = [(diagnostic.rule, diagnostic.location) in about for diagnostic in diagnostics]
    if not any(wanted) and not holes:
        return list(diagnostics)
    tape = _taped(rerun)
    diagnostics = holes_told(diagnostics, tape)
    return [
        _explained(diagnostic, about[diagnostic.rule or "", diagnostic.location], tape, before, outside)
        if is_wanted
        else diagnostic
        for diagnostic, is_wanted in zip(diagnostics, wanted, strict=True)
    ]


def explain_error(error: TileError, rerun: Rerun, before: Before | None = None) -> None:
    """Tell an error where its bad index comes from, or what it lacks. Nothing of the run that raised it is needed."""
    hole = is_hole(error.diagnostic)
    if not (hole or error.diagnostic.rule == OUT_OF_BOUNDS) or not is_explaining():
        return
    tape = _taped(rerun)
    if hole:
        error.tell(with_writers(error.diagnostic, tape))
    evidence = [found.evidence for found in tape.found if found.evidence is not None]
    if evidence:
        error.tell(_explained(error.diagnostic, evidence[-1], tape, before))


def _taped(rerun: Rerun) -> Tape:
    tape = Tape()
    # The failure that is looked into comes again.
    with unexplained(), suppress(TileError):
        rerun(tape)
    return tape


def _explained(
    diagnostic: Diagnostic, evidence: Evidence, tape: Tape, before: Before | None, outside: Outside | None = None
) -> Diagnostic:
    found = next((each for each in tape.found if _same(each.evidence, evidence)), None)
    if found is None:
        note = "where the value comes from is not known: the kernel did not do the same when it ran again"
        return replace(diagnostic, notes=(*diagnostic.notes, note))
    births = Walk(tape, evidence.limit).run(found)
    if before is not None:
        births = before([birth for birth in births if birth.is_given], evidence.limit) + births
    if not births:
        return _with_lineage(diagnostic, tape, found)
    made = outside(births[0]) if births[0].is_given and outside is not None else None
    return with_births(diagnostic, births, evidence.limit is not None, made)


def _with_lineage(diagnostic: Diagnostic, tape: Tape, found: Found) -> Diagnostic:
    """The diagnostic of a value that is a number like others: the instructions that made it."""
    if not found.cells:
        return diagnostic
    cells, bad = found.cells[0]
    position = 0 if bad is None or not bad.any() else int(np.flatnonzero(bad)[0])
    told = f"it comes from {lineage(tape, cells, position, found.before)}"
    return replace(diagnostic, notes=(*diagnostic.notes, told))


def _same(one: Evidence | None, other: Evidence) -> bool:
    return one is not None and (one.rule, one.location, one.core, one.clock) == (
        other.rule,
        other.location,
        other.core,
        other.clock,
    )


def with_births(
    diagnostic: Diagnostic, births: Sequence[Birth], is_index: bool = True, made: Made | None = None
) -> Diagnostic:
    """The diagnostic of a bad value with its births, which message and hint say too.

    made: the line of the script that made the argument with which it came.
    """
    if not births:
        return diagnostic
    first, last = births[0], births[-1]
    message = f"{diagnostic.message}: it comes from {origin(last)}"
    if first is not last:
        message += f", born in {origin(first)}"
    line = first.step.op.location if first.step is not None else None
    if line is not None:
        message += f", line {line.line}"
    every = [told(birth, diagnostic.code, diagnostic.rule) for birth in births]
    hint = _hint(births, diagnostic.hint, is_index)
    if made is not None:
        message += f", made in line {made.location.line}: {made.text}"
        script = f"{every[0].message}, made by the script: {made.history}"
        every[0] = replace(every[0], message=script, location=made.location)
        hint = f"mend how {made.name} is made (line {made.location.line})" + (f", or {hint}" if hint else "")
    return replace(diagnostic, message=message, hint=hint, births=every)


def _hint(births: Sequence[Birth], hint: str | None, is_index: bool) -> str | None:
    """What to mend. Clamping an index that means nothing would hide that it means nothing."""
    kinds = {birth.kind for birth in births}
    if UNWRITTEN in kinds:
        return f"write the whole tile first: the {'index' if is_index else 'value'} is whatever the memory held"
    if kinds & {NAN, INFINITE}:
        mend = f"mend what is born first ({origin(births[0])})"
        return f"{mend}: the index is meaningless, another one would be too" if is_index else mend
    if SENTINEL in kinds:
        return "find out why the value is not found: the index says so, and stands for no row"
    narrow = too_narrow(births[0])
    if narrow:
        return f"store it in an element type that holds it: {narrow}"
    return hint

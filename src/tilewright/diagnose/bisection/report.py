"""The report of a bisection, in Markdown: what fails, what was tried, what it depends on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tilewright.diagnose.bisection.case import Case
from tilewright.diagnose.bisection.dependence import other_rows
from tilewright.diagnose.bisection.outcome import Outcome, outcome_of
from tilewright.diagnose.bisection.rounding import first_departure, rounded_steps
from tilewright.diagnose.bisection.variants import ZERO, Variant, instructions_of
from tilewright.diagnose.carried import carried
from tilewright.report.source import shown_paths
from tilewright.sim.unread import dead_lines

if TYPE_CHECKING:
    from tilewright.diagnose.bisection.search import Bisection

_MOST_LINES = 12
_MOST_EARLIER = 3


def report_of(found: Bisection, case: Case, smallest: Variant, reference: Callable[..., Any] | None = None) -> str:
    """The report: what fails, what was tried, what it depends on. reference: what a user says the results should be."""
    parts = [
        f"# Bisection of {case.variant.graph.name}",
        _conclusion(found, case),
        "## Configurations",
        _configurations(found, case),
        "## Variants",
        _variants(found),
        "## What was tried",
        _tried(found),
        "## Key evidence",
        "\n".join(f"- {line}" for line in _evidence(found, case, smallest, reference)),
        "## The kernel" if case.told else "## Smallest kernel",
        f"{smallest.instructions} instructions; `python reproduce.py` beside this file runs it{_unknown(case)}.",
        *[f"```\n{kernel}\n```" for kernel in found.kernels],
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _unknown(case: Case) -> str:
    return ", and does not know what would be right" if case.told else ""


def _conclusion(found: Bisection, case: Case) -> str:
    what = f"It fails: {found.looked_for}."
    if case.told:
        depends = "Nothing was tried: **what it computes is wrong, or what it was handed**. What would be right of it "
        depends += "nothing tells; a reference of this kernel does."
    elif found.axis == "inputs":
        names = " and ".join(f"`{name}`" for name in found.inputs) or "its inputs together"
        depends = f"**The failure depends on the values of {names}**, and not on how many instructions the kernel has."
    elif found.axis == "context":
        depends = f"**The failure depends on the context**: {', '.join(found.context)} must run before."
    elif found.axis == "unknown":
        depends = "The budget ended before it was known what the failure depends on: allow more seconds or calls."
    elif found.axis == "placement":
        depends = (
            f"**The failure depends on the placement**: it is there when at least {found.placement} bytes of other "
            "tensors lie before those of the kernel in HBM."
        )
    else:
        depends = "**The failure depends on the kernel**, and not on special values of its inputs."
    blamed = f" Kernel {case.blamed}." if case.blamed else ""
    return f"{what}{blamed} {depends}"


def _configurations(found: Bisection, case: Case) -> str:
    rows = ["| configuration | result |", "| --- | --- |"]
    if case.before:
        rows.append(f"| after {len(case.before)} other kernels | FAIL |")
        rows.append(f"| alone, on the same arrays | {'PASS' if found.axis == 'context' else 'FAIL'} |")
        where = "alone, its tensors at the start of HBM"
        rows.append(f"| {where} | {'PASS' if found.axis in ('context', 'placement') else 'FAIL'} |")
    else:
        rows.append("| alone | FAIL |")
    return "\n".join(rows)


def _variants(found: Bisection) -> str:
    """The sizes between which the verdict changes: the smallest that fail, the largest that pass."""
    head = ["| variant | nc_matmul | on-chip tensors | instructions | result |", "| --- | --- | --- | --- | --- |"]
    rows: dict[tuple[int, int, int, str], str] = {}
    for what, matmuls, buffers, count, verdict in found.tried:
        rows.setdefault((matmuls, buffers, count, verdict), what)
    chosen = sorted(rows, key=lambda row: row[2])
    failing, passing = [row for row in chosen if row[3] == "FAIL"], [row for row in chosen if row[3] == "PASS"]
    shown = [*passing[:1], *passing[-2:], *failing[:1], *failing[-1:]]
    lines = [f"| {rows[row]} | {row[0]} | {row[1]} | {row[2]} | {row[3]} |" for row in dict.fromkeys(shown)]
    return "\n".join(head + lines)


def _tried(found: Bisection) -> str:
    known = f", {found.resumed} verdicts are from before" if found.resumed else ""
    end = "complete" if found.complete else "ended by its budget: a smaller case may exist"
    lines = [f"{found.calls} tries{known}; {end}."]
    told = ("alone", "after", "tensors from byte")
    named = [row for row in found.tried if "plain" in row[0] or row[0].startswith(told)]
    if named:
        lines += [
            "",
            "| change | result |",
            "| --- | --- |",
            *[f"| {row[0]} | {row[4]} |" for row in dict.fromkeys(named)],
        ]
    return "\n".join(lines)


def _said(found: Outcome) -> Iterator[str]:
    """What a kernel is refused or warned for."""
    for each in ([found.error.diagnostic] if found.error is not None else []) + list(found.warnings):
        yield f"{each.code}{f', {each.rule}' if each.rule else ''}: {each.message} ({each.location})"
        yield from each.notes


def _whatever(found: Bisection) -> Iterator[str]:
    """The inputs with other values of which the failure stays."""
    stays = [
        row[0].partition(",")[0] for row in found.tried if row[0].endswith("all else as it is") and row[4] == "FAIL"
    ]
    if stays:
        yield f"The failure stays with other inputs, one at a time: {', '.join(dict.fromkeys(stays))}."


def _beside(whole: Variant, reference: Callable[..., Any]) -> Iterator[str]:
    """What may be to blame for results that a reference does not have."""
    yield from other_rows(whole, reference)
    yield from _left_over(whole)


def _left_over(whole: Variant) -> Iterator[str]:
    """Results that nobody reads, and tiles that stay over turns of a loop."""
    yield from (f"{each.message} ({each.location})" for each in dead_lines(whole.graph.ops))
    yield from carried(whole.graph.ops)


def _evidence(found: Bisection, case: Case, smallest: Variant, reference: Callable[..., Any] | None) -> list[str]:
    whole = case.variant
    lines: list[str] = [shown_paths(each) for each in case.told]
    lines += [shown_paths(each) for each in _left_over(whole)] if case.told else []
    for name, places in found.inputs.items():
        number = case.names.index(name)
        original = whole.arrays[number]
        some = ", ".join(f"{list(place)} = {original[place]:.6g}" for place in places[:3])
        kept = f"{whole.count('nc_matmul')} matmuls and {whole.instructions} instructions kept"
        if found.axis != "kernel":
            lines.append(f"Changing `{name}` alone flips the result, all {kept}.")
        lines.append(f"{len(places)} of {original.size} elements of `{name}` are enough: {some}.")
        if found.axis == "inputs" and places:
            lines += [f"{shown_paths(each)}." for each in case.brought(name, places[0])]
    for name, (passing, failing) in found.edges.items():
        lines.append(f"With {failing:.6g} for that element of `{name}` it fails, with {passing:.6g} it does not.")
    if found.axis == "kernel":
        lines += _whatever(found)
    seen = outcome_of(smallest)
    lines += [shown_paths(line) for line in dict.fromkeys((*_said(outcome_of(whole)), *_said(seen)))]
    for birth in seen.births.values():
        lines.append(f"{birth.message} ({shown_paths(str(birth.location))}): {'; '.join(birth.notes[1:])}")
    lines += [f"Of the error that was seen: {shown_paths(birth.told())}" for birth in case.births]
    for each in case.earlier[:_MOST_EARLIER]:
        lines.append(f"Before it something was wrong already: {shown_paths(f'{each.message} ({each.location})')}")
    # The smallest case may be off by next to nothing.
    lost = first_departure(whole) if case.reference is not None else None
    lines += [shown_paths(each) for each in (*([lost] if lost else []), *rounded_steps(smallest))]
    lines += [] if reference is None else [shown_paths(each) for each in _beside(whole, reference)]
    every = [op for graph in found.kernels for op in instructions_of(graph)]
    kept = [op for op in every if op.location is not None and op.definition is not ZERO]
    left = dict.fromkeys(f"`{op.name}` at {shown_paths(str(op.location))}" for op in kept)
    return lines + list(left)[:_MOST_LINES]

"""What `tilewright compile` prints: figures of the kernel, and on demand the plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tilewright.compiler import Compiled
from tilewright.lower.plan.plan import Plan, PlannedStep
from tilewright.lower.plan.plan_text import step_lines
from tilewright.report.resources import Report
from tilewright.report.source import shown_path
from tilewright.units import bytes_text, us_text


def summary(kernel: Compiled, files: Sequence[Path], checked: str | None) -> RenderableType:
    """A kernel in a few lines: time, limit, traffic, instructions, memory, where its files are."""
    report = kernel.report
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for name, text in (*_figures(report, kernel.plan), *_notes(kernel, checked)):
        table.add_row(name, text)
    for at, file in enumerate(files):
        table.add_row("" if at else "files", shown_path(str(file)))
    title = Text.assemble((report.kernel, "bold"), f" for {report.target}: ", (us_text(report.latency_us), "bold"))
    title.append(f" ± {report.error_bar:.0%}, {report.latency_us / report.roofline_us:.2f} times the least possible")
    return Group(title, table)


def _figures(report: Report, plan: Plan) -> Iterable[tuple[str, str]]:
    engines = ", ".join(f"{name} {count}" for name, count in report.instructions_by_engine.items())
    peak, share = us_text(report.peak_roofline_us), plan.sbuf_bytes / plan.sbuf_capacity
    yield "roofline", f"{us_text(report.roofline_us)}, bound by {report.binding}; at peak rates without launch {peak}"
    yield "HBM", _traffic(report)
    yield "instructions", f"{report.instructions} ({engines})"
    used = f"{report.sbuf_peak_bytes} in use at once"
    yield "SBUF", f"{plan.sbuf_bytes} of {plan.sbuf_capacity} bytes per partition ({share:.0%}), {used}"
    yield "PSUM", f"{plan.psum_banks} of {plan.psum_capacity} banks, {report.psum_peak_banks} in use at once"


def _traffic(report: Report) -> str:
    moved, least = bytes_text(report.hbm_bytes), bytes_text(report.compulsory_bytes)
    if not report.compulsory_bytes:
        return f"{moved}; nothing has to be moved"
    return f"{moved}, {report.hbm_bytes / report.compulsory_bytes:.2f} times the compulsory {least}"


def _notes(kernel: Compiled, checked: str | None) -> Iterable[tuple[str, str]]:
    if kernel.notes:
        yield from (("note", note) for note in kernel.notes)
    if kernel.narrowed:
        places = len(kernel.narrowed)
        yield "narrowed", f"{places} place{'s' * (places > 1)} where 64-bit numbers are computed in 32 bits"
    if checked is not None:
        yield "checked", checked


def plan_tables(plan: Plan) -> RenderableType:
    """A plan as tables: the steps and what they take, what each decided, and the values that several touch."""
    parts: list[RenderableType] = [Text("plan", "bold"), _overview(plan)]
    if plan.given_up is not None:
        parts.append(Text(f"a first plan was given up: with values on chip the kernel {plan.given_up}"))
    for step in plan.steps:
        head, *lines = step_lines(step)
        parts += [Text(), Text(head, "bold"), *(Text(line) for line in lines)]
    if plan.residents:
        parts += [Text(), Text("values that several steps touch", "bold"), _residents(plan)]
    return Group(*parts)


def _overview(plan: Plan) -> Table:
    table = _table("step", "ops", "trips", "HBM", "SBUF", "PSUM", "executed", "busiest")
    for step in plan.steps:
        names = _few(list(dict.fromkeys(op.name for op in step.ops)), 5) or step.why
        loops = " x ".join(str(loop.trips) for loop in step.loops if loop.trips > 1) or "1"
        numbers = (bytes_text(step.hbm_bytes), f"{step.sbuf_bytes} B", str(step.psum_banks), str(step.instructions))
        table.add_row(str(step.number), names, loops, *numbers, _busiest(step))
    table.add_section()
    total = sum(step.hbm_bytes for step in plan.steps)
    peak = f"{plan.sbuf_bytes} B"
    counted = str(sum(step.instructions for step in plan.steps))
    table.add_row("all", "", "", bytes_text(total), peak, str(plan.psum_banks), counted, "")
    return table


def _busiest(step: PlannedStep) -> str:
    if not step.engine_us:
        return "-"
    engine = max(step.engine_us, key=lambda name: step.engine_us[name])
    return f"{engine} {us_text(step.engine_us[engine])}"


def _few(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _residents(plan: Plan) -> Table:
    table = _table("value", "type", "lives in", "steps", "per partition", "read", "reuse", "why")
    for each in plan.residents:
        steps = f"{each.first} to {each.last}"
        table.add_row(
            each.value, each.type, each.place, steps, f"{each.bytes} B", f"{each.reads}x", f"{each.reuse:.0f}", each.why
        )
    return table


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title)
    return table

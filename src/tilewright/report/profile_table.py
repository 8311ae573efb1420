"""A profile for the terminal: latency and its limit, engines, the critical path, warnings; several side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tilewright.errors import Location
from tilewright.report.diagnostics import render
from tilewright.report.resources import Report
from tilewright.report.source import shown_path, source_line
from tilewright.units import bytes_text, us_text

_MOST_STEPS = 8
_BAR = 20


def profile_table(report: Report) -> RenderableType:
    """All of a profile that fits a screen."""
    parts: list[RenderableType] = [_headline(report), Text(), _engines(report), Text(), _path(report)]
    chosen = _choices(report)
    if chosen is not None:
        parts += [Text(), chosen]
    if report.removable:
        parts += [Text(), _removable(report)]
    if report.spills:
        parts += [Text(), Text("spills", "bold"), _spills(report)]
    for each in report.advice:
        parts += [Text(), render(each)]
    return Group(*parts)


def _headline(report: Report) -> Text:
    timing = report.timing
    cores = "" if report.cores == 1 else f", {report.cores} cores"
    order = "" if timing.order == "scheduled" else f", {timing.order} order"
    pins = f", pinned {', '.join(timing.pins)}" if timing.pins else ""
    share = timing.roofline_us / timing.latency_us
    bound = (
        f"the {timing.binding} bound of {us_text(timing.roofline_us)} is {share:.0%} of that; "
        f"peak rates without launch {us_text(timing.peak_roofline_us)}"
    )
    return Text.assemble(
        (report.kernel, "bold"),
        f" on {report.target}{cores}{order}{pins}: ",
        (us_text(timing.latency_us), "bold"),
        f" ± {timing.error_bar:.0%}, of which launch {us_text(timing.launch_us)}\n",
        f"{bound}\n",
        f"{report.instructions} instructions, {report.dma_transfers} transfers, {timing.dma_efficiency:.0f} bytes per "
        f"descriptor; HBM {bytes_text(report.hbm_bytes)} ({bytes_text(timing.compulsory_bytes)} compulsory) at "
        f"{timing.hbm_bandwidth:.0f} GB/s, {timing.hbm_bandwidth_use:.0%} of peak; MFU {timing.mfu:.1%}",
    )


def _engines(report: Report) -> Table:
    timing = report.timing
    table = _table(("engine", "left"), ("executed", "right"), ("busy", "right"), ("", "left"), ("", "right"))
    names = sorted(timing.engine_busy_us, key=lambda name: -timing.engine_busy_us[name])
    for name in names:
        used = timing.utilisation[name]
        bar = Text("━" * round(min(1.0, used) * _BAR), "cyan" if name != timing.binding else "magenta")
        count = report.instructions_by_engine.get(name, 0)
        table.add_row(name, str(count), us_text(timing.engine_busy_us[name]), bar, f"{used:.0%}")
    return table


def _path(report: Report) -> Table:
    steps = report.timing.critical_path
    shown = steps[:_MOST_STEPS]
    # On a narrow terminal the source gives way first, then what was waited for; what was run and where stays whole.
    width = max((len(_where(step.line)) for step in shown), default=0)
    table = _table(("critical path", "right"), ("instruction", "left"))
    table.columns[0].min_width = len("critical path")
    table.columns[1].min_width = max((len(step.instruction) for step in shown), default=0)
    table.add_column("line", no_wrap=True, min_width=width)
    table.add_column("waited for", no_wrap=True)
    table.add_column("")
    for step in shown:
        code = source_line(step.line) if step.line is not None else None
        table.add_row(f"{step.share:.1%}", step.instruction, _where(step.line), step.waited_for, _code(code))
    rest = steps[_MOST_STEPS:]
    if rest:
        table.add_row(f"{sum(step.share for step in rest):.1%}", f"{len(rest)} more", "", "", "")
    return table


def _code(line: str | None) -> Text:
    """A line of source, cut off where the terminal ends."""
    return Text((line or "").strip(), "dim", no_wrap=True, overflow="ellipsis")


def _choices(report: Report) -> Text | None:
    """What the timing assumed where the kernel leaves it open, in a few words."""
    found: dict[tuple[str, str, str], list[Location | None]] = {}
    for choice in report.timing.choices:
        found.setdefault((choice.instruction, choice.what, choice.chosen), []).append(choice.line)
    if not found:
        return None
    words = [
        f"{name} {'on' if what == 'engine' else 'by'} {chosen}{_lines(lines)}"
        for (name, what, chosen), lines in found.items()
    ]
    return Text.assemble(("where the kernel leaves it open", "bold"), f": {', '.join(words)}")


def _removable(report: Report) -> RenderableType:
    """What the compiler may leave out, and the latency without it."""
    counts = report.latency_us == report.latency_if_merged_us
    title = Text.assemble(
        ("what the compiler may leave out", "bold"),
        ": as written ",
        (us_text(report.latency_as_written_us), "bold"),
        ", without it ",
        (us_text(report.latency_if_merged_us), "bold"),
        f"; the latency above is that {'without it' if counts else 'as written'}",
    )
    table = Table(box=None, pad_edge=False, show_header=False)
    for each in report.removable[:_MOST_STEPS]:
        table.add_row(
            f"{each.executed} x {each.instruction}",
            each.what,
            _where(each.line),
            bytes_text(each.bytes),
            "" if each.other is None else f"because of {_where(each.other)}",
        )
    return Group(title, table)


def _spills(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for spill in report.spills:
        what = f"{spill.dtype}{list(spill.shape)}"
        table.add_row(
            f"{spill.count} x {spill.name}",
            what,
            spill.location or "",
            f"{bytes_text(spill.traffic_bytes)}, {us_text(spill.us)}"
            if spill.traffic_bytes
            else "loaded later instead",
        )
    return table


Row = tuple[str, Callable[[Report], str]]
_ROWS: tuple[Row, ...] = (
    ("latency", lambda report: f"{us_text(report.latency_us)} ± {report.error_bar:.0%}"),
    ("as written", lambda report: us_text(report.latency_as_written_us) if report.removable else "the same"),
    ("if merged", lambda report: us_text(report.latency_if_merged_us) if report.removable else "the same"),
    ("roofline", lambda report: f"{us_text(report.roofline_us)} ({report.binding})"),
    ("of latency", lambda report: f"{report.roofline_us / report.latency_us:.0%}"),
    ("peak roofline", lambda report: us_text(report.peak_roofline_us)),
    ("instructions", lambda report: str(report.instructions)),
    ("transfers", lambda report: str(report.dma_transfers)),
    ("bytes per descriptor", lambda report: f"{report.dma_efficiency:.0f}"),
    ("HBM traffic", lambda report: bytes_text(report.hbm_bytes)),
    ("compulsory", lambda report: bytes_text(report.compulsory_bytes)),
    ("HBM bandwidth", lambda report: f"{report.hbm_bandwidth:.0f} GB/s"),
    ("MFU", lambda report: f"{report.mfu:.1%}"),
    ("SBUF peak", lambda report: f"{report.sbuf_peak_bytes} B"),
    ("PSUM peak", lambda report: f"{report.psum_peak_banks} bank{'' if report.psum_peak_banks == 1 else 's'}"),
    ("warnings", lambda report: str(len(report.warnings))),
)


def compared(columns: Sequence[tuple[str, Report]]) -> Iterator[tuple[str, list[str]]]:
    """What is told of reports side by side, as (label, text for each)."""
    reports = [report for _, report in columns]
    for label, shown in _ROWS:
        yield label, [shown(report) for report in reports]
    yield "against the first", [f"{report.latency_us / reports[0].latency_us:.2f}x" for report in reports]
    for name in dict.fromkeys(name for report in reports for name in report.engine_busy_us):
        yield f"{name} busy", [_busy(report, name) for report in reports]
    yield "critical path", [_first_step(report) for report in reports]


def compare_table(columns: Sequence[tuple[str, Report]]) -> RenderableType:
    """Reports side by side; latencies as multiples of the first one's where there are several."""
    table = _table(("", "left"), *[(title, "right") for title, _ in columns])
    for label, texts in compared(columns):
        table.add_row(label, *texts)
    return table


def _busy(report: Report, engine: str) -> str:
    us = report.engine_busy_us.get(engine)
    return "-" if us is None else f"{us_text(us)} ({report.utilisation[engine]:.0%})"


def _first_step(report: Report) -> str:
    if not report.critical_path:
        return "-"
    step = report.critical_path[0]
    return f"{step.share:.0%} {step.instruction}, {_where(step.line)}"


def _table(*columns: tuple[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, justify in columns:
        table.add_column(title, justify=justify, no_wrap=True)
    return table


def _where(line: Location | None) -> str:
    return "" if line is None else f"{shown_path(line.file)}:{line.line}"


def _lines(lines: Iterable[Location | None]) -> str:
    numbers = sorted({line.line for line in lines if line is not None})
    return f" (line{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))})" if numbers else ""

"""A resource report for the terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tilewright.report.resources import LiveTensor, Report, executed, name_of

_WIDE = 1000  # No line of a report is longer; without a terminal nothing is wrapped.


def as_text(report: Report) -> str:
    """The report as plain text."""
    console = Console(file=StringIO(), width=_WIDE, color_system=None)
    with console.capture() as captured:
        console.print(report)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def resource_table(report: Report) -> RenderableType:
    """Instructions by engine, memories with what is live at their peak, data moved."""
    cores = "" if report.cores == 1 else f", {report.cores} cores"
    count = f"{report.instructions} instruction{'' if report.instructions == 1 else 's'}"
    parts: list[RenderableType] = [
        Text.assemble((report.kernel, "bold"), f" on {report.target}{cores}: {count}"),
        Text(),
        _instructions(report),
        Text(),
        _memories(report),
    ]
    for memory, tensors in (("sbuf", report.sbuf_at_peak), ("psum", report.psum_at_peak)):
        if tensors:
            parts += [Text(), Text(f"live at the peak of {memory}", "bold"), _live(tensors)]
    return Group(*parts)


def _instructions(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("engine", "executed", "in source", "instructions"):
        table.add_column(column, justify="right" if column in ("executed", "in source") else "left")
    for engine, count in report.instructions_by_engine.items():
        names = executed([place for place in report.places if place.engine == engine], name_of)
        listed = ", ".join(name if times == 1 else f"{name} x{times}" for name, times in names.items())
        table.add_row(engine, str(count), str(report.static_by_engine[engine]), listed)
    return table


def _memories(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("memory", "tensors", "peak", ""):
        table.add_column(column, justify="right" if column in ("tensors", "peak") else "left")
    usable = f"of {report.sbuf_usable_bytes} per partition; {report.sbuf_total_bytes} without reuse"
    table.add_row("sbuf", str(report.sbuf_buffers), f"{report.sbuf_peak_bytes} B", usable)
    banks = "bank" if report.psum_peak_banks == 1 else "banks"
    table.add_row("psum", str(report.psum_buffers), f"{report.psum_peak_banks} {banks}", f"of {report.psum_banks}")
    moved = f"{report.hbm_read_bytes} read, {report.hbm_write_bytes} written in {report.dma_transfers} transfers"
    table.add_row("hbm", "", f"{report.hbm_bytes} B", moved)
    return table


def _live(tensors: tuple[LiveTensor, ...], most: int = 6) -> Table:
    """A short list of live tensors; those that one line allocated are shown together."""
    groups: dict[tuple[int, str, str | None], int] = {}
    for tensor in tensors:
        key = (tensor.bytes, f"{tensor.dtype}{list(tensor.shape)}", tensor.location)
        groups[key] = groups.get(key, 0) + 1
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right")
    for (size, what, location), count in list(groups.items())[:most]:
        table.add_row(f"{size} B", what if count == 1 else f"{count} x {what}", location or "")
    if len(groups) > most:
        table.add_row("", f"and {len(groups) - most} more", "")
    return table

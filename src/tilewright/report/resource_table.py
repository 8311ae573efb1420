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
        console.print(resource_table(report))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def resource_table(report: Report) -> RenderableType:
    """Instructions by engine, memories with what is live at their peak, data moved."""
    cores = "" if report.cores == 1 else f", {report.cores} cores"
    count = f"{report.instructions} instruction{'' if report.instructions == 1 else 's'}"
    heading = Text.assemble((report.kernel, "bold"), f" on {report.target}{cores}: {count}")
    return Group(heading, Text(), _instructions(report), Text(), _memories(report))


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
    for column in ("memory", "tensors", "peak", "of", "live at the peak"):
        table.add_column(column, justify="left" if column in ("memory", "live at the peak") else "right")
    table.add_row(
        "sbuf",
        str(report.sbuf_buffers),
        f"{report.sbuf_peak_bytes} B",
        f"{report.sbuf_usable_bytes} B per partition",
        _live(report.sbuf_at_peak),
    )
    banks = f"{report.psum_peak_banks} bank{'' if report.psum_peak_banks == 1 else 's'}"
    table.add_row("psum", str(report.psum_buffers), banks, str(report.psum_banks), _live(report.psum_at_peak))
    moved = f"{report.hbm_read_bytes} B read, {report.hbm_write_bytes} B written in {report.dma_transfers} transfers"
    table.add_row("hbm", "", f"{report.hbm_bytes} B", "moved", moved)
    return table


def _live(tensors: tuple[LiveTensor, ...], most: int = 6) -> str:
    """A short list of live tensors; those that one line allocated are shown together."""
    groups: dict[tuple[str, str | None, int], int] = {}
    for tensor in tensors:
        key = (f"{tensor.dtype}{list(tensor.shape)}", tensor.location, tensor.bytes)
        groups[key] = groups.get(key, 0) + 1
    lines = [
        f"{'' if count == 1 else f'{count} x '}{what} {size} B ({location})"
        for (what, location, size), count in list(groups.items())[:most]
    ]
    if len(groups) > most:
        lines.append(f"and {len(groups) - most} more")
    return "\n".join(lines)

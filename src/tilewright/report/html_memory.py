"""What lies in SBUF and PSUM when they are fullest, drawn to scale."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tilewright.report.html_parts import card, percent, tag, time_text
from tilewright.report.resources import LiveTensor, Report, SpilledTensor
from tilewright.units import bytes_text

_COLOURS = 7
"""Colours that tensors of different source lines take in turn."""


def memory(report: Report, bank_bytes: int) -> str:
    """Both memories at their peaks."""
    sites = dict.fromkeys(tensor.location for tensor in (*report.sbuf_at_peak, *report.psum_at_peak))
    colours = {site: f"var(--c{number % _COLOURS})" for number, site in enumerate(sites)}
    used = report.sbuf_peak_bytes / report.sbuf_usable_bytes
    return card(
        "Memory at its fullest",
        tag(
            "p", _small("In the order of the program; the timeline shows how much more overlaps when it is scheduled.")
        ),
        tag(
            "h3", f"SBUF {_small(f'{bytes_text(report.sbuf_peak_bytes)} per partition, {percent(used)}')}", cls="small"
        ),
        _map(report, colours),
        _list(report.sbuf_at_peak, colours),
        tag("h3", f"PSUM {_small(f'{report.psum_peak_banks} of {report.psum_banks} banks')}", cls="small"),
        _banks(report, colours, bank_bytes),
        _list(report.psum_at_peak, colours),
        _spills(report.spills),
        id="memory",
    )


def _small(text: str) -> str:
    return tag("small", escape(text))


def _shape(tensor: LiveTensor | SpilledTensor) -> str:
    return f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]"


def _title(tensor: LiveTensor) -> str:
    where = f", {tensor.location}" if tensor.location else ""
    return f"{_shape(tensor)}: {bytes_text(tensor.bytes)} per partition{where}"


def _map(report: Report, colours: dict[str | None, str]) -> str:
    whole = max(report.sbuf_usable_bytes, report.sbuf_peak_bytes)
    blocks = [
        tag(
            "div",
            style=f"flex:0 1 {100 * tensor.bytes / whole:.3f}%;padding:0;background:{colours[tensor.location]}",
            title=_title(tensor),
        )
        for tensor in report.sbuf_at_peak
    ]
    free = whole - sum(tensor.bytes for tensor in report.sbuf_at_peak)
    rest = tag("div", f"free {bytes_text(free)}", style="flex:1 1 0", cls="muted") if free > 0 else ""
    return tag("div", *blocks, rest, cls="map", role="img", aria_label="SBUF at its peak, to scale")


def _banks(report: Report, colours: dict[str | None, str], bank_bytes: int) -> str:
    cells: list[str] = []
    for tensor in report.psum_at_peak:
        left = tensor.bytes
        while left > 0:
            height = 100 * min(left, bank_bytes) / bank_bytes
            fill = tag("i", style=f"height:{height:.0f}%;background:{colours[tensor.location]}")
            cells.append(tag("div", fill, title=_title(tensor)))
            left -= bank_bytes
    cells += [tag("div", tag("span", "free", cls="muted")) for _ in range(report.psum_banks - len(cells))]
    columns = f"grid-template-columns:repeat({report.psum_banks},minmax(0,1fr))"
    return tag("div", *cells, cls="banks", style=columns, role="img", aria_label="PSUM banks at their peak")


def _spills(spills: Sequence[SpilledTensor]) -> str:
    """Tensors that do not fit and are moved out and in again, with what that costs."""
    rows = [
        tag(
            "tr",
            tag("td", escape(f"{tensor.count} x {_shape(tensor)}")),
            tag("td", tag("code", escape((tensor.location or "").rsplit("/", 1)[-1])), title=tensor.location),
            tag("td", bytes_text(tensor.traffic_bytes), cls="number"),
            tag("td", time_text(tensor.us), cls="number"),
        )
        for tensor in spills
    ]
    if not rows:
        return ""
    head = tag("tr", *(tag("th", title) for title in ("spilled", "allocated", "moved", "takes")))
    table = tag("table", tag("thead", head), tag("tbody", *rows), cls="plain")
    return tag("h3", "Spills", cls="small") + tag("div", table, cls="scroll")


def _list(tensors: Sequence[LiveTensor], colours: dict[str | None, str]) -> str:
    """Tensors, those of one line and shape together, largest first."""
    groups: dict[tuple[str, str | None], tuple[int, int]] = {}
    for tensor in tensors:
        key = (_shape(tensor), tensor.location)
        count, size = groups.get(key, (0, 0))
        groups[key] = count + 1, size + tensor.bytes
    rows = [
        tag(
            "tr",
            tag("td", bytes_text(size), cls="number"),
            tag(
                "td",
                tag("i", cls="chip", style=f"background:{colours[site]}"),
                escape(f"{count} x {shape}" if count > 1 else shape),
            ),
            tag("td", tag("code", escape((site or "").rsplit("/", 1)[-1])), title=site),
        )
        for (shape, site), (count, size) in sorted(groups.items(), key=lambda item: -item[1][1])
    ]
    return tag("div", tag("table", tag("tbody", *rows), cls="plain"), cls="scroll") if rows else ""

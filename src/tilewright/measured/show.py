"""Predicted beside measured, for people: tables for the terminal and a part of the HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from rich.console import Group
from rich.table import Table
from rich.text import Text

from tilewright.measured.beside import Beside, Both
from tilewright.report.html_parts import card, tag

Rows = Sequence[tuple[str, ...]]
_FIGURES = ("", "predicted", "measured", "off")
_TIMES = ("predicted", "measured", "ns each", "ns each measured", "off")


def tables(both: Beside) -> Group:
    """For the terminal."""
    parts: list[Table | Text] = []
    for title, heads, rows in _parts(both):
        if parts:
            parts.append(Text())
        if title:
            parts.append(Text(title, "bold"))
        table = Table(*heads, box=None, pad_edge=False)
        for row in rows:
            table.add_row(*row)
        parts.append(table)
    return Group(*parts)


def section(both: Beside, name: str) -> str:
    """For the page: a card with the same tables; `name` is the export's."""
    made: list[str] = []
    for title, heads, rows in _parts(both):
        head = tag(
            "tr", *(tag("th", escape(each), cls="number" if place else None) for place, each in enumerate(heads))
        )
        body = [
            tag("tr", *(tag("td", escape(each), cls="number" if place else None) for place, each in enumerate(row)))
            for row in rows
        ]
        table = tag("table", tag("thead", head), tag("tbody", *body), cls="plain")
        made += [tag("h3", escape(title)) if title else "", tag("div", table, cls="scroll")]
    return card(f"Measured: {name}", *made, id="measured")


def _parts(both: Beside) -> Iterator[tuple[str, tuple[str, ...], Rows]]:
    rows = [(each.figure, f"{each.predicted:,.1f}", f"{each.measured:,.1f}", _off(each.off)) for each in both.figures]
    yield "", _FIGURES, rows
    if both.instructions:
        missed = f"; of the prediction {both.missed:,} are not counted" if both.missed else ""
        named = [(f"{engine}: {kind}", each) for (engine, kind), each in both.instructions.items()]
        yield f"instructions as written and as they ran{missed}", ("instruction", *_TIMES), _timed(named)
    if both.lines:
        named = [(f"{file}:{number}", each) for (file, number), each in both.lines.items()]
        yield "source lines", ("line", *_TIMES), _timed(named)


def _timed(named: Sequence[tuple[str, Both]]) -> Rows:
    return [
        (
            name,
            f"{each.predicted:,}",
            f"{each.measured:,}",
            f"{each.predicted_ns / each.predicted:,.0f}" if each.predicted else "",
            f"{each.measured_ns / each.measured:,.0f}" if each.measured else "",
            _off(each.off),
        )
        for name, each in named
    ]


def _off(share: float | None) -> str:
    return "" if share is None else f"{share:+.0%}"

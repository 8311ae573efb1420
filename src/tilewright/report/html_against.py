"""Several profiles on one page: figures side by side, timelines one below the other on one scale, where the time goes.

Each has a page of its own, with everything; this one links to them. It needs no script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import pairwise
from os import PathLike
from pathlib import Path

import numpy as np

from tilewright.report.html_parts import card, percent, tag, time_text
from tilewright.report.profile import Profile
from tilewright.report.profile_table import compared
from tilewright.report.tracks import ENGINES, shown_line, slice_end

_BINS = 600
"""Pieces of time of which a timeline shows how busy they were."""
_ROW, _LABEL, _TICKS = 14, 70, 8
_STEPS = 8


@dataclass(frozen=True, slots=True)
class Side:
    """One of the profiles: its heading, and the name of its own page."""

    title: str
    profile: Profile
    page: str


def write_against(path: str | PathLike[str], sides: Sequence[Side]) -> None:
    """Write the page."""
    Path(path).write_text(against(sides), encoding="utf-8")


def against(sides: Sequence[Side]) -> str:
    """The text of the page."""
    first, last = sides[0], sides[-1]
    ratio = last.profile.report.latency_us / first.profile.report.latency_us
    title = f"{first.title} and {last.title}" if len(sides) == 2 else f"{len(sides)} kernels side by side"
    said = f"{last.title} takes {ratio:.2f} times as long as {first.title}" if len(sides) == 2 else ""
    style = (files("tilewright.report") / "assets" / "report.css").read_text(encoding="utf-8")
    head = tag("header", tag("div", tag("h1", escape(title)), tag("p", escape(said)), cls="title"))
    body = tag("main", _figures(sides), _timelines(sides), _paths(sides))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}\n</style>\n</head>\n<body>\n{head}\n{body}\n</body>\n</html>\n"
    )


def _figures(sides: Sequence[Side]) -> str:
    links = [tag("th", tag("a", escape(side.title), href=side.page), scope="col") for side in sides]
    rows = [
        tag("tr", tag("th", escape(label), scope="row"), *(tag("td", escape(text)) for text in texts))
        for label, texts in compared([(side.title, side.profile.report) for side in sides])
    ]
    table = tag("table", tag("thead", tag("tr", tag("th"), *links)), tag("tbody", *rows), cls="against")
    return card("Figures", table, id="figures")


def _timelines(sides: Sequence[Side]) -> str:
    """How busy each engine is over time, by one scale for all, so that longer is slower."""
    end = max(max((slice_end(event) for event in side.profile.events), default=0.0) for side in sides) or 1.0
    shown = [tag("div", tag("h3", escape(side.title)), _timeline(side.profile, end)) for side in sides]
    note = tag("p", f"One scale for all: {time_text(end / 1e3)} from left to right, without the launch.", cls="muted")
    return card("Timelines", note, *shown, id="timelines")


def _timeline(profile: Profile, end: float) -> str:
    found = {event.engine for event in profile.events}
    engines = [engine for engine in ENGINES if engine in found]
    height, width = len(engines) * _ROW, _LABEL + _BINS
    rows = [_row(profile, engine, place * _ROW, end) for place, engine in enumerate(engines)]
    ticks = [
        tag("line", x1=x, x2=x, y1=0, y2=height, stroke="var(--grid)")
        for x in (_LABEL + _BINS * step / _TICKS for step in range(_TICKS + 1))
    ]
    last = max((slice_end(event) for event in profile.events), default=0.0)
    label = f"When the engines are busy; the last instruction ends after {time_text(last / 1e3)}"
    return tag("svg", *ticks, *rows, viewBox=f"0 0 {width} {height}", role="img", aria_label=label)


def _row(profile: Profile, engine: str, top: float, end: float) -> str:
    busy = np.minimum(_busy(profile, engine, end), 1.0)
    # Equal neighbours are one rectangle.
    steps = np.round(busy * 8) / 8
    edges = [0, *(np.flatnonzero(np.diff(steps)) + 1).tolist(), _BINS]
    bars = [
        tag(
            "rect",
            x=_LABEL + low,
            y=top + 2,
            width=high - low,
            height=_ROW - 4,
            fill=f"var(--e-{engine})",
            opacity=f"{steps[low]:.2f}",
        )
        for low, high in pairwise(edges)
        if steps[low]
    ]
    name = tag("text", escape(ENGINES[engine]), x=0, y=top + _ROW - 4, font_size=10, fill="var(--muted)")
    return name + "".join(bars)


def _busy(profile: Profile, engine: str, end: float) -> np.ndarray:
    """The share of each piece of time in which the engine does something; transfers of several queues add up."""
    busy = np.zeros(_BINS)
    for event in profile.events:
        if event.engine != engine:
            continue
        low, high = event.start_ns / end * _BINS, slice_end(event) / end * _BINS
        first, last = int(low), min(int(high), _BINS - 1)
        if first == last:
            busy[first] += high - low
            continue
        busy[first] += first + 1 - low
        busy[first + 1 : last] += 1
        busy[last] += high - last
    return busy


def _paths(sides: Sequence[Side]) -> str:
    """The greatest parts of each critical path."""
    columns = []
    for side in sides:
        steps = sorted(side.profile.report.critical_path, key=lambda step: -step.share)[:_STEPS]
        rows = [
            tag(
                "tr",
                tag("td", percent(step.share), cls="n"),
                tag("td", escape(step.instruction)),
                tag("td", escape(shown_line(step.line)), cls="where"),
            )
            for step in steps
        ]
        columns.append(tag("div", tag("h3", escape(side.title)), tag("table", tag("tbody", *rows))))
    return card("Critical paths", tag("div", *columns, cls="sides"), id="paths")

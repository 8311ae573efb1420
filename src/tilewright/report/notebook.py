"""What notebooks show of kernels, reports, plans and timelines: HTML that needs no script and no network."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from html import escape

from rich.console import Console, RenderableType

from tilewright.report.profile import Profile
from tilewright.report.tracks import ENGINES, slice_end
from tilewright.units import us_text

WIDTH = 860
_LABEL, _ROW, _BAR = 64, 20, 14
# Slices closer together than this are one: a picture has no more columns, and a long kernel a million of them.
_LEAST_PX = 0.5
_COLORS = {
    "tensor": "#4c78a8",
    "vector": "#f58518",
    "scalar": "#54a24b",
    "gpsimd": "#b279a2",
    "sync": "#9d755d",
    "dma": "#72b7b2",
}


def as_html(shown: RenderableType) -> str:
    """What a terminal would show."""
    console = Console(record=True, width=120, file=io.StringIO(), force_jupyter=False)
    console.print(shown)
    return console.export_html(inline_styles=True, code_format='<pre style="line-height:1.3">{code}</pre>')


def folded(title: str, text: str) -> str:
    """A text that opens when its title is pressed."""
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows under titles."""
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def timeline(profile: Profile) -> str:
    """When each engine of the first core is busy, as a picture."""
    events = [event for event in profile.events if event.core == 0]
    end = max(profile.end_ns, 1.0)
    scale = (WIDTH - _LABEL) / end
    rows: list[str] = []
    names = [name for name in ENGINES if any(event.engine == name for event in events)]
    for number, name in enumerate(names):
        spans = sorted((event.start_ns, slice_end(event)) for event in events if event.engine == name)
        y = number * _ROW
        rows.append(f'<text x="0" y="{y + _BAR - 2}" font-size="12" fill="currentColor">{ENGINES[name]}</text>')
        for first, last in _joined(spans, _LEAST_PX / scale):
            box = f'x="{_LABEL + first * scale:.1f}" y="{y}" width="{max((last - first) * scale, 0.5):.1f}"'
            said = f"{us_text(first / 1e3)} to {us_text(last / 1e3)}"
            rows.append(f'<rect {box} height="{_BAR}" fill="{_COLORS[name]}"><title>{said}</title></rect>')
    height = len(names) * _ROW + 16
    rows.append(f'<text x="{_LABEL}" y="{height - 2}" font-size="11" fill="currentColor">0</text>')
    last = escape(us_text(end / 1e3))
    rows.append(
        f'<text x="{WIDTH}" y="{height - 2}" font-size="11" fill="currentColor" text-anchor="end">{last}</text>'
    )
    title = escape(f"When each engine is busy in {profile.report.kernel}")
    return (
        f'<svg role="img" aria-label="{title}" viewBox="0 0 {WIDTH} {height}" style="max-width:{WIDTH}px;width:100%">'
        f"{''.join(rows)}</svg>"
    )


def _joined(spans: Sequence[tuple[float, float]], least: float) -> Iterable[tuple[float, float]]:
    """Spans in order of their start, those that touch or nearly do as one."""
    first, last = spans[0]
    for start, stop in spans[1:]:
        if start > last + least:
            yield first, last
            first = start
        last = max(last, stop)
    yield first, last

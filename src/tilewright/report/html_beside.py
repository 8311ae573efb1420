"""The lines of a NumPy function beside the NKI that they became, as a part of the page of a compiled function."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from tilewright.report.html_parts import card, tag
from tilewright.report.html_source import coloured

_LINE = re.compile(r"\s*# ((?:\S+, )?line \d+): (.*)")
"""How NKI source says which line of the function its next lines come from."""


def numpy_beside_nki(source: str) -> str:
    """A card with every piece of a kernel's source next to its NumPy line; nothing where no line is named."""
    rows = [
        tag("tr", tag("td", escape(place), cls="n"), tag("td", "".join(coloured(text))), tag("td", "\n".join(piece)))
        for place, text, piece in _pieces(source)
    ]
    if not rows:
        return ""
    head = tag("tr", *(tag("th", title, scope="col") for title in ("", "NumPy", "NKI")))
    table = tag("table", tag("thead", head), tag("tbody", *rows), cls="pairs")
    return card("NumPy beside NKI", tag("div", table, cls="code", tabindex=0), id="beside")


def _pieces(source: str) -> Iterator[tuple[str, str, list[str]]]:
    """Where a line of the function stands, its text, and the lines of NKI that follow from it, as HTML."""
    place, text, piece = "", "", []
    for line, shown in zip(source.splitlines(), coloured(source), strict=True):
        found = _LINE.fullmatch(line)
        if found is None:
            piece.append(shown)
            continue
        if place:
            yield place, text, _trimmed(piece)
        place, text, piece = found[1], found[2], []
    if place:
        yield place, text, _trimmed(piece)


def _trimmed(lines: list[str]) -> list[str]:
    """Without empty lines at the end."""
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines

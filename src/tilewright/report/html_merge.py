"""What the compiler may leave out, as a part of the page."""

from __future__ import annotations

from html import escape

from tilewright.report.html_parts import Links, card, tag, time_text
from tilewright.timing.summary import Timing
from tilewright.units import bytes_text


def removable(timing: Timing, links: Links) -> str:
    """Repeated loads and chains of copies with their lines, and the latency without them; nothing where none are."""
    if not timing.removable:
        return ""
    saved = 1 - timing.latency_if_merged_us / timing.latency_as_written_us
    change = f"{saved:.0%} less" if saved >= 0.005 else "no faster"
    text = (
        "Repeated loads of data that is or could still be on chip, copies of copies, zeros that products are added to: "
        f"{time_text(timing.latency_as_written_us)} with them, {time_text(timing.latency_if_merged_us)} ({change}) "
        "without. Compilers remove some of these."
    )
    rows = [
        tag(
            "tr",
            tag("td", f"{each.executed:,}", cls="number"),
            tag("td", escape(f"{each.instruction}, {each.what}")),
            tag("td", links[each.line]),
            tag("td", bytes_text(each.bytes), cls="number"),
            tag("td", links[each.other]),
        )
        for each in timing.removable
    ]
    titles = (("times", "number"), ("instruction", None), ("source", None), ("moves", "number"), ("because of", None))
    head = tag("tr", *(tag("th", title, cls=cls) for title, cls in titles))
    table = tag("table", tag("thead", head), tag("tbody", *rows), cls="plain")
    return card("What the compiler may leave out", tag("p", escape(text)), tag("div", table, cls="scroll"), id="merge")

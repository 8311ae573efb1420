"""The report as a page: one file that needs no network, with everything it shows inside it.

Figures, source and memories are written here as HTML; the timeline and the instruction table are drawn by the scripts
in `assets/` from columns of events. Whatever comes from a kernel (names, source text, messages) is escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

from tilewright.errors import Location
from tilewright.report import html_parts as parts
from tilewright.report.html_data import packed
from tilewright.report.html_memory import memory
from tilewright.report.html_merge import removable
from tilewright.report.html_roofline import roofline
from tilewright.report.html_source import line_costs, source
from tilewright.report.profile import Profile
from tilewright.report.source import shown_path
from tilewright.report.tracks import work_ns
from tilewright.target import get_target
from tilewright.timing.summary import Timing

_SCRIPTS = ("data.js", "paint.js", "timeline.js", "table.js", "main.js")
_FIELD = re.compile(r"\{\{(\w+)\}\}")


def write_html(path: str | PathLike[str], profile: Profile, more: str = "") -> None:
    """Write a profile as one self-contained page; `more` is a further part of it, HTML already."""
    Path(path).write_text(page(profile, more), encoding="utf-8")


def page(profile: Profile, more: str = "") -> str:
    """The text of the page."""
    report = profile.report
    timing = report.timing
    target = get_target(report.target)
    lines = _lines(profile)
    links = parts.Links(lines)
    work = work_ns(profile.events, _byte_ns(timing, report.cores))
    columns, described = packed(profile, lines, work)
    costs = line_costs(profile.events, work, timing.critical_path)
    tabs, listing = source(profile.sources, costs, links.numbers)
    instructions = f"{report.instructions:,} instruction{'' if report.instructions == 1 else 's'}"
    cores = "" if report.cores == 1 else f", {report.cores} cores"
    pinned = f", pinned {', '.join(timing.pins)}" if timing.pins else ""
    subtitle = f"{target.title}{cores}; {instructions}, {timing.order} order{pinned}"
    content = {
        "title": escape(f"{report.kernel} on {report.target}"),
        "kernel": escape(report.kernel),
        "subtitle": escape(subtitle),
        "style": _asset("report.css"),
        "figures": parts.figures(profile, timing),
        "dropped": _dropped(profile),
        "picture": escape(f"When each instruction of {report.kernel} runs, by engine and DMA queue"),
        "tabs": tabs,
        "source": listing,
        "advice": parts.advice(profile, timing, links),
        "removable": removable(timing, links),
        "more": more,
        "critical": parts.critical(timing, links),
        "roofline": roofline(timing, report.hbm_bytes, target["dma.core_bandwidth"] * report.cores),
        "engines": parts.engines(timing, links),
        "memory": memory(report, target["memory.psum_bank_bytes"]),
        "footer": parts.footer(profile),
        "meta": _json({**described, **_facts(profile, lines)}),
        "columns": columns,
        "script": "\n".join(map(_asset, _SCRIPTS)),
    }
    return _FIELD.sub(lambda found: content[found[1]], _asset("page.html"))


def _byte_ns(timing: Timing, cores: int) -> float:
    """How long the DMA engines of a core are busy with a byte: times are of one core, descriptors of all."""
    moved = timing.dma_efficiency * timing.descriptors
    return timing.engine_busy_us.get("dma", 0.0) * 1e3 * cores / moved if moved else 0.0


def _asset(name: str) -> str:
    return (files("tilewright.report") / "assets" / name).read_text(encoding="utf-8")


def _lines(profile: Profile) -> list[Location]:
    """Every source line that issued an instruction, in order."""
    found = {event.line for event in profile.events if event.line is not None}
    return sorted(found, key=lambda line: (line.file, line.line))


def _facts(profile: Profile, lines: Sequence[Location]) -> dict[str, Any]:
    report = profile.report
    texts = {file: text.splitlines() for file, text in profile.sources.items()}
    return {
        "endNs": profile.end_ns,
        "sbufCapacity": report.sbuf_usable_bytes,
        "psumCapacity": report.psum_banks,
        "lines": [
            {"file": shown_path(line.file), "line": line.line, "text": _line_text(texts.get(line.file, []), line.line)}
            for line in lines
        ],
    }


def _line_text(lines: Sequence[str], number: int) -> str:
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _json(value: object) -> str:
    """JSON that may stand inside a script element: nothing in it can end or open one."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _dropped(profile: Profile) -> str:
    if not profile.dropped_events:
        return ""
    text = (
        f"The first {len(profile.events):,} instructions are shown here; {profile.dropped_events:,} later ones were "
        "timed too and are in all figures but those of the timeline, the table and the busy time of source lines."
    )
    return parts.tag("p", escape(text), cls="muted note")

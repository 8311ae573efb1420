"""The kernel's source with its heat: what each line costs, beside the line."""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import PurePath

from tilewright.errors import Location
from tilewright.report.html_parts import percent, stacked, tag
from tilewright.report.source import shown_path
from tilewright.timing.critical import Step
from tilewright.timing.profile import Event


@dataclass(slots=True)
class LineCost:
    """What one source line costs: executed instructions, busy time by engine, share of the critical path."""

    executed: int = 0
    busy_ns: dict[str, float] = field(default_factory=dict)
    share: float = 0.0


def line_costs(events: Sequence[Event], work: Sequence[float], path: Sequence[Step]) -> dict[Location, LineCost]:
    """Costs by source line; work: what each event takes of its engine, in ns."""
    costs: dict[Location, LineCost] = {}
    for event, taken in zip(events, work, strict=True):
        if event.line is None:
            continue
        cost = costs.setdefault(event.line, LineCost())
        cost.executed += 1
        cost.busy_ns[event.engine] = cost.busy_ns.get(event.engine, 0.0) + taken
    for step in path:
        if step.line is not None:
            costs.setdefault(step.line, LineCost()).share += step.share
    return costs


def source(
    sources: Mapping[str, str], costs: Mapping[Location, LineCost], numbers: Mapping[Location, int]
) -> tuple[str, str]:
    """Buttons that choose a file, and all files; the hottest is shown first."""
    heat = dict.fromkeys(sources, 0.0)
    for line, cost in costs.items():
        if line.file in heat:
            heat[line.file] += cost.share
    files = sorted(sources, key=lambda file: -heat[file])
    most = max((sum(cost.busy_ns.values()) for cost in costs.values()), default=0.0)
    tabs = [
        tag(
            "button",
            escape(PurePath(file).name),
            type="button",
            data_tab=number,
            aria_pressed=str(number == 0).lower(),
            title=shown_path(file),
        )
        for number, file in enumerate(files)
    ]
    sheets = [_sheet(number, file, sources[file], costs, numbers, most) for number, file in enumerate(files)]
    return tag("span", *tabs, cls="group"), "".join(sheets)


def _sheet(
    number: int,
    file: str,
    text: str,
    costs: Mapping[Location, LineCost],
    numbers: Mapping[Location, int],
    most: float,
) -> str:
    lines = text.splitlines()
    shown = coloured(text)
    used = {line.line: cost.share for line, cost in costs.items() if line.file == file}
    hottest = max(used, key=lambda line: used[line], default=0)
    rows: list[str] = []
    shown_before = 0
    for first, last in shown_ranges(text, set(used)):
        if first > shown_before + 1:
            rows.append(tag("tr", tag("td", "⋯", cls="n"), tag("td", colspan=4)))
        for at in range(first, last + 1):
            where = Location(file, at)
            code = shown[at - 1] if at <= len(lines) else ""
            rows.append(_row(at, code, costs.get(where), numbers.get(where), most, at == hottest))
        shown_before = last
    titles = ("line", "times", "critical", "busy", shown_path(file))
    head = tag("tr", *(tag("th", escape(title), scope="col") for title in titles))
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    return tag(
        "div",
        tag("div", table, cls="code", tabindex=0),
        cls="file",
        data_file=number,
        hidden="hidden" if number else None,
    )


def _row(at: int, code: str, cost: LineCost | None, number: int | None, most: float, hottest: bool) -> str:
    if cost is None:
        return tag("tr", tag("td", str(at), cls="n"), "<td></td><td></td><td></td>", tag("td", code))
    share = percent(cost.share) if cost.share >= 0.0005 else ""
    warmth = f"background:rgba(var(--heat),{min(0.75, 0.08 + 0.8 * cost.share):.2f})" if share else None
    bar = stacked(cost.busy_ns, most, "stackbar")
    cells = (
        tag("td", str(at), cls="n"),
        tag("td", f"{cost.executed:,}", cls="v"),
        tag("td", share, cls="v heat", style=warmth),
        tag("td", bar, cls="busy"),
        tag("td", code),
    )
    return tag("tr", *cells, data_line=number, data_hottest="yes" if hottest else None)


def shown_ranges(text: str, used: set[int]) -> list[tuple[int, int]]:
    """First and last lines of the top-level definitions that lines of `used` stand in; all when it does not parse."""
    count = len(text.splitlines())
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return [(1, count)]
    ranges: list[tuple[int, int]] = []
    for node in body:
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(each.lineno for each in decorators)])
        last = node.end_lineno or node.lineno
        if any(first <= line <= last for line in used):
            ranges.append((first, last))
    return ranges or [(1, count)]


_CLASSES = {tokenize.STRING: "st", tokenize.COMMENT: "co", tokenize.NUMBER: "nu"}
_FSTRING = {
    getattr(tokenize, name): "st"
    for name in ("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")
    if hasattr(tokenize, name)
}


def coloured(text: str) -> list[str]:
    """Each line as HTML, with the parts of Python told apart."""
    lines = text.splitlines()
    marks: dict[int, list[tuple[int, int, str]]] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            name = _CLASSES.get(token.type) or _FSTRING.get(token.type)
            if token.type == tokenize.NAME and keyword.iskeyword(token.string):
                name = "kw"
            if name is None:
                continue
            (row, column), (last_row, last_column) = token.start, token.end
            for at in range(row, last_row + 1):
                stop = last_column if at == last_row else len(lines[at - 1])
                marks.setdefault(at, []).append((column if at == row else 0, stop, name))
    except (tokenize.TokenError, SyntaxError):
        # What cannot be read as Python is shown plainly.
        marks = {}
    return [_marked(line, marks.get(number, ())) for number, line in enumerate(lines, 1)]


def _marked(line: str, marks: Sequence[tuple[int, int, str]]) -> str:
    parts: list[str] = []
    at = 0
    for first, last, name in marks:
        parts += [escape(line[at:first]), tag("span", escape(line[first:last]), cls=name)]
        at = last
    return "".join([*parts, escape(line[at:])])

"""The parts of the page that need no script: figures, advice, critical path, engines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from tilewright.errors import Location
from tilewright.report.profile import Profile
from tilewright.report.tracks import ENGINES, PlaceNames, shown_line
from tilewright.timing.critical import Step
from tilewright.timing.node import BANDWIDTH, BANK, DATA, ENGINE, OVERWRITE, PORT, READER, SLOT, START
from tilewright.timing.summary import Timing
from tilewright.units import bytes_text

_STEPS = 24
"""Parts of the critical path that are listed; the rest are added up."""

_KINDS = {DATA: "data", ENGINE: "queue", BANK: "PSUM bank", START: "nothing"}
"""Kinds of waits whose names in the model are not for people."""

_MEANINGS = {
    DATA: "for an input to be written",
    OVERWRITE: "for an earlier write of the same place",
    READER: "for what it overwrites to be read",
    BANK: "for a free PSUM bank",
    SLOT: "for a free buffer",
    ENGINE: "ready, behind earlier instructions of its own engine or queue",
    BANDWIDTH: "for the DMA engines, behind other transfers",
    PORT: "for a memory port that another engine has",
}


def tag(name: str, *content: str, **attributes: object) -> str:
    """An element. Content is HTML already; attribute values are escaped, `cls` is the class, None leaves one out."""
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    if "cls" in given:
        given["class"] = given.pop("cls")
    text = "".join(f' {key}="{escape(str(value))}"' for key, value in given.items())
    return f"<{name}{text}>{''.join(content)}</{name}>"


def card(title: str, *content: str, **attributes: object) -> str:
    """A titled part of the page."""
    return tag("section", tag("div", tag("h2", escape(title)), cls="bar"), *content, cls="card", **attributes)


def time_text(us: float) -> str:
    """A time for people, from microseconds."""
    if abs(us) >= 1e4:
        return f"{us / 1e3:.2f} ms"
    if abs(us) >= 100:
        return f"{us:.1f} µs"
    return f"{us:.2f} µs" if abs(us) >= 1 or us == 0 else f"{us * 1e3:.0f} ns"


def percent(share: float) -> str:
    """A share for people: more digits where it is small."""
    return f"{100 * share:.0f}%" if share >= 0.0995 or share == 0 else f"{100 * share:.1f}%"


def chip(engine: str) -> str:
    """The colour of an engine."""
    return tag("i", cls="chip", style=f"background:var(--e-{engine})")


class Links:
    """Source lines that the page shows, by their number there."""

    def __init__(self, lines: Iterable[Location]) -> None:
        self.numbers = {line: number for number, line in enumerate(lines)}
        self.names = PlaceNames(self.numbers)

    def __getitem__(self, line: Location | None) -> str:
        """A link that shows a source line."""
        if line is None:
            return ""
        text, title = escape(self.names[line]), shown_line(line)
        if line not in self.numbers:
            return tag("span", text, title=title)
        return tag("button", text, type="button", cls="goto", data_goto=self.numbers[line], title=title)


def shown_bound(name: str) -> str:
    """A resource that binds, as people write it: engines by their names."""
    return " + ".join(ENGINES.get(each, each) for each in name.split("+"))


def _busy(name: str, used: float) -> str:
    if name == "chain":
        return "ops that wait for each other, from the first load to the last store"
    return f"busy {percent(used)} of the time between first and last instruction"


def figures(profile: Profile, timing: Timing) -> str:
    """What a reader wants first: how long, how far from the limit, what it waits for."""
    report = profile.report
    share = timing.roofline_us / timing.latency_us if timing.latency_us else 0.0
    bound = escape(shown_bound(timing.binding))
    names = timing.binding.split("+")
    if set(names) < {*ENGINES} and timing.binding != "dma":
        bound = f"{bound} {_small('engine' if len(names) == 1 else 'engines')}"
    used = max(timing.utilisation.get(name, 0.0) for name in names)
    again = report.hbm_bytes / timing.compulsory_bytes if timing.compulsory_bytes else 0.0
    cards = [
        _figure(
            "Latency",
            f"{time_text(timing.latency_us)} {_small(f'± {percent(timing.error_bar)}')}",
            f"{_span(timing)}; launch {time_text(timing.launch_us)} included",
        ),
        _figure(
            "Distance to the roofline",
            f"{percent(share)} {_small('of the limit')}",
            f"at least {time_text(timing.roofline_us)}; {time_text(timing.peak_roofline_us)} at peak rates, no launch",
            share,
        ),
        _figure("Bound by", bound, _busy(timing.binding, used), used),
    ]
    if timing.flops:
        cards.append(
            _figure("Matmul use (MFU)", percent(timing.mfu), f"{_flops(timing.flops)} of matmul in all", timing.mfu)
        )
    cards += [
        _figure(
            "HBM bandwidth",
            f"{timing.hbm_bandwidth:.1f} {_small('GB/s')}",
            f"{percent(timing.hbm_bandwidth_use)} of peak; {bytes_text(report.hbm_bytes)}, {again:.2f}x the least",
            timing.hbm_bandwidth_use,
        ),
        _figure(
            "DMA efficiency",
            bytes_text(timing.dma_efficiency),
            f"per descriptor; {report.dma_transfers:,} transfers, {timing.descriptors:,} descriptors",
        ),
        _advice_figure(timing),
    ]
    return tag("div", *cards, cls="figures")


def _figure(title: str, value: str, note: str, share: float | None = None) -> str:
    meter = "" if share is None else tag("div", tag("i", style=f"width:{100 * min(share, 1):.1f}%"), cls="meter")
    return tag("div", tag("h3", escape(title)), tag("strong", value), meter, tag("p", escape(note)), cls="figure")


def _advice_figure(timing: Timing) -> str:
    count = len(timing.advice)
    note = escape(timing.advice[0].message) if count else "nothing that stands out"
    parts = tag("h3", "Advice") + tag("strong", str(count) if count else "none") + tag("p", note)
    return tag("a", parts, cls="figure", href="#advice")


def _small(text: str) -> str:
    return tag("small", escape(text))


def _span(timing: Timing) -> str:
    low, high = (timing.latency_us * (1 + sign * timing.error_bar) for sign in (-1, 1))
    return f"{time_text(low)} to {time_text(high)}"


def _flops(flops: float) -> str:
    return f"{flops / 1e9:.2f} Gflop" if flops < 1e12 else f"{flops / 1e12:.2f} Tflop"


def advice(profile: Profile, timing: Timing, links: Links) -> str:
    """What an engineer would say, and what the run itself warned of."""
    items = [
        tag(
            "li",
            tag("p", tag("b", escape(each.message)), " ", links[each.location]),
            tag("p", escape(each.hint), cls="hint") if each.hint else "",
        )
        for each in timing.advice
    ]
    told = {str(each) for each in timing.advice}
    others = [text for text in profile.report.warnings if text not in told]
    items += [tag("li", tag("p", escape(text.splitlines()[0]))) for text in others]
    content = tag("ul", *items, cls="advice scroll") if items else tag("p", "Nothing stands out.", cls="muted")
    return card("Advice", content, id="advice")


def critical(timing: Timing, links: Links) -> str:
    """The chain of waits that the latency is made of: by engine, then its parts."""
    steps = timing.critical_path
    rows = [_step(step, links) for step in steps[:_STEPS]]
    rest = sum(step.share for step in steps[_STEPS:])
    if rest:
        more = f"{len(steps) - _STEPS} further parts"
        rows.append(tag("tr", tag("td", percent(rest), cls="number"), tag("td", more, colspan=3, cls="muted")))
    head = tag("tr", *(tag("th", title) for title in ("share", "instruction", "source", "waited for")))
    table = tag("table", tag("thead", head), tag("tbody", *rows), cls="plain")
    return card("Critical path", _by_engine(steps), tag("div", table, cls="scroll"), id="critical-path")


def _step(step: Step, links: Links) -> str:
    cells = (
        tag("td", percent(step.share), cls="number", title=time_text(step.us)),
        tag("td", chip(step.engine), escape(step.instruction), cls="name"),
        tag("td", links[step.line]),
        tag("td", escape(step.waited_for), cls="muted"),
    )
    return tag("tr", *cells)


def _by_engine(steps: Iterable[Step]) -> str:
    shares = dict.fromkeys(ENGINES, 0.0)
    for step in steps:
        shares[step.engine] = shares.get(step.engine, 0.0) + step.share
    found = {engine: share for engine, share in shares.items() if share > 0}
    legend = [tag("span", chip(engine), f"{ENGINES[engine]} {percent(share)}") for engine, share in found.items()]
    return stacked(found, 1.0, "wide") + tag("div", *legend, cls="legend")


def stacked(parts: Mapping[str, float], whole: float, cls: str) -> str:
    """A bar of engines, as long as their parts of the whole."""
    widths = {engine: 100 * part / whole for engine, part in parts.items()} if whole else {}
    bars = [
        tag("i", style=f"width:{width:.2f}%;background:var(--e-{engine})", title=ENGINES.get(engine, engine))
        for engine, width in widths.items()
    ]
    return tag("div", *bars, cls=cls)


def engines(timing: Timing, links: Links) -> str:
    """How busy each engine is, and the least it could be: the mark is the resource's own bound."""
    span = timing.latency_us - timing.launch_us
    names = [engine for engine in ENGINES if engine in timing.engine_busy_us]
    rows = [_engine_row(engine, timing, span) for engine in names]
    idle = [
        ENGINES[engine] for engine in ("tensor", "vector", "scalar", "gpsimd") if engine not in timing.engine_busy_us
    ]
    notes = f"Not used: {', '.join(idle)}." if idle else ""
    note = tag("p", tag("small", "The mark is the least time: the necessary work at the model's rates. ", notes))
    return card("Engines", *rows, note, _waits(timing.critical_path), _choices(timing, links), id="engines")


def _engine_row(engine: str, timing: Timing, span: float) -> str:
    busy = timing.engine_busy_us[engine]
    used = timing.utilisation.get(engine, 0.0)
    bound = timing.bounds_us.get(engine)
    width = 100 * min(busy / span, 1.0) if span else 0.0
    fill = tag("i", style=f"width:{width:.2f}%;background:var(--e-{engine})")
    mark = tag("b", style=f"left:calc({100 * min(bound / span, 1):.2f}% - 2px)") if bound and span else ""
    return tag(
        "div",
        tag("span", ENGINES[engine]),
        tag("div", fill, mark, cls="rail", title=f"at least {time_text(bound)}" if bound else None),
        tag("span", f"{percent(used)}, {time_text(busy)}", cls="number"),
        cls="engine-row",
    )


def _waits(steps: Iterable[Step]) -> str:
    """What the links of the critical path waited for, by kind."""
    kinds: dict[str, float] = {}
    for step in steps:
        kinds[step.wait] = kinds.get(step.wait, 0.0) + step.share
    rows = [
        tag(
            "div",
            tag("span", escape(_KINDS.get(kind, kind)), title=_MEANINGS.get(kind)),
            tag("div", tag("i", style=f"width:{100 * share:.2f}%;background:var(--muted)"), cls="rail"),
            tag("span", percent(share), cls="number"),
            cls="engine-row",
        )
        for kind, share in sorted(kinds.items(), key=lambda item: -item[1])
    ]
    return tag("h3", "Critical path by what it waited for", cls="small") + "".join(rows)


def _choices(timing: Timing, links: Links) -> str:
    if not timing.choices:
        return ""
    rows = [
        tag(
            "tr",
            tag("td", escape(choice.instruction)),
            tag("td", links[choice.line]),
            tag("td", escape(f"{choice.what}: {choice.chosen}")),
            tag("td", f"{choice.executed:,}", cls="number"),
        )
        for choice in timing.choices
    ]
    table = tag("table", tag("tbody", *rows), cls="plain")
    summary = f"{len(rows)} choice{'' if len(rows) == 1 else 's'} that the kernel left open"
    return tag("details", tag("summary", summary), tag("div", table, cls="scroll"), open="open")


def footer(profile: Profile) -> str:
    """What the figures are."""
    return escape(f"Predicted by tilewright's timing model for {profile.report.target}, not measured.")

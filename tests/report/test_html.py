"""The page as text: self-contained, escaped, and its columns are the events."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.report.profiles import made_up, normalised_product, real
from tilewright.errors import Location
from tilewright.report.html import page, write_html
from tilewright.report.html_beside import numpy_beside_nki
from tilewright.report.html_merge import removable
from tilewright.report.html_parts import Links, PlaceNames, percent, tag, time_text
from tilewright.report.html_source import shown_ranges
from tilewright.report.profile import profile_kernel
from tilewright.timing.merge import Removable
from tilewright.units import bytes_text

HOSTILE = """def k():
    "</script><script>window.broken = 1</script>"  # <img src=x onerror="window.broken = 2"> {{meta}} &amp;
"""
VOID = ("meta", "link", "input")


class Reader(HTMLParser):
    """Elements and texts as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.open: list[str] = []
        self.all = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(dict(attrs).get("id") or tag)

    def handle_endtag(self, tag: str) -> None:
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.all += data
        if self.open:
            self.texts[self.open[-1]] = self.texts.get(self.open[-1], "") + data


def columns(text: str) -> dict[str, np.ndarray]:
    """The columns of a page, read as its script reads them."""
    reader = Reader(text)
    raw = zlib.decompress(b64decode(reader.texts["columns"]))
    layout = json.loads(reader.texts["meta"])["layout"]
    return {name: np.frombuffer(raw, kind, length, offset) for name, (kind, offset, length) in layout.items()}


def test_nothing_is_fetched():
    text = page(real())
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//|url\(|@import|\bfetch\(|XMLHttpRequest""", text)
    links = [attrs for name, attrs in Reader(text).elements if name in ("link", "img", "iframe", "object", "source")]
    assert links == [{"rel": "icon", "href": "data:,"}]


def test_columns_are_the_events():
    made = real()
    found = columns(page(made))
    assert found["start"].tolist() == [event.start_ns for event in made.events]
    assert found["cause"].tolist() == [event.cause for event in made.events]
    np.testing.assert_allclose(found["total"], [event.end_ns - event.start_ns for event in made.events], rtol=1e-6)
    texts = json.loads(found["texts"].tobytes())
    assert [texts["names"][number] for number in found["name"]] == [event.name for event in made.events]
    assert [texts["operands"][number] for number in found["operand"]] == [event.operands for event in made.events]
    assert found["sbuf"].tolist() == pytest.approx([sample.sbuf_bytes for sample in made.occupancy])
    busy = found["work"].sum() / 1e3
    assert busy == pytest.approx(sum(made.report.timing.engine_busy_us.values()), rel=1e-4)


def test_source_text_stays_text():
    made = made_up(200, HOSTILE)
    made = replace(made, report=replace(made.report, kernel="<b>&k</b>"))
    reader = Reader(page(made))
    assert sum(name == "script" for name, _ in reader.elements) == 3
    assert not any(name in ("img", "b") and attrs.get("src") for name, attrs in reader.elements)
    assert HOSTILE.splitlines()[1] in reader.all
    assert "<b>&k</b>" in reader.texts["h1"]
    assert json.loads(reader.texts["meta"])["lines"][1]["text"] == HOSTILE.splitlines()[1]


def test_elements_are_balanced():
    assert Reader(page(real())).open == []


def test_figures_are_those_of_the_report():
    made = real()
    timing = made.report.timing
    text = Reader(page(made)).all
    assert time_text(timing.latency_us) in text
    assert percent(timing.roofline_us / timing.latency_us) in text
    assert f"{made.report.instructions} instructions" in text
    for step in timing.critical_path[:5]:
        assert step.waited_for in text
    for each in timing.advice:
        assert each.message in text
        assert each.hint is None or each.hint in text


def test_pins_and_what_they_changed_are_shown():
    made = real()
    (load,) = {
        event.line.line for event in made.events if event.line and "sbuf right" in event.operands and event.bytes
    }
    arguments = np.ones((128, 128), np.float32), np.ones((128, 512), np.float32)
    pinned = profile_kernel(normalised_product, arguments, target="trn2", pin={load: "swdge"})
    plain, text = (Reader(page(each)).all for each in (made, pinned))
    assert "pinned" not in plain and f"pinned {load}:swdge" in text
    assert "swdge" not in plain and "dge: swdge" in text


def test_what_was_dropped_is_said():
    text = Reader(page(replace(real(), dropped_events=12345))).all
    assert "12,345 later ones" in text


def test_a_page_without_events(tmp_path: Path):
    write_html(tmp_path / "empty.html", made_up(0))
    assert columns((tmp_path / "empty.html").read_text(encoding="utf-8"))["start"].size == 0


def test_long_kernels_stay_small():
    assert len(page(made_up(20_000))) < 50 * 20_000


def test_shown_ranges():
    text = "import x\n\n@deco\ndef first():\n    pass\n\ndef second():\n    pass\n"
    assert shown_ranges(text, {5}) == [(3, 5)]
    assert shown_ranges(text, {5, 8}) == [(3, 5), (7, 8)]
    assert shown_ranges(text, set()) == [(1, 8)]
    assert shown_ranges("def broken(:\n  pass\n", {1}) == [(1, 2)]


def test_texts_for_people():
    assert [time_text(us) for us in (0.0, 0.25, 3.14159, 450.0, 123456.0)] == [
        "0.00 µs",
        "250 ns",
        "3.14 µs",
        "450.0 µs",
        "123.46 ms",
    ]
    assert [bytes_text(size) for size in (12, 2048, 3 << 20, 5 << 30)] == ["12 B", "2.0 KiB", "3.0 MiB", "5.0 GiB"]
    assert [percent(share) for share in (0.0, 0.0123, 0.5, 1.0)] == ["0%", "1.2%", "50%", "100%"]
    assert tag("a", "x", cls="y", data_z='"&', title=None) == '<a data-z="&quot;&amp;" class="y">x</a>'


def test_place_names():
    one = PlaceNames([Location("a/k.py", 1), None])
    two = PlaceNames([Location("a/k.py", 1), Location("b/m.py", 2)])
    assert one[Location("a/k.py", 7)] == "line 7" and two[Location("a/k.py", 7)] == "k.py:7"


LINE = Location("k.py", 7)


def test_what_may_be_left_out_is_told_where_there_is_something():
    timing = real().report.timing
    assert removable(timing, Links([LINE])) == "" and 'id="merge"' not in page(real())
    found = Removable("repeated load", "dma_copy", LINE, None, 12, 12 << 20)
    text = removable(replace(timing, removable=(found,), latency_if_merged_us=timing.latency_us / 2), Links([LINE]))
    for part in ("12.0 MiB", "dma_copy, repeated load", 'data-goto="0"', "50% less"):
        assert part in text


def test_numpy_beside_nki(tmp_path: Path):
    def gated(x: np.ndarray, gate: np.ndarray) -> np.ndarray:
        scaled = x * 2 < 3
        return np.where(scaled, np.tanh(gate), x)

    kernel = tw.compile(gated, *[tw.spec((256, 64), "float32")] * 2)
    kernel.save(tmp_path, html=True)
    text = next(tmp_path.glob("*.html")).read_text()
    card = text.partition('id="beside"')[2].partition("</section>")[0]
    rows = re.findall(r"<tr><td class=\"n\">(line \d+)</td><td>(.*?)</td><td>(.*?)</td></tr>", card, re.DOTALL)
    shown = [
        (place, unescape(re.sub("<[^>]*>", "", left)), unescape(re.sub("<[^>]*>", "", right)))
        for place, left, right in rows
    ]
    assert {left for _, left, _ in shown} == {"scaled = x * 2 < 3", "return np.where(scaled, np.tanh(gate), x)"}
    nki = "".join(line for _, _, right in shown for line in right.splitlines() if line.strip())
    after = kernel.source.partition("# line ")[2].splitlines()[1:]
    assert nki == "".join(line for line in after if line.strip() and "# line " not in line)
    assert numpy_beside_nki("import nki\n") == ""

"""The page in a browser: it opens without complaint, draws, zooms, filters, and follows the theme."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import Browser, browser, missing
from tests.report.profiles import made_up, real
from tests.report.test_html import HOSTILE
from tilewright.report.html import write_html

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

BOX = "const box = document.getElementById('canvas').getBoundingClientRect(); return [box.left, box.top, box.width];"
COLOURS = """
const canvas = document.getElementById(arguments[0]);
const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
return new Set(pixels).size;
"""
ROWS = "return document.querySelectorAll('#rows tbody tr:not(.space)').length"


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as made:
        made.size(1440, 1000)
        yield made


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_html(path, real())
    return path


@pytest.fixture
def opened(window: Browser, file: Path) -> Iterator[Browser]:
    """A freshly opened page; nothing that is done to it may leave a complaint in the console."""
    window.prefer("light")
    window.log()
    window.requests()
    window.open(file)
    window.painted()
    yield window
    assert [entry for entry in window.log() if entry["level"] != "DEBUG"] == []


def view(window: Browser) -> tuple[float, float]:
    """The times at both ends of the timeline, as it was painted last."""
    window.painted()
    start, end = window.run("return document.getElementById('canvas').dataset.view").split()
    return float(start), float(end)


def place(window: Browser, index: int) -> tuple[float, float]:
    """Where the middle of an event's slice lies on the page, when all is shown."""
    made = real()
    left, top, width = window.run(BOX)
    event = made.events[index]
    middle = (event.start_ns + event.busy_end_ns) / 2
    engines = sorted(
        {each.engine for each in made.events if each.engine != "dma"}, key=["tensor", "vector", "scalar"].index
    )
    return left + width * middle / made.end_ns, top + 24 + 35 * engines.index(event.engine) + 15


def first(name: str) -> int:
    return next(index for index, event in enumerate(real().events) if event.name == name)


def test_opens_alone_and_draws(opened: Browser):
    assert opened.requests() == []
    assert opened.run(COLOURS, "canvas") > 8
    assert opened.run(COLOURS, "minimap") > 4
    assert opened.run("return document.title") == "normalised_product on trn2"
    labels = opened.run(
        "return [...document.querySelectorAll('.label .engine')].map((node) => node.firstChild.textContent)"
    )
    assert labels == ["Tensor", "Vector", "Scalar", "SBUF", "PSUM"]


def test_zoom_and_pan(opened: Browser):
    whole = view(opened)
    assert whole == (0.0, pytest.approx(real().end_ns))
    left, top, width = opened.run(BOX)
    x, y = left + width * 0.25, top + 40
    opened.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240)
    near = view(opened)
    assert near[1] - near[0] < (whole[1] - whole[0]) * 0.6
    assert near[0] + (near[1] - near[0]) * 0.25 == pytest.approx(whole[1] * 0.25, rel=0.01), "the cursor's time stays"
    opened.mouse("mouseMoved", x, y)
    opened.mouse("mousePressed", x, y, button="left", clickCount=1)
    opened.mouse("mouseMoved", x - 100, y, button="left", buttons=1)
    opened.mouse("mouseReleased", x - 100, y, button="left", clickCount=1)
    moved = view(opened)
    assert moved[0] > near[0] and moved[1] - moved[0] == pytest.approx(near[1] - near[0])
    opened.key("f")
    assert view(opened) == whole
    opened.key("w")
    assert view(opened)[1] - view(opened)[0] < whole[1]
    opened.key("a")
    opened.key("0")
    assert view(opened) == whole


def test_zooming_in_changes_the_picture(opened: Browser):
    picture = "return document.getElementById('canvas').toDataURL()"
    before = opened.run(picture)
    opened.run("document.getElementById('zoom-in').click()")
    opened.painted()
    assert opened.run(picture) != before


def test_hovering_tells_about_an_instruction(opened: Browser):
    opened.mouse("mouseMoved", *place(opened, first("nc_matmul")))
    opened.painted()
    tip = opened.run("const tip = document.getElementById('tip'); return tip.hidden ? '' : tip.innerText")
    assert "nc_matmul" in tip and "tests/report/profiles.py:" in tip and "nisa.nc_matmul(product" in tip
    assert "waited for" in tip and "the data of dma_copy" in tip and "stationary" in tip


def test_clicking_shows_chain_and_line(opened: Browser):
    index = first("tensor_scalar")
    opened.click(*place(opened, index))
    opened.painted()
    detail = opened.run("return document.getElementById('detail').innerText")
    assert f"tensor_scalar #{index}" in detail and f"nc_matmul #{real().events[index].cause}" in detail
    line = real().events[index].line
    assert line is not None
    picked = opened.run("return [...document.querySelectorAll('tr.picked .n')].map((cell) => cell.textContent)")
    assert picked == [str(line.line)]
    opened.key("[")
    opened.painted()
    assert f"nc_matmul #{real().events[index].cause} on Tensor" in opened.run(
        "return document.getElementById('detail').innerText"
    )
    opened.key("Escape")
    assert opened.run("return document.getElementById('detail').hidden")


def test_source_lines_light_up_their_instructions(opened: Browser):
    opened.run("document.querySelector('tr[data-line]').click()")
    assert len(opened.run("return [...document.querySelectorAll('tr.picked')].map((row) => row.dataset.line)")) == 1
    opened.run("document.querySelector('tr[data-line]').click()")
    assert opened.run("return document.querySelectorAll('tr.picked').length") == 0


def test_critical_path_alone(opened: Browser):
    before = opened.run("return document.getElementById('canvas').toDataURL()")
    opened.key("c")
    opened.painted()
    assert opened.run("return document.getElementById('critical').getAttribute('aria-pressed')") == "true"
    assert opened.run("return document.getElementById('canvas').toDataURL()") != before


@pytest.mark.parametrize(
    ("words", "keep"),
    [
        ("matmul", lambda event: event.name == "nc_matmul"),
        ("engine:vector", lambda event: event.engine == "vector"),
        ("engine:dma wait:engine", lambda event: event.engine == "dma" and event.wait == "engine"),
        ("stationary=", lambda event: "stationary=" in event.operands),
        ("nothing-like-this", lambda event: False),
    ],
)
def test_filter(opened: Browser, words: str, keep):
    script = """const box = document.getElementById("filter"); box.value = arguments[0];
    box.dispatchEvent(new Event("input")); return document.getElementById("count").textContent;"""
    expected = sum(map(keep, real().events))
    assert opened.run(script, words) == f"{expected} of {len(real().events)} instructions"
    assert opened.run(ROWS) == expected


def test_sort_and_groups(opened: Browser):
    column = """return [...document.querySelectorAll(`#rows tbody tr:not(.space) td:nth-child(${arguments[0]})`)]
    .map((cell) => cell.textContent)"""
    opened.run("document.querySelectorAll('#rows thead button')[2].click()")
    names = opened.run(column, 3)
    assert names == sorted(event.name for event in real().events)
    opened.run("document.querySelectorAll('#rows thead button')[2].click()")
    assert opened.run(column, 3) == names[::-1]
    opened.run("document.querySelector('[data-group=yes]').click()")
    places = {(event.name, event.line, event.engine) for event in real().events}
    assert opened.run(ROWS) == len(places)
    assert sorted(map(int, opened.run(column, 4))) == sorted(
        sum((event.name, event.line, event.engine) == place for event in real().events) for place in places
    )


def test_dark_mode(opened: Browser, file: Path):
    background = "return getComputedStyle(document.body.parentElement).backgroundColor"
    theme = "return document.documentElement.dataset.theme"
    light, picture = opened.run(background), opened.run("return document.getElementById('canvas').toDataURL()")
    assert opened.run(theme) == "light"
    opened.run("document.getElementById('theme').click()")
    opened.painted()
    assert opened.run(theme) == "dark" and opened.run(background) != light
    assert opened.run("return document.getElementById('canvas').toDataURL()") != picture
    opened.prefer("dark")
    opened.open(file)
    assert opened.run(theme) == "dark"
    opened.run("document.getElementById('theme').click()")
    assert opened.run(background) == light


@pytest.mark.parametrize("width", [1280, 1920])
def test_nothing_is_too_wide(opened: Browser, width: int):
    opened.size(width, 900)
    opened.painted()
    assert opened.run("return document.documentElement.scrollWidth") <= width
    wide = """return [...document.querySelectorAll(".figure strong, .card")]
    .filter((node) => node.scrollWidth > node.clientWidth + 1).map((node) => node.innerText)"""
    assert opened.run(wide) == []
    opened.size(1440, 1000)


def test_hundred_thousand_events(window: Browser, tmp_path: Path):
    write_html(tmp_path / "long.html", made_up(100_000, "x = 1\n" * 20))
    window.open(tmp_path / "long.html")
    whole = view(window)
    window.run("document.getElementById('zoom-in').click()")
    near = view(window)
    assert near[1] - near[0] == pytest.approx((whole[1] - whole[0]) / 2)
    assert window.run(ROWS) < 100, "only rows in sight exist"
    assert window.run("return document.getElementById('count').textContent") == "100,000 of 100,000 instructions"
    assert [entry for entry in window.log() if entry["level"] == "SEVERE"] == []


def test_hostile_source_is_only_shown(window: Browser, tmp_path: Path):
    write_html(tmp_path / "hostile.html", made_up(100, HOSTILE))
    window.open(tmp_path / "hostile.html")
    window.run("document.querySelectorAll('tr[data-line]')[1].click()")
    window.painted()
    assert window.run("return window.broken === undefined")
    assert HOSTILE.splitlines()[1] in window.run("return document.querySelector('.code').textContent")


def test_a_page_without_events_opens(window: Browser, tmp_path: Path):
    write_html(tmp_path / "empty.html", made_up(0))
    window.open(tmp_path / "empty.html")
    assert window.run(ROWS) == 0
    assert [entry for entry in window.log() if entry["level"] == "SEVERE"] == []

"""What notebooks show: HTML of kernels, reports, plans, programs and timelines, with everything escaped."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.errors import Diagnostic
from tilewright.report.notebook import _joined, timeline
from tilewright.report.profile import profile_kernel


@nki.jit
def copied(x: Any) -> Any:
    """Copies <x> & nothing else."""
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Checked(HTMLParser):
    """Refuses HTML whose elements are not closed in order; collects its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.kinds: set[str] = set()
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.kinds.add(tag)
        if tag not in ("br", "hr", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        self.text += data


X = np.ones((128, 16), np.float32)


def test_a_kernel():
    shown = Checked(copied._repr_html_())
    assert "Copies <x> & nothing else." in shown.text and "nisa.dma_copy" in shown.text and "script" not in shown.kinds


def test_a_compiled_function():
    compiled = tw.compile(softmax, tw.spec((256, 128), "float32"))
    shown = Checked(compiled._repr_html_())
    assert "softmax for trn2" in shown.text and "@nki.jit" in shown.text and {"svg", "rect"} <= shown.kinds
    assert str(compiled.plan).splitlines()[0] in Checked(compiled.plan._repr_html_()).text


def test_a_report_and_a_timeline():
    made = profile_kernel(copied, [X], target="trn2")
    assert "copied" in Checked(made.report._repr_html_()).text
    shown = Checked(made._repr_html_())
    assert "DMA" in shown.text and "rect" in shown.kinds
    assert 1 <= timeline(made).count("<rect") <= 2


def test_a_program():
    program = tw.program(lambda x: copied(copied(x)), X, target="trn2")
    shown = Checked(program._repr_html_())
    assert shown.text.count("copied") >= 2 and "fused" in shown.text


def test_a_diagnostic():
    assert Checked(Diagnostic("E101", "a < b & c")._repr_html_()).text == "error[E101]: a < b & c"


@pytest.mark.parametrize(
    ("spans", "joined"),
    [
        ([(0, 1)], [(0, 1)]),
        ([(0, 1), (1.4, 2), (5, 6)], [(0, 2), (5, 6)]),
        ([(0, 9), (1, 2), (9.2, 10)], [(0, 10)]),
    ],
)
def test_slices_that_a_picture_cannot_tell_apart(spans: Any, joined: Any):
    assert list(_joined(spans, 0.5)) == joined


def test_errors_in_notebooks_show_the_users_lines_alone():
    def choose(x: Any) -> Any:
        return x if x[0, 0] > 0 else -x

    with pytest.raises(tw.TileError) as raised:
        tw.compile(choose, X)
    *lines, last = raised.value._render_traceback_()
    assert [Path(__file__).name in line for line in lines] == [True, True]
    assert "tw.compile(choose, X)" in lines[0] and "x[0, 0] > 0" in lines[1]
    assert last.startswith("error[E801]") and "hint: " in last

"""Diagnostics as people see them: the line, the underlined part, paths, counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kit import nisa, nki, nl
from tilewright.errors import Diagnostic, Location, OperandNote, TileError
from tilewright.report.diagnostics import render, summary
from tilewright.report.source import shown_path, underlined

SOURCE = """\
def kernel(a):
    first(a); nisa.nc_matmul(dst, nisa.view(a), b); last(a)
    nisa.nc_matmul(
        dst, a, b)
    x = 1
    "ünïcödé"; nl.exp(a)
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "kernel.py"
    path.write_text(SOURCE)
    return str(path)


def part(file: str, line: int, message: str) -> str:
    found = underlined(Diagnostic("E101", message, location=Location(file, line)))
    assert found is not None
    return found.text[found.start : found.stop]


def test_the_call_of_the_message_is_underlined(file: str):
    assert part(file, 2, "nc_matmul: dst must be in psum") == "nisa.nc_matmul(dst, nisa.view(a), b)"
    assert part(file, 3, "nc_matmul: dst must be in psum") == "nisa.nc_matmul("
    assert part(file, 6, "nl.exp takes a tile") == "nl.exp(a)"


def test_otherwise_the_line_is(file: str):
    assert part(file, 2, "something else").startswith("first(a)")
    assert part(file, 2, "nc_transpose: not on this line").startswith("first(a)")
    assert part(file, 5, "tab") == "x = 1"


def test_files_that_do_not_parse_are_shown_by_line(tmp_path: Path):
    path = tmp_path / "broken.py"
    path.write_text("def (:\n    nisa.nc_matmul(a)\n")
    assert part(str(path), 2, "nc_matmul: dst") == "nisa.nc_matmul(a)"


def test_missing_sources_are_left_out():
    text = render(Diagnostic("E101", "message", location=Location("<stdin>", 3))).plain
    assert text == "error[E101]: message\n  --> <stdin>:3"
    assert render(Diagnostic("E601", "message")).plain == "error[E601]: message"


def test_everything_a_diagnostic_says_is_shown(file: str):
    found = Diagnostic(
        "E104",
        "exp is too wide",
        "R-tensor-01",
        "warning",
        "make it narrower",
        Location(file, 6),
        (OperandNote("data", (200, 3), "float32", "sbuf"),),
        ("a note",),
    )
    assert render(found, ("trn1", "trn2")).plain.splitlines() == [
        "warning[E104, R-tensor-01]: exp is too wide",
        f"  --> {file}:6",
        "   |",
        ' 6 |     "ünïcödé"; nl.exp(a)',
        "   |                ^^^^^^^^^",
        "   | data: float32[200, 3] in sbuf",
        "   = on: trn1, trn2",
        "   = note: a note",
        "   = hint: make it narrower",
    ]


def test_a_tile_of_the_wrong_type_tells_which_line_made_it(file: str):
    """The instruction refuses it; the line to mend is that of its allocation."""
    note = OperandNote("moving", (64, 96), "bfloat16", "sbuf", Location(file, 3))
    elsewhere = OperandNote("dst", (4, 4), "float32", "psum", Location("other.py", 8))
    found = Diagnostic("E102", "m", location=Location(file, 6), operands=(note, elsewhere))
    shown = render(found).plain
    assert "| moving: bfloat16[64, 96] in sbuf, made in line 3\n" in shown
    assert shown.endswith("| dst: float32[4, 4] in psum, made at other.py:8") and "in line 3" in str(found)
    data: Any = found.to_dict()
    assert data["operands"][0]["made"]["line"] == 3

    @nki.jit
    def kernel(x: Any) -> Any:
        a = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)
        b = nl.ndarray((64, 64), dtype=nl.bfloat16, buffer=nl.sbuf)
        c = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
        nisa.memset(a, value=0)
        nisa.memset(b, value=0)
        nisa.nc_matmul(dst=c, stationary=a, moving=b)
        return x

    with pytest.raises(TileError) as caught:
        kernel(np.ones((4, 4), np.float32))
    refused = caught.value.diagnostic
    assert refused.rule == "R-nc_matmul-03" and refused.location is not None
    made = {each.name: each.made for each in refused.operands}
    assert made["moving"] is not None and made["moving"].line == refused.location.line - 4


def test_the_gutter_grows_with_the_line_number(tmp_path: Path):
    path = tmp_path / "long.py"
    path.write_text("\n" * 12344 + "f(x)\n")
    lines = render(Diagnostic("E101", "m", location=Location(str(path), 12345), hint="h")).plain.splitlines()
    assert lines[2:] == ["      |", "12345 | f(x)", "      | ^^^^", "      = hint: h"]


def test_paths_are_relative_to_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert shown_path(str(tmp_path / "a" / "b.py")) == str(Path("a") / "b.py")
    assert shown_path("/elsewhere/b.py") == "/elsewhere/b.py" and shown_path("<stdin>") == "<stdin>"
    note = render(Diagnostic("E302", "m", notes=(f"allocated at {tmp_path}/k.py:3",))).plain
    assert note.endswith("note: allocated at k.py:3")


def test_summary():
    error, warning = Diagnostic("E101", "m"), Diagnostic("W101", "m", severity="warning")
    assert summary([]) == "no diagnostics"
    assert summary([error]) == "1 error" and summary([error, warning, warning]) == "1 error and 2 warnings"

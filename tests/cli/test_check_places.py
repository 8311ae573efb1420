"""Where a diagnostic points: the argument or index at fault, in columns that editors understand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tilewright.errors import Diagnostic, Location, OperandNote, Span
from tilewright.nki.static import examine_source
from tilewright.report.diagnostics import render
from tilewright.report.parts import narrowed

from .kit import CommandLine

SOURCE = """\
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def kernel(x, y):
    a = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    b = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    {statement}
    return x


kernel(np.zeros((128, 512), np.float32), np.zeros((128, 512), np.float32))
"""

PSUM = "nl.ndarray((128, 512), nl.float32, buffer=nl.psum)"
MADE = [
    ("nl.ndarray((256, 8), dtype=nl.float32, buffer=nl.sbuf)", "(256, 8)"),
    ("nl.ndarray((128, 1024), nl.float32, buffer=nl.psum)", "(128, 1024)"),
    ("nl.zeros(dtype=nl.float32, shape=(128, 99999), buffer=nl.sbuf)", "(128, 99999)"),
    ("nl.ndarray((128,), dtype=nl.float32, buffer=nl.sbuf)", "(128,)"),
    (f"nisa.dma_copy(y, {PSUM})", PSUM),
]
needs_columns = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python tells no columns")


def found_in(tilewright: CommandLine, folder: Path, statement: str) -> tuple[dict[str, Any], str]:
    """The location that JSON shows for one statement, and the text that it covers."""
    text = SOURCE.format(statement=statement)
    path = folder / "kernel.py"
    path.write_text(text, encoding="utf-8")
    result = tilewright("check --json", path)
    place = result.json["targets"]["trn2"]["diagnostics"][0]["location"]
    shown = place["part"] or place
    lines = text.splitlines()
    if shown["line"] == shown["end_line"]:
        return place, lines[shown["line"] - 1][shown["column"] - 1 : shown["end_column"] - 1]
    return place, lines[shown["line"] - 1][shown["column"] - 1 :]


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("nisa.tensor_tensor(a, y, b, op=nl.add)", "y"),
        ("nisa.tensor_tensor(a, data2=a, data1=y[:, 0:512], op=nl.add)", "y[:, 0:512]"),
        pytest.param("nisa.tensor_tensor(a, a, b, op=nl.exp)", "nl.exp", marks=needs_columns),
        pytest.param("nisa.tensor_tensor(a, a, b, nl.exp)", "nl.exp", marks=needs_columns),
        ("nisa.tensor_tensor(a, a, 'b', nl.add)", "'b'"),
        ("nisa.tensor_reduce(b[:, 0:1], a, nl.max, axis=1)", "nl.max"),
        ("nisa.tensor_tensor(a, a, b[:, 0:1], op=nl.add)", "b[:, 0:1]"),
        ("nisa.tensor_tensor(a[0:64], data1=a, data2=b, op=nl.add)", "a[0:64]"),
        *(pytest.param(*each, marks=needs_columns) for each in MADE),
    ],
)
def test_the_argument_at_fault(tilewright: CommandLine, tmp_path: Path, statement: str, part: str):
    place, text = found_in(tilewright, tmp_path, statement)
    assert (place["line"], text) == (11, part)


@needs_columns
@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("nisa.dma_copy(a, x[0:128, 0:600])", "0:600"),
        ("nisa.dma_copy(a[0:200, :], x)", "0:200"),
        ("nisa.dma_copy(a, x[..., 0:600])", "0:600"),
        ("nisa.dma_copy(a, x[0:129])", "x[0:129]"),
        ("'ä'; nisa.dma_copy(a, x[0:128, 0:600])", "0:600"),
    ],
)
def test_the_index_at_fault(tilewright: CommandLine, tmp_path: Path, statement: str, part: str):
    place, text = found_in(tilewright, tmp_path, statement)
    assert (place["line"], text) == (11, part)


@pytest.mark.parametrize(
    "statement",
    [
        "nisa.tensor_copy(b[:, 0:100], a)",
        pytest.param("nisa.tensor_tensor(a, *[b, b, nl.exp])", marks=needs_columns),
    ],
)
def test_the_call_where_no_one_argument_is_at_fault(tilewright: CommandLine, tmp_path: Path, statement: str):
    place, text = found_in(tilewright, tmp_path, statement)
    assert text == statement and place["part"] is None


def test_an_argument_below_its_call(tilewright: CommandLine, tmp_path: Path):
    statement = "nisa.tensor_tensor(\n        a,\n        y,\n        b, op=nl.add)"
    place, text = found_in(tilewright, tmp_path, statement)
    assert place["line"] == 11 and place["column"] == 5 and place["end_line"] == 14
    assert text == "y" and place["part"] == {"line": 13, "column": 9, "end_line": 13, "end_column": 10}
    shown = tilewright("check", tmp_path / "kernel.py").err.splitlines()
    at = next(i for i, line in enumerate(shown) if line.startswith("11 |"))
    assert shown[at : at + 4] == ["11 |     nisa.tensor_tensor(", "   | ...", "13 |         y,", "   |         ^"]


def test_calls_of_two_on_one_line_without_columns(tmp_path: Path):
    path = tmp_path / "k.py"
    path.write_text("import nki.isa as nisa\nnisa.exponential(a, b); nisa.tensor_copy(c, d)\n")
    found = narrowed(Diagnostic("E101", "tensor_copy: src must be in sbuf", location=Location(str(path), 2)))
    assert found.location is not None and found.location.part == Span(2, 44, 2, 45)
    assert narrowed(found) is found


def test_messages_that_name_two_arguments_are_about_the_call(tmp_path: Path):
    path = tmp_path / "k.py"
    path.write_text("import nki.isa as nisa\nnisa.tensor_copy(c, src=d)\n")
    found = narrowed(Diagnostic("E103", "tensor_copy: src is wider than dst", location=Location(str(path), 2)))
    assert found.location is not None and found.location.part is None
    assert found.location.span == Span(2, 0, 2, 26)


@pytest.mark.parametrize(("dim", "part"), [(0, "i"), (1, None), (2, None), (3, "j")])
def test_indices_behind_an_ellipsis(tmp_path: Path, dim: int, part: str | None):
    path = tmp_path / "k.py"
    path.write_text("t[i, ..., j]\n")
    tensor = (OperandNote("tensor", (2, 3, 4, 5), "float32", "sbuf"),)
    where = Location(str(path), 1, Span(1, 0, 1, 12))
    place = narrowed(Diagnostic("E301", f"9 is outside dim {dim} of size 3", None, location=where, operands=tensor))
    assert place.location is not None
    span = place.location.part
    assert (None if span is None else "t[i, ..., j]"[span.column : span.end_column]) == part


def test_findings_of_the_source_alone_have_columns(tmp_path: Path):
    text = "import nki\n\n@nki.jit\ndef k(x):\n    if x is None: return x\n    return {1: x}\n"
    spans = [each.location and each.location.span for each in examine_source(text, "k.py").diagnostics]
    assert spans == [Span(5, 7, 5, 16), Span(6, 12, 6, 13)]


def test_a_file_that_does_not_parse_is_shown_where_the_parser_stopped(tilewright: CommandLine, tmp_path: Path):
    path = tmp_path / "k.py"
    path.write_text("x = (1,\ny = = 3\n")
    place = tilewright("check --json", path).json["diagnostics"][0]["location"]
    assert place["column"] is not None and place["end_column"] > place["column"]


def test_a_line_is_shown_whole_where_nothing_closer_is_known(tmp_path: Path):
    path = tmp_path / "k.py"
    path.write_text("  a(b)\n")
    found = Diagnostic("E101", "m", location=Location(str(path), 1))
    assert render(found).plain.splitlines()[-1] == "   |   ^^^^"
    assert found.to_dict()["location"] == {
        "file": str(path), "line": 1, "column": None, "end_line": None, "end_column": None, "part": None,
    }  # fmt: skip

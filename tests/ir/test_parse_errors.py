"""Text that cannot be read is refused with a code, the line and the column, and never with another exception."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.errors import Location, TileSyntaxError
from tilewright.ir.parse import parse, parse_all
from tilewright.ir.text import AttrKind, Dialect, show

from .demo import DEMO
from .test_text import SCORES

HEAD = "kernel f(%x: f32[4]) {\n  "


def refused(text: str) -> TileSyntaxError:
    with pytest.raises(TileSyntaxError) as error:
        parse(text, DEMO, file="k.ir")
    return error.value


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("stor %x", "E202", "line 2, column 3: there is no op stor"),
        ("%y = neg %z : f32[4]", "E203", "line 2, column 12: %z is not defined here"),
        ("%x = neg %x : f32[4]", "E204", "line 2, column 3: %x is defined already"),
        ("%y = neg %x : f32[4] barrier", "E201", "line 2, column 24: expected the end of the line, found 'barrier'"),
        ("%y = neg %x", "E201", "neg: 1 results are named, 0 types are given"),
        ("neg %x : f32[4]", "E201", "neg: 0 results are named, 1 types are given"),
        ("%y, = neg %x : f32[4]", "E201", "line 2, column 7: expected a value, found '='"),
        ("%y, %y = split %x : f32[4], f32[4]", "E204", "line 2, column 7: %y is defined already"),
        ("store %x,", "E201", "expected a constant"),
        ("store %x {a = 1, a = 2}", "E201", "line 2, column 20: the attribute a is given twice"),
        ("store %x {a = }", "E201", "line 2, column 17: expected a constant, found '}'"),
        ("store %x {a = 1 b = 2}", "E201", "line 2, column 19: expected '}', found 'b'"),
        ("store %x, [1]", "E201", "line 2, column 13: list cannot be an operand, only an attribute"),
        ("store f32", "E201", "line 2, column 9: DType cannot be an operand, only an attribute"),
        ("store (1)", "E201", "a tuple of one item is written (item,)"),
        ("store (1 2)", "E201", "expected ',' or ')', found '2'"),
        ("store - %x", "E201", "line 2, column 11: expected a number, found '%x'"),
        ("store what(1)", "E201", "line 2, column 9: there is no constant what(...)"),
        ('store "abc', "E201", "line 2, column 9: a string without its closing quote"),
        (r'store "\q"', "E201", "is not a valid string"),
        ("store \u00e9", "E201", "line 2, column 9: unexpected character"),
        ("store %x[0 : 4]", "E201", "line 2, column 16: expected '+', found '4'"),
        ("store %x[0", "E201", "expected ':', found the end of the line"),
        ("for %x in 0..4 {\n}", "E204", "%x is defined already"),
        ("for %i of 0..4 {\n}", "E201", "expected 'in', found 'of'"),
        ("for i in 0..4 {\n}", "E201", "expected a value, found 'i'"),
        ("for %i in 0..4\n barrier", "E201", "expected '{', found the end of the line"),
        ("for %i in 0..4 {\n barrier", "E201", "expected"),
        ("for %i in 0..4 {\n}\n store %i", "E203", "line 4, column 8: %i is not defined here"),
        ("%r = for %i in 0..4 {\n}", "E201", "for has 0 results, the text names 1"),
        ("alloc f32[4]", "E201", "alloc has one result, the text names 0"),
        ("barrier loc(3)", "E201", "expected a string, found '3'"),
        ("store " + "(" * 70 + ")" * 70, "E201", "nested more than 64 deep"),
        ("store " + "9" * 5000, "E201", "an integer of 5000 digits is too long"),
        ("store dense(f33[1], [1])", "E201", "there is no element type f33"),
        ("store dense(i8[2], [1])", "E201", "the shape has 2 elements, 1 are given"),
        ("store dense(i8[1], [300])", "E201", "expected a list of i8 numbers"),
        ("store dense(i8[1], 300)", "E201", "expected a list of i8 numbers"),
        ("store dense(bool[1], [1])", "E201", "expected a list of bool numbers"),
        ("store dense(f32[1], 0x00)", "E201", "2 digits are no whole number of f32 elements"),
        ("store dense(f32[-1], [])", "E201", "a dimension cannot be -1"),
        ("store dense(f32[1, [])", "E201", "expected an int"),
        ("store dense(f32[1 1], [])", "E201", "expected ']', found '1'"),
        ("store dense(f32[0, 99999999999, 99999999999], [])", "E201", "is too large"),
    ],
)
def test_errors_say_what_and_where(body: str, code: str, message: str):
    diagnostic = refused(HEAD + body + "\n}").diagnostic
    assert diagnostic.code == code and message in diagnostic.message, diagnostic
    assert isinstance(diagnostic.location, Location) and diagnostic.location.file == "k.ir"
    assert f"line {diagnostic.location.line}," in diagnostic.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected one graph, found 0"),
        ("kernel a() {\n}\nkernel b() {\n}", "expected one graph, found 2"),
        ("graph a() {\n}", "expected 'kernel', found 'graph'"),
        ("kernel () {\n}", "expected a word, found '('"),
        ("kernel a() {\n} barrier", "expected the end of the line"),
        ("kernel a() {", "the end of the text"),
        ("kernel a(%x) {\n}", "expected ':', found ')'"),
        ("kernel a(%x: f32[4] %y: f32[4]) {\n}", "expected ',' or ')', found '%y'"),
        ("kernel a(%x: f32[4]) -> (%x: f32[5]) {\n}", "%x is f32[4], the header says f32[5]"),
        ("kernel a(%x: f32[4]) -> %x {\n}", "expected '(', found '%x'"),
    ],
)
def test_errors_around_graphs(text: str, message: str):
    assert message in refused(text).diagnostic.message


def test_near_names_are_suggested():
    assert refused(HEAD + "stor %x\n}").diagnostic.hint == "did you mean store?"
    assert refused("kernel f(%scores: f32[4]) {\n store %score\n}").diagnostic.hint == "did you mean %scores?"


def test_a_declared_output_cannot_be_defined_after_its_use():
    text = "kernel f() -> (%o: f32[4]) {\n store %o\n %o = const : f32[4]\n}"
    assert refused(text).diagnostic.code == "E204"


def test_it_also_is_a_python_syntax_error():
    assert isinstance(refused("?"), SyntaxError)


def test_types_without_a_hook():
    bare = Dialect("graph", DEMO.ops)
    with pytest.raises(TileSyntaxError, match="this dialect has no types"):
        parse("graph f(%x: f32[4]) {\n}", bare)


def test_reserved_words_cannot_be_given_a_meaning():
    with pytest.raises(AssertionError, match="reserved"):
        Dialect("graph", {}, words={"inf": 1})
    with pytest.raises(AssertionError, match="reserved"):
        Dialect("graph", {}, kinds=(AttrKind("loc", int, lambda printer, x: "", lambda reader: 0),))


PIECES = [
    "%x",
    "%i",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    "=",
    ":",
    "\n",
    "..",
    "-",
    "1",
    "2.5",
    "for",
    "store",
    "loc",
    '"',
    "#",
]


@given(st.lists(st.tuples(st.integers(0, len(SCORES)), st.integers(0, 6), st.sampled_from(["", *PIECES])), max_size=4))
def test_damaged_text_is_read_or_refused(damages: list[tuple[int, int, str]]):
    text = SCORES
    for place, length, piece in damages:
        text = text[:place] + piece + text[place + length :]
    try:
        graphs = parse_all(text, DEMO)
    except TileSyntaxError as error:
        assert error.diagnostic.code in ("E201", "E202", "E203", "E204")
        return
    for graph in graphs:
        again = show(graph)
        assert show(parse(again, DEMO)) == again


@pytest.mark.parametrize("frame", ["@", HEAD + "@\n}"], ids=["alone", "in a kernel"])
@given(text=st.text(max_size=60))
def test_any_text_is_read_or_refused(frame: str, text: str):
    try:
        parse_all(frame.replace("@", text), DEMO)
    except TileSyntaxError as error:
        assert error.diagnostic.location is not None

"""Text in, passes, CHECK lines: every rule of simplify in a small program that shows it and keeps its meaning."""

from __future__ import annotations

import io
from collections import Counter
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser, pattern_for_opts

from tests.tensor.compare import as_wide, assert_same, inputs_of, outputs
from tilewright.ir.core import Graph
from tilewright.tensor.passes.decompose import decompose
from tilewright.tensor.passes.simplify import EXACT, INEXACT, simplify
from tilewright.tensor.text import parse_tensor

FOLDER = Path(__file__).parent / "golden"


def cases(name: str) -> list[Any]:
    """The programs of a folder, several in a file."""
    return [
        pytest.param(text, id=f"{file.stem}-{number}")
        for file in sorted((FOLDER / name).glob("*.ir"))
        for number, text in enumerate(file.read_text().split("# -----\n"))
    ]


CASES, TAKEN_APART = cases("simplify"), cases("decompose")


def assert_checks(text: str, output: str) -> None:
    """The CHECK lines of a text hold for an output."""
    options = Options("the case")
    checks = Parser(options, io.StringIO(text), *pattern_for_opts(options))
    message = io.StringIO()
    with redirect_stderr(message):
        failed = Matcher(options, FInput("output", output), checks).run()
    assert not failed, f"{message.getvalue()}\n{output}"


def wanted_rules(text: str) -> set[str]:
    """The names after RULES."""
    (line,) = [line for line in text.splitlines() if line.startswith("# RULES:")]
    return set(line.removeprefix("# RULES:").split())


def simplified(text: str) -> tuple[Graph, Counter[str]]:
    """The program of a case after simplify."""
    graph = parse_tensor(text)
    return graph, simplify(graph)


@pytest.mark.req("S4-18")
@pytest.mark.parametrize("text", CASES)
def test_a_program_becomes_what_its_checks_say(text: str):
    graph, fired = simplified(text)
    assert_checks(text, str(graph))
    assert wanted_rules(text) <= set(fired), f"fired: {sorted(fired)}"
    assert not simplify(graph), "a second run changes nothing"


@pytest.mark.req("S4-17")
@pytest.mark.parametrize("text", CASES)
def test_a_program_keeps_its_meaning(text: str):
    before = parse_tensor(text)
    graph, fired = simplified(text)
    exact = not any(fired[r.name] for r in INEXACT)
    for seed in range(3):
        arrays = inputs_of(before, seed, special=exact)
        for a, b in zip(outputs(graph, arrays), outputs(before, arrays), strict=True):
            if exact:
                assert_same(a, b, zeros=fired["relu"] + fired["join_numbers"] == 0)
            else:
                # Sums in another order are off by a part of the largest terms, not of what is left of them.
                largest = np.abs(as_wide(b)).max(initial=0.0)
                np.testing.assert_allclose(as_wide(a), as_wide(b), rtol=2e-6, atol=max(2e-6, 2.0**-23 * largest))


@pytest.mark.req("S4-19")
@pytest.mark.req("S4-27")
@pytest.mark.parametrize("text", TAKEN_APART)
def test_a_program_is_taken_apart_as_its_checks_say(text: str):
    before = parse_tensor(text)
    graph = parse_tensor(text)
    fired = decompose(graph)
    simplify(graph, EXACT)
    assert_checks(text, str(graph))
    assert wanted_rules(text) <= set(fired), f"fired: {sorted(fired)}"
    arrays = inputs_of(before, special=False)
    for a, b in zip(outputs(graph, arrays), outputs(before, arrays), strict=True):
        np.testing.assert_allclose(as_wide(a), as_wide(b), rtol=1e-6, atol=3e-7)


def test_every_rule_has_a_case():
    shown = {name for case in CASES for name in wanted_rules(case.values[0])}
    assert {r.name for r in (*EXACT, *INEXACT)} <= shown

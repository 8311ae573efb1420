"""Planted causes are named, each by what a user does first: run it, and bisect it when it runs but gives nonsense."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import tilewright as tw
from tests.diagnose.planted import CAUSES, Planted, plant
from tilewright.activate import activate
from tilewright.diagnose.bisection.variants import instructions_of


def named_by_the_error(planted: Planted) -> set[int]:
    """Lines that a check names, the births of bad values among them; notes on what is only rounded left out."""
    every = tw.verify(planted.kernel, *planted.arguments, target=planted.target)
    found = [each for diagnostic in every for each in (diagnostic, *diagnostic.births)]
    notes = [note for each in found for note in (each.message, *each.notes)]
    lines = {int(line) for note in notes for line in re.findall(r"planted\.py:(\d+)", note)}
    return lines | {each.location.line for each in found if each.location is not None}


def named_by_bisection(planted: Planted, folder: Path) -> set[int]:
    """Lines that are left of a kernel that runs but gives what is not finite."""
    found = tw.bisect(planted.kernel, *planted.arguments, target=planted.target, folder=folder)
    steps = [op for op in instructions_of(found.kernel) if op.name not in ("dma_copy", "memset")]
    return {op.location.line for op in steps if op.location is not None}


# Another one plants elsewhere: TILEWRIGHT_PLANTED=7 pytest tests/diagnose/test_planted.py
SEED = int(os.environ.get("TILEWRIGHT_PLANTED", "1"))
CASES = [(cause, variant) for cause, variants in CAUSES.items() for variant in range(len(variants))]


@pytest.mark.parametrize(("cause", "variant"), CASES)
@pytest.mark.parametrize("seed", [SEED])
def test_the_planted_cause_is_named(cause: str, variant: int, seed: int, tmp_path: Path) -> None:
    activate(force=True)
    planted = plant(cause, variant, seed, tmp_path)
    lines = named_by_the_error(planted)
    if not lines:
        lines = named_by_bisection(planted, tmp_path / "found")
    assert planted.line in lines, (planted.line, lines, (tmp_path / "planted.py").read_text())
    # Not by naming everything.
    assert len(lines) <= 4


def test_there_are_three_of_each() -> None:
    assert len(CAUSES) == 7 and all(len(variants) == 3 for variants in CAUSES.values())

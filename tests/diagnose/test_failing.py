"""Programs of other structures than the planted ones: the cause is named by the error, or else by bisection."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tilewright as tw
from tests.diagnose.failing import FAILING, PLANTED, Failing

HERE = re.compile(r"failing\.py:(\d+)")


def planted(failing: Failing) -> int:
    lines, first = inspect.getsourcelines(failing.cause.__wrapped__)
    return first + next(number for number, line in enumerate(lines) if PLANTED in line)


def lines_of(text: str) -> set[int]:
    return {int(line) for line in HERE.findall(text)}


def raised(failing: Failing, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    monkeypatch.setenv("TILEWRIGHT_TARGET", failing.target)
    try:
        failing.thing(*failing.arguments)
    except tw.TileError as error:
        return lines_of(str(error))
    return set()


@pytest.mark.parametrize("name", FAILING)
def test_the_cause_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = FAILING[name]
    lines = raised(failing, monkeypatch)
    if not lines:
        found = tw.bisect(
            failing.thing,
            *failing.arguments,
            target=failing.target,
            reference=failing.reference,
            folder=tmp_path,
        )
        evidence = found.report.split("## Key evidence")[1].split("## Smallest kernel")[0]
        lines = lines_of(evidence)
    assert planted(failing) in lines
    assert len(lines) <= 6, "not by naming everything"


@pytest.mark.parametrize("name", [name for name in FAILING if "race" in name])
def test_races_are_reduced_on_all_cores(name: str, tmp_path: Path) -> None:
    failing = FAILING[name]
    found = tw.bisect(failing.thing, *failing.arguments, folder=tmp_path)
    assert len(found.kernels) == 2 and "R-LNC-02" in found.looked_for
    assert planted(failing) in lines_of(found.report)
    assert (tmp_path / "kernel.core1.tile.ir").exists()


def test_a_race_shows_when_it_is_run_again(tmp_path: Path) -> None:
    failing = FAILING["race, halo"]
    tw.bisect(failing.thing, *failing.arguments, folder=tmp_path)
    done = subprocess.run([sys.executable, str(tmp_path / "reproduce.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "R-LNC-02" in done.stdout

"""What the gate tells at the end of a run, for people and for the services that run tests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tilewright.gate.branches import Branch
from tilewright.gate.lines import Covered, LineTracer
from tilewright.gate.tally import Refusal, count

_ELSE = "something else ran"


@dataclass(slots=True)
class Imported:
    """What kernels did while files of tests were imported. Workers of a run import all of them, each by itself."""

    executed: int = 0
    refused: int = 0
    fell_back: list[tuple[str, Refusal]] = field(default_factory=list)

    def as_data(self) -> dict[str, Any]:
        """Plain data, which goes from a worker to the run."""
        return asdict(self)

    @classmethod
    def of_data(cls, data: dict[str, Any]) -> Imported:
        """What `as_data` made."""
        return cls(data["executed"], data["refused"], [(file, Refusal(**each)) for file, each in data["fell_back"]])

    def join(self, other: Imported) -> None:
        """Take in what another worker found in the same files."""
        self.executed, self.refused = max(self.executed, other.executed), max(self.refused, other.refused)
        self.fell_back += [each for each in other.fell_back if each not in self.fell_back]


@dataclass(slots=True)
class Outcome:
    """Everything that the tests of a run did with kernels.

    fell_back: refusals of kernels whose tests passed all the same, without having waited for them. skipped: refusals of
    those whose tests were skipped then. reached: tests that ran, other than by being skipped. slower, unknown: kernels
    beside the baseline; written: that it was.
    """

    executed: int = 0
    refused: int = 0
    reached: int = 0
    fell_back: list[tuple[str, Refusal]] = field(default_factory=list)
    skipped: list[tuple[str, Refusal]] = field(default_factory=list)
    expected_failures: list[tuple[str, str]] = field(default_factory=list)
    unexpected_passes: list[tuple[str, str]] = field(default_factory=list)
    slower: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    written: str = ""
    branches: list[Branch] = field(default_factory=list)

    def line(self) -> str:
        """The line that says how many kernels ran."""
        fell_back = _count(self.fell_back)
        return f"tilewright: {self.executed} kernels executed, {self.refused} refused, {fell_back} fell back"

    def add(self, imported: Imported) -> None:
        """Count what files of tests did when they were imported."""
        self.executed += imported.executed
        self.refused += imported.refused
        self.fell_back += imported.fell_back

    def faults(self, asked: int | None) -> list[str]:
        """Why the run fails; nothing where it does not.

        asked: how many kernels have to run at least, whatever the tests do; one in runs that have tests, by default.
        """
        found: list[str] = []
        tests = [each for each in self.fell_back if "::" in each[0]]
        files = [each for each in self.fell_back if "::" not in each[0]]
        if tests:
            passed = _many(len({test for test, _ in tests}), "test", "tests")
            kernels = _many(_count(tests), "kernel was", "kernels were")
            found.append(f"{kernels} refused in {passed} that passed: {_ELSE}")
        if files:
            kernels = _many(_count(files), "kernel was", "kernels were")
            found.append(f"{kernels} refused in imports of files: {_ELSE}")
        if self.skipped:
            skipped = _many(len({test for test, _ in self.skipped}), "test that was", "tests that were")
            kernels = _many(_count(self.skipped), "kernel was", "kernels were")
            found.append(f"{kernels} refused in {skipped} skipped then: nothing was tested")
        least = min(self.reached, 1) if asked is None else asked
        if self.executed < least:
            launched = self.executed + self.refused
            found.append(f"{self.executed} of {launched} kernels were executed, at least {least} should have been")
        if self.slower:
            found.append(f"{_many(len(self.slower), 'kernel takes', 'kernels take')} more than the baseline")
        return found


def show(
    terminal: pytest.TerminalReporter, outcome: Outcome, faults: Sequence[str], covered: Covered | None, gating: bool
) -> None:
    """Print the summary of a run."""
    terminal.section("tilewright", sep="=")
    refused = [_shown(f"{test}: {each}") for test, each in outcome.fell_back]
    _list(terminal, "refused while the test passed, or its file was imported", refused, "red")
    skipped = [_shown(f"{test}: {each}") for test, each in outcome.skipped]
    _list(terminal, "refused, whereupon the test was skipped", skipped, "red")
    _list(terminal, "slower or larger than the baseline", outcome.slower, "red")
    _list(terminal, "not in the baseline (--tilewright-update-baseline takes them in)", outcome.unknown, "yellow")
    if outcome.written:
        terminal.write_line(outcome.written)
    _list(terminal, "PASSED although failure was expected", [_with(*each) for each in outcome.unexpected_passes], "red")
    _list(terminal, "expected failures", [_with(*each) for each in outcome.expected_failures], "yellow")
    _list(
        terminal,
        "host code that asks whether it is simulated (what is tested is not what ships)",
        [_shown(str(each)) for each in outcome.branches],
        "yellow",
    )
    if covered is not None and covered.lines:
        _show_lines(terminal, covered)
    for fault in faults:
        terminal.write_line(f"{'error' if gating else 'warning'}: {fault}", red=gating, yellow=not gating, bold=True)
    terminal.write_line(outcome.line(), bold=True)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        _annotate(terminal, outcome, faults)


def _annotate(terminal: pytest.TerminalReporter, outcome: Outcome, faults: Sequence[str]) -> None:
    """What GitHub shows beside the lines of a change, and on the page of the run."""
    for title, refused in (("while its test passed", outcome.fell_back), ("and its test skipped", outcome.skipped)):
        for test, each in refused:
            place = f"file={_shown(each.file)},line={each.line}," if each.file else ""
            terminal.write_line(f"::error {place}title=kernel refused {title}::{test}: {each.message}")
    for row in outcome.slower:
        terminal.write_line(f"::error file={row.partition('::')[0]},title=kernel takes more than the baseline::{row}")
    for test, reason in outcome.unexpected_passes:
        title = "passed although failure was expected"
        terminal.write_line(f"::warning file={test.partition('::')[0]},title={title}::{_with(test, reason)}")
    for fault in faults:
        terminal.write_line(f"::error title=tilewright::{fault}")


def _show_lines(terminal: pytest.TerminalReporter, covered: Covered) -> None:
    rows = [(_shown(file), ran, lines, missing) for file, ran, lines, missing in covered.table()]
    width = max(len(file) for file, *_ in rows)
    until = f" in the first {LineTracer.MOST_CALLS:,} calls of functions (--tilewright-cov FILE: in all)"
    terminal.write_line(f"lines of kernels that ran{until if covered.cut else ''}", bold=True)
    for file, ran, lines, missing in rows:
        share = f"{ran / lines:6.0%}" if lines else "     -"
        terminal.write_line(f"  {file:{width}} {ran:5} of {lines:5} {share}{f'  not {missing}' if missing else ''}")


def _list(terminal: pytest.TerminalReporter, title: str, rows: list[str], colour: str) -> None:
    if rows:
        terminal.write_line(title, bold=True, **{colour: True})
        for row in rows:
            terminal.write_line(f"  {row}")


def _count(refused: Iterable[tuple[str, Refusal]]) -> int:
    return count(each for _, each in refused)


def _with(test: str, reason: str) -> str:
    return f"{test}: {reason}" if reason else test


def _many(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"


def _shown(text: str) -> str:
    """A text with paths below the current folder, relative to it."""
    return text.replace(f"{Path.cwd()}{os.sep}", "")

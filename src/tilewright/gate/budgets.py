"""Times and sizes that tests hold their kernels to: marks, and a file of what was measured before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tilewright.files import json_of
from tilewright.nki.kernel import Run
from tilewright.report.resources import Report, resources
from tilewright.units import us_text

SLOWER = 1.02
"""A kernel that takes more than this times what it took is a regression."""


class Taken(NamedTuple):
    """What a kernel takes: predicted microseconds, bytes of SBUF per partition, on a target (any, in old files)."""

    us: float
    sbuf: int
    target: str = ""

    def is_beside(self, other: Taken) -> bool:
        """Both are of one target: figures of two say nothing about a kernel."""
        return not self.target or not other.target or self.target == other.target


def taken_by(runs: Sequence[tuple[str, Any]]) -> dict[str, Taken]:
    """What the kernels of a test take, by name; one that ran several times has numbers behind it."""
    found: dict[str, Taken] = {}
    for name, run in runs:
        # What is not the run of a kernel is a compiled function, which reports itself.
        report: Report = resources(run) if isinstance(run, Run) else run.report
        key, count = name, 1
        while key in found:
            count += 1
            key = f"{name}#{count}"
        found[key] = Taken(round(report.latency_us, 3), report.sbuf_peak_bytes, report.target)
    return found


def over_budget(taken: Mapping[str, Taken], max_us: float | None, max_sbuf: int | None) -> list[str]:
    """What the kernels of a test take too much of."""
    found: list[str] = []
    for name, each in taken.items():
        if max_us is not None and each.us > max_us:
            found.append(f"{name} is predicted to take {us_text(each.us)}, its budget is {us_text(max_us)}")
        if max_sbuf is not None and each.sbuf > max_sbuf:
            found.append(f"{name} takes {each.sbuf} bytes of SBUF per partition, its budget is {max_sbuf}")
    return found


Measured = dict[str, dict[str, Taken]]
"""By test, then by kernel."""


def read_baseline(path: Path) -> Measured:
    """What was measured before; a usage error where the file is no such thing."""
    try:
        data = json_of(path.read_text())
        return {test: {name: Taken(**each) for name, each in kernels.items()} for test, kernels in data.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise pytest.UsageError(f"{path} is no baseline of tilewright: {error}") from None


def write_baseline(path: Path, measured: Measured) -> None:
    """Keep what was measured for the next run."""
    data = {test: {name: each._asdict() for name, each in measured[test].items()} for test in sorted(measured)}
    path.write_text(json.dumps(data, indent=2) + "\n")


def regressions(before: Measured, now: Measured) -> list[str]:
    """Kernels that take more than they did, each in one line."""
    found: list[str] = []
    for test, name, each, old in _pairs(before, now):
        if old is not None and (each.us > old.us * SLOWER or each.sbuf > old.sbuf * SLOWER):
            times = f"{us_text(old.us)} -> {us_text(each.us)}"
            found.append(f"{test} {name}: {times}, SBUF {old.sbuf} -> {each.sbuf} bytes per partition")
    return found


def not_in(before: Measured, now: Measured) -> list[str]:
    """Kernels that nothing is known of from before, on their targets."""
    return [f"{test} {name} ({each.target})" for test, name, each, old in _pairs(before, now) if old is None]


def _pairs(before: Measured, now: Measured) -> Iterator[tuple[str, str, Taken, Taken | None]]:
    """(test, kernel, what it takes, what it took on the same target) of every kernel that ran."""
    for test, kernels in now.items():
        for name, each in kernels.items():
            old = before.get(test, {}).get(name)
            yield test, name, each, old if old is not None and each.is_beside(old) else None

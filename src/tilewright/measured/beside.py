"""Predicted beside measured: figures of the whole kernel, its instructions by engine and kind, its source lines.

Instructions are compared by what they take alone (from their start to their result, in a profile their duration), so
that one that is off tells of its own figures and not of what it waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tilewright.measured.export import Executed, Measured
from tilewright.measured.opcodes import family
from tilewright.report.profile import Profile
from tilewright.report.resources import Report
from tilewright.timing.profile import Event


@dataclass(frozen=True, slots=True)
class Line:
    """One figure, predicted and measured."""

    figure: str
    predicted: float
    measured: float

    @property
    def off(self) -> float | None:
        """How far off the prediction is, relative to what was measured."""
        return self.predicted / self.measured - 1 if self.measured else None


@dataclass(slots=True)
class Both:
    """How many instructions of a kind there are, and how many ns they take together, predicted and measured."""

    predicted: int = 0
    predicted_ns: float = 0.0
    measured: int = 0
    measured_ns: float = 0.0

    @property
    def off(self) -> float | None:
        """How far off the mean time of one is; None where one side has none."""
        if not self.predicted or not self.measured or not self.measured_ns:
            return None
        return (self.predicted_ns / self.predicted) / (self.measured_ns / self.measured) - 1

    def add(self, event: Event) -> None:
        """One more predicted."""
        self.predicted += 1
        self.predicted_ns += event.end_ns - event.start_ns

    def count(self, each: Executed) -> None:
        """One more measured."""
        self.measured += 1
        self.measured_ns += each.duration_ns


@dataclass(frozen=True, slots=True)
class Beside:
    """A predicted profile and a measured one. instructions: by engine and kind; lines: by file and number.

    `lines` is empty where the export has no source lines. missed: instructions of the prediction that were not kept.
    """

    figures: tuple[Line, ...]
    instructions: dict[tuple[str, str], Both] = field(default_factory=dict[tuple[str, str], Both])
    lines: dict[tuple[str, int], Both] = field(default_factory=dict[tuple[str, int], Both])
    missed: int = 0

    def document(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "against": [{**asdict(line), "off": line.off} for line in self.figures],
            "against_instructions": [
                {"engine": engine, "instruction": kind, **asdict(both), "off": both.off}
                for (engine, kind), both in self.instructions.items()
            ],
            "against_lines": [
                {"file": file, "line": number, **asdict(both), "off": both.off}
                for (file, number), both in self.lines.items()
            ],
        }


def beside(profile: Profile, measured: Measured) -> Beside:
    """Everything that both have."""
    events = [event for event in profile.events if event.engine != "dma"]
    work = measured.work
    return Beside(
        tuple(figures(profile.report, measured)),
        _by_kind(events, work) if work else {},
        _by_line(events, work) if any(each.line for each in work) else {},
        profile.dropped_events,
    )


def figures(report: Report, measured: Measured) -> list[Line]:
    """Every figure of the whole kernel that both have."""
    lines = [
        Line("latency us", report.latency_us, measured.total_us),
        Line("latency as written us", report.latency_as_written_us, measured.total_us),
    ]
    for name, us in measured.busy_us.items():
        lines.append(Line(f"{name} busy us", report.engine_busy_us.get(name, 0.0), us))
    for name in dict.fromkeys(each.engine for each in measured.work):
        here = sum(each.engine == name for each in measured.work)
        lines.append(Line(f"{name} instructions", report.instructions_by_engine.get(name, 0), here))
    counted = (
        ("HBM read bytes", report.hbm_read_bytes, measured.hbm_read_bytes),
        ("HBM written bytes", report.hbm_write_bytes, measured.hbm_write_bytes),
        ("descriptors", report.descriptors, measured.descriptors),
    )
    return lines + [Line(name, here, there) for name, here, there in counted if there is not None]


def _by_kind(events: Iterable[Event], work: Sequence[Executed]) -> dict[tuple[str, str], Both]:
    """Opcodes that may stand for one instruction are one kind with all instructions that they may stand for."""
    kinds = _kinds([family(each.opcode) for each in work])
    found: dict[tuple[str, str], Both] = {}
    for event in events:
        key = (event.engine, kinds.get(event.name, event.name))
        found.setdefault(key, Both()).add(event)
    for each in work:
        found.setdefault((each.engine, kinds[family(each.opcode)[0]]), Both()).count(each)
    return dict(sorted(found.items()))


def _kinds(families: Iterable[Sequence[str]]) -> dict[str, str]:
    """Instructions to the name of their kind: families that share one are one."""
    groups: list[dict[str, None]] = []
    for names in dict.fromkeys(map(tuple, families)):
        touching = [group for group in groups if any(name in group for name in names)]
        merged = dict.fromkeys([name for group in touching for name in group] + list(names))
        groups = [group for group in groups if group not in touching] + [merged]
    return {name: ", ".join(group) for group in groups for name in group}


def _by_line(events: Iterable[Event], work: Sequence[Executed]) -> dict[tuple[str, int], Both]:
    found: dict[tuple[str, int], Both] = {}
    for event in events:
        if event.line is not None:
            found.setdefault((Path(event.line.file).name, event.line.line), Both()).add(event)
    for each in work:
        if each.line is not None:
            found.setdefault(each.line, Both()).count(each)
    return dict(sorted(found.items()))

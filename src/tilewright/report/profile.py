"""A profile: the report of a kernel with its timeline and source, for traces and HTML pages."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.nki.kernel import Run, run_kernel
from tilewright.progress import working
from tilewright.report.resources import IssuedAt, Report, engine_of, executed, resources, shown_place, static
from tilewright.report.timing import time_run
from tilewright.sim.session import Options
from tilewright.spec import ArraySpec
from tilewright.target import Target
from tilewright.timing.pin import Pinned, Pins, read_pins
from tilewright.timing.profile import MOST_EVENTS, Event, Sample, Watched
from tilewright.timing.replay import SCHEDULED
from tilewright.timing.summary import Timing


@dataclass(frozen=True, slots=True)
class Profile:
    """A kernel's report, what happened when, and the source it came from.

    events: in the order of their start, core after core; dropped_events: those of a long kernel that were not kept.
    occupancy: of the core that was busy longest. end_ns: when its last result was seen. Times are in ns from the first
    instruction; `launch_us` goes by around them. sources: file -> text, of every file that issued an instruction.
    """

    report: Report
    events: tuple[Event, ...]
    dropped_events: int
    occupancy: tuple[Sample, ...]
    end_ns: float
    launch_us: tuple[float, float]
    sources: dict[str, str]

    def _repr_html_(self) -> str:
        """The report and the timeline, for notebooks."""
        from tilewright.report.notebook import as_html, timeline

        return as_html(self.report) + timeline(self)


def profile_kernel(
    kernel: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    target: str | Target | None = None,
    profile: str | None = None,
    order: str = SCHEDULED,
    pin: Pins | None = None,
    most_events: int = MOST_EVENTS,
) -> Profile:
    """Run a kernel on arrays (or, when any argument is a `tw.spec`, on shapes alone) and profile it."""
    shapes = has_spec(args) or has_spec(kwargs or {})
    run = run_kernel(kernel, args, kwargs or {}, target, profile, Options(shapes=shapes))
    pins = read_pins(pin)
    pinned = Pinned(pins, run.session.target, run.session.reporter.profile) if pins else None
    made = profile_run(run, order, pinned, most_events)
    if pinned is not None:
        pinned.check_used()
    return made


def profile_run(
    run: Run, order: str = SCHEDULED, pinned: Pinned | None = None, most_events: int = MOST_EVENTS
) -> Profile:
    """The profile of a run that kept its instruction stream."""
    with working(f"timing {run.session.graph.name} on {run.session.target.name}"):
        timing, cores = time_run(run, order, pinned, most_events)
    return joined_profile(resources(run, times=False), timing, cores, run.session.target)


def joined_profile(counted: Report, timing: Timing, cores: Sequence[Watched], target: Target) -> Profile:
    """What was counted and what was timed, in one profile."""
    advice = tuple(str(each) for each in timing.advice)
    if timing.pins or any(choice.what == "engine" for choice in timing.choices):
        places = _timed_places(cores)
        counted = replace(
            counted,
            places=places,
            instructions_by_engine=executed(places, engine_of),
            static_by_engine=static(places, engine_of),
        )
    report = replace(counted, warnings=counted.warnings + advice, profiled=True, predict=lambda: timing)
    events = _joined([core.events for core in cores])
    return Profile(
        report=report,
        events=events,
        dropped_events=sum(core.dropped_events for core in cores),
        occupancy=timing.occupancy,
        end_ns=max(core.end_ns for core in cores),
        launch_us=(target["launch.first_instruction_us"], target["launch.after_last_dma_us"]),
        sources=_sources(events),
    )


def _timed_places(cores: Sequence[Watched]) -> tuple[IssuedAt, ...]:
    """Where instructions were issued, on the engines that pins or the timing gave them: the run knew none."""
    found: dict[tuple[str, str, str | None], int] = {}
    for tally in (tally for core in cores for tally in core.tallies):
        key = (tally.engine, tally.op.definition.name, shown_place(tally.op.location))
        found[key] = found.get(key, 0) + tally.count
    return tuple(IssuedAt(*key, count) for key, count in found.items())


def _joined(cores: Sequence[tuple[Event, ...]]) -> tuple[Event, ...]:
    """All cores' events in one list; an event's cause moves along."""
    joined: list[Event] = []
    for events in cores:
        base = len(joined)
        joined += events if base == 0 else [_shifted(event, base) for event in events]
    return tuple(joined)


def _shifted(event: Event, base: int) -> Event:
    cause, behind = (index if index < 0 else index + base for index in (event.cause, event.behind))
    return replace(event, cause=cause, behind=behind)


def _sources(events: Sequence[Event]) -> dict[str, str]:
    files = dict.fromkeys(event.line.file for event in events if event.line is not None)
    return {file: "".join(linecache.getlines(file)) for file in files}


def has_spec(values: Any) -> bool:
    """True when an argument is described instead of given."""
    if isinstance(values, (tuple, list)):
        return any(has_spec(each) for each in values)
    if isinstance(values, dict):
        return any(has_spec(each) for each in values.values())
    return isinstance(values, ArraySpec)

"""Timelines for trace viewers: Chrome's JSON events and Perfetto's protobuf, both of which ui.perfetto.dev opens.

One track per engine and DMA queue, a slice per instruction with its arguments, arrows from what an instruction waited
for to the instruction, and how full SBUF and PSUM were. Perfetto counts whole nanoseconds, and drops slices of JSON
that overlap by a fraction of one: both formats have whole ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from heapq import merge
from os import PathLike
from pathlib import Path
from typing import IO, Any

from tilewright.errors import fail
from tilewright.report import perfetto
from tilewright.report.profile import Profile
from tilewright.report.source import shown_path
from tilewright.report.tracks import QUEUED, Story, critical_events, slice_end, tracks_of
from tilewright.timing.profile import Event

SBUF_COUNTER, PSUM_COUNTER = "SBUF bytes per partition", "PSUM banks"
CRITICAL = "critical path"


def trace_format(path: str | PathLike[str]) -> str:
    """The ending of a trace's name, `.json` or `.pftrace`; E108 for any other."""
    file = Path(path)
    if file.suffix not in (".json", ".pftrace"):
        raise fail(
            "E108",
            f"a trace cannot be written to {file.name}: the ending says which format",
            hint="end the name with .pftrace (Perfetto) or .json (Chrome trace events)",
        )
    return file.suffix


def write_trace(path: str | PathLike[str], profile: Profile) -> None:
    """Write a timeline as JSON (`.json`) or as a Perfetto trace (`.pftrace`)."""
    file = Path(path)
    if trace_format(file) == ".json":
        with file.open("w", encoding="utf-8") as out:
            _write_json(out, profile)
    else:
        with file.open("wb") as out:
            _write_perfetto(out, profile)


def _core_name(profile: Profile, core: int) -> str:
    several = profile.report.cores > 1
    return f"{profile.report.kernel} on {profile.report.target}" + (f", core {core}" if several else "")


def _arguments(index: int, story: Story) -> Iterator[tuple[str, str | int]]:
    """What a reader of a slice wants to know, as (name, value)."""
    event = story.events[index]
    yield "instruction", index
    if event.line is not None:
        yield "source", story.places[event.line]
    if event.operands:
        yield "operands", event.operands
    if event.bytes:
        yield "bytes", event.bytes
    waited = story.waited_for(event)
    if waited:
        yield "waited for", waited
    if event.behind >= 0:
        yield "waited for bandwidth", story.named(event.behind)
    yield "result after ns", round(event.end_ns - event.start_ns)


def _links(events: Sequence[Event]) -> Iterator[tuple[int, int]]:
    """(cause, event) of every wait for another instruction that the track itself does not show."""
    for index, event in enumerate(events):
        if event.cause >= 0 and event.wait != QUEUED:
            yield event.cause, index


# Chrome's JSON


def _write_json(out: IO[str], profile: Profile) -> None:
    details = {"kernel": profile.report.kernel, "target": profile.report.target}
    if profile.dropped_events:
        details["events not kept"] = str(profile.dropped_events)
    out.write(f'{{"displayTimeUnit":"ns","otherData":{json.dumps(details)},"traceEvents":[\n')
    separator = ""
    for record in _json_records(profile):
        out.write(separator + json.dumps(record, ensure_ascii=False, separators=(",", ":")))
        separator = ",\n"
    out.write("\n]}\n")


def _json_records(profile: Profile) -> Iterator[dict[str, Any]]:
    events = profile.events
    story = Story(events)
    critical = set(critical_events(events))
    places: dict[int, tuple[int, int]] = {}
    thread = 0
    tracks = tracks_of(events)
    for core in sorted({track.core for track in tracks}):
        yield _metadata("process_name", core, 0, {"name": _core_name(profile, core)})
    for track in tracks:
        for number, lane in enumerate(track.lanes):
            thread += 1
            name = track.label if number == 0 else f"{track.label} ({number + 1})"
            yield _metadata("thread_name", track.core, thread, {"name": name})
            yield _metadata("thread_sort_index", track.core, thread, {"sort_index": thread})
            for index in lane:
                places[index] = track.core, thread
                event = events[index]
                yield {
                    "ph": "X",
                    "name": event.name,
                    "cat": CRITICAL if index in critical else track.engine,
                    "pid": track.core,
                    "tid": thread,
                    "ts": _us(event.start_ns),
                    "dur": _us(round(slice_end(event)) - round(event.start_ns)),
                    "args": dict(_arguments(index, story)),
                }
    for flow, (cause, index) in enumerate(_links(events)):
        yield _arrow("s", flow, events[cause], places[cause])
        yield {**_arrow("f", flow, events[index], places[index]), "bp": "e"}
    for sample in profile.occupancy:
        at = {"ph": "C", "pid": 0, "ts": _us(sample.time_ns)}
        # Readers show a counter by its name and its argument's.
        for counter, value in ((SBUF_COUNTER, round(sample.sbuf_bytes)), (PSUM_COUNTER, round(sample.psum_banks, 3))):
            memory, _, unit = counter.partition(" ")
            yield {**at, "name": memory, "args": {unit: value}}


def _us(ns: float) -> float:
    """Microseconds with three decimals: whole nanoseconds."""
    return round(ns) / 1e3


def _metadata(kind: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}


def _arrow(phase: str, flow: int, event: Event, place: tuple[int, int]) -> dict[str, Any]:
    """One end of an arrow. It stands at the slice's start, the one moment that certainly lies within the slice."""
    pid, tid = place
    return {
        "ph": phase,
        "name": "waits for",
        "cat": "dependency",
        "id": flow,
        "pid": pid,
        "tid": tid,
        "ts": _us(event.start_ns),
    }


# Perfetto's protobuf


def _write_perfetto(out: IO[bytes], profile: Profile) -> None:
    events = profile.events
    tracks = tracks_of(events)
    strings = perfetto.Strings()
    contents = _contents(events, strings)
    described: list[bytes] = []
    timed: list[Iterator[tuple[int, bytes]]] = []
    uuid = 0
    parents: dict[int, int] = {}
    for rank, track in enumerate(tracks):
        if track.core not in parents:
            uuid += 1
            parents[track.core] = uuid
            described.append(perfetto.group(uuid, _core_name(profile, track.core), track.core))
        for lane in track.lanes:
            uuid += 1
            described.append(perfetto.track(uuid, parents[track.core], track.label, rank))
            timed.append(_slices(lane, events, contents, uuid))
    if parents:
        counters = ((SBUF_COUNTER, "bytes"), (PSUM_COUNTER, "count"))
        for rank, (name, unit) in enumerate(counters, len(tracks)):
            uuid += 1
            described.append(perfetto.counter(uuid, min(parents.values()), name, rank, unit))
            timed.append(_counts(profile, unit, uuid))
    out.write(strings.packet())
    out.writelines(described)
    # A track's own order is kept where times are equal: a slice ends before the next begins.
    out.writelines(content for _, content in merge(*timed, key=lambda item: item[0]))


def _contents(events: Sequence[Event], strings: perfetto.Strings) -> list[bytes]:
    """What the beginning of every slice says: name, category, source line, arguments, arrows."""
    story = Story(events)
    critical = set(critical_events(events))
    leaving: dict[int, list[int]] = {}
    arriving: dict[int, int] = {}
    lines = {line: (shown_path(line.file), line.line) for line in {event.line for event in events} if line is not None}
    for flow, (cause, index) in enumerate(_links(events), 1):
        leaving.setdefault(cause, []).append(flow)
        arriving[index] = flow
    contents: list[bytes] = []
    for index, event in enumerate(events):
        category = strings.categories[CRITICAL if index in critical else event.engine]
        parts = [perfetto.number(3, category), perfetto.number(10, strings.names[event.name])]
        if event.line is not None:
            parts.append(perfetto.number(34, strings.lines[lines[event.line]]))
        for key, value in _arguments(index, story):
            if isinstance(value, str):
                parts.append(perfetto.annotation(strings.keys[key], strings.values[value], interned=True))
            else:
                parts.append(perfetto.annotation(strings.keys[key], value, interned=False))
        arrow = (arriving[index],) if index in arriving else ()
        parts.append(perfetto.flows(leaving.get(index, ()), arrow))
        contents.append(b"".join(parts))
    return contents


def _slices(
    lane: Sequence[int], events: Sequence[Event], contents: Sequence[bytes], uuid: int
) -> Iterator[tuple[int, bytes]]:
    for index in lane:
        start, end = round(events[index].start_ns), round(slice_end(events[index]))
        yield start, perfetto.event(start, perfetto.SLICE_BEGIN, uuid, contents[index])
        yield end, perfetto.event(end, perfetto.SLICE_END, uuid)


def _counts(profile: Profile, unit: str, uuid: int) -> Iterator[tuple[int, bytes]]:
    for sample in profile.occupancy:
        at = round(sample.time_ns)
        value = sample.sbuf_bytes if unit == "bytes" else sample.psum_banks
        yield at, perfetto.event(at, perfetto.COUNTER, uuid, perfetto.real(44, round(value, 3)))

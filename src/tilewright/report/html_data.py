"""A timeline as columns for the page's script: numbers packed and compressed, texts in tables without repetition."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.errors import Location
from tilewright.report.profile import Profile
from tilewright.report.tracks import critical_events, last_event, slice_end, tracks_of
from tilewright.timing.profile import Event

_ALIGN = 8  # Bytes: where a column may begin, so that the page can look at it in place.


class Table:
    """Values, each once, in the order of their first use."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def __getitem__(self, value: Any) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.numbers)

    def column(self, values: Iterable[Any]) -> np.ndarray:
        """The number of each value."""
        return np.array([self[value] for value in values], np.uint32)


def packed(profile: Profile, lines: Sequence[Location], work: Sequence[float]) -> tuple[str, dict[str, Any]]:
    """The events of a profile: columns as text for the page, and what says how to read them.

    lines: source lines in the order in which the page numbers them. work: what each event takes of its engine.
    """
    events = profile.events
    names, waits, operands = Table(), Table(), Table()
    place = {line: number for number, line in enumerate(lines)}
    tracks = tracks_of(events)
    track_column, lane_column = (np.zeros(len(events), np.uint16) for _ in range(2))
    for number, track in enumerate(tracks):
        for lane, members in enumerate(track.lanes):
            track_column[list(members)] = number
            lane_column[list(members)] = lane
    critical = np.zeros(len(events), np.uint8)
    critical[critical_events(events)] = 1
    columns = {
        "start": np.array([event.start_ns for event in events], np.float64),
        "slice": _durations(events, slice_end),
        "busy": _durations(events, lambda event: event.busy_end_ns),
        "total": _durations(events, lambda event: event.end_ns),
        "work": np.array(work, np.float32),
        "cause": np.array([event.cause for event in events], np.int32),
        "begin": np.array([event.begin_ns for event in events], np.float64),
        "behind": np.array([event.behind for event in events], np.int32),
        "bytes": np.array([event.bytes for event in events], np.float64),
        "track": track_column,
        "lane": lane_column,
        "name": names.column(event.name for event in events),
        "line": np.array([-1 if event.line is None else place[event.line] for event in events], np.int32),
        "wait": waits.column(event.wait for event in events),
        "operand": operands.column(event.operands for event in events),
        "critical": critical,
        "sampleTime": np.array([sample.time_ns for sample in profile.occupancy], np.float64),
        "sbuf": np.array([sample.sbuf_bytes for sample in profile.occupancy], np.float32),
        "psum": np.array([sample.psum_banks for sample in profile.occupancy], np.float32),
    }
    texts = {"names": list(names), "waits": list(waits), "operands": list(operands)}
    blob, layout = _joined({**columns, "texts": np.frombuffer(json.dumps(texts).encode(), np.uint8)})
    described = {
        "events": len(events),
        "last": last_event(events),
        "layout": layout,
        "tracks": [
            {
                "label": track.label,
                "title": track.place,
                "engine": track.engine,
                "core": track.core,
                "lanes": len(track.lanes),
            }
            for track in tracks
        ],
    }
    return b64encode(zlib.compress(blob, 6)).decode(), described


def _durations(events: Sequence[Event], end: Callable[[Event], float]) -> np.ndarray:
    return np.array([end(event) - event.start_ns for event in events], np.float32)


def _joined(columns: dict[str, np.ndarray]) -> tuple[bytes, dict[str, list[Any]]]:
    """All columns in one run of bytes, and of each its element type, first byte and length."""
    parts: list[bytes] = []
    layout: dict[str, list[Any]] = {}
    at = 0
    for name, column in columns.items():
        raw = column.astype(column.dtype.newbyteorder("<")).tobytes()
        layout[name] = [column.dtype.name, at, len(column)]
        parts += [raw, bytes(-len(raw) % _ALIGN)]
        at += len(raw) + -len(raw) % _ALIGN
    return b"".join(parts), layout

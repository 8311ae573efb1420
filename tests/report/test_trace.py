"""Traces: what is written reads back, slices of a lane follow each other, arrows join slices that exist."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.profiles import made_up, real
from tilewright.errors import TileError
from tilewright.report import perfetto
from tilewright.report.profile import Profile
from tilewright.report.trace import PSUM_COUNTER, SBUF_COUNTER, write_trace
from tilewright.report.tracks import QUEUED, critical_events, tracks_of

PROFILES = [pytest.param(real, id="real"), pytest.param(lambda: made_up(3000), id="made up")]


def arrows(profile: Profile) -> int:
    return sum(event.cause >= 0 and event.wait != QUEUED for event in profile.events)


def check_order(slices: list[tuple[float, float]]) -> None:
    """Slices of one lane, as (start, end): none ends before it starts, none starts before the one before it ends."""
    for start, end in slices:
        assert end >= start >= 0
    assert all(before[1] <= after[0] + 1e-6 for before, after in pairwise(slices))


@pytest.mark.parametrize("profile", PROFILES)
def test_json_reads_back(profile: Any, tmp_path: Path):
    made = profile()
    write_trace(tmp_path / "out.json", made)
    records = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["traceEvents"]
    by_phase = {phase: [each for each in records if each["ph"] == phase] for phase in "MXsfC"}
    assert sum(map(len, by_phase.values())) == len(records)
    lanes: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for each in by_phase["X"]:
        # Perfetto's reader takes whole nanoseconds, and drops what overlaps by a part of one.
        start, length = (round(each[key] * 1e3, 6) for key in ("ts", "dur"))
        assert start == int(start) and length == int(length)
        lanes.setdefault((each["pid"], each["tid"]), []).append((start, start + length))
    for slices in lanes.values():
        check_order(slices)
    assert len(by_phase["X"]) == len(made.events)
    named = {(each["pid"], each["tid"]) for each in by_phase["M"] if each["name"] == "thread_name"}
    assert named == set(lanes)
    starts = {(each["pid"], each["tid"], each["ts"]) for each in by_phase["X"]}
    leaving, arriving = ({each["id"]: each for each in by_phase[phase]} for phase in "sf")
    assert leaving.keys() == arriving.keys() and len(leaving) == arrows(made)
    for flow, end in arriving.items():
        begin = leaving[flow]
        assert begin["ts"] <= end["ts"]
        assert all((each["pid"], each["tid"], each["ts"]) in starts for each in (begin, end))
    assert {f"{each['name']} {unit}" for each in by_phase["C"] for unit in each["args"]} == {SBUF_COUNTER, PSUM_COUNTER}


def test_json_tells_about_an_instruction(tmp_path: Path):
    write_trace(tmp_path / "out.json", real())
    records = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    (matmul, *_) = [each for each in records if each["ph"] == "X" and each["name"] == "nc_matmul"]
    args = matmul["args"]
    assert args["source"].startswith("tests/report/profiles.py:")
    assert "stationary=float32[128, 128] sbuf" in args["operands"]
    assert args["waited for"].startswith("data: dma_copy #")
    transfers = [each for each in records if each["ph"] == "X" and each["name"] == "dma_copy"]
    assert sum(each["args"]["bytes"] for each in transfers) == real().report.hbm_bytes
    tracks = {each["args"]["name"] for each in records if each["name"] == "thread_name"}
    assert {"Tensor", "Vector", "Scalar"} < tracks and any(re.fullmatch(r"DMA line \d+, \w+", name) for name in tracks)


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message, read by the rules of the wire format alone."""
    at = 0
    while at < len(message):
        key, at = read_varint(message, at)
        if key & 7 == 0:
            value, at = read_varint(message, at)
        elif key & 7 == 1:
            value, at = message[at : at + 8], at + 8
        else:
            assert key & 7 == 2, "no other wire type is written"
            size, at = read_varint(message, at)
            assert at + size <= len(message)
            value, at = message[at : at + size], at + size
        yield key >> 3, value


def read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if byte < 128:
            return value, at


@given(st.integers(1, 500), st.integers(0, 2**64 - 1), st.text(max_size=300), st.floats(allow_nan=False))
def test_wire_format(field: int, value: int, text: str, real_value: float):
    message = perfetto.number(field, value) + perfetto.text(field, text) + perfetto.fixed(field, value)
    assert list(fields(message)) == [(field, value), (field, text.encode()), (field, value.to_bytes(8, "little"))]
    ((_, packed),) = fields(perfetto.real(field, real_value))
    assert struct.unpack("<d", packed)[0] == real_value


def test_perfetto_is_made_of_packets(tmp_path: Path):
    """Without the schema: packets with times in order, as many slices begun as ended, one for each event."""
    made = real()
    write_trace(tmp_path / "out.pftrace", made)
    packets = [dict(fields(value)) for number, value in fields((tmp_path / "out.pftrace").read_bytes()) if number == 1]
    assert all(packet[10] == 1 for packet in packets)
    times = [packet[8] for packet in packets if 8 in packet]
    assert times == sorted(times)
    kinds = [dict(fields(packet[11]))[9] for packet in packets if 11 in packet]
    assert kinds.count(perfetto.SLICE_BEGIN) == kinds.count(perfetto.SLICE_END) == len(made.events)
    assert kinds.count(perfetto.COUNTER) == 2 * len(made.occupancy)


@pytest.mark.parametrize("profile", PROFILES)
def test_perfetto_reads_back_with_its_own_schema(profile: Any, tmp_path: Path):
    schema = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    made = profile()
    write_trace(tmp_path / "out.pftrace", made)
    trace = schema.Trace()
    trace.ParseFromString((tmp_path / "out.pftrace").read_bytes())
    interned = trace.packet[0].interned_data
    names = {each.iid: each.name for each in interned.event_names}
    values = {each.iid: each.str.decode() for each in interned.debug_annotation_string_values}
    keys = {each.iid: each.name for each in interned.debug_annotation_names}
    described = [packet.track_descriptor for packet in trace.packet if packet.HasField("track_descriptor")]
    uuids = {each.uuid for each in described}
    assert len(uuids) == len(described)
    assert all(each.parent_uuid in uuids for each in described if each.HasField("parent_uuid"))
    events = [(packet.timestamp, packet.track_event) for packet in trace.packet if packet.HasField("track_event")]
    assert {event.track_uuid for _, event in events} <= uuids
    begun: dict[int, tuple[int, Any]] = {}
    lanes: dict[int, list[tuple[float, float]]] = {}
    leaving: set[int] = set()
    arriving: set[int] = set()
    for at, event in events:
        if event.type == event.TYPE_SLICE_BEGIN:
            assert event.track_uuid not in begun, "slices of a lane do not nest"
            begun[event.track_uuid] = at, event
            assert names[event.name_iid]
            leaving.update(event.flow_ids)
            assert set(event.terminating_flow_ids) <= leaving, "an arrow ends after it has begun"
            arriving.update(event.terminating_flow_ids)
            told = {
                keys[each.name_iid]: values.get(each.string_value_iid, each.uint_value)
                for each in event.debug_annotations
            }
            source = made.events[told["instruction"]]
            assert source.name == names[event.name_iid] and source.operands == told["operands"]
        elif event.type == event.TYPE_SLICE_END:
            start, _ = begun.pop(event.track_uuid)
            lanes.setdefault(event.track_uuid, []).append((start, at))
    assert not begun and leaving == arriving and len(leaving) == arrows(made)
    for slices in lanes.values():
        check_order(slices)
    assert sum(map(len, lanes.values())) == len(made.events)
    counters = {each.uuid: each.name for each in described if each.HasField("counter")}
    assert set(counters.values()) == {SBUF_COUNTER, PSUM_COUNTER}


def test_tracks_cover_every_event_once():
    made = made_up(2000)
    tracks = tracks_of(made.events)
    placed = [index for track in tracks for lane in track.lanes for index in lane]
    assert sorted(placed) == list(range(len(made.events)))
    assert [track.engine for track in tracks][:4] == ["tensor", "vector", "scalar", "gpsimd"]
    assert all(len(track.lanes) == 1 for track in tracks if track.engine != "dma")


def test_critical_events_are_a_chain_to_the_end():
    events = real().events
    chain = critical_events(events)
    assert events[chain[-1]].end_ns == max(event.end_ns for event in events)
    for before, after in pairwise(chain):
        assert before in (events[after].cause, events[after].behind)
    assert events[chain[0]].cause < 0


def test_other_endings_are_refused(tmp_path: Path):
    with pytest.raises(TileError, match="the ending says which format") as caught:
        write_trace(tmp_path / "trace.txt", real())
    assert caught.value.diagnostic.hint and ".pftrace" in caught.value.diagnostic.hint
    assert not list(tmp_path.iterdir())


def test_a_kernel_without_events(tmp_path: Path):
    for name in ("empty.json", "empty.pftrace"):
        write_trace(tmp_path / name, made_up(0))
    assert json.loads((tmp_path / "empty.json").read_text())["traceEvents"] == []

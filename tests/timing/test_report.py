"""tw.profile and the times of reports: what the figures mean, what-if pins, occupancy, events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
from tests.kit import full_run, nisa, nki, nl, np
from tilewright.report.profile import profile_kernel
from tilewright.report.resources import resources
from tilewright.target import get_target
from tilewright.timing.occupancy import SAMPLES, Gauge

F32 = "float32"
FIELDS = {
    *("latency_us", "roofline_us", "peak_roofline_us", "binding", "error_bar", "compulsory_bytes", "hbm_bytes"),
    *("instructions", "instructions_by_engine", "engine_busy_us", "utilisation", "dma_transfers", "dma_efficiency"),
    *("sbuf_peak_bytes", "psum_peak_banks", "occupancy", "critical_path", "mfu", "hbm_bandwidth", "hbm_bandwidth_use"),
    *("choices", "spills", "warnings", "target"),
}


@nki.jit
def stream(a):
    """exp of rows, 128 at a time."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for start in range(0, a.shape[0], 128):
        tile = nl.ndarray((128, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[start : start + 128])
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        doubled = nl.ndarray((128, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=doubled, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[start : start + 128], src=doubled)
    return out


def line_of(text: str) -> int:
    """The line of `stream` that holds a text."""
    first = stream.function.__code__.co_firstlineno
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number in range(first, len(lines) + 1) if text in lines[number - 1])


SHAPE = tw.spec((1024, 512), F32)


def test_all_fields_are_there_and_plain():
    report = tw.profile(stream, SHAPE, target="trn2")
    assert isinstance(report, tw.Report)
    document = json.loads(json.dumps(report.to_dict()))
    for name in FIELDS:
        assert name in document and getattr(report, name) is not None, name
    assert document["latency_us"] == pytest.approx(report.latency_us)
    assert document["critical_path"][0].keys() >= {"instruction", "line", "share", "waited_for"}
    assert document["critical_path"][0]["line"]["file"] == __file__


def test_latency_includes_the_launch():
    target = get_target("trn2")
    profile = profile_kernel(stream, [SHAPE], target=target)
    launch = target["launch.first_instruction_us"] + target["launch.after_last_dma_us"]
    assert profile.report.latency_us == pytest.approx(launch + profile.end_ns / 1e3)
    assert profile.report.error_bar >= target["timing.error_bar.plain"]
    slower = target.replace({"launch.first_instruction_us": target["launch.first_instruction_us"] + 5})
    assert tw.profile(stream, SHAPE, target=slower).latency_us == pytest.approx(profile.report.latency_us + 5)


def test_busy_times_and_bandwidth():
    report = tw.profile(stream, SHAPE, target="trn2")
    span = report.latency_us - report.launch_us
    assert report.engine_busy_us.keys() == {"dma", "scalar", "vector"} == report.instructions_by_engine.keys()
    for engine, used in report.utilisation.items():
        assert used == pytest.approx(report.engine_busy_us[engine] / span)
    moved = 2 * 1024 * 512 * 4
    assert report.hbm_bytes == moved
    assert report.hbm_bandwidth == pytest.approx(moved / report.latency_us / 1e3)
    assert report.hbm_bandwidth_use == pytest.approx(report.hbm_bandwidth / get_target("trn2")["hbm.core_peak"])
    assert report.dma_efficiency == 512 * 4
    assert report.mfu == report.flops == 0


def test_shapes_and_arrays_take_the_same_time():
    on_shapes = tw.profile(stream, SHAPE, target="trn2")
    on_arrays = tw.profile(stream, np.zeros((1024, 512), np.float32), target="trn2")
    assert on_shapes.to_dict() == on_arrays.to_dict()


def test_run_reports_predict_on_demand(monkeypatch: pytest.MonkeyPatch):
    run = full_run(stream, np.zeros((256, 512), np.float32))
    calls: list[int] = []
    monkeypatch.setattr(
        "tilewright.report.resources.time_run",
        lambda run, real=resources.__globals__["time_run"]: _noting(calls, real, run),
    )
    report = resources(run)
    assert report.instructions == 8 and not calls
    assert report.latency_us > 0 and report.roofline_us > 0 and len(calls) == 1
    simulation = tw.simulate(stream, target="trn2")
    simulation(np.zeros((256, 512), np.float32))
    assert simulation.report.latency_us == pytest.approx(report.latency_us)


def _noting(calls: list[int], real: Any, run: Any) -> Any:
    calls.append(1)
    return real(run)


def test_runs_that_were_not_recorded_have_no_times():
    simulation = tw.simulate(stream, target="trn2", record=False)
    simulation(np.zeros((256, 512), np.float32))
    assert simulation.report.instructions == 8
    assert "latency_us" not in simulation.report.to_dict()
    with pytest.raises(tw.TileError) as caught:
        _ = simulation.report.latency_us
    assert caught.value.diagnostic.code == "E108"


def test_advice_is_among_the_warnings_of_a_profile_only():
    @nki.jit
    def columns(a):
        tile = nl.ndarray((128, 2048), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a.permute((1, 0)))

    assert [each[:13] for each in tw.profile(columns, tw.spec((2048, 128), F32), target="trn2").warnings] == [
        "warning[W801]"
    ]
    report = resources(full_run(columns, np.zeros((2048, 128), np.float32)))
    assert report.warnings == () and [each.code for each in report.advice] == ["W801"]


def test_choices_for_unknown():
    report = tw.profile(stream, SHAPE, target="trn2")
    chosen = {(each.instruction, each.line.line, each.what): (each.chosen, each.executed) for each in report.choices}
    target = get_target("trn2")
    assert chosen == {
        ("dma_copy", line_of("dst=tile, src=a"), "dge"): (target["engines.dge_static"], 8),
        ("dma_copy", line_of("src=doubled"), "dge"): (target["engines.dge_static"], 8),
        ("tensor_scalar", line_of("tensor_scalar"), "engine"): ("vector", 8),
    }


def test_pins_move_a_line_to_another_engine():
    line = line_of("tensor_scalar")
    plain, pinned, text = (
        tw.profile(stream, SHAPE, target="trn3", pin=pin)
        for pin in (None, {line: "scalar"}, [f"test_report.py:{line}:scalar"])
    )
    assert "vector" in plain.engine_busy_us and "vector" not in pinned.engine_busy_us
    assert pinned.engine_busy_us["scalar"] > plain.engine_busy_us["scalar"]
    assert plain.instructions_by_engine == {"dma": 16, "scalar": 8, "vector": 8}
    assert pinned.instructions_by_engine == {"dma": 16, "scalar": 16}
    stays = tw.profile(stream, SHAPE, target="trn3", pin={line: "vector"})
    assert sorted(map(str, stays.places)) == sorted(map(str, plain.places))
    assert text.engine_busy_us == pinned.engine_busy_us
    assert pinned.timing.pins == (f"{line}:scalar",)
    assert [each.chosen for each in pinned.choices if each.what == "engine"] == ["scalar"]


def test_pins_choose_who_writes_descriptors():
    line = line_of("dst=tile")
    reports = {mode: tw.profile(stream, SHAPE, target="trn2", pin={line: mode}) for mode in ("hwdge", "swdge", "none")}
    target = get_target("trn2")
    chosen = target["engines.dge_static"]
    for mode, report in reports.items():
        assert report.timing.pins == (f"{line}:{mode}",)
        modes = {choice.line.line: choice.chosen for choice in report.choices if choice.what == "dge" and choice.line}
        assert modes[line] == mode
        assert set(modes.values()) <= {mode, chosen}
    plain = tw.profile(stream, SHAPE, target="trn2")
    assert reports[chosen].latency_us == plain.latency_us
    # Descriptors that the software writes are issued no faster than any: dma.swdge_interval_ns.
    assert len({report.latency_us for report in reports.values()}) > 1


@pytest.mark.parametrize(
    ("pin", "code"),
    [
        ("1:vector", "E108"),
        ("vector", "E108"),
        ("LINE:tensor", "E109"),
        ("LINE:gpsimd", "E109"),
        ("other.py:LINE:scalar", "E108"),
        ("LINE:hwdge", "E108"),
        ("LINE:unknown", "E108"),
        ("LINE:dma", "E108"),
    ],
)
def test_pins_that_cannot_be(pin: str, code: str):
    with pytest.raises(tw.TileError) as caught:
        tw.profile(stream, SHAPE, target="trn2", pin=[pin.replace("LINE", str(line_of("tensor_scalar")))])
    assert caught.value.diagnostic.code == code


@pytest.mark.parametrize(
    ("pin", "target", "rule"), [("hwdge", "trn1", "R-dma_copy-06"), ("vector", "trn2", None), ("tensor", "trn2", None)]
)
def test_transfers_take_no_engine_and_only_descriptors_of_their_generation(pin: str, target: str, rule: str | None):
    with pytest.raises(tw.TileError) as caught:
        tw.profile(stream, SHAPE, target=target, pin={line_of("dst=tile"): pin})
    assert caught.value.diagnostic.rule == rule
    if rule is None:
        assert caught.value.diagnostic.code == "E108" and "hwdge" in (caught.value.diagnostic.hint or "")


@nki.jit
def transfers(a, rows):
    """A transfer that casts, one that gathers rows, one that transposes."""
    wide = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=wide, src=a[0:128])  # casts
    chosen = nl.ndarray((128, 1), dtype=rows.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=chosen, src=rows)
    gathered = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
    pattern = a.ap([[64, 128], [1, 64]], 0, vector_offset=chosen, indirect_dim=0)
    nisa.dma_copy(dst=gathered, src=pattern)  # gathers
    turned = nl.ndarray((64, 128), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=a[0:128])  # transposes
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.tensor_tensor(dst=wide, data1=wide, data2=gathered, op=nl.add)
    nisa.dma_copy(dst=out, src=wide)
    return out


@pytest.mark.parametrize(
    ("what", "mode", "rule"),
    [
        ("casts", "hwdge", "R-dma_copy-04"),
        ("casts", "swdge", None),
        ("gathers", "hwdge", "R-dma_copy-07"),
        ("gathers", "none", "R-dma_copy-08"),
        ("gathers", "swdge", None),
        ("transposes", "swdge", "R-dma_transpose-05"),
        ("transposes", "hwdge", "R-dma_transpose-06"),
    ],
)
def test_descriptors_are_written_by_who_can(what: str, mode: str, rule: str | None):
    first = transfers.function.__code__.co_firstlineno
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = next(number for number in range(first, len(lines)) if lines[number - 1].endswith(f"# {what}"))
    arguments = tw.spec((256, 64), "bfloat16"), tw.spec((128, 1), "int32")
    if rule is None:
        assert tw.profile(transfers, *arguments, target="trn2", pin={line: mode}).timing.pins == (f"{line}:{mode}",)
        return
    with pytest.raises(tw.TileError) as caught:
        tw.profile(transfers, *arguments, target="trn2", pin={line: mode})
    diagnostic = caught.value.diagnostic
    assert diagnostic.rule == rule and diagnostic.location is not None and diagnostic.location.line == line


def test_written_order_is_never_faster_here():
    scheduled, written = (tw.profile(stream, SHAPE, target="trn2", order=order) for order in ("scheduled", "written"))
    assert (scheduled.timing.order, written.timing.order) == ("scheduled", "written")
    assert written.latency_us >= scheduled.latency_us
    with pytest.raises(tw.TileError) as caught:
        tw.profile(stream, SHAPE, order="sorted")
    assert caught.value.diagnostic.code == "E108"


def test_a_place_that_changes_hands_counts_once():
    """Tiles of 64 KiB, of which SBUF holds three: each is stored while the next takes its place, row by row."""

    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for number in range(8):
            tile = nl.ndarray((128, 16384), dtype=a.dtype, buffer=nl.sbuf)
            for part in range(8):
                columns = slice(part * 2048, part * 2048 + 2048)
                rows = slice(number * 128, number * 128 + 128)
                nisa.dma_copy(dst=tile[:, columns], src=a[rows, columns])
                nisa.activation(dst=tile[:, columns], op=nl.exp, data=tile[:, columns])
                nisa.dma_copy(dst=out[rows, columns], src=tile[:, columns])
        return out

    report = tw.profile(kernel, tw.spec((1024, 16384), F32), target="trn2")
    most = max(sample.sbuf_bytes for sample in report.occupancy)
    assert 0.9 * 65536 <= most <= get_target("trn2")["memory.sbuf_usable_bytes"]


def test_occupancy_over_time():
    report = tw.profile(stream, SHAPE, target="trn2")
    assert 1 < len(report.occupancy) <= SAMPLES
    times = [sample.time_ns for sample in report.occupancy]
    assert times[0] == 0 and times == sorted(times)
    assert max(sample.sbuf_bytes for sample in report.occupancy) <= report.sbuf_usable_bytes
    assert max(sample.sbuf_bytes for sample in report.occupancy) >= 2048
    assert all(sample.psum_banks == 0 for sample in report.occupancy)


def test_gauges_keep_the_mean():
    gauge = Gauge()
    gauge.add(0, 10, 4)
    gauge.add(5, 10, 2)
    assert list(gauge.mean(10)) == [4] * 5 + [6] * 5
    gauge.add(10, 10 * SAMPLES, 1)
    assert gauge.width == 16
    mean = gauge.mean(10 * SAMPLES)
    assert mean[0] == pytest.approx((4 * 10 + 2 * 5 + 6) / 16) and mean[1] == pytest.approx(1)
    assert float((mean[:-1] * 16).sum()) + mean[-1] * (10 * SAMPLES - 16 * (len(mean) - 1)) == pytest.approx(
        50 + 10 * (SAMPLES - 1)
    )


def test_spills_are_named_with_their_cost():
    def all_at_once(a):
        tiles = [nl.ndarray((128, 20_000), dtype=a.dtype, buffer=nl.sbuf, name=f"tile{i}") for i in range(5)]
        for i, tile in enumerate(tiles):
            nisa.dma_copy(dst=tile, src=a[:, i * 20_000 : (i + 1) * 20_000])
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        for i, tile in enumerate(tiles):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
            nisa.dma_copy(dst=a[:, i * 20_000 : (i + 1) * 20_000], src=tile)

    report = tw.profile(all_at_once, tw.spec((128, 100_000), F32), target="trn2")
    (spill,) = report.spills
    assert spill.count == 3 and spill.name.startswith("tile")
    assert spill.traffic_bytes == 3 * 2 * 128 * 80_000 and report.timing.spill_us == spill.us > 0
    assert report.latency_us > report.timing.launch_us + spill.us
    assert json.dumps(report.to_dict()["spills"])


def test_what_is_only_loaded_is_loaded_later_instead_of_spilled():
    @nki.jit
    def loaded(a):
        tiles = [nl.ndarray((128, 20_000), dtype=a.dtype, buffer=nl.sbuf) for i in range(5)]
        for i, tile in enumerate(tiles):
            nisa.dma_copy(dst=tile, src=a[:, i * 20_000 : (i + 1) * 20_000])
        for i, tile in enumerate(tiles):
            nisa.dma_copy(dst=a[:, i * 20_000 : (i + 1) * 20_000], src=tile)

    report = tw.profile(loaded, tw.spec((128, 100_000), F32), target="trn2")
    (spill,) = report.spills
    assert (spill.count, spill.traffic_bytes, report.timing.spill_us) == (3, 0, 0.0)


def test_several_cores_run_side_by_side():
    @nki.jit
    def halves(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for start in range(nl.program_id(0) * 128, a.shape[0], nl.num_programs() * 128):
            tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=a[start : start + 128])
            nisa.dma_copy(dst=out[start : start + 128], src=tile)
        return out

    profile = profile_kernel(halves[2], [SHAPE], target="trn2")
    one = tw.profile(halves, SHAPE, target="trn2")
    assert profile.report.cores == 2 and {event.core for event in profile.events} == {0, 1}
    assert profile.report.latency_us < one.latency_us
    assert profile.report.instructions == one.instructions
    for event in profile.events:
        if event.cause >= 0:
            assert profile.events[event.cause].core == event.core


def test_events_of_a_profile():
    profile = profile_kernel(stream, [SHAPE], target="trn2")
    events = profile.events
    assert len(events) == profile.report.instructions == 32 and profile.dropped_events == 0
    assert [event.start_ns for event in events] == sorted(event.start_ns for event in events)
    assert max(event.end_ns for event in events) == profile.end_ns
    assert list(profile.sources) == [__file__] and "def stream" in profile.sources[__file__]
    for event in events:
        assert event.start_ns <= event.busy_end_ns <= event.end_ns
        assert (event.wait == "") == (event.cause == -1)
        assert event.bytes == (128 * 512 * 4 if event.engine == "dma" else 0)
        if event.cause >= 0:
            assert events[event.cause].start_ns <= event.start_ns
    first = next(event for event in events if event.name == "tensor_scalar")
    assert events[first.cause].name == "activation" and first.wait == "data"
    assert first.operands.startswith("dst=float32[128, 512] sbuf") and first.queue == first.engine == "vector"
    few = profile_kernel(stream, [SHAPE], target="trn2", most_events=10)
    assert few.events == events[:10] and few.dropped_events == 22


def test_reports_of_profiles_print_their_times():
    text = str(tw.profile(stream, SHAPE, target="trn2"))
    assert text.startswith("stream on trn2: ") and "critical path" in text and "activation" in text
    assert "\x1b" not in text


def test_a_kernel_without_instructions():
    report = tw.profile(lambda a: a, tw.spec((128, 4), F32), target="trn2")
    assert report.instructions == 0 and report.latency_us == report.roofline_us == report.launch_us
    assert report.critical_path == () and report.binding == "nothing" and str(report)

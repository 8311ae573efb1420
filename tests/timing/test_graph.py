"""Tile IR as a compiler makes it: reports without a run, lives and depths, places by address, queues by op."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from resource import getpagesize
from threading import Event, Thread

import pytest

import tilewright as tw
from tests.kit import nisa, nki, nl, np
from tests.timing.test_replay import loop_graph
from tilewright.ir.core import Graph
from tilewright.report.graph import profile_graph
from tilewright.target import get_target
from tilewright.tile.lifetime import insert_deallocs
from tilewright.tile.text import parse_tile
from tilewright.timing.latency import latency_us
from tilewright.timing.profile import watch_graph
from tilewright.timing.replay import Replay
from tilewright.timing.stream import Stream


def graph_of(body: str, columns: int = 512) -> Graph:
    head = f"kernel k(%x: f32[128, {columns}]@hbm) -> (%y: f32[128, {columns}]@hbm) {{\n"
    return parse_tile(head + "".join(f"  {line.strip()}\n" for line in body.strip().splitlines()) + "}\n")


def end_of(graph: Graph, order: str = "scheduled") -> float:
    replay = Replay(get_target("trn2"), order)
    Stream(get_target("trn2"), replay, by_line=False).run(graph)
    return replay.end


def test_a_report_is_made_without_running():
    report = tw.profile(loop_graph(64, 2), target="trn2")
    moved = 64 * 128 * 512 * 4
    assert (report.kernel, report.target, report.cores) == ("loop", "trn2", 1)
    assert report.instructions == 3 * 64 and report.static_instructions == 3
    assert report.instructions_by_engine == {"dma": 128, "scalar": 64}
    assert report.instructions_by_name == {"dma_copy": 128, "activation": 64}
    assert (report.hbm_read_bytes, report.hbm_write_bytes, report.hbm_bytes) == (moved, moved, 2 * moved)
    assert report.compulsory_bytes == 2 * moved
    assert report.dma_transfers == 128
    # Two buffers of 2 KiB, two of each.
    assert report.sbuf_peak_bytes == 4 * 2048 and report.sbuf_buffers == 4 and report.psum_peak_banks == 0
    assert report.roofline_us <= report.latency_us == latency_us(loop_graph(64, 2), get_target("trn2"))
    assert json.loads(json.dumps(report.to_dict()))["latency_us"] == pytest.approx(report.latency_us)
    assert "loop on trn2" in str(report)


@nki.jit
def recorded(x):
    """What `loop_graph` says, in Python."""
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(x.shape[1] // 512):
        t = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        e = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[:, i * 512 : i * 512 + 512])
        nisa.activation(dst=e, op=nl.exp, data=t)
        nisa.dma_copy(dst=y[:, i * 512 : i * 512 + 512], src=e)
    return y


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("order", ["scheduled", "written"])
def test_a_kernel_and_its_tile_ir_take_the_same_time(target: str, order: str):
    ring = get_target(target)["memory.compiler_ring_depth"]
    run = tw.profile(recorded, tw.spec((128, 512 * 16), "float32"), target=target, order=order)
    made = tw.profile(loop_graph(16, ring), target=target, order=order)
    for name in ("latency_us", "roofline_us", "engine_busy_us", "hbm_bytes", "compulsory_bytes", "instructions"):
        assert getattr(made, name) == pytest.approx(getattr(run, name)), name


def test_arguments_are_refused():
    with pytest.raises(tw.TileError) as caught:
        tw.profile(loop_graph(4, 1), tw.spec((128, 512), "float32"))
    assert caught.value.diagnostic.code == "E103"


def test_pins():
    graph = loop_graph(8, 2)
    assert profile_graph(graph, "trn2", pin={1: "swdge"}).report.timing.pins == ("1:swdge",)
    with pytest.raises(tw.TileError):
        tw.profile(graph, target="trn2", pin={99: "vector"})


STRAIGHT = """
%a = alloc f32[128, 512]@sbuf
%b = alloc f32[128, 512]@sbuf
%p = alloc f32[128, 512]@psum
dma_copy %a, %x
activation %p, %a {op = exp}
activation %b, %p {op = exp}
dma_copy %y, %b
"""


def test_deallocs_end_lives():
    plain, freed = graph_of(STRAIGHT), graph_of(STRAIGHT)
    insert_deallocs(freed)
    assert any(op.name == "dealloc" for op in freed.ops)
    assert end_of(plain) == end_of(freed)
    assert tw.profile(freed, target="trn2").sbuf_peak_bytes == 2048
    # In a loop: PSUM banks are free again when the dealloc says so.
    body = "for %i in 0..64 {\n%p = alloc f32[128, 512]@psum depth 8\nmemset %p {value = 0}\n}\n" + STRAIGHT
    looped = graph_of(body)
    insert_deallocs(looped)
    assert end_of(looped) == end_of(graph_of(body))


def test_registers_take_no_time():
    text = STRAIGHT.replace("dma_copy %a", "%r = register {factors = (), offset = 3} : register\ndma_copy %a")
    assert end_of(graph_of(text)) == end_of(graph_of(STRAIGHT))


ROTATING = """
for %i in 0..16 {
%t = alloc f32[128, 512]@sbuf DEPTH address (0, 0)
%e = alloc f32[128, 512]@sbuf DEPTH address (0, 16384)
dma_copy %t, %x[:, %i*512 : +512]
activation %e, %t {op = exp}
dma_copy %y[:, %i*512 : +512], %e
}
"""


@pytest.mark.parametrize("order", ["scheduled", "written"])
def test_an_address_is_a_place(order: str):
    """With addresses the places of a loop's buffers are what depth says too."""
    for depth in ("", "depth 2", "depth 4"):
        text = ROTATING.replace("DEPTH", depth)
        free = text.replace(" address (0, 0)", "").replace(" address (0, 16384)", "")
        assert end_of(graph_of(text, 16 * 512), order) == end_of(graph_of(free, 16 * 512), order)


TWO = """
%a = alloc f32[128, 512]@sbuf address (0, 0)
%b = alloc f32[128, 512]@sbuf address (0, 8192)
%c = alloc f32[ROWS, 512]@sbuf address (FIRST, BYTE)
dma_copy %a, %x
activation %b, %a {op = exp}
memset %c {value = 1}
dma_copy %y, %b
"""


@pytest.mark.parametrize(
    ("rows", "first", "byte", "waits"),
    [(128, 0, 0, True), (128, 0, 2044, True), (128, 0, 2048, False), (64, 64, 1024, True), (128, 0, 16384, False)],
)
def test_overlapping_addresses_wait_for_each_other(rows: int, first: int, byte: int, waits: bool):
    text = TWO.replace("ROWS", str(rows)).replace("FIRST", str(first)).replace("BYTE", str(byte))
    events = {event.name: event for event in watch_graph(graph_of(text), get_target("trn2"), by_line=False).events}
    memset, activation = events["memset"], events["activation"]
    assert (memset.start_ns >= activation.busy_end_ns) == waits
    assert (memset.start_ns == 0) == (not waits)


def test_transfers_of_one_line_have_queues_of_their_own():
    """A compiler's ops carry the line of the program they came from: that many of them share one says nothing."""
    loads = "dma_copy %a[:, 0 : +2048], %x[:, 0 : +2048]\ndma_copy %a[:, 2048 : +2048], %x[:, 2048 : +2048]"
    graph = graph_of(f"%a = alloc f32[128, 4096]@sbuf\n{loads}", 4096)
    line = next(op.location for op in loop_graph(1, 1).ops if op.location is not None)
    for op in graph.ops:
        op.location = line
    events = watch_graph(graph, get_target("trn2"), by_line=False).events
    assert len({event.queue for event in events if event.engine == "dma"}) == 2
    assert len({event.queue for event in watch_graph(graph, get_target("trn2")).events}) == 1


def test_many_queues_take_no_longer():
    """A straight line of thousands of transfers, each with its queue: oldest first, one after the other."""
    count = 600
    lines = [f"%a{i} = alloc f32[128, 16]@sbuf\ndma_copy %a{i}, %x[:, {16 * i} : +16]" for i in range(count)]
    stores = [f"dma_copy %y[:, {16 * i} : +16], %a{i}" for i in range(count)]
    graph = graph_of("\n".join(lines + stores), 16 * count)
    watched = watch_graph(graph, get_target("trn2"), by_line=False)
    starts = [event.start_ns for event in watched.events]
    assert starts == sorted(starts) and len(starts) == 2 * count
    interval = get_target("trn2")["dma.core_interval_ns"]
    assert all(later - earlier >= interval - 1e-6 for earlier, later in pairwise(starts))


def test_what_does_not_fit_is_told():
    body = "\n".join(f"%t{i} = alloc f32[128, 16384]@sbuf\nmemset %t{i} {{value = 0}}" for i in range(4))
    uses = "\n".join(f"tensor_tensor %t0, %t0, %t{i} {{op = add}}" for i in range(1, 4))
    report = tw.profile(graph_of(f"{body}\n{uses}\n{STRAIGHT}"), target="trn2")
    assert report.sbuf_peak_bytes >= 4 * 65536 and report.spills and report.timing.spill_us > 0


def test_a_long_kernel_takes_no_more_memory_than_a_short_one():
    """Every figure of a report, six times as many instructions; `make bench` goes on to a million."""
    if not Path("/proc/self/statm").exists():
        pytest.skip("how large the process is cannot be read here")
    grown = [
        peak_bytes(lambda count=count: tw.profile(loop_graph(count, 2), target="trn2")) for count in (7_000, 40_000)
    ]
    # The window, chains of causes and places of transfers are full with the first; keeping instructions takes 34 MiB.
    assert grown[1] < 12 << 20, f"{grown[0] >> 10} KiB, then {grown[1] >> 10} KiB more"


def peak_bytes(action: Callable[[], object]) -> int:
    """How far the process grows while something is done."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()

    def watch() -> None:
        while not done.wait(0.01):
            top[0] = max(top[0], resident())

    gc.collect()
    done, top = Event(), [resident()]
    before = top[0]
    watcher = Thread(target=watch)
    watcher.start()
    action()
    done.set()
    watcher.join()
    return top[0] - before


def test_a_compiled_program_is_profiled_as_it_reports():
    specs = tw.spec((128, 64), "float32"), tw.spec((64, 96), "float32")
    program = tw.compile(lambda x, w: np.exp(x @ w), *specs, target="trn2")
    arrays = np.ones((128, 64), np.float32), np.ones((64, 96), np.float32)
    for args in ((), specs, arrays):
        found = tw.profile(program, *args)
        assert found.latency_us == program.report.latency_us and found.roofline_us == program.report.roofline_us
    assert tw.profile(program, order="written").timing.order == "written"
    for args, target in (((), "trn1"), (specs[:1], None), (specs[::-1], "trn2")):
        with pytest.raises(tw.TileError) as caught:
            tw.profile(program, *args, target=target)
        assert caught.value.diagnostic.code == "E806"

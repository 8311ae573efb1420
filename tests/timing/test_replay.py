"""The replay by hand: dependencies, semaphores, places on chip, transfers, issue orders; loops and their memory."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Sequence

import pytest

import tilewright.tile.isa  # noqa: F401  (fills the table of instructions)
from tilewright.dtypes import as_dtype
from tilewright.errors import Location
from tilewright.ir.core import Graph
from tilewright.ir.walk import walk
from tilewright.target import Target, get_target
from tilewright.tile.memory import PSUM, SBUF, Buffer, MemoryRegion
from tilewright.tile.overlap import Extent, extent
from tilewright.tile.record import Cost
from tilewright.tile.text import parse_tile
from tilewright.timing.instance import Access, Instance
from tilewright.timing.node import BANK, DATA, ENGINE, OVERWRITE, READER, Node
from tilewright.timing.replay import Replay
from tilewright.timing.stream import Stream

TARGET = get_target("trn2").replace(
    {
        "semaphore.engine_ns": 40,
        "dma.core_bandwidth": 100,
        "memory.compiler_ring_depth": 2,
        "tensor.throttle_fraction": 1,
    }
)
BYTES = 512


def part(start: int, size: int) -> Extent:
    return extent((0, 128, start, ((size, 1),), 1))


WHOLE = part(0, BYTES)


class Machine:
    """A replay that is fed by hand. Operands are instances, or (instance, pattern)."""

    def __init__(self, order: str = "scheduled", target: Target = TARGET) -> None:
        self.nodes: dict[str, Node] = {}
        self.replay = Replay(target, order, self._watch)

    def _watch(self, node: Node) -> None:
        self.nodes[node.kind.name] = node

    def tile(self, memory: MemoryRegion = SBUF, uses: int = -1, line: int = 1, size: int = BYTES) -> Instance:
        return Instance(Buffer(as_dtype("uint8"), (128, size), memory, location=Location("buffers", line)), uses)

    def run(
        self, name: str, engine: str, cost: Cost, reads: Sequence = (), writes: Sequence = (), line: int = 1
    ) -> None:
        accesses: list[Access] = []
        for group, written in ((reads, False), (writes, True)):
            for each in group:
                instance, pattern = each if isinstance(each, tuple) else (each, WHOLE)
                accesses.append((instance, pattern, not written, written))
        self.replay.step(self.replay.kind(name, engine, cost, Location("kernel.py", line)), accesses)

    def starts(self) -> dict[str, float]:
        self.replay.finish()
        return {name: node.start for name, node in sorted(self.nodes.items())}


SHORT = Cost(100, 250)


def test_a_reader_waits_for_the_result():
    machine = Machine()
    a = machine.tile()
    machine.run("a", "vector", SHORT, writes=[a])
    machine.run("b", "vector", SHORT, reads=[a])
    machine.run("c", "scalar", SHORT, reads=[a])
    # On the engine itself after the latency; on another one a semaphore later.
    assert machine.starts() == {"a": 0, "b": 250, "c": 290}
    assert machine.nodes["b"].why == machine.nodes["c"].why == DATA


def test_a_writer_waits_for_the_readers():
    machine = Machine()
    a, b = machine.tile(), machine.tile(line=2)
    machine.run("a", "vector", Cost(100, 100), writes=[a])
    machine.run("b", "scalar", Cost(500, 700), reads=[a], writes=[b])
    machine.run("c", "vector", SHORT, writes=[a])
    # The reader has read when it no longer occupies its engine: 140 + 500, and a semaphore.
    assert machine.starts() == {"a": 0, "b": 140, "c": 680}
    assert machine.nodes["c"].why == READER


def test_a_writer_waits_for_readers_that_run_out_of_order():
    machine = Machine()
    a, late = machine.tile(), machine.tile(line=2)
    machine.run("a", "vector", Cost(100, 100), writes=[a])
    machine.run("b", "gpsimd", Cost(5000, 5000), writes=[late])
    machine.run("c", "scalar", Cost(100, 100), reads=[a, late])
    machine.run("d", "scalar", Cost(100, 100), reads=[a])
    machine.run("e", "vector", SHORT, writes=[a])
    # d overtakes c, which waits for b: the overwriting e must wait for c all the same.
    assert machine.starts() == {"a": 0, "b": 0, "c": 5040, "d": 140, "e": 5180}


def test_a_second_writer_follows_the_first():
    machine = Machine()
    a = machine.tile()
    machine.run("a", "vector", SHORT, writes=[a])
    machine.run("b", "vector", SHORT, writes=[a])
    machine.run("c", "scalar", SHORT, writes=[a])
    # In order on one engine; on another after the result is there.
    assert machine.starts() == {"a": 0, "b": 100, "c": 390}
    assert machine.nodes["c"].why == OVERWRITE


def test_results_arrive_in_order():
    machine = Machine()
    a = machine.tile()
    machine.run("a", "vector", Cost(100, 900), writes=[a])
    machine.run("b", "vector", Cost(100, 200), writes=[a])
    machine.run("c", "scalar", SHORT, reads=[a])
    # b could be issued at 100; it would then be overwritten by the result of a.
    assert machine.starts() == {"a": 0, "b": 700, "c": 940}


def test_parts_that_share_nothing_do_not_wait():
    machine = Machine()
    a = machine.tile()
    machine.run("a", "vector", SHORT, writes=[(a, part(0, 256))])
    machine.run("b", "scalar", SHORT, writes=[(a, part(256, 256))])
    machine.run("c", "gpsimd", SHORT, reads=[(a, part(0, 128))])
    machine.run("d", "tensor", SHORT, reads=[(a, part(128, 256))])
    assert machine.starts() == {"a": 0, "b": 0, "c": 290, "d": 290}


def test_orders():
    starts = {}
    for order in ("scheduled", "written"):
        machine = Machine(order)
        a, b = machine.tile(), machine.tile(line=2)
        machine.run("a", "gpsimd", Cost(900, 960), writes=[a])
        machine.run("b", "vector", SHORT, reads=[a])
        machine.run("c", "vector", SHORT, writes=[b])
        starts[order] = machine.starts()
    assert starts["scheduled"] == {"a": 0, "b": 1000, "c": 0}
    assert starts["written"] == {"a": 0, "b": 1000, "c": 1100}
    assert machine.nodes["c"].why == ENGINE


def test_psum_banks_bound_how_far_an_engine_runs_ahead():
    machine = Machine()
    banks = TARGET["memory.psum_banks"]
    for i in range(banks + 2):
        bank = machine.tile(PSUM, uses=2, size=TARGET["memory.psum_bank_bytes"])
        machine.run(f"m{i:02}", "tensor", Cost(100, 200), writes=[bank])
        machine.run(f"v{i:02}", "vector", Cost(1000, 1100), reads=[bank])
    starts = machine.starts()
    # The first copy starts at 240 and takes 1000 (1100 until others see it): the ninth product waits for its bank.
    assert [starts[f"m{i:02}"] for i in range(banks)] == [100.0 * i for i in range(banks)]
    assert starts[f"m{banks:02}"] == 240 + 1100 + 40
    assert starts[f"m{banks + 1:02}"] == 1240 + 1100 + 40
    assert machine.nodes[f"m{banks:02}"].why == BANK


def test_short_tensors_have_banks_of_their_own():
    machine = Machine()
    banks = TARGET["memory.psum_banks"]
    for i in range(banks + 1):
        tile = machine.tile(PSUM, uses=2, size=TARGET["memory.psum_bank_bytes"] // 4)
        machine.run(f"m{i:02}", "tensor", Cost(100, 200), writes=[tile])
        machine.run(f"v{i:02}", "vector", Cost(1000, 1100), reads=[tile])
    assert machine.starts()[f"m{banks:02}"] == 240 + 1100 + 40


def test_short_tensors_of_one_line_share_a_bank_in_the_legacy_dialect():
    machine = Machine(target=TARGET.replace({"compiler.psum_packed": True}, "trn2"))
    banks = TARGET["memory.psum_banks"]
    quarter = TARGET["memory.psum_bank_bytes"] // 4
    for i in range(4 * banks + 1):
        tile = machine.tile(PSUM, uses=2, size=quarter)
        machine.run(f"m{i:02}", "tensor", Cost(100, 200), writes=[tile])
        machine.run(f"v{i:02}", "vector", Cost(1000, 1100), reads=[tile])
    starts = machine.starts()
    # Four in each bank: the one after the last bank is full waits for the four readers of the first.
    assert [starts[f"m{i:02}"] for i in range(4 * banks)] == [100.0 * i for i in range(4 * banks)]
    assert starts[f"m{4 * banks:02}"] == 240 + 3 * 1000 + 1100 + 40
    assert machine.nodes[f"m{4 * banks:02}"].why == BANK


def test_other_lines_take_banks_that_short_tensors_left_half_full():
    machine = Machine()
    for i in range(TARGET["memory.psum_banks"] + 1):
        tile = machine.tile(PSUM, uses=2, line=i, size=BYTES)
        machine.run(f"m{i:02}", "tensor", Cost(100, 200), writes=[tile])
        machine.run(f"v{i:02}", "vector", Cost(1000, 1100), reads=[tile])
    assert machine.starts()["m08"] == 240 + 1100 + 40


def test_buffers_of_one_line_lie_in_a_ring():
    machine = Machine()
    for i in range(4):
        tile = machine.tile(uses=2)
        machine.run(f"w{i}", "vector", Cost(100, 100), writes=[tile])
        machine.run(f"r{i}", "scalar", Cost(1000, 1000), reads=[tile])
    # Two places: the third tile waits for the reader of the first.
    assert [machine.starts()[f"w{i}"] for i in range(4)] == [0, 100, 1180, 2180]
    assert [machine.starts()[f"r{i}"] for i in range(4)] == [140, 1140, 2140, 3140]


def test_a_ring_is_no_larger_than_sbuf():
    small = TARGET.replace({"memory.compiler_ring_depth": 4, "memory.sbuf_usable_bytes": 2 * BYTES})
    for target, third in ((TARGET.replace({"memory.compiler_ring_depth": 4}), 200), (small, 1180)):
        machine = Machine(target=target)
        for i in range(3):
            tile = machine.tile(uses=2)
            machine.run(f"w{i}", "vector", Cost(100, 100), writes=[tile])
            machine.run(f"r{i}", "scalar", Cost(1000, 1000), reads=[tile])
        assert machine.starts()["w2"] == third


def test_lines_share_an_sbuf_that_is_full():
    """The first tile of a line lies where another line's was; that line's next one waits for who has a place then."""
    starts = {}
    for places in (2, 6):
        room = {"memory.compiler_ring_depth": 4, "memory.sbuf_usable_bytes": places * BYTES}
        machine = Machine(target=TARGET.replace(room))
        for i in range(2):
            loaded, scaled, summed = (machine.tile(uses=2, line=line) for line in (1, 2, 3))
            machine.run(f"a{i}", "gpsimd", Cost(100, 100), writes=[loaded])
            machine.run(f"b{i}", "vector", Cost(1000, 1000), reads=[loaded], writes=[scaled])
            machine.run(f"c{i}", "scalar", Cost(1000, 1000), reads=[scaled], writes=[summed])
            machine.run(f"d{i}", "sync", Cost(1000, 1000), reads=[summed])
        starts[places] = machine.starts()
    # With room for all, the next tile is loaded at once; with room for two, when c has read the tile that lay there.
    assert starts[6]["a1"] == 100
    assert starts[2]["a1"] >= starts[2]["c0"] + 1000
    assert {name: starts[2][name] for name in ("a0", "b0", "c0", "d0")} == {"a0": 0, "b0": 140, "c0": 1180, "d0": 2220}


def transfer(size: int, count: int = 16, queue: float = 0.0) -> Cost:
    """100 ns to issue, 1000 to start, its bytes at 100 bytes per ns, 300 to end."""
    return Cost(100, 1300 + queue, ("dma",), ((size, count),), 1000, 10, queue)


def test_tiles_of_many_pieces_have_two_places():
    machine = Machine()
    for i in range(3):
        tile = machine.tile(uses=5)
        for j in range(4):
            machine.run(f"w{i}{j}", "dma", transfer(1000), writes=[tile], line=1)
        machine.run(f"r{i}", "vector", Cost(10_000, 10_000), reads=[tile])
    starts = machine.starts()
    # A ring of two pieces would have room for half a tile: the second is filled all the same, the third waits.
    assert starts["w10"] < starts["r0"]
    assert starts["w20"] >= starts["r0"] + 10_000


def test_transfers_share_the_bandwidth():
    machine = Machine()
    a, b = machine.tile(), machine.tile(line=2)
    machine.run("a", "dma", transfer(1000), writes=[a], line=1)
    machine.run("b", "dma", transfer(1000), writes=[b], line=2)
    machine.run("c", "vector", SHORT, reads=[b])
    # Issued one after the other; 160 ns of bytes each, after each other; the consumer waits for both parts.
    assert machine.starts() == {"a": 0, "b": 100, "c": 1320 + 300 + 40}
    assert machine.nodes["b"].begin == 1160 and machine.nodes["b"].behind is machine.nodes["a"]
    assert machine.replay.busy_ns()["dma"] == 320
    assert machine.replay.transfers.moved.bytes == 32_000


def test_transfers_of_one_line_follow_each_other():
    for line, expected in ((1, 700), (2, 100)):
        machine = Machine()
        machine.run("a", "dma", transfer(1000, queue=700), writes=[machine.tile()], line=1)
        machine.run("b", "dma", transfer(1000, queue=700), writes=[machine.tile(line=2)], line=line)
        assert machine.starts() == {"a": 0, "b": expected}


def test_a_store_that_waits_holds_up_later_transfers_as_written_only():
    starts = {}
    for order in ("scheduled", "written"):
        machine = Machine(order)
        a, b = machine.tile(), machine.tile(line=2)
        machine.run("a", "vector", Cost(5000, 5000), writes=[a])
        machine.run("b", "dma", transfer(10), reads=[a], line=1)
        machine.run("c", "dma", transfer(10), writes=[b], line=2)
        starts[order] = machine.starts()
    assert starts["scheduled"] == {"a": 0, "b": 5040, "c": 0}
    assert starts["written"] == {"a": 0, "b": 5040, "c": 5140}


def test_two_streams_overlap():
    machine = Machine()
    tiles = {engine: machine.tile(line=i) for i, engine in enumerate(("vector", "scalar"))}
    for i in range(100):
        machine.run(f"v{i}", "vector", Cost(100, 120), writes=[tiles["vector"]])
        machine.run(f"s{i}", "scalar", Cost(80, 90), writes=[tiles["scalar"]])
    machine.replay.finish()
    assert machine.replay.end == 99 * 100 + 120


# Tile IR with loops.

LOOP = """\
kernel loop(%x: f32[128, WIDTH]@hbm) -> (%y: f32[128, WIDTH]@hbm) {
  for %i in 0..COUNT {
    %t = alloc f32[128, 512]@sbuf DEPTH
    %e = alloc f32[128, 512]@sbuf DEPTH
    dma_copy %t, %x[:, %i*512 : +512]
    activation %e, %t {op = exp}
    dma_copy %y[:, %i*512 : +512], %e
  }
}
"""
FLAT = """\
    %t_N = alloc f32[128, 512]@sbuf
    %e_N = alloc f32[128, 512]@sbuf
    dma_copy %t_N, %x[:, START : +512]
    activation %e_N, %t_N {op = exp}
    dma_copy %y[:, START : +512], %e_N
"""


def loop_graph(count: int, depth: int) -> Graph:
    text = LOOP.replace("COUNT", str(count)).replace("WIDTH", str(512 * count))
    return located(parse_tile(text.replace("DEPTH", f"depth {depth}" if depth > 1 else "")))


def flat_graph(count: int) -> Graph:
    """The same as a recorded kernel has it: every trip with buffers of its own."""
    head = LOOP.replace("WIDTH", str(512 * count)).split("  for", 1)[0]
    trips = [FLAT.replace("_N", str(i)).replace("START", str(512 * i)) for i in range(count)]
    return located(parse_tile(head + "".join(trips) + "}\n"))


def located(graph: Graph) -> Graph:
    """Lines as a kernel's source has them: one for the load, the store, and each allocation."""
    for op in walk(graph.body):
        names = [value.name or "" for value in (*op.results, *op.values())] or [""]
        op.location = Location("kernel.py", {"t": 1, "e": 2, "y": 3}.get(names[0][:1], 4))
        for buffer in op.results:
            assert isinstance(buffer, Buffer)
            buffer.location = op.location
    return graph


def time_of(graph: Graph, target: str | Target = "trn2", order: str = "scheduled") -> Replay:
    replay = Replay(get_target(target), order)
    Stream(get_target(target), replay).run(graph)
    return replay


@pytest.mark.parametrize("order", ["scheduled", "written"])
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_a_loop_takes_as_long_as_the_same_kernel_recorded(target: str, order: str):
    """A recorded kernel's buffers have the compiler's ring, a loop's their own depth: with equal ones all is equal.

    A tile that several transfers fill is different: the compiler's ring is counted in such pieces, the depth of a
    loop's buffer in whole buffers.
    """
    ring = get_target(target)["memory.compiler_ring_depth"]
    loop, flat = time_of(loop_graph(12, ring), target, order), time_of(flat_graph(12), target, order)
    assert loop.end == flat.end
    assert loop.instructions == flat.instructions == 36


def test_depth_bounds_how_many_trips_overlap():
    ends = [time_of(loop_graph(16, depth)).end for depth in (1, 2, 3, 8)]
    assert ends == sorted(ends, reverse=True)
    assert ends[0] > 1.4 * ends[1], "with one place a trip's load waits for the trip before it"
    # With one place the load, the function and (in the other buffer's turn) the store follow each other.
    one = time_of(loop_graph(1, 1)).end
    assert ends[0] <= 16 * one


PRODUCTS = """\
kernel products(%x: f32[128, 128]@hbm) -> (%y: f32[128, 512]@hbm) {
  %a = alloc f32[128, 128]@sbuf
  %b = alloc f32[128, 512]@sbuf
  dma_copy %a, %x
  memset %b {value = 0}
  for %i in 0..64 {
    %p = alloc f32[128, 512]@psum DEPTH
    %c = alloc f32[128, 512]@sbuf depth 64
    nc_matmul %p, %a, %b
    tensor_copy %c, %p {engine = scalar}
  }
}
"""


def test_depth_bounds_psum_too():
    ends = [time_of(parse_tile(PRODUCTS.replace("DEPTH", depth))).end for depth in ("", "depth 2", "depth 8")]
    assert ends[0] > 1.3 * ends[1]
    assert ends[1] == ends[2], "two in turn keep the Tensor engine busy"


def peak_memory(count: int) -> int:
    """Bytes that timing a loop takes at most."""
    graph = loop_graph(count, 2)
    gc.collect()
    tracemalloc.start()
    assert time_of(graph).instructions == 3 * count
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_memory_does_not_grow_with_trips():
    """The window (4096 instructions) bounds it; a million instructions are only a matter of time."""
    short, long = peak_memory(2_000), peak_memory(6_000)
    assert long < 1.3 * short


@pytest.mark.parametrize("order", ["scheduled", "written"])
def test_a_reader_of_all_parts_stands_for_those_before_it(order: str) -> None:
    # Parts are written and read together again and again, before any of it is issued.
    machine = Machine(order)
    whole, parts = machine.tile(), (part(0, 8), part(8, 8))
    for i in range(50):
        for j, each in enumerate(parts):
            machine.run(f"w{i:02}{j}", "vector", SHORT, writes=[(whole, each)])
        machine.run(f"r{i:02}", "scalar", Cost(500, 700), reads=[(whole, part(0, 16))])
        assert all(len(region.readers.nodes) <= 1 for region in whole.regions.values())
    found = machine.starts()
    # Written at 0 and 100, there at 350 and seen a semaphore later; overwritten when it was read, a semaphore later.
    for i in range(50):
        assert (found[f"w{i:02}0"], found[f"w{i:02}1"], found[f"r{i:02}"]) == (i * 930, i * 930 + 100, i * 930 + 390)


def test_every_part_of_a_psum_tensor_waits_for_its_banks() -> None:
    # Two tensors that fill PSUM, written in halves and read as a whole: no half of the second is there before that.
    size = TARGET["memory.psum_banks"] * TARGET["memory.psum_bank_bytes"]
    machine = Machine()
    for i in range(2):
        whole = machine.tile(PSUM, uses=3, line=i + 2, size=size)
        for j in range(2):
            half = part(j * size // 2, size // 2)
            machine.run(f"w{i}{j}", "tensor", SHORT, writes=[(whole, half)], line=j + 1)
        machine.run(f"x{i}", "scalar", Cost(500, 700), reads=[(whole, part(0, size))])
    found = machine.starts()
    free_at = found["x0"] + 700 + TARGET["semaphore.engine_ns"]
    assert found["w10"] == free_at and found["w11"] == free_at + 100
    assert machine.nodes["w10"].why == BANK


def test_accesses_of_many_parts_look_at_those_they_meet():
    """A tile that is accessed column by column: each access looks at a few others, and finds those it meets."""
    machine, looks = Machine(), 0
    tile = machine.tile(size=4096)
    for i in range(1000):
        column = extent((0, 128, 4 * i, (), 4))
        looks = max(looks, sum(1 for _ in tile._near(column)))
        machine.run(f"w{i}", "vector", SHORT, writes=[(tile, column)], line=i)
    machine.run("r", "scalar", SHORT, reads=[(tile, extent((0, 128, 4 * 500, ((100, 4),), 4)))])
    machine.replay.finish()
    assert looks <= 100
    assert machine.nodes["r"].cause is machine.nodes["w599"]
    assert len(tile.regions[extent((0, 128, 4 * 500, ((100, 4),), 4))].others) == 100


def test_an_instruction_waits_once_for_another():
    """However many of its accesses meet those of the other."""
    machine = Machine()
    tile = machine.tile(size=4096)
    parts = [(tile, extent((0, 128, 8 * i, (), 8))) for i in range(20)]
    machine.run("w", "vector", SHORT, writes=parts)
    machine.run("r", "scalar", SHORT, reads=parts)
    writer = tile.region(parts[0][1]).writer
    assert writer is not None and writer.followers is not None and len(writer.followers) == 1
    machine.replay.finish()
    assert machine.nodes["r"].cause is writer


def test_who_waits_for_a_write_need_not_wait_for_what_that_one_waited_for():
    """A read of what was just written waits for that write alone, however many came before it."""
    machine = Machine()
    tile = machine.tile()
    for i in range(5):
        machine.run(f"w{i}", "vector", SHORT, writes=[(tile, part(10 * i, 30))])
    machine.run("r", "scalar", SHORT, reads=[(tile, part(40, 30))])
    writers = [tile.region(part(10 * i, 30)).writer for i in range(5)]
    waiting = [[node.kind.name for node, _ in writer.followers or ()] for writer in writers if writer is not None]
    assert waiting == [["w1", "w2"], ["w2", "w3"], ["w3", "w4"], ["w4"], ["r"]]
    machine.run("s", "scalar", SHORT, reads=[(tile, part(35, 10))])
    machine.replay.finish()
    assert machine.nodes["s"].ready == max(machine.nodes[f"w{i}"].end for i in (2, 3, 4)) + 40

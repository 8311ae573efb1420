"""The critical path: times by hand on small streams, sums on random kernels, and little memory on long ones."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import pytest

from tilewright.dtypes import as_dtype
from tilewright.errors import Location
from tilewright.target import get_target
from tilewright.tile.memory import SBUF, Buffer
from tilewright.tile.overlap import extent
from tilewright.tile.record import Cost
from tilewright.tile.text import parse_tile
from tilewright.timing import critical
from tilewright.timing.critical import Step, critical_path
from tilewright.timing.instance import Access, Instance
from tilewright.timing.node import Node
from tilewright.timing.profile import watch_graph
from tilewright.timing.replay import WRITTEN, Replay

TARGET = get_target("trn2").replace(
    {"semaphore.engine_ns": 40, "dma.core_bandwidth": 100, "memory.compiler_ring_depth": 4}
)
WHOLE = extent((0, 128, 0, ((512, 1),), 1))


class Machine:
    """A replay that is fed by hand: `run(line, engine, cost, reads, writes)`."""

    def __init__(self, order: str = "scheduled") -> None:
        self.nodes: list[Node] = []
        self.replay = Replay(TARGET, order, self._watch)
        self.instances: dict[str, Instance] = {}

    def _watch(self, node: Node) -> None:
        critical.remember(node)
        self.nodes.append(node)

    def _instance(self, name: str) -> Instance:
        if name not in self.instances:
            buffer = Buffer(as_dtype("uint8"), (128, 512), SBUF, name, location=Location("buffers", len(name)))
            self.instances[name] = Instance(buffer, -1)
        return self.instances[name]

    def run(self, line: int, engine: str, cost: Cost, reads: Sequence[str] = (), writes: Sequence[str] = ()) -> None:
        accesses: list[Access] = [(self._instance(name), WHOLE, True, False) for name in reads]
        accesses += [(self._instance(name), WHOLE, False, True) for name in writes]
        self.replay.step(self.replay.kind(f"op{line}", engine, cost, Location("kernel.py", line)), accesses)

    def path(self) -> dict[tuple[int, str], float]:
        """ns by (line, kind of wait)."""
        self.replay.finish()
        steps = critical_path(self.replay.last, self.replay.end)
        check_sums(steps, self.replay.end)
        return {(step.line.line if step.line else 0, step.wait): round(step.us * 1e3, 6) for step in steps}


def check_sums(steps: Sequence[Step], end_ns: float) -> None:
    """Shares are positive and add up to one, times to the whole."""
    assert all(step.share >= 0 and step.us >= 0 for step in steps)
    assert sum(step.share for step in steps) == pytest.approx(1)
    assert sum(step.us for step in steps) * 1e3 == pytest.approx(end_ns)
    assert [step.share for step in steps] == sorted((step.share for step in steps), reverse=True)


def test_results_wait_for_latency_and_semaphore():
    machine = Machine()
    machine.run(1, "vector", Cost(100, 250), writes=["a"])
    machine.run(2, "scalar", Cost(50, 70), reads=["a"], writes=["b"])
    machine.run(3, "vector", Cost(100, 300), reads=["b"])
    # 0 to 250, 40 for the semaphore; 290 to 360, 40; 400 to 700.
    assert machine.path() == {(1, ""): 290, (2, "data"): 110, (3, "data"): 300}
    assert machine.replay.end == 700


def test_what_is_not_waited_for_is_not_on_the_path():
    machine = Machine()
    machine.run(1, "scalar", Cost(50, 60), writes=["a"])
    machine.run(2, "gpsimd", Cost(400, 500), writes=["b"])
    machine.run(3, "vector", Cost(100, 200), reads=["a", "b"])
    assert machine.path() == {(2, ""): 540, (3, "data"): 200}


def test_a_busy_engine_is_waited_for():
    machine = Machine(WRITTEN)
    for _ in range(3):
        machine.run(1, "vector", Cost(100, 250))
    machine.run(2, "vector", Cost(30, 40))
    # Issued at 0, 100, 200 and 300; what ends last is the third of line 1, at 450.
    assert machine.path() == {(1, ""): 100, (1, "engine"): 350}


def test_reading_back_waits_for_the_pipeline_and_overwriting_for_the_reader():
    machine = Machine(WRITTEN)
    machine.run(1, "vector", Cost(100, 250), writes=["a"])
    machine.run(2, "vector", Cost(100, 250), reads=["a"])
    machine.run(3, "scalar", Cost(20, 30), writes=["a"])
    # Line 2 starts at 250 and has read at 350; line 3 waits for that, 40 more, and ends at 420, before line 2 at 500.
    assert machine.path() == {(1, ""): 250, (2, "data"): 250}
    machine = Machine(WRITTEN)
    machine.run(2, "vector", Cost(100, 130), reads=["a"])
    machine.run(3, "scalar", Cost(20, 300), writes=["a"])
    assert machine.path() == {(2, ""): 140, (3, "reader"): 300}


def transfer(bytes_each: int, count: int) -> Cost:
    """Issued every 600 ns; 1000 ns until the first byte, 300 after the last."""
    busy = float(bytes_each * count) / 100
    return Cost(600, 1000 + busy + 300, ("dma",), ((bytes_each, count),), 1000, busy, busy)


def test_transfers_wait_for_their_turn_to_be_issued():
    machine = Machine()
    for line in (1, 2):
        machine.run(line, "dma", transfer(100, 1))
    # The second is issued at 600, moves one byte per 0.01 ns: 600 + 1000 + 1 + 300.
    assert machine.path() == {(1, ""): 600, (2, "engine"): 1301}


def test_transfers_wait_for_the_bandwidth():
    machine = Machine()
    for line in (1, 2, 3):
        machine.run(line, "dma", transfer(1000, 1000))
    # Bytes move from 1000 to 11000, to 21000 and to 31000; then 300 until they are seen.
    assert machine.replay.end == 0.0
    path = machine.path()
    assert machine.replay.end == 31300
    assert path == {(1, ""): 11000, (2, "bandwidth"): 10000, (3, "bandwidth"): 10300}


def test_reasons_are_told():
    machine = Machine()
    machine.run(1, "vector", Cost(100, 250), writes=["a"])
    machine.run(2, "scalar", Cost(50, 70), reads=["a"])
    machine.replay.finish()
    steps = critical_path(machine.replay.last, machine.replay.end)
    assert [(step.instruction, step.engine, step.waited_for) for step in steps] == [
        ("op1", "vector", "nothing"),
        ("op2", "scalar", "the result of op1, line 1"),
    ]


def test_nothing_has_no_path():
    assert critical_path(None, 0.0) == ()


LOOP = """\
kernel loop(%x: f32[128, 512]@hbm) -> (%y: f32[128, 512]@hbm) {
  %s = alloc f32[128, 512]@sbuf
  dma_copy %s, %x
  for %i in 0..COUNT {
    %t = alloc f32[128, 512]@sbuf
    activation %t, %s {op = exp}
    dma_copy %y, %t
    tensor_copy %s, %t
  }
}
"""


@pytest.mark.parametrize("order", ["scheduled", "written"])
def test_folding_changes_nothing(order: str, monkeypatch: pytest.MonkeyPatch):
    graph = parse_tile(LOOP.replace("COUNT", "40"))
    paths: list[dict[tuple[object, ...], float]] = []
    for fold in (10**9, 7):
        monkeypatch.setattr(critical, "_FOLD", fold)
        watched = watch_graph(graph, get_target("trn2"), order)
        steps = critical_path(watched.replay.last, watched.end_ns)
        check_sums(steps, watched.end_ns)
        paths.append({(step.instruction, step.waited_for): step.us for step in steps})
    assert paths[0].keys() == paths[1].keys()
    assert all(paths[1][key] == pytest.approx(us) for key, us in paths[0].items())


def test_long_kernels_keep_few_instructions():
    watched = watch_graph(parse_tile(LOOP.replace("COUNT", "8000")), get_target("trn2"), most_events=10)
    kept = sum(isinstance(each, Node) for each in gc.get_objects())
    assert watched.replay.instructions == 24_001
    assert kept < 12_000, "chains are folded and finished instructions forgotten"
    assert len(watched.events) == 10 and watched.dropped_events == 23_991
    check_sums(critical_path(watched.replay.last, watched.end_ns), watched.end_ns)

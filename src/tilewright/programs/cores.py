"""Running recorded kernels: on one core, or on all cores of a logical core together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewright.errors import TileError
from tilewright.ir.core import Graph, Op
from tilewright.ir.walk import walk
from tilewright.rules import Reporter, restore_reporter, use_reporter
from tilewright.sim.cores import FIRST_TO_LAST, Order, SharedMemory, Turns, other_orders
from tilewright.sim.machine import Machine
from tilewright.sim.races import UNSEEN, Accesses, report_loose, report_races
from tilewright.sim.run import GraphRun, bind, output_of, run_graph
from tilewright.sim.threads import one_thread
from tilewright.target import Target
from tilewright.tile.memory import SHARED_HBM, Buffer
from tilewright.tile.ops import ALLOC

Watch = Callable[[Machine], None]


def run_cores(
    graphs: Sequence[Graph], arrays: Sequence[np.ndarray], target: Target, profile: str, watch: Watch | None = None
) -> list[np.ndarray]:
    """The outputs of a verified kernel with one graph for each core; inputs are not changed.

    watch: gets the machine of every core before it starts.
    """
    if len(graphs) == 1:
        return list(run_graph(graphs[0], arrays, target, profile, verified=True, watch=watch))
    reporter = Reporter(profile)
    results, accesses = _together(graphs, arrays, target, reporter, FIRST_TO_LAST, watch)
    report_loose(reporter, accesses)
    if accesses.clashes:
        _judge(graphs, arrays, target, reporter, results, accesses)
    return results


def _judge(
    graphs: Sequence[Graph],
    arrays: Sequence[np.ndarray],
    target: Target,
    reporter: Reporter,
    results: Sequence[np.ndarray],
    accesses: Accesses,
) -> None:
    """An error where the results depend on which core comes first, as of a kernel that is launched."""

    def same(order: Order) -> bool:
        try:
            others, _ = _together(graphs, arrays, target, Reporter(reporter.profile), order)
        except TileError:
            return False
        return [x.tobytes() for x in results] == [x.tobytes() for x in others]

    seen = next((order.seen for order in other_orders(accesses) if not same(order)), None)
    report_races(reporter, accesses, seen is not None, seen or UNSEEN)


def _together(
    graphs: Sequence[Graph],
    arrays: Sequence[np.ndarray],
    target: Target,
    reporter: Reporter,
    order: Order,
    watch: Watch | None = None,
) -> tuple[list[np.ndarray], Accesses]:
    turns = Turns(len(graphs), order)
    shared = SharedMemory()
    runs = [_CoreRun(target, reporter, core, turns, shared) for core in range(len(graphs))]
    pairs = list(zip(runs, graphs, strict=True))
    # All cores work on the same bytes.
    held = [np.array(array, order="C") for array in arrays]
    token = use_reporter(reporter)
    try:
        for run, graph in pairs:
            run.keys = _shared_keys(graph)
            if watch is not None:
                watch(run.machine)
            for value, array in zip(graph.inputs, held, strict=True):
                bind(run.machine, value, array, copy=False)
        with np.errstate(all="ignore"), one_thread():
            turns.run([lambda run=run, graph=graph: run.region(graph.body) for run, graph in pairs])
        turns.accesses.meet()
        for run in runs:
            run.machine.turns = None
        found = [output_of(runs[0].machine, value, graphs[0].location) for value in graphs[0].outputs]
        return found, turns.accesses
    finally:
        restore_reporter(token)


class _CoreRun(GraphRun):
    """One core's part: shared tensors belong to all cores."""

    def __init__(self, target: Target, reporter: Reporter, core: int, turns: Turns, shared: SharedMemory) -> None:
        super().__init__(target, reporter)
        self.core, self.turns, self.shared = core, turns, shared
        self.keys: dict[Buffer, str] = {}
        self.machine.turns, self.machine.core = turns, core
        self.machine.origins = shared.origins

    def alloc(self, op: Op, buffer: Buffer) -> None:
        if buffer.memory is not SHARED_HBM:
            super().alloc(op, buffer)
            return
        key, known = self.shared.find(self.core, self.keys[buffer], buffer)
        if known is not None:
            self.machine.adopt(buffer, known)
        else:
            self.shared.keep(key, self.machine.allocate(buffer))

    def instruction(self, op: Op) -> None:
        super().instruction(op)
        self.turns.go_on(self.core, op.location)


def _shared_keys(graph: Graph) -> dict[Buffer, str]:
    """What a core's shared tensors are known by among the cores: their names, and which of that name they are."""
    found: dict[Buffer, str] = {}
    seen: dict[str, int] = {}
    for op in walk(graph):
        if op.definition is ALLOC and isinstance(op.result, Buffer) and op.result.memory is SHARED_HBM:
            name = op.result.name or ""
            seen[name] = seen.get(name, -1) + 1
            found[op.result] = f"{name} {seen[name]}"
    return found

"""The latency of a kernel in tile IR and nothing else: what a compiler asks for when it compares two ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.ir.core import Graph, Op
from tilewright.target import Target
from tilewright.timing.replay import SCHEDULED, Replay
from tilewright.timing.stream import Stream
from tilewright.timing.varied import Varied


def latency_us(graph: Graph, target: Target, order: str = SCHEDULED) -> float:
    """How long a kernel takes on one core, launch included: `latency_us` of its report where nothing spills.

    About half the work of a whole report (`report.graph.profile_graph`).
    """
    replay = Replay(target, order)
    Stream(target, replay, by_line=False).run(graph)
    return target["launch.first_instruction_us"] + replay.end / 1e3 + target["launch.after_last_dma_us"]


def fragment_ns(ops: Sequence[Op], target: Target) -> float:
    """How long some instructions of a kernel take by themselves: what they find on chip or in HBM is there."""
    replay = Replay(target, regions=[])
    Stream(target, replay, by_line=False).run_ops(ops)
    replay.forget()
    return replay.end


@dataclass(frozen=True, slots=True)
class FragmentClock:
    """How long instructions of a kernel take by themselves, on a target."""

    target: Target

    def __call__(self, ops: Sequence[Op]) -> float:
        """The time of some instructions."""
        return fragment_ns(ops, self.target)

    def varied(self, ops: Sequence[Op]) -> Callable[[], float]:
        """The time of instructions whose attributes change from one call to the next, and nothing else."""
        varied = Varied.of(ops, self.target)
        return (lambda: fragment_ns(ops, self.target)) if varied is None else varied.ns

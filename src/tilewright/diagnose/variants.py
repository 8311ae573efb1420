"""Variants of a failing case: a kernel with fewer instructions, with fewer inputs that matter, in fewer surroundings.

A variant keeps the interface: the same inputs, the same outputs. What an instruction that was left out would have
written on chip is zero, so that nothing reads what nobody wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import tilewright.tile.isa  # noqa: F401  (fills the table)
from tilewright.ir.core import Graph, Op
from tilewright.rules import STRICT, Reporter
from tilewright.sim.capacity import check_capacity
from tilewright.sim.machine import Machine
from tilewright.sim.run import run_graph
from tilewright.sim.session import Options
from tilewright.target import Target
from tilewright.tile.memory import Buffer
from tilewright.tile.ops import STRUCTURE
from tilewright.tile.record import TABLE
from tilewright.tile.verify import verify_graph
from tilewright.tile.view import View, same_access

ZERO = TABLE["memset"]


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel in tile IR, the arrays it gets, and its surroundings: how many other kernels ran before it."""

    graph: Graph
    arrays: tuple[np.ndarray, ...]
    target: Target
    profile: str = STRICT
    context: tuple[str, ...] = ()
    left_out: frozenset[int] = field(default_factory=frozenset)

    def run(self) -> tuple[np.ndarray, ...]:
        """The results; raises what the kernel breaks."""
        machines: list[Machine] = []
        results = run_graph(self.graph, self.arrays, self.target, self.profile, watch=machines.append)
        reporter = Reporter(self.profile)
        session: Any = SimpleNamespace(machine=machines[0], target=self.target, options=Options(), settle=lambda: None)
        check_capacity([session], reporter)
        return results

    def findings(self) -> list[str]:
        """Rules that the kernel breaks whatever its inputs are."""
        found = verify_graph(self.graph, self.target, self.profile)
        return [each.rule or each.code for each in found if each.severity == "error"]

    def count(self, name: str) -> int:
        """How many instructions of a name it has."""
        return sum(op.name == name for op in self.graph.ops)

    @property
    def instructions(self) -> int:
        """How many instructions it has, those that only stand in for others left out."""
        return len(instructions_of(self.graph)) - len(self.left_out)

    @property
    def buffers(self) -> int:
        """How many tensors it allocates on chip."""
        return sum(op.name == "alloc" and op.result.type.memory.value in ("sbuf", "psum") for op in self.graph.ops)


def instructions_of(graph: Graph) -> list[Op]:
    """What engines run, in order."""
    return [op for op in graph.ops if op.name not in STRUCTURE]


def removable(graph: Graph) -> list[int]:
    """Instructions that can be left out: all but those that write what the kernel returns."""
    kept = set(graph.outputs)
    found: list[int] = []
    for number, op in enumerate(instructions_of(graph)):
        written = [op.operands[position] for position in op.definition.written]
        views = [view for view in written if view is not None]
        if views and all(isinstance(view, View) and view.buffer not in kept for view in views):
            found.append(number)
    return found


def without(variant: Variant, numbers: Sequence[int]) -> Variant:
    """The variant without these instructions of its kernel; zeros stand where they would have written on chip."""
    graph = variant.graph.clone()
    every = instructions_of(graph)
    for number in numbers:
        op = every[number]
        for position in op.definition.written:
            view = op.operands[position]
            if isinstance(view, View) and view.on_chip and view.dynamic is None and not _updates(op, view):
                graph.body.insert_before(op, Op(ZERO, (view,), (), ZERO.attributes({"value": 0}), (), op.location))
        op.erase()
    return replace(variant, graph=graph, left_out=frozenset(numbers))


def _updates(op: Op, view: View) -> bool:
    """Whether an instruction changes a tile in place: without it the tile stays as it was."""
    sources = [operand for position, operand in enumerate(op.operands) if position not in _only_written(op)]
    return any(isinstance(source, View) and same_access(source, view) for source in sources)


def tidied(variant: Variant, fails: Any) -> Variant:
    """Without stand-ins and tensors that nobody needs; `fails` says of each step whether the failure stays."""
    current = variant
    for number in reversed(range(len(instructions_of(current.graph)))):
        op = instructions_of(current.graph)[number]
        if op.definition is not ZERO or _is_read(op.operands[0].buffer):
            continue
        graph = current.graph.clone()
        instructions_of(graph)[number].erase()
        smaller = replace(current, graph=_without_unused(graph), left_out=frozenset())
        if fails(smaller):
            current = smaller
    return current


def _is_read(buffer: Buffer) -> bool:
    """Whether an instruction reads any of it."""
    for op in buffer.uses:
        read = [operand for position, operand in enumerate(op.operands) if position not in _only_written(op)]
        if any(isinstance(operand, View) and buffer in operand.values() for operand in read):
            return True
    return False


def _only_written(op: Op) -> set[int]:
    specs = list(getattr(op.definition, "operands", {}).values())
    return {position for position, spec in enumerate(specs) if spec.writes and not spec.reads}


def _without_unused(graph: Graph) -> Graph:
    for op in list(graph.ops):
        if op.name == "alloc" and not op.result.uses and op.result not in graph.outputs:
            op.erase()
    return graph


def with_input(variant: Variant, number: int, array: np.ndarray) -> Variant:
    """The variant with another array for one of its inputs."""
    arrays = list(variant.arrays)
    arrays[number] = array
    return replace(variant, arrays=tuple(arrays))

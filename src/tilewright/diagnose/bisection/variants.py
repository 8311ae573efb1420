"""Variants of a failing case: a kernel with fewer instructions, with fewer inputs that matter, in fewer surroundings.

A variant keeps the interface: the same inputs, the same outputs. What an instruction that was left out would have
written on chip is zero, so that nothing reads what nobody wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

import tilewright.tile.isa  # noqa: F401  (fills the table)
from tilewright.errors import ERROR, Diagnostic
from tilewright.ir.core import Graph, Op
from tilewright.ir.walk import walk
from tilewright.rules import STRICT
from tilewright.target import Target
from tilewright.tile.memory import ON_CHIP, Buffer
from tilewright.tile.ops import ALLOC, STRUCTURE
from tilewright.tile.record import TABLE
from tilewright.tile.verify import verify_graph
from tilewright.tile.view import View, same_access

ZERO = TABLE["memset"]
Part = tuple[tuple[int, int], ...]
"""Instructions that are left out together, as (core, number): what one line does at one time on all cores."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel in tile IR (one graph for each core), the arrays it gets, and its surroundings.

    context: the kernels that ran before it. before: those kernels with their arrays, where they are known. placement:
    how many bytes of other tensors lie before its own in HBM. stand_ins: instructions that only stand for others.
    """

    graphs: tuple[Graph, ...]
    arrays: tuple[np.ndarray, ...]
    target: Target
    profile: str = STRICT
    context: tuple[str, ...] = ()
    placement: int = 0
    before: Callable[[], Sequence[Variant]] | None = None
    stand_ins: int = 0

    @property
    def graph(self) -> Graph:
        """The first core's instructions."""
        return self.graphs[0]

    @property
    def names(self) -> list[str]:
        """What its inputs are called."""
        return [str(value.name) for value in self.graph.inputs]

    def run(self) -> tuple[np.ndarray, ...]:
        """The results; raises what the kernel breaks."""
        from tilewright.diagnose.bisection.outcome import outcome_of

        found = outcome_of(self)
        if found.error is not None:
            raise found.error
        assert found.results is not None
        return found.results

    def findings(self) -> list[str]:
        """Rules that the kernel breaks whatever its inputs are."""
        return [each.rule or each.code for each in self.faults()]

    def faults(self) -> list[Diagnostic]:
        """What the verifier refuses of it."""
        return [each for graph in self.graphs for each in _faults(graph, self.target, self.profile)]

    def count(self, name: str) -> int:
        """How many instructions of a name the first core has."""
        return sum(op.name == name for op in instructions_of(self.graph))

    @property
    def instructions(self) -> int:
        """How many instructions it has on all cores, those that only stand in for others left out."""
        return sum(len(instructions_of(graph)) for graph in self.graphs) - self.stand_ins

    @property
    def buffers(self) -> int:
        """How many tensors on chip its instructions use."""
        made = [op.result for op in walk(self.graph) if op.definition is ALLOC]
        return sum(isinstance(x, Buffer) and x.memory in ON_CHIP and bool(x.uses) for x in made)


@lru_cache(maxsize=16)
def _faults(graph: Graph, target: Target, profile: str) -> tuple[Diagnostic, ...]:
    """Many variants share a kernel, which no one changes, and differ in what they run it on."""
    return tuple(each for each in verify_graph(graph, target, profile) if each.severity == ERROR)


def instructions_of(graph: Graph) -> list[Op]:
    """What engines run, in the order of the text, those in loops among them."""
    return [op for op in walk(graph) if op.name not in STRUCTURE]


def removable(variant: Variant) -> list[Part]:
    """Instructions that can be left out: all but those that write what the kernel returns."""
    found: dict[Any, list[tuple[int, int]]] = {}
    fixed: set[Any] = set()
    for core, graph in enumerate(variant.graphs):
        times: dict[Any, int] = {}
        for number, op in enumerate(instructions_of(graph)):
            place = op.name, op.location, op.location and op.location.span
            # What cores do on one line at the same turn goes together; one core's instructions each for themselves.
            key = number if len(variant.graphs) == 1 or op.location is None else (place, times.get(place, 0))
            times[place] = times.get(place, 0) + 1
            found.setdefault(key, []).append((core, number))
            if not _is_removable(op, graph):
                fixed.add(key)
    return [tuple(part) for key, part in found.items() if key not in fixed]


def _is_removable(op: Op, graph: Graph) -> bool:
    if op.definition is ZERO and op.attrs["value"] == 0 and op.operands[0].on_chip:
        return False  # The same would stand in for it.
    views = [view for position in op.definition.written if (view := op.operands[position]) is not None]
    return bool(views) and all(isinstance(view, View) and view.buffer not in graph.outputs for view in views)


def without(variant: Variant, parts: Sequence[Part]) -> Variant:
    """The variant without these instructions; zeros stand where they would have written on chip."""
    graphs = [graph.clone() for graph in variant.graphs]
    every = [instructions_of(graph) for graph in graphs]
    stand_ins = variant.stand_ins
    for core, number in (each for part in parts for each in part):
        op = every[core][number]
        for position in op.definition.written:
            view = op.operands[position]
            if isinstance(view, View) and view.on_chip and view.dynamic is None and not _updates(op, view):
                assert op.parent is not None
                op.parent.insert_before(op, Op(ZERO, (view,), (), ZERO.attributes({"value": 0}), (), op.location))
                stand_ins += 1
        op.erase()
    return replace(variant, graphs=tuple(graphs), stand_ins=stand_ins)


def _updates(op: Op, view: View) -> bool:
    """Whether an instruction changes a tile in place: without it the tile stays as it was."""
    sources = [operand for position, operand in enumerate(op.operands) if position not in _only_written(op)]
    return any(isinstance(source, View) and same_access(source, view) for source in sources)


def tidied(variant: Variant, fails: Callable[[Variant], bool], is_over: Callable[[], bool]) -> Variant:
    """Without stand-ins and tensors that nobody needs; `fails` says of each step whether the failure stays."""
    current = variant
    for core in range(len(variant.graphs)):
        for number in reversed(range(len(instructions_of(current.graphs[core])))):
            if is_over():
                return current
            op = instructions_of(current.graphs[core])[number]
            if op.definition is not ZERO or _is_read(op.operands[0].buffer):
                continue
            graphs = [graph.clone() for graph in current.graphs]
            instructions_of(graphs[core])[number].erase()
            fewer = max(0, current.stand_ins - 1)
            smaller = replace(current, graphs=tuple(map(_without_unused, graphs)), stand_ins=fewer)
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
    for op in list(walk(graph)):
        if op.definition is ALLOC and not op.result.uses and op.result not in graph.outputs:
            op.erase()
    return graph


def with_input(variant: Variant, number: int, array: np.ndarray) -> Variant:
    """The variant with another array for one of its inputs."""
    arrays = list(variant.arrays)
    arrays[number] = array
    return replace(variant, arrays=tuple(arrays))

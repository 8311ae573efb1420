"""What a program runs: its graph as units, each a kernel on tensors in HBM.

A call of a kernel is a unit. NumPy ops between calls are compiled, as many together as no call stands in between;
equal groups are compiled once. Ops that move nothing are no units: what is made of no array (`full`, `iota`, small
constants) and other shapes of the same elements go into every group that needs them, and a kernel that takes a
reshaped tensor takes the tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.compiler import Compiled, CompileOptions
from tilewright.device import on_device
from tilewright.errors import Location
from tilewright.front.function import of_graph
from tilewright.ir.core import Graph, Op, Value, clone_op
from tilewright.programs.call import BARRIER, CALL, READ, STEP
from tilewright.programs.code import COMPILED, Code
from tilewright.programs.exchange import collective_code, is_collective
from tilewright.programs.flags import Flags
from tilewright.rules import STRICT
from tilewright.target import Target
from tilewright.tensor.interpret import run_op
from tilewright.tensor.text import TENSOR
from tilewright.tensor.types import TensorType

_SMALL = 99
"""Constants of more elements are uploaded once, as weights are, and not compiled into a kernel."""


@dataclass(eq=False)
class Unit:
    """A kernel on some values of a program. `op`: the call, or a collective; None for a group of NumPy ops.

    `stage`: how many barriers, steps and reads of the user stand before it.
    """

    name: str
    code: Code
    inputs: list[Value]
    outputs: list[Value]
    location: Location | None
    stage: int
    op: Op | None = None
    compiled: Compiled | None = None

    @property
    def exchange(self) -> Op | None:
        """The collective that it is, if it is one."""
        return self.op if is_collective(self.op) else None


def shared_profile(units: Sequence[Unit]) -> str:
    """Whose rules kernels keep that run as one: those of the least strict, since what is compiled keeps all."""
    return next((unit.code.profile for unit in units if unit.code.profile != STRICT), STRICT)


@dataclass
class Units:
    """The units of a program in an order in which they can run.

    constants: arrays by the values that stand for them. base: the value whose tensor a reshaped one is. ends: the
    barriers, steps and reads that end each stage.
    """

    graph: Graph
    units: list[Unit] = field(default_factory=list)
    constants: dict[Value, np.ndarray] = field(default_factory=dict)
    base: dict[Value, Value] = field(default_factory=dict)
    ends: list[Op] = field(default_factory=list)

    def tensor_of(self, value: Value) -> Value:
        """The value whose tensor holds the elements of this one."""
        return self.base.get(value, value)

    @property
    def outputs(self) -> list[Value]:
        """The tensors that the program returns or the host reads."""
        read = [op.operands[0] for op in self.ends if op.definition is READ]
        return [self.tensor_of(value) for value in (*self.graph.outputs, *read)]


class Compiler:
    """Compiles groups of NumPy ops; equal ones once."""

    def __init__(self, target: Target, flags: Flags) -> None:
        self.target, self.flags = target, flags
        self._known: dict[str, tuple[Code, Compiled]] = {}

    def code_of(self, graph: Graph) -> tuple[Code, Compiled]:
        """The kernel of a group."""
        key = str(graph)
        if key not in self._known:
            options = CompileOptions.checked(precision=self.flags.precision, check="off")
            made = Compiled(of_graph(graph), self.target, options)
            name = f"numpy_{len(self._known)}"
            code = Code(name, (made.tile_ir,), self.target.name, COMPILED, options.profile, graph.location)
            self._known[key] = (code, made)
        return self._known[key]


def split(graph: Graph, target: Target, flags: Flags) -> Units:
    """The units of a program without 64-bit types."""
    return _Splitter(graph, Compiler(target, flags), flags).run()


class _Splitter:
    def __init__(self, graph: Graph, compiler: Compiler, flags: Flags) -> None:
        self.graph, self.compiler, self.flags = graph, compiler, flags
        self.found = Units(graph)
        self.pending: list[Op] = []
        self.known: dict[Value, np.ndarray] = {}

    def run(self) -> Units:
        for op in self.graph.ops:
            if op.definition is CALL:
                if any(self._needs_pending(x) for x in op.values()):
                    self._close()
                self._call(op)
            elif is_collective(op):
                if any(self._needs_pending(x) for x in op.values()):
                    self._close()
                self._collective(op)
            elif op.definition in (BARRIER, STEP, READ):
                self._close()
                self.found.ends.append(op)
            elif not self._is_free(op):
                self.pending.append(op)
        self._close()
        for value in self.graph.outputs:
            self._settle(value)
        return self.found

    # Ops that move nothing

    def _is_free(self, op: Op) -> bool:
        """Note what an op that moves nothing is made of; False for the others."""
        if not _moves_nothing(op):
            return False
        if op.values():
            self.found.base[op.result] = self.found.tensor_of(op.operands[0])
        elif op.result.type.size > _SMALL and op.name == "constant":
            self._constant(op.result)
        return True

    def _constant(self, value: Value) -> None:
        """Upload what a creation op makes."""
        op = value.producer
        if value not in self.found.constants and op is not None:
            (array,) = run_op(op, {})
            self.found.constants[value] = on_device(array)

    def _settle(self, value: Value) -> Value:
        """The tensor of a value that leaves the ops: one that no kernel makes is uploaded."""
        tensor = self.found.tensor_of(value)
        op = tensor.producer
        if op is not None and op.definition is not CALL and not op.values():
            self._constant(tensor)
        return tensor

    def _needs_pending(self, value: Value) -> bool:
        return self.found.tensor_of(value).producer in self.pending

    # Units

    def _call(self, op: Op) -> None:
        code = op.attrs["kernel"]
        inputs = [self._settle(x) for x in op.values()]
        stage = len(self.found.ends)
        self.found.units.append(Unit(code.name, code, inputs, list(op.results), op.location, stage, op))

    def _collective(self, op: Op) -> None:
        inputs = [self._settle(x) for x in op.values()]
        stage = len(self.found.ends)
        self.found.units.append(Unit(op.name, collective_code(op), inputs, list(op.results), op.location, stage, op))

    def _close(self) -> None:
        """Compile the NumPy ops that wait."""
        ops, self.pending = self.pending, []
        inside = set(ops)
        used = [value for op in ops for value in op.results if self._leaves(value, inside)]
        if not used:
            return
        graph, inputs = self._group(ops, used)
        code, compiled = self.compiler.code_of(self.flags.applied(graph, self.compiler.target))
        constants = [Value(TensorType(each.dtype, each.shape)) for each in code.inputs[len(inputs) :]]
        for value, array in zip(constants, compiled.constants, strict=True):
            self.found.constants[value] = array
        where = next((op.location for op in ops if op.location is not None), None)
        stage = len(self.found.ends)
        self.found.units.append(Unit(code.name, code, [*inputs, *constants], used, where, stage, None, compiled))

    def _leaves(self, value: Value, ops: set[Op]) -> bool:
        """Whether a value of the ops is used outside of them, if only in another shape."""
        for user in value.uses:
            if user in ops:
                continue
            if user is not self.graph.output_op and _moves_nothing(user):
                if self._leaves(user.result, ops):
                    return True
                continue
            return True
        return False

    def _group(self, ops: Sequence[Op], used: Sequence[Value]) -> tuple[Graph, list[Value]]:
        """The ops as a program of their own, and the tensors that it takes."""
        graph = Graph("numpy", dialect=TENSOR, location=ops[0].location)
        mapping: dict[Value, Value] = {}
        inputs: dict[Value, Value] = {}

        def bring(value: Value) -> None:
            """Make a value known to the group: what is free is made in it, all others are arguments."""
            if value in mapping:
                return
            op = value.producer
            if op is not None and value not in self.found.constants and _moves_nothing(op):
                for each in op.values():
                    bring(each)
                graph.append(_plain(clone_op(op, mapping)))
                return
            inputs[value] = mapping[value] = Value(value.type)
            graph.inputs.append(mapping[value])

        for op in ops:
            for value in op.values():
                bring(value)
            graph.append(_plain(clone_op(op, mapping)))
        graph.outputs = [mapping[value] for value in used]
        return graph, list(inputs)


def _moves_nothing(op: Op) -> bool:
    return (op.definition.family == "creation" and not op.values()) or op.name == "reshape"


def _plain(op: Op) -> Op:
    """Without names: equal groups have equal texts."""
    for value in op.results:
        value.name = None
    return op

"""The code of a kernel that a program calls: its instructions as tile IR, one graph for each core.

A `Code` has no Python function in it: it was recorded, compiled or read, and runs as data. Its inputs are the operands
of the call, constants that the kernel brings along among them; its outputs are the tensors that the kernel returned,
then the arguments that it wrote to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tilewright.device import on_device
from tilewright.errors import Diagnostic, Location
from tilewright.ir.core import Graph
from tilewright.ir.text import show
from tilewright.ir.walk import walk
from tilewright.programs.cores import Watch, run_cores
from tilewright.rules import STRICT
from tilewright.target import Target, get_target
from tilewright.tensor.types import TensorType
from tilewright.tile.memory import Buffer
from tilewright.tile.verify import check_graph

NKI, LEGACY, COMPILED = "nki", "neuronxcc.nki", "compiled"
"""Who wrote a kernel: somebody in NKI, in its older dialect, or tilewright's compiler."""


@dataclass(eq=False, repr=False)
class Code:
    """A kernel as data. `graphs`: one for each core; empty while a text that names the kernel is being read.

    profile: whose rules it keeps. target: what it was recorded for; it may be run as another. location: where its
    function stands. diagnostics: what was noted when it was recorded.
    """

    name: str
    graphs: tuple[Graph, ...] = ()
    target: str = ""
    dialect: str = NKI
    profile: str = STRICT
    location: Location | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    _verified: set[str] = field(default_factory=set, repr=False)

    def __repr__(self) -> str:
        return f"<kernel {self.name} {self.digest[:16]}>" if self.graphs else f"<kernel {self.name}>"

    @property
    def graph(self) -> Graph:
        """The first core's instructions."""
        return self.graphs[0]

    @property
    def cores(self) -> int:
        """How many cores it runs on."""
        return len(self.graphs)

    @cached_property
    def inputs(self) -> tuple[TensorType, ...]:
        """The types of its operands."""
        return tuple(_type_of(value) for value in self.graph.inputs)

    @cached_property
    def outputs(self) -> tuple[TensorType, ...]:
        """The types of its results."""
        return tuple(_type_of(value) for value in self.graph.outputs)

    @cached_property
    def text(self) -> str:
        """All of its graphs, as they are written into files."""
        return "".join(show(graph, locations=True) for graph in self.graphs)

    @cached_property
    def digest(self) -> str:
        """What stands for its instructions: equal kernels have equal ones, wherever they were written."""
        plain = "".join(show(graph) for graph in self.graphs)
        return hashlib.sha256(f"{self.dialect} {self.profile}\n{plain}".encode()).hexdigest()

    @cached_property
    def instructions(self) -> int:
        """How many instructions the text has on all cores, loops counted once."""
        return sum(1 for graph in self.graphs for op in walk(graph) if hasattr(op.definition, "engines"))

    def run(
        self, arrays: Sequence[np.ndarray], target: str | Target | None = None, watch: Watch | None = None
    ) -> list[np.ndarray]:
        """The results for arrays of the operands' types: the instructions on the simulator."""
        machine = get_target(target or self.target or None)
        if machine.name not in self._verified:
            for graph in self.graphs:
                check_graph(graph, machine, self.profile)
            self._verified.add(machine.name)
        given = [_fitting(array, type) for array, type in zip(arrays, self.inputs, strict=True)]
        return run_cores(self.graphs, given, machine, self.profile, watch)


def _fitting(array: np.ndarray, type: TensorType) -> np.ndarray:
    """The array as the kernel takes it: in its shape, a tensor may have another one elsewhere in the program, and in
    its element type, as programs that are computed in more bits ask for its meaning too."""
    dtype = type.dtype.np
    return on_device(array if array.dtype in (dtype, np.bool_) else array.astype(dtype)).reshape(type.shape)


def _type_of(value: object) -> TensorType:
    assert isinstance(value, Buffer), f"{value} is no tensor"
    return TensorType(value.dtype, value.shape)

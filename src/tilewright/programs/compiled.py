"""`tw.compile` of a function that calls kernels: one kernel made of all of them, compiled NumPy ops between."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from tilewright.compiler import Compiled, CompileOptions
from tilewright.device import run_program
from tilewright.errors import TileError, fail
from tilewright.front.function import Traced
from tilewright.ir.core import Value
from tilewright.lower.lowering import Lowered
from tilewright.lower.schedule.data import Schedule
from tilewright.programs.flags import Flags
from tilewright.programs.fuse import Fusion
from tilewright.programs.plan import Plan
from tilewright.programs.planning import Wishes, make_plan
from tilewright.programs.units import Units, split
from tilewright.report.graph import profile_graph
from tilewright.report.profile import Profile
from tilewright.tile.memory import HBM, Buffer
from tilewright.timing.pin import Pins
from tilewright.timing.replay import SCHEDULED


class CompiledCalls(Compiled):
    """A function that calls kernels, compiled for given shapes and element types. Its calls are ops of `tensor_ir`."""

    def __init__(self, traced: Traced, target: Any = None, options: CompileOptions | None = None, *others: Any) -> None:
        super().__init__(traced, target, options, *others)
        if self.options.schedule is not None:
            raise self._no_schedule()

    @property
    def schedule(self) -> Schedule:  # type: ignore[override]
        """E851: kernels that are called are written already."""
        raise self._no_schedule()

    def _no_schedule(self) -> TileError:
        hint = "compile the functions between its kernels by themselves: they have schedules"
        message = f"{self.traced.graph.name} calls kernels: it has no schedule of its own"
        return fail("E851", message, hint=hint, location=self.traced.graph.location)

    @cached_property
    def units(self) -> Units:
        """The kernels that it is made of."""
        auto_cast = "none" if self.options.precision == "float32" else "matmult"
        return split(self.program.graph, self.target, Flags(auto_cast=auto_cast, precision=self.options.precision))

    @cached_property
    def plan(self) -> Plan:  # type: ignore[override]
        """The kernels as one executable, and what was moved for that."""
        return make_plan(self.units, self.target, Wishes(profile=self.options.profile))

    @cached_property
    def lowered(self) -> Lowered:
        """All kernels as one, and the constants that it takes."""
        (executable, *others), units = self.plan.executables, self.units
        if others or len(executable.graphs) > 1:
            raise fail(
                "E904",
                f"{self.traced.graph.name} is no single kernel of {self.target.name}: "
                + "; ".join(map(str, self.plan.barriers or ["its kernels run on several cores"])),
                hint="tw.program plans a function into several executables",
                location=self.traced.graph.location,
            )
        outputs = [units.tensor_of(value) for value in self.program.graph.outputs]
        made = Fusion(self._name, executable.units, outputs, not self.target["features.lnc2"], ends=False)
        constants = [value for value in made.inputs if value in units.constants]
        order: list[Value] = [*self.program.graph.inputs, *constants]
        constants += [value for value in outputs if value in units.constants and value not in made.held]
        held = {value: made.held.get(value) or _unused(value) for value in (*order, *constants)}
        graph = made.graph
        graph.body.arguments[:] = [held[value] for value in dict.fromkeys((*order, *constants))]
        graph.outputs = [made.held.get(value) or held[value] for value in outputs]
        return Lowered(graph, tuple(units.constants[value] for value in dict.fromkeys(constants)), None, {})

    def profile(self, most_events: int = 0, order: str = SCHEDULED, pin: Pins | None = None) -> Profile:
        """The report, and what happens when; the roofline is that of the instructions."""
        return profile_graph(self.tile_ir, self.target, order, pin, most_events)

    @property
    def notes(self) -> list[str]:
        """What a reader of the report should know."""
        return [*self._check_notes, *(str(each) for each in self.plan.demotions)]

    def run_kernel(self, arrays: Any) -> list[np.ndarray]:
        """The outputs of the program for its inputs, both in the element types that the hardware has."""
        types = [value.type for value in self.program.graph.outputs]
        return run_program(self.tile_ir, self.constants, self.target, arrays, types)


def _unused(value: Value) -> Buffer:
    """An argument that no kernel looks at."""
    type = value.type
    return Buffer(type.dtype, type.shape or (1,), HBM, value.name)

"""Cases of programs that run on a lazy device: their kernels as units, on what those before them made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.device import Watch
from tilewright.diagnose.bisection.variants import Variant
from tilewright.errors import Location, TileError
from tilewright.programs.program import Program
from tilewright.programs.units import Unit
from tilewright.provenance.explain import unexplained
from tilewright.sim.nonfinite import badness
from tilewright.tile.memory import Buffer


@dataclass
class Ran:
    """A unit that ran, with what it took; results: None where it failed."""

    unit: Unit
    given: list[np.ndarray]
    results: list[np.ndarray] | None

    def breaks(self) -> bool:
        """Whether it makes something not finite of what is, or NaN of infinity."""
        return self.results is not None and badness(self.results) > badness(self.given)

    def variant(self, program: Program, before: Sequence[Ran]) -> Variant:
        """The unit as a variant, behind those before it."""
        names = tuple(each.unit.name for each in before)
        return Variant(self.unit.code.graphs, self._fitting(), program.target, self.unit.code.profile, names)

    def origins(self, program: Program) -> list[Location | None]:
        """Where the script put each array that it takes on a lazy device; None for what kernels made."""
        known = dict(zip(program.narrowed.graph.inputs, program.origins, strict=False))
        return [known.get(value) for value in self.unit.inputs]

    def _fitting(self) -> tuple[np.ndarray, ...]:
        found: list[np.ndarray] = []
        for value, array in zip(self.unit.code.graph.inputs, self.given, strict=True):
            assert isinstance(value, Buffer)
            found.append(np.ascontiguousarray(array).view(value.dtype.np).reshape(value.shape))
        return tuple(found)


def ran_units(program: Program, watching: Callable[[Unit], Watch] | None = None) -> list[Ran]:
    """The units of a program on the arrays that it was captured with, until one fails.

    watching: gives what watches the machines of a unit.
    """
    assert program.example is not None
    tensors = program.inputs_on_device(program.narrowed.arguments(program.example))
    found: list[Ran] = []
    for unit in program.units.units:
        given = [tensors[value] for value in unit.inputs]
        found.append(Ran(unit, given, None))
        try:
            with unexplained():
                results = found[-1].results = unit.code.run(given, program.target, watching and watching(unit))
        except TileError:
            break
        tensors.update(zip(unit.outputs, results, strict=True))
    return found

"""What a failed run of a program tells: which of its kernels failed, and where the value was born for which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import TileError
from tilewright.programs.fuse import Fusion
from tilewright.programs.units import Unit, shared_profile
from tilewright.provenance.explain import explain_error, unexplained
from tilewright.sim.machine import Machine
from tilewright.sim.run import run_graph

if TYPE_CHECKING:
    from tilewright.programs.program import Program


def explain_failure(program: Program, arrays: Sequence[np.ndarray], error: TileError) -> None:
    """Add to an error the kernel of the program that it is of, and the births of its values in kernels before it."""
    place = failing(program, arrays)
    if place is None:
        return
    units = program.units.units[: place + 1]
    unit = units[-1]
    calls = [each for each in program.units.units if each.name == unit.name]
    where = (
        f"{unit.name}, call {calls.index(unit) + 1} of {len(calls)}, kernel {place + 1} of {len(program.units.units)}"
    )
    line = "" if unit.location is None else f", at {unit.location}"
    error.tell(replace(error.diagnostic, notes=(*error.diagnostic.notes, f"in {program.name}: {where}{line}")))
    if any(each.code.cores > 1 for each in units):
        return
    explain_error(error, lambda tape: run_whole(program, units, arrays, tape.watch))


def run_whole(
    program: Program, units: Sequence[Unit], arrays: Sequence[np.ndarray], watch: Callable[[Machine], None]
) -> None:
    """Run kernels of a program, the first ones of it, as one, whatever executables they are in.

    Values can be followed through all of it.
    """
    whole = Fusion(program.name, units, (), private=False)
    tensors = program.inputs_on_device(arrays)
    inputs = zip(whole.inputs, whole.graph.inputs, strict=True)
    given = [tensors[value].reshape(buffer.type.shape) for value, buffer in inputs]
    run_graph(whole.graph, given, program.target, shared_profile(units), verified=True, watch=watch)


def failing(program: Program, arrays: Sequence[np.ndarray]) -> int | None:
    """The number of the first kernel that fails by itself, on what those before it made."""
    done = 0
    try:
        with unexplained():
            for _ in program.unit_by_unit(arrays):
                done += 1
    except TileError:
        return done
    return None

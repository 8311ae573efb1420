"""What the kernels of a program are warned of while it runs, told like the warnings of one that is called alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import ERROR, Diagnostic
from tilewright.ir.walk import walk
from tilewright.nki.kernel import is_followed
from tilewright.programs.failure import run_whole
from tilewright.provenance.explain import explained, is_explaining, unexplained
from tilewright.sim.machine import Machine

if TYPE_CHECKING:
    from tilewright.programs.program import Program

Hear = Callable[[list[Diagnostic]], None]
Watch = Callable[[Machine], None]
_hearer: ContextVar[Hear | None] = ContextVar("tilewright_warned", default=None)
_watcher: ContextVar[Watch | None] = ContextVar("tilewright_watched", default=None)


@contextmanager
def warning(hear: Hear, watch: Watch | None = None) -> Iterator[None]:
    """Let somebody hear of what programs are warned of meanwhile; else it is printed, once for each program.

    watch: gets every machine that runs kernels of a program, before it starts.
    """
    tokens = _hearer.set(hear), _watcher.set(watch)
    try:
        yield
    finally:
        _hearer.reset(tokens[0])
        _watcher.reset(tokens[1])


def watched(machine: Machine) -> None:
    """Let whoever watches see a machine that is about to run kernels of a program."""
    watch = _watcher.get()
    if watch is not None:
        watch(machine)


class Warned:
    """What a program was warned of so far: each line once, with the births of its values."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.known: set[tuple[object, ...]] = set()

    def tell(self, found: Sequence[Diagnostic], arrays: Sequence[np.ndarray]) -> None:
        """Tell what is new of what was found when the program ran on these arrays."""
        new: dict[tuple[object, ...], Diagnostic] = {}
        for each in found:
            key = each.code, each.rule, each.location
            if each.severity != ERROR and key not in self.known and each.location in self._written:
                new.setdefault(key, each)
        hear = _hearer.get()
        if not new or (hear is None and is_followed()):
            return
        self.known.update(new)
        told = self._explained(list(new.values()), arrays)
        if hear is not None:
            hear(told)
            return
        for each in told:
            print(each, file=sys.stderr)

    @property
    def _written(self) -> set[object]:
        """The lines of kernels that somebody wrote; what becomes of NumPy's ops is not for them to mend."""
        written = [unit for unit in self.program.units.units if unit.compiled is None]
        return {op.location for unit in written for graph in unit.code.graphs for op in walk(graph)}

    def _explained(self, found: list[Diagnostic], arrays: Sequence[np.ndarray]) -> list[Diagnostic]:
        units = self.program.units.units
        if any(unit.code.cores > 1 for unit in units) or not is_explaining():
            return found
        machines: list[Machine] = []
        with unexplained():
            run_whole(self.program, units, arrays, machines.append)
        evidence = [each for machine in machines for each in machine.evidence]
        return explained(found, evidence, lambda tape: run_whole(self.program, units, arrays, tape.watch))

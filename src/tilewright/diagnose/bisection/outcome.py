"""What a run of a variant shows: results, what was raised or warned of, and where something not finite was born."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from tilewright.diagnose.bisection.variants import Variant
from tilewright.errors import ERROR, Diagnostic, NkiValidationError, TileError, fail
from tilewright.programs.cores import run_cores
from tilewright.programs.describing import computed_reach
from tilewright.programs.facts import OFFSETS
from tilewright.provenance.explain import unexplained
from tilewright.rules import Reporter
from tilewright.sim.capacity import check_capacity
from tilewright.sim.machine import Machine
from tilewright.sim.nonfinite import NonFiniteTrace
from tilewright.sim.session import Options, Session
from tilewright.tile.memory import Buffer
from tilewright.tile.verify import raise_first

Place = tuple[Any, Any]
"""A source line and the part of it that is meant."""


@dataclass(frozen=True)
class Outcome:
    """Results or an error, warnings, and the places where finite inputs became something that is not."""

    results: tuple[np.ndarray, ...] | None
    error: TileError | None
    warnings: tuple[Diagnostic, ...]
    births: dict[Place, Diagnostic]

    @property
    def is_finite(self) -> bool:
        """Whether there are results, all of them numbers."""
        return self.results is not None and all(bool(np.isfinite(floats(each)).all()) for each in self.results)

    @property
    def names(self) -> set[str]:
        """Codes, rules and classes of what was raised or warned of."""
        found = [self.error.diagnostic] if self.error is not None else []
        names = {name for each in (*found, *self.warnings) for name in (each.code, each.rule) if name}
        return names | ({type(self.error).__name__} if self.error is not None else set())


def floats(array: np.ndarray) -> np.ndarray:
    """What of an array can be something else than a number."""
    return array.astype(np.float32) if array.dtype.kind not in "iub" else np.zeros(1)


def outcome_of(variant: Variant) -> Outcome:
    """Run a variant on all of its cores."""
    machines: list[Machine] = []
    traces: list[NonFiniteTrace] = []

    def watch(machine: Machine) -> None:
        machines.append(machine)
        traces.append(NonFiniteTrace())
        machine.on_execute = traces[-1].look

    results, error = None, None
    reporter = Reporter(variant.profile)
    try:
        with unexplained():
            raise_first(variant.faults())
            _check_offsets(variant)
            results = tuple(run_cores(variant.graphs, variant.arrays, variant.target, variant.profile, watch))
            sessions: list[Any] = [_as_session(machine, variant) for machine in machines]
            check_capacity(sessions, reporter)
    except TileError as raised:
        results, error = None, raised
    noted = [each for machine in machines[:1] for each in machine.reporter.diagnostics] + reporter.diagnostics
    births = {place: each for trace in traces for place, each in trace.births.items()}
    return Outcome(results, error, tuple(each for each in noted if each.severity != ERROR), births)


def _as_session(machine: Machine, variant: Variant) -> Any:
    return SimpleNamespace(
        machine=machine,
        target=variant.target,
        options=Options(),
        settle=lambda: None,
        graph=variant.graph,
        compiler=Session.compiler,
    )


def _check_offsets(variant: Variant) -> None:
    """R-program-03: where its tensors lie, offsets that the device computes have to fit the width it has for them."""
    bits = variant.target["dma.offset_bits"]
    start = variant.placement
    reach = computed_reach(variant.graph)
    for buffer in (*variant.graph.inputs, *variant.graph.outputs):
        assert isinstance(buffer, Buffer)
        if buffer in reach and start + reach[buffer] >= 1 << bits:
            raise fail(
                "E904",
                f"an offset that the device computes for {buffer.name} reaches byte {start + reach[buffer]} of HBM; "
                f"{bits} bits hold at most {(1 << bits) - 1}",
                rule=OFFSETS,
                location=variant.graph.location,
                error=NkiValidationError,
            )
        start += buffer.row_bytes

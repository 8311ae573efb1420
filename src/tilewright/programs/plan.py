"""Plans: a program as executables that its target can load, and why they are these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.errors import Diagnostic, Location
from tilewright.ir.core import Graph, Op, Value
from tilewright.programs.cores import Watch, run_cores
from tilewright.programs.exchange import exchange_us
from tilewright.programs.placing import run_placed
from tilewright.programs.units import Unit
from tilewright.report.lives import use_of_memory
from tilewright.report.timing import time_graphs
from tilewright.target import Target
from tilewright.units import us_text

FUSED, BARRIERED, ROUND_TRIP = FORMS = ("fused", "barriered", "round_trip")


@dataclass(frozen=True, slots=True)
class Barrier:
    """Between two executables. `after` and `before`: the kernels on both sides. `rule`: None where the program asks."""

    after: str
    before: str
    reason: str
    rule: str | None
    tensor: str | None
    location: Location | None = None

    def __str__(self) -> str:
        rule = f" ({self.rule})" if self.rule else ""
        return f"{self.after} | {self.before}: {self.reason}{rule}"


@dataclass(frozen=True, slots=True)
class Demotion:
    """A tensor that is in another memory than its kernel says, so that an executable is legal."""

    tensor: str
    kernel: str
    before: str
    after: str
    reason: str
    rule: str

    def __str__(self) -> str:
        return f"{self.tensor}: {self.before} -> {self.after}: {self.reason} ({self.rule})"


@dataclass(eq=False)
class Executable:
    """What is loaded and launched as one. `graphs`: its instructions, one graph for each core.

    parts: of one with collectives, the kernels between them and the collectives, in order; it has no graphs itself.
    """

    name: str
    units: list[Unit]
    target: Target
    graphs: tuple[Graph, ...]
    inputs: list[Value]
    outputs: list[Value]
    profile: str
    parts: tuple[Executable, ...] = ()

    @property
    def exchange(self) -> Op | None:
        """The collective that it is, where it is nothing else."""
        return self.units[0].exchange if len(self.units) == 1 else None

    @property
    def kernels(self) -> list[str]:
        """The names of its kernels, in order; groups of NumPy ops are kernels too."""
        return [unit.name for unit in self.units]

    @cached_property
    def _timed(self) -> tuple[float, int]:
        if self.exchange is not None:
            op = self.exchange
            return exchange_us(op, self.target), op.operands[0].type.nbytes + op.result.type.nbytes
        if self.parts:
            # Launched once: what each segment of kernels takes for its launch is taken once.
            launch = self.target["launch.first_instruction_us"] + self.target["launch.after_last_dma_us"]
            again = max(0, sum(bool(part.graphs) for part in self.parts) - 1) * launch
            return sum(part.latency_us for part in self.parts) - again, sum(part.hbm_bytes for part in self.parts)
        spills = [spill for graph in self.graphs for spill in use_of_memory(graph, self.target).spills]
        spill_us = sum(spill.us for spill in spills) / len(self.graphs)
        timing, cores = time_graphs(self.graphs, self.target, spill_us=spill_us, merging=False, by_line=False)
        moved = [moves for core in cores for moves in (core.traffic.reads, core.traffic.writes)]
        return timing.latency_us, sum(each.bytes for table in moved for each in table.values())

    @property
    def latency_us(self) -> float:
        """How long it takes, launch included, as predicted."""
        return self._timed[0]

    @property
    def hbm_bytes(self) -> int:
        """What it moves from and to HBM."""
        return self._timed[1]

    def run(
        self, arrays: Sequence[np.ndarray], placement: int | None = None, watch: Watch | None = None
    ) -> list[np.ndarray]:
        """Its outputs for its inputs, on the simulator. placement: puts its tensors elsewhere (`placing`).

        watch: gets every machine before it starts, of what lies where it lies.

        One with collectives runs on all ranks in step instead (`exchange.run_in_step`).
        """
        if len(self.graphs) == 1:
            inputs = zip(self.graphs[0].inputs, arrays, strict=True)
            shaped = [array.reshape(buffer.type.shape) for buffer, array in inputs]
            if placement is not None:
                return run_placed(self.graphs[0], shaped, self.target, self.profile, placement)
            return run_cores(self.graphs, shaped, self.target, self.profile, watch)
        # Cores meet where a kernel ends, which instructions behind each other do not show.
        tensors = dict(zip(self.inputs, arrays, strict=True))
        for unit in self.units:
            results = unit.code.run([tensors[value] for value in unit.inputs], self.target, watch)
            tensors.update(zip(unit.outputs, results, strict=True))
        return [tensors[value] for value in self.outputs]

    def __repr__(self) -> str:
        return f"<executable of {', '.join(self.kernels)} for {self.target.name}>"


@dataclass(eq=False)
class Plan:
    """The executables of a program in the order in which they run, the barriers between them, and what was moved."""

    target: Target
    executables: list[Executable]
    barriers: list[Barrier]
    demotions: list[Demotion]
    warnings: list[Diagnostic]
    split: Callable[[], list[Executable]]
    fused: Executable | None
    """All units as one; None where that is not legal."""
    notes: list[str] = field(default_factory=list)

    @cached_property
    def alone(self) -> list[Executable]:
        """Every kernel as an executable of its own, made when it is asked for."""
        return self.split()

    @property
    def latency_us(self) -> float:
        """How long the plan takes: its executables behind each other."""
        return sum(each.latency_us for each in self.executables)

    @cached_property
    def forms(self) -> dict[str, float | None]:
        """Predicted times: all kernels as one executable, each by itself, and each with its tensors by way of the host.

        "fused" is None where one executable is not legal.
        """
        barriered = sum(each.latency_us for each in self.alone)
        figures = (self.target["host.download_bandwidth"], self.target["host.upload_bandwidth"])
        made = [value for each in self.alone for value in each.outputs]
        used = [value for each in self.alone for value in each.inputs if value in set(made)]
        # GB/s is bytes per ns.
        down = sum(value.type.nbytes for value in made) / figures[0] / 1e3
        up = sum(value.type.nbytes for value in used) / figures[1] / 1e3
        call = self.target["launch.call_minus_core_latency_us"] * len(self.alone)
        fused = None if self.fused is None else self.fused.latency_us
        return dict(zip(FORMS, (fused, barriered, barriered + down + up + call), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data."""
        return {
            "target": self.target.name,
            "executables": [
                {
                    "kernels": each.kernels,
                    "latency_us": round(each.latency_us, 3),
                    "hbm_bytes": each.hbm_bytes,
                    "cores": max(unit.code.cores for unit in each.units),
                }
                for each in self.executables
            ],
            "barriers": [
                {
                    "after": each.after,
                    "before": each.before,
                    "reason": each.reason,
                    "rule": each.rule,
                    "tensor": each.tensor,
                }
                for each in self.barriers
            ],
            "demotions": [
                {"tensor": each.tensor, "kernel": each.kernel, "before": each.before, "after": each.after}
                | {"reason": each.reason, "rule": each.rule}
                for each in self.demotions
            ],
            "forms": {name: None if us is None else round(us, 3) for name, us in self.forms.items()},
            "notes": list(self.notes),
            "warnings": [each.to_dict() for each in self.warnings],
        }

    def _repr_html_(self) -> str:
        """Executables, barriers and forms as tables, for notebooks."""
        from tilewright.report.notebook import table

        made = [(n, ", ".join(e.kernels), us_text(e.latency_us), e.hbm_bytes) for n, e in enumerate(self.executables)]
        parts = [table(("executable", "kernels", "time", "bytes of HBM"), made)]
        if self.barriers:
            rows = [(each.after, each.before, each.reason, each.rule or "") for each in self.barriers]
            parts.append(table(("barrier after", "before", "because", "rule"), rows))
        forms = [(name, "not legal" if us is None else us_text(us)) for name, us in self.forms.items()]
        return "".join([*parts, table(("form", "predicted"), forms)])

    def __str__(self) -> str:
        count = len(self.executables)
        lines = [f"plan for {self.target.name}: {count} executable{'s' * (count != 1)}, {us_text(self.latency_us)}"]
        for number, each in enumerate(self.executables):
            lines.append(
                f"  {number}: {', '.join(each.kernels)}: {us_text(each.latency_us)}, {each.hbm_bytes} bytes of HBM"
            )
        lines += [f"  barrier {each}" for each in self.barriers]
        lines += [f"  moved {each}" for each in self.demotions]
        lines += [f"  note: {each}" for each in self.notes]
        lines += [f"  {name}: {'not legal' if us is None else us_text(us)}" for name, us in self.forms.items()]
        return "\n".join(lines)

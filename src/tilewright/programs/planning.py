"""Making a plan: the fewest executables that are legal, each verified after splitting, and the reasons."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any

from tilewright.errors import ERROR, WARNING, NkiValidationError, TileError, TileValueError, fail
from tilewright.ir.core import Op, Value
from tilewright.programs.call import READ, STEP
from tilewright.programs.code import NKI, Code
from tilewright.programs.describing import Described
from tilewright.programs.facts import INTERNAL_SHARED, OFFSETS, Legality
from tilewright.programs.fuse import Fusion
from tilewright.programs.loading import faults_of, unloadable
from tilewright.programs.plan import Barrier, Demotion, Executable, Plan
from tilewright.programs.redundant import redundant
from tilewright.programs.search import fewest
from tilewright.programs.units import Unit, Units, shared_profile
from tilewright.rules import OFF, STRICT, Reporter, load_rules
from tilewright.target import Target
from tilewright.tile.memory import HBM, SHARED_HBM
from tilewright.tile.verify import verify_graph
from tilewright.units import us_text

LEVEL = "R-program-02"


@dataclass(frozen=True)
class Wishes:
    """How somebody wants a plan.

    demote: shared tensors may go to private memory; otherwise a barrier keeps kernels apart. severities: of rules, by
    id, where they are not those of the profile. keep_steps: every step that the program marks is a barrier, those that
    separate nothing too.
    """

    demote: bool = True
    profile: str = STRICT
    severities: Mapping[str, str] | None = None
    keep_steps: bool = False


def check_severities(severities: Mapping[str, str] | None) -> dict[str, str]:
    """Severities of rules that exist; E902 for others."""
    wanted = dict(severities or {})
    for rule, severity in wanted.items():
        if rule not in load_rules() or severity not in (ERROR, WARNING, OFF):
            hint = f"rules are listed by tilewright explain; severities are {ERROR}, {WARNING} and {OFF}"
            raise fail("E902", f"severity {severity!r} of rule {rule}", hint=hint, error=TileValueError)
    return wanted


def make_plan(units: Units, target: Target, wishes: Wishes) -> Plan:
    """The plan of a program; E904 where a kernel cannot be loaded even by itself."""
    return _Planner(units, target, wishes).run()


class _Planner:
    def __init__(self, units: Units, target: Target, wishes: Wishes) -> None:
        self.units, self.target, self.wishes = units, target, wishes
        self.reporter = Reporter(wishes.profile, severities=dict(wishes.severities or {}))
        self.notes: list[str] = []
        described = Described(units)
        self.values, self.facts = described.values, described.facts
        self.tensors = described.tensors
        self.legality = Legality(self.tensors, self.facts, target, wishes.demote)
        self._unmoved = Legality(self.tensors, self.facts, target, demote=False)
        self._joined: set[Op] = set()
        self._known_us: dict[Any, float] = {}
        self._slower: dict[tuple[int, int], str] = {}

    def run(self) -> Plan:
        for code in dict.fromkeys(unit.code for unit in self.units.units):
            self._check_alone(code)
        self._excuse_large()
        everything = list(range(len(self.facts)))
        legal = [group for stage in self._stages() for group in self._split(stage)]
        groups = [part for group in legal for part in self._profitable(group)]
        executables = [self._executable(group, f"executable_{place}") for place, group in enumerate(groups)]
        whole = len(groups) == 1
        fused = executables[0] if whole else self._fused(everything)
        return Plan(
            self.target,
            executables,
            [self._barrier(before, after) for before, after in pairwise(groups)],
            [each for group in groups for each in self._demotions(group)],
            self.reporter.diagnostics,
            lambda: [self._executable([number], self.facts[number].name) for number in everything],
            fused,
            self.notes + redundant(self.units, self.legality, self._unmoved, self._joined),
        )

    # Kernels by themselves

    def _check_alone(self, code: Code) -> None:
        """Refuse a kernel that the target cannot load: no barrier helps."""
        if code.dialect == NKI and not self.target["features.nki_kernels"]:
            self.reporter.violate(
                LEVEL,
                f"{code.name}: NKI 0.3.0 kernels are not supported on {self.target.title}",
                hint="pin the SDK to release 2.28, whose kernels import neuronxcc.nki, or use a newer generation",
                location=code.location,
            )
        limit = self.target["limits.lnc_max"]
        if code.cores > limit:
            raise unloadable(code, self.target, f"it runs on {code.cores} cores, {self.target.name} joins {limit}")
        for graph in code.graphs:
            for found in verify_graph(graph, self.target, code.profile):
                if found.severity == ERROR:
                    raise unloadable(code, self.target, found.message, found)

    def _excuse_large(self) -> None:
        """Offsets that one kernel alone makes too large no split mends: they are said, and count no more."""
        for number, unit in enumerate(self.facts):
            found = [fault for fault in self.legality.faults([number]) if fault.rule == OFFSETS]
            if found:
                self.notes += [
                    f"{unit.name}: {fault.reason} ({fault.rule}), and no split changes that" for fault in found
                ]
                self.facts[number] = replace(unit, computed=())

    # Splitting

    def _stages(self) -> list[list[int]]:
        """Units between the program's own barriers, and between its steps where those separate something."""
        found: dict[int, list[int]] = {}
        for number, unit in enumerate(self.units.units):
            found.setdefault(unit.stage, []).append(number)
        stages: list[list[int]] = []
        for stage in found.values():
            if stages and self._separates_nothing(stages[-1], stage):
                self._joined.update(self._ends(stages[-1], stage))
                stages[-1] = [*stages[-1], *stage]
            else:
                stages.append(stage)
        return stages

    def _ends(self, before: Sequence[int], after: Sequence[int]) -> list[Op]:
        """What the program says between two groups of units."""
        last, first = self.units.units[before[-1]], self.units.units[after[0]]
        return self.units.ends[last.stage : first.stage]

    def _separates_nothing(self, before: Sequence[int], after: Sequence[int]) -> bool:
        """Whether all that stands between is steps, and one executable is legal with every tensor where it is.

        A step says when something may run; nobody sees whether it did. Where a tensor would have to be moved instead,
        the step is the way that the program has chosen.
        """
        only = all(op.definition is STEP for op in self._ends(before, after))
        return only and not self.wishes.keep_steps and self._unmoved.is_legal([*before, *after])

    def _split(self, stage: Sequence[int]) -> list[list[int]]:
        makers = {tensor: number for number in stage for tensor in self.facts[number].writes}
        at = {number: place for place, number in enumerate(stage)}
        needs = [
            frozenset(at[makers[t]] for t in self.facts[n].reads if t in makers and makers[t] != n and makers[t] < n)
            for n in stage
        ]
        found = fewest(
            needs,
            lambda group: self.legality.is_legal([stage[place] for place in group]),
            lambda group: sum(self.tensors[t].nbytes for t in self._leaving([stage[place] for place in group])),
        )
        if found is None:
            raise self._no_way(stage)
        return [[stage[place] for place in group] for group in found]

    def _profitable(self, group: list[int]) -> list[list[int]]:
        """The group as it is, or in two or more parts, where that takes less time."""
        if len(group) == 1:
            return [group]
        whole = self._us(group)
        if whole <= sum(self._us([number]) for number in group):
            return [group]
        cuts = [(group[:at], group[at:]) for at in range(1, len(group))]
        ways = [(self._us(a) + self._us(b), a, b) for a, b in cuts if all(map(self.legality.is_legal, (a, b)))]
        least, first, second = min(ways, default=(whole, group, group))
        if least >= whole:
            return [group]
        self._slower[first[-1], second[0]] = f"they take {us_text(whole)} as one executable, {us_text(least)} as two"
        return [*self._profitable(first), *self._profitable(second)]

    def _us(self, group: Sequence[int]) -> float:
        """How long some units take as one executable; a kernel that is called often is looked at once."""
        code = self.units.units[group[0]].code
        key = tuple(group) if len(group) > 1 or not code.graphs else code
        if key not in self._known_us:
            self._known_us[key] = self._executable(group, "executable").latency_us
        return self._known_us[key]

    def _leaving(self, group: Sequence[int]) -> list[int]:
        internal = set(self.legality.internal(group))
        return [t for number in group for t in self.facts[number].writes if t not in internal]

    def _no_way(self, stage: Sequence[int]) -> TileError:
        for number in stage:
            for fault in self.legality.faults([number]):
                return fail(
                    "E904",
                    f"kernel {self.facts[number].name} cannot be loaded by {self.target.name}: {fault.reason}",
                    rule=fault.rule,
                    hint="no barrier helps, the kernel alone is not legal",
                    location=self.units.units[number].location,
                    error=NkiValidationError,
                )
        raise AssertionError("every unit is legal by itself")

    # What is told

    def _executable(self, group: Sequence[int], name: str) -> Executable:
        units = [self.units.units[number] for number in group]
        leaving = self._given_out(group)
        if any(unit.exchange is not None for unit in units):
            return self._with_collectives(units, name, leaving)
        return self._of_kernels(units, name, leaving)

    def _with_collectives(self, units: Sequence[Unit], name: str, leaving: set[Value]) -> Executable:
        """Kernels in segments, collectives between them."""
        segments = [list(each) for _, each in groupby(units, key=lambda unit: unit.exchange is not None)]
        parts: list[Executable] = []
        for segment in segments:
            if segment[0].exchange is not None:
                parts += [
                    Executable(unit.name, [unit], self.target, (), unit.inputs, unit.outputs, STRICT)
                    for unit in segment
                ]
                continue
            others = {value for unit in units if unit not in segment for value in unit.inputs}
            inside = others - leaving
            parts.append(self._of_kernels(segment, f"{name}_{len(parts)}", leaving | others, inside))
        if len(parts) == 1:
            return parts[0]
        made = [value for unit in units for value in unit.outputs]
        taken = dict.fromkeys(value for unit in units for value in unit.inputs if value not in made)
        given = [value for value in dict.fromkeys(made) if value in leaving]
        return Executable(name, list(units), self.target, (), list(taken), given, STRICT, tuple(parts))

    def _of_kernels(
        self, units: Sequence[Unit], name: str, leaving: set[Value], inside: Collection[Value] = ()
    ) -> Executable:
        private = not self.legality.shares
        fusions = [Fusion(name, units, leaving, private, core, inside=inside) for core in range(units[0].code.cores)]
        made = Executable(
            name,
            list(units),
            self.target,
            tuple(each.graph for each in fusions),
            fusions[0].inputs,
            fusions[0].outputs,
            shared_profile(units),
        )
        for found in faults_of(made):
            raise unloadable(units[0].code, self.target, found.message, found)
        return made

    def _given_out(self, group: Sequence[int]) -> set[Value]:
        return {self.values[t] for t in self._leaving(group)}

    def _fused(self, everything: Sequence[int]) -> Executable | None:
        """All units as one, whatever barriers the program asks for; the host cannot read from inside of it."""
        read = any(op.definition is READ for op in self.units.ends)
        if read or not everything or not self.legality.is_legal(everything):
            return None
        return self._executable(everything, "fused")

    def _barrier(self, before: Sequence[int], after: Sequence[int]) -> Barrier:
        last, first = self.units.units[before[-1]], self.units.units[after[0]]
        ends = [op for op in self._ends(before, after) if op not in self._joined]
        if ends:
            read = all(op.definition is READ for op in ends)
            reason = "the host reads a result here" if read else "the program asks for it"
            return Barrier(last.name, first.name, reason, None, None, ends[0].location)
        slower = self._slower.get((before[-1], after[0]))
        if slower is not None:
            return Barrier(last.name, first.name, slower, None, None, first.location)
        fault = next(self.legality.faults([*before, *after]), None)
        assert fault is not None, "executables that could be one are one"
        return Barrier(fault.first, fault.second, fault.reason, fault.rule, fault.tensor, first.location)

    def _demotions(self, group: Sequence[int]) -> list[Demotion]:
        found: list[Demotion] = []
        for tensor, unit, is_scratch in self.legality.demoted(group):
            why = "its kernel alone uses it" if is_scratch else "all of its users are in one executable"
            reason = f"{why}, and {self.target.title} has no shared memory inside of an executable"
            found.append(Demotion(tensor.name, unit, SHARED_HBM.value, HBM.value, reason, INTERNAL_SHARED))
        return found


__all__ = ["Wishes", "check_severities", "faults_of", "make_plan"]

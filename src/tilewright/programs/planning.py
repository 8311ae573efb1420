"""Making a plan: the fewest executables that are legal, each verified after splitting, and the reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tilewright.errors import ERROR, WARNING, Diagnostic, NkiValidationError, TileError, TileValueError, fail
from tilewright.ir.core import Graph, Value
from tilewright.programs.call import BARRIER, READ
from tilewright.programs.code import NKI, Code
from tilewright.programs.describing import Described
from tilewright.programs.facts import INTERNAL_SHARED, OFFSETS, Legality
from tilewright.programs.fuse import Fusion, internal_shared
from tilewright.programs.plan import Barrier, Demotion, Executable, Plan
from tilewright.programs.search import fewest
from tilewright.programs.units import Units
from tilewright.report.lives import use_of_memory
from tilewright.rules import OFF, STRICT, Reporter, load_rules
from tilewright.target import Target, get_target, target_names
from tilewright.tile.memory import HBM, SHARED_HBM, usable_psum_banks
from tilewright.tile.verify import verify_graph

LEVEL = "R-program-02"


@dataclass(frozen=True)
class Wishes:
    """How somebody wants a plan.

    demote: shared tensors may go to private memory; otherwise a barrier keeps kernels apart. severities: of rules, by
    id, where they are not those of the profile.
    """

    demote: bool = True
    profile: str = STRICT
    severities: Mapping[str, str] | None = None


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

    def run(self) -> Plan:
        for code in dict.fromkeys(unit.code for unit in self.units.units):
            self._check_alone(code)
        self._excuse_large()
        everything = list(range(len(self.facts)))
        groups = [group for stage in self._stages() for group in self._split(stage)]
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
            self.notes + self._redundant(),
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
            raise _unloadable(code, self.target, f"it runs on {code.cores} cores, {self.target.name} joins {limit}")
        for graph in code.graphs:
            for found in verify_graph(graph, self.target, code.profile):
                if found.severity == ERROR:
                    raise _unloadable(code, self.target, found.message, found)

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
        """Units between the program's own barriers."""
        found: dict[int, list[int]] = {}
        for number, unit in enumerate(self.units.units):
            found.setdefault(unit.stage, []).append(number)
        return list(found.values())

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
        fusions = [Fusion(name, units, leaving, not self.legality.shares, core) for core in range(units[0].code.cores)]
        profile = next((unit.code.profile for unit in units if unit.code.profile != STRICT), STRICT)
        made = Executable(
            name,
            units,
            self.target,
            tuple(each.graph for each in fusions),
            fusions[0].inputs,
            fusions[0].outputs,
            profile,
        )
        for found in faults_of(made):
            raise _unloadable(units[0].code, self.target, found.message, found)
        return made

    def _given_out(self, group: Sequence[int]) -> set[Value]:
        return {self.values[t] for t in self._leaving(group)}

    def _fused(self, everything: Sequence[int]) -> Executable | None:
        """All units as one, whatever barriers the program asks for; the host cannot read from inside of it."""
        if any(op.definition is READ for op in self.units.ends) or not self.legality.is_legal(everything):
            return None
        return self._executable(everything, "fused")

    def _barrier(self, before: Sequence[int], after: Sequence[int]) -> Barrier:
        last, first = self.units.units[before[-1]], self.units.units[after[0]]
        if last.stage != first.stage:
            ends = self.units.ends[last.stage : first.stage]
            asked = any(op.definition is BARRIER for op in ends)
            reason = "the program asks for it" if asked else "the host reads a result here"
            return Barrier(last.name, first.name, reason, None, None, ends[0].location)
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

    def _redundant(self) -> list[str]:
        """Barriers of the program that separate nothing, or nothing that has to be separated."""
        found: list[str] = []
        stages = [unit.stage for unit in self.units.units]
        for place, op in enumerate(self.units.ends):
            if op.definition is not BARRIER:
                continue
            before = [n for n, stage in enumerate(stages) if stage <= place]
            after = [n for n, stage in enumerate(stages) if stage > place]
            again = place > 0 and place not in stages
            if not before or not after or again:
                found.append(f"the barrier at {op.location} is redundant: no kernel stands between it and another")
            elif self.legality.is_legal([before[-1], after[0]]):
                kernels = f"{self.facts[before[-1]].name} and {self.facts[after[0]].name}"
                found.append(f"the barrier at {op.location} is redundant: {kernels} may be one executable")
        return found


def faults_of(executable: Executable) -> list[Diagnostic]:
    """What the target would refuse of an executable, looked at as it is, whatever the plan thinks of it."""
    target = executable.target
    found: list[Diagnostic] = []
    for graph in executable.graphs:
        found += [each for each in verify_graph(graph, target, executable.profile) if each.severity == ERROR]
        found += _too_many_banks(graph, target)
        if target["features.lnc2"]:
            continue
        for buffer in internal_shared(graph):
            message = f"Shared memory inside of an executable: {buffer.name} is in {SHARED_HBM.value}"
            found.append(Diagnostic("E904", message, INTERNAL_SHARED, location=buffer.location))
    return found


def _too_many_banks(graph: Graph, target: Target) -> list[Diagnostic]:
    """PSUM over the whole executable: banks that are live at once, whichever kernel they are of."""
    used, banks = use_of_memory(graph, target), usable_psum_banks(target)
    if used.psum_peak_banks <= banks:
        return []
    message = f"{used.psum_peak_banks} PSUM banks are live at once in {graph.name}; {target.name} has {banks}"
    return [Diagnostic("E105", message, "R-tensor-10", location=used.psum_at_peak[-1].location)]


def first_generation(rule_target: Target, code: Code) -> str | None:
    """The oldest generation that can load a kernel, if any can."""
    for name in target_names():
        target = get_target(name)
        faults = [each for graph in code.graphs for each in verify_graph(graph, target, code.profile)]
        if target.generation > rule_target.generation and not any(each.severity == ERROR for each in faults):
            return target.title
    return None


def _unloadable(code: Code, target: Target, why: str, found: Diagnostic | None = None) -> TileError:
    since = first_generation(target, code)
    diagnostic = Diagnostic(
        "E904",
        f"kernel {code.name} cannot be loaded by {target.name}: {why}",
        None if found is None else found.rule,
        ERROR,
        "no barrier helps, the kernel alone is not legal" + (f"; it is on {since}" if since else ""),
        code.location if found is None else found.location or code.location,
        () if found is None else found.operands,
    )
    return NkiValidationError(diagnostic)


__all__ = ["Wishes", "check_severities", "faults_of", "make_plan"]

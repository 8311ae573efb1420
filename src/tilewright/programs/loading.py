"""What a target cannot load: faults of executables and kernels, looked at as they are."""

from __future__ import annotations

from tilewright.errors import ERROR, Diagnostic, NkiValidationError, TileError
from tilewright.ir.core import Graph
from tilewright.programs.code import Code
from tilewright.programs.facts import INTERNAL_SHARED
from tilewright.programs.fuse import internal_shared
from tilewright.programs.plan import Executable
from tilewright.report.lives import use_of_memory
from tilewright.rules import Reporter
from tilewright.target import Target, get_target, target_names
from tilewright.tile.memory import SHARED_HBM, usable_psum_banks
from tilewright.tile.verify import verify_graph

BANKS = "R-tensor-10"


def faults_of(executable: Executable) -> list[Diagnostic]:
    """What the target would refuse of an executable, looked at as it is, whatever the plan thinks of it."""
    target = executable.target
    found: list[Diagnostic] = [each for part in executable.parts for each in faults_of(part)]
    for graph in executable.graphs:
        found += [each for each in verify_graph(graph, target, executable.profile) if each.severity == ERROR]
        if not _may_need_more(executable):
            found += _too_many_banks(graph, target)
        if target["features.lnc2"]:
            continue
        for buffer in internal_shared(graph):
            message = f"Shared memory inside of an executable: {buffer.name} is in {SHARED_HBM.value}"
            found.append(Diagnostic("E904", message, INTERNAL_SHARED, location=buffer.location))
    return found


def _may_need_more(executable: Executable) -> bool:
    """Whether one kernel alone may have more banks than there are: its profile lets it, and fusion is not at fault."""
    return len(executable.kernels) == 1 and Reporter(executable.profile).severity(BANKS) != ERROR


def _too_many_banks(graph: Graph, target: Target) -> list[Diagnostic]:
    """PSUM over the whole executable: banks that are live at once, whichever kernel they are of."""
    used, banks = use_of_memory(graph, target), usable_psum_banks(target)
    if used.psum_peak_banks <= banks:
        return []
    message = f"{used.psum_peak_banks} PSUM banks are live at once in {graph.name}; {target.name} has {banks}"
    return [Diagnostic("E105", message, BANKS, location=used.psum_at_peak[-1].location)]


def first_generation(rule_target: Target, code: Code) -> str | None:
    """The oldest generation that can load a kernel, if any can."""
    for name in target_names():
        target = get_target(name)
        faults = [each for graph in code.graphs for each in verify_graph(graph, target, code.profile)]
        faults += [each for graph in code.graphs for each in _too_many_banks(graph, target)]
        if target.generation > rule_target.generation and not any(each.severity == ERROR for each in faults):
            return target.title
    return None


def unloadable(code: Code, target: Target, why: str, found: Diagnostic | None = None) -> TileError:
    """The error of a kernel that a target cannot load."""
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

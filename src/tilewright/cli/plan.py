"""`tilewright plan`: a script's kernels as executables that a target can load."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from tilewright.activate import activate
from tilewright.cli.common import Exit, json_option, profile_option, settings, show, show_diagnostic, show_json
from tilewright.cli.crash import show_end, show_exit
from tilewright.cli.kernels import calls_no_kernel
from tilewright.cli.options import FILE, PLACE, TARGET
from tilewright.cli.script import ScriptCommand, ScriptEnd, run_script
from tilewright.errors import Diagnostic, TileError
from tilewright.nki.kernel import following
from tilewright.programs.plan import Plan
from tilewright.programs.planning import Wishes
from tilewright.programs.program import Program, listening
from tilewright.programs.transfers import counted
from tilewright.programs.watching import Watch
from tilewright.report.parts import as_data
from tilewright.target import Target, get_target
from tilewright.units import bytes_text, us_text


@dataclass
class Planned:
    """The plans of a script for one target, and what kept a program from having one."""

    target: Target
    end: ScriptEnd
    plans: list[tuple[Program, Plan]] = field(default_factory=list)
    faults: list[Diagnostic] = field(default_factory=list)


@click.command(
    cls=ScriptCommand,
    context_settings={"allow_interspersed_args": False},
    short_help="Split a script's kernels into executables that a target can load.",
    epilog="Example: tilewright plan --target trn1 --target trn2 examples/pipeline.py",
)
@click.argument("script", type=FILE)
@click.argument("arguments", nargs=-1, type=FILE, metavar="[ARGS]...")
@click.option(
    "--target", "names", type=TARGET, multiple=True, metavar="NAME", help="Target to plan for; may be repeated."
)
@profile_option
@click.option("--no-demote", is_flag=True, help="Leave shared tensors where they are: barriers keep kernels apart.")
@click.option("--keep-steps", is_flag=True, help="Every xm.mark_step() is a barrier, those that separate nothing too.")
@click.option(
    "--dump", type=PLACE, metavar="FOLDER", help="Write each program, its plan and its executables into a folder."
)
@json_option
def plan(
    script: str,
    arguments: tuple[str, ...],
    names: tuple[str, ...],
    profile: str | None,
    no_demote: bool,
    keep_steps: bool,
    dump: str | None,
    as_json: bool,
) -> int:
    """Run SCRIPT and plan the kernels it calls: executables, barriers and their reasons, predicted times.

    Planned are programs that the script captures with tw.program or on a lazy device, and kernels that it calls one by
    one: arrays that go from one to another as they are stay on the device.
    """
    wanted = Wishes(demote=not no_demote, keep_steps=keep_steps)
    done = [_planned(script, arguments, get_target(name), profile, wanted) for name in names or (None,)]
    if dump is not None:
        _dump(done, Path(dump))
    code = _exit_code(done)
    if as_json:
        show_json(_document(script, done, code))
    else:
        _show(done)
    return code


def _planned(script: str, arguments: Sequence[str], target: Target, profile: str | None, wanted: Wishes) -> Planned:
    captured: list[Program] = []
    watch = Watch(Path(script).stem, target, profile)
    # The script's own output would hide the plan.
    with settings(target.name, profile), redirect_stdout(sys.stderr), listening(captured.append), following(watch):
        activate(force=True)
        end = run_script(script, arguments)
    called = watch.program()
    found = [*captured, *([called] if called is not None else [])]
    if not found and end.error is None:
        raise calls_no_kernel(script, end)
    planned = Planned(target, end)
    for each in found:
        own = each.wishes
        each.replan(replace(own, demote=own.demote and wanted.demote, keep_steps=own.keep_steps or wanted.keep_steps))
        try:
            planned.plans.append((each, each.plan))
        except TileError as error:
            planned.faults.append(error.diagnostic)
    return planned


def _exit_code(done: Sequence[Planned]) -> int:
    if any(each.end.internal for each in done):
        return Exit.INTERNAL
    failed = any(each.end.error is not None or each.end.exit_code or each.faults for each in done)
    return Exit.KERNEL if failed else Exit.OK


def _dump(done: Sequence[Planned], folder: Path) -> None:
    for each in done:
        for number, (program, _) in enumerate(each.plans):
            program.dump(folder / each.target.label / f"{number}-{program.name}")


def _show(done: Sequence[Planned]) -> None:
    for each in done:
        for program, made in each.plans:
            show(f"{program.name} on {made.target.name}: {_count(made)}, {us_text(made.latency_us)}")
            show(_executables(made))
            for barrier in made.barriers:
                show(f"barrier between {barrier.after} and {barrier.before}: {_why(barrier.reason, barrier.rule)}")
            for moved in made.demotions:
                shown = f"{moved.tensor} of {moved.kernel} is moved from {moved.before} to {moved.after}"
                show(f"{shown}: {_why(moved.reason, moved.rule)}")
            for note in made.notes:
                show(f"note: {note}")
            show(f"descriptors of transfers: {counted(program.transfers)}")
            show("")
            show(_forms(made))
            show("")
            for warning in made.warnings:
                show_diagnostic(warning)
        for fault in each.faults:
            show_diagnostic(fault)
        show_end(each.end)
        show_exit(each.end)


def _count(made: Plan) -> str:
    count = len(made.executables)
    return f"{count} executable{'s' * (count != 1)}"


def _why(reason: str, rule: str | None) -> str:
    return reason if rule is None else f"{reason} ({rule})"


def _executables(made: Plan) -> Table:
    table = Table("executable", "kernels", "predicted", "HBM", box=None, pad_edge=False)
    for number, each in enumerate(made.executables):
        table.add_row(str(number), ", ".join(each.kernels), us_text(each.latency_us), bytes_text(each.hbm_bytes))
    return table


_MEANINGS = {
    "fused": "all kernels in one executable",
    "barriered": "each kernel by itself, tensors stay on the device",
    "round_trip": "each kernel by itself, every tensor by way of the host",
}


def _forms(made: Plan) -> Table:
    table = Table("form", "predicted", "", box=None, pad_edge=False)
    for name, us in made.forms.items():
        table.add_row(name, "not legal" if us is None else us_text(us), _MEANINGS[name])
    return table


def _document(script: str, done: Sequence[Planned], code: int) -> dict[str, Any]:
    faults = [fault for each in done for fault in each.faults]
    faults += [each.end.fault.diagnostic for each in done if each.end.fault is not None]
    errors = [each.end for each in done if each.end.error is not None and each.end.fault is None]
    return {
        "script": script,
        "exit_code": code,
        "error": errors[0].traceback() if errors else None,
        "diagnostics": [as_data(fault) for fault in faults],
        "plans": [
            {"program": program.name, **made.to_dict(), "transfers": _transfers(program)}
            for each in done
            for program, made in each.plans
        ],
    }


def _transfers(program: Program) -> list[dict[str, Any]]:
    return [
        {
            "kernel": each.kernel,
            "instruction": each.instruction,
            "dge": each.dge,
            "indirect": each.indirect,
            "location": None if each.location is None else str(each.location),
        }
        for each in program.transfers
    ]

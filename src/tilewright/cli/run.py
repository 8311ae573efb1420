"""`tilewright run`: a script on the simulator."""

from __future__ import annotations

import shlex
import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace

import click
import numpy as np

from tilewright.activate import activate
from tilewright.cli.common import (
    Exit,
    err,
    json_option,
    profile_option,
    settings,
    show,
    show_diagnostic,
    show_json,
    target_option,
)
from tilewright.cli.crash import show_end
from tilewright.cli.options import FILE
from tilewright.cli.script import ScriptCommand, ScriptEnd, run_script
from tilewright.device import DeviceRun, following_device
from tilewright.errors import ERROR, Diagnostic
from tilewright.nki.kernel import Launch, Run, following
from tilewright.programs.warned import warning
from tilewright.report.parts import as_data
from tilewright.report.resources import Report, resources
from tilewright.rules import PROFILES
from tilewright.sim.machine import Machine
from tilewright.sim.nonfinite import NonFiniteTrace
from tilewright.sim.streamed import ORDERS, Order
from tilewright.target import get_target


class Follower:
    """Runs each kernel of a script as it is, keeping its diagnostics and, on request, its resources."""

    def __init__(self, report: bool, trace_nonfinite: bool, stream: Order | None = None) -> None:
        self.report = report
        self.stream = stream
        self.trace_nonfinite = trace_nonfinite
        self.launches = 0
        self.reports: list[Report] = []
        self.found: dict[tuple[object, ...], Diagnostic] = {}
        self.traces: list[NonFiniteTrace] = []

    def __call__(self, launch: Launch) -> Run:
        self.launches += 1
        if self.trace_nonfinite:
            launch.options = replace(launch.options, trace_nonfinite=True)
        if self.stream:
            launch.options = replace(launch.options, stream=self.stream)
        try:
            run = launch.run()
        finally:
            self.keep(launch.reporter.diagnostics)
        if run.nonfinite is not None and (found := run.nonfinite.diagnostic()) is not None:
            self.keep([found])
        if self.report:
            self.reports.append(resources(run, times=False))
        return run

    def device(self, run: DeviceRun) -> tuple[np.ndarray, ...]:
        """A kernel of a compiled function."""
        return run.run(self.watch)

    def watch(self, machine: Machine) -> None:
        """Look for what is not finite where a machine runs kernels of a compiled function or a program, if asked to."""
        if self.trace_nonfinite:
            self.traces.append(NonFiniteTrace())
            machine.on_execute = self.traces[-1].look

    def keep(self, diagnostics: list[Diagnostic]) -> None:
        """Remember each finding once, however often its line is executed."""
        for each in diagnostics:
            self.found.setdefault((each.code, each.rule, each.location, each.severity), each)

    def warnings(self) -> list[Diagnostic]:
        """What was noted but let pass."""
        self.keep([found for trace in self.traces if (found := trace.diagnostic()) is not None])
        return [each for each in self.found.values() if each.severity != ERROR]


@click.command(
    cls=ScriptCommand,
    context_settings={"allow_interspersed_args": False},
    short_help="Run a script on the simulator.",
    epilog="Example: tilewright run --target trn1 examples/softmax.py --rows 256",
)
@click.argument("script", type=FILE)
@click.argument("arguments", nargs=-1, type=FILE, metavar="[ARGS]...")
@target_option
@profile_option
@click.option("--simulate", is_flag=True, help="Use tilewright's nki also when the real nki is installed.")
@click.option(
    "--report", is_flag=True, help="Print what each kernel used, to standard error: instructions, memories, data moved."
)
@click.option("--trace-nonfinite", is_flag=True, help="Name the first instruction that makes NaN or infinity.")
@click.option(
    "--stream", type=click.Choice(ORDERS), help="Go through overlapping operands element by element, as an engine does."
)
@json_option
def run(
    script: str,
    arguments: tuple[str, ...],
    target: str | None,
    profile: str | None,
    simulate: bool,
    report: bool,
    trace_nonfinite: bool,
    stream: Order | None,
    as_json: bool,
) -> int:
    """Run SCRIPT with ARGS as `python SCRIPT ARGS` would, with `import nki` provided by tilewright.

    Kernels run on the simulator, which refuses what the hardware would refuse. Options of tilewright stand on
    either side of SCRIPT; all else after it belongs to the script, and whatever follows `--`.

    Standard output is the script's; reports and warnings go to standard error. With --json it is the other way round.
    """
    chosen = get_target(target)
    follower = Follower(report or as_json, trace_nonfinite, stream)
    # The script's output and ours keep their order, and with --json standard output holds the document alone.
    quiet = redirect_stdout(sys.stderr) if as_json else nullcontext()
    with (
        settings(chosen.name, profile),
        quiet,
        following(follower),
        following_device(follower.device),
        warning(follower.keep, follower.watch),
    ):
        if not activate(force=simulate):
            err().print("tilewright: using the installed nki; --simulate runs on tilewright's simulator")
        end = run_script(script, arguments)
    sys.stdout.flush()
    code = _exit_code(end)
    if as_json:
        show_json(_document(follower, end, chosen.name, code))
        return code
    _show(follower, end)
    return code


def _exit_code(end: ScriptEnd) -> int:
    if end.internal:
        return Exit.INTERNAL
    return Exit.KERNEL if end.error is not None else end.exit_code


def _show(follower: Follower, end: ScriptEnd) -> None:
    console = err()
    for number, each in enumerate(follower.reports):
        if number:
            console.print()
        show(each, sys.stderr)
    show_warnings(follower.warnings())
    show_end(end)
    if isinstance(end.error, AssertionError) and not end.internal and follower.launches:
        err().print(f"Which kernel, and what of it: {_bisection(end)}", soft_wrap=True, highlight=False)


def _bisection(end: ScriptEnd) -> str:
    """The command that reduces a script whose own check failed."""
    return shlex.join(["tilewright", "bisect", end.given, *end.arguments])


def show_warnings(warnings: list[Diagnostic]) -> None:
    """What was let pass, each once: first the deviations that the strict profile would have refused."""
    # A code of a warning (W302) says that the rule is only nearly broken, in every profile.
    broken = [each for each in warnings if each.rule and not each.code.startswith("W")]
    deviations = [each for each in broken if PROFILES["strict"].get(each.rule or "", ERROR) == ERROR]
    for each in warnings:
        if each not in deviations:
            show_diagnostic(each)
    if deviations:
        one = len(deviations) == 1
        what = "deviation from the documentation that was" if one else "deviations from the documentation that were"
        err().print(f"{len(deviations)} {what} let pass:\n")
        for each in deviations:
            show_diagnostic(each)


def _document(follower: Follower, end: ScriptEnd, target: str, code: int) -> dict[str, object]:
    found = follower.warnings()
    if end.fault is not None:
        found.append(end.fault.diagnostic)
    return {
        "script": str(end.path),
        "target": target,
        "exit_code": code,
        "error": end.traceback() if end.error is not None and end.fault is None else None,
        "diagnostics": [as_data(each) for each in found],
        "kernels": [each.to_dict() for each in follower.reports],
    }

"""`tilewright profile`: how long the kernels of a script take, and why."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType

from tilewright.activate import activate
from tilewright.cli.common import Exit, err, json_option, profile_option, settings, show, show_diagnostic, show_json
from tilewright.cli.crash import show_end, show_exit
from tilewright.cli.findings import zeros
from tilewright.cli.kernels import (
    calls_no_kernel,
    described_arguments,
    kernel_of,
    kernel_options,
    kernels_in,
    run_definitions,
)
from tilewright.cli.options import FILE, PLACE, TARGET
from tilewright.cli.output import check_output
from tilewright.cli.script import ScriptCommand, ScriptEnd, run_script
from tilewright.errors import ERROR, Diagnostic
from tilewright.files import writing
from tilewright.measured.beside import beside
from tilewright.measured.export import Measured, is_export, read_measured
from tilewright.nki.kernel import Launch, Run, following, run_kernel
from tilewright.report.parts import as_data
from tilewright.report.profile import Profile, profile_run
from tilewright.report.timing import ORDERS
from tilewright.sim.session import Options
from tilewright.target import Target, get_target
from tilewright.timing.pin import Pinned, read_pins
from tilewright.units import us_text


@dataclass(slots=True)
class Profiled:
    """The profiles of one script on one target."""

    script: str
    target: Target
    end: ScriptEnd
    profiles: list[Profile] = field(default_factory=list)
    unpinned_us: list[float] = field(default_factory=list)
    """The latency of each without --pin, where that is given."""
    warnings: list[Diagnostic] = field(default_factory=list)


@click.command(
    cls=ScriptCommand,
    context_settings={"allow_interspersed_args": False},
    needs={"--shape": "--kernel", "--arg": "--kernel"},
    short_help="Predict how long a script's kernels take, and why.",
    epilog="""Examples:\n
    tilewright profile examples/attention_nki.py\n
    tilewright profile --target trn1 --target trn2 examples/attention_nki.py\n
    tilewright profile --kernel softmax_kernel --shape x=4096x2048:float32 examples/softmax.py\n
    tilewright profile --pin 45:scalar --html report.html --trace out.pftrace examples/attention_nki.py""",
)
@click.argument("script", type=FILE)
@click.argument("arguments", nargs=-1, type=FILE, metavar="[ARGS]...")
@click.option(
    "--target", "names", type=TARGET, multiple=True, metavar="NAME", help="Target to time for; may be repeated."
)
@profile_option
@click.option(
    "--order", type=click.Choice(ORDERS), default=ORDERS[0], show_default=True, help="Issue order of engines."
)
@click.option(
    "--pin",
    "pins",
    multiple=True,
    metavar="LINE:CHOICE",
    help="What if that line ran on another engine, or its transfers with hwdge, swdge or none?",
)
@click.option(
    "--against",
    type=FILE,
    metavar="SCRIPT|PROFILE",
    help="Another script to show side by side (with --html on one page), or a measured profile: JSON of "
    "neuron-profile, or a folder of parquet.",
)
@click.option("--shapes", is_flag=True, help="Do not do the arithmetic; kernels return zeros.")
@kernel_options("Profile")
@click.option("--trace", type=PLACE, metavar="FILE", help="Write the timeline: .pftrace or .json, for ui.perfetto.dev.")
@click.option("--html", type=PLACE, metavar="FILE", help="Write a page with timeline, memory, roofline and hot lines.")
@json_option
def profile(
    script: str,
    arguments: tuple[str, ...],
    names: tuple[str, ...],
    profile: str | None,
    order: str,
    pins: tuple[str, ...],
    against: str | None,
    shapes: bool,
    kernel: str | None,
    shapes_of: tuple[str, ...],
    values_of: tuple[str, ...],
    trace: str | None,
    html: str | None,
    as_json: bool,
) -> int:
    """Run SCRIPT and predict the time of each kernel it calls: latency, its limit, engines, critical path, advice.

    With --kernel only the definitions of SCRIPT are run, and that kernel is timed for the given shapes, without
    arithmetic. A kernel that is called again with the same shapes is timed once.
    """
    given = described_arguments(shapes_of, values_of)
    wanted = read_pins(pins)
    _check_outputs(trace, html, [script, *([against] if against else [])])
    measured = read_measured(against) if against and is_export(against) else None
    other = None if measured is not None else against
    done: list[Profiled] = []
    for target in [get_target(name) for name in names or (None,)]:
        pinned = Pinned(wanted, target, profile or "strict") if wanted else None
        for each in (script, other) if other else (script,):
            # The script's own output would hide the figures.
            with settings(target.name, profile), redirect_stdout(sys.stderr):
                activate(force=True)
                runs = (
                    _run_script(each, arguments, target, shapes)
                    if kernel is None
                    else _run_kernel(each, kernel, given, target, profile, each != script)
                )
            done.append(_profiled(each, target, runs, order, pinned))
        if pinned is not None:
            pinned.check_used()
    _write(done, trace, html, measured, other is not None)
    code = _exit_code(done)
    if as_json:
        show_json(_document(done, order, code, measured))
        return code
    _show(done, other is not None or len(names) > 1)
    if measured is not None:
        for each in done:
            for made in each.profiles:
                show("")
                show(_tables(made, measured))
    return code


def _tables(made: Profile, measured: Measured) -> RenderableType:
    from tilewright.measured.show import tables

    return tables(beside(made, measured))


class _Keeper:
    """Runs each kernel of a script, keeping the run of the first launch with given shapes."""

    def __init__(self, shapes: bool) -> None:
        self.shapes = shapes
        self.runs: dict[object, Run] = {}

    def __call__(self, launch: Launch) -> Run:
        key = (launch.kernel.function, launch.kernel.grid, _shape_of([*launch.args, *launch.kwargs.items()]))
        known = key in self.runs
        launch.options = replace(launch.options, record=not known, shapes=self.shapes or launch.options.shapes)
        run = launch.run()
        if not known:
            self.runs[key] = replace(run, result=None)
        if self.shapes:
            run.result = zeros(run.result)
        return run


def _shape_of(values: Any) -> object:
    """What tells the arguments of two launches apart."""
    if isinstance(values, (tuple, list)):
        return tuple(_shape_of(each) for each in values)
    if hasattr(values, "shape") and hasattr(values, "dtype"):
        return tuple(values.shape), str(values.dtype)
    return repr(values)


Runs = tuple[ScriptEnd, list[Run]]


def _run_script(script: str, arguments: Sequence[str], target: Target, shapes: bool) -> Runs:
    keeper = _Keeper(shapes)
    with following(keeper):
        end = run_script(script, arguments)
    if not keeper.runs and end.error is None:
        raise calls_no_kernel(script, end, "profile")
    return end, list(keeper.runs.values())


def _run_kernel(
    script: str, name: str, given: dict[str, Any], target: Target, profile: str | None, other: bool
) -> Runs:
    end = run_definitions(script)
    if end.error is not None:
        return end, []
    only = kernels_in(end)
    if other and name not in end.namespace and len(only) == 1:
        # What it is compared with may be called otherwise.
        name = only[0]
    found = kernel_of(script, end, name, given)
    with end:
        return end, [run_kernel(found, (), given, target, profile, Options(shapes=True))]
    return end, []


def _profiled(script: str, target: Target, runs: Runs, order: str, pinned: Pinned | None) -> Profiled:
    end, made = runs
    profiled = Profiled(script, target, end)
    for run in made:
        profiled.profiles.append(profile_run(run, order, pinned))
        if pinned is not None:
            profiled.unpinned_us.append(profile_run(run, order, None, most_events=0).report.latency_us)
        profiled.warnings += [each for each in run.diagnostics if each.severity != ERROR]
    return profiled


def _check_outputs(trace: str | None, html: str | None, sources: Sequence[str]) -> None:
    """Refuse names that cannot be written before anything runs."""
    if trace is not None:
        from tilewright.report.trace import trace_format

        trace_format(trace)
        check_output(trace, sources)
    if html is not None:
        check_output(html, sources)


def _write(
    done: Sequence[Profiled], trace: str | None, html: str | None, measured: Measured | None, side_by_side: bool
) -> None:
    """Write what was asked for; several profiles get names of their own, and side by side a page for all."""
    several = sum(len(each.profiles) for each in done) > 1
    names: Counter[str] = Counter()
    pages: list[tuple[str, Profile, str]] = []
    for each in done:
        for made in each.profiles:
            name = f"-{Path(each.script).stem}-{made.report.kernel}-{each.target.label}" if several else ""
            names[name] += 1
            # Scripts of one name in two folders, or a kernel at several shapes: none overwrites another's file.
            name += f"-{names[name]}" if names[name] > 1 else ""
            if trace is not None:
                from tilewright.report.trace import write_trace

                with writing(trace):
                    write_trace(_named(trace, name), made)
            if html is not None:
                from tilewright.measured.show import section
                from tilewright.report.html import write_html

                more = "" if measured is None else section(beside(made, measured), measured.name)
                with writing(html):
                    write_html(_named(html, name), made, more)
                pages.append((_title(each, made, done), made, _named(html, name).name))
    if html is not None and side_by_side and several:
        from tilewright.report.html_against import Side, write_against

        with writing(html):
            write_against(html, [Side(*each) for each in pages])


def _named(file: str, addition: str) -> Path:
    path = Path(file)
    return path.with_name(f"{path.stem}{addition}{path.suffix}")


def _exit_code(done: Sequence[Profiled]) -> int:
    if any(each.end.internal for each in done):
        return Exit.INTERNAL
    return Exit.KERNEL if any(each.end.error is not None or each.end.exit_code for each in done) else Exit.OK


def _show(done: Sequence[Profiled], side_by_side: bool) -> None:
    from tilewright.report.profile_table import compare_table

    profiles = [(each, made) for each in done for made in each.profiles]
    if side_by_side and profiles:
        show(compare_table([(_title(each, made, done), made.report) for each, made in profiles]))
    else:
        for number, (_, made) in enumerate(profiles):
            if number:
                show("")
            show(made.report)
    for each in done:
        for made, unpinned in zip(each.profiles, each.unpinned_us, strict=False):
            show("")
            show(_pin_difference(made, unpinned))
        for warning in each.warnings:
            show_diagnostic(warning)
        for made in each.profiles:
            if made.dropped_events:
                kept = len(made.events)
                err().print(
                    f"{made.report.kernel}: timelines show the first {kept} of {kept + made.dropped_events} events"
                )
        show_end(each.end)
        show_exit(each.end)


def _pin_difference(made: Profile, unpinned: float) -> str:
    """What the pins do to a latency."""
    pinned = made.report.latency_us
    change = pinned - unpinned
    said = f"{us_text(abs(change))} ({abs(change) / unpinned:.1%}) {'slower' if change > 0 else 'faster'}"
    result = said if us_text(abs(change)) != us_text(0) else "no difference"
    return f"{made.report.kernel} without the pins {us_text(unpinned)}, with them {us_text(pinned)}: {result}"


def _title(profiled: Profiled, made: Profile, done: Sequence[Profiled]) -> str:
    """The heading of a column: scripts of the same name are told apart by their paths."""
    alike = {each.script for each in done if Path(each.script).stem == Path(profiled.script).stem}
    script = profiled.script if len(alike) > 1 else Path(profiled.script).stem
    return f"{script}:{made.report.kernel} {profiled.target.name}"


def _document(done: Sequence[Profiled], order: str, code: int, measured: Measured | None = None) -> dict[str, object]:
    def shown(each: Profiled, made: Profile) -> dict[str, object]:
        found = {"script": each.script, **made.report.to_dict(), "events_not_kept": made.dropped_events}
        if each.unpinned_us:
            found["unpinned_latency_us"] = each.unpinned_us[each.profiles.index(made)]
        if measured is not None:
            found |= beside(made, measured).document()
        return found

    return {
        "exit_code": code,
        "order": order,
        "profiles": [shown(each, made) for each in done for made in each.profiles],
        "diagnostics": [as_data(found) for each in done for found in _found(each)],
        "errors": [each.end.traceback() for each in done if each.end.error is not None and each.end.fault is None],
    }


def _found(profiled: Profiled) -> list[Diagnostic]:
    fault = profiled.end.fault
    return profiled.warnings if fault is None else [*profiled.warnings, fault.diagnostic]

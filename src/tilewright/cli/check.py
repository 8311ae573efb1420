"""`tilewright check`: every diagnostic of every kernel a script calls, for one or several targets."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import click

from tilewright.activate import activate
from tilewright.api import verify
from tilewright.cli.check_format import FORMATS, JSON, TEXT, show_checked
from tilewright.cli.check_ranges import RangeCollector, read_ranges
from tilewright.cli.check_source import check_sources
from tilewright.cli.common import json_format, json_option, profile_option, settings
from tilewright.cli.findings import Collector, Findings
from tilewright.cli.kernels import calls_no_kernel, described_arguments, kernel_of, kernel_options, run_definitions
from tilewright.cli.options import FILE, TARGET
from tilewright.cli.script import ScriptCommand, run_script
from tilewright.diagnose.ranges import kernel_ranges
from tilewright.diagnose.transfers import verdict_on
from tilewright.events import listen
from tilewright.nki.kernel import following
from tilewright.programs.program import kernel_by_kernel
from tilewright.target import Target, get_target


@click.command(
    cls=ScriptCommand,
    context_settings={"allow_interspersed_args": False},
    short_help="List everything that a script's kernels break.",
    needs={"--orders": "--order", "--no-kernel-ok": "--static", "--shape": "--kernel", "--arg": "--kernel"},
    apart={
        "--static": ("--kernel", "--shapes", "--no-spill", "--order", "--ranges"),
        "--order": ("--kernel", "--shapes", "--ranges"),
        "--ranges": ("--shapes", "--no-spill"),
        "--format": ("--json",),
    },
    epilog="""Examples:\n
    tilewright check --target trn1 --target trn2 examples/softmax.py\n
    tilewright check --kernel softmax_kernel --shape x=4096x2048:float32 examples/softmax.py\n
    tilewright check --ranges g=-130..0 examples/deltanet_unsafe.py""",
)
@click.argument("script", type=FILE)
@click.argument("arguments", nargs=-1, type=FILE, metavar="[ARGS]...")
@click.option(
    "--target", "names", type=TARGET, multiple=True, metavar="NAME", help="Target to check for; may be repeated."
)
@profile_option
@click.option("--shapes", is_flag=True, help="Check shapes, memories and rules without doing the arithmetic.")
@click.option("--no-spill", is_flag=True, help="SBUF tensors that do not fit are an error, not a warning.")
@click.option("--order", is_flag=True, help="Run the instructions in other orders that the scheduler may choose.")
@click.option("--orders", type=click.IntRange(1), default=8, metavar="N", help="How many, with --order (8).")
@click.option("--static", is_flag=True, help="Read the source of the kernels only; nothing is run.")
@click.option(
    "--ranges",
    "ranges_of",
    multiple=True,
    metavar="NAME=LOW..HIGH",
    help="What array arguments can hold: list where numbers can go wrong, whatever the arrays are.",
)
@kernel_options("Check")
@click.option("--no-kernel-ok", is_flag=True, help="With --static: files without kernels are passed over.")
@click.option("--watch", is_flag=True, help="Check again whenever a Python file in the script's folder changes.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=TEXT,
    callback=json_format,
    help="SARIF for editors and code scanning, or annotations of GitHub Actions.",
)
@json_option
def check(
    script: str,
    arguments: tuple[str, ...],
    names: tuple[str, ...],
    profile: str | None,
    shapes: bool,
    no_spill: bool,
    order: bool,
    orders: int,
    static: bool,
    ranges_of: tuple[str, ...],
    kernel: str | None,
    shapes_of: tuple[str, ...],
    values_of: tuple[str, ...],
    no_kernel_ok: bool,
    watch: bool,
    form: str,
    as_json: bool,
) -> int:
    """Run SCRIPT and list everything that the kernels it calls break, instead of stopping at the first.

    With --order each kernel on one core runs once more in so many random orders of its instructions; what changes the
    results is listed with both lines. With --kernel only the definitions of SCRIPT are run (its `if __name__ ==
    "__main__"` part is not), and that kernel is checked on arrays of the given shapes, without arithmetic. With
    --static nothing is run: what the source of the kernels alone decides is listed, of SCRIPT and of the files after
    it. In place of a script: the folder that E811 names, whose kernel is compared with its program once more.
    """
    if watch:
        from tilewright.cli.check_watch import watch_command

        return watch_command(Path(script))
    if script and Path(script).is_dir():
        from tilewright.cli.check_saved import check_saved

        return check_saved(script, as_json)
    targets = [get_target(name) for name in names or (None,)]
    given = described_arguments(shapes_of, values_of)
    ranges = read_ranges(ranges_of)
    # The script's own output would hide the findings.
    checked = check_sources([script, *arguments], profile, no_kernel_ok) if static else []
    for target in targets if not static else ():
        with settings(target.name, profile), redirect_stdout(sys.stderr):
            activate(force=True)
            if kernel is None:
                findings = Findings(target.name, script)
                collector = Collector(findings, shapes, no_spill, orders if order else 0)
                checked.append(
                    _check_script(script, arguments, RangeCollector(findings, ranges) if ranges else collector)
                )
            else:
                checked.append(_check_kernel(script, kernel, given, target, profile, no_spill, ranges))
    return show_checked(checked, JSON if as_json else form, shapes)


def _check_script(script: str, arguments: Sequence[str], collector: Collector | RangeCollector) -> Findings:
    findings = collector.findings
    apart = kernel_by_kernel() if isinstance(collector, RangeCollector) else nullcontext()
    unlisten = listen(collector)
    try:
        with following(collector), apart:
            findings.end = run_script(script, arguments)
    finally:
        unlisten()
    if isinstance(collector, RangeCollector):
        collector.finish()
    if findings.end.fault is not None:
        findings.add([findings.end.fault.diagnostic])
    findings.settle()
    if not findings.kernels and findings.end.error is None:
        raise calls_no_kernel(script, findings.end, "check")
    return findings


def _check_kernel(
    script: str,
    name: str,
    given: dict[str, Any],
    target: Target,
    profile: str | None,
    no_spill: bool = False,
    ranges: Mapping[str, tuple[float, float]] = {},
) -> Findings:
    end = run_definitions(script)
    findings = Findings(target.name, script, end=end)
    if end.error is not None:
        if end.fault is not None:
            findings.add([end.fault.diagnostic])
        return findings
    found = kernel_of(script, end, name, given)
    findings.kernels.append(name)
    if ranges:
        findings.add(kernel_ranges(found, (), given, ranges, target))
        findings.verdicts[name] = verdict_on(found, given, target)
        return findings
    findings.add(verify(found, target=target, profile=profile, no_spill=no_spill, lint=True, **given))
    return findings

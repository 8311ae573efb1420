"""`tilewright bisect`: what the failure of a script's kernel needs, reduced and written down."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import click

from tilewright.activate import activate
from tilewright.cli.common import Exit, json_option, profile_option, settings, show, show_json, target_option
from tilewright.cli.options import FILE, PLACE, Number
from tilewright.cli.script import ScriptCommand, read_script, run_script
from tilewright.diagnose.bisection.search import Bisection
from tilewright.diagnose.bisection.search import bisect as reduce_failure
from tilewright.target import get_target


@click.command(
    cls=ScriptCommand,
    context_settings={"allow_interspersed_args": False},
    short_help="Reduce a failing kernel to what the failure needs.",
    epilog="""Examples:\n
    tilewright bisect model.py -o found\n
    tilewright bisect model.py --oracle E301\n
    tilewright bisect model.py --oracle "python on_device.py" --seconds 600""",
)
@click.argument("script", type=FILE)
@click.argument("arguments", nargs=-1, type=FILE, metavar="[ARGS]...")
@click.option("--oracle", metavar="WHAT", help="A code, a rule, nonfinite, or a command; default: what fails.")
@click.option(
    "-o", "--output", "folder", type=PLACE, metavar="FOLDER", help="Where report and reproduction are written."
)
@click.option(
    "--calls", type=click.IntRange(1), default=2000, show_default=True, help="How often the oracle may be asked."
)
@click.option("--seconds", type=Number(0, above=True), default=120.0, show_default=True, help="How long it may take.")
@click.option("--quiet", is_flag=True, help="Do not show progress.")
@target_option
@profile_option
@json_option
def bisect(
    script: str,
    arguments: tuple[str, ...],
    oracle: str | None,
    folder: str | None,
    calls: int,
    seconds: float,
    quiet: bool,
    target: str | None,
    profile: str | None,
    as_json: bool,
) -> int:
    """Run SCRIPT, take the kernel that fails, and reduce its instructions, its inputs and what runs before it.

    Says on which of these the failure depends, and writes a script that shows it alone and a report. A bisection that
    was ended goes on when it is started again with the same folder.
    """
    read_script(script)
    with settings(target, profile), redirect_stdout(sys.stderr):
        activate(force=True)
        found = reduce_failure(
            _running(script, arguments),
            oracle=oracle,
            target=get_target(target),
            folder=folder,
            calls=calls,
            seconds=seconds,
            progress=None if quiet else _tell,
        )
    if as_json:
        show_json(_document(found))
    else:
        show(found.report.split("## Smallest kernel", maxsplit=1)[0].rstrip())
        show(f"\nwritten to {found.reproduction}: report.md, reproduce.py")
    return Exit.KERNEL


def _running(script: str, arguments: tuple[str, ...]) -> Callable[[], None]:
    def run() -> None:
        end = run_script(script, arguments)
        if end.error is not None:
            raise end.error

    run.__name__ = script  # what diagnostics call it
    return run


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
    elif text.split(" ", 1)[0].endswith("00"):
        sys.stderr.write(f"{text}\n")


def _document(found: Bisection) -> dict[str, object]:
    return {
        "axis": found.axis,
        "inputs": {name: [list(place) for place in places] for name, places in found.inputs.items()},
        "edges": {name: [each.item() for each in edge] for name, edge in found.edges.items()},
        "context": list(found.context),
        "placement": found.placement,
        "calls": found.calls,
        "complete": found.complete,
        "reproduction": str(Path(found.reproduction)) if found.reproduction is not None else None,
        "report": found.report,
    }

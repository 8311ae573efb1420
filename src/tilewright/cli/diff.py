"""`tilewright diff`: the first thing that two scripts, kernels or functions do differently."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Any

import click
import numpy as np

from tilewright.activate import activate
from tilewright.cli.common import Exit, json_option, profile_option, settings, show, show_json, target_option
from tilewright.cli.kernels import described_arguments, run_definitions
from tilewright.cli.options import FILE, Number, StrictCommand
from tilewright.cli.script import run_script
from tilewright.diagnose.apart import Divergence
from tilewright.diagnose.divergence import Recorded, compare_runs, first_divergence, matched
from tilewright.errors import fail, is_users_file
from tilewright.programs.program import kernel_by_kernel
from tilewright.report.source import shown_paths
from tilewright.spec import ArraySpec


@click.command(
    cls=StrictCommand,
    short_help="Find the first thing that two runs do differently.",
    epilog="""Examples:\n
    tilewright diff published.py mended.py\n
    tilewright diff kernels.py:fast reference.py:slow --shape x=128x512:float32""",
)
@click.argument("left", type=FILE, metavar="A")
@click.argument("right", type=FILE, metavar="B")
@click.option(
    "--tolerance", type=Number(0), default=1e-5, show_default=True, help="Relative to the largest value compared."
)
@click.option("--shape", "shapes_of", multiple=True, metavar="NAME=SxS:DTYPE", help="An array argument, random.")
@click.option("--arg", "values_of", multiple=True, metavar="NAME=VALUE", help="A plain argument.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the random numbers.")
@target_option
@profile_option
@json_option
def diff(
    left: str,
    right: str,
    tolerance: float,
    shapes_of: tuple[str, ...],
    values_of: tuple[str, ...],
    seed: int,
    target: str | None,
    profile: str | None,
    as_json: bool,
) -> int:
    """Run A and B and name the first thing that both do with different outcome.

    A and B are scripts, which run as they are, or SCRIPT.py:NAME, a kernel or function of a script that is called with
    the arguments that --shape and --arg describe. Compared are variables of host code, arguments and results of
    kernels, and what each instruction writes. Exit code 1: they differ.
    """
    named = [":" in each.rpartition(".py")[2] for each in (left, right)]
    if named[0] != named[1]:
        raise click.UsageError("give two scripts, or two functions as SCRIPT.py:NAME")
    if not named[0] and (shapes_of or values_of):
        raise click.UsageError("--shape and --arg are for functions, SCRIPT.py:NAME; a script runs as it is")
    with settings(target, profile), redirect_stdout(sys.stderr):
        activate(force=True)
        if named[0]:
            given = _filled(described_arguments(shapes_of, values_of), seed)
            functions = [_function(each) for each in (left, right)]
            found = first_divergence(functions[0], functions[1], tolerance=tolerance, target=target, **given)
        else:
            runs = [_recorded(each) for each in (left, right)]
            found = compare_runs(runs[0], runs[1], tolerance)
            if found is None and not any(matched(runs[0].events, runs[1].events)):
                hint = "compared are variables of scripts, and what the kernels that they call read and write"
                raise fail("E703", f"{left} and {right} have nothing in common to compare", hint=hint)
    if as_json:
        show_json(_document(found))
    elif found is None:
        show(f"no difference beyond {tolerance:g}")
    else:
        show(shown_paths(str(found)))
    return Exit.OK if found is None else Exit.KERNEL


def _recorded(script: str) -> Recorded:
    run = Recorded()
    before = set(sys.modules)
    with run.recording(), kernel_by_kernel():
        end = run_script(script, ())
    # Both may bring modules of the same name: the other one gets its own.
    for name in set(sys.modules) - before:
        if is_users_file(getattr(sys.modules[name], "__file__", None) or "<built-in>"):
            del sys.modules[name]
    if isinstance(end.error, Exception):
        run.raised = end.error
    return run


def _function(text: str) -> Any:
    script, _, name = text.rpartition(":")
    end = run_definitions(script)
    if end.error is not None:
        raise end.error
    if not callable(end.namespace.get(name)):
        names = [key for key, value in end.namespace.items() if callable(value) and not key.startswith("_")]
        raise fail("E703", f"{script} has no function {name!r}", hint=f"it has {', '.join(names) or 'none'}")
    return end.namespace[name]


def _filled(given: dict[str, Any], seed: int) -> dict[str, Any]:
    """Random arrays where shapes were described: normal floats, small whole numbers."""
    random = np.random.default_rng(seed)
    made: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, ArraySpec):
            whole = value.dtype.np.kind in "iub"
            try:
                numbers = random.integers(0, 8, value.shape) if whole else random.normal(size=value.shape)
            except (MemoryError, ValueError):
                hint = "give fewer elements"
                raise fail("E704", f"{name} of shape {value.shape} has no room in memory", hint=hint) from None
            value = numbers.astype(value.dtype.np)
        made[name] = value
    return made


def _document(found: Divergence | None) -> dict[str, Any] | None:
    if found is None:
        return None
    place = found.location
    return {
        "op": found.op,
        "location": None if place is None else {"file": place.file, "line": place.line},
        "error": found.error,
        "described": found.described(),
        "made": list(found.made),
        "left": _values(found.left),
        "right": _values(found.right),
    }


def _values(value: Any) -> Any:
    return {"shape": value.shape, "dtype": str(value.dtype)} if isinstance(value, np.ndarray) else value

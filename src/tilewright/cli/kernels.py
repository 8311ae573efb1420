"""Kernels named on the command line: finding one in a script, and the arguments that --shape and --arg describe."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from tilewright.cli.compile_args import value_of
from tilewright.cli.script import ScriptEnd, run_script
from tilewright.errors import TileError, fail
from tilewright.nki.kernel import Kernel
from tilewright.spec import spec

_SIZES = re.compile(r"[0-9]+(?:x[0-9]+)*")
Command = TypeVar("Command", bound=Callable[..., Any])


def kernel_options(doing: str) -> Callable[[Command], Command]:
    """--kernel, --shape and --arg; `doing` is what the command does, such as "Check"."""

    def add(command: Command) -> Command:
        named = f"{doing} this kernel of SCRIPT on the arguments given by --shape and --arg."
        for option in (
            click.option(
                "--arg", "values_of", multiple=True, metavar="NAME=VALUE", help="A plain argument of --kernel."
            ),
            click.option(
                "--shape", "shapes_of", multiple=True, metavar="NAME=SxS:DTYPE", help="An array argument of --kernel."
            ),
            click.option("--kernel", metavar="NAME", help=named),
        ):
            command = option(command)
        return command

    return add


def described_arguments(shapes: Sequence[str], values: Sequence[str]) -> dict[str, Any]:
    """The arguments that --shape and --arg describe."""
    made: dict[str, Any] = {}
    for text in shapes:
        name, equals, described = text.partition("=")
        sizes, colon, dtype = described.partition(":")
        if not equals or not name or bool(colon) != bool(dtype) or not _SIZES.fullmatch(sizes):
            raise fail(
                "E704", f"--shape {text!r} is not NAME=SIZExSIZE:DTYPE", hint="such as --shape x=128x512:float32"
            )
        if name in made:
            raise _twice(name, f"--shape {text}")
        made[name] = spec([int(size) for size in sizes.split("x")], dtype or "float32")
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise fail("E704", f"--arg {text!r} is not NAME=VALUE", hint="such as --arg eps=1e-6")
        if name in made:
            raise _twice(name, f"--arg {text}")
        made[name] = value_of(value.strip())
    return made


def _twice(name: str, option: str) -> TileError:
    return fail("E704", f"{name} is given twice, by {option} too", hint="leave one of them out")


def run_definitions(script: str) -> ScriptEnd:
    """Run what a script defines, without its `if __name__ == "__main__"` part."""
    return run_script(script, (), name="__tilewright_check__")


def kernel_of(script: str, end: ScriptEnd, name: str, given: dict[str, Any]) -> Any:
    """The kernel of that name, which takes the given arguments; E703 or E704 otherwise."""
    found = end.namespace.get(name)
    if not isinstance(found, Kernel):
        kernels = kernels_in(end)
        if inspect.isfunction(found):
            hint = f"decorate it with @nki.jit; of a NumPy function make a kernel: tilewright compile {script}:{name}"
            raise fail("E703", f"{name} of {script} is a plain function, not a kernel", hint=hint)
        raise fail(
            "E703",
            f"{script} has no kernel {name!r}",
            hint=f"its kernels: {', '.join(kernels)}" if kernels else "it defines no kernel",
        )
    try:
        inspect.signature(found).bind(**given)
    except TypeError as error:
        raise fail(
            "E704",
            f"{name}: {error}",
            hint=f"it takes {inspect.signature(found)}; give arrays as --shape NAME=128x512:float32, numbers as --arg",
        ) from None
    return found


def kernels_in(end: ScriptEnd) -> list[str]:
    """Names of the kernels that a script defines."""
    return [name for name, value in end.namespace.items() if isinstance(value, Kernel)]


def calls_no_kernel(script: str, end: ScriptEnd, verb: str | None = None) -> TileError:
    """E703 for a script that only defines kernels; `verb` is what the command would do with one that it is given."""
    defined = kernels_in(end)
    hint = "kernels are functions decorated with @nki.jit"
    if defined:
        way = f"{verb} one with --kernel {defined[0]} --shape NAME=128x512:float32" if verb else "call them on arrays"
        hint = f"it defines {', '.join(defined)}: {way}"
    return fail("E703", f"{script} calls no kernel", hint=hint)

"""What the commands share: options, output, and the settings a script runs under."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, TextIO, TypeVar

import click
from rich.console import Console, RenderableType
from rich.text import Text

from tilewright.cli.options import TARGET
from tilewright.errors import Diagnostic
from tilewright.report.diagnostics import render
from tilewright.rules import PROFILES, STRICT, Reporter


class Exit(IntEnum):
    """Exit codes of every command."""

    OK = 0
    KERNEL = 1
    USAGE = 2
    INTERNAL = 3


Command = TypeVar("Command", bound=Callable[..., Any])


def target_option(command: Command) -> Command:
    """--target NAME for commands that work on one target."""
    return click.option(
        "--target",
        type=TARGET,
        metavar="NAME",
        help="Hardware generation (see `tilewright targets`); default: TILEWRIGHT_TARGET, else trn2.",
    )(command)


def profile_option(command: Command) -> Command:
    """--profile strict|lenient."""
    return click.option(
        "--profile",
        type=click.Choice(list(PROFILES)),
        help="How severe each rule is; default: TILEWRIGHT_PROFILE, else strict.",
    )(command)


def json_option(command: Command) -> Command:
    """--json: one JSON document on standard output, also for errors that leave the command."""

    def remember(context: click.Context, _: click.Parameter, value: bool) -> bool:
        context.obj["json"] = value
        return value

    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        is_eager=True,
        callback=remember,
        help="Print one JSON document instead of text.",
    )(command)


def json_format(context: click.Context, _: click.Parameter, value: str) -> str:
    """For `--format`: what is said of errors that leave the command is JSON too where the rest is."""
    if value in ("json", "sarif"):
        context.obj["json"] = True
    return value


def err() -> Console:
    """Standard error as a console; plain text when it is not a terminal."""
    return _console(sys.stderr)


def _console(stream: Any) -> Console:
    # Without a terminal there is nothing to fit into: long lines stay whole, so that output can be searched.
    width = None if stream.isatty() else 1000
    return Console(file=stream, highlight=False, markup=False, width=width)


def show(content: RenderableType, stream: TextIO | None = None) -> None:
    """Print to a stream, standard output unless told otherwise."""
    chosen: TextIO = stream or sys.stdout
    console = _console(chosen)
    if console.is_terminal:
        console.print(content, soft_wrap=isinstance(content, (str, Text)))
        return
    with console.capture() as captured:
        console.print(content)
    chosen.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def show_json(document: object) -> None:
    """Print a JSON document to standard output."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n")


def show_diagnostic(diagnostic: Diagnostic, targets: tuple[str, ...] = ()) -> None:
    """Print a diagnostic to standard error."""
    console = err()
    console.print(render(diagnostic, targets), soft_wrap=True)
    console.print()


def default_profile() -> str:
    """The profile of commands that are given none."""
    return os.environ.get("TILEWRIGHT_PROFILE") or STRICT


@contextmanager
def settings(target: str | None, profile: str | None) -> Iterator[None]:
    """Make a target and a profile the defaults for everything a script runs, subprocesses included."""
    Reporter(profile or default_profile())  # E605 now rather than in the first kernel
    with environment({"TILEWRIGHT_TARGET": target, "TILEWRIGHT_PROFILE": profile}):
        yield


@contextmanager
def environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables for a while; None leaves one as it is."""
    before = {name: os.environ.get(name) for name, value in changes.items() if value is not None}
    os.environ.update({name: value for name, value in changes.items() if value is not None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

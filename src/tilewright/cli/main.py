"""The `tilewright` command: its groups of commands, and what becomes of errors that no command handled."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import click

import tilewright
from tilewright.cli.common import Exit, err, show_diagnostic, show_json
from tilewright.cli.crash import report_internal_error
from tilewright.cli.script import users_traceback
from tilewright.diagnose.blame import is_our_fault
from tilewright.errors import Diagnostic, TileError
from tilewright.report.parts import as_data

COMMANDS = (
    *("run", "check", "profile", "compile", "plan", "diff", "bisect"),
    *("ops", "explain", "isa", "targets", "calibrate", "migrate", "doctor", "lsp", "mcp"),
)
"""In the order in which one needs them. Each is the command of that name in the module of that name."""


class _Commands(click.Group):
    """Commands whose modules are imported when they are asked for: none waits for what another one needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return getattr(importlib.import_module(f"tilewright.cli.{cmd_name}"), cmd_name)


@click.command(
    "tilewright",
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(tilewright.__version__, prog_name="tilewright")
def cli() -> None:
    """Make NKI kernels of NumPy functions; run, check and time any NKI kernel for AWS Trainium on any machine.

    \b
    tilewright run my_kernel.py           run a script on the simulator
    tilewright check my_kernel.py         list everything the hardware would refuse
    tilewright profile my_kernel.py       predict how long it takes, and why
    tilewright compile my_model.py:f      make an NKI kernel of a NumPy function
    tilewright plan my_model.py           split its kernels into executables that a target loads
    tilewright diff a.py b.py             find the first thing that two runs do differently
    tilewright bisect my_model.py         reduce a failing kernel to what the failure needs
    tilewright explain E104               what a diagnostic means, with examples

    Exit codes: 0 all is well, 1 a kernel (or the script) is at fault, 2 wrong usage, 3 an internal error.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the console script; always ends with SystemExit."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    settings: dict[str, Any] = {"given": given}
    with _Boundary(settings, given):
        result = cli.main(args=given, prog_name="tilewright", standalone_mode=False, obj=settings)
        raise SystemExit(result if isinstance(result, int) else Exit.OK)


class _Boundary:
    """Turns whatever leaves a command into output for a person and an exit code."""

    def __init__(self, settings: dict[str, Any], given: Sequence[str]) -> None:
        self.settings = settings
        self.given = given

    def __enter__(self) -> _Boundary:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, SystemExit):
            return
        if isinstance(error, BrokenPipeError):
            # The reader of our output has gone (such as `| head`): nothing is left to say, also not at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(Exit.OK) from None
        sys.stdout.flush()
        if isinstance(error, click.exceptions.Exit):
            raise SystemExit(error.exit_code) from None
        if isinstance(error, click.ClickException):
            self._refuse(error)
            raise SystemExit(Exit.USAGE) from None
        if isinstance(error, (click.Abort, KeyboardInterrupt)):
            err().print("interrupted")
            raise SystemExit(130) from None
        if isinstance(error, TileError):
            found = _without_our_line(error.diagnostic)
            self._show(found, self.settings.get("json", False))
            raise SystemExit(Exit.USAGE) from None
        if not is_our_fault(error):
            self._show_users(error)
            raise SystemExit(Exit.KERNEL) from None
        kept = report_internal_error(error)
        if self.settings.get("json"):
            show_json({"internal_error": kept, "exit_code": int(Exit.INTERNAL)})
        raise SystemExit(Exit.INTERNAL) from None

    def _refuse(self, error: click.ClickException) -> None:
        """Show what is wrong with a command line, or the help that a bare `tilewright` gets."""
        if not self.given:
            error.show()
            return
        context = error.ctx if isinstance(error, click.UsageError) else None
        command = self.given[0] if self.given[0] in COMMANDS else ""
        usage = f"see {' '.join(('tilewright', command)).strip()} --help"
        if context is not None:
            usage = context.get_usage().replace("Usage", "usage")
        found = Diagnostic("E708", error.format_message(), hint=usage)
        # The options of a command line that does not parse were never looked at.
        self._show(found, "--json" in self.given)

    def _show_users(self, error: BaseException) -> None:
        """Show an error of the user's own code that a command let pass."""
        shown = users_traceback(error)
        if self.settings.get("json"):
            show_json({"error": shown, "exit_code": int(Exit.KERNEL)})
        else:
            sys.stderr.write(shown)

    def _show(self, found: Diagnostic, as_json: bool) -> None:
        if as_json:
            show_json({"diagnostics": [as_data(found)], "exit_code": int(Exit.USAGE)})
        else:
            show_diagnostic(found)


def _without_our_line(diagnostic: Diagnostic) -> Diagnostic:
    """A mistake on the command line has no source line: what looks like one is the line that called the command."""
    location = diagnostic.location
    if location is not None and location.file.startswith(str(Path(click.__file__).parent)):
        return replace(diagnostic, location=None)
    return diagnostic

"""What happens to a bug of ours: its details go to a file, the user is asked to report it."""

from __future__ import annotations

import platform
import sys
import tempfile
import traceback

import tilewright
from tilewright.cli.common import err, show_diagnostic
from tilewright.cli.script import ScriptEnd


def report_internal_error(error: BaseException) -> str:
    """Keep the traceback in a file, ask for a report, and return the file's name."""
    head = (
        f"tilewright {tilewright.__version__}, Python {platform.python_version()}, {platform.platform()}\n"
        f"command: {' '.join(sys.argv)}\n\n"
    )
    with tempfile.NamedTemporaryFile(
        "w", prefix="tilewright-internal-error-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        file.write(head + "".join(traceback.format_exception(error)))
    console = err()
    console.print(f"internal error: {type(error).__name__}: {error}", style="bold red", soft_wrap=True)
    console.print("This is a bug in tilewright, not in your kernel. Please report it together with", soft_wrap=True)
    console.print(f"{file.name}, which holds the details.", soft_wrap=True)
    return file.name


def show_exit(end: ScriptEnd) -> None:
    """Say that a script ended itself with a code, which a command counts as a failure."""
    if end.error is None and end.exit_code:
        err().print(f"{end.given} ended with exit code {end.exit_code}", soft_wrap=True)


def show_end(end: ScriptEnd) -> None:
    """Say what ended a script early."""
    if end.fault is not None:
        show_diagnostic(end.fault.diagnostic)
        err().print(f"More: tilewright explain {end.fault.diagnostic.code}", soft_wrap=True)
    elif end.internal:
        assert end.error is not None
        report_internal_error(end.error)
    elif end.error is not None:
        sys.stderr.write(end.traceback())

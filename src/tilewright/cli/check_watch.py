"""`tilewright check --watch`: the same check again whenever a file of the script's folder changes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from tilewright.cli.common import err
from tilewright.cli.script import read_script

PAUSE_S = 0.3


def watch_command(script: Path) -> int:
    """Run the command line without --watch, in a process of its own each time: what it imports is read anew."""
    if not script.is_file():
        read_script(str(script))  # which says why it is none
    given = [each for each in click.get_current_context().obj["given"] if each != "--watch"]
    command = [sys.executable, "-m", "tilewright", *given]
    known: dict[Path, int] | None = None
    code = 0
    try:
        while True:
            found = _changes(script)
            if found != known:
                known = found
                if sys.stdout.isatty():
                    click.clear()
                code = subprocess.run(command, check=False).returncode
                err().print(f"watching {script.absolute().parent}; Ctrl-C ends", soft_wrap=True)
            time.sleep(PAUSE_S)
    except KeyboardInterrupt:
        return code


def _changes(script: Path) -> dict[Path, int]:
    """The Python files around a script, and when each was last written."""
    return {path: _written(path) for path in {script.absolute(), *_sources(script.absolute().parent)}}


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # an editor has moved it away and will put the new one in its place
        return 0


def _sources(folder: Path) -> Iterator[Path]:
    """Python files in a folder and its packages, not in environments and other hidden or foreign folders."""
    yield from folder.glob("*.py")
    for inner in folder.iterdir():
        if inner.is_dir() and not inner.is_symlink() and (inner / "__init__.py").is_file():
            yield from _sources(inner)

"""How far a compilation is, on a terminal."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from tilewright.cli.common import err
from tilewright.progress import silent


class Shown:
    """A line on standard error that says what is being done; nothing where that is no terminal."""

    def __init__(self, wanted: bool) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        hidden = not wanted or not sys.stderr.isatty()
        self._progress = Progress(*columns, console=err(), transient=True, disable=hidden)
        self._task = self._progress.add_task("tracing", total=None)

    def __enter__(self) -> Shown:
        self._alone = silent()
        self._alone.__enter__()
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
        self._alone.__exit__(None, None, None)

    def doing(self, what: str) -> None:
        """Begin with something whose end is not known."""
        # A task whose total is known cannot go back to one whose is not.
        self._progress.remove_task(self._task)
        self._task = self._progress.add_task(what, total=None)

    def step(self, number: int, count: int) -> None:
        """A step of lowering begins."""
        self._progress.update(self._task, description="lowering", total=count, completed=number)

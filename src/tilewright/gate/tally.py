"""Kernels that ran and kernels that were refused, by test; and which refusals a test asked for."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import tempfile
import unittest.case
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tilewright.errors import TileError, is_internal
from tilewright.events import Event, Listener

_PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep


@dataclass(frozen=True, slots=True)
class Refusal:
    """A kernel that did not run. expected: the test waited for the error."""

    kernel: str
    message: str
    code: str | None = None
    file: str | None = None
    line: int | None = None
    expected: bool = False

    def as_data(self) -> dict[str, Any]:
        """Plain data, which goes from a worker to the run."""
        return asdict(self)

    def __str__(self) -> str:
        where = f" ({self.file}:{self.line})" if self.file else ""
        return f"{self.kernel}: {f'{self.code}: ' if self.code else ''}{self.message}{where}"


@dataclass(slots=True)
class Record:
    """What the kernels of one test did. runs: kept where a budget asks for their times."""

    executed: list[str] = field(default_factory=list)
    runs: list[tuple[str, Any]] = field(default_factory=list)
    errors: list[tuple[str, BaseException]] = field(default_factory=list)

    def refusals(self, waited_for: Callable[[BaseException], bool]) -> list[Refusal]:
        """The kernels that did not run."""
        return [_refusal(kernel, error, waited_for(error)) for kernel, error in self.errors]


class Tally(Listener):
    """Counts kernels for the test that is running."""

    def __init__(self) -> None:
        self.now = Record()
        self.keeps_runs = False
        self.hosts: set[str] = set()
        """Files of host code from which kernels were launched."""
        self._seen: list[BaseException] = []
        self._process = os.getpid()
        # Processes that a test forks have this file open too: what their kernels do is told by lines in it.
        self._told = tempfile.TemporaryFile("ab+", buffering=0)  # noqa: SIM115
        self._read = 0

    def begin(self, keeps_runs: bool) -> None:
        """A test begins."""
        self.now, self.keeps_runs, self._seen = Record(), keeps_runs, []

    def ended(self, event: Event) -> None:
        """Count a kernel."""
        self.hosts.update(_host_files(sys._getframe(1)))
        if event.error is None and not event.computes:
            if self.keeps_runs and os.getpid() == self._process:
                self.now.runs.append((event.kernel, event.run))
        elif os.getpid() != self._process:
            refused = None if event.error is None else _refusal(event.kernel, event.error, False).as_data()
            self._told.write(f"{json.dumps([event.kernel, refused])}\n".encode())
        elif event.error is not None:
            self.now.errors.append((event.kernel, event.error))
        else:
            self.now.executed.append(event.kernel)
            if self.keeps_runs and event.run is not None:
                self.now.runs.append((event.kernel, event.run))

    def take(self) -> tuple[Record, list[Refusal]]:
        """What kernels did since the last time, and those of them that did not run."""
        waited_for = {id(each) for error in self._seen for each in _chain(error)}
        taken, self.now = self.now, Record()
        return taken, [*taken.refusals(lambda error: id(error) in waited_for), *self._of_forked(taken)]

    def _of_forked(self, taken: Record) -> list[Refusal]:
        """Count what forked processes told since the last time; their errors reach a test as copies, if at all."""
        self._told.seek(self._read)
        written = self._told.read()
        self._read += len(written)
        messages = [str(each) for error in self._seen for each in _chain(error)]
        refusals: list[Refusal] = []
        for kernel, refused in map(json.loads, written.splitlines()):
            if refused is None:
                taken.executed.append(kernel)
            else:
                found = Refusal(**refused)
                refusals.append(replace(found, expected=any(found.message in text for text in messages)))
        return refusals

    def saw(self, error: BaseException | None) -> None:
        """A test waited for an error and got it."""
        if error is not None:
            self._seen.append(error)


def _refusal(kernel: str, error: BaseException, expected: bool) -> Refusal:
    diagnostic = error.diagnostic if isinstance(error, TileError) else getattr(error, "diagnostic", None)
    if diagnostic is None:
        return Refusal(kernel, f"{type(error).__name__}: {error}", expected=expected)
    where = diagnostic.location
    place = (None, None) if where is None else (where.file, where.line)
    return Refusal(kernel, diagnostic.message, diagnostic.rule or diagnostic.code, *place, expected)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that it was raised from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


@contextmanager
def watching_for_errors(saw: Callable[[BaseException | None], None]) -> Iterator[None]:
    """Tell of every error that `pytest.raises` or `assertRaises` was waiting for."""
    kinds = [type(pytest.raises(Exception)), unittest.case._AssertRaisesContext]
    before = [kind.__exit__ for kind in kinds]

    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        def leave(self: Any, kind: Any, error: BaseException | None, trace: Any) -> Any:
            __tracebackhide__ = True
            taken = original(self, kind, error, trace)
            if taken:
                saw(error)
            return taken

        return leave

    for kind, original in zip(kinds, before, strict=True):
        kind.__exit__ = watched(original)
    try:
        yield
    finally:
        for kind, original in zip(kinds, before, strict=True):
            kind.__exit__ = original


def _host_files(frame: FrameType | None) -> Iterator[str]:
    """The files of the user's on the call stack."""
    while frame is not None:
        file = frame.f_code.co_filename
        if is_user_file(file):
            yield file
        frame = frame.f_back


@cache
def is_user_file(file: str) -> bool:
    """True for a file that is no part of Python, of an installed package or of tilewright."""
    paths = sysconfig.get_paths()
    foreign = (paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"], _PACKAGE)
    return not file.startswith(("<", *foreign)) and not is_internal(file)

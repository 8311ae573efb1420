"""Kernels that ran and kernels that were refused, by test; and which refusals a test asked for."""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
import unittest.case
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tilewright.errors import TileError, is_users_file
from tilewright.events import Event, Listener

_PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep


@dataclass(frozen=True, slots=True)
class Refusal:
    """A kernel that did not run. expected: the test waited for the error. times: how often that was so."""

    kernel: str
    message: str
    code: str | None = None
    file: str | None = None
    line: int | None = None
    expected: bool = False
    times: int = 1

    def as_data(self) -> dict[str, Any]:
        """Plain data, which goes from a worker to the run."""
        return asdict(self)

    def __str__(self) -> str:
        where = f" ({self.file}:{self.line})" if self.file else ""
        often = f", {self.times:,} times" if self.times > 1 else ""
        return f"{self.kernel}: {f'{self.code}: ' if self.code else ''}{self.message}{where}{often}"


@dataclass(slots=True)
class Record:
    """What the kernels of one test did. runs: kept where a budget asks for their times. errors: see `_number_of`."""

    executed: list[str] = field(default_factory=list)
    runs: list[tuple[str, Any]] = field(default_factory=list)
    errors: list[tuple[Refusal, int]] = field(default_factory=list)


class Tally(Listener):
    """Counts kernels for the test that is running."""

    def __init__(self) -> None:
        self.now = Record()
        self.keeps_runs = False
        self.hosts: set[str] = set()
        """Files of host code from which kernels were launched."""
        self._seen: set[int] = set()
        self._messages: list[str] = []
        self._process = os.getpid()
        # Processes that a test forks have this file open too: what their kernels do is told by lines in it.
        self._told = tempfile.TemporaryFile("ab+", buffering=0)  # noqa: SIM115
        self._read = 0

    def begin(self, keeps_runs: bool) -> None:
        """A test begins."""
        self.now, self.keeps_runs, self._seen, self._messages = Record(), keeps_runs, set(), []

    def ended(self, event: Event) -> None:
        """Count a kernel."""
        self.hosts.update(_host_files(sys._getframe(1)))
        if event.error is None and not event.computes:
            if self.keeps_runs and os.getpid() == self._process:
                self.now.runs.append((event.kernel, event.run))
        elif os.getpid() != self._process:
            refused = None if event.error is None else _refusal(event.kernel, event.error).as_data()
            self._told.write(f"{json.dumps([event.kernel, refused])}\n".encode())
        elif event.error is not None:
            self.now.errors.append((_refusal(event.kernel, event.error), _number_of(event.error)))
        else:
            self.now.executed.append(event.kernel)
            if self.keeps_runs and event.run is not None:
                self.now.runs.append((event.kernel, event.run))

    def take(self) -> tuple[Record, list[Refusal]]:
        """What kernels did since the last time, and those of them that did not run."""
        taken, self.now = self.now, Record()
        own = [replace(refusal, expected=number in self._seen) for refusal, number in taken.errors]
        often = Counter([*own, *self._of_forked(taken)])
        return taken, [replace(refusal, times=times) for refusal, times in often.items()]

    def _of_forked(self, taken: Record) -> list[Refusal]:
        """Count what forked processes told since the last time; their errors reach a test as copies, if at all."""
        self._told.seek(self._read)
        written = self._told.read()
        self._read += len(written)
        refusals: list[Refusal] = []
        for kernel, refused in map(json.loads, written.splitlines()):
            if refused is None:
                taken.executed.append(kernel)
            else:
                found = Refusal(**refused)
                refusals.append(replace(found, expected=any(found.message in text for text in self._messages)))
        return refusals

    def saw(self, error: BaseException | None) -> None:
        """A test waited for an error and got it."""
        for each in _chain(error):
            self._seen.add(_number_of(each))
            self._messages.append(str(each))


_numbers = itertools.count(1)


def _number_of(error: BaseException) -> int:
    """What an error is known by once it is gone: one that is kept keeps the arrays of all functions it went through."""
    number: int = error.__dict__.setdefault("_tilewright_number", next(_numbers))
    return number


def _refusal(kernel: str, error: BaseException) -> Refusal:
    diagnostic = error.diagnostic if isinstance(error, TileError) else getattr(error, "diagnostic", None)
    if diagnostic is None:
        return Refusal(kernel, f"{type(error).__name__}: {error}")
    where = diagnostic.location
    place = (None, None) if where is None else (where.file, where.line)
    return Refusal(kernel, diagnostic.message, diagnostic.rule or diagnostic.code, *place)


def count(refusals: Iterable[Refusal]) -> int:
    """How many kernels did not run."""
    return sum(each.times for each in refusals)


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


def is_user_file(file: str) -> bool:
    """True for a file of the user's; kernels of the library of this package are not."""
    return is_users_file(file) and not file.startswith(_PACKAGE)

"""Which lines of kernels ran: coverage of code that a simulator executes, printed and as lcov or coverage.py data."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from tilewright.events import Event, Listener
from tilewright.gate.tally import is_user_file
from tilewright.nki.kernel import Kernel

LCOV = (".lcov", ".info")
"""How names of files end that are written as lcov."""


@dataclass(slots=True)
class Covered:
    """Lines by file: those that kernels have, and those of them that ran; `cut`: later kernels were not looked at."""

    lines: dict[str, set[int]] = field(default_factory=dict)
    ran: dict[str, set[int]] = field(default_factory=dict)
    cut: bool = False

    def add(self, lines: Mapping[str, Iterable[int]], ran: Mapping[str, Iterable[int]], cut: bool = False) -> None:
        """Add what another process found."""
        self.cut |= cut
        for mine, theirs in ((self.lines, lines), (self.ran, ran)):
            for file, numbers in theirs.items():
                mine.setdefault(file, set()).update(numbers)

    def as_data(self) -> dict[str, Any]:
        """Plain data, which goes from a worker to the run."""
        return {
            "cut": self.cut,
            "lines": {file: sorted(numbers) for file, numbers in self.lines.items()},
            "ran": {file: sorted(numbers) for file, numbers in self.ran.items()},
        }

    def table(self) -> list[tuple[str, int, int, str]]:
        """(file, lines that ran, lines, those that did not) for every file."""
        made: list[tuple[str, int, int, str]] = []
        for file in sorted(self.lines):
            lines = self.lines[file]
            ran = self.ran.get(file, set()) & lines
            made.append((file, len(ran), len(lines), _spans(sorted(lines), lines - ran)))
        return made

    def write(self, path: Path) -> None:
        """As lcov, else as a data file of coverage.py: see `check_target`."""
        if path.suffix in LCOV:
            path.write_text("".join(_lcov(file, lines, self.ran.get(file, set())) for file, lines in self._sorted()))
            return
        from coverage import CoverageData  # pyright: ignore[reportMissingImports]

        data = CoverageData(basename=str(path))
        data.add_lines({file: sorted(self.ran.get(file, set())) for file, _ in self._sorted()})
        data.write()

    def _sorted(self) -> list[tuple[str, set[int]]]:
        return sorted(self.lines.items())


def check_target(path: Path, is_lines: bool) -> None:
    """A usage error, before the first test, for a file that could not be written after the last one."""
    if not path.absolute().parent.is_dir():
        raise pytest.UsageError(f"{path}: there is no folder {path.parent}")
    if is_lines and path.suffix not in LCOV and find_spec("coverage") is None:
        raise pytest.UsageError(
            f"{path.name} would be a data file of coverage.py, which is not installed: pip install coverage, or name a "
            f"file that ends with {' or '.join(LCOV)}"
        )


class LineTracer(Listener):
    """Notes the lines of user code that run while a kernel does.

    Python that is traced runs three times slower. Unless somebody asks for all lines, tracing therefore ends after
    `MOST_CALLS` calls of functions, which suites of small kernels do not come to.
    """

    MOST_CALLS = 10_000_000

    def __init__(self, all_lines: bool = True) -> None:
        self._calls = 0
        self._most = sys.maxsize if all_lines else self.MOST_CALLS
        self._ran: dict[CodeType, set[int]] = {}
        self._foreign: set[CodeType] = set()
        self._others = threading.local()
        """What else traces a thread, such as coverage.py: it is told of everything that happens."""
        self._other_threads: Any = None
        self._shares = False
        self._depth = 0

    def begins(self, event: Event) -> None:
        """Trace from here on."""
        self._depth += 1
        if self._depth == 1 and self._calls < self._most:
            self._others.trace, self._other_threads = sys.gettrace(), threading.gettrace()
            self._shares = self._others.trace is not None or self._other_threads is not None
            threading.settrace(self._called)
            sys.settrace(self._called)

    def ended(self, event: Event) -> None:
        """Trace no more."""
        self._depth -= 1
        if self._depth == 0 and hasattr(self._others, "trace"):
            sys.settrace(self._others.trace)
            threading.settrace(self._other_threads)
            del self._others.trace

    def _called(self, frame: FrameType, event: str, value: Any) -> Any:
        other = self._tell_other(frame, event, value) if self._shares else None
        self._calls += 1
        if self._calls >= self._most:
            sys.settrace(self._other())
            return other
        code = frame.f_code
        if code in self._foreign:
            return other
        ran = self._ran.get(code)
        if ran is None:
            if not is_user_file(code.co_filename):
                self._foreign.add(code)
                return other
            ran = self._ran[code] = set()
        add = ran.add

        def step(frame: FrameType, event: str, value: Any) -> Any:
            nonlocal other
            if event == "line":
                add(frame.f_lineno)
            if other is not None:
                other = other(frame, event, value)
            return step

        return step

    def _other(self) -> Any:
        """What traces this thread beside this; a thread that a kernel starts has what new threads get."""
        return getattr(self._others, "trace", self._other_threads)

    def _tell_other(self, frame: FrameType, event: str, value: Any) -> Any:
        """What else traces this thread hears of a call, and says what hears of the lines; it may put itself in place"""
        other = self._other()
        if other is None:
            return None
        told = other(frame, event, value)
        placed = sys.gettrace()
        if placed != self._called:
            self._others.trace = placed
            sys.settrace(self._called)
        return told

    def covered(self) -> Covered:
        """What was seen, beside all lines of the kernels that exist and of the functions that they called."""
        made = Covered(cut=self._calls >= self._most)
        for code, ran in self._ran.items():
            made.add({code.co_filename: _lines(code)}, {code.co_filename: ran})
        for each in gc.get_objects():
            # Not isinstance: that asks objects for their class, and some answer by code of their own.
            function = each.function if issubclass(type(each), Kernel) else None
            code = getattr(function, "__code__", None)
            if isinstance(code, CodeType) and is_user_file(code.co_filename):
                made.add({code.co_filename: _lines(code)}, {})
        return made


def _lines(code: CodeType) -> set[int]:
    """The lines of a function's body, and of what is defined in it."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    own = {line for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno}
    return own.union(*map(_lines, inner))


def _spans(lines: list[int], missing: set[int]) -> str:
    """Lines as people write them: 3-5, 9. Lines without code between two of them count as theirs."""
    spans: list[list[int]] = []
    before: int | None = None
    for line in lines:
        if line in missing:
            if spans and before in missing:
                spans[-1][1] = line
            else:
                spans.append([line, line])
        before = line
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def _lcov(file: str, lines: set[int], ran: set[int]) -> str:
    rows = "".join(f"DA:{line},{int(line in ran)}\n" for line in sorted(lines))
    return f"TN:tilewright\nSF:{file}\n{rows}LF:{len(lines)}\nLH:{len(lines & ran)}\nend_of_record\n"

"""Diagnostics: what a user sees when a kernel breaks a rule.

A `Diagnostic` is data: a code of the catalogue, the rule it enforces, a message, a hint, the user's source line and the
operands involved. `TileError` is its raised form. Errors that an NKI dialect documents as a Python exception class are
raised as a subclass of both, so that `except IndexError` and `except tw.TileError` both work.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from html import escape
from pathlib import Path
from types import CodeType, FrameType

import numpy

ERROR, WARNING, OFF = "error", "warning", "off"
TRACE, RUN = "trace", "run"


def _folders(file: str) -> tuple[str, ...]:
    """Where a module's folder is said to be: code knows its file as it was found, by a link perhaps."""
    return tuple({f"{path.parent}{os.sep}" for path in (Path(file), Path(file).resolve())})


_PACKAGE = _folders(__file__)
_KERNELS = tuple(f"{folder}kernels{os.sep}" for folder in _PACKAGE)
_NUMPY = _folders(str(numpy.__file__))
_PYTHON = f"{sysconfig.get_path('stdlib')}{os.sep}"
_INSTALLED = ("site-packages", "dist-packages")
_CLICK, _TORCH = (f"-packages{os.sep}{name}{os.sep}" for name in ("click", "torch"))


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of source: lines from 1; columns from 0, in bytes as Python's parser counts them; the end is excluded."""

    line: int
    column: int
    end_line: int
    end_column: int

    @classmethod
    def of(cls, node: ast.expr | ast.stmt) -> Span:
        """The text of a syntax tree."""
        end_line, end_column = node.end_lineno, node.end_col_offset
        assert end_line is not None and end_column is not None, "made by a program, not read from a text"
        return cls(node.lineno, node.col_offset, end_line, end_column)

    def to_dict(self, file: str) -> dict[str, int]:
        """The piece as editors count: columns from 1, in characters."""
        return {
            "line": self.line,
            "column": _characters(file, self.line, self.column) + 1,
            "end_line": self.end_line,
            "end_column": _characters(file, self.end_line, self.end_column) + 1,
        }


def _characters(file: str, line: int, column: int) -> int:
    return len(linecache.getline(file, line).encode()[:column].decode(errors="replace"))


@dataclass(frozen=True, slots=True)
class Location:
    """A line of the user's source. Two places on one line are equal: whatever is told by line counts them together."""

    file: str
    line: int
    span: Span | None = field(default=None, compare=False)
    """The expression that ran, which begins on `line`; None where that is not known, as before Python 3.11."""
    part: Span | None = field(default=None, compare=False)
    """What is at fault inside of it: an argument, an index. It may stand on a later line."""
    caller: Location | None = None
    """Where a kernel called the function that the line is in, for what helpers allocate."""

    @classmethod
    def of(cls, file: str, node: ast.expr | ast.stmt) -> Location:
        """The place of a syntax tree."""
        return cls(file, node.lineno, Span.of(node))

    @classmethod
    def of_syntax(cls, file: str, error: SyntaxError) -> Location:
        """Where Python's parser stopped; it counts characters from 1, and may not know the end."""
        line, column = error.lineno or 1, (error.offset or 0) - 1
        if column < 0:
            return cls(file, line)
        text = (error.text or "").encode()
        start = len((error.text or "")[:column].encode())
        stop = len((error.text or "")[: (error.end_offset or 0) - 1].encode()) if error.end_lineno == line else 0
        return cls(file, line, Span(line, start, line, max(stop, min(start + 1, len(text.rstrip())), start)))

    def __str__(self) -> str:
        callers: list[str] = []
        caller = self.caller
        while caller is not None:
            callers.append(f"line {caller.line}" if caller.file == self.file else f"{caller.file}:{caller.line}")
            caller = caller.caller
        called = f" (called at {', '.join(callers)})" if callers else ""
        return f"{self.file}:{self.line}{called}"

    def to_dict(self) -> dict[str, object]:
        """Plain data: the columns are those of the part at fault where it begins on `line`, else of the expression."""
        nowhere = {"column": None, "end_line": None, "end_column": None}
        part = None if self.part is None else self.part.to_dict(self.file)
        whole = nowhere if self.span is None else self.span.to_dict(self.file)
        shown = part if part is not None and part["line"] == self.line else whole
        return {"file": self.file, **shown, "line": self.line, "part": part}


@dataclass(frozen=True, slots=True)
class OperandNote:
    """How an operand looked when the diagnostic was made. made: the allocation of a tile, which chose its type."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    memory: str
    made: Location | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}] in {self.memory}"

    def shown(self, at: Location | None) -> str:
        """The operand of a finding at some place, with the line that made it."""
        if self.made is None or self.made == at:
            return str(self)
        near = at is not None and at.file == self.made.file
        return f"{self}, made {f'in line {self.made.line}' if near else f'at {self.made}'}"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: `code` is explained by the catalogue, `rule` names the documented rule it enforces.

    phase: a compiler finds it while it traces the kernel ("trace"), or only data show it ("run").
    """

    code: str
    message: str
    rule: str | None = None
    severity: str = ERROR
    hint: str | None = None
    location: Location | None = None
    operands: tuple[OperandNote, ...] = ()
    notes: tuple[str, ...] = ()
    reproduction: str | None = None
    """A folder that shows the finding again (`tilewright check FOLDER`), where one was saved."""
    phase: str = TRACE
    births: list[Diagnostic] = field(default_factory=list, hash=False)
    """Where the value at fault was born (NaN, infinity, a sentinel, an index outside, unwritten), earliest first."""

    def __str__(self) -> str:
        tag = f"{self.code}, {self.rule}" if self.rule else self.code
        lines = [f"{self.severity}[{tag}]: {self.message}"]
        if self.location is not None:
            lines.append(f"  --> {self.location}")
        lines += [f"   | {operand.shown(self.location)}" for operand in self.operands]
        lines += [f"   = note: {note}" for note in self.notes]
        lines += [f"   = born: {birth.told()}" for birth in self.births]
        if self.hint:
            lines.append(f"   = hint: {self.hint}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def told(self) -> str:
        """Message and line in one line, as one that follows from it shows it."""
        return self.message if self.location is None else f"{self.message} ({self.location})"

    def to_dict(self) -> dict[str, object]:
        """The diagnostic as plain data for `--json`."""
        return {
            "code": self.code,
            "rule": self.rule,
            "severity": self.severity,
            "message": self.message,
            "hint": self.hint,
            "location": None if self.location is None else self.location.to_dict(),
            "operands": [
                {"name": o.name, "shape": list(o.shape), "dtype": o.dtype, "memory": o.memory}
                | {"made": None if o.made is None else o.made.to_dict()}
                for o in self.operands
            ],
            "notes": list(self.notes),
            "reproduction": self.reproduction,
            "phase": self.phase,
            "births": [birth.to_dict() for birth in self.births],
        }


class TileError(Exception):
    """A diagnostic raised as an exception; `.diagnostic` holds the data."""

    diagnostic: Diagnostic

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(str(diagnostic))
        self.diagnostic = diagnostic

    def tell(self, diagnostic: Diagnostic) -> None:
        """Say more: what has been found out since."""
        self.diagnostic = diagnostic
        self.args = (str(diagnostic),)

    def _render_traceback_(self) -> list[str]:
        """What IPython and notebooks show: the user's lines that led here, then the diagnostic."""
        frames = traceback.extract_tb(self.__traceback__)
        own = [each for each in frames if not (is_internal(each.filename) or _is_library(each.filename))]
        first = next((i for i, each in enumerate(own) if "IPython" not in Path(each.filename).parts), len(own))
        return [*traceback.format_list(own[first:]), str(self.diagnostic)]


class NkiValidationError(TileError):
    """A hardware constraint is violated (the class NKI documents for it)."""


class TileIndexError(TileError, IndexError):
    """An index or slice lies outside its dimension."""


class TileTypeError(TileError, TypeError):
    """A call does not fit the signature of the API, or a value is of a kind the API does not take."""


class TileValueError(TileError, ValueError):
    """An argument has a value that the API does not take."""


class TileSyntaxError(TileError, SyntaxError):
    """Source or IR text that cannot be read, or a construct that the NKI compiler refuses."""


class TileAssertionError(TileError, AssertionError):
    """A misuse for which NKI documents AssertionError."""


class TileAttributeError(TileError, AttributeError):
    """A name that a module of the API does not have."""


class TileImportError(TileError, ModuleNotFoundError):
    """A module that exists under this name only in another version of NKI."""


class TileNotImplementedError(TileError, NotImplementedError):
    """An API that exists in name only, as the NKI documentation says."""


class TileRuntimeError(TileError, RuntimeError):
    """An error that only a run can show, such as an index read from memory that is out of bounds."""


# Lines that were asked for, by code object and place in it, whose line number Python would have to search: a memo. None
# stands for code of this package. The code object is kept so that its id stays its own; hashing it would look at all of
# its contents.
_lines: dict[int, tuple[CodeType, dict[int, Location] | None]] = {}
# One object per place.
_locations: dict[tuple[str, int, Span | None], Location] = {}


def is_internal(filename: str) -> bool:
    """True for code of this package, which never shows in what a user sees; its library of kernels is like a user's."""
    return (filename.startswith(_PACKAGE) and not filename.startswith(_KERNELS)) or filename.startswith("<frozen")


@cache
def is_users_file(file: str) -> bool:
    """True for a file that is no part of Python, of an installed package or of this one."""
    # Not only where this Python installs: environments see packages of others (system site packages, .pth files).
    installed = file.startswith(("<", _PYTHON)) or any(part in _INSTALLED for part in Path(file).parts)
    return not (installed or is_internal(file))


def _is_library(file: str) -> bool:
    """True for code that is never at fault itself: Python's own, NumPy, torch. Other packages may have kernels."""
    inside = file.removeprefix(_PYTHON)
    return file.startswith(_NUMPY) or _TORCH in file or (inside != file and not inside.startswith(_INSTALLED))


def user_location(frame: FrameType | None = None) -> Location | None:
    """The innermost line outside this package, Python and NumPy on the call stack.

    None where that is the command line: whoever started a command is not at fault for what it finds.
    """
    frame = frame or sys._getframe(1)
    while frame is not None:
        lines = _lines_of(frame)
        if lines is not None:
            return _line_in(frame, lines)
        frame = frame.f_back
    return None


def _lines_of(frame: FrameType) -> dict[int, Location] | None:
    """The lines of a frame's code that were asked for; None for code that is never at fault."""
    code = frame.f_code
    entry = _lines.get(id(code))
    if entry is None:
        file = code.co_filename
        # The methods of dataclasses have no file of their own.
        made_here = file == "<string>" and str(frame.f_globals.get("__name__")).startswith("tilewright.")
        entry = _lines[id(code)] = (code, None if made_here or is_internal(file) or _is_library(file) else {})
    return entry[1]


def _line_in(frame: FrameType, lines: dict[int, Location]) -> Location | None:
    location = lines.get(frame.f_lasti)
    if location is None:
        if _CLICK in frame.f_code.co_filename:
            return None
        location = lines[frame.f_lasti] = place_in(frame.f_code, frame.f_lasti, frame.f_lineno)
    return location


# Lines of functions that kernels call, with the line that called them: one object each.
_called: dict[tuple[int, int], tuple[Location, Location, Location]] = {}


def called_location() -> Location | None:
    """The innermost line of the user's, with the lines that called its function up to the kernel's own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _lines_of(frame) is None:
        frame = frame.f_back
    if frame is None:
        return None
    chain = []
    while frame is not None and (lines := _lines_of(frame)) is not None:
        chain.append(_line_in(frame, lines))
        if frame.f_code.co_name == "<module>":
            # A script's own functions: no kernel called them.
            return chain[0]
        frame = frame.f_back
    if frame is None or not is_internal(frame.f_code.co_filename):
        return chain[0]
    made = chain.pop()
    while chain:
        made = _with_caller(chain.pop(), made)
    return made


def _with_caller(location: Location | None, caller: Location | None) -> Location | None:
    if location is None or caller is None:
        return location
    known = _called.get((id(location), id(caller)))
    if known is None:
        # What the ids stand for is kept, so that they stay theirs.
        made = replace(location, caller=caller)
        known = _called[(id(location), id(caller))] = (location, caller, made)
    return known[2]


def callers_of(location: Location | None) -> tuple[str, ...]:
    """Where a kernel called the function whose line is running, innermost first; nothing for another line."""
    here = called_location()
    if here is None or location is None or (here.file, here.line) != (location.file, location.line):
        return ()
    found: list[str] = []
    caller = here.caller if location.caller is None else None
    while caller is not None:
        text = linecache.getline(caller.file, caller.line).strip()
        found.append(f"called at {caller.file}:{caller.line}: {text}")
        caller = caller.caller
    return tuple(found)


def place_in(code: CodeType, instruction: int, line: int) -> Location:
    """Where an instruction of Python's stands in the source."""
    place = code.co_filename, line, _span(code, instruction, line)
    return _locations.setdefault(place, Location(*place))


def raised_at(error: BaseException) -> Location | None:
    """The line of the user's that raised an error; None when it was one of ours."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or is_internal(trace.tb_frame.f_code.co_filename):
        return None
    return place_in(trace.tb_frame.f_code, trace.tb_lasti, trace.tb_lineno)


Positions = list[tuple[int | None, int | None, int | None, int | None]]
# The code that was asked about last, and where its instructions stand: a kernel asks about most of its own.
_last: tuple[CodeType | None, Positions] = (None, [])


def _positions(code: CodeType) -> Positions:
    """Line, last line, column and last column of every instruction; nothing where Python does not keep them."""
    global _last
    if sys.version_info < (3, 11):
        return []
    known = _last
    if known[0] is not code:
        known = _last = code, list(code.co_positions())
    return known[1]


def _span(code: CodeType, instruction: int, line: int) -> Span | None:
    """The expression that an instruction of Python's belongs to, when it begins on the line that Python names."""
    positions = _positions(code)
    if not positions:
        return None
    first, last, start, stop = positions[instruction // 2]
    if first != line or last is None or start is None or stop is None:
        return None
    return Span(line, start, last, stop)


_ASSIGNMENT = re.compile(r"\s*([A-Za-z_]\w*)\s*(?::[^=]+)?=(?!=)")


def assigned_name(location: Location | None) -> str | None:
    """The variable that a line assigns to, such as `keys` in `keys = nl.ndarray(...)`; None where it is not one.

    Of what a helper made and gave back, the variable of whoever called it.
    """
    if location is None:
        return None
    column = 0 if location.span is None else location.span.column
    return _assigned(location.file, location.line, column) or assigned_name(location.caller)


@cache
def _assigned(file: str, line: int, column: int) -> str | None:
    text = linecache.getline(file, line)
    # The statement of several on a line that the place is in.
    before = text.encode()[:column].decode(errors="replace")
    found = _ASSIGNMENT.match(text, before.rfind(";") + 1)
    return found.group(1) if found else None


UNREADABLE = (SyntaxError, ValueError, MemoryError, RecursionError)
"""What Python's parser raises: also of null bytes and unknown encodings, and where brackets nest too deeply for it."""


def unreadable(code: str, what: str, file: str, error: BaseException) -> TileError:
    """The exception for a source text that Python cannot parse, at the place where it stopped."""
    reason = str(error)
    hint = "run it with Python: the same line is named there"
    where = None
    if isinstance(error, SyntaxError):
        reason, where = error.msg, Location.of_syntax(file, error)
        if "encod" in reason:
            hint = "save it as UTF-8, or name its encoding in the first line: # -*- coding: latin-1 -*-"
    elif isinstance(error, (MemoryError, RecursionError)):
        reason, hint = "it is nested too deeply for Python", "compute the long expression in several statements"
    elif "null" in reason:
        hint = "give a text file: this one holds bytes that no source text has"
    return fail(code, f"{what} does not parse: {reason}", hint=hint, location=where, error=TileSyntaxError)


def fail(
    code: str,
    message: str,
    *,
    rule: str | None = None,
    hint: str | None = None,
    location: Location | None = None,
    operands: Sequence[OperandNote] = (),
    notes: Sequence[str] = (),
    reproduction: str | None = None,
    error: Callable[[Diagnostic], TileError] = TileError,
) -> TileError:
    """Make the exception for a finding that cannot be a matter of severity (bad usage, unknown names).

    Use as `raise fail("E601", "...")`. Rule violations go through a `Reporter`, which knows the severity profile.
    """
    where = location if location is not None else user_location(sys._getframe(1))
    told = (*notes, *callers_of(where))
    return error(Diagnostic(code, message, rule, ERROR, hint, where, tuple(operands), told, reproduction))

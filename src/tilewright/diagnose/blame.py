"""Whose fault an error is: ours, when it arose in this package or in a library that this package called."""

from __future__ import annotations

import importlib.util
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType

from tilewright.errors import Location, TileError, is_internal


def is_our_fault(error: BaseException) -> bool:
    """True for a bug of ours; diagnostics, and errors of the user's own code, are none."""
    if isinstance(error, TileError):
        return False
    if isinstance(error, RecursionError) and _recurs(error):
        return False
    for frame in reversed(list(_frames(error.__traceback__))):
        file = frame.f_code.co_filename
        if is_internal(file):
            return not file.startswith("<frozen")
        if not file.startswith(_LIBRARIES):
            return False
    return False


def _recurs(error: RecursionError) -> bool:
    """Whether a function of the user's is called without end, by itself or by what it calls: then it is among the
    inner calls too, which are ours alone where we recur.
    """
    files = [frame.f_code.co_filename for frame in _frames(error.__traceback__)]
    return any(not is_internal(file) and not file.startswith(_LIBRARIES) for file in files[len(files) // 2 :])


def raised_at(error: BaseException) -> Location | None:
    """The user's line that raised an error; None when none of their files did."""
    for trace in reversed(list(_traces(error.__traceback__))):
        file = trace.tb_frame.f_code.co_filename
        if not is_internal(file) and not file.startswith(_LIBRARIES):
            return Location(file, trace.tb_lineno)
    return None


def _folder_of(package: str) -> str:
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    return str(Path(spec.origin).parent)


# Code that ours calls: an error inside it belongs to whoever called it.
_LIBRARIES = (sysconfig.get_path("stdlib"), _folder_of("numpy"), _folder_of("ml_dtypes"), "<")


def _frames(trace: TracebackType | None) -> Iterator[FrameType]:
    return (each.tb_frame for each in _traces(trace))


def _traces(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next

"""What can be compiled: a plain function that returns arrays and numbers, or writes to its arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from tilewright.dtypes import host_dtype
from tilewright.errors import Location, TileError, TileTypeError, fail
from tilewright.front.pytree import Placeholder, leaves

_NUMBERS = (Placeholder, np.ndarray, np.generic, bool, int, float, complex)
# What may stand beside arrays in a result: it holds no data that only a run knows.
_LABELS = (str, bytes, type(None), np.dtype, type, Enum, range, slice, type(Ellipsis), set, frozenset)

_KINDS: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (inspect.isgeneratorfunction, "a generator"),
    (inspect.iscoroutinefunction, "an async function"),
    (inspect.isasyncgenfunction, "an async generator"),
)


def check_function(function: Any) -> None:
    """E810 for what cannot be called, and for functions whose call computes nothing."""
    if not callable(function):
        raise fail(
            "E810",
            f"what is to be compiled is of type {type(function).__name__}, not a function",
            hint="pass the function first, then its arguments: tw.compile(f, x)",
            error=TileTypeError,
        )
    # Objects are called by their class.
    called = _inner(function) if hasattr(_inner(function), "__code__") else type(function).__call__
    for is_kind, what in _KINDS:
        if is_kind(called):
            raise _refused(function, f"{name_of(function)} is {what}", "write a function that returns arrays")


def check_result(function: Callable[..., Any], result: Any, writes: bool) -> None:
    """E810 unless a function computes something: it returns arrays or numbers, or writes to its arguments."""
    found = leaves(result)
    for path, x in found:
        if not isinstance(x, (*_NUMBERS, *_LABELS)):
            where = f" at result{path}" if path else ""
            message = f"{name_of(function)} returns an object of type {type(x).__name__}{where}"
            raise _refused(function, message, "return arrays and numbers, in tuples, lists, dicts or dataclasses")
        if isinstance(x, (np.ndarray, np.generic)) and not isinstance(x, _LABELS):
            host_dtype(x.dtype, f"what {name_of(function)} returns")
    if not writes and not any(isinstance(x, _NUMBERS) for _, x in found):
        what = "None" if result is None else f"a {type(result).__name__} without numbers"
        raise _refused(function, f"{name_of(function)} returns {what} and writes to no argument", "return an array")


def name_of(function: Callable[..., Any]) -> str:
    """How a message calls a function."""
    function = _inner(function)
    name = getattr(function, "__name__", type(function).__name__)
    return "the function" if name == "<lambda>" else str(name)


def location_of(function: Callable[..., Any]) -> Location | None:
    """Where a function is defined, if Python code defines it."""
    code = getattr(_inner(function), "__code__", None)
    return None if code is None else Location(code.co_filename, code.co_firstlineno)


def _inner(function: Any) -> Any:
    """The function that a partial or another wrapper calls in the end."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.unwrap(function)


def _refused(function: Callable[..., Any], message: str, hint: str) -> TileError:
    return fail("E810", message, hint=hint, location=location_of(function), error=TileTypeError)

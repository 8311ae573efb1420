"""NumPy's functions while a function is traced.

NumPy's protocols do not reach everything: `np.array([x, y])` or `np.mean([x, y])` of traced arrays would ask for
numbers, and nothing traced could be written into `np.zeros(4)`. While a function is traced, names of the module `numpy`
stand for functions that trace what is traced; arrays that they make are local ones (`tilewright.front.local`). Only
calls in the user's own code see a difference, and no other thread does.
"""

from __future__ import annotations

import functools
import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import tilewright.front.functions  # noqa: F401  (fills the registry)
from tilewright.errors import is_internal
from tilewright.front.local import is_traced, localised, own
from tilewright.front.refusal import unsupported
from tilewright.front.registry import FUNCTIONS, call
from tilewright.front.selection import Selection
from tilewright.front.trace import is_tracing

_LARGE = 1 << 25
"""Elements from which on an array of one number, or a triangle, is never made: the program describes it."""
_DESCRIBED = ("empty", "eye", "full", "identity", "ones", "tri", "zeros")
_UNWRITTEN = {"empty": np.zeros, "empty_like": np.zeros_like}
"""What is made instead of arrays that hold what memory does: a program and its function have to hold the same."""
_MAKERS = ("arange", "empty", "eye", "full", "identity", "linspace", "ones", "tri", "zeros")
_CONVERTERS = ("array", "asanyarray", "asarray", "ascontiguousarray", "asfortranarray", "require")
_ITERATORS = ("ndenumerate", "nditer")
# Some of NumPy's functions look for its protocols in some arguments only, and none looks into lists.
_TRACED = tuple(
    name for name, x in vars(np).items() if callable(x) and not isinstance(x, (np.ufunc, type)) and x in FUNCTIONS
)

_NUMPY = str(Path(np.__file__).parent)


_COMPARED: ContextVar[bool] = ContextVar("compared", default=False)


def _by_user(frame: FrameType) -> bool:
    """True for a call in the user's code while a function is traced or compared, not by NumPy or this package."""
    file = frame.f_code.co_filename
    return (is_tracing() or _COMPARED.get()) and not is_internal(file) and not file.startswith(_NUMPY)


def _elements(name: str, *args: Any, **kwargs: Any) -> int:
    """How many elements the array has that a call would make; 0 where its arguments do not tell, or are wrong."""
    first = [kwargs.get(key) for key in ("shape", "N", "n") if key in kwargs]
    shape: Any = args[0] if args else first[0] if first else ()
    if name in ("eye", "tri", "identity"):
        columns = kwargs.get("M", args[1] if len(args) > 1 and name != "identity" else None)
        shape = (shape, shape if columns is None else columns)
    sizes: Any = shape if isinstance(shape, (tuple, list)) else (shape,)
    return math.prod(int(n) for n in sizes) if all(isinstance(n, (int, np.integer)) for n in sizes) else 0


def _standing_for(original: Callable[..., Any]) -> Callable[..., Any]:
    """A function that traces what is traced and leaves all else to NumPy."""
    name = original.__name__
    written = _UNWRITTEN.get(name, original)

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        selects = any(isinstance(x, Selection) for x in args)  # which decides itself what can be done with it
        if selects or kwargs.get("like") is not None or not _by_user(sys._getframe(1)):
            return original(*args, **kwargs)
        if not is_tracing():
            return written(*args, **kwargs)
        if any(map(is_traced, args)) or any(map(is_traced, kwargs.values())):
            return call(original, *args, **kwargs)
        if name in _DESCRIBED and _elements(name, *args, **kwargs) >= _LARGE:
            return call(original, *args, **kwargs)
        found = written(*args, **kwargs)
        given = (*args, *kwargs.values())
        for x in given if name in _CONVERTERS else ():
            if isinstance(x, np.ndarray) and np.may_share_memory(found, x):
                return x if (found.shape, found.dtype) == (x.shape, x.dtype) else found
        return found if any(found is x for x in given) else localised(own(found, given))

    function.numpy_function = original  # type: ignore[attr-defined]
    return function


class _Joiner:
    """np.r_ and np.c_: arrays joined by what stands between brackets."""

    def __init__(self, original: Any, name: str) -> None:
        self.original = original
        self.name = name

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        if not _by_user(sys._getframe(1)) or not any(map(is_traced, items)):
            return self.original[key]
        if isinstance(items[0], str):
            raise unsupported(f"np.{self.name} with a directive", hint="use np.concatenate")
        parts = [self.original[x] if isinstance(x, slice) else call(np.atleast_1d, x) for x in items]
        if self.name == "r_":
            return call(np.concatenate, parts)
        return call(np.concatenate, [x.reshape(-1, 1) if x.ndim == 1 else x for x in parts], axis=-1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


_NAMES = dict.fromkeys((*_MAKERS, *_CONVERTERS, *_ITERATORS, *_TRACED))
_ORIGINALS: dict[str, Any] = {name: getattr(np, name) for name in (*_NAMES, "r_", "c_")}
_STANDING: dict[str, Any] = {
    **{name: _standing_for(_ORIGINALS[name]) for name in _NAMES},
    **{name: _Joiner(_ORIGINALS[name], name) for name in ("r_", "c_")},
}


class _Users:
    """How many traces are in progress, in all threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0

    def change(self, by: int) -> None:
        with self.lock:
            self.count += by
            for name, function in (_STANDING if self.count else _ORIGINALS).items():
                setattr(np, name, function)


_USERS = _Users()


@contextmanager
def compared_namespace() -> Iterator[None]:
    """Let np.empty hold zeros in the user's code, as it does in a program."""
    token = _COMPARED.set(True)
    _USERS.change(+1)
    try:
        yield
    finally:
        _USERS.change(-1)
        _COMPARED.reset(token)


@contextmanager
def traced_namespace() -> Iterator[None]:
    """Let the names of the module stand for functions that know of traced arrays, for a while."""
    _USERS.change(+1)
    try:
        yield
    finally:
        _USERS.change(-1)

"""NumPy's functions that make arrays, while a function is traced.

They are no part of NumPy's protocols: `np.array([x, y])` of traced arrays would ask for numbers, and nothing traced
could be written into `np.zeros(4)`. While a function is traced these names of the module `numpy` stand for functions
that trace what is traced and give local arrays (`tilewright.front.local`) otherwise; other threads see no difference.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import is_internal
from tilewright.front.local import is_traced, localised
from tilewright.front.registry import call
from tilewright.front.trace import is_tracing

_MAKERS = ("arange", "empty", "eye", "full", "identity", "linspace", "ones", "tri", "zeros")
_CONVERTERS = ("array", "asanyarray", "asarray", "ascontiguousarray", "asfortranarray", "require")

# NumPy looks for its protocols in the table alone, not in the indices.
_OTHERS = ("take",)

_NUMPY = str(Path(np.__file__).parent)


def _standing_for(original: Callable[..., Any], converts: bool) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        file = sys._getframe(1).f_code.co_filename
        if not is_tracing() or kwargs.get("like") is not None or is_internal(file) or file.startswith(_NUMPY):
            return original(*args, **kwargs)
        if is_traced(args) or any(map(is_traced, kwargs.values())):
            return call(original, *args, **kwargs)
        found = original(*args, **kwargs)
        if converts and isinstance(args[0] if args else None, np.ndarray) and np.may_share_memory(found, args[0]):
            return args[0] if found.shape == args[0].shape and found.dtype == args[0].dtype else found
        return localised(found)

    function.numpy_function = original  # type: ignore[attr-defined]
    return function


_STANDING = {name: _standing_for(getattr(np, name), name in _CONVERTERS) for name in (*_MAKERS, *_CONVERTERS, *_OTHERS)}
_ORIGINALS = {name: getattr(np, name) for name in _STANDING}


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
def traced_namespace() -> Iterator[None]:
    """Let the names of the module stand for functions that know of traced arrays, for a while."""
    _USERS.change(+1)
    try:
        yield
    finally:
        _USERS.change(-1)

"""Arrays of other libraries (torch, JAX, pandas, CuPy and the like): none becomes a constant without a word."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.errors import TileError, TileTypeError, fail

# What libraries declare so that others can take their arrays over; looked for on the class, as Python does.
_PROTOCOLS = ("__array__", "__array_interface__", "__array_struct__", "__cuda_array_interface__", "__dlpack__")


class Native:
    """What stands for arrays while a function is traced."""

    __slots__ = ()


_KNOWN = (Native, np.ndarray, np.generic, bool, int, float, complex, str, bytes, list, tuple, dict, slice, type)


def is_foreign(x: Any) -> bool:
    """True for an array that is not NumPy's, and for memory that can be written to, such as a bytearray."""
    if x is None or isinstance(x, _KNOWN):
        return False
    return any(hasattr(type(x), name) for name in _PROTOCOLS) or _has_memory(x)


def refuse_foreign(what: str, *arguments: Any) -> None:
    """E809 for an array of another library among arguments."""
    for x in arguments:
        if is_foreign(x):
            raise foreign_array(what, x)


def _has_memory(x: Any) -> bool:
    try:
        return not memoryview(x).readonly
    except (TypeError, ValueError):  # no buffer, or one that is closed
        return False


def foreign_array(what: str, x: Any) -> TileError:
    """The exception for an array of another library: `raise foreign_array("argument x", x)`."""
    kind = type(x)
    library = kind.__module__.partition(".")[0]
    name = kind.__name__ if library == "builtins" else f"{library}.{kind.__name__}"
    taken = "x.detach().cpu().numpy()" if library == "torch" else "np.asarray(x)"
    return fail(
        "E809",
        f"{what} is of type {name}, not an array of NumPy",
        hint=f"pass {taken}, or tw.spec",
        error=TileTypeError,
    )

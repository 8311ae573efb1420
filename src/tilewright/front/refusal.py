"""Errors of tracing: what NumPy itself refuses (in NumPy's own error class), and what tracing does not support."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from tilewright.errors import (
    Diagnostic,
    TileError,
    TileIndexError,
    TileNotImplementedError,
    TileTypeError,
    TileValueError,
    fail,
    user_location,
)

T = TypeVar("T")


class TileAxisError(TileError, np.exceptions.AxisError):
    """An axis that the array does not have."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        np.exceptions.AxisError.__init__(self, diagnostic.message)
        self.diagnostic = diagnostic

    def __str__(self) -> str:
        return str(self.diagnostic)


class TileOverflowError(TileError, OverflowError):
    """A Python number that the element type cannot hold."""


class TileLinAlgError(TileError, np.linalg.LinAlgError):
    """Matrices of shapes or values that a routine of linear algebra does not take."""


class TilePromotionError(TileTypeError, np.exceptions.DTypePromotionError):
    """Element types that have no common type."""


# The first class that an error of NumPy is an instance of decides.
_CLASSES: tuple[tuple[type[BaseException], type[TileError]], ...] = (
    (np.exceptions.AxisError, TileAxisError),
    (np.linalg.LinAlgError, TileLinAlgError),
    (IndexError, TileIndexError),
    (OverflowError, TileOverflowError),
    (ValueError, TileValueError),
    (np.exceptions.DTypePromotionError, TilePromotionError),
    (TypeError, TileTypeError),
)
_REFUSALS = tuple(each for each, _ in _CLASSES)
_SAME = "NumPy says so too: call the function on arrays, such as np.ones of these shapes, and mend it there"


def numpy_error(kind: type[BaseException], message: str) -> TileError:
    """The exception for something that NumPy refuses with `kind`: `raise numpy_error(ValueError, "...")`."""
    error = next(mine for theirs, mine in _CLASSES if issubclass(kind, theirs))
    return fail("E808", message, hint=_SAME, error=error, location=user_location())


def ask(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function of NumPy for its answer on shapes, axes or types; its errors come with the user's line."""
    try:
        return function(*args, **kwargs)
    except _REFUSALS as error:
        if isinstance(error, TileError):
            raise
        raise numpy_error(type(error), str(error)) from None


def unsupported(name: str, argument: str | None = None, why: str = "", hint: str | None = None) -> TileError:
    """The exception for a function, or an argument of it, that cannot be traced: `raise unsupported("np.unwrap")`."""
    what = f"{name} is not supported" if argument is None else f"{name}: the argument {argument} is not supported"
    return fail("E803", f"{what}{f': {why}' if why else ''}", hint=hint, error=TileNotImplementedError)


def axis_in(axis: Any, rank: int, name: str | None = None) -> int:
    """One axis as a number from 0; AxisError as NumPy's."""
    return ask(np.lib.array_utils.normalize_axis_index, axis, rank, name)


def single_axis_in(axis: Any, rank: int, method: str) -> int:
    """The axis of a method of ufuncs that goes along one: a number, a tuple of one, or None for the only one."""
    if not rank:
        raise numpy_error(TypeError, f"cannot {method} on a scalar")
    axes = axes_in(axis, rank)
    if len(axes) != 1:
        raise numpy_error(ValueError, f"{method} does not allow multiple axes")
    return axes[0]


def axes_in(axis: Any, rank: int) -> tuple[int, ...]:
    """None (all axes), an axis or several, as sorted numbers from 0; errors as NumPy's."""
    if axis is None:
        return tuple(range(rank))
    return tuple(sorted(ask(np.lib.array_utils.normalize_axis_tuple, axis, rank)))

"""What tests of tracing share: a function is traced, its graph checked, printed, read back and run, and compared.

`check(np.exp, x)` demands NumPy's result: the same structure, classes (array or scalar), shapes, element types and, if
no tolerance is given, bits. Arguments that the function writes to are compared too.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.errors import TileError
from tilewright.front.calling import arrays_of, give_back
from tilewright.front.function import Traced, trace
from tilewright.front.pytree import leaves
from tilewright.ir.core import Graph
from tilewright.ir.verify import verify
from tilewright.tensor.interpret import interpret
from tilewright.tensor.text import parse_tensor

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

# What NumPy says, beyond `np.errstate`, of results that have no value: tests ask for those on purpose.
NO_VALUE = ("Mean of empty slice", "Degrees of freedom <= 0 for slice", "All-NaN slice encountered")


@contextmanager
def quiet_numpy() -> Iterator[None]:
    """NumPy computes what is to be expected, special values included, without remarks on them."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        for remark in NO_VALUE:
            warnings.filterwarnings("ignore", remark, RuntimeWarning)
        yield


def traced(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Traced:
    """The function as a graph that verifies and whose text reads back."""
    found = trace(function, copy.deepcopy(args), copy.deepcopy(kwargs))
    assert verify(found.graph) == []
    text = str(found.graph)
    again = parse_tensor(text)
    assert str(again) == text
    assert verify(again) == []
    return found


def ops(graph: Graph) -> list[str]:
    """The names of a graph's ops, in order."""
    return [op.name for op in graph.ops]


def run(found: Traced, *args: Any, **kwargs: Any) -> Any:
    """The result of a traced function by the interpreter, in NumPy's types; arguments written to are changed."""
    arrays = arrays_of(found, args, kwargs)
    return give_back(found, arrays, interpret(found.graph, arrays))


def check(
    function: Callable[..., Any], *args: Any, rtol: float | None = None, atol: float = 0.0, **kwargs: Any
) -> Traced:
    """Trace, verify, round-trip, interpret, and compare with NumPy's own run; the trace, for further questions."""
    theirs = copy.deepcopy((list(args), kwargs))
    with quiet_numpy():
        expected = function(*theirs[0], **theirs[1])
    found = traced(function, *args, **kwargs)
    mine = copy.deepcopy((list(args), kwargs))
    actual = run(found, *mine[0], **mine[1])
    same_tree(actual, expected, rtol, atol)
    same_tree(mine, theirs, rtol, atol)
    return found


def same_tree(actual: Any, expected: Any, rtol: float | None = None, atol: float = 0.0) -> None:
    """Both trees have the same paths and equal leaves."""
    mine, theirs = leaves(actual), leaves(expected)
    assert [path for path, _ in mine] == [path for path, _ in theirs]
    for (_, x), (_, y) in zip(mine, theirs, strict=True):
        same(x, y, rtol, atol)


@np.errstate(all="ignore")
def same(actual: Any, expected: Any, rtol: float | None = None, atol: float = 0.0) -> None:
    """Equal class, shape, element type and bits (NaNs are alike); with `rtol`, values near each other."""
    if not isinstance(expected, (np.ndarray, np.generic)):
        assert type(actual) is type(expected) and actual == expected, f"{actual!r} is not {expected!r}"
        return
    assert isinstance(actual, np.ndarray) == isinstance(expected, np.ndarray), (
        f"{type(actual).__name__} instead of {type(expected).__name__}"
    )
    assert actual.dtype == expected.dtype, f"{actual.dtype} instead of {expected.dtype}"
    assert actual.shape == expected.shape, f"{actual.shape} instead of {expected.shape}"
    if rtol is not None:
        wide = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
        np.testing.assert_allclose(*wide, rtol=rtol, atol=atol)
        return
    mine, theirs = np.asarray(actual), np.asarray(expected)
    if mine.dtype.kind not in "biu":
        mine, theirs = (np.where(np.isnan(x), np.full((), np.nan, x.dtype), x) for x in (mine, theirs))
        np.testing.assert_array_equal(np.asarray(np.signbit(mine)), np.asarray(np.signbit(theirs)))
    if mine.dtype.kind not in "biu" and not issubclass(mine.dtype.type, np.floating):
        mine, theirs = mine.astype(np.float64), theirs.astype(np.float64)
    np.testing.assert_array_equal(mine, theirs)


def check_error(function: Callable[..., Any], *args: Any, **kwargs: Any) -> TileError:
    """NumPy refuses the call; tracing refuses it with NumPy's error class and a diagnostic that names this line."""
    with pytest.raises(Exception) as theirs, quiet_numpy():
        function(*copy.deepcopy(args), **copy.deepcopy(kwargs))
    kind = next(each for each in type(theirs.value).__mro__ if each.__module__ != "numpy._core._exceptions")
    with pytest.raises(kind) as mine:
        trace(function, args, kwargs)
    assert isinstance(mine.value, TileError), f"{type(mine.value).__name__}: {mine.value}"
    assert mine.value.diagnostic.location is not None
    return mine.value


def refused(code: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> TileError:
    """Tracing refuses the call with a code of the catalogue, at a line of the caller's."""
    with pytest.raises(TileError) as mine:
        trace(function, args, kwargs)
    assert mine.value.diagnostic.code == code, str(mine.value)
    location = mine.value.diagnostic.location
    assert location is not None and "tilewright/" not in location.file.replace("\\", "/").split("src/")[-1]
    return mine.value

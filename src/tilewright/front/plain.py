"""A traced function as NumPy runs it, beside a call of its kernel: its results by output of the graph.

The caller's arrays stay as they are: those that are written to are copied, and NumPy lets no one write to the others.
What the function prints meanwhile is dropped, and NumPy's and Python's global random generators are put back. Other
traces that a call leaves (files, counters) it leaves again.
"""

from __future__ import annotations

import io
import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from typing import Any

import numpy as np

from tilewright.front.binding import Bound
from tilewright.front.function import Input, Output, Traced, trace
from tilewright.front.namespace import compared_namespace
from tilewright.front.pytree import leaves, map_leaves
from tilewright.ir.fingerprint import fingerprint

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

_PLAIN: ContextVar[bool] = ContextVar("plain", default=False)


class OtherResult(Exception):
    """NumPy gives another kind of result than tracing did: other leaves, shapes, or no arrays."""


class NotRun(Exception):
    """NumPy does not run the function on these arguments: it raises what this one says."""


def is_plain() -> bool:
    """True while a function runs under NumPy alone: functions of `tw.jit` that it calls are not compiled then."""
    return _PLAIN.get()


def outputs_by_numpy(traced: Traced, arrays: Sequence[np.ndarray], widest: np.dtype | None = None) -> list[np.ndarray]:
    """What the function gives and what it leaves in arguments, for arrays by input of the graph.

    widest: a type that narrower floats are passed as. OtherResult where the result cannot be compared, NotRun where
    there is none.
    """
    written = {place for place, _ in traced.writes}
    copies = [_aside_of(x, widest, place in written) for place, x in enumerate(arrays)]
    result = _called(traced, copies)
    found: dict[int, np.ndarray] = {}
    wanted, given = leaves(traced.result), leaves(result)
    if [path for path, _ in wanted] != [path for path, _ in given]:
        raise OtherResult(f"it returns {_names(given)} and returned {_names(wanted)} when it was traced")
    for (path, x), (_, y) in zip(wanted, given, strict=True):
        if isinstance(x, Output):
            found[x.place] = _as_output(path, x, y, widest is not None)
    for place, output in traced.writes:
        found[output] = copies[place]
    return [found[place] for place in range(len(found))]


def is_narrow(dtype: np.dtype, beside: np.dtype = FLOAT32) -> bool:
    """True for floats of fewer bits than those of a type, by default float32."""
    return dtype.itemsize < beside.itemsize and dtype.kind not in "biu"


def is_same_program(traced: Traced, arrays: Sequence[np.ndarray]) -> bool:
    """Whether the function, traced again, is the program that it was; it is not where other things decide about it."""
    with _aside():
        bound = _bound(traced, arrays)
        args, kwargs = bound.args(bound.arguments), bound.kwargs(bound.arguments)
        again = trace(traced.function, args, kwargs, traced.prepare)
    return fingerprint(again.graph) == fingerprint(traced.graph)


def _bound(traced: Traced, arrays: Sequence[np.ndarray]) -> Bound:
    filled = map_leaves(traced.arguments, lambda _, x: arrays[x.place] if isinstance(x, Input) else x)
    return Bound(filled, traced.positional)


def _called(traced: Traced, arrays: Sequence[np.ndarray]) -> Any:
    bound = _bound(traced, arrays)
    try:
        with _aside(), compared_namespace(), np.errstate(all="ignore"):
            return traced.function(*bound.args(bound.arguments), **bound.kwargs(bound.arguments))
    except Exception as error:
        raise NotRun(f"{type(error).__name__}: {error}") from error


@contextmanager
def _aside() -> Iterator[None]:
    """A call that is not the user's own: nothing is printed, and global generators go on as if it had not been."""
    token = _PLAIN.set(True)
    numpy_state, python_state = np.random.get_state(), random.getstate()
    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        np.random.set_state(numpy_state)
        random.setstate(python_state)
        _PLAIN.reset(token)


def _as_output(path: str, output: Output, x: Any, is_widened: bool) -> np.ndarray:
    if not isinstance(x, (np.ndarray, np.generic, int, float)):
        raise OtherResult(f"its result{path} is a {type(x).__name__}")
    array = np.asarray(x)
    same = array.dtype == output.type.dtype.np or is_widened or not isinstance(x, (np.ndarray, np.generic))
    if array.shape != output.type.shape or not same:
        found = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
        raise OtherResult(f"its result{path} is {found}, and was {output.type} when it was traced")
    return array


def _names(found: Sequence[tuple[str, Any]]) -> str:
    return ", ".join(f"result{path}" for path, _ in found) or "nothing"


def _aside_of(x: np.ndarray, widest: np.dtype | None, is_written: bool) -> np.ndarray:
    """An argument that the function may have: a copy, or the array itself where it is only read; NumPy sees to that."""
    if widest is not None and is_narrow(x.dtype, widest):
        return _copied(x, widest)
    if is_written:
        return _copied(x, x.dtype)
    view = x.view()
    view.flags.writeable = False
    return view


def _copied(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A copy that lies in memory as the array does: what is a view of it decides what the function writes to."""
    if x.flags.c_contiguous or not x.size or any(step % x.itemsize for step in x.strides):
        return np.array(x, dtype, order="C")
    steps = [step // x.itemsize for step in x.strides]
    reach = [(n - 1) * step for n, step in zip(x.shape, steps, strict=True)]
    start = -sum(each for each in reach if each < 0)
    memory = np.zeros(start + sum(each for each in reach if each > 0) + 1, dtype)
    made = np.lib.stride_tricks.as_strided(memory[start:], x.shape, [step * dtype.itemsize for step in steps])
    made[...] = x
    return made

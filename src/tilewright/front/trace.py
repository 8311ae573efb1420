"""The trace in progress: the graph that a NumPy function is being written into."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from tilewright.errors import fail, user_location
from tilewright.ir.build import Builder
from tilewright.ir.core import CONSTANTS, Graph, Op, Value
from tilewright.tensor.build import make
from tilewright.tensor.record import OpRecord
from tilewright.tensor.text import TENSOR


class Trace:
    """A graph that grows while a function runs on traced arrays.

    has_locals: the function made arrays of its own (`tilewright.front.local`).
    taken: the memory of those that traced data was written into, which holds nothing of use any more.
    written: the cells that something was assigned to, even if it was no element.
    caller: takes calls of kernels on traced arrays. keeps_compiled: those of compiled functions too, which are traced
    as a part of the function otherwise. reader: gives the numbers of an array to the host, if it can.
    unwritten: ops that give a number to elements that NumPy leaves as memory has them.
    """

    __slots__ = (
        "builder",
        "caller",
        "graph",
        "has_locals",
        "keeps_compiled",
        "reader",
        "taken",
        "unwritten",
        "written",
    )

    def __init__(self, name: str, inputs: Sequence[Value] = ()) -> None:
        self.graph = Graph(name, inputs, dialect=TENSOR)
        self.builder = Builder(self.graph, locate=user_location)
        self.has_locals = False
        self.taken: list[np.ndarray] = []
        self.written: set[Any] = set()
        self.caller: Callable[[Any, Sequence[Any], dict[str, Any]], Any] | None = None
        self.keeps_compiled = False
        self.reader: Callable[[Value], np.ndarray | None] | None = None
        self.unwritten: set[Op] = set()


_CURRENT: ContextVar[Trace | None] = ContextVar("trace", default=None)


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """Write ops into `trace` for a while."""
    token = _CURRENT.set(trace)
    try:
        yield trace
    finally:
        _CURRENT.reset(token)


def is_tracing() -> bool:
    """True while a function is being traced."""
    return _CURRENT.get() is not None


def current() -> Trace:
    """The trace in progress."""
    trace = _CURRENT.get()
    if trace is None:
        raise fail(
            "E807",
            "a traced array is used although no function is being traced",
            hint="return arrays from the function instead of keeping them in globals or attributes",
        )
    return trace


def _plain(x: Any) -> Any:
    """An operand as the IR holds it: a value, or a number of exactly Python's classes."""
    if isinstance(x, Value) or x.__class__ in CONSTANTS:
        return x
    # A traced array, or a NumPy scalar.
    return x.value if hasattr(x, "value") else x.item()


def emit(op: OpRecord | str, *operands: Any, **attrs: Any) -> Value:
    """Add an op with one result to the current trace. Operands are values, traced arrays or Python numbers."""
    return current().builder.insert(make(op, *map(_plain, operands), **attrs)).result


def emit_all(op: OpRecord | str, *operands: Any, **attrs: Any) -> Sequence[Value]:
    """Add an op to the current trace; all of its results."""
    return current().builder.insert(make(op, *map(_plain, operands), **attrs)).results


def emit_unwritten(op: OpRecord | str, *operands: Any, **attrs: Any) -> Value:
    """The same as `emit` for an op whose only number stands for what NumPy leaves as memory has it."""
    made = emit(op, *operands, **attrs)
    assert made.producer is not None
    current().unwritten.add(made.producer)
    return made

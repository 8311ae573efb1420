"""Running a tensor graph on NumPy: every op by its own meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.errors import TileError
from tilewright.ir.core import Graph, Op, Value

Known = dict[Value, np.ndarray]
"""The values that a run has computed and still needs."""


def interpret(
    graph: Graph,
    arrays: Sequence[np.ndarray],
    compute: Callable[[Op, Known], tuple[np.ndarray, ...]] | None = None,
) -> list[np.ndarray]:
    """The outputs of a graph for arrays of its inputs' types. Values are dropped after their last use.

    compute: another way to run an op than by its meaning.
    """
    compute = run_op if compute is None else compute
    assert len(arrays) == len(graph.inputs), f"{graph.name} takes {len(graph.inputs)} arrays, not {len(arrays)}"
    known: Known = dict(zip(graph.inputs, arrays, strict=True))
    left = {v: len(v.uses) for op in graph.ops for v in op.results} | {v: len(v.uses) for v in graph.inputs}
    with np.errstate(all="ignore"):
        for op in graph.ops:
            known.update(zip(op.results, compute(op, known), strict=True))
            for value in op.values():
                left[value] -= 1
                if not left[value]:
                    del known[value]
    return [known[v] for v in graph.outputs]


def run_op(op: Op, known: Known) -> tuple[np.ndarray, ...]:
    """The results of one op, each of exactly the type the op says. What it refuses is reported at the op's own line."""
    try:
        found = op.definition.meaning(*operands_of(op, known), **op.attrs)
    except TileError as error:
        located = replace(error.diagnostic, location=op.location or error.diagnostic.location)
        raise error.__class__(located) from None
    results = found if isinstance(found, tuple) else (found,)
    arrays = tuple(np.asarray(x) for x in results)
    for value, array in zip(op.results, arrays, strict=True):
        type = value.type
        assert array.shape == type.shape and array.dtype == type.dtype.np, (
            f"{op.name} gave {array.dtype}{array.shape}, its type is {type}"
        )
    return arrays


def operands_of(op: Op, known: Known) -> list[Any]:
    """Arrays of an op's operands. A Python number becomes a scalar of the element type of the other operands."""
    dtype = next((x.type.dtype.np for x in reversed(op.operands) if isinstance(x, Value)), None)
    return [
        known[x] if isinstance(x, Value) else x if dtype is None else np.asarray(x).astype(dtype) for x in op.operands
    ]

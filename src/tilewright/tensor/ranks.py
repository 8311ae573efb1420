"""Running a tensor graph on NumPy for several ranks in step: the meaning of programs with collectives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.errors import TileValueError, fail
from tilewright.ir.core import Graph, Op, Value
from tilewright.tensor.interpret import run_op


def interpret_ranks(graph: Graph, arrays: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
    """The outputs of a graph on every rank; `arrays[r]` are the inputs of rank r."""
    ranks: list[dict[Value, np.ndarray]] = [dict(zip(graph.inputs, given, strict=True)) for given in arrays]
    with np.errstate(all="ignore"):
        for op in graph.ops:
            if op.definition.family == "collective":
                results = _exchange(op, ranks)
            else:
                results = [run_op(op, known) for known in ranks]
            for known, found in zip(ranks, results, strict=True):
                known.update(zip(op.results, found, strict=True))
    return [[known[value] for value in graph.outputs] for known in ranks]


def check_ranks(op: Op, count: int) -> None:
    """E108 unless arrays of as many ranks are given as a collective is among."""
    if count != op.attrs["world"]:
        raise fail(
            "E108",
            f"{op.name} is among {op.attrs['world']} ranks, arrays of {count} are given",
            location=op.location,
            error=TileValueError,
        )


def _exchange(op: Op, ranks: Sequence[dict[Value, np.ndarray]]) -> list[tuple[np.ndarray]]:
    check_ranks(op, len(ranks))
    found = op.definition.meaning(tuple(known[op.operands[0]] for known in ranks), **op.attrs)
    for array in found:
        assert array.shape == op.result.type.shape, f"{op.name} gave {array.shape}, its type is {op.result.type}"
    return [(array,) for array in found]

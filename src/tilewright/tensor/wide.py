"""A tensor graph in float64: what it gives when hardly anything is rounded, to tell how far off other results are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import DType, float64
from tilewright.ir.core import Graph, Op
from tilewright.tensor.interpret import Known, interpret, operands_of, run_op

OWN_TYPE = frozenset({"bitcast", "spacing", "nextafter"})
"""Ops that are about the bits of their operands: float64 has others."""


def interpret_wide(graph: Graph, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a graph with every float a float64; integers and truth values have their own types."""
    return interpret(graph, [widened(x) for x in arrays], run_wide)


def run_wide(op: Op, known: Known) -> tuple[np.ndarray, ...]:
    """The results of one op for floats that are float64. Constants are the numbers that they are, casts change none."""
    if op.name in OWN_TYPE:
        with np.errstate(all="ignore"):
            narrow = {value: known[value].astype(value.type.dtype.np, copy=False) for value in op.values()}
        return tuple(widened(x) for x in run_op(op, narrow))
    attrs = {name: _wide_attr(x) for name, x in op.attrs.items()}
    found = op.definition.meaning(*operands_of(op, known), **attrs)
    results = found if isinstance(found, tuple) else (found,)
    return tuple(
        np.asarray(x).astype(_type_of(value.type.dtype), copy=False)
        for x, value in zip(results, op.results, strict=True)
    )


def widened(x: np.ndarray) -> np.ndarray:
    """An array of floats as float64; others stay as they are."""
    return x if x.dtype.kind in "biu" else x.astype(np.float64, copy=False)


def _type_of(dtype: DType) -> np.dtype:
    return np.dtype(np.float64) if dtype.is_float else dtype.np


def _wide_attr(x: Any) -> Any:
    return float64 if isinstance(x, DType) and x.is_float else x

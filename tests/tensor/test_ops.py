"""Every op of the table: its record is complete, and ops that NumPy has under the same name give NumPy's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.tensor.ops  # noqa: F401  (fills the table)
from tilewright.ir.build import Builder
from tilewright.ir.core import Graph, Value
from tilewright.ir.verify import check
from tilewright.tensor.build import emit_all
from tilewright.tensor.interpret import interpret
from tilewright.tensor.record import FAMILIES, TABLE, OpRecord
from tilewright.tensor.text import TENSOR, parse_tensor
from tilewright.tensor.types import type_of

SHAPES: list[tuple[int, ...]] = [(), (5,), (3, 1), (2, 3, 4), (0, 2), (1, 7, 1, 2)]
# ldexp has operands of two types in NumPy, of one here.
SAME_NAME = [
    record
    for record in TABLE.values()
    if record.family == "elementwise"
    and record.name != "ldexp"
    and isinstance(getattr(np, record.name, None), np.ufunc)
]


@pytest.mark.parametrize("record", TABLE.values(), ids=lambda record: record.name)
def test_records(record: OpRecord):
    assert record.family in FAMILIES and "=" in record.equation.splitlines()[0]
    assert len(set(record.operands)) == len(record.operands) and not set(record.attrs) & set(record.operands)


def run(name: str, *arrays: np.ndarray, **attrs: Any) -> list[np.ndarray]:
    """A graph of one op, verified, read back from its text and run."""
    graph = Graph("one", [Value(type_of(a)) for a in arrays], dialect=TENSOR)
    graph.outputs = emit_all(Builder(graph), name, *graph.inputs, **attrs)
    check(graph)
    again = parse_tensor(str(graph))
    assert str(again) == str(graph)
    return interpret(again, arrays)


def computes_in(function: np.ufunc, dtype: np.dtype) -> bool:
    """True when NumPy computes in the type itself; else a front end casts first."""
    try:
        types = function.resolve_dtypes((dtype,) * function.nin + (None,) * function.nout)
    except TypeError:
        return False
    return types[0] == dtype


@pytest.mark.req("S4-06")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("record", SAME_NAME, ids=lambda record: record.name)
def test_elementwise_ops_are_numpys(record: OpRecord, shape: tuple[int, ...]):
    """New values of NumPy's shape, type and bits; operands stay as they are."""
    rng = np.random.default_rng(len(shape))
    function: np.ufunc = getattr(np, record.name)
    other = tuple(n if place % 2 else 1 for place, n in enumerate(shape))
    for dtype in ("bool", "uint8", "int32", "float16", "float32", "float64"):
        if not computes_in(function, np.dtype(dtype)):
            continue
        arrays = [rng.integers(1, 7, each).astype(dtype) for each in (shape, other)[: function.nin]]
        before = [a.copy() for a in arrays]
        with np.errstate(all="ignore"):
            wanted = function(*arrays)
        found = run(record.name, *arrays)
        for one, each in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            np.testing.assert_array_equal(one, each)
            assert one.dtype == each.dtype and one.shape == each.shape
        for one, each in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(one, each)

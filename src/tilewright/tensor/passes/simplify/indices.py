"""Indices that are known, or follow on each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.ir.dense import Dense
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import make, value
from tilewright.tensor.interpret import run_op
from tilewright.tensor.passes.match import maker
from tilewright.tensor.passes.simplify.slices import Box


def _known(x: Any) -> np.ndarray | None:
    """The numbers of an index that is a constant."""
    op = maker(x, "constant", "iota", "full")
    return None if op is None else run_op(op, {})[0]


@rule("checked_index")
def check_known_index(op: Op) -> Any:
    """checked_index(constant) -> constant, negative ones counted from the end        where all are in range"""
    (index,) = op.operands
    known, size = _known(index), op.attrs["size"]
    if known is None or not known.size or known.min() < -size or known.max() >= size:
        return None
    if known.min() >= 0:
        return index
    return make("constant", value=Dense(np.where(known < 0, known + size, known).astype(known.dtype), index.type.dtype))


@rule("take")
def take_of_ramp(op: Op) -> Any:
    """take(x, [a, a + s, a + 2 s, ...]) -> slice(x, from a by s)        where all are in range"""
    x, index = op.operands
    known, axis = _known(index), op.attrs["axis"]
    if known is None or known.ndim > 1 or not known.size or known.min() < 0 or known.max() >= x.type.shape[axis]:
        return None
    line = known.ravel().astype(np.int64)
    step = int(line[1] - line[0]) if line.size > 1 else 1
    if step == 0 or (np.diff(line) != step).any():
        return None
    starts, sizes, steps = [0] * x.type.rank, list(x.type.shape), [1] * x.type.rank
    starts[axis], sizes[axis], steps[axis] = int(line[0]), line.size, step
    found = Box(tuple(starts), tuple(sizes), tuple(steps)).of(x)
    return found if found.type == op.result.type else value("reshape", found, shape=op.result.type.shape)

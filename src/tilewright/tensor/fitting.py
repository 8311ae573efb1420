"""Whether the 64-bit integers of a program fit the 32 bits in which they are computed, for given arguments, and
integers the floats that they become where that has to be exact.

`check_integers` raises E805 where one does not. Intervals decide most of it: from the least and greatest elements of
the arguments follows between which numbers every value lies. Only what they leave open is computed, exactly and with
NumPy, along with what it is made of.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.ir.core import Op, Value
from tilewright.tensor.intervals import Interval, interval_of_array, interval_of_type, intervals_of
from tilewright.tensor.passes.narrow import Narrowed
from tilewright.tensor.passes.wholes import HELD


def check_integers(program: Narrowed, arrays: Sequence[np.ndarray]) -> None:
    """E805 for integers that do not fit; `arrays` are the arguments, in the program's own types."""
    if not program.wide and not program.exact:
        return
    pending = open_ops(program, arrays)
    if pending:
        _follow(program, arrays, pending)


def open_ops(program: Narrowed, arrays: Sequence[np.ndarray]) -> list[Op]:
    """The ops of which intervals do not tell that their results fit."""
    known: dict[Value, Interval] = {}
    for value, array in zip(program.graph.inputs, arrays, strict=True):
        known[value] = interval_of_array(array)
    found: list[Op] = []
    for op in program.graph.ops:
        original = program.wide.get(op, op)
        intervals = intervals_of(original, [known[x] if isinstance(x, Value) else x for x in op.operands])
        for value, interval in zip(op.results, intervals, strict=True):
            fits = interval_of_type(value.type.dtype)
            if op in program.wide and value.type.dtype.is_integer and not interval.is_inside(fits):
                if op not in found:
                    found.append(op)
                # Once it was followed, it is known to fit.
                interval = interval.within(fits)
            known[value] = interval
        if op in program.exact and op not in found and not known[op.operands[0]].is_inside(HELD):
            found.append(op)
    return found


def _follow(program: Narrowed, arrays: Sequence[np.ndarray], pending: list[Op]) -> None:
    """Compute some ops exactly, and what they need; each is checked on the way."""
    needed: set[Op] = set()
    stack = list(pending)
    while stack:
        op = stack.pop()
        if op not in needed:
            needed.add(op)
            stack += [x.producer for x in op.values() if x.producer is not None]
    program.follow(arrays, needed)

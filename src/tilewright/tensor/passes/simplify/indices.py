"""Indices that are known, or follow on each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.ir.core import Op, Value
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


@rule("checked_index")
def check_once(op: Op) -> Any:
    """checked_index(checked_index(i)) -> checked_index(i)        of no more places; also of bounded_index(i)"""
    (index,) = op.operands
    before = maker(index, "checked_index", "bounded_index")
    return index if before is not None and before.attrs["size"] <= op.attrs["size"] else None


@rule("take")
def take_of_ramps(op: Op) -> Any:
    """take(x, [a, a + s, a + 2 s, ...]) -> slice(x, from a by s)        several in turn, or one after the other, too"""
    x, index = op.operands
    known, axis = _known(index), op.attrs["axis"]
    if known is None or not known.size or known.min() < 0 or known.max() >= x.type.shape[axis]:
        return None
    line = known.ravel().astype(np.int64)
    found = _in_turn(line)
    if found is None:
        return None
    turns, rest = found
    phases = [_joined([_ramp(x, axis, *ramp) for ramp in ramps], axis) for ramps in turns]
    if len(phases) > 1:
        shape = x.type.shape
        count = phases[0].type.shape[axis]
        apart = (*shape[:axis], count, 1, *shape[axis + 1 :])
        together = (*shape[:axis], count * len(phases), *shape[axis + 1 :])
        phases = [_joined([value("reshape", each, shape=apart) for each in phases], axis + 1)]
        phases = [value("reshape", phases[0], shape=together)] if rest else phases
    made = _joined([*phases, *(_ramp(x, axis, *ramp) for ramp in rest)], axis)
    return made if made.type == op.result.type else value("reshape", made, shape=op.result.type.shape)


Ramp = tuple[int, int, int]
"""First number, how many, step."""

MOST_TURNS = 8
FEW_RAMPS, MOST_RAMPS = 4, 16
LEAST_RAMP = 16
"""A gather is made of ramps where they are few, or not many and have as many numbers each on the average."""


def _in_turn(line: np.ndarray) -> tuple[list[list[Ramp]], list[Ramp]] | None:
    """Numbers as ramps that take turns, with the fewest of them, and what is left behind the last turn; None where they
    are many."""
    found = min((_turns(line, p) for p in range(1, min(MOST_TURNS, line.size) + 1)), key=_count)
    return found if _count(found) <= max(FEW_RAMPS, min(line.size // LEAST_RAMP, MOST_RAMPS)) else None


def _turns(line: np.ndarray, period: int) -> tuple[list[list[Ramp]], list[Ramp]]:
    whole = line.size - line.size % period
    return [_ramps(line[i:whole:period]) for i in range(period)], _ramps(line[whole:])


def _count(found: tuple[list[list[Ramp]], list[Ramp]]) -> int:
    turns, rest = found
    return sum(map(len, turns)) + len(rest)


def _ramps(line: np.ndarray) -> list[Ramp]:
    """Numbers as ramps, each as long as it gets; no more of them than tell that they are many."""
    found: list[Ramp] = []
    steps = np.diff(line)
    turns = np.flatnonzero(np.diff(steps)) + 1
    at = 0
    while at < line.size and len(found) <= MOST_RAMPS:
        step = int(steps[at]) if at < steps.size else 1
        after = int(np.searchsorted(turns, at, side="right"))
        count = int(turns[after]) + 1 - at if after < turns.size else line.size - at
        found.append((int(line[at]), count, step if count > 1 else 1))
        at += count
    return found


def _ramp(x: Value, axis: int, start: int, count: int, step: int) -> Value:
    starts, sizes, steps = [0] * x.type.rank, list(x.type.shape), [1] * x.type.rank
    starts[axis], sizes[axis], steps[axis] = start, count if step else 1, step or 1
    found = Box(tuple(starts), tuple(sizes), tuple(steps)).of(x)
    sizes[axis] = count
    return found if step else value("broadcast_to", found, shape=tuple(sizes))


def _joined(parts: Sequence[Value], axis: int) -> Value:
    return parts[0] if len(parts) == 1 else value("concatenate", *parts, axis=axis)

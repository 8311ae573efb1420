"""The lineage of one element: the instructions that it came through, back to the arguments, in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.provenance.cells import Cells
from tilewright.provenance.tape import Step, Tape
from tilewright.sim.flow import flow
from tilewright.tile.record import LANES

DEEPEST = 5
"""Instructions behind each other that are told."""


def lineage(tape: Tape, cells: Cells, position: int, before: int | None = None) -> str:
    """`dma_copy (k.py:14) of tensor_tensor (k.py:13) of dma_copy (k.py:11) of x[281, 47]`, of an element of a tensor.

    before: how many instructions had run then; all of them when it is not said.
    """
    return _told(tape, cells, position, len(tape.steps) if before is None else before, 0)


def makers(tape: Tape, number: int, place: int, at: int) -> list[Step]:
    """The instructions that computed what an element of a result was made of; what was only loaded has none."""
    step = tape.steps[number]
    if not step.kept:
        return []
    found: list[Step] = []
    for cells, element in _ancestors(step, place, at):
        writer = _writer(tape, cells, element, number)
        if writer is not None and "dma" not in tape.steps[writer[0]].record.engines:
            found.append(tape.steps[writer[0]])
    return list(dict.fromkeys(found))


def _told(tape: Tape, cells: Cells, position: int, before: int, depth: int) -> str:
    found = _writer(tape, cells, position, before)
    if found is None:
        return _outside(cells, position)
    number, place, at = found
    step = tape.steps[number]
    name = f"{step.op.name} ({step.op.location})" if step.op.location is not None else step.op.name
    if depth + 1 >= DEEPEST or not step.kept:
        return name
    parts: list[str] = []
    for each, element in _ancestors(step, place, at):
        told = _told(tape, each, element, number, depth + 1)
        # Sums over rounds of a loop: one round tells as much as all of them.
        if told not in parts and not told.startswith(name):
            parts.append(told)
    return f"{name} of {' and '.join(parts)}" if parts else name


def _writer(tape: Tape, cells: Cells, position: int, before: int) -> tuple[int, int, int] | None:
    """Who wrote an element last: instruction, which of its results, which element of that."""
    address = cells.addresses.reshape(-1)[position : position + 1]
    for number, place in reversed(tape.writes.get(cells.home, [])):
        target = tape.steps[number].targets[place] if number < before else None
        at = -1 if target is None else int(target.covering(address)[0])
        if at >= 0:
            return number, place, at
    return None


def _outside(cells: Cells, position: int) -> str:
    """An element that no instruction wrote: one of an argument."""
    buffer = None if cells.view is None else cells.view.buffer
    if buffer is None:
        return cells.name
    element = (int(cells.addresses.reshape(-1)[position]) - cells.home) // cells.itemsize
    inside = 0 <= element < int(np.prod(buffer.shape))
    index = [int(i) for i in np.unravel_index(element, buffer.shape)] if inside else ""
    return f"{cells.name}{index}"


def _ancestors(step: Step, place: int, at: int) -> list[tuple[Cells, int]]:
    """The elements of what an instruction read that an element of its result is made of, one of each operand."""
    shape = np.shape(step.outputs[place])
    found: list[tuple[Cells, int]] = []
    for value, cells in zip(step.inputs, step.sources, strict=True):
        for each, where in zip(value, cells, strict=True) if isinstance(cells, list) else [(value, cells)]:
            if where is not None and each is not None:
                found.append((where, _element(step, np.atleast_1d(np.asarray(each)), shape, at)))
    return found


def _element(step: Step, value: np.ndarray, shape: tuple[int, ...], at: int) -> int:
    size = int(np.prod(shape, dtype=np.int64))
    if step.record.flow == "movement" and len(step.inputs) == 1:
        origin = _origin(step, value, at)
        if origin is not None:
            return origin
    if value.size == size and step.record.flow != LANES:
        return at
    rows = shape[0] if shape else 1
    if value.shape[0] == rows and size:
        # A value per partition, or a whole row of which the first element stands for all.
        return at // (size // rows) * (value.size // rows)
    return 0


def _origin(step: Step, value: np.ndarray, at: int) -> int | None:
    codes: Any = np.arange(1, value.size + 1, dtype=np.int32).reshape(value.shape)
    origins = np.asarray(flow(step.record, step.inputs, [codes], step.arguments)).reshape(-1)
    return int(origins[at]) - 1 if at < origins.size and origins[at] > 0 else None

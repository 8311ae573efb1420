"""What a run was doing when it found a bad value: where the value stands, so that its history can be looked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import Location
from tilewright.ir.core import Value
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.sim.machine import Machine


@dataclass(frozen=True, slots=True)
class Evidence:
    """Bad elements that a diagnostic is about.

    parts: accesses and which of their elements are bad; a register is bad as a whole (None). limit: valid indices are
    below it; None where nothing is an index. core, clock: the executed instruction that found them, before which they
    were made.
    """

    rule: str
    location: Location | None
    core: int
    clock: int
    parts: tuple[tuple[View | Value, np.ndarray | None], ...]
    limit: int | None


def note_inputs(machine: Machine, rule: str, bad: tuple[str, int] | None, wrong: np.ndarray | None = None) -> None:
    """Evidence of what the present instruction reads, where that breaks a rule.

    bad: the operand with indices, and the limit that they are not below; else whatever is not finite, or `wrong`.
    """
    name, limit = bad or (None, None)
    parts = tuple(_bad_inputs(machine, name, limit))
    if not parts and wrong is not None:
        parts = tuple(_wrong_input(machine, wrong))
    if parts:
        machine.evidence.append(Evidence(rule, machine.location, machine.core, machine.clock, parts, limit))


def _bad_inputs(machine: Machine, name: str | None, limit: int | None) -> Iterator[tuple[View, np.ndarray]]:
    assert machine.op is not None
    record = machine.op.definition
    named = dict(zip(record.operands, machine.op.operands, strict=False))
    for operand in [named[name]] if name is not None else [named.get(each) for each in record.reading]:
        if not isinstance(operand, View) or operand.dynamic is not None:
            continue
        values = machine.storage[operand.buffer].array(operand, machine.offset_of(operand))
        if limit is not None:
            wrong = (values < 0) | (values >= limit)
        elif values.dtype.kind in "iub":
            continue
        else:
            wrong = ~np.isfinite(values.astype(np.float32, copy=False))
        if wrong.any():
            yield operand, wrong


def _wrong_input(machine: Machine, wrong: np.ndarray) -> Iterator[tuple[View, np.ndarray]]:
    """The operand that is read first, where its elements are those that are marked."""
    assert machine.op is not None
    record = machine.op.definition
    operand = dict(zip(record.operands, machine.op.operands, strict=False)).get(record.reading[0])
    if isinstance(operand, View) and operand.dynamic is None:
        values = machine.storage[operand.buffer].array(operand, machine.offset_of(operand))
        if values.size == wrong.size:
            yield operand, wrong.reshape(values.shape)

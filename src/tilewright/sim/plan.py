"""Plans: what executions of equal instructions share, found out once.

Instructions with one ruling have the same attributes, and operands of the same kinds, types and layouts: what a run
does with each operand, and what the meaning gets besides, is the same for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.ir.core import Op
from tilewright.sim.machine import Machine
from tilewright.tile.conflicts import Pair, pairs_of
from tilewright.tile.record import Record
from tilewright.tile.verdict import Ruling
from tilewright.tile.view import View


@dataclass(frozen=True, slots=True)
class Plan:
    """How an instruction runs.

    count: how many operands the meaning gets; those that are absent are None.
    reads: the tensors among them: (place in what the meaning gets, position in the op, flatten to [P, F], refuse
    unwritten elements). listed: the same of a list of tensors. numbers: numbers and registers: (place, position).
    others: there is a list or a number.
    arguments: what the meaning gets after them. skip: out-of-bounds indices are passed over; those of the operands at
    `lanes`. unique: run-time indices of the destination are required to differ.
    pairs: operands that may lie over each other; near: the positions of those that are operands themselves, and whether
    they may share storage without being views of one buffer. indexed: some are tiles of indices. harmless: where those
    of one buffer were found to lie without disturbing each other.
    """

    count: int
    reads: tuple[tuple[int, int, bool, bool | str], ...]
    listed: tuple[int, int, bool | str] | None
    numbers: tuple[tuple[int, int], ...]
    others: bool
    arguments: dict[str, Any]
    skip: bool
    lanes: tuple[int, ...]
    unique: bool
    pairs: tuple[Pair, ...]
    near: tuple[tuple[int, int, bool], ...]
    indexed: bool
    harmless: set[tuple[int, ...]]


def plan_of(machine: Machine, op: Op, ruling: Ruling) -> Plan:
    """The plan of an instruction."""
    plan = machine.plans.get(ruling)
    if plan is None:
        plan = _make(machine, op, ruling.engine)
        # How storage that is not precise holds elements depends on more than a ruling does.
        if ruling.shared and machine.precise:
            machine.plans[ruling] = plan
    return plan


def _make(machine: Machine, op: Op, engine: str) -> Plan:
    record: Record = op.definition
    reads: list[tuple[int, int, bool, bool | str]] = []
    numbers: list[tuple[int, int]] = []
    listed: tuple[int, int, bool | str] | None = None
    for place, (position, many, flat, strict) in enumerate(record.steps):
        refuse = strict(op.attrs) if callable(strict) else strict
        operand = op.operands[position]
        if many:
            listed = (place, position, refuse)
        elif isinstance(operand, View):
            reads.append((place, position, flat and operand.ndim != 2, refuse))
        elif operand is not None:
            numbers.append((place, position))
    skip = op.attrs.get("oob_mode") == "skip"
    read = [position for _, position, _, _ in reads]
    if listed is not None:
        read += range(listed[1], len(op.operands))
    pairs = pairs_of(record, op.operands)
    return Plan(
        count=len(record.steps),
        reads=tuple(reads),
        listed=listed,
        numbers=tuple(numbers),
        others=bool(numbers) or listed is not None,
        arguments=arguments_of(machine, op, engine),
        skip=skip,
        lanes=tuple(position for position in read if skip and op.operands[position].dynamic is not None),
        unique=bool(op.attrs.get("unique_indices")),
        pairs=pairs,
        near=tuple((pair.written, pair.other, pair.placed) for pair in pairs if not pair.indexed),
        indexed=any(pair.indexed for pair in pairs),
        harmless=set(),
    )


def arguments_of(machine: Machine, op: Op, engine: str) -> dict[str, Any]:
    """What a meaning gets besides its operands, in its order: attributes, and what else it asks for by name."""
    record: Record = op.definition
    found: dict[str, Any] = {}
    for name in record.asked:
        if name in record.attrs:
            found[name] = op.attrs[name]
        elif name == "dtypes":
            named = zip(record.operands, op.operands, strict=False)
            found[name] = {key: operand.dtype for key, operand in named if isinstance(operand, View)}
        elif name == "dtype":
            found[name] = machine.element(op.operands[record.written[0]])
        elif name == "target":
            found[name] = machine.target
        elif name == "report":
            found[name] = machine.report
        elif name == "state":
            found[name] = machine.accumulators.setdefault(engine, {})
        elif name == "resolved_engine":
            found[name] = engine
        else:
            view: View = op.operands[record.written[0] if record.written else 0]
            found[name] = view.sizes if name == "shape" else view.start_partition
    return found

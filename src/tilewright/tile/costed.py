"""What instructions cost, worked out once for all that cost cannot tell apart.

A kernel has a few dozen of these among thousands of instructions, and a compiler asks again with every way it tries.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from tilewright.ir.core import Op, Value
from tilewright.target import Target
from tilewright.tile.record import Attributes, Call, Cost, Record
from tilewright.tile.view import View

T = TypeVar("T")

_MOST_KNOWN = 1 << 16


def op_cost(op: Op, target: Target) -> tuple[str, Cost]:
    """The engine that runs an instruction, and what it takes."""
    return cost_of(op.definition, op.operands, op.attrs, target)


def cost_of(record: Record, operands: Sequence[Any], attrs: Mapping[str, Any], target: Target) -> tuple[str, Cost]:
    """The engine that runs an instruction with these operands, and what it takes."""
    return remembered(target, facts_of(record, operands, attrs), attrs, lambda: _found(record, operands, attrs, target))


def _found(record: Record, operands: Sequence[Any], attrs: Mapping[str, Any], target: Target) -> tuple[str, Cost]:
    call = Call(record, operands, attrs, target)
    call.resolve_engine()
    return call.engine, record.cost(call)


def remembered(target: Target, key: Hashable, attrs: Mapping[str, Any], find: Callable[[], T]) -> T:
    """What is known by a key that the facts of an instruction with these attributes are in, or is found now."""
    if attrs and attrs.__class__ is not Attributes:
        # They may hold equal numbers of different kinds.
        return find()
    known = target.costs.get(key)
    if known is None:
        if len(target.costs) >= _MOST_KNOWN:
            target.costs.clear()
        known = target.costs[key] = find()
    return known


def facts_of(record: Record, operands: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Hashable, ...]:
    """All that engine and cost of an instruction may depend on; of a register only that it is one."""
    return (
        record.name,
        record.cost,
        attrs.number if attrs.__class__ is Attributes else tuple(attrs.values()),  # type: ignore[attr-defined]
        *[
            x.signature_ or x.signature if x.__class__ is View else x.__class__ if isinstance(x, Value) else (x,)
            for x in operands
        ],
    )

"""What some instructions of a kernel take: executions, engine time, HBM bytes, buffers, transposes.

Costs are those of the instructions' records, which timing uses too; loops count as often as they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tilewright.ir.core import Op
from tilewright.target import Target
from tilewright.tile.costed import op_cost
from tilewright.tile.memory import Buffer
from tilewright.tile.ops import ALLOC, FOR, trips
from tilewright.tile.record import Call, Record
from tilewright.tile.view import View


@dataclass(slots=True)
class Traffic:
    """What crosses HBM of one tensor, one way: transfers, bytes, and the tiles on the other side."""

    tensor: Buffer
    written: bool
    transfers: int = 0
    bytes: int = 0
    tiles: dict[Buffer, None] = field(default_factory=dict)
    in_loop: bool = False


@dataclass(slots=True)
class Account:
    """Sums over some instructions; engine_ns by engine, "dma" being what keeps the busiest DMA engine."""

    instructions: int = 0
    engine_ns: dict[str, float] = field(default_factory=dict)
    traffic: dict[tuple[Buffer, bool], Traffic] = field(default_factory=dict)
    buffers: list[Buffer] = field(default_factory=list)
    turns: dict[tuple[str, str], int] = field(default_factory=dict)
    """Transposes: which unit makes them, of what -> how many are executed."""
    loops: list[tuple[str, int, tuple]] = field(default_factory=list)
    """The nest: name, trips, inner loops."""


def account(ops: Sequence[Op], target: Target) -> Account:
    """Add up what some ops of a kernel's body take."""
    made = Account()
    made.loops = _add(made, ops, 1, target)
    return made


def hbm_bytes(ops: Sequence[Op], target: Target) -> int:
    """The bytes of HBM that some ops of a kernel's body read and write."""
    total = 0
    for op in ops:
        if op.definition is FOR:
            total += len(trips(op)) * hbm_bytes(op.regions[0].ops, target)
        elif isinstance(op.definition, Record) and "dma" in op.definition.engines:
            call = Call(op.definition, op.operands, op.attrs, target)
            total += sum(view.nbytes for view, _ in _hbm_sides(call))
    return total


def _add(made: Account, ops: Sequence[Op], times: int, target: Target) -> list[tuple[str, int, tuple]]:
    loops: list[tuple[str, int, tuple]] = []
    for op in ops:
        if op.definition is FOR:
            count = len(trips(op))
            inner = _add(made, op.regions[0].ops, times * count, target)
            loops.append((op.regions[0].arguments[0].name or "i", count, tuple(inner)))
        elif op.definition is ALLOC:
            assert isinstance(op.result, Buffer)
            made.buffers.append(op.result)
        elif isinstance(op.definition, Record):
            _add_one(made, op, op.definition, times, target)
    return loops


def _add_one(made: Account, op: Op, record: Record, times: int, target: Target) -> None:
    engine, cost = op_cost(op, target)
    made.instructions += times
    taken = cost.busy_ns if engine == "dma" else cost.interval_ns
    made.engine_ns[engine] = made.engine_ns.get(engine, 0.0) + taken * times
    if "transpose" in record.name or op.attrs.get("is_transpose"):
        call = Call(record, op.operands, op.attrs, target)
        source = next(view for name, view in call.tensors() if call.spec(name).reads)
        key = (engine, source.buffer.name or "a tile")
        made.turns[key] = made.turns.get(key, 0) + times
    if engine == "dma":
        _add_traffic(made, Call(record, op.operands, op.attrs, target), times)


def _add_traffic(made: Account, call: Call, times: int) -> None:
    tiles = [view.buffer for _, view in call.tensors() if view.on_chip]
    for view, written in _hbm_sides(call):
        found = made.traffic.setdefault((view.buffer, written), Traffic(view.buffer, written))
        found.transfers += times
        found.bytes += view.nbytes * times
        found.tiles.update(dict.fromkeys(tiles))
        found.in_loop = found.in_loop or times > 1


def _hbm_sides(call: Call) -> Iterator[tuple[View, bool]]:
    for name, view in call.tensors():
        spec = call.spec(name)
        if not view.on_chip:
            for wanted, written in ((spec.reads, False), (spec.writes, True)):
                if wanted:
                    yield view, written

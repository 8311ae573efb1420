"""A draft and the kernel that was written by it, told as a plan."""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import PurePath

from tilewright.ir.core import Graph, Op, Value
from tilewright.lower.order.account import Traffic, account
from tilewright.lower.plan.plan import (
    Apart,
    HbmStream,
    Loop,
    Plan,
    PlannedOp,
    PlannedStep,
    Read,
    Residence,
    Tile,
    Tried,
    Turn,
)
from tilewright.lower.plan.reasons import endings
from tilewright.lower.regions.grouping import Group
from tilewright.lower.regions.planning import Draft, reads
from tilewright.lower.regions.residency import block_bytes, root
from tilewright.lower.regions.roles import Roles
from tilewright.lower.write.homes import is_view
from tilewright.lower.write.occupancy import occupancy_by_part
from tilewright.target import Target
from tilewright.tile.memory import PSUM, SBUF, Buffer
from tilewright.tile.view import View


def tell(draft: Draft, graph: Graph) -> Plan:
    """The plan of a kernel: what was decided, and what came of it when it was written."""
    return _Teller(draft, graph).plan()


class _Teller:
    """Tells a draft; positions of steps become numbers, in which views that cost nothing do not count."""

    def __init__(self, draft: Draft, graph: Graph) -> None:
        self.draft = draft
        self.target: Target = draft.target
        count = len(draft.steps)
        own = {op for ops in draft.written.values() for op in ops}
        # Tiles that are made once for all stand first; what is left of those belongs to no step.
        start = [op for op in graph.body.ops if op not in own]
        self.parts = {
            -1: [*start, *draft.written.get(-1, [])],
            **{i: draft.written.get(i, []) for i in range(count + 1)},
        }
        self.accounts = {at: account(ops, self.target) for at, ops in self.parts.items()}
        peaks = occupancy_by_part(graph.body.ops, list(self.parts.values()), self.target)
        self.peaks = dict(zip(self.parts, peaks, strict=True))
        self.used_at = self._uses()
        self.made_at = {op: at for at, step in enumerate(draft.steps) for op in _ops_of(step)}
        self.number = self._numbers(count)

    def _uses(self) -> dict[Buffer, set[int]]:
        """The steps that touch each buffer."""
        found: dict[Buffer, set[int]] = {}

        def visit(ops: Sequence[Op], at: int) -> None:
            for op in ops:
                for operand in op.operands:
                    if isinstance(operand, View):
                        found.setdefault(operand.buffer, set()).add(at)
                for region in op.regions:
                    visit(region.ops, at)

        for at, ops in self.parts.items():
            visit(ops, at)
        return found

    def _numbers(self, count: int) -> dict[int, int]:
        """Numbers of steps by position: what does nothing has the number of what follows."""
        numbers: dict[int, int] = {}
        number = 0
        for at in range(-1, count + 1):
            numbers[at] = number + 1
            number += self._is_told(at)
        return numbers

    def _is_told(self, at: int) -> bool:
        if 0 <= at < len(self.draft.steps):
            step = self.draft.steps[at]
            return isinstance(step, Group) or not is_view(step) or bool(self.accounts[at].instructions)
        return bool(self.accounts[at].instructions)

    def plan(self) -> Plan:
        """All of it."""
        draft, target = self.draft, self.target
        steps = tuple(self._step(at) for at in self.parts if self._is_told(at))
        return Plan(
            draft.program.name,
            target.name,
            max((peak.sbuf_bytes for peak in self.peaks.values()), default=0),
            target["memory.sbuf_usable_bytes"],
            max((peak.psum_banks for peak in self.peaks.values()), default=0),
            target["memory.psum_banks"],
            draft.before,
            steps,
            tuple(self._residences()),
        )

    def _residences(self) -> list[Residence]:
        made: list[Residence] = []
        last = self.number[len(self.draft.steps)]
        for each in self.draft.residents.values():
            until = min(self.number[min(each.last, len(self.draft.steps))], last)
            made.append(
                Residence(
                    _name(each.value),
                    str(each.value.type),
                    "sbuf" if each.keep else "hbm",
                    self.number[each.first],
                    until,
                    each.bytes,
                    each.reads,
                    round(each.reuse, 1),
                    each.why,
                )
            )
        return made

    def _step(self, at: int) -> PlannedStep:
        made, peak = self.accounts[at], self.peaks[at]
        step = self.draft.steps[at] if 0 <= at < len(self.draft.steps) else None
        attempts = self.draft.attempts.get(at, [])
        return PlannedStep(
            number=self.number[at],
            kind=self._kind(at),
            ops=self._ops(step),
            why=self._why(at),
            apart=self._apart(step, at),
            loops=self._loops(step),
            reads=self._reads(step),
            nest=tuple(_nest(*loop) for loop in made.loops),
            tried=(*_other_rows(step), *(Tried(each.way, each.misfit) for each in attempts)),
            streams=tuple(_stream(each) for each in made.traffic.values()),
            tiles=tuple(self._tile(buffer, at) for buffer in made.buffers if buffer.on_chip),
            turns=tuple(Turn(engine, of, count) for (engine, of), count in made.turns.items()),
            resident=self._resident(at),
            block_bytes=None if step is None else block_bytes(step, self.target),
            room=self.draft.room[at],
            sbuf_bytes=peak.sbuf_bytes,
            psum_banks=peak.psum_banks,
            instructions=made.instructions,
            hbm_bytes=sum(each.bytes for each in made.traffic.values()),
            engine_us={engine: round(ns / 1e3, 3) for engine, ns in sorted(made.engine_ns.items())},
        )

    def _kind(self, at: int) -> str:
        if at < 0:
            return "start"
        if at == len(self.draft.steps):
            return "end"
        step = self.draft.steps[at]
        return "group" if isinstance(step, Group) else "view" if is_view(step) else "op"

    def _ops(self, step: Group | Op | None) -> tuple[PlannedOp, ...]:
        if step is None:
            return ()
        if isinstance(step, Op):
            return (_op(step, None),)
        return (
            *(_op(op, None) for op in step.own),
            *(_op(op, step.roles.get(op.result)) for op in (*step.ops, *step.totals)),
        )

    def _why(self, at: int) -> str:
        if at < 0:
            return "tiles that all steps share, and inputs that several read"
        if at == len(self.draft.steps):
            return "results that no step has written"
        step = self.draft.steps[at]
        if isinstance(step, Op):
            return "a view that has to be copied" if is_view(step) else "no block of rows is computed by itself"
        if step.stencil is not None:
            return f"{len(step.ops)} ops on elements and their neighbours, patch by patch"
        many = "" if len(step.ops) == 1 else f"{len(step.ops)} ops on "
        rows = f"the same {step.rows} rows" if many else f"{step.rows} rows"
        loops = "".join(f", for each of {n}" for n in step.batch)
        return f"{many}{rows}{loops}"

    def _apart(self, step: Group | Op | None, at: int) -> tuple[Apart, ...]:
        if not isinstance(step, Group) or step.stencil is not None:
            return ()

        def is_ready(value: Value) -> bool:
            # Inputs and arrays that are described belong to no step.
            return value.producer is None or self.made_at.get(value.producer, -1) <= at

        return tuple(Apart(op.name, _line(op), why) for op, why in endings(step, is_ready))

    def _loops(self, step: Group | Op | None) -> tuple[Loop, ...]:
        if not isinstance(step, Group) or step.stencil is not None:
            return ()
        lanes = self.target["limits.partitions"]
        blocks = -(-step.rows // lanes)
        batch = [Loop(f"dim {d}", n) for d, n in zip(step.roles[step.ops[0].result].batch, step.batch, strict=True)]
        return (*batch, Loop(f"blocks of {min(lanes, step.rows)} rows", blocks))

    def _reads(self, step: Group | Op | None) -> tuple[Read, ...]:
        if not isinstance(step, Group):
            return ()
        made: list[Read] = []
        for value, how in reads(step).items():
            known = self.draft.residents.get(root(value))
            described = value.producer is not None and value.producer.definition.family == "creation"
            place = "made there" if described else "sbuf" if known is not None and known.keep else "hbm"
            made.append(Read(_name(value), str(value.type), place, how))
        return tuple(made)

    def _tile(self, buffer: Buffer, at: int) -> Tile:
        sizes = ", ".join(map(str, buffer.shape))
        later = any(other > at for other in self.used_at.get(buffer, ()))
        memory = buffer.memory.value
        return Tile(buffer.name or "t", memory, f"{buffer.dtype}[{sizes}]", buffer.row_bytes, buffer.depth, later)

    def _resident(self, at: int) -> tuple[str, ...]:
        kept = (each for each in self.draft.residents.values() if each.keep)
        return tuple(_name(each.value) for each in kept if each.first <= at <= each.last)


def _other_rows(step: Group | Op | None) -> Iterator[Tried]:
    """Groups with other dims as rows that were thought of."""
    if isinstance(step, Group):
        for value, roles, count in step.others:
            fewer = f"has {count} ops instead of {len(step.ops)}" if count < len(step.ops) else "takes no less time"
            yield Tried(f"{_name(value)} laid out [{_layout(value, roles)}]", fewer)


def _ops_of(step: Group | Op) -> list[Op]:
    return [*step.own, *step.ops, *step.totals] if isinstance(step, Group) else [step]


def _name(value: Value) -> str:
    return value.name or "a value"


def _op(op: Op, roles: Roles | None) -> PlannedOp:
    value = op.results[0]
    location = op.location
    source = "" if location is None else linecache.getline(location.file, location.line).strip()
    return PlannedOp(op.name, _name(value), str(value.type), _layout(value, roles), _line(op), source)


def _line(op: Op) -> str:
    return "" if op.location is None else f"{PurePath(op.location.file).name}:{op.location.line}"


def _layout(value: Value, roles: Roles | None) -> str:
    if roles is None:
        return ""
    shape = value.type.shape
    parts: list[str] = []
    for d, n in enumerate(shape):
        if roles.rows[0] <= d < roles.rows[1]:
            parts.append(f"{n} rows")
        else:
            parts.append(f"{n} loop" if d in roles.batch else str(n))
    return ", ".join(parts)


def _nest(name: str, count: int, inner: tuple) -> str:
    below = ", ".join(_nest(*each) for each in inner)
    return f"{name} x{count}" + (f" ({below})" if below else "")


def _stream(traffic: Traffic) -> HbmStream:
    tensor = traffic.tensor
    size = prod(tensor.shape) * tensor.dtype.itemsize
    chip = [buffer for buffer in traffic.tiles if buffer.memory in (SBUF, PSUM)]
    how = "within HBM" if not chip else "block by block" if traffic.in_loop else "outside of loops"
    depth = max((buffer.depth for buffer in chip), default=0)
    name = tensor.name or "a tensor"
    return HbmStream(name, traffic.written, traffic.transfers, traffic.bytes, traffic.bytes / max(size, 1), how, depth)

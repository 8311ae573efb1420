"""Which values stay on chip from one step of a program to another, decided before anything is written.

Everything that a later step reads is resident, unless all that is resident at some step takes more than that step's
tiles leave of SBUF. Then the one with the least reuse per byte goes to HBM: the bytes of HBM traffic that it saves over
the bytes per partition that it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tilewright.ir.core import OUTPUTS, Graph, Value
from tilewright.lower.regions.axes import tiles_of
from tilewright.lower.regions.delivery import is_only_delivered, placed_parts
from tilewright.lower.regions.grouping import MOVES, Group, Step, rows_read
from tilewright.lower.regions.roles import PRODUCTS, row_count
from tilewright.lower.write.homes import device_dtype, is_view
from tilewright.target import Target


@dataclass(slots=True)
class Resident:
    """A value that several steps touch: from which step to which it is needed, and where it lives meanwhile.

    first, last: positions in the order of steps; an input that is kept is there from the beginning. reads: steps that
    read it. bytes: what it takes of each partition. rows: of an input, the dims that lie on partitions. keep: on chip,
    else in HBM. why: the reason, for people.
    """

    value: Value
    first: int
    last: int
    reads: int
    bytes: int
    rows: tuple[int, int] | None = None
    keep: bool = True
    why: str = ""

    @property
    def is_input(self) -> bool:
        """True for what a kernel is given."""
        return self.rows is not None

    @property
    def saved(self) -> int:
        """Bytes of HBM traffic that keeping it saves: it is not written, and not read again."""
        trips = self.reads - 1 if self.is_input else self.reads + 1
        return trips * self.value.type.size * device_dtype(self.value.type.dtype).itemsize

    @property
    def reuse(self) -> float:
        """Traffic saved per byte of a partition."""
        return self.saved / max(self.bytes, 1)


def root(value: Value) -> Value:
    """What a view is of."""
    while value.producer is not None and is_view(value.producer):
        value = value.producer.operands[0]
    return value


def _in_own_shape(value: Value) -> Value:
    """What was reshaped."""
    while value.producer is not None and value.producer.name == "reshape":
        (value,) = value.producer.operands
    return value


def _reads(step: Step) -> Iterable[Value]:
    """What a step reads; a view reads nothing."""
    return step.reads if isinstance(step, Group) else () if is_view(step) else step.values()


def steps_reading(steps: Sequence[Step]) -> dict[Value, list[int]]:
    """The steps that read each value, itself or a view of it."""
    found: dict[Value, list[int]] = {}
    for i, step in enumerate(steps):
        for value in dict.fromkeys(root(v) for v in _reads(step)):
            found.setdefault(value, []).append(i)
    return found


def readers(steps: Sequence[Step], program: Graph) -> dict[Value, list[int]]:
    """The steps that read each value, itself or a view of it; results that no group makes are read at the very end."""
    found = steps_reading(steps)
    # Groups send their results to HBM themselves.
    stored = {value for step in steps if isinstance(step, Group) for value in step.roles}
    for value in program.outputs:
        if value not in stored:
            found.setdefault(root(value), []).append(len(steps))
    return found


def block_bytes(step: Step, target: Target) -> int | None:
    """Bytes per partition that the tiles of a block of rows take, second copies included; None: known when written.

    All values have one tile: those that ops share make room for second copies, except beside a product, whose operands
    and results have tiles of their own.
    """
    if not isinstance(step, Group) or step.stencil is not None:
        return None
    total, copies = 0, 2 if any(op.name in PRODUCTS for op in step.ops) else 1
    for value, roles in tiles_of(step).items():
        held = prod(value.type.shape[d] for d in roles.free_dims(value.type.rank))
        total += held * device_dtype(value.type.dtype).itemsize
    for op in step.ops:
        if op.name in PRODUCTS:
            right = op.operands[1].type
            k, n = right.shape[-2:]
            total += -(-k // target["limits.partitions"]) * n * right.dtype.itemsize
    return copies * total


def rooms(steps: Sequence[Step], target: Target) -> dict[int, int]:
    """What the tiles of each step leave for values, in bytes per partition; by position.

    That is half of SBUF at least, and three quarters where the tiles are not known yet, or may be of any height, as
    those of groups that reduce their rows. Inputs are kept from -1 on; what nothing has stored is at the end.
    """
    all_ = target["memory.sbuf_usable_bytes"]
    found: dict[int, int] = {-1: all_ - all_ // 4, len(steps): all_ - all_ // 4}
    for i, step in enumerate(steps):
        need, is_tall = block_bytes(step, target), isinstance(step, Group) and step.tall is not None
        most = all_ // 4 if need is None or is_tall else all_ // 2
        found[i] = all_ - (most if need is None else min(need, most))
    return found


def residents(steps: Sequence[Step], program: Graph, target: Target, room: Mapping[int, int]) -> dict[Value, Resident]:
    """Every value that could stay on chip, with the decision; `room`: bytes per partition that they may take."""
    read_by = readers(steps, program)
    found = {each.value: each for each in read_again(steps, program.inputs, read_by, target)}
    placed = {value for parts in placed_parts(steps, target).values() for value in parts}
    for i, step in enumerate(steps):
        if isinstance(step, Group):
            for value in step.results:
                later = any(use not in step.inside and use.definition is not OUTPUTS for use in value.uses)
                if later and not is_only_delivered(value, step, placed):
                    at = read_by.get(value) or [i]
                    found[value] = Resident(value, i, max(at), len(at), _bytes(value, step, target))
    _demote(list(found.values()), room)
    return found


def read_again(
    steps: Sequence[Step], values: Iterable[Value], read_by: Mapping[Value, list[int]], target: Target
) -> list[Resident]:
    """Those of the values in HBM that several steps read: loaded once.

    Steps that read a part each, as in a loop, gain nothing by that, and ops that only move data take it from HBM as it
    lies there.
    """
    lanes = target["limits.partitions"]
    read: dict[Value, int] = {}
    elsewhere: set[Value] = set()
    for step in steps:
        if not isinstance(step, Group) and step.name in MOVES:
            elsewhere.update(root(value) for value in step.values())
            continue
        # What a step reads in several shapes it loads once.
        for value in dict.fromkeys(_in_own_shape(v) for v in _reads(step)):
            read[root(value)] = read.get(root(value), 0) + value.type.size
    made: list[Resident] = []
    for value in values:
        at, type = read_by.get(value, []), value.type
        if not type.rank or value in elsewhere or read.get(value, 0) <= type.size:
            continue
        if type.rank == 1:
            rows = (0, 1) if _is_column(value, steps) else None
        else:
            rows = (0, 1) if type.rank == 2 else _rows_read(value, steps)
        if rows is not None:
            blocks = -(-prod(type.shape[: rows[1]]) // lanes)
            size = blocks * prod(type.shape[rows[1] :]) * device_dtype(type.dtype).itemsize
            made.append(Resident(value, -1, max(at), len(at), size, rows))
    return made


def _rows_read(value: Value, steps: Sequence[Step]) -> tuple[int, int] | None:
    """The first dims of an array that blocks of some group have on partitions, as it would lie; None where there are
    none, or others for another group."""
    found: set[tuple[int, int]] = set()
    for step in steps:
        for op in step.ops if isinstance(step, Group) else ():
            roles = rows_read(op, step.roles[op.result]).get(value) if isinstance(step, Group) else None
            if roles is not None and roles.rows[0] == 0 and not roles.batch:
                found.add(roles.rows)
    return (0, 1) if (0, 1) in found else found.pop() if len(found) == 1 else None


def _is_column(value: Value, steps: Sequence[Step]) -> bool:
    """True for an array of one dim that several groups have on partitions, a number for each row."""
    return value.type.rank == 1 and sum(isinstance(step, Group) and _has_column(step, value) for step in steps) > 1


def _has_column(group: Group, value: Value) -> bool:
    read = ((x, roles) for op in group.ops for x, roles in rows_read(op, group.roles[op.result]).items())
    return any(
        _in_own_shape(x) is value and row_count(x.type.shape, roles) == value.type.size and not roles.batch
        for x, roles in read
    )


def _bytes(value: Value, group: Group, target: Target) -> int:
    """Bytes per partition of a result: its rows lie on partitions in blocks."""
    rows, shape = group.roles[value].rows, value.type.shape
    # What a group makes of all of its rows has none itself.
    blocks = -(-row_count(shape, group.roles[value]) // target["limits.partitions"])
    return blocks * prod((*shape[: rows[0]], *shape[rows[1] :])) * device_dtype(value.type.dtype).itemsize


def _demote(found: list[Resident], room: Mapping[int, int]) -> None:
    """Send values to HBM until what is resident fits at every step."""
    for each in found:
        least = min(room[at] for at in range(each.first, each.last + 1))
        if each.bytes > least:
            each.keep = False
            each.why = f"takes {each.bytes} bytes per partition, values may take {least}" if least else NOTHING_STAYS
        else:
            each.why = f"read by {each.reads} step{'s' if each.reads > 1 else ''}"
    while True:
        alive = _alive([each for each in found if each.keep])
        taken = {at: sum(each.bytes for each in values) for at, values in alive.items()}
        at = max(taken, key=lambda at: taken[at] - room[at], default=None)
        if at is None or taken[at] <= room[at]:
            return
        # Small ones make no room to speak of.
        large = [each for each in alive[at] if each.bytes * len(alive[at]) >= taken[at] - room[at]]
        least = min(large, key=lambda each: each.reuse)
        least.keep = False
        least.why = f"least reuse per byte ({least.reuse:.0f}) where {taken[at]} bytes per partition are asked for"


NOTHING_STAYS = "nothing stays on chip: the kernel did not fit with values that do"


def _alive(kept: Sequence[Resident]) -> dict[int, list[Resident]]:
    """What is resident at each step."""
    found: dict[int, list[Resident]] = {}
    for each in kept:
        for at in range(each.first, each.last + 1):
            found.setdefault(at, []).append(each)
    return found

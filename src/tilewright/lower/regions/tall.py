"""Groups whose rows are reduced: which ops belong to them, and what of each value lies on which partition.

All rows of a value are in work at once, many on each partition. A value either has the rows of the group, or it is the
same for all of them (what a reduction over the rows gives, and what is computed from that): then every partition has
it. Such a group reads its operands once, however many reductions and uses of what they give follow each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tilewright.ir.core import OUTPUTS, Op, Value
from tilewright.lower.regions.roles import Roles, row_count
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import is_view
from tilewright.tensor.ranges import EXACT, range_of

REDUCTIONS = ("sum", "max", "min", "prod")

SAME = Roles((0, 0))
"""The roles of a value that is the same for all rows."""


@dataclass(frozen=True, slots=True)
class Tall:
    """The dims that are reduced and come first: their sizes, how many dims follow them, how much a value has at most.

    channels: entries of the next dim where that is kept and all others are reduced too (1: it is not so). Then it lies
    on partitions, and what a reduction gives is a number per partition.
    """

    sizes: tuple[int, ...]
    behind: int
    most: int
    channels: int = 1

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return prod(self.sizes)

    def place(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
        """Where the rows stand in a shape; None where it has none."""
        stop = len(shape) - self.behind
        first = stop - len(self.sizes)
        return (first, stop) if first >= 0 and shape[first:stop] == self.sizes else None


def reductions_ahead(op: Op) -> list[Op]:
    """The op, if it is a reduction, or those that are of what it makes, element by element."""
    seen, work, found = {op}, [op], []
    while work and len(seen) <= TUNING.looked_ahead:
        each = work.pop(0)
        if each.name in REDUCTIONS:
            found.append(each)
        elif each.definition.family == "elementwise":
            shape = each.result.type.shape
            fresh = [use for use in each.result.uses if use not in seen and use.definition is not OUTPUTS]
            fresh = [use for use in fresh if use.name in REDUCTIONS or use.results[0].type.shape == shape]
            seen.update(fresh)
            work += fresh
    return found


def tall_of(op: Op, lanes: int) -> Tall | None:
    """The rows that a reduction is over, where other dims would not fill the partitions as well."""
    (x,) = op.operands
    if _is_one_number(x):
        return None
    shape, axes = x.type.shape, op.attrs["axes"]
    long = [d for d in range(len(shape)) if shape[d] != 1]
    over = [d for d in long if d in axes]
    if not over:
        return None
    # The first neighbours of those that are reduced.
    first = over[0]
    stop = next((d for d in range(first, len(shape)) if shape[d] != 1 and d not in axes), len(shape))
    stop = max(d for d in over if d < stop) + 1
    tall = Tall(shape[first:stop], len(shape) - stop, x.type.size)
    before, behind = prod(shape[:first]), prod(shape[stop:])
    each = max(tall.rows // lanes, 1)
    if tall.rows < TUNING.few_rows or min(before, lanes) >= min(tall.rows, lanes):
        return None
    if behind == 1 and before > 1:
        # What lies together would go to different partitions.
        return None
    size = x.type.dtype.itemsize
    if each * behind * size < TUNING.least_run:
        return None
    return tall


def has_channels(op: Op) -> bool:
    """True for a reduction over all dims but one in the middle, of which there are some, with long runs behind it."""
    (x,) = op.operands
    shape, axes = x.type.shape, op.attrs["axes"]
    kept = [d for d in range(len(shape)) if d not in axes and shape[d] != 1]
    if len(kept) != 1 or not x.type.dtype.is_float or x.type.size > TUNING.most_channel_elements:
        return False
    before, behind = prod(shape[: kept[0]]), prod(shape[kept[0] + 1 :])
    return (
        shape[kept[0]] >= TUNING.few_channels
        and before > 1
        and TUNING.long_run <= behind * x.type.dtype.itemsize <= 4 * TUNING.columns
    )


def channels_of(op: Op, lanes: int) -> Tall | None:
    """The rows of a reduction that keeps one dim behind them, where that fills the partitions."""
    if not has_channels(op):
        return None
    (x,) = op.operands
    shape, axes = x.type.shape, op.attrs["axes"]
    at = next(d for d in range(len(shape)) if d not in axes and shape[d] != 1)
    tall = Tall(shape[:at], len(shape) - at, x.type.size, shape[at])
    used = min(shape[at] * together(tall, lanes), lanes)
    each = x.type.size // (shape[at] * together(tall, lanes)) * x.type.dtype.itemsize
    return tall if used * 2 >= lanes and each <= TUNING.tall_bytes else None


def together(tall: Tall, lanes: int) -> int:
    """Rows whose channels lie on partitions side by side."""
    return max((n for n in range(1, lanes // tall.channels + 1) if tall.rows % n == 0), default=1)


def upright_seeds(op: Op) -> list[Roles]:
    """Roles of the operand of a reduction over dims before others: one of these on partitions, all else free."""
    (x,) = op.operands
    shape, axes = x.type.shape, op.attrs["axes"]
    first = min((a for a in axes if shape[a] != 1), default=0)
    if prod(shape[:first]) >= TUNING.few_rows:
        return []
    dense = max((d for d in range(len(shape)) if shape[d] != 1), default=0)
    whole = prod(shape[a] for a in axes)
    able = [d for d in range(first + 1, dense) if d not in axes and shape[d] >= TUNING.few_rows]
    run = shape[dense] * x.type.dtype.itemsize
    if (run < TUNING.least_run and x.type.size > TUNING.few_elements) or whole * (
        x.type.dtype.itemsize if dense in axes else min(run, TUNING.long_run)
    ) > TUNING.upright_bytes:
        return []
    return [Roles((d, d + 1)) for d in able]


def _is_one_number(x: Value) -> bool:
    return x.producer is not None and x.producer.name == "full"


def tall_roles(op: Op, tall: Tall, known: Mapping[Value, Roles]) -> Roles | None:
    """The roles of an op's only result, its operands in `known` being members; None where it cannot be one."""
    if len(op.results) != 1 or not op.result.type.size:
        return None
    if op.definition.family == "elementwise" or op.name == "broadcast_to":
        return _elementwise(op, tall, known)
    if op.name in REDUCTIONS:
        # An array of one number has no rows that could be read.
        return None if _is_one_number(op.operands[0]) else _reduction(op, tall, known)
    if is_view(op):
        alike = tall.channels == 1 or op.operands[0].type.size == op.result.type.size
        return SAME if known.get(op.operands[0]) == SAME and alike else None
    return None


def _elementwise(op: Op, tall: Tall, known: Mapping[Value, Roles]) -> Roles | None:
    result = op.result.type.shape
    if tall.channels > 1 and not all(_is_of_channels(x, op, tall, known) for x in (*op.values(), op.result)):
        return None
    place, tall_members = tall.place(result), [x for x in op.values() if known.get(x, SAME) != SAME]
    if place is None:
        small = op.result.type.size <= TUNING.same_for_all
        return SAME if small and not tall_members and all(_is_plain(x) for x in op.values()) else None
    if op.result.type.size > tall.most:
        return None
    roles, found = Roles(place), False
    for x in op.values():
        by = len(result) - x.type.rank
        if x in tall_members and known[x].shifted(by) != roles:
            return None
        mine = [x.type.shape[d - by] if d >= by else 1 for d in range(*place)]
        is_tall = mine == list(tall.sizes)
        if not is_tall and any(n != 1 for n in mine):
            return None
        if is_tall and (known.get(x) == SAME or not _is_plain(x)):
            return None
        found = found or is_tall
    return roles if found else None


def _is_of_channels(x: Value, op: Op, tall: Tall, known: Mapping[Value, Roles]) -> bool:
    """True for rows, one number, or one for each channel: beside rows where they have theirs."""
    shape = x.type.shape
    if tall.place(shape) is not None and known.get(x) != SAME:
        return True
    if x.type.size == 1 or (x.type.size == tall.channels and tall.place(op.result.type.shape) is None):
        return True
    at = len(shape) - tall.behind
    return x.type.size == tall.channels and at >= 0 and shape[at] == tall.channels


def _is_plain(x: Value) -> bool:
    """False for an array that a rule describes: its elements depend on where they are."""
    return x.producer is None or x.producer.name not in ("iota", "band") or x.type.size == 1


def _reduction(op: Op, tall: Tall, known: Mapping[Value, Roles]) -> Roles | None:
    (x,) = op.operands
    if known.get(x) == SAME:
        return SAME if x.type.dtype.is_float and tall.channels == 1 else None
    place = tall.place(x.type.shape)
    if place is None or (x in known and known[x] != Roles(place)) or not _is_plain(x):
        return None
    rows = [d for d in range(*place) if x.type.shape[d] != 1]
    over = op.attrs["axes"]
    if op.result.type.size > TUNING.same_for_all or not all(d in over for d in rows):
        return None
    if tall.channels > 1 and (place[1] in over or op.result.type.size != tall.channels):
        return None
    return SAME if _is_exact(op) else None


def _is_exact(op: Op) -> bool:
    """True where float32 holds what is reduced, and all that comes of it on the way."""
    (x,) = op.operands
    if x.type.dtype.is_float:
        return True
    least, most = range_of(x)
    count = x.type.size // op.result.type.size if op.name == "sum" else 1
    return op.name != "prod" and max(abs(least), abs(most)) * count <= EXACT


def tall_reads(op: Op, tall: Tall, known: Mapping[Value, Roles]) -> dict[Value, Roles]:
    """Operands from outside of which an op reads all rows."""
    found: dict[Value, Roles] = {}
    for x in op.values():
        place = tall.place(x.type.shape)
        if x not in known and place is not None and row_count(x.type.shape, Roles(place)) > 1:
            found[x] = Roles(place)
    return found


def is_worth_it(ops: Sequence[Op], roles: Mapping[Value, Roles], tall: Tall) -> bool:
    """True where rows that are computed are reduced, or computed with what a reduction gave, or reduced in a way that
    takes longer one block after the other."""

    def is_tall(x: Value) -> bool:
        return x in roles and roles[x] != SAME

    over = [op for op in ops if op.name in REDUCTIONS and roles.get(op.operands[0]) != SAME]
    reduced = any(is_tall(op.operands[0]) or not _is_plain_sum(op, tall) for op in over)
    return reduced or any(is_tall(op.result) and any(roles.get(x) == SAME for x in op.values()) for op in ops)


def _is_plain_sum(op: Op, tall: Tall) -> bool:
    """True for a sum over the first dims alone: the Tensor engine adds up rows as they come."""
    shape = op.operands[0].type.shape
    place = tall.place(shape)
    assert place is not None
    return (
        tall.channels == 1
        and op.name == "sum"
        and all(n == 1 for d, n in enumerate(shape) if d < place[0] or (d >= place[1] and d in op.attrs["axes"]))
    )

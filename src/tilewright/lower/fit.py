"""Groups within the memory there is: a group is written, measured, and written again another way if it does not fit.

In this order: as a whole; part by part along its axes; with nothing else kept on chip, as a whole and part by part;
divided into smaller groups, products and joins by themselves; every op by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.errors import TileNotImplementedError, fail
from tilewright.ir.core import Op, Value
from tilewright.lower.axes import COMBINED, SCANNED, Axes, Axis
from tilewright.lower.blocks import MOST_COPIES, BlockEmitter
from tilewright.lower.columns import ColumnEmitter, Cut
from tilewright.lower.even import even_parts
from tilewright.lower.few_queries import FewQueries
from tilewright.lower.grouping import Group, subdivide
from tilewright.lower.homes import device_dtype, is_view
from tilewright.lower.large import LargeProduct, Parts, parts_of
from tilewright.lower.occupancy import occupancy_of, surely_fits
from tilewright.lower.online import OnlineAttention, sizes_of
from tilewright.lower.roles import PRODUCTS, Roles, operand_roles
from tilewright.lower.softmax_product import find_softmax_product, has_few_queries
from tilewright.lower.split_rows import SplitRows, long_axis
from tilewright.lower.tuning import ALIGNED, LEAST_PART, LONG_ROW, LONGEST_PART, PART_COPIES
from tilewright.tile.record import Record
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering

ALSO_ALONE = ("argmax", "take_along_axis", "put_along_axis")
"""Ops of groups that are lowered by themselves where their rows do not fit."""

MOST_DEMOTED = 8
"""Values that give way to a group one by one; then all do."""


def write_group(low: Lowering, group: Group) -> None:
    """Write a group so that it fits."""
    for way, attempt, copies in _attempts(low, group):
        state = State.of(low)
        attempt()
        misfit = _settle(low, state, copies)
        low.draft.tried(_of_part(low, group, way), misfit)
        if misfit is None:
            return
        state.restore(low)
    if len(group.ops) == 1 and group.ops[0].name in ALSO_ALONE:
        write_op(low, group.ops[0])
        return
    if len(group.ops) == 1:
        raise fail(
            "E501",
            f"{group.ops[0].name} of {group.ops[0].result.type} does not fit on chip",
            location=group.ops[0].location,
            error=TileNotImplementedError,
        )
    lanes = low.target["limits.partitions"]
    whole = {op for op in group.ops if op.definition.family != "elementwise" and op.name not in (*COMBINED, *SCANNED)}
    apart = whole if whole and len(whole) < len(group.ops) else set(group.ops)
    low.draft.tried(_of_part(low, group, "divided into smaller steps"))
    for step in subdivide(group, lanes, apart):
        low.step(step)


def write_op(low: Lowering, op: Op) -> None:
    """Write an op by itself, with fewer copies of its tiles or nothing else on chip if it has to be."""
    if is_view(op):
        low.single(op)
        low.b.copied.clear()
        return
    for last in (False, True):
        state = State.of(low)
        low.single(op)
        misfit = _settle(low, state, (MOST_COPIES, 2, 1))
        given_up = misfit is not None and not last and bool(low.resident or low.shared)
        low.draft.tried(f"{op.name} by itself" + ", nothing else on chip" * last, misfit if given_up else None)
        if not given_up:
            return
        state.restore(low)
        low.spill()


def _of_part(low: Lowering, group: Group, way: str) -> str:
    """A way of writing a group, which may be a part of the step in work."""
    step = low.draft.steps[low.draft.at]
    return way if step is group else f"{', '.join(dict.fromkeys(op.name for op in group.ops))}: {way}"


def _settle(low: Lowering, state: State, copies: Sequence[int]) -> str | None:
    """Leave what was written as many copies of its tiles as fit; says why it does not fit at all."""
    copied, low.b.copied = low.b.copied, []
    misfit = None
    for most in copies:
        for buffer in copied:
            buffer.depth = min(buffer.depth, most)
        misfit = state.misfit(low)
        if misfit is None or not copied:
            return misfit
    return misfit


Way = tuple[str, Callable[[], None], tuple[int, ...]]
"""A way to write a group: its name, what writes it, and the most copies that its tiles may have."""


def _attempts(low: Lowering, group: Group) -> Iterator[Way]:
    """Ways to write a group, the best first."""
    as_asked, fewer = (MOST_COPIES,), (MOST_COPIES, 1)
    yield from _few_queries(low, group)
    across = list(_across(low, group))
    is_narrow = group.rows * 2 <= low.target["limits.partitions"]
    if across and is_narrow:
        yield from across
    hopeless = any(op.name in PRODUCTS and _is_too_large(low, group, op) for op in group.ops)
    by_panels = list(_online(low, group))
    if not hopeless:
        whole = BlockEmitter(low, group)
        whole.must_overlap = bool(by_panels)
        yield "blocks of whole rows", whole.run, as_asked
    else:
        low.draft.tried(_of_part(low, group, "blocks of whole rows"), "an operand of a product does not fit as a whole")
    yield from by_panels
    if by_panels and not hopeless:
        yield "blocks of whole rows, one at a time", BlockEmitter(low, group).run, as_asked
    if across and is_narrow:
        # Steps by themselves have more partitions at work than parts of a few rows.
        return
    for cut in _cuts(low, group):
        emitter = ColumnEmitter(low, group, cut)
        if emitter.passes > 1:
            # Rows across partitions are read once.
            yield from across
            across = []
        yield _cut_text(cut), emitter.run, as_asked
    if len(group.ops) == 1 and group.ops[0].name in PRODUCTS:
        lanes, bank = low.target["limits.partitions"], low.target["memory.psum_bank_bytes"] // float32.itemsize
        for parts in (every := list(parts_of(group.ops[0], lanes, bank))):
            yield _parts_text(parts), LargeProduct(low, group.ops[0], parts).write, as_asked
        yield "a product in the least parts, tiles once", LargeProduct(low, group.ops[0], every[-1]).write, fewer
    if low.resident or low.shared:
        if not hopeless:
            yield from _demoting(low, group)
        low.spill()
        if not hopeless:
            whole = BlockEmitter(low, group, keep=False).run
            yield "blocks of whole rows, nothing else on chip", whole, as_asked
        for cut in _cuts(low, group):
            yield f"{_cut_text(cut)}, nothing else on chip", ColumnEmitter(low, group, cut).run, as_asked


def _demoting(low: Lowering, group: Group) -> Iterator[Way]:
    """Whole rows again each time that a value on chip gave way, the one with the least reuse per byte first."""
    for value in low.least_reused()[:MOST_DEMOTED]:
        low.send_away(value, "gave way to a step that did not fit beside it: least reuse per byte")
        yield f"blocks of whole rows, {value.name or 'a value'} in HBM", BlockEmitter(low, group).run, (MOST_COPIES,)


def _across(low: Lowering, group: Group) -> Iterator[Way]:
    """Rows that lie across several partitions, as few as suffice."""
    lanes, room = low.target["limits.partitions"], low.target["memory.sbuf_usable_bytes"]
    size = long_axis(group)
    if size is None or size < LONG_ROW:
        return
    lines = 4 * sum(v.type.shape[-1:] == (size,) for v in _tiles(group))
    possible = [parts for parts in even_parts(size, lanes) if 2 * 4 * (size // parts) <= room]
    easy = [parts for parts in possible if 2 * lines * (size // parts) <= room]
    # As many as the rows leave partitions for, or more where that leaves too little room.
    wanted = max(lanes // group.rows, 2)
    best = [parts for parts in easy if parts <= wanted][-1:] + [parts for parts in easy if parts > wanted][:2]
    best += [parts for parts in possible if parts not in easy][-1:]
    for parts in best:
        yield f"rows across {parts} partitions each", SplitRows(low, group, size, parts).run, (MOST_COPIES, 2, 1)


def _few_queries(low: Lowering, group: Group) -> Iterator[Way]:
    """Attention of a few queries."""
    found = find_softmax_product(group, low.target["limits.partitions"])
    if found is not None and has_few_queries(group, found):
        yield "keys on partitions, for few queries", FewQueries(low, group, found).write, (2, 1)


def _online(low: Lowering, group: Group) -> Iterator[Way]:
    """Attention by parts of rows, sums rescaled on the way."""
    lanes, bank = low.target["limits.partitions"], low.target["memory.psum_bank_bytes"] // float32.itemsize
    found = find_softmax_product(group, lanes, bank)
    if found is None:
        return
    for sizes in sizes_of(found.scores.result.type.shape[-1]):
        if sizes.least_bytes(found, lanes) > low.target["memory.sbuf_usable_bytes"]:
            continue
        way = f"rescaled sums: {sizes.chunk} columns on chip, {sizes.panel} at a time"
        yield way, OnlineAttention(low, found, sizes).write, (2,)


def _cut_text(cut: Cut) -> str:
    parts = [f"{size} of {axis.size}" for axis, size in (*cut.outer.items(), *cut.inner.items())]
    return f"parts of rows: {' and '.join(parts)} elements of an axis at a time"


def _parts_text(parts: Parts) -> str:
    return (
        f"parts of a product: {parts.row_blocks} blocks of rows, {parts.columns} columns, {parts.k_blocks} blocks of K"
    )


def _is_too_large(low: Lowering, group: Group, op: Op) -> bool:
    """True for a product one of whose operands does not fit as blocks hold it."""
    lanes, room = low.target["limits.partitions"], low.target["memory.sbuf_usable_bytes"]
    x, y = op.operands
    k, n = y.type.shape[-2:]
    left = (k + -(-k // lanes) * min(group.rows, lanes)) * x.type.dtype.itemsize
    right = -(-k // lanes) * n * y.type.dtype.itemsize if group.rows > lanes else 0
    return left > room or right > room


# What an attempt changes.


@dataclass(frozen=True, slots=True)
class State:
    """What lowering knew and had written before an attempt."""

    ops: tuple[Op, ...]
    arguments: int
    constants: int
    known: dict[str, dict]

    @staticmethod
    def of(low: Lowering) -> State:
        """The state now."""
        known = {
            name: dict(getattr(low, name)) for name in ("homes", "resident", "shared", "given", "moved", "delivered")
        }
        body = low.b.graph.body
        return State(tuple(body.ops), len(body.arguments), len(low.constants), known)

    def restore(self, low: Lowering) -> None:
        """Forget what was written since."""
        body = low.b.graph.body
        for op in low.b.since(self.ops):
            op.unregister()
            op.drop_inner_uses()
        body.ops[:] = self.ops
        del body.arguments[self.arguments :]
        del low.constants[self.constants :]
        for name, content in self.known.items():
            getattr(low, name).clear()
            getattr(low, name).update(content)

    def misfit(self, low: Lowering) -> str | None:
        """Why what was written since does not fit beside what is kept; None where it does."""
        new = low.b.since(self.ops)
        kept, found = low.kept(), None
        if not surely_fits(new, low.target, kept):
            found = occupancy_of(new, low.target, kept).misfit(low.target)
        limit = low.target["limits.vector_free_max_sbuf"]
        if found is None and not _is_in_reach(new, limit):
            return f"an instruction would count more than {limit} elements per partition"
        return found


def _is_in_reach(ops: Sequence[Op], limit: int) -> bool:
    """True when no instruction touches more of a partition than its engine can count."""
    for op in ops:
        if op.regions:
            if not _is_in_reach(op.regions[0].ops, limit):
                return False
        elif isinstance(op.definition, Record) and "dma" not in op.definition.engines:
            if any(isinstance(view, View) and view.on_chip and view.free > limit for view in op.operands):
                return False
    return True


# Ways to cut a group.


def _cuts(low: Lowering, group: Group) -> Iterator[Cut]:
    """Parts of the axes of a group, larger ones first."""
    axes = Axes(group)
    if not axes.all:
        return
    room = low.target["memory.sbuf_usable_bytes"] - sum(low.resident.values())
    sizes = _sizes(axes, group, room)
    while sizes is not None:
        outer = {axis: size for axis, size in sizes.items() if not axis.combined}
        inner = {axis: size for axis, size in sizes.items() if axis.combined}
        if _is_uniform(axes, group, list(inner)):
            yield Cut(axes, outer, inner)
        if all(size == 1 for size in sizes.values()):
            return
        longest, size = max(sizes.items(), key=lambda item: item[1])
        sizes = {**sizes, longest: -(-size // 2)}


def _is_uniform(axes: Axes, group: Group, inner: list[Axis]) -> bool:
    """True when every value has all of the inner axes or none, and every reduction is over all of them or none."""
    if len(inner) < 2:
        return True
    for op in group.ops:
        for v in (*op.values(), op.result):
            if len({axes.has(v, axis) for axis in inner}) > 1:
                return False
        if op.name in SCANNED:
            return False
        if op.name in COMBINED:
            x = op.operands[0]
            over = {axes.of(x, a) for a in op.attrs["axes"]}
            if len({axis in over for axis in inner if axes.has(x, axis)}) > 1:
                return False
    return True


def _sizes(axes: Axes, group: Group, room: int) -> dict[Axis, int] | None:
    """How much of which axes may be in work: one axis if that suffices, one that no op combines rather than others."""
    for axis in sorted(axes.all, key=lambda axis: axis.combined):
        size = _size(axes, group, {}, axis, room)
        if size >= min(axis.size, LEAST_PART):
            return {axis: size}
    sizes: dict[Axis, int] = {}
    for axis in axes.all:
        size = _size(axes, group, sizes, axis, room)
        sizes[axis] = max(size, 1)
        if size:
            return sizes
    return sizes or None


def _size(axes: Axes, group: Group, fixed: dict[Axis, int], axis: Axis, room: int) -> int:
    """The largest part of an axis with which there is room for several copies of everything; 0: none."""
    size = min(axis.size, LONGEST_PART)
    while size and PART_COPIES * _bytes(axes, group, {**fixed, axis: size}) > room:
        size //= 2
    if not size:
        return 0
    parts = -(-axis.size // size)
    even = -(-axis.size // parts)
    return min(size, -(-even // ALIGNED) * ALIGNED)


def _bytes(axes: Axes, group: Group, sizes: dict[Axis, int]) -> int:
    """Bytes per partition of one tile of every value."""
    total = 0
    for value, roles in _tiles(group).items():
        free = roles.free_dims(value.type.rank)
        held = [min(sizes.get(axes.of(value, d), value.type.shape[d]), value.type.shape[d]) for d in free]  # type: ignore[call-overload]
        total += prod(held) * device_dtype(value.type.dtype).itemsize
    return total


def _tiles(group: Group) -> dict[Value, Roles]:
    """Every value that a group has tiles of, with its roles."""
    found = dict(group.roles)
    for op in group.ops:
        roles, rank = group.roles[op.result], op.result.type.rank
        for x in op.values():
            if x in found:
                continue
            if op.name in COMBINED or op.name in SCANNED:
                found[x] = operand_roles(op, roles)
            elif op.name not in PRODUCTS:
                by = rank - x.type.rank
                rows = (max(roles.rows[0] - by, 0), max(roles.rows[1] - by, 0))
                found[x] = Roles(rows, tuple(d - by for d in roles.batch if d >= by))
    return found

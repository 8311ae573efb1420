"""Ways to write a group, in the order in which they are tried.

As a whole; part by part along its axes; with some or all of what is on chip sent away, as a whole and part by part;
divided into smaller groups, products and joins by themselves; every op by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.ir.core import Op, Value
from tilewright.lower.choose.cuts import cuts, held_cuts
from tilewright.lower.choose.overlap import overlapping_cut, streamed_cuts, tall_cuts
from tilewright.lower.choose.patch_sizes import patch_sizes
from tilewright.lower.choose.superblocks import Superblocks, together
from tilewright.lower.nest.blocks import BlockEmitter, is_plain, longest_row
from tilewright.lower.nest.channel_rows import ChannelRows
from tilewright.lower.nest.columns import ColumnEmitter, Cut
from tilewright.lower.nest.inside import INSIDE
from tilewright.lower.nest.members import Members, members_at_a_time
from tilewright.lower.nest.patched import PatchEmitter
from tilewright.lower.nest.split_rows import SplitRows
from tilewright.lower.nest.tall_rows import TallRows
from tilewright.lower.products.few_queries import FewQueries
from tilewright.lower.products.large import LargeProduct
from tilewright.lower.products.large_parts import Parts, parts_of
from tilewright.lower.products.online import OnlineAttention, sizes_of
from tilewright.lower.regions.axes import COMBINED, SCANNED, tiles_of
from tilewright.lower.regions.delivery import can_deliver
from tilewright.lower.regions.even import even_parts
from tilewright.lower.regions.grouping import Group, Step, in_two, middle, subdivide, totals_apart
from tilewright.lower.regions.long_rows import LongAxis, long_axis
from tilewright.lower.regions.planning import psum_room
from tilewright.lower.regions.residency import read_again, steps_reading
from tilewright.lower.regions.roles import PRODUCTS, Roles
from tilewright.lower.regions.softmax_product import find_softmax_product, has_few_queries
from tilewright.lower.regions.stencils import Stencil
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import Hbm, is_view

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


@dataclass(frozen=True, slots=True)
class Way:
    """A way to write a group: its name, what writes it, and the most copies that its tiles may have.

    kind: ways of one kind differ in size; those that come first need fewer transfers and instructions, and the first
    that fits is taken, but for those that tell their size. hopeless: why it need not even be tried.
    """

    kind: str
    name: str
    write: Callable[[], None]
    copies: tuple[int, ...] = field(default_factory=lambda: (TUNING.most_copies,))
    hopeless: str | None = None
    size: int = 0
    is_last_resort: bool = False
    """Whether it is for groups that no other way writes with the bytes that have to move."""
    twin: Group | None = None
    """The group in another layout, where the way is one of that."""
    instead_of: str | None = None
    """The only kind that it may take the place of: where another one fits it is not tried."""


def ways(low: Lowering, group: Group) -> Iterator[Way]:
    """Ways to write a group in one of its layouts; those that need the fewest instructions come first."""
    own = list[Way]()
    for way in _ways(low, group):
        if way.is_last_resort:
            own.append(way)
        else:
            yield way
    for i, twin in enumerate(group.twins):
        if all(can_deliver(twin, v, out) for v in twin.results for out in low.outputs.get(v, ())):
            layout = f"{twin.rows} rows instead of {group.rows}"
            for way in (*_many_rows(low, twin), _whole(low, twin)):
                yield replace(way, kind=f"{way.kind}, layout {i}", name=f"{way.name}, {layout}", twin=twin)
    yield from own


def _ways(low: Lowering, group: Group) -> Iterator[Way]:
    """Ways to write a group as it is laid out."""
    if group.tall is not None:
        yield from _all_rows(low, group)
        return
    if group.stencil is not None:
        yield from _patched(low, group, group.stencil)
        return
    if group.totals:
        yield from _many_rows(low, group)
        yield _whole(low, group)
        yield Way("totals apart", "reductions over its rows by themselves", lambda: _totals_apart(low, group))
        return
    yield from _few_queries(low, group)
    axis = long_axis(group)
    across = list(_across(low, group, axis))
    lanes, room = low.target["limits.partitions"], low.target["memory.sbuf_usable_bytes"]
    # Rows of several dims may be too long for their first one.
    is_narrow = group.rows * 2 <= lanes and axis is not None and axis.back == 1
    if across and is_narrow:
        yield from across
    cut = overlapping_cut(low, group)
    if cut is not None:
        yield Way("overlapping", _cut_text(cut), lambda: ColumnEmitter(low, group, cut).run())
    yield from _many_rows(low, group)
    by_panels = list(_online(low, group))
    whole = _whole(low, group, must_overlap=bool(by_panels))
    yield whole
    yield from _members(low, group)
    yield from _finer(low, group)
    yield from _held(low, group)
    yield from _superblocks(low, group)
    yield from by_panels
    if by_panels and whole.hopeless is None:
        yield _whole(low, group, "one at a time")
    # Steps by themselves have more partitions at work than parts of a few rows.
    if not (across and is_narrow):
        for way, passes in _by_parts(low, group, room - sum(low.resident.values())):
            if across and passes() > 1:
                # Rows across partitions are read once.
                yield from across
                across = []
            yield way
        yield from _products(low, group)
        if low.resident or low.shared:
            if whole.hopeless is None:
                yield from _demoting(low, group)
            yield from _alone(low, group)
    if len(group.ops) > 1:
        yield Way("divided", "divided into smaller steps", lambda: _divide(low, group), is_last_resort=True)
        if middle(group):
            write = partial(_in_two, low, group)
            yield Way("in two", "two groups", write, is_last_resort=True, instead_of="divided")


def _patched(low: Lowering, group: Group, stencil: Stencil) -> Iterator[Way]:
    """Patches with a border, those of the least time by a closed form first."""
    for i, patches in enumerate(patch_sizes(stencil, low.target)):
        sizes = " x ".join(str(along.size) for along in patches.along)
        name = f"{patches.cells} patches of {sizes}, each with its border"
        yield Way("patches", name, PatchEmitter(low, group, patches).run, size=i)


def _all_rows(low: Lowering, group: Group) -> Iterator[Way]:
    """All rows of some columns, or smaller steps."""
    if group.tall is not None and group.tall.channels > 1:
        for pieces in (2 * TUNING.tall_pieces, 4 * TUNING.tall_pieces):
            yield Way("all rows", "all rows", lambda pieces=pieces: ChannelRows(low, group, pieces).run())
        yield Way("divided", "divided into smaller steps", lambda: _divide(low, group))
        yield _by_blocks(low, group)
        return
    for cut, pieces in tall_cuts(low, group):
        name = "all rows" + (f" of {_sizes_text(cut)}" if cut.outer else "")
        yield Way("all rows", name, lambda cut=cut, pieces=pieces: TallRows(low, group, cut, pieces).run())
    for cut, pieces in streamed_cuts(low, group):
        name = "rows piece by piece" + (f", of {_sizes_text(cut)}" if cut.outer else "")
        yield Way("pieces", name, lambda cut=cut, pieces=pieces: TallRows(low, group, cut, pieces, True).run())
    yield Way("divided", "divided into smaller steps", lambda: _divide(low, group))
    yield _by_blocks(low, group)


def _by_blocks(low: Lowering, group: Group) -> Way:
    """Groups that take in one block of rows after the other; what several of them read is loaded once."""

    def write() -> None:
        steps = subdivide(group, low.target["limits.partitions"], set(), psum_room(low.target))
        there = [value for value in group.reads if isinstance(low.homes.get(value), Hbm)]
        again = read_again(steps, there, steps_reading(steps), low.target)
        held = [each.value for each in again if each.bytes <= low.room() and low.hold(each)]
        _write_apart(low, steps)
        for value in held:
            low.let_go(value)

    return Way("by blocks", "block by block, what goes over rows taken in", write)


def _whole(low: Lowering, group: Group, how: str = "", must_overlap: bool = False, keep: bool = True) -> Way:
    def write() -> None:
        emitter = BlockEmitter(low, group, keep)
        emitter.must_overlap = must_overlap
        emitter.run()

    name = "blocks of whole rows" + (f", {how}" if how else "")
    is_large = any(op.name in PRODUCTS and _is_too_large(low, group, op) for op in group.ops)
    hopeless = "an operand of a product does not fit as a whole" if is_large else None
    if how:
        return Way("whole rows again", name, write, hopeless=hopeless)
    return Way("whole rows", name, write, hopeless=hopeless)


def _many_rows(low: Lowering, group: Group) -> Iterator[Way]:
    """Several rows in each partition: instructions are longer where rows are short."""
    able = all(is_plain(op) or op.name in (*COMBINED, *INSIDE) or is_view(op) for op in group.ops)
    if not able or longest_row(group) > TUNING.short_rows or BlockEmitter(low, group).per > 1:
        return
    emitter = BlockEmitter(low, group, many_rows=True)
    if emitter.per > 1:
        name = f"{emitter.per} rows in each partition"
        yield Way("many rows", name, lambda: BlockEmitter(low, group, many_rows=True).run())


def _members(low: Lowering, group: Group) -> Iterator[Way]:
    """Several members of a batch of small matrices side by side."""
    for count in members_at_a_time(group, low.target):
        name = f"{count} members of a batch side by side"
        yield Way("members", name, lambda count=count: Members(low, group, count).run(), size=count)


def _finer(low: Lowering, group: Group) -> Iterator[Way]:
    """Smaller blocks of rows: the first is loaded and the last is stored sooner."""
    if not all(is_plain(op) for op in group.ops):
        return
    per = BlockEmitter(low, group).per
    for blocks in (2, 4):
        if per % blocks == 0 and per // blocks * longest_row(group) >= TUNING.split_columns // 4:
            name = f"smaller blocks: {per // blocks} rows in each partition"
            yield Way(
                "smaller blocks", name, lambda n=blocks: BlockEmitter(low, group, blocks=n).run(), size=per // blocks
            )


def _is_too_large(low: Lowering, group: Group, op: Op) -> bool:
    """True for a product one of whose operands does not fit as blocks hold it."""
    lanes, room = low.target["limits.partitions"], low.target["memory.sbuf_usable_bytes"]
    x, y = op.operands
    k, n = y.type.shape[-2:]
    left = (k + -(-k // lanes) * min(group.rows, lanes)) * x.type.dtype.itemsize
    right = -(-k // lanes) * n * y.type.dtype.itemsize if group.rows > lanes else 0
    return left > room or right > room


def _across(low: Lowering, group: Group, axis: LongAxis | None) -> Iterator[Way]:
    """Rows that lie across several partitions, as few as suffice."""
    lanes, room = low.target["limits.partitions"], low.target["memory.sbuf_usable_bytes"]
    if axis is None or axis.row < TUNING.long_row:
        return
    rows = 4 * sum(_row_size(v, roles) for v, roles in tiles_of(group).items() if axis.is_of(v, roles))
    possible = [parts for parts in even_parts(axis.size, lanes) if 2 * 4 * axis.row <= room * parts]
    easy = [parts for parts in possible if 2 * rows <= room * parts]
    # As many as the rows leave partitions for, or more where that leaves too little room.
    wanted = max(lanes // group.rows, 2)
    best = [parts for parts in easy if parts <= wanted][-1:] + [parts for parts in easy if parts > wanted][:2]
    best += [parts for parts in possible if parts not in easy][-1:]
    for parts in best:
        name = f"rows across {parts} partitions each"
        yield Way(
            "across", name, lambda parts=parts: SplitRows(low, group, axis, parts).run(), (TUNING.most_copies, 2, 1)
        )


def _row_size(x: Value, roles: Roles) -> int:
    return prod(x.type.shape[d] for d in roles.free_dims(x.type.rank))


def _superblocks(low: Lowering, group: Group) -> Iterator[Way]:
    """Several blocks of whole rows at a time, right operands of products passing."""
    for count in together(group, low.target["limits.partitions"]):
        name = f"{count} blocks of whole rows at a time"
        yield Way("superblocks", name, lambda count=count: Superblocks(low, group, count).run())


def _few_queries(low: Lowering, group: Group) -> Iterator[Way]:
    """Attention of a few queries."""
    found = find_softmax_product(group, low.target["limits.partitions"])
    if found is not None and has_few_queries(group, found):
        name = "keys on partitions, for few queries"
        yield Way("few queries", name, lambda: FewQueries(low, group, found).write(), (2, 1))


def _online(low: Lowering, group: Group) -> Iterator[Way]:
    """Attention by parts of rows, sums rescaled on the way."""
    lanes, bank = low.target["limits.partitions"], low.target["memory.psum_bank_bytes"] // float32.itemsize
    found = find_softmax_product(group, lanes, bank)
    if found is None:
        return
    for sizes in sizes_of(found.scores.result.type.shape[-1]):
        if sizes.least_bytes(found, lanes) > low.target["memory.sbuf_usable_bytes"]:
            continue
        name = f"rescaled sums: {sizes.chunk} columns on chip, {sizes.panel} at a time"
        yield Way("rescaled sums", name, lambda sizes=sizes: OnlineAttention(low, found, sizes).write(), (2,))


def _held(low: Lowering, group: Group) -> Iterator[Way]:
    """Whole rows of what is read again on chip, everything else part by part."""
    for cut in held_cuts(group):
        name, size = f"rows on chip, {_cut_text(cut)}", min(cut.inner.values())
        yield Way("held rows", name, lambda cut=cut: ColumnEmitter(low, group, cut).run(), size=size)


def _by_parts(low: Lowering, group: Group, room: int) -> Iterator[tuple[Way, Callable[[], int]]]:
    """Rows part by part, and how often that reads them, for who asks."""
    for cut in cuts(group, room):
        emitter = partial(ColumnEmitter, low, group, cut)
        way = Way("parts of rows", _cut_text(cut), lambda emitter=emitter: emitter().run())
        yield way, lambda emitter=emitter: emitter().passes


def _products(low: Lowering, group: Group) -> Iterator[Way]:
    """A product by itself, part by part."""
    (op, *others) = group.ops
    if others or op.name not in PRODUCTS:
        return
    every = list(parts_of(low, op))
    for parts in every:
        yield Way("parts", _parts_text(parts), lambda parts=parts: LargeProduct(low, op, parts).write())
    least = LargeProduct(low, op, every[-1])
    yield Way("parts", "a product in the least parts, tiles once", least.write, (TUNING.most_copies, 1))


def _demoting(low: Lowering, group: Group) -> Iterator[Way]:
    """Whole rows when some values on chip gave way, those with the least reuse per byte first."""
    why = "gave way to a step that did not fit beside it: least reuse per byte"
    values = low.least_reused()[: TUNING.most_demoted]
    for count in range(1, len(values) + 1):

        def write(going: list[Value] = values[:count]) -> None:
            for value in going:
                low.send_away(value, why)
            BlockEmitter(low, group).run()

        names = ", ".join(value.name or "a value" for value in values[:count])
        yield Way("demoting", f"blocks of whole rows, {names} in HBM", write, is_last_resort=True)


def _alone(low: Lowering, group: Group) -> Iterator[Way]:
    """With nothing else on chip."""

    def alone(way: Way) -> Way:
        def write() -> None:
            low.spill()
            way.write()

        return Way("alone", f"{way.name}, nothing else on chip", write, way.copies, way.hopeless, is_last_resort=True)

    yield alone(_whole(low, group, keep=False))
    for way, _ in _by_parts(low, group, low.target["memory.sbuf_usable_bytes"]):
        yield alone(way)


def _divide(low: Lowering, group: Group) -> None:
    """Smaller steps: products and joins by themselves, then every op."""
    whole = {op for op in group.ops if op.definition.family != "elementwise" and op.name not in (*COMBINED, *SCANNED)}
    apart = whole if whole and len(whole) < len(group.ops) else set() if group.tall else set(group.ops)
    _write_apart(low, subdivide(group, low.target["limits.partitions"], apart))


def _totals_apart(low: Lowering, group: Group) -> None:
    """A group, then the reductions over its rows."""
    _write_apart(low, totals_apart(group, low.target["limits.partitions"]))


def _in_two(low: Lowering, group: Group) -> None:
    """A group as two."""
    _write_apart(low, in_two(group, low.target["limits.partitions"]))


def _write_apart(low: Lowering, steps: Sequence[Step]) -> None:
    """Steps that a group is made of; given up where they are worse than another way already."""
    low.dividing += 1
    # Steps of a step are counted with it.
    contest = low.contest if low.dividing == 1 else None
    try:
        for step in steps:
            before = tuple(low.b.graph.body.ops)
            low.step(step)
            if contest is not None:
                contest.add(low.b.since(before))
    finally:
        low.dividing -= 1


def _cut_text(cut: Cut) -> str:
    return f"parts of rows: {_sizes_text(cut)}"


def _sizes_text(cut: Cut) -> str:
    parts = [f"{size} of {axis.size}" for axis, size in (*cut.outer.items(), *cut.inner.items())]
    return f"{' and '.join(parts)} elements of an axis at a time"


def _parts_text(parts: Parts) -> str:
    first = ", rows first" if parts.rows_first else ""
    sizes = f"{parts.row_blocks} blocks of rows, {parts.columns} columns, {parts.k_blocks} blocks of K"
    return f"parts of a product: {sizes}{first}"

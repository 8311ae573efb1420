"""Ways to write a group, in the order in which they are tried.

As a whole; part by part along its axes; with some or all of what is on chip sent away, as a whole and part by part;
divided into smaller groups, products and joins by themselves; every op by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING

from tilewright.ir.core import Op, Value
from tilewright.lower.choose.cuts import cuts, held_cuts
from tilewright.lower.choose.divide import BY_BLOCKS, DIVIDED, IN_TWO, TOTALS_APART
from tilewright.lower.choose.kinds import (
    ALL_ROWS,
    CHANNEL_ROWS,
    COLUMNS,
    FEW_QUERIES,
    HELD_ROWS,
    MANY_ROWS,
    MEMBERS,
    ONLINE,
    PATCHED,
    PRODUCT_BY_COLUMNS,
    PRODUCT_BY_ROWS,
    ROW_BLOCKS,
    SPLIT_ROWS,
    STREAMED_ROWS,
    SUPERBLOCKS,
    TABLE_ROWS,
    attention_of,
    has_many_rows,
    sizes_of_cut,
    table_rows,
)
from tilewright.lower.choose.overlap import overlapping_cut, streamed_cuts, tall_cuts
from tilewright.lower.choose.patch_sizes import patch_sizes
from tilewright.lower.choose.superblocks import together
from tilewright.lower.nest.blocks import BlockEmitter, is_plain, longest_row
from tilewright.lower.nest.column_rows import able_sections
from tilewright.lower.nest.columns import ColumnEmitter, Cut
from tilewright.lower.nest.members import members_at_a_time
from tilewright.lower.products.large_parts import Parts, parts_of
from tilewright.lower.products.online import sizes_of
from tilewright.lower.regions.axes import tiles_of
from tilewright.lower.regions.delivery import can_deliver
from tilewright.lower.regions.even import even_parts
from tilewright.lower.regions.grouping import Group, middle
from tilewright.lower.regions.long_rows import LongAxis, long_axis
from tilewright.lower.regions.roles import PRODUCTS, Roles
from tilewright.lower.regions.softmax_product import find_softmax_product, has_few_queries
from tilewright.lower.regions.stencils import Stencil
from tilewright.lower.schedule.data import Way
from tilewright.lower.tuning import TUNING

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to write a group as the search sees it: its name, and the most copies that its tiles may have.

    kind: candidates of one kind differ in size; those that come first need fewer transfers and instructions, and the
    first that fits is taken, but for those that tell their size. hopeless: why it need not even be tried.
    """

    kind: str
    name: str
    way: Way
    copies: tuple[int, ...] = field(default_factory=lambda: (TUNING.most_copies,))
    hopeless: str | None = None
    size: int = 0
    is_last_resort: bool = False
    """Whether it is for groups that no other way writes with the bytes that have to move."""
    twin: Group | None = None
    """The group in another layout, where the way is one of that."""
    instead_of: str | None = None
    """The only kind that it may take the place of: where another one fits it is not tried."""


def ways(low: Lowering, group: Group) -> Iterator[Candidate]:
    """Ways to write a group in one of its layouts; those that need the fewest instructions come first."""
    own = list[Candidate]()
    for way in _ways(low, group):
        if way.is_last_resort:
            own.append(way)
        else:
            yield way
    for i, twin in enumerate(group.twins):
        if all(can_deliver(twin, v, out) for v in twin.results for out in low.outputs.get(v, ())):
            layout = f"{twin.rows} rows instead of {group.rows}"
            for way in (*_looked_up(low, twin), *_many_rows(low, twin), _whole(low, twin)):
                yield replace(way, kind=f"{way.kind}, layout {i}", name=f"{way.name}, {layout}", twin=twin)
    yield from own


def _ways(low: Lowering, group: Group) -> Iterator[Candidate]:
    """Ways to write a group as it is laid out."""
    if group.tall is not None:
        yield from _all_rows(low, group)
        return
    if group.stencil is not None:
        yield from _patched(low, group.stencil)
        return
    if group.totals:
        yield from _many_rows(low, group)
        yield _whole(low, group)
        yield Candidate("totals apart", "reductions over its rows by themselves", Way(TOTALS_APART))
        return
    yield from _few_queries(low, group)
    axis = long_axis(group)
    across = list(_across(low, group, axis))
    lanes, room = low.target["limits.partitions"], low.target["memory.sbuf_usable_bytes"]
    # Rows of several dims may be too long for their first one.
    is_narrow = group.rows * 2 <= lanes and axis is not None and axis.back == 1
    if across and is_narrow:
        yield from across
    yield from _looked_up(low, group)
    yield from _many_rows(low, group)
    by_panels = list(_online(low, group, _is_hopeless(low, group)))
    whole = _whole(low, group, must_overlap=bool(by_panels))
    yield whole
    cut = overlapping_cut(low, group)
    if cut is not None:
        yield Candidate("overlapping", _cut_text(cut), Way(COLUMNS, sizes_of_cut(cut)))
    yield from _members(low, group)
    yield from _finer(low, group)
    yield from _held(group)
    yield from _superblocks(low, group)
    yield from by_panels
    if by_panels and whole.hopeless is None:
        yield replace(_whole(low, group), kind="whole rows again", name=f"{whole.name}, one at a time")
    # Steps by themselves have more partitions at work than parts of a few rows.
    if not (across and is_narrow):
        for way, cut in _by_parts(group, room - sum(low.resident.values())):
            if across and ColumnEmitter(low, group, cut).passes > 1:
                # Rows across partitions are read once.
                yield from across
                across = []
            yield way
        yield from _products(low, group)
        if low.resident or low.shared:
            if whole.hopeless is None:
                yield from _demoting(low)
            yield from _alone(low, group)
    if len(group.ops) > 1:
        yield Candidate("divided", "divided into smaller steps", Way(DIVIDED), is_last_resort=True)
        if middle(group):
            yield Candidate("in two", "two groups", Way(IN_TWO), is_last_resort=True, instead_of="divided")


def _patched(low: Lowering, stencil: Stencil) -> Iterator[Candidate]:
    """Patches with a border, those of the least time by a closed form first."""
    for i, patches in enumerate(patch_sizes(stencil, low.target, low.is_roomy)):
        sizes = " x ".join(str(along.size) for along in patches.along)
        name = f"{patches.cells} patches of {sizes}, each with its border"
        way = Way(PATCHED, tuple((f"d{d}", along.size) for d, along in enumerate(patches.along)))
        yield Candidate("patches", name, way, size=i)


def _all_rows(low: Lowering, group: Group) -> Iterator[Candidate]:
    """All rows of some columns, or smaller steps."""
    if group.tall is not None and group.tall.channels > 1:
        for pieces in (2 * TUNING.tall_pieces, 4 * TUNING.tall_pieces):
            yield Candidate("all rows", "all rows", Way(CHANNEL_ROWS, (("pieces", pieces),)))
    else:
        for cut, pieces in tall_cuts(low, group):
            name = "all rows" + (f" of {_sizes_text(cut)}" if cut.outer else "")
            yield Candidate("all rows", name, Way(ALL_ROWS, (("pieces", pieces), *sizes_of_cut(cut))))
        for cut, pieces in streamed_cuts(low, group):
            name = "rows piece by piece" + (f", of {_sizes_text(cut)}" if cut.outer else "")
            yield Candidate("pieces", name, Way(STREAMED_ROWS, (("pieces", pieces), *sizes_of_cut(cut))))
    yield Candidate("divided", "divided into smaller steps", Way(DIVIDED))
    yield Candidate("by blocks", "block by block, what goes over rows taken in", Way(BY_BLOCKS))


def _is_hopeless(low: Lowering, group: Group) -> bool:
    """True where an operand of a product does not fit as a whole."""
    return any(op.name in PRODUCTS and _is_too_large(low, group, op) for op in group.ops)


def _whole(low: Lowering, group: Group, must_overlap: bool = False) -> Candidate:
    hopeless = "an operand of a product does not fit as a whole" if _is_hopeless(low, group) else None
    way = Way(ROW_BLOCKS, overlap=must_overlap)
    return Candidate("whole rows", "blocks of whole rows", way, hopeless=hopeless)


def _many_rows(low: Lowering, group: Group) -> Iterator[Candidate]:
    """Several rows in each partition: instructions are longer where rows are short."""
    able = has_many_rows(low.target, group) is None
    if not able or longest_row(group) > TUNING.short_rows or BlockEmitter(low, group).per > 1:
        return
    per = BlockEmitter(low, group, many_rows=True).per
    if per > 1:
        yield Candidate("many rows", f"{per} rows in each partition", Way(MANY_ROWS, (("rows", per),)))


def _looked_up(low: Lowering, group: Group) -> Iterator[Candidate]:
    """Tables by columns on chip, in which rows are looked up: the fewer sections there are, the less is asked; more of
    them leave more room."""
    for sections in able_sections(low, group)[:2]:
        most = table_rows(low, group, Way(TABLE_ROWS)).per
        for per in dict.fromkeys((most, 1)):
            name = f"rows looked up on chip in {sections} sections, {per} in each partition"
            sizes = ((("rows", per),) if per > 1 else ()) + ((("sections", sections),) if sections > 1 else ())
            yield Candidate("looked up", name, Way(TABLE_ROWS, sizes))


def _members(low: Lowering, group: Group) -> Iterator[Candidate]:
    """Several members of a batch of small matrices side by side."""
    for count in members_at_a_time(group, low.target):
        name = f"{count} members of a batch side by side"
        yield Candidate("members", name, Way(MEMBERS, (("members", count),)), size=count)


def _finer(low: Lowering, group: Group) -> Iterator[Candidate]:
    """Smaller blocks of rows: the first is loaded and the last is stored sooner."""
    if not all(is_plain(op) for op in group.ops):
        return
    per = BlockEmitter(low, group).per
    for blocks in (2, 4):
        if per % blocks == 0 and per // blocks * longest_row(group) >= TUNING.split_columns // 4:
            name = f"smaller blocks: {per // blocks} rows in each partition"
            rows = BlockEmitter(low, group, blocks=blocks).per
            yield Candidate("smaller blocks", name, Way(ROW_BLOCKS, (("rows", rows),)), size=per // blocks)


def _is_too_large(low: Lowering, group: Group, op: Op) -> bool:
    """True for a product one of whose operands does not fit as blocks hold it."""
    lanes, room = low.target["limits.partitions"], low.target["memory.sbuf_usable_bytes"]
    x, y = op.operands
    k, n = y.type.shape[-2:]
    left = (k + -(-k // lanes) * min(group.rows, lanes)) * x.type.dtype.itemsize
    right = -(-k // lanes) * n * y.type.dtype.itemsize if group.rows > lanes else 0
    return left > room or right > room


def _across(low: Lowering, group: Group, axis: LongAxis | None) -> Iterator[Candidate]:
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
        yield Candidate("across", name, Way(SPLIT_ROWS, (("partitions", parts),)), (TUNING.most_copies, 2, 1))


def _row_size(x: Value, roles: Roles) -> int:
    return prod(x.type.shape[d] for d in roles.free_dims(x.type.rank))


def _superblocks(low: Lowering, group: Group) -> Iterator[Candidate]:
    """Several blocks of whole rows at a time, right operands of products passing."""
    for count in together(group, low.target["limits.partitions"]):
        name = f"{count} blocks of whole rows at a time"
        yield Candidate("superblocks", name, Way(SUPERBLOCKS, (("blocks", count),)))


def _few_queries(low: Lowering, group: Group) -> Iterator[Candidate]:
    """Attention of a few queries."""
    found = find_softmax_product(group, low.target["limits.partitions"])
    if found is None or not has_few_queries(group, found):
        return
    yield Candidate("few queries", "keys on partitions, for few queries", Way(FEW_QUERIES), (2, 1))
    # Rows of heads that lie beside each other come in longer runs.
    run = found.product.operands[1].type.shape[-1] * found.product.operands[1].type.dtype.itemsize
    count = min(
        -(-low.target["dma.efficient_bytes_minimum"] // run), *group.batch[-1:], low.target["limits.partitions"]
    )
    if count > TUNING.together:
        for heads in (count, -(-count // 2)):
            name = f"keys on partitions, for few queries of {heads} heads"
            yield Candidate("few queries", name, Way(FEW_QUERIES, (("heads", heads),)), (2, 1), size=heads)


def _online(low: Lowering, group: Group, is_large: bool = True) -> Iterator[Candidate]:
    """Attention by parts of rows, sums rescaled on the way.    is_large: whole rows do not fit"""
    found = attention_of(low.target, group)
    if found is None:
        return
    columns = found.scores.result.type.shape[-1]
    for sizes in sizes_of(columns):
        if sizes.panel >= columns and not is_large:
            # Nothing is rescaled then: whole rows, with more instructions.
            continue
        least = sizes.least_bytes(found, low.target["limits.partitions"])
        if least > low.target["memory.sbuf_usable_bytes"]:
            continue
        name = f"rescaled sums: {sizes.chunk} columns on chip, {sizes.panel} at a time"
        way = Way(ONLINE, (("chunk", sizes.chunk), ("panel", sizes.panel)))
        yield Candidate("rescaled sums", name, way, (2,))


def _held(group: Group) -> Iterator[Candidate]:
    """Whole rows of what is read again on chip, everything else part by part."""
    for cut in held_cuts(group):
        name, size = f"rows on chip, {_cut_text(cut)}", min(cut.inner.values())
        yield Candidate("held rows", name, Way(HELD_ROWS, sizes_of_cut(cut)), size=size)


def _by_parts(group: Group, room: int) -> Iterator[tuple[Candidate, Cut]]:
    """Rows part by part, and how they are cut."""
    for cut in cuts(group, room):
        yield Candidate("parts of rows", _cut_text(cut), Way(COLUMNS, sizes_of_cut(cut))), cut


def _products(low: Lowering, group: Group) -> Iterator[Candidate]:
    """A product by itself, part by part."""
    (op, *others) = group.ops
    if others or op.name not in PRODUCTS:
        return
    every = list(parts_of(low, op))
    for parts in every:
        yield Candidate("parts", _parts_text(parts), _way_of(parts))
    least = _way_of(every[-1])
    yield Candidate("parts", "a product in the least parts, tiles once", least, (TUNING.most_copies, 1))


def _way_of(parts: Parts) -> Way:
    kind = PRODUCT_BY_ROWS if parts.rows_first else PRODUCT_BY_COLUMNS
    return Way(kind, (("columns", parts.columns), ("rows", parts.row_blocks), ("depth", parts.k_blocks)))


def _demoting(low: Lowering) -> Iterator[Candidate]:
    """Whole rows when some values on chip gave way, those with the least reuse per byte first."""
    values = low.least_reused()[: TUNING.most_demoted]
    for count in range(1, len(values) + 1):
        names = ", ".join(value.name or "a value" for value in values[:count])
        way = Way(ROW_BLOCKS, spills=tuple(low.draft.names[value] for value in values[:count]))
        yield Candidate("demoting", f"blocks of whole rows, {names} in HBM", way, is_last_resort=True)


def _alone(low: Lowering, group: Group) -> Iterator[Candidate]:
    """With nothing else on chip."""
    for each in (_whole(low, group), *(way for way, _ in _by_parts(group, low.target["memory.sbuf_usable_bytes"]))):
        name, way = f"{each.name}, nothing else on chip", replace(each.way, alone=True)
        yield replace(each, kind="alone", name=name, way=way, is_last_resort=True)


def _cut_text(cut: Cut) -> str:
    return f"parts of rows: {_sizes_text(cut)}"


def _sizes_text(cut: Cut) -> str:
    parts = [f"{size} of {axis.size}" for axis, size in (*cut.outer.items(), *cut.inner.items())]
    return f"{' and '.join(parts)} elements of an axis at a time"


def _parts_text(parts: Parts) -> str:
    first = ", rows first" if parts.rows_first else ""
    sizes = f"{parts.row_blocks} blocks of rows, {parts.columns} columns, {parts.k_blocks} blocks of K"
    return f"parts of a product: {sizes}{first}"

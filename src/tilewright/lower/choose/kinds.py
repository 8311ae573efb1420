"""The kinds of ways to write a group: what each needs of the group and of its sizes, and what writes it.

A way is data (`schedule.data.Way`). The search proposes ways (`ways.py`), a user may give one; both are written here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.lower.choose.cuts import is_uniform
from tilewright.lower.choose.superblocks import MOST_TOGETHER, Superblocks
from tilewright.lower.nest.blocks import BlockEmitter, is_plain
from tilewright.lower.nest.channel_rows import ChannelRows
from tilewright.lower.nest.column_rows import TableRows, able_sections, fetches
from tilewright.lower.nest.columns import ColumnEmitter, Cut
from tilewright.lower.nest.inside import INSIDE
from tilewright.lower.nest.members import MULTIPLIED, Members, most_members
from tilewright.lower.nest.patched import PatchEmitter, chunk_count
from tilewright.lower.nest.split_rows import SplitRows
from tilewright.lower.nest.tall_rows import TallRows
from tilewright.lower.products.few_queries import FewQueries
from tilewright.lower.products.large import LargeProduct
from tilewright.lower.products.large_parts import Parts
from tilewright.lower.products.online import OnlineAttention, Sizes
from tilewright.lower.regions.axes import COMBINED, Axes
from tilewright.lower.regions.even import even_parts
from tilewright.lower.regions.long_rows import long_axis
from tilewright.lower.regions.patches import Along, Dim, Patches
from tilewright.lower.regions.roles import PRODUCTS
from tilewright.lower.regions.softmax_product import (
    SoftmaxProduct,
    find_softmax_product,
    has_few_queries,
    has_own_rows,
)
from tilewright.lower.schedule.axes import axis_name
from tilewright.lower.schedule.data import Way
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import is_view

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.lower.regions.grouping import Group
    from tilewright.target import Target


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of way.

    why_not: why a group cannot be written so. wrong: what is wrong with the sizes of a way. write: writes it, and gives
    it with the copies of its tiles, unless those are for who asked to settle.
    """

    write: Callable[[Lowering, Group, Way], Way]
    why_not: Callable[[Target, Group], str | None]
    wrong: Callable[[Lowering, Group, Way], str | None]


# Blocks of rows.


def _is_blocks(_: Target, group: Group) -> str | None:
    """Why the rows of a group are not worked through block by block."""
    if group.tall is not None:
        return "its rows are reduced, all are in work at once"
    return "it is a region of neighbours, which is cut into patches" if group.stencil is not None else None


def _row_blocks(low: Lowering, group: Group, way: Way) -> Way:
    emitter = BlockEmitter(low, group, keep=not way.alone, rows=way.size("rows"))
    return _with_rows(_ran(emitter, way), emitter)


def _with_rows(way: Way, emitter: BlockEmitter) -> Way:
    return replace(way, sizes=(("rows", emitter.per),)) if emitter.per > 1 else way


def _ran(emitter: BlockEmitter, way: Way) -> Way:
    emitter.buffers, emitter.must_overlap = way.buffers, way.overlap
    emitter.run()
    return replace(way, buffers=emitter.settled)


def table_rows(low: Lowering, group: Group, way: Way) -> TableRows:
    """What writes rows that are looked up on chip."""
    wide = has_many_rows(low.target, group) is None
    return TableRows(low, group, way.size("sections") or 1, way.size("rows"), wide)


def _table_rows(low: Lowering, group: Group, way: Way) -> Way:
    emitter = table_rows(low, group, way)
    made = _ran(emitter, way)
    sections = (("sections", emitter.sections),) if emitter.sections > 1 else ()
    return replace(made, sizes=((("rows", emitter.per),) if emitter.per > 1 else ()) + sections)


def _takes_rows(target: Target, group: Group) -> str | None:
    return _is_blocks(target, group) or (None if fetches(group) else "it takes no rows of a table")


def _table_rows_wrong(low: Lowering, group: Group, way: Way) -> str | None:
    able = able_sections(low, group)
    if (way.size("sections") or 1) not in able:
        return f"a table of it lies on chip in {' or '.join(map(str, able)) or 'no'} sections"
    most = table_rows(low, group, replace(way, sizes=())).most_rows
    names = _names(way, optional=("rows", "sections"))
    return names or _between(way, "rows", 1, most, "rows that can lie in a partition")


def _rows_wrong(low: Lowering, group: Group, way: Way) -> str | None:
    most = BlockEmitter(low, group, keep=not way.alone, many_rows=way.kind == MANY_ROWS).most_rows
    least = 2 if way.kind == MANY_ROWS else 1
    return _names(way, optional=("rows",)) or _between(way, "rows", least, most, "rows that can lie in a partition")


def _many_rows(low: Lowering, group: Group, way: Way) -> Way:
    emitter = BlockEmitter(low, group, many_rows=True, rows=way.size("rows"))
    return _with_rows(_ran(emitter, way), emitter)


def has_many_rows(target: Target, group: Group) -> str | None:
    """Why several rows cannot lie in each partition; None where they can."""
    # Where transposes are not exact, operands of products are turned by squares, a block at a time.
    products = MULTIPLIED if target["features.transpose_bit_exact"] else ()
    able = (*COMBINED, *INSIDE, *products)
    other = next((op for op in group.ops if not (is_plain(op) or op.name in able or is_view(op))), None)
    return _is_blocks(target, group) or (None if other is None else f"{other.name} works on rows by themselves")


# Parts of rows.


def cut_of(group: Group, way: Way, held: bool = False) -> Cut:
    """What a way cuts: axes that no op combines are outer loops."""
    axes = Axes(group)
    named = {axis_name(axis): axis for axis in axes.all}
    sizes = [(named[name], size) for name, size in way.sizes if name in named]
    outer = {axis: size for axis, size in sizes if not axis.combined}
    return Cut(axes, outer, {axis: size for axis, size in sizes if axis.combined}, held)


def sizes_of_cut(cut: Cut) -> tuple[tuple[str, int], ...]:
    """The same as a way has it."""
    return tuple((axis_name(axis), size) for axis, size in (*cut.outer.items(), *cut.inner.items()))


def _columns(low: Lowering, group: Group, way: Way) -> Way:
    return _ran(ColumnEmitter(low, group, cut_of(group, way)), way)


def _held_columns(low: Lowering, group: Group, way: Way) -> Way:
    return _ran(ColumnEmitter(low, group, cut_of(group, way, held=True)), way)


def _has_axes(target: Target, group: Group) -> str | None:
    if group.totals:
        return "what goes over its rows takes in whole rows"
    return _is_blocks(target, group) or (None if Axes(group).all else "it has no axis along which it can be cut")


def _has_combined(target: Target, group: Group) -> str | None:
    if any(op.name in PRODUCTS for op in group.ops):
        return "it has a product"
    found = _has_axes(target, group)
    return found or (None if any(axis.combined for axis in Axes(group).all) else "it combines no axis")


def _cut_wrong(low: Lowering, group: Group, way: Way) -> str | None:
    axes = Axes(group)
    named = {axis_name(axis): axis for axis in axes.all}
    if not way.sizes:
        return f"it needs the size of an axis: {', '.join(named)}"
    for name, size in way.sizes:
        if name not in named:
            return f"the step has no axis {name} that can be cut: {', '.join(named)}"
        if not 1 <= size <= named[name].size:
            return f"axis {name} has {named[name].size} elements, not {size}"
    inner = [named[name] for name, _ in way.sizes if named[name].combined]
    if not is_uniform(axes, group, inner):
        return "values and reductions of the step have some of the combined axes and not others"
    return None


def _held_wrong(low: Lowering, group: Group, way: Way) -> str | None:
    found = _cut_wrong(low, group, way)
    if found is not None:
        return found
    cut = cut_of(group, way)
    return None if len(cut.inner) == 1 and not cut.outer else "it cuts one axis that is combined"


# All rows at once, and patches.


def _all_rows(low: Lowering, group: Group, way: Way) -> Way:
    return _ran(TallRows(low, group, cut_of(group, way), _told(way, "pieces")), way)


def _streamed(low: Lowering, group: Group, way: Way) -> Way:
    return _ran(TallRows(low, group, cut_of(group, way), _told(way, "pieces"), True), way)


def _channels(low: Lowering, group: Group, way: Way) -> Way:
    return _ran(ChannelRows(low, group, _told(way, "pieces")), way)


def _is_reduced(_: Target, group: Group) -> str | None:
    is_so = group.tall is not None and group.tall.channels == 1
    return None if is_so else "its rows are not reduced, or have channels"


def _has_channels(_: Target, group: Group) -> str | None:
    return None if group.tall is not None and group.tall.channels > 1 else "it has no channels"


def _pieces_wrong(low: Lowering, group: Group, way: Way) -> str | None:
    others = tuple(name for name, _ in way.sizes if name != "pieces")
    for name in others:
        axis = next((axis for axis in Axes(group).all if axis_name(axis) == name), None)
        if axis is None or axis.combined:
            return f"the step has no axis {name} that can be cut"
        if not 1 <= dict(way.sizes)[name] <= axis.size:
            return f"axis {name} has {axis.size} elements, not {dict(way.sizes)[name]}"
    return _names(way, ("pieces",), others) or _between(way, "pieces", 1, group.rows, "pieces of the rows")


def _channel_pieces(low: Lowering, group: Group, way: Way) -> str | None:
    return _names(way, ("pieces",)) or _between(way, "pieces", 1, group.rows, "pieces of the rows")


def patches_of(group: Group, way: Way) -> Patches:
    """A region cut into patches of some size."""
    assert group.stencil is not None
    dims = [Dim(group.stencil, d) for d in range(group.stencil.rank)]
    sizes = [_told(way, f"d{d}") for d in range(len(dims))]
    along = [Along(size, -(-dim.extent // size), dim.ring) for dim, size in zip(dims, sizes, strict=True)]
    return Patches.of(group.stencil, dims, along)


def _patched(low: Lowering, group: Group, way: Way) -> Way:
    PatchEmitter(low, group, patches_of(group, way)).run()
    return replace(way, buffers=())


def _is_stencil(_: Target, group: Group) -> str | None:
    return None if group.stencil is not None else "it reads no neighbours"


def _patches_wrong(low: Lowering, group: Group, way: Way) -> str | None:
    assert group.stencil is not None
    dims = [Dim(group.stencil, d) for d in range(group.stencil.rank)]
    found = _names(way, tuple(f"d{d}" for d in range(len(dims))))
    for d, dim in enumerate(() if found else dims):
        found = found or _between(way, f"d{d}", 1, dim.extent, f"elements of dim {d}")
        if not found and dim.is_whole and way.size(f"d{d}") != dim.extent:
            return f"dim {d} cannot be cut: all of its {dim.extent} places read one element"
    if found:
        return found
    patches = patches_of(group, way)
    count = chunk_count([patches.along[d] for d in patches.order], low.target["limits.partitions"])
    return f"{count} rounds of patches, at most {TUNING.patch_chunks}" if count > TUNING.patch_chunks else None


# Batches, long rows, products.


def _members(low: Lowering, group: Group, way: Way) -> Way:
    return _ran(Members(low, group, _told(way, "members")), way)


def _has_members(target: Target, group: Group) -> str | None:
    found = _is_blocks(target, group)
    return found or (None if most_members(group, target) else "it has no batch of small products")


def _members_wrong(low: Lowering, group: Group, way: Way) -> str | None:
    most = most_members(group, low.target)
    return _names(way, ("members",)) or _between(way, "members", 2, most, "members whose products fit a bank of PSUM")


def _split_rows(low: Lowering, group: Group, way: Way) -> Way:
    axis = long_axis(group)
    assert axis is not None
    return _ran(SplitRows(low, group, axis, _told(way, "partitions")), way)


def _has_long_axis(target: Target, group: Group) -> str | None:
    found = _is_blocks(target, group)
    return found or (
        None if long_axis(group) is not None else "its rows have no axis that all of its ops can share out"
    )


def _split_wrong(low: Lowering, group: Group, way: Way) -> str | None:
    axis, lanes = long_axis(group), low.target["limits.partitions"]
    assert axis is not None
    parts = even_parts(axis.size, lanes)
    if _names(way, ("partitions",)) or way.size("partitions") in parts:
        return _names(way, ("partitions",))
    told = ", ".join(map(str, parts)) or "none"
    return (
        f"rows of {axis.size} elements are not cut into {way.size('partitions')} equal parts, but into one of: {told}"
    )


def _superblocks(low: Lowering, group: Group, way: Way) -> Way:
    return _ran(Superblocks(low, group, _told(way, "blocks")), way)


def _has_product(target: Target, group: Group) -> str | None:
    if group.batch:
        return "it has outer loops"
    if group.totals or not any(op.name in PRODUCTS for op in group.ops):
        return "it has sums over its rows" if group.totals else "it has no product"
    return _is_blocks(target, group)


def _superblocks_wrong(low: Lowering, group: Group, way: Way) -> str | None:
    blocks = -(-group.rows // low.target["limits.partitions"])
    terms = any(op.name == "matmul_split" for op in group.ops)
    most = min(MOST_TOGETHER // (2 if terms else 1), blocks)
    return _names(way, ("blocks",)) or _between(way, "blocks", 2, most, "blocks of rows that have banks of PSUM")


def _few(low: Lowering, group: Group, way: Way) -> Way:
    found = find_softmax_product(group, low.target["limits.partitions"])
    assert found is not None
    FewQueries(low, group, found, way.size("heads") or TUNING.together).write()
    return replace(way, buffers=())


def _is_few(target: Target, group: Group) -> str | None:
    found = _is_blocks(target, group)
    if found is not None:
        return found
    attention = find_softmax_product(group, target["limits.partitions"])
    is_so = attention is not None and has_few_queries(group, attention)
    return None if is_so else "it is no attention of a few queries"


def _few_wrong(low: Lowering, group: Group, way: Way) -> str | None:
    return _names(way, (), ("heads",)) or _between(way, "heads", 1, max(group.batch[-1:], default=1), "heads")


def attention_of(target: Target, group: Group) -> SoftmaxProduct | None:
    """The attention that a group is, where sums can be rescaled on the way."""
    bank = target["memory.psum_bank_bytes"] // float32.itemsize
    found = find_softmax_product(group, target["limits.partitions"], bank)
    return found if found is not None and has_own_rows(found) else None


def _online(low: Lowering, group: Group, way: Way) -> Way:
    found = attention_of(low.target, group)
    assert found is not None
    OnlineAttention(low, found, Sizes(_told(way, "chunk"), _told(way, "panel"))).write()
    return replace(way, buffers=())


def _is_attention(target: Target, group: Group) -> str | None:
    found = _is_blocks(target, group)
    return found or (None if attention_of(target, group) is not None else "it is no softmax between two products")


def _online_wrong(low: Lowering, group: Group, way: Way) -> str | None:
    found = attention_of(low.target, group)
    assert found is not None
    columns, lanes = found.scores.result.type.shape[-1], low.target["limits.partitions"]
    wrong = _names(way, ("chunk", "panel")) or _between(way, "chunk", 1, columns, "keys")
    wrong = wrong or _between(way, "panel", 1, _told(way, "chunk"), "keys of a chunk")
    for name in () if wrong else ("chunk", "panel"):
        if _told(way, name) % lanes and _told(way, name) != columns:
            return f"{name} {way.size(name)} is no multiple of {lanes}"
    if not wrong and _told(way, "chunk") % _told(way, "panel"):
        return f"panel {way.size('panel')} does not divide chunk {way.size('chunk')}"
    return wrong


def _product(low: Lowering, group: Group, way: Way) -> Way:
    LargeProduct(low, group.ops[0], parts_of_way(way)).write()
    return replace(way, buffers=())


def parts_of_way(way: Way) -> Parts:
    """What of a product is in work at a time."""
    return Parts(_told(way, "columns"), _told(way, "rows"), _told(way, "depth"), way.kind == PRODUCT_BY_ROWS)


def _is_product(target: Target, group: Group) -> str | None:
    is_so = len(group.ops) == 1 and group.ops[0].name in PRODUCTS and not group.totals
    return _is_blocks(target, group) or (None if is_so else "it is not one product by itself")


def _product_wrong(low: Lowering, group: Group, way: Way) -> str | None:
    op, lanes = group.ops[0], low.target["limits.partitions"]
    (m, n), k = op.result.type.shape[-2:], op.operands[0].type.shape[-1]
    blocks, deep = -(-m // lanes), -(-k // lanes)
    wrong = _names(way, ("columns", "rows", "depth")) or _between(way, "columns", 1, n, "columns")
    wrong = (
        wrong or _between(way, "rows", 1, blocks, "blocks of rows") or _between(way, "depth", 1, deep, "blocks of K")
    )
    bank = low.target["memory.psum_bank_bytes"] // float32.itemsize
    if not wrong and _told(way, "columns") % bank and _told(way, "columns") != n:
        return f"columns {way.size('columns')} is no multiple of the {bank} that a bank of PSUM holds"
    if not wrong and way.kind == PRODUCT_BY_ROWS and way.size("depth") != deep:
        return f"rows stay only where all of K does: depth {deep}"
    return wrong


# What sizes are told.


def _told(way: Way, name: str) -> int:
    size = way.size(name)
    assert size is not None, f"{way.kind} has the size {name}"
    return size


def _names(way: Way, needed: tuple[str, ...] = (), optional: tuple[str, ...] = ()) -> str | None:
    """What is wrong with the names of sizes."""
    missing = [name for name in needed if way.size(name) is None]
    if missing:
        return f"it needs {', '.join(missing)}"
    unknown = [name for name, _ in way.sizes if name not in (*needed, *optional)]
    known = ", ".join((*needed, *optional)) or "none"
    return f"it has no size {unknown[0]}; its sizes: {known}" if unknown else None


def _between(way: Way, name: str, least: int, most: int, what: str) -> str | None:
    """What is wrong with a size, if it is told."""
    size = way.size(name)
    if size is None or least <= size <= most:
        return None
    return f"{name} {size} is not from {least} to {most}, the {what}"


ROW_BLOCKS, MANY_ROWS, COLUMNS, HELD_ROWS = "row blocks", "many rows", "columns", "held rows"
TABLE_ROWS = "looked up rows"
ALL_ROWS, STREAMED_ROWS, CHANNEL_ROWS, PATCHED = "all rows", "streamed rows", "channels", "patches"
MEMBERS, SPLIT_ROWS, SUPERBLOCKS, FEW_QUERIES = "batch members", "split rows", "superblocks", "few queries"
ONLINE, PRODUCT_BY_ROWS, PRODUCT_BY_COLUMNS = "online softmax", "product by rows", "product by columns"

KINDS: dict[str, Kind] = {
    ROW_BLOCKS: Kind(_row_blocks, _is_blocks, _rows_wrong),
    MANY_ROWS: Kind(_many_rows, has_many_rows, _rows_wrong),
    TABLE_ROWS: Kind(_table_rows, _takes_rows, _table_rows_wrong),
    COLUMNS: Kind(_columns, _has_axes, _cut_wrong),
    HELD_ROWS: Kind(_held_columns, _has_combined, _held_wrong),
    ALL_ROWS: Kind(_all_rows, _is_reduced, _pieces_wrong),
    STREAMED_ROWS: Kind(_streamed, _is_reduced, _pieces_wrong),
    CHANNEL_ROWS: Kind(_channels, _has_channels, _channel_pieces),
    PATCHED: Kind(_patched, _is_stencil, _patches_wrong),
    MEMBERS: Kind(_members, _has_members, _members_wrong),
    SPLIT_ROWS: Kind(_split_rows, _has_long_axis, _split_wrong),
    SUPERBLOCKS: Kind(_superblocks, _has_product, _superblocks_wrong),
    FEW_QUERIES: Kind(_few, _is_few, _few_wrong),
    ONLINE: Kind(_online, _is_attention, _online_wrong),
    PRODUCT_BY_ROWS: Kind(_product, _is_product, _product_wrong),
    PRODUCT_BY_COLUMNS: Kind(_product, _is_product, _product_wrong),
}
"""Every kind of way that writes a group as it is; those that divide it are in `divide.py`."""

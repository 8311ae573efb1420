"""tensor[key] = value: where a result goes, or a copy by whatever moves data between the two places."""

from __future__ import annotations

import sys
from typing import Any

from tilewright.errors import TileTypeError, fail
from tilewright.nki.legacy.faults import fault, shown
from tilewright.nki.legacy.operands import instead_of_tile, stretched, tile_of
from tilewright.nki.legacy.session import LegacySession, legacy_session
from tilewright.nki.legacy.tensor import LegacyTensor, new_tile
from tilewright.tile.attrs import as_number
from tilewright.tile.memory import PSUM, SBUF
from tilewright.tile.record import TABLE, Record
from tilewright.tile.view import View, same_access

# Instructions that move elements without converting them.
_KEEP_TYPE = frozenset(
    ("nc_transpose", "dma_transpose", "nc_stream_shuffle", "nc_n_gather", "local_gather", "nc_find_index8", "max8")
)


def assign(tensor: LegacyTensor, key: object, value: Any, temporary: bool = False) -> None:
    """tensor[key] = value. temporary: nobody else holds the value, whose instruction may write to the tensor itself."""
    session = legacy_session("assignment")
    target = tensor[key]
    number = as_number(value)
    if target._blocks is not None:
        _assign_blocks(session, target, value, number)
        return
    tile_of("copy", "dst", target)
    if number is not None:
        fill(session, target, number)
        return
    if not isinstance(value, LegacyTensor):
        what, hint = instead_of_tile(value)
        raise fail("E108", f"a tensor is assigned {what}; it takes a tile or a number", error=TileTypeError, hint=hint)
    if value._total is not None:
        value._total.add_to(session, target, value)
        return
    if value._tile is not None and target._tile is not None and same_access(value._tile, target._tile):
        return
    _refuse_dynamic(value)
    place(session, target, tile_of("copy", "src", value), temporary)


def _assign_blocks(session: LegacySession, target: LegacyTensor, value: Any, number: float | None) -> None:
    blocks = target._blocks
    assert blocks is not None
    if number is not None:
        for block in blocks:
            fill(session, block, number)
    elif isinstance(value, LegacyTensor) and value._blocks is not None and len(value._blocks) == len(blocks):
        for block, source in zip(blocks, value._blocks, strict=True):
            place(session, block, source, False)
    else:
        _ = target._view


def _refuse_dynamic(value: LegacyTensor) -> None:
    tile = value._tile
    if tile is not None and tile.on_chip and tile.dynamic is not None:
        fault(
            "err_copy_dynamic_indirect_indices_not_natively_supported",
            f"copying `{value.name}` with indices that are known only at run time is not natively supported",
            (value.name, tile),
            hint="use nisa.tensor_copy_dynamic_src(...) as the value",
            final=True,
        )


def fill(session: LegacySession, target: LegacyTensor, number: float) -> None:
    """Write a number: by memset, or where that cannot start at the partition, by memset and a copy."""
    dst = target._view
    value = int(number) if dst.dtype.is_integer and float(number).is_integer() else number
    record = TABLE["memset"]
    if starts_legally(session, dst):
        session.issue(record, [dst], record.attributes({"value": value}))
        return
    # A tile of the last dim's width, which the copy repeats over the others.
    tile = new_tile(session, (dst.sizes[0], dst.sizes[-1]), dst.dtype)
    source = tile._view
    session.issue(record, [source], record.attributes({"value": value}))
    steps = (source.strides[0], *[0] * (dst.ndim - 2), 1)
    copy(session, dst, View(source.buffer, source.dtype, 0, dst.sizes, steps))


def starts_legally(session: LegacySession, view: View) -> bool:
    """Whether an engine may access so many partitions from the first one on (R-tensor.address-03)."""
    if view.start_partition == 0:
        return True
    for limit, starts in session.target["memory.partition_starts"]:
        if view.partitions <= limit:
            return view.start_partition in starts
    return False


def place(session: LegacySession, target: LegacyTensor, value: LegacyTensor, temporary: bool) -> None:
    """Let a value's own instruction write to the target, or copy it there."""
    assert value._tile is not None
    shape = target.shape
    if not _same_layout(shape, value.shape):
        value = _broadcast(target, value)
        temporary = False
    boxes = value._boxes
    if boxes is not None and not boxes:
        session.flush()
        return
    made = value._tile
    record = session.holds(made.buffer) if temporary and made is not None else None
    if record is not None and (boxes is None or len(boxes) == 1):
        dst = target._view if boxes is None else target.inside(boxes[0])
        if _may_write(session, record, dst, value):
            session.redirect(dst, **({"accumulate": False} if record.accumulates else {}))
            return
    for box in (None,) if boxes is None else boxes:
        if box is None:
            copy(session, target._view, value._view)
        else:
            copy(session, target.inside(box), value.inside(box))


def _same_layout(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    if a == b:
        return True
    squeezed = [[size for size in shape[1:] if size != 1] for shape in (a, b)]
    return a[0] == b[0] and squeezed[0] == squeezed[1]


def _broadcast(target: LegacyTensor, value: LegacyTensor) -> LegacyTensor:
    """The value repeated up to the target's shape; a target that is smaller cannot hold it."""
    shape = target.shape
    sizes = (1,) * (len(shape) - value.ndim) + tuple(value.shape)
    if len(sizes) != len(shape) or any(size not in (1, other) for size, other in zip(sizes, shape, strict=True)):
        assert target._tile is not None and value._tile is not None
        fault(
            "err_store_dst_shape_smaller_than_other_shape",
            f"Illegal assignment destination shape in 'a = b': shape {shown(shape)} of parameter 'a' is smaller than "
            f"other parameter shapes b{shown(value.shape)}.",
            ("a", target._tile),
            ("b", value._tile),
            hint="index the value, or reduce it; the destination has the same shape or a larger one",
            final=True,
        )
    return stretched(value, tuple(shape))


def _may_write(session: LegacySession, record: Record, dst: View, value: LegacyTensor) -> bool:
    """Whether the instruction that makes a value can write to this place instead of to a tile of its own."""
    spec = next(iter(record.operands.values()))
    assert value._tile is not None
    made = value._tile
    if dst.memory not in spec.memories or dst.dynamic is not None:
        return False
    if dst.dtype != made.dtype:
        keeps = value._given or record.name in _KEEP_TYPE or not made.dtype.is_float
        if keeps and not (record.accumulates and dst.memory is PSUM):
            return False
    if spec.start and not starts_legally(session, dst):
        return False
    held = session.held_destination()
    if (held.partitions, held.free) != (dst.partitions, dst.free):
        return False
    return record.name != "nc_transpose" or dst.memory is made.memory


def copy(session: LegacySession, dst: View, src: View) -> None:
    """Move elements between tiles: by an engine where both start legally, else by DMA, PSUM through SBUF."""
    record = TABLE["tensor_copy"]
    if dst.sizes != src.sizes and dst.free == src.free:
        src = View(src.buffer, src.dtype, src.offset, *_reshaped(src, dst), src.terms, src.dynamic)
    if starts_legally(session, dst) and starts_legally(session, src):
        session.issue(record, [dst, src], record.attributes({}))
        return
    if src.memory is PSUM:
        tile = new_tile(session, src.sizes, src.dtype, SBUF)
        session.issue(record, [tile._tile, src], record.attributes({}))
        src = tile._view
    move = TABLE["dma_copy"]
    if dst.memory is PSUM:
        raise fail(
            "E104",
            "psum is written from a partition on that no engine starts at",
            rule="R-tensor.address-03",
            hint="write the whole tile, or start at a quadrant (0, 32, 64, 96)",
        )
    session.issue(move, [dst, src], move.attributes({}))


def _reshaped(src: View, dst: View) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and strides of a source in the destination's dims, which differ in dims of size 1."""
    steps = [step for size, step in zip(src.sizes[1:], src.strides[1:], strict=True) if size != 1]
    rest = iter(steps)
    return dst.sizes, (src.strides[0], *[next(rest) if size != 1 else 1 for size in dst.sizes[1:]])


class _Probe:
    """Counts the references to a value that is assigned."""

    count = 0

    def __setitem__(self, key: object, value: object) -> None:
        self.count = sys.getrefcount(value)

    def __iadd__(self, value: object) -> _Probe:
        self.count = sys.getrefcount(value)
        return self


def _references() -> tuple[int, int]:
    """How many references a value has in __setitem__ and in __iadd__ that nobody else holds; -1: it cannot be told."""
    probe = _Probe()
    probe[0] = object()
    alone = probe.count
    named = object()
    probe[0] = named
    item = alone if probe.count > alone else -1
    probe += object()
    alone = probe.count
    probe += named
    return item, alone if probe.count > alone else -1


ITEM_REFERENCES, ADD_REFERENCES = _references()

"""Reuse: which tiles share storage. Lowering gives every value a tile of its own; this pass lets a result take the
place of an operand that is done with.

A tile `new` may take the place of a tile `old` where no access of an element of `old` comes after a write of that
element of `new`, but for an instruction that computes the one from the other element for element, as its record allows
(`coincides`). Tiles are exchanged where that makes nobody wait: with what the first instruction that writes `new`
reads, or with what was last read to make that. Exact for accesses of the text, conservative for those that differ from
trip to trip of a common loop.

Expects instructions in which every value has its own tile; guarantees the same results, with fewer tiles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from tilewright.ir.core import Op, Region, Value
from tilewright.lower.decisions import decision
from tilewright.tile.memory import SBUF, Buffer
from tilewright.tile.overlap import Pattern, overlaps
from tilewright.tile.record import Record
from tilewright.tile.view import View
from tilewright.tile.visit import Visitor


class Access(NamedTuple):
    """An access of a buffer: where in the text, in which loops (their indices, the outermost first), and how."""

    at: int
    op: Op
    loops: tuple[Value, ...]
    view: View
    operand: str
    writes: bool


def reuse(ops: Sequence[Op], needed: Collection[Buffer]) -> list[Buffer]:
    """Let tiles that some ops allocate share storage; `needed` ones keep theirs, others use them later.

    The buffers that are no longer there.
    """
    walk = _Walk()
    walk.ops(ops)
    keeps = set(needed)
    gone: list[Buffer] = []
    for op, at in walk.instructions:
        found = _candidate(op, at, walk, keeps)
        if found is not None:
            old, new = found
            _merge(old, new, walk)
            gone.append(new)
            if op.definition.copies and _copies_itself(op, old):
                # What it copied is in place.
                op.erase()
    return gone


def _copies_itself(op: Op, buffer: Buffer) -> bool:
    """True for a copy from a place of a tile to itself that converts nothing."""
    into, source = op.operands[:2]
    return source.buffer is buffer and into.dtype is source.dtype and _is_same(into, source)


class _Walk(Visitor):
    """Goes through the text once and notes who accesses which tile."""

    def __init__(self) -> None:
        self.instructions: list[tuple[Op, int]] = []
        self.accesses: dict[Buffer, list[Access]] = {}
        self.region_of: dict[Buffer, Region | None] = {}
        self.depth_of: dict[Buffer, int] = {}
        self.positions: dict[Value, range] = {}
        self._loops: tuple[Value, ...] = ()
        self._at = 0

    def alloc(self, op: Op, buffer: Buffer) -> None:
        if buffer.memory is SBUF:
            self.region_of[buffer] = op.parent
            self.depth_of[buffer] = len(self._loops)

    def loop(self, op: Op, index: Value, positions: range) -> None:
        self.positions[index] = positions
        outer, self._loops = self._loops, (*self._loops, index)
        self.region(op.regions[0])
        self._loops = outer

    def instruction(self, op: Op) -> None:
        self._at += 1
        self.instructions.append((op, self._at))
        record: Record = op.definition
        for view, operand, writes in record.accesses(op.operands):
            self._note(op, view, operand, writes)

    def _note(self, op: Op, view: View, operand: str, writes: bool) -> None:
        if view.buffer.memory is SBUF:
            access = Access(self._at, op, self._loops, view, operand, writes)
            self.accesses.setdefault(view.buffer, []).append(access)

    def dealloc(self, op: Op, buffer: Buffer) -> None:
        """Lives are known by their accesses."""

    def register(self, op: Op) -> None:
        """Registers take no room on chip."""

    def trip(self, index: Value, position: int) -> None:
        """Loops are walked once."""


def _candidate(op: Op, at: int, walk: _Walk, needed: set[Buffer]) -> tuple[Buffer, Buffer] | None:
    """A tile, and one that an instruction begins to write, which may take its place: what it reads for that, or else
    what was needed for that alone."""
    record: Record = op.definition
    names = list(record.operands)
    for result, sources in record.coincides.items():
        dst = op.operands[names.index(result)]
        if not isinstance(dst, View) or dst.buffer not in walk.region_of or dst.buffer in needed:
            continue
        if walk.accesses[dst.buffer][0].at != at:
            continue
        read = [op.operands[names.index(name)] for name in sources]
        over = [src.buffer for src in read if isinstance(src, View) and _is_same(src, dst)]
        if len(walk.accesses[dst.buffer][0].loops) > walk.depth_of[dst.buffer]:
            # What is computed piece by piece leaves loaded tiles early: the next ones are loaded meanwhile.
            over = [old for old in over if not _is_loaded(old, walk)]
        for old in (*over, *_done_with(op, at, walk)):
            if old not in needed and _may_share(old, dst.buffer, walk):
                return old, dst.buffer
    return None


def _is_loaded(buffer: Buffer, walk: _Walk) -> bool:
    """True for a tile that a transfer brings."""
    return any(access.writes and "dma" in access.op.definition.engines for access in walk.accesses.get(buffer, ()))


def _done_with(op: Op, at: int, walk: _Walk) -> Iterator[Buffer]:
    """Tiles whose last readers made what an instruction reads: it waits for them in any case."""
    for view in op.operands:
        made = walk.accesses.get(view.buffer, ()) if isinstance(view, View) else ()
        maker = next((access for access in reversed(made) if access.writes and access.at < at), None)
        if maker is None:
            continue
        for source in maker.op.operands:
            if isinstance(source, View) and source.buffer in walk.accesses:
                if walk.accesses[source.buffer][-1].at == maker.at:
                    yield source.buffer


def _may_share(old: Buffer, new: Buffer, walk: _Walk) -> bool:
    if old is new or old not in walk.region_of or walk.region_of[old] is not walk.region_of[new]:
        return False
    if old.dtype is not new.dtype or old.shape[0] != new.shape[0] or old.row != new.row:
        return False
    level = walk.depth_of[new]
    writes = [access for access in walk.accesses[new] if access.writes]
    # What stands before the first write, in no loop of the tiles' region, is over by then.
    later = [access for access in walk.accesses[old] if access.at >= writes[0].at or len(access.loops) > level]
    return not any(_clobbers(b, a, level, walk) for b in writes for a in later)


def _clobbers(write: Access, other: Access, level: int, walk: _Walk) -> bool:
    """True where a write may come before an access of the same element of the other tile, both of one storage.

    level: the number of loops around both tiles, whose trips have tiles of their own.
    """
    common = 0
    for a, b in zip(write.loops, other.loops, strict=False):
        if a is not b:
            break
        common += 1
    around = write.loops[level:common]
    if other.at < write.at and not around:
        return False
    if other.at > write.at or (other.at == write.at and not _coincides(write, other)):
        return _meet(write, other, walk)
    # Within a trip the other one comes first, or is what this instruction reads for the element that it writes.
    return any(len(walk.positions[i]) > 1 for i in around) and not _stay_apart(write, other, around, walk)


def _coincides(write: Access, other: Access) -> bool:
    """True for what an instruction writes and what it reads for it, element for element."""
    allowed = write.op.definition.coincides.get(write.operand, ())
    return other.operand in allowed and _is_same(write.view, other.view)


def _is_same(a: View, b: View) -> bool:
    """The same elements in the same order, each view in its own buffer."""
    one, two = _dims(a), _dims(b)
    if a.dtype.itemsize != b.dtype.itemsize:
        return False
    return a.offset == b.offset and one == two and a.terms == b.terms and a.dynamic is None and b.dynamic is None


def _dims(view: View) -> list[tuple[int, int]]:
    """Sizes and strides without dims of one element."""
    return [(n, s) for n, s in zip(view.sizes, view.strides, strict=True) if n != 1]


def _meet(a: Access, b: Access, walk: _Walk) -> bool:
    return overlaps(_pattern(a.view, walk), _pattern(b.view, walk))


def _pattern(view: View, walk: _Walk) -> Pattern:
    """All bytes that a view touches in any trip, as if the partitions of its buffer lay one after the other."""
    item = view.dtype.itemsize
    if view.dynamic is not None:
        return 0, 1, 0, ((view.buffer.shape[0] * view.buffer.row_bytes // item, item),), item
    start, dims = view.offset, [*zip(view.sizes, view.strides, strict=True)]
    for index, factor in view.terms:
        positions = walk.positions.get(index, range(1))
        start += factor * positions.start
        dims.append((len(positions), factor * positions.step))
    dims.sort(key=lambda dim: -abs(dim[1]))
    return 0, 1, start * item, tuple((n, stride * item) for n, stride in dims), item


def _stay_apart(a: Access, b: Access, around: Iterable[Value], walk: _Walk) -> bool:
    """True where two accesses have nothing in common in different trips of the loops around both."""
    if not _meet(a, b, walk):
        return True
    loops = [index for index in around if len(walk.positions[index]) > 1]
    if a.view.dynamic is not None or b.view.dynamic is not None:
        return False
    one, two = dict(a.view.terms), dict(b.view.terms)
    if any(one.get(index, 0) != two.get(index, 0) or not one.get(index) for index in loops):
        return False
    item = a.view.dtype.itemsize
    if item != b.view.dtype.itemsize:
        return False
    steps = [(abs(one[index] * walk.positions[index].step), len(walk.positions[index])) for index in loops]
    if _is_same(a.view, b.view) and injective([*_dims(a.view), *[(n, s) for s, n in steps]]):
        return True
    row = a.view.buffer.row
    inner = [v for v in (*a.view.terms, *b.view.terms) if v[0] not in loops]
    if inner or any(step % row == 0 for step, _ in steps):
        return False
    # Each trip has columns of its own.
    spans = [_columns(access.view) for access in (a, b)]
    width = max(high for _, high in spans) - min(low for low, _ in spans)
    for step, count in sorted(steps):
        if step < width:
            return False
        width = step * count
    return True


def _columns(view: View) -> tuple[int, int]:
    """The first element of a partition that a view touches, and the one after the last, loops left out."""
    free = [*zip(view.sizes, view.strides, strict=True)][1:]
    low = view.offset % view.row + sum((n - 1) * s for n, s in free if s < 0)
    high = view.offset % view.row + sum((n - 1) * s for n, s in free if s > 0) + 1
    return low, high


def injective(dims: Sequence[tuple[int, int]]) -> bool:
    """True where every combination of indices is another element: each stride goes beyond all that is within it."""
    reach = 1
    for stride, size in sorted((abs(s), n) for n, s in dims if n > 1):
        if stride < reach:
            return False
        reach = stride * (size - 1) + reach
    return True


@decision("reuse: shared storage")
def _merge(old: Buffer, new: Buffer, walk: _Walk) -> None:
    """Everybody uses the old tile instead of the new one."""
    old.depth = max(old.depth, new.depth)
    moved = [access._replace(view=access.view.substitute({new: old})) for access in walk.accesses.pop(new)]
    walk.accesses[old] = sorted([*walk.accesses[old], *moved], key=lambda access: access.at)
    new.replace_all_uses(old)
    assert new.producer is not None
    new.producer.erase()
    del walk.region_of[new]

"""Copies out of PSUM that nobody needs: who reads the copy may as well read the product where it is.

Groups copy what a product gave to SBUF unless the next instruction is known to take it from PSUM. Which one reads the
copy is known only when all is written: a view may stand between, or another step. In a chain of small steps each copy
that goes shortens every step by one wait.

Expects a kernel before its tiles have places; guarantees the same results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tilewright.dtypes import float32
from tilewright.ir.core import Graph, Op, Region
from tilewright.lower.write.views import merged
from tilewright.rules import Reporter
from tilewright.target import Target
from tilewright.tile.memory import PSUM, SBUF, Buffer
from tilewright.tile.ops import ALLOC
from tilewright.tile.patterns import extent_of
from tilewright.tile.record import Record
from tilewright.tile.verdict import Verifier
from tilewright.tile.view import View


class Access(NamedTuple):
    """An access of a buffer by an instruction of the region that allocates it.

    replaces: whether it writes without a look at what was there.
    """

    at: int
    op: Op
    view: View
    writes: bool
    replaces: bool


@dataclass(slots=True)
class Life:
    """Who accesses a buffer; inner: whether loops inside of its region do."""

    accesses: list[Access] = field(default_factory=list)
    inner: bool = False


class Change(NamedTuple):
    """A copy that goes, what stands after it, and who reads what instead: operands before and after."""

    copy: Op
    region: Region
    behind: Op
    readers: list[tuple[Op, tuple, tuple]]


def read_in_psum(graph: Graph, target: Target) -> list[Change]:
    """Let instructions read what is in PSUM there, and take away the copies that nobody needs then."""
    verifier, made = Verifier(target, Reporter(collect=True)), []
    for region in _regions(graph):
        lives = _lives(region)
        for op in list(region.ops):
            if op.name == "tensor_copy" and (change := _change(op, lives, verifier)) is not None:
                _apply(change, lives)
                made.append(change)
    return made


def undo(changes: Sequence[Change]) -> None:
    """Let everybody read copies again."""
    for change in reversed(changes):
        change.region.insert_before(change.behind, change.copy)
        for op, before, _ in change.readers:
            op.replace_operands(before)


def redo(changes: Sequence[Change]) -> None:
    """Take the copies away again."""
    for change in changes:
        change.copy.detach()
        for op, _, after in change.readers:
            op.replace_operands(after)


def _regions(graph: Graph) -> Iterator[Region]:
    todo = [graph.body]
    while todo:
        region = todo.pop()
        yield region
        todo += [inner for op in region.ops for inner in op.regions]


def _lives(region: Region) -> dict[Buffer, Life]:
    """The buffers on chip that a region allocates, by who uses them."""
    made = {op.result: Life() for op in region.ops if op.definition is ALLOC and isinstance(op.result, Buffer)}
    for at, op in enumerate(region.ops):
        if isinstance(op.definition, Record):
            for access in _accesses(op, at):
                if access.view.buffer in made:
                    made[access.view.buffer].accesses.append(access)
    for buffer, life in made.items():
        known = {id(access.op) for access in life.accesses}
        life.inner = any(isinstance(use.definition, Record) and id(use) not in known for use in buffer.uses)
    return made


def _accesses(op: Op, at: int) -> Iterator[Access]:
    record: Record = op.definition
    for view, name, writes in record.accesses(op.operands):
        spec = record.operands.get(name)
        kept = record.accumulates or name in record.survives or (spec is not None and spec.reads)
        yield Access(at, op, view, writes, writes and not kept)


def _change(copy: Op, lives: dict[Buffer, Life], verifier: Verifier) -> Change | None:
    """A copy without which all who read it can do; None where one cannot."""
    dst, src = copy.operands[:2]
    if dst.memory is not SBUF or src.memory is not PSUM or dst.dtype is not float32 or src.dtype is not float32:
        return None
    own, held = lives.get(dst.buffer), lives.get(src.buffer)
    if own is None or held is None or own.inner or held.inner or dst.dynamic is not None or src.dynamic is not None:
        return None
    reads = _reads(copy, dst, own.accesses)
    if not reads:
        return None
    begin = next(access.at for access in own.accesses if access.op is copy)
    end = max(access.at for access in reads)
    if any(access.writes and begin < access.at <= end for access in held.accesses):
        return None
    operands: dict[Op, tuple] = {}
    for access in reads:
        view = _instead(access.view, dst, src)
        if view is None:
            return None
        before = operands.get(access.op, access.op.operands)
        written = access.op.definition.written
        operands[access.op] = tuple(view if x is access.view and i not in written else x for i, x in enumerate(before))
    if not all(_is_legal(op, after, verifier) for op, after in operands.items()):
        return None
    region = copy.parent
    assert isinstance(region, Region)
    # Its readers stand behind it.
    behind = region.ops[region.ops.index(copy) + 1]
    return Change(copy, region, behind, [(op, op.operands, after) for op, after in operands.items()])


def _reads(copy: Op, dst: View, accesses: Sequence[Access]) -> list[Access] | None:
    """Who reads what a copy wrote, up to where it is overwritten; None where it is in part."""
    here = extent_of(dst)
    at = next(access.at for access in accesses if access.op is copy)
    later = [access for access in accesses if access.at > at]
    writes = [(access, extent_of(access.view)) for access in later if access.writes]
    ends = [(access.at, access.replaces and own.covers(here)) for access, own in writes if own.meets(here)]
    if ends and not ends[0][1]:
        return None
    end = ends[0][0] if ends else later[-1].at if later else at
    some = [access for access in later if not access.writes and access.at <= end]
    return [access for access in some if extent_of(access.view).meets(here)]


def _instead(view: View, dst: View, src: View) -> View | None:
    """A view of a copy as one of what was copied; None where the two do not lie alike."""
    flat, line = merged(dst, 1, dst.ndim - 1), merged(src, 1, src.ndim - 1)
    if flat is None or line is None or flat.sizes != line.sizes or view.dtype is not dst.dtype:
        return None
    if (flat.strides[1] != 1 and flat.sizes[1] > 1) or view.terms != dst.terms or view.dynamic is not None:
        return None
    row, stride = dst.buffer.row, line.strides[1]
    (partition, column), (first, start) = divmod(view.offset, row), divmod(dst.offset, row)
    free = [*zip(view.sizes, view.strides, strict=True)][1:]
    width = 1 + sum((n - 1) * s for n, s in free)
    inside = first <= partition and partition + view.sizes[0] <= first + dst.sizes[0]
    if not inside or column < start or column + width > start + flat.sizes[1] or any(s < 0 for _, s in free):
        return None
    if any(v.strides[0] != v.buffer.row for v in (view, dst, src)):
        return None
    offset = src.offset + (partition - first) * src.buffer.row + (column - start) * stride
    strides = (src.buffer.row, *(s * stride for _, s in free))
    return View(src.buffer, src.dtype, offset, view.sizes, strides, src.terms)


def _is_legal(op: Op, operands: tuple, verifier: Verifier) -> bool:
    record: Record = op.definition
    both = any(_is_in_psum(operands[a]) and _is_in_psum(operands[b]) for a, b in record.apart)
    if "dma" in record.engines or both:
        return False
    return verifier.check(record, operands, op.attrs, None).legal


def _is_in_psum(x: object) -> bool:
    return isinstance(x, View) and x.memory is PSUM


def _apply(change: Change, lives: dict[Buffer, Life]) -> None:
    """Let readers read PSUM; the copy goes."""
    dst, src = change.copy.operands[:2]
    change.copy.detach()
    for view in (dst, src):
        life = lives[view.buffer]
        life.accesses = [access for access in life.accesses if access.op is not change.copy]
    for op, _, after in change.readers:
        at = next(access.at for access in lives[dst.buffer].accesses if access.op is op)
        op.replace_operands(after)
        for view in (dst, src):
            life = lives[view.buffer]
            life.accesses = [access for access in life.accesses if access.op is not op]
            again = [access for access in _accesses(op, at) if access.view.buffer is view.buffer]
            life.accesses = sorted([*life.accesses, *again], key=lambda access: access.at)

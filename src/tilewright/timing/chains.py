"""Chains of copies, a -> b -> c, where b serves nothing else: the compiler may copy a to c and leave b out.

So it may where b is copied out of PSUM for one instruction of an engine that could have read it there: published
profiles (bench/calibration, fusion-profile-trn2) show activations on PSUM where the source says SBUF.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.ir.core import Graph, Op, Region, Value
from tilewright.ir.walk import walk
from tilewright.rules import Reporter
from tilewright.target import Target
from tilewright.tile.memory import PSUM, SBUF, Buffer
from tilewright.tile.ops import DEALLOC
from tilewright.tile.record import Record
from tilewright.tile.verdict import Verifier
from tilewright.tile.view import View


class Chain(NamedTuple):
    """`first` is left out, and `merged` stands where `second` stood. removed: the one of the two that is saved."""

    first: Op
    second: Op
    merged: Op
    removed: Op


def chains(graph: Graph, target: Target) -> dict[Op, Chain]:
    """All chains of a kernel by their second copy; a longer chain is several, each on what the one before it made."""
    found: dict[Op, Chain] = {}
    kept = set(graph.outputs)
    places: dict[Region, dict[Op, int]] = {}
    for op in walk(graph.body):
        if isinstance(op.definition, Record) and not op.definition.copies:
            chain = _forwarded(op, kept, places, target)
            if chain is not None:
                found[op] = chain
            continue
        if not _is_copy(op) or _source(op).buffer in kept or not _source(op).on_chip:
            continue
        first = _only_writer(_source(op).buffer, op)
        if first is None or not _same_access(_target(first), _source(op)):
            continue
        made = found[first].merged if first in found else first
        if not _is_unchanged(_source(made).buffer, first, op, places):
            continue
        chain = _merged(first, made, op, target)
        if chain is not None:
            found[op] = chain
    return found


def _is_copy(op: Op) -> bool:
    return isinstance(op.definition, Record) and op.definition.copies


def _target(op: Op) -> View:
    view = op.operands[0]
    assert isinstance(view, View)
    return view


def _source(op: Op) -> View:
    view = op.operands[1]
    assert isinstance(view, View)
    return view


def _only_writer(buffer: Buffer, reader: Op) -> Op | None:
    """The copy that writes a buffer which is used by it and `reader` alone, once each and in one region."""
    uses = [use for use in buffer.uses if use.definition is not DEALLOC]
    if len(uses) != 2 or uses[1] is not reader or uses[0] is reader or uses[0].parent is not reader.parent:
        return None
    home = buffer.producer.parent if buffer.producer is not None else None
    writer = uses[0]
    # In a loop inside the buffer's own region the next trip's reader would see this trip's data.
    return writer if home is reader.parent and _is_copy(writer) and _target(writer).buffer is buffer else None


def _same_access(a: View, b: View) -> bool:
    """Both touch the same elements, in the same order of the same dims, and none is chosen at run time."""
    if a.dynamic is not None or b.dynamic is not None or (a.offset, a.terms, a.dtype) != (b.offset, b.terms, b.dtype):
        return False
    # A step over one element is none.
    return a.sizes == b.sizes and all(
        size == 1 or s == t for size, s, t in zip(a.sizes, a.strides, b.strides, strict=True)
    )


def _is_unchanged(buffer: Buffer, first: Op, second: Op, places: dict[Region, dict[Op, int]]) -> bool:
    """True when nothing writes the buffer between two ops of one region."""
    region = first.parent
    assert region is not None
    if region not in places:
        places[region] = {op: position for position, op in enumerate(region.ops)}
    place = places[region]
    inside = (_ancestor(use, region) for use in buffer.uses if writes(use, buffer))
    return not any(op is not None and place[first] < place[op] < place[second] for op in inside)


def _ancestor(op: Op, region: Region) -> Op | None:
    """The op of a region that is `op` or contains it."""
    here: Op | None = op
    while here is not None and here.parent is not region:
        here = here.parent.parent if here.parent is not None else None
    return here


def writes(op: Op, buffer: Buffer) -> bool:
    """True when an op writes to a buffer."""
    record = op.definition
    if not isinstance(record, Record):
        return False
    written = (op.operands[position] for position in record.written if position < len(op.operands))
    return any(isinstance(view, View) and view.buffer is buffer for view in written)


def _forwarded(op: Op, kept: set[Value], places: dict[Region, dict[Op, int]], target: Target) -> Chain | None:
    """An instruction that reads in PSUM what was copied out of it for nothing else."""
    for position, view in enumerate(op.operands):
        if not isinstance(view, View) or view.memory is not SBUF or view.buffer in kept or writes(op, view.buffer):
            continue
        first = _only_writer(view.buffer, op)
        if first is None or _source(first).memory is not PSUM or not _same_access(_target(first), view):
            continue
        source = _source(first)
        if source.sizes != view.sizes or not _is_unchanged(source.buffer, first, op, places):
            continue
        operands = (*op.operands[:position], source, *op.operands[position + 1 :])
        if Verifier(target, Reporter(collect=True)).check(op.definition, operands, op.attrs, op.location).legal:
            return Chain(first, op, Op(op.definition, operands, (), op.attrs, (), op.location), first)
    return None


def _merged(first: Op, made: Op, second: Op, target: Target) -> Chain | None:
    """The copy from the first source to the last destination, by the second instruction or else by the first."""
    a, b, c = _source(made), _source(second), _target(second)
    if (not a.on_chip and not c.on_chip) or a.dynamic is not None or c.dynamic is not None:
        # A kernel that copies within HBM by way of the chip means to do so.
        return None
    if b.dtype not in (a.dtype, c.dtype):
        # It rounds in between.
        return None
    for like, removed in ((second, first), (made, second)):
        op = Op(like.definition, (c, a), (), like.attrs, (), like.location)
        if Verifier(target, Reporter(collect=True)).check(op.definition, op.operands, op.attrs, op.location).legal:
            return Chain(first, second, op, removed)
    return None

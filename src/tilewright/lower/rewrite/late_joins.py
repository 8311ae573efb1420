"""Joins of parts that are computed with: each part is computed with by itself, and what comes of it is joined.

    interleave(a, b) * interleave(c, d) + t  ->  interleave(a * c + t[0::2], b * d + t[1::2])

as images that grow are computed, whose every other line is made of the same neighbours: what is joined is not put
together before it is computed with, and numbers that differ from line to line are the same within a part. Parts that
stand one after the other, as the edges of an image and its inside, are taken apart where an interleaving is made of
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.dense import Dense
from tilewright.ir.walk import eliminate_dead_code, sort_topologically
from tilewright.lower.decisions import decided
from tilewright.lower.tuning import TUNING
from tilewright.tensor.build import insert_tree, value
from tilewright.tensor.passes.match import as_scalar, maker
from tilewright.tensor.passes.simplify import EXACT, simplify


class _Join(NamedTuple):
    """What a value is joined of.    dim: counted from the last; sizes: of the parts that stand one after the other"""

    parts: tuple[Value, ...]
    dim: int


def join_late(graph: Graph) -> bool:
    """Compute with parts before they are joined; says whether there were any interleaved ones."""
    changed = False
    for op in list(graph.ops):
        made = _by_turns(op) or _by_turns_and_rest(op)
        if made is not None:
            _replace(op, made, "rule: joined late, in turn")
            changed = True
    if not changed:
        return False
    eliminate_dead_code(graph)
    for op in _before_turns(graph):
        made = _piece_by_piece(op)
        if made is not None:
            _replace(op, made, "rule: joined late, one after the other")
    eliminate_dead_code(graph)
    sort_topologically(graph.body)
    simplify(graph, EXACT)
    return True


def _replace(op: Op, made: Value, rule: str) -> None:
    decided(rule)
    insert_tree(made, op)
    made.name = op.result.name
    op.result.replace_all_uses(made)
    op.erase()


def _is_elementwise(op: Op) -> bool:
    return op.definition.family == "elementwise" and len(op.results) == 1 and op.name not in ("checked_index",)


# Parts that take turns.


def _by_turns(op: Op) -> Value | None:
    """An elementwise op of values whose parts take turns along a dim, part by part."""
    if not _is_elementwise(op):
        return None
    joins = {x: _turns(x) for x in op.values()}
    first = next((join for join in joins.values() if join is not None), None)
    if first is None:
        return None
    count, rank = len(first.parts), op.result.type.rank
    parts: list[Value] = []
    for i in range(count):
        operands = [_turn(x, joins.get(x) if isinstance(x, Value) else None, first, i) for x in op.operands]
        if any(x is None for x in operands):
            return None
        parts.append(value(op.name, *operands, **op.attrs))
    return _interleaved(parts, rank + first.dim)


def _by_turns_and_rest(op: Op) -> Value | None:
    """The same where some elements stand behind the last turn."""
    if not _is_elementwise(op):
        return None
    joins = [join for x in op.values() if (join := _pieces(x)) is not None]
    if not any(_turns(part) is not None for join in joins for part in join.parts):
        return None
    made = _piece_by_piece(op)
    if made is None or made.producer is None:
        return None
    pieces = [(piece.producer and _by_turns(piece.producer)) or piece for piece in made.producer.values()]
    return value("concatenate", *pieces, axis=made.producer.attrs["axis"])


def _turns(x: Value) -> _Join | None:
    """The parts of a value that take turns along a dim."""
    merged = maker(x, "reshape")
    joined = None if merged is None else maker(merged.operands[0], "concatenate")
    if joined is None:
        return None
    shape, axis = joined.result.type.shape, joined.attrs["axis"]
    units = all(part.type.shape[axis] == 1 for part in joined.operands)
    if not axis or not units or x.type.shape != (*shape[: axis - 1], shape[axis - 1] * shape[axis], *shape[axis + 1 :]):
        return None
    return _Join(tuple(_without(part, axis) for part in joined.operands), axis - 1 - x.type.rank)


def _without(part: Value, axis: int) -> Value:
    """A part without its dim of one element."""
    shape = (*part.type.shape[:axis], *part.type.shape[axis + 1 :])
    added = maker(part, "reshape")
    if added is not None and added.operands[0].type.shape == shape:
        return added.operands[0]
    return value("reshape", part, shape=shape)


def _turn(x: Any, join: _Join | None, first: _Join, i: int) -> Any:
    """The part of an operand that has turn i; None where it has none of its own."""
    if not isinstance(x, Value) or _is_same(x, first.dim):
        return x
    if join is not None and (join.dim, len(join.parts)) == (first.dim, len(first.parts)):
        return join.parts[i]
    return _known(x, first.dim, slice(i, None, len(first.parts)))


def _is_same(x: Value, dim: int) -> bool:
    """True for what is the same all along a dim."""
    return -dim > x.type.rank or x.type.shape[dim] == 1


def _known(x: Value, dim: int, part: slice) -> Any:
    """A part of a constant along a dim, as a number where all of it is one; None for anything else."""
    op = maker(x, "constant", "full")
    if op is None:
        return None
    if op.name == "full":
        return op.attrs["value"]
    whole = op.attrs["value"].array
    found = whole[(..., part, *(slice(None) for _ in range(-dim - 1)))]
    bits = np.ascontiguousarray(found).reshape(-1).view(f"u{found.itemsize}")
    if bits.size and (bits == bits[0]).all():
        return as_scalar(found.flat[0])
    return value("constant", value=Dense(np.ascontiguousarray(found), x.type.dtype))


def _interleaved(parts: Sequence[Value], axis: int) -> Value:
    """Elements of some values in turn along a dim."""
    shape = parts[0].type.shape
    apart = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    joined = value("concatenate", *(value("reshape", part, shape=apart) for part in parts), axis=axis + 1)
    return value("reshape", joined, shape=(*shape[:axis], shape[axis] * len(parts), *shape[axis + 1 :]))


# Parts that stand one after the other.


def _before_turns(graph: Graph) -> list[Op]:
    """Elementwise ops of which parts that take turns are made, in the program's order."""
    found: dict[Op, None] = {}
    work = [part for op in graph.ops for result in op.results for part in (_turns(result) or _Join((), 0)).parts]
    while work:
        op = work.pop().producer
        if op is not None and op not in found and op.parent is not None and _is_elementwise(op):
            found[op] = None
            work += op.values()
    return [op for op in graph.ops if op in found]


def _piece_by_piece(op: Op) -> Value | None:
    """An elementwise op of values that are joined along a dim, piece by piece."""
    joins = [join for x in op.values() if (join := _pieces(x)) is not None]
    dims = {join.dim for join in joins}
    if len(dims) != 1:
        return None
    (dim,) = dims
    size = op.result.type.shape[dim]
    ends = {0, size}.union(*(accumulate(part.type.shape[dim] for part in join.parts) for join in joins))
    spans = list(pairwise(sorted(ends)))
    if len(spans) > TUNING.most_layers:
        return None
    pieces = []
    for span in spans:
        operands = [_piece(x, dim, span) for x in op.operands]
        pieces.append(value(op.name, *operands, **op.attrs))
    return value("concatenate", *pieces, axis=op.result.type.rank + dim)


def _pieces(x: Value) -> _Join | None:
    """The parts of a value that stand one after the other."""
    op = maker(x, "concatenate")
    return None if op is None else _Join(tuple(op.operands), op.attrs["axis"] - x.type.rank)


def _piece(x: Any, dim: int, span: tuple[int, int]) -> Any:
    """A part of an operand along a dim."""
    if not isinstance(x, Value) or _is_same(x, dim):
        return x
    known = _known(x, dim, slice(*span))
    if known is not None:
        return known
    first = 0
    for part in _parts_of(x, dim):
        stop = first + part.type.shape[dim]
        if first <= span[0] and span[1] <= stop:
            return _slice(part, dim, span[0] - first, span[1] - first)
        first = stop
    return _slice(x, dim, *span)


def _parts_of(x: Value, dim: int) -> Iterator[Value]:
    join = _pieces(x)
    yield from join.parts if join is not None and join.dim == dim else (x,)


def _slice(x: Value, dim: int, first: int, stop: int) -> Value:
    """Neighbours along a dim; of a slice, of what that is one of."""
    axis, rank = x.type.rank + dim, x.type.rank
    if (first, stop) == (0, x.type.shape[axis]):
        return x
    starts, sizes, steps = [0] * rank, list(x.type.shape), [1] * rank
    starts[axis], sizes[axis] = first, stop - first
    inner = maker(x, "slice")
    if inner is not None:
        steps = list(inner.attrs["steps"])
        starts = [a + b * s for a, b, s in zip(inner.attrs["starts"], starts, steps, strict=True)]
        x = inner.operands[0]
    return value("slice", x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))

"""Products whose right operand repeats its matrices, as heads that share keys do: each matrix is read as it is.

`matmul(x, y)` with y[h] = z[h // n] becomes a product of x[i, j] and z[i], h = i * n + j: the dim is split, here and in
all that is computed of the result, so that no copy of z is made and a matrix serves all of its readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.rewrite import rewrite
from tilewright.lower.decisions import decision
from tilewright.lower.regions.roles import PRODUCTS
from tilewright.lower.tuning import TUNING
from tilewright.tensor.build import make


@dataclass(frozen=True, slots=True)
class Split:
    """A value with one of its dims split in two: `dim` and the next of `value`."""

    value: Value
    dim: int

    @property
    def parts(self) -> tuple[int, int]:
        """Sizes of the two."""
        return self.value.type.shape[self.dim], self.value.type.shape[self.dim + 1]


def read_repeats_as_they_are(graph: Graph) -> None:
    """Split the dims along which right operands of products are repeated."""
    if any(op.name in PRODUCTS and _found(op) is not None for op in graph.ops):
        _Splitter(graph).run()
        rewrite(graph, ())


class _Splitter:
    """Goes through a program once; what is split is added, and whole values are made of it where they are read."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.split: dict[Value, Split] = {}
        self.fresh: list[Op] = []

    def run(self) -> None:
        """Split what can be."""
        body = self.graph.body
        before, body.ops[:] = list(body.ops), []
        for op in before:
            made = self._made(op)
            body.ops += self.fresh
            self.fresh.clear()
            body.ops.append(op)
            if made is not None:
                self.split[op.result] = made
                # For those that do not follow; where all do, nothing reads it.
                whole = self.add("reshape", made.value, shape=op.result.type.shape)
                whole.name = op.result.name
                body.ops += self.fresh
                self.fresh.clear()
                op.result.replace_all_uses(whole)
                self.split[whole] = made

    def add(self, name: str, *operands: object, **attrs: object) -> Value:
        """A new op."""
        op = make(name, *operands, **attrs)
        op.register(self.graph.body)
        op.location = self.location
        self.fresh.append(op)
        return op.result

    def _made(self, op: Op) -> Split | None:
        self.location = op.location
        if op.name in PRODUCTS:
            return self._product(op)
        if len(op.results) != 1 or op.result.type.rank >= TUNING.most_repeat_dims:
            return None
        known = [self.split[v] for v in op.values() if v in self.split]
        if not known:
            return None
        if op.definition.family == "elementwise":
            return self._elementwise(op)
        if op.definition.family == "reduction":
            return self._reduction(op, known[0])
        if op.name == "transpose":
            return self._transpose(op, known[0])
        return None

    @decision("repeats: product", if_found=True)
    def _product(self, op: Op) -> Split | None:
        x, y = op.operands
        known = self.split.get(x)
        found = _found(op)
        if found is not None and known is not None and (known.dim, known.parts) != (found.dim, found.parts):
            return None
        if found is None and known is None:
            return None
        dim, parts = (found.dim, found.parts) if found is not None else (known.dim, known.parts)  # type: ignore[union-attr]
        by = op.result.type.rank - y.type.rank
        if known is None and (x.type.rank != op.result.type.rank or x.type.rank >= TUNING.most_repeat_dims):
            return None
        if known is not None and op.result.type.rank != x.type.rank:
            return None
        left = self._parted(x, dim, parts)
        if found is None:
            right = self._parted(y, dim - by, parts)
        else:
            right = _of_source(self, y, dim - by, parts)
        return Split(self.add(op.name, left, right, **op.attrs), dim)

    @decision("repeats: parted")
    def _parted(self, x: Value, dim: int, parts: tuple[int, int]) -> Value:
        """An operand with a dim split; one that lacks it is as it was."""
        if dim < 0:
            return x
        known = self.split.get(x)
        if known is not None and (known.dim, known.parts) == (dim, parts):
            return known.value
        shape = x.type.shape
        inner = parts if shape[dim] != 1 else (1, 1)
        return self.add("reshape", x, shape=(*shape[:dim], *inner, *shape[dim + 1 :]))

    def _elementwise(self, op: Op) -> Split | None:
        rank, shape = op.result.type.rank, op.result.type.shape
        placed = {
            (known.dim + rank - v.type.rank, known.parts)
            for v in op.values()
            if (known := self.split.get(v)) is not None
        }
        if len(placed) != 1:
            return None
        ((dim, parts),) = placed
        if shape[dim] != prod(parts):
            return None
        operands = [
            self._parted(x, dim - rank + x.type.rank, parts) if isinstance(x, Value) else x for x in op.operands
        ]
        return Split(self.add(op.name, *operands, **op.attrs), dim)

    def _reduction(self, op: Op, known: Split) -> Split | None:
        axes = op.attrs.get("axes")
        if axes is None or known.dim in axes or any(a < known.dim for a in axes):
            return None
        moved = tuple(a + (a > known.dim) for a in axes)
        return Split(self.add(op.name, known.value, **{**op.attrs, "axes": moved}), known.dim)

    def _transpose(self, op: Op, known: Split) -> Split:
        perm = _perm_of_split(op.attrs["perm"], known.dim)
        return Split(self.add("transpose", known.value, perm=perm), perm.index(known.dim))


def _perm_of_split(perm: Sequence[int], dim: int) -> tuple[int, ...]:
    """A permutation where a dim has become two."""
    made: list[int] = []
    for d in perm:
        made += [dim, dim + 1] if d == dim else [d + (d > dim)]
    return tuple(made)


# What is repeated.


@dataclass(frozen=True, slots=True)
class _Repeat:
    """A dim of a value that is a smaller dim, each index `parts[1]` times in a row."""

    dim: int
    parts: tuple[int, int]


def _found(op: Op) -> _Repeat | None:
    """The leading dim of a product along which the right operand is repeated, as a dim of the result."""
    x, y = op.operands
    by = op.result.type.rank - y.type.rank
    if x.type.rank != op.result.type.rank or x.type.rank >= TUNING.most_repeat_dims:
        return None
    for d in range(y.type.rank - 2):
        parts = _repeats(y, d)
        if parts is not None and x.type.shape[d + by] == prod(parts):
            return _Repeat(d + by, parts)
    return None


def _repeats(y: Value, dim: int) -> tuple[int, int] | None:
    """How a dim of a view is repeated; None where it is not."""
    op = y.producer
    if op is None:
        return None
    if op.name == "transpose":
        return _repeats(op.operands[0], op.attrs["perm"][dim])
    if op.name == "cast":
        return _repeats(op.operands[0], dim)
    if op.name != "reshape":
        return None
    x = op.operands[0]
    at = _same_dim(x.type.shape, y.type.shape, dim)
    if at is not None:
        return _repeats(x, at)
    merged = _merged_dims(x.type.shape, y.type.shape, dim)
    wide = x.producer
    if merged is None or wide is None or wide.name != "broadcast_to":
        return None
    narrow = wide.operands[0].type.shape
    inner = merged + 1 - (x.type.rank - len(narrow))
    # The second part is the one along which all is the same, and nothing else is.
    small = (*x.type.shape[: merged + 1], 1, *x.type.shape[merged + 2 :])
    if (inner >= 0 and narrow[inner] != 1) or prod(narrow) != prod(small):
        return None
    return x.type.shape[merged], x.type.shape[merged + 1]


def _of_source(splitter: _Splitter, y: Value, dim: int, parts: tuple[int, int]) -> Value:
    """What a repeated view repeats, with a dim of size 1 where the second part would be."""
    op = y.producer
    assert op is not None
    (x,) = op.operands
    wanted = (*y.type.shape[:dim], parts[0], 1, *y.type.shape[dim + 1 :])
    if op.name == "transpose":
        source = op.attrs["perm"][dim]
        made = _of_source(splitter, x, source, parts)
        return splitter.add("transpose", made, perm=_perm_of_split(op.attrs["perm"], source))
    if op.name == "cast":
        return splitter.add("cast", _of_source(splitter, x, dim, parts), **op.attrs)
    at = _same_dim(x.type.shape, y.type.shape, dim)
    inner = x.producer.operands[0] if at is None and x.producer is not None else None
    made = _of_source(splitter, x, at, parts) if at is not None else inner
    assert made is not None
    return made if made.type.shape == wanted else splitter.add("reshape", made, shape=wanted)


def _same_dim(old: tuple[int, ...], new: tuple[int, ...], dim: int) -> int | None:
    """Which dim of the old shape a dim of the new one is, where a reshape leaves it as it is."""
    before, seen = prod(new[:dim]), 1
    for d, n in enumerate(old):
        if seen == before and n == new[dim] and n != 1:
            return d
        seen *= n
    return None


def _merged_dims(old: tuple[int, ...], new: tuple[int, ...], dim: int) -> int | None:
    """The first of two dims of the old shape that a dim of the new one merges."""
    before, seen = prod(new[:dim]), 1
    for d, n in enumerate(old[:-1]):
        if seen == before and n * old[d + 1] == new[dim] and old[d + 1] != 1:
            return d
        seen *= n
    return None

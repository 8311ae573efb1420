"""Dims of a whole program by what they stand for: what reshapes merge and split, and transposes put elsewhere.

Every dim is cut into the digits that some reshape makes of it, elementwise work, reductions, products and transposes
included. Digits that are neighbours wherever anything is computed are one part. A reshape or transpose then leaves the
parts of a value as they are, or in another order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from tilewright.ir.core import Graph, Op, Value
from tilewright.lower.regions.axes import COMBINED, SCANNED, is_left_alone
from tilewright.lower.regions.roles import PRODUCTS
from tilewright.lower.rewrite.digits import ALIGNED, PARTS, Factors, Place, same_dims
from tilewright.lower.write.alike import Alike

VIEWS = ("reshape", "transpose", *ALIGNED)
"""Ops that compute nothing."""

Digit = tuple[Place, int]
"""A digit of an axis, which is named by one of its dims."""

Pair = tuple[Digit, Digit]
"""Two digits, the slower one first."""


@dataclass(frozen=True, slots=True)
class Part:
    """Neighbouring digits of a value: the first dim that has some of them, which of its digits, their product, and the
    last dim that has some."""

    dim: int
    number: int
    size: int
    last: int

    @property
    def place(self) -> tuple[int, int]:
        """Where the part begins."""
        return self.dim, self.number


class NamedDims:
    """The parts of every value of a program. views: reshapes, transposes and repeats that only order parts."""

    def __init__(self, graph: Graph) -> None:
        reshapes = [op for op in graph.ops if op.name == "reshape" and op.result.type.size]
        self._factors = Factors(graph, reshapes, _pairs)
        self._same = Alike[Digit]()
        for op in self._factors.reshapes:
            before, after = (self._digits(x) for x in (op.operands[0], op.result))
            for one, other in zip(before, after, strict=True):
                self._same.join(one[1], other[1])
        self._joined = self._together(graph)
        self._firsts, self._seconds = ({pair[i] for pair in self._joined} for i in (0, 1))
        self._known: dict[Value, list[Part] | None] = {}
        even = set(self._factors.reshapes)
        self.views = {op for op in graph.ops if op.name in VIEWS and self._is_followed(op, even)}

    def of(self, x: Value) -> list[Part] | None:
        """The parts of a value in their order; None where some of them do not lie together."""
        if x not in self._known:
            self._known[x] = self._parts(x)
        return self._known[x]

    def is_whole(self, x: Value, dim: int) -> bool:
        """True for a dim that is one part, or has one element."""
        found = self.of(x)
        size = x.type.shape[dim]
        return size == 1 or (found is not None and any((p.dim, p.size) == (dim, size) for p in found))

    def _digits(self, x: Value) -> list[tuple[tuple[int, int], Digit, int]]:
        """Of every digit of more than one element: its dim and number there, its name, its size."""
        return [
            ((d, i), (self._factors.root((x, d)), i), n)
            for d in range(x.type.rank)
            for i, n in enumerate(self._factors.of(x, d))
            if n != 1
        ]

    def _together(self, graph: Graph) -> set[Pair]:
        """Pairs of digits that are one part: neighbours wherever something is computed, and in memory too unless they
        are the rows, the columns or the sum of a product."""
        computed = dict.fromkeys(v for op in graph.ops if op.name not in VIEWS for v in (*op.values(), *op.results))
        viewed = dict.fromkeys(v for op in graph.ops for v in (*op.values(), *op.results))
        matrices = {
            pair for op in graph.ops if op.name in PRODUCTS for x in op.values() for pair in self._within_matrices(x)
        }
        return {p for p in self._neighbours(computed) if p in matrices} | self._neighbours(viewed)

    def _within_matrices(self, x: Value) -> Iterator[Pair]:
        for (one, a, _), (other, b, _) in pairwise(self._digits(x)):
            if one[0] == other[0] >= x.type.rank - 2:
                yield self._same.root(a), self._same.root(b)

    def _neighbours(self, values: Iterable[Value]) -> set[Pair]:
        """Pairs of digits of which the second always comes right after the first."""
        after: dict[Digit, Digit | None] = {}
        before: dict[Digit, Digit | None] = {}
        for x in values:
            ends = _ends(x)
            names = [(place, self._same.root(name)) for place, name, _ in self._digits(x)]
            row: list[tuple[tuple[int, int], Digit | None]] = [((-1, 0), None), *names, ((x.type.rank, 0), None)]
            for (place, one), (other_place, other) in pairwise(row):
                cut = any(place[0] < end <= other_place[0] for end in ends)
                for table, key, found in ((after, one, other), (before, other, one)):
                    if key is not None and (cut or table.setdefault(key, found) != found):
                        table[key] = None
        return {(a, b) for a, b in after.items() if b is not None and before.get(b) == a and a != b}

    def _parts(self, x: Value) -> list[Part] | None:
        found: list[Part] = []
        last: Digit | None = None
        for (dim, number), name, size in self._digits(x):
            name = self._same.root(name)
            if last is not None and (last, name) in self._joined:
                found[-1] = Part(found[-1].dim, found[-1].number, found[-1].size * size, dim)
            elif name in self._seconds or last in self._firsts:
                return None
            else:
                found.append(Part(dim, number, size, dim))
            last = name
        return None if last in self._firsts else found

    def _is_followed(self, op: Op, even: set[Op]) -> bool:
        (x,) = op.operands
        before, after = self.of(x), self.of(op.result)
        if before is None or after is None or not op.result.type.size:
            return False
        if op.name == "reshape":
            return op in even and [p.size for p in before] == [p.size for p in after]
        return True


def _ends(x: Value) -> set[int]:
    """Dims of a value at which parts end: rows and columns of products, and dims that something runs along."""
    found: set[int] = set()
    for op in (*x.uses, *([x.producer] if x.producer is not None else [])):
        if op.name in PRODUCTS:
            # Rows that all are multiplied by the same matrix may be several dims.
            y = op.operands[1]
            rows = x is not y and prod(y.type.shape[:-2]) == 1
            found |= {x.type.rank - 1} if rows else {x.type.rank - 2, x.type.rank - 1}
        elif computes(op):
            found |= {end for d in touched(op) for end in (d, d + 1)}
    return found


def _pairs(op: Op) -> Iterator[tuple[Place, Place]]:
    """Dims that an op takes and makes alike, those that it sums over in pairs included."""
    if op.name == "transpose":
        yield from (((op.operands[0], source), (op.result, d)) for d, source in enumerate(op.attrs["perm"]))
    elif op.name in PRODUCTS:
        x, y = op.operands
        rank = op.result.type.rank
        yield (x, x.type.rank - 1), (y, y.type.rank - 2)
        for v, last in ((x, x.type.rank - 1), (y, y.type.rank - 2)):
            by = rank - v.type.rank
            yield from (((v, d), (op.result, d + by)) for d in range(last))
        yield (y, y.type.rank - 1), (op.result, rank - 1)
    elif op.name in SCANNED and len(op.operands) == 1:
        (x,) = op.operands
        yield from (((x, d), (op.result, d)) for d in range(x.type.rank))
    elif computes(op):
        yield from same_dims(op)


def computes(op: Op) -> bool:
    """True for an op that can be computed with its dims in any order."""
    if len(op.results) != 1 or not op.result.type.size:
        return False
    simple = op.definition.family == "elementwise" or op.name in (*COMBINED, *PARTS, *ALIGNED, *PRODUCTS)
    return simple or (op.name in SCANNED and len(op.operands) == 1)


def touched(op: Op) -> list[int]:
    """Dims of which an op works on parts, or along which it runs."""
    if op.name in SCANNED:
        return [op.attrs["axis"]]
    return [d for d in range(op.result.type.rank) if not is_left_alone(op, d)] if op.name in PARTS else []

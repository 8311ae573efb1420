"""Dims as digits: elementwise work and reductions between reshapes, with the dims that all of it can be read in.

A norm over groups of channels merges the channels of a group with their pixels, and splits them again for the scale of
each channel. Neither order of rows suits both halves; with a dim for the groups, one for the channels of a group and
one for the pixels, every value is a view of itself, reductions go over more dims, and the reshapes between are gone.
Inputs and results are read and written in their own order in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import prod

from tilewright.ir.core import OUTPUTS, Graph, Op, Value
from tilewright.ir.walk import eliminate_dead_code, sort_topologically
from tilewright.lower.decisions import decided
from tilewright.lower.regions.axes import COMBINED, equal_products, is_left_alone
from tilewright.lower.rewrite.phases import slice_phases
from tilewright.lower.write.alike import Alike
from tilewright.tensor.build import insert_tree, value

Digits = tuple[int, ...]
"""The factors of a dim, the slowest first."""

PARTS = ("slice", "concatenate")
"""Ops that work on parts of some dims, and leave others as they are."""

ALIGNED = ("broadcast_to",)
"""Ops whose operand has the dims of the result, or one element there."""

Place = tuple[Value, int]
"""A dim of a value."""

Pairs = Callable[[Op], Iterator[tuple[Place, Place]]]
"""Dims of what an op takes and makes that are one axis, if they have as many elements."""


def split_into_digits(graph: Graph) -> bool:
    """Give values between reshapes the dims of both sides; says whether there were any."""
    has_phases = slice_phases(graph)
    reshapes = [op for op in graph.ops if _is_between(op)]
    if not reshapes:
        return has_phases
    found = Factors(graph, reshapes, _pairs)
    if not found.reshapes:
        return has_phases
    decided("rule: dims as digits")
    _Rewriter(found).run(graph)
    sort_topologically(graph.body)
    eliminate_dead_code(graph)
    return True


def _is_between(op: Op) -> bool:
    """True for a reshape of what was computed or transposed, that something is computed with."""
    if op.name != "reshape" or not op.result.type.size:
        return False
    source = op.operands[0].producer
    readers = [use for use in op.result.uses if use.definition is not OUTPUTS]
    made = source is not None and (_computes(source) or source.name == "transpose")
    return made and any(_computes(use) for use in readers)


def _computes(op: Op) -> bool:
    """True for an op that can be computed with more dims as well."""
    return len(op.results) == 1 and (op.definition.family == "elementwise" or op.name in (*COMBINED, *PARTS, *ALIGNED))


class Factors:
    """The digits of every dim: the same for all dims that are one axis.

    pairs: dims that an op takes and makes alike.
    """

    def __init__(self, graph: Graph, reshapes: Sequence[Op], pairs: Pairs) -> None:
        self._axes = Alike[Place]()
        self._digits: dict[Place, Digits] = {}
        for op in graph.ops:
            for one, other in pairs(op):
                self._connect(one, other)
        self.reshapes = [op for op in reshapes if self._refine(op, try_only=True)]
        changed = True
        while changed:
            changed = sum(self._refine(op) for op in self.reshapes) > 0
        # What could not be brought together after all stays a reshape.
        self.reshapes = [op for op in self.reshapes if self._is_even(op)]

    def of(self, x: Value, dim: int) -> Digits:
        """The digits of a dim."""
        size = x.type.shape[dim]
        return (1,) if size == 1 else self._digits.get(self.root((x, dim)), (size,))

    def all_of(self, x: Value) -> list[Digits]:
        """Those of every dim."""
        return [self.of(x, d) for d in range(x.type.rank)]

    def root(self, place: Place) -> Place:
        """The dim that stands for an axis."""
        return self._axes.root(place)

    def _connect(self, one: Place, other: Place) -> None:
        """Dims that are one axis, if they have as many elements."""
        sizes = {x.type.shape[d] for x, d in (one, other)}
        if len(sizes) == 1 and sizes != {1}:
            self._axes.join(one, other)

    def _sides(self, op: Op) -> Iterator[tuple[list[Place], list[Place]]]:
        """Dims before and after a reshape that hold the same elements, as few as possible."""
        sides = [[(x, d) for d in range(x.type.rank) if x.type.shape[d] != 1] for x in (op.operands[0], op.result)]
        before, after = ([x.type.shape[d] for x, d in side] for side in sides)
        for old, new in equal_products(before, after):
            yield [sides[0][i] for i in old], [sides[1][i] for i in new]

    def _is_even(self, op: Op) -> bool:
        flat = [[n for x, d in side for n in self.of(x, d)] for pair in self._sides(op) for side in pair]
        return all(one == other for one, other in zip(flat[::2], flat[1::2], strict=True))

    def _refine(self, op: Op, try_only: bool = False) -> bool:
        """Cut the dims on both sides of a reshape where either is cut; says whether something changed, or could."""
        changed = False
        for pair in self._sides(op):
            cuts = sorted({cut for side in pair for cut in _cuts([n for x, d in side for n in self.of(x, d)])})
            if any(b % a for a, b in pairwise(cuts)):
                return False
            if try_only:
                continue
            digits = [b // a for a, b in pairwise(cuts)]
            for side in pair:
                changed |= self._assign(side, list(digits))
        return changed or try_only

    def _assign(self, side: Sequence[Place], digits: list[int]) -> bool:
        """Give digits, the fastest first, to dims, the slowest first."""
        changed = False
        for x, d in reversed(side):
            mine: list[int] = []
            while prod(mine) < x.type.shape[d]:
                mine.insert(0, digits.pop(0))
            root, before = self.root((x, d)), self.of(x, d)
            self._digits[root] = tuple(mine)
            changed |= before != tuple(mine)
        return changed


def _cuts(digits: Sequence[int]) -> list[int]:
    """Where digits are cut: products of the fastest ones."""
    return [prod(digits[i:]) for i in range(len(digits) + 1)]


def same_dims(op: Op) -> Iterator[tuple[Place, Place]]:
    """Dims of operands, with those of the result that they go along; of an op that can be computed with more dims."""
    made = op.result
    if op.definition.family == "elementwise" or op.name in ALIGNED:
        for x in op.values():
            by = made.type.rank - x.type.rank
            yield from (((x, d), (made, d + by)) for d in range(x.type.rank))
        return
    if op.name in PARTS:
        yield from (((x, d), (made, d)) for x in op.values() for d in range(x.type.rank) if is_left_alone(op, d))
        return
    (x,) = op.values()
    kept = [d for d in range(x.type.rank) if d not in op.attrs["axes"]]
    for i, d in enumerate(kept):
        yield (x, d), (made, d if op.attrs["keepdims"] else i)


def _pairs(op: Op) -> Iterator[tuple[Place, Place]]:
    return same_dims(op) if _computes(op) else iter(())


class _Rewriter:
    """Writes a program anew with more dims."""

    def __init__(self, factors: Factors) -> None:
        self.factors = factors
        self.new: dict[Value, tuple[Value, list[Digits]]] = {}
        self.views: dict[tuple[Value, tuple[int, ...]], Value] = {}

    def run(self, graph: Graph) -> None:
        """Every op that has cut dims, or reads what has."""
        for op in list(graph.ops):
            if op in self.factors.reshapes:
                made = self._reshape(op)
            elif _computes(op) and self._is_cut(op) and self._has_whole_parts(op):
                made = self._made(op)
            else:
                continue
            new, digits = made
            if new.producer is not None and new.producer.parent is None:
                new.name, new.producer.location = op.result.name, op.location
            shape = op.result.type.shape
            back = new if new.type.shape == shape else value("reshape", new, shape=shape)
            insert_tree(back, op)
            op.result.replace_all_uses(back)
            self.new[back] = new, digits

    def _made(self, op: Op) -> tuple[Value, list[Digits]]:
        if op.name in COMBINED:
            return self._reduction(op)
        return self._parts(op) if op.name in PARTS else self._elementwise(op)

    def _has_whole_parts(self, op: Op) -> bool:
        """False for an op that works on parts of a dim that has digits: it keeps its dims."""
        values, rank = (*op.values(), op.result), op.result.type.rank
        touched = [d for d in range(rank) if op.name in PARTS and not is_left_alone(op, d)]
        return all(len(self.factors.of(x, d)) == 1 for x in values for d in touched)

    def _is_cut(self, op: Op) -> bool:
        return any(x in self.new or any(len(n) > 1 for n in self.factors.all_of(x)) for x in (*op.values(), op.result))

    def _known(self, x: Value) -> tuple[Value, list[Digits]]:
        return self.new.get(x) or (x, [(n,) for n in x.type.shape])

    def _as(self, x: Value, wanted: Sequence[Digits]) -> Value:
        made, _ = self._known(x)
        shape = tuple(n for digits in wanted for n in digits)
        if made.type.shape == shape:
            return made
        found = self.views.get((made, shape))
        if found is None:
            found = self.views[made, shape] = value("reshape", made, shape=shape)
        return found

    def _reshape(self, op: Op) -> tuple[Value, list[Digits]]:
        digits = self.factors.all_of(op.result)
        return self._as(op.operands[0], digits), digits

    def _elementwise(self, op: Op) -> tuple[Value, list[Digits]]:
        rank = op.result.type.rank
        digits = self.factors.all_of(op.result)
        known = [(x, rank - x.type.rank, self._known(x)[1]) for x in op.values()]
        for d in range(rank):
            if op.result.type.shape[d] == 1:
                # As many dims of one element as an operand has there: it is read as it is.
                digits[d] = max((own[d - by] for _, by, own in known if d >= by), key=len, default=(1,))
        operands = [self._aligned(x, digits) if isinstance(x, Value) else x for x in op.operands]
        attrs = {**op.attrs, "shape": tuple(n for each in digits for n in each)} if op.name in ALIGNED else op.attrs
        return value(op.name, *operands, **attrs), digits

    def _parts(self, op: Op) -> tuple[Value, list[Digits]]:
        digits = self.factors.all_of(op.result)
        at = [sum(len(each) for each in digits[:d]) for d in range(len(digits))]
        touched = {d for d in range(len(digits)) if not is_left_alone(op, d)}
        operands = [
            self._as(x, [(x.type.shape[d],) if d in touched else each for d, each in enumerate(digits)])
            for x in op.values()
        ]
        if op.name == "concatenate":
            return value(op.name, *operands, axis=at[op.attrs["axis"]]), digits
        sizes = tuple(n for each in digits for n in each)
        starts, steps = [0] * len(sizes), [1] * len(sizes)
        for d in touched:
            starts[at[d]], steps[at[d]] = op.attrs["starts"][d], op.attrs["steps"][d]
        return value(op.name, *operands, starts=tuple(starts), sizes=sizes, steps=tuple(steps)), digits

    def _aligned(self, x: Value, digits: Sequence[Digits]) -> Value:
        """An operand of an elementwise op whose result has these digits."""
        own = digits[len(digits) - x.type.rank :]
        sizes = zip(x.type.shape, own, strict=True)
        return self._as(x, [each if size != 1 else (1,) * len(each) for size, each in sizes])

    def _reduction(self, op: Op) -> tuple[Value, list[Digits]]:
        (x,) = op.operands
        axes = op.attrs["axes"]
        digits = self.new[x][1] if x in self.new else self.factors.all_of(x)
        at = [sum(len(each) for each in digits[:d]) for d in range(x.type.rank)]
        more = tuple(at[a] + i for a in axes for i in range(len(digits[a])))
        made = value(op.name, self._as(x, digits), axes=more, keepdims=op.attrs["keepdims"])
        if op.attrs["keepdims"]:
            return made, [(1,) * len(each) if d in axes else each for d, each in enumerate(digits)]
        return made, [each for d, each in enumerate(digits) if d not in axes]

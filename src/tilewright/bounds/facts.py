"""What is known of every value of a program before it runs.

Whether it is made of constants alone, along which axes its elements differ, where they are not a known number (under a
mask), and what makes it, views left out: two values of one number hold the same elements, perhaps in other places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tilewright.bounds.boxes import Box, box_of, most_shown
from tilewright.bounds.literals import essential
from tilewright.bounds.masks import Masks
from tilewright.bounds.moves import ON, ONE_SOURCE, region_of_source, source_of
from tilewright.bounds.region import Region, everything, nothing
from tilewright.ir.core import Graph, Op, Value
from tilewright.tensor.record import TABLE, OpRecord

_ACROSS = frozenset({"take", "windows", "take_along_axis"})
"""Ops that may show an element of an operand many times."""

Origins = Mapping[Value, Region | None]
"""Inputs that a value is made of, with all elements that it may depend on; None: any."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of one value.

    constant: made of constants. computable: of such that a rule describes. varies: by axis, whether elements differ.
    distinct: at least so many elements are computations of their own. box: so many of them along each axis, for any
    place along the others (`boxes.py`). support: where it is not a known number.
    number: equal for values of the same elements. origins: what it is made of.
    """

    constant: bool
    computable: bool
    varies: tuple[bool, ...]
    distinct: int
    box: Box
    support: Region
    number: int
    origins: Origins

    @property
    def spread(self) -> int:
        """Elements along the axes on which they differ."""
        return prod(n for n, differs in zip(self.support.shape, self.varies, strict=True) if differs)

    def is_whole(self, other: Facts) -> bool:
        """True when it differs along every axis along which `other`, a value of the same dims, does."""
        lead = len(other.varies) - len(self.varies)
        mine = (False,) * lead + self.varies
        return not self.computable and all(a or not b for a, b in zip(mine, other.varies, strict=True))


def record_of(op: Op) -> OpRecord:
    """The definition of a tensor op."""
    return TABLE[op.name]


def hull(origins: Sequence[Origins]) -> Origins:
    """What values are made of together, and perhaps more."""
    if len(origins) == 1:
        return origins[0]
    found: dict[Value, Region | None] = {}
    for each in origins:
        for value, region in each.items():
            known = found.get(value, region)
            found[value] = (
                region if known is region else None if known is None or region is None else known.hull(region)
            )
    return found


class Analysis:
    """The facts of all values of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.masks = Masks()
        self._numbers: dict[Any, int] = {}
        self.facts: dict[Value, Facts] = {}
        for value in graph.inputs:
            self.facts[value] = self._source(value, False, False)
        for op in graph.ops:
            self._learn(op)

    def __getitem__(self, value: Value) -> Facts:
        return self.facts[value]

    def of(self, op: Op) -> list[Facts]:
        """The facts of an op's operands, numbers left out."""
        return [self.facts[x] for x in op.operands if isinstance(x, Value)]

    def _number(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _source(self, value: Value, constant: bool, computable: bool) -> Facts:
        """Facts of an input, or of the result of an op of which nothing is known: every element differs."""
        shape = value.type.shape
        varies = tuple(n > 1 and not computable for n in shape)
        number = self._number(("value", value))
        origins = {value: None} if value.producer is None else {}
        box = (1,) * len(shape) if computable else shape
        return Facts(constant, computable, varies, prod(shape), box, everything(shape), number, origins)

    def _learn(self, op: Op) -> None:
        known = self.of(op)
        family = record_of(op).family
        constant = all(each.constant for each in known)
        computable = constant and all(each.computable for each in known)
        for place, value in enumerate(op.results):
            if family == "creation":
                self.facts[value] = self._created(op, value)
                continue
            found = self._source(value, constant, computable)
            if not constant:
                found = self._boxed(op, self._followed(op, found, known, family), known)
            origins = self._origins(op, known)
            self.facts[value] = replace(found, number=self._numbered(op, place), origins=origins)
            self.masks.learn(op, value)

    def _created(self, op: Op, value: Value) -> Facts:
        self.masks.learn(op, value)
        if op.name != "constant":
            return self._source(value, True, True)
        array, dtype = op.attrs["value"].array, op.attrs["value"].dtype
        return self._source(value, True, not essential(array, dtype))

    def _origins(self, op: Op, known: Sequence[Facts]) -> Origins:
        root = source_of(op.results[0])
        if root.producer is None:
            region = region_of_source(op.results[0], everything(op.results[0].type.shape))
            return {root: None if region.number is not None or region.is_all else region}
        return hull([each.origins for each in known])

    def _numbered(self, op: Op, place: int) -> int:
        if op.name in ONE_SOURCE or op.name in _ACROSS:
            return self.facts[op.operands[0]].number
        operands = [self.facts[x].number if isinstance(x, Value) else ("number", repr(x)) for x in op.operands]
        if op.name.startswith("matmul"):
            operands.sort()
        # Axes are left out: those of a transposed array are others.
        told = tuple(
            (name, str(x)) for name, x in op.attrs.items() if isinstance(x, (str, bool)) and name != "keepdims"
        )
        return self._number((op.name, place, told, str(op.results[place].type.dtype), *operands))

    def _followed(self, op: Op, found: Facts, known: Sequence[Facts], family: str) -> Facts:
        if family == "elementwise":
            return self._elementwise(op, found, known)
        if family == "shape":
            return self._moved(op, found, known)
        if family in ("reduction", "scan"):
            return self._along(op, found, known[0])
        if op.name in _ACROSS:
            x, shown = known[0], most_shown(op)
            # Of equal elements those that are not shown may be all the others.
            left = x.distinct if x.distinct >= x.spread else max(x.distinct - (x.support.size - shown), 1)
            return replace(found, distinct=min(found.distinct, left, shown))
        if family == "contraction":
            return self._product(found, known)
        return found

    def _boxed(self, op: Op, found: Facts, known: Sequence[Facts]) -> Facts:
        """With the box of what differs, where not all elements do."""
        if found.distinct >= found.spread:
            box = tuple(n if differs else 1 for n, differs in zip(found.support.shape, found.varies, strict=True))
            return replace(found, box=box)
        box = box_of(op, [each.box for each in known])
        return replace(found, box=box, distinct=max(found.distinct, min(prod(box), found.spread)))

    def _elementwise(self, op: Op, found: Facts, known: Sequence[Facts]) -> Facts:
        rank = len(found.varies)
        padded = [(False,) * (rank - len(each.varies)) + each.varies for each in known]
        varies = tuple(any(axis) for axis in zip(*padded, strict=True)) if rank else ()
        spread = prod(n for n, differs in zip(found.support.shape, varies, strict=True) if differs)
        limited = any(each.distinct < each.spread for each in known)
        distinct = max(each.distinct for each in known) if limited else spread
        made = replace(found, varies=varies, distinct=min(distinct, spread))
        # Rows, columns and constants are known beside what varies with every element.
        pairs = zip(op.values(), known, strict=True)
        whole = {x: each.support for x, each in pairs if each.is_whole(made) and not each.constant}
        return replace(made, support=self.masks.support(op, whole))

    def _moved(self, op: Op, found: Facts, known: Sequence[Facts]) -> Facts:
        supports = [
            nothing(each.support.shape) if each.constant and each.computable else each.support for each in known
        ]
        support = ON[op.name](op, supports) if op.name in ON else found.support
        distinct, varies = _moved_elements(op, known, found.varies)
        return replace(found, distinct=min(distinct, support.size), varies=varies, support=support)

    def _along(self, op: Op, found: Facts, x: Facts) -> Facts:
        axes = op.attrs["axes"] if "axes" in op.attrs else (op.attrs["axis"],)
        if record_of(op).family == "scan":
            return found if x.distinct >= x.spread else replace(found, distinct=x.distinct)
        kept = [differs for a, differs in enumerate(x.varies) if a not in axes]
        varies = tuple(n > 1 and a not in axes and x.varies[a] for a, n in enumerate(found.support.shape))
        varies = varies if op.attrs["keepdims"] else tuple(kept)
        spread = prod(n for n, differs in zip(found.support.shape, varies, strict=True) if differs)
        return replace(found, varies=varies, distinct=spread if x.distinct >= x.spread else 1)

    def _product(self, found: Facts, known: Sequence[Facts]) -> Facts:
        x, y = known
        rank = len(found.varies)
        sides = [(False,) * (rank - len(each.varies)) + each.varies for each in (x, y)]
        batch = [a or b for a, b in zip(sides[0][:-2], sides[1][:-2], strict=True)]
        varies = (*batch, sides[0][-2], sides[1][-1])
        spread = prod(n for n, differs in zip(found.support.shape, varies, strict=True) if differs)
        limited = x.distinct < x.spread or y.distinct < y.spread
        return replace(found, varies=varies, distinct=1 if limited else spread)


def _moved_elements(op: Op, known: Sequence[Facts], default: tuple[bool, ...]) -> tuple[int, tuple[bool, ...]]:
    """How many different elements a move leaves at least, and along which axes they differ."""
    x = known[0]
    whole = x.distinct >= x.spread
    if op.name == "transpose":
        return x.distinct, tuple(x.varies[a] for a in op.attrs["perm"])
    if op.name == "broadcast_to":
        lead = len(op.result.type.shape) - len(x.varies)
        return x.distinct, (False,) * lead + x.varies
    if op.name == "slice":
        removed = op.operands[0].type.size - op.result.type.size
        sizes = [n if differs else 1 for n, differs in zip(op.attrs["sizes"], x.varies, strict=True)]
        varies = tuple(n > 1 and differs for n, differs in zip(op.attrs["sizes"], x.varies, strict=True))
        return (prod(sizes) if whole else max(x.distinct - removed, 1)), varies
    if op.name == "concatenate":
        most: dict[int, int] = {}
        for each in known:
            if not each.computable:
                most[each.number] = max(most.get(each.number, 0), each.distinct)
        return sum(most.values()), default
    if op.name == "update_slice":
        part = known[1]
        return max(x.distinct - part.support.size if not x.computable else 0, part.distinct), default
    return x.distinct, default

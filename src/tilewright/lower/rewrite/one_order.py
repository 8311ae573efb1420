"""Programs in which large values are never put into another order between what computes them and what reads them.

In `np.einsum("bgrst,btgd->bsgrd", softmax(np.einsum("bsgrd,btgd->bgrst", q, k)), v)` the first product merges (r, s) as
its rows and the second one (s, r): all weights are put into another order between. But rows of a product may be in any
order, as those of what is computed element by element: here every value has the order in which it is made, and those
who read it take it so. What has to be turned are operands that are smaller, inputs and results. Rows that a product
merges become dims that it loops over, where those that are left fill the partitions, and matrices that are repeated
for some of them are read as they are.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from math import prod

from tilewright.dtypes import float32
from tilewright.ir.core import OUTPUTS, Graph, Op, Value
from tilewright.ir.walk import eliminate_dead_code, sort_topologically
from tilewright.lower.decisions import decided
from tilewright.lower.regions.axes import COMBINED, SCANNED
from tilewright.lower.regions.roles import PRODUCTS
from tilewright.lower.rewrite.named_dims import VIEWS, NamedDims, Part, computes, touched
from tilewright.lower.rewrite.small_products import Sizes
from tilewright.target import Target
from tilewright.tensor.build import insert_tree, value


@dataclass(frozen=True, slots=True)
class Made:
    """How a value is there: `order` says for each dim of `value` which part of the original it is, -1 for none.

    Along parts that are missing it is the same.
    """

    value: Value
    order: tuple[int, ...]

    @property
    def present(self) -> list[int]:
        """The parts that are there, in their order."""
        return [i for i in self.order if i >= 0]


def keep_one_order(graph: Graph, target: Target) -> bool:
    """Write a program anew with values in the order in which they are made; says whether less is moved now."""
    if not any(op.name in PRODUCTS for op in graph.ops):
        return False
    before = moved(graph)
    if not before:
        return False
    writer = _Writer(graph, NamedDims(graph), target)
    writer.run()
    sort_topologically(graph.body)
    eliminate_dead_code(graph)
    if not writer.by_elements and moved(graph) >= before:
        return False
    decided("rule: one order")
    return True


def moved(graph: Graph) -> int:
    """Elements of what was computed that reshapes and transposes merge, split and put into another order, and of what
    products made that is added up or compared along other dims than the last."""
    total = 0
    for op in graph.ops:
        if op.name in COMBINED and max(op.attrs["axes"], default=-1) + 1 < op.operands[0].type.rank:
            total += op.operands[0].type.size if _is_product(op.operands[0]) else 0
        if op.name not in ("reshape", "transpose") or _is_given(op.operands[0]):
            continue
        long = [tuple(n for n in x.type.shape if n != 1) for x in (op.operands[0], op.result)]
        # Operands of products are turned wherever they come from.
        turned = op.name == "transpose" and all(use.name in PRODUCTS for use in op.result.uses)
        if op.name == "transpose" or long[0] != long[1]:
            total += 0 if turned and _turns_matrices(op) else op.result.type.size
    return total


def _turns_matrices(op: Op) -> bool:
    rank = op.result.type.rank
    return op.attrs["perm"] == (*range(rank - 2), rank - 1, rank - 2)


def _is_product(x: Value) -> bool:
    """True for what is computed of a product, element by element."""
    while x.producer is not None and (x.producer.definition.family == "elementwise" or x.producer.name in VIEWS):
        x = max((v for v in x.producer.values()), key=lambda v: v.type.size)
    return x.producer is not None and x.producer.name in PRODUCTS


def _is_given(x: Value) -> bool:
    while x.producer is not None and x.producer.name in (*VIEWS, "cast"):
        x = x.producer.operands[0]
    return x.producer is None or x.producer.definition.family == "creation"


class _Writer:
    """Writes every op that can be computed in any order of dims anew."""

    def __init__(self, graph: Graph, names: NamedDims, target: Target) -> None:
        self.graph = graph
        self.names = names
        self.target = target
        self.made: dict[Value, Made] = {}
        self.wholes: dict[Value, Value] = {}
        self.views: dict[tuple, Value] = {}
        self.by_elements = False
        self.combined = _combined(graph, names)

    def run(self) -> None:
        """All ops, and what the others and the results read."""
        for op in list(self.graph.ops):
            found = self._written(op)
            if found is None:
                self._read_wholes(op)
                continue
            new = found.value
            insert_tree(new, op)
            if new.name is None and new.producer is not None and op.name not in VIEWS:
                new.name = op.result.name
            self.made[op.result] = found
        self._read_wholes(self.graph.output_op)

    def _written(self, op: Op) -> Made | None:
        if op.name in VIEWS:
            return self._view(op) if op in self.names.views else None
        values = (*op.values(), *op.results)
        if not computes(op) or any(self.names.of(x) is None for x in values):
            return None
        if not all(self.names.is_whole(x, d) for d in touched(op) for x in values):
            return None
        if op.name in PRODUCTS:
            return _Product(self, op).made()
        if op.name in COMBINED:
            return self._reduction(op)
        if op.name == "slice":
            return self._slice(op)
        if op.name in SCANNED or op.name == "concatenate":
            return self._along(op)
        return self._elementwise(op)

    # How values are read.

    def parts(self, x: Value) -> list[Part]:
        """The parts of a value that has some."""
        found = self.names.of(x)
        assert found is not None
        return found

    def of(self, x: Value) -> Made:
        """How a value is there: as it was where nothing made it anew."""
        if x not in self.made:
            parts = self.parts(x)
            flat = self.view(x, tuple(p.size for p in parts))
            self.made[x] = Made(flat, tuple(range(len(parts))))
        return self.made[x]

    def view(self, x: Value, shape: Sequence[int], perm: Sequence[int] | None = None) -> Value:
        """A value with its dims in another order, then of another shape."""
        if perm is not None and list(perm) != list(range(len(perm))):
            x = self._known("transpose", x, tuple(perm))
        return x if x.type.shape == tuple(shape) else self._known("reshape", x, tuple(shape))

    def _known(self, name: str, x: Value, to: tuple[int, ...]) -> Value:
        key = (name, x, to)
        if key not in self.views:
            self.views[key] = value(name, x, **{"perm" if name == "transpose" else "shape": to})
        return self.views[key]

    def ordered(self, x: Made, order: Sequence[int]) -> Value:
        """A value with a dim for each of some parts, in their order: of one element where it has none."""
        wanted = [i for i in order if i in x.order]
        sizes = {i: n for i, n in zip(x.order, x.value.type.shape, strict=True) if i >= 0}
        shape = [sizes.get(i, 1) for i in order]
        flat = self.view(x.value, [sizes[i] for i in x.present]) if x.present != wanted else x.value
        return self.view(flat, shape, [x.present.index(i) for i in wanted] if x.present != wanted else None)

    def whole(self, x: Value) -> Value:
        """A value as it was."""
        made = self.made.get(x)
        if made is None:
            return x
        if x not in self.wholes:
            parts = self.parts(x)
            found = self.ordered(made, range(len(parts)))
            missing = [i for i in range(len(parts)) if i not in made.order]
            if missing:
                found = value("broadcast_to", found, shape=tuple(p.size for p in parts))
            self.wholes[x] = self.view(found, x.type.shape)
        return self.wholes[x]

    def _read_wholes(self, op: Op) -> None:
        for index, x in enumerate(op.operands):
            if isinstance(x, Value) and x in self.made:
                whole = self.whole(x)
                if whole is not x:
                    if op.definition is OUTPUTS:
                        self._append(whole, x)
                    else:
                        insert_tree(whole, op)
                    op.replace_operand(index, whole)

    def _append(self, x: Value, old: Value) -> None:
        """Put a detached value at the end of the program, in place of another."""
        op = x.producer
        if op is None or op.parent is not None:
            return
        for each in op.values():
            self._append(each, old)
        op.location = old.producer.location if old.producer is not None else None
        self.graph.append(op)

    # Kinds of ops.

    def _view(self, op: Op) -> Made:
        (x,) = op.operands
        made = self.of(x)
        if op.name == "reshape":
            return made
        to = self._places(op.result)
        old = self.parts(x)
        if op.name == "transpose":
            at = {d: i for i, d in enumerate(op.attrs["perm"])}
            by = [to[at[p.dim], p.number] for p in old]
        else:
            by = self._aligned(x, op.result)
        return Made(made.value, tuple(i if i < 0 else by[i] for i in made.order))

    def _places(self, x: Value) -> dict[tuple[int, int], int]:
        return {p.place: i for i, p in enumerate(self.parts(x))}

    def _aligned(self, x: Value, result: Value) -> list[int]:
        """Which part of the result each part of an operand goes along."""
        to, by = self._places(result), result.type.rank - x.type.rank
        return [to[p.dim + by, p.number] for p in self.parts(x)]

    def _renamed(self, x: Value, to: Sequence[int]) -> Made:
        made = self.of(x)
        return Made(made.value, tuple(i if i < 0 else to[i] for i in made.order))

    def _elementwise(self, op: Op) -> Made | None:
        operands = [self._renamed(x, self._aligned(x, op.result)) for x in op.values()]
        if not operands:
            return None
        order = self.common(operands)
        arrays = iter(operands)
        new = [_trimmed(self, next(arrays), order) if isinstance(x, Value) else x for x in op.operands]
        made = value(op.name, *new, **op.attrs)
        return Made(made, tuple(order[len(order) - made.type.rank :]))

    def common(self, operands: Sequence[Made], combined: Container[int] = ()) -> list[int]:
        """The order that the largest operand has, the others' parts where they belong; the original one in doubt.

        combined: parts that will be added up. Nothing is put before them where they are the rows.
        """
        lead = max(operands, key=lambda x: (x.value.type.size, x.present == sorted(x.present)))
        order = lead.present
        first = 1 if order and order[0] in combined else 0
        for i in sorted({i for x in operands for i in x.present} - set(order)):
            at = next((n for n, j in enumerate(order) if j > i), len(order))
            order.insert(max(at, first), i)
        return order

    def _reduction(self, op: Op) -> Made | None:
        (x,) = op.operands
        made, parts = self.of(x), self.parts(x)
        gone = [i for i, p in enumerate(parts) if p.dim in op.attrs["axes"]]
        if not set(gone) <= set(made.order) or not gone:
            return None
        to = self._places(op.result)
        kept = [d for d in range(x.type.rank) if d not in op.attrs["axes"]]
        at = {d: d if op.attrs["keepdims"] else i for i, d in enumerate(kept)}
        by = [-1 if i in gone else to[at[p.dim], p.number] for i, p in enumerate(parts)]
        axes = tuple(d for d, i in enumerate(made.order) if i in gone)
        found = value(op.name, made.value, axes=axes, keepdims=True)
        return Made(found, tuple(i if i < 0 else by[i] for i in made.order))

    def _along(self, op: Op) -> Made | None:
        """Ops that join parts of a dim, or run along one."""
        if any(x.type.shape[op.attrs["axis"]] == 1 for x in op.values()):
            return None
        operands = [self._renamed(x, self._aligned(x, op.result)) for x in op.values()]
        order, parts = self.common(operands), self.parts(op.result)
        if any(len(x.present) != len(parts) for x in operands):
            return None
        axis = next(n for n, i in enumerate(order) if parts[i].dim == op.attrs["axis"])
        return Made(
            value(op.name, *(self.ordered(x, order) for x in operands), **{**op.attrs, "axis": axis}), tuple(order)
        )

    def _slice(self, op: Op) -> Made:
        (x,) = op.operands
        made, parts, result = self.of(x), self.parts(x), op.result
        cut, to = touched(op), self._places(result)
        by = [-1 if p.dim in cut and result.type.shape[p.dim] == 1 else to[p.place] for p in parts]
        shape = made.value.type.shape
        starts, sizes, steps = [0] * len(shape), list(shape), [1] * len(shape)
        for n, i in enumerate(made.order):
            if i >= 0 and (d := parts[i].dim) in cut:
                starts[n], sizes[n], steps[n] = op.attrs["starts"][d], op.attrs["sizes"][d], op.attrs["steps"][d]
        found = value("slice", made.value, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))
        return Made(found, tuple(i if i < 0 else by[i] for i in made.order))


def _trimmed(writer: _Writer, x: Made, order: Sequence[int]) -> Value:
    """An operand of an elementwise op, without leading dims of one element, or as it is where that will do."""
    lead = next((n for n, i in enumerate(order) if i in x.order), len(order))
    return writer.ordered(x, order[lead:])


def _combined(graph: Graph, names: NamedDims) -> dict[Value, set[int]]:
    """The parts of each value that those who read it add up or compare."""
    found: dict[Value, set[int]] = {}
    for op in reversed(graph.ops):
        if not (op in names.views or computes(op)) or any(names.of(x) is None for x in (*op.values(), op.result)):
            continue
        for index, x in enumerate(op.values()):
            mine = found.setdefault(x, set())
            for i, p in enumerate(names.of(x) or ()):
                last = p.dim == x.type.rank - 1
                if op.name in PRODUCTS:
                    single = op.result.type.shape[-2] == 1
                    is_combined = last if index == 0 else single and p.dim == x.type.rank - 2
                elif op.name in COMBINED:
                    is_combined = p.dim in op.attrs["axes"]
                else:
                    is_combined = _goes_to(op, x, p, names) in found.get(op.result, ())
                if is_combined:
                    mine.add(i)
    return found


def _goes_to(op: Op, x: Value, part: Part, names: NamedDims) -> int | None:
    """Which part of a result a part of an operand becomes, other than of products and reductions."""
    result = names.of(op.result) or ()
    if op.name == "reshape":
        return (names.of(x) or []).index(part)
    dim = op.attrs["perm"].index(part.dim) if op.name == "transpose" else part.dim + op.result.type.rank - x.type.rank
    return next((i for i, p in enumerate(result) if p.place == (dim, part.number)), None)


Label = tuple[bool, int]
"""A part of a product: whether it is summed over, and which one of the operands, or of the result, it is."""


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand of a product with the labels of its dims, and those of them that its own dim of the result has."""

    value: Value
    labels: tuple[Label | None, ...]
    own: frozenset[Label]

    @property
    def order(self) -> list[Label]:
        """The labels that are there, in their order."""
        return [each for each in self.labels if each is not None]

    @property
    def summed(self) -> list[Label]:
        """Those that are summed over."""
        return [each for each in self.order if each[0]]


class _Product:
    """A product of operands as they are there: which parts are rows, which columns, and which are looped over."""

    def __init__(self, writer: _Writer, op: Op) -> None:
        self.writer = writer
        self.op = op
        self.parts = writer.parts(op.result)
        rank = op.result.type.rank
        rows, columns = ([i for i, p in enumerate(self.parts) if p.last == rank - n] for n in (2, 1))
        x, y = op.operands
        left, right = self._operand(x, x.type.rank - 1, rows), self._operand(y, y.type.rank - 2, columns)
        combined = writer.combined.get(op.result, set())
        turned = bool(combined & set(rows)) and not combined & set(columns) and op.name != "matmul_split"
        self.left, self.right = (right, left) if turned else (left, right)

    def _operand(self, x: Value, summed: int, own: Sequence[int]) -> _Operand:
        parts, made = self.writer.parts(x), self.writer.of(x)
        places = {p.place: i for i, p in enumerate(self.parts)}
        by = self.op.result.type.rank - x.type.rank
        first = next((i for i, p in enumerate(parts) if p.dim == summed), 0)
        labels = [
            (True, i - first) if p.dim == summed else (False, places[p.dim + by, p.number]) for i, p in enumerate(parts)
        ]
        order = tuple(None if i < 0 else labels[i] for i in made.order)
        return _Operand(made.value, order, frozenset((False, i) for i in own))

    def made(self) -> Made | None:
        """The product; None where what is summed over is missing in an operand."""
        left, right, x = self.left, self.right, self.op.operands[0]
        a, b = left.summed, right.summed
        terms = [p for p in self.writer.parts(x) if p.dim == x.type.rank - 1]
        if not len(a) == len(b) == len(terms):
            return None
        if self._is_sooner_by_elements():
            return self._by_elements()
        summed = a if a == b or left.value.type.size >= right.value.type.size else b
        columns = [each for each in right.order if each in right.own]
        rows = self._rows()
        outer = [each for each in left.order if each not in summed and each not in rows]
        more = [each for each in right.order if not each[0] and each not in columns and each not in left.order]
        outer = [*more, *outer]
        first = self._matrices(left, outer, rows, summed)
        second = self._matrices(right, outer, summed, columns)
        found = value(self.op.name, first, second, **self.op.attrs)
        order = tuple(i for _, i in (*outer, *rows, *columns))
        sizes = [self.parts[i].size for i in order]
        return Made(self.writer.view(found, sizes), order)

    def _is_sooner_by_elements(self) -> bool:
        """True for many products of a row, or with a column, that the Tensor engine takes longer for than Vector."""
        sizes, target = Sizes.of(self.op), self.writer.target
        plain = self.op.name == "matmul" and self.op.result.type.dtype is float32
        if not plain or sizes.same or min(sizes.m, sizes.n) > 1 or sizes.k < target["limits.partitions"]:
            return False
        return sizes.down_rows_ns(target) < sizes.by_tensor_ns(target)

    def _by_elements(self) -> Made:
        """The sum of products of elements, in the order of the larger operand."""
        self.writer.by_elements = True
        count = len(self.parts)
        operands = [
            Made(each.value, tuple(-1 if label is None else label[1] + count * label[0] for label in each.labels))
            for each in (self.left, self.right)
        ]
        order = self.writer.common(operands)
        each = value("multiply", *(_trimmed(self.writer, x, order) for x in operands))
        axes = tuple(n for n, i in enumerate(order) if i >= count)
        return Made(value("sum", each, axes=axes, keepdims=False), tuple(i for i in order if i < count))

    def _rows(self) -> list[Label]:
        """The parts that are rows: one that fills the partitions, where there is one, else all of the dim."""
        own = [each for each in self.left.order if each in self.left.own]
        free = [each for each in self.left.order if not each[0]]
        long = [each for each in own if self.parts[each[1]].size >= self.writer.target["limits.partitions"]]
        if len(own) < 2 or not long:
            return own
        return [free[-1]] if free[-1] in long else long[-1:]

    def _matrices(self, x: _Operand, outer: Sequence[Label], rows: Sequence[Label], columns: Sequence[Label]) -> Value:
        """An operand as matrices, without leading dims of one element."""
        wanted = [each for each in (*outer, *rows, *columns) if each in x.order]
        size = {each: n for each, n in zip(x.labels, x.value.type.shape, strict=True) if each is not None}
        lead = next((n for n, each in enumerate(outer) if each in x.order), len(outer))
        shape = [size.get(each, 1) for each in outer[lead:]]
        shape += [prod(size.get(each, 1) for each in group) for group in (rows, columns)]
        if x.order == wanted:
            return self.writer.view(x.value, shape)
        flat = self.writer.view(x.value, [size[each] for each in x.order])
        return self.writer.view(flat, shape, [x.order.index(each) for each in wanted])

"""Many products of small matrices: written otherwise where a Tensor engine instruction for each would take longer.

Constant matrices on both sides of many small ones are one large matrix (`multiply_between`). Other small products are
elementwise work: on rows, one for each product, or on parts of what they sum over (`multiply_on_rows`). No element of
one product meets those of another, so that what is infinite or NaN stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import NamedTuple

import numpy as np

from tilewright.dtypes import float32
from tilewright.ir.core import Op, Value
from tilewright.ir.dense import Dense
from tilewright.ir.rewrite import Rule, rule
from tilewright.lower.regions.even import even_parts, longest_line
from tilewright.lower.rewrite.batches import is_part
from tilewright.lower.tuning import TUNING
from tilewright.target import Target
from tilewright.tensor.build import make, value

PRODUCTS = ("matmul", "matmul_wide", "matmul_split")
PASSES = 3
"""Times that Vector touches an element of x * y: it multiplies, and adds up what does not lie together."""


class Sizes(NamedTuple):
    """A product of matrices, `batch` times; `same`: all of them have the same right operand."""

    batch: int
    m: int
    k: int
    n: int
    dtype: str
    same: bool

    @staticmethod
    def of(op: Op) -> Sizes:
        """Those of a product."""
        x, y = op.operands
        batch, (m, n) = prod(op.result.type.shape[:-2]), op.result.type.shape[-2:]
        wide = any(v.type.dtype is float32 for v in (x, y)) and op.name != "matmul_split"
        same = prod(y.type.shape[:-2]) == 1
        return Sizes(batch, m, x.type.shape[-1], n, "float32" if wide else "bfloat16", same)

    def by_tensor_ns(self, target: Target) -> float:
        """What the Tensor engine takes, to turn left operands too."""
        lanes = target["limits.partitions"]
        overhead = target[
            "tensor.issue_overhead_float32_cycles" if self.dtype == "float32" else "tensor.issue_overhead_cycles"
        ]
        least = target["tensor.min_interval_cycles"]
        blocks = -(-self.batch * self.m // lanes) if self.same else self.batch * -(-self.m // lanes)
        rows, deep = min(self.batch * self.m if self.same else self.m, lanes), -(-self.k // lanes)

        def cycles(stationary: int, moving: int, per_column: float) -> float:
            columns = max(min(target["tensor.weight_load_min_columns"], stationary), moving)
            return max(columns * per_column + overhead, least)

        turn = target[f"tensor.transpose_cycles_per_column.{'float32' if self.dtype == 'float32' else 'other'}"]
        each = cycles(rows, self.n, target[f"tensor.cycles_per_column.{self.dtype}"])
        turned = cycles(min(self.k, lanes), rows, turn)
        return blocks * deep * (each + turned) / target["clock_ghz.tensor"]

    def rows_apiece(self, target: Target) -> tuple[int, float]:
        """How many products a partition has one after the other, and what Vector takes for that."""
        lanes, overhead = target["limits.partitions"], target["vector.overhead_cycles.other"]
        rate = target["vector.elements_per_cycle.two_inputs"] * target["clock_ghz.vector"]
        count, elements = self.batch * self.m if self.same else self.batch, self.k * self.n
        elements *= 1 if self.same else self.m
        best = 1, -(-count // lanes) * PASSES * (elements + overhead)
        for parts in even_parts(count, lanes)[-1:]:
            found = count // parts, PASSES * (count // parts * elements + overhead)
            best = min(best, found, key=lambda each: each[1])
        return best[0], best[1] / rate

    def down_rows_ns(self, target: Target) -> float:
        """What Vector takes where terms lie on partitions: it multiplies, and adds up what each has."""
        rate = target["vector.elements_per_cycle.two_inputs"] * target["clock_ghz.vector"]
        return 2 * self.batch * self.m * self.n * -(-self.k // target["limits.partitions"]) / rate

    def on_columns_ns(self, target: Target) -> float:
        """What Vector takes for sums of rows of the right operand, each times a number; of one product alone."""
        if self.batch > 1 or longest_line(self.n, target["limits.partitions"]) is None:
            return inf
        rate = target["vector.elements_per_cycle.two_inputs"] * target["clock_ghz.vector"]
        each = self.m * self.n / target["limits.partitions"] + target["vector.overhead_cycles.other"]
        return 2 * self.k * each / rate

    def by_terms_ns(self, target: Target) -> float:
        """What Vector takes for columns of the result one by one, of many rows of a few elements and one matrix."""
        if not self.same or self.k * self.n > TUNING.few_terms or self.k < 2:
            return inf
        rate = target["vector.elements_per_cycle.two_inputs"] * target["clock_ghz.vector"]
        each = self.batch * self.m / target["limits.partitions"] + 2 * target["vector.overhead_cycles.other"]
        return self.k * self.n * each / rate


def small_products(target: Target) -> tuple[Rule, Rule]:
    """The rules, as they suit a target; the first looks for pairs, before the second takes products apart."""

    @rule(*PRODUCTS, exact=False, ulp=4)
    def multiply_on_rows(op: Op) -> Value | None:
        """matmul(x, y) -> sum(x * y)            of many small matrices, or of a small one and many rows or columns,
        where that takes less time"""
        sizes = Sizes.of(op)
        if not sizes.k or not op.result.type.size or not op.operands[0].type.dtype.is_float:
            return None
        apiece, spent = sizes.rows_apiece(target)
        by_tensor, down = sizes.by_tensor_ns(target), PASSES / 2 * sizes.down_rows_ns(target)
        if sizes.by_terms_ns(target) < min(spent, by_tensor, down):
            return _by_terms(op, sizes)
        # Rows, one for each product, have terms that one instruction multiplies and adds up.
        if down < min(spent / PASSES, by_tensor, sizes.on_columns_ns(target)) and not _is_of_products(op):
            return _down_rows(op)
        if sizes.on_columns_ns(target) < min(spent, by_tensor):
            return _on_columns(op, sizes, longest_line(sizes.n, target["limits.partitions"]) or 1)
        return _on_rows(op, sizes, apiece) if spent < by_tensor else None

    @rule("matmul", exact=False, ulp=8)
    def multiply_between(op: Op) -> Value | None:
        """matmul(matmul(a, x), b) -> matmul(x as rows, kron(a.T, b)) as matrices            a and b are constants"""
        found = _between(op)
        if found is None:
            return None
        a, x, b = found
        whole = _both(a, b)
        batch, (k, n) = x.type.shape[:-2], whole.shape
        sizes = Sizes(1, prod(batch), k, n, "float32", True)
        apart = [Sizes.of(each) for each in (op, _inner(op))]
        before = sum(min(each.by_tensor_ns(target), each.rows_apiece(target)[1]) for each in apart)
        if k > target["limits.partitions"] or sizes.by_tensor_ns(target) >= before or not _in_range(whole, a, b):
            return None
        rows = value("reshape", x, shape=(prod(batch), k))
        matrix = make("constant", value=Dense(whole, float32)).result
        return value("reshape", value("matmul", rows, matrix), shape=op.result.type.shape)

    return multiply_between, multiply_on_rows


# Elementwise.


def _on_rows(op: Op, sizes: Sizes, apiece: int) -> Value:
    x, y = (v if v.type.dtype is float32 else value("cast", v, dtype=float32) for v in op.values())
    shape, (m, k, n) = op.result.type.shape, sizes[1:4]
    count = sizes.batch * m if sizes.same else sizes.batch
    whole = [prod(v.type.shape[:-2]) in (1, sizes.batch) for v in (x, y)]
    many = [v for v in op.values() if prod(v.type.shape[:-2]) > 1]
    if not sizes.same and apiece > 1 and all(whole) and not any(is_part(v) for v in many):
        lead: tuple[int, ...] = (count // apiece, apiece)
    else:
        lead = (*shape[:-2], m) if sizes.same else shape[:-2]
    rows = () if sizes.same else (m,)
    left = value("reshape", x, shape=(*_lead(x, sizes, lead), *rows, k, 1))
    right = value("reshape", y, shape=(*_lead(y, sizes, lead), *(1 for _ in rows), k, n))
    terms = value("multiply", left, right)
    total = value("sum", terms, axes=(terms.type.rank - 2,), keepdims=False)
    made = total if total.type.shape == shape else value("reshape", total, shape=shape)
    return made if op.result.type.dtype is float32 else value("cast", made, dtype=op.result.type.dtype)


def _by_terms(op: Op, sizes: Sizes) -> Value:
    """Each column of the result is a sum of columns of x, each times a number."""
    x, y = (v if v.type.dtype is float32 else value("cast", v, dtype=float32) for v in op.values())
    known, made = _constant(y), list[Value]()
    shape = op.result.type.shape

    def term(i: int, j: int) -> Value:
        starts, ones = (*(0 for _ in shape[:-1]), i), (1,) * len(shape)
        column = value("slice", x, starts=starts, sizes=(*shape[:-1], 1), steps=ones)
        if known is not None:
            return value("multiply", column, float(known[i, j]))
        rows = value("reshape", y, shape=(sizes.k, sizes.n))
        number = value("slice", rows, starts=(i, j), sizes=(1, 1), steps=(1, 1))
        return value("multiply", column, value("reshape", number, shape=ones))

    for j in range(sizes.n):
        total = term(0, j)
        for i in range(1, sizes.k):
            total = value("add", term(i, j), total)
        made.append(total)
    whole = made[0] if len(made) == 1 else value("concatenate", *made, axis=len(shape) - 1)
    return whole if op.result.type.dtype is float32 else value("cast", whole, dtype=op.result.type.dtype)


def _on_columns(op: Op, sizes: Sizes, line: int) -> Value:
    """The sum of all rows of y, each times a column of x: [m, lines, line]."""
    x, y = (v if v.type.dtype is float32 else value("cast", v, dtype=float32) for v in op.values())
    (_, m, k, n), total = sizes[:4], None
    lines = value("reshape", y, shape=(k, n // line, line))
    columns = value("reshape", x, shape=(m, k))
    for j in range(k):
        row = value("slice", lines, starts=(j, 0, 0), sizes=(1, n // line, line), steps=(1, 1, 1))
        column = value("slice", columns, starts=(0, j), sizes=(m, 1), steps=(1, 1))
        term = value("multiply", row, value("reshape", column, shape=(m, 1, 1)))
        total = term if total is None else value("add", total, term)
    assert total is not None
    made = value("reshape", total, shape=op.result.type.shape)
    return made if op.result.type.dtype is float32 else value("cast", made, dtype=op.result.type.dtype)


def _down_rows(op: Op) -> Value:
    """The sum of all terms, [.., m, n, k] or [.., k, m, n]: partitions have a part of k each, where that is long."""
    x, y = (v if v.type.dtype is float32 else value("cast", v, dtype=float32) for v in op.values())
    (*some, m, k), (*others, _, n) = x.type.shape, y.type.shape
    if _is_turned(x) and not _is_turned(y):
        left = value("reshape", _turned(x), shape=(*some, k, m, 1))
        right = value("reshape", y, shape=(*others, k, 1, n))
        back = 3
    else:
        left = value("reshape", x, shape=(*some, m, 1, k))
        right = value("reshape", _turned(y), shape=(*others, 1, n, k))
        back = 1
    terms = value("multiply", left, right)
    made = value("sum", terms, axes=(terms.type.rank - back,), keepdims=False)
    return made if op.result.type.dtype is float32 else value("cast", made, dtype=op.result.type.dtype)


def _is_of_products(op: Op) -> bool:
    """True where an operand is computed from other products, which leave rows behind: what is done with these rows, a
    softmax for one, goes on with their product."""
    todo, seen = list(op.values()), set[Value]()
    while todo:
        x = todo.pop()
        if x in seen or x.producer is None:
            continue
        if x.producer.name in PRODUCTS:
            return True
        seen.add(x)
        todo += x.producer.values()
    return False


def _is_turned(x: Value) -> bool:
    """True for matrices that lie with their columns one after the other."""
    op = x.producer
    while op is not None and op.definition.family == "elementwise" and len(op.values()) == 1:
        op = op.values()[0].producer
    return op is not None and op.name == "transpose" and op.attrs["perm"][-1] != len(op.attrs["perm"]) - 1


def _turned(x: Value) -> Value:
    rank = x.type.rank
    return value("transpose", x, perm=(*range(rank - 2), rank - 1, rank - 2))


def _lead(x: Value, sizes: Sizes, lead: Sequence[int]) -> tuple[int, ...]:
    """The dims before those of the matrices: one product after the other, or the same for all."""
    own = x.type.shape[:-2]
    rows = sizes.m if sizes.same and x.type.shape[-2:] == (sizes.m, sizes.k) else 1
    if prod(own) * rows == prod(lead):
        return tuple(lead)
    return () if prod(own) == 1 else own


# Constants on both sides.


def _inner(op: Op) -> Op:
    """The product that is an operand of another, and read by nothing else."""
    made = [v.producer for v in op.values() if v.producer is not None and v.producer.name == "matmul"]
    return made[0]


def _between(op: Op) -> tuple[np.ndarray, Value, np.ndarray] | None:
    """a, x and b of (a @ x) @ b and of a @ (x @ b)."""
    one, other = op.values()
    for outer, product, is_left in ((other, one, False), (one, other, True)):
        inner = product.producer
        if inner is None or inner.name != "matmul" or len(product.uses) != 1 or product.type.dtype is not float32:
            continue
        first, second = inner.values()
        x, near = (first, second) if is_left else (second, first)
        a, b = (_constant(outer), _constant(near)) if is_left else (_constant(near), _constant(outer))
        if a is not None and b is not None and x.type.shape[:-2] == op.result.type.shape[:-2]:
            return a, x, b
    return None


def _constant(x: Value) -> np.ndarray | None:
    """A constant matrix."""
    op = x.producer
    if op is not None and op.name == "transpose" and op.attrs["perm"] == (1, 0):
        found = _constant(op.operands[0])
        return None if found is None else found.T
    if op is None or op.name != "constant" or x.type.rank != 2:
        return None
    return op.attrs["value"].array


def _both(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The matrix that rows of x @ are multiplied by: (a @ x) @ b, row after row."""
    with np.errstate(all="ignore"):
        return np.kron(a.T.astype(np.float64), b.astype(np.float64)).astype(np.float32)


def _in_range(whole: np.ndarray, a: np.ndarray, b: np.ndarray) -> bool:
    """True where products of two elements are numbers of full precision, or zero because one of them is."""
    least = np.finfo(np.float32).tiny
    zeros = np.count_nonzero(a) * np.count_nonzero(b) != np.count_nonzero(np.abs(whole) >= least)
    return bool(np.isfinite(whole).all()) and not zeros

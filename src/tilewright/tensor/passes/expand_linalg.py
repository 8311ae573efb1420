"""Linear algebra in terms of products of matrices and elementwise ops, for `decompose`.

Few matrices, or large ones, are left to ops that loop over their steps (`gauss`, `cholesky_columns`); many small ones
are taken apart here, and worked on together. Triangular inverses double in size: with the inverses of the diagonal
blocks of size s in T, the blocks of size 2 s follow from T - T @ C @ T, where C holds the blocks between them. Larger
matrices are halved first. Factorisations run column by column, systems without structure by Gauss-Jordan elimination
with partial pivoting, where a row is picked by argmax and a comparison, never by an address. Errors are those of the
algorithms: ulp times the condition number. NumPy solves systems of float32 in float64; here what a solution leaves of
the right side is computed exactly enough to correct it (`refine`).
"""

from __future__ import annotations

from math import prod
from typing import Any

from tilewright.dtypes import float32, int32
from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import make
from tilewright.tensor.definite import is_semidefinite
from tilewright.tensor.passes.chain import Chain
from tilewright.tensor.passes.refine import is_identity, refined

_DOUBLINGS = 7
"""A triangle of up to 2 ** 7 rows is inverted by doubling; a larger one is halved."""

_COLUMNS = 1 << 7
"""A positive definite matrix of up to so many rows is factored column by column; a larger one is halved."""

_FEW = 4
"""Matrices up to which each is worked on by itself; many small ones are worked on together, step by step."""

_SMALL = 16
"""Rows of a small matrix, at most: each step of many at a time is written by itself."""

_ULP = 16.0


def _inverse_triangle(chain: Chain, a: Value, lower: bool, unit: bool) -> Value:
    """The inverse of a's lower (or upper) triangle by doubling."""
    n = a.type.shape[-1]
    dtype = a.type.dtype
    inside = chain.band(n, None, -1) if lower else chain.band(n, 1, None)
    strict = chain("where", inside, a, 0)
    known = chain("band", shape=(n, n), dtype=dtype, low=0, high=0, inside=1, outside=0)
    if not unit:
        known = chain("divide", known, chain("where", chain.band(n, 0, 0), a, 1))
    # Rows and columns whose numbers differ in bit l, and agree above it, are in neighbouring blocks of size 2 ** l.
    apart = chain("bitwise_xor", chain.rows(n), chain.rows(n, axis=1))
    for level in range((n - 1).bit_length()):
        between = chain("equal", chain("right_shift", apart, level), 1)
        blocks = chain("where", between, strict, 0)
        known = chain("subtract", known, chain("matmul", known, chain("matmul", blocks, known)))
    return known


def _solve_triangle(chain: Chain, a: Value, b: Value, lower: bool, unit: bool) -> Value:
    n, count = b.type.shape[-2:]
    if n <= 2**_DOUBLINGS:
        inverse = _inverse_triangle(chain, a, lower, unit)
        # Only what is last in the chain can be its result.
        is_result = is_identity(b) and inverse.type == a.type and chain.ops[-1] is inverse.producer
        return inverse if is_result else chain("matmul", inverse, b)
    half = n // 2
    parts = [(0, half), (half, n)]
    first, last = parts if lower else parts[::-1]
    every = (0, count)
    x = _solve_triangle(chain, chain.part(a, first, first), chain.part(b, first, every), lower, unit)
    known = chain("matmul", chain.part(a, last, first), x)
    rest = chain("subtract", chain.part(b, last, every), known)
    y = _solve_triangle(chain, chain.part(a, last, last), rest, lower, unit)
    return chain("concatenate", *((x, y) if lower else (y, x)), axis=y.type.rank - 2)


@rule("solve_triangular", exact=False, ulp=_ULP)
def expand_solve_triangular(op: Op) -> Any:
    """solve_triangular(a, b) -> inverse(triangle(a)) @ b, the inverse by doubling, in halves where it is large"""
    a, b = op.operands
    chain = Chain()
    if not op.result.type.size:
        return make("full", shape=op.result.type.shape, dtype=op.result.type.dtype, value=0)
    _solve_triangle(chain, a, b, op.attrs["lower"], op.attrs["unit_diagonal"])
    return chain.ops


def _cholesky_columns(chain: Chain, a: Value) -> Value:
    """Right-looking factorisation: column l, then the rest minus l @ l transposed."""
    n = a.type.shape[-1]
    batch = (0,) * (a.type.rank - 2)
    columns: list[Value] = []
    for done in range(n):
        left = n - done
        column = chain.part(a, (0, left), (0, 1))
        column = chain("divide", column, chain("sqrt", chain.part(column, (0, 1), (0, 1))))
        columns.append(chain("pad", column, low=(*batch, done, 0), high=(*batch, 0, 0), value=0) if done else column)
        if left > 1:
            below = chain.part(column, (1, left), (0, 1))
            square = chain("multiply", below, chain.swapped(below))
            a = chain("subtract", chain.part(a, (1, left), (1, left)), square)
    return chain("concatenate", *columns, axis=len(batch) + 1) if n > 1 else columns[0]


def _cholesky_in_steps(chain: Chain, a: Value) -> Value:
    n = a.type.shape[-1]
    below = chain("where", chain.band(n, None, -1), a, 0)
    whole = chain("where", chain.band(n, None, 0), a, chain.swapped(below))
    return chain("where", chain.band(n, None, 0), chain("cholesky_columns", whole), 0)


def _cholesky(chain: Chain, a: Value) -> Value:
    n = a.type.shape[-1]
    if n <= _COLUMNS and _in_steps(a):
        return _cholesky_in_steps(chain, a)
    if n <= _SMALL:
        return _cholesky_columns(chain, a)
    half = n // 2
    top, bottom = (0, half), (half, n)
    first = _cholesky(chain, chain.part(a, top, top))
    # below @ first transposed = a's lower left block: solved for below as a triangular system from the left.
    right = chain.swapped(chain.part(a, bottom, top))
    below = chain.swapped(_solve_triangle(chain, first, right, True, False))
    square = chain("matmul", below, chain.swapped(below))
    last = _cholesky(chain, chain("subtract", chain.part(a, bottom, bottom), square))
    batch = (0,) * (a.type.rank - 2)
    upper = chain("pad", first, low=(*batch, 0, 0), high=(*batch, 0, n - half), value=0)
    return chain("concatenate", upper, chain("concatenate", below, last, axis=len(batch) + 1), axis=len(batch))


@rule("cholesky", exact=False, ulp=_ULP)
def expand_cholesky(op: Op) -> Any:
    """cholesky(a) -> columns a[j:, j] / sqrt(a[j, j]), a minus their outer products; in halves where it is large"""
    (a,) = op.operands
    if not a.type.size:
        return a
    chain = Chain()
    _cholesky(chain, a)
    return chain.ops


def _in_steps(x: Value) -> bool:
    """True for matrices that an op with a loop works on, one after the other."""
    *batch, rows, _ = x.type.shape
    return x.type.dtype.itemsize >= float32.itemsize and (prod(batch) <= _FEW or rows > _SMALL)


def _pick_row(chain: Chain, m: Value, first: int) -> tuple[Value, Value, Value, Value]:
    """Of rows first, ... of m: where the entry of column 0 is greatest, its row number, that row, and the entry."""
    rows = m.type.shape[-2]
    numbers = chain.rows(rows)
    size = chain("abs", chain.part(m, (0, rows), (0, 1)))
    if first:
        size = chain("where", chain("greater_equal", numbers, first), size, -1)
    at = chain("argmax", size, axis=m.type.rank - 2, keepdims=True, dtype=int32)
    found = chain("equal", numbers, at)
    row = chain("sum", chain("where", found, m, 0), axes=(m.type.rank - 2,), keepdims=True)
    return found, at, row, chain.part(row, (0, 1), (0, 1))


def _eliminate(chain: Chain, m: Value, steps: int, definite: bool) -> Value:
    """Gauss-Jordan on [a | b] with `steps` columns in a: what is left is the x with a @ x = b."""
    for step in range(steps):
        rows, columns = m.type.shape[-2:]
        own = chain.part(m, (step, step + 1), (0, columns))
        if definite:
            row, pivot = own, chain.part(own, (0, 1), (0, 1))
        else:
            found, _, row, pivot = _pick_row(chain, m, step)
            m = chain("where", found, own, m)
        row = chain("divide", chain.part(row, (0, 1), (1, columns)), pivot)
        factors = chain("multiply", chain.part(m, (0, rows), (0, 1)), row)
        rest = chain("subtract", chain.part(m, (0, rows), (1, columns)), factors)
        m = chain("where", chain("equal", chain.rows(rows), step), row, rest)
    return m


@rule("solve", exact=False, ulp=_ULP)
def expand_solve(op: Op) -> Any:
    """solve(a, b) -> x + v @ (b - a @ x) where v = inverse(a) and x = v @ b: see `refine`

    v is by Gauss-Jordan elimination of [a | identity], rows swapped so that each pivot is the greatest. The pivots of
    a semidefinite matrix are those of its diagonal, in whatever order they come.
    """
    a, b = op.operands
    batch = op.result.type.shape[:-2]
    if not op.result.type.size:
        return make("full", shape=op.result.type.shape, dtype=op.result.type.dtype, value=0)
    chain, definite = Chain(), is_semidefinite(a)
    a, b = (_broadcast(chain, x, batch) for x in (a, b))
    refined(chain, a, b, _inverse(chain, a, definite))
    return chain.ops


def _inverse(chain: Chain, a: Value, definite: bool) -> Value:
    """By elimination, with the errors of that: NaN where there is none."""
    *batch, n, _ = a.type.shape
    if not _in_steps(a):
        identity = chain("band", shape=a.type.shape, dtype=a.type.dtype, low=0, high=0, inside=1, outside=0)
        return _eliminate(chain, chain("concatenate", a, identity, axis=len(batch) + 1), n, definite)
    found, pivots, _ = chain.all("gauss", a, definite=definite)
    # 0 / 0, and all of it NaN, where there was no pivot.
    wrong = chain("sum", chain("divide", 0, pivots), axes=(len(batch),), keepdims=True)
    return chain("add", found, chain("reshape", wrong, shape=(*batch, 1, 1)))


@rule("inverse", exact=False, ulp=_ULP)
def expand_inverse(op: Op) -> Any:
    """inverse(a) -> solve(a, identity)"""
    (a,) = op.operands
    if not a.type.size:
        return a
    shape, dtype = a.type.shape, a.type.dtype
    chain = Chain()
    identity = chain("band", shape=shape, dtype=dtype, low=0, high=0, inside=1, outside=0)
    chain("solve", a, identity)
    return chain.ops


@rule("det", exact=False, ulp=_ULP)
def expand_det(op: Op) -> Any:
    """det(a) -> product of the pivots of Gauss elimination, the sign changed by each swap of rows"""
    (a,) = op.operands
    batch = a.type.shape[:-2]
    chain = Chain()
    if not a.type.size:
        return make("full", shape=batch, dtype=a.type.dtype, value=1)
    if _in_steps(a):
        _, pivots, order = chain.all("gauss", a, definite=False)
        _signed(chain, pivots, order)
        return chain.ops
    m, out = a, None
    for left in range(a.type.shape[-1], 0, -1):
        found, at, row, pivot = _pick_row(chain, m, 0)
        if left > 1:
            signed = chain("where", chain("equal", at, 0), pivot, chain("negative", pivot))
        else:
            signed = pivot
        out = signed if out is None else chain("multiply", out, signed)
        if left > 1:
            # A pivot of 0 means a column of zeros: nothing to eliminate, and the product is 0 already.
            safe = chain("where", chain("equal", pivot, 0), 1, pivot)
            row = chain("divide", chain.part(row, (0, 1), (1, left)), safe)
            m = chain.part(chain("where", found, chain.part(m, (0, 1), (0, left)), m), (1, left), (0, left))
            factors = chain("multiply", chain.part(m, (0, left - 1), (0, 1)), row)
            m = chain("subtract", chain.part(m, (0, left - 1), (1, left)), factors)
    chain("reshape", out, shape=batch)
    return chain.ops


def _signed(chain: Chain, pivots: Value, order: Value) -> Value:
    """The product of pivots, with the sign of the order of their rows: that of the number of pairs that changed."""
    *batch, n = pivots.type.shape
    product = chain("prod", pivots, axes=(len(batch),), keepdims=False)
    pairs = chain("greater", *(chain("reshape", order, shape=(*batch, *shape)) for shape in ((n, 1), (1, n))))
    pairs = chain("bitwise_and", pairs, chain.band(n, 1, None))
    count = chain("sum", chain("cast", pairs, dtype=int32), axes=(len(batch), len(batch) + 1), keepdims=False)
    odd = chain("equal", chain("bitwise_and", count, 1), 1)
    return chain("where", odd, chain("negative", product), product)


def _broadcast(chain: Chain, x: Value, batch: tuple[int, ...]) -> Value:
    shape = (*batch, *x.type.shape[-2:])
    return x if x.type.shape == shape else chain("broadcast_to", x, shape=shape)

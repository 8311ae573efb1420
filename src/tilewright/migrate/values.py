"""What the expressions of a kernel stand for while it is ported: tiles, tensors in HBM, index tensors, numbers."""

from __future__ import annotations

import ast
from dataclasses import dataclass

SBUF, PSUM, HBM = "sbuf", "psum", "hbm"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in some memory. `rank` is None when it is not known.

    A column has one element per partition, a row is one partition; one number is both. `blocks` is how many dims stood
    before the partition dim, `dtype` the source text of its type where it was made here. `cut`: a mask ends it, so that
    it may be smaller than other tiles.
    """

    memory: str
    rank: int | None = 2
    column: bool = False
    row: bool = False
    blocks: int = 0
    dtype: str | None = None
    cut: bool = False

    @property
    def on_chip(self) -> bool:
        """Whether it is a tile."""
        return self.memory != HBM


@dataclass(frozen=True, slots=True)
class Along:
    """An index tensor along one axis: start + step * (0 .. count - 1)."""

    axis: int
    count: ast.expr
    start: ast.expr | None = None
    step: int = 1
    rank: int = 2


@dataclass(frozen=True, slots=True)
class Term:
    """What an index tensor adds along one axis: factor * (0 .. count - 1)."""

    axis: int
    count: ast.expr
    factor: ast.expr


@dataclass(frozen=True, slots=True)
class Affine:
    """Arithmetic of index tensors: the sum of its terms and of a number. No slice, but what iota makes."""

    terms: tuple[Term, ...]
    offset: ast.expr
    rank: int


@dataclass(frozen=True, slots=True)
class Bare:
    """nl.arange(n) without axes: no index of a tile yet."""

    count: ast.expr
    start: ast.expr | None = None


@dataclass(frozen=True, slots=True)
class Grid:
    """What nl.mgrid gives."""

    axes: tuple[Along, ...]


@dataclass(frozen=True, slots=True)
class Mask:
    """A comparison of index tensors that got a name."""

    node: ast.expr


@dataclass(frozen=True, slots=True)
class Number:
    """Anything else: numbers, shapes, flags, what is not known."""


Value = Tensor | Along | Affine | Bare | Grid | Mask | Number
NUMBER = Number()
INDEX = (Along, Affine, Bare, Grid, Mask)
"""What an index tensor can be."""


def joined(one: Value, two: Value) -> Value:
    """What a name stands for after two branches: in PSUM if it is there after one of them."""
    if not isinstance(one, Tensor) or not isinstance(two, Tensor):
        return two if isinstance(two, Tensor) else one
    memory = PSUM if PSUM in (one.memory, two.memory) else one.memory
    rank = one.rank if one.rank == two.rank else None
    dtype = one.dtype if one.dtype == two.dtype else None
    alike = one.column and two.column, one.row and two.row, max(one.blocks, two.blocks)
    return Tensor(memory, rank, *alike, dtype, one.cut or two.cut)


def plus(left: ast.expr | None, right: ast.expr) -> ast.expr:
    """left + right, without adding to nothing."""
    if left is None or (isinstance(left, ast.Constant) and left.value == 0):
        return right
    if isinstance(right, ast.Constant) and right.value == 0:
        return left
    if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
        return ast.Constant(left.value + right.value)  # type: ignore[operator]
    return ast.BinOp(left, ast.Add(), right)


def minus(left: ast.expr, right: ast.expr | None) -> ast.expr:
    """left - right, without taking nothing away."""
    if right is None or (isinstance(right, ast.Constant) and right.value == 0):
        return left
    return ast.BinOp(left, ast.Sub(), right)


def times(left: ast.expr, factor: int) -> ast.expr:
    """left * factor."""
    if factor == 1:
        return left
    if isinstance(left, ast.Constant):
        return ast.Constant(left.value * factor)  # type: ignore[operator]
    return ast.BinOp(left, ast.Mult(), ast.Constant(factor))


def as_slice(index: Along) -> ast.Slice:
    """The elements of an index tensor as a slice."""
    stop = plus(index.start, times(index.count, index.step))
    if index.step != 1:
        # The last element is the one before the next step.
        last = plus(times(plus(index.count, ast.Constant(-1)), index.step), ast.Constant(1))
        stop = plus(index.start, last)
    return ast.Slice(index.start or ast.Constant(0), stop, ast.Constant(index.step) if index.step != 1 else None)


def is_none(node: ast.expr) -> bool:
    """The constant None."""
    return isinstance(node, ast.Constant) and node.value is None


def is_false(node: ast.expr) -> bool:
    """The constant False."""
    return isinstance(node, ast.Constant) and node.value is False

"""Index tensors that are no slices, in the current form: x[p, 16 * j + i] as x.ap(pattern=...)."""

from __future__ import annotations

import ast

from tilewright.migrate.affine import affine, product, total
from tilewright.migrate.rewriting import Rewriting
from tilewright.migrate.shapes import is_slice
from tilewright.migrate.values import INDEX, Affine, Along, Tensor, Value

_ZERO, _ONE = ast.Constant(0), ast.Constant(1)


def is_pattern(along: list[Value]) -> bool:
    """Whether index tensors are no slices: one of several axes, or axes in another order than that of the dims."""
    axes = [each.axis for each in along if isinstance(each, Along)]
    return any(isinstance(each, Affine) for each in along) or axes != sorted(set(axes))


def patterned(
    made_by: Rewriting, base: ast.expr, value: Value, parts: list[ast.expr], along: list[Value]
) -> ast.Call | None:
    """The access of a tensor by index tensors and numbers; None for another one.

    The strides are the tensor's own, so that it may be a view. On chip the first axis runs along the partitions, alone.
    """
    if not isinstance(base, ast.Name) or not isinstance(value, Tensor) or value.blocks:
        return None
    if value.rank not in (None, len(parts)) and not value.on_chip:
        return None
    indices = [_index(made_by, part, each) for part, each in zip(parts, along, strict=True)]
    known = [each for each in indices if each is not None]
    if len(known) < len(indices) or (value.on_chip and not _rows_first(known)):
        return None
    counts = {term.axis: term.count for each in known for term in each.terms}
    strides = [_stride(base, dim) for dim in range(len(parts))]
    steps: dict[int, ast.expr] = {0: strides[0]} if value.on_chip else {}
    for dim, each in enumerate(known):
        for term in each.terms if dim or not value.on_chip else ():
            step = product(term.factor, strides[dim])
            steps[term.axis] = total(steps[term.axis], step) if term.axis in steps else step
    rank = max(each.rank for each in known)
    pattern = [ast.List([steps.get(axis, _ONE), counts.get(axis, _ONE)], ast.Load()) for axis in range(rank)]
    words = [ast.keyword("pattern", ast.List([*pattern], ast.Load()))]
    start: ast.expr = _ZERO
    for each, stride in zip(known, strides, strict=True):
        start = total(start, product(made_by.expr(each.offset)[0], stride))
    if not (isinstance(start, ast.Constant) and start.value == 0):
        words.append(ast.keyword("offset", start))
    return ast.Call(ast.Attribute(base, "ap", ast.Load()), [], words)


def _index(made_by: Rewriting, part: ast.expr, index: Value) -> Affine | None:
    """An index as a sum of terms: a number has none."""
    if isinstance(index, INDEX):
        return affine(index)
    if is_slice(part) or isinstance(made_by.quiet(part), Tensor):
        return None
    return Affine((), part, 0)


def _rows_first(indices: list[Affine]) -> bool:
    """Whether the first axis runs along the partitions one by one, and along nothing else."""
    rows, *others = [[(term.axis, term.factor) for term in each.terms] for each in indices]
    plain = all(axis == 0 and isinstance(factor, ast.Constant) and factor.value == 1 for axis, factor in rows)
    return plain and not any(axis == 0 for each in others for axis, _ in each)


def _stride(base: ast.Name, dim: int) -> ast.expr:
    return ast.Subscript(ast.Attribute(base, "strides", ast.Load()), ast.Constant(dim), ast.Load())

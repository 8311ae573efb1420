"""Rows that a tile names: x[indices, ...] of the legacy dialect as x.ap(..., vector_offset=indices)."""

from __future__ import annotations

import ast
from typing import Protocol

from tilewright.migrate.values import Along, Tensor, Value


class Quiet(Protocol):
    """What rewrites the expressions of a statement (`migrate.expressions`)."""

    def expr(self, node: ast.expr) -> tuple[ast.expr, Value]:
        """An expression in the current form."""
        ...

    def quiet(self, node: ast.expr) -> Value:
        """What an expression stands for; nothing is rewritten, nothing said."""
        ...


def gathered(
    made_by: Quiet, base: ast.expr, value: Tensor, parts: list[ast.expr], along: list[Value]
) -> ast.expr | None:
    """The access of a tensor in HBM by one tile of indices, index tensors and numbers; None for another one."""
    kinds = [made_by.quiet(part) if not isinstance(part, ast.Slice) else None for part in parts]
    dims = [dim for dim, kind in enumerate(kinds) if isinstance(kind, Tensor) and kind.on_chip]
    if len(dims) != 1 or value.rank not in (None, len(parts)) or not isinstance(base, ast.Name):
        return None
    (dim,) = dims
    offsets = _column(made_by, parts[dim])
    free = {place: each for place, each in enumerate(along) if place != dim and not _is_number(parts[place], each)}
    if offsets is None or not all(isinstance(each, Along) and each.axis for each in free.values()):
        return None
    rows = _rows(offsets)
    pattern, start = [_step(base, dim, len(parts), rows, 1)], []
    for place, part in enumerate(parts):
        index = free.get(place)
        if isinstance(index, Along):
            pattern.append(_step(base, place, len(parts), index.count, index.step))
            part = index.start or ast.Constant(0)
        if place != dim and not (isinstance(part, ast.Constant) and part.value == 0):
            start.append(_times(made_by.expr(part)[0], _stride(base, place, len(parts))))
    if len(pattern) == 1:
        pattern.append(ast.List([ast.Constant(1), ast.Constant(1)], ast.Load()))
    text = f"{base.id}.ap(pattern={ast.unparse(ast.List([*pattern], ast.Load()))}"
    text += f", offset={' + '.join(map(ast.unparse, start))}" if start else ""
    text += f", vector_offset={ast.unparse(offsets)}, indirect_dim={dim})"
    return ast.parse(text, mode="eval").body


def _is_number(part: ast.expr, index: Value) -> bool:
    return not isinstance(index, Along) and not isinstance(part, ast.Slice)


def _column(made_by: Quiet, part: ast.expr) -> ast.expr | None:
    """The tile of indices with one of them per partition."""
    made, value = made_by.expr(part)
    if not isinstance(made, ast.Subscript):
        return made if isinstance(made, ast.Name) and isinstance(value, Tensor) else None
    parts = made.slice.elts if isinstance(made.slice, ast.Tuple) else [made.slice]
    last = parts[-1]
    if len(parts) != 2 or not isinstance(parts[0], ast.Slice):
        return None
    if not isinstance(last, ast.Slice):
        stop = (
            ast.Constant(ast.literal_eval(last) + 1) if _is_whole(last) else ast.BinOp(last, ast.Add(), ast.Constant(1))
        )
        last = ast.Slice(last, stop)
    return ast.Subscript(made.value, ast.Tuple([parts[0], last], ast.Load()), ast.Load())


def _rows(offsets: ast.expr) -> ast.expr:
    """How many indices there are."""
    parts = offsets.slice.elts if isinstance(offsets, ast.Subscript) and isinstance(offsets.slice, ast.Tuple) else []
    first = parts[0] if parts else None
    if isinstance(first, ast.Slice) and first.upper is not None and first.step is None:
        if first.lower is None or (isinstance(first.lower, ast.Constant) and first.lower.value == 0):
            return first.upper
    return ast.parse(f"{ast.unparse(offsets)}.shape[0]", mode="eval").body


def _is_whole(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _stride(base: ast.Name, dim: int, rank: int) -> ast.expr:
    """How far apart neighbours along a dim of a tensor are."""
    sizes = [f"{base.id}.shape[{place}]" for place in range(dim + 1, rank)]
    return ast.parse(" * ".join(sizes) if sizes else "1", mode="eval").body


def _times(one: ast.expr, stride: ast.expr) -> ast.expr:
    return one if isinstance(stride, ast.Constant) else ast.BinOp(one, ast.Mult(), stride)


def _step(base: ast.Name, dim: int, rank: int, count: ast.expr, step: int) -> ast.List:
    stride = _stride(base, dim, rank)
    if step != 1:
        stride = (
            ast.Constant(step)
            if isinstance(stride, ast.Constant)
            else ast.BinOp(ast.Constant(step), ast.Mult(), stride)
        )
    return ast.List([stride, count], ast.Load())

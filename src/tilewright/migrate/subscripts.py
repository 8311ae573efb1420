"""Subscripts in the current form: slices for index tensors, patterns for tiles of indices, partitions first."""

from __future__ import annotations

import ast
from dataclasses import replace

from tilewright.migrate.indirect import gathered
from tilewright.migrate.patterns import is_pattern, patterned
from tilewright.migrate.rewriting import Rewriting
from tilewright.migrate.shapes import is_ellipsis, is_slice, width
from tilewright.migrate.values import HBM, INDEX, NUMBER, Affine, Along, Bare, Grid, Tensor, Value, as_slice


def subscript(made_by: Rewriting, node: ast.Subscript) -> tuple[ast.expr, Value]:
    if isinstance(made_by.index(node), INDEX):
        return node, made_by.index(node)
    base, value = _base(made_by, node.value)
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    parts = [_grid_parts(made_by, part) for part in parts]
    flat = [part for group in parts for part in group]
    along = [made_by.index(part) for part in flat]
    if isinstance(value, Tensor) and not value.on_chip:
        found = gathered(made_by, base, value, flat, along)
        if found is not None:
            made_by.changed = True
            return found, Tensor(HBM, len(flat))
    if is_pattern(along):
        found = patterned(made_by, base, value, flat, along)
        if found is not None and isinstance(value, Tensor):
            made_by.changed = True
            whole = ast.Subscript(found, ast.Constant(Ellipsis), node.ctx)
            return whole if isinstance(node.ctx, ast.Store) else found, Tensor(value.memory)
    if any(isinstance(each, Affine) for each in along):
        made_by.report(node, "an index tensor of several axes is used as an index", "use .ap with a pattern")
    if any(isinstance(each, Bare) for each in along):
        made_by.report(node, "an index tensor without axes is used as an index", "add an axis: nl.arange(n)[:, None]")
    axes = [each.axis for each in along if isinstance(each, Along)]
    if axes != sorted(set(axes)):
        made_by.report(node, "the index tensors do not follow the order of the dims", "load the transpose, or use .ap")
    made_by.changed |= bool(axes)
    made = [
        as_slice(each) if isinstance(each, Along) else made_by.expr(part)[0] if not is_slice(part) else part
        for part, each in zip(flat, along, strict=True)
    ]
    if any(isinstance(each, Tensor) and each.on_chip for each in _kinds(made_by, flat, along)):
        made_by.report(node, "a tile is an index", "write x.ap(pattern=..., vector_offset=tile)")
    if isinstance(value, Tensor) and value.rank is None and not value.on_chip and len(along) == len(axes) == 1:
        # All dims of a tensor are indexed: it has one.
        value = replace(value, rank=1)
    if isinstance(value, Tensor) and value.blocks:
        made = _partition_first(made_by, node, made, value.blocks)
    key = ast.Tuple(made, ast.Load()) if isinstance(node.slice, ast.Tuple) or len(made) > 1 else made[0]
    found = _indexed(value, made)
    if isinstance(found, Tensor) and found.rank == 1 and any(axes):
        # nl.arange(n)[None, :] as the only index that is none of numbers: [1, n].
        found = replace(found, row=True)
    return ast.Subscript(base, key, node.ctx), found


def _base(made_by: Rewriting, node: ast.expr) -> tuple[ast.expr, Value]:
    """What a subscript is of; a tensor with block dims is fine there."""
    known = made_by.env.get(node.id) if isinstance(node, ast.Name) else None
    return (node, known) if isinstance(known, Tensor) and known.blocks else made_by.expr(node)


def _partition_first(made_by: Rewriting, node: ast.Subscript, parts: list[ast.expr], blocks: int) -> list[ast.expr]:
    """The parts of a subscript of a tensor whose partition dim stood behind its block dims."""
    made_by.changed = True
    if len(parts) < blocks or any(is_slice(part) or is_ellipsis(part) for part in parts[:blocks]):
        made_by.report(node, "several blocks of a tensor at a time", "take one after the other, in a loop")
        return parts
    rows = parts[blocks] if len(parts) > blocks else ast.Slice()
    if is_ellipsis(rows):
        rows, parts = ast.Slice(), parts[:blocks]
    return [rows, *parts[:blocks], *parts[blocks + 1 :]]


def _kinds(made_by: Rewriting, parts: list[ast.expr], along: list[Value]) -> list[Value]:
    """What the parts of a subscript are that are neither slices nor index tensors."""
    pairs = zip(parts, along, strict=True)
    return [made_by.quiet(part) for part, each in pairs if not isinstance(each, INDEX) and not is_slice(part)]


def _grid_parts(made_by: Rewriting, part: ast.expr) -> list[ast.expr]:
    value = made_by.index(part)
    if not isinstance(value, Grid):
        return [part]
    return [ast.Subscript(part, ast.Constant(axis), ast.Load()) for axis in range(len(value.axes))]


def _indexed(value: Value, parts: list[ast.expr]) -> Value:
    """What a subscript of a tensor gives."""
    if not isinstance(value, Tensor):
        return NUMBER
    if len(parts) == 1 and isinstance(parts[0], ast.Constant) and parts[0].value is Ellipsis:
        return value
    slices = [part for part in parts if is_slice(part)]
    last = parts[-1]
    single = isinstance(last, ast.Slice) and width(last) == 1
    first = parts[0]
    row = isinstance(first, ast.Slice) and width(first) == 1
    if value.on_chip:
        return Tensor(value.memory, 2, single or (not is_slice(last) and len(parts) > 1), row)
    rank = None if value.rank is None else value.rank - len(parts) + len(slices)
    return Tensor(HBM, rank, single and rank == 2, row and rank == 2)

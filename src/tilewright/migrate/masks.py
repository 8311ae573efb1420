"""Masks: what they allow ends slices; calls that compute get operands and a destination of what they keep."""

from __future__ import annotations

import ast

from tilewright.migrate.rewriting import Rewriting
from tilewright.migrate.shapes import is_ellipsis, is_slice
from tilewright.migrate.values import NUMBER, Along, Tensor, Value, is_none, minus, plus

Limit = tuple[Along, ast.expr]


def limits_of(made_by: Rewriting, masks: list[ast.expr]) -> list[Limit]:
    """What the comparisons of a mask allow: index < bound."""
    found: list[Limit] = []
    for mask in masks:
        if is_none(mask):
            continue
        if isinstance(mask, ast.BinOp) and isinstance(mask.op, ast.BitAnd):
            found += limits_of(made_by, [mask.left, mask.right])
            continue
        index = made_by.index(mask.left) if isinstance(mask, ast.Compare) else NUMBER
        if isinstance(mask, ast.Compare) and len(mask.ops) == 1 and isinstance(index, Along):
            bound = mask.comparators[0]
            if isinstance(mask.ops[0], ast.LtE):
                bound = ast.BinOp(bound, ast.Add(), ast.Constant(1))
            if isinstance(mask.ops[0], (ast.Lt, ast.LtE)):
                found.append((index, bound))
                continue
        made_by.report(mask, "a mask other than `index < bound`", "slice the tensor: min() ends a tile")
    return found


def has_mask(node: ast.expr | None) -> bool:
    """Whether an expression is a call with a mask."""
    return isinstance(node, ast.Call) and any(each.arg == "mask" and not is_none(each.value) for each in node.keywords)


def unmasked(made_by: Rewriting, node: ast.Call) -> ast.Call:
    """A call of the old form that computes element by element, of the elements that its mask keeps."""
    if not has_mask(node):
        return node
    limits = limits_of(made_by, [each.value for each in node.keywords if each.arg == "mask"])
    made_by.changed = True
    args = [_operand(made_by, each, limits) for each in node.args]
    keywords = [
        ast.keyword(each.arg, _operand(made_by, each.value, limits)) for each in node.keywords if each.arg != "mask"
    ]
    return ast.copy_location(ast.Call(node.func, args, keywords), node)


def cut_target(made_by: Rewriting, target: ast.expr, value: ast.expr | None) -> ast.expr:
    """The destination of a masked call."""
    if not isinstance(target, ast.Subscript) or not isinstance(value, ast.Call) or not has_mask(value):
        return target
    limits = limits_of(made_by, [each.value for each in value.keywords if each.arg == "mask"])
    return _cut(made_by, target, NUMBER, limits)


def stored(made_by: Rewriting, node: ast.expr, limits: list[Limit]) -> ast.expr:
    """What a masked store is of: a tile that was made whole, and of which a load filled the elements that are kept.

    What was computed of less is no larger.
    """
    tile = node.value if isinstance(node, ast.Subscript) else node
    value = made_by.quiet(tile) if isinstance(tile, ast.Name) else NUMBER
    return _operand(made_by, node, limits) if isinstance(value, Tensor) and value.dtype is not None else node


def _operand(made_by: Rewriting, node: ast.expr, limits: list[Limit]) -> ast.expr:
    value = made_by.quiet(node)
    return _cut(made_by, node, value, limits) if isinstance(value, Tensor) and value.on_chip else node


def _cut(made_by: Rewriting, node: ast.expr, value: Value, limits: list[Limit]) -> ast.expr:
    """Of a tile the elements that a mask keeps. Axes along which it is repeated have none to leave out."""
    for index, bound in limits:
        narrow = isinstance(value, Tensor) and (value.row if index.axis == 0 else value.column)
        if not narrow:
            node = _cut_axis(made_by, node, index, bound)
    return node


def _cut_axis(made_by: Rewriting, node: ast.expr, index: Along, bound: ast.expr) -> ast.expr:
    if index.step != 1:
        made_by.report(node, "a mask on an index with a step", "slice the operands: min() ends a tile")
        return node
    kept = ast.Call(ast.Name("min", ast.Load()), [index.count, minus(bound, index.start)], [])
    if not isinstance(node, ast.Subscript):
        return _subscript(node, node, [*[ast.Slice()] * index.axis, ast.Slice(ast.Constant(0), kept)])
    parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if len(parts) == 1 and is_ellipsis(parts[0]):
        return _subscript(node, node.value, [*[ast.Slice()] * index.axis, ast.Slice(ast.Constant(0), kept)])
    along = [made_by.index(part) for part in parts]
    places = [place for place, each in enumerate(along) if isinstance(each, Along) and each.axis == index.axis]
    if not any(isinstance(each, Along) for each in along):
        # Slices and numbers: a tile has the axes of its slices.
        places = [place for place, part in enumerate(parts) if is_slice(part)][index.axis : index.axis + 1]
    start = _start(parts[places[0]], along[places[0]]) if len(places) == 1 else None
    if start is None:
        made_by.report(node, "a mask on another index than those of its operands", "slice the operands themselves")
        return node
    parts[places[0]] = ast.Slice(start, plus(start, kept))
    return _subscript(node, node.value, parts)


def _start(part: ast.expr, index: Value) -> ast.expr | None:
    """Where a part of a subscript begins."""
    if isinstance(index, Along):
        return (index.start or ast.Constant(0)) if index.step == 1 else None
    if isinstance(part, ast.Slice):
        return (part.lower or ast.Constant(0)) if part.step is None else None
    return part.args[0] if isinstance(part, ast.Call) and part.args else None


def _subscript(node: ast.expr, base: ast.expr, parts: list[ast.expr]) -> ast.Subscript:
    key = parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load())
    return ast.copy_location(ast.Subscript(base, key, getattr(node, "ctx", ast.Load())), node)

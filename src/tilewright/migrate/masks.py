"""Masks: what they allow ends slices; calls that compute get operands and a destination of what they keep."""

from __future__ import annotations

import ast
from dataclasses import replace

from tilewright.migrate.rewriting import Rewriting
from tilewright.migrate.shapes import is_ellipsis, is_slice
from tilewright.migrate.values import INDEX, NUMBER, Along, Mask, Tensor, Value, is_none, minus, plus

Limit = tuple[Along, ast.expr]


def limits_of(made_by: Rewriting, masks: list[ast.expr]) -> list[Limit]:
    """What the comparisons of a mask allow: index < bound. Conditions on numbers are the statement's."""
    found: list[Limit] = []
    for mask in _terms(made_by, masks):
        if _is_number(made_by, mask):
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


def conditions_of(made_by: Rewriting, node: ast.expr) -> list[ast.expr]:
    """What the masks in an expression ask of numbers: then nothing is done at all."""
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call) and has_mask(each)]
    masks = [word.value for call in calls for word in call.keywords if word.arg == "mask"]
    found = {ast.dump(each): each for each in _terms(made_by, masks) if _is_number(made_by, each)}
    return list(found.values())


def is_mask(made_by: Rewriting, node: ast.expr) -> bool:
    """Whether an expression compares index tensors."""
    compared = isinstance(node, ast.Compare) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd))
    return compared and not any(_is_number(made_by, each) for each in _terms(made_by, [node]))


def comparison(made_by: Rewriting, node: ast.expr) -> ast.expr:
    """The comparison that a name stands for."""
    known = made_by.env.get(node.id) if isinstance(node, ast.Name) else None
    return known.node if isinstance(known, Mask) else node


def _terms(made_by: Rewriting, masks: list[ast.expr]) -> list[ast.expr]:
    """What has to hold of masks, one by one."""
    found: list[ast.expr] = []
    for mask in (comparison(made_by, each) for each in masks if not is_none(each)):
        if isinstance(mask, ast.BinOp) and isinstance(mask.op, ast.BitAnd):
            found += _terms(made_by, [mask.left, mask.right])
        else:
            found.append(mask)
    return found


def _is_number(made_by: Rewriting, node: ast.expr) -> bool:
    """Whether no index tensor and no tile is part of it."""
    parts = [each for each in ast.walk(node) if isinstance(each, (ast.Name, ast.Call, ast.Subscript, ast.Attribute))]
    names = [made_by.env.get(each.id) for each in parts if isinstance(each, ast.Name)]
    return not any(isinstance(each, (Tensor, *INDEX)) for each in names) and not any(
        isinstance(made_by.index(each), INDEX) for each in parts
    )


def has_mask(node: ast.expr | None) -> bool:
    """Whether an expression is a call with a mask."""
    return isinstance(node, ast.Call) and any(each.arg == "mask" and not is_none(each.value) for each in node.keywords)


def unmasked(made_by: Rewriting, node: ast.Call, cuts: bool) -> ast.Call:
    """A call of the old form, of the elements that its mask keeps; unless its operands may be `cut`, all or none."""
    if not has_mask(node):
        return node
    masks = [each.value for each in node.keywords if each.arg == "mask"]
    if not cuts and not all(_is_number(made_by, each) for each in _terms(made_by, masks)):
        return node
    limits = limits_of(made_by, masks)
    made_by.changed = True
    args = [_operand(made_by, each, limits) for each in node.args]
    keywords = [
        ast.keyword(each.arg, _operand(made_by, each.value, limits)) for each in node.keywords if each.arg != "mask"
    ]
    return ast.copy_location(ast.Call(node.func, args, keywords), node)


def cut_target(made_by: Rewriting, target: ast.expr, value: ast.expr | None) -> ast.expr:
    """The destination of a masked call; that of a transposed operand has its axes the other way round."""
    if not isinstance(target, ast.Subscript) or not isinstance(value, ast.Call) or not has_mask(value):
        return target
    limits = limits_of(made_by, [each.value for each in value.keywords if each.arg == "mask"])
    if turns(made_by.api(value.func)):
        limits = [(replace(index, axis=1 - index.axis), bound) for index, bound in limits]
    return cut(made_by, target, limits)


def of_product(
    made_by: Rewriting, given: dict[str, ast.expr], target: ast.expr
) -> tuple[dict[str, ast.expr], ast.expr]:
    """Operands and destination of a masked matmul: the mask ends the columns of moving, and nothing else."""
    limits = limits_of(made_by, [given["mask"]])
    counts = {ast.dump(index.count) for index, _ in limits}
    columns, others = (_columns(made_by, given[name]) for name in ("moving", "stationary"))
    if any(index.axis != 1 for index, _ in limits) or counts != {columns or next(iter(counts), "")} or others in counts:
        return given, target
    kept = {name: node for name, node in given.items() if name != "mask"}
    return kept | {"moving": cut(made_by, given["moving"], limits)}, cut(made_by, target, limits)


def _columns(made_by: Rewriting, node: ast.expr) -> str | None:
    """How many columns an operand has that is indexed with index tensors, as text to compare."""
    parts = node.slice.elts if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) else []
    along = [made_by.index(part) for part in parts]
    return next((ast.dump(each.count) for each in along if isinstance(each, Along) and each.axis == 1), None)


def turns(api: str | None) -> bool:
    """Whether a call swaps the two axes of its operand."""
    return (api or "").endswith("transpose")


def stored(made_by: Rewriting, node: ast.expr, limits: list[Limit]) -> ast.expr:
    """What a masked store is of: a tile that was made whole, and of which a load filled the elements that are kept.

    What was computed of less is no larger, unless index tensors say how large.
    """
    if isinstance(node, ast.Subscript) and isinstance(made_by.quiet(node.value), Tensor):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if any(isinstance(made_by.index(part), Along) for part in parts):
            return _operand(made_by, node, limits)
    tile = node.value if isinstance(node, ast.Subscript) else node
    value = made_by.quiet(tile) if isinstance(tile, ast.Name) else NUMBER
    return _operand(made_by, node, limits) if isinstance(value, Tensor) and value.dtype is not None else node


def _operand(made_by: Rewriting, node: ast.expr, limits: list[Limit]) -> ast.expr:
    value = made_by.quiet(node)
    return cut(made_by, node, limits, value) if isinstance(value, Tensor) and value.on_chip else node


def cut(made_by: Rewriting, node: ast.expr, limits: list[Limit], value: Value = NUMBER) -> ast.expr:
    """Of a tensor the elements that a mask keeps. Axes along which it is repeated have none to leave out."""
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
        # Slices and numbers: a tile has the axes of its slices, and those behind. A number may be no block, but a row.
        known = made_by.env.get(node.value.id) if isinstance(node.value, ast.Name) else None
        slices = sum(map(is_slice, parts))
        whole = len(parts) - slices == (known.blocks if isinstance(known, Tensor) else 0)
        missing = index.axis + 1 - slices if whole else 0
        parts += [ast.Slice() for _ in range(missing)]
        along += [NUMBER] * missing
        places = [place for place, part in enumerate(parts) if is_slice(part)][index.axis : index.axis + 1]
    start = _start(parts[places[0]], along[places[0]]) if len(places) == 1 else None
    if start is None:
        made_by.report(node, "a mask on another index than those of its operands", "slice the operands themselves")
        return node
    stop = plus(start, kept)
    if ast.dump(start) == ast.dump(index.start or ast.Constant(0)):
        stop = ast.Call(ast.Name("min", ast.Load()), [plus(start, index.count), bound], [])
    parts[places[0]] = ast.Slice(start, stop)
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

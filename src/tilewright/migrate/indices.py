"""Index tensors of the legacy dialect as slices: nl.arange, nl.mgrid, and arithmetic with numbers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace

from tilewright.migrate.affine import added, affine, scaled
from tilewright.migrate.values import NUMBER, Affine, Along, Bare, Grid, Tensor, Value, plus, times

_PARTS = {"p": 0, "x": 1, "y": 2, "z": 3, "w": 4}
Api = Callable[[ast.expr], str | None]


def index_value(node: ast.expr, env: Mapping[str, Value], api: Api) -> Value:
    """What an expression is as an index: an index tensor, or a number."""
    if isinstance(node, ast.Name):
        known = env.get(node.id, NUMBER)
        return NUMBER if isinstance(known, Tensor) else known
    if isinstance(node, ast.Call) and api(node.func) == "language.arange":
        return _arange(node)
    if isinstance(node, ast.Attribute) and node.attr in _PARTS:
        base = index_value(node.value, env, api)
        return base.axes[_PARTS[node.attr]] if isinstance(base, Grid) else NUMBER
    if isinstance(node, ast.Subscript):
        return _subscript(node, env, api)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd):
        return index_value(node.operand, env, api)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        known = affine(index_value(node.operand, env, api))
        return NUMBER if known is None else scaled(known, ast.Constant(-1))
    if isinstance(node, ast.BinOp):
        return _arithmetic(node, env, api)
    return NUMBER


def _arange(node: ast.Call) -> Value:
    if len(node.args) == 1:
        return Bare(node.args[0])
    if len(node.args) == 2:
        start, stop = node.args
        if isinstance(start, ast.Constant) and isinstance(stop, ast.Constant):
            return Bare(ast.Constant(stop.value - start.value), start)  # type: ignore[operator]
        return Bare(ast.BinOp(stop, ast.Sub(), start), start)
    return NUMBER


def _subscript(node: ast.Subscript, env: Mapping[str, Value], api: Api) -> Value:
    if api(node.value) == "language.mgrid":
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not all(isinstance(part, ast.Slice) and part.step is None and part.upper is not None for part in parts):
            return NUMBER
        made = [_axis(number, part, len(parts)) for number, part in enumerate(parts) if isinstance(part, ast.Slice)]
        return Grid(tuple(made))
    base = index_value(node.value, env, api)
    if isinstance(base, Grid) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
        return base.axes[node.slice.value]
    if not isinstance(base, Bare) or not isinstance(node.slice, ast.Tuple):
        return NUMBER
    spread = [number for number, part in enumerate(node.slice.elts) if isinstance(part, ast.Slice)]
    return Along(spread[0], base.count, base.start, rank=len(node.slice.elts)) if len(spread) == 1 else NUMBER


def _axis(number: int, part: ast.Slice, rank: int) -> Along:
    assert part.upper is not None
    if part.lower is None or (isinstance(part.lower, ast.Constant) and part.lower.value == 0):
        return Along(number, part.upper, rank=rank)
    return Along(number, ast.BinOp(part.upper, ast.Sub(), part.lower), part.lower, rank=rank)


def _arithmetic(node: ast.BinOp, env: Mapping[str, Value], api: Api) -> Value:
    left, right = index_value(node.left, env, api), index_value(node.right, env, api)
    if left is right is NUMBER or not (_is_known(node.left, left, env) and _is_known(node.right, right, env)):
        return NUMBER
    if isinstance(left, Along) and right is NUMBER:
        found = _moved(left, node.op, node.right)
    elif isinstance(right, Along) and left is NUMBER and isinstance(node.op, (ast.Add, ast.Mult)):
        found = _moved(right, node.op, node.left)
    else:
        found = NUMBER
    return _combined(node, affine(left), affine(right)) if found is NUMBER else found


def _is_known(node: ast.expr, value: Value, env: Mapping[str, Value]) -> bool:
    """Whether an operand is an index tensor or a number."""
    return value is not NUMBER or is_number(node, env)


def is_number(node: ast.expr, env: Mapping[str, Value]) -> bool:
    """Whether no tile or tensor is in an expression, except for its shape."""
    shapes = [each.value for each in ast.walk(node) if isinstance(each, ast.Attribute) and each.attr == "shape"]
    names = [each for each in ast.walk(node) if isinstance(each, ast.Name) and each not in shapes]
    return not any(isinstance(env.get(each.id), Tensor) for each in names)


def _combined(node: ast.BinOp, left: Affine | None, right: Affine | None) -> Value:
    """Sums and differences of index tensors, and products with a number."""
    one = Affine((), node.left, 1) if left is None else left
    two = Affine((), node.right, 1) if right is None else right
    if isinstance(node.op, ast.Add):
        return added(one, two)
    if isinstance(node.op, ast.Sub):
        return added(one, scaled(two, ast.Constant(-1)))
    if isinstance(node.op, ast.Mult) and (left is None or right is None):
        return scaled(one, node.right) if right is None else scaled(two, node.left)
    return NUMBER


def _moved(index: Along, op: ast.operator, by: ast.expr) -> Value:
    if isinstance(op, ast.Add):
        return replace(index, start=plus(index.start, by))
    if isinstance(op, ast.Sub):
        return replace(index, start=ast.BinOp(index.start or ast.Constant(0), ast.Sub(), by))
    if isinstance(op, ast.Mult) and isinstance(by, ast.Constant) and isinstance(by.value, int) and by.value > 0:
        start = None if index.start is None else times(index.start, by.value)
        return replace(index, start=start, step=index.step * by.value)
    return NUMBER

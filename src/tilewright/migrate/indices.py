"""Index tensors of the legacy dialect as slices: nl.arange, nl.mgrid, and arithmetic with numbers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from tilewright.migrate.values import NUMBER, Along, Bare, Grid, Tensor, Value, plus, times

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
        made = [_axis(number, part) for number, part in enumerate(parts) if isinstance(part, ast.Slice)]
        return Grid(tuple(made))
    base = index_value(node.value, env, api)
    if isinstance(base, Grid) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
        return base.axes[node.slice.value]
    if not isinstance(base, Bare) or not isinstance(node.slice, ast.Tuple):
        return NUMBER
    spread = [number for number, part in enumerate(node.slice.elts) if isinstance(part, ast.Slice)]
    return Along(spread[0], base.count, base.start) if len(spread) == 1 else NUMBER


def _axis(number: int, part: ast.Slice) -> Along:
    assert part.upper is not None
    if part.lower is None or (isinstance(part.lower, ast.Constant) and part.lower.value == 0):
        return Along(number, part.upper)
    return Along(number, ast.BinOp(part.upper, ast.Sub(), part.lower), part.lower)


def _arithmetic(node: ast.BinOp, env: Mapping[str, Value], api: Api) -> Value:
    left, right = index_value(node.left, env, api), index_value(node.right, env, api)
    if isinstance(left, Along) and right is NUMBER:
        return _moved(left, node.op, node.right)
    if isinstance(right, Along) and left is NUMBER and isinstance(node.op, (ast.Add, ast.Mult)):
        return _moved(right, node.op, node.left)
    return NUMBER


def _moved(index: Along, op: ast.operator, by: ast.expr) -> Value:
    if isinstance(op, ast.Add):
        return Along(index.axis, index.count, plus(index.start, by), index.step)
    if isinstance(op, ast.Sub):
        start = ast.BinOp(index.start or ast.Constant(0), ast.Sub(), by)
        return Along(index.axis, index.count, start, index.step)
    if isinstance(op, ast.Mult) and isinstance(by, ast.Constant) and isinstance(by.value, int) and by.value > 0:
        start = None if index.start is None else times(index.start, by.value)
        return Along(index.axis, index.count, start, index.step * by.value)
    return NUMBER

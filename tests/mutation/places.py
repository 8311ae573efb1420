"""Faults to put into lowering: places that are picked from its source, and what is done there.

A fault is a small change of the kind that people make: a condition turned around, a check left out, operands swapped,
one too many or too few, the lesser for the greater, a part of the work left out. Places where it could only change how
long a kernel takes, or what a plan says, are left out: names say which functions only count costs or bytes.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tilewright

FOLDER = Path(tilewright.__file__).parent / "lower"
AREAS: dict[str, tuple[str, ...]] = {
    "rewriting": ("rewrite/*", "regions/roles", "regions/axes", "regions/stencils", "regions/causal"),
    "lowering": ("nest/*", "products/*"),
    "indices": ("indexed/*", "kernels/*"),
    "selection": ("select/*", "regions/fuse", "regions/softmax_product", "products/masking"),
    "moves": ("move/*", "write/views", "write/boxes", "write/dims", "write/patterns", "write/homes"),
    "reuse": ("order/reuse", "order/order", "order/straight", "order/strips", "order/dead", "order/psum_operands"),
}
"""Files of each area, in the folder of lowering."""
COSTS = re.compile(
    r"ns$|bytes|cost|room|_text$|^tell|reason|^against$|late$|worth|^book$|share$|least|depth|copies|name"
)
"""Functions that only decide how long something takes."""
QUIET = re.compile(r"TUNING|\bns\b|_ns|cost|assert |location|depth|copies|queue|engine|engines|load\[|name")
"""Lines that do."""


@dataclass(frozen=True)
class Fault:
    """What is done at one place of a file: the node at a line and column is changed in one way."""

    area: str
    file: str
    line: int
    column: int
    kind: str
    before: str
    after: str

    @property
    def key(self) -> str:
        """How a run is told of it."""
        return f"{self.file}:{self.line}:{self.column}:{self.kind}"


def faults(area: str, count: int, seed: int = 0) -> list[Fault]:
    """Some faults of an area, spread over files and kinds."""
    files = sorted({path for some in AREAS[area] for path in FOLDER.glob(f"{some}.py")})
    every = [fault for path in files for fault in every_fault(area, path.relative_to(FOLDER).as_posix())]
    random.Random(f"{area} {seed}").shuffle(every)
    found: list[Fault] = []
    seen: dict[tuple[str, str], int] = {}
    for most in range(1, count + 1):
        for fault in every:
            key = fault.file, fault.kind
            if len(found) < count and fault not in found and seen.get(key, 0) < most:
                seen[key] = seen.get(key, 0) + 1
                found.append(fault)
    return sorted(found, key=lambda fault: (fault.file, fault.line, fault.column))


def every_fault(area: str, file: str) -> Iterator[Fault]:
    """All faults that a file allows."""
    text = (FOLDER / file).read_text(encoding="utf-8")
    lines = text.splitlines()
    for function in _functions(ast.parse(text)):
        if COSTS.search(function.name):
            continue
        for node in _within(function):
            line = lines[node.lineno - 1]
            if QUIET.search(line):
                continue
            for kind, changed in changes(node):
                shown = ast.unparse(node), ast.unparse(changed)
                yield Fault(area, file, node.lineno, node.col_offset, kind, *(each[:60] for each in shown))


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node


def _within(function: ast.FunctionDef) -> Iterator[ast.expr | ast.stmt]:
    """Statements and expressions of a function, without those of inner ones, its signature and its decorators."""
    work: list[ast.AST] = list(function.body)
    while work:
        node = work.pop()
        if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.Raise, ast.Assert, ast.JoinedStr)):
            continue
        if isinstance(node, (ast.expr, ast.stmt)):
            yield node
        work.extend(ast.iter_child_nodes(node))


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What can be done to a node: a kind of fault and the node that takes its place."""
    match node:
        case ast.If(test=test):
            yield "condition turned around", _copy(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.BoolOp(op=ast.And(), values=[_, *rest]):
            yield "check left out", rest[0] if len(rest) == 1 else _copy(node, values=rest)
        case ast.BinOp(op=ast.Sub() | ast.FloorDiv() | ast.Mod(), left=left, right=right):
            yield "operands swapped", _copy(node, left=right, right=left)
        case ast.UnaryOp(op=ast.USub(), operand=ast.BinOp(op=ast.FloorDiv(), left=ast.UnaryOp(operand=size)) as inner):
            yield "rest left out", _copy(inner, left=size)
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[_, _, *_]):
            yield "least for greatest", _copy(node, func=ast.Name("max" if name == "min" else "min", ast.Load()))
        case ast.Call(func=ast.Name(id="sliced"), args=[_, _, _, size, *_]):
            more = ast.BinOp(size, ast.Sub(), ast.Constant(1))
            yield "one too few", _copy(node, args=[*node.args[:3], more, *node.args[4:]])
        case ast.Call(func=ast.Attribute(attr="op" | "binary" | "two"), args=[first, second, x, y, *rest]):
            yield "operands swapped", _copy(node, args=[first, second, y, x, *rest])
        case ast.Call(func=ast.Name(id="reversed" | "sorted"), args=[x]):
            yield "order left out", ast.Call(ast.Name("list", ast.Load()), [x], [])
        case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE() as sign], left=left, comparators=[right]):
            other = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}[type(sign)]
            yield "bound off by one", ast.Compare(left, [other()], [right])
        case ast.Return(value=ast.Constant(value=bool(value))):
            yield "answer turned around", _copy(node, value=ast.Constant(not value))
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Attribute(attr="b") | ast.Name(id="b"), attr="op"))):
            yield "instruction left out", ast.Pass()
        case _:
            return


def _copy(node: ast.AST, **changed: object) -> ast.AST:
    return type(node)(**{**dict(ast.iter_fields(node)), **changed})

"""Kernels as the old compiler reads them: from their source, where Python's own rules say less.

The function is compiled anew from its syntax tree, with the same lines: annotations of variables are checked, loops
over range count as sequential ones, conditions on loop indices open a block of their own, `and` joins masks, and
functions that the kernel calls are treated alike. A function whose source is not at hand runs as it is.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable
from functools import lru_cache
from types import CellType, FunctionType, ModuleType
from typing import Any

from tilewright.errors import is_internal
from tilewright.nki.legacy import blocks
from tilewright.nki.legacy.typing import tensor

_HELPER = "__tilewright_blocks__"


def rewritten(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as the old compiler reads it."""
    return _rewritten(function) if isinstance(function, FunctionType) else function


@lru_cache(maxsize=1000)
def _rewritten(function: FunctionType) -> Callable[..., Any]:
    tree = source_tree(function)
    if tree is None:
        return function
    tree.decorator_list = []
    tree.returns = None
    known = _Names(function)
    made = _Rewriter(known).visit(tree)
    free = list(function.__code__.co_freevars)
    # Free variables stay those of the original: an outer function makes the compiler treat them as such.
    outer = ast.FunctionDef(
        name="__outer__",
        args=ast.arguments([], [ast.arg(name) for name in free], None, [], [], None, []),
        body=[made],
        decorator_list=[],
        returns=None,
    )
    module = ast.Module(body=[outer], type_ignores=[])
    ast.copy_location(outer, made)
    ast.fix_missing_locations(module)
    code = compile(module, function.__code__.co_filename, "exec", dont_inherit=True)
    outer_code = next(each for each in code.co_consts if hasattr(each, "co_name"))
    inner = next(
        each for each in outer_code.co_consts if hasattr(each, "co_name") and each.co_name == function.__name__
    )
    cells = dict(zip(free, function.__closure__ or (), strict=True))
    if any(name not in cells for name in inner.co_freevars):
        return function
    function.__globals__.setdefault(_HELPER, blocks)
    closure = tuple(cells[name] for name in inner.co_freevars)
    copy = FunctionType(inner, function.__globals__, function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = function.__qualname__
    return copy


def source_tree(function: FunctionType) -> ast.FunctionDef | None:
    """The syntax tree of a function, with the lines of its file; None when the source is not at hand."""
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return None
    try:
        parsed = ast.parse(textwrap.dedent("".join(lines)))
    except SyntaxError:
        # A lambda, or a function in the middle of an expression.
        return None
    found = parsed.body[0] if parsed.body else None
    if not isinstance(found, ast.FunctionDef) or found.name != function.__name__:
        return None
    ast.increment_lineno(parsed, max(first, 1) - 1)
    return found


class _Names:
    """What names of a function's surroundings stand for, as far as that is known before it runs."""

    def __init__(self, function: FunctionType) -> None:
        self.globals = function.__globals__
        self.local = {*function.__code__.co_varnames, *function.__code__.co_cellvars}
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        filled = {name for name, cell in cells.items() if cell != CellType()}
        self.local |= cells.keys() - filled
        self.cells = {name: cells[name].cell_contents for name in filled}

    def resolve(self, node: ast.expr) -> Any:
        """The object of a name or of an attribute of a module; None when it is not known."""
        if isinstance(node, ast.Name):
            if node.id in self.local:
                return None
            if node.id in self.cells:
                return self.cells[node.id]
            return self.globals.get(node.id, getattr(builtins, node.id, None))
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value)
            return getattr(base, node.attr, None) if isinstance(base, ModuleType) else None
        return None


class _Rewriter(ast.NodeTransformer):
    def __init__(self, names: _Names) -> None:
        self.names = names
        self.conditions = 0
        # Names that statements before have assigned.
        self.bound: set[str] = set()

    def visit(self, node: ast.AST) -> Any:
        made = super().visit(node)
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            self.bound |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
        return made

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        self.generic_visit(node)
        annotation = node.annotation
        if node.value is None or not isinstance(node.target, ast.Name):
            return node
        kind = self.names.resolve(annotation.value) if isinstance(annotation, ast.Subscript) else None
        value = node.value
        if isinstance(kind, type) and issubclass(kind, tensor):
            value = _call("annotated", value, annotation, ast.Constant(node.target.id))
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_For(self, node: ast.For) -> Any:
        counters = sorted(_counters(node) & self.bound)
        self.generic_visit(node)
        if not counters:
            node.iter = ast.copy_location(_call("loop", node.iter), node.iter)
            return node
        name = self._name()
        start = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], _call("Once")), node)
        node.iter = ast.copy_location(_call("loop", node.iter, ast.Name(name, ast.Load())), node.iter)
        turn = ast.Expr(ast.Call(ast.Attribute(ast.Name(name, ast.Load()), "turn", ast.Load()), [], []))
        node.body.insert(0, ast.copy_location(turn, node.body[0]))
        for counter in counters:
            counts = ast.Attribute(ast.Name(name, ast.Load()), "counts", ast.Load())
            values = ast.Attribute(ast.Name(name, ast.Load()), "values", ast.Load())
            value = ast.Subscript(values, ast.Constant(counter), ast.Load())
            again = ast.If(
                ast.Call(counts, [ast.Constant(counter), _read(counter)], []),
                [ast.Assign([ast.Name(counter, ast.Store())], value)],
                [],
            )
            node.body.insert(0, ast.copy_location(again, node.body[0]))
        return [start, node]

    def visit_While(self, node: ast.While) -> Any:
        self.generic_visit(node)
        name = self._name()
        start = ast.Assign([ast.Name(name, ast.Store())], _call("While"))
        node.test = ast.copy_location(
            ast.Call(ast.Attribute(ast.Name(name, ast.Load()), "test", ast.Load()), [node.test], []), node.test
        )
        return [ast.copy_location(start, node), node]

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        name = self._name()
        test = ast.NamedExpr(ast.Name(name, ast.Store()), _call("condition", node.test))
        node.test = ast.copy_location(test, node.test)
        node.body = [self._block(name, node.body)]
        if node.orelse:
            node.orelse = [self._block(name, node.orelse)]
        return node

    def _block(self, name: str, body: list[ast.stmt]) -> ast.stmt:
        item = ast.withitem(_call("block", ast.Name(name, ast.Load())), None)
        return ast.copy_location(ast.With([item], body), body[0])

    def _name(self) -> str:
        self.conditions += 1
        return f"__tilewright_{self.conditions}"

    def visit_Call(self, node: ast.Call) -> Any:
        for keyword in node.keywords:
            if keyword.arg in ("mask", "pred"):
                keyword.value = _Joined().visit(keyword.value)
        self.generic_visit(node)
        target = self.names.resolve(node.func)
        if isinstance(target, FunctionType) and uses_dialect(target):
            node.func = ast.copy_location(_call("inlined", node.func), node.func)
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) and _makes_tile(node.value):
            name = node.targets[0].id
            if name in self.names.local and self._rebinds(node.value, name):
                node.value = _call("rebound", node.value, ast.Constant(name), _read(name))
        return node

    def _rebinds(self, value: ast.expr, name: str) -> bool:
        """x = f(x): what looks like an update makes a new object."""
        return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(value))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        inner = {arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
        inner |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        self.bound |= {arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
        added = inner - self.names.local
        self.names.local |= added
        node.body = [part for each in node.body for part in _listed(self.visit(each))]
        self.names.local -= added
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return node


def _read(name: str) -> ast.Lambda:
    """A function that gives the name's value when it is called."""
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), ast.Name(name, ast.Load()))


def _counters(loop: ast.For) -> set[str]:
    """Names that the body of a loop binds anew: `offset += size`, `rows = rows // 2`."""
    found = (each for part in loop.body for each in ast.walk(part))
    return {each.id for each in found if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def _makes_tile(value: ast.expr) -> bool:
    return isinstance(value, (ast.BinOp, ast.Call))


def _listed(node: Any) -> list[Any]:
    return node if isinstance(node, list) else [node]


class _Joined(ast.NodeTransformer):
    """`and` between comparisons of index tensors, which Python would ask for their truth."""

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        return ast.copy_location(_call("joined", *node.values), node) if isinstance(node.op, ast.And) else node


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name(_HELPER, ast.Load()), name, ast.Load()), list(args), [])


def uses_dialect(function: FunctionType) -> bool:
    """Whether a function of the user's names anything of this dialect."""
    if is_internal(function.__code__.co_filename):
        return False
    return any(
        getattr(value, "__module__", None) and str(value.__module__).startswith(_PACKAGE)
        if not isinstance(value, ModuleType)
        else value.__name__.startswith(_PACKAGE)
        for value in [*function.__globals__.values()]
    )


_PACKAGE = __name__.rpartition(".")[0]

"""Imports and decorators of the legacy dialect in the current form."""

from __future__ import annotations

import ast

import numpy as np

from tilewright.migrate.edits import SourceText
from tilewright.migrate.names import ApiNames
from tilewright.nki.static.names import LEGACY, Function

# Names of nki.language that the current dialect has no more; the kernels lose them too.
_GONE = ("arange", "mgrid", "par_dim")
_DECORATORS = ("trace", "baremetal")
# Where tensors lie is the compiler's choice.
PLACING = "compiler."
# Numbers that had a name.
LIMITS = {f"language.fp32.{name}": float(getattr(np.finfo(np.float32), name)) for name in ("min", "max")}
_NUMBERS = ("language.fp32", *LIMITS)
# What host code calls.
_SIMULATE = "simulate_kernel"
HOST = (_SIMULATE,)
REPLACED = (*(f"language.{name}" for name in _GONE), *_DECORATORS, *_NUMBERS)


def port_imports(tree: ast.Module, api: ApiNames, text: SourceText) -> None:
    """import neuronxcc.nki.language as nl -> import nki.language as nl; other names of decorators too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute):
            if api.api(node.value) in _DECORATORS:
                text.replace(node.value, f"{ast.unparse(node.value.value)}.jit")
        elif isinstance(node, ast.Import):
            names = [ast.alias(_current(each.name), _kept(each)) for each in node.names]
            if [each.name for each in names] != [each.name for each in node.names]:
                text.replace(node, ast.unparse(ast.Import(names)))
        elif isinstance(node, ast.ImportFrom) and node.module == "neuronxcc":
            others = [each for each in node.names if each.name != "nki"]
            mine = [ast.alias("nki", each.asname) for each in node.names if each.name == "nki"]
            parts = [ast.unparse(ast.Import(mine))] if mine else []
            parts += [ast.unparse(ast.ImportFrom("neuronxcc", others, 0))] if others else []
            text.replace(node, f"\n{text.indent(node)}".join(parts))
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith(LEGACY):
            placing = f"{node.module}.".startswith(f"{LEGACY}.{PLACING}")
            names = [] if placing else [each for each in node.names if each.name not in _GONE]
            if names:
                text.replace(node, ast.unparse(ast.ImportFrom(_current(node.module), names, 0)))
            else:
                text.remove_line(node)


def _current(name: str) -> str:
    return name.removeprefix("neuronxcc.") if name == LEGACY or name.startswith(f"{LEGACY}.") else name


def _kept(alias: ast.alias) -> str | None:
    """import neuronxcc.nki as nki needs no second name."""
    return None if _current(alias.name) == alias.asname else alias.asname


def port_host(tree: ast.Module, api: ApiNames, text: SourceText) -> None:
    """nki.simulate_kernel(kernel, a) -> nki.simulate(kernel)(a); numbers that had a name, wherever they stand."""
    called: set[ast.expr] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_simulation(node.func, api) and node.args:
            assert isinstance(node.func, ast.Attribute)
            kernel, *arrays = node.args
            grid = [kernel.slice] if isinstance(kernel, ast.Subscript) else []
            made: ast.expr = ast.Attribute(node.func.value, "simulate", ast.Load())
            made = ast.Call(made, [kernel.value if isinstance(kernel, ast.Subscript) else kernel], [])
            for each in grid:
                made = ast.Subscript(made, each, ast.Load())
            text.replace(node, ast.unparse(ast.fix_missing_locations(ast.Call(made, arrays, node.keywords))))
            called.add(node.func)
        elif isinstance(node, ast.Attribute) and api.api(node) in LIMITS:
            text.replace(node, repr(LIMITS[str(api.api(node))]))
        elif isinstance(node, ast.Attribute) and node not in called and _is_simulation(node, api):
            package = ast.unparse(node.value)
            text.replace(node, f"lambda kernel, *arrays: {package}.simulate(kernel)(*arrays)")


def _is_simulation(node: ast.expr, api: ApiNames) -> bool:
    return isinstance(node, ast.Attribute) and api.api(node) == _SIMULATE


def port_decorators(kernel: Function, names: ApiNames, text: SourceText) -> None:
    """@nki.jit(mode=...), @nki.baremetal, @nki.benchmark(...) -> @nki.jit; what kernels call is decorated no more."""
    for decorator in kernel.decorator_list:
        made = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = names.api(made)
        if name is not None and name.startswith(PLACING):
            text.remove_decorator(decorator)
            continue
        if name is None or not isinstance(made, ast.Attribute):
            continue
        if name != "jit" or isinstance(decorator, ast.Call):
            text.replace(decorator, f"{ast.unparse(made.value)}.jit")

"""Imports and decorators of the legacy dialect in the current form."""

from __future__ import annotations

import ast

from tilewright.migrate.edits import SourceText
from tilewright.migrate.names import ApiNames
from tilewright.nki.static.names import LEGACY, Function

# Names of nki.language that the current dialect has no more; the kernels lose them too.
_GONE = ("arange", "mgrid", "par_dim")
_DECORATORS = ("trace", "baremetal")
_NUMBERS = ("language.fp32", "language.fp32.min", "language.fp32.max")
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
            names = [each for each in node.names if each.name not in _GONE]
            if names:
                text.replace(node, ast.unparse(ast.ImportFrom(_current(node.module), names, 0)))
            else:
                text.remove_line(node)


def _current(name: str) -> str:
    return name.removeprefix("neuronxcc.") if name == LEGACY or name.startswith(f"{LEGACY}.") else name


def _kept(alias: ast.alias) -> str | None:
    """import neuronxcc.nki as nki needs no second name."""
    return None if _current(alias.name) == alias.asname else alias.asname


def port_decorators(kernel: Function, names: ApiNames, text: SourceText) -> None:
    """@nki.jit(mode=...), @nki.baremetal, @nki.benchmark(...) -> @nki.jit; what kernels call is decorated no more."""
    for decorator in kernel.decorator_list:
        made = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = names.api(made)
        if name is None or not isinstance(made, ast.Attribute):
            continue
        if name != "jit" or isinstance(decorator, ast.Call):
            text.replace(decorator, f"{ast.unparse(made.value)}.jit")

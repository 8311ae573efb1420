"""Puts one fault into lowering as it is imported: `TILEWRIGHT_FAULT=file:line:column:kind`."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from typing import Any

from tests.mutation.places import changes

VARIABLE = "TILEWRIGHT_FAULT"
_active: list[str] = []


class _Change(ast.NodeTransformer):
    """Changes the node at a place."""

    def __init__(self, line: int, column: int, kind: str) -> None:
        self.place, self.kind, self.done = (line, column), kind, False

    def visit(self, node: ast.AST) -> Any:
        if not self.done and (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)) == self.place:
            for kind, changed in changes(node):
                if kind == self.kind:
                    self.done = True
                    return ast.copy_location(changed, node)
        return self.generic_visit(node)


def on_import(file: str, change: Callable[[ast.AST], Any]) -> None:
    """From now on a file of lowering is imported with its tree changed."""
    plain = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> Any:
        if not self.path.replace("\\", "/").endswith(f"tilewright/lower/{file}"):
            return plain(self, fullname)
        tree = ast.fix_missing_locations(change(ast.parse(self.get_data(self.path))))
        return compile(tree, self.path, "exec")

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def install(key: str) -> None:
    """From now on lowering is imported with a fault in it."""
    file, line, column, kind = key.split(":", 3)

    def put(tree: ast.AST) -> Any:
        change = _Change(int(line), int(column), kind)
        changed = change.visit(tree)
        assert change.done, f"no such place: {key}"
        _active.append(key)
        return changed

    on_import(file, put)


def is_active() -> bool:
    """Whether lowering was imported with the fault that was asked for, or none was."""
    return os.environ.get(VARIABLE) in (None, *_active)


if VARIABLE in os.environ:
    install(os.environ[VARIABLE])

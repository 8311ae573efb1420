"""Puts one fault into lowering as it is imported: `TILEWRIGHT_FAULT=file:line:column:kind`."""

from __future__ import annotations

import ast
import os
from importlib.machinery import SourceFileLoader
from typing import Any

from tests.mutation.places import changes

VARIABLE = "TILEWRIGHT_FAULT"


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


def install(key: str) -> None:
    """From now on lowering is imported with a fault in it."""
    file, line, column, kind = key.split(":", 3)
    plain = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> Any:
        if not self.path.replace("\\", "/").endswith(f"tilewright/lower/{file}"):
            return plain(self, fullname)
        change = _Change(int(line), int(column), kind)
        tree = ast.fix_missing_locations(change.visit(ast.parse(self.get_data(self.path))))
        assert change.done, f"no such place: {key}"
        return compile(tree, self.path, "exec")

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


if VARIABLE in os.environ:
    install(os.environ[VARIABLE])

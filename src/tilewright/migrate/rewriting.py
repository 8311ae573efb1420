"""What the parts of a port have in common: the rewriting of one statement, as `migrate.expressions` does it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Protocol

from tilewright.migrate.names import ApiNames
from tilewright.migrate.values import Value


class Rewriting(Protocol):
    """Rewrites the expressions of a statement."""

    changed: bool
    names: ApiNames
    env: dict[str, Value]

    def expr(self, node: ast.expr) -> tuple[ast.expr, Value]:
        """An expression in the current form, and what it stands for."""
        ...

    def quiet(self, node: ast.expr) -> Value:
        """What an expression stands for; nothing is rewritten, nothing said."""
        ...

    def index(self, node: ast.expr) -> Value:
        """What an expression is as an index."""
        ...

    def api(self, node: ast.expr) -> str | None:
        """The part of NKI that an expression stands for."""
        ...

    def named(self, node: ast.expr, base: str) -> ast.Name:
        """A name for the value of an expression, computed before the statement."""
        ...

    def function(self, name: str, *args: ast.expr) -> ast.Call:
        """A call of nki.language."""
        ...

    @property
    def report(self) -> Callable[[ast.AST, str, str], None]:
        """Say what only the author can decide."""
        ...

"""Calls of nki.isa that returned their result, as calls that are given their destination."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import ModuleType
from typing import Any

import tilewright.nki.isa as isa
import tilewright.nki.legacy.isa as legacy
from tilewright.migrate.values import SBUF, Tensor

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Keywords of every legacy call that the current ones lack: the type is that of the destination.
GONE = ("dtype", "mask")


@cache
def _table() -> dict[str, dict[str, Any]]:
    text = resources.files("tilewright.migrate").joinpath("results.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def _parameters(name: str) -> tuple[str, ...]:
    """Parameters after the destination, in their order."""
    return tuple(each for each in inspect.signature(getattr(isa, name)).parameters if each != "dst")


@dataclass
class OldCall:
    """One call without a destination, its arguments by their names."""

    name: str
    node: ast.Call
    given: dict[str, ast.expr]

    @property
    def result(self) -> dict[str, Any]:
        return _table()[self.name]

    def value(self) -> Tensor:
        """What the new tile is."""
        memory = self.result.get("memory", SBUF)
        if self.name == "nc_transpose" and "vector" in ast.unparse(self.given.get("engine", ast.Constant(""))).lower():
            memory = SBUF
        return Tensor(memory, 2, bool(self.result.get("column")), bool(self.result.get("row")))

    def operands(self) -> list[str]:
        """Operands whose shapes decide the result's."""
        form = self.result.get("shape", "")
        named = [name for name in self.given if f"{{{name}}}" in form]
        like = self.result.get("like")
        return [*named, *([like] if like is not None and like not in named else [])]

    def shape(self) -> str:
        """The shape of the new tile as source text."""
        texts = {name: ast.unparse(node) for name, node in self.given.items()}
        form = self.result.get("shape")
        return form.format(**texts) if form is not None else f"{texts[self.result['like']]}.shape"

    def dtype(self, nl: str) -> str:
        """Its element type as source text."""
        if "dtype" in self.given:
            return ast.unparse(self.given["dtype"])
        fixed = self.result.get("dtype")
        return f"{nl}.{fixed}" if fixed is not None else f"{ast.unparse(self.given[self.result['like']])}.dtype"

    def with_destination(self, dst: ast.expr, **extra: ast.expr) -> ast.Call:
        """The call in its current form; arguments stay in place or by name, as they were."""
        count = len(self.node.args)
        names = _parameters(self.name)
        keywords = [
            ast.keyword(name, value)
            for name, value in (self.given | extra).items()
            if name not in GONE and name not in names[:count]
        ]
        if not count:
            return ast.Call(self.node.func, [], [ast.keyword("dst", dst), *keywords])
        return ast.Call(self.node.func, [dst, *(self.given[name] for name in names[:count])], keywords)


def old_call(name: str, node: ast.Call, is_operator: Callable[[ast.expr], bool]) -> OldCall | None:
    """The call, if it has no destination and what it returned is known."""
    if name not in _table() or any(keyword.arg in (None, "dst") for keyword in node.keywords):
        return None
    names = _parameters(name)
    if any(isinstance(arg, ast.Starred) for arg in node.args) or len(node.args) > _positional(name):
        return None
    by_name = {str(each.arg): each.value for each in node.keywords}
    given = dict(zip(names, node.args, strict=False))
    needed = [each for each in names if _is_required(name, each)]
    if given.keys() & by_name.keys() or not all(each in given or each in by_name for each in needed):
        return None
    if _table()[name].get("without") in given | by_name:
        return None
    # With a destination before them, operators would stand where operands are.
    shifted = any(
        is_operator(value) != each.startswith(_OPERATORS) for each, value in given.items() if is_operator(value)
    )
    return None if shifted else OldCall(name, node, given | by_name)


def keeps_rows(name: str) -> bool:
    """Whether the rows of what a call returned were those of its operands, so that a mask says the same of both."""
    form = _table()[name].get("shape", "{}.shape[0],") if name in _table() else ""
    return form.partition(",")[0].endswith(".shape[0]")


_OPERATORS = ("op", "reduce_op", "comp_op")


@cache
def _positional(name: str) -> int:
    """How many arguments the legacy call takes by position."""
    kinds = [each.kind for each in inspect.signature(getattr(legacy, name)).parameters.values()]
    return kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _is_required(name: str, parameter: str) -> bool:
    return inspect.signature(getattr(isa, name)).parameters[parameter].default is inspect.Parameter.empty


def takes_destination(name: str) -> bool:
    """Whether an instruction is given its destination, and so returns nothing to compute with."""
    found = getattr(isa, name, None)
    return callable(found) and "dst" in inspect.signature(found).parameters


def takes_keyword(module: ModuleType, name: str, keyword: str | None) -> bool:
    """Whether a function of nki.language or nki.isa takes an argument of a name; True where it is not known."""
    found = getattr(module, name, None) if name in dir(module) else None
    if keyword is None or not callable(found) or inspect.isclass(found):
        return True
    parameters = inspect.signature(found).parameters
    return keyword in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


__all__ = ["GONE", "OldCall", "keeps_rows", "old_call", "takes_destination", "takes_keyword"]

"""Constructs that NKI's compiler does not take, in the syntax tree of one function.

What names of the function stand for comes from elsewhere: from the running program (`nki.subset`) or from the text of
its file alone (`nki.static`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from tilewright.errors import Span

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Finding:
    """A construct that the compiler does not take, on one line of a source file."""

    rule: str
    message: str
    hint: str
    line: int
    span: Span | None = None


class Meaning(Protocol):
    """What names of a function stand for; what is not known is neither."""

    def is_enum_value(self, node: ast.expr) -> bool:
        """Whether an expression is a member of one of the user's enums."""
        ...

    def refused_class(self, node: ast.expr) -> str | None:
        """The name of the class that an expression stands for, when kernels may not hold its objects."""
        ...

    def is_of_nki(self, node: ast.expr) -> bool:
        """Whether an expression is something of the nki package."""
        ...


def first_findings(node: Function, meaning: Meaning) -> tuple[Finding, ...]:
    """R-language-02, -04, -05, -06 and -08: the first finding of each rule in a function."""
    first: dict[str, Finding] = {}
    for found in _look(node, meaning):
        known = first.get(found.rule)
        if known is None or found.line < known.line:
            first[found.rule] = found
    return tuple(first.values())


def early_return(node: Function) -> ast.Return | None:
    """A return that every turn of a loop comes to, so that there is no second one; it was meant to stand behind it."""
    pending: list[ast.AST] = list(node.body)
    for each in pending:
        found = [inner for inner in each.body if isinstance(inner, ast.Return)] if isinstance(each, ast.For) else []
        if found:
            return found[0]
        if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            pending += [inner for inner in ast.iter_child_nodes(each) if isinstance(inner, ast.stmt)]
    return None


def separator(name: str, line: int) -> Finding:
    """R-language-01, of a kernel itself: its caller passes arguments in any form."""
    hint = "leave the * out and move parameters with defaults to the end"
    return Finding("R-language-01", f"the signature of {name} has the separator *", hint, line)


def _found(rule: str, message: str, hint: str, node: ast.AST) -> Finding:
    assert isinstance(node, (ast.expr, ast.stmt)), "every construct that is looked for has a place"
    return Finding(rule, message, hint, node.lineno, Span.of(node))


def _look(node: Function, meaning: Meaning) -> Iterator[Finding]:
    for each in ast.walk(node):
        if isinstance(each, ast.Compare):
            yield from _comparison(each, meaning)
        elif isinstance(each, ast.BinOp):
            yield from _enum_operand(each, [each.left, each.right], meaning)
        elif isinstance(each, ast.Dict):
            for key in each.keys:
                if isinstance(key, ast.Constant) and not isinstance(key.value, str):
                    hint = "use names as keys"
                    yield _found("R-language-04", f"a dict has the key {key.value!r}, no string", hint, key)
        elif isinstance(each, ast.Call):
            name = meaning.refused_class(each.func)
            if name is not None:
                hint = "derive it from nl.NKIObject alone; enums derive from Enum"
                yield _found("R-language-05", f"the kernel makes an object of class {name}", hint, each)
        construct = _CONSTRUCTS.get(type(each))
        if construct is not None and not _is_nki_context(each, meaning):
            hint = f"NKI's compiler knows a part of Python only; {construct[1]}"
            yield _found("R-language-08", f"{construct[0]} in a kernel", hint, each)


def _comparison(node: ast.Compare, meaning: Meaning) -> Iterator[Finding]:
    operands = [node.left, *node.comparators]
    for position, operator in enumerate(node.ops):
        if isinstance(operator, (ast.Is, ast.IsNot)):
            hint = "write == and !=: identity means nothing to the compiler"
            yield _found("R-language-02", "`is` compares objects of the host", hint, node)
        elif not isinstance(operator, (ast.Eq, ast.NotEq, ast.In, ast.NotIn)):
            yield from _enum_operand(node, operands[position : position + 2], meaning)


def _enum_operand(node: ast.expr, operands: list[ast.expr], meaning: Meaning) -> Iterator[Finding]:
    for each in operands:
        if isinstance(each, ast.Attribute) and meaning.is_enum_value(each):
            hint = "compare with == and !=, or use its .value"
            message = f"{ast.unparse(each)} is an enum value in arithmetic or order"
            yield _found("R-language-06", message, hint, node)


def _is_nki_context(node: ast.AST, meaning: Meaning) -> bool:
    """`with nl.no_reorder():` and the like."""
    if not isinstance(node, ast.With):
        return False
    made = [item.context_expr for item in node.items]
    return all(isinstance(each, ast.Call) and meaning.is_of_nki(each.func) for each in made)


_LOOP = "write a loop that appends"
_CONSTRUCTS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Try: ("try", "decide by conditions"),
    ast.With: ("with", "call what it enters and leaves"),
    ast.AsyncFunctionDef: ("async def", "kernels run in order"),
    ast.Await: ("await", "kernels run in order"),
    ast.Yield: ("yield", "return a list"),
    ast.YieldFrom: ("yield from", "return a list"),
    ast.Import: ("import", "import at the top of the file"),
    ast.ImportFrom: ("import", "import at the top of the file"),
    ast.ClassDef: ("a class", "define it at the top of the file"),
    ast.Delete: ("del", "let names end with their function"),
    ast.Match: ("match", "write if and elif"),
    ast.NamedExpr: (":=", "assign in a statement of its own"),
    ast.GeneratorExp: ("a generator", _LOOP),
    ast.SetComp: ("a set comprehension", _LOOP),
    ast.Set: ("a set", "use a list or a tuple"),
}

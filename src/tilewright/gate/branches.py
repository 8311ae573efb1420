"""Host code that asks whether it is simulated: what the tests see is then not what ships."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

_WORD = "simulat"


class Branch(NamedTuple):
    """A condition that names the simulator."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def branches_on_simulation(files: Iterable[str]) -> list[Branch]:
    """Conditions of these files that name the simulator, in order; a file that cannot be read has none."""
    trees = {file: tree for file in files if (tree := _parsed(Path(file))) is not None}
    names = {file: _names(tree) for file, tree in trees.items()}
    shared = set().union(*names.values())
    found: set[Branch] = set()
    for file, tree in trees.items():
        known = names[file] | _imported(tree, shared)
        asked = {each.lineno for node in ast.walk(tree) for each in _conditions(node) if _mentions(each, known)}
        lines = Path(file).read_text().splitlines()
        found.update(Branch(file, line, lines[line - 1].strip()) for line in asked)
    return sorted(found)


def _parsed(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_text())
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None


def _conditions(node: ast.AST) -> list[ast.expr]:
    """What decides which way a program goes from here."""
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        return [node.test]
    if isinstance(node, ast.Match):
        return [node.subject]
    if isinstance(node, ast.MatchValue):
        return [node.value]
    return node.ifs if isinstance(node, ast.comprehension) else []


def _names(tree: ast.Module) -> set[str]:
    """Variables that say whether it is simulated, and functions that do: they are set by, or return, what names it."""
    return {name for node in ast.walk(tree) for name in _given_by(node)}


def _imported(tree: ast.Module, names: set[str]) -> set[str]:
    """What a file calls those of these names that it imports."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {each.asname or each.name for node in imports for each in node.names if each.name in names}


def _given_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        if node.value is not None and _is_answer(node.value):
            yield from filter(None, map(_name_of, node.targets if isinstance(node, ast.Assign) else [node.target]))
    elif isinstance(node, ast.FunctionDef):
        inside = list(ast.walk(node))
        returned = [each.value for each in inside if isinstance(each, ast.Return) and each.value is not None]
        asks = any(_mentions(each, set()) for inner in inside for each in _conditions(inner))
        if returned and all(_is_answer(each) or (asks and _is_truth(each)) for each in returned):
            yield node.name


def _name_of(target: ast.expr) -> str:
    """The name of a variable, or of an attribute: of whatever object."""
    return target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""


def _is_truth(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, bool)


def _is_answer(value: ast.expr) -> bool:
    """True for what names the simulator; what is chosen by it is a branch, not the answer."""
    return _mentions(value, set()) and not any(isinstance(each, ast.IfExp) for each in ast.walk(value))


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(_names_it(each, names) for each in ast.walk(node))


def _names_it(node: ast.AST, names: set[str]) -> bool:
    word = _name_of(node) if isinstance(node, ast.expr) else ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        word = node.value
    return _WORD in word.lower() or word in names

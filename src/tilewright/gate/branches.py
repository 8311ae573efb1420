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
    return sorted(branch for file in set(files) for branch in _of_file(Path(file)))


def _of_file(path: Path) -> Iterator[Branch]:
    try:
        text = path.read_text()
        tree = ast.parse(text)
    except (OSError, SyntaxError, UnicodeDecodeError):
        return
    lines, names = text.splitlines(), _names(tree)
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.IfExp, ast.While)) and _mentions(node.test, names):
            yield Branch(str(path), node.lineno, lines[node.lineno - 1].strip())


def _names(tree: ast.Module) -> set[str]:
    """Variables that say whether it is simulated, and functions that do: they are set by, or return, what names it."""
    return {name for node in ast.walk(tree) for name in _given_by(node)}


def _given_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Assign) and _is_answer(node.value):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.FunctionDef):
        returned = [each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value is not None]
        if returned and all(map(_is_answer, returned)):
            yield node.name


def _is_answer(value: ast.expr) -> bool:
    """True for what names the simulator; what is chosen by it is a branch, not the answer."""
    return _mentions(value, set()) and not any(isinstance(each, ast.IfExp) for each in ast.walk(value))


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(_names_it(each, names) for each in ast.walk(node))


def _names_it(node: ast.AST, names: set[str]) -> bool:
    word = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        word = node.value
    return _WORD in word.lower() or word in names

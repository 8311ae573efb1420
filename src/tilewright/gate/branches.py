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
    """Variables that are set by what names the simulator, and functions that return it."""
    names: set[str] = set()
    while True:
        found = {name for node in ast.walk(tree) for name in _given_by(node, names)}
        if found <= names:
            return names
        names |= found


def _given_by(node: ast.AST, names: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Assign) and _mentions(node.value, names):
        yield from (each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name))
    elif isinstance(node, ast.FunctionDef):
        returned = [each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value is not None]
        if any(_mentions(value, names) for value in returned):
            yield node.name


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(_names_it(each, names) for each in ast.walk(node))


def _names_it(node: ast.AST, names: set[str]) -> bool:
    word = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        word = node.value
    return _WORD in word.lower() or word in names

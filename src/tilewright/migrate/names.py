"""Which parts of NKI the names of a file stand for, in whichever dialect it was written."""

from __future__ import annotations

import ast

import tilewright.nki.language as language
from tilewright.nki.static.names import CURRENT, LEGACY, SourceNames

# What texts without imports call the modules.
_USUAL = {"nl": "language", "nisa": "isa", "isa": "isa", "nki": ""}
_NUMPY = {
    **{"absolute": "abs", "amax": "maximum", "max": "maximum", "amin": "minimum", "min": "minimum", "sum": "add"},
    **{"prod": "multiply", "true_divide": "divide", "bitwise_not": "invert", "remainder": "mod"},
}


class ApiNames:
    """The API of a file by full names: language.load, isa.activation."""

    def __init__(self, tree: ast.Module) -> None:
        self.names = SourceNames.of(tree)
        taken = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
        self.taken = taken | {arg.arg for arg in ast.walk(tree) if isinstance(arg, ast.arg)}
        self.language = next(
            (alias for alias, name in self.names.imported.items() if name in (f"{CURRENT}.language", _LEGACY_LANGUAGE)),
            "nl",
        )

    @property
    def legacy(self) -> bool:
        """Whether the file imports the legacy dialect."""
        return any(name == LEGACY or name.startswith(f"{LEGACY}.") for name in self.names.imported.values())

    def api(self, node: ast.expr) -> str | None:
        """The name inside the package that an expression stands for."""
        found = self.names.api(node, LEGACY)
        if found is None:
            found = self.names.api(node, CURRENT)
        if found is not None:
            return found
        if isinstance(node, ast.Name) and node.id == "nc_matmul" and node.id not in self.names.imported:
            return "isa.nc_matmul"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            usual = _USUAL.get(node.value.id) if node.value.id not in self.names.imported else None
            return None if usual is None else f"{usual}.{node.attr}".lstrip(".")
        return None

    def operator(self, node: ast.expr) -> ast.expr:
        """np.add as an operator of an instruction: nl.add."""
        name = self.names.dotted(node)
        if name is None or not name.startswith("numpy."):
            return node
        last = name.rpartition(".")[2]
        found = _NUMPY.get(last, last)
        return self.nl(found) if hasattr(language, found) else node

    def nl(self, name: str) -> ast.expr:
        """A name of nki.language as the file writes it."""
        return ast.Attribute(ast.Name(self.language, ast.Load()), name, ast.Load())

    def fresh(self, base: str) -> str:
        """A name that the file does not have."""
        number = 0
        while (name := base if number == 0 else f"{base}_{number}") in self.taken:
            number += 1
        self.taken.add(name)
        return name


_LEGACY_LANGUAGE = f"{LEGACY}.language"

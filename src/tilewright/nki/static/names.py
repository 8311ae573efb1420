"""What the names of a source file stand for, as its text shows: parts of NKI, functions and classes of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef

CURRENT, LEGACY = "nki", "neuronxcc.nki"
_DECORATORS = {CURRENT: ("jit",), LEGACY: ("jit", "trace", "baremetal", "benchmark", "profile")}
# What runs a function of the legacy dialect that carries no decorator: nki.simulate_kernel(f, ...), nki.jit(f).
_RUNNERS = {CURRENT: ("jit", "simulate"), LEGACY: (*_DECORATORS[LEGACY], "simulate_kernel")}


@dataclass
class SourceNames:
    """The imports, functions and classes of one file."""

    tree: ast.Module
    imported: dict[str, str] = field(default_factory=dict)
    """Names that stand for something of another module: nl -> neuronxcc.nki.language."""
    parents: dict[Function, Function | None] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    assigned: set[str] = field(default_factory=set)
    """Names that some statement assigns, and that stand for no function or class alone."""

    @classmethod
    def of(cls, tree: ast.Module) -> SourceNames:
        """Read a whole file."""
        made = cls(tree)
        made._read(tree, None)
        return made

    def _read(self, node: ast.AST, inside: Function | None) -> None:
        for each in ast.iter_child_nodes(node):
            if isinstance(each, (ast.Import, ast.ImportFrom)):
                self._import(each)
            elif isinstance(each, ast.ClassDef):
                self.classes[each.name] = each
            elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                self.assigned.add(each.id)
            if isinstance(each, Function):
                self.parents[each] = inside
            self._read(each, each if isinstance(each, Function) else inside)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                self.imported[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
            elif alias.asname:
                self.imported[alias.asname] = alias.name
            else:
                head = alias.name.partition(".")[0]
                self.imported[head] = head

    def dotted(self, node: ast.expr) -> str | None:
        """The full name of what an expression stands for: neuronxcc.nki.language.load."""
        if isinstance(node, ast.Name):
            return self.imported.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return None if base is None else f"{base}.{node.attr}"
        return None

    def api(self, node: ast.expr, dialect: str) -> str | None:
        """The name inside a dialect's package that an expression stands for: language.load, '' for the package."""
        name = self.dotted(node)
        if name == dialect:
            return ""
        return name.removeprefix(f"{dialect}.") if name is not None and name.startswith(f"{dialect}.") else None

    def function(self, name: str, inside: Function | None) -> Function | None:
        """The function that a name means inside another one."""
        here: Function | None = inside
        while True:
            found = [each for each, parent in self.parents.items() if each.name == name and parent is here]
            if found:
                return found[-1]
            if here is None:
                return None
            here = self.parents[here]

    def kernels(self, dialect: str) -> list[Function]:
        """Functions that are kernels by their decorator, or because something of the package runs them."""
        found = {each for each in self.parents if any(self._makes_kernel(d, dialect) for d in each.decorator_list)}
        for inside, call in self._calls():
            if self.api(call.func, dialect) in _RUNNERS[dialect] and call.args:
                first = call.args[0].value if isinstance(call.args[0], ast.Subscript) else call.args[0]
                named = self.function(first.id, inside) if isinstance(first, ast.Name) else None
                found |= {named} if named is not None else set()
        return sorted(found, key=lambda each: each.lineno)

    def _makes_kernel(self, decorator: ast.expr, dialect: str) -> bool:
        made = decorator.func if isinstance(decorator, ast.Call) else decorator
        framework = dialect == LEGACY and (self.dotted(made) or "").endswith(".nki_jit")
        return framework or self.api(made, dialect) in _DECORATORS[dialect]

    def _calls(self) -> Iterator[tuple[Function | None, ast.Call]]:
        for inside in (None, *self.parents):
            yield from ((inside, each) for each in own_nodes(inside or self.tree) if isinstance(each, ast.Call))

    def called(self, function: Function) -> Iterator[Function]:
        """Functions of the file that a function calls by their names."""
        for each in own_nodes(function):
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Name):
                found = self.function(each.func.id, function)
                if found is not None:
                    yield found

    def reached(self, kernels: list[Function]) -> list[Function]:
        """The kernels and the functions that they call, and those that these call, in the order of the file."""
        seen: set[Function] = set()
        pending = [*kernels]
        while pending:
            each = pending.pop()
            if each not in seen:
                seen.add(each)
                pending += self.called(each)
        return sorted(seen, key=lambda each: each.lineno)

    # What nki.constructs asks of names.

    def is_enum_value(self, node: ast.expr) -> bool:
        """Color.RED of a class of this file that derives from Enum."""
        owner = node.value if isinstance(node, ast.Attribute) else None
        kind = self.classes.get(owner.id) if isinstance(owner, ast.Name) else None
        return kind is not None and any(_last(base) in ("Enum", "IntEnum") for base in kind.bases)

    def refused_class(self, node: ast.expr) -> str | None:
        """A class of this file that kernels may not hold objects of."""
        kind = self.classes.get(node.id) if isinstance(node, ast.Name) and node.id not in self.assigned else None
        return kind.name if kind is not None and self._is_refused(kind) else None

    def _is_refused(self, kind: ast.ClassDef) -> bool:
        if not kind.bases:
            return True
        own = [self.classes.get(_last(base) or "") for base in kind.bases]
        # A base from elsewhere that is not known may be anything.
        return any(each is not None and each is not kind and self._is_refused(each) for each in own) or (
            len(kind.bases) > 1 and any(_last(base) == "NKIObject" for base in kind.bases)
        )

    def is_of_nki(self, node: ast.expr) -> bool:
        """Something of either dialect."""
        return self.api(node, CURRENT) is not None or self.api(node, LEGACY) is not None


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """What a function consists of, without the functions inside it."""
    for each in ast.iter_child_nodes(node):
        if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield each
            yield from own_nodes(each)


def _last(node: ast.expr) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None

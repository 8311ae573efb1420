"""The names of all decisions that lowering can take, read from its source."""

from __future__ import annotations

import ast
import functools

from tilewright.lower.rewrite.halves import by_halves
from tilewright.lower.rewrite.prepare import RULES, pick_from_memory
from tilewright.lower.rewrite.small_products import small_products
from tilewright.lower.special import SPECIAL
from tilewright.rules import package_sources
from tilewright.target import get_target

ENGINES = ("vector", "scalar", "gpsimd")
MARKS = ("decided", "decision")


@functools.cache
def declared() -> tuple[str, ...]:
    """Every name, in order; what has none of its own is named by its table: ways, ops, rules, engines."""
    target = get_target("trn2")
    rules = (*RULES, pick_from_memory(target), *small_products(target), by_halves(target))
    found = {f"op: {name}" for name in SPECIAL} | {f"rule: {rule.name}" for rule in rules}
    found |= {f"engine: {name}" for name in ENGINES}
    for name, text in package_sources():
        if name.startswith("lower/"):
            found |= set(_literals(ast.parse(text), name))
    return tuple(sorted(found))


def _literals(tree: ast.Module, name: str) -> list[str]:
    found: list[str] = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first = node.args[0]
        either = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
        names = [each.value for each in either if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        if called in MARKS:
            found += names
        elif called == "Candidate" and name == "lower/choose/ways.py":
            found += [f"way: {each}" for each in names]
    return found

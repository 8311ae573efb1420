"""What shapes and the parts of subscripts say as they are written."""

from __future__ import annotations

import ast


def is_ellipsis(part: ast.expr) -> bool:
    """..."""
    return isinstance(part, ast.Constant) and part.value is Ellipsis


def width(part: ast.Slice) -> int | None:
    """How many elements a slice has, where numbers say it."""
    low = part.lower.value if isinstance(part.lower, ast.Constant) else 0 if part.lower is None else None
    high = part.upper.value if isinstance(part.upper, ast.Constant) else None
    return high - low if isinstance(low, int) and isinstance(high, int) else None


def is_slice(part: ast.expr) -> bool:
    """A slice, or nl.ds."""
    named = part.func.attr if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) else None
    return isinstance(part, ast.Slice) or named == "ds"


def is_row(shape: ast.expr) -> bool:
    """A shape of one partition."""
    first = shape.elts[0] if isinstance(shape, (ast.Tuple, ast.List)) and len(shape.elts) > 1 else None
    return isinstance(first, ast.Constant) and first.value == 1


def is_zero(node: ast.expr) -> bool:
    """The number 0."""
    return isinstance(node, ast.Constant) and node.value == 0


def is_column(shape: ast.expr) -> bool:
    """A shape of one element per partition."""
    last = shape.elts[-1] if isinstance(shape, (ast.Tuple, ast.List)) and shape.elts else None
    return isinstance(last, ast.Constant) and last.value == 1

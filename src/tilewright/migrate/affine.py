"""Arithmetic of index tensors, and the calls that took it: iota and affine_select, now with a pattern."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from tilewright.migrate.calls import OldCall
from tilewright.migrate.values import SBUF, Affine, Along, Tensor, Term, Value

_ZERO = ast.Constant(0)
_COMPARED = {
    **{ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal"},
    **{ast.Eq: "equal", ast.NotEq: "not_equal"},
}


def affine(index: Value) -> Affine | None:
    """An index tensor as a sum of terms; None for anything else."""
    if isinstance(index, Affine):
        return index
    if not isinstance(index, Along):
        return None
    term = Term(index.axis, index.count, ast.Constant(index.step))
    return Affine((term,), index.start or _ZERO, index.rank)


def scaled(index: Affine, factor: ast.expr) -> Affine:
    """An index tensor times a number."""
    terms = tuple(replace(term, factor=product(term.factor, factor)) for term in index.terms)
    return Affine(terms, product(index.offset, factor), index.rank)


def added(one: Affine, two: Affine) -> Affine:
    """The sum of two index tensors, each repeated along the axes that only the other one has."""
    terms = {term.axis: term for term in one.terms}
    for term in two.terms:
        mine = terms.get(term.axis)
        terms[term.axis] = term if mine is None else replace(mine, factor=total(mine.factor, term.factor))
    return Affine(tuple(terms[axis] for axis in sorted(terms)), total(one.offset, two.offset), max(one.rank, two.rank))


def _number(node: ast.expr) -> int | float | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, (int, float)) else None


def product(one: ast.expr, two: ast.expr) -> ast.expr:
    """one * two, as short as it can be said."""
    left, right = _number(one), _number(two)
    if left is not None and right is not None:
        return ast.Constant(left * right)
    if left == 0 or right == 0:
        return _ZERO
    if left == 1 or right == 1:
        return two if left == 1 else one
    if left == -1 or right == -1:
        return ast.UnaryOp(ast.USub(), two if left == -1 else one)
    return ast.BinOp(one, ast.Mult(), two)


def total(one: ast.expr, two: ast.expr) -> ast.expr:
    """one + two, as short as it can be said."""
    left, right = _number(one), _number(two)
    if left is not None and right is not None:
        return ast.Constant(left + right)
    if left == 0 or right == 0:
        return two if left == 0 else one
    if isinstance(two, ast.UnaryOp) and isinstance(two.op, ast.USub):
        return ast.BinOp(one, ast.Sub(), two.operand)
    return ast.BinOp(one, ast.Add(), two)


@dataclass
class PatternCall(OldCall):
    """A call whose index tensor is a pattern now; all its arguments are given by name."""

    sizes: str = ""

    @property
    def result(self) -> dict[str, str]:
        return {"shape": self.sizes, "like": "on_true_tile"} if self.name == "affine_select" else {"shape": self.sizes}

    def value(self) -> Tensor:
        """What the new tile is."""
        return Tensor(SBUF, 2, self.sizes.endswith(", 1)"), self.sizes.startswith("(1,"))

    def with_destination(self, dst: ast.expr, **extra: ast.expr) -> ast.Call:
        """The call in its current form."""
        given = [ast.keyword(name, value) for name, value in self.given.items() if name != "dtype"]
        return ast.Call(self.node.func, [], [ast.keyword("dst", dst), *given])


def iota_call(node: ast.Call, given: dict[str, ast.expr], index: Affine) -> PatternCall:
    """iota(expression, dtype) as iota(dst, pattern, offset, channel_multiplier)."""
    terms = {term.axis: term for term in index.terms}
    pattern = [_step(terms.get(axis), ast.Constant(1)) for axis in range(1, max(index.rank, 2))]
    counts = [ast.unparse(step.elts[1]) for step in pattern]
    sizes = f"({ast.unparse(terms[0].count) if 0 in terms else 1}, {', '.join(counts)})"
    new = _pattern_arguments(terms, pattern, index.offset) | {"dtype": given["dtype"]}
    return PatternCall("iota", node, new, sizes=sizes)


def select_call(node: ast.Call, given: dict[str, ast.expr], difference: Affine, compared: ast.expr) -> PatternCall:
    """affine_select(left < right, tile, value) as a comparison of left - right with zero, for every element."""
    terms = {term.axis: term for term in difference.terms}
    tile = given["on_true_tile"]
    shape = ast.Attribute(tile, "shape", ast.Load())
    pattern = [
        _step(terms.get(axis), ast.Subscript(shape, ast.Constant(axis), ast.Load()))
        for axis in range(1, max(difference.rank, 2))
    ]
    new = _pattern_arguments(terms, pattern, difference.offset)
    new |= {name: given[name] for name in ("on_true_tile", "on_false_value")} | {"cmp_op": compared}
    new |= {name: given[name] for name in ("dtype",) if name in given}
    return PatternCall("affine_select", node, new, sizes="{on_true_tile}.shape")


def compared_as(op: ast.cmpop) -> str | None:
    """The operator of nki.language that a comparison is."""
    return _COMPARED.get(type(op))


def _step(term: Term | None, count: ast.expr) -> ast.List:
    parts = [_ZERO, count] if term is None else [term.factor, term.count]
    return ast.List(parts, ast.Load())


def _pattern_arguments(terms: dict[int, Term], pattern: list[ast.List], offset: ast.expr) -> dict[str, ast.expr]:
    multiplier = terms[0].factor if 0 in terms else _ZERO
    listed = ast.List([*pattern], ast.Load())
    return {"pattern": listed, "offset": offset, "channel_multiplier": multiplier}

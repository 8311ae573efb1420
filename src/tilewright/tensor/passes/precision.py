"""Precision of products: float32 ones may be computed from bfloat16 numbers, where the caller asks for it.

The Tensor engine multiplies bfloat16 several times as fast as float32. A float32 number is near the sum of two bfloat16
numbers, of which the first is the number rounded and the second the rest; of the four products of such sums the last
is smaller than what float32 accumulation rounds away.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tilewright.dtypes import bfloat16, float32
from tilewright.errors import TileValueError, fail
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.rewrite import Rule, rewrite, rule
from tilewright.tensor.build import value


@rule("matmul", exact=False, ulp=2**17)
def multiply_rounded(op: Op) -> Value | None:
    """matmul(x, y) -> matmul_wide(bf16(x), bf16(y))            x and y are float32"""
    x, y = op.operands
    return value("matmul_wide", _upper(x), _upper(y)) if _is_wide(op) else None


@rule("matmul", exact=False, ulp=2**9)
def multiply_in_three(op: Op) -> Value | None:
    """matmul(x + a, y + b) -> x @ y + (x @ b + a @ y)            x, y: rounded to bfloat16, a, b: what that left out"""
    if not _is_wide(op):
        return None
    (x, a), (y, b) = (_terms(v) for v in op.operands)
    rest = value("add", value("matmul_wide", x, b), value("matmul_wide", a, y))
    return value("add", value("matmul_wide", x, y), rest)


def _is_wide(op: Op) -> bool:
    """True for a product of float32 numbers, other than of narrower ones that were cast: those are multiplied fast."""
    casts = [v.producer for v in op.operands]
    narrow = {str(cast.operands[0].type.dtype) for cast in casts if cast is not None and cast.name == "cast"}
    both = len(narrow) == 1 and all(cast is not None and cast.name == "cast" for cast in casts)
    return op.result.type.dtype == "float32" and not (both and narrow <= {"bfloat16", "float16"})


def _upper(x: Value) -> Value:
    return value("cast", x, dtype=bfloat16)


def _terms(x: Value) -> tuple[Value, Value]:
    """A number rounded to bfloat16, and the rest, rounded too."""
    upper = _upper(x)
    return upper, _upper(value("subtract", x, value("cast", upper, dtype=float32)))


@dataclass(frozen=True, slots=True)
class Precision:
    """How products of float32 are computed: the rule that does it, and what that means for people.

    error: how far a product may be off, as a part of the sum of its absolute terms.
    """

    rule: Rule | None
    error: float
    meaning: str


PRECISIONS = {
    "float32": Precision(None, 2**-19, "products of float32 are float32"),
    "bf16": Precision(multiply_rounded, 2**-7, "both operands are rounded to bfloat16, which keeps 8 bits of each"),
    "bf16x3": Precision(multiply_in_three, 2**-15, "each operand is the sum of two bfloat16, which keeps 16 bits"),
}
"""What `precision=` may be."""


def check_precision(name: str) -> str:
    """A name of `PRECISIONS`; anything else is refused (E606)."""
    if name not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise fail("E606", f"precision {name!r} is not known", hint=f"choose one of {known}", error=TileValueError)
    return name


def lower_precision(graph: Graph, name: str) -> Counter[str]:
    """Rewrite the products of a graph for a precision; says how many there were."""
    found = PRECISIONS[name].rule
    return Counter() if found is None else rewrite(graph, [found], inexact=True)


def with_precision(graph: Graph, name: str) -> Graph | None:
    """Another graph, with its products as a precision has them; None where that changes none."""
    if PRECISIONS[name].rule is None:
        return None
    changed = graph.clone()
    return changed if lower_precision(changed, name) else None

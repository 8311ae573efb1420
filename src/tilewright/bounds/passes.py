"""Which ops of a program are passes over elements that no instruction does beside another.

Passes are functions of the engines' tables, operators on two whole arrays, reductions and scans of what no such pass
made. Free are moves, constants, casts, operators with numbers, rows or columns, and sums, which instructions do on the
way or the Tensor engine does.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from tilewright.bounds.facts import Analysis, record_of
from tilewright.bounds.kinds import HALF, Kinds
from tilewright.bounds.moves import MOVES, source_of
from tilewright.bounds.needed import Needs
from tilewright.bounds.products import PRODUCTS
from tilewright.ir.core import Op, Value
from tilewright.tensor.ops.elementwise import COMPARE

FUNCTIONS = frozenset(
    [
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "logaddexp", "logaddexp2"),
        *("sigmoid", "silu", "gelu", "gelu_tanh", "erf", "tanh", "sinh", "cosh", "arcsinh", "arccosh", "arctanh"),
        *("sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sin_near", "arctan_near"),
    ]
)
"""Ops that no arithmetic operator of an instruction does on the way."""

_TABLE = {"gelu_tanh": "gelu_apprx_tanh", "sin_near": "sin", "arctan_near": "arctan"}
"""What the engines call a function, where that is another name."""
_SUMS = frozenset({"add", "subtract"})
_REDUCTIONS = {"max": "maximum", "min": "minimum", "prod": "multiply", "argmax": "maximum", "argmin": "maximum"}
_SORTS = frozenset({"sort", "argsort", "topk"})
_FAR = 1 << 8
"""Ops that are followed back from one; what lies farther is taken to be free."""


class Pass(NamedTuple):
    """A form of work: function, one_input, two_inputs, contracted, sum, reduction or scan, and the operator; whether
    elements are wider than 16 bits."""

    form: str
    op: str
    wide: bool


class Passes:
    """The passes of a program."""

    def __init__(self, analysis: Analysis, needs: Needs) -> None:
        self._analysis = analysis
        self._needs = needs
        self._kinds = Kinds()
        self._roots: dict[Value, frozenset[int]] = {}
        self._passes: dict[Op, Pass | None] = {}

    def pass_of(self, op: Op) -> Pass | None:
        """The pass that an op needs by itself, if it does."""
        if op not in self._passes:
            self._passes[op] = self._pass_of(op)
        return self._passes[op]

    def _pass_of(self, op: Op) -> Pass | None:
        known = self._analysis[op.results[0]]
        if known.constant or op.name in MOVES or not any(self._needs.of(value).count for value in op.results):
            return None
        family = record_of(op).family
        if family == "elementwise":
            return self._elementwise(op)
        if op.name in _SORTS or (op.name in _REDUCTIONS and not self._is_made_by_pass(op.operands[0])):
            return Pass("reduction", _REDUCTIONS.get(op.name, "maximum"), self._is_wide(op))
        if family == "scan":
            return Pass("scan", "add" if op.name == "cumsum" else "multiply", self._is_wide(op))
        return None

    def _elementwise(self, op: Op) -> Pass | None:
        whole = list(dict.fromkeys(self._arrays(op)))
        wide = self._is_wide(op)
        if op.name in FUNCTIONS:
            return Pass("function", _TABLE.get(op.name, op.name), wide)
        if len(whole) < 2 or self._is_choice(op):
            return None
        if op.name in _SUMS:
            return self._sum(whole, wide)
        if self._is_of_one(whole):
            return Pass("one_input", "", wide)
        contracted = op.name == "multiply" and all(use.name == "sum" for use in op.result.uses)
        return Pass("contracted" if contracted else "two_inputs", "multiply", wide)

    def _arrays(self, op: Op) -> list[Value]:
        """Operands of a move or an elementwise op with an element for each of the result, which no rule describes."""
        if op.name in MOVES:
            return [x for x in op.values() if not self._analysis[x].computable]
        if record_of(op).family != "elementwise":
            return []
        return [x for x in op.values() if self._analysis[x].is_whole(self._analysis[op.results[0]])]

    def _is_choice(self, op: Op) -> bool:
        """Comparisons that only choices use, which may be made at once; choices by constants, which move."""
        if op.name == "where":
            return isinstance(op.operands[0], Value) and self._analysis[op.operands[0]].constant
        return op.name in COMPARE and all(use.name == "where" for use in op.result.uses)

    def _sum(self, whole: list[Value], wide: bool) -> Pass | None:
        """A sum is free where the Tensor engine adds it up: of products, or of what is made of the same array."""
        if any(self._ends_in_product(x) for x in whole):
            return None
        first, *others = (self._terms(x) for x in whole)
        if any(first & other for other in others):
            return None
        return Pass("sum", "add", wide)

    def _ends_in_product(self, x: Value) -> bool:
        """True for a product, perhaps moved, scaled or added to since."""
        for _ in range(_FAR):
            op = x.producer
            if op is None:
                return False
            if op.name in PRODUCTS or op.name == "sum":
                return True
            arrays = self._arrays(op)
            linear = op.name in MOVES or op.name in _SUMS or op.name in ("multiply", "divide", "negative")
            if not linear or not arrays:
                return False
            x = next((v for v in arrays if source_of(v).producer is not None), arrays[0])
        return False

    def _terms(self, x: Value) -> frozenset[int]:
        """Numbers of the arrays that a value is a linear combination of."""
        known = self._roots.get(x)
        if known is None:
            op = source_of(x).producer
            linear = op is not None and (
                op.name in _SUMS or op.name in ("negative", "sum", "concatenate", "pad", "cast")
            )
            scaled = op is not None and op.name == "multiply" and len(op.values()) == 1
            if op is not None and (linear or scaled) and len(self._roots) < 1 << 16:
                known = frozenset().union(*(self._terms(v) for v in op.values()))
            else:
                known = frozenset({self._analysis[x].number})
            self._roots[x] = known
        return known

    def _is_of_one(self, whole: list[Value]) -> bool:
        """True where all operands are functions of one array: a table may hold what is made of them."""
        return len({self._only_array(x) for x in whole}) == 1

    def _only_array(self, x: Value) -> int:
        """The number of the one array that elementwise ops made a value of, or its own."""
        for _ in range(_FAR):
            op = source_of(x).producer
            if op is None or record_of(op).family != "elementwise":
                break
            roots = {self._analysis[source_of(v)].number: v for v in self._arrays(op)}
            if len(roots) != 1:
                break
            (x,) = roots.values()
        return self._analysis[source_of(x)].number

    def _is_made_by_pass(self, x: Value) -> bool:
        """True where an instruction that makes a value, or reduces it to nothing else, can reduce it on the way."""
        for _ in range(_FAR):
            op = x.producer
            if op is None or self._analysis[x].constant:
                return self._analysis[x].constant
            if self.pass_of(op) is not None:
                return True
            if op.name not in MOVES and record_of(op).family != "elementwise":
                return False
            arrays = self._arrays(op)
            if not arrays:
                return True
            x = arrays[0]
        return True

    def _is_wide(self, op: Op) -> bool:
        return any(self._kinds.of(x) > HALF for x in op.operands if isinstance(x, Value))

    def elements(self, op: Op) -> float:
        """Operations on elements that a pass takes at least: of a reduction or scan of two elements, one for both."""
        family = record_of(op).family
        value = op.operands[0] if family in ("reduction", "sort") else op.results[0]
        facts = self._analysis[value]
        found = min(self._needs.of(value).both(facts.support).count, facts.distinct)
        if family not in ("reduction", "sort", "scan"):
            return found
        axes = op.attrs["axes"] if "axes" in op.attrs else (op.attrs["axis"],)
        length = max(prod(value.type.shape[a] for a in axes), 1)
        return found * (length - 1) / length

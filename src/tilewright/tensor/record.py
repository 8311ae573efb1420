"""How a tensor op is defined: once, every facet required.

    @op(family="shape", operands="x", attrs=("perm",), infer=_transposed, primitive=True)
    def transpose(x, perm):
        \"\"\"out[i[perm[0]], i[perm[1]], ...] = x[i[0], i[1], ...]\"\"\"
        return np.transpose(x, perm)

The function is the op's meaning on NumPy arrays; its docstring is the equation. `infer(*types, **attrs)` gives the type
of the result (or a tuple of types), where a Python number among the operands is passed as itself. Element types of the
operands are equal (a front end inserts casts, as NumPy's promotion asks); Python numbers take the type of the others.
`primitive` ops are those that lowering accepts: what `decompose` leaves.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import Diagnostic
from tilewright.ir.core import Op, Value
from tilewright.tensor.types import Scalar, TensorType
from tilewright.tensor.wellformed import faults, kind_of

FAMILIES = (
    *("creation", "elementwise", "reduction", "scan", "contraction", "shape", "index", "sort"),
    *("window", "linalg", "random", "collective"),
)

Infer = Callable[..., TensorType | tuple[TensorType, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRecord:
    """The one definition of a tensor op."""

    name: str
    family: str
    operands: tuple[str, ...]
    variadic: bool
    attrs: tuple[str, ...]
    infer: Infer
    meaning: Callable[..., Any]
    equation: str
    primitive: bool
    has_side_effects: bool = False

    def types(self, operands: Sequence[Any], attrs: dict[str, Any]) -> tuple[TensorType, ...]:
        """The types of the results for operands (values or Python numbers)."""
        found = self.infer(*(x.type if isinstance(x, Value) else x for x in operands), **attrs)
        return found if isinstance(found, tuple) else (found,)

    def verify(self, op: Op) -> Iterable[Diagnostic]:
        """Findings of one op: a wrong number of operands, other attributes, other result types than it infers."""
        given, wanted = len(op.operands), len(self.operands)
        if (given != wanted and not self.variadic) or given < wanted - 1:
            yield Diagnostic("E220", f"{self.name} takes {wanted} operands, not {given}", location=op.location)
            return
        if set(op.attrs) != set(self.attrs):
            names = ", ".join(sorted(op.attrs)) or "none"
            yield Diagnostic("E220", f"{self.name} has the attributes {names}", location=op.location)
            return
        dtypes = {x.type.dtype for x in op.operands if isinstance(x, Value)}
        if self.family == "elementwise" and len(dtypes) > 1 and self.name != "where":
            yield Diagnostic("E221", f"{self.name} of {', '.join(sorted(dtypes))}", location=op.location)
            return
        for fault in faults(op, numbers=self.family == "elementwise"):
            yield Diagnostic("E220", fault, location=op.location)
            return
        try:
            types = self.types(op.operands, dict(op.attrs))
        except (AssertionError, LookupError, TypeError, ValueError) as error:
            # What a rule for types does not expect of its operands and attributes.
            yield Diagnostic("E221", f"{self.name} has no type here: {error}", location=op.location)
            return
        said = tuple(value.type for value in op.results)
        if types == said and self.family == "elementwise":
            types = self._computed(op, types)
        if types != said:
            names = [", ".join(map(str, each)) for each in (said, types)]
            yield Diagnostic("E221", f"{self.name} is {names[0]}, it should be {names[1]}", location=op.location)

    def _computed(self, op: Op, types: tuple[TensorType, ...]) -> tuple[TensorType | str, ...]:
        """The types of an elementwise op's results as NumPy computes them, asked for one element of each operand."""
        dtype = next(x.type.dtype for x in reversed(op.operands) if isinstance(x, Value))
        one = [np.ones(1, x.type.dtype.np if isinstance(x, Value) else dtype.np) for x in op.operands]
        with np.errstate(all="ignore"):
            try:
                found = self.meaning(*one, **op.attrs)
            except (TypeError, ValueError):  # NumPy has no such function of these types
                return ("nothing",)
        results = found if isinstance(found, tuple) else (found,)
        return tuple(
            type if np.asarray(x).dtype == type.dtype.np else str(np.asarray(x).dtype)
            for type, x in zip(types, results, strict=True)
        )


TABLE: dict[str, OpRecord] = {}
"""Every tensor op by name."""


def op(
    *,
    family: str,
    operands: str,
    attrs: Sequence[str] = (),
    infer: Infer,
    primitive: bool,
    has_side_effects: bool = False,
) -> Callable[[Callable[..., Any]], OpRecord]:
    """Define a tensor op. `operands` are names; a last one with a star (`"*parts"`) stands for any number."""

    def declare(meaning: Callable[..., Any]) -> OpRecord:
        doc = inspect.getdoc(meaning) or ""
        return register(
            meaning.__name__.rstrip("_"), doc, meaning, family, operands, attrs, infer, primitive, has_side_effects
        )

    return declare


def register(
    name: str,
    equation: str,
    meaning: Callable[..., Any],
    family: str,
    operands: str,
    attrs: Sequence[str],
    infer: Infer,
    primitive: bool,
    has_side_effects: bool = False,
) -> OpRecord:
    """Enter an op in the table; what `op` does, for families that are tables of rows."""
    assert name not in TABLE, f"{name} is defined twice"
    assert family in FAMILIES, f"{name}: no family {family}"
    assert "=" in equation, f"the docstring of {name} must be its equation"
    names = tuple(operands.split())
    record = OpRecord(
        name=name,
        family=family,
        operands=tuple(n.lstrip("*") for n in names),
        variadic=bool(names) and names[-1].startswith("*"),
        attrs=tuple(attrs),
        infer=infer,
        meaning=meaning,
        equation=equation,
        primitive=primitive,
        has_side_effects=has_side_effects,
    )
    assert all(kind_of(name, attr) for attr in record.attrs)
    TABLE[name] = record
    return record


def result_dtype(*operands: TensorType | Scalar) -> Any:
    """The element type that the tensors among the operands share."""
    found = next((x.dtype for x in operands if isinstance(x, TensorType)), None)
    assert found is not None, "numbers alone have no element type"
    return found

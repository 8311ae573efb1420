"""narrow: a program in the element types that the hardware has.

Expects any verified graph. Guarantees that no value is float64, int64 or uint64: they become float32, int32 and uint32.
Decides nothing else. Floating point is computed in 32 bits then, which `places` names; integers that do not fit are
never wrapped: constants are refused here, what is computed is refused when it is run (E805). Integers beside floats
are compared and subtracted as in float64 (`wholes`).

An op that has to do with 64-bit integers keeps its original next to it (`Narrowed.wide`): running it means to compute
as NumPy does, in 64 bits, and to check that the result fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.dtypes import DType, float32, float64, int32, int64, uint32, uint64
from tilewright.errors import Location, TileError, fail
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.dense import Dense
from tilewright.tensor.interpret import Known, interpret, run_op
from tilewright.tensor.passes.wholes import Wholes, exact_casts
from tilewright.tensor.types import TensorType

NARROW: dict[DType, DType] = {float64: float32, int64: int32, uint64: uint32}
"""What is computed in place of a type that the hardware lacks."""

_OF_BITS = {"bitcast": "bit pattern", "spacing": "spacing"}
"""Ops that have other results in a type of fewer bits."""

# Attributes that are numbers of the result's element type.
_NUMBERS = {"full": ("value",), "pad": ("value",), "band": ("inside", "outside"), "iota": ("start",)}


@dataclass(frozen=True, slots=True)
class Place:
    """A value of the program that was narrowed: what made it, in the user's source, and both types."""

    name: str
    old: DType
    new: DType
    location: Location | None

    def __str__(self) -> str:
        where = f" at {self.location}" if self.location else ""
        return f"{self.name}: {self.old} computed as {self.new}{where}"


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A graph without 64-bit types. `wide`: ops of integers whose originals had 64 bits.

    exact: conversions of integers to floats that may not round.
    """

    graph: Graph
    places: tuple[Place, ...]
    wide: dict[Op, Op]
    exact: frozenset[Op]

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs, in the narrow types, for arrays in the original ones; E805 for integers that do not fit."""
        return interpret(self.graph, self.arguments(arrays), self._run_op)

    def follow(self, arrays: Sequence[np.ndarray], ops: set[Op]) -> None:
        """Compute some ops, all that they need among them, for E805 alone."""
        known = dict(zip(self.graph.inputs, self.arguments(arrays), strict=True))
        with np.errstate(all="ignore"):
            for op in self.graph.ops:
                if op in ops:
                    known.update(zip(op.results, self._run_op(op, known), strict=True))

    def arguments(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Arrays in the narrow types; E805 for numbers that do not fit."""
        inputs = zip(self.graph.inputs, arrays, strict=True)
        return [narrowed_array(x, value.type.dtype, f"argument {value.name}") for value, x in inputs]

    def _run_op(self, op: Op, known: dict[Value, np.ndarray]) -> tuple[np.ndarray, ...]:
        if op in self.exact:
            _check_exact(known[op.operands[0]], op)
        original = self.wide.get(op)
        if original is None:
            return run_op(op, known)
        pairs = zip(op.operands, original.operands, strict=True)
        widened = {
            old: known[new].astype(old.type.dtype.np, copy=False) for new, old in pairs if isinstance(old, Value)
        }
        results = run_op(original, widened)
        return tuple(
            narrowed_array(x, value.type.dtype, op.name, op.location)
            for x, value in zip(results, op.results, strict=True)
        )


def narrow(graph: Graph) -> Narrowed:
    """The graph in 32-bit types, and where that made a difference."""
    places: dict[Place, None] = {}
    wide: dict[Op, Op] = {}
    mapping: dict[Value, Value] = {}
    conversions: set[Op] = set()
    exact, whole = exact_casts(graph), Wholes(mapping)
    made = Graph(graph.name, (), (), graph.attrs, graph.dialect, graph.location)
    for value in graph.inputs:
        mapping[value] = _narrow_value(value)
        made.inputs.append(mapping[value])
        _note(places, f"argument {value.name}", value.type, graph.location)
    for op in graph.ops:
        for value in op.results:
            _note(places, op.name, value.type, op.location)
        instead = whole.exact(op)
        if instead is not None:
            for each in instead:
                each.location = op.location
                made.append(each)
            mapping[op.result] = instead[-1].result
            mapping[op.result].name = op.result.name
            continue
        new = _narrow_op(op, mapping)
        made.append(new)
        if any(_is_wide_integer(value) for value in (*op.values(), *op.results)):
            wide[new] = op
        if op in exact:
            conversions.add(new)
    made.outputs = [mapping[value] for value in graph.outputs]
    return Narrowed(made, tuple(places), wide, frozenset(conversions))


def _note(places: dict[Place, None], name: str, type: TensorType, location: Location | None) -> None:
    if type.dtype in NARROW:
        places[Place(name, type.dtype, NARROW[type.dtype], location)] = None


def _is_wide_integer(value: Value) -> bool:
    return value.type.dtype in NARROW and value.type.dtype is not float64


def _narrow_type(type: TensorType) -> TensorType:
    return type.with_dtype(NARROW[type.dtype]) if type.dtype in NARROW else type


def _narrow_value(value: Value) -> Value:
    return Value(_narrow_type(value.type), value.name)


def _narrow_op(op: Op, mapping: dict[Value, Value]) -> Op:
    _check_numbers(op)
    operands = [mapping[x] if isinstance(x, Value) else x for x in op.operands]
    attrs = {name: _narrow_attr(x, op) for name, x in op.attrs.items()}
    results = [mapping.setdefault(value, _narrow_value(value)) for value in op.results]
    return Op(op.definition, operands, results, attrs, location=op.location)


def _narrow_attr(x: Any, op: Op) -> Any:
    if isinstance(x, DType):
        return NARROW.get(x, x)
    if isinstance(x, Dense) and x.dtype in NARROW:
        dtype = NARROW[x.dtype]
        return Dense(narrowed_array(x.array, dtype, "a constant", op.location), dtype)
    return x


def _check_numbers(op: Op) -> None:
    """Refuse bits of 64-bit types, and numbers in the op that its narrow type cannot hold."""
    types = [value.type for value in (*op.values(), *op.results)]
    dtype = next((type.dtype for type in types if type.dtype in NARROW), None)
    if dtype is None:
        return
    if op.name in _OF_BITS:
        raise fail(
            "E805",
            f"the {_OF_BITS[op.name]} of {dtype} is asked for, which is computed as {NARROW[dtype]}",
            hint="convert the array to a 32-bit type before: x.astype(np.float32)",
            location=op.location,
        )
    numbers = [x for x in op.operands if isinstance(x, (int, float))]
    numbers += [op.attrs[name] for name in _NUMBERS.get(op.name, ())]
    for number in numbers:
        narrowed_array(np.asarray(number, dtype.np), NARROW[dtype], f"{op.name} with the number {number}", op.location)


def narrowed_array(array: np.ndarray, dtype: DType, what: str, location: Location | None = None) -> np.ndarray:
    """The array in a narrow type; E805 where a number does not fit. Floats round, NaN and infinity stay."""
    if array.dtype == dtype.np:
        return array
    if dtype.is_float:
        with np.errstate(over="ignore"):
            made = array.astype(dtype.np)
        if np.isfinite(made).all():
            return made
        beyond = np.isfinite(array) & ~np.isfinite(made)
        if beyond.any():
            raise _too_large(array[beyond], array.dtype, dtype, what, location)
        return made
    if array.size and (array.min() < dtype.min or array.max() > dtype.max):
        raise _too_large(array[(array < dtype.min) | (array > dtype.max)], array.dtype, dtype, what, location)
    return array.astype(dtype.np)


def check_floats(graph: Graph, arrays: Sequence[np.ndarray]) -> None:
    """E805 where a graph in NumPy's types makes a float64 that float32 does not reach."""

    def run(op: Op, known: Known) -> tuple[np.ndarray, ...]:
        results = run_op(op, known)
        for x in results:
            if x.dtype == np.float64:
                narrowed_array(x, float32, op.name, op.location)
        return results

    interpret(graph, arrays, run)


def _check_exact(array: np.ndarray, op: Op) -> None:
    """E805 for integers that float32 does not hold."""
    dtype = op.result.type.dtype
    beyond = array.astype(dtype.np).astype(np.float64) != array
    if beyond.any():
        raise fail(
            "E805",
            f"{op.name}: {array[beyond].ravel()[0]} is computed with in float64, and {dtype} does not hold it",
            hint="the hardware has no 64-bit types: stay with integers here, or keep them below 2**24",
            location=op.location,
        )


def _too_large(numbers: np.ndarray, old: np.dtype, dtype: DType, what: str, location: Location | None) -> TileError:
    return fail(
        "E805",
        f"{what}: {numbers.ravel()[0]} does not fit {dtype}, in which {old} is computed",
        hint="the hardware has no 64-bit types: keep the numbers smaller, or compute with float32",
        location=location,
    )

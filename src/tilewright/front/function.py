"""From a Python function to a graph: traced arrays in, the arrays it returns and those it wrote to out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilewright.front.functions  # noqa: F401  (fills the registry)
from tilewright.dtypes import host_dtype
from tilewright.errors import Location, TileTypeError, fail
from tilewright.front.array import TracedArray, memoryless
from tilewright.front.pytree import Placeholder, map_leaves
from tilewright.front.storage import Cell
from tilewright.front.trace import Trace, tracing
from tilewright.ir.core import Graph, Value
from tilewright.spec import ArraySpec
from tilewright.tensor.types import TensorType


@dataclass(frozen=True, slots=True)
class Input:
    """An array among the arguments: where it stands, and its type."""

    path: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class Output(Placeholder):
    """A leaf of the result that the program computes. `same_as`: the argument that the function gave back."""

    place: int
    type: TensorType
    is_scalar: bool
    same_as: int | None = None


@dataclass(frozen=True, slots=True)
class Traced:
    """A function as a graph. Outputs of the graph: what the result's tree refers to, then arguments written to."""

    graph: Graph
    inputs: tuple[Input, ...]
    result: Any
    writes: tuple[tuple[int, int], ...]
    """Pairs (argument, output of the graph) of arguments that the function changes."""


def trace(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Traced:
    """Run a function on traced arrays in place of its array arguments."""
    name = getattr(function, "__name__", "program")
    inputs: list[Input] = []
    arrays: list[TracedArray] = []
    program = Trace("program" if name == "<lambda>" else name)
    program.graph.location = _location_of(function)

    def admit(path: str, x: Any) -> Any:
        if not isinstance(x, (np.ndarray, ArraySpec)):
            return x
        type = TensorType(host_dtype(x.dtype, path), x.shape)
        value = Value(type, path.lstrip("."))
        program.graph.inputs.append(value)
        inputs.append(Input(path, type))
        shadow = memoryless(x.dtype, x.shape, x.strides) if isinstance(x, np.ndarray) else None
        writeable = isinstance(x, ArraySpec) or x.flags.writeable
        arrays.append(TracedArray(Cell(value), type, shadow, writeable=writeable))
        return arrays[-1]

    with tracing(program):
        names = _names(function, args, kwargs)
        given = [map_leaves(x, admit, path) for path, x in zip(names, args, strict=True)]
        named = {key: map_leaves(x, admit, key) for key, x in kwargs.items()}
        result = function(*given, **named)
        return _finish(program, inputs, arrays, result)


def _finish(program: Trace, inputs: list[Input], arrays: list[TracedArray], result: Any) -> Traced:
    outputs: list[Value] = []

    def give(path: str, x: Any) -> Any:
        if not isinstance(x, TracedArray):
            return x
        outputs.append(x.value)
        same = next((place for place, each in enumerate(arrays) if each is x), None)
        return Output(len(outputs) - 1, x.type, x.is_scalar, same)

    tree = map_leaves(result, give)
    writes: list[tuple[int, int]] = []
    for place, (array, value) in enumerate(zip(arrays, program.graph.inputs, strict=True)):
        if array.storage.root.value is not value:
            writes.append((place, len(outputs)))
            outputs.append(array.storage.root.value)
    program.graph.outputs = outputs
    return Traced(program.graph, tuple(inputs), tree, tuple(writes))


def _names(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
    """The parameter that each positional argument goes to."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some functions of C have none
        return [f"x{place}" for place in range(len(args))]
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name = getattr(function, "__name__", "the function")
        raise fail("E806", f"{name}: {error}", error=TileTypeError) from None
    found: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            found += [f"{parameter.name}[{place}]" for place in range(len(args) - len(found))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            found.append(parameter.name)
    return found[: len(args)]


def _location_of(function: Callable[..., Any]) -> Location | None:
    code = getattr(function, "__code__", None)
    return None if code is None else Location(code.co_filename, code.co_firstlineno)

"""From a Python function to a graph: traced arrays in, the arrays it returns and those it wrote to out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.dtypes import host_dtype
from tilewright.errors import TileError, TileTypeError, fail, raised_at
from tilewright.front.array import TracedArray, memoryless
from tilewright.front.binding import bind
from tilewright.front.foreign import refuse_foreign
from tilewright.front.local import LocalArray, settle
from tilewright.front.methods import host_data
from tilewright.front.namespace import traced_namespace
from tilewright.front.pytree import Placeholder, argument_leaves, leaves, map_leaves
from tilewright.front.results import check_function, check_result, location_of
from tilewright.front.selection import Selection, unknown_count
from tilewright.front.storage import Cell
from tilewright.front.trace import Trace, tracing
from tilewright.interop import check_plain
from tilewright.ir.core import Graph, Op, Value
from tilewright.spec import ArraySpec, check_rank
from tilewright.tensor.interpret import interpret
from tilewright.tensor.types import TensorType

Prepare = Callable[[Trace], None]
"""Told of a trace before its function runs."""


@dataclass(frozen=True, slots=True)
class Input(Placeholder):
    """An array among the arguments: its path, its place among the graph's inputs, its type, how it lies in memory."""

    path: str
    place: int
    type: TensorType
    strides: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Output(Placeholder):
    """A leaf of the result that the program computes. `same_as`: the input that the function gave back."""

    place: int
    type: TensorType
    is_scalar: bool
    same_as: int | None = None


@dataclass(frozen=True, slots=True)
class Traced:
    """A function as a graph. Outputs of the graph: what the result's tree refers to, then arguments written to."""

    function: Callable[..., Any]
    graph: Graph
    arguments: dict[str, Any]
    """The arguments by parameter, with an `Input` in place of every array."""
    result: Any
    """What the function returned, with an `Output` in place of every traced array."""
    writes: tuple[tuple[int, int], ...]
    """Pairs (input, output of the graph) of arguments that the function changes."""
    positional: int
    """How many of the arguments are passed by position, the first ones."""
    prepare: Prepare | None = None
    """What the trace was prepared by, for tracing the function again."""
    unwritten: frozenset[Op] = frozenset()
    """Ops that give a number to elements that NumPy leaves as memory has them."""

    @property
    def inputs(self) -> list[Input]:
        """Every array among the arguments, in order; one that is given twice stands there twice."""
        return [x for _, x in argument_leaves(self.arguments) if isinstance(x, Input)]


def trace(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], prepare: Prepare | None = None
) -> Traced:
    """Run a function on traced arrays in place of its array arguments.

    Arguments that are the same array are traced as different ones, so that the program can be used for any arrays,
    unless the function writes to one of them.
    """
    found = _trace(function, args, kwargs, False, prepare)
    arrays = [x for _, x in leaves((list(args), kwargs)) if isinstance(x, np.ndarray)]
    return _trace(function, args, kwargs, True, prepare) if found.writes and _has_twins(arrays) else found


def of_graph(graph: Graph) -> Traced:
    """A program that is known as a graph alone, such as one that was read: the function is its meaning."""

    def function(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(interpret(graph, arrays))

    names = [f"arrays[{place}]" for place in range(len(graph.inputs))]
    inputs = zip(names, graph.inputs, strict=True)
    given = {name: Input(name, place, value.type, None) for place, (name, value) in enumerate(inputs)}
    result = tuple(Output(place, value.type, False) for place, value in enumerate(graph.outputs))
    return Traced(function, graph, given, result, (), len(given))


def _has_twins(arrays: Sequence[np.ndarray]) -> bool:
    return len({id(x) for x in arrays}) < len(arrays)


def _trace(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], shared: bool, prepare: Prepare | None
) -> Traced:
    check_function(function)
    name = getattr(function, "__name__", "program")
    program = Trace("program" if name == "<lambda>" else name)
    program.graph.location = location_of(function)
    if prepare is not None:
        prepare(program)
    arrays: dict[Any, TracedArray] = {}
    described: dict[int, Input] = {}

    def admit(path: str, x: Any) -> Any:
        refuse_foreign(f"argument {path}", x)
        if not isinstance(x, (np.ndarray, ArraySpec)):
            return x
        check_plain(path, x)
        key = id(x) if shared and isinstance(x, np.ndarray) else path
        if key not in arrays:
            given = _input(path, x, len(program.graph.inputs))
            value = Value(given.type, path)
            program.graph.inputs.append(value)
            shadow = None if given.strides is None else memoryless(given.type.dtype.np, x.shape, given.strides)
            writeable = isinstance(x, ArraySpec) or bool(x.flags.writeable)
            arrays[key] = TracedArray(Cell(value), given.type, shadow, writeable=writeable)
            described[id(arrays[key])] = given
        return arrays[key]

    with tracing(program):
        bound = bind(function, args, kwargs)
        given = {path: map_leaves(x, admit, path) for path, x in bound.arguments.items()}
        before = argument_leaves(given)
        try:
            result = _call(function, bound.args(given), bound.kwargs(given))
        except (AttributeError, TypeError):
            if not arrays:
                _check_shapes(bound.arguments)
            raise
        _check_unchanged(before, argument_leaves(given))
        tree, outputs, writes = _outputs(program, list(arrays.values()), result)
    check_result(function, tree, bool(writes) or any(each.storage.root in program.written for each in arrays.values()))
    program.graph.outputs = outputs
    template = map_leaves(given, lambda _, x: described[id(x)] if isinstance(x, TracedArray) else x)
    return Traced(
        function, program.graph, template, tree, writes, bound.positional, prepare, frozenset(program.unwritten)
    )


def _call(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    try:
        with traced_namespace():
            return function(*args, **kwargs)
    except ValueError as error:
        # NumPy puts an error of its own in place of one that a conversion raises.
        if isinstance(error, TileError) or not isinstance(error.__cause__, TileError):
            raise
        raise error.__cause__ from None
    except TypeError as error:
        # Python names classes that an operation is not defined for between quotes: as with NumPy's arrays.
        name = TracedArray.__name__
        if isinstance(error, TileError) or name not in str(error) or f"'{name}'" in str(error):
            raise
        hint = "convert arrays by x.astype(dtype); what is not of NumPy takes numbers alone"
        raise host_data(str(error), hint, raised_at(error)) from error


def _check_shapes(arguments: dict[str, Any]) -> None:
    """E806 where a shape was given in place of an array, and no array at all: the function has failed by then."""
    for path, x in arguments.items():
        if isinstance(x, (tuple, list)) and x and all(isinstance(size, int) for size in x):
            hint = f"an array is described by its shape and element type: tw.spec({tuple(x)}, 'float32')"
            raise fail("E806", f"argument {path} is {x}, which is no array", hint=hint, error=TileTypeError) from None


def _input(path: str, x: np.ndarray | ArraySpec, place: int) -> Input:
    check_rank(x.shape)
    type = TensorType(host_dtype(x.dtype, f"argument {path}"), x.shape)
    strides = x.strides if isinstance(x, np.ndarray) and not x.flags.c_contiguous else None
    return Input(path, place, type, strides)


def _outputs(
    program: Trace, arrays: list[TracedArray], result: Any
) -> tuple[Any, list[Value], tuple[tuple[int, int], ...]]:
    # A value is stored once, whatever has it: an argument that is changed and given back is one array.
    values: dict[Value, int] = {}

    def give(path: str, x: Any) -> Any:
        if isinstance(x, Selection):
            raise unknown_count("x[mask] as a result", "np.where(mask, x, 0), which keeps the shape")
        x = settle(x)
        if not isinstance(x, TracedArray):
            return np.array(x) if isinstance(x, LocalArray) else x
        same = next((place for place, each in enumerate(arrays) if each is x), None)
        return Output(values.setdefault(x.value, len(values)), x.type, x.is_scalar, same)

    tree = map_leaves(result, give)
    writes: list[tuple[int, int]] = []
    for place, (array, value) in enumerate(zip(arrays, program.graph.inputs, strict=True)):
        if array.shape != value.type.shape:
            raise fail(
                "E806", f"the function changes the shape of argument {value.name} in place", hint="use x.reshape(shape)"
            )
        content = array.storage.root.value
        if content is not value:
            writes.append((place, values.setdefault(content, len(values))))
    return tree, list(values), tuple(writes)


def _check_unchanged(before: list[tuple[str, Any]], after: list[tuple[str, Any]]) -> None:
    """A list or dict among the arguments keeps its items: the caller's own is another object."""
    if len(before) == len(after) and all(x[0] == y[0] and x[1] is y[1] for x, y in zip(before, after, strict=True)):
        return
    known = dict(before)
    changed = next((path for path, x in after if known.get(path) is not x), before[-1][0])
    raise _changed_argument(changed)


def _changed_argument(path: str) -> TileError:
    return fail(
        "E806",
        f"the function puts another object at {path} of its arguments",
        hint="return what is new, or write into the array: x[...] = y",
        error=TileTypeError,
    )

"""What tests of emission share: emitted source is run by our own nki, and its instructions are those of the kernel."""

from __future__ import annotations

import ast
import itertools
import linecache
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import tilewright.nki as nki
from tilewright.emit import Header, emit
from tilewright.emit.layout import WIDTH
from tilewright.emit.source import IMPORTS
from tilewright.ir.core import Graph, Op, Region, Value
from tilewright.nki.kernel import Kernel, Run, run_kernel
from tilewright.sim.run import run_graph
from tilewright.target import Target, get_target
from tilewright.tile.memory import SHARED_HBM
from tilewright.tile.ops import ALLOC, DEALLOC, FOR, REGISTER, trips
from tilewright.tile.view import Dynamic, View

NO_HEADER = Header()


def load(source: str, name: str = "kernel") -> Any:
    """The kernel of emitted source; its lines can be read like those of a file."""
    file = f"<emitted {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    # The emitted module imports nki by its own name; here that is ours.
    head = "\n".join(IMPORTS)
    assert source.startswith(head)
    space: dict[str, Any] = {"nki": nki, "nisa": nki.isa, "nl": nki.language}
    exec(compile("\n" * head.count("\n") + source.removeprefix(head), file, "exec"), space)
    (kernel,) = [value for value in space.values() if isinstance(value, Kernel)]
    return kernel


def run_source(
    source: str, arrays: Sequence[np.ndarray], target: str | Target = "trn2", profile: str = "strict"
) -> Run:
    """Run emitted source on the simulator."""
    return run_kernel(load(source), [array.copy() for array in arrays], {}, target, profile)


# What the NKI compiler takes of Python, as far as emitted kernels need it.
ACCEPTED = (
    ast.Module,
    ast.Import,
    ast.alias,
    ast.FunctionDef,
    ast.arguments,
    ast.arg,
    ast.For,
    ast.Pass,
    ast.Assign,
    ast.Assert,
    ast.Compare,
    ast.BoolOp,
    ast.cmpop,
    ast.boolop,
    ast.Expr,
    ast.Return,
    ast.Call,
    ast.keyword,
    ast.Attribute,
    ast.Name,
    ast.Constant,
    ast.Subscript,
    ast.Slice,
    ast.Tuple,
    ast.List,
    ast.BinOp,
    ast.UnaryOp,
    ast.expr_context,
    ast.operator,
    ast.unaryop,
)


def check_subset(source: str) -> None:
    """The source stays within what the NKI compiler takes, and within lines that people can read."""
    tree = ast.parse(source)
    helpers = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.decorator_list]
    for node in ast.walk(tree):
        assert isinstance(node, ACCEPTED), ast.dump(node)
        if isinstance(node, ast.FunctionDef):
            given = node.args
            assert not (given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs or given.defaults)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id in ("range", "float", *helpers)
        elif isinstance(node, ast.Constant) and isinstance(node.value, int):
            assert -(2**31) <= node.value < 2**31
    # Only the docstring's own first line and lists of numbers may be longer.
    assert all(len(line) <= WIDTH for line in source.splitlines()), max(source.splitlines(), key=len)
    assert not any(line != line.rstrip() for line in source.splitlines())


def same(
    graph: Graph,
    arrays: Sequence[np.ndarray],
    target: str = "trn2",
    api: str | None = None,
    header: Header = NO_HEADER,
) -> str:
    """Emit a kernel and run it: the same instructions as the graph has, and bit-identical results; gives the source."""
    source = emit(graph, get_target(target), header, None, api)
    assert emit(graph, get_target(target), header, None, api) == source
    check_subset(source)
    made = run_source(source, arrays, target)
    same_stream(graph, made.session.graph)
    expected = run_graph(graph, arrays, target)
    results = made.result if isinstance(made.result, tuple) else (made.result,)
    for mine, theirs in zip(results, expected, strict=True):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        assert mine.tobytes() == theirs.tobytes()
    return source


# Instruction streams.


def same_stream(one: Graph, two: Graph, tell_tiles: bool = True) -> None:
    """Both kernels execute the same instructions on the same accesses, tensors told apart by their order.

    tell_tiles: False where one kernel uses a tile again for which the other has a new one.
    """
    for mine, theirs in itertools.zip_longest(stream(one, tell_tiles), stream(two, tell_tiles)):
        assert mine == theirs, f"{mine}\nis not\n{theirs}"


def stream(graph: Graph, tell_tiles: bool = True) -> Iterator[Any]:
    """What a kernel executes, in order and in a form that two kernels share: tensors are numbered as they come."""
    numbers: dict[Value, Any] = {value: ("input", i) for i, value in enumerate(graph.inputs)}
    results = [value for value in graph.declared if value not in numbers]
    count = itertools.count()
    for op, indices in executed(graph.body, {}):
        if op.definition is ALLOC:
            # Another trip of the loop: another tensor.
            numbers.pop(op.result, None)
            if op.result.type.memory is SHARED_HBM:
                results.append(op.result)
            continue
        numbers |= {value: ("result", i) for i, value in enumerate(results)}
        for value in [*op.values(), *op.results]:
            if value not in numbers and value not in indices:
                numbers[value] = (next(count) if tell_tiles else None, value.type)
        if op.definition is REGISTER:
            yield op.attrs, [numbers[value] for value in op.operands]
        else:
            yield Numbered(numbers, indices).instruction(op)


def executed(region: Region, indices: dict[Value, int]) -> Iterator[tuple[Op, dict[Value, int]]]:
    """Every op in the order of execution, with the loop indices of the moment."""
    for op in region.ops:
        if op.definition is FOR:
            for index in trips(op):
                indices[op.regions[0].arguments[0]] = index
                yield from executed(op.regions[0], indices)
        elif op.definition is not DEALLOC:
            yield op, indices


class Numbered:
    """An instruction with tensors, registers and loop indices as numbers."""

    def __init__(self, numbers: dict[Value, Any], indices: dict[Value, int]) -> None:
        self._numbers = numbers
        self._indices = indices

    def instruction(self, op: Op) -> Any:
        specs = list(op.definition.operands.values())
        operands = []
        for position, operand in enumerate(op.operands):
            spec = specs[min(position, len(specs) - 1)]
            # An operand at its default may be left out.
            operands.append(None if operand is None or repr(operand) == repr(spec.default) else self._operand(operand))
        return op.name, operands, {key: _plain(value) for key, value in op.attrs.items()}

    def _operand(self, operand: Any) -> Any:
        if isinstance(operand, View):
            offset = operand.offset + sum(self._indices[value] * factor for value, factor in operand.terms)
            # A step over one element is none.
            steps = [step if size > 1 else 0 for size, step in zip(operand.sizes, operand.strides, strict=True)]
            chosen = None if operand.dynamic is None else self._dynamic(operand.dynamic)
            if operand.dynamic is not None and operand.dynamic.kind == "vector" and operand.dynamic.limit == 1:
                steps[0] = 0
            return self._numbers[operand.buffer], operand.dtype, offset, operand.sizes, steps, chosen
        return self._numbers[operand] if isinstance(operand, Value) else _plain(operand)

    def _dynamic(self, dynamic: Dynamic) -> Any:
        # An index that can only be 0 steps over nothing.
        stride = dynamic.stride if dynamic.limit != 1 else 0
        return dynamic.kind, self._operand(dynamic.index), stride, dynamic.limit


def _plain(value: Any) -> str:
    """A constant as the device has it: numbers are float32."""
    return repr(float(np.float32(value))) if isinstance(value, float) else repr(value)

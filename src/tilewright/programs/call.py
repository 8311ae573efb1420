"""The ops that programs have beyond tensor IR: calls of kernels, barriers between them, and what the host reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tilewright.errors import Diagnostic
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.parse import Reader
from tilewright.ir.text import Printer
from tilewright.programs.code import Code
from tilewright.tensor.record import OpRecord
from tilewright.tensor.types import TensorType


class _CallAssembly:
    """`%y = call %x, %w {kernel = name} : f32[4, 4]`: the kernel itself stands below the program."""

    def write(self, printer: Printer, op: Op) -> str:
        """The text after the name."""
        types = ", ".join(str(value.type) for value in op.results)
        name = printer.attrs({"kernel": op.attrs["kernel"].name})
        return f"{printer.operands(op.operands)}{name} : {types}"

    def read(self, reader: Reader, definition: Any, names: list[str | None]) -> Op:
        """Read what `write` wrote; the kernel is known by its name until all of the text is read."""
        operands = [reader.operand()]
        while reader.accept(","):
            operands.append(reader.operand())
        token = reader.peek()
        attrs = reader.attrs()
        if set(attrs) != {"kernel"} or not isinstance(attrs["kernel"], str):
            raise reader.error("a call has one attribute, the name of its kernel", token)
        reader.expect(":")
        types = [reader.type()]
        while reader.accept(","):
            types.append(reader.type())
        if len(types) != len(names):
            raise reader.error(f"call: {len(names)} results are named, {len(types)} types are given", token)
        results = [Value(type, name) for type, name in zip(types, names, strict=True)]
        return Op(definition, operands, results, {"kernel": Code(attrs["kernel"])})


def _call_types(*operands: Any, kernel: Code) -> tuple[TensorType, ...]:
    return kernel.outputs


def _run_kernel(*arrays: np.ndarray, kernel: Code) -> tuple[np.ndarray, ...]:
    return tuple(kernel.run(arrays))


class CallRecord(OpRecord):
    """The record of `call`: as that of a tensor op, but its types are those of its kernel."""

    assembly = _CallAssembly()

    def verify(self, op: Op) -> Iterable[Diagnostic]:
        """Findings of one call; none while its kernel is not known."""
        kernel = op.attrs["kernel"]
        if not kernel.graphs:
            return
        for what, said, wanted in (
            ("takes", [x.type if isinstance(x, Value) else x for x in op.operands], kernel.inputs),
            ("gives", [value.type for value in op.results], kernel.outputs),
        ):
            if list(said) != list(wanted):
                shown = [", ".join(map(str, each)) or "nothing" for each in (wanted, said)]
                message = f"kernel {kernel.name} {what} {shown[0]}, the call says {shown[1]}"
                yield Diagnostic("E221", message, location=op.location)


CALL = CallRecord(
    name="call",
    family="call",
    operands=("operands",),
    variadic=True,
    attrs=("kernel",),
    infer=_call_types,
    meaning=_run_kernel,
    equation="out = kernel(operands)",
    primitive=False,
)


def _nothing(*arrays: np.ndarray, **attrs: Any) -> tuple[()]:
    return ()


class _Mark(OpRecord):
    """An op without results that says something about the order of others."""

    def verify(self, op: Op) -> Iterable[Diagnostic]:
        """Findings: attributes or results that it does not have."""
        if op.results or set(op.attrs) != set(self.attrs):
            yield Diagnostic("E220", f"{self.name} has {self.attrs or 'no attributes'} and no result")


def _mark(name: str, equation: str) -> _Mark:
    return _Mark(
        name=name,
        family="call",
        operands=(),
        variadic=False,
        attrs=(),
        infer=lambda: (),
        meaning=_nothing,
        equation=equation,
        primitive=False,
        has_side_effects=True,
    )


BARRIER = _mark("barrier", "what stands before it = another executable than what stands behind")
STEP = _mark("step", "what stands before it = may run now")

READ = _Mark(
    name="read",
    family="call",
    operands=("x",),
    variadic=False,
    attrs=("value",),
    infer=lambda x, value: (),
    meaning=_nothing,
    equation="the host = x, which was value",
    primitive=False,
    has_side_effects=True,
)

OPS: dict[str, OpRecord] = {record.name: record for record in (CALL, BARRIER, STEP, READ)}


def calls_of(graph: Graph) -> list[Op]:
    """The calls of kernels in a program, in order."""
    return [op for op in graph.ops if op.definition is CALL]


def kernels_of(graph: Graph) -> list[Code]:
    """The kernels that a program calls, each once, in the order of their first calls."""
    return list(dict.fromkeys(op.attrs["kernel"] for op in calls_of(graph)))

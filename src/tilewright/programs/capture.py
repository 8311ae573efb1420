"""Capturing a program: a function runs on traced arrays, and what it calls becomes ops of one graph.

NumPy's functions become tensor ops, as for `tw.compile`. A kernel that somebody wrote in NKI is recorded for the shapes
that it is called with, and what `tw.compile` or `tw.jit` made is taken as it is: both are a `call` of their code.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from weakref import WeakSet

import numpy as np

from tilewright.compiler import Compiled
from tilewright.dtypes import host_dtype
from tilewright.errors import TileTypeError, fail
from tilewright.front.array import TracedArray, as_traced, new
from tilewright.front.calling import matched
from tilewright.front.function import Output
from tilewright.front.jit import Jit
from tilewright.front.lift import constant_of
from tilewright.front.pytree import map_leaves
from tilewright.front.storage import reshaped
from tilewright.front.trace import Trace, current, emit, emit_all, is_tracing
from tilewright.ir.core import Graph, Value
from tilewright.ir.dense import Dense
from tilewright.nki.kernel import Kernel
from tilewright.programs.call import BARRIER, CALL, READ
from tilewright.programs.code import COMPILED, Code
from tilewright.programs.recording import Numbers, Recorded, array_leaves, call_key, record_kernel
from tilewright.programs.text import PROGRAM
from tilewright.spec import ArraySpec
from tilewright.target import Target
from tilewright.tensor.types import TensorType
from tilewright.tile.memory import row_major
from tilewright.tile.view import View

Replacements = Mapping[str, Callable[..., Any]]


@dataclass
class Capture:
    """Takes the calls of one function that is being captured.

    replace: functions to call in place of kernels, by name ("moe", all of its calls) or by call ("moe[2]", the third).
    read: computes a value of the graph so far, for the host.
    """

    target: Target
    profile: str | None = None
    replace: Replacements = field(default_factory=dict)
    keeps_compiled: bool = True
    read: Callable[[Graph, Value], np.ndarray | None] | None = None
    replaced: list[str] = field(default_factory=list)
    _recorded: dict[Hashable, Recorded] = field(default_factory=dict)
    _codes: dict[tuple[str, str], Code] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    _calls: dict[str, int] = field(default_factory=dict)

    def prepare(self, trace: Trace) -> None:
        """Be the one who takes the calls of a trace."""
        trace.caller, trace.keeps_compiled = self, self.keeps_compiled
        trace.reader = None if self.read is None else lambda value: self._read(trace, value)
        trace.graph.dialect = PROGRAM
        self._calls.clear()
        self.replaced.clear()

    def __call__(self, kernel: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A call of a kernel, of a compiled function or of a function that compiles itself."""
        name = getattr(kernel, "__name__", None) or kernel.traced.graph.name
        number = self._calls[name] = self._calls.get(name, -1) + 1
        instead = self.replace.get(f"{name}[{number}]") or self.replace.get(name)
        if instead is not None:
            if not callable(instead):
                hint = "give a function of the kernel's arguments"
                raise fail("E108", f"the replacement of {name} is {instead!r}", hint=hint, error=TileTypeError)
            self.replaced.append(f"{name}[{number}]")
            return instead(*args, **kwargs)
        if isinstance(kernel, Jit):
            described = map_leaves((list(args), kwargs), _described)
            kernel = kernel.compiled(*described[0], **described[1])
        if isinstance(kernel, Kernel):
            return self._call_kernel(kernel, args, kwargs)
        assert isinstance(kernel, Compiled), f"{kernel!r} is no kernel"
        return self._call_compiled(kernel, args, kwargs)

    def check_replaced(self) -> None:
        """E902 for a replacement of a kernel, or of a call, that there is none of."""
        known = {name: count + 1 for name, count in self._calls.items()}
        for wanted in self.replace:
            if wanted not in self.replaced and wanted not in known:
                calls = ", ".join(f"{name} ({count} calls)" for name, count in known.items()) or "none"
                raise fail("E902", f"there is no call {wanted} to be replaced", hint=f"the kernels: {calls}")

    def _read(self, trace: Trace, value: Value) -> np.ndarray | None:
        """Numbers for the host, which decides by them what comes next: the program holds where they are the same."""
        assert self.read is not None
        numbers = self.read(trace.graph, value)
        if numbers is not None:
            trace.builder.add(READ, (value,), attrs={"value": Dense(numbers, value.type.dtype)})
        return numbers

    # Kernels that somebody wrote

    def _call_kernel(self, kernel: Kernel, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        described = map_leaves((tuple(args), dict(kwargs)), _described)
        given = array_leaves(kernel, args, kwargs)
        recorded = self.record(kernel, *described, numbers=lambda: self._numbers(args, kwargs))
        arrays = [x for x in given if isinstance(x, (TracedArray, np.ndarray, ArraySpec))]
        values = [_value_of(x) for x in arrays] + [constant_of(x) for x in recorded.constants]
        for place in recorded.followed:
            # The program holds for these numbers only, as where the host reads them.
            if place < len(arrays) and isinstance(arrays[place], TracedArray):
                self._read(current(), values[place])
        results = emit_all(CALL, *values, kernel=recorded.code)
        for place, output in recorded.updates:
            _update(kernel.name, arrays, place, results[output])
        left = iter(recorded.returned)
        return map_leaves(recorded.result, lambda _, x: _result(results, left, x))

    def _numbers(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """The arguments of a call as the program so far computes them; None where there are only shapes."""
        graph, read = current().graph, self.read
        unknown = False

        def number(_: str, x: Any) -> Any:
            nonlocal unknown
            if not isinstance(x, TracedArray):
                return np.array(x) if isinstance(x, np.ndarray) else x
            found = None if read is None else read(graph, x.value)
            unknown |= found is None
            return found

        known = map_leaves((tuple(args), dict(kwargs)), number)
        return None if unknown else known

    def record(
        self, kernel: Kernel, args: Sequence[Any], kwargs: dict[str, Any], numbers: Numbers | None = None
    ) -> Recorded:
        """The recording of a kernel for arrays that are only described; one that is known where there is one."""
        key = call_key(kernel, array_leaves(kernel, args, kwargs))
        known = None if key is None else self._recorded.get(key)
        if known is not None:
            return known
        made = record_kernel(kernel, args, kwargs, self.target, self.profile, numbers)
        made = replace(made, code=self._named(made.code))
        if key is not None and not made.followed:
            self._recorded[key] = made
        return made

    def _named(self, code: Code) -> Code:
        """The code under a name of its own; one that is known already where it is the same."""
        known = self._codes.get((code.name, code.digest))
        if known is not None:
            return known
        self._codes[code.name, code.digest] = code
        name, count = code.name, 0
        while code.name in self._names:
            count += 1
            code.name = f"{name}_{count}"
        self._names.add(code.name)
        return code

    # Compiled functions

    def _call_compiled(self, program: Compiled, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if program.target.name != self.target.name:
            raise fail(
                "E806",
                f"{program.traced.graph.name} was compiled for {program.target.name}, the program is for "
                f"{self.target.name}",
                hint="compile it for the target of the program",
                error=TileTypeError,
            )
        arrays = matched(program.traced, args, kwargs)
        code = self._named(
            Code(
                program.traced.graph.name,
                (program.tile_ir,),
                program.target.name,
                COMPILED,
                program.options.profile,
                program.traced.graph.location,
            )
        )
        values = [_as(as_traced(x).value, type) for x, type in zip(arrays, code.inputs, strict=False)]
        raw = emit_all(CALL, *values, *map(constant_of, program.constants), kernel=code)
        outputs = [_as(x, value.type) for x, value in zip(raw, program.traced.graph.outputs, strict=True)]
        for place, output in program.traced.writes:
            as_traced(arrays[place]).assign(outputs[output])

        def fill(_: str, x: Any) -> Any:
            if not isinstance(x, Output):
                return x
            if x.same_as is not None:
                return arrays[x.same_as]
            made = new(outputs[x.place])
            made.is_scalar = x.is_scalar
            return made

        return map_leaves(program.traced.result, fill)


def _described(_: str, x: Any) -> Any:
    if isinstance(x, TracedArray):
        return ArraySpec(x.type.shape, x.type.dtype)
    return ArraySpec(x.shape, host_dtype(x.dtype)) if isinstance(x, np.ndarray) else x


def _value_of(x: Any) -> Value:
    if isinstance(x, ArraySpec):
        raise fail("E108", "a kernel is called on a spec, which has no data", hint="pass arrays", error=TileTypeError)
    return x.value if isinstance(x, TracedArray) else constant_of(x)


def _update(name: str, arrays: Sequence[Any], place: int, value: Value) -> None:
    """What a kernel wrote to an argument."""
    array = arrays[place]
    if not isinstance(array, TracedArray):
        raise fail(
            "E901",
            f"{name} writes to an array of NumPy, which is no argument of the program",
            hint="make it an argument of the function that is captured, or let the kernel return the result",
        )
    twins = [x for x in arrays if isinstance(x, TracedArray) and x.storage.root is array.storage.root]
    if len(twins) > 1:
        raise fail(
            "E901",
            f"{name} writes to an array that is also another argument of it",
            hint="pass a copy of the array as the other argument",
        )
    array.assign(value)


def _result(results: Sequence[Value], left: Any, x: Any) -> Any:
    if not isinstance(x, ArraySpec):
        return x
    output, view = next(left)
    return new(_seen(results[output], view))


def _seen(value: Value, view: View) -> Value:
    """A tensor that a kernel returned, seen through the view that it returned."""
    shape = view.buffer.shape
    if view.dtype is view.buffer.dtype and view.offset == 0 and view.strides == row_major(view.sizes):
        return reshaped(value, view.sizes) if value.type.size == view.size else _gathered(value, view)
    if view.dtype is not view.buffer.dtype:
        raise fail(
            "E901", f"a kernel returns {view.buffer.name} of shape {shape} as {view.dtype}, another element type"
        )
    return _gathered(value, view)


def _gathered(value: Value, view: View) -> Value:
    """Elements of a tensor by a strided pattern."""
    places = np.full(view.sizes, view.offset, np.int32)
    for axis, (size, stride) in enumerate(zip(view.sizes, view.strides, strict=True)):
        ones = [1] * len(view.sizes)
        ones[axis] = size
        places += (np.arange(size, dtype=np.int32) * stride).reshape(ones)
    flat = new(reshaped(value, (value.type.size,)))
    made = np.take(flat, places)
    assert isinstance(made, TracedArray)
    return made.value


def _as(value: Value, type: TensorType) -> Value:
    """A value in the element type and shape of another: kernels have no truth values, no rank 0 and no 64 bits."""
    cast = value if value.type.dtype is type.dtype else emit("cast", value, dtype=type.dtype)
    return reshaped(cast, type.shape)


class Recorder(Protocol):
    """What records the kernels that a script calls one by one."""

    def barrier(self) -> None:
        """Keep what comes apart from what was recorded."""
        ...


recorders: WeakSet[Recorder] = WeakSet()


def barrier() -> None:
    """What the program does after this goes into other executables than what it did before.

    The program is the function that is being captured; outside of one, what a script did with tensors on a lazy device,
    and the kernels that it called while `tilewright plan` was watching it.
    """
    if is_tracing():
        current().builder.add(BARRIER)
        return
    for each in list(recorders):
        each.barrier()


__all__ = ["Capture", "barrier"]

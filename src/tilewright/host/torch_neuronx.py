"""torch_neuronx: `trace`, which makes a program of a module for example inputs, `nki_jit`, the decorator of kernels
before nki.jit, and `nki_op` and `wrap_nki`, by which kernels are operators of torch. Nothing else is pretended."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.errors import TileTypeError, fail
from tilewright.host.standing_in import missing_name, with_torch
from tilewright.programs.program import Program


def nki_jit(func: Callable[..., Any] | None = None, **kwargs: Any) -> Any:
    """A kernel of the legacy dialect, which may write to its parameters: @nki_jit, @nki_jit() or nki_jit(function)."""
    from tilewright.nki.legacy.entry import trace as kernel

    return kernel(func, **kwargs)


def wrap_nki(kernel: Any) -> Any:
    """A kernel that torch's tensors are given to: kernels here take them as they are, with or without a grid."""
    from tilewright.nki.kernel import as_kernel

    return as_kernel(kernel)


class Operator:
    """A function registered as an operator of torch. Tensors of the lazy device go to the function itself, which
    records the kernels that it calls; what else the operator has (register_autograd, ...) is torch's own."""

    def __init__(self, registered: Any, function: Callable[..., Any]) -> None:
        self.registered = registered
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        lazy = any(hasattr(each, "__call_kernel__") for each in (*args, *kwargs.values()))
        return (self.__wrapped__ if lazy else self.registered)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.registered, name)


def nki_op(name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: Any = ()) -> Any:
    """Register a function that calls kernels as an operator of torch: @nki_op("mylib::my_op", mutates_args={})."""
    custom_op = with_torch("torch_neuronx").torch.library.custom_op
    changed = mutates_args if isinstance(mutates_args, str) else tuple(mutates_args)

    def register(function: Callable[..., Any]) -> Operator:
        return Operator(custom_op(name, function, mutates_args=changed), function)

    return register if fn is None else register(fn)


class TracedModule:
    """A module as a program: tensors of the CPU in and out, weights inside. `program` has its graph and its plan."""

    def __init__(self, program: Program, result: Any) -> None:
        self.program = program
        self._result = result

    def __call__(self, *inputs: Any) -> Any:
        """Run the plan on other inputs of the same shapes."""
        from tilewright.interop import numpy_to_torch, torch_to_numpy

        arrays = [torch_to_numpy(x.detach().contiguous()) for x in inputs]
        known = [value.type for value in self.program.graph.inputs]
        found = [(x.shape, x.dtype) for x in arrays]
        if found != [(type.shape, type.dtype.np) for type in known]:
            shown = ", ".join(str(type) for type in known)
            raise fail("E806", f"the module was traced for {shown}", hint="trace it again", error=TileTypeError)
        return self._result([numpy_to_torch(np.array(x)) for x in self.program.run(arrays)])

    forward = __call__

    def __getattr__(self, name: str) -> Any:
        raise missing_name("a traced module", name, "program; traced.program.save(folder) keeps it")


def trace(
    func: Callable[..., Any],
    example_inputs: Any,
    *,
    compiler_args: str | Sequence[str] | None = None,
    compiler_workdir: str | None = None,
    **options: Any,
) -> TracedModule:
    """Capture a module or function for example inputs: a tensor, or a tuple of them.

    compiler_args: flags, as of `tw.program`. compiler_workdir: a folder for the graph, the plan and the executables.
    """
    if options:
        name = next(iter(options))
        raise missing_name("torch_neuronx.trace", name, "func, example_inputs, compiler_args and compiler_workdir")
    made = with_torch("torch_neuronx").captured(func, example_inputs, compiler_args)
    if compiler_workdir is not None:
        made.program.dump(compiler_workdir)
    return made


def __getattr__(name: str) -> Any:
    if name == "nki":
        return importlib.import_module("tilewright.nki")
    raise missing_name("torch_neuronx", name, "trace, nki_jit, nki_op, wrap_nki and nki")

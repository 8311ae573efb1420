"""torch_neuronx: `trace`, which makes a program of a module for example inputs, and `nki_jit`, the decorator of kernels
before nki.jit. Nothing else is pretended."""

from __future__ import annotations

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
    raise missing_name("torch_neuronx", name, "trace and nki_jit")

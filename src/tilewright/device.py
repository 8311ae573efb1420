"""Running a kernel of a program: arrays as the kernel takes them, results as the program has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.errors import TileError
from tilewright.ir.core import Graph
from tilewright.provenance.explain import explain_error
from tilewright.sim.run import run_graph
from tilewright.target import Target
from tilewright.tensor.types import TensorType


def on_device(array: np.ndarray) -> np.ndarray:
    """An argument as the kernel takes it: truth values are bytes, a number is an array of one element."""
    bytes_ = array.view(np.uint8) if array.dtype == np.bool_ else array
    return np.ascontiguousarray(bytes_).reshape(array.shape or (1,))


def run_program(
    kernel: Graph,
    constants: Sequence[np.ndarray],
    target: Target,
    arrays: Sequence[np.ndarray],
    outputs: Sequence[TensorType],
) -> list[np.ndarray]:
    """The outputs of a program, of these types, for its inputs: its kernel on the simulator."""
    given = [*map(on_device, arrays), *constants]
    try:
        results = run_graph(kernel, given, target, verified=True)
    except TileError as error:
        explain_error(error, lambda tape: run_graph(kernel, given, target, verified=True, watch=tape.watch))
        raise
    return [as_output(result, type) for type, result in zip(outputs, results, strict=True)]


def as_output(result: np.ndarray, type: TensorType) -> np.ndarray:
    """A tensor of a kernel as an array of a program: truth values and numbers as NumPy has them."""
    shaped = result.reshape(type.shape)
    return shaped.view(type.dtype.np) if type.dtype.kind == "b" else shaped

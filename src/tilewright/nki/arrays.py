"""Arrays across the kernel boundary: NumPy and torch in, HBM tensors inside, the caller's kind of array out."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.dtypes import as_dtype
from tilewright.errors import TileTypeError, fail
from tilewright.nki.tensor import NkiTensor
from tilewright.rules import violate
from tilewright.sim.session import Session
from tilewright.sim.storage import EVERYTHING
from tilewright.spec import ArraySpec
from tilewright.tile.memory import SHARED_HBM, Buffer
from tilewright.tile.view import whole


@dataclass(slots=True)
class Binding:
    """A kernel's arguments as it sees them, and how to give results back."""

    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    inputs: set[Buffer] = field(default_factory=set)
    copies: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    torch: bool = False

    def write_back(self) -> None:
        """Bring what the kernel wrote to an argument into the caller's array, where that needed a copy."""
        for original, used in self.copies:
            original[...] = used.reshape(original.shape)


def bind_arguments(session: Session, args: Any, kwargs: dict[str, Any]) -> Binding:
    """Turn arrays, at any depth of tuples, lists and dicts, into tensors in HBM; pass everything else through."""
    binding = Binding()
    names = _parameter_names(session, args)
    binding.args = [_bind(session, binding, value, name) for value, name in zip(args, names, strict=True)]
    binding.kwargs = {name: _bind(session, binding, value, name) for name, value in kwargs.items()}
    session.graph.body.arguments.extend(sorted(binding.inputs, key=lambda buffer: buffer.name or ""))
    return binding


def _parameter_names(session: Session, args: Any) -> list[str]:
    return [f"arg{position}" for position in range(len(args))]


def _bind(session: Session, binding: Binding, value: Any, name: str) -> Any:
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(_bind(session, binding, each, f"{name}_{i}") for i, each in enumerate(value))
    if isinstance(value, list):
        return [_bind(session, binding, each, f"{name}_{i}") for i, each in enumerate(value)]
    if isinstance(value, dict):
        return {key: _bind(session, binding, each, f"{name}_{key}") for key, each in value.items()}
    if isinstance(value, ArraySpec):
        return _input_tensor(session, binding, value.shape, value.dtype, None, name)
    if isinstance(value, np.ndarray):
        return _bind_array(session, binding, value, name)
    if is_torch(value):
        binding.torch = True
        return _bind_array(session, binding, torch_to_numpy(value), name)
    return value


def _bind_array(session: Session, binding: Binding, array: np.ndarray, name: str) -> NkiTensor:
    if array.size == 0:
        raise fail("E103", f"argument {name} has shape {array.shape}, which holds no element", rule="R-tensor-04")
    used = array
    if not (array.flags.c_contiguous and array.flags.writeable):
        used = np.array(array, order="C")
        if array.flags.writeable:
            binding.copies.append((array, used))
    return _input_tensor(session, binding, used.shape, used.dtype, used, name)


def _input_tensor(
    session: Session, binding: Binding, shape: tuple[int, ...], dtype: object, array: np.ndarray | None, name: str
) -> NkiTensor:
    buffer = Buffer(as_dtype(dtype), tuple(shape), SHARED_HBM, name)
    session.names.add(name)
    data = None
    if array is not None:
        data = array.reshape(-1).view(np.uint8)
    elif session.options.shapes:
        data = np.empty(0, np.uint8)
    storage = session.machine.allocate(buffer, data)
    if array is None and not session.options.shapes:
        raise fail("E108", f"argument {name} is a spec, but the kernel is to be run", hint="pass an array")
    storage.written = EVERYTHING
    binding.inputs.add(buffer)
    return NkiTensor(whole(buffer), None)


def to_caller(session: Session, binding: Binding, value: Any) -> Any:
    """The kernel's return value with tensors as arrays of the caller's kind, checked to be whole and in HBM."""
    if isinstance(value, NkiTensor):
        return _output(session, binding, value)
    if isinstance(value, tuple):
        return tuple(to_caller(session, binding, each) for each in value)
    if isinstance(value, list):
        return [to_caller(session, binding, each) for each in value]
    if isinstance(value, dict):
        return {key: to_caller(session, binding, each) for key, each in value.items()}
    return value


def _output(session: Session, binding: Binding, tensor: NkiTensor) -> Any:
    view = tensor._view
    if view.on_chip:
        violate(
            "R-tensor-14",
            f"the kernel returns {view.buffer.name}, which is in {view.memory.value}",
            hint="copy it to a tensor in nl.shared_hbm with nisa.dma_copy and return that",
            operands=[view.note("output")],
            final=True,
        )
    if view.memory is not SHARED_HBM and view.buffer not in binding.inputs:
        violate(
            "R-tensor-15",
            f"the kernel returns {view.buffer.name}, which is in {view.memory.value}",
            hint="allocate outputs with buffer=nl.shared_hbm",
            operands=[view.note("output")],
        )
    if session.options.record:
        session.graph.outputs = (*session.graph.outputs, view.buffer)
    storage = session.machine.touch(view)
    last_core = session.program_id == session.num_programs - 1
    if last_core:
        session.machine.require_written(view, view.buffer.location, "R-tensor-18")
    if session.options.shapes:
        return ArraySpec(view.sizes, view.dtype)
    array = storage.array(view, view.offset).copy()
    return numpy_to_torch(array) if binding.torch else array


# torch is an optional dependency: it is used only when the caller's arguments come from it.


def is_torch(value: Any) -> bool:
    """True for a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


_SAME_BITS = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}


def torch_to_numpy(tensor: Any) -> np.ndarray:
    """The memory of a torch tensor as a NumPy array, also for types NumPy knows only through ml_dtypes."""
    torch = sys.modules["torch"]
    tensor = tensor.detach()
    if tensor.device.type != "cpu":
        raise fail(
            "E108", f"a tensor on {tensor.device} is passed", hint="move it to the CPU first", error=TileTypeError
        )
    name = str(tensor.dtype).removeprefix("torch.")
    if name in _SAME_BITS:
        carrier = torch.int16 if tensor.element_size() == 2 else torch.int8
        return tensor.view(carrier).numpy().view(_SAME_BITS[name])
    return tensor.numpy()


def numpy_to_torch(array: np.ndarray) -> Any:
    """A torch tensor with the same elements."""
    torch = sys.modules["torch"]
    if array.dtype.name in _SAME_BITS:
        carrier = np.int16 if array.dtype.itemsize == 2 else np.int8
        return torch.from_numpy(array.view(carrier)).view(getattr(torch, array.dtype.name))
    return torch.from_numpy(array)

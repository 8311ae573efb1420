"""Arrays of torch and JAX as NumPy's, and back: the same memory where that is possible, the same bits always.

Both are optional dependencies: they are used only when the caller's arguments come from them.
"""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.dtypes import is_packed
from tilewright.errors import TileTypeError, fail


def check_plain(name: str, x: Any) -> None:
    """E806 for arrays of NumPy that hold more than their numbers: masks, fields, the product of matrices.

    Packed types have a field for the element that they pack.
    """
    fields = isinstance(x, np.ndarray) and x.dtype.names is not None and not is_packed(x.dtype)
    if isinstance(x, (np.matrix, np.ma.MaskedArray)) or fields:
        kind = "a structured array" if type(x) is np.ndarray else f"a {type(x).__name__}"
        raise fail("E806", f"argument {name} is {kind}", hint="pass plain arrays: np.asarray(x)", error=TileTypeError)


def is_torch(value: Any) -> bool:
    """True for a torch tensor, without importing torch."""
    return _is_of("torch", "Tensor", value)


def _is_of(module: str, name: str, value: Any) -> bool:
    """Whether a value is of a class of a module; of one that is not imported, or not to its end, nothing is."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)


_SAME_BITS = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e8m0fnu": ml_dtypes.float8_e8m0fnu,
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
    try:
        if name in _SAME_BITS:
            carrier = torch.int16 if tensor.element_size() == 2 else torch.int8
            return tensor.view(carrier).numpy().view(_SAME_BITS[name])
        return tensor.numpy()
    except (RuntimeError, TypeError) as error:  # such as sparse or quantised tensors, and lazy conjugates
        hint = "pass a dense one: x.to_dense(), x.dequantize() or x.resolve_conj()"
        raise fail("E809", f"a tensor that NumPy cannot take over: {error}", hint=hint, error=TileTypeError) from None


def torch_argument(tensor: Any) -> np.ndarray:
    """`torch_to_numpy` of what a program is called with; E809 where its gradient would be lost."""
    if tensor.requires_grad and sys.modules["torch"].is_grad_enabled():
        hint = "pass x.detach(), or call it under torch.no_grad()"
        raise fail("E809", "a tensor that requires a gradient would lose it", hint=hint, error=TileTypeError)
    return torch_to_numpy(tensor)


def numpy_to_torch(array: np.ndarray) -> Any:
    """A torch tensor with the same elements."""
    torch = sys.modules["torch"]
    name = array.dtype.name
    if name in _SAME_BITS:
        carrier = np.int16 if array.dtype.itemsize == 2 else np.int8
        return torch.from_numpy(array.view(carrier)).view(getattr(torch, name))
    if not hasattr(torch, name):
        raise fail(
            "E108",
            f"the kernel returns {name}, which torch does not have",
            hint="return a view of the tensor as uint8 and reinterpret it",
            error=TileTypeError,
        )
    return torch.from_numpy(array)


def is_jax(value: Any) -> bool:
    """True for a JAX array, without importing JAX."""
    return _is_of("jax", "Array", value)


def jax_to_numpy(array: Any) -> np.ndarray:
    """The elements of a JAX array, read-only; E809 for one that JAX itself is tracing."""
    jax = sys.modules["jax"]
    if isinstance(array, jax.core.Tracer):
        hint = "call the program outside of jax.jit, jax.grad and the like"
        raise fail("E809", "an array that JAX is tracing has no elements yet", hint=hint, error=TileTypeError)
    return np.asarray(array)


def numpy_to_jax(array: np.ndarray) -> Any:
    """A JAX array with the same elements; of 64 bits only where JAX is told to have those."""
    return sys.modules["jax"].numpy.asarray(array)

"""Functions of torch by NumPy's, for tensors of a lazy device: one row each. What is not here is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

from tilewright.front.functions import nn
from tilewright.front.pytree import map_leaves
from tilewright.host import torch_functions as functions
from tilewright.interop import numpy_to_torch, torch_to_numpy


def dtype_of(dtype: Any) -> np.dtype:
    """NumPy's name of an element type of torch."""
    return torch_to_numpy(torch.empty(0, dtype=dtype)).dtype


def torch_dtype(dtype: np.dtype) -> Any:
    """Torch's name of an element type of NumPy."""
    return numpy_to_torch(np.empty(0, dtype)).dtype


def _sizes(sizes: Sequence[Any]) -> tuple[int, ...]:
    given = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    return tuple(int(size) for size in given)


def _reduced(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        axis = tuple(dim) if isinstance(dim, (tuple, list)) else dim
        return function(x if dtype is None else x.astype(dtype), axis=axis, keepdims=keepdim)

    return reduce


def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    made = x @ np.swapaxes(weight, 0, 1)
    return made if bias is None else made + bias


def _scaled(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y, *, alpha=1: function(x, y if alpha == 1 else y * alpha)


def _set(x: Any, key: Any, value: Any) -> Any:
    made = np.array(x) if isinstance(x, np.ndarray) else x.copy()
    made[key] = value
    return made


def _same(x: Any, *args: Any, **kwargs: Any) -> Any:
    return x.copy()


def _narrow(x: Any, dim: int, start: int, length: int) -> Any:
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, start + length),)]


OPS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("add", "__add__", "__radd__"), _scaled(lambda x, y: x + y)),
    **dict.fromkeys(("sub", "__sub__", "subtract"), _scaled(lambda x, y: x - y)),
    **dict.fromkeys(("rsub", "__rsub__"), _scaled(lambda x, y: y - x)),
    **dict.fromkeys(("mul", "__mul__", "__rmul__", "multiply"), lambda x, y: x * y),
    **dict.fromkeys(("div", "__truediv__", "true_divide", "divide"), lambda x, y: x / y),
    **dict.fromkeys(("__rtruediv__", "__rdiv__"), lambda x, y: y / x),
    **dict.fromkeys(("pow", "__pow__"), lambda x, y: x**y),
    **dict.fromkeys(("neg", "__neg__", "negative"), lambda x: -x),
    **dict.fromkeys(("matmul", "mm", "bmm", "__matmul__"), lambda x, y: x @ y),
    **{name: getattr(np, name) for name in ("exp", "log", "sqrt", "tanh", "sin", "cos", "square", "sign", "floor")},
    **dict.fromkeys(("abs", "absolute"), np.abs),
    **{name: getattr(np, name) for name in ("maximum", "minimum", "where")},
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sigmoid": nn.sigmoid,
    "silu": lambda x, inplace=False: nn.silu(x),
    "relu": lambda x, inplace=False: np.maximum(x, 0),
    "gelu": lambda x, *, approximate="none": nn.gelu(x, approximate),
    "erf": nn.erf,
    "softmax": functions.softmax,
    "log_softmax": functions.log_softmax,
    "layer_norm": functions.layer_norm,
    "rms_norm": functions.rms_norm,
    "scaled_dot_product_attention": functions.attention,
    **dict.fromkeys(("gt", "greater", "__gt__"), lambda x, y: x > y),
    **dict.fromkeys(("ge", "greater_equal", "__ge__"), lambda x, y: x >= y),
    **dict.fromkeys(("lt", "less", "__lt__"), lambda x, y: x < y),
    **dict.fromkeys(("le", "less_equal", "__le__"), lambda x, y: x <= y),
    **dict.fromkeys(("eq", "__eq__"), lambda x, y: x == y),
    **dict.fromkeys(("ne", "not_equal", "__ne__"), lambda x, y: x != y),
    **{name: getattr(np, name) for name in ("logical_and", "logical_or", "logical_xor", "logical_not")},
    **dict.fromkeys(("__and__", "bitwise_and"), lambda x, y: x & y),
    **dict.fromkeys(("__or__", "bitwise_or"), lambda x, y: x | y),
    **dict.fromkeys(("__invert__", "bitwise_not"), lambda x: ~x),
    **{name: getattr(np, name) for name in ("isnan", "isinf", "isfinite")},
    "dropout": functions.dropout,
    "masked_fill": functions.masked_fill,
    "linear": _linear,
    "einsum": lambda text, *operands: np.einsum(text, *_operands(operands)),
    "sum": _reduced(np.sum),
    "mean": _reduced(np.mean),
    "amax": _reduced(np.max),
    "amin": _reduced(np.min),
    "all": _reduced(np.all),
    "any": _reduced(np.any),
    "std": functions.spread(root=True),
    "var": functions.spread(root=False),
    "argmax": functions.argument(np.argmax),
    "argmin": functions.argument(np.argmin),
    "max": functions.extreme(np.max, np.argmax, np.maximum),
    "min": functions.extreme(np.min, np.argmin, np.minimum),
    "topk": functions.topk,
    "sort": functions.sort,
    "argsort": functions.argsort,
    "gather": lambda x, dim, index: np.take_along_axis(x, index, axis=dim),
    "index_select": lambda x, dim, index: np.take(x, index, axis=dim),
    "embedding": functions.embedding,
    "cumsum": lambda x, dim: np.cumsum(x, axis=dim),
    **dict.fromkeys(("reshape", "view"), lambda x, *sizes: x.reshape(_sizes(sizes))),
    "flatten": lambda x: x.reshape(-1),
    "permute": lambda x, *dims: np.transpose(x, _sizes(dims)),
    "transpose": lambda x, dim0, dim1: np.swapaxes(x, dim0, dim1),
    **dict.fromkeys(("t", "T"), lambda x: np.transpose(x)),
    "mT": lambda x: np.swapaxes(x, -2, -1),
    "unsqueeze": lambda x, dim: np.expand_dims(x, dim),
    "squeeze": lambda x, dim=None: np.squeeze(x, axis=dim),
    "expand": lambda x, *sizes: np.broadcast_to(x, _expanded(x, _sizes(sizes))),
    "narrow": _narrow,
    **dict.fromkeys(("cat", "concat"), lambda tensors, dim=0: np.concatenate(tensors, axis=dim)),
    "split": functions.split,
    "chunk": functions.chunk,
    "stack": lambda tensors, dim=0: np.stack(tensors, axis=dim),
    **dict.fromkeys(("contiguous", "clone", "detach", "requires_grad_"), _same),
    "__getitem__": lambda x, key: x[key],
    "type": lambda x, dtype: x.astype(dtype),
    "float": lambda x: x.astype(np.float32),
    "bfloat16": lambda x: x.astype(dtype_of(torch.bfloat16)),
    "tril": lambda x, diagonal=0: np.tril(x, diagonal),
    "triu": lambda x, diagonal=0: np.triu(x, diagonal),
    "clamp": lambda x, min=None, max=None: np.clip(x, min, max),
    "zeros_like": lambda x: np.zeros_like(x),
    "ones_like": lambda x: np.ones_like(x),
}

CONVERSIONS = frozenset({"type", "float", "bfloat16", "__getitem__"})
"""Those whose result has the type that they say."""


def with_type_of_torch(name: str) -> Callable[..., Any]:
    """A function with torch's type of its result: that of its operands, where NumPy has a wider one."""

    def call(*args: Any, **kwargs: Any) -> Any:
        made = OPS[name](*args, **kwargs)
        given = {x.dtype for x in _arrays_in(args) if is_float(x.dtype)}
        if name in CONVERSIONS or kwargs.get("dtype") is not None or len(given) > 1:
            return made
        wanted = given.pop() if given else np.dtype(np.float32)
        return map_leaves(made, lambda _, x: x.astype(wanted) if _is_other(x, wanted) else x)

    return call


def _is_other(x: Any, wanted: np.dtype) -> bool:
    return hasattr(x, "dtype") and is_float(x.dtype) and x.dtype != wanted


def is_float(dtype: Any) -> bool:
    """Whether it is one of torch's types of numbers that are not whole."""
    return torch_dtype(np.dtype(dtype)).is_floating_point


def _arrays_in(args: Sequence[Any]) -> list[Any]:
    flat = [y for x in args for y in (x if isinstance(x, (tuple, list)) else (x,))]
    return [x for x in flat if hasattr(x, "dtype")]


VIEWS = frozenset(
    {
        *("reshape", "view", "flatten", "permute", "transpose", "t", "T", "mT", "unsqueeze", "squeeze", "expand"),
        *("narrow", "contiguous", "detach", "requires_grad_", "split", "chunk", "__getitem__"),
    }
)
"""Those whose result may share memory with their first argument."""

IN_PLACE: dict[str, Callable[..., Any]] = {
    "__setitem__": _set,
    "copy_": lambda x, y: np.broadcast_to(y.astype(x.dtype), x.shape).copy(),
    "add_": lambda x, y: x + y,
    "mul_": lambda x, y: x * y,
}
"""Those that write to their first argument; what they give is its new content."""


def _empty(*args: Any, **kwargs: Any) -> Any:
    """A tensor that nobody has written to: NaN, or the largest number of its type, so that reading it shows."""
    made = torch.empty(*args, **kwargs)
    if made.is_floating_point():
        return made.fill_(float("nan"))
    return made.fill_(True if made.dtype == torch.bool else torch.iinfo(made.dtype).max)


CREATIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(torch, name) for name in ("zeros", "ones", "full", "eye", "arange", "tensor", "randn", "rand")},
    "empty": _empty,
}
"""Made on the host, then uploaded."""

READS: dict[str, Callable[..., Any]] = {
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "__float__": lambda x: float(x),
    "__int__": lambda x: int(x),
    "__bool__": lambda x: bool(x),
    "__repr__": lambda x, **_: repr(x),
    "__format__": lambda x, text: format(x, text),
    "allclose": lambda x, y, *args, **kwargs: torch.allclose(x, y, *args, **kwargs),
    "equal": lambda x, y: torch.equal(x, y),
}
"""Those that need the numbers: what is pending runs."""


def _operands(operands: Sequence[Any]) -> Sequence[Any]:
    return operands[0] if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else operands


def _expanded(x: Any, sizes: tuple[int, ...]) -> tuple[int, ...]:
    own = (1,) * (len(sizes) - x.ndim) + tuple(x.shape)
    return tuple(size if size >= 0 else mine for size, mine in zip(sizes, own, strict=True))

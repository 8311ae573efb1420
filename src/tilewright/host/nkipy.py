"""What suites of NumPy kernels written for nkipy import: tracing and running there are `tw.compile` here.

`pytest --tilewright-compile` puts these modules in place of nkipy's, installed or not. A name that is not among them is
refused by its name.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from tilewright.api import compile as compile_function
from tilewright.front.functions.sort import topk
from tilewright.front.functions.window import conv
from tilewright.front.promote import PROMOTIONS
from tilewright.front.pytree import map_leaves
from tilewright.host.standing_in import missing_name

_NARROWER = {"float64": np.float32, "int64": np.int32, "uint64": np.uint32}


class NKIPyKernel:
    """A NumPy function that is compiled for the arguments it is specialized or called with."""

    promotion = PROMOTIONS[0]

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        self.__name__ = getattr(func, "__name__", "kernel")

    @classmethod
    def trace(cls, func: Callable[..., Any] | None = None, **_: Any) -> Any:
        """The kernel of a function; which of nkipy's backends was asked for makes no difference."""
        return cls if func is None else cls(func)

    def specialize(self, *args: Any, **kwargs: Any) -> Any:
        """The program for these arguments."""
        named = {name: _narrowed(value) for name, value in kwargs.items()}
        return compile_function(self.func, *_narrowed(args), promotion=self.promotion, **named)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given, named = _narrowed(args), {name: _narrowed(value) for name, value in kwargs.items()}
        return compile_function(self.func, *given, promotion=self.promotion, **named)(*given, **named)


def _narrowed(value: Any) -> Any:
    """Arrays of types that the hardware does not have as the next narrower ones, said once per place as nkipy does."""

    def narrow(_: str, leaf: Any) -> Any:
        kind = _NARROWER.get(str(getattr(leaf, "dtype", "")))
        if kind is None or not isinstance(leaf, np.ndarray):
            return leaf
        warnings.warn(f"an argument of type {leaf.dtype} is cast to {np.dtype(kind)}", stacklevel=6)
        return leaf.astype(kind)

    return map_leaves(value, narrow)


def run_traced(kernel: NKIPyKernel, *args: Any, artifacts_dir: Any = None, **kwargs: Any) -> Any:
    """nkipy's baremetal_run_traced_kernel: the results of a kernel, here on the simulator."""
    return kernel(*args, **kwargs)


def _constant(value: Any, dtype: Any = None) -> Any:
    return np.asarray(value, dtype)


def _conv(x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, **options: Any) -> Any:
    return conv(x, weight, bias, stride, padding, **options)


def _topk(x: Any, k: int, axis: int = 0, is_ascend: bool = False) -> Any:
    return topk(x, k, axis, is_ascend)


_CREATION = {
    name: getattr(np, name) for name in ("zeros", "ones", "full", "empty", "zeros_like", "ones_like", "full_like")
}
_CREATION["constant"] = _constant
_APIS = {"topk": _topk, "conv2d": _conv, "conv3d": _conv, **_CREATION}
_MODULES: dict[str, dict[str, Any]] = {
    "nkipy": {},
    "nkipy.core": {},
    "nkipy.core.trace": {"NKIPyKernel": NKIPyKernel},
    "nkipy.core.compile": {
        "trace": NKIPyKernel.trace,
        "compile_to_neff": lambda kernel, *_, **__: None,
        "nkipy_compiler_args": "",
    },
    "nkipy.core.tensor_apis": _APIS,
    "nkipy.core.ops": {},
    "nkipy.core.ops.creation": _CREATION,
    "nkipy.core.ops.conv": {"conv2d": _conv, "conv3d": _conv},
    "nkipy.runtime": {"is_neuron_compatible": lambda: True},
    "nkipy.runtime.execute": {"baremetal_run_traced_kernel": run_traced},
}


def install(promotion: str) -> None:
    """Put the modules in place of nkipy's."""
    NKIPyKernel.promotion = promotion
    for name in [name for name in sys.modules if name.split(".")[0] == "nkipy"]:
        del sys.modules[name]
    for name, contents in _MODULES.items():
        module = ModuleType(name)
        module.__path__ = []

        def missing(wanted: str, name: str = name) -> Any:
            raise missing_name(name, wanted, ", ".join(sorted(_MODULES[name])) or "what its modules have")

        module.__dict__.update(contents, __getattr__=missing)
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)

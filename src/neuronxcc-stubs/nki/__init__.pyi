# Made by tilewright from its instruction table and its modules: python -m tilewright.nki.stubs src
import builtins
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from typing import Generic, ParamSpec, overload

from . import compiler as compiler
from . import isa as isa
from . import language as language
from . import typing as typing

P = ParamSpec("P")

class Kernel(Generic[P]):
    """A kernel of the legacy dialect. kernel[grid](...) runs it once for every place of the grid."""

    benchmark_result: Any
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    def __getitem__(self, grid: Any) -> Kernel[P]: ...

@overload
def jit(func: Callable[P, Any]) -> Kernel[P]: ...
@overload
def jit(func: None = None, **flags: Any) -> Callable[[Callable[P, Any]], Kernel[P]]: ...
@overload
def trace(func: Callable[P, Any]) -> Kernel[P]: ...
@overload
def trace(func: None = None, **flags: Any) -> Callable[[Callable[P, Any]], Kernel[P]]: ...
@overload
def baremetal(func: Callable[P, Any]) -> Kernel[P]: ...
@overload
def baremetal(func: None = None, **flags: Any) -> Callable[[Callable[P, Any]], Kernel[P]]: ...
@overload
def benchmark(func: Callable[P, Any]) -> Kernel[P]: ...
@overload
def benchmark(func: None = None, **flags: Any) -> Callable[[Callable[P, Any]], Kernel[P]]: ...
@overload
def profile(func: Callable[P, Any]) -> Kernel[P]: ...
@overload
def profile(func: None = None, **flags: Any) -> Callable[[Callable[P, Any]], Kernel[P]]: ...
def simulate_kernel(kernel: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> Any: ...
FrameworkKernel: Any
tensor: Any

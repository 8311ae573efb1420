# Made by tilewright from its instruction table and its modules: python -m tilewright.nki.stubs src
import builtins
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from typing import Generic, ParamSpec, overload

from . import collectives as collectives
from . import dtype as dtype
from . import isa as isa
from . import language as language
from . import typing as typing

P = ParamSpec("P")

class Kernel(Generic[P]):
    """A kernel made by nki.jit. kernel[cores](...) runs it on several cores."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    def __getitem__(self, grid: Any) -> Kernel[P]: ...

@overload
def jit(fn: Callable[P, Any]) -> Kernel[P]: ...
@overload
def jit(fn: None = None, **flags: Any) -> Callable[[Callable[P, Any]], Kernel[P]]: ...
def simulate(kernel: Callable[P, Any]) -> Callable[P, Any]: ...
def cpu_simulate(kernel: Callable[P, Any]) -> Callable[P, Any]: ...

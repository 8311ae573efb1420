"""What every kernel of the library is to its caller: one call, a reference in float64, and predicted times."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tilewright.calls import taker_of
from tilewright.errors import Location, TileError, TileTypeError, TileValueError, fail, user_location
from tilewright.interop import check_plain, is_torch, numpy_to_torch, torch_argument
from tilewright.nki.kernel import Kernel, print_warnings, run_kernel
from tilewright.report.profile import profile_run
from tilewright.report.resources import Report
from tilewright.sim.session import Options
from tilewright.spec import ArraySpec
from tilewright.target import Target, get_target

T = TypeVar("T")
_FOLDER = str(Path(__file__).resolve().parent)


@dataclass(frozen=True, slots=True)
class _Call:
    """How the kernels of a call are launched; with `reports` on shapes alone, each leaving its report there."""

    target: Target
    reports: list[Report] | None = None


_call: ContextVar[_Call | None] = ContextVar("tilewright_library_call", default=None)


class LibraryKernel:
    """A kernel of the library: `tw.kernels.rmsnorm(x, weight)`.

    reference: the same in NumPy, in the types of what it is given; `exact` gives it float64. It is a program that
    `tw.compile` takes where `program` says so.
    """

    def __init__(self, function: Callable[..., Any], reference: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.reference = reference
        self.signature = inspect.signature(function, eval_str=True)

    def __call__(self, *args: Any, target: str | Target | None = None, **kwargs: Any) -> Any:
        """Run on the simulator of a target; results are arrays of the kind that was given."""
        self._bind(args, kwargs)
        torch = any(is_torch(each) for each in (*args, *kwargs.values()))
        given = [_as_numpy(each) for each in args]
        named = {name: _as_numpy(each) for name, each in kwargs.items()}
        with _calling(_Call(_target(target))):
            made = self.function(*given, **named)
        return _map(numpy_to_torch, made) if torch else made

    def exact(self, *args: Any, **kwargs: Any) -> Any:
        """What the reference makes of the same arguments in float64."""
        wide = [_wide(_as_numpy(each)) for each in args]
        return self.reference(*wide, **{name: _wide(_as_numpy(each)) for name, each in kwargs.items()})

    def profile(self, *args: Any, target: str | Target | None = None, **kwargs: Any) -> tuple[Report, ...]:
        """The reports of the kernels that a call launches. Nothing is computed: arrays may be `tw.spec`."""
        self._bind(args, kwargs)
        reports: list[Report] = []
        with _calling(_Call(_target(target), reports)):
            self.function(*map(_described, args), **{name: _described(each) for name, each in kwargs.items()})
        return tuple(reports)

    def _bind(self, args: Any, kwargs: Any) -> None:
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as problem:
            hint = f"its signature is {self.__name__}{self.signature}"
            message = f"{self.__name__}: {problem}"
            raise fail("E114", message, hint=hint, location=_caller(), error=TileTypeError) from None
        for name, value in bound.arguments.items():
            parameter = self.signature.parameters[name]
            what, fits = _KINDS[parameter.annotation]
            if not fits(value) and not (value is None and parameter.default is None):
                message = f"{self.__name__}: {name} is {_shown(value)}"
                raise fail("E114", message, hint=f"give {what}", location=_caller(), error=TileTypeError)
            _from_caller(check_plain, name, value)

    __name__: str


def _is_array(value: Any) -> bool:
    """Arrays of NumPy, torch and programs, described ones, and lists of numbers."""
    return isinstance(value, (list, tuple)) or is_torch(value) or (hasattr(value, "shape") and hasattr(value, "dtype"))


def _is(*kinds: type) -> Callable[[Any], bool]:
    """A number, or a text, of one of these kinds; True and False are numbers only where a truth is asked for."""
    return lambda value: isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


_KINDS: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    Any: ("an array", _is_array),
    bool: ("True or False", _is(bool, np.bool_)),
    int: ("a whole number", _is(Integral)),
    float: ("a number", _is(Real)),
    float | None: ("a number", _is(Real)),
    str: ("a text", _is(str)),
}
"""What parameters of a kernel take, by their annotations."""


def _shown(value: Any) -> str:
    return f"of type {type(value).__name__}" if value is not None else "None"


def library(reference: Callable[..., Any]) -> Callable[[Callable[..., Any]], LibraryKernel]:
    """Make the host side of a kernel, which checks shapes and launches, a call of the library."""
    return lambda function: LibraryKernel(function, reference)


def launch(kernel: Kernel, *args: Any) -> Any:
    """Run a kernel for the call that is under way; arrays that programs are traced with take it over."""
    call = _call.get()
    if call is None or taker_of(args, {}) is not None:
        return kernel(*args)
    if call.reports is None:
        run = run_kernel(kernel, args, {}, call.target, options=Options(record=False))
        print_warnings(run)
        return run.result
    run = run_kernel(kernel, args, {}, call.target, options=Options(shapes=True))
    call.reports.append(profile_run(run, most_events=0).report)
    return _map(_described, run.result)


def target_of_call() -> Target:
    """The target that the call under way is for."""
    call = _call.get()
    return get_target(None) if call is None else call.target


def has_values(*arrays: Any) -> bool:
    """These are arrays with numbers, in a call that is not only profiled."""
    call = _call.get()
    return (call is None or call.reports is None) and all(isinstance(array, np.ndarray) for array in arrays)


def require(condition: bool, message: str, hint: str, code: str = "E103") -> None:
    """Refuse a call whose arguments do not fit, at the line that made it."""
    if not condition:
        raise fail(code, message, hint=hint, location=_caller(), error=TileValueError)


def require_dims(name: str, array: Any, *shape: int | None) -> None:
    """Refuse an array that does not have this shape; None stands for any size."""
    found = tuple(array.shape)
    fits = len(found) == len(shape) and all(want in (None, size) for want, size in zip(shape, found, strict=True))
    wanted = ", ".join("any" if size is None else str(size) for size in shape)
    require(fits, f"{name} has the shape {found}", f"it has to be ({wanted})")


def require_floats(**arrays: Any) -> None:
    """Refuse arrays that are no floats of 16 or 32 bits, or not of one type."""
    types = {name: str(np.dtype(array.dtype).name) for name, array in arrays.items()}
    wrong = {name: kind for name, kind in types.items() if kind not in ("float32", "bfloat16", "float16")}
    require(not wrong, f"element types {wrong}", "give float32, bfloat16 or float16", code="E102")
    require(len(set(types.values())) == 1, f"element types {types}", "give all arrays one type", code="E102")


def require_float32(**arrays: Any) -> None:
    """Refuse arrays of any other type."""
    wrong = {name: kind for name, array in arrays.items() if (kind := str(array.dtype)) != "float32"}
    require(not wrong, f"element types {wrong}", "give float32", code="E102")


def require_heads(q: Any, k: Any, v: Any, widest: int, hint: str) -> None:
    """Refuse queries, keys and values that do not belong together, or that are wider than a kernel takes."""
    require(q.ndim >= 2, f"q has the shape {tuple(q.shape)}", "give [..., positions, width]")
    require_dims("k", k, *q.shape[:-2], None, q.shape[-1])
    require_dims("v", v, *k.shape[:-1], None)
    require(0 not in q.shape + k.shape + v.shape, "an array is empty", "give at least one element")
    require_floats(q=q, k=k, v=v)
    for name, width in (("queries", q.shape[-1]), ("values", v.shape[-1])):
        require(width <= widest, f"{name} of {width} elements", hint)


def require_sbuf(bytes_per_partition: int, what: str, hint: str) -> None:
    """Refuse what does not fit the on-chip memory of the target."""
    message = f"{what} takes {bytes_per_partition} bytes of each partition; {target_of_call().name} has {room()}"
    require(bytes_per_partition <= room(), message, hint, code="E301")


def room() -> int:
    """Bytes of SBUF in each partition that a kernel of the call may use."""
    return target_of_call()["memory.sbuf_usable_bytes"]


def require_feature(key: str, what: str, hint: str) -> None:
    """Refuse a target whose generation lacks what a kernel is made of."""
    target = target_of_call()
    require(bool(target[key]), f"{what}, which {target.name} does not have", hint, code="E106")


def _caller() -> Location | None:
    """The line outside of the library that called it."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_FOLDER):
        frame = frame.f_back
    return user_location(frame)


def _target(name: str | Target | None) -> Target:
    """The target of a call; one that does not exist is told at the line that named it."""
    try:
        return get_target(name)
    except TileError as error:
        raise TileError(replace(error.diagnostic, location=_caller())) from None


@contextmanager
def _calling(call: _Call) -> Iterator[None]:
    token = _call.set(call)
    try:
        yield
    finally:
        _call.reset(token)


def _map(change: Callable[[Any], Any], made: Any) -> Any:
    return tuple(_map(change, each) for each in made) if isinstance(made, tuple) else change(made)


def _as_numpy(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        try:
            return np.array(value)
        except ValueError as problem:
            hint = "give an array, or lists of equal lengths"
            raise fail("E114", f"a list is no array: {problem}", hint=hint, location=_caller()) from None
    return _from_caller(torch_argument, value) if is_torch(value) else value


def _from_caller(function: Callable[..., T], *args: Any) -> T:
    """What a function gives; what it refuses is told at the line that called the kernel."""
    try:
        return function(*args)
    except TileError as error:
        raise type(error)(replace(error.diagnostic, location=_caller())) from None


def _wide(value: Any) -> Any:
    """Floats of an array as float64; everything else as it is."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fV":
        return value.astype(np.float64)
    return value


def _described(value: Any) -> Any:
    """An array without memory of its own where one is described."""
    value = _as_numpy(value)
    return np.broadcast_to(np.zeros((), value.dtype.np), value.shape) if isinstance(value, ArraySpec) else value

"""Which functions of NumPy can be traced: one handler each, found by NumPy's array protocols and by array methods.

    @implements(np.flip)
    def flip(m, axis=None): ...

A handler has the signature of NumPy's function, every argument included, and returns traced arrays (or plain data such
as shapes). Arguments that it does not support are named in `refuses`; calling with another value than the default is
E803. `tilewright ops` is printed from this table.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.errors import TileError
from tilewright.front.foreign import refuse_foreign
from tilewright.front.refusal import numpy_error, unsupported
from tilewright.front.trace import current

Handler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """One function that can be traced."""

    name: str
    function: Any
    handler: Handler
    refuses: tuple[str, ...] = ()
    note: str = ""

    def call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run the handler, once no refused argument is given."""
        if self.refuses:
            self._check(args, kwargs)
        try:
            return self.handler(*args, **kwargs)
        except TypeError:
            self._bound(args, kwargs)
            raise

    def _check(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        given = self._bound(args, kwargs)
        for name in self.refuses:
            if name in given.arguments and not _same(given.arguments[name], given.signature.parameters[name].default):
                raise unsupported(self.name, name)

    def _bound(self, args: Sequence[Any], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """The arguments by name; E808 where the function takes others."""
        try:
            return inspect.signature(self.handler).bind(*args, **kwargs)
        except TypeError as misfit:
            raise numpy_error(TypeError, f"{self.name}: {misfit}") from None


def _same(x: Any, y: Any) -> bool:
    return x is y or (x.__class__ is y.__class__ and x.__class__ in (bool, int, float, str) and x == y)


FUNCTIONS: dict[Any, Entry] = {}
"""Functions and ufuncs of NumPy by themselves."""

METHODS: dict[tuple[np.ufunc, str], Entry] = {}
"""Methods of ufuncs, such as `np.add.reduce`."""


def name_of(function: Any) -> str:
    """How a user writes a function of NumPy: "np.linalg.norm"."""
    module = getattr(function, "__module__", None) or "numpy"
    name = getattr(function, "__name__", str(function))
    return f"np{module.removeprefix('numpy')}.{name}" if module.startswith("numpy") else f"{module}.{name}"


def implements(
    *functions: Any, refuses: Sequence[str] = (), note: str = "", method: str | None = None
) -> Callable[[Handler], Handler]:
    """Register a handler for functions of NumPy, or for `method` ("reduce", ...) of ufuncs."""

    def register(handler: Handler) -> Handler:
        for function in functions:
            entry = Entry(name_of(function), function, handler, tuple(refuses), note)
            if method is None:
                assert function not in FUNCTIONS, f"{entry.name} has two handlers"
                FUNCTIONS[function] = entry
            else:
                assert (function, method) not in METHODS, f"{entry.name}.{method} has two handlers"
                METHODS[function, method] = entry
        return handler

    return register


_FAR = "where columns are far from dependent"
_TABLES = "multiply by tables of cosines and sines, which NumPy makes while the function is traced"
_OUTSIDE = (
    "it goes on until it has converged, which no kernel can: call it with NumPy outside of the function, and pass what "
    "it gives as an argument"
)
_INSTEAD = {
    "np.linalg.lstsq": f"{_FAR}, np.linalg.solve(a.T @ a, a.T @ b) gives the same",
    "np.linalg.pinv": f"{_FAR}, np.linalg.solve(a.T @ a, a.T) gives the same",
    "np.linalg.qr": f"{_FAR}, np.linalg.cholesky(a.T @ a).T is R but for signs, and a @ np.linalg.inv(R) is Q",
    "np.linalg.tensorsolve": "reshape a to a matrix and b to a vector, and use np.linalg.solve",
    "np.polyfit": "with v = np.vander(x, deg + 1), np.linalg.solve(v.T @ v, v.T @ y) gives the same for low degrees",
    **dict.fromkeys(("np.roots", "np.poly"), _OUTSIDE),
}
"""What to write in place of functions that cannot be traced."""
_INSTEAD_OF_ALL = {"np.fft.": _TABLES, "np.linalg.": _OUTSIDE}
"""The same for all functions of a module that have no hint of their own."""


def _instead_of(name: str) -> str:
    found = (hint for module, hint in _INSTEAD_OF_ALL.items() if name.startswith(module))
    return _INSTEAD.get(name) or next(found, "tilewright ops lists what can be traced")


def find(function: Any) -> Entry:
    """The entry of a function; E803 where there is none."""
    # What stands for a function of NumPy while a function is traced knows which one it is.
    entry = FUNCTIONS.get(function) or FUNCTIONS.get(getattr(function, "numpy_function", None))
    if entry is None:
        name = name_of(function)
        raise unsupported(name, hint=_instead_of(name))
    return entry


def call(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Trace a call of a function of NumPy."""
    return _run(find(function), args, kwargs)


def call_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Trace what NumPy hands to `__array_ufunc__`: outputs come as a tuple there."""
    out = kwargs.get("out")
    if out is not None and len(out) == 1:
        kwargs = {**kwargs, "out": out[0]}
    if method == "__call__":
        return call(ufunc, *inputs, **kwargs)
    entry = METHODS.get((ufunc, method))
    if entry is None:
        raise unsupported(f"{name_of(ufunc)}.{method}", hint="tilewright ops lists what can be traced")
    return _run(entry, inputs, kwargs, writes=method == "at")


def _run(entry: Entry, args: Sequence[Any], kwargs: dict[str, Any], writes: bool = False) -> Any:
    refuse_foreign(f"an argument of {entry.name}", *args, *kwargs.values())
    if current().has_locals:
        from tilewright.front.local import settled  # which needs this module

        args, kwargs = settled(entry.function, args, kwargs, writes)
    try:
        return entry.call(args, kwargs)
    except TileError as refusal:
        if refusal.diagnostic.code == "E808":
            refusal.tell(replace(refusal.diagnostic, notes=_arrays(entry.name, args)))
        raise


def _arrays(name: str, args: Sequence[Any]) -> tuple[str, ...]:
    """The arrays that a function was called with: most of what NumPy refuses lies in shapes that it does not name."""
    flat = [each for x in args for each in (x if isinstance(x, (list, tuple)) else (x,))]
    arrays = [x for x in flat if hasattr(x, "dtype") and hasattr(x, "shape") and not isinstance(x, type)]
    shown = [f"{x.dtype}{list(x.shape)}" for x in arrays]
    return (f"{name} is called with {', '.join(shown)}",) if shown else ()

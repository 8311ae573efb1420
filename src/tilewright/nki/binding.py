"""Calls whose arguments do not fit: a diagnostic instead of Python's own error (R-jit-01)."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from enum import Enum
from types import FunctionType
from typing import Any

from tilewright.dtypes import DType
from tilewright.errors import TileTypeError, fail
from tilewright.nki.removed import removed_keyword
from tilewright.rules import reporter, violate
from tilewright.tile.memory import MemoryRegion


def bound(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function, with a diagnostic where a call does not fit its signature."""
    parameters = inspect.signature(function).parameters
    open_ended = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    ignores = frozenset(parameters) if open_ended else None

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if ignores is not None and not ignores.issuperset(kwargs):
            _ignored(function, name, kwargs.keys() - ignores)
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            if not never_entered(error):
                raise
        return call_known(function, name, args, kwargs)

    return call


def bind_all(namespace: dict[str, Any], prefix: str) -> None:
    """Give all functions of a module such diagnostics; `prefix` is what kernels call the module."""
    for name, value in [*namespace.items()]:
        if isinstance(value, FunctionType) and not name.startswith("_") and value.__module__.startswith(_PACKAGE):
            namespace[name] = bound(value, f"{prefix}.{name}")


_PACKAGE = __name__.rpartition(".")[0]


def never_entered(error: TypeError) -> bool:
    """Whether the function called where the error is caught was never entered: its arguments did not bind."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def call_known(function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Report what does not fit. Where unknown keywords are let pass, the call goes on without them."""
    signature = inspect.signature(function)
    form = call_form(name, signature)
    open_ended = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in signature.parameters.values())
    known = {key: value for key, value in kwargs.items() if open_ended or key in signature.parameters}
    for key in kwargs.keys() - known.keys():
        unexpected_keyword(name, key, signature, form)
    try:
        signature.bind(*args, **known)
    except TypeError as error:
        raise fail("E114", f"{name}(): {error}", hint=f"signature: {form}", error=TileTypeError) from None
    return function(*args, **known)


def _ignored(function: Callable[..., Any], name: str, keys: Iterable[str]) -> None:
    """Arguments that a legacy function takes for nothing: it has `**kwargs`."""
    signature = inspect.signature(function)
    form = call_form(name, signature)
    for key in sorted(keys):
        if key == "dst":
            raise fail(
                "E114",
                f"{name}() of the legacy dialect returns its result: it takes no dst",
                hint=f"assign it: tile[...] = {name}(...); or import nki, where calls are given their destination",
                error=TileTypeError,
            )
        near = difflib.get_close_matches(key, signature.parameters, n=1)
        first = f"did you mean {near[0]}? " if near else ""
        reporter().warn("W107", f"{name}() takes no argument '{key}', and ignores it", hint=f"{first}signature: {form}")


def unexpected_keyword(name: str, key: str, signature: inspect.Signature, form: str) -> None:
    """R-jit-01, with the parameter that was probably meant; `form` is how a call looks."""
    near = difflib.get_close_matches(key, signature.parameters, n=1)
    module, _, function = name.rpartition(".")
    gone = removed_keyword("language" if module == "nl" else "isa", function, key)
    first = f"{gone.instead}; " if gone else f"did you mean {near[0]}? " if near else ""
    violate(
        "R-jit-01",
        f"{name}() got an unexpected keyword argument '{key}'{gone.text if gone else ''}",
        hint=f"{first}signature: {form}",
        error=TileTypeError,
    )


def spelled(_parameter: str, default: object) -> str:
    """A default as a kernel writes it."""
    if isinstance(default, MemoryRegion):
        return f"nl.{default.name}"
    if isinstance(default, Enum):
        return f"nisa.{type(default).__name__}.{default.name}"
    return f"nl.{default}" if isinstance(default, DType) else repr(default)


class _Source(str):
    """Text that shows as itself where Python shows a default."""

    __slots__ = ()
    __repr__ = str.__str__


def call_form(name: str, signature: inspect.Signature, spell: Callable[[str, object], str] = spelled) -> str:
    """A call as documentation shows it: parameters with their defaults, in NKI's spelling and without types."""
    shown: list[inspect.Parameter] = []
    for each in signature.parameters.values():
        if each.name == "self":
            continue
        default = each.default if each.default is each.empty else _Source(spell(each.name, each.default))
        shown.append(each.replace(annotation=each.empty, default=default))
    return f"{name}{inspect.Signature(shown)}"

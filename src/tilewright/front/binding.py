"""Arguments by the parameter they go to."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.errors import TileTypeError, fail


@dataclass(frozen=True, slots=True)
class Bound:
    """The arguments of a call, named by parameter: `x`, `rest[0]` of `*rest`, the keyword of `**others`."""

    arguments: dict[str, Any]
    positional: int

    def args(self, arguments: dict[str, Any]) -> list[Any]:
        """Those of `arguments` that are passed by position."""
        return list(arguments.values())[: self.positional]

    def kwargs(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Those of `arguments` that are passed by keyword."""
        return dict(list(arguments.items())[self.positional :])


def bind(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], partial: bool = False) -> Bound:
    """Name the arguments of a call; E806 where they do not fit the function's parameters."""
    signature = signature_of(function)
    if signature is None:
        named = {f"x{place}": x for place, x in enumerate(args)}
        return Bound({**named, **kwargs}, len(named))
    try:
        (signature.bind_partial if partial else signature.bind)(*args, **kwargs)
    except TypeError as error:
        name = getattr(function, "__name__", "the function")
        raise fail("E806", f"{name}: {error}", hint=f"it takes {signature}", error=TileTypeError) from None
    named = dict(zip(_names(signature, len(args)), args, strict=True))
    return Bound({**named, **kwargs}, len(named))


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """The parameters of a function, if it tells them."""
    try:
        return inspect.signature(function)
    except ValueError as error:  # such as ufuncs and some functions of C
        if isinstance(function, functools.partial) and signature_of(function.func) is not None:
            hint = f"it takes {signature_of(function.func)}"
            name = getattr(function.func, "__name__", "the function")
            what = f"{name}: the partial gives it arguments that it does not take"
            raise fail("E806", what, hint=hint, error=TileTypeError) from error
        return None


def _names(signature: inspect.Signature, count: int) -> list[str]:
    found: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            found += [f"{parameter.name}[{place}]" for place in range(count - len(found))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            found.append(parameter.name)
    return found[:count]

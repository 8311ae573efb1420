"""The math functions of nki.language as objects: callable on tiles, and what nki.isa takes as `op=`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tilewright.errors import TileTypeError, fail
from tilewright.nki.binding import call_known, never_entered

OPERATORS: dict[str, Operator] = {}
"""Every operator by its name in nki.language."""


class Operator:
    """A math function. `op_name` is the operator or activation function that an instruction knows it by.

    Equal and hashed by identity; pickles and copies as itself.
    """

    __signature__: Any
    __name__: str

    def __init__(self, function: Callable[..., Any], name: str, op_name: str | None = None) -> None:
        functools.update_wrapper(self, function)
        self.__name__ = self.__qualname__ = name
        self.op_name = op_name or name
        self._function = function
        assert name not in OPERATORS, f"nl.{name} is defined twice"
        OPERATORS[name] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._function(*args, **kwargs)
        except TypeError as error:
            if not never_entered(error):
                raise
        return call_known(self._function, f"nl.{self.__name__}", args, kwargs)

    def __repr__(self) -> str:
        return f"nl.{self.__name__}"

    def __reduce__(self) -> tuple[Callable[[str], Operator], tuple[str]]:
        return operator_named, (self.__name__,)


def operator_named(name: str) -> Operator:
    """The operator of this name (what a pickled one becomes)."""
    return OPERATORS[name]


def operator(function: Callable[..., Any]) -> Operator:
    """Decorator: make an nl function an operator of the same name."""
    return Operator(function, function.__name__)


def operator_as(op_name: str) -> Callable[[Callable[..., Any]], Operator]:
    """Decorator: make an nl function an operator that instructions know by another name."""
    return lambda function: Operator(function, function.__name__, op_name)


def rename(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    """A function made by another, under its own name and docstring."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def operator_only(name: str, doc: str) -> Operator:
    """An operator that instructions take and that cannot be called."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise fail(
            "E108",
            f"nl.{name} is an operator of instructions, not a function",
            hint=f"pass it to an instruction: op=nl.{name}",
            error=TileTypeError,
        )

    refuse.__doc__ = doc
    return Operator(refuse, name)


average = operator_only("average", "Mean over a pooling window, for nki.isa.tensor_reduce and pooling instructions.")
prelu = operator_only("prelu", "ReLU with a slope for negative inputs, given as relu_param of the instruction.")
bypass = operator_only("bypass", "The identity, for an operator slot of an instruction that is not used.")

__all__ = [
    "OPERATORS",
    "Operator",
    "average",
    "bypass",
    "operator",
    "operator_as",
    "operator_named",
    "operator_only",
    "prelu",
    "rename",
]

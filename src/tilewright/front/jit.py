"""Functions that compile themselves: once for each combination of shapes, element types and static arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from tilewright.calls import hand_over, taker_of
from tilewright.errors import TileTypeError, fail
from tilewright.front.adopting import Adopted
from tilewright.front.array import TracedArray
from tilewright.front.binding import bind
from tilewright.front.foreign import refuse_foreign
from tilewright.front.plain import is_plain
from tilewright.front.pytree import argument_leaves
from tilewright.front.trace import current, is_tracing

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Jit(Generic[P, R]):
    """A function that is compiled when it is called with shapes, types or static arguments it has not seen."""

    def __init__(self, function: Callable[P, R], compile: Callable[[Sequence[Any], dict[str, Any]], Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.cache: dict[Hashable, Any] = {}
        self._compile = compile

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        # Inside of another function that is being traced, its ops become part of that one; under NumPy it is NumPy's.
        taker = taker_of(args, kwargs)
        if taker is not None and not (is_tracing() and not current().keeps_compiled):
            return hand_over(taker, self, args, kwargs)
        if is_tracing() or is_plain():
            return self.function(*args, **kwargs)
        return self.compiled(*args, **kwargs)(*args, **kwargs)

    def compiled(self, /, *args: Any, **kwargs: Any) -> Any:
        """The compiled program for these arguments; compiled now if it is the first time."""
        given = Adopted(args, kwargs)
        key = signature_key(bind(self.function, given.args, given.kwargs).arguments)
        found = self.cache.get(key)
        if found is None:
            found = self.cache[key] = self._compile(given.args, given.kwargs)
        return found

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<jit {getattr(self.function, '__name__', self.function)}>"


def signature_key(arguments: dict[str, Any]) -> Hashable:
    """What programs are kept by: the shapes, types and memory order of arrays, which are the same, and all the rest."""
    first: dict[int, int] = {}
    parts: list[Hashable] = []
    for path, x in argument_leaves(arguments):
        parts.append(path)
        if isinstance(x, np.ndarray):
            layout = None if x.flags.c_contiguous else x.strides
            twin = first.setdefault(id(x), len(first))
            parts.append((x.dtype, x.shape, layout, x.flags.writeable, twin))
            continue
        assert not isinstance(x, TracedArray)
        refuse_foreign(f"argument {path}", x)
        parts.append((type(x), _hashable(path, x)))
    return tuple(parts)


def _hashable(path: str, x: Any) -> Hashable:
    try:
        hash(x)
    except TypeError:
        raise fail(
            "E806",
            f"argument {path} is a {type(x).__name__}, which cannot be told apart from others",
            hint="pass arrays, numbers, strings, tuples, lists, dicts or dataclasses of them, or objects with a hash",
            error=TileTypeError,
        ) from None
    return x

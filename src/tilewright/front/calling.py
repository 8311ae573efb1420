"""Calling a traced function: arrays out of the arguments, results into the tree that the function returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import TileError, TileTypeError, fail
from tilewright.front.array import TracedArray
from tilewright.front.binding import bind
from tilewright.front.foreign import refuse_foreign
from tilewright.front.function import Input, Output, Traced
from tilewright.front.pytree import leaves, map_leaves
from tilewright.spec import ArraySpec
from tilewright.tensor.passes.narrow import NARROW, narrowed_array


def arrays_of(traced: Traced, args: Sequence[Any], kwargs: dict[str, Any]) -> list[np.ndarray]:
    """The arrays of a call, by input of the graph; E806 unless the call is of the form that was traced.

    Arguments that are no arrays may be left out: they have the values they had then.
    """
    arrays = matched(traced, args, kwargs)
    if traced.writes:
        _check_memory(traced, dict(enumerate(arrays)))
    return arrays


def matched(traced: Traced, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The arrays of a call, traced ones among them, by input of the graph."""
    known = traced.arguments
    given = bind(traced.function, args, kwargs, partial=True).arguments
    for name in given:
        if name not in known:
            raise _differs(f"argument {name} was not given when the function was compiled")
    arrays: dict[int, Any] = {}
    for name, template in known.items():
        if name in given:
            _match(name, template, given[name], arrays)
        elif any(isinstance(x, Input) for _, x in leaves(template)):
            raise _differs(f"argument {name} is missing")
    return [arrays[place] for place in range(len(arrays))]


def _match(path: str, template: Any, given: Any, arrays: dict[int, Any]) -> None:
    """Compare an argument with the one that was traced and take its arrays."""
    wanted, found = leaves(template, path), leaves(given, path)
    if [name for name, _ in wanted] != [name for name, _ in found]:
        raise _differs(f"argument {path} has another structure than when the function was compiled")
    for (name, x), (_, y) in zip(wanted, found, strict=True):
        refuse_foreign(f"argument {name}", y)
        if not isinstance(x, Input):
            if isinstance(y, np.ndarray) or not _same_static(x, y):
                raise _differs(f"argument {name} was {x!r} when the function was compiled, now it is {_shown(y)}")
            continue
        if not isinstance(y, (np.ndarray, TracedArray)) or y.shape != x.type.shape or y.dtype != x.type.dtype.np:
            raise _differs(f"argument {name} was {x.type} when the function was compiled, now it is {_shown(y)}")
        if arrays.setdefault(x.place, y) is not y:
            raise _differs(f"argument {name} was the same array as another one when the function was compiled")


def _same_static(x: Any, y: Any) -> bool:
    """True when two arguments that are no arrays mean the same program; NaN means what NaN means."""
    return x is y or (type(x) is type(y) and bool(x == y or (x != x and y != y)))


def _shown(x: Any) -> str:
    if isinstance(x, np.ndarray):
        return f"{x.dtype}[{', '.join(map(str, x.shape))}]"
    return "a spec, which has no data" if isinstance(x, ArraySpec) else repr(x)


def _check_memory(traced: Traced, arrays: dict[int, np.ndarray]) -> None:
    """A program that writes to its arguments holds for arrays that lie in memory as those it was compiled for."""
    for x in traced.inputs:
        array = arrays[x.place]
        if (None if array.flags.c_contiguous else array.strides) != x.strides:
            raise _differs(f"argument {x.path} lies in memory in another order, and the function writes to arrays")
    for place, _ in traced.writes:
        path = next(x.path for x in traced.inputs if x.place == place)
        if not arrays[place].flags.writeable:
            raise _differs(f"argument {path} is read-only, and the function writes to it")
        for other, array in arrays.items():
            if other != place and np.may_share_memory(array, arrays[place]):
                raise _differs(f"argument {path}, which the function writes to, shares memory with another one")


def _differs(message: str) -> TileError:
    return fail("E806", message, hint="compile the function for this call; tw.jit does so", error=TileTypeError)


def give_back(traced: Traced, arrays: Sequence[np.ndarray], results: Sequence[np.ndarray], owned: bool = False) -> Any:
    """Change the arguments that the function writes to, and return what it returns, in NumPy's element types.

    owned: nobody else has the arrays of the results, such as an argument.
    """
    taken: set[int] = set()

    def fill(path: str, x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return x.copy()
        if not isinstance(x, Output):
            return x
        if x.same_as is not None:
            return arrays[x.same_as]
        array = results[x.place].astype(x.type.dtype.np, copy=not owned or x.place in taken)
        taken.add(x.place)
        return array[()] if x.is_scalar else array

    # Results may be the arguments themselves: they are copied before those change.
    result = map_leaves(traced.result, fill)
    for place, output in traced.writes:
        _write_back(arrays[place], results[output])
    return result


def _write_back(array: np.ndarray, result: np.ndarray) -> None:
    if array.dtype == result.dtype:
        array[...] = result
        return
    # Elements that a narrower program left alone keep all of their bits.
    dtype = next(new for old, new in NARROW.items() if old.np == array.dtype)
    before = narrowed_array(array, dtype, "an argument")
    bits = f"u{dtype.itemsize}"
    np.copyto(array, result.astype(array.dtype), where=before.view(bits) != np.array(result, order="C").view(bits))

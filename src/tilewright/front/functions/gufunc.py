"""The ufuncs that work on whole vectors and matrices: matmul, vecdot, matvec, vecmat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.front.array import TracedArray, returned
from tilewright.front.functions.einsum import Term, sum_of_products
from tilewright.front.functions.moves import reshaped, transposed
from tilewright.front.functions.shape import array_of
from tilewright.front.promote import as_input, cast, is_weak, loop_types, value_of
from tilewright.front.refusal import ask, axis_in, numpy_error
from tilewright.front.registry import implements
from tilewright.front.trace import emit
from tilewright.front.ufunc import store
from tilewright.ir.core import Value

Core = tuple[str, ...]

_CORES: dict[Any, tuple[Core, Core, Core]] = {
    np.matmul: (("n", "k"), ("k", "m"), ("n", "m")),
    np.vecdot: (("k",), ("k",), ()),
    # Newer than the oldest NumPy that will do.
    getattr(np, "matvec", None): (("n", "k"), ("k",), ("n",)),
    getattr(np, "vecmat", None): (("k",), ("k", "m"), ("m",)),
}
"""Dims that one product takes from each operand and gives: all dims before them are a batch."""


def product(
    ufunc: Any,
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    casting: str = "same_kind",
    order: str = "K",
    dtype: Any = None,
    subok: bool = True,
    signature: Any = None,
    sig: Any = None,
    axes: Any = None,
    axis: Any = None,
    keepdims: bool = False,
) -> TracedArray:
    """Trace a call of one of these ufuncs."""
    inputs = [as_input(x) for x in (x1, x2)]
    given = sig if signature is None else signature
    types, _ = loop_types(ufunc, inputs, outs=[out], dtype=dtype, signature=given, casting=casting)
    arrays = [array_of(x) for x in inputs]
    cores = _cores_of(ufunc, [x.ndim for x in arrays])
    _check_keywords(ufunc, axis, keepdims)
    places = _places(ufunc, axes, axis, cores)
    values = [
        _core_last(value_of(x, dtype) if is_weak(x) else cast(array.value, dtype), core, place)
        for x, array, dtype, core, place in zip(inputs, arrays, types, cores, places, strict=False)
    ]
    _check_sizes(ufunc, values, cores)
    found = _multiplied(ufunc, values, cores)
    found = _core_back(ufunc, found, cores[2], places[2], keepdims, places[0] if axes is None else None)
    if out is None:
        return returned(found)
    return store(out, found, found.type.shape, None, casting, f"ufunc '{ufunc.__name__}' output")


def _cores_of(ufunc: Any, ranks: list[int]) -> tuple[Core, Core, Core]:
    """The core dims that operands of these ranks have: matmul does without n and m for vectors."""
    left, right, result = _CORES[ufunc]
    if ufunc is np.matmul:
        if ranks[0] == 1:
            left, result = ("k",), tuple(name for name in result if name != "n")
        if ranks[1] == 1:
            right, result = ("k",), tuple(name for name in result if name != "m")
    for place, (rank, core) in enumerate(zip(ranks, (left, right), strict=True)):
        if rank < len(core):
            needs = 1 if ufunc is np.matmul else len(core)
            raise numpy_error(
                ValueError,
                f"{ufunc.__name__}: Input operand {place} does not have enough dimensions (has {rank}, gufunc core "
                f"with signature {ufunc.signature} requires {needs})",
            )
    return left, right, result


def _check_keywords(ufunc: Any, axis: Any, keepdims: Any) -> None:
    if ufunc is np.vecdot:
        return
    if axis is not None:
        message = "axis can only be used with a single shared core dimension, not with the distinct ones of"
        raise numpy_error(TypeError, f"{ufunc.__name__}: {message} signature {ufunc.signature}.")
    if keepdims:
        raise numpy_error(TypeError, f"{ufunc.__name__} does not support keepdims: its output has core dimensions")


def _places(ufunc: Any, axes: Any, axis: Any, cores: tuple[Core, Core, Core]) -> list[tuple[int, ...]]:
    """Which dims of each operand, and of the result, are the core dims."""
    if axes is None:
        last = [tuple(range(-len(core), 0)) for core in cores]
        return last if axis is None else [(axis,), (axis,), ()]
    if axis is not None:
        raise numpy_error(TypeError, "cannot specify both 'axis' and 'axes'")
    if not isinstance(axes, list):
        raise numpy_error(TypeError, "axes should be a list.")
    if len(axes) == 2 and not cores[2]:
        axes = [*axes, ()]
    if len(axes) != 3:
        raise numpy_error(ValueError, "axes should be a list with an entry for all 3 inputs and outputs")
    found: list[tuple[int, ...]] = []
    for place, (each, core) in enumerate(zip(axes, cores, strict=True)):
        numbers = tuple(each) if isinstance(each, tuple) else (each,)
        if len(numbers) != len(core):
            kind = ValueError if isinstance(each, tuple) else np.exceptions.AxisError
            raise numpy_error(kind, f"{ufunc.__name__}: operand {place} has {len(core)} core dimensions, not {numbers}")
        found.append(numbers)
    return found


def _core_last(x: Value, core: Core, place: tuple[int, ...]) -> Value:
    """The core dims moved to the end."""
    rank = x.type.rank
    axes = [axis_in(axis, rank) for axis in place]
    if len(set(axes)) != len(axes):
        raise numpy_error(ValueError, "axes item contains a value that is repeated")
    return transposed(x, [*(a for a in range(rank) if a not in axes), *axes])


def _check_sizes(ufunc: Any, values: Sequence[Value], cores: tuple[Core, Core, Core]) -> None:
    left, right = values
    mine = left.type.shape[left.type.rank - len(cores[0]) + cores[0].index("k")]
    at = cores[1].index("k")
    theirs = right.type.shape[right.type.rank - len(cores[1]) + at]
    if mine != theirs:
        raise numpy_error(
            ValueError,
            f"{ufunc.__name__}: Input operand 1 has a mismatch in its core dimension {at}, with gufunc signature "
            f"{ufunc.signature} (size {theirs} is different from {mine})",
        )
    batches = [x.type.shape[: x.type.rank - len(core)] for x, core in zip(values, cores, strict=False)]
    ask(np.broadcast_shapes, *batches)


def _multiplied(ufunc: Any, values: Sequence[Value], cores: tuple[Core, Core, Core]) -> Value:
    left, right = values
    if ufunc is np.matmul and (len(cores[0]) == 2 or len(cores[1]) == 2):
        rows = left if len(cores[0]) == 2 else reshaped(left, (1, *left.type.shape))
        columns = right if len(cores[1]) == 2 else reshaped(right, (*right.type.shape, 1))
        found = emit("matmul", rows, columns)
        shape = found.type.shape
        kept = [n for n, name in zip(shape[-2:], ("n", "m"), strict=True) if name in cores[2]]
        return reshaped(found, (*shape[:-2], *kept))
    terms: list[Term] = []
    for x, core in zip(values, cores, strict=False):
        terms.append(Term(x, (*range(len(core) - x.type.rank, 0), *core)))
    most = max(len(term.labels) - len(core) for term, core in zip(terms, cores, strict=False))
    return sum_of_products(terms, (*range(-most, 0), *cores[2]))


def _core_back(
    ufunc: Any, x: Value, core: Core, place: tuple[int, ...], keepdims: bool, shared: tuple[int, ...] | None
) -> Value:
    """The core dims where `axes` wants them; with keepdims the dim that was summed over has size 1."""
    if keepdims:
        at = axis_in(shared[0] if shared is not None else -1, x.type.rank + 1)
        return reshaped(x, (*x.type.shape[:at], 1, *x.type.shape[at:]))
    rank = x.type.rank
    axes = [axis_in(axis, rank) for axis in place]
    batch = iter(range(rank - len(core)))
    return transposed(x, [rank - len(core) + axes.index(a) if a in axes else next(batch) for a in range(rank)])


def _register(ufunc: Any) -> None:
    @implements(ufunc)
    def handler(x1: Any, x2: Any, /, *args: Any, **kwargs: Any) -> TracedArray:
        return product(ufunc, x1, x2, *args, **kwargs)


for _ufunc in _CORES:
    if _ufunc is not None:
        _register(_ufunc)


@implements(np.linalg.matmul)
def linalg_matmul(x1: Any, x2: Any, /) -> TracedArray:
    """np.linalg.matmul"""
    return product(np.matmul, x1, x2)


@implements(np.linalg.vecdot)
def linalg_vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> TracedArray:
    """np.linalg.vecdot"""
    return product(np.vecdot, x1, x2, axis=axis)

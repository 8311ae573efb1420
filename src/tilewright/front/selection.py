"""x[mask] with a traced mask: elements whose number is known at run time only.

Such an array has no place in a program, but what is usually done with it has: `x[mask] += 1`, `x[mask] = y[mask] * 2`
and `x[mask].sum()` or its median are computed for all elements, and the mask decides where the results go. All else is
E804.
The greatest of no elements, at which NumPy raises, is the least number of the type.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, NoReturn

import numpy as np

from tilewright.dtypes import DType
from tilewright.errors import TileError, TileNotImplementedError, fail
from tilewright.front.array import TracedArray, new, returned
from tilewright.front.foreign import Native
from tilewright.front.promote import as_input, shape_of
from tilewright.front.refusal import axes_in
from tilewright.front.registry import call
from tilewright.front.storage import reshaped
from tilewright.ir.core import Value
from tilewright.tensor.passes.narrow import NARROW


def unknown_count(what: str, instead: str) -> TileError:
    """The exception for a shape that a mask decides about."""
    return fail(
        "E804",
        f"{what}: the number of elements that a traced mask selects is known at run time only",
        hint=f"write {instead}",
        error=TileNotImplementedError,
    )


def _operators(ufunc: np.ufunc) -> tuple[Any, Any]:
    def operator(self: Selection, other: Any) -> Any:
        return self._elementwise(ufunc, (self, other))

    def reflected(self: Selection, other: Any) -> Any:
        return self._elementwise(ufunc, (other, self))

    return operator, reflected


_REDUCTIONS: tuple[Any, ...] = (np.sum, np.prod, np.any, np.all, np.mean, np.var, np.std, np.max, np.min)
"""Reductions that can leave elements out; those of the last two need a number to start from."""
_STARTS: dict[Any, str] = {np.max: "min", np.min: "max"}
_ALSO: dict[Any, Any] = {np.amax: np.max, np.amin: np.min}
_POSITIONS: dict[Any, Any] = {np.argmax: np.max, np.argmin: np.min}
"""Places of the first element that is the greatest or the least."""
_COUNT = np.count_nonzero  # while a function is traced, the name stands for another one


def _reduction(function: Any) -> Callable[..., Any]:
    def method(self: Selection, *args: Any, **kwargs: Any) -> Any:
        return self._reduced(function, args, kwargs)

    return method


def _place(function: Any) -> Callable[..., Any]:
    def method(self: Selection, *args: Any, **kwargs: Any) -> Any:
        return self._position(function, args, kwargs)

    return method


def _product_of(x: Any, y: Any) -> Any:
    """x[mask] @ y[mask]: both are one row of numbers."""
    terms = x * y
    return terms.sum(dtype=terms.dtype)


def _norm_of(x: Any) -> Any:
    x = x.astype(np.float64) if x.full.type.dtype.is_integer else x
    return np.sqrt(_product_of(x, x))


_OF_ROWS: dict[Any, Callable[..., Any]] = {
    np.dot: _product_of,
    np.inner: _product_of,
    np.vdot: _product_of,
    np.matmul: _product_of,
    np.linalg.norm: _norm_of,
    np.ptp: lambda x: x.max() - x.min(),
}
"""Functions of selections that are one row of numbers, by the reductions that they are."""

_PASS_OVER_NANS = frozenset(
    {np.nansum, np.nanprod, np.nanmax, np.nanmin, np.nanmean, np.nanvar, np.nanstd}
    | {np.nanmedian, np.nanquantile, np.nanpercentile}
)
_WITHOUT_NANS: dict[Any, Any] = {np.median: np.nanmedian, np.quantile: np.nanquantile, np.percentile: np.nanpercentile}
"""Functions of what is sorted, and those that do the same but pass over NaN, which here is what is not selected."""


class Selection(Native):
    """The elements of `full` where `mask` holds; `behind` dims of it lie behind those that the mask selects from.

    place: which dim of the array that NumPy makes of it the selected elements are.
    """

    __slots__ = ("behind", "full", "mask", "place")
    __array_priority__ = 2000.0
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, full: TracedArray, mask: Value, behind: int, place: int) -> None:
        self.full = full
        self.mask = mask
        self.behind = behind
        self.place = place

    @property
    def dtype(self) -> np.dtype:
        """The element type."""
        return self.full.dtype

    @property
    def ndim(self) -> int:
        """The rank of the array that NumPy makes of it."""
        return self.full.ndim - max(self.mask.type.rank, 1) + 1

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs and self._are_rows(ufunc, inputs):
            return _OF_ROWS[ufunc](*inputs)
        if method != "__call__" or kwargs or ufunc.signature is not None:
            raise self._refused(f"np.{ufunc.__name__}")
        return self._elementwise(ufunc, inputs)

    def __array_function__(self, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function = _ALSO.get(function, function)
        if function in _REDUCTIONS and args and args[0] is self:
            return self._reduced(function, args[1:], kwargs)
        if not kwargs and self._are_rows(function, args):
            return _OF_ROWS[function](*args)
        if (function in _PASS_OVER_NANS or function in _WITHOUT_NANS) and args[:1] == (self,) and self.ndim == 1:
            return self._without_others(function, args[1:], kwargs)
        if function in _POSITIONS and args[:1] == (self,):
            return self._position(function, args[1:], kwargs)
        if function is _COUNT and len(args) == 1 and not kwargs:
            return call(np.count_nonzero, call(np.logical_and, self.full, self._spread()))
        raise self._refused(f"np.{function.__name__}")

    def _elementwise(self, ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
        found = call(ufunc, *(self._whole(x) for x in inputs))
        results = found if isinstance(found, tuple) else (found,)
        made = [Selection(x, self.mask, self.behind, self.place) for x in results]
        return tuple(made) if len(made) > 1 else made[0]

    def _whole(self, x: Any) -> Any:
        """An operand for all elements: a selection by the same mask, or what is the same for all selected ones."""
        if isinstance(x, Selection):
            if not same_value(x.mask, self.mask) or x.full.shape != self.full.shape:
                raise self._refused("elements selected by another mask")
            return x.full
        given = as_input(x)
        if len(shape_of(given)) > self.behind:
            raise self._refused(f"an array of shape {shape_of(given)}")
        return given

    def _spread(self) -> TracedArray:
        return new(spread_mask(self.mask, self.behind))

    def _are_rows(self, function: Any, args: tuple[Any, ...]) -> bool:
        """Whether the function is one of `_OF_ROWS` and takes nothing but rows of numbers."""
        return function in _OF_ROWS and all(isinstance(x, Selection) and x.ndim == 1 for x in args)

    def _reduced(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = {**dict(zip(("axis",), args, strict=False)), **kwargs}
        axis = given.pop("axis", None)
        if len(args) > 1 or given.pop("keepdims", False) or given.keys() & {"where", "out", "initial"}:
            raise self._refused(f"np.{function.__name__} with such arguments")
        if axis is None:
            axes = None
        else:
            named = axes_in(axis, self.ndim)
            if self.place not in named:
                raise self._refused(f"np.{function.__name__} over other dims")
            axes = tuple(each for j in named for each in self._dims_of(j))
        if function in _STARTS:
            given["initial"] = _limit(self.full.type.dtype, _STARTS[function])
        return call(function, self.full, axis=axes, where=self._spread(), **given)

    def _position(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """How many selected elements lie before the first one that is the greatest or the least, or NaN."""
        if self.ndim != 1 or [*args, *kwargs.values()] not in ([], [None], [0], [-1]) or kwargs.keys() - {"axis"}:
            raise self._refused(f"np.{function.__name__} with such arguments")
        best = self._reduced(_POSITIONS[function], (), {})
        found = call(np.logical_or, call(np.equal, self.full, best), call(np.isnan, self.full))
        first = call(np.argmax, call(np.logical_and, found, self._spread()))
        mask = call(np.ravel, self._spread())
        return call(np.count_nonzero, call(np.logical_and, mask, call(np.less, np.arange(mask.size), first)))

    def _without_others(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function of one row in which NaN stands for what is not selected, passed over as such."""
        dtype = self.full.type.dtype
        if kwargs.keys() - {"q"} or dtype == "bool" or (function in _PASS_OVER_NANS and not dtype.is_float):
            raise self._refused(f"np.{function.__name__} with such arguments")
        full = self.full if dtype.is_float else self.full.astype(np.float64)
        others = call(np.where, self._spread(), full, np.array(np.nan, full.dtype))
        found = call(_WITHOUT_NANS.get(function, function), others, *args, **kwargs)
        if function in _PASS_OVER_NANS or not dtype.is_float:
            return found
        has_nan = call(np.any, call(np.isnan, full), where=self._spread())
        return returned(call(np.where, has_nan, np.array(np.nan, found.dtype), found).value)

    def _dims_of(self, axis: int) -> range | tuple[int]:
        """The dims of `full` that a dim of NumPy's array stands for."""
        masked = max(self.mask.type.rank, 1)
        ahead = self.full.ndim - self.behind - masked
        if axis == self.place:
            return range(ahead, ahead + masked)
        other = axis - (axis > self.place)
        return (other if other < ahead else other + masked,)

    def _refused(self, what: str) -> TileError:
        return unknown_count(f"{what} with x[mask]", "np.where(mask, x, 0), which keeps the shape, or use where=mask")

    def _counted(self, what: str) -> TileError:
        return unknown_count(what, "np.count_nonzero(mask), an array; a mean is x[mask].mean()")

    def astype(self, dtype: Any) -> Selection:
        """The elements in another type."""
        return Selection(self.full.astype(dtype), self.mask, self.behind, self.place)

    sum, prod, any, all, mean, var, std, max, min = map(_reduction, _REDUCTIONS)
    argmax, argmin = map(_place, _POSITIONS)

    __add__, __radd__ = _operators(np.add)
    __sub__, __rsub__ = _operators(np.subtract)
    __mul__, __rmul__ = _operators(np.multiply)
    __truediv__, __rtruediv__ = _operators(np.divide)
    __floordiv__, __rfloordiv__ = _operators(np.floor_divide)
    __mod__, __rmod__ = _operators(np.remainder)
    __pow__, __rpow__ = _operators(np.power)
    __and__, __rand__ = _operators(np.bitwise_and)
    __or__, __ror__ = _operators(np.bitwise_or)
    __xor__, __rxor__ = _operators(np.bitwise_xor)
    __lshift__, __rlshift__ = _operators(np.left_shift)
    __rshift__, __rrshift__ = _operators(np.right_shift)
    __eq__, _ = _operators(np.equal)
    __ne__, _ = _operators(np.not_equal)
    __lt__, __gt__ = _operators(np.less)[0], _operators(np.greater)[0]
    __le__, __ge__ = _operators(np.less_equal)[0], _operators(np.greater_equal)[0]

    def __matmul__(self, other: Any) -> Any:
        if self._are_rows(np.matmul, (self, other)):
            return _product_of(self, other)
        raise self._refused("a matrix product")

    __rmatmul__ = __matmul__

    def __neg__(self) -> Any:
        return self._elementwise(np.negative, (self,))

    def __abs__(self) -> Any:
        return self._elementwise(np.absolute, (self,))

    def __invert__(self) -> Any:
        return self._elementwise(np.invert, (self,))

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)  # a protocol that this class does not have
        if name in ("size", "shape"):
            raise self._counted(f"x[mask].{name}")
        raise self._refused(f"x[mask].{name}")

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise self._refused("a function of NumPy")

    def __getitem__(self, key: Any) -> NoReturn:
        raise self._refused("an index")

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise self._refused("an assignment")

    def __len__(self) -> int:
        raise self._counted("len(x[mask])")

    def __iter__(self) -> NoReturn:
        raise self._refused("a loop")

    def __bool__(self) -> bool:
        raise self._refused("a condition")


def _limit(dtype: DType, which: str) -> Any:
    """The least or greatest number of a type, as the hardware has it."""
    if dtype.is_float:
        return -inf if which == "min" else inf
    return getattr(NARROW.get(dtype, dtype), which)


def spread_mask(mask: Value, behind: int) -> Value:
    """A mask with dims of size 1 for those behind what it selects from; one of rank 0 stands for a dim of its own."""
    return reshaped(mask, (*(mask.type.shape or (1,)), *(1,) * behind))


def same_value(x: Any, y: Any, depth: int = 4) -> bool:
    """True for one value, and for two that the same ops make of the same values: `x > 0` written twice."""
    if x is y or not (isinstance(x, Value) and isinstance(y, Value)):
        return x is y or (type(x) is type(y) and not isinstance(x, Value) and x == y)
    a, b = x.producer, y.producer
    if not depth or a is None or b is None or a.definition is not b.definition or len(a.operands) != len(b.operands):
        return False
    if x.type != y.type or a.attrs != b.attrs or a.results.index(x) != b.results.index(y):
        return False
    return all(same_value(p, q, depth - 1) for p, q in zip(a.operands, b.operands, strict=True))

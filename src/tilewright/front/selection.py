"""x[mask] with a traced mask: elements whose number is known at run time only.

Such an array has no place in a program, but what is usually done with it has: `x[mask] += 1`, `x[mask] = y[mask] * 2`
and `x[mask].sum()` are computed for all elements, and the mask decides where the results go. All else is E804.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from tilewright.errors import TileError, TileNotImplementedError, fail
from tilewright.front.array import TracedArray, new
from tilewright.front.foreign import Native
from tilewright.front.promote import as_input, shape_of
from tilewright.front.registry import call
from tilewright.front.storage import reshaped
from tilewright.ir.core import Value


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


# Sums that can leave elements out.
_REDUCTIONS: dict[Any, str] = {np.sum: "sum", np.prod: "prod", np.any: "any", np.all: "all", np.mean: "mean"}


_COUNT = np.count_nonzero


def _reduction(function: Any) -> Callable[..., Any]:
    def method(self: Selection, **kwargs: Any) -> Any:
        return self._reduced(function, kwargs)

    return method


class Selection(Native):
    """The elements of `full` where `mask` holds; `behind` dims of it lie behind those that the mask selects from."""

    __slots__ = ("behind", "full", "mask")
    __array_priority__ = 2000.0
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, full: TracedArray, mask: Value, behind: int) -> None:
        self.full = full
        self.mask = mask
        self.behind = behind

    @property
    def dtype(self) -> np.dtype:
        """The element type."""
        return self.full.dtype

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs or ufunc.signature is not None:
            raise self._refused(f"np.{ufunc.__name__}")
        return self._elementwise(ufunc, inputs)

    def __array_function__(self, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if function in _REDUCTIONS and len(args) == 1 and args[0] is self:
            return self._reduced(function, kwargs)
        if function is _COUNT and len(args) == 1 and not kwargs:
            return call(np.count_nonzero, call(np.logical_and, self.full, self._spread()))
        raise self._refused(f"np.{function.__name__}")

    def _elementwise(self, ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
        found = call(ufunc, *(self._whole(x) for x in inputs))
        results = found if isinstance(found, tuple) else (found,)
        made = [Selection(x, self.mask, self.behind) for x in results]
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

    def _reduced(self, function: Any, kwargs: dict[str, Any]) -> Any:
        if kwargs.get("axis") is not None or kwargs.get("keepdims") or "where" in kwargs or "out" in kwargs:
            raise self._refused(f"np.{function.__name__}")
        return call(function, self.full, where=self._spread(), **kwargs)

    def _refused(self, what: str) -> TileError:
        return unknown_count(f"{what} with x[mask]", "np.where(mask, x, 0), which keeps the shape, or use where=mask")

    def astype(self, dtype: Any) -> Selection:
        """The elements in another type."""
        return Selection(self.full.astype(dtype), self.mask, self.behind)

    sum, prod, any, all, mean = map(_reduction, _REDUCTIONS)

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

    def __matmul__(self, other: Any) -> NoReturn:
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
        raise self._refused(f"x[mask].{name}")

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise self._refused("a function of NumPy")

    def __getitem__(self, key: Any) -> NoReturn:
        raise self._refused("an index")

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise self._refused("an assignment")

    def __len__(self) -> int:
        raise self._refused("len")

    def __iter__(self) -> NoReturn:
        raise self._refused("a loop")

    def __bool__(self) -> bool:
        raise self._refused("a condition")


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

"""Traced arrays: what a NumPy function sees instead of its arguments while it is being traced.

A `TracedArray` knows its shape and element type, and where its content is (`storage`): it takes part in NumPy's array
protocols, so that `np.exp(x)`, `x + y` or `x[1:] = 0` are written into the graph instead of being computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import TileAttributeError, fail
from tilewright.front.foreign import refuse_foreign
from tilewright.front.lift import constant_of
from tilewright.front.methods import ArrayMethods
from tilewright.front.refusal import ask, numpy_error
from tilewright.front.registry import call, call_ufunc
from tilewright.front.storage import Cell, Reshape, Step, Storage, View
from tilewright.front.trace import current
from tilewright.ir.core import Value
from tilewright.tensor.types import TensorType, type_of


def memoryless(dtype: np.dtype, shape: Sequence[int], strides: Sequence[int] | None = None) -> np.ndarray:
    """An array with a shape and strides but without data: NumPy answers by it what is a view. Never read it."""
    if strides is None:
        steps, step = [], dtype.itemsize
        for size in reversed(shape):
            steps.append(step)
            step *= max(size, 1)
        strides = steps[::-1]
    # By way of an unsigned type: the array interface has no name for float8.
    bits = np.empty(1, f"u{dtype.itemsize}")
    return np.lib.stride_tricks.as_strided(bits, tuple(shape), tuple(strides)).view(dtype)


def _operators(ufunc: np.ufunc) -> tuple[Any, Any, Any]:
    """The three methods of a binary operator: as written, reflected, in place."""

    def operator(self: TracedArray, other: Any) -> Any:
        return call(ufunc, self, other) if _takes_part(other) else NotImplemented

    def reflected(self: TracedArray, other: Any) -> Any:
        return call(ufunc, other, self) if _takes_part(other) else NotImplemented

    def in_place(self: TracedArray, other: Any) -> Any:
        # NumPy's scalars cannot be changed: the name is bound to a new one.
        return call(ufunc, self, other) if self.is_scalar else call(ufunc, self, other, out=self)

    return operator, reflected, in_place


def _comparison(ufunc: np.ufunc) -> Any:
    def operator(self: TracedArray, other: Any) -> Any:
        if ufunc in _EQUALITIES and (other is None or isinstance(other, str)):
            # No number equals such a thing: NumPy says so of each element.
            answer = _EQUALITIES[ufunc]
            return answer if self.is_scalar else call(np.full_like, self, answer, dtype=bool)
        return call(ufunc, self, other) if _takes_part(other) else NotImplemented

    return operator


_EQUALITIES = {np.equal: False, np.not_equal: True}


def _takes_part(other: Any) -> bool:
    """False where the other operand, not an array, wants to decide itself."""
    if isinstance(other, (TracedArray, np.ndarray, np.generic, bool, int, float, complex, list, tuple)):
        return True
    refuse_foreign("an operand", other)
    return getattr(other, "__array_ufunc__", False) is not None and not hasattr(other, "__array_priority__")


class TracedArray(ArrayMethods):
    """An array of a program that is being traced.

    is_scalar: NumPy would have a scalar here (the result of `np.sum(x)`), not an array of rank 0.
    """

    __slots__ = ("_shadow", "is_scalar", "storage", "type", "writeable")
    __array_priority__ = 1000.0
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        storage: Storage,
        type: TensorType,
        shadow: np.ndarray | None = None,
        *,
        is_scalar: bool = False,
        writeable: bool = True,
    ) -> None:
        self.storage = storage
        self.type = type
        self._shadow = shadow
        self.is_scalar = is_scalar
        self.writeable = writeable

    # Content

    @property
    def value(self) -> Value:
        """The current content, as a value of the graph."""
        return self.storage.read()

    @property
    def shadow(self) -> np.ndarray:
        """An array without data that has this array's shape and strides: see `memoryless`."""
        if self._shadow is None:
            self._shadow = memoryless(self.type.dtype.np, self.type.shape)
        return self._shadow

    def assign(self, value: Value) -> None:
        """Replace the content by a value of the array's own type, through views to the owner of the storage."""
        if self.is_scalar:
            raise numpy_error(TypeError, f"'numpy.{self.dtype}' object does not support item assignment")
        if not self.writeable:
            raise numpy_error(ValueError, "assignment destination is read-only")
        self.storage.write(value)

    # Protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        # Classes that come before this one among operands are asked first.
        if any(getattr(x, "__array_priority__", 0.0) > self.__array_priority__ for x in inputs):
            return NotImplemented
        return call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return call(function, *args, **kwargs)

    def __call_kernel__(self, kernel: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A call of a kernel on this array, among others: an op of the program that is being traced."""
        caller = current().caller
        if caller is None:
            name = getattr(kernel, "__name__", "a kernel")
            hint = "let tw.compile or tw.program trace the function: kernels are ops of their graphs"
            raise fail("E801", f"{name} is called on an array of a program that has no calls of kernels", hint=hint)
        return caller(kernel, args, kwargs)

    # Attributes

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dim. Assigning changes the shape in place, where no copy is needed."""
        return self.type.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        try:
            shadow = np.reshape(self.shadow, shape, copy=False)
        except ValueError:
            ask(np.reshape, memoryless(np.dtype(np.int8), self.type.shape), shape)
            raise fail("E808", "incompatible shape for in-place modification", error=TileAttributeError) from None
        self.storage, self._shadow = View(self.storage, Reshape(shadow.shape)), shadow
        self.type = self.type.with_shape(shadow.shape)

    @property
    def dtype(self) -> np.dtype:
        """The element type, as NumPy's."""
        return self.type.dtype.np

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.type.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.type.size

    # Operators

    __add__, __radd__, __iadd__ = _operators(np.add)
    __sub__, __rsub__, __isub__ = _operators(np.subtract)
    __mul__, __rmul__, __imul__ = _operators(np.multiply)
    __truediv__, __rtruediv__, __itruediv__ = _operators(np.divide)
    __floordiv__, __rfloordiv__, __ifloordiv__ = _operators(np.floor_divide)
    __mod__, __rmod__, __imod__ = _operators(np.remainder)
    _power, __rpow__, __ipow__ = _operators(np.power)
    __and__, __rand__, __iand__ = _operators(np.bitwise_and)
    __or__, __ror__, __ior__ = _operators(np.bitwise_or)
    __xor__, __rxor__, __ixor__ = _operators(np.bitwise_xor)
    __lshift__, __rlshift__, __ilshift__ = _operators(np.left_shift)
    __rshift__, __rrshift__, __irshift__ = _operators(np.right_shift)
    __matmul__, __rmatmul__, __imatmul__ = _operators(np.matmul)
    __eq__ = _comparison(np.equal)
    __ne__ = _comparison(np.not_equal)
    __lt__ = _comparison(np.less)
    __le__ = _comparison(np.less_equal)
    __gt__ = _comparison(np.greater)
    __ge__ = _comparison(np.greater_equal)

    def __pow__(self, other: Any) -> Any:
        # The square of bools is int8 in NumPy, other powers int64.
        square = self.dtype == np.bool_ and not self.is_scalar and type(other) is int and other == 2
        return call(np.square, self) if square else self._power(other)

    def __divmod__(self, other: Any) -> Any:
        return call(np.divmod, self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return call(np.divmod, other, self)

    def __neg__(self) -> Any:
        return call(np.negative, self)

    def __pos__(self) -> Any:
        return call(np.positive, self)

    def __abs__(self) -> Any:
        return call(np.absolute, self)

    def __invert__(self) -> Any:
        return call(np.invert, self)


def new(value: Value, shadow: np.ndarray | None = None) -> TracedArray:
    """A fresh array that owns its storage, in row-major order unless `shadow` says otherwise."""
    return TracedArray(Cell(value), value.type, shadow)


def returned(value: Value, shadow: np.ndarray | None = None) -> TracedArray:
    """A fresh array, or a scalar when the rank is 0: what NumPy's computing functions return."""
    return TracedArray(Cell(value), value.type, shadow, is_scalar=not value.type.shape)


def view(base: TracedArray, step: Step, shadow: np.ndarray, *, writeable: bool = True) -> TracedArray:
    """An array that shares the storage of `base`: reads and writes go through `step`."""
    return TracedArray(View(base.storage, step), type_of(shadow), shadow, writeable=writeable and base.writeable)


def as_traced(x: Any) -> TracedArray:
    """x as a traced array: itself, or a constant made of an array, a number or a (nested) list."""
    if isinstance(x, TracedArray):
        return x
    if isinstance(x, (list, tuple)) and holds_traced(x):
        # NumPy makes one array of a list of arrays, one dim deeper.
        return call(np.stack, [as_traced(item) for item in x])
    refuse_foreign("an operand", x)
    return new(constant_of(ask(np.asarray, x)))


def holds_traced(x: Any) -> bool:
    """True for a traced array, and for a nested list or tuple with one somewhere inside."""
    return isinstance(x, TracedArray) or (isinstance(x, (list, tuple)) and any(map(holds_traced, x)))

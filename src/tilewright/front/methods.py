"""Methods and attributes of arrays, beside the operators: most hand over to the function of the same name.

`ArrayMethods` has all that NumPy's arrays have. What needs the numbers themselves while the function is traced is E802,
what cannot be traced otherwise E803.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tilewright.errors import Location, TileAttributeError, TileError, TileTypeError, fail
from tilewright.front.foreign import Native
from tilewright.front.refusal import numpy_error, unsupported
from tilewright.front.registry import call
from tilewright.front.trace import current

if TYPE_CHECKING:
    from tilewright.front.array import TracedArray


class TileHostError(TileTypeError, NotImplementedError):
    """A number is asked for that exists at run time only."""


def host_data(what: str, hint: str, location: Location | None = None) -> TileError:
    """The exception for asking a traced array for its numbers."""
    message = f"{what}: the numbers of a traced array are known only when the program runs"
    return fail("E802", message, hint=hint, location=location, error=TileHostError)


_NUMBER_HINT = (
    "use NumPy's functions on the array; pass a number that decides about shapes as an argument that is no array; "
    "write into arrays that the function makes itself, such as np.array(a)"
)


def _later(module: str) -> Any:
    """A module that itself needs traced arrays."""
    return import_module(f"tilewright.front.{module}")


def _function(function: Any) -> Any:
    """A method that is a function of NumPy with the array as first argument."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return call(function, self, *args, **kwargs)

    method.__name__ = function.__name__
    method.__doc__ = f"np.{function.__name__} of this array."
    return method


def read_numbers(x: Any) -> np.ndarray | None:
    """The numbers of a traced array, where whoever traces can tell them (`Trace.reader`)."""
    reader = current().reader
    return None if reader is None else reader(x.value)


def _number(what: str, name: str) -> Any:
    """A method that needs the numbers."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        numbers = read_numbers(self)
        if numbers is None:
            raise host_data(what, _NUMBER_HINT)
        return getattr(numbers, name)(*args, **kwargs)

    method.__doc__ = f"E802: {what} needs the numbers."
    return method


def _none(name: str, hint: str = "tilewright ops lists what can be traced") -> Any:
    """A method that cannot be traced."""

    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise unsupported(f"ndarray.{name}", hint=hint)

    method.__doc__ = "E803: not supported."
    return method


class ArrayMethods(Native):
    """What `TracedArray` has of NumPy's methods."""

    __slots__ = ()

    if TYPE_CHECKING:
        shape: Any
        dtype: Any
        ndim: Any
        size: Any
        is_scalar: bool
        shadow: Any

    # Functions of the same name

    all = _function(np.all)
    any = _function(np.any)
    argmax = _function(np.argmax)
    argmin = _function(np.argmin)
    argpartition = _function(np.argpartition)
    argsort = _function(np.argsort)
    choose = _function(np.choose)
    conj = _function(np.conjugate)
    conjugate = _function(np.conjugate)
    cumprod = _function(np.cumprod)
    cumsum = _function(np.cumsum)
    diagonal = _function(np.diagonal)
    dot = _function(np.dot)
    max = _function(np.max)
    mean = _function(np.mean)
    min = _function(np.min)
    nonzero = _function(np.nonzero)
    prod = _function(np.prod)
    put = _function(np.put)
    repeat = _function(np.repeat)
    round = _function(np.round)
    searchsorted = _function(np.searchsorted)
    squeeze = _function(np.squeeze)
    std = _function(np.std)
    sum = _function(np.sum)
    swapaxes = _function(np.swapaxes)
    take = _function(np.take)
    trace = _function(np.trace)
    var = _function(np.var)

    # The numbers themselves

    item = _number("x.item()", "item")
    tolist = _number("x.tolist()", "tolist")
    tobytes = _number("x.tobytes()", "tobytes")
    tofile = _number("x.tofile()", "tofile")
    dump = _number("x.dump()", "dump")
    dumps = _number("x.dumps()", "dumps")
    __int__ = _number("int(x)", "__int__")
    __float__ = _number("float(x)", "__float__")
    __complex__ = _number("complex(x)", "__complex__")

    # Not supported

    byteswap = _none("byteswap")
    getfield = _none("getfield", "x.view(dtype) gives the bits as another type")
    setfield = _none("setfield")
    resize = _none("resize", "np.resize makes a new array")

    def __index__(self) -> int:
        numbers = read_numbers(self)
        if numbers is not None:
            return numbers.__index__()
        raise host_data("x as an index, a size or a bound of a slice", _NUMBER_HINT)

    def __bool__(self) -> bool:
        if self.size == 1:
            numbers = read_numbers(self)
            if numbers is not None:
                return bool(numbers)
            raise fail(
                "E801",
                "an array that is known only when the program runs decides about Python's control flow",
                hint="choose between both results with np.where(condition, x, y); conditions on shapes and on "
                "arguments that are no arrays can stay as they are",
                error=TileHostError,
            )
        if self.size == 0:
            raise numpy_error(ValueError, "The truth value of an empty array is ambiguous. Use `array.size > 0` ...")
        raise numpy_error(
            ValueError, "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        numbers = read_numbers(self)
        if numbers is not None:
            return numbers if dtype is None else numbers.astype(dtype)
        # NumPy's types ask for an array of their own; they are what elements are compared with by name and identity,
        # so that nothing can stand for them while a function is traced.
        cast = (
            "" if dtype is None else f"convert it by x.astype(np.{np.dtype(dtype)}), as np.{np.dtype(dtype)}(x) does; "
        )
        raise host_data(
            "an array of NumPy made of a traced array",
            f"{cast}use the array as it is, NumPy's functions and operators take it; traced data can be written into "
            "arrays that the function makes itself, such as np.array(a), and look up np.take(a, x)",
        )

    def __contains__(self, x: Any) -> bool:
        return bool(call(np.any, call(np.equal, self, x)))

    def __repr__(self) -> str:
        kind = "scalar" if self.is_scalar else "array"
        return f"<traced {kind} {self.dtype}[{', '.join(map(str, self.shape))}]>"

    def __round__(self, ndigits: Any = None) -> Any:
        if not self.is_scalar:
            raise numpy_error(TypeError, "type numpy.ndarray doesn't define __round__ method")
        return int(self) if ndigits is None else call(np.round, self, ndigits)  # type: ignore[call-overload]

    def __format__(self, spec: str) -> str:
        if spec:
            raise host_data(f"x formatted by {spec!r}", _NUMBER_HINT)
        return repr(self)

    # Sequences and items

    def __len__(self) -> int:
        if not self.ndim:
            raise numpy_error(TypeError, "len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise numpy_error(TypeError, "iteration over a 0-d array")
        return (self[place] for place in range(self.shape[0]))

    def __getitem__(self, key: Any) -> Any:
        return _later("indexing").get_item(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        current().written.add(self.storage.root)
        _later("indexing").set_item(self, key, value)

    def __delitem__(self, key: Any) -> NoReturn:
        raise numpy_error(ValueError, "cannot delete array elements")

    @property
    def flat(self) -> Any:
        """The elements in row-major order, to be read and written by index."""
        return _later("flat").Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        _later("flat").Flat(self)[...] = value

    def fill(self, value: Any) -> None:
        """Set every element to one value."""
        if np.ndim(value) if not hasattr(value, "ndim") else value.ndim:
            raise numpy_error(ValueError, "setting an array element with a sequence.")
        if not self.is_scalar:  # else NumPy changes a copy, which nobody sees
            _later("assign").fill(self, value)

    # Shapes

    @property
    def T(self) -> Any:
        """The array with its dims in reverse order, as a view."""
        return self.transpose()

    @property
    def mT(self) -> Any:
        """The array with its last two dims exchanged, as a view."""
        if self.ndim < 2:
            raise numpy_error(ValueError, "matrix transpose with ndim < 2 is undefined")
        return self.swapaxes(-1, -2)

    def transpose(self, *axes: Any) -> Any:
        """x.transpose(1, 0), x.transpose((1, 0)) or x.transpose()."""
        return call(np.transpose, self, axes[0] if len(axes) == 1 else axes or None)

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
        """x.reshape(2, 3) or x.reshape((2, 3)), one size may be -1."""
        return call(np.reshape, self, shape[0] if len(shape) == 1 else shape, order=order, copy=copy)

    def ravel(self, order: str = "C") -> Any:
        """All elements in one dim, as a view where NumPy has one."""
        return call(np.ravel, self, order)

    def flatten(self, order: str = "C") -> Any:
        """All elements in one dim, as a copy."""
        return _later("views").copied(call(np.ravel, self, order), "C")

    # Copies and types

    def copy(self, order: str = "C") -> Any:
        """A copy."""
        return self if self.is_scalar else call(np.copy, self, order)

    def __copy__(self) -> Any:
        return _later("views").copied(self, "K")

    def __deepcopy__(self, memo: Any) -> Any:
        return _later("views").copied(self, "K")

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:
        """A copy in another element type."""
        return _later("conversion").astype(self, dtype, order, casting, copy)

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        """A view of all elements, or of their bits as another element type of the same size."""
        if type is not None:
            raise unsupported("ndarray.view", "type")
        views = _later("views")
        return views.sliced(self, ()) if dtype is None else views.as_type_view(self, dtype)

    @property
    def real(self) -> Any:
        """The array itself: its numbers are real."""
        return self

    @real.setter
    def real(self, value: Any) -> None:
        _later("assign").fill(self, value)

    @property
    def imag(self) -> Any:
        """Zeros: the numbers are real."""
        return call(np.imag, self)

    # In place

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
        """Sort in place."""
        self._replace(call(np.sort, self, axis, kind, order, stable=stable))

    def partition(self, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
        """Partition in place."""
        self._replace(call(np.partition, self, kth, axis, kind, order))

    def _replace(self, other: TracedArray) -> None:
        _later("assign").fill(self, other)

    def clip(self, min: Any = None, max: Any = None, out: Any = None, **kwargs: Any) -> Any:
        """np.clip of this array, which may have one bound alone."""
        return call(np.clip, self, min, max, out, **kwargs)

    def compress(self, condition: Any, axis: Any = None, out: Any = None) -> Any:
        """np.compress of this array."""
        return call(np.compress, condition, self, axis, out)

    def setflags(self, write: Any = None, align: Any = None, uic: Any = None) -> None:
        """Make the array read-only; making it writeable again is for its owner alone."""
        if write is not None:
            if write and not self.writeable:
                raise unsupported("ndarray.setflags", "write", "an array cannot be made writeable")
            self.writeable = bool(write)

    # Memory

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes from an element to the next, in each dim, as NumPy would have them."""
        return self.shadow.strides

    @property
    def flags(self) -> Any:
        """How NumPy's array would lie in memory."""
        return self.shadow.flags

    @property
    def device(self) -> str:
        """What NumPy says of its arrays."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: Any = None) -> Any:
        """The array itself, for the device that NumPy knows."""
        if device != "cpu":
            raise numpy_error(ValueError, 'The only supported device is "cpu"')
        return self

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return np

    def __getattr__(self, name: str) -> NoReturn:
        if hasattr(np.ndarray, name) and not name.startswith("__"):
            if name in ("data", "ctypes"):
                raise host_data(f"x.{name}", _NUMBER_HINT)
            raise unsupported(f"ndarray.{name}")
        hint = "tilewright ops lists the functions and methods that can be traced"
        raise fail("E803", f"an array has no attribute {name!r}", hint=hint, error=TileAttributeError)

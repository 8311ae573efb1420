"""Arrays that a traced function makes itself: real ones, until traced data is written into them.

`np.zeros(4)` inside of a traced function gives a `LocalArray`, NumPy's own array for all purposes: masks and tables are
computed by NumPy. When traced data is written into it (`out[i] = x`, `total += x`), the array that owns the memory is
taken over: from then on it is a traced array (`twin`), and whoever holds it or a view of it is handed that.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import fail
from tilewright.front.array import TracedArray, memoryless, view
from tilewright.front.lift import constant_of
from tilewright.front.registry import call, call_ufunc
from tilewright.front.selection import Selection
from tilewright.front.storage import Cell, reshaped
from tilewright.front.trace import current, emit, is_tracing
from tilewright.front.views import sliced
from tilewright.ir.core import Value
from tilewright.tensor.types import type_of

# Read from the memory of the array even once it is taken over, because views were made of it.
_OWN = frozenset({"base", "dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size", "strides"})

_NUMPY = str(Path(np.__file__).parent)


class LocalArray(np.ndarray):
    """An array that was made while a function is traced. `_twin`: the traced array that took its place, if any."""

    _twin: TracedArray | None = None

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        if is_tracing() and any(map(is_traced, (*inputs, *kwargs.get("out", ()), kwargs.get("where")))):
            return call_ufunc(ufunc, method, inputs, kwargs)
        plain = {name: _plain(x) for name, x in kwargs.items()}
        if "out" in kwargs:
            plain["out"] = tuple(map(_plain, kwargs["out"]))
        found = getattr(ufunc, method)(*map(_plain, inputs), **plain)
        if "out" in kwargs:
            return kwargs["out"] if isinstance(found, tuple) else kwargs["out"][0]
        code = sys._getframe(1).f_code
        inside = code.co_name == "_var" and code.co_filename.startswith(_NUMPY)
        if inside and method == "__call__" and isinstance(found, np.generic):
            return np.asarray(found)  # it says `out=...`, since it wants an array, and that is not passed on
        return tuple(map(localised, found)) if isinstance(found, tuple) else localised(found)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if is_tracing() and any(map(is_traced, (*args, *kwargs.values()))):
            return call(function, *args, **kwargs)
        found = super().__array_function__(function, types, args, kwargs)
        return found if any(found is x for x in args) else localised(own(found, (*args, *kwargs.values())))

    def __getitem__(self, key: Any) -> Any:
        if self._is_taken() or is_traced(key):
            return twin_of(self)[key] if self._is_taken() else as_constant(self)[key]
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._is_taken() or is_traced(key) or is_traced(value):
            twin_of(self)[key] = value
        else:
            super().__setitem__(key, value)

    def fill(self, value: Any) -> None:
        """Set every element to one value."""
        (twin_of if is_traced(value) else plain)(self).fill(value)

    def put(self, indices: Any, values: Any, mode: Any = "raise") -> None:
        """np.put to this array."""
        traced = self._is_taken() or is_traced(indices) or is_traced(values)
        (twin_of if traced else plain)(self).put(settle(indices), settle(values), mode)

    def __getattribute__(self, name: str) -> Any:
        get = object.__getattribute__
        if name.startswith("_") or name in _OWN or not get(self, "_is_taken")():
            return get(self, name)
        return getattr(twin_of(self), name)

    def _is_taken(self) -> bool:
        return owner_of(self)._twin is not None


def _delegated(name: str) -> Any:
    def method(self: LocalArray, *args: Any) -> Any:
        target = twin_of(self) if self._is_taken() else plain(self)
        return getattr(target, name)(*args)

    return method


for _name in (
    "bool",
    "int",
    "float",
    "complex",
    "index",
    "iter",
    "contains",
    "repr",
    "str",
    "format",
    "copy",
    "deepcopy",
):
    setattr(LocalArray, f"__{_name}__", _delegated(f"__{_name}__"))


def _plain(x: Any) -> Any:
    return plain(x) if isinstance(x, LocalArray) else x


def own(x: Any, args: Any) -> Any:
    """A result that is a view: of a local argument, or, of something that is no argument, in memory of its own."""
    if type(x) is not np.ndarray or x.base is None:
        return x
    arrays = [y for each in args for y in (each if isinstance(each, (list, tuple)) else (each,))]
    shared = [y for y in arrays if isinstance(y, np.ndarray) and np.may_share_memory(x, y)]
    if not shared:
        return x.copy()
    return _local_view(x, shared[0]) if isinstance(shared[0], LocalArray) else x


def _local_view(x: np.ndarray, source: LocalArray) -> np.ndarray:
    """A view of a local array that lost its class on the way (np.broadcast_to) as a view of the same owner."""
    owner = owner_of(source)
    if not owner.flags.c_contiguous or not x.size:
        return x
    offset = _address(x) - _address(owner)
    made = np.ndarray.__new__(LocalArray, x.shape, x.dtype, owner, offset, x.strides)
    made.flags.writeable = x.flags.writeable
    return made


def is_traced(x: Any) -> bool:
    """True for traced data: arrays, local ones that are taken over, and lists and tuples with some inside."""
    if isinstance(x, LocalArray):
        return x._is_taken()
    return isinstance(x, (TracedArray, Selection)) or (isinstance(x, (list, tuple)) and any(map(is_traced, x)))


def localised(x: Any) -> Any:
    """A fresh array of NumPy as a local one; anything else as it is."""
    if type(x) is not np.ndarray or x.base is not None or not is_tracing():
        return x
    current().has_locals = True
    return x.view(LocalArray)


def owner_of(x: LocalArray) -> LocalArray:
    """The local array that all views of the same memory are made of."""
    base = x.base
    return base if isinstance(base, LocalArray) else x


def as_constant(x: LocalArray) -> TracedArray:
    """The present content as a traced array of its own."""
    return TracedArray(Cell(constant_of(plain(x))), type_of(x))


def twin_of(x: LocalArray) -> TracedArray:
    """The traced array that stands for a local one from now on."""
    owner = owner_of(x)
    if owner._twin is None:
        _take_over(owner)
    if x is owner:
        assert owner._twin is not None
        return owner._twin
    if x._twin is None:
        x._twin = _view_of_twin(x, owner)
    return x._twin


def _take_over(owner: LocalArray) -> None:
    memory = plain(owner)
    shadow = memoryless(memory.dtype, memory.shape, memory.strides)
    twin = TracedArray(Cell(constant_of(memory)), type_of(memory), shadow, writeable=memory.flags.writeable)
    current().taken.append(memory)
    owner._twin = twin
    # Whoever still reads this memory, past all protocols, should notice.
    if memory.flags.writeable and memory.dtype.kind != "b":
        memory.fill(np.nan if twin.type.dtype.is_float else twin.type.dtype.max)


def _view_of_twin(x: LocalArray, owner: LocalArray) -> TracedArray:
    """A view that was made before the owner was taken over."""
    assert owner._twin is not None
    if x.dtype != owner.dtype:
        raise fail("E802", "traced data is written into an array whose bits are viewed as another element type")
    key = _key_of(x, owner)
    if key is not None:
        return sliced(owner._twin, key)
    shadow = memoryless(x.dtype, x.shape, x.strides)
    return view(owner._twin, _Places(_places_of(x, owner), x.shape), shadow, writeable=x.flags.writeable)


def _offset(x: LocalArray, owner: LocalArray) -> int:
    return (_address(x) - _address(owner)) // owner.dtype.itemsize


def _key_of(x: LocalArray, owner: LocalArray) -> tuple[Any, ...] | None:
    """The integers and slices that make the view of its owner, if these alone do."""
    if not (x.size and owner.flags.c_contiguous):
        return None
    starts = np.unravel_index(_offset(x, owner), owner.shape)
    dims = list(zip(x.shape, x.strides, strict=True))
    key: list[Any] = []
    for start, size, stride in zip(map(int, starts), owner.shape, owner.strides, strict=True):
        count, step = (dims[0][0], dims[0][1] // stride) if dims else (1, 0)
        last = start + step * (count - 1)
        if step and 0 <= last < size:
            key.append(slice(start, last + 1 if step > 0 else last - 1 if last else None, step))
            dims = dims[1:]
        else:
            key.append(start)
    made = plain(owner)[(*key, ...)]
    same = made.shape == x.shape and made.strides == x.strides and _address(made) == _address(x)
    return (*key, ...) if same else None


def _places_of(x: LocalArray, owner: LocalArray) -> np.ndarray:
    """The elements of a view, by their places in the owner, counted in row-major order."""
    size = owner.dtype.itemsize
    places = np.arange(owner.size, dtype=np.int32)
    lying = np.lib.stride_tricks.as_strided(places, owner.shape, [s // size * 4 for s in owner.strides])
    order = np.empty(owner.size, np.int32)
    order[lying.ravel()] = places
    line = places[_offset(x, owner) :]
    return order[np.lib.stride_tricks.as_strided(line, x.shape, [s // size * 4 for s in x.strides]).ravel()]


def _address(x: np.ndarray) -> int:
    return plain(x).__array_interface__["data"][0]


def plain(x: np.ndarray) -> np.ndarray:
    """The memory of a local array, as NumPy's own."""
    return np.ndarray.view(x, np.ndarray)


class _Places:
    """A view by a list of places in the base, counted in row-major order."""

    __slots__ = ("places", "shape")

    def __init__(self, places: np.ndarray, shape: tuple[int, ...]) -> None:
        self.places = places
        self.shape = shape

    def read(self, base: Value) -> Value:
        line = reshaped(base, (base.type.size,))
        return reshaped(emit("take", line, constant_of(self.places), axis=0), self.shape)

    def write(self, base: Value, part: Value) -> Value:
        line, rows = reshaped(base, (base.type.size,)), reshaped(part, (part.type.size,))
        return reshaped(emit("put_rows", line, constant_of(self.places), rows), base.type.shape)


# Functions that write to their first argument.
_WRITERS = {np.copyto, np.put, np.put_along_axis, np.place, np.putmask, np.fill_diagonal}


def settled(function: Any, args: Any, kwargs: dict[str, Any], writes: bool = False) -> tuple[Any, dict[str, Any]]:
    """Arguments of a call that is traced: local arrays that are taken over, or written to, as traced arrays."""
    out = kwargs.get("out")
    written = list(out) if isinstance(out, tuple) else [out]
    if writes or function in _WRITERS:
        written += args[:1]
    for x in written:
        if isinstance(x, LocalArray):
            twin_of(x)  # taken over before any argument is looked at, since it may be one
    return tuple(map(settle, args)), {name: settle(x) for name, x in kwargs.items()}


def settle(x: Any) -> Any:
    """A local array that is taken over as the traced array it has become, also in lists and tuples."""
    if isinstance(x, LocalArray):
        return twin_of(x) if x._is_taken() else x
    if type(x) in (list, tuple) and any(isinstance(item, (LocalArray, list, tuple)) for item in x):
        return type(x)(map(settle, x))
    return x

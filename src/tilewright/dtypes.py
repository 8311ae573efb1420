"""Element types of the device, and what an engine reads from and writes to them.

A `DType` is the string that NKI uses for it, so it goes wherever NKI or NumPy takes a name, and it also compares equal
to the NumPy, ml_dtypes and torch objects of the same type. Engines compute in float32: `to_f32` is what they see of a
stored array, `round_to` is what they store.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

import ml_dtypes
import numpy as np
from numpy import dtype as NumpyDType

from tilewright.errors import TileError, TileTypeError, fail
from tilewright.small_floats import narrow, widen


class DType(str):
    """An element type. `max` and `min` are finite limits; those of a packed type are limits of one packed element.

    Hashes as its name. NumPy types compare equal but hash differently, so use `as_dtype` before a lookup.
    """

    __slots__ = ("np", "itemsize", "kind", "is_float", "is_integer", "short", "max", "min")

    np: NumpyDType
    itemsize: int
    kind: str
    is_float: bool
    is_integer: bool
    short: str
    max: float | int
    min: float | int

    def __new__(
        cls, name: str, short: str, kind: str, storage: type, limits: tuple[float, float] | tuple[int, int]
    ) -> DType:
        self = str.__new__(cls, name)
        self.np = np.dtype(storage)
        self.itemsize = self.np.itemsize
        self.kind = kind
        self.is_float = kind == "f"
        self.is_integer = kind in "iub"
        self.short = short
        self.min, self.max = limits
        return self

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, str):
            return str.__eq__(self, other)
        known = _foreign(other)
        if known is None and not isinstance(other, (np.dtype, type)):
            return NotImplemented
        return known is self or (known is None and other in (self.np, self.np.type))

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = str.__hash__

    def __repr__(self) -> str:
        return str.__str__(self)

    def __reduce__(self) -> tuple[object, ...]:
        return host_dtype, (str.__str__(self),)


class PackedDType(DType):
    """Small floats in one element. Hashes as the cells that stand for it in arrays: scripts look it up by those."""

    __slots__ = ()

    @property
    def cell(self) -> NumpyDType:
        """How NumPy holds an element on the host: one field, whose name is the type."""
        return np.dtype([(str.__str__(self), self.np)])

    def __hash__(self) -> int:
        return hash(self.cell)

    __eq__ = DType.__eq__


def _float(name: str, short: str) -> DType:
    scalar = getattr(ml_dtypes, name, None) or getattr(np, name)
    info = ml_dtypes.finfo(scalar)
    return DType(name, short, "f", scalar, (float(info.min), float(info.max)))


def _integer(name: str, short: str) -> DType:
    info = np.iinfo(name)
    return DType(name, short, info.kind, getattr(np, name), (int(info.min), int(info.max)))


def _packed(element: type, short: str, storage: type) -> DType:
    info = ml_dtypes.finfo(element)
    return PackedDType(f"{element.__name__}_x4", short, "p", storage, (float(info.min), float(info.max)))


_TF32_DROPPED_BITS = 23 - 10
_TF32_MAX = float(np.array(0x7F7FFFFF >> _TF32_DROPPED_BITS << _TF32_DROPPED_BITS, np.uint32).view(np.float32))

float32 = _float("float32", "f32")
float16 = _float("float16", "f16")
bfloat16 = _float("bfloat16", "bf16")
tfloat32 = DType("tfloat32", "tf32", "f", np.float32, (-_TF32_MAX, _TF32_MAX))
float8_e4m3 = _float("float8_e4m3", "f8e4m3")
float8_e4m3fn = _float("float8_e4m3fn", "f8e4m3fn")
float8_e5m2 = _float("float8_e5m2", "f8e5m2")
float8_e3m4 = _float("float8_e3m4", "f8e3m4")
float8_e8m0fnu = _float("float8_e8m0fnu", "f8e8m0fnu")
int8 = _integer("int8", "i8")
int16 = _integer("int16", "i16")
int32 = _integer("int32", "i32")
uint8 = _integer("uint8", "u8")
uint16 = _integer("uint16", "u16")
uint32 = _integer("uint32", "u32")
bool_ = DType("bool", "bool", "b", np.bool_, (0, 1))
float8_e5m2_x4 = _packed(ml_dtypes.float8_e5m2, "f8e5m2x4", np.uint32)
float8_e4m3fn_x4 = _packed(ml_dtypes.float8_e4m3fn, "f8e4m3fnx4", np.uint32)
float4_e2m1fn_x4 = _packed(ml_dtypes.float4_e2m1fn, "f4e2m1fnx4", np.uint16)

_ALL = (
    *(float32, float16, bfloat16, tfloat32),
    *(float8_e4m3, float8_e4m3fn, float8_e5m2, float8_e3m4, float8_e8m0fnu),
    *(int8, int16, int32, uint8, uint16, uint32, bool_),
    *(float8_e5m2_x4, float8_e4m3fn_x4, float4_e2m1fn_x4),
)

DTYPES: Mapping[str, DType] = MappingProxyType({str.__str__(d): d for d in _ALL})
"""Every element type by its name."""

float64 = DType("float64", "f64", "f", np.float64, (float(np.finfo("f8").min), float(np.finfo("f8").max)))
int64 = _integer("int64", "i64")
uint64 = _integer("uint64", "u64")

HOST_DTYPES: Mapping[str, DType] = MappingProxyType({**DTYPES, **{str.__str__(d): d for d in (float64, int64, uint64)}})
"""The element types of the device and the 64-bit ones that NumPy programs compute with before they are narrowed."""

# Strings follow this table alone: NumPy's character codes count bytes, so its "i8" would be another type than ours.
_ALIASES: dict[str, DType] = {
    **DTYPES,
    **{d.short: d for d in _ALL},
    **dict.fromkeys(("fp32", "float"), float32),
    **dict.fromkeys(("fp16", "half"), float16),
    "bool_": bool_,
    "fp8e4": float8_e4m3,
    "float8e4": float8_e4m3,
    "fp8_e4m3": float8_e4m3,
    "fp8_e4m3fn": float8_e4m3fn,
    "fp8e5": float8_e5m2,
    "float8e5": float8_e5m2,
    "fp8_e5m2": float8_e5m2,
    "fp8e3": float8_e3m4,
    "float8e3": float8_e3m4,
    "fp8_e3m4": float8_e3m4,
}

# Where two types share a storage type (tfloat32 and the packed ones), the NumPy type stands for the plain one.
_FROM_NUMPY: dict[np.dtype, DType] = {d.np: d for d in _ALL if d.kind != "p" and d is not tfloat32}
_HOST_FROM_NUMPY = {**_FROM_NUMPY, **{d.np: d for d in (float64, int64, uint64)}}
_FROM_SCALAR: dict[type, DType] = {bool: bool_, **{numpy.type: d for numpy, d in _FROM_NUMPY.items()}}

_HINTS = {
    "float64": "use float32: the engines compute in float32",
    "int64": "use int32",
    "uint64": "use uint32",
    "complex64": "hold the real and the imaginary part in two float32 tensors",
    "complex128": "hold the real and the imaginary part in two float32 tensors",
}
_PYTHON_TYPES = {float: "float64", int: "int64", complex: "complex128"}


def _foreign(x: object) -> DType | None:
    """The element type that an object of NumPy, ml_dtypes, JAX or torch stands for, if any."""
    if isinstance(x, np.dtype):
        return DTYPES[str(x.names[0])] if x.names is not None and is_packed(x) else _FROM_NUMPY.get(x)
    if isinstance(x, type):
        # JAX's jnp.float32 and the like are classes of their own that carry a NumPy dtype.
        dtype = getattr(x, "dtype", None)
        return _FROM_NUMPY.get(dtype) if isinstance(dtype, np.dtype) else _FROM_SCALAR.get(x)
    kind = type(x)
    if kind.__name__ == "dtype" and kind.__module__ == "torch":
        return _ALIASES.get(str(x).removeprefix("torch."))
    return None


def is_packed(x: np.dtype) -> bool:
    """True for a packed type on the host: one field, whose name is the type."""
    return x.names is not None and len(x.names) == 1 and x.names[0] in DTYPES


def as_dtype(x: object, whose: str = "") -> DType:
    """The element type for a name, an alias, or a NumPy, ml_dtypes or torch dtype; E602 for anything else.

    whose: what has the type, for the message.
    """
    if isinstance(x, DType):
        return x
    known = _ALIASES.get(x) if isinstance(x, str) else _foreign(x)
    if known is None:
        raise _unknown(x, whose)
    return known


def host_dtype(x: object, whose: str = "") -> DType:
    """`as_dtype` for arrays of a NumPy program: float64, int64 and uint64 are element types too."""
    if isinstance(x, DType):
        return x
    # Strings mean what they mean in NumPy, "float" being float64, wherever NumPy knows them.
    if isinstance(x, str) and x in HOST_DTYPES:
        return HOST_DTYPES[x]
    try:
        known = _HOST_FROM_NUMPY.get(np.dtype(x))  # type: ignore[call-overload]
    except TypeError:
        known = None
    return as_dtype(x, whose) if known is None else known


def _unknown(x: object, whose: str) -> TileError:
    name = _PYTHON_TYPES.get(x) if isinstance(x, type) else None
    if name is None:
        name = x if isinstance(x, str) else getattr(x, "name", getattr(x, "__name__", str(x)))
    name = str(name).removeprefix("torch.")
    if isinstance(x, np.dtype) and x.newbyteorder("=") in _FROM_NUMPY:
        name, hint = x.str, "convert the array to native byte order"
    elif name in _HINTS:
        hint = _HINTS[name]
    else:
        # Text, times and objects are near to no element type, whatever their names.
        numeric = not isinstance(x, np.dtype) or x.kind not in "USOMm"
        near = difflib.get_close_matches(name, _ALIASES, n=1) if numeric else ()
        hint = f"use {_ALIASES[near[0]]}" if near else f"the element types are {', '.join(DTYPES)}"
    is_what = f"{whose} is {name}, which" if whose else name
    return fail(
        "E602", f"{is_what} is not an element type of the device", rule="R-tensor-06", hint=hint, error=TileTypeError
    )


def to_f32(array: np.ndarray, dtype: DType) -> np.ndarray:
    """What an engine sees of `array`, which is stored as `dtype`: float32, the same array if it is that already."""
    assert array.dtype == dtype.np, f"{array.dtype} array given as {dtype}"
    assert dtype.kind != "p", f"no engine converts {dtype} to float32"
    return array if array.dtype == np.float32 else widen(array)


def round_to(array: np.ndarray, dtype: DType) -> np.ndarray:
    """What an engine stores when it writes `array` as `dtype`: the same array if nothing has to change.

    float: nearest, ties to even, beyond the range what ml_dtypes gives (infinity, or NaN where there is none).
    integer: nearest, ties to even, saturated; NaN gives 0.    bool: value != 0.
    """
    if array.dtype == dtype.np and dtype is not tfloat32:
        return array
    assert dtype.kind != "p", f"no engine converts values to {dtype}"
    if dtype.kind == "b":
        return np.asarray(array != 0)
    if dtype.is_float:
        if dtype.itemsize == 1 and array.dtype == np.float32:
            return narrow(array, dtype.np)
        with np.errstate(over="ignore", invalid="ignore"):
            rounded = array.astype(dtype.np, copy=False)
        return _round_tf32(rounded) if dtype is tfloat32 else rounded
    return _round_integer(array, dtype)


def _round_integer(array: np.ndarray, dtype: DType) -> np.ndarray:
    if array.dtype.kind == "b":
        return array.astype(dtype.np)
    if array.dtype.kind in "iu":
        source = np.iinfo(array.dtype)
        return array.clip(max(dtype.min, source.min), min(dtype.max, source.max)).astype(dtype.np)
    if array.dtype.kind != "f":  # bfloat16 and float8, which have no rint of their own
        array = widen(array)
    # float32 holds every limit of the types up to 16 bits; 2**31 - 1 and 2**32 - 1 need float64.
    nearest = np.empty(array.shape, np.float32 if dtype.itemsize < 4 else np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        np.rint(array, out=nearest, casting="same_kind")
        np.clip(nearest, dtype.min, dtype.max, out=nearest)
        nearest[np.isnan(nearest)] = 0
    return nearest.astype(dtype.np)


def _round_tf32(array: np.ndarray) -> np.ndarray:
    dropped, one = np.uint32(_TF32_DROPPED_BITS), np.uint32(1)
    half = np.uint32((1 << (_TF32_DROPPED_BITS - 1)) - 1)
    bits = array.view(np.uint32)
    with np.errstate(over="ignore"):  # only the bits of a NaN can overflow, and NaN is put back below
        rounded = (bits + (half + ((bits >> dropped) & one))) >> dropped << dropped
    return np.where(np.isnan(array), array, np.asarray(rounded).view(np.float32))

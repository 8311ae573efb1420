"""Elementwise functions of the legacy nl: arithmetic, comparisons, logic, bits, activation functions, rounding.

The plain instruction each: two tiles by tensor_tensor, a number or a float32 column by tensor_scalar, functions of the
Scalar engine by activation. Free dims broadcast by the access pattern, partitions by nc_stream_shuffle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.dtypes import as_dtype, bool_
from tilewright.errors import TileTypeError, fail
from tilewright.nki.binding import bound
from tilewright.nki.language import rounding, trig
from tilewright.nki.legacy.allocation import require_bias
from tilewright.nki.legacy.assignment import copy as move
from tilewright.nki.legacy.mask import Box
from tilewright.nki.legacy.operands import common_shape, operand_of, stretched, tile_of, wanted
from tilewright.nki.legacy.produce import produce, regions
from tilewright.nki.legacy.session import LegacySession, legacy_session
from tilewright.nki.legacy.tensor import LegacyTensor, adopt, new_tile
from tilewright.tile.memory import PSUM, SBUF

FUNCTIONS: dict[str, Any] = {}
"""Every elementwise function by name."""


class LegacyOperator:
    """A function of nl that instructions also take as `op=`, by the name `op_name`."""

    def __init__(self, function: Callable[..., Any], name: str, op_name: str | None = None) -> None:
        self.__name__ = self.__qualname__ = name
        self.__doc__ = function.__doc__
        self.__wrapped__ = bound(function, f"nl.{name}")
        self.op_name = op_name or name
        FUNCTIONS[name] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self) -> str:
        return f"nl.{self.__name__}"

    def __reduce__(self) -> Any:
        return FUNCTIONS.get, (self.__name__,)


def binary(api: str, op: str, x: Any, y: Any, dtype: Any, mask: Any) -> LegacyTensor:
    """op(x, y) with broadcasting."""
    session = legacy_session(f"nl.{api}")
    a, b = operand_of(api, "x", x), operand_of(api, "y", y)
    result = wanted(dtype, a if isinstance(a, LegacyTensor) else x, b if isinstance(b, LegacyTensor) else y)
    given = dtype is not None
    if not isinstance(a, LegacyTensor) or not isinstance(b, LegacyTensor):
        tile, number = (a, b) if isinstance(a, LegacyTensor) else (b, a)
        if not isinstance(tile, LegacyTensor):
            raise fail(
                "E108",
                f"nl.{api} of two numbers: at least one argument is a tile",
                error=TileTypeError,
                hint="compute with numbers in Python",
            )
        attrs = {"op0": FUNCTIONS[op], "reverse0": tile is not a}
        return produce(
            session, "tensor_scalar", tile.shape, result, [tile, number, None], attrs, mask=mask, given=given
        )
    shape = common_shape(f"nl.{api}", a.shape, b.shape)
    column = _column(session, op, a, b, shape)
    if column is not None:
        tile, operand, reverse = column
        attrs = {"op0": FUNCTIONS[op], "reverse0": reverse}
        return produce(session, "tensor_scalar", shape, result, [tile, operand, None], attrs, mask=mask, given=given)
    a, b = _one_in_psum(session, stretched(a, shape), stretched(b, shape))
    attrs = {"op": FUNCTIONS[op]}
    return produce(session, "tensor_tensor", shape, result, [a, b], attrs, mask=mask, given=given)


def _column(session: LegacySession, op: str, a: LegacyTensor, b: LegacyTensor, shape: tuple[int, ...]) -> Any:
    """(tile, column, reversed) where one operand is a float32 value per partition, which tensor_scalar takes."""
    if op in _BITS or op == "power":
        return None
    for tile, other, reverse in ((a, b, False), (b, a, True)):
        single = other.size == other.shape[0] == tile.shape[0] and other.dtype == "float32" and other.ndim <= tile.ndim
        if single and tuple(tile.shape) == shape and tile.size > other.size:
            flat = other if other.ndim == 2 else other.reshape((other.shape[0], 1))
            flat._boxes = other._boxes
            return tile, flat, reverse
    return None


def _one_in_psum(session: LegacySession, a: LegacyTensor, b: LegacyTensor) -> tuple[LegacyTensor, LegacyTensor]:
    """The Vector engine reads one operand from PSUM at most: the other is copied."""
    if a.buffer is not PSUM or b.buffer is not PSUM:
        return a, b
    return a, produce(session, "tensor_copy", b.shape, b.dtype, [b], {})


_BITS = frozenset(("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"))


def _binary(name: str, doc: str, default: Any = None) -> LegacyOperator:
    def function(x: Any, y: Any, *, dtype: Any = default, mask: Any = None, **kwargs: Any) -> LegacyTensor:
        return binary(name, name, x, y, dtype, mask)

    function.__doc__ = doc
    return LegacyOperator(function, name)


def activate(api: str, op: str, x: Any, dtype: Any, mask: Any) -> LegacyTensor:
    """A function of the Scalar engine."""
    session = legacy_session(f"nl.{api}")
    tile = tile_of(api, "x", x)
    require_bias(session, api)
    result = tile.dtype if dtype is None else as_dtype(dtype)
    attrs = {"op": FUNCTIONS[op]}
    operands = [tile, None, None, None]
    return produce(session, "activation", tile.shape, result, operands, attrs, mask=mask, given=dtype is not None)


def _activation(name: str, doc: str) -> LegacyOperator:
    def function(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> LegacyTensor:
        return activate(name, name, x, dtype, mask)

    function.__doc__ = doc
    return LegacyOperator(function, name)


def in_parts(
    whole: LegacyTensor, tiles: Sequence[Any], boxes: Sequence[Box], inner: Callable[..., Any]
) -> LegacyTensor:
    """`whole`, filled part by part where a mask leaves something of its tiles.

    Engines start at few partitions: a part that starts elsewhere is computed from the first partition on, later ones
    first, so that each row ends with what its own part has.
    """
    session = legacy_session("nl")
    reached = any(isinstance(tile, LegacyTensor) and tile._outside is not None for tile in tiles)
    for box in sorted(boxes, reverse=True):
        box = box if reached else ((0, box[0][1]), *box[1:])
        parts = [LegacyTensor(t.inside(box), t._handle, t._scope) if isinstance(t, LegacyTensor) else t for t in tiles]
        made = adopt(inner(*parts))  # alive until it is moved: a tile that nothing names is gone
        move(session, whole.inside(box), made._view)
    whole._boxes = boxes
    return whole


def composed(name: str, inner: Callable[..., Any], doc: str, arguments: int = 1) -> LegacyOperator:
    """A function that is several instructions, made as in the current dialect."""

    def function(*args: Any, dtype: Any = None, mask: Any = None, **kwargs: Any) -> LegacyTensor:
        session = legacy_session(f"nl.{name}")
        tiles = [operand_of(name, "xy"[place], value) for place, value in enumerate(args[:arguments])]
        shapes = [tile.shape for tile in tiles if isinstance(tile, LegacyTensor)]
        shape = common_shape(f"nl.{name}", *shapes)
        tiles = [stretched(tile, shape) if isinstance(tile, LegacyTensor) else tile for tile in tiles]
        result = wanted(dtype, *tiles)
        boxes = None if mask is None else regions(mask, shape)
        if boxes is None:
            return adopt(inner(*tiles, dtype=result))
        return in_parts(new_tile(session, shape, result), tiles, boxes, lambda *parts: inner(*parts, dtype=result))

    function.__doc__ = doc
    return LegacyOperator(function, name)


for _name, _doc in {
    "add": "x + y",
    "subtract": "x - y",
    "multiply": "x * y",
    "divide": "x / y",
    "power": "x to the power of y",
    "maximum": "the larger of x and y",
    "minimum": "the smaller of x and y",
    "bitwise_and": "x & y",
    "bitwise_or": "x | y",
    "bitwise_xor": "x ^ y",
    "left_shift": "x << y",
    "right_shift": "x >> y",
}.items():
    _binary(_name, _doc)
for _name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
    _binary(_name, f"1 where x is {_name.replace('_', ' ')} y, else 0", bool_)
for _name in ("logical_and", "logical_or", "logical_xor"):
    _binary(_name, _name.replace("_", " "), bool_)
for _name in (
    *("exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "relu", "gelu", "gelu_dx", "gelu_apprx_tanh"),
    *("gelu_apprx_sigmoid", "silu", "silu_dx", "softplus", "mish", "erf", "erf_dx", "arctan", "sign", "abs", "square"),
):
    _activation(_name, f"{_name} of x, on the Scalar engine")
for _name, _inner in (
    ("sin", trig.sin),
    ("cos", trig.cos),
    ("tan", trig.tan),
    ("floor", rounding.floor),
    ("ceil", rounding.ceil),
    ("trunc", rounding.trunc),
):
    composed(_name, _inner, f"{_name} of x")
composed("mod", rounding.mod, "the remainder of x / y with the sign of y", 2)
composed("fmod", rounding.fmod, "the remainder of x / y with the sign of x", 2)


def _reciprocal(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> LegacyTensor:
    """1 / x, on the Vector engine."""
    session = legacy_session("nl.reciprocal")
    tile = tile_of("reciprocal", "x", x)
    result = tile.dtype if dtype is None else as_dtype(dtype)
    return produce(session, "reciprocal", tile.shape, result, [tile], {}, mask=mask, given=dtype is not None)


def _negative(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> LegacyTensor:
    """-x."""
    tile = tile_of("negative", "x", x)
    return binary("negative", "multiply", tile, -1 if tile.dtype.is_integer else -1.0, dtype or tile.dtype, mask)


def _invert(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> LegacyTensor:
    """~x of integers."""
    session = legacy_session("nl.invert")
    tile = tile_of("invert", "x", x)
    result = tile.dtype if dtype is None else as_dtype(dtype)
    attrs = {"op0": FUNCTIONS["invert"]}
    return produce(session, "tensor_scalar", tile.shape, result, [tile, None, None], attrs, mask=mask)


def _logical_not(x: Any, *, dtype: Any = bool_, mask: Any = None, **kwargs: Any) -> LegacyTensor:
    """1 where x is 0, else 0."""
    return binary("logical_not", "equal", tile_of("logical_not", "x", x), 0, dtype, mask)


def _copy(src: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> LegacyTensor:
    """A copy of a tile, in SBUF unless it is assigned elsewhere."""
    session = legacy_session("nl.copy")
    tile = tile_of("copy", "src", src)
    result = tile.dtype if dtype is None else as_dtype(dtype)
    return produce(
        session, "tensor_copy", tile.shape, result, [tile], {}, mask=mask, given=dtype is not None, memory=SBUF
    )


LegacyOperator(_reciprocal, "reciprocal")
LegacyOperator(_negative, "negative")
LegacyOperator(_invert, "invert")
LegacyOperator(_logical_not, "logical_not")
copy = LegacyOperator(_copy, "copy")


def inverted(tile: LegacyTensor) -> LegacyTensor:
    """~tile: of a comparison its opposite, of integers their bits."""
    return _logical_not(tile) if tile.dtype == bool_ else _invert(tile)

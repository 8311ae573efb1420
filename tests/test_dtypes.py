"""Element types, against oracles that are written from the formats' definitions rather than from the package."""

from __future__ import annotations

import copy
import math
import operator
import pickle
import types
import warnings

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright import dtypes as dt
from tilewright.errors import TileError, TileTypeError
from tilewright.packed import HOST_CELLS

# name: (itemsize, kind, short, storage)
TABLE = {
    "float32": (4, "f", "f32", "float32"),
    "float16": (2, "f", "f16", "float16"),
    "bfloat16": (2, "f", "bf16", "bfloat16"),
    "tfloat32": (4, "f", "tf32", "float32"),
    "float8_e4m3": (1, "f", "f8e4m3", "float8_e4m3"),
    "float8_e4m3fn": (1, "f", "f8e4m3fn", "float8_e4m3fn"),
    "float8_e5m2": (1, "f", "f8e5m2", "float8_e5m2"),
    "float8_e3m4": (1, "f", "f8e3m4", "float8_e3m4"),
    "float8_e8m0fnu": (1, "f", "f8e8m0fnu", "float8_e8m0fnu"),
    "int8": (1, "i", "i8", "int8"),
    "int16": (2, "i", "i16", "int16"),
    "int32": (4, "i", "i32", "int32"),
    "uint8": (1, "u", "u8", "uint8"),
    "uint16": (2, "u", "u16", "uint16"),
    "uint32": (4, "u", "u32", "uint32"),
    "bool": (1, "b", "bool", "bool"),
    "float8_e5m2_x4": (4, "p", "f8e5m2x4", "uint32"),
    "float8_e4m3fn_x4": (4, "p", "f8e4m3fnx4", "uint32"),
    "float4_e2m1fn_x4": (2, "p", "f4e2m1fnx4", "uint16"),
}
# name: (exponent bits, mantissa bits, bias, has infinities)
FORMATS = {
    "float16": (5, 10, 15, True),
    "bfloat16": (8, 7, 127, True),
    "float8_e4m3": (4, 3, 7, True),
    "float8_e5m2": (5, 2, 15, True),
    "float8_e3m4": (3, 4, 3, True),
    "float8_e4m3fn": (4, 3, 7, False),
}
FLOATS = list(FORMATS)
INTEGERS = ["int8", "int16", "int32", "uint8", "uint16", "uint32"]


def decode(name: str, code: int) -> float:
    """The value of one bit pattern by the definition of the format."""
    exponent_bits, mantissa_bits, bias, infinities = FORMATS[name]
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = code & ((1 << mantissa_bits) - 1)
    top = (1 << exponent_bits) - 1
    if infinities and exponent == top:
        return math.nan if mantissa else sign * math.inf
    if not infinities and exponent == top and mantissa == (1 << mantissa_bits) - 1:
        return math.nan
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - mantissa_bits)
    return sign * math.ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits)


def all_values(name: str) -> np.ndarray:
    bits = 1 + FORMATS[name][0] + FORMATS[name][1]
    return np.array([decode(name, code) for code in range(1 << bits)], np.float64)


@pytest.mark.req("S4-03")
def test_table_of_types() -> None:
    assert set(dt.DTYPES) == set(TABLE)
    for name, (itemsize, kind, short, storage) in TABLE.items():
        dtype = dt.DTYPES[name]
        assert (dtype.itemsize, dtype.kind, dtype.short) == (itemsize, kind, short)
        assert dtype.np == np.dtype(storage) and dtype.np.itemsize == itemsize
        assert (
            getattr(dt, "bool_" if name == "bool" else name) is dtype
            and dt.as_dtype(name) is dtype
            and dt.as_dtype(short) is dtype
        )
        assert dtype == name and repr(dtype) == name and f"{dtype}" == name
        # Packed types are looked up by arrays of the host.
        assert hash(dtype) == (hash(HOST_CELLS[name]) if kind == "p" else hash(name))
        assert dtype.is_float == (kind == "f") and dtype.is_integer == (kind in "iub")
    assert len({dtype.short for dtype in dt.DTYPES.values()}) == len(TABLE)


@pytest.mark.req("S4-03")
def test_the_two_e4m3_differ() -> None:
    assert (dt.float8_e4m3.max, dt.float8_e4m3fn.max) == (240, 448)
    overflow = np.array([1000.0], np.float32)
    assert np.isinf(dt.round_to(overflow, dt.float8_e4m3)[0])
    assert np.isnan(dt.round_to(overflow, dt.float8_e4m3fn)[0])
    at_300 = np.array([300.0], np.float32)
    assert dt.round_to(at_300, dt.float8_e4m3).view(np.uint8) != dt.round_to(at_300, dt.float8_e4m3fn).view(np.uint8)


@pytest.mark.req("S4-03")
@pytest.mark.parametrize("name", FLOATS)
def test_every_code_decodes_and_round_trips(name: str) -> None:
    dtype = dt.DTYPES[name]
    codes = np.arange(1 << (8 * dtype.itemsize), dtype=np.uint8 if dtype.itemsize == 1 else np.uint16)
    stored = codes.view(dtype.np)
    seen = dt.to_f32(stored, dtype)
    assert seen.dtype == np.float32
    np.testing.assert_array_equal(seen, all_values(name).astype(np.float32))
    back = dt.round_to(seen, dtype).view(codes.dtype)
    number = ~np.isnan(seen)
    np.testing.assert_array_equal(back[number], codes[number])
    assert np.isnan(dt.to_f32(dt.round_to(seen[~number], dtype), dtype)).all()


@pytest.mark.req("S4-03")
@pytest.mark.parametrize("name", FLOATS)
def test_limits_are_the_extreme_finite_codes(name: str) -> None:
    finite = all_values(name)[np.isfinite(all_values(name))]
    assert (dt.DTYPES[name].min, dt.DTYPES[name].max) == (finite.min(), finite.max())


def test_other_limits() -> None:
    assert (dt.float32.min, dt.float32.max) == (-float(np.finfo(np.float32).max), float(np.finfo(np.float32).max))
    assert dt.tfloat32.max == (2 - 2**-10) * 2.0**127 == -dt.tfloat32.min
    assert (dt.float8_e8m0fnu.min, dt.float8_e8m0fnu.max) == (2.0**-127, 2.0**127)
    assert (dt.bool_.min, dt.bool_.max) == (0, 1)
    assert [dt.float8_e5m2_x4.max, dt.float8_e4m3fn_x4.max, dt.float4_e2m1fn_x4.max] == [57344, 448, 6]
    for name in INTEGERS:
        bits = 8 * dt.DTYPES[name].itemsize
        signed = not name.startswith("u")
        expected = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        assert (dt.DTYPES[name].min, dt.DTYPES[name].max) == expected
        assert type(dt.DTYPES[name].max) is int


@pytest.mark.parametrize("name", FLOATS)
def test_rounding_is_to_nearest_even(name: str) -> None:
    """Between two neighbouring codes: below the middle down, above it up, on it to the even mantissa."""
    dtype = dt.DTYPES[name]
    values = all_values(name)
    count = len(values) // 2
    low, high = values[: count - 1], values[1:count]  # positive codes count upwards
    codes = np.arange(count - 1)
    finite = np.isfinite(low) & np.isfinite(high)
    low, high, codes = low[finite], high[finite], codes[finite]
    middle = (low + high) / 2
    exact = middle.astype(np.float32) == middle  # float32 holds every middle but those of tiny bfloat16 subnormals
    low, high, codes, middle = low[exact], high[exact], codes[exact], middle[exact].astype(np.float32)
    assert len(middle) > 100
    even = np.where(codes % 2 == 0, low, high)
    for argument, expected in (
        (middle, even),
        (np.nextafter(middle, np.float32(-np.inf)), low),
        (np.nextafter(middle, np.float32(np.inf)), high),
    ):
        np.testing.assert_array_equal(dt.to_f32(dt.round_to(argument, dtype), dtype), expected)
        np.testing.assert_array_equal(dt.to_f32(dt.round_to(-argument, dtype), dtype), -expected)


@given(st.floats(width=32))
def test_tfloat32_rounds_to_ten_bits(x: float) -> None:
    result = float(dt.round_to(np.array([x], np.float32), dt.tfloat32)[0])
    if math.isnan(x):
        assert math.isnan(result)
    elif math.isinf(x) or x == 0:
        assert result == x
    else:
        # Subnormal numbers have the step of the smallest exponent.
        exponent = max(math.frexp(x)[1] - 1, -126)
        step = math.ldexp(1.0, exponent - 10)
        expected = round(x / step) * step  # Python rounds ties to even, and x / step is exact
        assert result == (math.copysign(math.inf, x) if abs(expected) >= 2.0**128 else expected)
        assert math.copysign(1, result) == math.copysign(1, x)


def integer_oracle(x: float, low: int, high: int) -> int:
    if math.isnan(x):
        return 0
    if math.isinf(x):
        return high if x > 0 else low
    return min(max(round(x), low), high)


@pytest.mark.req("S4-03")
@pytest.mark.rule("R-tensor-22", "accept")
@pytest.mark.parametrize("name", INTEGERS)
@given(values=st.lists(st.floats(width=32) | st.floats(-300, 300, width=32), min_size=1, max_size=50))
def test_float_to_integer(name: str, values: list[float]) -> None:
    dtype = dt.DTYPES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = dt.round_to(np.array(values, np.float32), dtype)
    assert result.dtype == dtype.np
    assert result.tolist() == [integer_oracle(x, int(dtype.min), int(dtype.max)) for x in values]


@pytest.mark.rule("R-tensor-22", "accept")
@pytest.mark.parametrize("name", INTEGERS)
def test_float_to_integer_at_the_edges(name: str) -> None:
    dtype = dt.DTYPES[name]
    low, high = int(dtype.min), int(dtype.max)
    edges = [low - 1, low - 0.5, low, low + 0.5, low + 1.5, high - 1, high - 0.5, high, high + 0.5, high + 1, 0.5, 1.5]
    edges += [
        2.5,
        -0.5,
        -1.5,
        -0.0,
        2.0**31,
        2.0**32,
        -(2.0**31),
        2.0**63,
        -(2.0**63),
        3e38,
        math.inf,
        -math.inf,
        math.nan,
    ]
    for source in (np.float32, np.float64, ml_dtypes.bfloat16, np.float16):
        with np.errstate(over="ignore"):
            array = np.array(edges, np.float64).astype(source)
        expected = [integer_oracle(float(x), low, high) for x in array]
        assert dt.round_to(array, dtype).tolist() == expected


@pytest.mark.rule("R-tensor-22", "accept")
@given(source=st.sampled_from(INTEGERS), target=st.sampled_from(INTEGERS), data=st.data())
def test_integer_to_integer_saturates(source: str, target: str, data: st.DataObject) -> None:
    limits = np.iinfo(source)
    values = data.draw(st.lists(st.integers(int(limits.min), int(limits.max)), min_size=1, max_size=20))
    low, high = int(dt.DTYPES[target].min), int(dt.DTYPES[target].max)
    result = dt.round_to(np.array(values, source), dt.DTYPES[target])
    assert result.dtype == target and result.tolist() == [min(max(v, low), high) for v in values]


@pytest.mark.parametrize("dtype", [d for d in dt.DTYPES.values() if d.kind != "p"], ids=str)
def test_no_warning_and_the_right_storage(dtype: dt.DType) -> None:
    extremes = np.array([[0.0, -0.0, 1e-45, 1e-8, 1.5], [3e38, -3e38, math.inf, -math.inf, math.nan]], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stored = dt.round_to(extremes, dtype)
        assert stored.dtype == dtype.np and stored.shape == extremes.shape
        seen = dt.to_f32(stored, dtype)
        assert seen.dtype == np.float32
        for x in (2.5, -math.nan):
            scalar = dt.round_to(np.array(x, np.float32), dtype)
            assert isinstance(scalar, np.ndarray) and scalar.shape == () and scalar.dtype == dtype.np
        empty = dt.round_to(np.empty((0, 3), np.float32), dtype)
        assert empty.shape == (0, 3)
        strided = dt.round_to(np.arange(24, dtype=np.float32).reshape(4, 6)[::2, 1::2], dtype)
        np.testing.assert_array_equal(strided, dt.round_to(np.array([[1, 3, 5], [13, 15, 17]], np.float32), dtype))


def test_no_copy_when_nothing_changes() -> None:
    array = np.ones((4, 4), np.float32)
    assert dt.to_f32(array, dt.float32) is array and dt.to_f32(array, dt.tfloat32) is array
    assert dt.round_to(array, dt.float32) is array
    narrow = np.ones(3, np.int8)
    assert dt.round_to(narrow, dt.int8) is narrow
    packed = np.ones(3, np.uint16)
    assert dt.round_to(packed, dt.float4_e2m1fn_x4) is packed


def test_bool_is_value_not_zero() -> None:
    for source in (np.float32, np.int32, ml_dtypes.bfloat16):
        assert dt.round_to(np.array([0, 1, -2, 3], source), dt.bool_).tolist() == [False, True, True, True]
    values = np.array([-0.0, 1e-45, math.nan, math.inf], np.float32)
    assert dt.round_to(values, dt.bool_).tolist() == [False, True, True, True]
    assert dt.round_to(np.array([True, False]), dt.uint8).tolist() == [1, 0]
    assert dt.to_f32(np.array([True, False]), dt.bool_).tolist() == [1.0, 0.0]


def test_packed_values_are_not_numbers() -> None:
    with pytest.raises(AssertionError):
        dt.to_f32(np.ones(3, np.uint32), dt.float8_e5m2_x4)
    with pytest.raises(AssertionError):
        dt.round_to(np.ones(3, np.float32), dt.float8_e5m2_x4)


@pytest.mark.parametrize("dtype", [d for d in dt.DTYPES.values() if d.kind != "p" and d != "tfloat32"], ids=str)
def test_equality_with_numpy_both_ways(dtype: dt.DType) -> None:
    scalar = dtype.np.type
    assert dtype == dtype.np and dtype.np == dtype and dtype == scalar and scalar == dtype
    assert not any(
        operator.ne(a, b) for a, b in ((dtype, dtype.np), (dtype.np, dtype), (dtype, scalar), (scalar, dtype))
    )
    assert dt.as_dtype(dtype.np) is dtype and dt.as_dtype(scalar) is dtype and dt.as_dtype(dtype) is dtype
    assert all(operator.ne(dtype, other) for other in (np.float64, np.dtype("float64"), "float64", 3, None))
    assert np.zeros(2, dtype).dtype == dtype


def test_types_that_share_storage_stay_apart() -> None:
    assert dt.tfloat32 != np.float32 and np.dtype("float32") != dt.tfloat32
    assert dt.as_dtype(np.float32) is dt.float32
    for packed in (dt.float8_e5m2_x4, dt.float8_e4m3fn_x4, dt.float4_e2m1fn_x4):
        assert packed != np.uint32 and np.dtype("uint32") != packed and packed != dt.uint32
    assert dt.float8_e4m3 != dt.float8_e4m3fn and dt.float8_e4m3 != ml_dtypes.float8_e4m3fn


def test_copies_are_the_same_object() -> None:
    for dtype in dt.DTYPES.values():
        assert pickle.loads(pickle.dumps(dtype)) is dtype
        assert copy.deepcopy(dtype) is dtype and copy.copy(dtype) is dtype


def fake_torch_dtype(name: str) -> object:
    kind = types.new_class(
        "dtype", (), {}, lambda body: body.update(__module__="torch", __str__=lambda _: f"torch.{name}")
    )
    return kind()


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float8_e4m3fn", "float8_e5m2", "uint8", "int32", "bool"])
def test_torch_dtypes(name: str) -> None:
    fake = fake_torch_dtype(name)
    assert dt.as_dtype(fake) is dt.as_dtype(name) and dt.as_dtype(name) == fake and fake == dt.as_dtype(name)
    if name == "float32":
        with pytest.raises(TileTypeError, match="float64 is not"):
            dt.as_dtype(fake_torch_dtype("float64"))


def test_real_torch_dtypes() -> None:
    torch = pytest.importorskip("torch")
    for name in ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "uint8", "int8", "int16", "int32"):
        dtype = dt.as_dtype(getattr(torch, name))
        assert dtype is dt.DTYPES[name] and dtype == getattr(torch, name) and getattr(torch, name) == dtype
    assert dt.as_dtype(torch.bool) is dt.bool_


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("fp32", "float32"),
        ("f32", "float32"),
        ("bf16", "bfloat16"),
        ("fp16", "float16"),
        ("half", "float16"),
        ("tf32", "tfloat32"),
        ("fp8e4", "float8_e4m3"),
        ("fp8e5", "float8_e5m2"),
        ("fp8_e4m3fn", "float8_e4m3fn"),
        ("bool_", "bool"),
        ("i8", "int8"),
        ("u32", "uint32"),
        (bool, "bool"),
    ],
)
def test_aliases(alias: object, name: str) -> None:
    assert dt.as_dtype(alias) is dt.DTYPES[name]


@pytest.mark.rule("R-tensor-06", "reject")
@pytest.mark.parametrize(
    ("bad", "hint"),
    [
        (np.float64, "use float32"),
        (np.dtype("float64"), "use float32"),
        ("float64", "use float32"),
        (float, "use float32"),
        (np.int64, "use int32"),
        (int, "use int32"),
        ("uint64", "use uint32"),
        (np.complex64, "two float32 tensors"),
        ("flot32", "use float32"),
        (np.dtype(">f4"), "byte order"),
        ("f4", "the element types are"),
        (None, "the element types are"),
        (7, "the element types are"),
        (np.ones(3, np.float32), "the element types are"),
        (ml_dtypes.int4, "use"),
    ],
    ids=repr,
)
def test_what_the_device_does_not_have(bad: object, hint: str) -> None:
    with pytest.raises(TileError) as caught:
        dt.as_dtype(bad)
    diagnostic = caught.value.diagnostic
    assert isinstance(caught.value, TypeError) and (diagnostic.code, diagnostic.rule) == ("E602", "R-tensor-06")
    assert diagnostic.hint is not None and hint in diagnostic.hint
    assert diagnostic.location is not None and diagnostic.location.file == __file__

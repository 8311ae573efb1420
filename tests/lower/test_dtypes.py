"""Every element type: casts with edge values, integers beyond 24 bits, floats narrower than float32."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import TARGETS, check
from tilewright.compiler import Compiled

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
INTEGERS = tuple(np.dtype(name) for name in ("int8", "int16", "int32", "uint8", "uint16", "uint32"))
FLOATS = (np.dtype("float16"), np.dtype("float32"), BFLOAT16)
FLOAT8 = tuple(np.dtype(each) for each in (ml_dtypes.float8_e4m3, ml_dtypes.float8_e5m2))
EVERY = (np.dtype(bool), *INTEGERS, *FLOATS)


def edges(dtype: np.dtype) -> np.ndarray:
    """Numbers of a type at which things go wrong, in 5 rows."""
    if dtype.kind == "b":
        return np.array([False, True] * 5).reshape(5, 2)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        found = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 100, info.max // 2, info.max // 2 + 1]
        found += [info.min // 2, info.max // 3, info.max // 7, max(info.min, -1), max(info.min, -100), 0, 5, 64, 65]
        return np.array(found, dtype).reshape(5, 4)
    plain = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        -1.5,
        2.5,
        2.75,
        -2.75,
        3.0,
        100.0,
        -100.0,
        126.9,
        -127.4,
        0.1,
        7e-5,
        240.0,
        31.0,
    ]
    return np.array(plain).astype(dtype).reshape(5, 4)


def cast_to(dtype: np.dtype) -> Callable[[Any], Any]:
    """A cast as a function."""
    return lambda x: x.astype(dtype)


@pytest.mark.req("S4-42")
@pytest.mark.parametrize("to", EVERY, ids=str)
def test_casts(to: np.dtype):
    """Integers wrap around, floats are truncated to integers and rounded to nearest to narrower floats."""
    for dtype in EVERY:
        x = edges(dtype)
        if dtype in FLOATS and to in INTEGERS and np.iinfo(to).min == 0:
            x = np.abs(x)  # negative floats have no place there
        if dtype in FLOATS and to in INTEGERS:
            x = np.where(np.abs(x.astype(np.float32)) > np.iinfo(to).max, x.dtype.type(1), x)
        check(cast_to(to), x)


@pytest.mark.req("S4-42")
@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_float8(dtype: np.dtype):
    """Every number of a type, and every type into it."""
    codes = np.arange(256, dtype=np.uint8).view(dtype).reshape(8, 32)
    for to in FLOATS:
        check(cast_to(to), codes)
    values = np.concatenate(
        [codes.astype(np.float32).ravel(), np.array([0.3, -1.7, 3.3, 17.1, 0.001, 200.0], np.float32)]
    )
    check(lambda x: x.astype(dtype), values[np.isfinite(values)])


BINARY: tuple[Callable[[Any, Any], Any], ...] = (
    np.add,
    np.subtract,
    np.multiply,
    np.maximum,
    np.minimum,
    np.equal,
    np.less,
    np.greater_equal,
    np.floor_divide,
    np.remainder,
)
BITS: tuple[Callable[[Any, Any], Any], ...] = (
    np.bitwise_and,
    np.bitwise_or,
    np.bitwise_xor,
    np.left_shift,
    np.right_shift,
)


@pytest.mark.req("S4-26")
@pytest.mark.req("S4-31")
@pytest.mark.req("S4-36")
@pytest.mark.req("S4-37")
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_are_exact(dtype: np.dtype):
    """Also beyond 24 bits, and where results wrap around."""
    x = edges(dtype)
    y = np.roll(x.ravel(), 7).reshape(x.shape)
    for i, function in enumerate((*BINARY, *BITS)):
        check(function, x, np.abs(y) % 40 if "shift" in function.__name__ else y, targets=(TARGETS[i % 3],))
    for i, function in enumerate((np.negative, np.abs, np.sign, np.square, np.invert, np.reciprocal)):
        check(function, x, targets=(TARGETS[i % 3],))
    check(lambda x: (x + 3) * 5 - 7, x)
    check(lambda x, y: np.where(x > y, x, y), x, y)


@pytest.mark.req("S4-60")
@pytest.mark.req("S4-64")
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_reductions_of_integers_are_exact(dtype: np.dtype):
    """Over rows, columns and all, with sums that wrap around; nothing starts from an infinity."""
    info = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(info.min, info.max, (140, 9), dtype, endpoint=True)
    for axis, (one, two, three) in {0: TARGETS, 1: TARGETS[::-1], None: ("trn3", "trn1", "trn2")}.items():
        check(partial(np.sum, axis=axis, dtype=dtype), x, targets=(one,))
        check(partial(np.prod, axis=axis, dtype=dtype), x, targets=(two,))
        check(partial(np.max, axis=axis), x, targets=(three,))
        check(partial(np.min, axis=axis), x, targets=(one,))
    kernel = check(lambda x: x.max(1), x)
    assert "inf" not in str(kernel.tile_ir)
    check(lambda x: np.cumsum(x, axis=1, dtype=dtype), x)
    check(lambda x: np.cumprod(x, axis=0, dtype=dtype), x[:20])


@pytest.mark.req("S4-43")
@pytest.mark.parametrize("one", EVERY, ids=str)
def test_promotion(one: np.dtype):
    """Two types give NumPy's."""
    for i, other in enumerate(EVERY):
        x, y = np.array([[3, 1, 2]]).astype(one), np.array([[2], [1]]).astype(other)
        check(
            lambda x, y: x * y + x, x, y, targets=(TARGETS[i % 3],), tolerance=1e-2 if "16" in f"{one}{other}" else 1e-6
        )


@pytest.mark.req("S4-23")
@pytest.mark.parametrize("dtype", [np.dtype("float16"), BFLOAT16], ids=str)
def test_narrow_floats(dtype: np.dtype):
    """Columns of narrow floats go with float32 arithmetic; results are rounded once."""
    rng = np.random.default_rng(0)
    x, column = rng.standard_normal((130, 40)).astype(dtype), rng.standard_normal((130, 1)).astype(dtype)
    for function in (np.add, np.multiply, np.subtract, np.maximum):
        check(function, x, column, tolerance=2**-7)
    check(lambda x: np.exp(x).sum(-1), x, tolerance=2**-6)
    check(lambda x: (x - x.max(-1, keepdims=True)) / x.std(-1, keepdims=True), x, tolerance=2**-5)


@pytest.mark.req("S4-23")
def test_a_thousand_sums_of_narrow_floats_leave_nothing_behind():
    """The float32 tiles around each are freed: what lies in SBUF at once does not grow with the program."""

    def repeated(count: int) -> Compiled:
        def add(x):
            for _ in range(count):
                x = x + BFLOAT16.type(1 / 64)
            return x

        return tw.compile(add, np.zeros((128, 64), BFLOAT16))

    few, many = repeated(10), repeated(1000)
    assert many.report.sbuf_peak_bytes == few.report.sbuf_peak_bytes


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.rint(x).astype(np.int32),
        lambda x: np.round(x).astype(np.int8),
        lambda x: np.floor(x).astype(np.int32),
        lambda x: np.ceil(x).astype(np.int16),
        lambda x: np.clip(np.round(x / 3), -127, 127).astype(np.int8),
        lambda x: np.clip(np.rint(x), 0, 255).astype(np.uint8),
    ],
)
def test_rounding_to_integers(function: Callable[..., Any]):
    """What engines do by themselves, at ties and where a narrow type wraps around."""
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 127.5, 128.5, -129.5, 255.5, 300.7, -300.2, 1e6, -0.0, 33.4], np.float32)
    check(function, x)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize(("low", "high"), [(0, 100), (-100, 100), (-40000, 40000), (None, None)])
def test_products_of_integers_within_an_interval(dtype: np.dtype, low: int | None, high: int | None):
    """As many digits as the numbers need: remainders tell the compiler how large they are."""
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    x, y = (rng.integers(info.min, info.max, shape, dtype, endpoint=True) for shape in ((5, 600), (600, 20)))
    if low is None or high is None:
        check(lambda x, y: x @ y, x, y)
    elif info.min <= low and high <= info.max:
        check(lambda x, y: np.clip(x, low, high) @ np.clip(y, low, high), x, y)


def test_a_product_of_bytes_is_one_of_the_tensor_engine():
    """int8 weights, however they are spelled: no digits, nothing by way of HBM."""
    x, w = (np.random.default_rng(i).integers(-128, 128, (256, 512)).astype(np.int8) for i in range(2))
    kernel = check(lambda x, w: x.astype(np.int32) @ w.astype(np.int32).T, x, w)
    report = kernel.report
    assert report.hbm_bytes == report.compulsory_bytes
    assert report.instructions_by_name["nc_matmul"] <= 24  # 8 products, and transposes of either operand


def test_truth_values():
    x, y = np.array([[True, False, True], [False, False, True]]), np.array([True, True, False])
    for function in (np.logical_and, np.logical_or, np.logical_xor, np.add, np.multiply, np.equal, np.maximum):
        check(function, x, y)
    check(np.logical_not, x)
    check(lambda x: (x.any(0), x.all(1), x.sum(), np.count_nonzero(x, axis=0)), x)
    check(lambda x, y: x @ y, x, y)

"""Quotients that are made whole or compared are those of NumPy to the last digit; others cost one instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.front.function import trace
from tilewright.tensor.passes.pipeline import run

X = np.arange(-300, 300, dtype=np.float32)
Y = np.resize(np.array([7, 3, 13, 0.3, 49, 11], np.float32), X.size)
ROWS = np.arange(-70, 70, dtype=np.float32).reshape(20, 7) * 3

SHOWN: dict[str, tuple[Callable[..., Any], Any]] = {
    "floor": (lambda x: np.floor(x / 7), X),
    "floor of multiples": (lambda x: np.floor(x / np.float32(0.3) * 3), X),
    "ceil": (lambda x: np.ceil(x / 13), X),
    "trunc": (lambda x: (x / 7).astype(np.int32), X),
    "equal": (lambda x: x / 7 == np.round(x / 7), X),
    "less": (lambda x: x / 7 - 3 < 25, X),
    "of integers": (lambda x: np.floor(x / 7), X.astype(np.int32)),
    "bins": (lambda x: np.floor((x - x.min()) / np.float32(0.7)).astype(np.int32), X),
    "steps": (lambda x: (np.clip(x / 13, -9, 9) * 2).astype(np.int8), X),
    "above the mean": (lambda x: x >= x.mean(-1, keepdims=True), ROWS),
    "less the mean": (lambda x: np.sign(x - x.mean(-1, keepdims=True)), ROWS),
    "of bfloat16": (lambda x: np.floor(x / 7), X.astype(ml_dtypes.bfloat16)),
    "by function": (lambda x: np.floor(np.exp(x / 300) / 7), X),
}
ROUNDING: dict[str, tuple[Callable[..., Any], Any]] = {
    "returned": (lambda x: x / 7, X),
    "its sign": (lambda x: np.sign(x / 7) * np.abs(x), X),
    "positive": (lambda x: np.where(x / 7 > 0, x, 0), X),
    "by function": (lambda x: np.exp(x / 300) / 7 > 0.2, X),
    "products": (lambda x: np.round(x / 13) @ np.ones((7, 3), np.float32), ROWS),
}


def _exact(function: Callable[..., Any], *arrays: np.ndarray) -> int:
    return run(trace(function, list(arrays), {}).graph).fired["exact_quotient"]


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("name", SHOWN)
def test_what_shows_is_exact(name: str, target: str):
    function, x = SHOWN[name]
    assert _exact(function, x) >= 1
    found = tw.compile(function, x, target=target, check="off")(x)
    np.testing.assert_array_equal(np.asarray(found, np.float64), np.asarray(function(x), np.float64))


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_pairs_of_special_values(target: str):
    numbers = [0.0, 1.0, -3.0, 7.5, 1e30, -1e-30, 3e38, np.inf, -np.inf, np.nan]
    a, b = (np.ascontiguousarray(each, np.float32) for each in np.meshgrid(numbers, numbers))

    def whole(a: Any, b: Any) -> Any:
        return (
            np.floor(a / b),
            np.rint(a / b),
            a / b > np.float32(1.5),
            np.floor(a / np.float32(7)),
            np.floor(a / b[:1]),
        )

    with np.errstate(all="ignore"):
        expected = whole(a, b)
    for one, other in zip(tw.compile(whole, a, b, target=target, check="off")(a, b), expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ROUNDING)
def test_what_is_only_rounded_is_left(name: str):
    function, x = ROUNDING[name]
    assert _exact(function, x) == 0


def test_arrays_by_arrays_and_scales_that_are_computed():
    def quantized(x: Any) -> Any:
        scale = np.abs(x).max(-1, keepdims=True) / 127
        return np.clip(np.round(x / scale), -127, 127).astype(np.int8), scale

    x = np.random.default_rng(0).standard_normal((64, 1024)).astype(np.float32)
    kernel = tw.compile(quantized, x, check="off")
    np.testing.assert_array_equal(kernel(x)[0], quantized(x)[0])
    floors = tw.compile(lambda x, y: np.floor(x / y), X, Y, check="off")
    np.testing.assert_array_equal(floors(X, Y), np.floor(X / Y))


def test_a_quotient_is_rounded_once():
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal(65536).astype(np.float32) * 10 ** rng.uniform(-9, 9, 65536) for _ in range(2))
    x, y = x.astype(np.float32), y.astype(np.float32)
    quotient, _ = tw.compile(lambda x, y: (x / y, np.floor(x / y)), x, y, check="off")(x, y)
    assert (quotient == x / y).mean() > 0.999
    np.testing.assert_allclose(quotient, x / y, rtol=1.3e-7)


@pytest.mark.parametrize("divisor", [7.0, 0.3, -13.0])
def test_special_values(divisor: float):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-38, 1e-45, divisor], np.float32)
    kernel = tw.compile(lambda x: (x / np.float32(divisor), np.floor(x / np.float32(divisor))), x, check="off")
    with np.errstate(all="ignore"):
        expected = x / np.float32(divisor)
        for found, wanted in zip(kernel(x), (expected, np.floor(expected)), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-44)

"""Tracing: the skeleton of what every function needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.front.kit import BFLOAT16, check, check_error, ops, refused
from tilewright.errors import TileError


def test_an_elementwise_function():
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    found = check(lambda x: np.exp(x) + 1.5, x)
    assert ops(found.graph) == ["exp", "add"]


@pytest.mark.req("S4-43")
@pytest.mark.parametrize("left", [np.int8, np.int64, np.float16, np.float32, BFLOAT16, np.bool_])
@pytest.mark.parametrize("right", [np.uint8, np.int32, np.float32, np.float64, BFLOAT16])
def test_promotion(left: np.dtype, right: np.dtype):
    x, y = np.arange(4).astype(left), np.arange(3).astype(right).reshape(3, 1)
    check(lambda x, y: x + y, x, y)
    check(lambda x: x + np.ones(4, right), x)
    check(lambda x: np.ones(4, right)[0] * x, x)
    check(lambda x: 2.0 * x + 1, x)


def test_a_reduction():
    x = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    check(lambda x: (np.sum(x), np.sum(x, axis=(0, -1)), np.sum(x, axis=1, keepdims=True)), x)
    check_error(lambda x: np.sum(x, axis=3), x)


def test_in_place_operators_write_to_the_argument():
    def step(x):
        y = x
        y += 1
        return y

    check(step, np.zeros(3, np.float32))


def test_numpy_errors():
    check_error(lambda x: x + np.ones(4), np.ones(3))
    check_error(lambda x: x + 300, np.ones(3, np.int8))


@pytest.mark.req("S4-07")
def test_what_is_not_supported_is_named():
    error = refused("E803", lambda x: np.fft.fft(x), np.ones(3))
    assert isinstance(error, NotImplementedError) and "np.fft.fft" in error.diagnostic.message
    error = refused("E803", lambda x: np.fmod.at(x.copy(), [0], 2.0), np.ones(3))
    assert "np.fmod.at" in error.diagnostic.message


@pytest.mark.parametrize(
    ("function", "note"),
    [
        (lambda x, y: x @ y, "np.matmul is called with float32[4, 8], float32[3]"),
        (lambda x, y: np.concatenate([x, y]), "np.concatenate is called with float32[4, 8], float32[3]"),
        (lambda x, y: np.sum(x, axis=2), "np.sum is called with float32[4, 8]"),
    ],
)
def test_what_numpy_refuses_is_shown_with_its_arrays(function: Callable[..., Any], note: str):
    with pytest.raises(TileError) as caught:
        tw.compile(function, np.ones((4, 8), np.float32), np.ones(3, np.float32))
    assert caught.value.diagnostic.code == "E808" and caught.value.diagnostic.notes == (note,)
    assert note in str(caught.value)

"""Whole numbers: every form of a rounding, by what is known of the number and of who reads it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check
from tilewright.lower.decisions import noted

HALVES = np.arange(-12, 12, 0.25)
LARGE = [0.49999997, 2**22 - 0.5, 2**22 + 0.5, 2**22 + 1.5, 2**23 - 0.5, 2**23 + 1, 2**31, 2**31 + 512, 2.0**40, 1e38]
ODD = [np.inf, -np.inf, np.nan, -0.0, 1e-40, -1e-40]
X = np.array([*HALVES, *LARGE, *(-np.array(LARGE)), *ODD], np.float32)
SMALL = "rule: small numbers are rounded in one step"

ROUNDED: dict[str, Any] = {
    "rint": np.rint,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
}


@pytest.mark.parametrize("name", ROUNDED)
def test_every_number_is_rounded(name: str):
    f = ROUNDED[name]
    with noted() as reached:
        check(lambda x: f(x) * np.float32(2), X)
        check(lambda x: (f(x), f(x) - x), X[np.isfinite(X)])
    assert SMALL not in reached


@pytest.mark.parametrize("name", ["rint", "floor", "ceil"])
@pytest.mark.parametrize("bound", [3.0, 127.0, 2.0**22])
def test_small_numbers_are_rounded_in_one_step(name: str, bound: float):
    f = ROUNDED[name]
    with noted() as reached:
        check(lambda x: f(np.clip(x, -bound, bound)) * np.float32(3), X)
    assert SMALL in reached


def test_signs_of_zeros_that_show():
    x = np.array([-0.0, -0.3, 0.3, 0.0, -0.5, -0.51], np.float32)
    for f in (lambda x: 1 / np.rint(np.clip(x, -1, 1)), lambda x: np.copysign(2, np.ceil(np.clip(x, -1, 1)))):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(tw.compile(f, x).simulate(x), f(x))
    for f in (np.rint, np.ceil, np.floor, lambda x: np.rint(x).reshape(2, 3), lambda x: np.rint(np.clip(x, -1, 1))):
        np.testing.assert_array_equal(np.signbit(tw.compile(f, x).simulate(x)), np.signbit(f(x)))


def test_narrow_floats():
    x = X[np.abs(X) < 1e4].astype(ml_dtypes.bfloat16)
    check(lambda x: np.rint(x) + x, x)
    check(lambda x: np.floor(np.clip(x, -5, 5)) * x, x)

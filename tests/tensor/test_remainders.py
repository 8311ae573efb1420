"""Remainders of floats by numbers are NumPy's to the last bit, by few ops where dividends or divisors allow that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.front.function import trace
from tilewright.tensor.interpret import interpret
from tilewright.tensor.passes.pipeline import Ran, run

RNG = np.random.default_rng(7)
BITS = RNG.integers(0, 2**32, 4000, dtype=np.uint32).view(np.float32)
STEPS = (np.arange(-900, 900) * 0.25 + RNG.choice([0, 1e-6, -1e-6], 1800)).astype(np.float32)
EDGES = np.array([0, -0.0, np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, -1e-45, 1, -1], np.float32)
X = np.concatenate([BITS, STEPS, EDGES])


def passed(function: Callable[..., Any], x: np.ndarray) -> Ran:
    return run(trace(function, [x], {}).graph)


def assert_same_bits(function: Callable[..., Any], x: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        (found,) = interpret(passed(function, x).graph, [x])
        wanted = function(x)
    np.testing.assert_array_equal(found, wanted)
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(wanted)[known])


@pytest.mark.parametrize("divisor", [6.0, 0.75, 360.0, 1e3, 3.0, 4095.0, 4097.0, 0.1, 1.5e38, -6.0, 1.0])
def test_remainders_by_numbers_are_numpys(divisor: float):
    with np.errstate(over="ignore"):
        multiples = STEPS * np.float32(divisor)
    for x in (X, multiples):
        assert_same_bits(lambda x: np.mod(x, np.float32(divisor)), x)
        assert_same_bits(lambda x: np.fmod(x, np.float32(divisor)), x)


@pytest.mark.parametrize("divisor", [6.0, 0.75, 2 * np.pi, 360.0, 1 / 3, 4095.0, 4097.0, 1.0])
def test_what_is_near_takes_few_ops(divisor: float):
    def near(x: Any) -> Any:
        return np.clip(x, np.float32(-250 * divisor), np.float32(250 * divisor)) % np.float32(divisor)

    x = np.concatenate([X, (STEPS * np.float32(divisor)).astype(np.float32)])
    assert_same_bits(near, x)
    assert passed(near, x).fired["short_remainder"] == 1
    assert len(list(passed(near, x).graph.ops)) < 14


def test_what_may_be_far_does_not():
    assert not passed(lambda x: x % np.float32(6), X).fired["short_remainder"]
    assert not passed(lambda x: np.clip(x, -1e8, 1e8) % np.float32(6), X).fired["short_remainder"]


def test_a_remainder_is_near_itself():
    assert passed(lambda x: (x % np.float32(360) * 2 + 90) % np.float32(360), X).fired["short_remainder"] == 1


def test_a_divisor_that_has_more_elements_gives_as_many():
    assert_same_bits(lambda x: np.clip(x, -9, 9) % np.full(5, 6, np.float32), np.array([2.5], np.float32))

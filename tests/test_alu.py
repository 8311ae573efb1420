"""Operators and activation functions against independent oracles in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tilewright.dtypes import as_dtype
from tilewright.tile.alu import (
    ACTIVATIONS,
    ALU,
    ARITHMETIC,
    BINARY,
    BINARY_ARITHMETIC,
    REDUCTIONS,
    apply,
    as_float,
    from_pattern,
    pattern,
    prelu,
)
from tilewright.tile.erf import erf, normal_cdf

ULP = 2.0**-23


def _relative(found: np.ndarray, wanted: np.ndarray) -> float:
    scale = np.where(wanted == 0, 1, np.abs(wanted))
    return float((np.abs(found.astype(np.float64) - wanted) / scale).max())


def _math(function, x: np.ndarray) -> np.ndarray:
    return np.array([function(float(v)) for v in x])


class TestErf:
    def test_float64(self):
        x = np.concatenate([np.linspace(-7, 7, 4001), np.logspace(-300, 1, 500), [0.0, 1.0, -1.0]])
        assert _relative(erf(x), _math(math.erf, x)) < 5e-15

    def test_float32_stays_float32(self):
        x = np.concatenate([np.linspace(-6, 6, 4001), np.logspace(-30, 1, 500)]).astype(np.float32)
        found = erf(x)
        assert found.dtype == np.float32
        assert _relative(found, _math(math.erf, x)) < 2 * ULP

    def test_tails_of_the_normal_distribution(self):
        x = np.linspace(-12, 5, 3001).astype(np.float32)
        wanted = _math(lambda v: 0.5 * math.erfc(-v / math.sqrt(2)), x)
        assert _relative(normal_cdf(x), wanted) < 8 * ULP
        assert _relative(normal_cdf(x.astype(np.float64)), wanted) < 1e-12

    def test_special_values(self):
        x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
        np.testing.assert_array_equal(erf(x), np.array([1, -1, np.nan, 0, -0.0], np.float32))
        assert np.signbit(erf(x)[4])
        np.testing.assert_allclose(normal_cdf(x), [1, 0, np.nan, 0.5, 0.5], rtol=ULP)


def _phi(v: float) -> float:
    return 0.5 * math.erfc(-v / math.sqrt(2))


def _sigmoid(v: float) -> float:
    return 1 / (1 + math.exp(-v))


def _softplus(v: float) -> float:
    return math.log1p(math.exp(-abs(v))) + max(v, 0)


def _derivative(function, v: float) -> float:
    step = 1e-5
    return (function(v + step) - function(v - step)) / (2 * step)


def _gelu_tanh(v: float) -> float:
    return 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))


ORACLES = {
    "copy": lambda v: v,
    "square": lambda v: v * v,
    "sigmoid": _sigmoid,
    "relu": lambda v: max(v, 0.0),
    "prelu": lambda v: max(v, 0.0),
    "gelu": lambda v: v * _phi(v),
    "gelu_dx": lambda v: _derivative(lambda u: u * _phi(u), v),
    "gelu_apprx_tanh": _gelu_tanh,
    "gelu_apprx_sigmoid": lambda v: v * _sigmoid(1.702 * v),
    "gelu_apprx_sigmoid_dx": lambda v: _derivative(lambda u: u * _sigmoid(1.702 * u), v),
    "silu": lambda v: v * _sigmoid(v),
    "silu_dx": lambda v: _derivative(lambda u: u * _sigmoid(u), v),
    "tanh": math.tanh,
    "softplus": _softplus,
    "mish": lambda v: v * math.tanh(_softplus(v)),
    "erf": math.erf,
    "erf_dx": lambda v: 2 / math.sqrt(math.pi) * math.exp(-v * v),
    "exp": math.exp,
    "log": lambda v: math.log(abs(v)),
    "sin": math.sin,
    "arctan": math.atan,
    "sqrt": lambda v: math.sqrt(abs(v)),
    "rsqrt": lambda v: 1 / math.sqrt(abs(v)),
    "reciprocal": lambda v: 1 / v,
    "sign": lambda v: math.copysign(1.0, v),
    "abs": abs,
}
POSITIVE = ("log", "sqrt", "rsqrt")


class TestActivations:
    def test_every_function_has_an_oracle(self):
        assert set(ORACLES) == set(ACTIVATIONS)

    @pytest.mark.parametrize("name", ORACLES)
    def test_against_float64(self, name):
        x = np.concatenate([np.linspace(-3.1, 3.1, 800), [1e-6, -1e-6]]).astype(np.float32)
        x = np.abs(x) if name in POSITIVE else x
        found = ACTIVATIONS[name].apply(x)
        assert found.dtype == np.float32 and found.shape == x.shape
        wanted = _math(ORACLES[name], x)
        # Sums of terms that cancel are as exact as their terms: derivatives, and log close to 1.
        slack = 3e-7 if name.endswith("dx") or name == "log" else 1e-12
        np.testing.assert_allclose(found, wanted, rtol=10 * ULP, atol=slack)

    @pytest.mark.parametrize("name", [n for n in ORACLES if n not in ("sin", "log", "sqrt", "rsqrt")])
    def test_infinities_give_limits(self, name):
        x = np.array([-np.inf, np.inf], np.float32)
        with np.errstate(all="ignore"):
            found = ACTIVATIONS[name].apply(x)
        assert not np.isnan(found).any()

    @pytest.mark.rule("R-engine-09", "holds")
    def test_sin_extrapolates_a_cubic(self):
        found = ACTIVATIONS["sin"].apply(np.array([9.0, -9.0, 3.0, 4.0], np.float32))
        d = 4 - math.pi
        np.testing.assert_allclose(found, [27.65, -27.65, math.sin(3), d**3 / 6 - d], rtol=2e-4)

    def test_prelu_slope(self):
        x = np.array([-2.0, 0.0, 3.0], np.float32)
        np.testing.assert_array_equal(prelu(x, np.float32(0.25)), np.array([-0.5, 0, 3], np.float32))


class TestOperators:
    @pytest.mark.parametrize("name", BINARY_ARITHMETIC)
    def test_arithmetic_is_float32(self, name):
        rng = np.random.default_rng(0)
        a, b = (np.abs(rng.standard_normal((4, 6)).astype(np.float32)) for _ in range(2))
        found = apply(name, a, b)
        assert found.dtype == np.float32
        assert apply(name, a, np.float32(2)).dtype == np.float32

    @pytest.mark.parametrize(("name", "wanted"), [("subtract", -2.0), ("power", 8.0), ("less", 1.0), ("abs_max", 3.0)])
    def test_values(self, name, wanted):
        a = np.array([[1.0 if name == "subtract" else 2.0]], np.float32)
        assert apply(name, a, np.float32(3))[0, 0] == wanted

    def test_powers_are_rounded_once(self):
        """So that they are the same on every processor; integers and overflow as NumPy has them."""
        rng = np.random.default_rng(0)
        a, b = rng.uniform(0.1, 10, 4000).astype(np.float32), rng.uniform(-9, 9, 4000).astype(np.float32)
        wanted = np.array([math.pow(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)])
        np.testing.assert_array_equal(apply("power", a, b), wanted.astype(np.float32))
        assert apply("power", np.array([3], np.int32), np.int32(4))[0] == 81
        with np.errstate(over="ignore"):
            assert np.isinf(apply("power", np.array([1e30], np.float32), np.float32(3))[0])

    def test_reverse_exchanges_the_arguments(self):
        a = np.array([[2.0]], np.float32)
        assert apply("subtract", a, np.float32(5), reverse=True)[0, 0] == 3
        assert apply("square", a, None, reverse=True)[0, 0] == 4

    def test_magnitude_operators_keep_the_sign(self):
        a, b = np.array([-5.0, 1.0], np.float32), np.array([3.0, -1.0], np.float32)
        np.testing.assert_array_equal(apply("abs_max", a, b), [-5, -1])
        np.testing.assert_array_equal(apply("abs_min", a, b), [3, -1])

    @pytest.mark.parametrize("value", [0.0, 2.0, -0.0, np.nan])
    def test_logical_operators_ask_for_nonzero(self, value):
        a = np.array([value], np.float32)
        assert apply("logical_and", a, np.float32(1))[0] == (value != 0)

    @pytest.mark.rule("R-engine-10", "holds")
    def test_legal_reductions(self):
        assert set(REDUCTIONS) == {
            *("add", "subtract", "multiply", "maximum", "minimum"),
            *("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"),
        }

    def test_names(self):
        assert "divide" not in BINARY and "bypass" not in ARITHMETIC
        assert set(BINARY_ARITHMETIC) < set(BINARY)
        assert all(ALU[name].name == name for name in ALU)


class TestBits:
    def test_shifts_are_logical_and_shift_out(self):
        a = pattern(np.array([-1, 1, 3], np.int32), 4)
        one, many = pattern(1, 4), pattern(32, 4)
        np.testing.assert_array_equal(ALU["right_shift"].apply(a, one), np.array([0x7FFFFFFF, 0, 1], np.uint32))
        np.testing.assert_array_equal(ALU["left_shift"].apply(a, one), np.array([0xFFFFFFFE, 2, 6], np.uint32))
        np.testing.assert_array_equal(ALU["left_shift"].apply(a, many), np.zeros(3, np.uint32))

    def test_patterns_are_extended_with_zeros_and_cut(self):
        bits = pattern(np.array([-1], np.int8), 4)
        assert bits[0] == 0xFF
        assert from_pattern(np.array([0x1FF], np.uint32), as_dtype("int8"))[0] == -1
        assert from_pattern(np.array([0xFFFFFFFF], np.uint32), as_dtype("int32"))[0] == -1
        assert from_pattern(np.array([2], np.uint32), as_dtype("bool_")).dtype == np.bool_
        assert pattern(-1, 2) == 0xFFFF


class TestIntegers:
    def test_small_ones_are_seen_exactly(self):
        x = np.array([[2**24, -(2**24), 7]], np.int32)
        np.testing.assert_array_equal(as_float(x), x.astype(np.float32))

    def test_numbers_become_float32(self):
        assert as_float(0.1) == np.float32(0.1) and as_float(3).dtype == np.float32

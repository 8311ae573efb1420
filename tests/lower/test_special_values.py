"""Formulas that become functions of an engine or other closed forms, at the values where such forms part.

Every formula is a row; each is compiled for every target and applied to zeros of both signs, infinities, NaN, numbers
below the least normal one, and numbers at which exponentials, squares and cubes overflow. What NumPy gives is asked
for, but for rounding; where float32 itself overflows on the way, what float64 gives will do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw

TARGETS = ("trn1", "trn2", "trn3")
TINY, HUGE = 1e-40, 3e38
VALUES = np.array(
    [
        *(0.0, 1.0, np.inf, TINY, 1e-45, 1.1754944e-38, HUGE, 1e20, 88.7, 104.0, 0.5, 2, 3, 2.5, 1e-8, 1e-20),
        *(-0.0, -1.0, -np.inf, -TINY, -HUGE, -1e20, -88.7, -104.0, -0.5, -2, -3, -2.5, -1e-8, np.nan),
    ],
    np.float32,
)

FORMULAS: dict[str, Callable[[Any], Any]] = {
    "1 / x": lambda x: 1 / x,
    "1 / sqrt(x)": lambda x: 1 / np.sqrt(x),
    "3 / sqrt(x)": lambda x: 3 / np.sqrt(x),
    "x / sqrt(x)": lambda x: x / np.sqrt(x),
    "sqrt(1 / x)": lambda x: np.sqrt(1 / x),
    "1 / sqrt(x * x + 1)": lambda x: 1 / np.sqrt(x * x + 1),
    "sqrt(x * x)": lambda x: np.sqrt(x * x),
    "sqrt(x) ** 2": lambda x: np.sqrt(x) ** 2,
    **{f"x ** {c}": lambda x, c=c: x**c for c in (-3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2, 3, 2.5, 7)},
    **{f"{c} ** x": lambda x, c=c: np.float32(c) ** x for c in (-1, 0, 0.5, 1, 2)},
    "x ** inf": lambda x: x**np.inf,
    "x ** reversed": lambda x: x ** x[::-1],
    "(x * x) ** -0.5": lambda x: (x * x) ** -0.5,
    "exp(log(x))": lambda x: np.exp(np.log(x)),
    "exp(-0.5 * log(x))": lambda x: np.exp(-0.5 * np.log(x)),
    "log(exp(x))": lambda x: np.log(np.exp(x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sigmoid of products": lambda x: 1 / (1 + np.exp(-1.702 * x)),
    "sigmoid from above": lambda x: np.exp(x) / (1 + np.exp(x)),
    "sigmoid by tanh": lambda x: 0.5 * (1 + np.tanh(0.5 * x)),
    "1 - sigmoid": lambda x: 1 / (1 + np.exp(x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "silu by product": lambda x: x * (1 / (1 + np.exp(-x))),
    "silu of one's own": tw.nn.silu,
    "quick gelu": lambda x: x / (1 + np.exp(-1.702 * x)),
    "gated": lambda x: x[::-1] * (x / (1 + np.exp(-x))),
    "gated product": lambda x: np.float32(0.5) * x / (1 + np.exp(-x)),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "softplus in two parts": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "logaddexp": lambda x: np.logaddexp(x, 0),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "tanh": np.tanh,
    "tanh by exp": lambda x: (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0),
    "relu by product": lambda x: x * (x > 0),
    "leaky relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "hard swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "bell": lambda x: np.exp(-x * x / 2),
    "log1p": np.log1p,
    "log(1 + x * x)": lambda x: np.log(1 + x * x),
    "log of a probability": lambda x: np.log(1 / (1 + np.exp(-x))),
    "log, from below": lambda x: np.log(np.minimum(x, 1)),
    "log, from above": lambda x: np.log(np.maximum(x, 1e-10)),
    "exp(-x * x)": lambda x: np.exp(-x * x),
    "-x * x[::-1]": lambda x: -x * x[::-1],
    "1 / -x * x": lambda x: x[::-1] / -np.abs(x) + x,
    "a factor for two": lambda x: np.sign(x * np.float32(0.7)) + np.abs(x * np.float32(0.7)),
    "logit": lambda x: np.log(x / (1 - x)),
    "softmax": lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum(),
    "x log x": lambda x: np.where(x > 0, x * np.log(x), 0),
    "x - x": lambda x: x - x,
    "0 * x": lambda x: 0 * x,
    "x + 0 and x - 0": lambda x: (x + 0) * (x - 0),
    "0 - x": lambda x: 0 - x,
    "x / 3 and x / 4": lambda x: x / 3 + x / 4,
    "x / inf": lambda x: x / np.inf,
    "x % 3": lambda x: x % 3,
    "x // -2.5": lambda x: x // -2.5,
    "5 % x": lambda x: 5 % x,
    "hypot": lambda x: np.hypot(x, x[::-1]),
    "clip": lambda x: np.clip(x, -np.inf, 1),
    "not less": lambda x: ~(x < 0),
}


def _wrong(found: np.ndarray, numpy: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Where a result is neither NumPy's nor at least as close to float64's; the sign of a zero counts."""
    if numpy.dtype.kind == "b":
        return found != numpy
    same = ((found == numpy) & (np.signbit(found) == np.signbit(numpy))) | (np.isnan(found) & np.isnan(numpy))
    close = np.abs(found - numpy.astype(np.float64)) <= 1e-5 * np.abs(numpy) + 1e-38
    closer = np.abs(found - exact) <= 4 * np.abs(numpy - exact)
    lost = np.isnan(numpy) & ((np.abs(found - exact) <= 1e-5 * np.abs(exact)) | (found == exact))
    return ~(same | (close & (numpy != 0)) | (close & (found != 0)) | closer | lost)


@pytest.mark.req("S4-25")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_is_numpys_at_special_values(name: str, target: str):
    formula = FORMULAS[name]
    with np.errstate(all="ignore"):
        numpy, exact = (np.broadcast_to(formula(v), VALUES.shape) for v in (VALUES.copy(), VALUES.astype(np.float64)))
        found = np.broadcast_to(tw.compile(formula, VALUES, target=target, check="off")(VALUES), VALUES.shape)
        wrong = _wrong(found, numpy, exact)
    assert found.dtype == numpy.dtype
    assert not wrong.any(), f"of {VALUES[wrong]}: {found[wrong]} instead of {numpy[wrong]}"


@pytest.mark.parametrize("formula", [tw.nn.gelu, lambda x: x / 2 * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))])
def test_gelu_has_its_limit_at_minus_infinity(formula: Callable[[Any], Any]):
    """The one exception, which docs/precision.md states."""
    x = np.array([-np.inf, np.inf, np.nan, -0.0, -1e20, 1e20], np.float32)
    found = tw.compile(formula, x, check="off")(x)
    np.testing.assert_array_equal(found, np.array([-0.0, np.inf, np.nan, -0.0, -0.0, 1e20], np.float32))
    with pytest.raises(tw.TileError, match="E811"):
        tw.compile(formula, x)(x)

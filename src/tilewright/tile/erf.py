"""The error function of arrays, in float32 or float64.

The standard library has it for single numbers only. Chebyshev polynomials are fitted to those once, at the first use,
on two pieces:

    erf(x)  = x * P(x^2)                              for |x| <= 1
    erfc(x) = exp(-x^2) * t * Q(t), t = 1 / (1 + x/2)   for x >= 0
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

_SMALL = 1.0
_LARGEST = 30.0  # erfc is zero in float64 beyond it
_DEGREES = {4: (6, 9), 8: (13, 22)}  # of P and Q, by the number of bytes: the least that reach the type's precision
_ASYMPTOTIC_FROM = 20.0
_BLOCK = 8192


def erf(x: np.ndarray) -> np.ndarray:
    """The error function; float32 for float32 input, else float64."""
    return _in_blocks(_erf, x)


def normal_cdf(x: np.ndarray) -> np.ndarray:
    """The distribution function of the normal distribution, with a small relative error in its lower tail too."""
    return _in_blocks(_normal_cdf, x)


def _in_blocks(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """Apply a function of many passes to pieces that stay in the cache."""
    x = _floating(x)
    if x.size <= _BLOCK:
        return function(x)
    out = np.empty(x.shape, x.dtype)
    flat, into = x.reshape(-1), out.reshape(-1)
    for start in range(0, x.size, _BLOCK):
        into[start : start + _BLOCK] = function(flat[start : start + _BLOCK])
    return out


def _erf(x: np.ndarray) -> np.ndarray:
    magnitude = np.abs(x)
    near_zero = x * _evaluate(_small_fit(x.dtype.itemsize), np.minimum(x * x, _SMALL))
    return np.where(magnitude <= _SMALL, near_zero, np.copysign(1 - _erfc(magnitude, magnitude, 1.0), x))


def _normal_cdf(x: np.ndarray) -> np.ndarray:
    magnitude = np.abs(x)
    tail = 0.5 * _erfc(magnitude * math.sqrt(0.5), magnitude, 0.5)
    return np.where(x < 0, tail, 1 - tail)


def _floating(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x)
    return x if x.dtype == np.float32 else x.astype(np.float64)


def _erfc(x: np.ndarray, root: np.ndarray, factor: float) -> np.ndarray:
    """erfc of x >= 0, where x^2 is factor * root^2: a rounded x would cost its exponential many digits."""
    t = 1 / (1 + 0.5 * np.minimum(x, _LARGEST))
    return t * _evaluate(_tail_fit(x.dtype.itemsize), t) * _gauss(np.minimum(root, 2 * _LARGEST), factor)


def _gauss(x: np.ndarray, factor: float) -> np.ndarray:
    """exp(-factor * x^2). In float32 the square would lose digits that matter, so it is taken in two exact parts."""
    if x.dtype != np.float32:
        return np.exp(-factor * x * x)
    # Twelve leading bits of x have an exact square.
    high = (x.view(np.uint32) & np.uint32(0xFFFFF000)).view(np.float32)
    return np.exp(-factor * high * high) * np.exp(factor * (high - x) * (high + x))


def _evaluate(coefficients: tuple[float, ...], x: np.ndarray) -> np.ndarray:
    """A polynomial in 2x - 1, which maps [0, 1] to [-1, 1], by Horner's rule; highest coefficient first."""
    u = 2 * x - 1
    value = np.full_like(u, coefficients[0])
    for coefficient in coefficients[1:]:
        value *= u
        value += coefficient
    return value


@cache
def _small_fit(itemsize: int) -> tuple[float, ...]:
    def function(square: float) -> float:
        x = math.sqrt(square)
        return math.erf(x) / x

    return _fit(function, _DEGREES[itemsize][0])


@cache
def _tail_fit(itemsize: int) -> tuple[float, ...]:
    def function(t: float) -> float:
        x = 2 / t - 2
        return _scaled_erfc(x) / t

    return _fit(function, _DEGREES[itemsize][1])


def _scaled_erfc(x: float) -> float:
    """exp(x^2) * erfc(x) of a number."""
    if x < _ASYMPTOTIC_FROM:
        return math.exp(x * x) * math.erfc(x)
    # The asymptotic series 1 - 1/(2x^2) + 3/(2x^2)^2 - 15/(2x^2)^3 + ...: eight terms are exact in float64 here.
    term, total = 1.0, 1.0
    for odd in range(1, 16, 2):
        term *= -odd / (2 * x * x)
        total += term
    return total / (x * math.sqrt(math.pi))


def _fit(function: Callable[[float], float], degree: int) -> tuple[float, ...]:
    """Coefficients of the polynomial in u = 2x - 1 that interpolates `function` at the Chebyshev points of [0, 1]."""
    count = degree + 1
    angles = [math.pi * (k + 0.5) / count for k in range(count)]
    values = [function((math.cos(angle) + 1) / 2) for angle in angles]
    chebyshev = [
        2 / count * math.fsum(value * math.cos(order * angle) for value, angle in zip(values, angles, strict=True))
        for order in range(count)
    ]
    chebyshev[0] /= 2
    # T0 = 1, T1 = u, T(n+1) = 2u T(n) - T(n-1), each as a list of coefficients of powers of u.
    last, this = [1.0] + [0.0] * degree, [0.0, 1.0] + [0.0] * (degree - 1)
    powers = [chebyshev[0] * a + chebyshev[1] * b for a, b in zip(last, this, strict=True)]
    for order in range(2, count):
        last, this = this, [2 * a - b for a, b in zip([0.0, *this[:-1]], last, strict=True)]
        powers = [power + chebyshev[order] * a for power, a in zip(powers, this, strict=True)]
    return tuple(reversed(powers))

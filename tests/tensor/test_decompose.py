"""Decompositions: what is left is primitive, exact where it says so, and within its ulp of float64 elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.tensor.compare import assert_same, ulps
from tests.tensor.programs import KNOWN, random_program
from tilewright.dtypes import bfloat16, float16, float32, int32
from tilewright.ir.build import Builder
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.rewrite import rewrite, rule
from tilewright.ir.verify import verify
from tilewright.tensor.build import make, value
from tilewright.tensor.interpret import interpret, run_op
from tilewright.tensor.passes.decompose import RULES, decompose, is_decomposed
from tilewright.tensor.passes.narrow import narrow
from tilewright.tensor.passes.simplify import EXACT, simplify
from tilewright.tensor.record import TABLE
from tilewright.tensor.text import TENSOR
from tilewright.tensor.types import type_of

RNG = np.random.default_rng(7)
EDGES = np.array(
    [
        *(0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 0.7, -0.7, 0.3, -0.3, math.pi, 20, 88, -88, 89, -104, 100),
        *(math.inf, -math.inf, math.nan, 2**22 + 0.5, 2**23 - 0.5, -(2**23) + 0.5, 2**23, -(2**23) - 1, 2**24 + 2),
        *(2.0**31, -(2.0**31), 2.0**40, 1e30, -1e30, 3.4e38, 1e-30, -1e-30, 1e-40, 0.49999997, 8, 27, 1000, 1024),
    ],
    np.float32,
)

Compute = Callable[[Op, dict[Value, np.ndarray]], tuple[np.ndarray, ...]]


def program(name: str, *operands: Any, **attrs: Any) -> tuple[Graph, list[np.ndarray]]:
    """A graph of one op, and the arrays among its operands."""
    values = [Value(type_of(x)) if isinstance(x, np.ndarray) else x for x in operands]
    graph = Graph("one", [v for v in values if isinstance(v, Value)], dialect=TENSOR)
    graph.outputs = Builder(graph).insert(make(name, *values, **attrs)).results
    return graph, [x for x in operands if isinstance(x, np.ndarray)]


def decomposed(name: str, *operands: Any, compute: Compute | None = None, **attrs: Any) -> list[np.ndarray]:
    """What an op gives after decompose; and again after simplify, which must be the same."""
    graph, arrays = program(name, *operands, **attrs)
    decompose(graph)
    assert verify(graph) == [] and is_decomposed(graph)
    results = interpret(graph, arrays, compute)
    simplify(graph, EXACT)
    assert verify(graph) == [] and is_decomposed(graph)
    for a, b in zip(interpret(graph, arrays, compute), results, strict=True):
        assert_same(a, b)
    return results


def numpy_results(name: str, *operands: Any, **attrs: Any) -> list[np.ndarray]:
    """What the op gives by its own meaning."""
    graph, arrays = program(name, *operands, **attrs)
    return interpret(graph, arrays)


def check_exact(name: str, *operands: Any, **attrs: Any) -> None:
    """The decomposition gives every bit of NumPy's result."""
    for a, b in zip(decomposed(name, *operands, **attrs), numpy_results(name, *operands, **attrs), strict=True):
        assert_same(a, b, note=name)


def spread(low: float, high: float, count: int = 4000) -> np.ndarray:
    """Random numbers of either sign whose magnitudes are spread evenly over powers of 10."""
    sign = RNG.choice((-1, 1), count)
    return (sign * 10.0 ** RNG.uniform(low, high, count)).astype(np.float32)


# What is left.


@pytest.mark.req("S4-19")
def test_every_op_that_is_not_primitive_has_a_decomposition():
    known = {name for r in RULES for name in r.ops}
    missing = [r.name for r in TABLE.values() if not r.primitive and r.family != "collective" and r.name not in known]
    assert not missing


@pytest.mark.req("S4-19")
@pytest.mark.parametrize("seed", range(12))
def test_random_programs_decompose(seed: int):
    graph = narrow(random_program(Random(seed), KNOWN, 25)).graph
    decompose(graph)
    assert verify(graph) == [] and is_decomposed(graph)
    assert not decompose(graph), "a second run finds nothing"


@pytest.mark.req("S4-19")
def test_a_decomposition_that_makes_its_own_op_ends_with_an_error():
    @rule("sin")
    def again(op: Op) -> Value:
        """sin(x) -> -sin(-x)"""
        return value("negative", value("sin", value("negative", op.operands[0])))

    graph, _ = program("sin", EDGES)
    with pytest.raises(AssertionError, match=r"rewriting does not end: rule again fired \d+ times"):
        rewrite(graph, [again])


def test_types_of_64_bits_are_refused():
    graph, _ = program("sin", EDGES.astype(np.float64))
    with pytest.raises(AssertionError, match="run narrow first"):
        decompose(graph)


# Rounding.

WHOLE = np.concatenate([EDGES, spread(-6, 12), RNG.integers(-(2**24), 2**24, 2000).astype(np.float32) / 2])


@pytest.mark.req("S4-27")
@pytest.mark.req("S4-28")
@pytest.mark.req("S4-32")
@pytest.mark.req("S4-38")
@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "rint"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_rounding_is_exact(name: str, dtype: Any):
    with np.errstate(over="ignore"):
        check_exact(name, WHOLE.astype(dtype))


@pytest.mark.req("S4-38")
def test_halves_round_to_even():
    (found,) = decomposed("rint", np.array([0, 0.5, 1.5, 2.5, -0.5], np.float32))
    assert_same(found, np.array([0, 0, 2, 2, -0.0], np.float32))


# Division.


def divide_by_reciprocal(ulp: int) -> Compute:
    """Division as a product with a reciprocal whose last bit is off."""

    def compute(op: Op, known: dict[Value, np.ndarray]) -> tuple[np.ndarray, ...]:
        if op.name != "divide":
            return run_op(op, known)
        x, y = (known[v] if isinstance(v, Value) else np.float32(v) for v in op.operands)
        inverse = np.float32(1) / y
        finite = np.isfinite(inverse) & (inverse != 0)
        bits = np.asarray(inverse, np.float32).view(np.int32) + np.int32(ulp)
        return (np.asarray(x * np.where(finite, bits.view(np.float32), inverse), np.float32),)

    return compute


QUOTIENTS = np.arange(-1000, 1001, dtype=np.float32)
DIVISORS = np.concatenate([np.arange(1, 50), RNG.integers(1, 2**13, 151)]).astype(np.float32) * RNG.choice((-1, 1), 200)


@pytest.mark.req("S4-29")
@pytest.mark.parametrize("ulp", [-1, 0, 1])
def test_whole_quotients_are_exact_whatever_the_reciprocal(ulp: int):
    b = DIVISORS[:, None].astype(np.float32)
    a = (QUOTIENTS * b).astype(np.float32)
    compute = divide_by_reciprocal(ulp)
    (found,) = decomposed("floor_divide", a, b, compute=compute)
    assert (found == np.broadcast_to(QUOTIENTS, found.shape)).all()
    (rest,) = decomposed("mod", a, b, compute=compute)
    assert (rest == 0).all()


@pytest.mark.req("S4-29")
def test_a_correction_that_is_not_inclusive_fails():
    b = DIVISORS[:, None].astype(np.float32)
    a = (QUOTIENTS * b).astype(np.float32)
    graph, arrays = program("floor_divide", a, b)
    decompose(graph)
    for op in list(graph.ops):
        if op.name == "greater_equal":
            graph.body.insert_before(op, strict := make("greater", *op.operands))
            op.result.replace_all_uses(strict.result)
    (found,) = interpret(graph, arrays, divide_by_reciprocal(-1))
    assert (found != np.broadcast_to(QUOTIENTS, found.shape)).any()


PAIRS = np.meshgrid(EDGES, EDGES)
NUMERATORS = np.concatenate([PAIRS[0].ravel(), spread(-3, 6), (QUOTIENTS * 0.1).astype(np.float32)])
DENOMINATORS = np.concatenate([PAIRS[1].ravel(), spread(-3, 3), np.full(len(QUOTIENTS), 0.1, np.float32)])


@pytest.mark.req("S4-29")
@pytest.mark.req("S4-31")
@pytest.mark.parametrize("name", ["floor_divide", "mod", "fmod"])
def test_division_of_floats_is_numpys(name: str):
    a, b = NUMERATORS, DENOMINATORS
    (found,), (wanted,) = decomposed(name, a, b), numpy_results(name, a, b)
    with np.errstate(all="ignore"):
        quotient = np.abs(a.astype(np.float64) / b)
        tiny = (np.abs(a) < 2.0**-100) & (a != 0) | (np.abs(b) < 2.0**-100) & (b != 0)
    if name == "floor_divide":
        # From 2**23 on the quotient is whole anyway; its last bit is not settled.
        far = np.isfinite(quotient) & (quotient >= 2**23)
        np.testing.assert_allclose(found[far & ~tiny], wanted[far & ~tiny], rtol=3e-7)
        # NumPy's own is off by one here and there; float64 holds quotients of float32 well enough.
        with np.errstate(all="ignore"):
            exact = np.floor(a.astype(np.float64) / b)
        large = ~far & ~tiny & (quotient > 2**20) & np.isfinite(quotient)
        assert (found == exact)[large].all()
        wanted = np.where(large, found, wanted)
    else:
        far, tiny = np.zeros(a.shape, bool), np.zeros(a.shape, bool)
    near = ~far & ~tiny
    assert_same(found[near], wanted[near])


@pytest.mark.req("S4-31")
@pytest.mark.parametrize("name", ["floor_divide", "mod", "fmod"])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "uint16", "uint32"])
@pytest.mark.parametrize("ulp", [-1, 0, 1])
def test_division_of_integers_is_exact(name: str, dtype: str, ulp: int):
    info = np.iinfo(dtype)
    ends = np.array([info.min, info.min + 1, info.max, info.max - 1, info.max // 2, 0, 1, 2, 3, 7], dtype)
    edges = np.concatenate([ends, np.array([-1, -2, -3], np.int64).astype(dtype)])
    a, b = (x.ravel() for x in np.meshgrid(edges, edges))
    far = RNG.integers(info.min, info.max, (2, 2000), dtype=dtype, endpoint=True)
    near = RNG.integers(max(info.min, -50), 50, 2000).astype(dtype)
    a, b = np.concatenate([a, *far]), np.concatenate([b, far[1], near])
    (found,) = decomposed(name, a, b, compute=divide_by_reciprocal(ulp))
    assert_same(found, numpy_results(name, a, b)[0])


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "uint16", "uint32"])
@pytest.mark.parametrize("ulp", [-1, 0, 1])
def test_greatest_divisors_are_exact(dtype: str, ulp: int):
    info = np.iinfo(dtype)
    half = info.max // 2
    ends = [info.min, info.min + 1, info.max, info.max - 1, half, half + 1, half + 2, info.max - half // 2, 0, 1, 2, 6]
    a, b = (x.ravel() for x in np.meshgrid(np.array(ends, dtype), np.array(ends, dtype)))
    far = RNG.integers(info.min, info.max, (2, 2000), dtype=dtype, endpoint=True)
    # The divisor of a number and itself, or 0, is as large as the number.
    a, b = np.concatenate([a, *far, far[0]]), np.concatenate([b, far[1], far[1] % 50, far[0]])
    (found,) = decomposed("gcd", a, b, compute=divide_by_reciprocal(ulp))
    assert_same(found, np.gcd(a, b))


# Powers.


@pytest.mark.req("S4-33")
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, -1, 2.5, -0.5, -2, 7, 10, -3.5])
def test_constant_exponents(exponent: float):
    x = np.concatenate([EDGES, np.linspace(-3, 3, 601, dtype=np.float32), spread(-3, 3)])
    (found,), (wanted,) = decomposed("power", x, exponent), numpy_results("power", x, exponent)
    with np.errstate(all="ignore"):
        error = ulps(found, np.power(x.astype(np.float64), exponent), float32)
    same = (found == wanted) | np.isnan(found) & np.isnan(wanted)
    # Numbers too small for float32's full precision lose some on the way.
    assert (same | (error <= 6) | (np.abs(wanted) < 1e-37)).all()
    assert (np.isnan(found) == np.isnan(wanted)).all()
    assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()


@pytest.mark.req("S4-33")
def test_exponents_at_run_time():
    x = np.concatenate([PAIRS[0].ravel(), RNG.integers(-9, 10, 2000).astype(np.float32), np.abs(spread(-2, 2))])
    y = np.concatenate([PAIRS[1].ravel(), RNG.integers(-6, 7, 2000).astype(np.float32), spread(-2, 1)])
    (found,), (wanted,) = decomposed("power", x, y), numpy_results("power", x, y)
    assert (np.isnan(found) == np.isnan(wanted)).all()
    number = ~np.isnan(wanted)
    assert (np.signbit(found) == np.signbit(wanted))[number].all()
    with np.errstate(all="ignore"):
        error = ulps(found, np.power(x.astype(np.float64), y), float32)
    same = found == wanted
    assert (same | (error <= 100) | (np.abs(wanted) < 1e-37))[number].all()


@pytest.mark.req("S4-33")
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32"])
def test_powers_of_integers_wrap_as_numpys(dtype: str):
    x = RNG.integers(-9 if dtype[0] == "i" else 0, 10, 300).astype(dtype)
    check_exact("power", x, RNG.integers(0, 40, 300).astype(dtype))
    check_exact("power", x, 3)


def test_powers_of_whole_numbers_are_whole():
    x, y = (v.astype(np.float32) for v in np.meshgrid(np.arange(-12, 40), np.arange(-3, 9)))
    with np.errstate(all="ignore"):
        exact = x**y
    whole = (np.abs(exact) < 2**15) & (exact == np.rint(exact))
    (found,) = decomposed("power", x, y)
    assert (found[whole] == exact[whole]).all()
    ten = np.arange(-3, 5).astype(np.int32)
    np.testing.assert_array_equal(
        tw.compile(lambda k: (10.0**k).astype(np.int32), ten)(ten), (10.0**ten).astype(np.int32)
    )


def test_powers_of_two_are_exact():
    x = np.arange(-149, 128).astype(np.float32)
    exact = 2.0 ** x.astype(np.float64)
    for found in (*decomposed("power", 2.0, x), *decomposed("exp2", x)):
        assert (found == exact).all() and found.dtype == np.float32
    check_exact("log2", (2.0 ** np.arange(-149, 128)).astype(np.float32))


# Functions. Domain of random arguments, ulp, and which arguments are compared with a scale of 1 instead of the result.

UNIT = RNG.uniform(-1, 1, 4000).astype(np.float32)
POSITIVE = np.abs(spread(-38, 38))
FUNCTIONS: dict[str, tuple[np.ndarray, float, float]] = {
    "sin": (np.concatenate([spread(-5, 7), RNG.uniform(-500, 500, 4000).astype(np.float32)]), 1.5, 1.0),
    "cos": (np.concatenate([spread(-5, 7), RNG.uniform(-500, 500, 4000).astype(np.float32)]), 1.5, 1.0),
    "tan": (spread(-5, 6), 6, 0.0),
    "arctan": (spread(-20, 20), 2, 0.0),
    "arcsin": (UNIT, 4, 0.0),
    "arccos": (UNIT, 4, 0.0),
    "exp2": (RNG.uniform(-140, 127, 4000).astype(np.float32), 3, 0.0),
    "expm1": (np.concatenate([spread(-20, 1), spread(-2, 0.5)]), 4, 0.0),
    "log2": (POSITIVE, 4, 0.0),
    "log10": (POSITIVE, 4, 0.0),
    "log1p": (np.concatenate([np.abs(spread(-20, 20)), UNIT]), 4, 0.0),
    "cbrt": (spread(-37, 38), 2, 0.0),
    "sinh": (spread(-20, 1.9), 6, 0.0),
    "cosh": (spread(-20, 1.9), 6, 0.0),
    "arcsinh": (spread(-20, 30), 5, 0.0),
    "arccosh": (np.abs(spread(0, 30)) + np.float32(1), 5, 0.0),
    "arctanh": (np.concatenate([UNIT, spread(-20, -1)]), 5, 0.0),
    "silu": (np.concatenate([spread(-20, 1.9), UNIT]), 4, 0.0),
}


def exactly(name: str, x: np.ndarray) -> np.ndarray:
    """The function by NumPy, in float64."""
    wide = x.astype(np.float64)
    return wide / (1 + np.exp(-wide)) if name == "silu" else getattr(np, name)(wide)


def test_every_decomposed_function_is_swept():
    swept = {*FUNCTIONS, *BINARY, "floor", "ceil", "trunc", "floor_divide", "mod", "fmod", "power"}
    swept |= {"signbit", "spacing", "nextafter", "frexp", "ldexp", "invert"}
    # Divisors: below. Quotients: test_quotients.py.
    swept |= {"gcd", "quotient"}
    wanted = {r.name for r in TABLE.values() if r.family == "elementwise" and not r.primitive}
    assert swept == wanted


@pytest.mark.req("S4-34")
@pytest.mark.req("S4-35")
@pytest.mark.req("S4-41")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_accurate(name: str):
    x, most, scale = FUNCTIONS[name]
    (found,) = decomposed(name, x)
    with np.errstate(all="ignore"):
        error = ulps(found, exactly(name, x), float32, scale)
    assert error.max() <= most, f"{error.max()} ulp at {x[error.argmax()]}"


@pytest.mark.req("S4-25")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_treat_edges_as_numpy_does(name: str):
    # Beyond 1.3e7 the reduction of an angle means nothing, in range it is swept above.
    x = EDGES[~(np.abs(EDGES) > 2**22) | ~np.isfinite(EDGES)] if name in ("sin", "cos", "tan") else EDGES
    (found,), (wanted,) = decomposed(name, x), numpy_results(name, x)
    assert (np.isnan(found) == np.isnan(wanted)).all(), x[np.isnan(found) != np.isnan(wanted)]
    number = ~np.isnan(wanted)
    assert (np.isinf(found) == np.isinf(wanted)).all()
    assert (np.signbit(found) == np.signbit(wanted))[number].all()
    finite = np.isfinite(wanted)
    np.testing.assert_allclose(found[finite], wanted[finite], rtol=1e-6, atol=2e-7)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [float16, bfloat16])
def test_narrow_floats_are_rounded_once(name: str, dtype: Any):
    x = UNIT.astype(dtype.np) if name != "arccosh" else (UNIT + 2).astype(dtype.np)
    (found,) = decomposed(name, x)
    with np.errstate(all="ignore"):
        wide = exactly(name, x)
        wanted = wide.astype(dtype.np)
        error = np.abs(found.astype(np.float64) - wide)
        step = np.abs(wanted.astype(np.float64)) * float(ml_dtypes.finfo(dtype.np).eps)
    same = (found == wanted) | np.isnan(found.astype(np.float32)) & np.isnan(wanted.astype(np.float32))
    assert (same | (error <= 0.51 * step + 1e-7)).all()


BINARY: dict[str, tuple[np.ndarray, np.ndarray, float]] = {
    "arctan2": (spread(-10, 10), spread(-10, 10), 4),
    "hypot": (spread(-18, 18), spread(-18, 18), 3),
    "logaddexp": (spread(-3, 2), spread(-3, 2), 4),
    "logaddexp2": (spread(-3, 2), spread(-3, 2), 4),
}


@pytest.mark.req("S4-41")
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_are_accurate(name: str):
    x, y, most = BINARY[name]
    (found,) = decomposed(name, x, y)
    # The sum of two logarithms may be near 0 where they are not.
    scale = np.maximum(np.abs(x), np.abs(y)).astype(np.float64) if "log" in name else 0.0
    error = ulps(found, getattr(np, name)(x.astype(np.float64), y.astype(np.float64)), float32, scale)
    assert error.max() <= most, error.max()


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_treat_edges_as_numpy_does(name: str):
    x, y = (p.ravel() for p in PAIRS)
    (found,), (wanted,) = decomposed(name, x, y), numpy_results(name, x, y)
    assert (np.isnan(found) == np.isnan(wanted)).all()
    finite = np.isfinite(wanted)
    assert (found == wanted)[~finite & ~np.isnan(wanted)].all()
    np.testing.assert_allclose(found[finite], wanted[finite], rtol=1e-5 if name == "logaddexp2" else 1e-6, atol=1e-37)
    assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()


# Functions whose argument an engine takes within limits only.


def sine_beyond_its_range(op: Op, known: dict[Value, np.ndarray]) -> tuple[np.ndarray, ...]:
    """A sine that is a cubic outside of [-pi, pi]: 27.65 at 9."""
    if op.name == "sin_near":
        x = known[op.operands[0]].astype(np.float64)
        beyond = np.abs(x) - np.pi
        cubic = np.sign(x) * (beyond**3 / 6 - beyond)
        return (np.where(beyond > 0, cubic, np.sin(x)).astype(np.float32),)
    if op.name == "arctan_near":
        x = known[op.operands[0]]
        return (np.where(np.abs(x) <= np.pi / 2, np.arctan(x), np.nan).astype(np.float32),)
    return run_op(op, known)


@pytest.mark.req("S4-34")
@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("reach", [500.0, 1e4, 1e7])
def test_angles_are_reduced(name: str, reach: float):
    x = np.linspace(-reach, reach, 100_000, dtype=np.float32)
    graph, arrays = program(name, x)
    decompose(graph)
    (found,) = interpret(graph, arrays, sine_beyond_its_range)
    assert np.abs(found - getattr(np, name)(x.astype(np.float64))).max() < 3e-7


@pytest.mark.req("S4-34")
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_beyond_its_range_a_sine_stays_a_sine(name: str):
    (found,) = decomposed(name, spread(7, 38), compute=sine_beyond_its_range)
    assert (np.abs(found) <= 1).all()


@pytest.mark.req("S4-35")
@pytest.mark.parametrize("name", ["arctan", "arcsin", "arccos"])
def test_arctangents_stay_in_range(name: str):
    x = np.concatenate([spread(-10, 30), [math.inf, -math.inf]]).astype(np.float32) if name == "arctan" else UNIT
    (found,) = decomposed(name, x, compute=sine_beyond_its_range)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, getattr(np, name)(x.astype(np.float64)), rtol=1e-6)


# Bits, truth, choice.


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", ["signbit", "spacing"])
def test_bits_of_floats(name: str, dtype: Any):
    with np.errstate(over="ignore"):
        x = np.concatenate([EDGES, spread(-30, 30)]).astype(dtype)
    check_exact(name, x)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_next_numbers(dtype: Any):
    with np.errstate(over="ignore"):
        x, y = (p.ravel().astype(dtype) for p in PAIRS)
    check_exact("nextafter", x, y)


def test_fractions_and_exponents():
    x = np.concatenate([EDGES, spread(-44, 38)])
    check_exact("frexp", x)
    check_exact("frexp", spread(-4, 4).astype(np.float16))
    exponents = RNG.integers(-290, 290, len(x)).astype(np.float32)
    wanted = numpy_results("ldexp", x, exponents)[0]
    (found,) = decomposed("ldexp", x, exponents)
    normal = (np.abs(wanted) >= 2.0**-125) | (wanted == 0) | ~np.isfinite(wanted)
    assert_same(found[normal], wanted[normal])
    np.testing.assert_allclose(found[~normal], wanted[~normal], atol=2e-45, rtol=0)


@pytest.mark.req("S4-36")
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_invert(dtype: str):
    x = RNG.integers(0, 2, 50).astype(dtype) if dtype == "bool" else RNG.integers(0, 2**31, 50).astype(dtype)
    check_exact("invert", x)


@pytest.mark.req("S4-60")
@pytest.mark.parametrize("name", ["any", "all"])
@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (3, 0, 2)])
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_quantifiers(name: str, shape: tuple[int, ...], dtype: str):
    x = RNG.integers(0, 2, shape).astype(dtype)
    for axes in ((), (0,), (0, 1)):
        check_exact(name, x, axes=axes, keepdims=False)


@pytest.mark.req("S4-63")
@pytest.mark.parametrize("dtype", ["float32", "int8", "int32", "uint32", "bool"])
def test_argmin_by_argmax(dtype: str):
    x = RNG.integers(0, 3, (40, 7)).astype(dtype)
    if dtype == "int32":
        x[::3] -= 2**31 - 1
        x[::5] = -(2**31)
    if dtype == "float32":
        x[3, 4], x[7, 2], x[7, 5] = np.nan, -np.inf, -np.inf
    graph, arrays = program("argmin", x, axis=1, keepdims=False, dtype=int32)
    before = interpret(graph, arrays)
    rewrite(graph, [r for r in RULES if "argmin" in r.ops])
    assert [op.name for op in graph.ops][-1] == "argmax"
    assert_same(interpret(graph, arrays)[0], before[0])


@pytest.mark.req("S4-40")
def test_a_choice_stays_a_choice():
    condition = np.array([True, False, True])
    x = np.array([1, math.inf, math.nan], np.float32)
    values = [Value(type_of(condition)), Value(type_of(x))]
    graph = Graph("masked", values, dialect=TENSOR)
    chosen = Builder(graph).insert(make("where", values[0], values[1], -math.inf)).result
    graph.outputs = [chosen]
    decompose(graph)
    simplify(graph)
    assert [op.name for op in graph.ops] == ["where"]
    assert_same(interpret(graph, [condition, x])[0], np.array([1, -math.inf, math.nan], np.float32))

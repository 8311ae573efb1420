"""Functions found in formulas: every way of writing them, and how far the results may move."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.tensor.compare import ulps
from tilewright.dtypes import bfloat16, float16, float32
from tilewright.front.function import trace
from tilewright.tensor.interpret import interpret
from tilewright.tensor.passes.pipeline import RECOGNISED, run
from tilewright.tensor.passes.simplify import simplify

C, A = math.sqrt(2 / math.pi), 0.044715
ROOT = math.sqrt(2)

FORMS: dict[str, tuple[Callable[[Any], Any], ...]] = {
    "rsqrt": (
        lambda x: 1 / np.sqrt(x),
        lambda x: 1.0 / np.sqrt(x),
        lambda x: np.reciprocal(np.sqrt(x)),
        lambda x: np.ones_like(x) / np.sqrt(x),
    ),
    "sigmoid": (
        lambda x: 1 / (1 + np.exp(-x)),
        lambda x: 1.0 / (np.exp(-x) + 1.0),
        lambda x: np.reciprocal(1 + np.exp(-x)),
        lambda x: 1 / (1 + np.exp(-1.0 * x)),
        lambda x: np.ones_like(x) / (np.ones_like(x) + np.exp(np.negative(x))),
    ),
    "silu": (
        lambda x: x / (1 + np.exp(-x)),
        lambda x: x * (1 / (1 + np.exp(-x))),
        lambda x: (1 / (np.exp(-x) + 1)) * x,
        lambda x: x * np.reciprocal(1 + np.exp(-x)),
    ),
    "gelu_tanh": (
        lambda x: 0.5 * x * (1.0 + np.tanh(C * (x + A * x * x * x))),
        lambda x: 0.5 * x * (1.0 + np.tanh(C * (x + A * x**3))),
        lambda x: x * 0.5 * (np.tanh((x + A * np.power(x, 3)) * C) + 1),
        lambda x: x / 2 * (1 + np.tanh(C * x + C * A * x**3)),
        lambda x: 0.5 * (x * (1 + np.tanh(C * x * (1 + A * x * x)))),
        lambda x: x * (0.5 + 0.5 * 0 + 0.0) * (1 + np.tanh(C * (A * (x * x * x) + x))),
        lambda x: (1 + np.tanh(0.7978845608 * (x + 0.044715 * np.square(x) * x))) * x / 2,
        lambda x: x * (1 / (1 + np.exp(-2 * C * (x + A * x**3)))),
    ),
    "relu": (lambda x: np.maximum(x, 0), lambda x: np.maximum(0.0, x), lambda x: np.maximum(x, np.zeros_like(x))),
    "square": (lambda x: x * x, lambda x: x**2, lambda x: np.power(x, 2), lambda x: np.square(-x)),
}
CASES = [pytest.param(name, form, id=f"{name}-{i}") for name, forms in FORMS.items() for i, form in enumerate(forms)]


def arguments(name: str, dtype: Any) -> np.ndarray:
    x = np.concatenate([np.linspace(-9, 9, 3001), np.logspace(-6, 1.9, 500), -np.logspace(-6, 1.9, 500)])
    return (np.abs(x) + 1e-6 if name == "rsqrt" else x).astype(dtype.np)


@pytest.mark.req("S4-18")
@pytest.mark.parametrize(("name", "form"), CASES)
def test_a_formula_becomes_the_function(name: str, form: Callable[[Any], Any]):
    x = arguments(name, float32)
    graph = run(trace(form, [x], {}).graph).simplified
    assert graph is not None
    assert [op.name for op in graph.ops] == [name]


@pytest.mark.req("S4-18")
@pytest.mark.parametrize("form", [lambda x: np.sqrt(1 / x), lambda x: x**-0.5, lambda x: np.power(x, -0.5)])
def test_a_power_is_a_root_where_nothing_is_negative(form: Callable[[Any], Any]):
    x = np.ones((4, 6), np.float32)
    for scale in (lambda x: x.var(-1) + 1e-5, lambda x: np.abs(x).sum(-1), lambda x: np.maximum(x, 1e-6) * np.exp(x)):
        names = {op.name for op in run(trace(lambda x, s=scale: form(s(x)), [x], {}).graph).graph.ops}
        assert "rsqrt" in names and not names & {"power", "reciprocal"}
    for any_sign in (lambda x: x, lambda x: x + 1e-5, lambda x: np.maximum(x, 0)):
        graph = run(trace(lambda x, s=any_sign: form(s(x)), [x], {}).graph).graph
        assert "rsqrt" not in {op.name for op in graph.ops}


ULP = {
    "rsqrt": max(r.ulp or 0 for r in RECOGNISED if "rsqrt" in r.name),
    "sigmoid": max(r.ulp or 0 for r in RECOGNISED if r.name == "sigmoid"),
    "silu": max(r.ulp or 0 for r in RECOGNISED if "silu" in r.name),
    "gelu_tanh": max(r.ulp or 0 for r in RECOGNISED if "gelu" in r.name),
    "relu": 0.0,
    "square": 0.0,
}


@pytest.mark.req("S4-18")
@pytest.mark.parametrize(("name", "form"), CASES)
@pytest.mark.parametrize("dtype", [float32, float16, bfloat16], ids=str)
def test_the_result_stays_within_the_ulp_of_the_rule(name: str, form: Callable[[Any], Any], dtype: Any):
    x = arguments(name, dtype)
    graph = trace(form, [x], {}).graph
    (before,) = interpret(graph, [x])
    simplify(graph)
    (after,) = interpret(graph, [x])
    size = np.abs(x.astype(np.float64))
    exact = REFERENCE[name](x.astype(np.float64))
    mine, theirs = (ulps(y, exact, dtype, np.maximum(size, 2.0**-13)) for y in (after, before))
    assert mine.max() <= ULP[name] or mine.max() <= theirs.max()


def _sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


REFERENCE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rsqrt": lambda x: x**-0.5,
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "gelu_tanh": lambda x: x * _sigmoid(2 * C * (x + A * x**3)),
    "relu": lambda x: np.maximum(x, 0),
    "square": np.square,
}


@pytest.mark.req("S4-18")
def test_what_something_else_uses_stays():
    def both(x: Any) -> Any:
        e = np.exp(-x)
        s = np.sqrt(x)
        return 1 / (1 + e), e, 1 / s, s

    x = arguments("rsqrt", float32)
    graph = run(trace(both, [x], {}).graph).graph
    assert sorted(op.name for op in graph.ops) == ["exp", "negative", "rsqrt", "sigmoid", "sqrt"]
    for mine, theirs in zip(interpret(graph, [x]), both(x), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


@pytest.mark.req("S4-18")
@pytest.mark.parametrize(
    "form",
    [
        lambda x: 2 / (1 + np.exp(-x)),
        lambda x: 1 / (2 + np.exp(-x)),
        lambda x: 1 / (1 + np.exp(x)),
        lambda x: x * (1 + np.tanh(0.8 * (x + A * x**3))) / 2,
        lambda x: x * (1 + np.tanh(C * (x + A * x**2))) / 2,
        lambda x: (x + 1) * (1 + np.tanh(C * (x + A * x**3))) / 2,
        lambda x: 1 / np.sqrt(x * x + 1) + np.sqrt(x * x + 1),
    ],
)
def test_what_only_looks_like_it_keeps_its_meaning(form: Callable[[Any], Any]):
    x = arguments("sigmoid", float32)
    graph = run(trace(form, [x], {}).graph).graph
    np.testing.assert_allclose(interpret(graph, [x])[0], form(x), rtol=2e-6, atol=1e-6)
    assert not {"gelu", "gelu_tanh", "silu"} & {op.name for op in graph.ops}

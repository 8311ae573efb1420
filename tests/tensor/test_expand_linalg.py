"""Linear algebra ops against NumPy, and after they are expanded into primitive ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.tensor.ops  # noqa: F401  (fills the table)
from tilewright.ir.build import Builder
from tilewright.ir.core import Graph, Value
from tilewright.ir.rewrite import rewrite, rules_of
from tilewright.ir.verify import verify
from tilewright.tensor.build import emit
from tilewright.tensor.interpret import interpret
from tilewright.tensor.passes import expand_linalg
from tilewright.tensor.text import TENSOR
from tilewright.tensor.types import type_of

RNG = np.random.default_rng(5)


def both_ways(name: str, *arrays: np.ndarray, **attrs: Any) -> tuple[np.ndarray, np.ndarray]:
    """The op by its own meaning, and after expansion, with nothing left that lowering would not take."""
    graph = Graph(name, [Value(type_of(a)) for a in arrays], dialect=TENSOR)
    graph.outputs = [emit(Builder(graph), name, *graph.inputs, **attrs)]
    whole = interpret(graph, arrays)[0]
    rewrite(graph, rules_of(expand_linalg), inexact=True)
    assert not list(verify(graph))
    assert all(op.definition.primitive for op in graph.ops)
    return whole, interpret(graph, arrays)[0]


def triangle(shape: tuple[int, ...], lower: bool) -> np.ndarray:
    """A well-conditioned triangle with numbers in the other half, which must not matter."""
    n = shape[-1]
    a = RNG.normal(size=shape) / np.sqrt(n) + 2 * np.eye(n)
    garbage = np.triu(np.ones((n, n)), 1) if lower else np.tril(np.ones((n, n)), -1)
    return np.where(garbage, np.nan, a)


def spd(shape: tuple[int, ...]) -> np.ndarray:
    """Positive definite matrices."""
    a = RNG.normal(size=shape)
    return a @ np.swapaxes(a, -1, -2) / shape[-1] + np.eye(shape[-1])


SIZES = [(1, 1), (2, 2), (3, 3), (7, 7), (2, 3, 8, 8), (33, 33), (0, 0), (2, 0, 0), (0, 3, 3)]


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("shape", [*SIZES, (150, 150)], ids=str)
def test_triangular_systems(shape: tuple[int, ...], lower: bool, unit: bool):
    a = triangle(shape, lower)
    b = RNG.normal(size=(*shape[:-1], 3))
    known = np.tril(np.nan_to_num(a)) if lower else np.triu(np.nan_to_num(a))
    if unit:
        known = known * (1 - np.eye(shape[-1])) + np.eye(shape[-1])
    for found in both_ways("solve_triangular", a, b, lower=lower, unit_diagonal=unit):
        np.testing.assert_allclose(known @ found, b, rtol=1e-8, atol=1e-8)


def test_triangular_systems_broadcast_their_batch():
    a, b = triangle((4, 1, 5, 5), True), RNG.normal(size=(3, 5, 2))
    for found in both_ways("solve_triangular", a, b, lower=True, unit_diagonal=False):
        assert found.shape == (4, 3, 5, 2)
        np.testing.assert_allclose(np.nan_to_num(a) @ found, np.broadcast_to(b, found.shape), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [*SIZES, (70, 70)], ids=str)
def test_cholesky(shape: tuple[int, ...]):
    a = spd(shape)
    wanted = np.linalg.cholesky(a)
    lower_alone = np.where(np.triu(np.ones(shape[-2:]), 1), np.nan, a)
    for found in both_ways("cholesky", lower_alone):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_inverse_solve_and_determinant(shape: tuple[int, ...]):
    a = RNG.normal(size=shape)
    b = RNG.normal(size=(*shape[:-1], 2))
    for found in both_ways("inverse", a):
        np.testing.assert_allclose(found, np.linalg.inv(a), rtol=1e-7, atol=1e-7)
    for found in both_ways("solve", a, b):
        np.testing.assert_allclose(found, np.linalg.solve(a, b), rtol=1e-7, atol=1e-7)
    for found in both_ways("det", a):
        np.testing.assert_allclose(found, np.linalg.det(a), rtol=1e-7, atol=1e-7)


def test_pivots_are_needed_and_swapped():
    a = np.array([[0.0, 1, 0, 0], [1e-20, 0, 1, 0], [2, 0, 0, 0], [0, 0, 3, 1e-9]], np.float32)
    for found in both_ways("inverse", a):
        np.testing.assert_allclose(a.astype(np.float64) @ found, np.eye(4), atol=1e-6)
    every = np.array([np.eye(4)[list(p)] for p in np.ndindex(4, 4, 4, 4) if len(set(p)) == 4], np.float32)
    for found in both_ways("det", every):
        np.testing.assert_array_equal(found, np.linalg.det(every))
    for found in both_ways("inverse", every):
        np.testing.assert_array_equal(found, np.swapaxes(every, 1, 2))


def test_matrices_without_a_result_give_no_number():
    good, singular = np.eye(3, dtype=np.float32), np.ones((3, 3), np.float32)
    batch = np.stack([good, singular])
    for found in both_ways("inverse", batch):
        np.testing.assert_array_equal(found[0], good)
        assert not np.isfinite(found[1]).any()
    for found in both_ways("det", batch):
        np.testing.assert_array_equal(found, [1, 0])
    for found in both_ways("cholesky", np.stack([good, -good])):
        np.testing.assert_array_equal(found[0], good)
        assert np.isnan(found[1]).any()


def test_float32_keeps_its_precision():
    a = triangle((64, 64), True).astype(np.float32)
    b = RNG.normal(size=(64, 4)).astype(np.float32)
    whole, expanded = both_ways("solve_triangular", a, b, lower=True, unit_diagonal=False)
    exact = np.linalg.solve(np.nan_to_num(a).astype(np.float64), b)
    for found in (whole, expanded):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-5)


def test_the_number_of_products_of_a_triangle_grows_as_its_logarithm():
    graph = Graph("solve", [Value(type_of(np.zeros(s, np.float32))) for s in ((64, 64), (64, 8))], dialect=TENSOR)
    graph.outputs = [emit(Builder(graph), "solve_triangular", *graph.inputs, lower=True, unit_diagonal=True)]
    rewrite(graph, rules_of(expand_linalg), inexact=True)
    assert sum(op.name == "matmul" for op in graph.ops) == 2 * 6 + 1

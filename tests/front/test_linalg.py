# pyright: reportArgumentType=false
"""Linear algebra of NumPy and tw.linalg, as traced and after decomposition."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.tensor.interpret import interpret
from tilewright.tensor.passes.decompose import decompose

from .kit import check, check_error, traced

RNG = np.random.default_rng(9)
SHAPES = [(1, 1), (2, 2), (5, 5), (2, 3, 4, 4), (0, 3, 3), (2, 0, 0)]
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}


def matrices(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Matrices far from singular, not symmetric, with pivots that must be looked for."""
    n = shape[-1]
    return (RNG.normal(size=shape) + 3 * np.roll(np.eye(n), 1, axis=-1)).astype(dtype)


def definite(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Positive definite matrices."""
    a = RNG.normal(size=shape)
    return (a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1])).astype(dtype)


def check_both(function: Any, *args: np.ndarray) -> None:
    """NumPy's result by the ops' own meaning, and by what lowering will see."""
    found = check(function, *args, **CLOSE)
    wanted = interpret(found.graph, args)
    decompose(found.graph)
    for x, y in zip(interpret(found.graph, args), wanted, strict=True):
        np.testing.assert_allclose(x, y, **CLOSE)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_inverse_determinant_and_factor(shape: tuple[int, ...]):
    check_both(lambda a: np.linalg.inv(a), matrices(*shape))
    check_both(lambda a: np.linalg.det(a), matrices(*shape))
    check_both(lambda a: np.linalg.slogdet(a), matrices(*shape))
    check_both(lambda a: np.linalg.cholesky(a), definite(*shape))
    check_both(lambda a: np.linalg.cholesky(np.triu(a), upper=True), definite(*shape))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_systems(shape: tuple[int, ...]):
    a = matrices(*shape)
    n = shape[-1]
    check_both(lambda a, b: np.linalg.solve(a, b), a, RNG.normal(size=(*shape[:-1], 3)).astype(np.float32))
    check_both(lambda a, b: np.linalg.solve(a, b), a, RNG.normal(size=n).astype(np.float32))
    check_both(lambda a, b: np.linalg.solve(a, b), matrices(n, n), RNG.normal(size=(2, n, 1)).astype(np.float32))


@pytest.mark.parametrize("kind", [np.int32, np.bool_, np.float64, np.uint8, ml_dtypes.bfloat16], ids=str)
def test_types(kind: Any):
    a = np.array([[2, 1], [0, 1]]).astype(kind)
    for function in (np.linalg.inv, np.linalg.det, lambda a: np.linalg.solve(a, a), lambda a: np.linalg.solve(a, a[0])):
        check(function, a, **CLOSE)
    check(lambda a: np.linalg.solve(a, np.ones((2, 1), np.float32)), a, **CLOSE)
    check(np.linalg.cholesky, np.eye(3).astype(kind), **CLOSE)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, -1, -3, np.int64(2)])
def test_matrix_power(n: Any):
    check(lambda a: np.linalg.matrix_power(a, n), matrices(3, 3), rtol=1e-3, atol=1e-3)
    check(lambda a: np.linalg.matrix_power(a, n), matrices(2, 3, 3, dtype=np.float64), rtol=1e-8, atol=1e-8)
    if n >= 0:
        check(lambda a: np.linalg.matrix_power(a, n), RNG.integers(-9, 9, (3, 3)))


def test_logarithms_of_determinants():
    large = matrices(40, 40) * np.float32(1e8)  # the determinant itself is infinite
    check_both(lambda a: np.linalg.slogdet(a).logabsdet, large)
    check_both(lambda a: np.linalg.slogdet(a)[0], large)
    check_both(lambda a: np.linalg.slogdet(a), np.zeros((3, 3), np.float32))
    check_both(lambda a: np.linalg.slogdet(a), np.array([[-2, 1, np.nan], [1, 1, 1], [0, 1, 3]], np.float32))
    check_both(lambda a: np.linalg.slogdet(a).sign, np.eye(4, dtype=np.float32)[[1, 0, 3, 2]])


def test_tensorinv():
    check(lambda a: np.linalg.tensorinv(a, ind=2), matrices(6, 6).reshape(2, 3, 6), **CLOSE)


ERRORS = [
    lambda a: np.linalg.inv(a[0]),
    lambda a: np.linalg.inv(a[:2]),
    lambda a: np.linalg.det(a[:, :2]),
    lambda a: np.linalg.cholesky(a[0]),
    lambda a: np.linalg.inv(a.astype(np.float16)),
    lambda a: np.linalg.solve(a[:2], a),
    lambda a: np.linalg.solve(a, a[:2]),
    lambda a: np.linalg.solve(a, a[0, 0]),
    lambda a: np.linalg.solve(np.stack([a, a]), np.stack([a, a, a])),
    lambda a: np.linalg.matrix_power(a, 1.5),
    lambda a: np.linalg.matrix_power(a[:2], 2),
    lambda a: np.linalg.tensorinv(a, ind=0),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors_are_numpys(case: int):
    check_error(ERRORS[case], matrices(3, 3))


def triangular(a: np.ndarray, lower: bool, unit: bool) -> np.ndarray:
    """The triangle that is meant."""
    half = np.tril(a) if lower else np.triu(a)
    eye = np.eye(a.shape[-1])
    return half * (1 - eye) + eye if unit else half


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("trans", [0, 1, "N", "T"])
def test_triangular_systems(lower: bool, unit: bool, trans: Any):
    for shape, right in (((5, 5), (5, 2)), ((5, 5), (5,)), ((3, 4, 4), (3, 4, 2)), ((4, 4), (3, 4, 1))):
        a = RNG.normal(size=shape).astype(np.float32) + 4 * np.eye(shape[-1], dtype=np.float32)
        b = RNG.normal(size=right).astype(np.float32)
        full = triangular(a.astype(np.float64), lower, unit)
        full = np.swapaxes(full, -1, -2) if trans in (1, "T") else full
        wanted = np.linalg.solve(full, b.astype(np.float64))

        def program(a: Any, b: Any) -> Any:
            return tw.linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit, trans=trans)

        np.testing.assert_allclose(program(a, b), wanted, **CLOSE)
        found = traced(program, a, b)
        decomposed = found.graph.clone()
        decompose(decomposed)
        for graph in (found.graph, decomposed):
            result = interpret(graph, [a, b])[0]
            assert result.dtype == np.float32 and result.shape == wanted.shape
            np.testing.assert_allclose(result, wanted, **CLOSE)


def test_triangular_inverses_and_types():
    a = np.tril(RNG.normal(size=(6, 6)), -1) + np.eye(6)
    for kind, given in ((np.float32, np.float32), (np.float64, np.float64), (ml_dtypes.bfloat16, ml_dtypes.bfloat16)):
        found = tw.linalg.inverse_triangular(a.astype(kind), lower=True, unit_diagonal=True)
        assert found.dtype == given
        loose = 0.1 if kind is ml_dtypes.bfloat16 else 1e-4
        np.testing.assert_allclose(found.astype(np.float64), np.linalg.inv(a), rtol=loose, atol=loose)
    assert tw.linalg.inverse_triangular(np.eye(3, dtype=np.int32)).dtype == np.float64
    graph = traced(lambda a: tw.linalg.inverse_triangular(a, lower=True), a.astype(np.float32)).graph
    decompose(graph)
    assert sum(op.name == "matmul" for op in graph.ops) == 6, "two for each doubling, none by the identity"
    np.testing.assert_allclose(interpret(graph, [a.astype(np.float32)])[0], np.linalg.inv(a), **CLOSE)


TRIANGULAR_ERRORS = [
    lambda a: tw.linalg.solve_triangular(a, a[:2]),
    lambda a: tw.linalg.solve_triangular(a[:2], a),
    lambda a: tw.linalg.solve_triangular(a, 2.0),
    lambda a: tw.linalg.solve_triangular(a, a, trans="X"),
]


@pytest.mark.parametrize("case", range(len(TRIANGULAR_ERRORS)))
def test_triangular_systems_that_do_not_fit(case: int):
    check_error(TRIANGULAR_ERRORS[case], matrices(3, 3))

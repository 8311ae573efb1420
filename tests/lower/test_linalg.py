"""Linear algebra on chip against NumPy: systems, inverses, determinants and factors of one matrix and of many."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.fuzzing.toys import Setting, toys
from tests.lower.kit import TARGETS, check, fits, floats


def sound(*shape: int) -> np.ndarray:
    """Matrices far from singular, whose greatest elements are not on the diagonal."""
    n = shape[-1]
    order = np.random.default_rng(n).permutation(n)
    return (floats(*shape) / np.sqrt(n) + 3 * np.eye(n, dtype=np.float32)[order]).astype(np.float32)


def targets(shape: tuple[int, ...]) -> tuple[str, ...]:
    """All of them for small matrices, one at a time."""
    return TARGETS if prod(shape) < 500 and len(shape) == 2 else ("trn2",)


def positive(*shape: int) -> np.ndarray:
    """Positive definite matrices."""
    a = floats(*shape)
    return (a @ np.swapaxes(a, -1, -2) / shape[-1] + np.eye(shape[-1])).astype(np.float32)


@pytest.mark.parametrize(
    ("shape", "count"), [((2, 2), 1), ((9, 9), 3), ((3, 20, 20), 2), ((140, 140), 5), ((6, 4, 4), 4)]
)
def test_systems(shape: tuple[int, ...], count: int):
    check(np.linalg.solve, sound(*shape), floats(*shape[:-1], count), targets=targets(shape), tolerance=1e-5)


@pytest.mark.parametrize("shape", [(1, 1), (7, 7), (2, 33, 33), (129, 129), (5, 3, 3)])
def test_inverses_and_determinants(shape: tuple[int, ...]):
    a = sound(*shape)
    # NKI has no tensors without elements.
    assert ", 0]" not in str(fits(np.linalg.det, a).tile_ir)
    check(np.linalg.inv, a, targets=targets(shape), tolerance=1e-5)
    check(np.linalg.det, a / np.float32(3), targets=targets(shape), tolerance=1e-5)


@pytest.mark.parametrize(
    ("shape", "count"),
    [((24, 24), 5), ((128, 128), 128), ((130, 130), 3), ((3, 50, 50), 2), ((9, 8, 8), 2), ((40, 4, 4), 4)],
)
def test_systems_are_solved_to_the_last_digits(shape: tuple[int, ...], count: int):
    # NumPy solves them in float64. Elimination alone is off by 1e-6 to 2e-4 here.
    a, b = floats(*shape), floats(*shape[:-1], count)
    if count < shape[-1]:
        a = (a @ np.swapaxes(a, -1, -2) + np.float32(0.1) * np.eye(shape[-1], dtype=np.float32)).astype(np.float32)
    else:
        b = np.broadcast_to(np.eye(shape[-1], dtype=np.float32), shape)
    exact = np.linalg.solve(a.astype(np.float64), b.astype(np.float64))
    solved = tw.compile(np.linalg.solve, a, b)(a, b)
    found = tw.compile(np.linalg.inv, a)(a) @ b.astype(np.float64)
    for each, error in ((solved, 1e-6), (found, 1e-5)):
        assert np.abs(each - exact).max() < error * np.abs(exact).max()


def test_infinite_numbers_have_no_corrections():
    a, b = sound(20, 20), floats(20, 3)
    b[4, 1] = np.inf
    solved = tw.compile(np.linalg.solve, a, b, check="off")(a, b)
    exact = np.linalg.solve(a, b)
    assert not np.isfinite(solved[:, 1]).any()
    np.testing.assert_allclose(solved[:, ::2], exact[:, ::2], rtol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1), (8, 8), (2, 40, 40), (150, 150), (6, 12, 12)])
def test_factors(shape: tuple[int, ...]):
    a = positive(*shape)
    check(
        np.linalg.cholesky,
        np.where(np.tri(shape[-1], dtype=bool), a, 7).astype(np.float32),
        targets=targets(shape),
        tolerance=1e-5,
    )


def test_matrices_without_an_inverse():
    a = sound(9, 9)
    a[:, 4] = a[:, 2]
    a[:, 7] = 0
    check(np.linalg.det, np.where(np.arange(9) == 7, 0, a).astype(np.float32), tolerance=1e-5)
    kernel = fits(np.linalg.inv, a)
    with np.errstate(all="ignore"):
        assert np.isnan(kernel(a)).all()


def test_a_kernel_does_not_grow_with_its_matrix():
    sizes = [len(str(fits(np.linalg.inv, sound(n, n)).tile_ir).splitlines()) for n in (20, 60, 120)]
    assert sizes[1] < sizes[0] + 20
    # A loop for every 64 columns: those that are done stay as they are.
    assert sizes[2] < sizes[1] + 40


def ridge(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.linalg.solve(x.T @ x * 0.5 + 0.1 * np.eye(x.shape[1], dtype=np.float32), y)


def test_a_definite_matrix_needs_no_search_for_pivots():
    x, y = floats(40, 21), floats(21, 3)
    check(ridge, x, y, targets=TARGETS, tolerance=1e-5)
    found = str(fits(ridge, x, y).tile_ir)
    searched = str(fits(lambda a, b: np.linalg.solve(a, b), x[:21], y).tile_ir)
    assert "bitwise_or" in searched and "bitwise_or" not in found


def newton(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Two steps for a logistic regression: the second matrix, and what it is solved for, follow from the first."""
    beta = np.zeros(x.shape[1], np.float32)
    for _ in range(2):
        mu = 1 / (1 + np.exp(-(x @ beta)))
        hess = (x * (mu * (1 - mu))[:, None]).T @ x + np.eye(x.shape[1], dtype=np.float32)
        beta = beta - np.linalg.solve(hess, x.T @ (mu - y) + beta)
    return beta


def through_factors(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    factor = np.linalg.cholesky(x.T @ x + np.eye(x.shape[1], dtype=np.float32))
    return np.tanh(factor @ y)


@pytest.mark.parametrize("columns", [21, 130])
def test_one_matrix_stays_on_chip(columns: int):
    x, y = floats(200, columns), (floats(200) > 0).astype(np.float32)
    report = check(newton, x, y, tolerance=1e-5).report
    assert report.hbm_bytes < 1.2 * report.compulsory_bytes + 4 * columns * 128 * (columns < 128)
    if columns < 128:
        check(through_factors, x, floats(columns, 3), tolerance=1e-5)


@pytest.mark.parametrize("batch", [(6,), (2, 3)])
def test_many_small_definite_matrices(batch: tuple[int, ...]):
    """Systems of weighted sums of squares, all members at a time: the pivots need no search."""

    def fit(x: np.ndarray, w: np.ndarray, y: np.ndarray) -> np.ndarray:
        gram = x.swapaxes(-1, -2) @ (x * np.exp(w)[..., None]) + 0.1 * np.eye(x.shape[-1], dtype=np.float32)
        return np.linalg.solve(gram, y)

    x, w, y = floats(*batch, 9, 4), floats(*batch, 9), floats(*batch, 4, 2)
    check(fit, x, w, y, tolerance=1e-5)
    assert "argmax" not in str(fits(fit, x, w, y).tensor_ir)


def test_systems_with_more_columns_than_equations_take_the_inverse():
    check(np.linalg.solve, sound(12, 12), floats(12, 300), tolerance=1e-5)
    check(np.linalg.solve, sound(2, 30, 30), floats(2, 30, 31), targets=("trn2",), tolerance=1e-5)


def test_equal_elements_have_one_pivot():
    a = np.sign(floats(30, 30)) + np.tri(30, dtype=np.float32)
    check(np.linalg.solve, a.astype(np.float32), floats(30, 2), targets=("trn2",), tolerance=1e-4)


def test_a_factor_is_solved_as_the_triangle_it_is():
    def posterior(k: np.ndarray, y: np.ndarray) -> np.ndarray:
        factor = np.linalg.cholesky(k)
        return np.linalg.solve(factor.T, np.linalg.solve(factor, y))

    check(posterior, positive(24, 24), floats(24, 2), targets=("trn2",), tolerance=1e-5)


def test_what_is_added_to_a_product_after_a_pass_over_parts():
    """Corrections of a system between sums over its rows: the product waits for what it is added to."""

    def function(a: Any, b: Any) -> Any:
        m = a + 3 * np.eye(9, dtype=np.float32)[::-1]
        return np.linalg.solve(m, b).sum(axis=-2) + b[0], m * m - m

    with Setting("toy1").in_force():
        check(function, floats(9, 9), floats(9, 2, seed=1), tolerance=1e-4, targets=(toys()["toy1"],))

"""Dense products of the library against float64."""

from __future__ import annotations

import ml_dtypes
import pytest

import tilewright as tw
from tests.kernels.near import error, normal

SIZES = [(1, 1, 1), (128, 128, 512), (130, 129, 513), (64, 300, 20)]


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("size", SIZES)
def test_matmul(size: tuple[int, int, int], target: str) -> None:
    m, k, n = size
    left, right = normal(m, k), normal(k, n, seed=1)
    assert error(tw.kernels.matmul(left, right, target=target), tw.kernels.matmul.exact(left, right)) < 1e-6


def test_batches() -> None:
    left, right = normal(2, 3, 40, 70), normal(2, 3, 70, 30, seed=1)
    assert error(tw.kernels.matmul(left, right), tw.kernels.matmul.exact(left, right)) < 1e-6


def test_a_right_operand_that_comes_in_parts() -> None:
    left, right = normal(8, 3000), normal(3000, 1100, seed=1)
    assert error(tw.kernels.matmul(left, right), tw.kernels.matmul.exact(left, right)) < 2e-6


def test_matmul_in_bfloat16() -> None:
    left, right = (normal(130, 130, seed=i).astype(ml_dtypes.bfloat16) for i in range(2))
    made = tw.kernels.matmul(left, right)
    assert made.dtype == ml_dtypes.bfloat16 and error(made, tw.kernels.matmul.exact(left, right)) < 2**-8


@pytest.mark.parametrize(
    ("formula", "left", "right"),
    [
        ("ij,jk->ik", (40, 50), (50, 60)),
        ("bihd,bhjd->bhij", (2, 70, 3, 40), (2, 3, 90, 40)),
        ("ab,cb->ca", (30, 130), (140, 130)),
        ("i,j->ij", (30,), (50,)),
        ("pq,rspq->rs", (12, 13), (5, 6, 12, 13)),
        ("bi,bi->b", (7, 40), (7, 40)),
    ],
)
def test_einsum(formula: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = normal(*left), normal(*right, seed=1)
    assert error(tw.kernels.einsum(formula, a, b), tw.kernels.einsum.exact(formula, a, b)) < 1e-6


@pytest.mark.parametrize("formula", ["ij,jk", "ii,ik->ik", "ij,jk->i", "ij,jk->ikl", "ij->ij", "i j,jk->iik"])
def test_formulas_that_are_no_product(formula: str) -> None:
    with pytest.raises(tw.TileError) as caught:
        tw.kernels.einsum(formula, normal(4, 4), normal(4, 4))
    assert caught.value.diagnostic.code == "E108"

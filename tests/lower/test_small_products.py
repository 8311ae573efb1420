"""Many products of small matrices: neither an instruction for each, nor elements of one in those of another."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.lower.kit import check, fits, floats
from tilewright.ir.walk import walk
from tilewright.spec import spec


def product(x: Any, y: Any) -> Any:
    return x @ y


BATCHES = [
    ((256, 3, 3), (256, 3, 3)),
    ((256, 3, 3), (3, 3)),
    ((3, 3), (256, 3, 3)),
    ((131, 2, 5), (131, 5, 1)),
    ((2, 1, 4, 3), (130, 3, 2)),
    ((300, 1, 4), (300, 4, 6)),
    ((16, 24, 4, 4), (16, 24, 4, 4)),
]


@pytest.mark.req("S4-70")
@pytest.mark.parametrize(("one", "other"), BATCHES, ids=str)
def test_batches(one: tuple[int, ...], other: tuple[int, ...]):
    kernel = check(product, floats(*one), floats(*other, seed=1), tolerance=1e-5)
    assert kernel.report.instructions < 100
    assert "tensor" not in kernel.report.instructions_by_engine


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=str)
def test_narrow(dtype: Any):
    x, y = floats(256, 4, 3).astype(dtype), floats(256, 3, 5, seed=1).astype(dtype)
    check(product, x, y, tolerance=2**-6)
    check(lambda x, y: x.astype(np.float32) @ y.astype(np.float32), x, y, tolerance=1e-5)
    check(lambda x, y: x @ y.astype(np.float32), floats(256, 4, 3), y, tolerance=1e-5)


def test_views():
    """Batch dims that do not lie one after the other, and einsum's spellings."""
    x, y = floats(3, 160, 4), floats(160, 5, 4, seed=1)
    check(lambda x, y: x.transpose(1, 0, 2) @ y.transpose(0, 2, 1), x, y, tolerance=1e-5)
    check(lambda x, y: np.einsum("mbk,bnk->bmn", x, y), x, y, tolerance=1e-5)
    check(lambda x, y: np.tanh(x[:, ::2].transpose(1, 0, 2) @ y[::2, :4] + 1), x, y, tolerance=1e-5)
    check(lambda x, y: (x.transpose(1, 0, 2) @ y.transpose(0, 2, 1)).sum(0), x, y, tolerance=1e-5)


def transform(d: np.ndarray, blocks: Any) -> Any:
    return d @ blocks @ d.T


@pytest.mark.req("S4-70")
def test_constants_on_both_sides():
    """A transform of many blocks is one product."""
    d, x = floats(8, 8), floats(2, 48, 40, seed=1)

    def blocks(x: Any) -> Any:
        return x.reshape(2, 6, 8, 5, 8).transpose(0, 1, 3, 2, 4)

    check(lambda x: transform(d, blocks(x)), x, tolerance=1e-5)
    check(lambda x: d[:3] @ (blocks(x) @ d[:, :5]), x, tolerance=1e-5)
    kernel = fits(lambda x: transform(d, x.reshape(-1, 8, 8)), spec((4096, 64), "float32"))
    assert kernel.report.instructions < 200


def test_constants_whose_products_have_no_number():
    """1e30 * 1e30 is none: such pairs are multiplied one after the other."""
    large, x = floats(4, 4) * np.float32(1e25), floats(200, 4, 4, seed=1) * np.float32(1e-25)
    check(lambda x: transform(large, x), x, tolerance=1e-5)
    check(lambda x: transform(large * np.float32(1e-55), x), floats(200, 4, 4) * np.float32(1e25), tolerance=1e-5)


def test_infinities_stay_in_their_product():
    x, d = floats(200, 4, 4), np.abs(floats(4, 4, seed=1)) + 1
    x[3, 1, 2], x[100, 0, 0], x[7, 3, 3] = np.inf, np.nan, -np.inf
    check(product, x, floats(200, 4, 4, seed=2), tolerance=1e-5)
    check(lambda x: d @ x, x, tolerance=1e-5)
    check(lambda x: x @ d, x, tolerance=1e-5)
    check(lambda x: transform(d, x), x, tolerance=1e-5)


FEW = [
    ((40000, 3), (3, 3)),
    ((4097, 4), (4, 1)),
    ((16, 300, 3), (3, 4)),
    ((3, 3), (3, 40000)),
    ((1, 3), (3, 32768)),
    ((2, 5), (5, 128 * 127)),
]


@pytest.mark.parametrize(("one", "other"), FEW, ids=str)
def test_one_small_matrix(one: tuple[int, ...], other: tuple[int, ...]):
    """Many rows, or many columns, times a few numbers: elementwise work."""
    kernel = check(product, floats(*one), floats(*other, seed=1), tolerance=1e-5)
    assert "tensor" not in kernel.report.instructions_by_engine
    check(lambda x, y: np.tanh(x @ y + 1), floats(*one), floats(*other, seed=1), tolerance=1e-5, targets=["trn2"])


def test_one_small_matrix_of_parts():
    """Planes of an image by weights; views of both; what is infinite stays in its pixel."""
    x, m = floats(3, 160, 128), floats(3, 3, seed=1)
    x[1, 7, 9], x[0, 1, 1] = np.inf, np.nan
    check(lambda x, m: np.einsum("ij,jhw->ihw", m, x), x, m, tolerance=1e-5)
    check(lambda x, m: np.tensordot(m[1], x[:, ::2], 1), x, m, tolerance=1e-5)
    check(lambda x, m: x.reshape(3, -1).T @ m.T, floats(3, 160, 128), m, tolerance=1e-5)


LONG = {
    "rows": (lambda x, y: x @ y.T, (2, 40000), (3, 40000)),
    "columns": (lambda x, y: x.T @ y, (40000, 2), (40000, 3)),
    "one of each": (lambda x, y: x @ y, (3, 40000), (40000, 2)),
    "a vector": (lambda x, y: y @ x, (40000, 4), (40000,)),
    "weighted": (lambda x, y: (x * y) @ x.T, (3, 40000), (40000,)),
    "several": (lambda x, y: np.einsum("bni,bnj->bij", x, y), (4, 20000, 2), (4, 20000, 3)),
    "covariance": (lambda x, y: np.cov(x, rowvar=False) + y, (30000, 3), (3, 3)),
    "not divisible": (lambda x, y: x @ y.T, (2, 40007), (1, 40007)),
}


@pytest.mark.parametrize("name", LONG)
def test_few_rows_and_columns_of_many_terms(name: str):
    """Neither the Tensor engine 128 terms at a time, nor loads element by element."""
    function, one, other = LONG[name]
    kernel = check(function, floats(*one), floats(*other, seed=1), tolerance=1e-5)
    assert "tensor" not in kernel.report.instructions_by_engine or kernel.report.engine_busy_us["tensor"] < 5
    assert kernel.report.instructions < 200
    assert kernel.report.hbm_bytes <= 3 * kernel.report.compulsory_bytes


def test_what_is_infinite_in_one_row_stays_out_of_the_others():
    x, y = floats(2, 40000), floats(2, 40000, seed=1)
    x[0, 7], y[1, 9], y[1, 10] = np.inf, np.nan, 0
    check(lambda x, y: x @ y.T, x, y, tolerance=1e-5)


COLOURS = np.array([[0.3, -0.2, 0.5], [0.6, -0.3, -0.4], [0.1, 0.5, 0.0]], np.float32)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x: (x @ COLOURS + 128)[..., 1], (floats(256, 200, 3),)),
        (lambda x: x @ COLOURS[:, 0], (floats(256, 200, 3),)),
        (lambda x, y: x @ y.T, (floats(60_000, 4), floats(4, 4, seed=1))),
    ],
)
def test_rows_of_a_few_elements_by_one_matrix_are_sums_of_columns(function: Any, args: Any):
    kernel = check(function, *args, tolerance=1e-5)
    used = {op.name for op in walk(kernel.tile_ir)}
    assert "scalar_tensor_tensor" in used
    assert not used & {"nc_matmul", "tensor_reduce"}


def test_narrow_rows_by_one_matrix():
    x, y = floats(900, 2).astype(ml_dtypes.bfloat16), floats(2, 5).astype(ml_dtypes.bfloat16)
    check(product, x, y, tolerance=2**-6)


def test_what_is_no_number_stays_in_its_row():
    x = floats(500, 3)
    x[7, 1], x[9, 2], x[11, 0] = np.nan, np.inf, -np.inf
    check(lambda x: x @ COLOURS, x, tolerance=1e-5)

"""Products with sparse matrices against dense ones in float64."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.kernels.near import error, normal


def compressed(counts: list[int], columns: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Columns and row pointers of rows with so many entries, in any order."""
    rng = np.random.default_rng(seed)
    picked = [rng.permutation(columns)[:count] for count in counts]
    return np.concatenate(picked).astype(np.int32), np.cumsum([0, *counts]).astype(np.int32)


@pytest.mark.parametrize("size", [32, 128])
@pytest.mark.parametrize("counts", [[1], [2, 0, 1, 4, 3], [3, 3, 3]])
def test_blocks(size: int, counts: list[int]) -> None:
    indices, indptr = compressed(counts, 5)
    blocks, dense = normal(len(indices), size, size), normal(5 * size, 520, seed=1)
    arguments = blocks, indices, indptr, dense
    assert error(tw.kernels.bsr_spmm(*arguments), tw.kernels.bsr_spmm.exact(*arguments)) < 1e-6


@pytest.mark.parametrize("columns", [1, 70])
def test_elements(columns: int) -> None:
    counts = np.random.default_rng(1).integers(0, 7, 140).tolist()
    indices, indptr = compressed([*counts, 0], 150)
    data, dense = normal(len(indices)), normal(150, columns, seed=1)
    for target in ("trn2", "trn3"):
        made = tw.kernels.csr_spmm(data, indices, indptr, dense, target=target)
        assert error(made, tw.kernels.csr_spmm.exact(data, indices, indptr, dense)) < 1e-6
    with pytest.raises(tw.TileError) as caught:
        tw.kernels.csr_spmm(data, indices, indptr, dense, target="trn1")
    assert caught.value.diagnostic.code == "E106"


def test_rows_that_are_not_asked_for_may_hold_anything() -> None:
    """Short rows are not padded with elements of row 0, which may be infinite."""
    dense = normal(8, 5)
    dense[0] = np.inf
    made = tw.kernels.csr_spmm(normal(3), np.array([1, 2, 3]), np.array([0, 2, 2, 3]), dense)
    assert np.isfinite(made).all() and not made[1].any()


@pytest.mark.parametrize(
    ("indices", "indptr", "code"),
    [([0, 5], [0, 1, 2], "E302"), ([0, -1], [0, 1, 2], "E302"), ([0, 1], [0, 2, 1], "E108"), ([0, 1], [0, 1], "E108")],
)
def test_structures_that_are_none(indices: list[int], indptr: list[int], code: str) -> None:
    for call in (
        lambda: tw.kernels.bsr_spmm(normal(2, 4, 4), indices, indptr, normal(20, 3)),
        lambda: tw.kernels.csr_spmm(normal(2), indices, indptr, normal(5, 3)),
    ):
        with pytest.raises(tw.TileError) as caught:
            call()
        assert caught.value.diagnostic.code == code


@pytest.mark.req("S3-23")
@pytest.mark.req("S3-24")
@pytest.mark.parametrize("threshold", [0.0, 0.25, 1.5])
def test_screening(threshold: float) -> None:
    """Bounds are quarters: many products lie exactly at the threshold, where a soft mask would be half open."""
    a, dense = normal(200, 200), normal(200, 90, seed=1)
    bound = np.random.default_rng(2).integers(0, 8, 200).astype(np.float32) / 4
    made = tw.kernels.screened_spmm(a, bound, dense, threshold)
    wanted = tw.kernels.screened_spmm.exact(a, bound, dense, threshold)
    assert error(made, wanted) < 1e-6
    above = np.outer(bound, bound).astype(np.float64) - threshold
    relu = np.maximum(above + 1e-9, 0)
    soft = (a * (relu / (relu + 1e-10))) @ dense
    assert (above == 0).any() and error(soft, wanted) > 0.05


@pytest.mark.parametrize("target", ["trn1", "trn3"])
def test_other_generations(target: str) -> None:
    indices, indptr = compressed([2, 1], 2)
    blocks, dense = normal(3, 16, 16), normal(32, 9, seed=1)
    made = tw.kernels.bsr_spmm(blocks, indices, indptr, dense, target=target)
    assert error(made, tw.kernels.bsr_spmm.exact(blocks, indices, indptr, dense)) < 1e-6
    arguments = normal(32, 32), normal(32, seed=2), dense, 0.1
    made = tw.kernels.screened_spmm(*arguments, target=target)
    assert error(made, tw.kernels.screened_spmm.exact(*arguments)) < 1e-6

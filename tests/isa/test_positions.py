"""What GpSimd finds: the largest elements of a snake over partitions, bounds of sequences."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.kit import accepts, nisa, nl, rejects, tile

X = np.random.default_rng(3).standard_normal((32, 6)).astype(ml_dtypes.bfloat16)


def found(x: Any, n: int, k: int, columns: int = 6) -> Any:
    """The kernel: values and positions of the k largest."""
    src = nl.ndarray((x.shape[0], columns), nl.bfloat16, nl.sbuf)
    nisa.dma_copy(src[:, 0 : x.shape[1]], x)
    shape = (x.shape[0], k)
    values, places = tile(shape, nl.bfloat16), tile(shape, nl.uint32)
    nisa.topk(values, places, src, n)
    out_values = nl.ndarray(shape, nl.bfloat16, nl.shared_hbm)
    out_places = nl.ndarray(shape, nl.uint32, nl.shared_hbm)
    nisa.dma_copy(out_values, values)
    nisa.dma_copy(out_places, places)
    return out_values, out_places


@pytest.mark.rule("R-topk-01", "accept")
@pytest.mark.rule("R-topk-02", "accept")
@pytest.mark.parametrize(("n", "k"), [(96, 8), (96, 96), (42, 1), (8, 8), (17, 9)])
def test_the_largest_of_each_snake(n: int, k: int) -> None:
    values, places = accepts(found, X, n, k)
    for first in (0, 16):
        snake = X[first : first + 16].T.reshape(-1)[:n].astype(np.float32)
        for row in range(first, first + 16):
            np.testing.assert_array_equal(values[row].astype(np.float32), np.sort(snake)[n - k :])
            np.testing.assert_array_equal(snake[places[row]], values[row].astype(np.float32))
            assert len(set(places[row].tolist())) == k


def test_equal_elements_come_from_different_places_and_nan_is_largest() -> None:
    x = np.zeros((16, 1), ml_dtypes.bfloat16)
    x[5] = np.nan
    values, places = accepts(found, x, 16, 4, 1)
    assert places[0].tolist() == [2, 1, 0, 5] and np.isnan(values[0, 3])


def test_elements_behind_the_snake_are_not_looked_at() -> None:
    accepts(found, X[:, :2], 32, 4)
    rejects("R-tensor-18", found, X[:, :2], 33, 4)


@pytest.mark.rule("R-topk-01", "reject")
@pytest.mark.parametrize(
    "call",
    [
        lambda: nisa.topk(tile((16, 8), nl.float32), tile((16, 8), nl.uint32), tile((16, 4), nl.bfloat16), 64),
        lambda: nisa.topk(tile((16, 8), nl.bfloat16), tile((16, 8), nl.int32), tile((16, 4), nl.bfloat16), 64),
        lambda: nisa.topk(tile((16, 8), nl.bfloat16), tile((16, 8), nl.uint32), tile((16, 4), nl.float16), 64),
        lambda: nisa.topk(tile((16, 8), nl.bfloat16), tile((16, 7), nl.uint32), tile((16, 4), nl.bfloat16), 64),
        lambda: nisa.topk(tile((16, 2, 4), nl.bfloat16), tile((16, 8), nl.uint32), tile((16, 4), nl.bfloat16), 64),
        lambda: nisa.topk(
            tile((16, 8), nl.bfloat16), tile((16, 8), nl.uint32), nl.ndarray((16, 4), nl.bfloat16, nl.psum), 64
        ),
    ],
)
def test_types_shapes_and_memory(call: Any) -> None:
    rejects("R-topk-01", lambda x: call())


@pytest.mark.rule("R-topk-02", "reject")
@pytest.mark.parametrize(
    ("partitions", "columns", "n", "k"), [(16, 4, 7, 1), (16, 4, 65, 8), (16, 4, 10, 11), (24, 4, 64, 8)]
)
def test_sizes(partitions: int, columns: int, n: int, k: int) -> None:
    def kernel(x: Any) -> None:
        results = tile((partitions, k), nl.bfloat16), tile((partitions, k), nl.uint32)
        nisa.topk(*results, tile((partitions, columns), nl.bfloat16), n)

    rejects("R-topk-02", kernel)


def bounds(x: Any, dtype: Any = None) -> Any:
    n = x.shape[1]
    ids = nl.ndarray((1, n), x.dtype, nl.sbuf)
    nisa.dma_copy(ids, x)
    made = tile((1, 2, n), dtype or x.dtype)
    nisa.sequence_bounds(made, ids)
    out = nl.ndarray((1, 2, n), made.dtype, nl.shared_hbm)
    nisa.dma_copy(out, made)
    return out


@pytest.mark.rule("R-sequence_bounds-01", "accept")
@pytest.mark.rule("R-sequence_bounds-02", "accept")
@pytest.mark.rule("R-sequence_bounds-03", "accept")
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_bounds_of_runs_of_equal_ids(dtype: Any) -> None:
    ids = np.array([[0, 1, 1, 2, 2, 2, 0, 3, 3, 1]], dtype)
    expected = [[[10, 1, 1, 3, 3, 3, 10, 7, 7, 9], [-1, 3, 3, 6, 6, 6, -1, 9, 9, 10]]]
    np.testing.assert_array_equal(accepts(bounds, ids), expected)
    np.testing.assert_array_equal(accepts(bounds, ids[:, 1:2]), [[[0], [1]]])


@pytest.mark.rule("R-sequence_bounds-01", "reject")
@pytest.mark.parametrize(
    ("dst", "ids"), [((2, 2, 8), (2, 8)), ((1, 2, 7), (1, 8)), ((1, 16), (1, 8)), ((1, 3, 8), (1, 8))]
)
def test_one_partition_and_two_bounds(dst: tuple[int, ...], ids: tuple[int, ...]) -> None:
    rejects("R-sequence_bounds-01", lambda x: nisa.sequence_bounds(tile(dst), tile(ids)))


@pytest.mark.rule("R-sequence_bounds-02", "reject")
@pytest.mark.parametrize(("dst", "ids"), [(nl.bfloat16, nl.int32), (nl.float32, nl.int16)])
def test_types_of_ids_and_bounds(dst: Any, ids: Any) -> None:
    rejects("R-sequence_bounds-02", lambda x: nisa.sequence_bounds(tile((1, 2, 8), dst), tile((1, 8), ids)))


@pytest.mark.rule("R-sequence_bounds-03", "reject")
@pytest.mark.parametrize("wrong", [-1.0, 1.5, np.nan])
def test_ids_are_not_negative_and_whole(wrong: float) -> None:
    ids = np.ones((1, 6), np.float32)
    ids[0, 2] = wrong
    assert "at 2" in rejects("R-sequence_bounds-03", bounds, ids).message

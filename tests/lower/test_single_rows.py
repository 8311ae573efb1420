"""Single rows of a tile that all partitions need: from the partition where they are, without a transfer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats
from tilewright.ir.walk import walk


def shortest(d: Any) -> Any:
    for k in range(d.shape[0]):
        d = np.minimum(d, d[:, k, None] + d[None, k, :])
    return d


def eliminated(a: Any) -> Any:
    for k in range(4):
        a = a - (a[:, k] / a[k, k])[:, None] * a[k] * (np.arange(a.shape[0]) > k)[:, None]
    return a


def written(a: Any) -> Any:
    """A row is read, then overwritten, then read again."""
    b = a * 2
    first = b[5] + 1
    b[5] = a[3] * first
    return b - b[5] * 0.5 + first


def special(n: int) -> np.ndarray:
    d = np.abs(floats(n, n)) * 10
    d[1, 2], d[2, 1], d[3, :3], d[0, 0] = np.inf, -0.0, (0.0, -np.inf, np.inf), 0
    return d


@pytest.mark.parametrize("n", [5, 32, 33, 64, 100, 128])
def test_rows_of_other_partitions(n: int):
    check(shortest, np.abs(floats(n, n))) if n < 40 else check(shortest, np.abs(floats(n, n)), targets=("trn2",))


@pytest.mark.parametrize("n", [7, 40])
def test_infinities_and_zeros_keep_to_their_columns(n: int):
    check(shortest, special(n))


@pytest.mark.parametrize("function", [eliminated, written])
@pytest.mark.parametrize("shape", [(9, 9), (40, 40), (70, 300)])
def test_rows_that_change(function: Any, shape: tuple[int, int]):
    check(function, floats(*shape) + 3, tolerance=1e-4)


def test_no_transfer_stands_between_steps():
    k = tw.compile(shortest, tw.spec((64, 64), np.float32), target="trn2", check="off")
    names = [op.name for op in walk(k.tile_ir)]
    assert names.count("dma_copy") < 5 and names.count("nc_stream_shuffle") >= 2 * 62
    assert k.report.latency_us < 120


def orthogonal(a: Any) -> Any:
    """Columns over their lengths, each taken from those behind it."""
    q = np.zeros(a.shape, a.dtype)
    for k in range(a.shape[1]):
        q[:, k] = a[:, k] / np.sqrt(np.sum(a[:, k] ** 2))
        a = a - np.outer(q[:, k], q[:, k] @ a)
    return q


def over_its_length(x: Any) -> Any:
    """A number of all rows on every partition, of which two groups make something of their own."""
    s = np.sum(x * x)
    return x / np.sqrt(s + 1), (x[:, 0] + x[:, 1]) * np.exp(-s / x.size)


@pytest.mark.parametrize("shape", [(9, 3), (200, 4), (1024, 6)])
@pytest.mark.parametrize("function", [orthogonal, over_its_length])
def test_numbers_that_all_rows_need(function: Any, shape: tuple[int, int]):
    check(function, floats(*shape) + 1, tolerance=2e-5)


def test_columns_stay_on_their_partitions():
    """A column times a number is no row of one partition: nothing passes through HBM or is transposed."""
    k = tw.compile(orthogonal, tw.spec((1024, 6), np.float32), target="trn2", check="off")
    assert k.report.hbm_bytes <= 1.1 * k.report.compulsory_bytes
    assert not any(op.attrs.get("is_transpose") and op.operands[0].sizes[0] > 1 for op in walk(k.tile_ir))

"""Products of matrices: any sizes, types and batch dims, whatever is done with them; operands larger than SBUF."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.lower.kit import TARGETS, check, fits, floats, small
from tilewright.spec import spec

SIZES = [(1, 1, 1), (3, 1, 5), (129, 5, 1), (1, 300, 2), (130, 129, 131), (2, 257, 520), (300, 7, 9), (128, 128, 512)]


def product(x: Any, y: Any) -> Any:
    return x @ y


@pytest.mark.req("S4-70")
@pytest.mark.req("S4-72")
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_sizes(m: int, k: int, n: int):
    """Operands as they are and transposed."""
    x, y = floats(m, k), floats(k, n, seed=1)
    check(product, x, y, tolerance=1e-5)
    check(lambda x, y: x.T @ y.T, x.T.copy(), y.T.copy(), targets=("trn1", "trn3"), tolerance=1e-5)
    check(lambda x, y: np.tanh(x @ y.T + 1), x, y.T.copy(), targets=("trn2",), tolerance=1e-5)


@pytest.mark.req("S4-72")
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=str)
def test_narrow_floats(dtype: Any):
    """Accumulated in float32 and rounded once."""
    for m, k, n in SIZES[1::2]:
        x, y = floats(m, k).astype(dtype), floats(k, n, seed=1).astype(dtype)
        check(lambda x, y: x.astype(np.float32) @ y.astype(np.float32), x, y, tolerance=1e-5)
        check(product, x, y, tolerance=2**-6)
    x, y = floats(200, 150), floats(150, 70, seed=1).astype(ml_dtypes.bfloat16)
    check(lambda x, y: x @ y.astype(np.float32), x, y, tolerance=1e-5)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_integers(dtype: str):
    """Exactly, whatever wraps around."""
    rng = np.random.default_rng(0)
    for i, (m, k, n) in enumerate([(3, 4, 5), (130, 300, 7), (5, 1500, 30)]):
        if dtype == "bool":
            x, y = rng.random((m, k)) < 0.03, rng.random((k, n)) < 0.03
        else:
            info = np.iinfo(dtype)
            x, y = (rng.integers(info.min, info.max, s, dtype, endpoint=True) for s in ((m, k), (k, n)))
        check(product, x, y, targets=(TARGETS[i],))


@pytest.mark.req("S4-70")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((5, 7), (7,)),
        ((7,), (7, 5)),
        ((7,), (7,)),
        ((3, 4, 5), (5, 6)),
        ((3, 4, 5), (3, 5, 6)),
        ((4, 5), (3, 5, 2)),
        ((2, 1, 4, 130), (3, 130, 5)),
        ((2, 3, 4, 5), (2, 3, 5, 4)),
        ((20, 1, 9), (9, 3)),
        ((2, 2, 2, 3, 4), (4, 140)),
    ],
    ids=str,
)
def test_batches(one: tuple[int, ...], other: tuple[int, ...]):
    check(product, floats(*one), floats(*other, seed=1), tolerance=1e-5)


def test_infinities_stay_in_their_row():
    x, y = floats(140, 150), np.abs(floats(150, 20, seed=1)) + 1
    x[3, 5], x[100, 149], x[7, 7] = np.inf, np.nan, -np.inf
    check(product, x, y, tolerance=1e-5)
    check(lambda x, y: x @ y.astype(np.float32), x, y.astype(ml_dtypes.bfloat16), tolerance=1e-5)


def attention(q: Any, k: Any, v: Any) -> Any:
    s = q @ np.swapaxes(k, -1, -2) / 8
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def test_chains():
    """Products of products, with elementwise work between."""
    x, w, u = floats(140, 60), floats(60, 200, seed=1), floats(200, 50, seed=2)
    check(lambda x, w, u: np.maximum(x @ w, 0) @ u + x[:, :50], x, w, u, tolerance=1e-5)
    check(attention, floats(150, 64), floats(300, 64, seed=1), floats(300, 40, seed=2), tolerance=1e-5)
    check(attention, floats(2, 3, 20, 16), floats(2, 3, 30, 16, seed=1), floats(2, 3, 30, 16, seed=2), tolerance=1e-5)
    check(lambda x, w: ((x @ w).sum(0), x @ w @ w.T), x, w, tolerance=1e-5)


@pytest.mark.parametrize(("m", "k", "n"), [(300, 520, 1100), (5, 3000, 40), (260, 140, 3000)])
def test_operands_that_do_not_fit(m: int, k: int, n: int):
    """With little memory: parts of both operands pass through."""
    x, y = floats(m, k), floats(k, n, seed=1)
    for target in ("trn1", "trn2"):
        check(product, x, y, targets=(small(target, 24000),), tolerance=1e-5)
    check(lambda x, y: x.T @ y.T, x.T.copy(), y.T.copy(), targets=(small("trn3", 24000),), tolerance=1e-5)
    check(lambda x, y: np.exp(x @ y / 100) + y[0], x, y, targets=(small("trn2", 24000),), tolerance=1e-5)
    narrow = y.astype(ml_dtypes.bfloat16)
    check(lambda x, y: x @ y.astype(np.float32), x, narrow, targets=(small("trn2", 24000),), tolerance=1e-5)


@pytest.mark.req("S4-73")
@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(1, 2048, 128_256), (64, 20_000, 30_000), (4096, 4096, 4096), (100, 1_000_000, 10), (1, 2_000_000, 1)],
)
def test_operands_larger_than_sbuf(m: int, k: int, n: int):
    for target in TARGETS:
        kernel = fits(product, spec((m, k), "float32"), spec((k, n), "float32"), target=target)
        assert len(str(kernel.tile_ir).splitlines()) < 400
    fits(lambda x, y: x @ y.T, spec((m, k), "bfloat16"), spec((n, k), "bfloat16"))


def test_attention_of_any_length():
    for length in (4096, 65_536):
        fits(attention, *(spec((length, 128), "float32") for _ in range(3)))
    long = [floats(140, 32), floats(2600, 32, seed=1), floats(2600, 20, seed=2)]
    check(attention, *long, targets=(small("trn2", 24000),), tolerance=1e-5)


@pytest.mark.parametrize(("k", "m", "n"), [(1024, 64, 64), (384, 100, 7), (2048, 16, 600)])
def test_long_columns_come_in_long_pieces(k: int, m: int, n: int):
    x, y, z = floats(k, m), floats(k, n, seed=1), floats(k, n, seed=2)
    check(lambda x, y: x.T @ y, x, y, tolerance=2e-5)
    check(lambda x: x.T @ x, x, tolerance=2e-5)
    check(lambda x, y, z: (x.T @ y) * (x.T @ np.tanh(z)), x, y, z, tolerance=2e-5)

"""A chunk of gated DeltaNet as people write it by hand: ten tiles of 128 x 128, two results, few kinds of calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.kernels.near import error, normal
from tests.kit import nisa, nki, nl
from tilewright.kernels import references

ALLOWED = {"nc_matmul", "dma_copy", "tensor_scalar", "tensor_tensor", "activation", "tensor_copy"}
SIZE = 128


def loaded(source: Any) -> Any:
    tile = nl.ndarray(source.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def product(left_t: Any, right: Any) -> Any:
    """left . right in SBUF"""
    bank = nl.ndarray((SIZE, SIZE), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=bank, stationary=left_t, moving=right)
    tile = nl.ndarray((SIZE, SIZE), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=bank)
    return tile


def both(a: Any, b: Any, op: Any) -> Any:
    tile = nl.ndarray((SIZE, SIZE), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=tile, data1=a, data2=b, op=op)
    return tile


def exponential(a: Any) -> Any:
    tile = nl.ndarray((SIZE, SIZE), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=tile, op=nl.exp, data=a)
    return tile


@nki.jit
def chunk_step(query, key, value, beta, g_cumsum, g_last, state_in, lower_mask, identity, lower_mask_diag):
    """The outputs of a chunk and the state after it; rates and sums of gates are spread over the columns"""
    out = nl.ndarray((SIZE, SIZE), dtype=nl.float32, buffer=nl.shared_hbm)
    state_out = nl.ndarray((SIZE, SIZE), dtype=nl.float32, buffer=nl.shared_hbm)
    q, k, v, rate, sums = loaded(query), loaded(key), loaded(value), loaded(beta), loaded(g_cumsum)
    last, state, unit = loaded(g_last), loaded(state_in), loaded(identity)
    q_t, k_t = product(q, unit), product(k, unit)
    decay = exponential(both(sums, product(sums, unit), nl.subtract))
    grown = exponential(sums)
    inside = both(both(product(k_t, k_t), decay, nl.multiply), both(loaded(lower_mask), rate, nl.multiply), nl.multiply)
    nisa.tensor_scalar(dst=inside, data=inside, op0=nl.multiply, operand0=-1.0)
    new = both(rate, both(v, both(grown, product(k_t, state), nl.multiply), nl.subtract), nl.multiply)
    for _ in range(7):
        inside_t = product(inside, unit)
        new, inside = both(new, product(inside_t, new), nl.add), product(inside_t, inside)
    seen = both(both(product(q_t, k_t), decay, nl.multiply), loaded(lower_mask_diag), nl.multiply)
    read = both(grown, product(q_t, state), nl.multiply)
    nisa.dma_copy(dst=out, src=both(read, product(product(seen, unit), new), nl.add))
    left = both(k, exponential(both(last, sums, nl.subtract)), nl.multiply)
    kept = both(state, exponential(last), nl.multiply)
    nisa.dma_copy(dst=state_out, src=both(kept, product(left, new), nl.add))
    return out, state_out


@pytest.mark.req("S0-01")
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_ten_tiles_and_few_kinds_of_calls(target: str) -> None:
    q, k = (normal(SIZE, SIZE, seed=i) for i in range(2))
    q, k = (each / np.linalg.norm(each, axis=-1, keepdims=True) for each in (q, k))
    v, state = normal(SIZE, SIZE, seed=2), normal(SIZE, SIZE, seed=3, scale=0.1)
    rng = np.random.default_rng(4)
    beta, gates = rng.uniform(0.1, 0.9, SIZE), rng.uniform(-0.02, -0.001, SIZE)
    beta, gates = beta.astype(np.float32), gates.astype(np.float32)
    sums = np.cumsum(gates.astype(np.float64)).astype(np.float32)
    across = np.ones((1, SIZE), np.float32)
    masks = np.tri(SIZE, k=-1, dtype=np.float32), np.eye(SIZE, dtype=np.float32), np.tri(SIZE, dtype=np.float32)
    tiles = q, k, v, beta[:, None] * across, sums[:, None] * across, np.full((SIZE, SIZE), sums[-1]), state
    simulation = tw.simulate(chunk_step, target=target)
    made = simulation(*tiles, *masks)
    exact = references.deltanet(*(each.astype(np.float64) for each in (q, k, v, beta, gates, state)))
    assert error(made, exact) < 2e-6
    assert all(np.abs(mine - right).max() < 1e-5 for mine, right in zip(made, exact, strict=True))
    assert set(simulation.report.instructions_by_name) == ALLOWED

"""Gated DeltaNet in chunks against the recurrence in float64."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.kernels.near import error, normal
from tests.kit import nisa, nl, run
from tilewright.kernels import references
from tilewright.kernels.deltanet import deltanet_unsafe
from tilewright.kernels.tiles import load
from tilewright.kernels.triangular import inverse_turned

WHOLE, CHUNK = tw.kernels.deltanet, tw.kernels.deltanet_chunk


def sequence(heads: int, length: int, d: int = 128, width: int = 128, least: float = -0.2) -> tuple[np.ndarray, ...]:
    """Queries and keys of unit length, values, rates, and gates down to `least`."""
    rng = np.random.default_rng(length)
    q, k = (normal(heads, length, d, seed=i) for i in range(2))
    q, k = (each / np.linalg.norm(each, axis=-1, keepdims=True) for each in (q, k))
    rates = rng.uniform(0.1, 0.9, (heads, length)).astype(np.float32)
    gates = rng.uniform(-0.2, -0.01, (heads, length)).astype(np.float32)
    if least < -0.2:
        gates[:, :: max(1, length // 9)] = least
    return q, k, normal(heads, length, width, seed=2), rates, gates


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_a_chunk(target: str) -> None:
    arguments = *sequence(1, 128), normal(1, 128, 128, seed=5, scale=0.1)
    assert error(CHUNK(*arguments, target=target), CHUNK.exact(*arguments)) < 1e-6


@pytest.mark.req("S0-02")
@pytest.mark.parametrize("length", [1, 100, 128, 200, 512])
def test_any_length(length: int) -> None:
    arguments = sequence(1, length, 32, 48)
    assert error(WHOLE(*arguments), WHOLE.exact(*arguments)) < 2e-6


def test_sixteen_chunks_with_gates_that_cut_off() -> None:
    arguments = sequence(1, 2048, 16, 16, least=-130.0)
    assert error(WHOLE(*arguments), WHOLE.exact(*arguments)) < 2e-6


@pytest.mark.parametrize("least", [-20.0, -88.0, -130.0])
def test_gates_of_any_size(least: float) -> None:
    q, k, v, beta, gates = sequence(2, 200, 32, 32, least)
    gates[1, 100:] = least  # sums down to thousands, where differences of sums would have lost all digits
    gates[1, 150:155] = -0.01
    made = WHOLE(q, k, v, beta, gates)
    assert error(made, WHOLE.exact(q, k, v, beta, gates)) < 2e-6


@pytest.mark.req("S0-03")
def test_many_heads() -> None:
    """32 heads of 1024 positions in one launch; and how long a quarter of them takes, at most."""
    arguments = sequence(32, 1024, 8, 8)
    assert error(WHOLE(*arguments), WHOLE.exact(*arguments)) < 2e-6
    wide = [tw.spec((32, 256, 128), "float32")] * 3 + [tw.spec((32, 256), "float32")] * 2
    (report,) = WHOLE.profile(*wide, target="trn2")
    assert report.roofline_us < report.latency_us < 300 and not report.spills


@pytest.mark.req("S0-02")
@pytest.mark.req("S0-06")
def test_one_kernel_or_a_kernel_for_each_chunk() -> None:
    arrays = sequence(2, 512, 32, 32)
    whole = WHOLE(*arrays)
    state, outs = None, []
    for start in range(0, 512, 128):
        out, state = CHUNK(*(each[:, start : start + 128] for each in arrays), state)
        outs.append(out)
    assert error((np.concatenate(outs, axis=1), state), whole) < 1e-6
    sliced = [WHOLE(*(each[head].copy() for each in arrays)) for head in range(2)]  # taken apart beforehand
    assert error(tuple(np.stack(each) for each in zip(*sliced, strict=True)), whole) < 1e-6


@pytest.mark.req("S0-07")
def test_the_fallback_in_chunks_of_64() -> None:
    arrays = sequence(1, 256, 32, 32)
    wide = [each.astype(np.float64) for each in arrays]
    assert error(WHOLE(*arrays), references.deltanet_chunked(*wide, chunk=64)) < 1e-5
    assert error(references.deltanet_chunked(*wide, chunk=64), references.deltanet(*wide)) < 1e-12


def inverted(systems):
    """[n, i, j]: inverses of 1 - systems[n, i, j]"""
    out = nl.ndarray(systems.shape, dtype=systems.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out.permute((2, 0, 1)), src=inverse_turned(load(systems.permute((2, 0, 1)))))
    return out


@pytest.mark.req("S0-04")
@pytest.mark.parametrize("rows", [32, 64, 128])
def test_the_inverse(rows: int) -> None:
    """A chain through all rows: the last row needs every power. Doubling them is exact, and a round less is not."""
    systems = (np.eye(rows, k=-1) * 0.97).astype(np.float32) + np.tril(normal(3, rows, rows, scale=0.01), -1)
    exact = np.linalg.inv(np.eye(rows) - systems.astype(np.float64))
    assert error(run(inverted, systems), exact) < 1e-5
    power = systems.astype(np.float64)
    short = doubled = np.eye(rows)
    for _ in range((rows - 1).bit_length()):
        short, doubled, power = doubled, doubled + power @ doubled, power @ power
    assert error(doubled, exact) < 1e-9 < 1e-3 < error(short, exact)


def test_keys_that_resemble_each_other() -> None:
    """Powers of the system are huge then, and cancel: the inverse is not made of them."""
    q, k, v, beta, gates = sequence(1, 128, 64, 16)
    k = 0.5 * k
    k[..., 0] = 0.85
    arguments = q, k, v, np.full_like(beta, 0.95), gates * np.float32(0.01)
    assert error(WHOLE(*arguments), WHOLE.exact(*arguments)) < 1e-5


@pytest.mark.req("S0-05")
def test_the_spelling_of_a_loop_changes_nothing() -> None:
    """The three ranges of NKI are Python's: swapping them tells nothing about a kernel.

    Rounds are not alike: order and number of them show in the result.
    """

    def kernel(a, loop):
        tile = load(a)
        for round_ in loop(6):
            product = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=product, stationary=tile, moving=tile)
            nisa.tensor_scalar(
                dst=tile, data=product, op0=nl.multiply, operand0=0.01, op1=nl.add, operand1=float(round_)
            )
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    streams, results = [], []
    for loop in (range, nl.sequential_range, nl.static_range, nl.affine_range):

        def spelled(a, loop=loop):
            return kernel(a, loop)

        simulation = tw.simulate(spelled, target="trn2")
        results.append(simulation(normal(64, 64)))
        streams.append(str(simulation.run.session.graph))
    assert len({each.tobytes() for each in results}) == 1 and len(set(streams)) == 1
    for spelling in (nl.sequential_range, nl.static_range, nl.affine_range):
        assert "alias of range" in str(spelling.__doc__) and "unrolled" in str(spelling.__doc__)


def test_the_unsafe_form_is_found_out() -> None:
    """Ranges of the gates say that it can go wrong, and a run with such gates does."""
    keys, lower = normal(64, 32), np.tril(np.ones((64, 64), np.float32))
    sums = np.linspace(0, -130, 64, dtype=np.float32)[:, None]
    described = tw.spec((64, 32), "float32"), tw.spec((64, 1), "float32"), tw.spec((64, 64), "float32")
    ranges = {"k": (-1.0, 1.0), "lower": (0.0, 1.0)}
    bad = tw.ranges(deltanet_unsafe, *described, ranges=ranges | {"g_sum": (-130.0, 0.0)}, target="trn2")
    assert bad and any("exp" in each.message or "inf" in each.message for each in bad)
    assert not tw.ranges(deltanet_unsafe, *described, ranges=ranges | {"g_sum": (-30.0, 0.0)}, target="trn2")
    assert not np.isfinite(run(deltanet_unsafe, keys, sums, lower)).all()

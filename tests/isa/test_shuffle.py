"""nc_stream_shuffle: lanes within quadrants, kept partitions, broadcasts, rules and cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit import accepts, full_run, nisa, nl, np, rejects, run, tile
from tilewright.target import get_target
from tilewright.tile.costed import op_cost

KEEP = 255
REVERSED = list(range(31, -1, -1))


def random(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) * 50).astype(dtype)


def shuffled(dst: np.ndarray, src: np.ndarray, mask: list[int]) -> np.ndarray:
    out = dst.copy()
    for row in range(dst.shape[0]):
        if mask[row % 32] != KEEP:
            out[row] = src[row // 32 * 32 + mask[row % 32]]
    return out


def load(x: Any) -> Any:
    made = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=made, src=x)
    return made


def store(x: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


def shuffling(mask: list[int]) -> Callable[[Any, Any], Any]:
    """A kernel that shuffles its second argument over its first."""

    def kernel(dst: Any, src: Any) -> Any:
        made = load(dst)
        nisa.nc_stream_shuffle(made, load(src), mask)
        return store(made)

    return kernel


@pytest.mark.rule("R-nc_stream_shuffle-01", "accept")
@pytest.mark.rule("R-nc_stream_shuffle-02", "accept")
@pytest.mark.rule("R-nc_stream_shuffle-03", "accept")
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32, np.uint8, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("partitions", [32, 64, 128, 20, 80])
@pytest.mark.parametrize("mask", [list(range(32)), [0] * 32, [KEEP] * 32, [3, KEEP] * 16])
def test_masks(dtype: Any, partitions: int, mask: list[int]) -> None:
    dst, src = random((partitions, 6), dtype, 1), random((partitions, 6), dtype, 2)
    np.testing.assert_array_equal(accepts(shuffling(mask), dst, src), shuffled(dst, src, mask))


@settings(deadline=None, max_examples=20)
@given(st.lists(st.sampled_from([*range(32), KEEP]), min_size=32, max_size=32), st.integers(1, 4), st.integers(1, 9))
def test_any_mask(mask: list[int], quadrants: int, width: int) -> None:
    dst, src = random((32 * quadrants, width), seed=1), random((32 * quadrants, width), seed=2)
    np.testing.assert_array_equal(run(shuffling(mask), dst, src), shuffled(dst, src, mask))


def test_in_place_and_three_dims() -> None:
    x = random((64, 3, 4))

    def kernel(x: Any) -> Any:
        made = load(x)
        nisa.nc_stream_shuffle(dst=made, src=made, shuffle_mask=REVERSED)
        return store(made)

    np.testing.assert_array_equal(run(kernel, x), shuffled(x, x, REVERSED))


def test_one_partition_to_every_quadrant() -> None:
    """The usual way to broadcast a row over all partitions."""
    x = random((1, 10))

    def kernel(x: Any) -> Any:
        row, made = load(x), nl.ndarray((128, 10), dtype=x.dtype, buffer=nl.sbuf)
        for quadrant in range(4):
            nisa.nc_stream_shuffle(dst=made[32 * quadrant : 32 * quadrant + 32, :], src=row, shuffle_mask=[0] * 32)
        return store(made)

    np.testing.assert_array_equal(run(kernel, x), np.repeat(x, 128, axis=0))


def test_psum_on_either_side() -> None:
    x = random((32, 8))

    def kernel(x: Any) -> Any:
        psum, made = nl.ndarray((32, 8), dtype=x.dtype, buffer=nl.psum), tile((32, 8))
        nisa.nc_stream_shuffle(psum, load(x), REVERSED)
        nisa.nc_stream_shuffle(made, psum, REVERSED)
        return store(made)

    np.testing.assert_array_equal(run(kernel, x), x)


def test_kept_partitions_stay_unwritten() -> None:
    mask = [5] * 30 + [KEEP] * 2

    def kernel(x: Any) -> Any:
        made = nl.ndarray((32, 4), dtype=x.dtype, buffer=nl.sbuf)
        nisa.nc_stream_shuffle(made, load(x), mask)
        return store(made)

    assert "8 of 128" in rejects("R-tensor-18", kernel, random((32, 4))).message


@pytest.mark.rule("R-nc_stream_shuffle-01", "reject")
@pytest.mark.parametrize("mask", [[0] * 31, [0] * 33, [0] * 31 + [32], [0] * 31 + [-1], [254] + [0] * 31])
def test_bad_masks(mask: list[int]) -> None:
    rejects("R-nc_stream_shuffle-01", shuffling(mask), random((32, 4)), random((32, 4)))


@pytest.mark.rule("R-nc_stream_shuffle-01", "reject")
def test_lanes_that_the_source_does_not_have() -> None:
    rejects("R-nc_stream_shuffle-01", shuffling([1] * 32), random((32, 4)), random((1, 4)))
    rejects("R-nc_stream_shuffle-01", shuffling([0] * 32), random((64, 4)), random((32, 4)))
    accepts(shuffling([0] * 16 + [31] * 16), random((16, 4)), random((1, 4)))


@pytest.mark.rule("R-nc_stream_shuffle-02", "reject")
def test_types_differ() -> None:
    rejects("R-nc_stream_shuffle-02", shuffling(REVERSED), random((32, 4)), random((32, 4), np.float16))


@pytest.mark.rule("R-nc_stream_shuffle-03", "reject")
def test_widths_differ() -> None:
    rejects("R-nc_stream_shuffle-03", shuffling(REVERSED), random((32, 4)), random((32, 5)))


def between(source: tuple[int, int], target: tuple[int, int]) -> Callable[[Any], None]:
    """A shuffle between partitions (start, count) of two tiles."""

    def kernel(_: Any) -> None:
        (a, n), (b, m) = source, target
        mask = [0] * 32
        nisa.nc_stream_shuffle(tile((128, 4))[b : b + m, :], tile((128, 4))[a : a + n, :], mask)

    return kernel


@pytest.mark.rule("R-nc_stream_shuffle-04", "accept")
@pytest.mark.parametrize(
    ("source", "target"),
    [((0, 128), (0, 128)), ((0, 96), (0, 70)), ((64, 64), (0, 64)), ((64, 33), (64, 64))]
    + [((a, 32), (b, 32)) for a in (0, 96) for b in (32, 64)]
    + [((96, 1), (32, 20))],
)
def test_start_partitions(source: tuple[int, int], target: tuple[int, int]) -> None:
    accepts(between(source, target))


@pytest.mark.rule("R-nc_stream_shuffle-04", "reject")
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ((32, 96), (0, 96)),
        ((0, 64), (32, 64)),
        ((32, 33), (0, 33)),
        ((0, 32), (16, 32)),
        ((1, 1), (0, 32)),
        ((64, 33), (32, 20)),
        ((0, 70), (64, 1)),
    ],
)
def test_bad_start_partitions(source: tuple[int, int], target: tuple[int, int]) -> None:
    rejects("R-nc_stream_shuffle-04", between(source, target))


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_cost(target: str) -> None:
    last = 0.0
    for width in (1, 60, 64, 65, 500):
        for partitions in (32, 128):
            done = full_run(shuffling(REVERSED), *[random((partitions, width))] * 2, target=target)
            (op,) = [op for op in done.session.graph.body.ops if op.name == "nc_stream_shuffle"]
            cost = op_cost(op, get_target(target))[1]
            assert cost.latency_ns >= last and cost.interval_ns > 0
            last = cost.latency_ns

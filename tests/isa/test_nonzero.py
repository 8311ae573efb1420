"""nonzero_with_count: rules, meaning, partitions that it leaves alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit import nisa, nl, rejects, run, tile
from tilewright.target import get_target
from tilewright.tile.memory import SBUF, Buffer
from tilewright.tile.record import TABLE, Call
from tilewright.tile.view import whole

RNG = np.random.default_rng(0)


def kernel(x: Any, **more: Any) -> Any:
    """Positions of nonzero elements, in a tile that holds 7 before."""
    src = nl.ndarray(x.shape, x.dtype, nl.sbuf)
    nisa.dma_copy(src, x)
    dst = tile((x.shape[0], int(np.prod(x.shape[1:])) + 1), nl.int32, value=7)
    nisa.nonzero_with_count(dst=dst, src=src, **more)
    y = nl.ndarray(dst.shape, nl.int32, nl.shared_hbm)
    nisa.dma_copy(y, dst)
    return y


def oracle(x: np.ndarray, offset: int = 0, padding: int = -1) -> np.ndarray:
    rows = x.reshape(x.shape[0], -1)
    made = np.full((rows.shape[0], rows.shape[1] + 1), 7, np.int32)
    for p in range(0, rows.shape[0], 16):
        found = [i + offset for i, value in enumerate(rows[p].tolist()) if value != 0]
        made[p] = [*found, *[padding] * (rows.shape[1] - len(found)), len(found)]
    return made


def sparse(shape: tuple[int, ...], dtype: Any, share: float = 0.5) -> np.ndarray:
    return ((RNG.random(shape) < share) * RNG.integers(-5, 5, shape)).astype(dtype)


@pytest.mark.rule("R-nonzero_with_count-01", "accept")
@pytest.mark.rule("R-nonzero_with_count-04", "holds")
@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("shape", [(128, 64), (1, 8), (17, 5), (40, 1), (128, 3, 4)])
def test_positions_and_counts(target: str, dtype: Any, shape: tuple[int, ...]) -> None:
    x = sparse(shape, dtype)
    np.testing.assert_array_equal(run(kernel, x, target=target), oracle(x))


def test_the_documented_example() -> None:
    x = np.array([[0, 1, 1, 0, 0, 1, 0, 0]], np.float32)
    found = run(lambda a: kernel(a, index_offset=16, padding_val=-1), x)
    np.testing.assert_array_equal(found, [[17, 18, 21, -1, -1, -1, -1, -1, 3]])


@given(
    x=st.lists(st.sampled_from([0.0, -0.0, 1.0, np.nan, np.inf, 1e-40]), min_size=1, max_size=12),
    offset=st.integers(-(2**31), 2**31 - 20),
    padding=st.integers(-(2**31), 2**31 - 1),
)
def test_any_values(x: list[float], offset: int, padding: int) -> None:
    array = np.array([x], np.float32)
    found = run(lambda a: kernel(a, index_offset=offset, padding_val=padding), array)
    np.testing.assert_array_equal(found, oracle(array, offset, padding))


def test_partitions_count_from_where_the_tile_lies() -> None:
    def below(x: Any) -> Any:
        src, dst = tile((128, 4)), tile((128, 5), nl.int32, value=7)
        nisa.dma_copy(src[32:64], x)
        nisa.nonzero_with_count(dst[32:64], src[32:64])
        y = nl.ndarray((128, 5), nl.int32, nl.shared_hbm)
        nisa.dma_copy(y, dst)
        return y

    x = sparse((32, 4), np.float32)
    expected = np.full((128, 5), 7)
    expected[32:64] = oracle(x)
    np.testing.assert_array_equal(run(below, x), expected)


@pytest.mark.rule("R-nonzero_with_count-01", "reject")
def test_generation() -> None:
    rejects("R-nonzero_with_count-01", kernel, np.ones((1, 4), np.float32), target="trn1")


@pytest.mark.rule("R-nonzero_with_count-02", "accept")
@pytest.mark.rule("R-nonzero_with_count-02", "reject")
@pytest.mark.parametrize("shape", [(16, 4), (16, 6), (8, 5), (32, 5)])
def test_shapes(shape: tuple[int, int]) -> None:
    run(lambda x: nisa.nonzero_with_count(tile((16, 5), nl.int32), tile((16, 4))) and None)
    rejects("R-nonzero_with_count-02", lambda x: nisa.nonzero_with_count(tile(shape, nl.int32), tile((16, 4))))


@pytest.mark.rule("R-nonzero_with_count-03", "accept")
def test_types() -> None:
    for dtype in (nl.float32, nl.int32):
        run(lambda x, d=dtype: nisa.nonzero_with_count(tile((16, 5), nl.int32), tile((16, 4), d)) and None)


@pytest.mark.rule("R-nonzero_with_count-03", "reject")
@pytest.mark.parametrize(
    ("dst", "src", "more"),
    [
        (nl.int32, nl.bfloat16, {}),
        (nl.int32, nl.uint32, {}),
        (nl.uint32, nl.float32, {}),
        (nl.float32, nl.float32, {}),
        (nl.int32, nl.float32, {"index_offset": 2**31}),
        (nl.int32, nl.float32, {"padding_val": -(2**31) - 1}),
        (nl.int32, nl.float32, {"padding_val": 0.5}),
    ],
)
def test_wrong_types(dst: Any, src: Any, more: dict[str, Any]) -> None:
    rejects(
        "R-nonzero_with_count-03", lambda x: nisa.nonzero_with_count(tile((16, 5), dst), tile((16, 4), src), **more)
    )


@pytest.mark.parametrize(("dst", "src"), [(nl.psum, nl.sbuf), (nl.sbuf, nl.psum)])
def test_memories(dst: Any, src: Any) -> None:
    rejects(
        "R-nonzero_with_count-03",
        lambda x: nisa.nonzero_with_count(tile((16, 5), nl.int32, dst), tile((16, 4), buffer=src)),
    )


def test_unwritten_partitions_that_are_not_reached_do_not_matter() -> None:
    def partly(x: Any, rows: int) -> Any:
        src, dst = nl.ndarray((32, 4), nl.float32, nl.sbuf), nl.ndarray((32, 5), nl.int32, nl.sbuf)
        nisa.dma_copy(src[0:1], x)
        nisa.dma_copy(src[16:17], x)
        nisa.nonzero_with_count(dst, src)
        y = nl.ndarray((2, rows, 5), nl.int32, nl.shared_hbm)
        for i in range(2):
            nisa.dma_copy(y[i], dst[16 * i : 16 * i + rows])
        return y

    x = np.array([[0, 3, 0, 1]], np.float32)
    np.testing.assert_array_equal(run(partly, x, 1), [[[1, 3, -1, -1, 2]]] * 2)
    rejects("R-tensor-18", partly, x, 2)


def test_unwritten_elements_that_are_read_reach_the_whole_row() -> None:
    def partly(x: Any) -> Any:
        src, dst = nl.ndarray((1, 4), nl.float32, nl.sbuf), tile((1, 5), nl.int32)
        nisa.memset(src[:, 0:3], value=0.0)
        nisa.nonzero_with_count(dst, src)
        y = nl.ndarray((1, 5), nl.int32, nl.shared_hbm)
        nisa.dma_copy(y, dst)
        return y

    assert "5 of 5" in rejects("R-tensor-18", partly).message


def test_cost_grows_with_the_row() -> None:
    def cost(free: int) -> Any:
        operands = [whole(Buffer(nl.int32, (128, free + 1), SBUF)), whole(Buffer(nl.float32, (128, free), SBUF))]
        record = TABLE["nonzero_with_count"]
        call = Call(record, operands, dict(record.defaults), get_target("trn2"))
        call.resolve_engine()
        return record.cost(call)

    costs = [cost(free).latency_ns for free in (1, 64, 512, 4096)]
    assert costs == sorted(costs) and 0 < costs[0] < costs[-1]

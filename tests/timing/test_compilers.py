"""What the compilers of the dialects make of the same instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.kit import full_run, nisa, nl, np
from tilewright.report.timing import time_graphs
from tilewright.sim.session import Options
from tilewright.target import get_target
from tilewright.timing.compilers import CURRENT, LEGACY
from tilewright.timing.merge import REPEAT


def inverting(x):
    data = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(data, x)
    nisa.reciprocal(data, data)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, data)
    return out


@pytest.mark.parametrize(
    ("target", "compiler", "free", "engine"),
    [
        ("trn1", LEGACY, 512, "scalar"),
        ("trn1", LEGACY, 63, "vector"),
        ("trn1", CURRENT, 512, "vector"),
        ("trn2", LEGACY, 512, "vector"),
    ],
)
def test_reciprocals_of_many_elements_on_trn1(target: str, compiler: str, free: int, engine: str) -> None:
    graph = full_run(inverting, np.ones((128, free), np.float32), target=target).session.graph
    busy = time_graphs([graph], get_target(target), compiler=compiler)[0].engine_busy_us
    assert busy.get(engine, 0.0) > 0 and not busy.get("vector" if engine == "scalar" else "scalar", 0.0)
    # One element per cycle instead of eight.
    assert engine == "vector" or busy["scalar"] < 512 * 2 / 1.4e3


TRIPS = 16


def tile(dtype: object = nl.float32) -> Any:
    return nl.ndarray((128, 512), dtype=dtype, buffer=nl.sbuf)


def by_trips(compute: Callable[[Any, int], Any]) -> Any:
    """Every trip adds to what it loads a tile that it computes of a row loaded before the loop."""

    def kernel(x: Any, row: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        kept = nl.ndarray((1, 512), dtype=row.dtype, buffer=nl.sbuf)
        nisa.dma_copy(kept, row)
        for trip in range(TRIPS):
            rows = slice(trip * 128, trip * 128 + 128)
            data, result = tile(), tile()
            nisa.dma_copy(data, x[rows])
            nisa.tensor_tensor(result, data, compute(kept, trip), op=nl.add)
            nisa.dma_copy(out[rows], result)
        return out

    return kernel


def spread(row: Any, trip: int) -> Any:
    """The row in every partition, as the legacy dialect broadcasts: a product with ones, copied out of PSUM."""
    ones = nl.ndarray((1, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(ones, 1.0)
    product = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(product, stationary=ones, moving=row)
    made = tile()
    nisa.tensor_copy(made, product)
    return made


def changing(row: Any, trip: int) -> Any:
    """Another tile in each trip."""
    made = spread(row, trip)
    other = tile()
    nisa.tensor_scalar(other, made, op0=nl.multiply, operand0=float(trip))
    return other


def twice_written(row: Any, trip: int) -> Any:
    """A tile that is written again is not followed."""
    made = spread(row, trip)
    nisa.tensor_scalar(made, made, op0=nl.multiply, operand0=2.0)
    return made


def drawn(row: Any, trip: int) -> Any:
    """Random numbers are others each time."""
    numbers, made = tile(nl.uint32), tile()
    nisa.rng(numbers)
    nisa.tensor_copy(made, numbers)
    return made


@pytest.mark.parametrize(
    ("compute", "compiler", "left_out"),
    [
        # The product, its copy and the ones, in every trip but the first.
        (spread, LEGACY, 3 * (TRIPS - 1)),
        (spread, CURRENT, 0),
        (changing, LEGACY, 3 * (TRIPS - 1)),
        (twice_written, LEGACY, TRIPS - 1),
        (drawn, LEGACY, 0),
    ],
)
def test_what_is_computed_again_may_be_left_out(compute: Any, compiler: str, left_out: int) -> None:
    arrays = np.zeros((TRIPS * 128, 512), np.float32), np.zeros((1, 512), np.float32)
    run = full_run(by_trips(compute), *arrays, options=Options(shapes=True))
    timing = time_graphs([run.session.graph], get_target("trn2"), compiler=compiler)[0]
    assert sum(each.executed for each in timing.removable if each.what == REPEAT) == left_out
    if left_out > TRIPS:
        assert timing.latency_if_merged_us < timing.latency_us


def test_a_result_that_finds_no_room_is_computed_again() -> None:
    arrays = np.zeros((TRIPS * 128, 512), np.float32), np.zeros((1, 512), np.float32)
    run = full_run(by_trips(spread), *arrays, options=Options(shapes=True))
    tight = get_target("trn2").replace({"memory.sbuf_usable_bytes": 2 * 2048})
    timing = time_graphs([run.session.graph], tight, compiler=LEGACY)[0]
    assert sum(each.executed for each in timing.removable if each.what == REPEAT) < TRIPS

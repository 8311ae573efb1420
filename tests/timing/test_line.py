"""Transfers of arguments and results that one engine issues in order, as the legacy compiler has it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import full_run, nisa, nl, np
from tilewright.ir.core import Graph
from tilewright.report.timing import time_graphs
from tilewright.sim.session import Options
from tilewright.target import get_target
from tilewright.timing.compilers import CURRENT, LEGACY

TARGET = get_target("trn2")
FREE = TARGET.replace({"compiler.legacy_arguments_in_line": False}, "trn2")
TILE = (128, 512)


def products(steps: int) -> Any:
    """Tiles of sixteen products of loaded tiles each, then `steps` passes over the sum, then a store."""

    def kernel(x: Any) -> Any:
        out = nl.ndarray((6 * 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        for tile in range(6):
            total = nl.ndarray(TILE, dtype=nl.float32, buffer=nl.psum)
            for k in range(16):
                part = nl.ndarray(TILE, dtype=x.dtype, buffer=nl.sbuf)
                nisa.dma_copy(part, x[(tile * 16 + k) * 128 : (tile * 16 + k + 1) * 128])
                nisa.nc_matmul(total, stationary=part[:, 0:128], moving=part)
            result = nl.ndarray(TILE, dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(result, total, engine=nisa.engine.vector)
            for _ in range(steps):
                nisa.activation(result, nl.exp, result)
            nisa.dma_copy(out[tile * 128 : tile * 128 + 128], result)
        return out

    return kernel


def graph(kernel: Any, rows: int = 6 * 16 * 128) -> Graph:
    """The instructions of a kernel on float32."""
    return full_run(kernel, np.zeros((rows, 512), np.float32), options=Options(shapes=True)).session.graph


def us(made: Graph, target: Any = TARGET, compiler: str = LEGACY) -> float:
    """How long a kernel takes."""
    return time_graphs([made], target, compiler=compiler)[0].latency_us


def test_a_store_that_waits_holds_up_the_loads_behind_it() -> None:
    short, long = graph(products(0)), graph(products(12))
    # Loads run so far ahead that a short wait does not matter, and are all in the line behind a store that waits long.
    assert us(short) == pytest.approx(us(short, FREE), rel=0.03)
    assert us(long) > 1.1 * us(long, FREE)
    # The current compiler is not known to do so.
    assert us(long, TARGET, CURRENT) == us(long, FREE, CURRENT)


def test_loads_stand_where_there_is_room_for_what_they_load() -> None:
    # Sixteen places instead of eight: twice as many loads stand in front of the store.
    deep = TARGET.replace({"compiler.legacy_ring_depth": 16}, "trn2")
    assert us(graph(products(12)), deep) < us(graph(products(12)))


def copying(x: Any) -> Any:
    """Every place is freed by a store, not by an engine."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(32):
        tile = nl.ndarray(TILE, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x[i * 128 : i * 128 + 128])
        nisa.dma_copy(out[i * 128 : i * 128 + 128], tile)
    return out


def test_transfers_that_wait_for_transfers_hold_up_nobody() -> None:
    made = graph(copying, 32 * 128)
    later = TARGET["launch.argument_transfers_ns"] / 1e3
    assert us(made) <= us(made, FREE) + later + 0.5


def through_hbm(x: Any) -> Any:
    """A tensor of the kernel's own between an argument and the result."""
    out = nl.ndarray(TILE, dtype=x.dtype, buffer=nl.shared_hbm)
    between = nl.ndarray(TILE, dtype=x.dtype, buffer=nl.private_hbm)
    for source, dst in ((x, between), (between, out)):
        tile = nl.ndarray(TILE, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, source)
        nisa.dma_copy(dst, tile)
    return out


def test_software_writes_the_descriptors_of_arguments_alone() -> None:
    timing = time_graphs([graph(through_hbm, 128)], TARGET, compiler=LEGACY)[0]
    chosen = sorted((choice.chosen, choice.executed) for choice in timing.choices if choice.what == "dge")
    assert [mode for mode, count in chosen for _ in range(count)] == ["hwdge"] * 2 + ["swdge"] * 2
    assert timing.regime == "legacy"


def test_the_first_of_them_comes_later() -> None:
    def kernel(x: Any) -> Any:
        out = nl.ndarray(TILE, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(TILE, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(out, tile)
        return out

    made = graph(kernel, 128)
    at_once = TARGET.replace({"launch.argument_transfers_ns": 0}, "trn2")
    assert us(made) - us(made, at_once) == pytest.approx(1.29, abs=0.01)

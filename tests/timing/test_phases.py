"""What a compiler that orders accesses of HBM by tensor makes of loops over one; the Tensor engine's clock."""

from __future__ import annotations

import pytest

import tilewright as tw
from tests.kit import nisa, nki, nl
from tilewright.nki.kernel import run_kernel
from tilewright.report.timing import time_graphs
from tilewright.sim.session import Options
from tilewright.target import get_target
from tilewright.timing.compilers import CURRENT, LEGACY, compiled_by
from tilewright.timing.profile import Event
from tilewright.timing.throttle import Clock

TILES = 6
TRN2 = get_target("trn2")


@nki.jit
def two_loops(x):
    """Every tile goes to HBM in one loop and comes back in the next."""
    between = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.hbm)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(TILES):
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i])
        nisa.dma_copy(dst=between[i], src=tile)
    for i in range(TILES):
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=between[i])
        nisa.dma_copy(dst=out[i], src=tile)
    return out


@nki.jit
def one_loop(x):
    """Every tile goes to HBM and comes back at once."""
    between = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.hbm)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(TILES):
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i])
        nisa.dma_copy(dst=between[i], src=tile)
        back = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=back, src=between[i])
        nisa.dma_copy(dst=out[i], src=back)
    return out


def phases(kernel, compiler: str) -> tuple[list[Event], list[Event]]:
    """Stores to the tensor between and loads from it."""
    run = run_kernel(kernel, [tw.spec((TILES, 128, 512), "float32")], {}, "trn2", options=Options(shapes=True))
    _, cores = time_graphs([run.session.graph], get_target("trn2"), most_events=100, compiler=compiler)
    events = cores[0].events
    stores = [event for event in events if event.operands.startswith("dst=float32[128, 512] hbm between")]
    loads = [event for event in events if event.operands.endswith("hbm between") and event not in stores]
    assert len(stores) == len(loads) == TILES
    return stores, loads


def test_a_loop_that_reads_waits_for_the_whole_loop_that_wrote():
    stores, loads = phases(two_loops, LEGACY)
    assert min(event.start_ns for event in loads) >= max(event.end_ns for event in stores)


def test_the_current_compiler_waits_for_elements():
    stores, loads = phases(two_loops, CURRENT)
    assert min(event.start_ns for event in loads) < max(event.end_ns for event in stores)


def test_lines_that_take_turns_are_one_phase():
    stores, loads = phases(one_loop, LEGACY)
    assert min(event.start_ns for event in loads) < max(event.end_ns for event in stores)


def test_the_legacy_compiler_keeps_more_tiles():
    target = get_target("trn2")
    assert compiled_by(target, LEGACY)["memory.compiler_ring_depth"] == target["compiler.legacy_ring_depth"]
    assert compiled_by(target, CURRENT) is target


@pytest.mark.parametrize("use, fast", [(0.7, False), (0.8, True), (1.0, True)])
def test_the_clock_returns_after_three_quarters_of_a_window(use: float, fast: bool):
    clock = Clock(get_target("trn2"))
    window = get_target("trn2")["tensor.throttle_window_ns"]
    clock.use(0.0, use * window, 1.0)
    assert (clock.factor(window + 1) == 1.0) is fast


@pytest.mark.parametrize("use, fast", [(0.3, False), (0.4, True)])
def test_the_clock_falls_after_a_window_of_little_use(use: float, fast: bool):
    clock = Clock(get_target("trn2"))
    window = get_target("trn2")["tensor.throttle_window_ns"]
    clock.use(0.0, window, 1.0)
    clock.use(window, use * window, 1.0)
    assert (clock.factor(2 * window + 1) == 1.0) is fast


def test_an_instruction_counts_in_every_window_that_it_runs_in():
    """Half of the array's rows over two windows are half of each, not all of the first."""
    clock = Clock(get_target("trn2"))
    window = get_target("trn2")["tensor.throttle_window_ns"]
    clock.use(0.0, 0.5 * window, 1.0)
    clock.use(0.5 * window, window, 0.4)
    assert clock.factor(1.5 * window) == 2.0
    clock.use(1.5 * window, 0.5 * window, 1.0)
    assert clock.factor(2 * window + 1) == 2.0


@pytest.mark.parametrize("use, fast", [(0.45, False), (0.55, True)])
def test_the_clock_falls_after_long_moderate_use(use: float, fast: bool):
    clock = Clock(TRN2)
    window = TRN2["tensor.throttle_window_ns"]
    clock.use(0.0, window, 1.0)
    windows = int(TRN2["tensor.throttle_hold_ns"] // window) + 1
    for number in range(1, windows):
        clock.use(number * window, window, use)
    assert clock.factor(windows * window) == 1.0
    clock.use(windows * window, 2 * window, use)
    assert (clock.factor((windows + 2) * window) == 1.0) is fast


def test_one_window_of_use_starts_the_clock_s_patience_anew():
    clock = Clock(TRN2)
    window = TRN2["tensor.throttle_window_ns"]
    windows = int(TRN2["tensor.throttle_hold_ns"] // window)
    for number in range(3 * windows):
        clock.use(number * window, window, 0.45 if number % windows else 1.0)
    assert clock.factor(3 * windows * window) == 1.0


def test_long_instructions_keep_the_clock_up():
    clock = Clock(get_target("trn2"))
    window = get_target("trn2")["tensor.throttle_window_ns"]
    clock.use(0.0, 3 * window, 1.0)
    assert clock.factor(3 * window) == 1.0

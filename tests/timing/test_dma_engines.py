"""DMA engines with partitions of their own: transfers of few partitions leave engines idle, others may use these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.kit import full_run, nisa, nl, np
from tilewright.report.timing import time_graphs
from tilewright.sim.session import Options
from tilewright.target import get_target
from tilewright.tile.costed import op_cost
from tilewright.timing.compilers import LEGACY, compiled_by

TARGETS = ("trn1", "trn2", "trn3")


def loading(shape: tuple[int, int], start: int = 0) -> Callable[..., Any]:
    """A load into so many partitions, the first of them given, and a store of a part."""

    def kernel(x: Any) -> Any:
        wide = nl.ndarray((128, shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(wide[start : start + shape[0]], x)
        out = nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, wide[start : start + shape[0]])
        return out

    return kernel


def cost(shape: tuple[int, int], start: int = 0, target: str = "trn2", dtype: Any = np.float32) -> Any:
    """What the load costs."""
    done = full_run(loading(shape, start), np.zeros(shape, dtype), target=target)
    op = next(op for op in done.session.graph.body.ops if op.name == "dma_copy")
    return op_cost(op, compiled_by(get_target(target), LEGACY))[1]


@pytest.mark.parametrize("target", TARGETS)
def test_half_of_the_partitions_keep_half_of_the_engines_busy_for_as_long(target: str) -> None:
    half, whole = cost((64, 2048), 0, target), cost((128, 2048), 0, target)
    assert half.engines == (0, 8) and whole.engines == (0, 16)
    assert half.busy_ns == pytest.approx(whole.busy_ns) and half.queue_ns == pytest.approx(whole.queue_ns)


def test_engines_go_by_partition() -> None:
    assert cost((64, 8), 64).engines == (8, 8)
    assert cost((1, 8), 96).engines == (12, 1)
    # 8 and 4 of twelve descriptors on two engines.
    assert cost((12, 512)).busy_ns == pytest.approx(cost((8, 512)).busy_ns)


def test_the_documented_example() -> None:
    # Four rows of 8 KiB lie in the partitions of one engine, which takes 1416 ns for 32 KiB.
    made = cost((4, 2048))
    assert made.engines == (0, 1) and made.busy_ns == pytest.approx(1416, rel=0.15)


def streaming(starts: tuple[int, ...]) -> Callable[..., Any]:
    """Rows of 8 KiB through 64 partitions, the first of which come in turn."""

    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i in range(x.shape[0] // 64):
            start = starts[i % len(starts)]
            wide = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(wide[start : start + 64], x[i * 64 : i * 64 + 64])
            nisa.dma_copy(out[i * 64 : i * 64 + 64], wide[start : start + 64])
        return out

    return kernel


def test_halves_move_side_by_side() -> None:
    x = np.zeros((2048, 2048), np.float32)
    options = Options(shapes=True)
    one, both = (full_run(streaming(starts), x, options=options).session.graph for starts in ((0,), (0, 64)))
    half, whole = (time_graphs([graph], get_target("trn2"), compiler=LEGACY)[0] for graph in (one, both))
    # As published kernels on 64 partitions were measured: 226 GB/s.
    assert 180 < 2 * x.nbytes / (half.latency_us - half.launch_us) / 1e3 < 230
    assert whole.latency_us < 0.75 * half.latency_us
    for timing in (half, whole):
        assert timing.utilisation["dma"] <= 1.0 and timing.bound_error == 0.0
    # The current compiler deals descriptors to all engines.
    dealt = time_graphs([one], get_target("trn2"))[0]
    assert dealt.latency_us < 0.75 * half.latency_us


def test_a_result_comes_as_long_after_the_engine_is_free_whatever_the_overhead() -> None:
    def kernel(x: Any) -> Any:
        data = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(data, x)
        copied = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(copied, data, engine=nisa.engine.scalar)
        nisa.activation(copied, nl.exp, data)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, copied)
        return out

    target = get_target("trn2")
    ops = full_run(kernel, np.zeros((128, 512), np.float32)).session.graph.body.ops
    copy, exp = (
        op_cost(next(op for op in ops if op.name == name), target)[1] for name in ("tensor_copy", "activation")
    )
    assert exp.interval_ns > copy.interval_ns + 100
    assert exp.latency_ns - exp.interval_ns == pytest.approx(copy.latency_ns - copy.interval_ns)
    assert copy.latency_ns == pytest.approx(512 / 1.2 + target["scalar.latency_ns"])
    # Eight published profiles: 280 ns beyond the elements of an activation from SBUF.
    assert exp.latency_ns == pytest.approx(512 / 1.2 + 280, rel=0.03)

"""Sessions: recording, shape mode, collecting, the trace of NaN and infinity, severities."""

from __future__ import annotations

import inspect
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.kit import full_run, nisa, nl, rejects, run, tile
from tilewright.errors import TileError
from tilewright.report.source import underlined
from tilewright.rules import LENIENT_WARNINGS, Reporter, load_rules
from tilewright.sim.session import Options, running_session

X = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)


def fresh(*shape: int, dtype: Any = nl.float32, buffer: Any = nl.sbuf) -> Any:
    return nl.ndarray(shape, dtype, buffer)


def loaded(x: Any) -> Any:
    t = fresh(*x.shape, dtype=x.dtype)
    nisa.dma_copy(t, x)
    return t


def stored(t: Any) -> Any:
    y = fresh(*t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(y, t)
    return y


def squared(x: Any) -> Any:
    t = loaded(x)
    nisa.tensor_tensor(t, t, t, nl.multiply)
    return stored(t)


def line(function: Callable[..., Any], text: str) -> int:
    source, start = inspect.getsourcelines(function)
    (found,) = [start + i for i, each in enumerate(source) if text in each]
    return found


# Recording.


def test_the_instruction_stream_is_recorded_with_its_lines() -> None:
    graph = full_run(squared, X).session.graph
    assert [op.name for op in graph.ops] == ["alloc", "dma_copy", "tensor_tensor", "alloc", "dma_copy"]
    location = graph.ops[2].location
    assert location is not None
    assert (location.file, location.line) == (__file__, line(squared, "nl.multiply"))
    assert [value.name for value in graph.inputs] == ["x"] and len(graph.outputs) == 1


def test_recording_can_be_turned_off() -> None:
    done = full_run(squared, X, options=Options(record=False))
    np.testing.assert_array_equal(done.result, X * X)
    assert done.session.graph.ops == [] and done.session.counts.total == 3


def test_the_recorded_stream_runs_again() -> None:
    from tilewright.sim.run import run_graph
    from tilewright.tile.text import parse_tile

    done = full_run(squared, X)
    (again,) = run_graph(done.session.graph, [X])
    np.testing.assert_array_equal(again, done.result)
    (read,) = run_graph(parse_tile(str(done.session.graph)), [X])
    np.testing.assert_array_equal(read, done.result)


# Shape mode.


def projection(x: Any, w: Any) -> Any:
    """y[n, m] = sum over k of w[k, n] * x[k, m], tiled by 128, 128 and 512."""
    (k, m), (_, n) = x.shape, w.shape
    y = fresh(n, m, buffer=nl.shared_hbm)
    for i in range(0, n, 128):
        for j in range(0, m, 512):
            p = fresh(128, 512, buffer=nl.psum)
            for c in range(0, k, 128):
                stationary, moving = loaded(w[c : c + 128, i : i + 128]), loaded(x[c : c + 128, j : j + 512])
                nisa.nc_matmul(p, stationary, moving)
            t = fresh(128, 512)
            nisa.tensor_copy(t, p)
            nisa.dma_copy(y[i : i + 128, j : j + 512], t)
    return y


def test_model_shapes_are_checked_without_their_memory() -> None:
    tracemalloc.start()
    found = tw.verify(projection, tw.spec((128, 65536), "float32"), tw.spec((128, 512), "float32"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == []
    assert peak < 16 * 2**20  # the output alone would be 128 MiB


def test_shape_mode_finds_what_a_run_finds() -> None:
    def forgotten(x: Any) -> Any:
        return stored(fresh(*x.shape))

    def unused(x: Any) -> Any:
        t = fresh(128, 64)
        u = fresh(128, 64)
        nisa.tensor_copy(u, t)
        return stored(u)

    def partly(x: Any) -> Any:
        y = fresh(4096, 1024, buffer=nl.shared_hbm)
        for i in range(0, 4096 - 128, 128):
            nisa.dma_copy(y[i : i + 128], tile((128, 1024)))
        return y

    def contracted(x: Any) -> None:
        nisa.nc_matmul(fresh(64, 64, buffer=nl.psum), fresh(128, 64), loaded(x))

    def accumulated(x: Any) -> None:
        t = loaded(x)
        nisa.nc_matmul(fresh(64, 64, buffer=nl.psum), t, t, accumulate=True)

    def indexed(x: Any) -> None:
        nisa.dma_copy(fresh(4, 64), x.vector_select(0, fresh(4, 1, dtype=nl.int32)))

    def overwritten(x: Any) -> Any:
        a = nl.ndarray((128, 64), nl.float32, nl.sbuf, address=(0, 0))
        nisa.memset(a, value=0)
        b = nl.ndarray((128, 64), nl.float32, nl.sbuf, address=(0, 128))
        nisa.memset(b, value=0)
        return stored(a)

    def too_many_banks(x: Any) -> None:
        tiles = [fresh(128, 512, buffer=nl.psum) for _ in range(9)]
        for t in (*tiles, *tiles):
            nisa.memset(t, value=0)

    for kernel, rule in [
        (forgotten, "R-tensor-18"),
        (unused, "R-tensor-18"),
        (partly, "R-tensor-18"),
        (contracted, "R-tensor-08"),
        (accumulated, "R-nc_matmul-20"),
        (indexed, "R-tensor-08"),
        (overwritten, "R-tensor.address-04"),
        (too_many_banks, "R-tensor-10"),
    ]:
        found = tw.verify(kernel, tw.spec((128, 64), "float32"))
        assert [d.rule for d in found] == [rule], kernel
        ran = tw.verify(kernel, X)
        assert [d.rule for d in ran] == [rule], kernel
        assert [d.location for d in found] == [d.location for d in ran]


def test_a_large_output_that_is_partly_written_is_measured() -> None:
    def kernel(x: Any) -> Any:
        y = fresh(2048, 2048, buffer=nl.shared_hbm)
        for i in range(0, 2048, 128):
            nisa.dma_copy(y[i : i + 128, 0:2047], tile((128, 2047)))
        return y

    (found,) = tw.verify(kernel, tw.spec((128, 64), "float32"))
    assert "2048 of 4194304 elements" in found.message and "[0, 2047]" in found.message


def test_shape_mode_leaves_arguments_of_other_kinds_alone() -> None:
    def kernel(x: Any, pair: Any, scale: float) -> Any:
        assert scale == 2.0 and pair[0].shape == (4, 4)
        return squared(x)

    assert tw.verify(kernel, X, (tw.spec((4, 4), "bfloat16"), None), 2.0) == []


# Collecting.


def test_several_violations_in_one_pass() -> None:
    def kernel(x: Any) -> Any:
        t = loaded(x)
        nisa.tensor_tensor(fresh(128, 32), t, t, nl.add)  # shapes differ
        nisa.dma_copy(fresh(128, 64, buffer=nl.psum), x)  # DMA to PSUM
        nl.ndarray((128, 1024), nl.float32, nl.psum)  # more than a bank
        nisa.nc_matmul(fresh(64, 64), t, t)  # matmul to SBUF
        return stored(t)

    found = tw.verify(kernel, X)
    lines = [d.location.line for d in found if d.location is not None]
    assert lines == [
        line(kernel, "# shapes differ"),
        line(kernel, "# DMA to PSUM"),
        line(kernel, "# more than a bank"),
        line(kernel, "# matmul to SBUF"),
    ]
    assert all(d.severity == "error" for d in found)


def test_what_follows_from_a_violation_is_left_out() -> None:
    def kernel(x: Any) -> Any:
        t = fresh(128, 32)
        nisa.dma_copy(t, x)  # sizes differ
        u = fresh(128, 32)
        nisa.tensor_copy(u, t)
        nisa.tensor_reduce(fresh(128, 1), nl.add, u, axis=1)
        return stored(u)

    found = tw.verify(kernel, X)
    assert [d.location.line for d in found if d.location is not None] == [line(kernel, "# sizes differ")]


def test_a_slice_outside_is_one_finding() -> None:
    def kernel(x: Any) -> Any:
        t = fresh(128, 64)
        nisa.dma_copy(t, x[64:192])  # outside
        u = fresh(128, 64)
        nisa.tensor_copy(u, t)
        nl.ndarray((129, 1), nl.float32, nl.hbm)
        nisa.tensor_copy(u[:, 0:32], t)  # sizes differ
        return stored(u)

    found = tw.verify(kernel, X)
    assert [d.location.line for d in found if d.location is not None] == [
        line(kernel, "# outside"),
        line(kernel, "# sizes differ"),
    ]


def test_a_line_that_runs_often_is_reported_once() -> None:
    def kernel(x: Any) -> Any:
        t = loaded(x)
        for _ in range(5):
            nisa.tensor_copy(t[:, 0:8], t)
        return stored(t)

    assert len(tw.verify(kernel, X)) == 1


def test_equal_instructions_report_their_own_lines_and_values() -> None:
    def kernel(x: Any) -> Any:
        t = tile((4, 4), value=100.0)
        nisa.activation(t, nl.sin, t)
        t = tile((4, 4), value=200.0)
        nisa.activation(t, nl.sin, t)

    found = full_run(kernel).diagnostics
    first = inspect.getsourcelines(kernel)[1]
    assert [each.location and each.location.line - first for each in found] == [2, 4]
    assert ["of 100" in found[0].message, "of 200" in found[1].message] == [True, True]


def test_the_recorded_stream_can_be_looked_at_while_it_grows() -> None:
    counts: list[int] = []

    def kernel(x: Any) -> Any:
        t = loaded(x)
        for _ in range(3):
            session = running_session()
            assert session is not None
            counts.append(len(session.graph.ops))
            nisa.tensor_copy(t, t)

    graph = full_run(kernel, X).session.graph
    assert counts == [2, 3, 4] and len(graph.ops) == 5
    assert [len(graph.ops[0].result.uses), len(graph.inputs[0].uses)] == [1 + 3 * 2, 1]


def test_a_violation_that_ends_the_run_is_the_last_finding() -> None:
    def kernel(x: Any) -> None:
        nisa.tensor_copy(fresh(128, 32), loaded(x))
        nl.ndarray((0, 1), nl.float32, nl.sbuf)
        nisa.tensor_copy(fresh(128, 32), loaded(x))

    done = full_run(kernel, X, collect=True)
    assert [d.rule for d in done.diagnostics][1:] == ["R-tensor-04"] and len(done.diagnostics) == 2
    assert done.failure is not None and done.failure.diagnostic.rule == "R-tensor-04"


def test_a_tile_that_no_memory_has_does_not_end_the_search() -> None:
    def kernel(x: Any) -> None:
        large = nl.ndarray((129, 1), nl.float32, nl.sbuf)
        nisa.memset(large, value=0)
        nisa.tensor_copy(fresh(128, 1), large[0:64])
        nisa.tensor_copy(fresh(128, 32), loaded(x))

    done = full_run(kernel, X, collect=True)
    assert done.failure is None and [d.rule for d in done.diagnostics] == ["R-tensor-01", "R-tensor_copy-02"]
    assert done.diagnostics[1].location != done.diagnostics[0].location


def test_registers_after_a_violation_hold_nothing_known() -> None:
    def kernel(x: Any) -> Any:
        t = loaded(x)
        register = nisa.register_alloc()
        nisa.register_load(register, t[0:2, 0:1])  # two elements
        return stored(t)

    assert len(tw.verify(kernel, X)) == 1


# NaN and infinity.


def trace(kernel: Callable[..., Any], *arrays: Any) -> Any:
    done = full_run(kernel, *arrays, options=Options(trace_nonfinite=True))
    assert done.nonfinite is not None
    return done.nonfinite.diagnostic()


@pytest.mark.req("S0-09")
@pytest.mark.parametrize("in_place", [False, True])
def test_the_overflowing_exponential_is_found(in_place: bool) -> None:
    def kernel(x: Any) -> Any:
        t = loaded(x)
        for i in range(4):
            u = t if in_place else fresh(128, 64)
            nisa.tensor_scalar(t, t, nl.multiply, 4.0)
            nisa.activation(u, nl.exp if i == 2 else nl.copy, t)  # overflows in the third round
            t = u
        return stored(t)

    found = trace(kernel, np.full((128, 64), 3, np.float32))
    assert found.location.line == line(kernel, "# overflows")
    assert "activation" in found.message
    assert any("instruction 7" in note for note in found.notes)
    assert any("execution 3 of this line" in note for note in found.notes)
    assert any("192" in note for note in found.notes)


def test_nan_that_is_made_of_infinity_begins_there() -> None:
    def kernel(x: Any) -> Any:
        t, u = loaded(x), fresh(128, 64)
        nisa.tensor_scalar(t, t, nl.add, 1.0)
        nisa.tensor_tensor(u, t, t, nl.subtract)  # -infinity minus -infinity
        return stored(u)

    x = np.zeros((128, 64), np.float32)
    x[3, 5] = -np.inf
    found = trace(kernel, x)
    assert found.location.line == line(kernel, "# -infinity") and "turns infinity into NaN" in found.message
    assert any("partition 3, element 5, from -inf" in note for note in found.notes)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python tells no columns")
def test_equal_calls_on_one_line_are_counted_apart() -> None:
    def kernel(x: Any) -> Any:
        t = loaded(x)
        for _ in range(5):
            _ = nisa.tensor_scalar(t, t, nl.multiply, 1e5), nisa.tensor_scalar(t, t, nl.multiply, 1e5)
        return stored(t)

    found = trace(kernel, np.ones((128, 64), np.float32))
    assert any("execution 4 of this line" in note for note in found.notes)
    shown = underlined(found)
    assert shown is not None and shown.start == shown.text.rindex("nisa.tensor_scalar")


@pytest.mark.req("S0-09")
def test_zero_times_infinity_is_found_where_infinity_is_made() -> None:
    def kernel(x: Any) -> Any:
        t = loaded(x)
        big = fresh(128, 64)
        nisa.activation(big, nl.exp, t)  # infinity
        product = fresh(128, 64)
        nisa.tensor_tensor(product, big, tile((128, 64)), nl.multiply)  # NaN
        return stored(product)

    assert trace(kernel, np.full((128, 64), 100, np.float32)).location.line == line(kernel, "# infinity")


def test_zero_times_an_infinity_that_came_in_is_nobodys_fault() -> None:
    assert trace(squared, np.full((128, 64), np.inf, np.float32)) is None


def test_rounding_to_a_small_type_overflows() -> None:
    def kernel(x: Any) -> Any:
        t = loaded(x)
        u = fresh(128, 64, dtype=nl.float16)
        nisa.tensor_copy(u, t)  # too large for float16
        return stored(u)

    assert trace(kernel, np.full((128, 64), 1e6, np.float32)).location.line == line(kernel, "# too large")


def test_infinity_minus_infinity_in_psum() -> None:
    def kernel(x: Any) -> Any:
        t = loaded(x)
        p = fresh(64, 64, buffer=nl.psum)
        nisa.nc_matmul(p, t, t)  # 128 * 1e38
        u = fresh(64, 64)
        nisa.tensor_copy(u, p)
        return stored(u)

    assert trace(kernel, np.full((128, 64), 1e19, np.float32)).location.line == line(kernel, "# 128")


def test_constants_that_are_infinite_are_meant() -> None:
    def kernel(x: Any) -> Any:
        t = fresh(128, 64)
        nisa.memset(t, value=float("-inf"))
        nisa.tensor_tensor(t, t, loaded(x), nl.maximum)
        return stored(t)

    assert trace(kernel, X) is None


def test_adding_to_an_infinity_that_came_in_is_nobodys_fault() -> None:
    def kernel(x: Any) -> Any:
        ones = tile((128, 64), value=1)
        p = fresh(64, 64, buffer=nl.psum)
        nisa.nc_matmul(p, loaded(x), ones)
        nisa.nc_matmul(p, ones, ones)
        u = fresh(64, 64)
        nisa.tensor_copy(u, p)
        return stored(u)

    assert trace(kernel, np.full((128, 64), np.inf, np.float32)) is None


def test_finite_kernels_have_no_finding() -> None:
    assert trace(squared, X) is None


# Severities.


def test_lenient_only_names_rules_that_exist() -> None:
    assert set(load_rules()) >= LENIENT_WARNINGS


def test_an_unknown_profile() -> None:
    with pytest.raises(TileError, match="unknown profile"):
        run(squared, X, profile="relaxed")


def test_a_rule_that_is_turned_off_says_nothing() -> None:
    reporter = Reporter(severities={"R-tensor-20": "off", "R-tensor-04": "warning"})
    reporter.violate("R-tensor-20", "a")
    assert reporter.diagnostics == []
    reporter.violate("R-tensor-04", "b")
    assert [d.severity for d in reporter.diagnostics] == ["warning"]
    with pytest.raises(TileError):
        reporter.violate("R-tensor-04", "c", final=True)


def test_names_are_unique_in_a_kernel_and_free_in_the_next() -> None:
    def kernel(x: Any) -> None:
        nl.ndarray((4, 4), nl.float32, nl.sbuf, name="same")

    run(kernel, X)
    run(kernel, X)

    def twice(x: Any) -> None:
        kernel(x)
        kernel(x)

    assert "same" in rejects("R-tensor-20", twice, X).message

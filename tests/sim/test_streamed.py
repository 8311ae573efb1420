"""Element by element: what an engine makes of operands that overlap, as the oracle of R-engine-16, and for users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.kit import accepts, full_run, nisa, nki, nl, rejects, run, tile
from tilewright.errors import WARNING, TileError
from tilewright.nki.kernel import run_kernel
from tilewright.sim.run import run_graph
from tilewright.sim.session import Options
from tilewright.sim.streamed import ORDERS
from tilewright.tile.verify import verify_graph

WIDTH = 40


def engine(dst: Any, *sources: Any) -> None:
    """Every source counts in every element, and no value stays what it was."""
    if len(sources) == 1:
        nisa.tensor_scalar(dst, sources[0], op0=nl.multiply, operand0=3.0, op1=nl.add, operand1=1.0)
    else:
        nisa.scalar_tensor_tensor(dst, sources[0], op0=nl.multiply, operand0=3.0, op1=nl.add, operand1=sources[1])


def transfer(dst: Any, *sources: Any) -> None:
    nisa.dma_compute(dst, [*sources, sources[0]], reduce_op=nl.add)


def in_numpy(how: Callable[..., None], first: np.ndarray, *second: np.ndarray) -> np.ndarray:
    if how is transfer:
        return first + second[0] + first if second else first + first
    return first * np.float32(3) + (second[0] if second else np.float32(1))


Access = tuple[int, tuple[tuple[int, int], ...]]
"""First element, (step, count) of the free dims."""


def names(access: Access) -> list[int]:
    start, dims = access
    found = [start]
    for step, count in dims:
        found = [at + i * step for at in found for i in range(count)]
    return found


@st.composite
def accesses(draw: st.DrawFn, sizes: tuple[int, ...]) -> Access:
    """Somewhere in a row; often dense, sometimes turned, spread or read again."""
    dense = [1] * len(sizes)
    for dim in reversed(range(len(sizes) - 1)):
        dense[dim] = dense[dim + 1] * sizes[dim + 1]
    steps = [draw(st.sampled_from([step, step, step * 2, -step, 0, step + 1])) for step in dense]
    low = sum((n - 1) * s for n, s in zip(sizes, steps, strict=True) if s < 0)
    high = sum((n - 1) * s for n, s in zip(sizes, steps, strict=True) if s > 0)
    assume(high - low < WIDTH)
    return draw(st.integers(-low, WIDTH - 1 - high)), tuple(zip(steps, sizes, strict=True))


@st.composite
def instructions(draw: st.DrawFn) -> list[Access]:
    """A destination that names each element once, and one or two sources."""
    sizes = draw(st.sampled_from([(6,), (2, 3), (3, 4)]))
    dst = draw(accesses(sizes))
    assume(len(set(names(dst))) == len(names(dst)))
    sources = [draw(st.sampled_from([dst, draw(accesses(sizes))])) for _ in range(draw(st.integers(1, 2)))]
    return [dst, *sources]


@settings(max_examples=60, deadline=None)
@given(instructions(), st.sampled_from([engine, transfer]))
def test_an_instruction_is_accepted_exactly_when_streaming_changes_nothing(
    views: list[Access], how: Callable[..., None]
):
    """In neither order: hardware promises none. Two sources may outweigh each other, but not random ones."""

    def kernel(x: Any) -> Any:
        both = nl.ndarray((2, WIDTH), nl.float32, nl.sbuf)
        nisa.dma_copy(both, x)
        pairs = [[[step, count] for step, count in dims] for _, dims in views]
        how(*[both.ap([[WIDTH, 2], *dims], offset=at) for (at, _), dims in zip(views, pairs, strict=True)])
        y = nl.ndarray((2, WIDTH), nl.float32, nl.shared_hbm)
        nisa.dma_copy(y, both)
        return y

    x = np.random.default_rng(0).normal(size=(2, WIDTH)).astype(np.float32)
    runs = [run_kernel(kernel, (x,), {}, "trn2", "strict", Options(stream=order)) for order in ORDERS]
    at_once = x.copy()
    at_once[:, names(views[0])] = in_numpy(how, *[x[:, names(each)] for each in views[1:]])
    alike = all(np.array_equal(each.result, at_once) for each in runs)
    found = [each.rule for each in runs[0].diagnostics]
    assert found == ([] if alike else ["R-engine-16"]), [names(each) for each in views]
    if found:
        rejects("R-engine-16", kernel, x)
    else:
        np.testing.assert_array_equal(run(kernel, x), at_once)


@pytest.mark.rule("R-engine-16", "accept")
@pytest.mark.rule("R-engine-16", "reject")
@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("spread", [False, True])
def test_a_reduction_may_end_within_what_it_reduces(at: int, spread: bool) -> None:
    """Runs of three make one element each: element 1 of the result is stored when elements 3 to 5 have been read."""

    def kernel(x: Any) -> Any:
        t = nl.ndarray((4, 6), nl.float32, nl.sbuf)
        nisa.dma_copy(t, x)
        dst = t[:, at : at + 4 : 3] if spread else t[:, at : at + 1]
        nisa.tensor_reduce(dst, nl.maximum, t.reshape((4, 2, 3)) if spread else t, axis=2 if spread else 1)
        y = nl.ndarray((4, 6), nl.float32, nl.shared_hbm)
        nisa.dma_copy(y, t)
        return y

    x = np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32)
    if spread and at > 2:
        return
    wanted = x.copy()
    if spread:
        wanted[:, at : at + 4 : 3] = x.reshape(4, 2, 3).max(axis=2)
    else:
        wanted[:, at] = x.max(axis=1)
    for order in ORDERS:
        done = run_kernel(kernel, (x,), {}, "trn2", "strict", Options(stream=order))
        assert not done.diagnostics
        np.testing.assert_array_equal(done.result, wanted)

    def elsewhere(x: Any) -> None:
        t = tile((4, 6))
        nisa.tensor_reduce(t[:, 2:4], nl.maximum, t.reshape((4, 2, 3))[:, :, 1:], axis=2)

    def of_the_run_before(x: Any) -> None:
        t = tile((4, 6))
        nisa.tensor_reduce(t[:, 0:2], nl.maximum, t.reshape((4, 2, 3)), axis=2)

    accepts(elsewhere)
    rejects("R-engine-16", of_the_run_before)


def shift(x: Any, by: int = 1) -> Any:
    t = nl.ndarray((4, 8), nl.float32, nl.sbuf)
    nisa.dma_copy(t, x)
    nisa.tensor_copy(t[:, by : by + 4], t[:, 0:4])
    y = nl.ndarray((4, 8), nl.float32, nl.shared_hbm)
    nisa.dma_copy(y, t)
    return y


X = np.arange(32, dtype=np.float32).reshape(4, 8)


def test_the_consequence_is_seen_and_told():
    kernel = nki.jit(shift)
    simulation = tw.simulate(kernel, stream="forward")
    np.testing.assert_array_equal(simulation(X)[0], [0, 0, 0, 0, 0, 5, 6, 7])
    assert simulation.run is not None
    (found,) = simulation.run.diagnostics
    assert (found.code, found.rule, found.severity) == ("E305", "R-engine-16", WARNING)
    assert "12 of 16 elements of dst come out different, the first at [0, 1]: 0.0 instead of 1.0" in found.notes[0]
    backward = tw.simulate(kernel, stream="backward")
    np.testing.assert_array_equal(backward(X)[0], [0, 0, 1, 2, 3, 5, 6, 7])
    assert "the same as when all is read first" in backward.run.diagnostics[0].notes[0]
    with pytest.raises(TileError, match="R-engine-16"):
        tw.simulate(kernel)(X)


def test_only_these_orders():
    with pytest.raises(TileError, match="forward or backward"):
        tw.simulate(nki.jit(shift), stream="sideways")  # type: ignore[arg-type]


TEXT = """\
kernel shift(%x: f32[4, 8]@hbm) -> (%y: f32[4, 8]@hbm) {{
  %t = alloc f32[4, 8]@sbuf
  dma_copy %t, %x
  for %i in 0..2 {{
    tensor_copy %t[:, {dst} : +2], %t[:, %i*2 : +2]
  }}
  dma_copy %y, %t
}}
"""


def test_tile_ir_is_checked_before_and_while_it_runs():
    """Loop indices that move both alike are known before; others are when it runs."""

    def rules(dst: str) -> list[str | None]:
        return [found.rule for found in verify_graph(tw.parse(TEXT.format(dst=dst)), "trn2")]

    assert rules("%i*2 + 1") == ["R-engine-16"]
    assert rules("%i*2 + 2") == rules("%i*2") == []
    assert rules("%i*3 + 3") == rules("%i*3 + 2") == rules("%i*-1 + 2") == []
    run_graph(tw.parse(TEXT.format(dst="%i*3 + 2")), [X], "trn2")
    for late in ("%i*-1 + 2", "%i*2 + 1"):
        with pytest.raises(TileError, match="R-engine-16"):
            run_graph(tw.parse(TEXT.format(dst=late)), [X], "trn2")
    (found,) = run_graph(tw.parse(TEXT.format(dst="%i*2 + 1")), [X], "trn2", stream=ORDERS[0])
    np.testing.assert_array_equal(found[0], [0, 0, 0, 0, 0, 5, 6, 7])


@pytest.mark.rule("R-engine-16", "accept")
@pytest.mark.rule("R-engine-16", "reject")
def test_two_tiles_at_one_address_are_one_storage():
    def kernel(x: Any, byte: int) -> Any:
        a = nl.ndarray((4, 8), nl.float32, nl.sbuf, address=(0, 1024))
        b = nl.ndarray((4, 8), nl.float32, nl.sbuf, address=(0, byte))
        nisa.dma_copy(a, x)
        nisa.tensor_scalar(b, a, op0=nl.add, operand0=1.0)
        y = nl.ndarray((4, 8), nl.float32, nl.shared_hbm)
        nisa.dma_copy(y, b)
        return y

    np.testing.assert_array_equal(run(kernel, X, 1024), X + 1)
    np.testing.assert_array_equal(run(kernel, X, 1024 + 32), X + 1)
    found = rejects("R-engine-16", kernel, X, 1024 + 8)
    assert "a" in found.message and [note.name for note in found.operands] == ["dst", "data"]
    done = run_kernel(kernel, (X, 1024 + 8), {}, "trn2", "strict", Options(stream="forward"))
    assert not np.array_equal(done.result, X + 1)


@pytest.mark.rule("R-engine-16", "reject")
def test_an_address_that_is_known_when_it_runs():
    def kernel(x: Any, at: Any, column: bool) -> Any:
        t = nl.ndarray((1, 8), nl.float32, nl.sbuf)
        where = nl.ndarray((1, 1), nl.int32, nl.sbuf)
        nisa.dma_copy(t, x[0:1])
        nisa.dma_copy(where, at)
        nisa.tensor_copy(t[:, nl.ds(where, 3)] if column else t[:, 2:5], t[:, 0:3])

    X1 = X[:1]
    for start, legal in ((0, True), (1, False), (2, False), (3, True)):
        at = np.array([[start]], np.int32)
        if legal:
            run(kernel, X1, at, True)
        else:
            rejects("R-engine-16", kernel, X1, at, True)


@pytest.mark.rule("R-engine-16", "accept")
@pytest.mark.rule("R-engine-16", "reject")
def test_rows_that_indices_choose():
    """Exactly the rows that they choose count, and the indices themselves are read, too."""

    def kernel(x: Any, rows: Any) -> Any:
        index = nl.ndarray((4, 1), nl.int32, nl.sbuf)
        nisa.dma_copy(index, rows)
        nisa.dma_copy(x[0:4], x.ap([[8, 4], [1, 8]], vector_offset=index, indirect_dim=0))
        return x

    x = np.arange(128, dtype=np.float32).reshape(16, 8)
    other = np.array([[9], [4], [5], [15]], np.int32)
    np.testing.assert_array_equal(run(kernel, x.copy(), other)[:4], x[other[:, 0]])
    np.testing.assert_array_equal(run(kernel, x.copy(), np.arange(4, dtype=np.int32)[:, None]), x)
    rejects("R-engine-16", kernel, x.copy(), np.array([[9], [3], [5], [15]], np.int32))
    rejects("R-engine-16", kernel, x.copy(), np.array([[1], [0], [2], [3]], np.int32))

    def clobbered(x: Any, rows: Any) -> None:
        index = nl.ndarray((4, 8), nl.int32, nl.sbuf)
        nisa.dma_copy(index[:, 0:1], rows)
        nisa.dma_copy(index, x.ap([[8, 4], [1, 8]], vector_offset=index[:, 0:1], indirect_dim=0))

    found = rejects("R-engine-16", clobbered, x.astype(np.int32), other)
    assert "the indices of src" in found.message


@pytest.mark.rule("R-engine-16", "accept")
@pytest.mark.rule("R-engine-16", "reject")
def test_a_column_and_the_tile_that_it_lies_in():
    """Whether an engine reads a column once or for each element is not documented; of one column it is the same."""

    def scaled(x: Any, width: int) -> None:
        t = tile((4, 8), value=2)
        nisa.tensor_scalar(t[:, 0:width], t[:, 0:width], op0=nl.multiply, operand0=t[:, 0:1])

    run(scaled, X, 1)
    rejects("R-engine-16", scaled, X, 8)


@pytest.mark.rule("R-engine-16", "accept")
@pytest.mark.rule("R-engine-16", "reject")
def test_results_that_lie_over_each_other():
    """R-activation-10: that of a reduction survives in activation; of others that is not documented."""

    def activated(x: Any) -> Any:
        t = tile((4, 8), value=1)
        nisa.activation(t, nl.copy, t, reduce_op=nl.add, reduce_res=t[:, 0:1], reduce_cmd=nisa.reduce_cmd.reset_reduce)
        y = nl.ndarray((4, 8), nl.float32, nl.shared_hbm)
        nisa.dma_copy(y, t)
        return y

    # Where it lies over the source, which is read by then, or so one should think.
    rejects("R-engine-16", activated, X)

    def separate(x: Any) -> Any:
        t, s = tile((4, 8), value=1), tile((4, 8))
        nisa.activation(s, nl.copy, t, reduce_op=nl.add, reduce_res=s[:, 0:1], reduce_cmd=nisa.reduce_cmd.reset_reduce)
        y = nl.ndarray((4, 8), nl.float32, nl.shared_hbm)
        nisa.dma_copy(y, s)
        return y

    np.testing.assert_array_equal(run(separate, X)[:, 0], [8] * 4)

    def scaled(x: Any) -> None:
        t, s = tile((4, 8)), tile((4, 8))
        nisa.tensor_scalar_reduce(s, t, op0=nl.add, operand0=1.0, reduce_op=nl.add, reduce_res=s[:, 0:1])

    assert "both written" in rejects("R-engine-16", scaled, X).message


def test_without_arithmetic_too():
    found = tw.verify(nki.jit(shift), tw.spec((4, 8), "float32"))
    assert [each.rule for each in found] == ["R-engine-16"]
    assert not full_run(lambda x: shift(x, 4), X).diagnostics

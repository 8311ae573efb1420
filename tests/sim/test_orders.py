"""Other orders of a core's instructions: those that are legal give the same results, and what does not is found."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.kit import full_run, nisa, nki, nl, tile
from tilewright.errors import TileError
from tilewright.nki.kernel import run_kernel
from tilewright.sim.orders import any_order, dependencies
from tilewright.sim.session import Options

X = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
TRIES = Options(orders=6)


def halves(x: Any, ordered: str = "") -> Any:
    """The exponentials of two halves are added in the Scalar engine's accumulators."""
    t = tile((8, 16))
    nisa.dma_copy(t, x)
    sums, parts = tile((8, 1)), [tile((8, 8)), tile((8, 8))]

    def first() -> Any:
        return nisa.activation(
            parts[0], nl.exp, t[:, 0:8], reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce, name="first"
        )

    def second() -> Any:
        return nisa.activation(
            parts[1],
            nl.exp,
            t[:, 8:16],
            reduce_op=nl.add,
            reduce_res=sums,
            reduce_cmd=nisa.reduce_cmd.reduce,
            name="second",
        )

    if ordered == "block":
        with nl.no_reorder():
            first()
            second()
    else:
        begun = first()
        ended = second()
        if ordered == "edge":
            ended.depends_on(begun)
    y = nl.ndarray((8, 1), nl.float32, nl.shared_hbm)
    nisa.dma_copy(y, sums)
    return y


@pytest.mark.rule("R-schedule-01", "reject")
def test_what_goes_through_an_accumulator_needs_an_order() -> None:
    with pytest.raises(TileError) as caught:
        run_kernel(halves, (X,), {}, "trn2", "strict", TRIES)
    found = caught.value.diagnostic
    assert (found.code, found.rule) == ("E402", "R-schedule-01")
    source, start = inspect.getsourcelines(halves)
    lines = [start + i for i, each in enumerate(source) if "return nisa.activation" in each]
    assert found.location is not None
    assert {found.location.line, int(found.notes[0].split(":")[1])} == set(lines)


@pytest.mark.rule("R-schedule-01", "accept")
@pytest.mark.parametrize(
    "kernel",
    [
        lambda x: halves(x, "block"),
        lambda x: halves(x, "edge"),
        nki.jit(halves).with_schedule([("second", "first")]),
    ],
)
def test_orders_that_the_kernel_gives_are_kept(kernel: Callable[..., Any]) -> None:
    done = run_kernel(kernel, (X,), {}, "trn2", "strict", TRIES)
    np.testing.assert_allclose(done.result[:, 0], np.exp(X).sum(axis=1), rtol=1e-5)


def busy(x: Any, rows: Any) -> Any:
    """Tiles that are overwritten, sums in PSUM, tensors at one address, indices from memory, an argument updated."""
    t, u = tile((8, 16)), tile((8, 16))
    nisa.dma_copy(t, x)
    at = nl.ndarray((8, 1), nl.int32, nl.sbuf)
    nisa.dma_copy(at, rows)
    y = nl.ndarray((3, 8, 16), nl.float32, nl.shared_hbm)
    for i in range(3):
        place = nl.ndarray((8, 16), nl.float32, nl.sbuf, address=(0, 0))
        nisa.tensor_scalar(place, t, nl.multiply, 1.5)
        nisa.tensor_tensor(u, place, t, nl.add)
        other = nl.ndarray((8, 16), nl.float32, nl.sbuf, address=(0, 0))
        nisa.tensor_copy(other, u)
        sums = nl.ndarray((16, 16), nl.float32, nl.psum)
        for _ in range(2):
            nisa.nc_matmul(sums, other, t)
        nisa.tensor_copy(t, sums[0:8])
        nisa.dma_copy(y[i], t)
        nisa.dma_copy(x.ap([[16, 8], [1, 16]], vector_offset=at, indirect_dim=0), u)
    register = nisa.register_alloc()
    nisa.register_load(register, at[0:1, 0:1])
    nisa.dma_copy(u[0:1], x[nl.ds(register, 1)])
    nisa.dma_copy(y[2, 0:1], u[0:1])
    return y, x


@pytest.mark.rule("R-schedule-01", "accept")
def test_dependencies_through_tensors_are_kept() -> None:
    rows = np.array([3, 1, 2, 0, 7, 6, 5, 4], np.int32)[:, None]
    wanted = full_run(busy, X.copy(), rows)
    done = run_kernel(busy, (X.copy(), rows), {}, "trn2", "strict", TRIES)
    for a, b in zip(wanted.result, done.result, strict=True):
        np.testing.assert_array_equal(a, b)
    ops = [op for op in done.session.graph.body.ops if op.name != "alloc"]
    before = dependencies(ops, ())
    orders = {tuple(any_order(before, random.Random(seed))) for seed in range(6)}
    assert len(orders) == 6
    assert all(order.index(a) < order.index(b) for order in orders for b, each in enumerate(before) for a in each)


def test_the_public_functions() -> None:
    assert [found.code for found in tw.verify(nki.jit(halves), X, target="trn2", orders=6)] == ["E402"]
    assert not tw.verify(nki.jit(halves), X, target="trn2")
    with pytest.raises(TileError, match="E402"):
        tw.simulate(nki.jit(halves), target="trn2", orders=6)(X)


def test_orders_of_a_kernel_that_breaks_a_rule_are_not_compared() -> None:
    """What it computes is unknown: only the broken rule is reported."""

    @nki.jit
    def kernel(x: Any) -> Any:
        out = halves(x)
        nisa.tensor_copy(tile((8, 1)), tile((8, 2)))
        return out

    assert [found.rule for found in tw.verify(kernel, X, target="trn2", orders=6)] == ["R-tensor_copy-02"]

"""Several cores in lock step: whose turn it is, what they share, and what happens when one of them fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from tests.kit import full_run, nisa, nki, nl, rejects, run, tile
from tilewright.errors import TileError
from tilewright.nki.kernel import run_kernel
from tilewright.sim.cores import Turns
from tilewright.sim.session import Options

X = np.arange(32, dtype=np.float32).reshape(8, 4)


def on_two(kernel: Callable[..., Any]) -> Any:
    return nki.jit(kernel)[2]


# Turns.


@pytest.mark.rule("R-simulate-05", "holds")
@pytest.mark.parametrize("backwards", [False, True])
def test_a_core_runs_until_it_waits(backwards: bool) -> None:
    trace: list[tuple[int, int]] = []

    def kernel(x: Any) -> None:
        for step in range(6):
            trace.append((step // 2, nl.program_id()))
            tile((4, 4))
            if step % 2:
                nisa.core_barrier(x, (0, 1))
        if backwards and nl.program_id():
            # Read before it is written: that makes it a race.
            nisa.dma_copy(tile((8, 4)), x)
        elif backwards:
            nisa.dma_copy(x, tile((8, 4), value=5))

    full_run(on_two(kernel), X.copy(), collect=True)
    # Who comes last to a meeting goes on first.
    once = [(turn, core) for turn in range(3) for core in ((0, 1) if turn % 2 == 0 else (1, 0)) for _ in range(2)]
    again = [(turn, 1 - core) for turn, core in once] if backwards else []
    # Of a race a third run follows, in which the cores take turns.
    assert trace[: len(once + again) if backwards else None] == once + again


def test_a_core_that_has_ended_is_passed_over() -> None:
    trace: list[int] = []

    def kernel(x: Any) -> None:
        for _ in range(1 + 2 * nl.program_id()):
            trace.append(nl.program_id())
            tile((4, 4))

    run(on_two(kernel))
    assert trace == [0, 1, 1, 1]


@pytest.mark.parametrize("seed", range(3))
def test_more_cores_than_hardware_has(seed: int) -> None:
    """The turns themselves know no limit: any number of cores, each with its own number of steps."""
    steps = np.random.default_rng(seed).integers(0, 6, 5).tolist()
    turns = Turns(len(steps))
    trace: list[tuple[int, int]] = []

    def body(core: int) -> int:
        for step in range(steps[core]):
            trace.append((step, core))
            turns.let_others(core)
        return core

    assert turns.run([lambda core=core: body(core) for core in range(len(steps))]) == list(range(len(steps)))
    assert trace == sorted(trace)


@pytest.mark.rule("R-LNC-02", "reject")
def test_a_race_has_one_outcome() -> None:
    """Both cores clear a tensor and then write their half: a fast one's half may be cleared by the other."""

    def kernel(x: Any) -> Any:
        me = nl.program_id()
        y = nl.ndarray((8, 4), nl.float32, nl.shared_hbm)
        nisa.dma_copy(y, tile((8, 4)))
        nisa.dma_copy(y[4 * me : 4 * me + 4], x[4 * me : 4 * me + 4])
        return y

    outcomes = [full_run(on_two(kernel), X, collect=True) for _ in range(3)]
    for done in outcomes:
        assert {found.rule for found in done.diagnostics} == {"R-LNC-02"}
        np.testing.assert_array_equal(done.result, outcomes[0].result)


def test_the_first_core_runs_in_the_thread_of_the_caller_and_no_thread_stays() -> None:
    seen: list[threading.Thread] = []
    before = threading.active_count()
    run(on_two(lambda x: seen.append(threading.current_thread())))
    assert seen[0] is threading.current_thread() and seen[1] is not seen[0]
    assert threading.active_count() == before


def test_one_core_needs_no_thread() -> None:
    seen: list[threading.Thread] = []
    run(nki.jit(lambda x: seen.append(threading.current_thread()))[1])
    assert seen == [threading.current_thread()]


# Failures.


class OwnError(Exception):
    pass


@pytest.mark.parametrize("core", [0, 1])
@pytest.mark.parametrize("error", [OwnError("mine"), AssertionError("text of the kernel"), KeyboardInterrupt()])
def test_what_one_core_raises_is_raised_unchanged(core: int, error: BaseException) -> None:
    endings: list[int] = []

    def kernel(x: Any) -> None:
        try:
            tile((4, 4))
            nisa.core_barrier(x, (0, 1))
            if nl.program_id() == core:
                raise error
            for _ in range(1000):
                tile((4, 4))
        finally:
            endings.append(nl.program_id())

    before = threading.active_count()
    with pytest.raises(type(error)) as caught:
        run(on_two(kernel))
    assert caught.value is error
    assert sorted(endings) == [0, 1] and threading.active_count() == before


def test_both_raise() -> None:
    def kernel(x: Any) -> None:
        raise OwnError(nl.program_id())

    with pytest.raises(OwnError, match="0"):
        run(on_two(kernel))


@pytest.mark.parametrize("core", [0, 1])
def test_a_handler_of_the_kernel_does_not_keep_a_core_alive(core: int) -> None:
    def kernel(x: Any) -> None:
        if nl.program_id() == core:
            tile((4, 4))
            raise OwnError
        for _ in range(50):
            with suppress(Exception):
                tile((4, 4))

    with pytest.raises(OwnError):
        run(on_two(kernel))


@pytest.mark.parametrize("core", [0, 1])
def test_a_core_that_waits_is_released_when_the_other_fails(core: int) -> None:
    def kernel(x: Any) -> None:
        if nl.program_id() == core:
            for _ in range(3):
                tile((4, 4))
            raise OwnError
        nisa.core_barrier(x, (0, 1))

    with pytest.raises(OwnError):
        run(on_two(kernel))


@pytest.mark.parametrize("core", [0, 1])
def test_a_broken_rule_on_one_core(core: int) -> None:
    def kernel(x: Any) -> None:
        tile((4, 4))
        if nl.program_id() == core:
            nisa.tensor_copy(tile((4, 4)), tile((8, 4)))

    found = full_run(on_two(kernel), collect=True)
    assert found.diagnostics and found.failure is None
    with pytest.raises(TileError) as caught:
        run(on_two(kernel))
    assert caught.value.diagnostic.location is not None and caught.value.diagnostic.location.file == __file__


def test_the_sessions_of_a_run_that_failed_are_kept() -> None:
    def kernel(x: Any) -> None:
        tile((4, 4))
        nisa.core_barrier(x, (0, 1))
        if nl.program_id() == 0:
            nisa.core_barrier(x, (0, 1))

    done = run_kernel(on_two(kernel), (X,), {}, "trn2", collect=True)
    assert done.failure is not None and [d.rule for d in done.diagnostics] == ["R-core_barrier-04"]
    assert [session.counts.total for session in done.sessions] == [3, 2]


# What cores share.


def mixed(x: Any) -> Any:
    """Core 1 allocates the named tensors in the other order."""
    me = nl.program_id()
    made = {name: nl.ndarray((8, 4), nl.float32, nl.shared_hbm, name=name) for name in (("a", "b"), ("b", "a"))[me]}
    mine = slice(4 * me, 4 * me + 4)
    nisa.dma_copy(made["a"][mine], x[mine])
    nisa.dma_copy(made["b"][mine], tile((4, 4), value=7))
    return made["a"], made["b"]


def test_named_tensors_are_shared_by_name() -> None:
    a, b = run(on_two(mixed), X)
    np.testing.assert_array_equal(a, X)
    np.testing.assert_array_equal(b, np.full((8, 4), 7))


def test_tensors_without_a_name_are_shared_in_order() -> None:
    def kernel(x: Any) -> Any:
        me = nl.program_id()
        made = [nl.ndarray((2, 4), nl.float32, nl.shared_hbm) for _ in range(3)]
        for position, tensor in enumerate(made):
            nisa.dma_copy(tensor[me : me + 1], tile((1, 4), value=10 * position + me))
        return made

    found = run(on_two(kernel))
    for position, array in enumerate(found):
        np.testing.assert_array_equal(array[:, 0], [10 * position, 10 * position + 1])


@pytest.mark.rule("R-jit-07", "reject")
def test_tensors_that_differ_between_cores() -> None:
    def shapes(x: Any) -> None:
        nl.ndarray((4, 4 + nl.program_id()), nl.float32, nl.shared_hbm)

    def dtypes(x: Any) -> None:
        nl.ndarray((4, 4), (nl.float32, nl.int32)[nl.program_id()], nl.shared_hbm, name="one")

    assert "number 1" in rejects("R-jit-07", on_two(shapes)).message
    assert "'one'" in rejects("R-jit-07", on_two(dtypes)).message


@pytest.mark.rule("R-tensor-17", "accept")
def test_chip_memory_and_private_hbm_are_each_core_s_own() -> None:
    def kernel(x: Any) -> Any:
        me = nl.program_id()
        own = nl.ndarray((4, 4), nl.float32, nl.private_hbm)
        nisa.dma_copy(own, tile((4, 4), value=me + 1))
        at = nl.ndarray((4, 4), nl.float32, nl.sbuf, address=(0, 0))
        nisa.memset(at, value=10 * (me + 1))
        nisa.core_barrier(x, (0, 1))
        y = nl.ndarray((2, 2, 4, 4), nl.float32, nl.shared_hbm)
        nisa.dma_copy(y[me, 0], own)
        nisa.dma_copy(y[me, 1], at)
        return y

    np.testing.assert_array_equal(run(on_two(kernel))[:, :, 0, 0], [[1, 10], [2, 20]])


@pytest.mark.rule("R-tensor-21", "accept")
@pytest.mark.parametrize("array", [X.copy(), np.asfortranarray(X), X.astype(">f4").astype(np.float32)[::-1]])
def test_parameters_are_shared_and_written_back_once(array: np.ndarray) -> None:
    """Also when the kernel had to work on a copy: one copy for both cores."""
    given = array.copy(order="K") if array.flags.f_contiguous else array
    before = np.array(given)

    def kernel(x: Any) -> Any:
        me = nl.program_id()
        mine, theirs = slice(4 * me, 4 * me + 4), slice(4 - 4 * me, 8 - 4 * me)
        t = nl.ndarray((4, 4), nl.float32, nl.sbuf)
        nisa.dma_copy(t, x[mine])
        nisa.tensor_scalar(t, t, op0=nl.add, operand0=1.0)
        nisa.dma_copy(x[mine], t)
        nisa.core_barrier(x, (0, 1))
        # What the other core wrote is seen here.
        nisa.dma_copy(t, x[theirs])
        nisa.core_barrier(x, (0, 1))
        nisa.tensor_scalar(t, t, op0=nl.add, operand0=1.0)
        nisa.dma_copy(x[theirs], t)
        return x

    np.testing.assert_array_equal(run(on_two(kernel), given), before + 2)
    np.testing.assert_array_equal(given, before + 2)


def test_completeness_is_judged_on_what_all_cores_wrote() -> None:
    def kernel(x: Any, rows: int) -> Any:
        me = nl.program_id()
        y = nl.ndarray((8, 4), nl.float32, nl.shared_hbm)
        nisa.dma_copy(y[4 * me : 4 * me + rows], x[4 * me : 4 * me + rows])
        return y

    np.testing.assert_array_equal(run(on_two(kernel), X, 4), X)
    assert "8 of 32" in rejects("R-tensor-18", on_two(kernel), X, 3).message


def test_names_are_unique_per_core() -> None:
    run(on_two(lambda x: nl.ndarray((4, 4), nl.float32, nl.shared_hbm, name="one").shape))
    rejects("R-tensor-20", on_two(lambda x: [nl.ndarray((4, 4), nl.float32, nl.sbuf, name="one") for _ in range(2)]))


def test_shape_mode_runs_both_cores() -> None:
    done = run_kernel(on_two(mixed), (X,), {}, "trn2", options=Options(shapes=True))
    assert [session.counts.total for session in done.sessions] == [3, 3]


def test_each_core_records_its_own_graph() -> None:
    done = full_run(on_two(mixed), X)
    assert len(done.sessions) == 2 and done.sessions[0].graph is not done.sessions[1].graph
    assert all(len(session.graph.outputs) == 2 for session in done.sessions)

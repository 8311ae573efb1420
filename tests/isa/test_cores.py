"""core_barrier and sendrecv: rules, what is exchanged, and kernels that would wait for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.kit import full_run, nisa, nki, nl, rejects, run, tile
from tilewright.errors import TileError
from tilewright.nki.kernel import run_kernel
from tilewright.rules import Reporter
from tilewright.sim.session import Options
from tilewright.target import get_target
from tilewright.tile.memory import SBUF, SHARED_HBM, Buffer
from tilewright.tile.record import TABLE, Call
from tilewright.tile.verdict import Verifier
from tilewright.tile.view import whole

X = np.random.default_rng(1).standard_normal((2, 128, 64)).astype(np.float32)


def on_two(kernel: Callable[..., Any]) -> Any:
    return nki.jit(kernel)[2]


def other() -> int:
    return 1 - nl.program_id()


def swap(src: Any, dst: Any, pipe_id: int = 0, **more: Any) -> None:
    nisa.sendrecv(src, dst, send_to_rank=other(), recv_from_rank=other(), pipe_id=pipe_id, **more)


def swapped(x: Any) -> Any:
    """Each core loads its part of x and stores the other core's."""
    mine, theirs = nl.ndarray(x.shape[1:], x.dtype, nl.sbuf), nl.ndarray(x.shape[1:], x.dtype, nl.sbuf)
    nisa.dma_copy(mine, x[nl.program_id()])
    swap(mine, theirs)
    nisa.memset(mine, value=0)
    y = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    nisa.dma_copy(y[nl.program_id()], theirs)
    return y


# sendrecv.


@pytest.mark.rule("R-sendrecv-01", "accept")
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.uint8])
@pytest.mark.parametrize("shape", [(128, 64), (7, 3), (32, 2, 5)])
def test_tiles_change_places(dtype: Any, shape: tuple[int, ...]) -> None:
    x = (np.random.default_rng(0).standard_normal((2, *shape)) * 10).astype(dtype)
    np.testing.assert_array_equal(run(on_two(swapped), x), x[::-1])


@pytest.mark.rule("R-sendrecv-01", "reject")
def test_sendrecv_needs_two_cores_of_a_newer_generation() -> None:
    def alone(x: Any) -> None:
        nisa.sendrecv(tile((4, 4)), tile((4, 4)), send_to_rank=0, recv_from_rank=0, pipe_id=0)

    assert "one core" in rejects("R-sendrecv-01", alone).message
    rejects("R-sendrecv-01", alone, target="trn1")


@pytest.mark.rule("R-sendrecv-02", "accept")
def test_a_core_may_send_to_itself() -> None:
    def kernel(x: Any) -> Any:
        me = nl.program_id()
        dst = nl.ndarray((4, 4), nl.float32, nl.sbuf)
        nisa.sendrecv(src=tile((4, 4), value=me + 1), dst=dst, send_to_rank=me, recv_from_rank=me, pipe_id=3)
        y = nl.ndarray((2, 4, 4), nl.float32, nl.shared_hbm)
        nisa.dma_copy(y[me], dst)
        return y

    np.testing.assert_array_equal(run(on_two(kernel))[:, 0, 0], [1, 2])


@pytest.mark.rule("R-sendrecv-02", "reject")
@pytest.mark.parametrize("ranks", [(2, 0), (0, -1), (0, 7), (None, 0), (0, "1")])
def test_ranks(ranks: tuple[Any, Any]) -> None:
    def kernel(x: Any) -> None:
        nisa.sendrecv(tile((4, 4)), tile((4, 4)), ranks[0], ranks[1], 0)

    rejects("R-sendrecv-02", on_two(kernel))


@pytest.mark.rule("R-sendrecv-03", "accept")
def test_slices_of_tiles_change_places() -> None:
    def kernel(x: Any) -> Any:
        source, dst = tile((64, 8), value=nl.program_id() + 1), tile((64, 8))
        swap(source[5:9, 0:8:2], dst[33:37, 4:8])
        y = nl.ndarray((2, 64, 8), nl.float32, nl.shared_hbm)
        nisa.dma_copy(y[nl.program_id()], dst)
        return y

    expected = np.zeros((2, 64, 8), np.float32)
    expected[0, 33:37, 4:] = 2
    expected[1, 33:37, 4:] = 1
    np.testing.assert_array_equal(run(on_two(kernel)), expected)


@pytest.mark.rule("R-sendrecv-03", "reject")
@pytest.mark.parametrize(
    "make",
    [
        lambda: (tile((4, 8)), tile((4, 4))),
        lambda: (tile((4, 8)), tile((8, 4))),
        lambda: (tile((4, 2, 4)), tile((4, 8))),
        lambda: (tile((4, 4)), tile((4, 4), nl.bfloat16)),
        lambda: (tile((4, 4), buffer=nl.psum), tile((4, 4))),
        lambda: (tile((4, 4)), tile((4, 4), buffer=nl.psum)),
        lambda: (tile((4, 4)), nl.ndarray((4, 4), nl.float32, nl.shared_hbm)),
    ],
)
def test_tiles_that_do_not_fit(make: Callable[[], tuple[Any, Any]]) -> None:
    rejects("R-sendrecv-03", on_two(lambda x: swap(*make())))


def test_tiles_of_the_cores_that_do_not_fit() -> None:
    def shapes(x: Any) -> None:
        swap(tile((4, 4 + nl.program_id())), tile((4, 4 + nl.program_id())))

    def dtypes(x: Any) -> None:
        dtype = (nl.float32, nl.int32)[nl.program_id()]
        swap(tile((4, 4), dtype), tile((4, 4), dtype))

    assert "the other core sends" in rejects("R-sendrecv-03", on_two(shapes)).message
    rejects("R-sendrecv-03", on_two(dtypes))


@pytest.mark.rule("R-sendrecv-04", "accept")
@pytest.mark.rule("R-sendrecv-04", "reject")
@pytest.mark.parametrize(("dtype", "most"), [(nl.float32, 256), (nl.bfloat16, 256), (nl.float8_e5m2, 256)])
def test_rows_of_the_small_engine(dtype: Any, most: int) -> None:
    def kernel(x: Any, count: int, **more: Any) -> None:
        swap(tile((16, count), dtype), tile((16, count), dtype), **more)

    small = {"dma_engine": nisa.dma_engine.gpsimd_dma}
    run(on_two(lambda x: kernel(x, most, **small)))
    run(on_two(lambda x: kernel(x, most + 1)))
    rejects("R-sendrecv-04", on_two(lambda x: kernel(x, most + 1, **small)))


def differently(pipe: Callable[[int], int]) -> Callable[[Any], None]:
    return lambda x: swap(tile((4, 4)), tile((4, 4)), pipe(nl.program_id()))


@pytest.mark.rule("R-sendrecv-05", "accept")
def test_pipes_in_order() -> None:
    def kernel(x: Any) -> None:
        for pipe in (0, 1, 0, 7):
            swap(tile((4, 4)), tile((4, 4)), pipe)

    run(on_two(kernel))


@pytest.mark.rule("R-sendrecv-05", "reject")
def test_pipes_that_nobody_else_uses() -> None:
    found = rejects("R-sendrecv-05", on_two(differently(lambda core: core)))
    assert "deadlock" in found.message and "pipe 0" in found.message and "pipe 1" in found.message
    assert __file__.rsplit("/", 1)[-1] in found.message


def only_on(core: int, call: Callable[[], None]) -> Callable[[Any], None]:
    """A kernel that makes a call on one core; the other does something else meanwhile."""

    def kernel(x: Any) -> None:
        tile((4, 4))
        if nl.program_id() == core:
            call()
        tile((4, 4))

    return kernel


@pytest.mark.parametrize("core", [0, 1])
def test_nobody_to_exchange_with(core: int) -> None:
    found = rejects("R-sendrecv-05", on_two(only_on(core, lambda: swap(tile((4, 4)), tile((4, 4))))))
    assert f"core {core} waits" in found.message and f"core {1 - core} has ended" in found.message


def test_a_core_that_listens_to_one_that_sends_elsewhere() -> None:
    def kernel(x: Any) -> None:
        me = nl.program_id()
        nisa.sendrecv(tile((4, 4)), tile((4, 4)), send_to_rank=1 - me, recv_from_rank=me, pipe_id=0)

    rejects("R-sendrecv-05", on_two(kernel))


def test_what_is_sent_is_what_the_tile_held_then() -> None:
    def kernel(x: Any) -> Any:
        mine, theirs = tile((4, 4), value=nl.program_id() + 1), tile((4, 4))
        for _ in range(nl.program_id() * 3):
            tile((4, 4))
        swap(mine, theirs)
        nisa.memset(mine, value=9)
        y = nl.ndarray((2, 4, 4), nl.float32, nl.shared_hbm)
        nisa.dma_copy(y[nl.program_id()], theirs)
        return y

    np.testing.assert_array_equal(run(on_two(kernel))[:, 0, 0], [2, 1])


def test_not_in_place() -> None:
    """Both cores send and receive at once: what comes in would overwrite what is still to be sent."""

    def kernel(x: Any) -> Any:
        mine = tile((4, 4), value=nl.program_id() + 1)
        swap(mine, mine)

    rejects("R-engine-16", on_two(kernel))


def test_unwritten_elements_are_sent_along_and_remember_where_they_come_from() -> None:
    def kernel(x: Any, width: int) -> Any:
        mine, theirs = nl.ndarray((4, 4), nl.float32, nl.sbuf), nl.ndarray((4, 4), nl.float32, nl.sbuf)
        nisa.memset(mine if nl.program_id() == 0 else mine[:, 0:2], value=1)
        swap(mine, theirs)
        y = nl.ndarray((2, 4, width), nl.float32, nl.shared_hbm)
        nisa.dma_copy(y[nl.program_id()], theirs[:, 0:width])
        return y

    run(on_two(kernel), X, 2)
    assert "8 of" in rejects("R-tensor-18", on_two(kernel), X, 4).message


# core_barrier.


def met(x: Any, cores: Any = (0, 1), **more: Any) -> Any:
    """Each core writes its half of a scratch tensor, and reads the other's after the barrier."""
    me = nl.program_id()
    scratch = nl.ndarray((2, 4, 4), nl.float32, nl.shared_hbm)
    for _ in range(me * 2):
        tile((4, 4))
    nisa.dma_copy(scratch[me], tile((4, 4), value=me + 1))
    nisa.core_barrier(scratch, cores, **more)
    y = nl.ndarray((2, 4, 4), nl.float32, nl.shared_hbm)
    nisa.dma_copy(y[me], scratch[1 - me])
    return y


@pytest.mark.rule("R-simulate-05", "holds")
@pytest.mark.rule("R-core_barrier-01", "accept")
@pytest.mark.rule("R-core_barrier-04", "accept")
@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize("engine", [None, nisa.engine.gpsimd, nisa.engine.vector, nisa.engine.scalar])
def test_after_a_barrier_everything_before_it_is_there(target: str, engine: Any) -> None:
    more = {} if engine is None else {"engine": engine}
    done = full_run(on_two(lambda x: met(x, **more)), target=target)
    np.testing.assert_array_equal(done.result[:, 0, 0], [2, 1])
    assert done.diagnostics == []
    wanted = "gpsimd" if engine is None else engine.name
    assert [key[0] for key in done.session.counts.executed if key[1] == "core_barrier"] == [wanted]


@pytest.mark.rule("R-core_barrier-01", "reject")
def test_a_barrier_needs_two_cores_of_a_newer_generation() -> None:
    def kernel(x: Any) -> None:
        nisa.core_barrier(nl.ndarray((4, 4), nl.float32, nl.shared_hbm), (0, 1))

    rejects("R-core_barrier-01", kernel)
    rejects("R-core_barrier-01", nki.jit(kernel)[1])
    rejects("R-core_barrier-01", kernel, target="trn1")


@pytest.mark.rule("R-core_barrier-02", "accept")
@pytest.mark.rule("R-core_barrier-02", "reject")
def test_cores_of_a_barrier() -> None:
    run(on_two(met))
    for cores in ((0,), (1, 0), (0, 1, 2), 0, [1, 0]):
        rejects("R-core_barrier-02", on_two(lambda x, cores=cores: met(x, cores)))


@pytest.mark.rule("R-core_barrier-05", "accept")
@pytest.mark.rule("R-core_barrier-05", "reject")
@pytest.mark.parametrize("profile", ["strict", "lenient"])
def test_a_list_of_cores_is_warned_of(profile: str) -> None:
    assert not full_run(on_two(met), profile=profile).diagnostics
    done = full_run(on_two(lambda x: met(x, [0, 1])), profile=profile)
    (found,) = done.diagnostics
    assert (found.rule, found.severity, found.hint) == ("R-core_barrier-05", "warning", "write cores=(0, 1)")
    np.testing.assert_array_equal(done.result[:, 0, 0], [2, 1])


@pytest.mark.rule("R-core_barrier-03", "accept")
@pytest.mark.rule("R-core_barrier-03", "reject")
def test_the_data_of_a_barrier_is_in_shared_hbm() -> None:
    run(on_two(lambda x: nisa.core_barrier(x, (0, 1))))
    for buffer in (nl.hbm, nl.sbuf, nl.psum):
        rejects(
            "R-core_barrier-03", on_two(lambda x, b=buffer: nisa.core_barrier(nl.ndarray((4, 4), nl.int8, b), (0, 1)))
        )
    leniently = full_run(on_two(lambda x: nisa.core_barrier(tile((4, 4)), (0, 1))), profile="lenient")
    assert {each.rule for each in leniently.diagnostics} == {"R-core_barrier-03"}


def test_meetings_that_follow_each_other_are_kept_apart() -> None:
    def kernel(x: Any) -> Any:
        other = 1 - nl.program_id(0)
        sent, got = tile((4, 4), value=nl.program_id(0)), tile((4, 4))
        out = nl.ndarray((2, 4, 4), nl.float32, nl.shared_hbm)
        for _ in range(3):
            nisa.sendrecv(src=sent, dst=got, send_to_rank=other, recv_from_rank=other, pipe_id=0)
            nisa.tensor_scalar(sent, got, nl.add, 10.0)
        nisa.dma_copy(out[nl.program_id(0)], got)
        return out

    np.testing.assert_array_equal(run(on_two(kernel))[:, 0, 0], [21, 20])


@pytest.mark.rule("R-core_barrier-04", "reject")
@pytest.mark.parametrize("core", [0, 1])
def test_a_core_that_never_comes(core: int) -> None:
    def kernel(x: Any) -> None:
        tile((4, 4))
        if nl.program_id() == core:
            nisa.core_barrier(x, (0, 1))

    found = rejects("R-core_barrier-04", on_two(kernel))
    assert f"core {core} waits in core_barrier" in found.message and f"core {1 - core} has ended" in found.message
    assert found.location is not None and found.location.file == __file__


def test_cores_that_wait_for_different_things() -> None:
    def kernel(x: Any) -> None:
        if nl.program_id() == 0:
            nisa.core_barrier(x, (0, 1))
            swap(tile((4, 4)), tile((4, 4)))
        else:
            swap(tile((4, 4)), tile((4, 4)))
            nisa.core_barrier(x, (0, 1))

    with pytest.raises(TileError) as caught:
        run(on_two(kernel))
    found = caught.value.diagnostic
    assert found.rule in ("R-core_barrier-04", "R-sendrecv-05")
    assert "core_barrier" in found.message and "sendrecv" in found.message


# Without values, and without raising.


def test_shape_mode_meets_too() -> None:
    shapes = Options(shapes=True)
    assert run_kernel(on_two(swapped), (X,), {}, "trn2", options=shapes).diagnostics == []
    with pytest.raises(TileError, match="deadlock"):
        run_kernel(on_two(differently(lambda core: core)), (X,), {}, "trn2", options=shapes)


def test_collecting_finds_deadlocks_and_goes_on_after_bad_calls() -> None:
    done = run_kernel(on_two(differently(lambda core: core)), (X,), {}, "trn2", collect=True)
    assert [d.rule for d in done.diagnostics] == ["R-sendrecv-05"]

    def kernel(x: Any) -> None:
        size = 4 if nl.program_id() == 0 else 5
        swap(tile((4, size)), tile((4, 4)))
        tile((4, 3), buffer=nl.sbuf)

    done = run_kernel(on_two(kernel), (X,), {}, "trn2", collect=True)
    assert [d.rule for d in done.diagnostics] == ["R-sendrecv-03"]
    assert done.failure is None


# Costs.


def cost(name: str, operands: list[Any], **attrs: Any) -> Any:
    record, target = TABLE[name], get_target("trn2")
    given = {**record.defaults, **attrs}
    Verifier(target, Reporter()).check(record, operands, given, None)
    call = Call(record, operands, given, target)
    call.resolve_engine()
    return record.cost(call)


def test_costs() -> None:
    def exchange(partitions: int, free: int) -> Any:
        tiles = [whole(Buffer(nl.float32, (partitions, free), SBUF)) for _ in range(2)]
        return cost("sendrecv", tiles, send_to_rank=1, recv_from_rank=1, pipe_id=0)

    latencies = [exchange(128, free).latency_ns for free in (512, 1024, 4096)]
    assert latencies == sorted(latencies) and latencies[0] < latencies[-1]
    assert exchange(16, 512).latency_ns <= exchange(128, 512).latency_ns
    barrier = cost("core_barrier", [whole(Buffer(nl.float32, (4, 4), SHARED_HBM))], cores=(0, 1))
    assert barrier.interval_ns > 0 and barrier.latency_ns >= barrier.interval_ns

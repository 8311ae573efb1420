"""Races between the cores of a logical core, and sums in PSUM that go on after they were read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.kit import accepts, full_run, nisa, nki, nl, rejects, tile

X = np.arange(2 * 8 * 4, dtype=np.float32).reshape(2, 8, 4)


def line(function: Callable[..., Any], text: str) -> int:
    source, start = inspect.getsourcelines(function)
    return next(start + i for i, each in enumerate(source) if text in each)


def swapped(x: Any, meet: bool) -> Any:
    """Every core takes what the other one has put down."""
    kept = nl.ndarray((2, 8, 4), nl.float32, nl.shared_hbm)
    out = nl.ndarray((2, 8, 4), nl.float32, nl.shared_hbm)
    core = nl.program_id(0)
    nisa.dma_copy(kept[core], x[core])  # put down
    if meet:
        nisa.core_barrier(kept, (0, 1))
    for _ in range(20):
        tile((4, 4))
    nisa.dma_copy(out[core], kept[1 - core])  # taken
    return out


@pytest.mark.rule("R-LNC-02", "accept")
def test_a_barrier_orders_the_cores() -> None:
    np.testing.assert_array_equal(accepts(nki.jit(swapped)[2], X, True), X[::-1])


@pytest.mark.rule("R-LNC-02", "reject")
def test_a_race_is_reported_with_both_lines() -> None:
    found = rejects("R-LNC-02", nki.jit(swapped)[2], X, False)
    assert found.code == "E401"
    lines = {line(swapped, "# taken"), line(swapped, "# put down")}
    assert found.location is not None and found.location.line in lines
    (other,) = lines - {found.location.line}
    assert f":{other}" in found.message


def by_barriers(x: Any, barriers: str, looks: bool = False) -> Any:
    """The same with barriers of these tensors; each core may look at what it has put down."""
    kept = nl.ndarray((2, 8, 4), nl.float32, nl.shared_hbm)
    out = nl.ndarray((2, 8, 4), nl.float32, nl.shared_hbm)
    core = nl.program_id(0)
    nisa.dma_copy(kept[core], x[core])  # put down
    if looks:
        nisa.dma_copy(tile((8, 4)), kept[core])
    for name in barriers:
        nisa.core_barrier({"k": kept, "o": out}[name], (0, 1))  # meet
    nisa.dma_copy(out[core], kept[1 - core])  # taken
    return out


@pytest.mark.rule("R-LNC-02", "reject")
@pytest.mark.parametrize("barriers", ["o", "oo"])
def test_a_barrier_orders_the_tensor_that_it_names(barriers: str) -> None:
    (found,) = full_run(nki.jit(by_barriers)[2], X, barriers).diagnostics
    assert (found.rule, found.severity) == ("R-LNC-02", "warning") and found.location is not None
    assert found.location.line == line(by_barriers, "# taken") and "core_barrier(kept, (0, 1))" in (found.hint or "")
    assert " reads elements of kept that core " in found.message
    assert f":{line(by_barriers, '# put down')};" in found.message
    assert found.message.endswith(f":{line(by_barriers, '# meet')}, orders out alone")


@pytest.mark.rule("R-LNC-02", "accept")
@pytest.mark.parametrize(("barriers", "looks"), [("ok", False), ("ko", False), ("o", True)])
def test_other_barriers_beside_that_of_a_tensor(barriers: str, looks: bool) -> None:
    assert full_run(nki.jit(by_barriers)[2], X, barriers, looks).diagnostics == []


@pytest.mark.rule("R-LNC-02", "reject")
def test_arguments_are_shared_as_well() -> None:
    def kernel(x: Any) -> Any:
        core = nl.program_id(0)
        t = tile((8, 4), value=core)
        nisa.dma_copy(x[0], t)
        return x

    found = rejects("R-LNC-02", nki.jit(kernel)[2], X.copy())
    assert "core 1 writes elements of x that core 0 writes" in found.message


@pytest.mark.rule("R-LNC-02", "accept")
@pytest.mark.parametrize(
    "rows",
    [
        lambda core: slice(4 * core, 4 * core + 4),
        lambda core: slice(core, 8, 2),
        lambda core: slice(0, 8),  # both write the same values
    ],
)
def test_parts_of_a_tensor_and_equal_values_are_no_race(rows: Callable[[int], slice]) -> None:
    def kernel(x: Any) -> Any:
        out = nl.ndarray((8, 4), nl.float32, nl.shared_hbm)
        chosen = rows(nl.program_id(0))
        nisa.dma_copy(out[chosen], x[0][chosen])
        return out

    np.testing.assert_array_equal(accepts(nki.jit(kernel)[2], X), X[0])


def both(x: Any, *, fence: bool = False, own: bool = False, scatter: bool = False, early: bool = False) -> Any:
    """Both cores compute the same thing: they clear a tensor and fill it, or fill it and copy it onto itself (fence).

    own: each with numbers of its own. early: what was cleared is looked at before it is filled.
    """
    core = nl.program_id(0)
    out = nl.ndarray((8, 4), nl.float32, nl.shared_hbm)
    t = tile((8, 4))
    if not fence:
        nisa.dma_copy(out, t)  # cleared
    if early:
        nisa.dma_copy(t, out)
    nisa.memset(t, value=1 + core if own else 1)
    if scatter:
        rows = tile((8, 1), nl.int32)
        nisa.iota(rows, [[0, 1]], offset=0, channel_multiplier=1)
        nisa.dma_copy(out.ap([[4, 8], [1, 4]], vector_offset=rows, indirect_dim=0), t)  # filled
    else:
        nisa.dma_copy(out, t)  # filled
    if fence:
        nisa.dma_copy(out, out)
    return out


@pytest.mark.rule("R-LNC-02", "accept")
@pytest.mark.parametrize("scatter", [False, True])
@pytest.mark.parametrize("fence", [False, True])
def test_cores_may_compute_the_same(fence: bool, scatter: bool) -> None:
    np.testing.assert_array_equal(accepts(nki.jit(lambda x: both(x, fence=fence, scatter=scatter))[2], X), 1)


@pytest.mark.rule("R-LNC-02", "reject")
@pytest.mark.parametrize("scatter", [False, True])
def test_cores_that_end_with_other_numbers_race(scatter: bool) -> None:
    found = rejects("R-LNC-02", nki.jit(lambda x: both(x, own=True, scatter=scatter))[2], X)
    assert "core 1 writes elements of out that core 0 writes" in found.message
    wanted = [i for i, each in enumerate(inspect.getsource(both).splitlines()) if "# filled" in each][not scatter]
    assert found.location is not None and found.location.line == inspect.getsourcelines(both)[1] + wanted


def test_a_scatter_that_puts_nothing_meets_nobody() -> None:
    """All indices of one core are skipped, of rows that both cores write."""

    def kernel(x: Any, rows: Any) -> Any:
        out = nl.ndarray((8, 4), nl.float32, nl.shared_hbm)
        core = nl.program_id(0)
        taken, chosen = tile((8, 4)), nl.ndarray((8, 1), nl.int32, nl.sbuf)
        nisa.dma_copy(taken, x[0])
        nisa.dma_copy(chosen, rows[core])
        nisa.dma_copy(out, taken)
        nisa.dma_copy(out.vector_select(0, chosen), taken, oob_mode=nisa.oob_mode.skip)
        return out

    rows = np.stack([np.arange(8), np.full(8, 99)]).astype(np.int32)[:, :, None]
    np.testing.assert_array_equal(accepts(nki.jit(kernel)[2], X, rows), X[0])


@pytest.mark.rule("R-LNC-02", "accept")
def test_a_race_that_nobody_can_see_is_a_warning() -> None:
    """Core 0 reads a row that core 1 updates, and makes nothing of it: as masked rows of a cache are read."""

    def kernel(x: Any, weight: float) -> Any:
        core = nl.program_id(0)
        out = nl.ndarray((2, 4, 4), nl.float32, nl.shared_hbm)
        t = tile((4, 4))
        if core == 0:
            nisa.dma_copy(t, x[0, 0:4])  # looked at
            nisa.tensor_scalar(t, t, nl.multiply, weight)
        else:
            nisa.dma_copy(x[0, 2:3], tile((1, 4), value=7))  # updated
        nisa.dma_copy(out[core], t)
        return out, x

    given = X.copy()
    done = full_run(nki.jit(kernel)[2], given, 0.0)
    (found,) = done.diagnostics
    assert (found.rule, found.severity) == ("R-LNC-02", "warning") and "the same in either order" in found.notes[0]
    assert found.location is not None and found.location.line == line(kernel, "# updated")
    assert f":{line(kernel, '# looked at')}" in found.message
    np.testing.assert_array_equal(given[0, 2], 7)
    np.testing.assert_array_equal(np.delete(given[0], 2, 0), np.delete(X[0], 2, 0))
    rejects("R-LNC-02", nki.jit(kernel)[2], X.copy(), 1.0)


def test_what_one_core_looks_at_the_other_does_not_change() -> None:
    found = full_run(nki.jit(lambda x: both(x, early=True))[2], X).diagnostics[0]
    assert "core 1 writes elements of out that core 0 reads" in found.message


@pytest.mark.rule("R-LNC-02", "accept")
def test_interleaved_parts_of_a_large_tensor_are_apart() -> None:
    def kernel(x: Any) -> Any:
        core = nl.program_id(0)
        out = nl.ndarray((64, 32, 8, 4), nl.float32, nl.shared_hbm)
        t = tile((32, 32, 8, 2), value=core)
        for first in range(2):
            nisa.dma_copy(out[first::2, :, :, 2 * core : 2 * core + 2], t)
        return out

    assert accepts(nki.jit(kernel)[2]).sum() == 64 * 32 * 8 * 2


def hoisted(x: Any, allocate_inside: bool, **first: Any) -> Any:
    """Two products, each copied out, in one PSUM tile or in two."""
    a = tile((16, 16))
    nisa.dma_copy(a, x)
    out = nl.ndarray((2, 16, 16), nl.float32, nl.shared_hbm)
    sums = nl.ndarray((16, 16), nl.float32, nl.psum)
    for i in range(2):
        if allocate_inside:
            sums = nl.ndarray((16, 16), nl.float32, nl.psum)
        for k in range(2):
            nisa.nc_matmul(sums, a, a, **(first if k == 0 else {}))  # added
        held = nl.ndarray((16, 16), nl.float32, nl.sbuf)
        nisa.tensor_copy(held, sums)
        nisa.dma_copy(out[i], held)
    return out


A = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)


def test_sums_that_go_on_after_they_were_read_are_noticed() -> None:
    done = full_run(hoisted, A, False)
    (found,) = done.diagnostics
    assert (found.code, found.severity) == ("W105", "warning")
    assert found.location is not None and found.location.line == line(hoisted, "# added")
    np.testing.assert_allclose(done.result[1], 2 * done.result[0], rtol=1e-5)


@pytest.mark.parametrize("kernel", [lambda x: hoisted(x, True), lambda x: hoisted(x, False, accumulate=False)])
def test_new_sums_are_not(kernel: Callable[..., Any]) -> None:
    result = accepts(kernel, A)
    np.testing.assert_array_equal(result[0], result[1])


def test_other_parts_of_the_tile_may_have_been_read() -> None:
    def kernel(x: Any) -> None:
        a = tile((16, 16), value=1)
        sums = nl.ndarray((16, 64), nl.float32, nl.psum)
        for i in range(4):
            nisa.nc_matmul(sums[:, 16 * i : 16 * i + 16], a, a)
            nisa.nc_matmul(sums[:, 16 * i : 16 * i + 16], a, a)
            nisa.tensor_copy(tile((16, 16)), sums[:, 16 * i : 16 * i + 16])

    accepts(kernel)


@pytest.mark.rule("R-LNC-02", "reject")
@pytest.mark.parametrize("ahead", [0, 5])
def test_sums_that_both_cores_update_race(ahead: int) -> None:
    """Whichever core comes first the sum is the same; it is not when each reads before the other has written."""

    def kernel(x: Any) -> Any:
        core = nl.program_id(0)
        total = nl.ndarray((8, 4), nl.float32, nl.shared_hbm)
        if core == 0:
            nisa.dma_copy(total, tile((8, 4)))
        nisa.core_barrier(total, (0, 1))
        t = tile((8, 4))
        for _ in range(ahead * core):
            nisa.memset(t, value=0.0)
        nisa.dma_copy(t, total)  # read
        nisa.tensor_scalar(t, t, nl.add, 1.0)
        nisa.dma_copy(total, t)  # updated
        return total

    found = rejects("R-LNC-02", nki.jit(kernel)[2], X)
    assert found.location is not None and found.location.line in (line(kernel, "# read"), line(kernel, "# updated"))
    assert "take turns" in found.notes[0]


def test_an_output_with_holes_that_both_cores_write_says_so() -> None:
    def kernel(x: Any) -> Any:
        out = nl.ndarray((16, 4), nl.float32, nl.shared_hbm)
        nisa.dma_copy(out[0:8], x[nl.program_id(0)])  # both to the same rows
        return out

    with pytest.raises(tw.TileError) as caught:
        nki.jit(kernel)[2](X)
    found = caught.value.diagnostic
    assert found.code == "E302"
    assert any("cores race" in note and f":{line(kernel, '# both')}" in note for note in found.notes)

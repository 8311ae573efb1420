"""What arguments were before a kernel wrote to them, and who owns its results."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from tests.kit import full_run, nisa, nki, nl, run
from tilewright.nki.kernel import run_kernel
from tilewright.sim.contest import Part
from tilewright.sim.undo import Undo
from tilewright.tile.memory import HBM, Buffer
from tilewright.tile.view import View, whole


def _part(rows: slice, shape: tuple[int, int] = (8, 4)) -> Part:
    """Rows of a tensor of float32."""
    view = whole(Buffer(nl.float32, shape, HBM, "x"))
    start, stop, step = rows.indices(shape[0])
    size = len(range(start, stop, step))
    return Part(
        View(view.buffer, view.dtype, start * shape[1], (size, shape[1]), (step * shape[1], 1)), start * shape[1], 4
    )


@pytest.mark.parametrize("rows", [[slice(2, 3)], [slice(0, 8, 4), slice(0, 1)], [slice(0, 5)], [slice(0, 2)] * 5])
def test_what_was_written_comes_back(rows: list[slice]) -> None:
    array = np.arange(32, dtype=np.float32).reshape(8, 4)
    before = array.copy()
    undo = Undo(array.reshape(-1).view(np.uint8))
    assert not undo.written
    for number, each in enumerate(rows):
        undo.keep(_part(each))
        array[each] = -number - 1
    assert undo.written
    assert (undo.before().view(np.float32).reshape(8, 4) == before).all()
    undo.keep_all()
    array[...] = 99
    assert (undo.before().view(np.float32).reshape(8, 4) == before).all()


def test_later_launches_are_undone_first() -> None:
    array = np.arange(32, dtype=np.float32).reshape(8, 4)
    states, undos = [array.copy()], []
    for number, rows in enumerate([slice(2, 3), slice(1, 4, 2), slice(2, 3), slice(0, 8)]):
        undos.append(Undo(array.reshape(-1).view(np.uint8)))
        undos[-1].keep(_part(rows))
        array[rows] = -number - 1
        states.append(array.copy())
    for undo, state in zip(undos, states, strict=False):
        assert (undo.before().view(np.float32).reshape(8, 4) == state).all()


def _update(cache: Any, rows: Any) -> Any:
    tile = nl.ndarray(rows.shape, rows.dtype, nl.sbuf)
    nisa.dma_copy(tile, rows)
    nisa.dma_copy(cache[0 : rows.shape[0], 0 : rows.shape[1]], tile)
    return cache


def test_a_row_of_a_large_cache_is_all_that_is_kept() -> None:
    cache, rows = np.zeros((1 << 12, 1 << 11), np.float32), np.ones((2, 64), np.float32)
    tracemalloc.start()
    try:
        result = run(_update, cache, rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (result[0:2, 0:64] == 1).all() and (cache[0:2, 0:64] == 1).all()
    # The result is a copy of the argument; nothing else of its size is made.
    assert peak < 1.5 * cache.nbytes


def test_two_cores_make_one_copy_of_an_argument_that_they_return() -> None:
    cache, rows = np.zeros((1 << 12, 1 << 11), np.float32), np.ones((2, 64), np.float32)
    kernel = nki.jit(_update)[2]
    tracemalloc.start()
    try:
        run_kernel(kernel, (cache, rows), {}, "trn2")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Both write the same rows. What each of them wrote has room for all of the cache, of which little is touched.
    assert peak < 3 * cache.nbytes


def _twice(x: Any) -> Any:
    y = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    nisa.dma_copy(y, x)
    return y, y, y[0:1], x


def test_results_share_nothing_with_each_other_or_with_arguments() -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    results = run(_twice, x)
    for place, each in enumerate(results):
        assert each.flags.c_contiguous and each.flags.writeable
        for other in (*results[:place], x):
            assert not np.shares_memory(each, other)
        assert (each == x[0 : len(each)]).all()


def test_a_tensor_that_the_kernel_made_is_handed_over() -> None:
    x = np.zeros((1 << 11, 1 << 11), np.float32)

    def copied(x: Any) -> Any:
        y = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(y, x)
        return y

    tracemalloc.start()
    try:
        done = full_run(copied, x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert done.result.shape == x.shape
    assert peak < 1.5 * x.nbytes

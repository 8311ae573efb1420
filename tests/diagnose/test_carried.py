"""Tiles of an earlier turn of a loop: a script that finds its results wrong is told of them, without a reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.kit import nisa, nki, nl
from tests.provenance.kit import P, line_of
from tilewright.nki.kernel import Kernel

ROWS = np.random.default_rng(0).standard_normal((3 * P, 8)).astype(np.float32)
WEIGHTS = np.full((P, 8), 2, np.float32)


def weighted(mistake: str) -> Kernel:
    """One more than each tile of rows, times the weights, which are loaded once."""

    @nki.jit
    def kernel(x: Any, w: Any) -> Any:
        scales = u = None
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        weights = nl.ndarray(w.shape, dtype=w.dtype, buffer=nl.sbuf)
        t = nl.ndarray((P, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=weights, src=w)
        for turn in range(3):
            nisa.dma_copy(dst=t, src=x[turn * P : (turn + 1) * P])
            if turn == 0 or mistake != "stale":
                scales = nl.ndarray((P, 8), dtype=nl.float32, buffer=nl.sbuf)
                nisa.tensor_scalar(scales, t, nl.add, 1.0)  # once
            if turn == 0 or mistake != "sums":
                u = nl.ndarray((P, 8), dtype=nl.float32, buffer=nl.sbuf)
                nisa.memset(u, value=0)
            nisa.tensor_tensor(t, scales, weights, nl.multiply)
            nisa.tensor_tensor(u, u, t, nl.add)  # sums
            nisa.dma_copy(dst=out[turn * P : (turn + 1) * P], src=u)
        return out

    return kernel


def notes_of(kernel: Kernel) -> list[str]:
    def script() -> None:
        kernel(ROWS, WEIGHTS)
        raise AssertionError("wrong")

    with pytest.raises(tw.TileError, match="AssertionError is raised by the script itself") as caught:
        tw.bisect(script)
    return [note for note in caught.value.diagnostic.notes if "turn of a loop" in note]


def test_a_tile_that_one_turn_alone_writes_is_told():
    kernel = weighted("stale")
    (note,) = notes_of(kernel)
    assert note.startswith("scales (") and "and read in later turns as it is" in note
    assert f"by tensor_scalar ({__file__}:{line_of(kernel, '# once')})" in note


def test_a_sum_that_goes_on_over_turns_is_told():
    kernel = weighted("sums")
    (note,) = notes_of(kernel)
    assert note.startswith("u (") and "is begun in one turn of a loop" in note
    assert f"tensor_tensor ({__file__}:{line_of(kernel, '# sums')}) goes on with it" in note


def test_nothing_is_said_of_what_every_turn_makes_or_what_is_made_before():
    assert notes_of(weighted("")) == []


def totalled(mistake: bool) -> Kernel:
    """Sums of two tiles of rows for each of three blocks; a running sum of all blocks goes out at the end."""

    @nki.jit
    def kernel(x: Any, w: Any) -> Any:
        out = nl.ndarray((4 * P, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        total = nl.ndarray((P, 8), dtype=nl.float32, buffer=nl.sbuf)
        every = nl.ndarray((P, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(total, value=0)  # begun
        nisa.memset(every, value=0)
        for block in range(3):
            if block and not mistake:
                nisa.memset(total, value=0)
            for _ in range(2):
                t = nl.ndarray((P, 8), dtype=nl.float32, buffer=nl.sbuf)
                nisa.dma_copy(dst=t, src=x[block * P : (block + 1) * P])
                nisa.tensor_tensor(total, total, t, nl.add)  # on
            nisa.dma_copy(dst=out[block * P : (block + 1) * P], src=total)
        for _ in range(2):
            nisa.tensor_tensor(every, every, total, nl.add)
        nisa.dma_copy(dst=out[3 * P :], src=every)
        return out

    return kernel


def test_a_sum_that_no_turn_begins_anew_is_told():
    kernel = totalled(mistake=True)
    (note,) = notes_of(kernel)
    assert note.startswith("total (") and f"begun once, by memset ({__file__}:{line_of(kernel, '# begun')})" in note
    assert f"tensor_tensor ({__file__}:{line_of(kernel, '# on')}) goes on with it in every turn" in note
    assert notes_of(totalled(mistake=False)) == []


def test_a_function_that_a_kernel_calls_twice_is_no_loop():
    """What is made between two of its calls, and read after the second, is not left from an earlier turn."""

    def loaded(x: Any) -> Any:
        t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x)
        return t

    @nki.jit
    def kernel(x: Any, w: Any) -> Any:
        more = nl.ndarray((P, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(more, loaded(x[0:P]), nl.add, 1.0)
        nisa.tensor_tensor(more, more, loaded(w), nl.multiply)
        out = nl.ndarray((P, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=more)
        return out

    assert notes_of(kernel) == []

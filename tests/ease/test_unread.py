"""W307 and W308: results that nothing reads and kernels without output are told; what is of use is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl

X = tw.spec((128, 512), "float32")


def tile(*shape: int, buffer: Any = nl.sbuf) -> Any:
    return nl.ndarray(shape, dtype=nl.float32, buffer=buffer)


def stored(out: Any, x: Any) -> Any:
    nisa.dma_copy(dst=out, src=x)
    return out


def output(*shape: int) -> Any:
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)


def overwritten(x: Any) -> Any:
    made = tile(128, 512)
    nisa.dma_copy(dst=made, src=x)
    nisa.memset(dst=made, value=0.0)
    return stored(output(128, 512), made)


def made_in_a_loop(x: Any) -> Any:
    total = tile(128, 512)
    nisa.dma_copy(dst=total, src=x)
    for _ in range(3):
        sums = tile(128, 1)
        nisa.tensor_reduce(dst=sums, op=nl.add, data=total, axis=1)
    return stored(output(128, 512), total)


def begun_anew(x: Any) -> Any:
    left, total, done = tile(128, 512), tile(128, 512, buffer=nl.psum), tile(128, 512)
    nisa.dma_copy(dst=left, src=x)
    for _ in range(3):
        nisa.nc_matmul(total, stationary=left[:, 0:128], moving=left, accumulate=False)
    nisa.tensor_copy(dst=done, src=total)
    return stored(output(128, 512), done)


def without_output(x: Any) -> None:
    made = tile(128, 512)
    nisa.dma_copy(dst=made, src=x)


@pytest.mark.parametrize(
    ("kernel", "code", "words"),
    [
        (overwritten, "W307", "which memset in line"),
        (made_in_a_loop, "W307", "which nothing reads, 3 of 3 times"),
        (
            begun_anew,
            "W307",
            "which the next round overwrites before anything reads it, 2 of 3",
        ),
        (without_output, "W308", "without_output returns nothing and writes to no tensor in HBM"),
    ],
)
def test_work_that_nobody_sees(kernel: Any, code: str, words: str):
    assert tw.verify(kernel, X) == [], "only lint asks for it"
    (found,) = tw.verify(kernel, X, lint=True)
    assert (found.code, found.severity) == (code, "warning") and words in found.message and found.location is not None


def not_returned(x: Any) -> None:
    stored(output(128, 512), x)


def into_its_argument(x: Any) -> None:
    made = tile(128, 512)
    nisa.dma_copy(dst=made, src=x)
    nisa.dma_copy(dst=x, src=made)


def test_a_kernel_that_returns_nothing_says_what_is_lost():
    run = tw.simulate(not_returned)
    run(np.ones((128, 512), np.float32))
    assert run.run is not None
    for found in (*run.run.diagnostics, *tw.verify(not_returned, X, lint=True)):
        assert (found.code, found.severity) == ("W308", "warning")
        assert "not_returned returns nothing: what it writes to" in found.message
    assert tw.verify(into_its_argument, X) == []


def loaded_ahead(x: Any) -> Any:
    out, ahead = output(128, 512), tile(128, 128)
    nisa.dma_copy(dst=ahead, src=x[:, 0:128])
    for k in range(4):
        now = ahead
        ahead = tile(128, 128)
        nisa.dma_copy(dst=ahead, src=x[:, (k + 1) % 4 * 128 : (k + 1) % 4 * 128 + 128])
        nisa.dma_copy(dst=out[:, k * 128 : k * 128 + 128], src=now)
    return out


def by_the_way(x: Any) -> Any:
    """The squares have to go somewhere; their sum is what is wanted."""
    made, squares, sums = tile(128, 512), tile(128, 512), tile(128, 1)
    nisa.dma_copy(dst=made, src=x)
    nisa.activation_reduce(dst=squares, op=nl.square, data=made, reduce_op=nl.add, reduce_res=sums)
    return stored(output(128, 1), sums)


def added_up(x: Any) -> Any:
    left, total, done = tile(128, 512), tile(128, 512, buffer=nl.psum), tile(128, 512)
    nisa.dma_copy(dst=left, src=x)
    for _ in range(3):
        nisa.nc_matmul(total, stationary=left[:, 0:128], moving=left)
    nisa.tensor_copy(dst=done, src=total)
    return stored(output(128, 512), done)


def piece_by_piece(x: Any) -> Any:
    made = tile(128, 512)
    nisa.memset(dst=made, value=0.0)
    nisa.dma_copy(dst=made[:, 0:100], src=x[:, 0:100])
    return stored(output(128, 512), made)


def gathered(x: Any) -> Any:
    """Rows that are left out stay zero, though there may be none."""
    rows = nl.ndarray((128, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(dst=rows, pattern=[[0, 1]], offset=0, channel_multiplier=1)
    made = tile(128, 512)
    nisa.memset(dst=made, value=0.0)
    chosen = x.ap(pattern=[[512, 128], [1, 512]], offset=0, vector_offset=rows, indirect_dim=0)
    nisa.dma_copy(dst=made, src=chosen, oob_mode=nisa.oob_mode.skip)
    return stored(output(128, 512), made)


def in_place(x: Any) -> None:
    made = tile(128, 512)
    nisa.dma_copy(dst=made, src=x)
    nisa.tensor_scalar(dst=made, data=made, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=x, src=made)


@pytest.mark.parametrize("kernel", [loaded_ahead, by_the_way, added_up, piece_by_piece, gathered, in_place])
def test_work_of_use_is_not_mentioned(kernel: Any):
    assert tw.verify(kernel, X, lint=True) == []

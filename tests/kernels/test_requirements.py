"""Requirements of the seeds that kernels such as those of the library show, each by its number."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.kernels.near import normal
from tests.kit import nisa, nl, run
from tilewright.kernels.tiles import copied, load


def compared(a, b):
    """a * (a > b): a comparison gives 1.0 or 0.0"""
    left, right = load(a), load(b)
    mask = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=mask, data1=left, data2=right, op=nl.greater)
    made = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=made, data1=left, data2=mask, op=nl.multiply)
    out = nl.ndarray((2, *a.shape), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[0], src=mask)
    nisa.dma_copy(dst=out[1], src=made)
    return out


@pytest.mark.req("S3-23")
def test_comparisons_are_ones_and_zeros() -> None:
    a, b = np.round(normal(60, 50) * 2), np.round(normal(60, 50, seed=1) * 2)
    mask, made = run(compared, a, b)
    assert mask.dtype == np.float32 and np.array_equal(mask, (a > b).astype(np.float32))
    assert np.array_equal(made, a * (a > b))


def scores(q_t, k_t):
    """q . k for transposed operands of any number of partitions"""
    left, right = load(q_t), load(k_t)
    product = nl.ndarray((q_t.shape[1], k_t.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=left, moving=right)
    out = nl.ndarray(product.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=copied(product, nl.float32))
    return out


@pytest.mark.req("S3-26")
@pytest.mark.parametrize("d", [1, 32, 100])
def test_fewer_partitions_and_zeros_in_their_place(d: int) -> None:
    """Whole numbers, whose sums are exact in any order: the bits are the same."""
    q_t, k_t = np.round(normal(d, 40, scale=8.0)), np.round(normal(d, 60, seed=1, scale=8.0))
    padded = [np.concatenate([each, np.zeros((128 - d, each.shape[1]), np.float32)]) for each in (q_t, k_t)]
    narrow, wide = run(scores, q_t, k_t), run(scores, *padded)
    assert np.array_equal(narrow, q_t.T @ k_t) and narrow.tobytes() == wide.tobytes()


@pytest.mark.req("S1-21")
def test_a_kernel_that_is_refused_is_an_error_and_nothing_else_computes_the_result() -> None:
    """No call of the library falls back to its reference, whatever the profile says of the rule that is broken."""
    with warnings.catch_warnings(record=True), pytest.raises(tw.TileError):
        tw.kernels.csr_spmm(normal(2), np.array([0, 1]), np.array([0, 2]), normal(3, 4), target="trn1")


def scratch_in_loop(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for _ in range(2):
        kept = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=kept, src=a)
        nisa.dma_copy(dst=out, src=kept)
    return out


def scratch_before(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    kept = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for _ in range(2):
        nisa.dma_copy(dst=kept, src=a)
        nisa.dma_copy(dst=out, src=kept)
    return out


@pytest.mark.req("S3-40")
def test_scratch_in_hbm_is_created_before_loops() -> None:
    (found,) = {each.rule: each for each in tw.verify(scratch_in_loop, normal(4, 4), target="trn2")}.values()
    assert found.rule == "R-tensor-19" and "before the loop" in str(found.hint)
    assert not tw.verify(scratch_before, normal(4, 4), target="trn2")


def outer(q, row):
    """A column times a row, as the published screening writes it"""
    column, across = load(q), load(row)
    made = nl.ndarray((q.shape[0], row.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=made, data1=column, data2=across, op=nl.multiply)
    out = nl.ndarray(made.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=made)
    return out


def scalar_in_hbm(a, factor):
    tile = load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@pytest.mark.req("S3-41")
def test_outer_products_and_scalars_in_hbm_are_refused() -> None:
    for kernel, arrays, code in (
        (outer, (normal(128, 1), normal(1, 128)), "E104"),
        (scalar_in_hbm, (normal(128, 8), normal(128, 1)), "E103"),
    ):
        found = tw.verify(kernel, *arrays, target="trn2")
        assert code in {each.code for each in found}, [str(each) for each in found]
        assert all(each.location is not None and each.location.file == __file__ for each in found)


@pytest.mark.req("S3-28")
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_kernels_are_legal_without_a_single_warning(target: str) -> None:
    """Strict, on every target that they claim: nothing that the library launches has anything to say against it."""
    from tests.kernels.mutants import CASES
    from tilewright.kernels import library

    told: list[Any] = []
    launched = library.run_kernel

    def watched(*args: Any, **kwargs: Any) -> Any:
        run = launched(*args, **kwargs)
        told.extend(run.diagnostics)
        return run

    library.run_kernel = watched  # type: ignore[assignment]
    try:
        for case in CASES:
            if target != "trn1" or case.kernel not in ("csr_spmm", "moe"):
                getattr(tw.kernels, case.kernel)(*case.arguments(), target=target)
    finally:
        library.run_kernel = launched
    assert not told, "\n".join(map(str, told))

"""Requirements of the seeds that kernels such as those of the library show, each by its number."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.kernels.near import normal
from tests.kit import nisa, nl, run
from tilewright import events
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


def accumulated(a):
    """2 a^T a, on zeros that something else than a product wrote: forbidden by the documents, run by some compilers"""
    tile = load(a)
    bank = nl.ndarray((a.shape[1], a.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.memset(dst=bank, value=0.0)
    for _ in range(2):
        nisa.nc_matmul(dst=bank, stationary=tile, moving=tile, accumulate=True)
    out = nl.ndarray(bank.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=copied(bank, nl.float32))
    return out


@pytest.mark.req("S1-21")
def test_a_kernel_that_is_refused_is_an_error_and_nothing_else_computes_the_result() -> None:
    """Strict raises, and has no result; lenient runs the kernel itself, and says what it let pass."""
    a = np.round(normal(20, 30) * 3)
    strict = tw.simulate(accumulated, target="trn2", profile="strict")
    with pytest.raises(tw.TileError) as caught:
        strict(a)
    assert caught.value.diagnostic.severity == "error" and caught.value.diagnostic.rule == "R-nc_matmul-21"
    lenient = tw.simulate(accumulated, target="trn2", profile="lenient")
    assert np.array_equal(lenient(a), 2 * a.T @ a)
    found = [each for each in lenient.run.diagnostics if each.rule == "R-nc_matmul-21"]
    assert found and {each.severity for each in found} == {"warning"}
    with warnings.catch_warnings(record=True), pytest.raises(tw.TileError):
        tw.kernels.csr_spmm(normal(2), np.array([0, 1]), np.array([0, 2]), normal(3, 4), target="trn1")


def in_range(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for _ in range(2):
        kept = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)  # here
        nisa.dma_copy(dst=kept, src=a)
        nisa.dma_copy(dst=out, src=kept)
    return out


def in_affine_range(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for _ in nl.affine_range(2):
        kept = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)  # here
        nisa.dma_copy(dst=kept, src=a)
        nisa.dma_copy(dst=out, src=kept)
    return out


def in_inner_loop(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for _ in range(2):
        nisa.dma_copy(dst=out, src=a)
        for _ in range(2):
            kept = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)  # here
            nisa.dma_copy(dst=kept, src=a)
            nisa.dma_copy(dst=out, src=kept)
    return out


def in_while(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    turn = 0
    while turn < 2:
        kept = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)  # here
        nisa.dma_copy(dst=kept, src=a)
        nisa.dma_copy(dst=out, src=kept)
        turn += 1
    return out


def scratch_before(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    kept = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for _ in range(2):
        nisa.dma_copy(dst=kept, src=a)
        nisa.dma_copy(dst=out, src=kept)
    return out


@pytest.mark.req("S3-40")
@pytest.mark.parametrize("kernel", [in_range, in_affine_range, in_inner_loop, in_while])
def test_scratch_in_hbm_is_created_before_loops(kernel: Any) -> None:
    found = tw.verify(kernel, normal(4, 4), target="trn2")
    lines, start = inspect.getsourcelines(kernel)
    (place,) = [start + i for i, line in enumerate(lines) if "# here" in line]
    assert found and {each.rule for each in found} == {"R-tensor-19"}
    assert all("before the loop" in str(each.hint) for each in found)
    assert {each.location.line for each in found if each.location} == {place}
    assert not tw.verify(scratch_before, normal(4, 4), target="trn2")


def screening(a, column, row, factors):
    """As published, over 2 x 1 x 2 tiles: a column times a row, and factors that are read where they lie, in HBM"""
    out = nl.ndarray((4, 128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    top, low, down, across = load(a[0]), load(a[1]), load(column), load(row)
    mask = nl.ndarray((128, 4, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=mask[:, 0], data1=down, data2=across, op=nl.multiply)
    nisa.tensor_tensor(dst=mask[:, 1], data1=down, data2=across, op=nl.multiply)
    nisa.tensor_tensor(dst=mask[:, 2], data1=across, data2=down, op=nl.multiply)
    nisa.tensor_tensor(dst=mask[:, 3], data1=across, data2=down, op=nl.multiply)
    nisa.tensor_scalar(dst=top, data=top, op0=nl.multiply, operand0=factors[0])
    nisa.tensor_scalar(dst=low, data=low, op0=nl.multiply, operand0=factors[0])
    nisa.tensor_scalar(dst=top, data=top, op0=nl.multiply, operand0=factors[1])
    nisa.tensor_scalar(dst=low, data=low, op0=nl.multiply, operand0=factors[1])
    for tile in range(4):
        nisa.dma_copy(dst=out[tile], src=top)
    return out


@pytest.mark.req("S3-41")
def test_outer_products_and_scalars_in_hbm_are_refused() -> None:
    """Every place is told once: four of each, and nothing else."""
    arrays = normal(2, 128, 128), normal(128, 1), normal(1, 128), normal(2, 128, 1)
    found = tw.verify(screening, *arrays, target="trn2")
    counts: dict[str, int] = {}
    for each in found:
        assert each.location is not None and each.location.file == __file__
        told = "partitions, but" if each.rule == "R-tensor_tensor-01" else "must be in sbuf or psum"
        assert told in each.message
        rule = f"{each.code} {each.rule}"
        counts[rule] = counts.get(rule, 0) + 1
    wanted = {"E103 R-tensor_tensor-01": 4, "E103 R-tensor_scalar-01": 4}
    assert counts == wanted, [str(each) for each in found]


class Seen(events.Listener):
    """How many kernels ran to their end."""

    executed = 0

    def ended(self, event: events.Event) -> None:
        self.executed += event.run is not None


def seven() -> dict[str, tuple[Any, Any]]:
    """The kernels of the sparse package: what ours makes of some arguments, and what is exact."""
    places, pointers = np.array([1, 0, 2], np.int32), np.array([0, 2, 2, 3], np.int32)
    blocks, dense = normal(3, 32, 32), normal(96, 40, seed=1)
    bound = np.round(np.abs(normal(96, seed=2)) * 4) / 4
    mask = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1]], bool)
    heads = normal(2, 96, 32), normal(2, 96, 32, seed=1), normal(2, 96, 32, seed=2)
    kernels = tw.kernels
    forward, backward = kernels.block_sparse_attention, kernels.block_sparse_attention_backward
    out, lse = (each.astype(np.float32) for each in forward.exact(*heads, mask, 32))
    given = *heads, out, lse, normal(2, 96, 32, seed=3), mask, 32
    calls = {
        "bsr_spmm": (kernels.bsr_spmm, (blocks, places, pointers, dense), slice(None)),
        "screened_spmm": (kernels.screened_spmm, (normal(96, 96), bound, dense, 0.5), slice(None)),
        "spmm_dense": (kernels.matmul, (normal(96, 96), dense), slice(None)),
        "attn_stats": (forward, (*heads, mask, 32), slice(1, 2)),
        "attn_out": (forward, (*heads, mask, 32), slice(0, 1)),
        "attn_bwd_dq": (backward, given, slice(0, 1)),
        "attn_bwd_dkdv": (backward, given, slice(1, 3)),
    }
    return {
        name: (lambda call=call, args=args, some=some: _some(call(*args), some), _some(call.exact(*args), some))
        for name, (call, args, some) in calls.items()
    }


def _some(made: Any, some: slice) -> tuple[Any, ...]:
    return (made if isinstance(made, tuple) else (made,))[some]


@pytest.mark.req("S3-28")
@pytest.mark.parametrize("name", sorted(seven()))
def test_the_seven_sparse_kernels(name: str) -> None:
    """Each result is that of a kernel which ran, as events tell, and right to a thousandth at most."""
    call, exact = seven()[name]
    seen = Seen()
    forget = events.listen(seen)
    try:
        made = call()
    finally:
        forget()
    assert seen.executed, "no kernel ran"
    for mine, right in zip(made, exact, strict=True):
        np.testing.assert_allclose(mine, right, atol=1e-3)


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

"""Flags that change numbers: what each means for NumPy's ops, and that kernels stay as they were written."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tests.programs.kernels import doubled
from tilewright.programs.flags import read_flags

RNG = np.random.default_rng(0)
X = RNG.standard_normal((32, 16)).astype(np.float32)
W = RNG.standard_normal((16, 16)).astype(np.float32)


def product(x: Any, w: Any) -> Any:
    return doubled(x) @ w


def run(flags: str, function: Any = product, *arrays: np.ndarray, target: str = "trn2") -> np.ndarray:
    return tw.program(function, *(arrays or (X, W)), target=target, flags=flags)(*(arrays or (X, W)))


@pytest.mark.req("S0-24", "N0-1")
def test_auto_cast_none_leaves_float32_alone():
    np.testing.assert_allclose(run("--auto-cast=none"), 2 * X @ W, rtol=1e-5, atol=1e-5)
    assert run("--auto-cast=none").tobytes() == run("").tobytes() == run("-O1 --model-type transformer").tobytes()


@pytest.mark.req("S0-24", "N0-1")
@pytest.mark.parametrize(("kind", "dtype"), [("bf16", ml_dtypes.bfloat16), ("fp16", np.float16)])
def test_products_of_rounded_operands(kind: str, dtype: Any):
    def rounded(x: np.ndarray) -> np.ndarray:
        return x.astype(dtype).astype(np.float32)

    found = run(f"--auto-cast=matmult --auto-cast-type={kind}")
    np.testing.assert_allclose(found, rounded(2 * X) @ rounded(W), rtol=1e-5, atol=1e-5)
    assert np.abs(found - 2 * X @ W).max() > 1e-4


@pytest.mark.req("S0-24", "N0-1")
def test_all_ops_are_rounded_but_kernels_are_not():
    def sums(x: Any, w: Any) -> Any:
        return doubled(x), np.tanh(x) + 1

    kernel, numpy = tw.program(sums, X, W, target="trn2", flags="--auto-cast all")(X, W)
    assert kernel.tobytes() == (2 * X).tobytes()
    assert (numpy == numpy.astype(ml_dtypes.bfloat16).astype(np.float32)).all()
    assert (numpy != np.tanh(X) + 1).any()


@pytest.mark.req("N0-1")
def test_infinity_is_saturated_where_transposes_are_products():
    def times_zero(x: Any, w: Any) -> Any:
        return doubled(x) @ np.where(w > 100, w, 0)

    huge = X.copy()
    huge[0, 0] = 3e38  # twice that is infinite, and infinity times zero is not a number
    for flags, target, finite in (
        ("--enable-saturate-infinity", "trn1", True),
        ("", "trn1", False),
        ("--enable-saturate-infinity", "trn2", False),
    ):
        found = run(flags, times_zero, huge, W, target=target)
        assert np.isfinite(found[0]).all() == finite and np.isfinite(found[1:]).all()


@pytest.mark.req("N0-1")
def test_sums_of_16_bits_without_wider_steps():
    ones = np.full((4, 512), 1.0, ml_dtypes.bfloat16)
    ones[:, 0] = 256.0

    def total(x: Any) -> Any:
        return doubled(x).sum(-1)

    wide = run("", total, ones)
    short = run("--disable-mixed-precision-accumulation", total, ones)
    exact = (2 * ones.astype(np.float64)).sum(-1)
    assert np.abs(wide.astype(np.float64) - exact).max() <= np.abs(short.astype(np.float64) - exact).max()
    uneven = RNG.random((4, 301)).astype(ml_dtypes.bfloat16)
    found = run("--disable-mixed-precision-accumulation", total, uneven)
    assert found.tobytes() != run("--enable-mixed-precision-accumulation", total, uneven).tobytes()
    np.testing.assert_allclose(found.astype(np.float64), 2 * uneven.astype(np.float64).sum(-1), rtol=0.05)

    def highest(x: Any) -> Any:
        return doubled(x).max(-1)

    found = run("--disable-mixed-precision-accumulation", highest, uneven)
    assert found.tobytes() == run("", highest, uneven).tobytes(), "no sum"


@pytest.mark.parametrize("flags", ["--auto-cast=some", "--auto-cast", "--auto-cast-type=fp9"])
def test_values_without_a_meaning_are_refused(flags: str):
    with pytest.raises(tw.TileError) as caught:
        read_flags(flags)
    assert caught.value.diagnostic.code == "E902" and caught.value.diagnostic.hint


@nki.jit
def chosen(x: Any, rows: Any) -> Any:
    at = nl.ndarray((16, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=at, src=rows)
    tile = nl.ndarray((16, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x.ap(pattern=[[x.shape[1], 16], [1, x.shape[1]]], vector_offset=at))
    out = nl.ndarray((16, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


LEVELS = (
    "",
    "--internal-enable-dge-levels vector_dynamic_offsets -O1",
    "--internal-enable-dge-levels=vector_dynamic_offsets",
)


@pytest.mark.req("S0-16")
def test_who_writes_descriptors_changes_neither_results_nor_verdicts():
    rows = np.arange(16, dtype=np.int32)[::-1].reshape(16, 1).copy()
    wrong = np.where(rows == 5, 32, rows).astype(np.int32)
    results, messages, sources = set(), set(), []
    for flags in LEVELS:
        p = tw.program(lambda x, rows: chosen(doubled(x), rows), X, rows, target="trn2", flags=flags)
        results.add(p(X, rows).tobytes())
        with pytest.raises(tw.TileError) as caught:
            p(X, wrong)
        messages.add((caught.value.diagnostic.code, caught.value.diagnostic.message))
        sources.append([each.dge for each in p.transfers if each.indirect])
        assert {each.dge for each in p.transfers if not each.indirect} == {"hwdge"}
    assert len(results) == len(messages) == 1 and next(iter(messages))[0] == "E301"
    assert sources == [["unknown"], ["swdge"], ["swdge"]]


@pytest.mark.parametrize(
    "given", [{"flags": 5}, {"flags": [1]}, {"flags": '"open'}, {"replace": {"doubled": 3}}], ids=str
)
def test_flags_and_replacements_that_are_none(given: Any) -> None:
    with pytest.raises(tw.TileError) as caught:
        tw.program(lambda x: doubled(x), np.ones((4, 4), np.float32), **given)
    assert caught.value.diagnostic.code == "E108" and caught.value.diagnostic.hint

"""Losses: what is picked of logarithms of probabilities, and their sums, need no array of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.lower.kit import check, floats, indices
from tilewright.lower.decisions import noted


def smoothed(logits: Any, target: Any) -> Any:
    z = logits.astype(np.float32)
    z = z - z.max(1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(1, keepdims=True))
    picked = -logp[np.arange(len(logits)), target]
    return 0.9 * picked - 0.1 * logp.mean(1), picked.mean()


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("rows", "columns"), [(130, 700), (256, 12000)])
def test_label_smoothing(rows: int, columns: int, dtype: Any) -> None:
    logits = floats(rows, columns).astype(dtype)
    with noted() as reached:
        kernel = check(smoothed, logits, indices(columns, rows), tolerance=1e-5)
    assert "rule: sum_before_shift" in reached
    assert kernel.report.hbm_bytes < 1.1 * kernel.report.compulsory_bytes


def from_the_mean(x: Any) -> Any:
    return (x - x.mean(1, keepdims=True)).sum(1)


def test_sums_in_which_terms_cancel_stay() -> None:
    with noted() as reached:
        check(from_the_mean, floats(130, 64) + np.float32(1000), tolerance=None)
    assert "rule: sum_before_shift" not in reached


def of_logarithms(logits: Any, target: Any) -> Any:
    """All of them are a result, too."""
    z = logits - logits.max(1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(1, keepdims=True))
    return logp, logp[np.arange(len(logits)), target]


def test_picked_of_a_result() -> None:
    kernel = check(of_logarithms, floats(130, 300), indices(300, 130))
    logits = floats(130, 300, seed=5)
    found, picked = kernel.simulate(logits, indices(300, 130))
    np.testing.assert_array_equal(np.take_along_axis(found, indices(300, 130)[:, None], 1)[:, 0], picked)

"""Products whose operand would have to be put in another order: batches that take it as it lies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats
from tilewright.lower.tuning import tuned

SPELLINGS = ["oc,nchw->nohw", "nchw,oc->nohw", "nchw,oc->onhw", "nchw,oc->nhwo", "oc,nchw->ohwn", "nchw,co->hwno"]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_images_by_a_matrix(spelling: str) -> None:
    def product(x: Any, w: Any) -> Any:
        return np.einsum(spelling, *((x, w) if spelling.startswith("n") else (w, x)))

    with tuned(batch_columns=20):
        w = floats(24, 16, seed=1)
        check(product, floats(3, 16, 5, 6), w.T.copy() if ",co" in spelling else w, tolerance=1e-5)


def test_images_are_read_once() -> None:
    def layer(x: Any, w: Any, b: Any) -> Any:
        return np.maximum(np.einsum("nchw,oc->nohw", x, w) + b[:, None, None], 0)

    k = tw.compile(layer, tw.spec((8, 128, 56, 56), "float32"), tw.spec((128, 128), "float32"), tw.spec(128, "float32"))
    assert k.report.hbm_bytes < 1.1 * k.report.compulsory_bytes
    with tuned(batch_columns=20):
        check(layer, floats(3, 16, 5, 6), floats(24, 16, seed=1), floats(24, seed=2), tolerance=1e-5)
        check(lambda x, w: np.einsum("bds,de->bse", x, w), floats(4, 16, 24), floats(16, 8, seed=1), tolerance=1e-5)
        check(lambda x, w: np.tensordot(w, x[:, :, 1:], ((1,), (1,))), floats(3, 16, 30), floats(8, 16), tolerance=1e-5)


def test_small_operands_are_made_first() -> None:
    """What a product is combined with, of the other operand alone, does not keep it from being used at once."""

    def distances(a: Any, b: Any) -> Any:
        return ((a * a).sum(1)[:, None] + (b * b).sum(1)[None] - 2 * a @ b.T).min(1)

    k = tw.compile(distances, tw.spec((2048, 64), "float32"), tw.spec((4096, 64), "float32"))
    assert k.report.hbm_bytes < 2 * k.report.compulsory_bytes
    check(distances, floats(200, 16), floats(300, 16, seed=1), tolerance=1e-4)


def test_weights_of_all_trips_are_loaded_once():
    """A product of each matrix, then one by weights that all of them share."""
    x, y, w = floats(24, 64, 64), floats(24, 64, 64, seed=1), floats(64, 48)
    kernel = check(lambda x, y, w: np.tanh(x @ y) @ w, x, y, w, targets=("trn2",), tolerance=1e-4)
    assert kernel.report.hbm_bytes <= x.nbytes + y.nbytes + w.nbytes + 24 * 64 * 48 * 4

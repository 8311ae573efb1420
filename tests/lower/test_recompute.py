"""Values that later passes compute again, instead of reading from HBM what was written there for them."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import floats
from tilewright.lower.rewrite.recompute import Recomputation


def gated(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    h = np.maximum(x, 0) * w
    return h / np.abs(h).max()


def test_what_is_too_large_for_the_chip_is_computed_again():
    kernel = tw.compile(gated, tw.spec((8192, 2048), "float32"), tw.spec((2048,), "float32"), target="trn2")
    # x twice and the result once; h does not pass through HBM.
    assert kernel.report.hbm_bytes < 1.52 * kernel.report.compulsory_bytes
    assert "recomputed" in kernel.schedule.form


def test_two_passes_have_a_copy_each():
    def moments(x: np.ndarray) -> np.ndarray:
        y = np.maximum(x, 0) + 1
        z = y / y.max()
        return y * z.sum()

    x = floats(256, 64)
    other = tw.compile(moments, x, target="trn2", schedule="form plain, recomputed 0 1 for 3 for 5")
    plain = tw.compile(moments, x, target="trn2", schedule="form plain")
    assert str(other.tile_ir) != str(plain.tile_ir)
    np.testing.assert_allclose(other(x), moments(x), rtol=1e-5)
    again = tw.compile(moments, x, target="trn2", schedule=other.schedule)
    assert str(again.tile_ir) == str(other.tile_ir)


@pytest.mark.parametrize(
    "asked", ["", "0 1", "0 1 for", "x for 2", "1 0 for 3", "0 1 for 99", "0 1 for 3 3", "0 for 3"]
)
def test_forms_that_mean_nothing_are_refused(asked: str):
    x, w = floats(64, 32), floats(32)
    with pytest.raises(tw.TileError) as error:
        str(tw.compile(gated, x, w, target="trn2", schedule=f"form plain, recomputed {asked}".rstrip()).tile_ir)
    assert error.value.diagnostic.code == "E860"


def test_text_reads_back():
    asked = Recomputation((0, 1), ((3, 4), (7,)))
    assert str(asked) == "0 1 for 3 4 for 7"
    assert Recomputation.parse(str(asked)) == asked

"""Tables of small floats against ml_dtypes, element by element."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tilewright.dtypes import DTYPES, DType
from tilewright.small_floats import narrow, widen

SMALL = [each for each in DTYPES.values() if each.is_float and each.itemsize == 1]


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_every_value_is_widened(dtype: DType) -> None:
    held = np.arange(256, dtype=np.uint8).reshape(16, 16).view(dtype.np)
    large = np.tile(held, (16, 40))
    for array in (large, large.T, held, held[::2, 3:9], held.T, held[5, 5]):
        np.testing.assert_array_equal(widen(np.asarray(array)), np.asarray(array).astype(np.float32), strict=True)


@pytest.mark.parametrize("dtype", SMALL, ids=str)
@pytest.mark.parametrize("lower", [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], ids=hex)
def test_every_upper_half_is_rounded(dtype: DType, lower: int) -> None:
    values = (np.arange(1 << 16, dtype=np.uint32) << np.uint32(16) | np.uint32(lower)).view(np.float32)
    with np.errstate(all="ignore"):
        expected = values.astype(dtype.np)
    assert (narrow(values, dtype.np).view(np.uint8) == expected.view(np.uint8)).all()
    limit = float(ml_dtypes.finfo(dtype.np).max)
    with np.errstate(all="ignore"):
        saturated = np.clip(values, -limit, limit).astype(dtype.np)
    assert (narrow(values, dtype.np, saturate=True).view(np.uint8) == saturated.view(np.uint8)).all()
    square = values.reshape(256, 256)
    assert (narrow(square.T, dtype.np).view(np.uint8) == expected.reshape(256, 256).T.view(np.uint8)).all()

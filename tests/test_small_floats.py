"""Tables of small floats against ml_dtypes, element by element."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from tilewright.dtypes import DTYPES, DType
from tilewright.small_floats import assign, is_zero, narrow, widen

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


def _places(dtype: np.dtype) -> list[np.ndarray]:
    """Arrays whose elements lie in every way: in rows, apart, turned, repeated, alone."""
    held = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16).astype(dtype)
    cube = held.reshape(16, 64, 64)
    column = np.broadcast_to(held[:64, None], (64, 32))
    row = np.broadcast_to(held[None, -64:], (32, 64))
    parts = cube[:, 3], cube[:, :, 5], cube[:, ::3, ::5], cube.T, cube[3:5, :, 1:3]
    return [cube, *parts, column, row, held[:0], held[7:8]]


@pytest.mark.parametrize("place", range(10))
def test_bfloat16_is_widened_wherever_it_lies(place: int) -> None:
    array = _places(np.dtype(ml_dtypes.bfloat16))[place]
    before = array.tobytes()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(widen(array), array.astype(np.float32), strict=True)
        assert (is_zero(array) == (array == 0)).all()
    assert array.tobytes() == before


# Where a value goes: all of an array, rows of it, elements apart, every other one of all dims.
INTO: dict[str, Callable[[tuple[int, ...]], np.ndarray]] = {
    "all": lambda shape: np.zeros(shape, ml_dtypes.bfloat16),
    "rows": lambda shape: np.zeros((shape[0], 2, *shape[1:]), ml_dtypes.bfloat16)[:, 1],
    "apart": lambda shape: np.zeros((*shape, 2), ml_dtypes.bfloat16)[..., 1],
    "turned": lambda shape: np.zeros(shape[::-1], ml_dtypes.bfloat16).T,
}


@pytest.mark.parametrize("into", INTO)
@pytest.mark.parametrize("place", range(10))
def test_bfloat16_is_assigned_wherever_it_lies(into: str, place: int) -> None:
    # Between two values of bfloat16, or halfway: rounding has something to do.
    found, expected = (INTO[into](_places(np.dtype(np.float32))[place].shape) for _ in range(2))
    with np.errstate(all="ignore"):
        wide = _places(np.dtype(np.float32))[place] * np.float32(1.001953125)
        assign(found, wide)
        expected[...] = wide
    assert found.tobytes() == expected.tobytes()
    assign(found, np.float32(1.5))
    assert (found == 1.5).all()

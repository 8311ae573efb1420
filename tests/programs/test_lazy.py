"""Arrays on a device whose work waits until a number is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kit import nisa, nki, nl
from tilewright.programs.lazy import Device


def test_a_function_that_gives_back_what_it_was_given() -> None:
    device = Device("trn2")
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = device.upload(array)
    same, doubled = device.apply(lambda a: a, x), device.apply(lambda a: a * 2, x)
    np.testing.assert_array_equal(device.read(same), array)
    np.testing.assert_array_equal(device.read(doubled), 2 * array)
    # With nothing to run, too.
    again = device.apply(lambda a: np.reshape(a, (3, 4)), x)
    np.testing.assert_array_equal(device.read(again), array)


def test_what_failed_does_not_fail_again_for_others() -> None:
    """A kernel that is out of bounds: its results are lost, however often they are asked for; what comes after runs."""

    @nki.jit
    def picked(table: Any, rows: Any) -> Any:
        out = nl.ndarray(table.shape, dtype=table.dtype, buffer=nl.shared_hbm)
        at, tile = nl.load(rows), nl.ndarray(table.shape, dtype=table.dtype, buffer=nl.sbuf)
        pattern = [[table.shape[1], table.shape[0]], [1, table.shape[1]]]
        nisa.dma_copy(tile, table.ap(pattern=pattern, offset=0, vector_offset=at, indirect_dim=0))
        nl.store(out, tile)
        return out

    device = Device("trn2")
    x = np.arange(64, dtype=np.float32).reshape(16, 4)
    table = device.upload(x)
    wrong, right = (device.upload(np.full((16, 1), row, np.int32)) for row in (16, 15))
    lost = device.apply(lambda a, b: device.capture(picked, (a, b), {}), table, wrong)
    for _ in range(2):
        with pytest.raises(IndexError, match="index 16 "):
            device.read(lost)
    with pytest.raises(IndexError, match="index 16 "):
        device.apply(lambda a: a + 1, lost)
    made = device.apply(lambda a, b: device.capture(picked, (a, b), {}), table, right)
    np.testing.assert_array_equal(device.read(made), np.broadcast_to(x[15], (16, 4)))
    np.testing.assert_array_equal(device.read(table), x)

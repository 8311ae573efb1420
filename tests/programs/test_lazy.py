"""Arrays on a device whose work waits until a number is asked for."""

from __future__ import annotations

import numpy as np

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

"""Questions about shapes and types, answered while tracing."""

from __future__ import annotations

import numpy as np
import pytest

from tests.front.kit import check, check_error


@pytest.mark.parametrize("x", [np.zeros((2, 3), np.int8), np.array(1.0), np.zeros((0,), np.float32)], ids=str)
def test_shape_and_type(x: np.ndarray):
    check(lambda x: (np.shape(x), np.ndim(x), np.size(x)), x)
    check(lambda x: (str(np.result_type(x, np.int16)), str(np.result_type(x, 3)), np.ndim(x)), x)
    check(lambda x: (str(np.result_type(x, x * 1.5)), np.ndim(x)), x)
    check_error(lambda x: np.size(x, 3), x)
    if x.ndim:
        check(lambda x: np.size(x, -1), x)

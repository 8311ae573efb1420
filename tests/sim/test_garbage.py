"""Python's garbage collector during runs."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from tests.kit import nisa, nl, np, run
from tilewright.sim.garbage import YOUNG


@pytest.mark.parametrize("threshold", [(700, 10, 10), (0, 10, 10), (2 * YOUNG, 5, 5)])
@pytest.mark.parametrize("fails", [False, True])
def test_it_is_as_it_was_after_a_run(threshold: tuple[int, int, int], fails: bool) -> None:
    seen: list[int] = []

    def kernel(x: Any) -> Any:
        seen.append(gc.get_threshold()[0])
        if fails:
            raise KeyError("the kernel's own")
        y = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(y, x)
        return y

    before = gc.get_threshold()
    gc.set_threshold(*threshold)
    try:
        if fails:
            with pytest.raises(KeyError):
                run(kernel, np.ones((2, 2), np.float32))
        else:
            run(kernel, np.ones((2, 2), np.float32))
        assert gc.get_threshold() == threshold
    finally:
        gc.set_threshold(*before)
    assert seen == [threshold[0] and max(threshold[0], YOUNG)]

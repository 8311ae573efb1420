"""The kernels of the library beside their rooflines: a few here, all by `make bench`."""

from __future__ import annotations

import pytest

import tilewright as tw
from bench.library import entries, measured

ENTRIES = {entry.name: entry for entry in entries()}


def test_every_kernel_is_measured() -> None:
    """`deltanet` is its chunk many times over; of `moe` there is no program that is traced without its numbers."""
    assert set(ENTRIES) == set(tw.kernels.__all__) - {"deltanet", "moe"}


@pytest.mark.parametrize("name", ["rmsnorm", "rope", "einsum", "screened_spmm"])
def test_near_the_roofline(name: str) -> None:
    found = measured(ENTRIES[name])
    assert 1.0 <= found.ratio <= found.asked

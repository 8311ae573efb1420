"""Kernels of other tests are no part of a test's history."""

import pytest

from tilewright.nki import earlier


@pytest.fixture(autouse=True)
def no_earlier_launches() -> None:
    earlier.forget()

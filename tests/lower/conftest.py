"""What tests of lowering know of themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lower.kit import NUMBER


@pytest.fixture(autouse=True)
def number(request: pytest.FixtureRequest) -> Iterator[None]:
    """The places of a test's parameters in their lists, added up: neighbours differ by one."""
    call = getattr(request.node, "callspec", None)
    before = NUMBER.set(0 if call is None else sum(call.indices.values()))
    yield
    NUMBER.reset(before)

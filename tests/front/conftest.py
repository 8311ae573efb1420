"""A test draws the same numbers whichever ran before it, and in whatever process."""

from typing import Any

import pytest

_starts: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def same_numbers(request: pytest.FixtureRequest) -> None:
    """Put the module's generator back to where it was before the first test."""
    drawing = getattr(request.module, "RNG", None)
    if drawing is not None:
        drawing.bit_generator.state = _starts.setdefault(request.module.__name__, drawing.bit_generator.state)

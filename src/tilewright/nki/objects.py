"""The base class of everything that a kernel may hold besides numbers and containers."""

from __future__ import annotations

from typing import Any


class NKIObject:
    """Base class of user classes in a kernel."""

    def __init__(self, **kwargs: Any) -> None:
        for name, value in kwargs.items():
            setattr(self, name, value)

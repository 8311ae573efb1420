"""The mark of tests that the gate knows: what it may say, and what it says of a test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

MARK = "tilewright"
BUDGETS = ("max_us", "max_sbuf")
KNOWN = (*BUDGETS, "refused")


def check_marks(items: Iterable[pytest.Item]) -> None:
    """A usage error for marks that say what nobody reads: a budget with a typo would hold for nothing."""
    for item in items:
        for mark in item.iter_markers(MARK):
            wrong = [*map(repr, mark.args), *(name for name in mark.kwargs if name not in KNOWN)]
            if wrong:
                raise pytest.UsageError(
                    f"{item.nodeid}: @pytest.mark.{MARK} has {', '.join(wrong)}; it takes {', '.join(KNOWN)} by name"
                )
            for name in BUDGETS:
                value = mark.kwargs.get(name)
                if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
                    raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.{MARK}({name}={value!r}) is no number")


def marked(item: pytest.Item, name: str) -> Any:
    """What the nearest mark that says something of it says."""
    return next((mark.kwargs[name] for mark in item.iter_markers(MARK) if name in mark.kwargs), None)


def has_budget(item: pytest.Item) -> bool:
    """Whether the kernels of a test are held to something."""
    return any(marked(item, name) is not None for name in BUDGETS)

"""Python's garbage collector while a kernel runs: seldom.

A run makes many objects that live to its end, and no cycles of them: looking for cycles as often as Python does by
itself takes a seventh of the time of a long run and finds nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 50_000
"""New objects before Python looks for cycles among them. A kernel's own cycles are found, only later."""


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Look for cycles after many objects."""
    young, *older = gc.get_threshold()
    # None are looked for at all where it is 0.
    if young:
        gc.set_threshold(max(young, YOUNG), *older)
    try:
        yield
    finally:
        gc.set_threshold(young, *older)

"""Decisions that lowering took, by name, for who asks: which way, which move, which engine.

Functions that carry a decision out say so with `decision`, branches with `decided`. Nothing is noted unless a test asks
(`noted`), and what belongs to a way of writing that was given up is forgotten with it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_notes: list[list[str]] = []
"""What is noted for each who asks."""


def decided(name: str) -> None:
    """Note a decision."""
    for notes in _notes:
        notes.append(name)


def decision(name: str, if_found: bool = False) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Marks a function that carries out a decision; with `if_found`, only where it gives something."""

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def marked(*args: P.args, **kwargs: P.kwargs) -> R:
            if not _notes:
                return function(*args, **kwargs)
            before = len(_notes[-1])
            result = function(*args, **kwargs)
            if not if_found or not any(result is nothing for nothing in (None, False)):
                _notes[-1].insert(before, name)
            return result

        return marked

    return mark


@contextmanager
def noted() -> Iterator[list[str]]:
    """The decisions that are taken meanwhile, in order."""
    notes: list[str] = []
    _notes.append(notes)
    try:
        yield notes
    finally:
        _notes.remove(notes)


def count() -> int:
    """How many were noted so far."""
    return len(_notes[-1]) if _notes else 0


def since(before: int) -> list[str]:
    """All but the first so many."""
    return _notes[-1][before:] if _notes else []


def forget(before: int) -> None:
    """Forget all but the first so many."""
    for notes in _notes:
        del notes[before:]

"""The letters of a step's axes, by which schedules name what is cut."""

from __future__ import annotations

from tilewright.lower.regions.axes import Axis

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def axis_name(axis: Axis) -> str:
    """a, b, ..., z, a1, b1, ..."""
    more, letter = divmod(axis.number, len(_LETTERS))
    return f"{_LETTERS[letter]}{more or ''}"

"""Equal parts of rows, on partitions of their own or in lines."""

from __future__ import annotations

from tilewright.lower.tuning import TUNING


def even_parts(size: int, most: int) -> list[int]:
    """Numbers of equal parts of a row, at least two, in rising order."""
    return [parts for parts in range(2, most + 1) if size % parts == 0]


def longest_line(size: int, lanes: int) -> int | None:
    """The length of equal parts of an axis, in lines of its own, of which all partitions have some; None where such
    lines are short."""
    most = min(TUNING.line, size // lanes)
    found = next((n for n in range(most, 0, -1) if size % n == 0), 0)
    return found if found * lanes >= TUNING.line else None


def splits_well(size: int, rows: int, lanes: int) -> bool:
    """True for a few long rows that can be cut into enough equal parts to keep most partitions at work."""
    if not TUNING.long_row <= size <= TUNING.longest_row:
        return False
    return any(
        parts >= TUNING.least_even_parts and rows * parts >= lanes // 2
        for parts in even_parts(size, lanes // max(rows, 1))
    )

"""Equal parts of a row that lie on partitions of their own."""

from __future__ import annotations

from tilewright.lower.tuning import TUNING


def even_parts(size: int, most: int) -> list[int]:
    """Numbers of equal parts of a row, at least two, in rising order."""
    return [parts for parts in range(2, most + 1) if size % parts == 0]


def splits_well(size: int, rows: int, lanes: int) -> bool:
    """True for a few long rows that can be cut into enough equal parts to keep most partitions at work."""
    if not TUNING.long_row <= size <= TUNING.longest_row:
        return False
    return any(
        parts >= TUNING.least_even_parts and rows * parts >= lanes // 2
        for parts in even_parts(size, lanes // max(rows, 1))
    )

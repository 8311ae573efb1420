"""Equal parts of a row that lie on partitions of their own."""

from __future__ import annotations

from tilewright.lower.tuning import LONG_ROW, LONGEST_ROW

LEAST_PARTS = 8
"""Parts of a row that make it worth while to gather more work around a few long rows."""


def even_parts(size: int, most: int) -> list[int]:
    """Numbers of equal parts of a row, at least two, in rising order."""
    return [parts for parts in range(2, most + 1) if size % parts == 0]


def splits_well(size: int, rows: int, lanes: int) -> bool:
    """True for a few long rows that can be cut into enough equal parts to keep most partitions at work."""
    if not LONG_ROW <= size <= LONGEST_ROW:
        return False
    return any(parts >= LEAST_PARTS and rows * parts >= lanes // 2 for parts in even_parts(size, lanes // max(rows, 1)))

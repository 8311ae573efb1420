"""Loops over parts of a size: whole ones in a loop, a shorter last one after it."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.lower.write.builder import TileBuilder
from tilewright.lower.write.views import At


def tiled(b: TileBuilder, size: int, step: int, name: str = "i") -> Iterator[tuple[At, int]]:
    """(start, count) of each part: what the body of a `for` statement writes for the first stands in a loop.

    >>> for at, count in tiled(b, 1000, 128, "r"): ...        # a loop of 7 trips, then 104 rows
    """
    whole, rest = divmod(size, step)
    if whole:
        with b.loop(whole, name, step) as at:
            yield at, step
    if rest:
        yield whole * step, rest

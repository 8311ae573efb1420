"""What moves through HBM because tiles do not fit: in which order, which parts, and how often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.kit import full_run, nisa, nl
from tilewright.target import get_target

ROOM: int = get_target("trn2")["memory.sbuf_usable_bytes"]
SIZE = 60_000
"""Bytes of a tile in a partition: three have room."""
BYTES = 128 * SIZE


def new(columns: int = SIZE // 4) -> Any:
    return nl.ndarray((128, columns), nl.float32, nl.sbuf)


def moved(body: Callable[[Any], None]) -> int:
    """Bytes that a kernel, which writes to its argument, moves to HBM and back for want of room."""

    def kernel(x: Any) -> Any:
        body(x)
        return x

    found = full_run(kernel, np.zeros((8, 128, SIZE // 4), np.float32)).occupancy
    assert found is not None and found.sbuf_peak_bytes > ROOM
    return sum(spill.traffic_bytes for spill in found.spills)


def made(count: int) -> list[Any]:
    tiles = [new() for _ in range(count)]
    for i, each in enumerate(tiles):
        nisa.memset(each, float(i))
    return tiles


def doubled(view: Any) -> None:
    nisa.tensor_scalar(view, view, nl.multiply, 2.0)


def test_what_is_finished_is_stored_before_the_next_takes_its_place() -> None:
    def body(out: Any) -> None:
        for i, each in enumerate(made(5)):
            nisa.dma_copy(out[i], each)

    assert moved(body) == 0


@pytest.mark.parametrize(("passes", "misses"), [(1, 1), (2, 2), (3, 4)])
def test_what_is_needed_last_makes_room_in_every_pass(passes: int, misses: int) -> None:
    """Of four tiles three have room. What is needed last goes: 2, then 1, then 0 and 3 in the last pass."""

    def body(out: Any) -> None:
        tiles = made(4)
        for _ in range(passes):
            for each in tiles:
                doubled(each)
        for i, each in enumerate(tiles):
            nisa.dma_copy(out[i], each)

    assert moved(body) == 2 * misses * BYTES


def test_what_was_only_loaded_is_loaded_again() -> None:
    def body(out: Any) -> None:
        tiles, total = [new() for _ in range(4)], new(1)
        for i, each in enumerate(tiles):
            nisa.dma_copy(each, out[i])
        for each in [*tiles, *tiles]:
            nisa.tensor_reduce(total, nl.add, each, axis=1)
        nisa.dma_copy(out[7][:, 0:1], total)

    assert moved(body) == 0


def test_only_the_parts_that_find_no_room_move() -> None:
    """Tiles that are used by halves: half a tile is too much."""
    half = SIZE // 8

    def body(out: Any) -> None:
        tiles, rest = made(3), new((ROOM - 3 * SIZE + SIZE // 2) // 4)
        for each in tiles:
            doubled(each[:, :half])
            doubled(each[:, half:])
        nisa.memset(rest, 0.0)
        doubled(rest)
        for i, each in enumerate(tiles):
            for start in (0, half):
                doubled(each[:, start : start + half])
            nisa.dma_copy(out[i], each)

    assert 0 < moved(body) <= BYTES


def test_a_copy_on_chip_by_dma_is_no_load() -> None:
    """What a transfer copied from another tile cannot be loaded again."""

    def body(out: Any) -> None:
        tiles = [new() for _ in range(4)]
        for i, each in enumerate(tiles):
            small = new(1)
            nisa.memset(small, float(i))
            nisa.dma_copy(each[:, 0:1], small)
            nisa.memset(each[:, 1:], 0.0)
        for i, each in enumerate(tiles):
            doubled(each)
            nisa.dma_copy(out[i], each)

    assert 2 * BYTES <= moved(body) <= 2 * BYTES + 4096

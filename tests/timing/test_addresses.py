"""Buffers at addresses: what is remembered of a place is enough, and no more than that is kept."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.timing.test_graph import end_of, graph_of
from tilewright.ir.core import Graph
from tilewright.target import get_target
from tilewright.tile.overlap import extent
from tilewright.timing.index import Shelves
from tilewright.timing.instance import Instance, Region
from tilewright.timing.replay import Replay
from tilewright.timing.stream import Stream


def attention(q, k, v):
    scores = np.exp(q @ k.T)
    return scores / scores.sum(axis=1, keepdims=True) @ v


def program() -> Graph:
    x = tw.spec((512, 64), "float32")
    return tw.compile(attention, x, x, x, target="trn2").tile_ir


@pytest.mark.parametrize("order", ["scheduled", "written"])
def test_what_is_forgotten_makes_no_difference(order: str, monkeypatch: pytest.MonkeyPatch):
    graph = program()
    forgetting = end_of(graph, order)
    monkeypatch.setattr(Instance, "_forget", lambda self, regions: None)
    assert end_of(graph, order) == forgetting


def test_a_memory_remembers_no_more_than_its_places():
    """Ten times as many trips: as many regions."""
    body = """for %i in 0..COUNT {
    %t = alloc f32[128, 512]@sbuf depth 2 address (0, 0)
    %e = alloc f32[128, 512]@sbuf depth 2 address (0, 4096)
    dma_copy %t, %x
    activation %e, %t {op = exp}
    dma_copy %y, %e
    }"""
    sizes = []
    for count in (10, 100):
        stream = Stream(get_target("trn2"), Replay(get_target("trn2")), by_line=False)
        stream.run(graph_of(body.replace("COUNT", str(count))))
        sizes.append({memory: len(each.regions) for memory, each in stream._addressed.items()})
    assert sizes[0] == sizes[1] and sum(sizes[0].values()) == 4


def test_copies_may_lie_apart():
    body = """for %i in 0..16 {
    %p = alloc f32[128, 64]@psum depth 2 address (0, 0APART)
    activation %p, %x_tile[:, 0 : +64] {op = exp}
    tensor_copy %x_tile[:, 64 : +64], %p
    }"""
    head = "%x_tile = alloc f32[128, 512]@sbuf address (0, 0)\ndma_copy %x_tile, %x\n"
    close = end_of(graph_of(head + body.replace("APART", "")))
    apart = end_of(graph_of(head + body.replace("APART", ", 2048")))
    # In one bank the engines may be in each other's way.
    assert apart <= close


def test_shelves_find_what_overlaps():
    rng = np.random.default_rng(0)
    shelves = Shelves()
    buffer = next(value for op in program().ops for value in op.results)
    made: dict[tuple[int, int], Region] = {}
    for _ in range(200):
        low = int(rng.integers(0, 4000))
        size = int(rng.integers(1, min(900, 4096 - low) + 1))
        if (low, size) in made:
            continue
        access = extent((0, 128, low, ((size, 1),), 1))
        near = {other for other, _ in shelves.near(access)}
        meeting = {each.extent for each in made.values() if access.meets(each.extent)}
        assert meeting <= near
        region = made[low, size] = Region(access, buffer)  # type: ignore[arg-type]
        shelves.regions[access] = region
        shelves.add(access, region)
    for region in made.values():
        shelves.remove(region.extent)
    assert not shelves.regions and not list(shelves.near(extent((0, 128, 0, ((4096, 1),), 1))))


def test_shelves_look_at_what_lies_about_an_access():
    """However many short accesses there are elsewhere, and beside long ones."""
    shelves = Shelves()
    buffer = next(value for op in program().ops for value in op.results)
    spans = [(low, 16) for low in range(0, 1 << 16, 16)] + [(0, 1 << 16), (1 << 15, 1 << 12)]
    for low, size in spans:
        access = extent((0, 128, low, ((size, 1),), 1))
        region = shelves.regions[access] = Region(access, buffer)  # type: ignore[arg-type]
        shelves.add(access, region)
    assert len(list(shelves.near(extent((0, 128, 4096, ((16, 1),), 1))))) <= 16
    assert len(list(shelves.near(extent((0, 128, 0, ((1 << 16, 1),), 1))))) == len(spans)

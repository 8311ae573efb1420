"""Addresses: what is alive at the same time lies apart, within the memory there is; results and older NKI."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from tests.emit.kit import load
from tilewright.ir.core import Graph
from tilewright.lower.order.placement import Request, greedy, place
from tilewright.lower.write.extents import extents
from tilewright.sim.run import run_graph
from tilewright.target import get_target
from tilewright.tile.lifetime import insert_deallocs
from tilewright.tile.memory import PSUM, SBUF
from tilewright.tile.text import parse_tile

TRN2 = get_target("trn2")
HAS_ORTOOLS = importlib.util.find_spec("ortools") is not None


def kernel(body: str) -> Graph:
    head = "kernel k(%x: f32[128, 4096]@hbm) -> (%y: f32[128, 4096]@shared_hbm) {\n"
    graph = parse_tile(head + "".join(f"  {line.strip()}\n" for line in body.strip().splitlines()) + "}\n")
    insert_deallocs(graph)
    return graph


def placed(body: str) -> dict[str, tuple[int, int, int]]:
    """(byte, copies, bytes from one copy to the next) of each buffer by name."""
    graph = kernel(body)
    assert place(graph, TRN2) is None
    check(graph)
    made: dict[str, tuple[int, int, int]] = {}
    for each in extents(graph.body.ops):
        buffer = each.buffer
        assert buffer.address is not None and buffer.name is not None
        made[buffer.name] = (buffer.address.byte, buffer.depth, buffer.address.apart or buffer.row_bytes)
    return made


def check(graph: Graph, target: str = "trn2") -> None:
    """Every address is legal, and no two buffers that are alive at once share a byte, by trying all pairs."""
    figures = get_target(target)
    rooms = {SBUF: figures["memory.sbuf_usable_bytes"], PSUM: figures["memory.psum_bytes"]}
    taken: list[tuple[Any, Any, range]] = []
    for each in extents(graph.body.ops):
        buffer, address = each.buffer, each.buffer.address
        assert address is not None and address.partition == 0 and buffer.depth >= 1
        bytes_ = range(address.byte, buffer.place_of(buffer.depth - 1).byte + buffer.row_bytes)
        assert bytes_.start >= 0 and bytes_.stop <= rooms[buffer.memory]
        if buffer.memory is PSUM:
            bank = figures["memory.psum_bank_bytes"]
            assert all(buffer.place_of(turn).byte % bank == 0 for turn in range(buffer.depth))
            bytes_ = range(bytes_.start, -(-bytes_.stop // bank) * bank)
        life = each.life if buffer.depth == 1 else each.loop
        for memory, other, others in taken:
            if memory is buffer.memory and other[0] <= life[1] and life[0] <= other[1]:
                assert bytes_.stop <= others.start or others.stop <= bytes_.start
        taken.append((buffer.memory, life, bytes_))


def use(name: str, columns: int) -> str:
    return f"%{name} = alloc f32[128, {columns}]@sbuf\ndma_copy %{name}, %x[:, 0 : +{columns}]\n"


def store(name: str, columns: int) -> str:
    return f"dma_copy %y[:, 0 : +{columns}], %{name}\n"


def test_what_has_room_gets_places_of_its_own():
    made = placed(use("a", 64) + store("a", 64) + use("b", 64) + store("b", 64))
    assert made == {"a": (0, 1, 256), "b": (256, 1, 256)}


def test_what_has_not_shares_the_place_that_was_left_longest_ago():
    names = [f"t{i}" for i in range(5)]
    body = "".join(
        f"%{name} = alloc f32[128, 20000]@sbuf\nmemset %{name} {{value = 0}}\ndma_copy %y, %{name}[:, 0 : +4096]\n"
        for name in names
    )
    made = placed(body)
    # Two find room; then they take turns.
    assert [made[name][0] for name in names] == [0, 80000, 0, 80000, 0]


def test_copies_of_a_loop_s_tile_follow_each_other():
    body = """for %i in 0..8 {
    %t = alloc f32[128, 512]@sbuf depth 3
    %p = alloc f32[128, 128]@psum depth 2
    dma_copy %t, %x[:, %i*512 : +512]
    activation %p, %t[:, 0 : +128] {op = exp}
    dma_copy %y[:, %i*512 : +128], %t[:, 0 : +128]
    }"""
    made = placed(body)
    assert made["t"] == (0, 3, 2048)
    # Banks that nothing else uses become further copies, while each is used more than once.
    assert made["p"] == (0, 4, 2048)


def test_no_more_copies_than_trips():
    body = "for %i in 0..2 {\n%t = alloc f32[128, 64]@sbuf depth 6\nmemset %t {value = 0}\n}"
    assert placed(body)["t"][1] == 2


def test_fewer_copies_rather_than_no_place():
    """Six copies and what is kept do not fit together, four do."""
    body = """%kept = alloc f32[128, 20000]@sbuf
    memset %kept {value = 0}
    for %i in 0..8 {
    %t = alloc f32[128, 8000]@sbuf depth 6
    memset %t {value = 0}
    dma_copy %y[:, 0 : +64], %kept[:, 0 : +64]
    }"""
    assert placed(body)["t"][1] == 4


def test_what_cannot_fit_is_said():
    body = use("a", 4096).replace("4096]@sbuf", "40000]@sbuf") + use("b", 4096).replace("4096]@sbuf", "40000]@sbuf")
    misfit = place(
        kernel(
            body.replace("%a, ", "%a[:, 0 : +4096], ").replace("%b, ", "%b[:, 0 : +4096], ")
            + store("a[:, 0 : +4096]", 4096)
            + store("b[:, 0 : +4096]", 4096)
        ),
        TRN2,
    )
    assert misfit is not None and "2 tiles in sbuf" in misfit


@st.composite
def requests(draw: st.DrawFn) -> list[Request]:
    made: list[Request] = []
    for _ in range(draw(st.integers(1, 24))):
        start = draw(st.integers(0, 40))
        life = (start, start + draw(st.integers(0, 12)))
        wide = (life[0] - draw(st.integers(0, 3)), life[1] + draw(st.integers(0, 3)))
        made.append(Request(draw(st.integers(1, 20)), life, wide))
    return made


@given(requests(), st.integers(20, 120))
def test_greedy_places_do_not_collide(asked: list[Request], room: int):
    collide_nowhere(asked, greedy(asked, room), room)


def collide_nowhere(asked: list[Request], places: list[int] | None, room: int) -> None:
    if places is None:
        assert sum(each.units for each in asked) > room
        return
    for i, (one, a) in enumerate(zip(asked, places, strict=True)):
        assert 0 <= a <= room - one.units
        for two, b in zip(asked[:i], places[:i], strict=True):
            apart = a + one.units <= b or b + two.units <= a
            assert apart or one.life[1] < two.life[0] or two.life[1] < one.life[0]


@pytest.mark.skipif(not HAS_ORTOOLS, reason="needs OR-tools")
def test_the_optimal_placement_finds_what_greedy_does_not():
    from tilewright.lower.order.placement_optimal import optimal_solver

    # A layout without a gap: every order that greedy knows leaves one.
    asked = [
        Request(units, life, life)
        for units, life in ((4, (0, 2)), (3, (0, 5)), (3, (3, 8)), (2, (3, 5)), (5, (6, 9)), (2, (6, 9)), (2, (0, 2)))
    ]
    room = 10
    best = optimal_solver()(asked, room)
    assert best is not None
    collide_nowhere(asked, best, room)
    x = np.random.default_rng(0).standard_normal((300, 200)).astype(np.float32)
    made = tw.compile(lambda x: np.exp(x) + x.sum(axis=1, keepdims=True), x, target="trn2", placement="optimal")
    check(made.tile_ir)


@pytest.mark.skipif(HAS_ORTOOLS, reason="without OR-tools")
def test_the_optimal_placement_is_refused_without_or_tools():
    with pytest.raises(tw.TileError, match="needs OR-tools") as caught:
        tw.compile(np.exp, np.ones(3, np.float32), placement="optimal")
    assert "tilewright[ortools]" in (caught.value.diagnostic.hint or "")


def test_names_of_placements():
    with pytest.raises(tw.TileError) as caught:
        tw.compile(np.exp, np.ones(3, np.float32), placement="best")
    assert caught.value.diagnostic.code == "E108" and "greedy, optimal" in (caught.value.diagnostic.hint or "")


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "biased": (lambda x, w, b: np.maximum(x @ w + b, np.float32(0)), ((200, 130), (130, 300), (300,))),
    "attention": (lambda q, k, v: softmax(q @ k.T) @ v, ((130, 32), (200, 32), (200, 48))),
    "residual": (lambda x, w: (x @ w) * x + x, ((128, 128), (128, 128))),
    "sums": (lambda x: x.sum(axis=0) + x.max(axis=0), ((300, 40),)),
}


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_for_an_older_nki_keep_its_rules(name: str, target: str):
    """R-engine-15: what is in PSUM is copied before anything is computed with it and another tensor."""
    function, shapes = PROGRAMS[name]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    made = tw.compile(function, *arrays, target=target, nki="0.3")
    check(made.tile_ir, target)
    assert name != "residual" or "drained" in str(made.tile_ir)
    inputs = [*arrays, *made.constants]
    (result,) = run_graph(made.tile_ir, inputs, target, "nki-0.3")
    np.testing.assert_allclose(result, function(*arrays), rtol=2e-5, atol=2e-5)
    run = tw.simulate(load(made.source, name), target=target, profile="nki-0.3")(*inputs)
    assert np.asarray(run).tobytes() == result.tobytes()
    assert made.report.latency_us == pytest.approx(
        tw.profile(load(made.source, name), *inputs, target=target, profile="nki-0.3").latency_us
    )

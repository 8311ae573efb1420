"""Accesses as source: evaluated by our own nki they are the same accesses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.emit.kit import NO_HEADER, load
from tilewright.emit import emit
from tilewright.emit.versions import get_api
from tilewright.emit.views import ViewWriter
from tilewright.errors import TileNotImplementedError
from tilewright.nki.kernel import run_kernel
from tilewright.sim.session import Options
from tilewright.target import get_target
from tilewright.tile.text import parse_tile
from tilewright.tile.view import View

SHAPES = Options(shapes=True)


def written(access: str, memory: str = "hbm", api: str | None = None) -> str:
    """How an access of %x, a tensor of [64, 4, 128], is written in a loop over %i."""
    text = f"""kernel k(%a: f32[4]@hbm) -> (%a: f32[4]@hbm) {{
  %x = alloc f32[64, 4, 128]@{memory}
  %rows = alloc i32[32, 1]@sbuf
  %one = alloc i32[1, 1]@sbuf
  %offsets = alloc i32[64, 4]@sbuf
  for %i in 0..4 {{
    dma_copy {access}, {access}
  }}
}}
"""
    graph = parse_tile(text)
    loop = graph.ops[-1]
    (index,) = loop.regions[0].arguments
    names = {op.result: op.result.name or "" for op in graph.ops[:-1]} | {index: "i"}
    view = loop.regions[0].ops[0].operands[0]
    return ViewWriter(get_api(api), names, {index: range(4)}).text(view)


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        ("%x", "x"),
        ("%x[:, 1 : +2, :]", "x[:, 1:3, :]"),
        ("%x[:, :, 0 : +64 : 2]", "x[:, :, 0:127:2]"),
        ("%x[%i*16 : +16, :, :]", "x[nl.ds(i * 16, 16), :, :]"),
        ("%x[%i*16 + 1 : +8 : 2, :, :]", "x[i * 16 + 1 : i * 16 + 16 : 2, :, :]"),
        ("%x@(%i*128; [512, 64], [1, 128])", "x[:, i, :]"),
        ("%x@(384 + %i*-128; [512, 64], [1, 128])", "x[:, 3 - i, :]"),
        ("%x@(0; [512, 64], [1, 512])", "x.reshape((64, 512))"),
        ("%x@(64; [512, 64], [1, 256])", "x.reshape((64, 512))[:, 64:320]"),
        ("%x@(0; [512, 64], [128, 4], [64, 2], [1, 64])", "x.reshape((64, 4, 2, 64))"),
        ("%x@(0; [512, 64], [1, 128], [128, 4])", "x.permute((0, 2, 1))"),
        ("%x@(0; [128, 4], [512, 64], [1, 128])", "x.permute((1, 0, 2))"),
        ("%x@(256; [512, 64], [0, 3], [1, 128])", "x[:, 2:3, :].broadcast(1, 3)"),
        ("%x@(0; [512, 64], [128, 4], [0, 3], [1, 128])", "x.expand_dim(2).broadcast(2, 3)"),
        ("%x@(0; [0, 128], [1, 128])", "x[0, 0:1, :].broadcast(0, 128)"),
        ("%x@(7; [1, 1])", "x[0, 0, 7:8]"),
        ("%x@(0; [512, 64], [1, 3], [1, 126])", "x.ap(pattern=[[512, 64], [1, 3], [1, 126]])"),
        ("%x@(127; [512, 64], [-1, 128])", "x.ap(pattern=[[512, 64], [-1, 128]], offset=127)"),
        ("%x@(%i*130; [512, 60], [1, 3])", "x[0:60, i, nl.ds(i * 2, 3)]"),
        ("%x@(%i*170; [512, 60], [1, 3])", "x.ap(pattern=[[512, 60], [1, 3]], offset=i * 170)"),
        ("%x@(0; [1024, 64], [256, 4], [1, 256]; bf16)", "x.view(nl.bfloat16)"),
        ("%x@(3; [1024, 64], [256, 4]; bf16)", "x.view(nl.bfloat16)[:, :, 3]"),
    ],
)
def test_accesses_of_tensors_in_hbm(access: str, expected: str) -> None:
    assert written(access) == expected


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        ("%x@(128; [512, 64], [1, 128])", "x[:, 1, :]"),
        ("%x@(%i*8192; [512, 16], [1, 512])", "x.reshape((64, 512))[nl.ds(i * 16, 16), :]"),
        ("%x@(5; [512, 64], [1, 1])", "x[:, 0, 5:6]"),
        ("%x@(512; [512, 1], [1, 128])", "x[1:2, 0, :]"),
        ("%x@(0; [512, 64], [1, 128], [128, 4])", "x.permute((0, 2, 1))"),
        ("%x@(0; [512, 64], [0, 16], [1, 128])", "x[:, 0:1, :].broadcast(1, 16)"),
    ],
)
def test_accesses_of_tiles(access: str, expected: str) -> None:
    assert written(access, "sbuf") == expected


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        ("%x@(0; [512, 64], [1, 512])", "x.reshape((64, 512))"),
        ("%x@(0; [512, 64], [1, 128], [128, 4])", "x.ap(pattern=[[512, 64], [1, 128], [128, 4]])"),
        ("%x@(256; [512, 64], [0, 3], [1, 128])", "x.ap(pattern=[[512, 64], [0, 3], [1, 128]], offset=256)"),
        ("%x@(0; [1024, 64], [1, 1024]; bf16)", "x.view(nl.bfloat16).reshape((64, 1024))"),
    ],
)
@pytest.mark.parametrize("api", ["0.3", "0.4"])
def test_before_nki_0_5_there_are_no_view_methods(access: str, expected: str, api: str) -> None:
    assert written(access, api=api) == expected


VECTOR = "%x@(0; [512, 32], [128, 4], [1, 128] by vector %rows * 512 < 64 dim 0)"
HALF = "%x@(64; [512, 32], [1, 64] by vector %rows * 512 < 64 dim 0)"
SPLIT = "%x@(0; [128, 32], [1, 128] by vector %rows * 128 < 256 dim 0)"
ONE = "%x@(0; [128, 4], [1, 128] by scalar %one * 512 < 64 dim 0)"
ALONG = "%x@(0; [512, 64], [1, 128] by scalar %one * 128 < 4 dim 1)"
WINDOW = "%x@(0; [512, 64], [1, 16] by scalar %one * 1 < 497 dim 2)"


@pytest.mark.parametrize(
    ("access", "memory", "new", "old"),
    [
        (
            VECTOR,
            "hbm",
            "x.vector_select(0, rows)",
            "x.ap(pattern=[[512, 32], [128, 4], [1, 128]], vector_offset=rows)",
        ),
        (
            HALF,
            "hbm",
            "x[:, 0, 64:128].vector_select(0, rows)",
            "x.ap(pattern=[[512, 32], [1, 64]], offset=64, vector_offset=rows)",
        ),
        (
            SPLIT,
            "hbm",
            "x.reshape((256, 128)).vector_select(0, rows)",
            "x.reshape((256, 128)).ap(pattern=[[128, 32], [1, 128]], vector_offset=rows)",
        ),
        (ONE, "hbm", "x.select(0, one)", "x.ap(pattern=[[128, 4], [1, 128]], scalar_offset=one)"),
        (ALONG, "sbuf", "x.select(1, one)", "x.ap(pattern=[[512, 64], [1, 128]], scalar_offset=one, indirect_dim=1)"),
        (WINDOW, "sbuf", *["x.ap(pattern=[[512, 64], [1, 16]], scalar_offset=one, indirect_dim=2)"] * 2),
    ],
)
def test_accesses_with_a_run_time_index(access: str, memory: str, new: str, old: str) -> None:
    assert written(access, memory) == new
    assert written(access, memory, "0.4") == old


def test_columns_by_offsets_of_a_tile() -> None:
    access = "%x@(0; [512, 64], [1, 32] by columns %offsets * 1 < 512 dim 1)"
    assert written(access, "sbuf") == "x.reshape((64, 512)).indirect(offsets, 32)"
    with pytest.raises(TileNotImplementedError, match=r"NKI 0\.4 has no way to write an access of x"):
        written(access, "sbuf", "0.4")


def test_choices_that_do_not_fill_the_tensor_need_a_slice() -> None:
    access = "%x@(0; [512, 32], [1, 128] by vector %rows * 512 < 10 dim 0)"
    assert written(access) == "x[0:10, 0, :].vector_select(0, rows)"
    with pytest.raises(TileNotImplementedError, match="10 choices, 512 elements apart"):
        written(access, api="0.3")


@st.composite
def accesses(draw: st.DrawFn) -> tuple[tuple[int, ...], str, int, list[tuple[int, int]], list[tuple[int, int]]]:
    """A tensor's shape, its memory, and an offset, loop factors and (step, count) pairs that stay inside of it."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 8]), min_size=2, max_size=4)))
    memory = draw(st.sampled_from(["hbm", "sbuf"]))
    row = int(np.prod(shape[1:])) if memory == "sbuf" else int(np.prod(shape))
    room = row - 1
    steps = [0, 1, 2, *itertools.accumulate(reversed(shape), lambda a, b: a * b), row // 2]
    pairs: list[tuple[int, int]] = []
    for _ in range(draw(st.integers(1, 4))):
        step = draw(st.sampled_from(steps))
        count = draw(st.integers(1, min(8, room // step + 1) if step else 3))
        room -= step * (count - 1)
        pairs.append((step, count))
    offset = draw(st.integers(0, room))
    factors: list[tuple[int, int]] = []
    for trips in draw(st.sampled_from([(), (2,), (3,), (2, 2)])):
        factor = draw(st.sampled_from([s for s in steps if s * (trips - 1) <= room - offset] or [0]))
        room -= factor * (trips - 1)
        factors.append((factor, trips))
    offset = min(offset, room)
    if memory == "sbuf":
        first = draw(st.integers(0, shape[0] - 1))
        pairs.insert(0, (row, draw(st.integers(1, shape[0] - first))))
        offset += first * row
    return shape, memory, offset, factors, pairs


@given(accesses(), st.sampled_from(["0.3", "0.6"]))
def test_any_access_is_written_so_that_nki_makes_it_again(access, api: str) -> None:
    shape, memory, offset, factors, pairs = access
    sizes = ", ".join(map(str, shape))
    loops = "".join(f"for %i{n} in 0..{trips} {{\n" for n, (_, trips) in enumerate(factors))
    start = " + ".join([*[f"%i{n}*{factor}" for n, (factor, _) in enumerate(factors)], str(offset)])
    view = f"%x@({start}; {', '.join(f'[{step}, {count}]' for step, count in pairs)})"
    text = f"""kernel k(%a: f32[{sizes}]@hbm) -> (%a: f32[{sizes}]@hbm) {{
  %x = alloc f32[{sizes}]@{memory}
  {loops}
  dma_copy {view}, {view}
  {"}" * len(factors)}
}}
"""
    graph = parse_tile(text)
    source = emit(graph, get_target("trn2"), NO_HEADER, api=api)
    made = run_kernel(load(source), [np.zeros(shape, np.float32)], {}, "trn2", "strict", SHAPES, collect=True)
    views = [op.operands[0] for op in made.session.graph.ops if op.name == "dma_copy"]
    starts = [sum(i * f for i, (f, _) in zip(at, factors, strict=True)) for at in _trips(factors)]
    assert [view.offset for view in views] == [offset + start for start in starts], source
    for view in views:
        assert view.sizes == tuple(count for _, count in pairs), source
        assert _steps(view) == tuple(step if count > 1 else 0 for step, count in pairs), source
    assert not [d for d in made.diagnostics if d.rule and d.rule.startswith("R-tensor.")], source


def _trips(factors: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    return list(itertools.product(*[range(trips) for _, trips in factors]))


def _steps(view: View) -> tuple[int, ...]:
    return tuple(step if size > 1 else 0 for size, step in zip(view.sizes, view.strides, strict=True))

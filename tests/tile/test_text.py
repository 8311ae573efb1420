"""Tile IR as text: round trips, running, verification, lifetimes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit import full_run, nisa, nl, np
from tilewright.dtypes import DTYPES
from tilewright.errors import TileError
from tilewright.ir.core import Graph, Op, Value
from tilewright.sim.run import run_graph
from tilewright.target import get_target
from tilewright.tile.lifetime import insert_deallocs
from tilewright.tile.memory import Address, Buffer, MemoryRegion
from tilewright.tile.ops import ALLOC, FOR, loop
from tilewright.tile.record import TABLE
from tilewright.tile.text import TILE, parse_tile
from tilewright.tile.verify import verify_graph
from tilewright.tile.view import Dynamic, View, row_major, whole

SCORES = """\
kernel scores(%q: f32[128, 64]@hbm, %k: f32[128, 2048]@hbm) -> (%out: f32[64, 2048]@hbm) {
  %qs = alloc f32[128, 64]@sbuf
  dma_copy %qs, %q
  for %i in 0..4 {
    %ks = alloc f32[128, 512]@sbuf depth 2
    dma_copy %ks, %k[:, %i*512 : +512]
    %p = alloc f32[64, 512]@psum depth 2
    nc_matmul %p, %qs, %ks
    %e = alloc f32[64, 512]@sbuf depth 2
    activation %e, %p {op = exp}
    dma_copy %out[:, %i*512 : +512], %e
  }
}
"""


def scores_arrays() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return (random.random((128, 64)) / 8).astype(np.float32), (random.random((128, 2048)) / 8).astype(np.float32)


@pytest.mark.req("S4-05")
def test_a_kernel_with_a_loop_round_trips() -> None:
    assert str(parse_tile(SCORES)) == SCORES


@pytest.mark.req("S4-11")
def test_loops_iterate_when_the_text_is_run() -> None:
    q, k = scores_arrays()
    (out,) = run_graph(parse_tile(SCORES), [q, k])
    np.testing.assert_allclose(out, np.exp(q.astype(np.float64).T @ k), rtol=1e-5)


@pytest.mark.req("S4-11")
def test_strided_parts_read_every_other_element() -> None:
    text = """\
kernel pick(%x: f32[8, 64]@hbm) -> (%y: f32[8, 16]@hbm) {
  %t = alloc f32[8, 64]@sbuf
  dma_copy %t, %x
  dma_copy %y, %t[:, 3 : +16 : 2]
}
"""
    x = np.arange(8 * 64, dtype=np.float32).reshape(8, 64)
    graph = parse_tile(text)
    assert str(graph) == text and verify_graph(graph) == []
    np.testing.assert_array_equal(run_graph(graph, [x])[0], x[:, 3:35:2])


def test_each_execution_of_an_allocation_starts_unwritten() -> None:
    text = """\
kernel twice(%x: f32[8, 8]@hbm) -> (%y: f32[2, 8, 8]@hbm) {
  for %i in 0..2 {
    %t = alloc f32[8, 8]@sbuf
    dma_copy %t[%i*4 : +4, :], %x[0 : +4, :]
    dma_copy %y[%i*1 : +1, :, :], %t
  }
}
"""
    with pytest.raises(TileError) as caught:
        run_graph(parse_tile(text), [np.ones((8, 8), np.float32)])
    assert caught.value.diagnostic.rule == "R-tensor-18"


@pytest.mark.req("S4-04")
def test_eager_and_recorded_streams_give_identical_arrays() -> None:
    """The same step executes both: an eager kernel, and the tile IR that it recorded, read back from text."""

    def kernel(a, b):
        out = nl.ndarray((128, 96), dtype=nl.float32, buffer=nl.shared_hbm)
        x = nl.ndarray((128, 96), dtype=nl.bfloat16, buffer=nl.sbuf)
        y = nl.ndarray((128, 96), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a)
        nisa.dma_copy(dst=y, src=b)
        for i in range(3):
            part = x[:, i * 32 : (i + 1) * 32]
            nisa.tensor_tensor(dst=part, data1=part, data2=y[:, i * 32 : (i + 1) * 32], op=nl.multiply)
            nisa.activation(dst=part, op=nl.exp, data=part, scale=0.25)
        nisa.dma_copy(dst=out, src=x)
        return out

    random = np.random.default_rng(1)
    a, b = (random.standard_normal((128, 96)).astype(nl.bfloat16) for _ in range(2))
    done = full_run(kernel, a, b)
    text = str(done.session.graph)
    graph = parse_tile(text)
    assert str(graph) == text
    np.testing.assert_array_equal(run_graph(graph, [a, b])[0], done.result)


# Property: any graph of allocations, loops and accesses prints to text that reads back to the same text.

DTYPE = st.sampled_from([dtype for dtype in DTYPES.values() if dtype.kind != "p"])
MEMORY = st.sampled_from(list(MemoryRegion))


@st.composite
def buffers(draw: st.DrawFn) -> Buffer:
    memory = draw(MEMORY)
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=2, max_size=4)))
    place = st.builds(Address, st.integers(0, 96), st.integers(0, 4096), st.sampled_from([0, 2048]))
    address = draw(st.none() | place)
    on_chip = memory in (MemoryRegion.sbuf, MemoryRegion.psum)
    return Buffer(
        draw(DTYPE),
        shape,
        memory,
        draw(st.sampled_from(["x", "y", None])),
        address if on_chip else None,
        draw(st.integers(1, 3)),
    )


@st.composite
def views(draw: st.DrawFn, buffer: Buffer, indices: list[Value]) -> View:
    base = row_major(buffer.shape)
    kind = draw(st.sampled_from(["whole", "parts", "pattern"]))
    if kind == "whole":
        return whole(buffer)
    terms = tuple((index, draw(st.integers(1, 70))) for index in indices if draw(st.booleans()))
    if kind == "parts":
        steps = [draw(st.integers(1, 3)) for _ in base]
        sizes = tuple(draw(st.integers(1, size)) for size in buffer.shape)
        offset = sum(draw(st.integers(0, size - 1)) * stride for size, stride in zip(buffer.shape, base, strict=True))
        return View(buffer, buffer.dtype, offset, sizes, tuple(s * b for s, b in zip(steps, base, strict=True)), terms)
    count = draw(st.integers(1, 5))
    dtype = draw(DTYPE)
    if buffer.row_bytes % dtype.itemsize:
        dtype = buffer.dtype
    dynamic = None
    if draw(st.booleans()):
        kinds = ["scalar", "vector", "columns"] if buffer.on_chip and count == 2 else ["scalar", "vector"]
        dynamic = Dynamic(draw(st.sampled_from(kinds)), whole(buffer), draw(st.integers(-3, 50)), 7, 1)
    sizes = tuple(draw(st.integers(1, 9)) for _ in range(count))
    strides = tuple(draw(st.integers(-5, 90)) for _ in range(count))
    return View(buffer, dtype, draw(st.integers(0, 500)), sizes, strides, terms, dynamic)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    inputs = [Buffer(DTYPES["float32"], (4, 8), MemoryRegion.private_hbm, f"a{i}") for i in range(2)]
    graph = Graph("random", inputs, dialect=TILE)
    region, indices, known = graph.body, [], list(inputs)
    for _ in range(draw(st.integers(1, 8))):
        what = draw(st.sampled_from(["alloc", "copy", "add", "loop"]))
        if what == "loop" and len(indices) < 3:
            op, index = loop(draw(st.integers(1, 5)), step=draw(st.integers(1, 2)))
            region.append(op)
            region = op.regions[0]
            indices.append(index)
        elif what == "alloc":
            buffer = draw(buffers())
            region.append(Op(ALLOC, (), (buffer,)))
            known.append(buffer)
        else:
            record = TABLE["dma_copy" if what == "copy" else "tensor_tensor"]
            operands = [draw(views(draw(st.sampled_from(known)), indices)) for _ in record.operands]
            attrs = dict(record.defaults)
            if "op" in record.attrs:
                attrs["op"] = draw(st.sampled_from(["add", "maximum"]))
            region.append(Op(record, operands, (), {name: attrs[name] for name in record.attrs}))
    return graph


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_text_round_trips(graph: Graph) -> None:
    text = str(graph)
    again = parse_tile(text)
    assert str(again) == text
    assert [op.name for op in again.ops] == [op.name for op in graph.ops]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_view_reads_back_as_the_same_access(data: st.DataObject) -> None:
    buffer = data.draw(buffers())
    buffer = Buffer(buffer.dtype, buffer.shape, MemoryRegion.private_hbm, "b")
    graph = Graph("one", [buffer], dialect=TILE)
    op, index = loop(3)
    view = data.draw(views(buffer, [index]))
    record = TABLE["dma_copy"]
    op.regions[0].append(Op(record, (view, view), (), dict(record.defaults)))
    graph.append(op)
    again = parse_tile(str(graph)).ops[0]
    assert again.definition is FOR
    read = again.regions[0].ops[0].operands[0]
    assert (read.offset, read.sizes, read.strides, read.dtype) == (view.offset, view.sizes, view.strides, view.dtype)
    assert [factor for _, factor in read.terms] == [factor for _, factor in view.terms]
    assert (read.dynamic is None) == (view.dynamic is None)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("f32[128, 64]@hbm", "f99[128, 64]@hbm", "f99"),
        ("@sbuf", "@disk", "disk"),
        ("{op = exp}", "{pop = exp}", "pop"),
        ("{op = exp}", "", "needs the attribute op"),
        ("%k[:, %i*512 : +512]", "%k[%i*512 : +512]", "1 parts"),
        ("%k[:, %i*512 : +512]", "%k[:, %i*512 : +0]", "positive"),
        ("nc_matmul %p, %qs, %ks", "nc_matmul %p, %qs, 3", "moving"),
        ("nc_matmul %p, %qs, %ks", "nc_matmul %p, %qs, %ks, %ks", "takes 3 operands"),
        ("dma_copy %qs, %q", "%r = dma_copy %qs, %q", "no result"),
        ("dma_copy %qs, %q", "dma_cpy %qs, %q", "dma_copy"),
    ],
)
def test_text_that_cannot_be_read_is_refused_with_its_line(old: str, new: str, words: str) -> None:
    with pytest.raises(TileError) as caught:
        parse_tile(SCORES.replace(old, new, 1), file="scores.ir")
    assert words in str(caught.value)
    location = caught.value.diagnostic.location
    assert location is not None and location.file == "scores.ir"


# Verification.


def rules(text: str, target: str = "trn2") -> list[str | None]:
    return [diagnostic.rule for diagnostic in verify_graph(parse_tile(text), target)]


@pytest.mark.req("S4-13")
def test_a_loop_that_walks_past_the_tensor_is_found_without_running() -> None:
    assert rules(SCORES) == []
    assert set(rules(SCORES.replace("0..4", "0..5"))) == {"R-tensor.index-01"}


def test_an_access_that_crosses_a_partition_is_found() -> None:
    text = """\
kernel cross(%x: f32[8, 8]@hbm) {
  %t = alloc f32[8, 64]@sbuf
  dma_copy %t@(60; [64, 4], [1, 16]), %x
}
"""
    assert "R-tensor.ap-03" in rules(text)


@pytest.mark.req("S4-09")
@pytest.mark.parametrize(("shape", "rule"), [("[129, 4]", "R-tensor-01"), ("[64]", "R-tensor-02")])
def test_the_verifier_rejects_tiles_that_no_memory_holds(shape: str, rule: str) -> None:
    text = f"kernel big() {{\n  %t = alloc f32{shape}@sbuf\n}}\n"
    assert rules(text) == [rule]


@pytest.mark.req("S4-08")
def test_an_operand_in_the_wrong_memory_is_rejected() -> None:
    assert "R-nc_matmul-01" in rules(
        SCORES.replace("alloc f32[64, 512]@psum depth 2", "alloc f32[64, 512]@sbuf depth 2")
    )


@pytest.mark.req("S4-10")
def test_use_after_free_double_free_and_leaks_are_found() -> None:
    graph = parse_tile(SCORES)
    insert_deallocs(graph)
    assert verify_graph(graph) == []
    text = str(graph)
    assert any(
        "after it was freed" in d.message
        for d in verify_graph(
            parse_tile(text.replace("    dealloc %ks\n", "").replace("    nc_matmul", "    dealloc %ks\n    nc_matmul"))
        )
    )
    assert any(
        "freed twice" in d.message
        for d in verify_graph(parse_tile(text.replace("  dealloc %qs\n", "  dealloc %qs\n  dealloc %qs\n")))
    )
    assert [d.code for d in verify_graph(parse_tile(text.replace("  dealloc %qs\n", "")))] == ["W303"]


@pytest.mark.req("S4-14")
def test_deallocs_follow_the_last_use_and_the_kernel_still_runs() -> None:
    graph = parse_tile(SCORES)
    insert_deallocs(graph)
    q, k = scores_arrays()
    np.testing.assert_array_equal(run_graph(graph, [q, k])[0], run_graph(parse_tile(SCORES), [q, k])[0])
    assert str(graph).index("dealloc %qs") > str(graph).rindex("}", 0, len(str(graph)) - 3)


SIXTEEN = """\
kernel sixteen(%x: f32[128, 64]@hbm) -> (%y: f32[128, 16]@shared_hbm) {
  %data = alloc f32[128, 64]@sbuf
  dma_copy %data, %x
  %first = alloc f32[128, 8]@sbuf
  max8 %first, %data
  %places = alloc u32[128, 8]@sbuf
  nc_match_replace8 %data, %places, %data, %first {imm = -1e+30}
  %second = alloc f32[128, 8]@sbuf
  max8 %second, %data
  dma_copy %y[:, 0 : +8], %first
  dma_copy %y[:, 8 : +8], %second
}
"""


@pytest.mark.req("S4-14")
def test_what_an_instruction_overwrites_lives_on() -> None:
    """nc_match_replace8 gives places and writes into its own input, which the second search reads."""
    graph = parse_tile(SIXTEEN)
    insert_deallocs(graph)
    assert verify_graph(graph) == []
    x = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)
    np.testing.assert_array_equal(run_graph(graph, [x])[0], -np.sort(-x, axis=1)[:, :16])
    # A rule that takes the overwritten input for dead frees it before the second search.
    lines = str(graph).splitlines(keepends=True)
    freed = next(line for line in lines if line.strip() == "dealloc %data")
    lines.remove(freed)
    lines.insert(1 + next(i for i, line in enumerate(lines) if "nc_match_replace8" in line), freed)
    mutant = parse_tile("".join(lines))
    assert any("freed" in found.message for found in verify_graph(mutant))
    with pytest.raises(TileError, match="freed"):
        run_graph(mutant, [x])


@pytest.mark.rule("R-tensor.index-04", "reject")
def test_partitions_of_an_access_follow_each_other() -> None:
    """Also where a kernel is read from text; a buffer whose rows happen to be as long as the step does not hide it."""
    text = """kernel steps(%x: f32[128, 8]@hbm) -> (%out: f32[3, 8]@shared_hbm) {
  %other = alloc f32[128, 320]@sbuf
  memset %other {value = 0.0}
  dma_copy %out, %other[0 : +3, 0 : +8]
  %t = alloc f32[128, 8]@sbuf
  dma_copy %t, %x
  dma_copy %out, %t[0 : +3 : 40, :]
}
"""
    graph = parse_tile(text)
    assert [found.rule for found in verify_graph(graph, "trn2")] == ["R-tensor.index-04"]
    with pytest.raises(TileError, match="consecutive"):
        run_graph(graph, [np.zeros((128, 8), np.float32)], get_target("trn2"))
    assert verify_graph(parse_tile(text.replace("+3 : 40", "+3")), "trn2") == []

"""What the compiler may leave out: repeated loads while a copy is or could be on chip, chains of copies."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
from tests.kit import nisa, nl
from tilewright.sim.run import run_graph
from tilewright.target import get_target
from tilewright.tile.text import parse_tile
from tilewright.timing.chains import chains
from tilewright.timing.merge import COPY, LOAD, ZEROING, Merged
from tilewright.timing.replay import Replay
from tilewright.timing.stream import Stream

SHAPE = tw.spec((128, 2048), "float32")


def tile(a, dtype=None):
    return nl.ndarray((128, 512), dtype=dtype or a.dtype, buffer=nl.sbuf)


def loads(a, out, starts: list[int], use: Callable, same_tile: bool = False) -> None:
    """Load columns from each start in turn, use them, store them side by side."""
    kept = tile(a) if same_tile else None
    for number, start in enumerate(starts):
        x = tile(a) if kept is None else kept
        nisa.dma_copy(dst=x, src=a[:, start : start + 512])
        y = tile(a)
        use(y, x)
        nisa.dma_copy(dst=out[:, number * 512 : number * 512 + 512], src=y)


def square(y, x) -> None:
    nisa.tensor_tensor(dst=y, data1=x, data2=x, op=nl.multiply)


def removed(kernel: Callable, target: str = "trn2") -> dict[str, int]:
    """How many of each kind may be left out."""
    report = tw.profile(kernel, SHAPE, target=target)
    found: dict[str, int] = {}
    for each in report.removable:
        found[each.what] = found.get(each.what, 0) + each.executed
    assert report.removable_transfers == found.get(LOAD, 0)
    assert bool(found) == bool(report.removable)
    if not found:
        assert report.latency_if_merged_us == report.latency_us
    return found


def repeating(starts: list[int], **options) -> Callable:
    def kernel(a):
        out = nl.ndarray((128, 512 * len(starts)), dtype=a.dtype, buffer=nl.shared_hbm)
        loads(a, out, starts, options.get("use", square), options.get("same_tile", False))
        return out

    return kernel


def doubled(y, x) -> None:
    """Changes what was loaded."""
    nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=2.0)
    square(y, x)


@pytest.mark.parametrize(
    ("starts", "options", "count"),
    [
        ([0, 512, 1024, 1536], {}, 0),
        ([0, 512, 0, 512], {}, 2),
        ([0, 0, 0, 0], {}, 3),
        # Half of another part is another part.
        ([0, 256, 512, 768], {}, 0),
        # One tile for all: the next load overwrites it, an equal one does not.
        ([0, 512, 0, 512], {"same_tile": True}, 0),
        ([0, 0, 512, 512], {"same_tile": True}, 2),
        # What is changed on chip is not a copy.
        ([0, 0], {"use": doubled}, 0),
    ],
)
def test_repeated_loads(starts: list[int], options: dict, count: int):
    assert removed(repeating(starts, **options)) == ({LOAD: count} if count else {})


def test_lines_bytes_and_both_latencies():
    report = tw.profile(repeating([0] * 8), SHAPE, target="trn2")
    (found,) = report.removable
    assert (found.what, found.instruction, found.executed, found.bytes) == (LOAD, "dma_copy", 7, 7 * 128 * 512 * 4)
    assert found.line == found.other and found.line is not None and found.line.file == __file__
    assert report.removable_bytes == found.bytes
    assert report.latency_if_merged_us < report.latency_us
    document = report.to_dict()
    assert document["removable"][0]["line"] == {"file": __file__, "line": found.line.line}
    assert document["latency_if_merged_us"] == report.latency_if_merged_us
    text = str(report)
    assert "what the compiler may leave out" in text and "7 x dma_copy" in text


def test_a_store_between_makes_it_another_load():
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        scratch = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.hbm)
        for start in (0, 512):
            x, y = tile(a), tile(a)
            nisa.dma_copy(dst=x, src=a[:, start : start + 512])
            nisa.dma_copy(dst=scratch, src=x)
            for _ in range(2):
                nisa.dma_copy(dst=y, src=scratch)
            nisa.dma_copy(dst=out[:, start : start + 512], src=y)
        nisa.dma_copy(dst=out[:, 1024:], src=a[:, 1024:])
        return out

    # In each round the second load of the scratch tensor, not the first.
    assert removed(kernel) == {LOAD: 2}


def test_room_decides_how_long_a_dead_copy_stays():
    """All of the tensor is read twice. With less SBUF than it needs, the oldest have made way when it comes again."""

    def kernel(a):
        out = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
        total = tile(a)
        nisa.memset(total, value=0.0)
        for start in (0, 512, 1024, 1536) * 2:
            x = tile(a)
            nisa.dma_copy(dst=x, src=a[:, start : start + 512])
            nisa.tensor_tensor(dst=total, data1=total, data2=x, op=nl.add)
        nisa.dma_copy(dst=out, src=total)
        return out

    tight = get_target("trn2").replace({"memory.sbuf_usable_bytes": 5 * 2048})
    assert removed(kernel) == {LOAD: 4}
    assert tw.profile(kernel, SHAPE, target=tight).removable == ()


def test_other_forms_are_other_loads():
    def kernel(a):
        out = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
        x, y, z = tile(a), tile(a, nl.bfloat16), tile(a)
        nisa.dma_copy(dst=x, src=a[:, :512])
        nisa.dma_copy(dst=y, src=a[:, :512])
        nisa.dma_copy(dst=z[0:64, :], src=a[0:64, :512])
        nisa.dma_copy(dst=z[64:128, :], src=a[0:64, :512])
        nisa.tensor_tensor(dst=x, data1=y, data2=z, op=nl.add)
        nisa.dma_copy(dst=out, src=x)
        return out

    assert removed(kernel) == {}


LOOP = """\
kernel loop(%x: f32[128, 512]@hbm) -> (%y: f32[128, COLUMNS]@hbm) {
  for %i in 0..COUNT {
    %t = alloc f32[128, 512]@sbuf depth 2
    %e = alloc f32[128, 512]@sbuf depth 2
    dma_copy %t, %x
    activation %e, %t {op = exp}
    dma_copy %y[:, %i*512 : +512], %e
  }
}
"""


def merged_of(text: str, order: str = "scheduled") -> Merged:
    graph = parse_tile(text)
    target = get_target("trn2")
    merged = Merged(target, order)
    merged.find(graph)
    merged.run(graph)
    return merged


@pytest.mark.parametrize("order", ["scheduled", "written"])
def test_loops(order: str):
    text = LOOP.replace("COUNT", "50").replace("COLUMNS", str(50 * 512))
    merged = merged_of(text, order)
    (found,) = merged.removed()
    assert (found.executed, merged.replay.instructions) == (49, 101)
    replay = Replay(get_target("trn2"), order)
    Stream(get_target("trn2"), replay).run(parse_tile(text))
    assert merged.replay.end < replay.end


def test_what_has_an_address_stays():
    text = LOOP.replace("COUNT", "5").replace("COLUMNS", str(5 * 512))
    placed = text.replace("%t = alloc f32[128, 512]@sbuf depth 2", "%t = alloc f32[128, 512]@sbuf address (0, 0)")
    assert merged_of(text).removed() and not merged_of(placed).removed()


def test_memory_does_not_grow_with_trips():
    peaks = []
    for count in (2_000, 6_000):
        gc.collect()
        tracemalloc.start()
        assert merged_of(LOOP.replace("COUNT", str(count)).replace("COLUMNS", str(count * 512))).removed()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


COPIES = """\
kernel copies(%x: f32[128, 512]@hbm) -> (%y: f32[128, 512]@hbm) {
  %a = alloc f32[128, 512]@sbuf
  %b = alloc BTYPE[128, 512]@sbuf
  %c = alloc f32[128, 512]@sbuf
  dma_copy %a, %x
  activation %a, %a {op = exp}
  tensor_copy %b, %a
  BETWEEN
  tensor_copy %c, %b
  activation %c, %c {op = exp}
  dma_copy %y, %c
}
"""


@pytest.mark.parametrize(
    ("between", "btype", "count"),
    [
        ("", "f32", 1),
        # a changes, b is used again, b is rounded on the way.
        ("memset %a {value = 0}", "f32", 0),
        ("activation %c, %b {op = exp}", "f32", 0),
        ("", "bf16", 0),
    ],
)
def test_copies_of_copies(between: str, btype: str, count: int):
    text = COPIES.replace("BETWEEN", between).replace("BTYPE", btype)
    merged = merged_of(text)
    assert [(each.what, each.instruction, each.executed) for each in merged.removed()] == [
        (COPY, "tensor_copy", 1)
    ] * count
    plain = Replay(get_target("trn2"))
    Stream(get_target("trn2"), plain).run(parse_tile(text))
    assert plain.instructions - merged.replay.instructions == count


CHAINS = {
    # A load and a copy are one load; copies of a copy are one; a copy and a store are one store.
    "load, copy": ("dma_copy %a, %x\n  tensor_copy %b, %a\n  activation %c, %b {op = exp}\n  dma_copy %y, %c", 1),
    "three copies": (
        "dma_copy %e, %x\n  activation %a, %e {op = exp}\n  tensor_copy %b, %a\n  tensor_copy %c, %b\n"
        "  tensor_copy %d, %c\n  activation %f, %d {op = exp}\n  dma_copy %y, %f",
        2,
    ),
    "copy, store": ("dma_copy %a, %x\n  activation %b, %a {op = exp}\n  tensor_copy %c, %b\n  dma_copy %y, %c", 1),
    # By way of PSUM, and through the chip from HBM to HBM, as it is meant.
    "psum": ("dma_copy %a, %x\n  activation %p, %a {op = exp}\n  tensor_copy %b, %p\n  dma_copy %y, %b", 0),
    "through": ("dma_copy %a, %x\n  dma_copy %y, %a", 0),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains(name: str):
    body, count = CHAINS[name]
    buffers = "".join(f"  %{each} = alloc f32[128, 512]@sbuf\n" for each in "abcdef")
    head = "kernel chain(%x: f32[128, 512]@hbm) -> (%y: f32[128, 512]@hbm) {\n"
    text = f"{head}{buffers}  %p = alloc f32[128, 512]@psum\n  {body}\n}}\n"
    graph = parse_tile(text)
    found = chains(graph, get_target("trn2"))
    assert len(found) == count
    merged = merged_of(text)
    assert sum(each.executed for each in merged.removed()) == count
    # The merged program computes the same.
    x = np.random.default_rng(0).standard_normal((128, 512), dtype=np.float32)
    expected = run_graph(graph, [x], "trn2")
    gone = {op for chain in found.values() for op in (chain.first, chain.second)}
    for chain in found.values():
        if not any(other.first is chain.second for other in found.values()):
            graph.body.insert_after(chain.second, chain.merged)
    for op in gone:
        op.erase()
    assert len(graph.body) == len(parse_tile(text).body) - count
    np.testing.assert_array_equal(run_graph(graph, [x], "trn2"), expected)


ZEROED = """\
kernel products(%x: f32[128, 128]@hbm) -> (%y: f32[128, 512]@hbm) {
  %a = alloc f32[128, 128]@sbuf
  %b = alloc f32[128, 512]@sbuf
  dma_copy %a, %x
  memset %b {value = 0}
  for %i in 0..8 {
    %p = alloc f32[128, 512]@psum depth 2
    %c = alloc f32[128, 512]@sbuf depth 8
    FILL
    nc_matmul %p, %a, %b
    nc_matmul %p, %a, %b
    tensor_copy %c, %p
  }
}
"""


@pytest.mark.parametrize(
    ("fill", "count"),
    [
        ("memset %p {value = 0}", 8),
        ("memset %p {value = 1}", 0),
        # Only a part, or read in between.
        ("memset %p[:, 0 : +256] {value = 0}", 0),
        ("memset %p {value = 0}\n    tensor_copy %c, %p", 0),
        ("memset %c {value = 0}", 0),
    ],
)
def test_zeroing_before_products(fill: str, count: int):
    text = ZEROED.replace("FILL", fill)
    found = merged_of(text).removed()
    assert [(each.what, each.instruction, each.executed) for each in found] == [(ZEROING, "memset", 8)] * (count > 0)
    if count:
        assert merged_of(text).replay.end == merged_of(text.replace(f"    {fill}\n", "")).replay.end

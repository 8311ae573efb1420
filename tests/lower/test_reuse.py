"""Which tiles share storage: small kernels before and after the pass, and random ones that must not change."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check
from tilewright.dtypes import float32
from tilewright.ir.core import Graph
from tilewright.ir.walk import walk
from tilewright.lower.order.reuse import reuse
from tilewright.lower.write.builder import TileBuilder
from tilewright.lower.write.views import At, sliced
from tilewright.sim.run import run_graph
from tilewright.target import get_target
from tilewright.tile.memory import Buffer
from tilewright.tile.ops import ALLOC
from tilewright.tile.text import parse_tile
from tilewright.tile.view import View

KERNEL = """kernel k(%x: f32[8, 8]@hbm) -> (%out: f32[8, 8]@shared_hbm) {{
  %a = alloc f32[8, 8]@sbuf
  dma_copy %a, %x
  %b = alloc f32[8, 8]@sbuf
{body}
  dma_copy %out, %b
}}
"""

# Body -> whether b may take the place of a.
BODIES = {
    "element for element": ("tensor_scalar %b, %a, 2.0 {op0 = multiply}", True),
    "the operand twice": ("tensor_tensor %b, %a, %a {op = multiply}", True),
    "in two parts": (
        """tensor_scalar %b[:, 0 : +4], %a[:, 0 : +4], 2.0 {op0 = multiply}
  tensor_scalar %b[:, 4 : +4], %a[:, 4 : +4], 2.0 {op0 = multiply, engine = scalar}""",
        True,
    ),
    "a part is read again": (
        """tensor_scalar %b, %a, 2.0 {op0 = multiply}
  tensor_tensor %b[:, 4 : +4], %b[:, 4 : +4], %a[:, 4 : +4] {op = add}""",
        False,
    ),
    "another part is read again": (
        """tensor_scalar %b[:, 0 : +4], %a[:, 0 : +4], 2.0 {op0 = multiply}
  tensor_tensor %b[:, 4 : +4], %a[:, 4 : +4], %a[:, 4 : +4] {op = add}""",
        True,
    ),
    "a part is read shifted": (
        """tensor_scalar %b[:, 0 : +4], %a[:, 0 : +4], 2.0 {op0 = multiply}
  tensor_scalar %b[:, 4 : +4], %a[:, 3 : +4], 2.0 {op0 = multiply}""",
        False,
    ),
    "read in another order": ("tensor_tensor %b, %a, %a[:, 7 : +8 : -1] {op = add}", False),
    "a column of it is a scalar": ("tensor_scalar %b, %a, %a[:, 0 : +1] {op0 = add}", False),
    "fewer elements": (
        """tensor_scalar %b[:, 0 : +7], %a[:, 0 : +7], 2.0 {op0 = multiply}
  memset %b[:, 7 : +1] {value = 0.0}
  tensor_scalar %b[:, 7 : +1], %a[:, 7 : +1], 2.0 {op0 = multiply}""",
        False,
    ),
    "piece by piece": (
        "for %i in 0..4 {\n    tensor_scalar %b[:, %i*2 : +2], %a[:, %i*2 : +2], 2.0 {op0 = multiply}\n  }",
        True,
    ),
    "row by row of one column": (
        "for %i in 0..8 {\n    tensor_scalar %b[:, %i : +1], %a[:, %i : +1], 2.0 {op0 = multiply}\n  }",
        True,
    ),
    "pieces that overlap": (
        "for %i in 0..7 {\n    tensor_scalar %b[:, %i : +2], %a[:, %i : +2], 2.0 {op0 = multiply}\n  }",
        False,
    ),
    "pieces that are read by the next trip": (
        """tensor_copy %b, %a
  for %i in 0..7 {
    tensor_scalar %b[:, %i + 1 : +1], %a[:, %i : +1], 2.0 {op0 = multiply}
  }""",
        False,
    ),
    "all of it in every trip": (
        "for %i in 0..2 {\n    tensor_scalar %b, %a, 2.0 {op0 = multiply}\n  }",
        False,
    ),
    "two steps in every trip": (
        """for %i in 0..4 {
    tensor_scalar %b[:, %i*2 : +2], %a[:, %i*2 : +2], 2.0 {op0 = multiply}
    tensor_tensor %b[:, %i*2 : +2], %b[:, %i*2 : +2], %b[:, %i*2 : +2] {op = add}
  }""",
        True,
    ),
    "parts that are read first, in two loops": (
        """for %i in 0..2 {
    for %j in 0..2 {
      dma_copy %out[:, %i*4 + %j*2 + 1 : +1], %a[:, %i*4 + %j*2 + 1 : +1]
      tensor_scalar %b[:, %i*4 + %j*2 : +2], %a[:, %i*4 + %j*2 : +2], 2.0 {op0 = multiply}
    }
  }""",
        True,
    ),
    "parts of the trip before that are read first": (
        """for %i in 0..3 {
    dma_copy %out[:, %i*2 + 1 : +1], %a[:, %i*2 + 1 : +1]
    tensor_scalar %b[:, %i*2 + 2 : +2], %a[:, %i*2 + 2 : +2], 2.0 {op0 = multiply}
  }""",
        False,
    ),
    "rows in every trip": (
        "for %i in 0..4 {\n    tensor_scalar %b[%i*2 : +2, :], %a[%i*2 : +2, :], 2.0 {op0 = multiply}\n  }",
        True,
    ),
    "a loop of one trip": (
        """for %i in 0..1 {
    dma_copy %out[:, %i*2 + 1 : +1], %a[:, %i*2 + 1 : +1]
    tensor_scalar %b, %a, 2.0 {op0 = multiply}
  }""",
        True,
    ),
    "read where a register says": (
        """%r = register {factors = (), offset = 3} : register
  tensor_scalar %b[:, 0 : +4], %a[:, 0 : +4], 2.0 {op0 = multiply}
  tensor_copy %b[:, 4 : +4], %a@(0; [8, 8], [1, 4] by scalar %r * 1 < 5 dim 1)""",
        False,
    ),
    "read at the same place, shifted by a register": (
        """%r = register {factors = (), offset = 1} : register
  tensor_scalar %b[:, 0 : +7], %a@(0; [8, 8], [1, 7] by scalar %r * 1 < 2 dim 1), 2.0 {op0 = multiply}
  memset %b[:, 7 : +1] {value = 0.0}""",
        False,
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_small_kernels(name: str):
    body, shares = BODIES[name]
    graph = parse_tile(KERNEL.replace("dma_copy %a, %x", "memset %a {{value = 1.0}}").format(body="  " + body))
    (a, b) = (op.result for op in graph.ops if op.definition is ALLOC)
    gone = reuse(graph.ops, set())
    assert gone == ([b] if shares else []), str(graph)
    assert {view.buffer for op in walk(graph.body) for view in op.operands if isinstance(view, View)} >= {a}


def test_a_loaded_tile_is_left_piece_by_piece():
    """The next one is loaded while the pieces are computed with."""
    graph = parse_tile(KERNEL.format(body="  " + BODIES["piece by piece"][0]))
    assert reuse(graph.ops, set()) == []


def test_a_tile_that_is_needed_later_keeps_its_place():
    graph = parse_tile(KERNEL.format(body="  " + BODIES["element for element"][0]))
    for position in (0, 1):
        kept = [op.result for op in graph.ops if op.definition is ALLOC][position]
        assert isinstance(kept, Buffer)
        assert reuse(graph.ops, {kept}) == []


def test_what_is_copied_into_its_own_place_is_not_copied():
    graph = parse_tile(KERNEL.format(body="  tensor_copy %b, %a"))
    reuse(graph.ops, set())
    assert [op.name for op in graph.ops if op.definition is not ALLOC] == ["dma_copy", "dma_copy"]


def test_chains_share_one_tile():
    steps = [
        f"  %t{i} = alloc f32[8, 8]@sbuf\n  tensor_scalar %t{i}, %{'a' if i == 0 else f't{i - 1}'}, 2.0 {{op0 = add}}"
        for i in range(5)
    ]
    graph = parse_tile(KERNEL.format(body="\n".join(steps) + "\n  tensor_scalar %b, %t4, 1.0 {op0 = add}"))
    # The tile of the result stands before the others, but is written last.
    assert len(reuse(graph.ops, set())) == 6
    (result,) = run_graph(graph, [np.zeros((8, 8), np.float32)], get_target("trn2"))
    assert (result == 11).all()


def test_trips_have_tiles_of_their_own():
    text = """kernel k(%x: f32[32, 8]@hbm) -> (%out: f32[32, 8]@shared_hbm) {
  for %i in 0..4 {
    %a = alloc f32[8, 8]@sbuf depth 2
    dma_copy %a, %x[%i*8 : +8, :]
    %b = alloc f32[8, 8]@sbuf depth 3
    tensor_scalar %b, %a, 2.0 {op0 = multiply}
    dma_copy %out[%i*8 : +8, :], %b
  }
}
"""
    graph = parse_tile(text)
    (gone,) = reuse(graph.ops, set())
    (left,) = (op.result for op in walk(graph.body) if op.definition is ALLOC)
    assert isinstance(left, Buffer) and gone.depth == left.depth == 3
    x = np.arange(256, dtype=np.float32).reshape(32, 8)
    assert np.array_equal(run_graph(graph, [x], get_target("trn2"))[0], 2 * x)


WIDTH = 12


def random_kernel(seed: int) -> Graph:
    """Tiles computed from random parts of earlier ones, in one go, in parts or in loops; the last two are stored."""
    rng = random.Random(seed)
    b = TileBuilder("random", get_target("trn2"))
    x, out, more = (
        b.input("x", float32, (4, WIDTH)),
        b.output("a", float32, (4, WIDTH)),
        b.output("b", float32, (4, WIDTH)),
    )
    first = b.sbuf((4, WIDTH), float32)
    b.op("dma_copy", first, x)
    tiles = [first]
    for _ in range(rng.randrange(2, 9)):
        made = b.sbuf((4, WIDTH), float32)
        recent = tiles[-3:]
        match rng.choice(("whole", "whole", "parts", "loop", "twice", "again")):
            case "whole":
                _step(b, rng, made, recent, 0, WIDTH)
            case "parts":
                cut = rng.randrange(1, WIDTH)
                _step(b, rng, made, recent, 0, cut)
                _step(b, rng, made, recent, cut, WIDTH - cut)
            case "loop":
                size = rng.choice((1, 2, 3, 4, 6))
                with b.loop(WIDTH // size, "i", size) as at:
                    _step(b, rng, made, recent, at, size)
            case "twice":
                _step(b, rng, made, recent, 0, WIDTH)
                start = rng.randrange(WIDTH)
                _step(b, rng, made, [*recent, made], start, rng.randrange(1, WIDTH - start + 1))
            case "again":
                b.op("memset", made, value=0.5)
                with b.loop(3, "i", 2) as at:
                    _step(b, rng, made, recent, at, 5)
        tiles.append(made)
    b.op("dma_copy", out, tiles[-1])
    b.op("dma_copy", more, rng.choice(tiles[-2:]))
    return b.graph


def _step(b: TileBuilder, rng: random.Random, made: View, tiles: list[View], at: At, size: int) -> None:
    """An instruction on some columns: of one operand or two, at the same place, elsewhere or backwards."""

    def operand() -> View:
        tile = rng.choice(tiles)
        kind = rng.random()
        if kind < 0.7 or tile.buffer is made.buffer:
            return sliced(tile, 1, at, size)
        if kind < 0.85:
            return sliced(tile, 1, rng.randrange(WIDTH - size + 1), size)
        return sliced(sliced(tile, 1, at, size), 1, size - 1, size, -1)

    dst = sliced(made, 1, at, size)
    if rng.random() < 0.5:
        b.op("tensor_tensor", dst, operand(), operand(), op=rng.choice(("add", "subtract", "maximum")))
    else:
        b.op("tensor_scalar", dst, operand(), rng.choice((0.5, -1.25)), op0=rng.choice(("add", "multiply")))


def test_random_kernels_compute_the_same():
    x = np.random.default_rng(0).standard_normal((4, WIDTH)).astype(np.float32)
    target, shared = get_target("trn2"), 0
    for seed in range(400):
        graph = random_kernel(seed)
        before = run_graph(graph, [x], target)
        shared += len(reuse(graph.ops, set()))
        for one, other in zip(run_graph(graph, [x], target), before, strict=True):
            assert np.array_equal(one, other), f"seed {seed}:\n{graph}"
    assert shared > 300, "too few tiles share storage to show anything"


def test_in_place_only_where_nothing_is_read_again():
    """What was wrong when each instruction decided by itself whether it may overwrite its operand."""
    x = np.random.default_rng(1).standard_normal((128, 2048)).astype(np.float32)
    check(lambda x: x - x[:, ::-1], x, targets=["trn2"])
    check(lambda x: (x + 1) * x, x, targets=["trn2"])


def test_long_chains_take_instructions_in_proportion():
    """Values live only from first to last use: a block of a long chain is as large as one of a short one."""

    def chain(length: int) -> int:
        def repeated(a: np.ndarray) -> np.ndarray:
            for _ in range(length):
                a = np.tanh(a) * a
            return a

        return tw.compile(repeated, tw.spec((2048, 2048), "float32"), target="trn2").report.instructions

    assert chain(40) < 4.5 * chain(10)


def test_two_inputs_that_meet_late_share_a_loop_nest():
    report = tw.compile(lambda a, b: a * 2 + b * 3, *[tw.spec((1024, 2048), "float32")] * 2, target="trn2").report
    assert report.hbm_bytes == report.compulsory_bytes

"""Which engine runs what: other forms of an instruction give the same bits, and loops are shared out among engines."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.lower.order.engines as engines_module
from tests.lower.kit import check, floats
from tilewright.ir.walk import walk
from tilewright.lower.order.engines import Sharing, share_out
from tilewright.lower.order.forms import Part, halved, shared_columns
from tilewright.lower.select.select import inverse_of
from tilewright.lower.write.builder import TileBuilder
from tilewright.sim.run import run_graph
from tilewright.target import get_target
from tilewright.tile.text import parse_tile
from tilewright.tile.view import View

KERNEL = """kernel k(%hx: f32[5, 6]@hbm, %hy: f32[5, 6]@hbm, %hc: f32[5, 1]@hbm) -> (%out: {type}[5, 6]@shared_hbm) {{
  %x = alloc f32[5, 6]@sbuf
  dma_copy %x, %hx
  %y = alloc f32[5, 6]@sbuf
  dma_copy %y, %hy
  %c = alloc f32[5, 1]@sbuf
  dma_copy %c, %hc
  %a = alloc {type}[5, 6]@sbuf
  {body}
  dma_copy %out, %a
}}
"""

# Instruction -> how many other forms there are of it, at least.
INSTRUCTIONS = {
    "tensor_copy %a, %x {engine = vector}": 2,
    "memset %a {value = -0.0, engine = vector}": 1,
    "tensor_tensor %a, %x, %y {op = subtract, engine = vector}": 1,
    "tensor_tensor %a, %x, %x {op = multiply, engine = vector}": 1,
    "tensor_scalar %a, %x, 0.1 {op0 = multiply, engine = vector}": 1,
    "tensor_scalar %a, %x, %c, 0.3 {op0 = multiply, op1 = add, engine = vector}": 1,
    "scalar_tensor_tensor %a, %x, %c, %y {op0 = multiply, op1 = add}": 3,
    "scalar_tensor_tensor %a, %x, 0.3, %y {op0 = add, op1 = subtract, reverse1 = true}": 3,
    "scalar_tensor_tensor %a, %x, -1.0, %y {op0 = power, op1 = multiply}": 1,
    "activation %a, %x, none, 1.0 {op = square}": 1,
    "activation %a, %x, none, 1.0 {op = abs}": 1,
    "activation %a, %x, none, 0.3 {op = relu}": 1,
    "activation %a, %x, none, %c {op = copy}": 1,
    "activation %a, %x, %c, 0.3 {op = copy}": 1,
}
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3.4e38, -3.4e38, 1.0, -1.0], np.float32)


@pytest.mark.parametrize("kind", ["f32", "bf16"])
@pytest.mark.parametrize("text", INSTRUCTIONS)
def test_other_forms_give_the_same_bits(text: str, kind: str):
    """Every other form of an instruction, on random and special numbers."""
    target, rng = get_target("trn2"), np.random.default_rng(0)
    drawn = np.concatenate([SPECIAL, floats(30 * 12 - len(SPECIAL)) * 3])
    arrays = [[rng.permutation(drawn)[: 5 * n].reshape(5, n) for n in (6, 6, 1)] for _ in range(8)]

    def results(form: int) -> list[np.ndarray] | None:
        graph = parse_tile(KERNEL.format(body=text, type=kind))
        op = next(op for op in graph.body.ops if op.name == text.split()[0] and "dma" not in op.name)
        sharing = Sharing(TileBuilder("k", target))
        forms = [None, *sharing.forms(op)]
        if form == len(forms):
            return None
        if (made := forms[form]) is not None:
            sharing.write(op, made)
        with np.errstate(all="ignore"):
            return [run_graph(graph, each, target)[0] for each in arrays]

    own, count = results(0), 1
    assert own is not None
    while (other := results(count)) is not None:
        for one, two in zip(own, other, strict=True):
            same = (one.view(f"u{one.itemsize}") == two.view(f"u{two.itemsize}")) | (np.isnan(one) & np.isnan(two))
            assert same.all(), (text, count)
        count += 1
    assert count > INSTRUCTIONS[text] or kind == "bf16"


def test_integers_stay_where_they_are_exact():
    """GpSimd computes with 32-bit integers, the Vector engine with floats."""
    graph = parse_tile(
        """kernel k(%x: i32[5, 6]@hbm) -> (%out: i32[5, 6]@shared_hbm) {
  %a = alloc i32[5, 6]@sbuf
  dma_copy %a, %x
  tensor_tensor %a, %a, %a {op = multiply, engine = gpsimd}
  dma_copy %out, %a
}
"""
    )
    op = next(op for op in graph.body.ops if op.name == "tensor_tensor")
    assert not [*Sharing(TileBuilder("k", get_target("trn2"))).forms(op)]


LOOP = """kernel k() {
  %a = alloc f32[128, 2048]@sbuf
  %b = alloc f32[128, 2048]@sbuf
  memset %a {value = 1.0}
  memset %b {value = 1.0}
  for %i in 0..8 {
    tensor_tensor %a, %a, %b {op = add, engine = vector}
    tensor_tensor %b, %a, %b {op = multiply, engine = vector}
    tensor_scalar %a, %a, 2.0 {op0 = multiply, engine = vector}
  }
}
"""


def engines(text: str) -> dict[str, int]:
    """How many columns each engine has in the loop."""
    b, graph = TileBuilder("k", get_target("trn2")), parse_tile(text)
    share_out(b, graph.body.ops)
    found: dict[str, int] = {}
    for op in walk(graph):
        if op.name.startswith("tensor_"):
            found[op.attrs["engine"]] = found.get(op.attrs["engine"], 0) + op.operands[0].sizes[-1]
    return found


def test_engines_share_a_loop():
    """What the Vector engine alone would do is done by three; an instruction is cut where that makes them even."""
    found = engines(LOOP)
    assert {*found} == {"vector", "scalar", "gpsimd"} and sum(found.values()) == 3 * 2048
    assert found["scalar"] == 2048 and 1024 < found["gpsimd"] < 2048


@pytest.mark.parametrize(
    "line",
    [
        "tensor_tensor %a[:, 0 : +1500], %a[:, 1 : +1500], %b[:, 0 : +1500] {op = add, engine = vector}",
        "tensor_scalar %a, %b, %a[:, 0 : +1] {op0 = multiply, engine = vector}",
    ],
)
def test_what_reads_what_it_writes_stays_whole(line: str):
    """Elements that another part of the instruction would have changed."""
    one = Sharing(TileBuilder("k", get_target("trn2")))
    graph = parse_tile(LOOP.replace("tensor_tensor %a, %a, %b {op = add, engine = vector}", line))
    op = next(op for op in walk(graph) if op.name.startswith("tensor"))
    own, other = Part(op.name, op.operands, dict(op.attrs)), next(iter(one.forms(op)))[0]
    assert shared_columns(own, other) is None
    apart = [next(x for x in own.operands if isinstance(x, View) and x.buffer.name == "b") for _ in own.operands[1:]]
    own, other = (part._replace(operands=(op.operands[0], *apart)) for part in (own, other))
    assert shared_columns(own, other) is not None


def test_equal_instructions_are_cut_for_trial_once(monkeypatch: pytest.MonkeyPatch):
    """A loop of many equal instructions takes little more looking at than one of a few."""
    made: list[int] = []
    monkeypatch.setattr(engines_module, "halved", lambda *args: made.append(1) or halved(*args))
    line = "    tensor_tensor %a, %a, %b {op = add, engine = vector}\n"
    counts: list[int] = []
    for times in (10, 100):
        made.clear()
        engines(LOOP.replace(line, line * times))
        counts.append(len(made))
    assert 0 < counts[1] < 5 * counts[0]


def test_nothing_moves_where_others_decide():
    """A loop that waits for the Tensor engine keeps its instructions where they are."""
    product = "    nc_matmul %p, %a[:, 0 : +128], %a[:, 0 : +512]\n"
    busy = LOOP.replace("  for", "  %p = alloc f32[128, 512]@psum\n  for").replace(
        "0..8 {\n", "0..8 {\n" + product * 30
    )
    assert engines(busy) == {"vector": 3 * 2048}


def test_quotients_of_every_kind_of_number():
    """x / y by a factor, with columns and whole tiles, in one instruction where there is one."""
    special = np.concatenate([SPECIAL[[0, 1, 2, 3, 4, 7, 8, 9, 10]], floats(55)])
    x, y = special[:, None] + np.zeros((64, 64), np.float32), special[None, :] + np.zeros((64, 64), np.float32)
    y = np.where(np.abs(y) > 1e38, np.copysign(np.float32(1e37), y), y)
    column = floats(64, 1, seed=3)
    check(lambda x, y: x / y, x, y, tolerance=1e-6)
    check(lambda x, y: (3 / y, 1 / (y + 2), x / 7, -y / 1e-39), x, y, tolerance=1e-6)
    check(lambda x, y, c: (c / y, x / c, (x + 1) / (y * 2)), x, y, column, tolerance=1e-6)


def test_a_quotient_is_one_instruction():
    """No instruction for the inverse alone: the slow one least of all."""
    k = tw.compile(lambda x, y: x / y, floats(256, 2048), floats(256, 2048, seed=1), target="trn2")
    names = [op.name for op in walk(k.tile_ir) if op.name not in ("alloc", "for", "dma_copy", "dealloc", "return")]
    assert names and {*names} <= {"scalar_tensor_tensor", "tensor_tensor", "tensor_scalar"}


def test_the_inverse_of_a_number():
    """One factor, or two where one would not be a normal float32."""
    assert inverse_of(4.0) == ("multiply", 0.25)
    assert len(inverse_of(1e-39)) == 4 and len(inverse_of(1e38 * 3)) == 4

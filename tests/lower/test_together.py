"""Several trips of a loop at a time, in the order in which their instructions could start: the same numbers, in place
and taken back."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.lower.kit import check, floats
from tilewright.lower.decisions import noted
from tilewright.lower.order.together import TripsTogether
from tilewright.lower.tuning import TUNING
from tilewright.sim.run import run_graph
from tilewright.target import get_target
from tilewright.tile.text import parse_tile
from tilewright.tile.verify import verify_graph

BF16 = ml_dtypes.bfloat16

KERNEL = """
kernel steps(%a: f32[768, 64]@hbm) -> (%out: f32[768, 64]@shared_hbm, %all: f32[64, 64]@shared_hbm) {
  %held = alloc f32[64, 768]@sbuf
  %total = alloc f32[64, 64]@sbuf
  memset %total {value = 0.0}
  for %i in 0..12 {
    %x = alloc f32[64, 64]@sbuf depth 2
    dma_copy %x, %a@(%i*4096; [64, 64], [1, 64])
    %bank = alloc f32[64, 64]@psum depth 2
    nc_matmul %bank, %x, %x
    %y = alloc f32[64, 64]@sbuf depth 2
    activation %y, %bank {op = tanh}
    for %j in 0..2 {
      tensor_tensor TOTAL, TOTAL, %y@(%j*32; [64, 64], [1, 32]) {op = add}
    }
    tensor_copy %held@(%i*64; [768, 64], [1, 64]), %y {engine = vector}
    %again = alloc f32[64, 64]@psum depth 2
    nc_matmul %again, %held@(%i*64; [768, 64], [1, 64]), %x
    %z = alloc f32[64, 64]@sbuf depth 2
    activation %z, %again {op = tanh}
    dma_copy %out@(%i*4096; [64, 64], [1, 64]), %z
  }
  dma_copy %all, %total
}
""".replace("TOTAL", "%total@(%j*32; [64, 64], [1, 32])")


@pytest.mark.parametrize("staggered", [False, True])
@pytest.mark.parametrize("most", [8, 20, 38, 45, 1000])
def test_the_same_numbers(most: int, staggered: bool) -> None:
    """Of 9 instructions in each trip: room for the inner loop only, two trips, four, five and a rest, all of them."""
    graph, target = parse_tile(KERNEL), get_target("trn2")
    before = str(graph)
    a = np.random.default_rng(0).standard_normal((768, 64), dtype=np.float32)
    wanted = run_graph(graph, [a], target)
    loops = TripsTogether(target, most, staggered)
    loops.replace(graph.body)
    assert verify_graph(graph, target, "strict") == []
    assert any(op.definition.name == "for" for op in graph.body.ops) == (most < 1000)
    for one, other in zip(run_graph(graph, [a], target), wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    assert str(parse_tile(str(graph))) == str(graph)
    loops.undo()
    assert str(graph) == before


def test_what_starts_last_comes_with_the_next_trip() -> None:
    graph, target = parse_tile(KERNEL), get_target("trn2")
    loops = TripsTogether(target, 20, True)
    loops.replace(graph.body)
    (loop,) = (op for op in graph.body.ops if op.definition.name == "for")
    assert [*loop.operands] == [0, 10, 2]
    loads = [op.operands[1] for op in loop.regions[0].ops if op.name == "dma_copy" and op.operands[0].on_chip]
    stores = [op.operands[0] for op in loop.regions[0].ops if op.name == "dma_copy" and not op.operands[0].on_chip]
    assert min(view.offset for view in loads) == 2 * 4096, "all are of the next trip"
    assert min(view.offset for view in stores) < 2 * 4096, "some are of this one"


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attend(q: Any, k: Any, v: Any) -> Any:
    scores = (q @ k.swapaxes(-1, -2)).astype(np.float32) * np.float32(0.125)
    return (softmax(scores).astype(BF16) @ v).astype(BF16)


def look_back(q: Any, k: Any, v: Any) -> Any:
    n = q.shape[-2]
    scores = (q @ k.swapaxes(-1, -2)).astype(np.float32) * np.float32(0.125)
    scores = np.where(np.tri(n, dtype=bool), scores, np.float32(-1e9))
    return (softmax(scores).astype(BF16) @ v).astype(BF16)


def look_back_at_some(q: Any, k: Any, v: Any) -> Any:
    n = q.shape[-2]
    away = np.arange(n)[:, None] - np.arange(n)[None]
    scores = (q @ k.swapaxes(-1, -2)).astype(np.float32)
    scores = np.where((away >= 0) & (away < 200), scores, -np.inf)
    return (softmax(scores).astype(BF16) @ v).astype(BF16)


def attend_backward(q: Any, k: Any, v: Any, do: Any) -> Any:
    p = softmax((q @ k.swapaxes(-1, -2)).astype(np.float32) * np.float32(0.125))
    dv = p.astype(BF16).swapaxes(-1, -2) @ do
    dp = (do @ v.swapaxes(-1, -2)).astype(np.float32)
    ds = (p * (dp - (dp * p).sum(-1, keepdims=True))).astype(BF16)
    return (ds @ k).astype(BF16), (ds.swapaxes(-1, -2) @ q).astype(BF16), dv.astype(BF16)


@pytest.mark.parametrize("function", [attend, look_back, look_back_at_some, attend_backward])
def test_attention(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whatever it gains.
    monkeypatch.setattr(TUNING, "together_gain", 0.0)
    monkeypatch.setattr(TUNING, "trips_together", (512, 256))
    arrays = [floats(4, 512, 64, seed=i).astype(BF16) for i in range(function.__code__.co_argcount)]
    with noted() as reached:
        kernel = check(function, *arrays, targets=("trn2",), tolerance=2e-2)
    assert "order: trips together" in reached
    assert kernel.report.hbm_bytes <= 1.3 * kernel.report.compulsory_bytes

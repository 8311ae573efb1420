"""Long instructions in strips, and straight code on the engine that is done with it first."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats
from tilewright.ir.walk import walk
from tilewright.lower.tuning import tuned


def steps(u: Any) -> Any:
    for _ in range(2):
        u = 0.25 * (u[:, :-2, 1:-1] + u[:, 2:, 1:-1] + u[:, 1:-1, :-2] + u[:, 1:-1, 2:])
    return u


def turned(x: Any) -> Any:
    return np.where(x > 0, np.exp(-x), x * x + 1)[:, ::-1]


PROGRAMS = [
    (steps, (floats(100, 9, 70),)),
    (turned, (floats(128, 1200),)),
    (lambda x, c: (x - c) * np.tanh(x) + x[:, :1], (floats(64, 900), floats(64, 1))),
    (lambda x, y: x @ y + x, (floats(64, 64), floats(64, 64))),
    (lambda x: (x.astype(np.int32) // 3, x.sum(1)), (20 * floats(90, 600),)),
]


@pytest.mark.parametrize(("function", "args"), PROGRAMS)
def test_results_are_the_same_in_strips(function: Any, args: tuple[Any, ...]):
    with tuned(strip_ns=200.0, long_run=4):
        check(function, *args, tolerance=1e-6)


def engines_of(k: Any) -> Counter[str]:
    return Counter(str(op.attrs.get("engine")) for op in walk(k.tile_ir) if op.name == "tensor_tensor")


def test_one_block_overlaps_with_itself():
    u = tw.spec((128, 16, 1024), np.float32)
    now = tw.compile(steps, u, target="trn2", check="off", schedule="form plain")
    with tuned(strip_ns=1e9):
        before = tw.compile(steps, u, target="trn2", check="off", schedule="form plain")
        assert before.report
    assert now.report.hbm_bytes == before.report.hbm_bytes
    # Loads, two engines and stores at the same time.
    assert now.report.latency_us < 0.85 * before.report.latency_us
    assert min(engines_of(now)["vector"], engines_of(now)["gpsimd"]) > 3


def test_short_instructions_stay_whole():
    x = tw.spec((128, 512), np.float32)
    now = tw.compile(lambda x: np.exp(x) + x, x, check="off")
    with tuned(strip_ns=1e9):
        before = tw.compile(lambda x: np.exp(x) + x, x, check="off")
        assert before.tile_ir
    assert str(now.tile_ir) == str(before.tile_ir)


@pytest.mark.parametrize("count", [1, 3, 129, 1000, 1 << 14, 128 * 37, 128 * 37 + 5, 1 << 17])
def test_rows_that_fill_no_whole_block_are_shared_out(count: int):
    with tuned(tile_bytes=64):
        check(lambda x: np.tanh(x) * x - 1, floats(count))


def test_blocks_leave_no_rest_where_that_can_be():
    x = tw.spec((1 << 20,), np.float32)
    k = tw.compile(lambda a, b: np.log(a) * b + np.sqrt(a) - np.exp(b) / a + np.tanh(a * b) * a, x, x, check="off")
    sizes = {op.operands[0].free for op in walk(k.tile_ir) if op.name == "tensor_tensor"}
    assert min(sizes) > 100


def test_tiles_that_nobody_reads_go():
    """What was loaded for all steps gives way: its loads go with it."""
    u = tw.spec((128, 16, 1024), np.float32)
    k = tw.compile(steps, u, target="trn2", check="off", schedule="form plain")
    assert k.report.hbm_bytes == 4 * 128 * (16 * 1024 + 12 * 1020)


def test_the_longest_instructions_have_few_strips():
    k = tw.compile(lambda x: np.tanh(x) @ np.ones((1 << 20, 1), np.float32), tw.spec((1, 1 << 20), np.float32))
    assert str(k.tile_ir).count("\n") < 300

"""Instructions timed again while some of them move to other engines: what a whole replay says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.ir.core import Op
from tilewright.ir.walk import walk
from tilewright.lower.order.engines import SHARED
from tilewright.target import get_target
from tilewright.tile.record import TABLE, Record
from tilewright.timing.latency import FragmentClock, fragment_ns
from tilewright.timing.replay import WINDOW
from tilewright.timing.varied import Varied


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v


def smooth(x: Any, w: Any) -> Any:
    return np.tanh(x * w) + (x[:, ::-1] * 0.5).sum(axis=1, keepdims=True)


PROGRAMS = {
    "attention": (attention, [(256, 64)] * 3),
    "loops": (smooth, [(1024, 192), (192,)]),
}


def movable(ops: list[Op]) -> list[Op]:
    """Instructions that mean the same on several engines."""
    return [op for outer in ops for op in walk(outer) if isinstance(op.definition, Record) and op.name in SHARED]


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_varied_engines_take_what_a_whole_replay_says(name: str, target: str) -> None:
    function, shapes = PROGRAMS[name]
    ops = tw.compile(function, *[tw.spec(shape, "float32") for shape in shapes], target=target).tile_ir.ops
    clock = FragmentClock(get_target(target))
    again = clock.varied(ops)
    assert Varied.of(ops, get_target(target)) is not None and again() == clock(ops)
    times = {again()}
    for number, op in enumerate(movable(ops)[:9]):
        record, before = TABLE[op.name], op.attrs
        for engine in (*record.engines, "unknown"):
            op.attrs = record.attributes({**before, "engine": engine})
            times.add(again())
            assert again() == fragment_ns(ops, get_target(target))
        if number % 3:
            op.attrs = before
    assert len(times) > 2


def test_what_a_replay_does_not_see_at_once_is_replayed() -> None:
    ops = tw.compile(np.tanh, tw.spec((128, 8), "float32"), target="trn2").tile_ir.ops
    assert Varied.of(ops, get_target("trn2")) is not None
    assert Varied.of([*ops] * WINDOW, get_target("trn2")) is None

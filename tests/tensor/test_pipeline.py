"""The passes one after the other: each leaves a graph that verifies and computes what NumPy computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tensor.models import MODELS, random
from tests.tensor.test_decompose import sine_beyond_its_range
from tilewright.front.function import trace
from tilewright.ir.core import Graph
from tilewright.ir.verify import verify
from tilewright.tensor.interpret import interpret
from tilewright.tensor.passes.decompose import is_decomposed
from tilewright.tensor.passes.pipeline import PASSES, RECOGNISED, run
from tilewright.tensor.passes.simplify import EXACT, INEXACT
from tilewright.tensor.text import parse_tensor


@pytest.mark.req("S4-17")
@pytest.mark.parametrize("name", MODELS)
def test_every_pass_keeps_the_meaning(name: str):
    function, arrays = MODELS[name]
    graph = trace(function, [*arrays], {}).graph
    text = str(graph)
    wanted = function(*arrays)
    seen: list[str] = []

    def look(step: str, now: Graph, seconds: float) -> None:
        seen.append(step)
        assert verify(now) == [] and str(parse_tensor(str(now))) == str(now) and seconds >= 0
        np.testing.assert_allclose(interpret(now, arrays)[0], wanted, rtol=2e-5, atol=2e-6)

    ran = run(graph, dump=look)
    assert seen == [p.name for p in PASSES] == list(ran.seconds)
    assert is_decomposed(ran.graph)
    assert str(graph) == text, "the traced program is left as it is"


@pytest.mark.req("S4-86")
def test_rotation_by_angles_up_to_512():
    x, angle = random((512, 16), 0), np.linspace(0, 512, 512 * 8).reshape(512, 8).astype(np.float32)

    def rotated(x: Any, angle: Any) -> Any:
        cos, sin = np.cos(angle), np.sin(angle)
        low, high = x[:, :8], x[:, 8:]
        return np.concatenate([low * cos - high * sin, low * sin + high * cos], axis=-1)

    graph = run(trace(rotated, [x, angle], {}).graph).graph
    (found,) = interpret(graph, [x, angle], sine_beyond_its_range)
    np.testing.assert_allclose(found, rotated(x, angle.astype(np.float64)), atol=2e-6)


@pytest.mark.req("S4-30")
def test_floor_divide_and_mod_survive_until_decompose():
    function, arrays = MODELS["mixture"]
    names = [op.name for op in run(trace(function, [*arrays], {}).graph, stop_after="simplify").graph.ops]
    assert {"floor_divide", "mod", "sin", "arctan", "floor"} <= set(names)


def test_a_run_stops_after_the_pass_one_asks_for():
    function, arrays = MODELS["softmax"]
    graph = trace(function, [*arrays], {}).graph
    for index, each in enumerate(PASSES):
        assert list(run(graph, stop_after=each.name).seconds) == [p.name for p in PASSES[: index + 1]]
    with pytest.raises(AssertionError, match="there is no pass lower"):
        run(graph, stop_after="lower")


def test_a_second_run_changes_nothing():
    function, arrays = MODELS["heads"]
    once = run(trace(function, [*arrays], {}).graph)
    again = run(once.graph)
    assert str(again.graph) == str(once.graph) and not again.fired


def test_a_pass_says_what_it_expects_and_guarantees():
    assert all(p.expects and p.guarantees for p in PASSES)
    assert len({p.name for p in PASSES}) == len(PASSES)


def test_which_rules_are_not_exact_is_written_down():
    assert all(r.exact for r in EXACT)
    assert all(r.ulp is not None and r.ulp <= 8 for r in RECOGNISED)
    assert set(RECOGNISED) <= set(INEXACT)

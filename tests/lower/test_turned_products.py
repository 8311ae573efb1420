"""Products of few rows with their columns on partitions, terms in the order in which they come, loops written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.fuzzing.toys import Setting, toys
from tests.lower.kit import TARGETS, check, fits, floats
from tests.lower.test_row_axis import prepared
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import noted
from tilewright.lower.rewrite.early_terms import add_early_terms_first
from tilewright.lower.rewrite.turned_products import turn_products
from tilewright.spec import spec
from tilewright.target import get_target
from tilewright.tensor.interpret import interpret

Arrays = list[np.ndarray]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def lstm(x: Any, wx: Any, wh: Any, b: Any) -> Any:
    n = wh.shape[0]
    h = c = np.zeros((x.shape[1], n), np.float32)
    out = []
    for t in range(x.shape[0]):
        z = x[t] @ wx + h @ wh + b
        c = sigmoid(z[:, n : 2 * n]) * c + sigmoid(z[:, :n]) * np.tanh(z[:, 2 * n : 3 * n])
        h = sigmoid(z[:, 3 * n :]) * np.tanh(c)
        out.append(h)
    return np.stack(out), c


def batch_first(x: Any, w: Any, u: Any) -> Any:
    """All inputs at once, states stacked between the batch and their elements."""
    z, h, out = x @ w, np.zeros((x.shape[0], u.shape[0]), np.float32), []
    for t in range(x.shape[1]):
        h = np.tanh(z[:, t] + h @ u)
        out.append(h)
    return np.stack(out, 1), h.sum(0), h.max(1)


def through_time(x: Any, w: Any, u: Any) -> Any:
    """Forward and back: states are right operands too."""
    hs = [np.zeros((x.shape[1], u.shape[0]), np.float32)]
    for t in range(x.shape[0]):
        hs.append(np.tanh(x[t] @ w + hs[-1] @ u))
    dh, du = hs[-1], np.zeros_like(u)
    for t in reversed(range(x.shape[0])):
        dz = dh * (1 - hs[t + 1] ** 2)
        du += hs[t].T @ dz
        dh = dz @ u.T
    return du, dh


def layers(x: Any, w: Any, u: Any) -> Any:
    """A few rows through layers with a norm, a gate for each row and one for each column."""
    h = np.maximum(x @ w, 0)
    h = h - h.mean(-1, keepdims=True)
    for gate in (x[:, :1], u[0]):
        h = (h @ u) * gate + h
    return np.concatenate([h, h @ u], 1)[:, 3:]


PROGRAMS = {
    "lstm": (lstm, ((4, 5, 24), (24, 96), (24, 96), (96,))),
    "batch first": (batch_first, ((6, 4, 20), (20, 40), (40, 40))),
    "through time": (through_time, ((3, 9, 16), (16, 48), (48, 48))),
    "layers": (layers, ((7, 30), (30, 150), (150, 150))),
}


def arrays_of(shapes: Any) -> Arrays:
    return [floats(*shape, seed=i) * (1.0 if i == 0 else 0.2) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_turned_program_means_the_same(name: str):
    function, shapes = PROGRAMS[name]
    arrays = arrays_of(shapes)
    graph = prepared(function, *arrays)
    turned = turn_products(graph, get_target("trn2"))
    assert turned is not None
    for mine, theirs in zip(interpret(turned, arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_numpy(name: str):
    function, shapes = PROGRAMS[name]
    check(function, *arrays_of(shapes), tolerance=2e-5, targets=TARGETS)


@pytest.mark.parametrize("toy", toys())
@pytest.mark.parametrize("name", PROGRAMS)
def test_on_a_few_partitions(name: str, toy: str):
    function, shapes = PROGRAMS[name]
    shapes = [[-(-n // 4) for n in shape] for shape in shapes]
    with Setting(toy).in_force():
        check(function, *arrays_of(shapes), tolerance=2e-5, targets=(toys()[toy],))


def test_states_are_not_turned_at_each_step():
    shapes = ((16, 32, 256), (256, 1024), (256, 1024), (1024,))
    with noted() as decisions:
        kernel = fits(lstm, *(spec(shape, "float32") for shape in shapes))
    assert kernel.schedule.form == "turned products"
    assert {"rule: turned products", "rule: early terms", "product: blocks of rows side by side"} <= set(decisions)
    plain = tw.compile(lstm, *(spec(shape, "float32") for shape in shapes), check="off", schedule="form plain")
    assert kernel.report.latency_us < 0.8 * plain.report.latency_us


def test_many_rows_stay_as_they_are():
    graph = prepared(layers, floats(300, 30), floats(30, 150), floats(150, 150))
    assert turn_products(graph, get_target("trn2")) is None


# Sums.


def maker(x: Value) -> Op:
    assert x.producer is not None
    return x.producer


def test_what_is_there_early_is_added_first():
    functions = [
        lambda x, w, b: x @ w + np.tanh(x @ w) @ w + b,
        lambda x, w, b: b + (np.tanh(x @ w) @ w + x @ w),
        lambda x, w, b: x @ w + np.tanh(x @ w) @ w + x,
    ]
    for function in functions:
        graph = prepared(function, floats(8, 8), floats(8, 8), floats(8))
        first, last = maker(graph.outputs[0]).values()
        assert (maker(first).name, maker(last).name) == ("add", "matmul")
        assert maker(maker(last).operands[0]).name == "tanh"
        before = str(graph)
        add_early_terms_first(graph)
        assert str(graph) == before


def test_other_sums_keep_their_order():
    def compensated(x: Any, y: Any, w: Any) -> Any:
        total = x + y
        return total, (total - x) - y, (x @ w + y) + x

    graph = prepared(compensated, floats(8, 8), floats(8, 8), floats(8, 8))
    before = str(graph)
    add_early_terms_first(graph)
    assert str(graph) == before


# Loops.


def test_loops_are_written_out_where_steps_wait_for_each_other():
    shapes = ((16, 64, 256), (256, 1024), (256, 1024), (1024,))
    with noted() as decisions:
        kernel = fits(lstm, *(spec(shape, "float32") for shape in shapes))
    assert "order: loops written out" in decisions
    told = kernel.plan.to_dict()["steps"]
    assert sum(step["instructions"] for step in told) == kernel.report.instructions
    assert sum(step["hbm_bytes"] for step in told) == kernel.report.hbm_bytes

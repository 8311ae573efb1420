"""Steps that follow from each other: state, matrices and sums stay on chip as the next step reads them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats, small
from tilewright.ir.walk import walk
from tilewright.lower.decisions import noted
from tilewright.tile.memory import PSUM


def power(a: Any, v: Any) -> Any:
    for _ in range(4):
        v = a @ v
        v = v / np.sqrt((v * v).sum() + 1)
    return v


def power_of_rows(a: Any, v: Any) -> Any:
    for _ in range(3):
        v = v @ a
        v = v / (np.abs(v).max() + 1)
    return v


def both_sides(a: Any, x: Any) -> Any:
    for _ in range(3):
        x = np.tanh(a.T @ x) + a @ x
    return x


def likelihood(e: Any, a: Any) -> Any:
    p, logs = e[0] / e[0].sum(), []
    for t in range(1, len(e)):
        p = (p @ a) * e[t]
        s = p.sum()
        p = p / s
        logs.append(np.log(s))
    return np.stack(logs)


def totals(x: Any, y: Any) -> Any:
    z = np.tanh(x @ y)
    return z * z.sum() + z.max(), z.reshape(-1).sum()


PROGRAMS = [
    (power, (floats(150, 150) * np.float32(0.1), floats(150))),
    (power, (floats(5, 5), floats(5, 1))),
    (power_of_rows, (floats(130, 130) * np.float32(0.1), floats(130))),
    (both_sides, (floats(140, 140) * np.float32(0.1), floats(140, 3))),
    (likelihood, (np.abs(floats(5, 20)) + 1, np.abs(floats(20, 20)))),
    (totals, (floats(130, 7), floats(7, 9))),
    (totals, (floats(1, 7), floats(7, 9))),
]


@pytest.mark.parametrize(("function", "args"), PROGRAMS)
def test_results_are_the_same(function: Any, args: tuple[Any, ...]):
    check(function, *args, tolerance=1e-5)


@pytest.mark.parametrize("function", [power, power_of_rows])
def test_a_state_never_leaves_the_chip(function: Any):
    report = tw.compile(function, floats(256, 256), floats(256), target="trn2", check="off").report
    assert report.hbm_bytes == report.compulsory_bytes


def test_a_matrix_is_turned_once_for_all_steps():
    kernel = tw.compile(power, floats(256, 256), floats(256), target="trn2", check="off")
    turned = [op for op in walk(kernel.tile_ir) if op.name == "nc_matmul" and op.attrs["is_transpose"]]
    squares = [op for op in turned if op.operands[1].sizes == (128, 128)]
    assert len(squares) <= 4


def test_a_matrix_that_lies_as_it_is_read_is_not_turned():
    def steps(a: Any, x: Any) -> Any:
        for _ in range(4):
            x = np.tanh(a.T @ x)
        return x

    with noted() as decisions:
        kernel = tw.compile(steps, floats(256, 256), floats(256, 16), target="trn2", check="off")
        assert not [op for op in walk(kernel.tile_ir) if op.name == "nc_matmul" and op.attrs["is_transpose"]]
    assert "left: on chip as it is read" in decisions


def test_few_elements_change_partitions_by_the_tensor_engine():
    with noted() as decisions:
        kernel = tw.compile(power, floats(256, 256), floats(256), target="trn2", check="off").tile_ir
    moves = [op for op in walk(kernel) if op.name == "dma_copy" and all(view.on_chip for view in op.operands[:2])]
    assert "rehome: by the Tensor engine" in decisions and not moves


def scan(x: Any, dt: Any, a: Any, b: Any, c: Any) -> Any:
    h, ys = np.zeros(a.shape, np.float32), []
    for t in range(len(x)):
        h = np.exp(dt[t][:, None] * a) * h + (dt[t] * x[t])[:, None] * b[t]
        ys.append((h * c[t]).sum(-1))
    return np.stack(ys)


def limited(x: Any, dt: Any, a: Any, b: Any, c: Any) -> Any:
    """A state that does not go on by products and sums alone."""
    h, ys = np.zeros(a.shape, np.float32), []
    for t in range(len(x)):
        h = np.minimum(np.exp(dt[t][:, None] * a) * h + (dt[t] * x[t])[:, None] * b[t], 4)
        ys.append((h * c[t]).sum(-1))
    return np.stack(ys)


def lstm(x: Any, w: Any, u: Any) -> Any:
    def sigmoid(z: Any) -> Any:
        return 1 / (1 + np.exp(-z))

    h = c = np.zeros((x.shape[1], u.shape[0]), np.float32)
    for t in range(len(x)):
        i, f, g, o = np.split(x[t] @ w + h @ u, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    return h, c


def filtered(a: Any, z: Any) -> Any:
    x = np.zeros(a.shape[0], np.float32)
    for t in range(len(z)):
        x = a @ x + 0.1 * (z[t] - x)
    return x


SCANNED = (floats(6, 130), np.abs(floats(6, 130)), -np.abs(floats(130, 5)), floats(6, 5), floats(6, 5))
STEPS = [
    (scan, SCANNED),
    (limited, SCANNED),
    (lstm, (floats(4, 5, 7), floats(7, 36), floats(9, 36))),
    (filtered, (floats(20, 20) * np.float32(0.1), floats(8, 20))),
]


@pytest.mark.parametrize(("function", "args"), STEPS)
def test_steps_give_what_they_should(function: Any, args: tuple[Any, ...]):
    check(function, *args, tolerance=1e-5)


def test_parts_of_an_input_come_together_and_results_are_turned_before_they_are_stored():
    args = (floats(32, 256), np.abs(floats(32, 256)), -np.abs(floats(256, 8)), floats(32, 8), floats(32, 8))
    with noted() as decisions:
        kernel = tw.compile(limited, *args, target="trn2", check="off").tile_ir
    assert "load: parts of one array together" in decisions and "store: turned" in decisions
    assert len([op for op in walk(kernel) if op.name == "dma_copy"]) < 20


def test_functions_with_one_table_follow_each_other():
    args = (floats(6, 64, 64), floats(64, 512), floats(128, 512))
    with noted() as decisions:
        kernel = tw.compile(lstm, *args, target="trn2", check="off").tile_ir
    assert "order: as it starts" in decisions
    tables = [op.attrs["op"] for op in walk(kernel) if op.name == "activation"]
    changes = sum(one != other for one, other in pairwise(tables))
    assert changes <= 2 * 6


def test_what_a_product_gave_is_read_where_it_is():
    with noted() as decisions:
        kernel = tw.compile(filtered, floats(64, 64), floats(8, 64), target="trn2", check="off").tile_ir
    assert "order: read in PSUM" in decisions
    copies = [op for op in walk(kernel) if op.name == "tensor_copy" and op.operands[1].memory is PSUM]
    assert len(copies) < 8


def space(x: Any, dt: Any, a: Any, b: Any, c: Any) -> Any:
    """A selective state space: decays and inputs of each step, what is read of the state, the last state."""
    h, read = np.zeros((x.shape[1], a.shape[1]), np.float32), []
    for t in range(x.shape[0]):
        h = np.exp(dt[t][:, None] * a) * h + dt[t][:, None] * b[t] * x[t][:, None]
        read.append((h * c[t]).sum(-1))
    return np.stack(read, 1), h


def average(x: Any) -> Any:
    s, found = x[:, 0], [x[:, 0]]
    for t in range(1, x.shape[1]):
        s = 0.9 * s + np.float32(0.1) * x[:, t]
        found.append(s)
    return np.stack(found, 1)


def backwards(c: Any, d: Any) -> Any:
    x = np.empty_like(d)
    x[-1] = d[-1]
    for i in range(len(d) - 2, -1, -1):
        x[i] = d[i] - c[i] * x[i + 1]
    return x


def both_signs(x: Any, h: Any) -> Any:
    one, other = h, h * 2
    for t in range(len(x)):
        one = x[t] - one * 0.5
        other = other * x[t] - 1.5
    return one, other


def with_zeros(x: Any) -> Any:
    """Signs of zeros, infinities and NaN pass through as they do in NumPy."""
    h = np.zeros(x.shape[1:], np.float32)
    for t in range(len(x)):
        h = h * x[t] + x[t]
    return h


ZEROS = np.array([[-0.0, 0.0, np.inf, 1.0, np.nan, 3e38], *[[-0.0, -0.0, 2.0, -1.0, 1.0, 3.0]] * 7], np.float32)

CHAINS = [
    (space, (floats(9, 6), np.abs(floats(9, 6)), -np.abs(floats(6, 3)), floats(9, 3), floats(9, 3))),
    (space, (floats(8, 200), np.abs(floats(8, 200)), -np.abs(floats(200, 2)), floats(8, 2), floats(8, 2))),
    (average, (floats(140, 12),)),
    (backwards, (floats(11, 5), floats(11, 5))),
    (both_signs, (floats(10, 7), floats(7))),
    (with_zeros, (ZEROS,)),
]


@pytest.mark.parametrize(("function", "args"), CHAINS, ids=lambda each: getattr(each, "__name__", ""))
def test_steps_that_go_on_by_a_product_and_a_sum_are_one_scan(function: Any, args: Any) -> None:
    with noted() as decisions:
        kernel = check(function, *args, tolerance=1e-5)
    assert "rule: recurrence" in decisions
    scans = [op for op in walk(kernel.tile_ir) if op.name == "tensor_tensor_scan"]
    assert scans
    if function is not space:
        # A product and a sum are rounded as NumPy rounds them.
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(kernel(*args), function(*args))


def of_itself(x: Any) -> Any:
    """What is added is made of the state."""
    h, found = np.ones(x.shape[1], np.float32), []
    for t in range(len(x)):
        h = 0.9 * h + x[t] * np.tanh(h)
        found.append(h)
    return np.stack(found)


def of_each_other(x: Any) -> Any:
    h, c = np.ones(x.shape[1], np.float32), np.zeros(x.shape[1], np.float32)
    for t in range(len(x)):
        h, c = 0.9 * h + x[t] * c, 0.5 * c + np.tanh(x[t]) * np.abs(h)
    return h, c


def of_its_sums(x: Any) -> Any:
    """What is added is made of the state by an op that is not computed for all steps at once."""
    h = np.tanh(x[0])
    for t in range(1, len(x)):
        h = 0.9 * h + x[t] * np.cumsum(h)
    return h


@pytest.mark.parametrize("function", [of_itself, of_each_other, of_its_sums])
def test_states_that_feed_what_they_take_stay_steps(function: Any) -> None:
    with noted() as decisions:
        check(function, floats(12, 9), tolerance=1e-5)
    assert "rule: recurrence" not in decisions


def test_lines_of_a_scan_are_read_by_other_ops_too() -> None:
    def function(x: Any) -> Any:
        h, found = np.zeros(x.shape[1:], np.float32), []
        for t in range(len(x)):
            h = 0.5 * h + x[t]
            found.append(h)
        y = np.stack(found)
        return np.sort(y, axis=-1)[..., -2:], y.argmax(0), y[::-2] @ x[0].T, y.sum(0), np.tanh(y).max(axis=(0, 2))

    check(function, floats(10, 6, 5), tolerance=1e-4)


def test_long_steps_stay_steps() -> None:
    """Lines of a few steps each would be many instructions."""
    with noted() as decisions:
        check(both_signs, floats(4, 300, 400), floats(300, 400), tolerance=1e-5)
    assert "rule: recurrence" not in decisions


def test_lines_too_long_for_the_chip_go_on_part_by_part() -> None:
    kernel = check(average, floats(3, 300), targets=[small("trn2", 3000)], tolerance=1e-6)
    assert [op for op in walk(kernel.tile_ir) if op.name == "tensor_tensor_scan"]


def chain(seed: int) -> tuple[Any, tuple[np.ndarray, ...]]:
    """A loop over time whose factor, addend, start, signs, order and results are drawn."""
    rng = np.random.default_rng(seed)
    steps, shape = int(rng.integers(4, 20)), tuple(int(n) for n in rng.choice([1, 2, 5, 130], rng.integers(1, 4)))
    at = int(rng.integers(0, len(shape) + 1))
    x = rng.standard_normal((*shape[:at], steps, *shape[at:]), np.float32)
    y, w = rng.standard_normal((steps, shape[-1]), np.float32), rng.standard_normal(shape[-1], np.float32)
    factor, added, start, signs, read = (int(rng.integers(n)) for n in (5, 4, 4, 3, 3))
    order = range(steps) if rng.integers(2) else range(steps - 1, -1, -1)

    def function(x: Any, y: Any, w: Any, h: Any) -> Any:
        def of(t: int) -> Any:
            return x[(slice(None),) * at + (t,)]

        h, found = [np.zeros(shape, np.float32), h, of(order[0]), np.full(shape, 2, np.float32)][start], []
        for t in order[start == 2 :]:
            product = [np.float32(0.5), np.exp(-np.abs(of(t))), w, y[t], y[t] * w][factor] * h
            more = [of(t), y[t], w, of(t) * y[t] + 1][added]
            h = [product + more, more - product, product - more][signs]
            found.append([h, h.sum(-1), np.maximum(h, 0) + w][read])
        return np.stack(found, axis=-1), h

    return function, (x, y, w, rng.standard_normal(shape, np.float32))


@pytest.mark.parametrize("seed", range(12))
def test_any_chain_gives_what_it_should(seed: int) -> None:
    function, args = chain(seed)
    check(function, *args, tolerance=1e-5)

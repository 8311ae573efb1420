"""Regions with an axis that all ops treat alike: where it lies in each value, and what is computed by its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.fuzzing.__main__ import program_of
from tests.fuzzing.program import quiet
from tests.lower.kit import check, floats
from tilewright.compiler import Compiled
from tilewright.errors import TileError
from tilewright.front.function import trace
from tilewright.ir.core import Graph, Value
from tilewright.lower.decisions import noted
from tilewright.lower.rewrite.by_rows import compute_by_rows
from tilewright.lower.rewrite.prepare import prepare
from tilewright.lower.rewrite.row_axis import Run, find_regions, grow, run_at
from tilewright.target import get_target
from tilewright.tensor.interpret import interpret
from tilewright.tensor.passes.narrow import narrowed_array


def complex_product(a: Any, b: Any) -> Any:
    x, y, u, v = a[..., 0], a[..., 1], b[..., 0], b[..., 1]
    return np.stack([x * u - y * v, x * v + y * u], -1)


def rotated(q: Any, v: Any) -> Any:
    return v + 2 * np.cross(q[:, 1:], np.cross(q[:, 1:], v) + q[:, :1] * v)


def over_the_batch(x: Any) -> Any:
    return (x - x.mean(0)) / np.sqrt(x.var(0) + np.float32(1e-5))


def halves(x: Any) -> Any:
    """The axis lies between others, then last, then split by a reshape."""
    y = np.maximum.reduce(x, axis=1) - x[:, 0]
    z = np.concatenate([y, x[:, 1] * 2, y[::-1]], axis=0)
    return z.reshape(-1, 4, 16).sum(1)


def around(x: Any) -> Any:
    """Running sums, paddings and updates of other dims."""
    y = np.cumsum(x, axis=0)
    y[1::2] *= 3
    return np.pad(y, ((1, 2), (0, 0)))[::2].T


def by_class(x: Any, labels: Any) -> Any:
    """Totals of each class over the samples and places, with classes between these: a one-hot table by index."""
    e = np.exp(x - x.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    hot = np.eye(x.shape[1], dtype=np.float32)[labels].transpose(0, 2, 1)
    return (p * hot).sum((0, 2)), p.sum((0, 2)), (p * hot).sum(1)


PROGRAMS = {
    "complex numbers": (complex_product, ((20000, 2), (20000, 2))),
    "quaternions": (rotated, ((8192, 4), (8192, 3))),
    "over the batch": (over_the_batch, ((8, 16, 40, 20),)),
    "between others": (halves, ((3, 2, 4096),)),
    "beside scans": (around, ((6, 12000),)),
}


def test_totals_of_each_class_leave_everything_else_on_chip() -> None:
    labels = np.random.default_rng(3).integers(-8, 8, (4, 32768)).astype(np.int32)
    with noted() as decisions:
        kernel = check(by_class, floats(4, 8, 32768), labels, tolerance=2e-6)
    assert "rule: rows of an axis" in decisions
    assert kernel.report.hbm_bytes <= 1.01 * kernel.report.compulsory_bytes


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_numpy(name: str) -> None:
    function, shapes = PROGRAMS[name]
    check(function, *(floats(*shape, seed=i) for i, shape in enumerate(shapes)), tolerance=2e-6)


@pytest.mark.parametrize("name", ["complex numbers", "quaternions", "over the batch"])
def test_what_lies_along_short_dims_is_computed_by_rows_of_the_long_one(name: str) -> None:
    function, shapes = PROGRAMS[name]
    arrays = [floats(*(4 * n if n > 1000 else n for n in shape), seed=i) for i, shape in enumerate(shapes)]
    with noted() as decisions:
        kernel = Compiled(trace(function, arrays, {}), "trn2")
        report = kernel.report
    assert "rule: rows of an axis" in decisions
    assert len([step for step in kernel.plan.steps if "ops" in str(step)]) <= 2
    assert report.hbm_bytes <= 1.01 * report.compulsory_bytes


def region_of(graph: Graph, x: Value, run: Run) -> set[str]:
    return {op.name for op in grow(x, run).ops}


def prepared(function: Any, *arrays: np.ndarray, target: str = "trn2") -> Graph:
    kernel = Compiled(trace(function, list(arrays), {}), target)
    graph = kernel.passes.graph.clone()
    prepare(graph, kernel.target)
    return graph


def test_an_axis_is_followed_through_reshapes_and_transposes() -> None:
    graph = prepared(lambda x: x.reshape(6, 50, 4).transpose(2, 0, 1).sum(0), floats(300, 4))
    (x,) = graph.inputs
    (total,) = [op for op in graph.ops if op.name == "sum"]
    region = grow(x, Run(0, 0))
    assert region.places[total.result] == Run(0, 1)
    assert region.ops.keys() == set(graph.ops)


def test_what_scans_or_cuts_the_axis_does_not_belong() -> None:
    graph = prepared(lambda x: (np.cumsum(np.exp(x), axis=0), np.exp(x)[5:]), floats(300, 4))
    (x,) = graph.inputs
    assert region_of(graph, x, Run(0, 0)) == {"exp"}
    assert {"exp", "cumsum", "slice"} <= region_of(graph, x, Run(1, 1))


def test_what_reduces_the_whole_axis_belongs_and_has_no_axis_itself() -> None:
    graph = prepared(lambda x: np.exp(x).sum((0, 1)), floats(3, 300, 4))
    (x,) = graph.inputs
    (total,) = [op for op in graph.ops if op.name == "sum"]
    for run in (Run(0, 1), Run(1, 1)):
        region = grow(x, run)
        assert total in region.ops and region.places[total.result] is None
    assert total in grow(x, Run(2, 2)).ops  # it leaves that one alone
    assert total not in grow(x, Run(1, 2)).ops  # one of its dims stays


def pairs(z: Any) -> Any:
    """Halves of a batch that are joined and taken apart again, with other rows before them and after."""
    both = np.concatenate([z, -z, np.abs(z)], axis=0)
    s = np.cumsum(both * 2, axis=1).max(1)
    n = len(z)
    padded = np.pad(s[:n] - s[n : 2 * n], (n, 2 * n), constant_values=3)
    padded[n : 2 * n] *= 2
    return padded, s.mean(), s[2 * n :] - s.max()


def test_halves_of_a_batch_are_rows_of_the_same_partition() -> None:
    z = floats(8192, 24)
    graph = prepared(pairs, z)
    (x,) = graph.inputs
    region = grow(x, Run(0, 0))
    assert {"concatenate", "slice", "update_slice"} <= {op.name for op in region.ops}
    made = compute_by_rows(graph, region, get_target("trn2"))
    assert made is not None
    for one, other in zip(interpret(graph, [z]), interpret(made, [z]), strict=True):
        _compare(one, other)
    check(pairs, z, tolerance=2e-6)


def test_a_total_over_several_dims_of_the_axis() -> None:
    graph = prepared(lambda x: x * np.abs(x).max(), floats(8, 16, 32))
    (x,) = graph.inputs
    made = compute_by_rows(graph, grow(x, Run(0, 2)), get_target("trn2"))
    assert made is not None
    _compare(interpret(graph, [floats(8, 16, 32)])[0], interpret(made, [floats(8, 16, 32)])[0])


def test_parts_that_cut_the_axis_do_not_belong() -> None:
    graph = prepared(lambda x: (np.concatenate([x, x[:7]]), x[::2]), floats(64, 6))
    (x,) = graph.inputs
    assert not grow(x, Run(0, 0)).ops


def test_totals_over_the_axis_are_read_again_in_the_region() -> None:
    graph = prepared(lambda x: x / np.abs(x).max((0, 2), keepdims=True) - x.sum(), floats(2, 3, 4096))
    (x,) = graph.inputs
    region = grow(x, Run(2, 2))
    assert [op.name for op in region.ops].count("sum") == 1
    made = compute_by_rows(graph, region, get_target("trn2"))
    assert made is not None
    array = floats(2, 3, 4096)
    _compare(interpret(graph, [array])[0], interpret(made, [array])[0])


def test_operands_with_one_element_along_the_axis_are_the_same_for_all_rows() -> None:
    graph = prepared(lambda x, y: x * y, floats(300, 4), floats(4))
    region = grow(graph.inputs[0], Run(0, 0))
    assert region.places[graph.inputs[1]] is None


def test_an_operand_with_some_of_the_dims_alone_does_not_fit() -> None:
    graph = prepared(lambda x, y: x * y, floats(30, 10, 4), floats(10, 1))
    assert not grow(graph.inputs[0], Run(0, 1)).ops
    assert grow(graph.inputs[0], Run(0, 0)).ops


@pytest.mark.parametrize(
    "shape, right, size, wanted",
    [
        ((6, 50, 4), 4, 300, Run(0, 1)),
        ((300, 4), 8, 100, None),
        ((1200,), 4, 300, Run(0, 0, 1, 4)),
        ((1200,), 4, 100, Run(0, 0, 3, 4)),
        ((3, 100, 4), 4, 100, Run(1, 1)),
        ((3, 1, 100, 4), 4, 300, Run(0, 2)),
        ((7, 11), 1, 5, None),
    ],
)
def test_a_run_of_digits_in_the_dims_of_a_shape(shape: Any, right: int, size: int, wanted: Run | None) -> None:
    assert run_at(shape, right, size) == wanted


def test_random_programs_mean_the_same_by_rows() -> None:
    count = 0
    for seed in range(7100, 7180):
        program = program_of(seed, "toy")
        with program.setting.in_force(), quiet():
            try:
                kernel = Compiled(trace(program.function(), program.arrays(), {}), program.setting.machine)
                graph = kernel.passes.graph.clone()
                prepare(graph, kernel.target)
                given = zip(program.arrays(), graph.inputs, strict=True)
                arrays = [narrowed_array(x, value.type.dtype, "") for x, value in given]
                wanted = interpret(graph, arrays)
            except TileError:
                continue
            for region in find_regions(graph, 2):
                made = compute_by_rows(graph, region, kernel.target)
                if made is not None:
                    count += 1
                    for one, other in zip(wanted, interpret(made, arrays), strict=True):
                        _compare(one, other)
    assert count > 60


def _compare(one: np.ndarray, other: np.ndarray) -> None:
    if one.dtype.kind in "biu":
        np.testing.assert_array_equal(one, other)
        return
    x, y = one.astype(np.float64), other.astype(np.float64)
    scale = float(np.abs(x[np.isfinite(x)]).max(initial=0))
    np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5 * scale)


def test_an_axis_without_even_parts_stays_as_it_is() -> None:
    graph = prepared(lambda x: x[:, 0] * x[:, 1], floats(8191, 2))
    for region in find_regions(graph, 32):
        made = compute_by_rows(graph, region, get_target("trn2"))
        assert made is None or interpret(made, [floats(8191, 2)])[0].shape == (8191,)


@pytest.mark.parametrize("steps", [1, 4])
def test_a_state_of_stacked_parts_stays_on_chip(steps: int) -> None:
    def flow(s: Any) -> Any:
        x, y, z = s
        return np.stack([y - x, x * (28 - z) - y, x * y - z])

    def function(s: Any) -> Any:
        for _ in range(steps):
            one = flow(s)
            other = flow(s + 0.01 * one)
            s = s + 0.005 * (one + other)
        return s

    kernel = check(function, floats(3, 16384), tolerance=1e-5)
    assert kernel.report.hbm_bytes == kernel.report.compulsory_bytes

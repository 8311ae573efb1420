"""Groups whose rows are reduced: what they compute, what they read, and which layout they choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.lower.kit import check, floats, small
from tilewright import compile, spec
from tilewright.lower.kernels.meet import height_of
from tilewright.lower.nest.tall_tiles import layout
from tilewright.lower.regions.grouping import Group

Axes = int | tuple[int, ...]


def softmax(x: Any, axis: Axes) -> Any:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def normalised(x: Any, axis: Axes) -> Any:
    d = x - x.mean(axis=axis, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=axis, keepdims=True) + np.float32(1e-5))


def log_sum(x: Any, axis: Axes) -> Any:
    m = x.max(axis=axis, keepdims=True)
    return np.log(np.exp(x - m).sum(axis=axis)) + m.reshape(x.sum(axis=axis).shape)


def spread(x: Any, axis: Axes) -> Any:
    return (x - x.min(axis=axis, keepdims=True)) / (x.max(axis=axis, keepdims=True) - x.min(axis=axis, keepdims=True))


SHAPES: list[tuple[tuple[int, ...], Axes]] = [
    ((300, 70), 0),
    ((256, 300), 0),
    ((1021, 130), 0),
    ((3, 200, 130), 1),
    ((2, 3, 64, 40), 2),
    ((5, 7, 11, 64), (0, 1, 2)),
    ((130, 33), (0, 1)),
    ((5000,), 0),
    ((40, 6, 50), (0, 2)),
]


@pytest.mark.req("S4-20")
@pytest.mark.parametrize("function", [softmax, normalised, log_sum, spread])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_reductions_of_rows_and_what_follows(function: Callable[..., Any], shape: tuple[int, ...], axis: Axes):
    check(lambda x: function(x, axis), floats(*shape), tolerance=1e-5)


@pytest.mark.req("S4-20")
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_infinities_stay_in_their_columns(special: float):
    x = floats(300, 200)
    x[123, 45] = special
    check(lambda x: (x - x.max(axis=0), x - x.sum(axis=0), x * x.min(axis=0)), x, tolerance=1e-5)


@pytest.mark.req("S4-20")
def test_truth_values_and_counts():
    x = floats(700, 150)
    check(lambda x: ((x > 1).any(axis=0), (x > -3).all(axis=0), np.where(x > 0, 1, 0).sum(axis=0)), x)


@pytest.mark.req("S4-20")
def test_narrow_floats():
    x = floats(512, 96).astype(np.float16)
    check(lambda x: softmax(x.astype(np.float32), 0).astype(np.float16), x, tolerance=2e-3)


@pytest.mark.req("S4-20")
def test_parameters_beside_columns():
    x, g, b = floats(400, 130), floats(130, seed=1), floats(130, seed=2)
    check(lambda x, g, b: np.maximum(normalised(x, 0) * g + b, 0), x, g, b, tolerance=1e-5)


def batch_norm(x: Any, g: Any, b: Any) -> Any:
    return np.maximum(normalised(x, (0, 2, 3)) * g.reshape(1, -1, 1, 1) + b.reshape(1, -1, 1, 1), 0)


@pytest.mark.req("S4-20")
@pytest.mark.parametrize("shape", [(4, 32, 12, 12), (3, 64, 11, 12), (7, 17, 12, 12), (2, 130, 12, 12)])
def test_channels_lie_on_partitions(shape: tuple[int, ...]):
    x, g, b = floats(*shape), floats(shape[1], seed=1), floats(shape[1], seed=2)
    check(batch_norm, x, g, b, tolerance=1e-5)
    x[0, 3, 2, 2], x[1, 5, 0, 0] = np.inf, np.nan
    check(lambda x: (x - x.max(axis=(0, 2, 3), keepdims=True), x.sum(axis=(0, 2, 3))), x, tolerance=1e-5)


@pytest.mark.req("S4-20")
@pytest.mark.parametrize("function", [softmax, normalised, log_sum, spread])
def test_rows_that_do_not_fit_pass_by_several_times(function: Callable[..., Any]):
    targets = [small(name, 1 << 13) for name in ("trn1", "trn2")]
    for shape, axis in (((20000, 33), 0), ((1300, 301), (0, 1))):
        kernel = check(lambda x, axis=axis: function(x, axis), floats(*shape), targets=targets, tolerance=1e-5)
        assert "written as rows piece by piece" in str(kernel.plan)


READ_ONCE: list[tuple[Callable[..., Any], tuple[int, ...], Axes]] = [
    (softmax, (4096, 1024), 0),
    (softmax, (8, 512, 512), 1),
    (normalised, (4096, 512), 0),
    (normalised, (16, 28, 28, 64), (0, 1, 2)),
    (normalised, (16, 64, 56, 56), (0, 2, 3)),
    (normalised, (16, 256, 14, 14), (0, 2, 3)),
    (lambda x, _: x / np.abs(x).max(), (2048, 1024), 0),
    (lambda x, _: x - x.mean(), (2048, 1024), 0),
]


@pytest.mark.req("S4-20")
@pytest.mark.parametrize(("function", "shape", "axis"), READ_ONCE)
def test_operands_are_read_once_and_near_the_roofline(function: Callable[..., Any], shape: tuple[int, ...], axis: Axes):
    report = compile(lambda x: function(x, axis), spec(shape, "float32"), target="trn2").report
    assert report.hbm_bytes <= 1.01 * report.compulsory_bytes
    assert report.latency_us <= 2.5 * report.roofline_us


@pytest.mark.req("S4-20")
def test_values_stay_on_chip_for_products():
    kernel = compile(lambda x: (x - x.mean(axis=0)).T @ (x - x.mean(axis=0)), spec((1024, 256), "float32"))
    assert kernel.report.hbm_bytes <= 1.01 * kernel.report.compulsory_bytes


def test_rows_that_many_dims_could_be_are_the_ones_before():
    kernel = compile(lambda x: softmax(x, 2), spec((4, 64, 128), "float32"))
    draft = kernel.lowered.draft
    assert draft is not None
    assert all(step.tall is None for step in draft.steps if isinstance(step, Group))


@pytest.mark.parametrize(
    ("rows", "by_blocks", "expected"),
    [
        (4096, False, (128, 32)),
        (1000, False, (125, 8)),
        (1009, False, (128, 7)),
        (1000, True, (128, 7)),
        (50, True, (50, 1)),
    ],
)
def test_layout(rows: int, by_blocks: bool, expected: tuple[int, int]):
    assert layout(rows, 128, by_blocks) == expected


@pytest.mark.parametrize(("columns", "height"), [(512, 128), (200, 100), (64, 64), (509, 1)])
def test_height(columns: int, height: int):
    assert height_of(columns, 128) == height


def test_arrays_of_one_number():
    """They have no rows: what is reduced of them alone is no group of rows, what is computed with them may be."""
    x = floats(257, 33)

    def program(x: np.ndarray) -> tuple[np.ndarray, ...]:
        ones = np.full(x.shape, 0.5, np.float32)
        return ones.sum(axis=0), (x * ones).sum(axis=0), ones.max(axis=0) - x, ones.sum() + x.sum(axis=1)

    check(program, x, tolerance=1e-5)


def test_what_is_made_of_all_rows_stays_for_the_products_that_read_it():
    def ranks(a: Any, p: Any) -> Any:
        m = a / a.sum(0, keepdims=True)
        return m @ (m @ p)

    report = compile(ranks, spec((2048, 2048), np.float32), spec((2048,), np.float32), check="off").report
    assert report.hbm_bytes <= 1.01 * report.compulsory_bytes


@pytest.mark.parametrize("shape", [(128, 3, 99), (300, 40), (1000, 7)])
def test_views_are_read_in_every_pass(shape: tuple[int, ...]):
    """Bits of numbers, before and after a number that is made of all rows is there."""

    def program(x: np.ndarray) -> tuple[np.ndarray, ...]:
        high = (x.view(np.int32) & -4096).view(np.float32)
        low = x - high
        return high * x.max() + low, high.reshape(-1) * low.sum()

    check(program, floats(*shape), tolerance=1e-5)

"""Reductions and running sums over any axes, of any extent: rows, columns, all; long ones part by part."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import TARGETS, check, fits, floats, small
from tilewright.lower.decisions import noted
from tilewright.spec import spec

SHAPES = [(7,), (300, 5), (3, 130, 4), (2, 3, 5, 4)]
KINDS: tuple[Callable[..., Any], ...] = (np.sum, np.max, np.min, np.mean, np.prod, np.var, np.std)


def subsets(rank: int) -> list[tuple[int, ...]]:
    """Every set of axes but the empty one."""
    return list(chain.from_iterable(combinations(range(rank), n) for n in range(1, rank + 1)))


@pytest.mark.req("S4-60")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_set_of_axes(shape: tuple[int, ...]):
    x = floats(*shape)
    for i, axes in enumerate(subsets(len(shape))):
        functions = [partial(kind, axis=axes, keepdims=i % 2 == 0) for kind in KINDS]
        check(lambda x, all=functions: [f(x) for f in all], x, targets=(TARGETS[i % 3],), tolerance=1e-5)
    check(lambda x: (x.sum(-1), x.max(axis=-1), x.mean(), (x > 0).any(0), (x > -9).all()), x, tolerance=1e-5)


def test_axes_beside_dims_of_one_element():
    x = floats(200, 5, 1, 3)
    check(lambda x: (x.max((0, 3)), x.sum((0, 3)), x[:, :, :, :2].transpose(0, 1, 3, 2).min((0, 2))), x, tolerance=1e-5)


def test_sums_over_some_dims_of_a_row():
    """One instruction gives a function and its sum over a whole row, not over some of its dims."""
    x = floats(8, 4, 5)

    def both(x: np.ndarray) -> tuple[np.ndarray, ...]:
        e = np.exp(x)
        return e / e.sum(1, keepdims=True), e.sum(2, keepdims=True) / e.sum((1, 2), keepdims=True)

    check(both, x, tolerance=1e-5)


@pytest.mark.req("S4-61")
def test_over_rows():
    """Also of infinities and NaN; no instruction takes a minimum across partitions."""
    x = floats(260, 7)
    x[5, 2], x[200, 3], x[7, 4], x[8, 4] = np.nan, -np.inf, np.inf, -np.inf
    kernel = check(lambda x: (x.min(0), x.max(0), x.min(), np.nanmin(x, axis=0)), x)
    lines = [line for line in str(kernel.tile_ir).splitlines() if "partition_reduce" in line]
    assert lines and all("maximum" in line for line in lines)
    check(lambda x: x.sum(0), x, tolerance=1e-5)


@pytest.mark.req("S4-62")
@pytest.mark.parametrize("function", [np.sum, np.max, np.min, np.mean])
def test_wide_rows(function: Callable[..., Any]):
    """Many columns are reduced some at a time."""
    check(partial(function, axis=0), floats(200, 1024), targets=("trn2",), tolerance=1e-5)
    for shape in ((256, 131072), (7, 1_000_003)):
        fits(partial(function, axis=0), spec(shape, "float32"))


@pytest.mark.req("S4-65")
@pytest.mark.parametrize("shape", [(300,), (5, 260), (130, 3, 4)], ids=str)
def test_running_sums(shape: tuple[int, ...]):
    x = floats(*shape) / 8 + 1
    for axis in (*range(len(shape)), None):
        check(lambda x, axis=axis: np.cumsum(x, axis=axis), x, targets=("trn1",), tolerance=1e-5)
        check(lambda x, axis=axis: np.cumprod(x / 1.01, axis=axis), x[:40], targets=("trn3",), tolerance=1e-4)


def softmax(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def norm(x: Any, g: Any, b: Any) -> Any:
    m = x.mean(-1, keepdims=True)
    return (x - m) / np.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5) * g + b


LONG: tuple[tuple[Callable[..., Any], tuple[tuple[int, ...], ...]], ...] = (
    (softmax, ((140, 5000),)),
    (softmax, ((3, 6001),)),
    (partial(softmax, axis=0), ((300, 700),)),
    (partial(softmax, axis=1), ((3, 300, 70),)),
    (norm, ((130, 5000), (5000,), (5000,))),
    (lambda x: np.cumsum(x, -1) * 2, ((3, 7000),)),
    (lambda x: np.cumsum(x, 0), ((4000, 3),)),
    (lambda x: (x.sum((1, 2)), x.max((0, 2))), ((20, 30, 400),)),
    (lambda x, y: np.exp(x) + y * x, ((200, 4000), (4000,))),
    (lambda x, y: x[:, None] * y, ((300,), (4000,))),
    (lambda x, y: np.concatenate([x + 1, y * 2], -1).max(-1), ((150, 3000), (150, 3000))),
    (lambda x: x + np.arange(5000, dtype=np.float32) * 0.5, ((130, 5000),)),
    (lambda x: np.tril(x, 3), ((200, 5000),)),
    (lambda x: (x == x.max(-1, keepdims=True)).sum(-1), ((100, 5000),)),
)


@pytest.mark.parametrize(("function", "shapes"), LONG)
def test_rows_that_do_not_fit(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]):
    """With a tenth of the memory: part by part, reductions in several passes."""
    arrays = [floats(*shape, seed=i) / 4 for i, shape in enumerate(shapes)]
    for target in ("trn1", "trn2"):
        check(function, *arrays, targets=(small(target, 20000),), tolerance=2e-5)


@pytest.mark.req("S4-53")
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (softmax, ((300, 70_000),)),
        (softmax, ((3, 1_000_000),)),
        (norm, ((129, 300_000), (300_000,), (300_000,))),
        (lambda x: np.cumsum(x, -1), ((130, 70_000),)),
        (lambda x: x.sum(-1), ((3, 5_000_000),)),
        (lambda x: x.var(0), ((300, 50_000),)),
        (lambda x: np.tanh(x) * x + 1, ((1, 128_256),)),
        (lambda x: x.reshape(128_256, 1), ((1, 128_256),)),
        (lambda x, y: x * y, ((300, 70_000), (70_000,))),
        (lambda x: np.pad(x, ((1, 1), (300, 40_000))), ((300, 60_000),)),
    ],
)
def test_rows_longer_than_sbuf(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]):
    for target in TARGETS:
        kernel = fits(function, *(spec(shape, "float32") for shape in shapes), target=target)
        # Loops stay loops.
        assert len(str(kernel.tile_ir).splitlines()) < 400


def test_more_dims_than_an_access_pattern_has():
    """Some of them are loops, within which the others are counted anew."""
    x = floats(7, 2, 2, 3)
    check(lambda x: np.var(np.broadcast_to(x, (2, 2, 7, 2, 2, 3)), axis=0), x, tolerance=1e-5)
    check(lambda x: np.exp(np.broadcast_to(x, (3, 2, 7, 2, 2, 3))).max(axis=0), x, tolerance=1e-5)


@pytest.mark.parametrize(
    ("function", "most"),
    [
        (lambda x: x / np.abs(x).max(), 1.51),
        (lambda x: (x - x.mean()) / x.std(), 2.01),
        (lambda x: np.square(x).sum() + x, 1.51),
    ],
)
def test_arrays_beyond_the_chip_are_reduced_as_they_are_computed(function: Callable[..., Any], most: float):
    report = fits(function, spec((4096, 4096), "float32")).report
    assert report.hbm_bytes <= most * report.compulsory_bytes
    assert report.latency_us <= 1.2 * most * report.roofline_us, "all partitions are at work"
    check(function, floats(300, 96), targets=[small(target, 4000) for target in TARGETS], tolerance=1e-5)


def test_long_rows_with_the_numbers_of_their_places_are_reduced_in_lines():
    x = np.random.default_rng(3).standard_normal(65536).astype(np.float32)

    def weighted(x: np.ndarray) -> np.ndarray:
        return (x * np.arange(65536, dtype=np.float32)).mean()

    kernel = tw.compile(weighted, x, target="trn2", check="off")
    np.testing.assert_allclose(kernel(x), weighted(x.astype(np.float64)), rtol=1e-4)
    assert kernel.report.instructions < 40


@pytest.mark.parametrize("shape, axis", [((12, 6, 200), 1), ((3000, 7), 1), ((5, 40, 60), 0)])
def test_running_sums_of_short_lines_go_place_by_place(shape: tuple[int, ...], axis: int) -> None:
    x = floats(*shape)
    x.flat[::501] = np.inf
    with noted() as taken:
        check(lambda x: (np.cumsum(x * 2, axis=axis), np.cumprod(x, axis=axis) + 1), x, tolerance=2e-6)
    assert "scan: place by place" in taken

"""Sums of one array at several places: the same numbers from fewer additions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.ir.core import Graph
from tilewright.tensor.interpret import interpret
from tilewright.tensor.passes.shifted_sums import share_shifted

SHAPE = (9, 11)


def parts(p: Any, size: int = 3) -> dict[tuple[int, int], Any]:
    height, width = (n - size + 1 for n in p.shape)
    return {(i, j): p[i : i + height, j : j + width] for i, j in product(range(size), range(size))}


def cross(u: Any) -> Any:
    at = parts(u)
    return 0.25 * (at[0, 1] + at[2, 1] + at[1, 0] + at[1, 2])


def box(u: Any) -> Any:
    return sum(parts(np.pad(u, 1)).values()) / 9


def wide_box(u: Any) -> Any:
    return sum(parts(u, 5).values())


def smooth(u: Any) -> Any:
    k = (0.25, 0.5, 0.25)
    return sum(k[i] * k[j] * x for (i, j), x in parts(np.pad(u, 1)).items())


def slope(u: Any) -> Any:
    at = parts(np.pad(u, 1, mode="edge"))
    across = (at[0, 2] + 2 * at[1, 2] + at[2, 2]) - (at[0, 0] + 2 * at[1, 0] + at[2, 0])
    down = (at[2, 0] + 2 * at[2, 1] + at[2, 2]) - (at[0, 0] + 2 * at[0, 1] + at[0, 2])
    return np.sqrt(across * across + down * down)


def around(u: Any) -> Any:
    turns = [np.roll(np.roll(u, i, 0), j, 1) for i, j in product((-1, 0, 1), (-1, 0, 1)) if i or j]
    return sum(turns) - 8 * u


def clamped(u: Any) -> Any:
    ups = np.concatenate([u[:1], u[:-1]]), np.concatenate([u[1:], u[-1:]])
    sides = np.concatenate([u[:, :1], u[:, :-1]], 1), np.concatenate([u[:, 1:], u[:, -1:]], 1)
    return u + 0.1 * (ups[0] + ups[1] + sides[0] + sides[1] - 4 * u)


def greatest(u: Any) -> Any:
    return reduce(np.maximum, parts(np.pad(u, 1, constant_values=-np.inf)).values())


def least_of_all(u: Any) -> Any:
    return np.minimum(reduce(np.minimum, parts(u).values()), 0.5)


def beside_others(u: Any) -> Any:
    at = parts(u)
    return np.exp(at[1, 1]) + at[0, 0] - at[0, 1] + 3.0 + at[1, 0] - at[1, 1] - u[2:, 2:] * at[1, 1]


def in_line(u: Any) -> Any:
    return sum(u[:, i : i + 5] for i in range(7))


def graph_of(function: Callable[..., Any], array: np.ndarray) -> Graph:
    found = tw.compile(function, array, check="off").passes.simplified
    assert found is not None
    return found


def additions(graph: Graph) -> int:
    names = Counter(op.name for op in graph.ops)
    return sum(names[each] for each in ("add", "subtract", "maximum", "minimum"))


@pytest.mark.parametrize(
    ("function", "most"),
    [
        *[(cross, 2), (box, 4), (wide_box, 8), (smooth, 4), (slope, 7), (around, 6), (clamped, 4)],
        *[(greatest, 4), (least_of_all, 5), (beside_others, 5), (in_line, 4)],
    ],
)
def test_fewer_additions_give_the_same(function: Callable[..., Any], most: int):
    u = np.random.default_rng(3).standard_normal(SHAPE).astype(np.float32)
    graph = graph_of(function, u)
    before = additions(graph)
    assert share_shifted(graph)
    assert additions(graph) <= most < before
    (found,) = interpret(graph, [u])
    np.testing.assert_allclose(found, function(u), rtol=1e-5, atol=2e-6)
    assert not share_shifted(graph)
    u[4, 5], u[0, 0], u[8, 10] = np.inf, -np.inf, np.nan
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(interpret(graph, [u])[0], function(u), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
def test_integers_are_the_same_around_the_ends_of_their_type(dtype: Any):
    info = np.iinfo(dtype)
    u = np.random.default_rng(3).integers(info.min, info.max, SHAPE, dtype, endpoint=True)
    for function in (lambda u: sum(parts(u).values()), lambda u: sum(parts(u).values()) - u[1:-1, 1:-1]):
        graph = graph_of(function, u)
        before = additions(graph)
        assert share_shifted(graph)
        assert additions(graph) < before
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(interpret(graph, [u])[0], function(u))


def taken_off_again(u: Any) -> Any:
    """Differences of differences, the other way round: the places in the middle are added and taken off."""
    at = parts(u)
    return (at[0, 0] - at[0, 1]) + (at[0, 1] - at[0, 2]) + at[1, 0] + at[1, 1] + at[2, 0] + at[2, 1]


def test_infinity_less_infinity_is_no_number():
    u = np.ones(SHAPE, np.float32)
    u[4, 5] = np.inf
    graph = graph_of(taken_off_again, u)
    assert share_shifted(graph)
    with np.errstate(all="ignore"):
        wanted = taken_off_again(u)
        assert np.isnan(wanted).any()
        np.testing.assert_array_equal(interpret(graph, [u])[0], wanted)


def few(u: Any) -> Any:
    return u[1:] + u[:-1] * 2 + np.exp(u[1:])


def of_whole_numbers(u: Any) -> Any:
    """Weights of integers are not taken out of a sum."""
    return sum(3 * x for x in parts(u.astype(np.int32)).values()) + u.astype(np.int32)[1:-1, 1:-1]


def of_other_weights(u: Any) -> Any:
    return sum((i * i + 3 * j + 1.5) * x for (i, j), x in parts(u, 2).items())


@pytest.mark.parametrize("function", [few, of_whole_numbers, of_other_weights])
def test_what_has_nothing_in_common_stays(function: Callable[..., Any]):
    graph = graph_of(function, np.ones(SHAPE, np.float32))
    before = str(graph)
    assert not share_shifted(graph)
    assert str(graph) == before


def test_places_at_random():
    rng = np.random.default_rng(11)
    for _ in range(30):
        picked = [tuple(place) for place in rng.integers(0, 3, (rng.integers(4, 10), 2)).tolist()]
        weights = rng.choice([1.0, 1.0, -1.0, 2.0, 0.5], len(picked)).tolist()

        def total(u: Any, picked: Any = picked, weights: Any = weights) -> Any:
            at = parts(u)
            return reduce(lambda a, b: a + b, [w * at[place] for place, w in zip(picked, weights, strict=True)])

        u = rng.standard_normal(SHAPE).astype(np.float32)
        graph = graph_of(total, u)
        share_shifted(graph)
        for special in (0.0, np.inf, np.nan):
            u[4, 5] = special
            with np.errstate(all="ignore"):
                (found,) = interpret(graph, [u])
                np.testing.assert_allclose(found, total(u), rtol=1e-5, atol=5e-6)


def test_bounds_know_of_them():
    """What a kernel computes less is no less than the least."""
    report = tw.compile(box, tw.spec((1024, 1024), np.float32), check="off").report
    assert report.bound_errors == {}
    # Four additions for each element instead of eight, and borders.
    busy = sum(report.engine_busy_us[each] * rate for each, rate in (("vector", 0.96), ("gpsimd", 0.6)))
    assert busy * 1e3 < 6.5 * 8192


def test_a_sum_whose_reader_has_two_results():
    """Sorting tells the order too: a sum that it alone reads is no part of another sum."""

    def nearest(q: Any, x: Any) -> Any:
        d = (q * q).sum(1)[:, None] - 2 * q @ x.T + (x * x).sum(1)[None]
        return np.argsort(d, axis=1, kind="stable")[:, :8]

    rng = np.random.default_rng(0)
    q, x = (rng.standard_normal((n, 4)).astype(np.float32) for n in (5, 40))
    np.testing.assert_array_equal(tw.compile(nearest, q, x, target="trn2")(q, x), nearest(q, x))

"""argmax, argmin, topk and sorting: NumPy's answers, also with equal elements, infinities and NaN and in long rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, fits, floats, small
from tilewright.errors import TileNotImplementedError
from tilewright.lower.decisions import noted
from tilewright.lower.tuning import tuned

MOST = np.finfo(np.float32).max
RNG = np.random.default_rng(0)
EXACT = ("trn2", "trn3")
"""Targets whose Tensor engine turns infinities and NaN as they are."""


def few(*shape: int) -> np.ndarray:
    """Many equal elements."""
    return RNG.integers(0, 4, shape).astype(np.float32)


def odd(*shape: int) -> np.ndarray:
    """Infinities, NaN, the largest numbers, zeros of both signs; rows of one kind."""
    x = RNG.choice(np.array([np.nan, np.inf, -np.inf, MOST, -MOST, 0.0, -0.0, 1.0, 2.0], np.float32), shape)
    x[0], x[1], x[2] = -np.inf, np.nan, 3
    return x


def integers(*shape: int, dtype: Any = np.int32, low: int | None = None, high: int | None = None) -> np.ndarray:
    """Integers of the whole range of a type, or between two numbers."""
    info = np.iinfo(dtype)
    return RNG.integers(info.min if low is None else low, info.max if high is None else high, shape).astype(dtype)


@pytest.mark.req("S4-63")
@pytest.mark.parametrize("function", [np.argmax, np.argmin])
@pytest.mark.parametrize("make", [few, odd])
@pytest.mark.parametrize("shape", [(300, 40), (30, 5), (30, 1), (3, 4, 30, 9)])
def test_positions(function: Callable[..., Any], make: Callable[..., np.ndarray], shape: tuple[int, ...]):
    check(lambda x: function(x, axis=-1), make(*shape))


@pytest.mark.req("S4-63")
@pytest.mark.parametrize("size", [2048, 2050, 3001])
def test_positions_in_halves(size: int):
    """Lines in two parts: the first of equal ones, whichever part it is in; NaN in either or both."""
    x = RNG.integers(0, 50, (140, size)).astype(np.float32)
    half = -(-size // 2)
    for row, places in enumerate([(0,), (half - 1,), (half,), (size - 1,), (5, half + 7), (half + 7, half + 9)]):
        x[row, list(places)] = 99
        x[row + 6, list(places)] = np.nan
    x[12, half + 3], x[12, 7], x[13], x[14] = np.nan, np.inf, -np.inf, np.nan
    check(lambda x: np.argmax(x, axis=-1), x)


@pytest.mark.req("S4-63")
@pytest.mark.parametrize(
    ("shape", "axis"), [((40, 30), 0), ((40, 30, 5), 1), ((2, 100, 50), 1), ((30, 50), None), ((40,), 0)]
)
@pytest.mark.parametrize("keepdims", [False, True])
def test_positions_along_any_axis(shape: tuple[int, ...], axis: int | None, keepdims: bool):
    check(lambda x: np.argmax(x, axis=axis, keepdims=keepdims), few(*shape))


@pytest.mark.req("S4-63")
@pytest.mark.parametrize(
    "x",
    [
        integers(130, 50),
        integers(130, 50, dtype=np.uint32),
        (2**31 - 1 - RNG.integers(0, 4, (130, 50))).astype(np.int32),
        integers(3, 20000, low=2**24, high=2**24 + 3),
        integers(130, 50, dtype=np.int8),
        integers(130, 50, dtype=np.uint16),
        RNG.integers(0, 2, (130, 50)).astype(bool),
        few(130, 50).astype(ml_dtypes.bfloat16),
    ],
    ids=lambda x: f"{x.dtype}-{x.shape[1]}",
)
def test_positions_of_other_types(x: np.ndarray):
    check(lambda x: np.argmax(x, axis=-1), x)
    if x.dtype.kind == "i":
        check(lambda x: np.argmin(x, axis=-1), x, targets=("trn2",))


@pytest.mark.req("S4-63")
@pytest.mark.parametrize("shape", [(3, 20000), (20011,), (131, 9000), (2, 4096)])
def test_positions_in_long_rows(shape: tuple[int, ...]):
    x = few(*shape)
    x[..., 5] = x[..., -3] = 9
    check(lambda x: np.argmax(x, axis=-1), x)
    x[..., 4000], x[..., 3] = np.nan, np.inf
    check(lambda x: np.argmax(x, axis=-1), x, targets=("trn1", "trn2"))


def test_positions_of_what_is_computed():
    check(lambda x: np.argmax(np.exp(x) * 2, axis=-1) + 1, floats(130, 50))
    wide = tw.compile(lambda x: np.argmax(x, axis=-1), tw.spec((512, 4096), np.float32), target="trn2").report
    assert wide.instructions * 4 <= 469 and wide.hbm_bytes == wide.compulsory_bytes


# topk


@pytest.mark.req("S4-67")
@pytest.mark.req("S4-69")
@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize("make", [few, odd])
@pytest.mark.parametrize(
    ("shape", "k"), [((30, 5), 1), ((30, 5), 3), ((30, 5), 5), ((300, 33), 8), ((150, 33), 12), ((30, 40), 40)]
)
def test_best(make: Callable[..., np.ndarray], shape: tuple[int, ...], k: int, ascending: bool):
    x = make(*shape)
    kernel = check(lambda x: tw.topk(x, k, ascending=ascending), x)
    values, places = kernel.simulate(x)
    assert places.dtype == np.uint32
    assert all(len(set(row)) == k for row in places)
    np.testing.assert_array_equal(np.take_along_axis(x, places.astype(int), -1), values)


@pytest.mark.req("S4-67")
@pytest.mark.parametrize("make", [few, odd])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sort(x, axis=-1)[:, :9],
        lambda x: np.sort(x, axis=-1)[:, ::-1][:, :12],
        lambda x: np.sort(x, axis=0)[-3:],
        lambda x: (np.sort(x, axis=-1)[:, 2:5], np.sort(x, axis=-1)[:, -1]),
        lambda x: np.argsort(x, axis=-1, kind="stable")[:, -10:],
        lambda x: np.argsort(x, axis=-1, kind="stable")[:, ::-1][:, 1:9:2],
        lambda x: np.partition(x, 4, axis=-1)[:, 4],
        lambda x: np.median(x, axis=-1),
    ],
)
def test_the_ends_of_what_is_sorted_are_searched(function: Callable[..., Any], make: Callable[..., np.ndarray]):
    check(function, make(140, 40), targets=EXACT)


@pytest.mark.req("S4-67")
@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis", "k"), [((40, 30), 0, 4), ((40, 30, 3), 1, 12), ((50,), 0, 3), ((2, 3, 9), -1, 2)]
)
def test_best_along_any_axis(shape: tuple[int, ...], axis: int, k: int, ascending: bool):
    check(lambda x: tw.topk(x, k, axis=axis, ascending=ascending), few(*shape))
    if len(shape) > 1 and axis >= 0:
        check(lambda x: tw.topk(x, k, axis=axis, ascending=ascending), odd(*shape), targets=EXACT)


@pytest.mark.req("S4-67")
@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize(("shape", "k"), [((3, 20000), 5), ((3, 20000), 20), ((20011,), 9), ((10, 4096), 3)])
def test_best_of_long_rows(shape: tuple[int, ...], k: int, ascending: bool):
    x = odd(*shape) if len(shape) > 1 else floats(*shape)
    check(lambda x: tw.topk(x, k, ascending=ascending), x, targets=("trn2",))


@pytest.mark.req("S4-67")
@pytest.mark.parametrize(
    "x",
    [
        integers(130, 50, dtype=np.int8),
        integers(130, 50, dtype=np.uint16),
        integers(130, 20),
        integers(30, 20, dtype=np.uint32),
        integers(1, 30, 20, low=2**24, high=2**24 + 3),
        few(130, 50).astype(ml_dtypes.bfloat16),
    ],
    ids=lambda x: f"{x.dtype}-{x.shape}",
)
@pytest.mark.parametrize("ascending", [False, True])
def test_best_of_other_types(x: np.ndarray, ascending: bool):
    check(lambda x: tw.topk(x, 12, ascending=ascending), x, targets=("trn1", "trn2"))


def test_the_best_are_computed_with_on_chip():
    def routed(x: Any) -> Any:
        values, places = tw.topk(np.tanh(x), 2)
        e = np.exp(values - values.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True), places

    kernel = check(routed, floats(130, 50), tolerance=1e-5)
    assert kernel.report.hbm_bytes == kernel.report.compulsory_bytes


@pytest.mark.req("S4-67")
@pytest.mark.parametrize(("k", "peer"), [(8, 24), (32, 56)])
def test_instructions_of_the_best(k: int, peer: int):
    kernel = tw.compile(lambda x: tw.topk(x, k), tw.spec((256, 4096), np.float32), target="trn2")
    assert kernel.report.instructions * 1.5 <= peer
    assert kernel.report.hbm_bytes == kernel.report.compulsory_bytes
    assert "find_index8" not in str(kernel.tile_ir)


def test_places_that_nobody_asks_for_are_not_looked_for():
    """Values alone: no instruction finds where they are, or holds tiles for that."""
    kernel = check(lambda x: np.sort(x, axis=-1)[:, -2:], floats(130, 50), targets=("trn2",))
    assert "max8" in str(kernel.tile_ir) and "match_replace" not in str(kernel.tile_ir)


# Sorting


@pytest.mark.parametrize("shape", [(130, 50), (7, 100), (90,)])
def test_sort(shape: tuple[int, ...]):
    for x in (few(*shape), integers(*shape)):
        check(lambda x: np.sort(x), x, targets=("trn2",))
        check(lambda x: np.argsort(x, kind="stable"), x, targets=("trn1",))


@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize(("x", "k"), [(odd(3, 300), 300), (odd(3, 300), 7), (few(2, 1000), 1000), (few(1, 50), 50)])
def test_elements_that_count_those_before_them(x: np.ndarray, k: int, ascending: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tilewright.lower.kernels.picker.Picker.counts", lambda self, rows, size: True)
    check(lambda x: tw.topk(x, k, ascending=ascending), x, targets=("trn1", "trn2"))


def test_long_rows_are_sorted():
    x = floats(20000)
    check(np.sort, x, targets=("trn2",))
    check(lambda x: np.argsort(np.tanh(x), kind="stable"), few(3000), targets=("trn2",))


def test_rows_too_long_to_sort_are_refused():
    with pytest.raises(TileNotImplementedError, match="topk of 3000000"):
        str(tw.compile(np.sort, tw.spec((3000000,), np.float32)).tile_ir)


def test_what_sorting_gives():
    x = floats(40, 30)
    check(lambda x: np.sort(x, axis=0), x, targets=("trn2",))
    check(lambda x: np.median(x, axis=1), x, targets=("trn2",), tolerance=1e-6)
    check(lambda x, v: np.searchsorted(np.sort(x), v), x[0], x[1])


def test_the_size_of_the_kernel_does_not_grow_with_k():
    def ops(k: int) -> int:
        return str(tw.compile(lambda x: tw.topk(x, k), tw.spec((128, 4096), np.float32)).tile_ir).count("\n")

    with tuned(strip_ns=1e9):  # which cut the transfers of many results
        assert ops(1024) == ops(4096)


@pytest.mark.req("S4-67")
@pytest.mark.parametrize(("rows", "size", "k"), [(3, 3000, 1500), (2, 20000, 40)])
def test_many_of_long_rows(rows: int, size: int, k: int):
    check(lambda x: tw.topk(x, k), floats(rows, size), targets=("trn2",))


@pytest.mark.req("S4-67")
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_candidates_that_do_not_fit(target: str):
    check(lambda x: tw.topk(x, 30), floats(1, 40000), targets=(small(target, 1 << 14),))


@pytest.mark.req("S4-67")
@pytest.mark.parametrize(("shape", "k"), [((2, 10**7), 50), ((1, 10**8), 3), ((4, 20000), 5000)])
def test_rows_of_any_length_lower(shape: tuple[int, int], k: int):
    fits(lambda x: tw.topk(x, k), tw.spec(shape, "float32"))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("size", "count"), [(17, (3, 50)), (100, (1000,)), (255, (1,)), (256, (129,)), (9000, (70,))])
def test_places_in_sorted_rows(size: int, count: tuple[int, ...], side: Any):
    row = np.sort(RNG.integers(0, size, size).astype(np.float32))
    row[-4:] = np.inf, np.inf, np.nan, np.nan
    wanted = RNG.integers(-2, size + 2, count).astype(np.float32)
    wanted.flat[::7] = np.resize(np.array([np.nan, np.inf, -np.inf, 0], np.float32), wanted.flat[::7].size)
    check(lambda x, v: np.searchsorted(x, v, side=side), row, wanted)


EVEN = {
    "exact": np.arange(-8, 9, dtype=np.float32) / 4,
    "rounded": np.linspace(-3, 4, 101, dtype=np.float32),
    "wide": np.linspace(0, 1e38, 40, dtype=np.float32),
    "not quite even": np.arange(30, dtype=np.float32) + np.resize(np.array([0.0, 0.2, -0.1], np.float32), 30),
}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", EVEN)
def test_places_on_a_line(name: str, side: Any):
    """Even intervals are not searched: the nearest of their ends is computed, and compared."""
    row = EVEN[name]
    between = (row[1:] + row[:-1]) / 2
    near = [np.nextafter(row, np.float32(far)) for far in (-np.inf, np.inf)]
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 3e38, -3e38], np.float32)
    wanted = np.concatenate([row, between, *near, odd]).astype(np.float32)
    with noted() as found:
        check(lambda v: np.searchsorted(row, v, side=side), wanted)
    assert "search: bisected" not in found


def test_uneven_intervals_are_searched():
    ramp = np.arange(30, dtype=np.float32)
    for row in (ramp**2, np.sort(ramp % 9), ramp + 1e7):
        with noted() as found:
            check(lambda v, row=row: np.searchsorted(row, v), floats(300) * 30, targets=("trn2",))
        assert "search: bisected" in found


@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.uint8])
def test_places_among_integers(dtype: Any):
    row, wanted = np.sort(integers(60, dtype=dtype)), integers(300, dtype=dtype)
    wanted[:60], row[-1] = row, np.iinfo(dtype).max
    check(lambda x, v: (np.searchsorted(x, v, side="left"), np.searchsorted(x, v, side="right")), row, wanted)


def test_intervals_are_counted():
    x = floats(700)
    x[:9] = -2, 2, np.nan, 0, 0.5, 3, -9, np.inf, -np.inf
    check(lambda x: np.histogram(x, 40, (-2, 2))[0], x)
    check(lambda x, w: np.histogram(x, [-1.0, 0, 0.25, 3], weights=w)[0], x, floats(700, seed=1), tolerance=1e-5)


@pytest.mark.req("S4-69")
@pytest.mark.parametrize("make", [few, odd])
@pytest.mark.parametrize("largest", [False, True])
def test_networks_sort_rows(make: Callable[..., np.ndarray], largest: bool):
    """Values alone, a row to a partition: NaN and infinities are counted, not compared."""

    def values(x: Any) -> Any:
        return tw.topk(x, x.shape[1])[0] if largest else np.sort(x, axis=1)

    for shape in ((140, 250), (300, 256)):
        kernel = check(values, make(*shape), targets=("trn2",))
        assert "max8" not in str(kernel.tile_ir)


@pytest.mark.req("S4-69")
@pytest.mark.parametrize("make", [few, odd])
def test_networks_sort_across_partitions(make: Callable[..., np.ndarray]):
    x = make(4, 3000)
    check(lambda x: (np.sort(x), np.argsort(x, kind="stable")), x[3], targets=("trn2",))
    check(lambda x: tw.topk(x, 2100), x[2:], targets=("trn2",))


@pytest.mark.req("S4-67")
@pytest.mark.req("S4-69")
@pytest.mark.parametrize("make", [few, odd])
@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize(("shape", "k"), [((130, 3000), 64), ((40, 20011), 10), ((20, 4099), 130)])
def test_best_by_groups_and_by_uneven_segments(
    make: Callable[..., np.ndarray], shape: tuple[int, int], k: int, ascending: bool
):
    x = make(*shape)
    x[3, -3:], x[4, -1], x[5, ::200] = 9, -9, np.nan
    check(lambda x: tw.topk(x, k, ascending=ascending), x, targets=("trn2",))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
@pytest.mark.parametrize("shape", [(3, 500), (1, 1000), (130, 24)])
def test_integers_of_32_bits_are_sorted_as_they_are(dtype: Any, shape: tuple[int, int]):
    x, info = integers(*shape, dtype=dtype), np.iinfo(dtype)
    x[:, :9] = [info.min, info.max, 1, 1, info.max, info.min, 0, 1 << 24, (1 << 24) + 1]
    with noted() as found:
        check(lambda x: np.sort(x, axis=-1), x, targets=("trn2",))
        check(lambda x: np.argsort(x, axis=-1, kind="stable"), x, targets=("trn2",))
        check(lambda x: tw.topk(x, x.shape[-1]), x, targets=("trn2",))
    assert "rule: search_by_halves" not in found


@pytest.mark.parametrize("shape", [(8, 700), (40, 130), (2, 2048)])
@pytest.mark.parametrize("largest", [False, True])
def test_rows_are_sorted_all_at_once_with_their_positions(shape: tuple[int, int], largest: bool):
    """Equal elements, infinities and NaN among them; the inverse of an order is one more sort."""
    x = np.round(np.random.default_rng(4).standard_normal(shape) * 8).astype(np.float32)
    x[:, 3::5], x[0, 4::7], x[0, 6::11] = np.nan, np.inf, -np.inf

    def order(x: np.ndarray) -> Any:
        return tw.topk(x, x.shape[-1], ascending=not largest)

    check(order, x, targets=("trn2",))
    check(lambda x: np.argsort(np.argsort(x, axis=-1, kind="stable"), axis=-1, kind="stable"), x, targets=("trn2",))


def test_places_of_what_is_sorted_need_no_check_and_no_gather():
    def by_rank(x: np.ndarray) -> Any:
        order = np.argsort(-x, axis=-1, kind="stable")
        return np.cumsum(np.take_along_axis(x, order, -1), -1)

    kernel = check(by_rank, floats(4, 300), targets=("trn2",), tolerance=1e-5)
    assert "= checked_index" not in str(kernel.plan) and "= take_along_axis" not in str(kernel.plan)


def test_positions_in_longer_rows_are_parts_of_integers():
    x = np.random.default_rng(6).integers(0, 9000, (1, 5000)).astype(np.float32)
    x[0, 7::50] = np.nan
    with noted() as found:
        check(lambda x: np.argsort(x, axis=-1, kind="stable"), x, targets=("trn2",))
        check(lambda x: np.argsort(np.argsort(x, axis=-1, kind="stable"), axis=-1, kind="stable"), x, targets=("trn2",))
    assert "sort: positions with keys" not in found


@pytest.mark.parametrize(("shape", "axis"), [((9, 300), 1), ((300, 9), 0), ((200,), 0)])
def test_what_is_put_in_an_order_is_sorted_by_it(shape: tuple[int, ...], axis: int):
    """Ranks as people write them: one pass over the row for each of its places took 50 ms for 64 rows of 4096."""

    def ranks(x: Any) -> Any:
        order = np.argsort(x, axis=axis, kind="stable")
        found = np.zeros(x.shape, np.float32)
        places = np.arange(x.shape[axis], dtype=np.float32)
        np.put_along_axis(
            found, order, np.broadcast_to(places if axis else places.reshape(-1, *[1] * (x.ndim - 1)), x.shape), axis
        )
        return found

    with noted() as taken:
        check(ranks, odd(*shape))
    assert "rule: put_in_an_order" in taken

"""Rows and elements by run-time indices: taken, put and combined as NumPy does, bad indices refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.emit.kit import run_source
from tests.fuzzing.toys import small_tuning, toys
from tests.lower.kit import TARGETS, check, floats, indices
from tilewright.errors import TileError
from tilewright.lower.decisions import noted
from tilewright.lower.indexed import column_tables, gather
from tilewright.lower.tuning import TUNING, tuned
from tilewright.target import get_target


@pytest.mark.req("S4-79")
@pytest.mark.req("S4-82")
@pytest.mark.parametrize("count", [1, 128, 131, 300, 525])
def test_rows_of_a_table(count: int):
    kernel = check(lambda t, i: np.take(t, i, axis=0), floats(50, 7), indices(50, count))
    assert kernel.report.instructions <= 7 + -(-count // 128)


@pytest.mark.req("S4-79")
@pytest.mark.parametrize(
    ("shape", "axis", "count"),
    [
        ((50,), 0, (3, 4)),
        ((50, 7), 0, ()),
        ((30, 40), None, (140,)),
        ((300, 40), 1, (17,)),
        ((300, 40, 3), 1, (2, 9)),
        ((5, 40, 3), 1, (140,)),
        ((3, 40, 100), 1, (140,)),
        ((2, 3, 5, 40), -1, (9,)),
        ((4, 5, 0), 0, (3,)),
        ((4, 5), 0, (0,)),
    ],
)
def test_along_any_axis(shape: tuple[int, ...], axis: int | None, count: tuple[int, ...]):
    size = int(np.prod(shape)) if axis is None else shape[axis]
    check(lambda t, i: np.take(t, i, axis=axis), floats(*shape), indices(size, *count))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint32, np.int64])
def test_indices_of_any_type(dtype: type):
    chosen = np.random.default_rng(0).integers(0, 100, 40).astype(dtype)
    check(lambda t, i: t[i], floats(100, 3), chosen)
    check(lambda t, i: t[i], floats(100, 3) > 0, chosen, targets=("trn2",))


def test_rows_that_are_computed_with_stay_on_chip():
    kernel = check(lambda t, i: np.exp(t[i]).sum(-1), floats(50, 7), indices(50, 200), tolerance=1e-6)
    assert kernel.report.hbm_bytes <= 200 * (4 + 7 * 4 + 4) + 64
    check(lambda t, i, j: t[i] + t[:, j], floats(40, 40), indices(40, 40), indices(40, 40, seed=2), tolerance=1e-6)


def _norm(t: Any, i: Any, w: Any) -> Any:
    x = t[i]
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w


FETCHED: list[tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = [
    (_norm, (floats(50, 40), indices(50, 300), floats(40, seed=2))),
    (_norm, (floats(50, 40), indices(50, 3, 50), floats(40, seed=2))),
    (lambda t, i, w: (t[i] @ w).sum(-1), (floats(50, 40), indices(50, 300), floats(40, 30, seed=2))),
    (lambda t, x: t[np.argmax(x, -1)] * 2, (floats(50, 40), floats(200, 50, seed=2))),
    (lambda t, i: np.exp(t)[i] * 2, (floats(50, 40), indices(50, 300))),
    (lambda t, i: np.exp(t[i]).sum((1, 2)), (floats(50, 40, 7), indices(50, 140))),
]


@pytest.mark.parametrize(("function", "args"), FETCHED)
def test_many_rows_are_fetched_by_those_who_compute_with_them(
    function: Callable[..., Any], args: tuple[np.ndarray, ...], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(TUNING, "gathered", 1)
    check(function, *args, tolerance=1e-5)


def test_an_embedding_and_its_norm_in_one():
    arrays = (tw.spec((32000, 4096), np.float32), tw.spec((4096,), np.int32), tw.spec((4096,), np.float32))
    report = tw.compile(_norm, *arrays, target="trn2").report
    assert report.hbm_bytes <= 1.01 * report.compulsory_bytes
    assert report.latency_us <= 1.15 * report.roofline_us


@pytest.mark.req("S4-79")
def test_an_embedding_reads_the_rows_it_touches():
    for shape, count in (((32000, 1024), 512), ((128256, 2048), 1024)):
        arrays = (tw.spec(shape, np.float32), tw.spec((count,), np.int32))
        report = tw.compile(lambda t, i: t[i], *arrays, target="trn2").report
        assert report.compulsory_bytes <= report.hbm_bytes <= 1.0001 * report.compulsory_bytes
        assert report.instructions <= 4 + count // 128


@pytest.mark.req("S4-82")
def test_wide_rows():
    arrays = (tw.spec((8, 786432), np.float32), tw.spec((4,), np.int32), tw.spec((4, 786432), np.float32))
    kernel = tw.compile(_put, *arrays, target="trn2")
    assert kernel.report.sbuf_peak_bytes < 200 * 1024


def _put(x: Any, i: Any, part: Any) -> Any:
    x = x.copy()
    x[i] = part
    return x


@pytest.mark.req("S4-82")
@pytest.mark.parametrize(
    ("shape", "count"), [((50, 7), 300), ((50, 70, 3), 20), ((50,), 200), ((500, 3), 1), ((3, 6000), 200)]
)
def test_of_equal_indices_the_last_wins(shape: tuple[int, ...], count: int):
    check(_put, floats(*shape), indices(shape[0], count), floats(count, *shape[1:], seed=3))


def test_rows_that_are_known_to_differ():
    order = np.random.default_rng(0).permutation(300)
    check(lambda x, part: _put(x, order, part), floats(300, 5), floats(300, 5, seed=3))
    check(lambda x, i: _put(x, i, 0.0), floats(30, 5), indices(30, 7))


@pytest.mark.req("S4-83")
def test_several_indices():
    i, j = indices(40, 130), indices(5, 130, seed=2)
    check(lambda t, i, j: t[i, :, j], floats(40, 3, 5), i, j)

    def put(t: Any, i: Any, j: Any, part: Any) -> Any:
        t = t.copy()
        t[i, j] = part
        return t

    check(put, floats(40, 5), i, j, floats(130))


@pytest.mark.req("S4-80")
@pytest.mark.parametrize(
    ("shape", "axis", "count"),
    [
        ((300, 40), -1, (300, 5)),
        ((40, 300), 0, (5, 300)),
        ((30, 40, 6), 1, (30, 7, 6)),
        ((2, 3, 30, 40), -1, (2, 3, 30, 4)),
        ((40,), 0, (7,)),
        ((30, 40), None, (9,)),
        ((300, 40), 1, (1, 5)),
    ],
)
def test_take_along_axis(shape: tuple[int, ...], axis: int | None, count: tuple[int, ...]):
    size = int(np.prod(shape)) if axis is None else shape[axis]
    check(lambda t, i: np.take_along_axis(t, i, axis), floats(*shape), indices(size, *count))


def test_take_along_axis_of_what_is_computed():
    def loss(x: Any, i: Any) -> Any:
        e = np.exp(x - x.max(-1, keepdims=True))
        return np.take_along_axis(np.log(e / e.sum(-1, keepdims=True)), i, -1)

    check(loss, floats(200, 40), np.abs(indices(40, 200, 1)) % 40, tolerance=1e-5)


@pytest.mark.req("S4-83")
@pytest.mark.parametrize(
    ("shape", "axis", "count"),
    [((300, 40), -1, (300, 3)), ((40, 30), 0, (3, 30)), ((40, 30), None, (13,)), ((6, 40, 3), 1, (6, 5, 3))],
)
@pytest.mark.parametrize("scalar", [False, True])
def test_put_along_axis(shape: tuple[int, ...], axis: int | None, count: tuple[int, ...], scalar: bool):
    def put(x: Any, i: Any, part: Any) -> Any:
        x = x.copy()
        np.put_along_axis(x, i, 5.0 if scalar else part, axis)
        return x

    size = int(np.prod(shape)) if axis is None else shape[axis]
    check(put, floats(*shape), indices(size, *count), floats(*count, seed=3), targets=("trn1", "trn2"))


ALONG = [((300, 40), -1, 3), ((40, 300), 0, 2), ((6, 40, 30), 1, 3), ((2, 3, 5, 40), -1, 4), ((40,), 0, 3)]


@pytest.mark.req("S4-80")
@pytest.mark.req("S4-83")
@pytest.mark.parametrize(("shape", "axis", "count"), ALONG)
def test_elements_of_long_rows(shape: tuple[int, ...], axis: int, count: int, monkeypatch: pytest.MonkeyPatch):
    """They are addressed one by one; rows are not loaded for them."""
    monkeypatch.setattr(TUNING, "sparse", 1)
    monkeypatch.setattr(TUNING, "searched", 1)
    small = list(shape)
    small[axis] = count
    i = indices(shape[axis], *small)

    def put(x: Any, i: Any, part: Any) -> Any:
        x = x.copy()
        np.put_along_axis(x, i, part, axis)
        return x

    check(lambda x, i: np.take_along_axis(x, i, axis), floats(*shape), i)
    check(put, floats(*shape), i, floats(*small, seed=3), targets=("trn1", "trn2"))


def test_elements_of_rows_that_do_not_fit():
    x, i = tw.spec((256, 128256), np.float32), tw.spec((256, 1), np.int32)
    assert tw.compile(lambda x, i: np.take_along_axis(x, i, -1), x, i, target="trn2").report.hbm_bytes < 2**16


def _at(ufunc: np.ufunc) -> Callable[..., Any]:
    def combine(x: Any, i: Any, part: Any) -> Any:
        x = x.copy()
        ufunc.at(x, i, part)
        return x

    return combine


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.minimum])
def test_every_one_of_equal_indices_counts(ufunc: np.ufunc):
    part = floats(50, seed=3)
    part[[3, 7, 9]] = np.inf, -np.inf, np.nan
    check(_at(ufunc), floats(300), indices(300, 50), part, tolerance=1e-6)
    large = np.random.default_rng(0).integers(-(2**31), 2**31, 30).astype(np.int32)
    check(_at(ufunc), large, indices(30, 20), large[:20], targets=("trn1", "trn2"))


def test_short_integers_wrap_around():
    x = np.arange(250, 256, dtype=np.uint8)
    for ufunc in (np.add, np.multiply, np.maximum):
        check(_at(ufunc), x, np.array([0, 0, 5, 3]), x[2:], targets=("trn2",))


def test_indices_and_parts_that_are_one_number():
    check(lambda x: np.take_along_axis(x, np.zeros((5, 3), int), 1), floats(5, 1))

    def put(x: Any, part: Any) -> Any:
        x = x.copy()
        np.put_along_axis(x, np.zeros((5, 3), int), part, 1)
        return x

    check(put, floats(5, 2), floats(5, 3))


def test_counts():
    check(lambda x: np.bincount(x, minlength=200), np.abs(indices(200, 5000)) % 200, targets=("trn2",))
    check(lambda x, w: np.bincount(x, w, minlength=20), np.abs(indices(20, 300)) % 20, floats(300), tolerance=1e-5)


READERS: dict[str, Callable[..., Any]] = {
    "take": lambda t, i: np.take(t, i, axis=0),
    "take on chip": lambda t, i: np.take(np.concatenate([t] * 30), i, axis=1),
    "take_along_axis": lambda t, i: np.take_along_axis(t, np.stack([i] * 20), axis=1),
    "put": lambda t, i: _put(t, i, 0.0),
    "several": lambda t, i: t[i, i],
    "bincount": lambda t, i: np.bincount(i, minlength=20),
}


@pytest.mark.req("S4-81")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", READERS)
def test_indices_outside_are_refused(name: str, target: str):
    chosen = np.arange(20, dtype=np.int32)
    table = floats(20, 20)
    kernel = tw.compile(READERS[name], table, chosen, target=target)
    kernel.simulate(table, chosen)
    for bad in (20, -21, 2**31 - 1, -(2**31)):
        chosen[5] = bad
        with pytest.raises(TileError, match="out-of-bound"):
            kernel.simulate(table, chosen)


@pytest.mark.parametrize("combine", [np.add, np.subtract, np.multiply, np.maximum])
@pytest.mark.parametrize(("table", "count"), [((20, 7), (30,)), ((5, 3, 4), (2, 6)), ((9, 1), ())])
def test_rows_are_combined(combine: np.ufunc, table: tuple[int, ...], count: tuple[int, ...]):
    arrays = floats(*table), indices(table[0], *count), floats(*count, *table[1:])
    kernel = check(lambda t, i, g: combine.at(t, i, g), *arrays, targets=("trn2",), tolerance=1e-6)
    assert not kernel.constants


def special(*shape: int) -> np.ndarray:
    """Floats, among them a few that are infinite or NaN, and the greatest."""
    x = floats(*shape)
    x.flat[3:40:5] = np.resize(
        np.array([np.inf, -np.inf, np.nan, np.finfo(np.float32).max], np.float32), x.flat[3:40:5].size
    )
    return x


def added(x: np.ndarray, index: np.ndarray, part: Any) -> np.ndarray:
    """x with rows added to it."""
    x = x.copy()
    np.add.at(x, index, part)
    return x


@pytest.mark.parametrize("make", [floats, special])
@pytest.mark.parametrize(
    ("rows", "count"),
    [((7,), 130), ((300,), 128), ((5000,), 401), ((70000,), 200), ((40, 6), 150), ((9, 3, 5), 300), ((260, 110), 140)],
)
def test_sums_by_places(make: Callable[..., np.ndarray], rows: tuple[int, ...], count: int):
    index = np.random.default_rng(0).integers(-rows[0], rows[0], count).astype(np.int32)
    with np.errstate(all="ignore"):
        check(added, floats(*rows, seed=1), index, make(count, *rows[1:]), tolerance=1e-5)


def test_rows_of_many_places_are_sent_and_of_few_added_up_in_psum():
    def decisions(rows: int, width: int = 16) -> set[str]:
        arrays = tw.spec((rows, width), "float32"), tw.spec((300,), "int32"), tw.spec((300, width), "float32")
        with noted() as found:
            tw.compile(added, *arrays, target="trn2").tile_ir  # noqa: B018
        return {name for name in found if name.startswith("count: rows")}

    assert decisions(300) == {"count: rows in PSUM"}
    assert decisions(40000) == {"count: rows by products", "count: rows are added on the way"}
    # A transfer that adds takes twice the time for each byte: long rows are fetched and sent back.
    assert decisions(40000, 1024) == {"count: rows by products"}


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize(("rows", "width", "count"), [(40000, 20, 700), (5000, 7, 129), (2000, 1024, 300)])
def test_rows_that_are_sent(rows: int, width: int, count: int, same: bool):
    """Equal indices within a block and across blocks: each adds once."""
    index = np.random.default_rng(0).integers(-rows, rows, count).astype(np.int32)
    if same:
        index[::3] = 5
        index[1::3] = np.arange(index[1::3].size) % 20 - rows
    with np.errstate(all="ignore"):
        check(added, special(rows, width), index, special(count, width), tolerance=1e-5)


@pytest.mark.req("S4-81")
@pytest.mark.parametrize("bad", [40000, -40001, 2**31 - 1, -(2**31)])
def test_rows_that_are_sent_nowhere_are_refused(bad: int):
    x, index, part = floats(40000, 4), indices(40000, 300), floats(300, 4)
    kernel = tw.compile(added, x, index, part, target="trn2")
    kernel.simulate(x, index, part)
    index[200] = bad
    with pytest.raises(TileError, match="out-of-bound"):
        kernel.simulate(x, index, part)


@pytest.mark.parametrize("ufunc", [np.maximum, np.minimum])
@pytest.mark.parametrize(
    ("rows", "count"),
    [((40, 6), 150), ((300, 1), 128), ((9, 3), 2), ((500, 5), 401), ((20, 130), 300), ((30000,), 400)],
)
def test_greatest_and_least_by_blocks(ufunc: np.ufunc, rows: tuple[int, ...], count: int):
    index = np.random.default_rng(0).integers(-rows[0], rows[0], count).astype(np.int32)
    index[: count // 3] = index[0]
    with noted() as found:
        check(_at(ufunc), floats(*rows, seed=1), index, special(count, *rows[1:]))
    assert "combine: rows by blocks" in found or rows[1:] == (1,)


@pytest.mark.parametrize(
    ("ufunc", "targets"), [(np.maximum, ["trn1"]), (np.minimum, ["trn1"]), (np.multiply, ["trn1", "trn2", "trn3"])]
)
@pytest.mark.parametrize(("rows", "count"), [((100, 16), 700), ((300, 3), 777), ((130, 2, 2), 2100), ((9, 5), 40)])
def test_columns_of_rows_by_their_places(
    ufunc: np.ufunc, targets: list[str], rows: tuple[int, ...], count: int
) -> None:
    """Where no transfer takes rows by a column of indices; row by row took 30 to 130 times as long."""
    index = np.random.default_rng(0).integers(-rows[0], rows[0], count).astype(np.int32)
    index[: count // 3] = index[0]
    new = special(count, *rows[1:]) if ufunc is not np.multiply else 1 + floats(count, *rows[1:], seed=2) / 100
    for target in targets:
        with noted() as found:
            kernel = check(_at(ufunc), floats(*rows, seed=1), index, new, targets=[target], tolerance=1e-4)
        assert "combine: by places" in found
        assert kernel.report.latency_us < 2 * count


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize(("rows", "count"), [((3000,), (1100,)), ((1700, 3), (30, 50))])
def test_tables_of_thousands_are_looked_up_on_every_partition(
    dtype: type, rows: tuple[int, ...], count: tuple[int, ...]
):
    table = special(*rows) if dtype is np.float32 else np.arange(np.prod(rows), dtype=np.int32).reshape(rows) * 200003
    with noted() as found:
        check(lambda x, i: x[i] + x[0], table, indices(rows[0], *count))
    assert {"inside: look up", "load: spread by shuffles"} <= set(found)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
@pytest.mark.parametrize(("rows", "count"), [((30001,), 9000), ((5000, 3), 6001), ((52001,), 12000)])
def test_larger_tables_come_part_by_part(
    monkeypatch: pytest.MonkeyPatch, dtype: type, rows: tuple[int, ...], count: int
):
    monkeypatch.setattr(gather, "columns_ns", lambda *_: np.inf)
    table = special(*rows) if dtype is np.float32 else np.arange(np.prod(rows)).astype(dtype).reshape(rows)
    with noted() as found, tuned(table=1000):
        kernel = check(lambda x, i: x[i], table, indices(rows[0], count))
    assert "take: by parts of the table" in found
    bad = indices(rows[0], count)
    bad[count // 2] = rows[0]
    with pytest.raises(TileError, match="out-of-bound"):
        kernel.simulate(table, bad)


COLUMN_TABLES = [
    ((1000, 64), (5003,), np.float32),
    ((999, 3), (50, 41), np.float32),
    ((515, 200), (3000,), np.float16),
    ((640, 128), (2000,), ml_dtypes.bfloat16),
    ((1300, 5, 4), (4001,), np.int32),
]


@pytest.mark.parametrize("most", [1, 4])
@pytest.mark.parametrize("case", COLUMN_TABLES, ids=lambda case: f"{case[0]} {np.dtype(case[2])}")
def test_tables_lie_on_chip_by_columns(monkeypatch: pytest.MonkeyPatch, case: tuple, most: int):
    """As often as their columns fit, or in sections: what is found is what is there, NaN and infinities included."""
    shape, count, dtype = case
    able = column_tables.sections_of
    monkeypatch.setattr(column_tables, "sections_of", lambda low, op: able(low, op)[:most][::-1])
    monkeypatch.setattr(gather, "columns_ns", lambda low, op: 0.0 if able(low, op) else np.inf)
    table = np.arange(np.prod(shape)).reshape(shape) - 7 if dtype is np.int32 else floats(*shape)
    table, places = table.astype(dtype), indices(shape[0], *count)
    if dtype is not np.int32:
        table[5], table[7, 0], table[8] = np.nan, np.inf, -np.inf
    with noted() as found, tuned(table=1):
        kernel = check(lambda x, i: x[i], table, places, targets=("trn1", "trn3", "trn2"))
    assert {"take: a table turned", "take: looked up by columns"} <= set(found)
    for beyond in (shape[0], -shape[0] - 1):
        bad = places.copy()
        bad.flat[count[0] // 2] = beyond
        with pytest.raises(TileError, match="out-of-bound"):
            kernel.simulate(table, bad)


def _weighed(x: np.ndarray, i: np.ndarray, w: np.ndarray) -> np.ndarray:
    return (x[i] * w[..., None]).sum(-2)


@pytest.mark.parametrize("target", ["toy1", "toy2", "toy2-few-banks", "toy3", "trn1", "trn2", "trn3"])
@pytest.mark.parametrize("shape", [(40, 3), (70, 8), (33, 2)])
def test_rows_that_are_computed_with_are_looked_up_by_columns(target: str, shape: tuple[int, int]):
    """In all the ways in which a table may lie: the schedule says which."""
    small = target.startswith("toy")
    machine = toys()[target] if small else get_target(target)
    args = floats(*shape), indices(shape[0], 90, 6), floats(90, 6)
    args[0][5], args[0][7, 0], args[0][8] = np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        expected = _weighed(*args)
    with tuned(**{**(small_tuning() if small else {}), "gathered": 1, "looked_up": 1 << 30, "table": 1}):
        plain = tw.compile(_weighed, *args, target=machine, check="off")
        step = re.compile("  write (?!single op).*")
        for sections in ("", ", sections 2", ", sections 3", ", sections 4"):
            asked = step.sub(f"  write looked up rows{sections}", str(plain.schedule))
            try:
                found = tw.compile(_weighed, *args, target=machine, schedule=asked, check="off").simulate(*args)
            except TileError as error:
                assert sections and error.diagnostic.code in ("E857", "E858")
                continue
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_a_table_is_turned_once_for_all_that_take_from_it(target: str):
    """Its load counts once, whoever takes from it in between, and what is taken stays on chip."""

    def summed(x: np.ndarray, i: np.ndarray, w: np.ndarray) -> np.ndarray:
        out = np.zeros((2048, 64), np.float32)
        for j in range(4):
            out = out + w[:, j, None] * x[i[:, j]]
        return np.tanh(out)

    with noted() as found:
        args = floats(3000, 64), indices(3000, 2048, 4), floats(2048, 4, seed=2)
        kernel = check(summed, *args, targets=(target,), tolerance=1e-5)
    assert {"take: looked up by columns", "take: looked up, to stay on chip"} <= set(found)
    assert kernel.report.hbm_bytes < 1.5 * kernel.report.compulsory_bytes


def test_the_clock_decides_how_rows_are_fetched():
    """Many rows of a small table are looked up, in a group and by themselves; few of a large one are fetched."""
    many = tw.compile(_weighed, floats(3000, 64), indices(3000, 1024, 20), floats(1024, 20), target="trn2")
    assert many.report.latency_us < 100 and "looked up rows" in str(many.schedule)
    assert many.report.hbm_bytes < 1.1 * many.report.compulsory_bytes
    alone = tw.compile(lambda x, i: x[i], floats(3000, 64), indices(3000, 1 << 14), target="trn2")
    assert alone.report.latency_us < 70 and alone.report.instructions_by_name["nc_n_gather"]
    few = tw.compile(lambda x, i: x[i], floats(30000, 64), indices(30000, 1024), target="trn2")
    assert "nc_n_gather" not in few.report.instructions_by_name


TAKEN_LINES = [
    ((260, 50), 1, (9,)),
    ((1024, 20, 2), 1, (17,)),
    ((128, 33), 1, (6,)),
    ((7, 1000), 1, (30, 41)),
    ((2, 1500), 1, (2003,)),
    ((768, 4, 16), 2, (5,)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
@pytest.mark.parametrize(("shape", "axis", "count"), TAKEN_LINES)
def test_lines_that_fill_partitions(dtype: type, shape: tuple[int, ...], axis: int, count: tuple[int, ...]):
    """A partition has several rows, or several partitions have the same row."""
    x = special(*shape) if dtype is np.float32 else np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    index = indices(shape[axis], *count)
    with noted() as found:
        kernel = check(lambda x, i: np.take(x, i, axis=axis), x, index)
    assert "take: along rows on chip" in found
    index.flat[-1] = shape[axis]
    with pytest.raises(TileError, match="out-of-bound"):
        kernel.simulate(x, index)


def test_channels_are_taken_as_they_lie():
    y, x = (np.abs(indices(n, 30, 40)) % n for n in (25, 35))
    with noted() as found:
        check(lambda im, y, x: im[:, y, x], special(20, 25, 35), y, x)
    assert {"rule: take_along_last", "take: along rows on chip"} <= set(found)
    check(lambda im, y, x: im[:, :, y, x] * 2, special(2, 3, 25, 35), y, x)


def test_rows_on_chip_are_sent_by_a_few_transfers():
    """Sums of squares of what stays on chip."""

    def scores(key: np.ndarray, x: np.ndarray) -> np.ndarray:
        away = x - added(np.zeros(50, np.float32), key, x)[key]
        squares = added(np.zeros(50, np.float32), key, away * away)
        return away / np.sqrt(squares)[key]

    key = np.abs(indices(50, 1 << 15)) % 50
    with noted() as found:
        kernel = check(scores, key, floats(1 << 15), targets=("trn2",), tolerance=1e-4)
    assert {"store: turned", "store: all blocks at once"} & set(found)
    assert kernel.report.latency_us < 200


def test_takes_from_one_table_are_joined():
    def sampled(x: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        first = x[i, j]
        # Depends on what was taken before.
        again = x[(first > 0).astype(np.int32), j]
        return first * x[i - 1, j] + x[i, j - 1] * again

    with noted() as found, tuned(table=1000):
        check(sampled, special(90, 110), *(np.abs(indices(n, 60, 70)) % n for n in (90, 110)))
    assert "rule: takes from one table" in found


@pytest.mark.parametrize("ufunc", [np.maximum, np.minimum])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int16, np.uint8, np.float16])
def test_greatest_and_least_of_other_numbers(ufunc: np.ufunc, dtype: type):
    """Integers that float32 does not hold are compared by halves."""
    part = np.random.default_rng(0).integers(-(2**31), 2**31, (300, 3)).astype(np.int32)
    part[:40] //= 2**18
    part[40:50] = 2**31 - 1, -(2**31), 0
    part[50:90, 1] = part[50, 1] + np.arange(40)
    with np.errstate(all="ignore"), noted() as found:
        part = part.astype(dtype)
        check(_at(ufunc), part[:70], indices(70, 300), part, targets=("trn2",))
    assert "combine: rows by blocks" in found


SMALL: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "greatest": (_at(np.maximum), (floats(9, 3), indices(9, 40), special(40, 3))),
    "least integers": (
        _at(np.minimum),
        (np.full((9, 3), 99, np.int32), indices(9, 40), np.arange(-60, 60, dtype=np.int32).reshape(40, 3) * 17895697),
    ),
    "sums": (added, (floats(30, 5), indices(30, 45), special(45, 5))),
    "numbers": (lambda x, i: x[i] * 2, (special(20), indices(20, 300))),
    "parts of a table": (lambda x, i: x[i] * 2, (special(70, 3), indices(70, 1500))),
    "lines": (lambda x, i: np.take(x, i, axis=1), (special(60, 20, 2), indices(20, 17))),
    "shares": (lambda x, i: np.take(x, i, axis=1), (special(7, 40), indices(40, 30, 4))),
}


@pytest.mark.parametrize("target", ["toy2-few-banks", "toy3-narrow"])
@pytest.mark.parametrize("name", SMALL)
def test_indices_on_toys(name: str, target: str):
    function, arguments = SMALL[name]
    with tuned(**small_tuning()), np.errstate(all="ignore"):
        check(function, *arguments, targets=[toys()[target]], tolerance=1e-5)


def test_greatest_of_few_places_are_compared_with_all_indices():
    def decisions(rows: int) -> set[str]:
        with noted() as found:
            tw.compile(_at(np.maximum), floats(rows), indices(rows, 300), floats(300), target="trn2").tile_ir  # noqa: B018
        return {name for name in found if name.startswith("combine:")}

    assert decisions(100) == {"combine: by places"}
    assert decisions(40000) == {"combine: rows by blocks"}


@pytest.mark.parametrize("make", [floats, special])
def test_tables_that_take_turns(make: Callable[..., np.ndarray]):
    """Rows are taken from a table and added to another of many places: blocks of them do not wait for each other."""

    def passed_on(x: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        return added(np.zeros_like(x), target, x[source])

    x = make(6000, 20)
    source, target = (np.random.default_rng(i).integers(0, 6000, 1400).astype(np.int32) for i in range(2))
    with noted() as found, np.errstate(all="ignore"):
        check(passed_on, x, source, target, targets=("trn2",), tolerance=1e-5)
    assert "count: tables in turn" in found


@pytest.mark.parametrize(("places", "count"), [(3, 400), (256, 1000), (5000, 700), (140000, 300)])
def test_counts_of_any_number_of_places(places: int, count: int):
    index = np.random.default_rng(0).integers(0, places, count).astype(np.int32)
    check(lambda i: np.bincount(i, minlength=places), index)
    check(lambda x, i: added(x, i, 3), np.arange(places, dtype=np.int32), index, targets=("trn2",))


@pytest.mark.parametrize("make", [floats, special])
@pytest.mark.parametrize("shape", [(128 * 512,), (300, 40), (256, 128), (128 * 513,)])
def test_numbers_are_added_up_as_they_lie_on_chip(make: Callable[..., np.ndarray], shape: tuple[int, ...]):
    """Places and what is added there may be computed: neither passes through HBM where both fill the partitions."""

    def summed(x: Any, w: Any) -> Any:
        place = np.clip(np.floor(x * 20), 0, 69).astype(np.int32).reshape(-1)
        weight = (np.abs(w) * 2).reshape(-1)
        return np.bincount(place, minlength=70), added(np.zeros(70, np.float32), place, weight)

    x, w = np.abs(floats(*shape)), make(*shape)
    with np.errstate(all="ignore"):
        kernel = check(summed, x, w, tolerance=1e-5)
    if shape[0] % 128 == 0 and shape[0] // 128 != 513:
        assert kernel.report.hbm_bytes < 1.1 * kernel.report.compulsory_bytes


def test_long_columns_are_marked_place_by_place():
    """The Vector engine has a fast mode for one input; what a number of columns leaves over has no marks."""
    index = np.random.default_rng(0).integers(0, 65, 128 * 1027).astype(np.int32)
    kernel = check(lambda i: np.bincount(i, minlength=65), index, targets=("trn2",))
    assert "tensor_scalar" in str(kernel.tile_ir)
    marks = [op for op in kernel.tile_ir.body.ops if op.name == "tensor_tensor" and "marks" in str(op)]
    assert not marks


@pytest.mark.parametrize("ufunc", [np.maximum, np.minimum, np.multiply])
@pytest.mark.parametrize(("rows", "count"), [(130, 5000), (2048, 4500), (2300, 4300), (20000, 130)])
def test_numbers_are_compared_with_places_of_sixteen_bits(ufunc: np.ufunc, rows: int, count: int):
    """Some places at a time, as far as float16 counts; many of them as float32."""

    def folded(x: Any, i: Any, w: Any) -> Any:
        x = x.copy()
        ufunc.at(x, i, w)
        return x

    index = np.random.default_rng(0).integers(-rows, rows, count).astype(np.int32)
    index[:4] = 0, rows - 1, -1, -rows
    with np.errstate(all="ignore"):
        # Products of the greatest numbers depend on the order.
        part = floats(count) if ufunc is np.multiply else special(count)
        check(folded, floats(rows), index, part, tolerance=1e-5)


@pytest.mark.parametrize(("rows", "is_narrow"), [(1000, True), (20000, False)])
def test_places_have_sixteen_bits_where_these_count_them(rows: int, is_narrow: bool):
    def folded(i: Any, w: Any) -> Any:
        x = np.ones(rows, np.float32)
        np.multiply.at(x, i, w)
        return x

    kernel = tw.compile(folded, tw.spec((4000,), "int32"), tw.spec((4000,), "float32"), target="trn2")
    assert ("float16" in kernel.source) == is_narrow


def test_numbers_that_are_looked_up_join_what_computes_with_them():
    x, table = np.abs(floats(128 * 1024)), floats(101)

    def summed(x: Any, t: Any) -> Any:
        place = np.clip(x * 30, 0, 100).astype(np.int32)
        return np.bincount(np.clip(t[place] * 10, 0, 31).astype(np.int32), minlength=32)

    kernel = check(summed, x, table, targets=("trn2",))
    assert kernel.report.hbm_bytes < 1.2 * kernel.report.compulsory_bytes


def test_a_place_that_is_not_there():
    kernel = tw.compile(lambda i: np.bincount(i, minlength=9), np.zeros(200, np.int32))
    with pytest.raises(TileError):
        kernel(np.full(200, 9, np.int32))


def test_a_diagonal_by_index():
    """No tensor's dim goes along it: it is copied first, so that NKI can say which elements are meant."""
    x, i = floats(7, 7), np.array([4, 0, 2], np.int32)
    kernel = check(lambda x, i: np.take(np.diagonal(x, 1), i), x, i)
    np.testing.assert_array_equal(run_source(kernel.source, [x, i]).result, np.diagonal(x, 1)[i])


def chosen(x: Any, i: Any) -> Any:
    return np.exp(x)[np.arange(len(i)), i]


def chosen_of_softmax(x: Any, i: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return -np.log(np.take_along_axis(e / e.sum(1, keepdims=True), i[:, None], 1)), x[np.arange(len(i)), i]


def some_of_each(x: Any, i: Any) -> Any:
    return (np.abs(x) + 1)[np.arange(len(i))[:, None], np.stack([i, i // 2, -1 - i], 1)]


@pytest.mark.parametrize("function", [chosen, chosen_of_softmax, some_of_each])
@pytest.mark.parametrize("picked_of", [1, 256])
def test_elements_of_each_row(function: Any, picked_of: int):
    with tuned(picked_of=picked_of):
        check(function, floats(150, 40), indices(40, 150) % 40, tolerance=1e-6)


def test_what_is_not_picked_is_not_loaded():
    x, i = tw.spec((512, 4096), np.float32), tw.spec((512,), np.int32)
    assert tw.compile(chosen, x, i, check="off").report.hbm_bytes < 64 * 1024
    wanted = tw.compile(chosen_of_softmax, x, i, check="off")
    assert wanted.bounds.compulsory_bytes > 512 * 4096 * 4
    assert wanted.report.hbm_bytes < 1.05 * wanted.bounds.compulsory_bytes


def test_rows_are_loaded_where_elements_would_come_one_by_one():
    """A transfer of trn1 takes a single index: 384 elements by themselves take 380 us, their rows 2."""
    x, i = floats(384, 300), indices(300, 384)
    kernel = check(lambda x, i: x[np.arange(len(i)), i], x, i, targets=["trn1"])
    assert kernel.report.dma_transfers < 12
    long, one = tw.spec((64, 1 << 14), np.float32), tw.spec((64,), np.int32)
    assert tw.compile(chosen, long, one, target="trn1", check="off").report.hbm_bytes < 64 * 1024


def test_indices_of_all_blocks_are_loaded_at_once():
    def rows(t: Any, i: Any) -> Any:
        return t[i] * 2

    with noted() as notes:
        kernel = tw.compile(rows, tw.spec((40960, 600), np.float32), tw.spec((8192,), np.int32), check="off")
        assert kernel.report.dma_transfers < 140
    assert "load: before the loop" in notes
    check(rows, floats(90, 7), indices(90, 700))


def frames(x: Any, size: int, hop: int, start: int = 0) -> Any:
    count = (x.shape[-1] - start - size) // hop + 1
    return x[..., start + hop * np.arange(count)[:, None] + np.arange(size)]


def squares_of_frames(x: Any, w: Any) -> Any:
    return np.square(frames(x, 40, 7) @ w)


def frames_that_are_written(x: Any) -> Any:
    """The windows are an array of their own."""
    made = frames(x, 32, 16)
    made[1] = 0
    return made, x + np.float32(1)


WINDOWS = {
    "frames": (lambda x: frames(x, 64, 32, 5), ((2000,),)),
    "of many rows": (lambda x: np.tanh(frames(x, 33, 10)), ((3, 500),)),
    "of what is computed": (lambda x: frames(np.tanh(x) * x, 25, 3).sum(-1), ((400,),)),
    "product": (squares_of_frames, ((1500,), (40, 20))),
    "written": (frames_that_are_written, ((300,),)),
    "rows": (lambda x: x[2 + 3 * np.arange(20)[:, None] + np.arange(24)], ((100, 6),)),
    "apart": (lambda x: x[np.arange(20)[:, None] + 5 * np.arange(24)], ((140,),)),
    "squares": (lambda x: x[np.arange(17)[:, None, None] * 30 + np.arange(20)[:, None] + np.arange(7)], ((700,),)),
    "repeated": (lambda x: x[np.zeros((20, 1), int) + np.arange(30)], ((40,),)),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_known_windows_are_read_as_they_lie(name: str):
    function, shapes = WINDOWS[name]
    with noted() as taken:
        kernel = check(function, *(floats(*shape) for shape in shapes), tolerance=1e-5)
    assert "take: windows" in taken
    assert kernel.report.instructions < 60


def test_known_indices_that_are_no_windows():
    index = np.arange(20)[:, None] * 3 + np.arange(24)
    index[5, 7] += 1
    with noted() as taken:
        check(lambda x: x[index], floats(100))
        check(lambda x: x[index[:, ::-1]], floats(100))
    assert "take: windows" not in taken


def neighbours(x: Any, i: Any) -> Any:
    return np.tanh(x[i].mean(1)) * x[: i.shape[0]]


ROWS_AND_WORK = {
    "norms": (lambda t, i: t[i] / np.sqrt((t[i] * t[i]).sum(-1, keepdims=True) + np.float32(1)), (90, 6), (1000,)),
    "many of a row": (neighbours, (500, 5), (260, 7)),
    "greatest of two": (lambda t, i: t[i].max((1, 2)), (40, 3, 4), (200, 3)),
    "squares": (lambda t, i: np.exp(t[i]).sum((1, 2)), (40, 6), (150, 2, 3)),
}


@pytest.mark.parametrize("name", ROWS_AND_WORK)
def test_rows_are_fetched_by_who_computes_with_them(monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setattr(TUNING, "gathered", 1)
    monkeypatch.setattr(TUNING, "looked_up", 1 << 30)
    function, shape, count = ROWS_AND_WORK[name]
    places = indices(shape[0], *count)
    with noted() as taken:
        check(function, floats(*shape), places, tolerance=1e-5)
    assert "inside: take" in taken


def test_short_rows_that_are_fetched_share_a_partition(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(TUNING, "looked_up", 1 << 30)
    kernel = tw.compile(lambda t, i: t[i] / np.abs(t[i]).sum(-1, keepdims=True), floats(400, 32), indices(400, 1 << 15))
    assert kernel.report.instructions < (1 << 15) / 128 * 1.5


def test_an_index_of_many_for_each_row_may_be_out_of_bounds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(TUNING, "gathered", 1)
    monkeypatch.setattr(TUNING, "looked_up", 1 << 30)
    places = indices(300, 260, 7)
    kernel = tw.compile(neighbours, floats(300, 5), places)
    places[130, 4] = 300
    with pytest.raises(TileError):
        kernel(floats(300, 5), places)


def _added(x: np.ndarray, i: np.ndarray, y: np.ndarray) -> np.ndarray:
    z = x.copy()
    z[i] += y
    np.add.at(z, i, y)
    return z


FROM_OTHERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sorted": np.sort,
    "some of the sorted ones": lambda i: np.partition(i, 3),
    "the greatest": lambda i: tw.topk(i, 12)[0],
    "ranks, twice": lambda i: np.broadcast_to(np.argsort(i, kind="stable")[:6], (2, 6)).reshape(-1),
    "ranks, cut to few bits": lambda i: (np.argsort(i, kind="stable") * 128).astype(np.uint8).astype(np.int32) // 64,
}


@pytest.mark.parametrize("case", FROM_OTHERS)
def test_indices_that_are_made_of_others_may_be_negative_and_equal(case: str):
    """Sorted values are no positions: these alone are known to be neither negative nor equal."""
    made = FROM_OTHERS[case]
    chosen = np.random.default_rng(1).integers(-5, 5, 12).astype(np.int32)
    check(lambda x, i: x[made(i)], floats(40, 8), chosen, targets=("trn1", "trn2"))
    for function in (_put, _added):
        check(lambda x, i, y, f=function: f(x, made(i), y), floats(40, 8), chosen, floats(12, 8), tolerance=1e-6)


@pytest.mark.parametrize(
    "part",
    [
        lambda y: y[::-1],
        lambda y: y[:, ::-1],
        lambda y: np.exp(y)[::-1],
        lambda y: y.reshape(8, 50).T,
        lambda y: np.broadcast_to(y[:1], y.shape)[::-1],
    ],
    ids=["backwards", "columns backwards", "computed", "turned", "repeated"],
)
def test_rows_that_are_put_in_any_order_can_be_written_as_source(part: Callable[[np.ndarray], np.ndarray]):
    arrays = floats(40, 8), indices(40, 50), floats(50, 8)
    kernel = check(lambda x, i, y: _put(x, i, part(y)), *arrays, tolerance=1e-6, targets=("trn2",))
    run_source(kernel.source, [*kernel.device_arrays(arrays), *kernel.constants], kernel.target)


def heads(t: Any, i: Any, s: Any) -> Any:
    return s + t[i].transpose(2, 0, 1)


def beside(t: Any, i: Any, s: Any) -> Any:
    found = np.exp(t[i])
    return found / found.sum(1, keepdims=True), s[0] * 2


LOOKED_UP: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "a line": (lambda t, i, s: t[i] + s.ravel()[: i.size], (40,), (1500,)),
    "rows": (lambda t, i, s: t[i] * 2, (16,), (200, 33)),
    "rows that are reduced": (beside, (16,), (300, 40)),
    "rows of a table": (lambda t, i, s: t[i] - 1, (30, 6), (300, 5)),
    "a table for each head": (heads, (30, 4), (40, 40)),
}


@pytest.mark.parametrize("name", LOOKED_UP)
def test_numbers_of_a_small_table_are_looked_up_on_chip(name: str):
    function, table, shape = LOOKED_UP[name]
    index = np.random.default_rng(0).integers(-table[0], table[0], shape).astype(np.int32)
    args = (floats(*table), index, floats(4, *((1, *shape)[-2:])))
    with noted() as taken:
        kernel = check(function, *args, tolerance=1e-6)
    assert "inside: look up" in taken
    assert "nc_n_gather" in kernel.report.instructions_by_name


def test_an_index_beyond_a_small_table_is_refused():
    index = np.zeros((128, 64), np.int32)
    index[77, 5] = 16
    kernel = tw.compile(lambda t, i: t[i] * 2, floats(16), index, check="off")
    with pytest.raises(TileError):
        kernel(floats(16), index)


def test_many_known_indices_are_looked_through_once():
    """Whether they are ramps is known after a few of them: this took a minute."""
    places = np.random.default_rng(0).integers(0, 32, (256, 1024)).astype(np.int32)
    check(lambda t: t[places], floats(32), targets=("trn2",))

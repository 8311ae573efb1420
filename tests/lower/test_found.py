"""Programs that random testing found wrong once, made small; all targets, exactly NumPy's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.emit.kit import run_source
from tests.lower.kit import check, fits, floats
from tilewright.dtypes import float32
from tilewright.ir.walk import walk
from tilewright.lower.choose import fit, ways
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.builder import TileBuilder
from tilewright.target import get_target
from tilewright.tile.memory import Buffer
from tilewright.tile.ops import ALLOC

RNG = np.random.default_rng(0)


def halves(*shape: int) -> np.ndarray:
    return (RNG.integers(-8, 9, shape) / 2).astype(np.float32)


def whole(*shape: int, low: int = 0, high: int = 8, dtype: Any = np.int32) -> np.ndarray:
    return RNG.integers(low, high, shape).astype(dtype)


def best_of_a_square(x):
    """The rows on chip are the columns of what is searched."""
    counts = (np.arange(7, dtype=np.int32) < x[:, None]).sum(axis=1)
    return tw.topk(np.tril(counts, -2), 3, axis=-1, ascending=False)[1]


def filled(x):
    """Sums of arrays of one number."""
    y = np.abs(x)
    y[...] = 2
    return np.minimum(y.sum(axis=-1)[3:4], 400), y.sum(axis=0), np.prod(y[:, :3], axis=1), y.sum()


def sorted_view(x):
    """Rows that an index leads through backwards."""
    y = np.reshape(x, (7, 10, 1, -1), order="F")
    z = np.rot90(y, -1)
    z.sort()
    return y, z


PROGRAMS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "best of a square": (best_of_a_square, [whole(7)]),
    "backwards table": (lambda x: np.take(x, [6, 2], mode="clip")[[1, 0, 1, -2]], [whole(3, 2, 3, dtype=np.uint16)]),
    "filled": (filled, [halves(33, 128)]),
    "sorted view": (sorted_view, [whole(5, 7, 2, high=99, dtype=np.int64)]),
    "batches of lower rank": (lambda x, y: (x % y, x * y - y), [halves(3, 7, 129), whole(7, 129, low=1)]),
    "maximum of many dims": (lambda x: np.max(np.abs(x) + 1), [halves(7, 2, 7, 2, 7)]),
    "products of products": (
        lambda x: np.vecdot(np.outer(x[0] - x[1], x[0] - x[1]), np.fmax(x[0], 7)),
        [whole(2, 5, dtype=np.int64)],
    ),
    "count of one": (lambda x: (np.count_nonzero(x, axis=-1), np.count_nonzero(x, axis=-1) - x), [whole(1, low=1)]),
    "sum with itself": (lambda x: np.expand_dims(x, 4) + x[[-1]], [whole(1, 3, 1, 40, dtype=np.int8)]),
    "places in nothing": (
        lambda x: np.searchsorted(np.sort(x[:, :, :0], axis=None), x >= 0, "right"),
        [halves(3, 64, 4, 3)],
    ),
    "mask without rows": (lambda x: np.triu(np.maximum(np.cumsum(x, axis=1), 0), -1), [halves(1, 300, 3, 3)]),
    "few long rows": (
        lambda x, i: np.take_along_axis(x, i, axis=-1),
        [halves(2, 40_000), whole(2, 30, high=40_000)],
    ),
    "few long columns": (
        lambda x, i: np.take_along_axis(x, i, axis=1),
        [halves(2, 36_000, 3), whole(2, 20, 3, high=36_000)],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_that_were_wrong(name: str):
    function, arrays = PROGRAMS[name]
    kernel = check(function, *arrays)
    assert kernel.source and kernel.bounds.compulsory_bytes


def test_indices_along_a_row_of_sbuf_fit():
    """The rows are longer than what SBUF holds of indices and addresses; not run for its many transfers."""
    for target in ("trn1", "trn2", "trn3"):
        fits(lambda x: np.take_along_axis(x, np.argsort(x, kind="stable"), axis=0), halves(40_000), target=target)


def test_what_is_loaded_part_by_part_is_there_before_the_loops():
    """The sorted row is on chip, too long to be on all partitions at once."""
    x = whole(600, 3, 2, dtype=np.float32)
    for target in ("trn1", "trn2", "trn3"):
        fits(lambda x: np.searchsorted(np.sort(x, axis=None), np.abs(x), "right"), x, target=target)


def test_sources_of_tables_that_lie_backwards():
    x = whole(6, 4, dtype=np.float32)
    i = whole(5, high=3)
    kernel = tw.compile(lambda x, i: x[::-2][i], x, i)
    made = run_source(kernel.source, [x, i])
    np.testing.assert_array_equal(made.result, x[::-2][i])


def test_a_number_that_waits_in_hbm():
    """NKI has no tensors without dims: one of a single element holds it."""
    view = TileBuilder("waits", get_target("trn2")).hbm((), float32, "number")
    assert (view.sizes, view.buffer.shape) == ((), (1,))


def test_products_with_an_op_of_one_operand():
    """What is done on the banks of a product need not have two operands."""
    x, y = halves(5, 7), halves(7, 9)
    check(lambda x, y: (np.negative(x @ y), np.sqrt(np.abs(x @ y))), x, y, tolerance=1e-6)


def test_more_indices_than_a_partition_holds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(TUNING, "index_line", 256)
    index, table, part = whole(700, low=-60, high=60), halves(60, 2), halves(700, 2)
    check(lambda i, t: np.take(t, i, axis=0), index, table)
    check(lambda i, t: np.take(t, i, axis=0) * 2, index, table)
    places = np.random.default_rng(1).permutation(900)[:700].astype(np.int32)

    def put(i: Any, t: Any, v: Any) -> Any:
        t[i] = v
        return t

    check(put, places, halves(900, 2), part)


def test_much_work_is_not_left_to_one_partition():
    """A sum over rows does not bring the rows that it reads to one partition, whatever else could be done there."""
    x = halves(48, 48) + 40 * np.eye(48, dtype=np.float32)
    kernel = check(np.linalg.inv, x, targets=["trn2"], tolerance=1e-5)
    tiles = [op.result for op in walk(kernel.tile_ir.body) if op.definition is ALLOC]
    single = [tile.row_bytes for tile in tiles if isinstance(tile, Buffer) and tile.on_chip and tile.partitions == 1]
    assert max(single) < x.nbytes // 8


def test_an_op_that_reads_a_product_under_another_type():
    """It cannot be done on the banks, where the product is not yet of that type."""
    x, y = (halves(n, 3).astype(ml_dtypes.bfloat16) for n in (1, 2))
    check(lambda x: np.inner(x, x) * 1.5, x, tolerance=1e-2)
    check(lambda x, y: ((x @ y.T).astype(np.float32) * (x @ y.T), np.inner(x, x)), x, y, tolerance=1e-2)


def test_there_is_one_nan():
    """Text does not tell the sign of NaN: kernel and source have the same one."""
    bits = np.array([0xFFC00000], np.uint32).view(np.float32)
    x = halves(3, 4)
    kernel = tw.compile(lambda x: x * bits[0], x)
    made = run_source(kernel.source, [x]).result
    assert np.isnan(made).all() and kernel(x).tobytes() == made.tobytes()


def test_smaller_steps_have_what_several_groups_compute_for_themselves(monkeypatch: pytest.MonkeyPatch):
    """A small op that two groups share has no place of its own when one of them is divided."""

    def divided(low: Any, group: Any) -> Any:
        every = list(ways.ways(low, group))
        return [way for way in every if way.kind == "divided"] or every

    monkeypatch.setattr(fit, "ways", divided)
    x, y, s = halves(300, 6), halves(200, 6), halves(6)

    def program(x: Any, y: Any, s: Any) -> Any:
        scale = s * 2
        return np.maximum(x, 0) * scale, np.sqrt(np.abs(y)) - scale

    check(program, x, y, s, tolerance=1e-6)


def test_the_left_operand_of_a_product_may_lie_in_runs_of_rows():
    check(lambda x: np.flip(x.transpose(0, 2, 1)) @ np.mean(x, axis=1), floats(2, 2, 32), tolerance=1e-5)

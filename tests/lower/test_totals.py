"""What goes over the rows of a group and comes with it: sums, extremes, and products that contract the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.lower.kit import check, fits, floats, indices
from tilewright.lower.decisions import noted
from tilewright.lower.regions.grouping import Group


def nearest_both_ways(a: Any, b: Any) -> Any:
    d = (a * a).sum(1)[:, None] + (b * b).sum(1)[None] - 2 * a @ b.T
    return d.min(1), d.min(0)


def weights_backward(x: Any, w: Any, dy: Any) -> Any:
    h = x @ w
    dh = dy * (h > 0)
    return dh @ w.T, x.T @ dh, dh.sum(0)


def attention_backward(q: Any, k: Any, v: Any, do: Any) -> Any:
    s = q @ k.transpose(0, 2, 1) * np.float32(0.125)
    e = np.exp(s - s.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    dv = p.transpose(0, 2, 1) @ do
    dp = do @ v.transpose(0, 2, 1)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True))
    return ds @ k, ds.transpose(0, 2, 1) @ q, dv


def in_each(a: Any, b: Any) -> Any:
    return np.exp(a @ b).sum(1), np.tanh(a @ b).max((1, 2))


def over_all(a: Any, b: Any) -> Any:
    return np.tanh(a @ b).sum((0, 1)), np.tanh(a @ b).min()


def shared_view(a: Any, b: Any) -> Any:
    """The transpose is a result too."""
    t = np.tanh(a @ b)
    return t.T @ a, t.T + np.float32(1)


def merged(a: Any, b: Any, c: Any) -> Any:
    t = np.maximum(a @ b, 0)
    return t.reshape(-1, t.shape[-1]).T @ c.reshape(-1, c.shape[-1])


def residual(a: Any, b: Any) -> Any:
    """A product over the rows reads a view that another product reads later."""
    r = b - a @ b
    return a @ r * (r @ r)


def kept(x: Any, w: Any) -> Any:
    """What is added up is read again, on chip."""
    m = np.tanh(x @ w)
    g = m.T @ x
    return np.tanh(x @ g.T)


def large(a: Any, b: Any, c: Any) -> Any:
    """More than PSUM has room for."""
    t = np.tanh(a @ b)
    return t.swapaxes(-1, -2) @ c, (t * t).swapaxes(-1, -2) @ a


CASES = {
    "large": (large, ((2, 300, 20), (2, 20, 700), (2, 300, 500))),
    "nearest": (nearest_both_ways, ((300, 3), (200, 3))),
    "weights": (weights_backward, ((300, 40), (40, 150), (300, 150))),
    "attention": (attention_backward, ((2, 260, 16), (2, 200, 16), (2, 200, 24), (2, 260, 24))),
    "in each": (in_each, ((3, 200, 16), (3, 16, 70))),
    "over all": (over_all, ((2, 300, 16), (2, 16, 70))),
    "shared view": (shared_view, ((300, 20), (20, 140))),
    "merged": (merged, ((2, 150, 20), (20, 30), (2, 150, 10))),
    "residual": (residual, ((200, 200), (200,))),
    "kept": (kept, ((300, 20), (20, 70))),
}


@pytest.mark.parametrize("name", CASES)
def test_blocks_are_taken_in(name: str):
    function, shapes = CASES[name]
    check(function, *(0.3 * floats(*shape) for shape in shapes), tolerance=3e-5)


def test_what_psum_has_no_room_for_is_added_up_in_sbuf():
    with noted() as reached:
        fits(large, floats(2, 300, 20), floats(2, 20, 700), floats(2, 300, 500))
    assert "totals: added up in SBUF" in reached


def test_special_values_reach_the_result():
    a, b = floats(300, 8), floats(8, 50)
    a[7, 3], a[150, 0] = np.nan, np.inf
    with np.errstate(all="ignore"):
        check(lambda a, b: ((a @ b).max(0), np.maximum(a @ b, 0).sum(0)), a, b, tolerance=1e-5)


def steps(function: Any, *args: Any) -> list[Group]:
    draft = fits(function, *args).lowered.draft
    assert draft is not None
    return [step for step in draft.steps if isinstance(step, Group)]


def test_what_is_reduced_stays_on_chip():
    """Scores of 8 MB: arguments and results move, what is read by rows and by columns twice."""
    q, k, v, do = (floats(4, 512, 64) for _ in range(4))
    kernel = fits(attention_backward, q, k, v, do)
    moved = sum(x.nbytes for x in (q, k, v, do)) + 3 * q.nbytes
    assert kernel.report.hbm_bytes <= 1.5 * moved
    totals = [op.name for step in steps(attention_backward, q, k, v, do) for op in step.totals]
    assert sorted(totals) == ["matmul", "matmul", "transpose", "transpose"]


def test_results_beyond_psum_are_products_of_their_own():
    def large(x: Any, w: Any) -> Any:
        t = np.tanh(x @ w)
        return t.T @ t

    assert not any(step.totals for step in steps(large, floats(512, 128), floats(128, 2048)))


def excite(x: Any, w: Any) -> Any:
    return x * np.tanh(x.mean((2, 3)) @ w)[:, :, None, None]


def correlations(x: Any) -> Any:
    z = x - x.mean(0)
    c = z.T @ z
    return c / np.sqrt(np.diagonal(c))[:, None]


def scaled_by_all(x: Any, g: Any) -> Any:
    u = g / np.sqrt((g * g).mean(0) + np.float32(1))
    return x - u / np.maximum(1, np.sqrt((u * u).mean()))


AGAIN = {
    "rows of two dims": (excite, ((4, 70, 9, 20), (70, 70))),
    "columns and products": (correlations, ((300, 40),)),
    "over everything": (scaled_by_all, ((300, 60), (300, 60))),
}


@pytest.mark.parametrize("name", AGAIN)
def test_what_is_read_again_is_loaded_once(name: str):
    function, shapes = AGAIN[name]
    args = [floats(*shape) for shape in shapes]
    kernel = check(function, *args, tolerance=1e-5)
    results = function(*args)
    assert kernel.report.hbm_bytes <= 1.5 * (sum(x.nbytes for x in args) + results.nbytes)


def test_blocks_take_in_what_goes_over_all_rows():
    with noted() as taken:
        fits(correlations, floats(2048, 128))
    assert "way: by blocks" in taken


def focal(x: Any, y: Any) -> Any:
    t = (y[:, None] == np.arange(x.shape[1])[None, :]).astype(np.float32)
    p = 1 / (1 + np.exp(-x))
    loss = (t - p) ** 2 * p
    return loss.sum(), loss.sum(0), loss * 2


def kept_for_later(x: Any) -> Any:
    mean = x.mean(0)
    z = np.cumsum(np.exp(x - mean), axis=1)
    return z / z.sum(0), z.max(1)


@pytest.mark.parametrize("rows", [1280, 1411])
def test_short_rows_lie_beside_each_other_also_where_all_of_them_are_summed(rows: int):
    with noted() as taken:
        check(focal, floats(rows, 20), indices(20, rows), tolerance=1e-5)
    assert "way: many rows" in taken


@pytest.mark.parametrize("rows", [1280, 1411])
def test_blocks_of_short_rows_that_stay_on_chip_are_in_work_together(rows: int):
    check(kept_for_later, floats(rows, 24), tolerance=1e-5)
    kernel = fits(kept_for_later, floats(8192, 24))
    assert kernel.report.instructions < 1500


def scaled_by_both(p: Any, g: Any, by_row: Any, by_column: Any) -> Any:
    """Averages of rows and of columns, one of which goes over all rows; then one over all of what is scaled by them."""
    squares = g * g + np.float32(1e-3)
    by_row, by_column = by_row + squares.mean(1), by_column + squares.mean(0)
    u = g * (1 / np.sqrt(by_row / by_row.mean()))[:, None] * (1 / np.sqrt(by_column))
    step = np.maximum(1e-3, np.sqrt((p * p).mean()))
    return p - step * (u / np.maximum(1, np.sqrt((u * u).mean()))), by_row, by_column


def test_what_a_step_makes_for_itself_takes_no_room_of_later_ones():
    """The squares were held on chip to the end, and the scaled array, which is read twice, had to leave it."""
    check(scaled_by_both, floats(260, 40, seed=1), floats(260, 40), floats(260) ** 2, floats(40) ** 2, tolerance=1e-5)
    arrays = floats(1024, 2048, seed=1), floats(1024, 2048), floats(1024) ** 2, floats(2048) ** 2
    report = fits(scaled_by_both, *arrays).report
    assert report.hbm_bytes <= 1.4 * report.compulsory_bytes

"""Run-time indices on the machine: rows gathered and scattered, shifted accesses, bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit import accepts, full_run, nisa, nl, rejects, run, tile
from tilewright.errors import TileError
from tilewright.sim.bounds import OutOfBoundsError

ROWS, COLUMNS, P = 20, 6, 8
TABLE = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
SKIP, ERROR = nisa.oob_mode.skip, nisa.oob_mode.error


def loaded(x: Any) -> Any:
    t = nl.ndarray(x.shape, x.dtype, nl.sbuf)
    nisa.dma_copy(t, x)
    return t


def column(values: Any, dtype: Any = np.int32) -> np.ndarray:
    return np.array(values).astype(dtype).reshape(-1, 1)


def gather(table: Any, indices: Any, mode: Any = ERROR) -> Any:
    t = tile((indices.shape[0], table.shape[1]), value=-1)
    nisa.dma_copy(t, table.vector_select(0, loaded(indices)), oob_mode=mode)
    y = nl.ndarray(t.shape, nl.float32, nl.shared_hbm)
    nisa.dma_copy(y, t)
    return y


def scatter(values: Any, indices: Any, mode: Any = ERROR) -> Any:
    y = nl.ndarray((ROWS, values.shape[1]), nl.float32, nl.shared_hbm)
    for start in range(0, ROWS, 4):
        nisa.dma_copy(y[start : start + 4], tile((4, values.shape[1]), value=-1))
    nisa.dma_copy(y.vector_select(0, loaded(indices)), loaded(values), oob_mode=mode)
    return y


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=P))
def test_a_gather_takes_rows(chosen: list[int]) -> None:
    np.testing.assert_array_equal(run(gather, TABLE, column(chosen)), TABLE[chosen])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=P, unique=True))
def test_a_scatter_puts_rows(chosen: list[int]) -> None:
    values = TABLE[: len(chosen)]
    expected = np.full((ROWS, COLUMNS), -1, np.float32)
    expected[chosen] = values
    np.testing.assert_array_equal(run(scatter, values, column(chosen)), expected)


@pytest.mark.parametrize(
    ("chosen", "lanes"), [([3, 1, 3], "0 and 2"), ([99, 3, 1, 3, 3], "1 and 3"), ([3, 1, 2], None), ([5, 5, 4], None)]
)
def test_lanes_that_put_different_rows_to_one_place_are_noticed(chosen: list[int], lanes: str | None) -> None:
    """Which of them stays is not fixed; equal rows do no harm, and lanes that are skipped put nothing."""
    values = TABLE[: len(chosen)].copy()
    values[1] = values[0] if chosen[0] == chosen[1] else values[1]
    found = full_run(scatter, values, column(chosen), SKIP).diagnostics
    assert [each.code for each in found] == (["E402"] if lanes else [])
    assert not lanes or found[0].message.startswith(f"lanes {lanes} of a scatter put different rows to row 3 of ")


@pytest.mark.req("S0-11")
@pytest.mark.parametrize(
    ("bad", "dtype"), [(-1, np.int32), (ROWS, np.int32), (2**30, np.int32), (0xFFFFFFFF, np.uint32)]
)
@pytest.mark.parametrize("kernel", [gather, scatter])
def test_indices_outside_raise(kernel: Any, bad: int, dtype: type) -> None:
    indices = np.zeros(P, np.int64)
    indices[:] = np.arange(P)
    indices[5] = bad
    with pytest.raises(TileError, match="out-of-bound") as caught:
        run(kernel, TABLE if kernel is gather else TABLE[:P], indices.astype(dtype).reshape(-1, 1))
    text = str(caught.value)
    assert all(part in text for part in ("scatter/gather", "indirect memory copy", "NRT_EXEC_OOB = 1006"))


@pytest.mark.req("S0-12")
def test_the_error_says_where() -> None:
    indices = np.arange(P)
    indices[5] = ROWS + 3
    with pytest.raises(OutOfBoundsError) as caught:
        run(gather, TABLE, column(indices))
    error = caught.value
    assert isinstance(error, (IndexError, TileError))
    assert (error.kernel, error.lane, error.index, error.bound, error.code) == ("gather", 5, ROWS + 3, ROWS, 1006)
    assert error.tensor.name == "table" and error.instruction == 3
    assert error.diagnostic.rule == "R-dma_copy-11"
    assert error.diagnostic.location is not None and error.diagnostic.location.file == __file__


def test_the_first_and_the_last_row_are_inside() -> None:
    accepts(gather, TABLE, column([0, ROWS - 1]))


@pytest.mark.req("S0-13")
def test_skip_leaves_bad_lanes_of_a_gather_alone() -> None:
    chosen = [3, -1, ROWS, 0, 2**30, 7, 19, 1]
    expected = np.array([TABLE[i] if 0 <= i < ROWS else np.full(COLUMNS, -1) for i in chosen], np.float32)
    np.testing.assert_array_equal(run(gather, TABLE, column(chosen), SKIP), expected)
    np.testing.assert_array_equal(run(gather, TABLE, column([-1] * P), SKIP), np.full((P, COLUMNS), -1, np.float32))


@pytest.mark.req("S0-13")
@pytest.mark.parametrize(("last", "beyond"), [(ROWS - 2, 0), (ROWS, 0), (ROWS - 1, COLUMNS)])
def test_skip_is_about_indices_not_about_parts_of_a_transfer(last: int, beyond: int) -> None:
    """Two rows from each index: those from the last row on end behind the tensor, although its index is inside."""

    def pairs(table: Any, indices: Any) -> Any:
        t = tile((2, 2 * COLUMNS), value=-1)
        source = table.ap([[COLUMNS, 2], [1, 2 * COLUMNS]], offset=0, vector_offset=loaded(indices), indirect_dim=0)
        nisa.dma_copy(t, source, oob_mode=SKIP)
        y = nl.ndarray(t.shape, nl.float32, nl.shared_hbm)
        nisa.dma_copy(y, t)
        return y

    indices = column([3, last])
    if beyond:
        found = rejects("R-dma_copy-11", pairs, TABLE, indices)
        assert f"ends {beyond} elements behind" in found.message and "pad table" in (found.hint or "")
        return
    expected = np.full((2, 2 * COLUMNS), -1, np.float32)
    expected[0] = TABLE[3:5].ravel()
    if last < ROWS:
        expected[1] = TABLE[last : last + 2].ravel()
    np.testing.assert_array_equal(run(pairs, TABLE, indices), expected)


def test_skip_leaves_bad_lanes_of_a_scatter_alone() -> None:
    chosen = [3, -1, ROWS, 0]
    expected = np.full((ROWS, COLUMNS), -1, np.float32)
    expected[[3, 0]] = TABLE[[0, 3]]
    np.testing.assert_array_equal(run(scatter, TABLE[:4], column(chosen), SKIP), expected)


def test_skipped_lanes_of_an_unwritten_tile_stay_unwritten() -> None:
    def kernel(table: Any, indices: Any) -> Any:
        t = nl.ndarray((P, COLUMNS), nl.float32, nl.sbuf)
        nisa.dma_copy(t, table.vector_select(0, loaded(indices)), oob_mode=SKIP)
        y = nl.ndarray(t.shape, nl.float32, nl.shared_hbm)
        nisa.dma_copy(y, t)
        return y

    found = rejects("R-tensor-18", kernel, TABLE, column([1, 2, -1, 3, 4, 5, 6, 7]))
    assert f"{COLUMNS} of {P * COLUMNS} elements" in found.message and "[2, 0]" in found.message


@settings(max_examples=40, deadline=None)
@given(st.integers(0, ROWS - 4), st.integers(0, COLUMNS - 2))
def test_a_scalar_index_shifts_the_access(row: int, col: int) -> None:
    def kernel(table: Any, at: Any) -> Any:
        index = loaded(at)
        y = nl.ndarray((4, 2), nl.float32, nl.shared_hbm)
        nisa.dma_copy(y, table[nl.ds(index[0:1], 4), col : col + 2])
        z = nl.ndarray((4, COLUMNS), nl.float32, nl.shared_hbm)
        nisa.dma_copy(z, table.ap([[COLUMNS, 4], [1, COLUMNS]], scalar_offset=index[0:1]))
        w = nl.ndarray((COLUMNS,), nl.float32, nl.shared_hbm)
        nisa.dma_copy(w, table.select(0, index[0:1]))
        return y, z, w

    y, z, w = run(kernel, TABLE, column([row]))
    np.testing.assert_array_equal(y, TABLE[row : row + 4, col : col + 2])
    np.testing.assert_array_equal(z, TABLE[row : row + 4])
    np.testing.assert_array_equal(w, TABLE[row])


@pytest.mark.parametrize(("index", "inside"), [(0, True), (ROWS - 4, True), (ROWS - 3, False), (-1, False)])
@pytest.mark.parametrize("pattern", [False, True])
def test_a_shifted_access_ends_inside(index: int, inside: bool, pattern: bool) -> None:
    def kernel(table: Any, at: Any) -> Any:
        held = loaded(at)
        view = table.ap([[COLUMNS, 4], [1, COLUMNS]], scalar_offset=held) if pattern else table[nl.ds(held, 4)]
        y = nl.ndarray((4, COLUMNS), nl.float32, nl.shared_hbm)
        nisa.dma_copy(y, view)
        return y

    if inside:
        np.testing.assert_array_equal(accepts(kernel, TABLE, column([index])), TABLE[index : index + 4])
    else:
        rejects("R-dma_copy-11", kernel, TABLE, column([index]))


def test_a_free_dim_on_chip_is_indexed_at_run_time() -> None:
    def kernel(table: Any, at: Any) -> Any:
        t = loaded(table)
        u = tile((ROWS, COLUMNS), value=0)
        nisa.tensor_copy(u[:, nl.ds(loaded(at), 2)], t[:, nl.ds(loaded(at), 2)])
        y = nl.ndarray((ROWS, COLUMNS), nl.float32, nl.shared_hbm)
        nisa.dma_copy(y, u)
        return y

    expected = np.zeros((ROWS, COLUMNS), np.float32)
    expected[:, 3:5] = TABLE[:, 3:5]
    np.testing.assert_array_equal(accepts(kernel, TABLE, column([3])), expected)
    rejects("R-dma_copy-11", kernel, TABLE, column([COLUMNS - 1]))


def test_rows_of_part_of_a_tensor() -> None:
    """The index counts rows of the view it was made on; columns are those of the view."""

    def kernel(table: Any, indices: Any) -> Any:
        y = nl.ndarray((P, 2), nl.float32, nl.shared_hbm)
        nisa.dma_copy(y, table[4:12, 1:5:3].vector_select(0, loaded(indices)))
        return y

    chosen = [0, 7, 3, 3, 2, 1, 5, 6]
    np.testing.assert_array_equal(accepts(kernel, TABLE, column(chosen)), TABLE[4:12, 1:5:3][chosen])
    rejects("R-dma_copy-11", kernel, TABLE, column([0, 8, 3, 3, 2, 1, 5, 6]))


def test_scattering_into_an_unwritten_output_marks_those_rows() -> None:
    def kernel(values: Any, indices: Any) -> Any:
        y = nl.ndarray((P, COLUMNS), nl.float32, nl.shared_hbm)
        nisa.dma_copy(y.vector_select(0, loaded(indices)), values)
        return y

    order = [3, 1, 0, 2, 7, 6, 5, 4]
    expected = np.empty((P, COLUMNS), np.float32)
    expected[order] = TABLE[:P]
    np.testing.assert_array_equal(accepts(kernel, TABLE[:P], column(order)), expected)


def test_while_collecting_a_bad_index_does_not_end_the_run() -> None:
    done = full_run(gather, TABLE, column([0, ROWS]), collect=True)
    assert [d.rule for d in done.diagnostics] == ["R-dma_copy-11"]
    assert done.failure is None and done.result.shape == (2, COLUMNS)


def test_an_engine_whose_tile_moves_out_of_its_tensor_is_no_transfer() -> None:
    """Nothing can be skipped there, and no descriptor is wrong: the register is."""

    def kernel(x: Any, place: Any) -> Any:
        table, index = tile((P, 16)), tile((1, 1), nl.int32)
        nisa.dma_copy(index, place)
        register = nisa.register_alloc()
        nisa.register_load(register, index)
        nisa.tensor_copy(tile((P, 8)), table[:, nl.ds(register, 8)])
        return x

    with pytest.raises(OutOfBoundsError, match="run-time index 12 is outside") as caught:
        run(kernel, TABLE, np.array([[12]], np.int32))
    hint = caught.value.diagnostic.hint or ""
    assert "register" in hint and "oob_mode" not in hint

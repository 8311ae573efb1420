"""Undefined data: it flows through copies with its origin, and is refused where it matters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.kit import accepts, full_run, nisa, nl, rejects, run, tile
from tilewright.errors import Diagnostic


def line(function: Callable[..., Any], text: str) -> int:
    """The line of a function on which a text stands."""
    source, start = inspect.getsourcelines(function)
    (found,) = [start + i for i, each in enumerate(source) if text in each]
    return found


def notes(found: Diagnostic) -> str:
    return "\n".join(found.notes)


def fresh(*shape: int, dtype: Any = nl.float32, buffer: Any = nl.sbuf) -> Any:
    return nl.ndarray(shape, dtype, buffer)


def out(*shape: int, dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype, nl.shared_hbm)


@pytest.mark.rule("R-tensor-08", "reject")
@pytest.mark.req("S3-39")
def test_reading_before_writing_names_the_allocation_line() -> None:
    def kernel(x: Any) -> None:
        t = nl.ndarray((4, 8), nl.float32, nl.sbuf)  # allocated
        nisa.tensor_reduce(fresh(4, 1), nl.add, t, axis=1)  # used

    found = rejects("R-tensor-08", kernel)
    assert found.location is not None and found.location.line == line(kernel, "# used")
    assert f"allocated at {__file__}:{line(kernel, '# allocated')}" in notes(found)
    assert "first read" not in notes(found), "the diagnostic already points there"
    assert "32 of 32 elements" in found.message
    assert found.operands[0].shape == (4, 8)


@pytest.mark.rule("R-tensor-08", "accept")
def test_written_data_is_accepted() -> None:
    def kernel(x: Any) -> Any:
        t = tile((4, 8), value=2)
        total = fresh(4, 1)
        nisa.tensor_reduce(total, nl.add, t, axis=1)
        y = out(4, 1)
        nisa.dma_copy(y, total)
        return y

    np.testing.assert_array_equal(accepts(kernel), np.full((4, 1), 16, np.float32))


@pytest.mark.rule("R-tensor-18", "reject")
def test_an_output_that_is_partly_unwritten() -> None:
    def kernel(x: Any) -> Any:
        y = nl.ndarray((4, 8), nl.float32, nl.shared_hbm)  # allocated
        nisa.dma_copy(y[:, 0:7], tile((4, 7)))
        return y

    found = rejects("R-tensor-18", kernel)
    assert "4 of 32 elements" in found.message and "[0, 7]" in found.message
    assert found.location is not None and found.location.line == line(kernel, "# allocated")


@pytest.mark.rule("R-tensor-18", "accept")
def test_an_output_that_is_written_in_pieces() -> None:
    def kernel(x: Any) -> Any:
        y = out(4, 8)
        for i in range(8):
            nisa.dma_copy(y[:, i : i + 1], tile((4, 1), value=i))
        return y

    np.testing.assert_array_equal(accepts(kernel), np.broadcast_to(np.arange(8, dtype=np.float32), (4, 8)))


def test_a_view_of_an_output_may_be_returned_when_that_part_is_written() -> None:
    def kernel(x: Any) -> Any:
        y = out(4, 8)
        nisa.dma_copy(y[:, 0:7], tile((4, 7), value=3))
        return y[:, 0:7]

    assert accepts(kernel).shape == (4, 7)


# Flow. Each case takes a tile whose column 2 is unwritten and returns a tile [4, 8] and where the hole must be in it.


def holed(dtype: Any = nl.float32, buffer: Any = nl.sbuf) -> Any:
    t = nl.ndarray((4, 8), dtype, buffer)  # the origin
    nisa.memset(t[:, 0:2], value=1)
    nisa.memset(t[:, 3:8], value=2)
    return t


def through_tensor_copy(t: Any) -> Any:
    u = fresh(4, 8)
    nisa.tensor_copy(u, t)
    return u


def through_several(t: Any) -> Any:
    u = through_tensor_copy(t)
    v = fresh(4, 8)
    nisa.dma_copy(v, u)
    w = fresh(4, 8)
    nisa.tensor_scalar(w, v, nl.multiply, 2.0)
    return w


def through_tensor_tensor(t: Any) -> Any:
    u = fresh(4, 8)
    nisa.tensor_tensor(u, tile((4, 8)), t, nl.add)
    return u


def through_activation(t: Any) -> Any:
    u = fresh(4, 8)
    nisa.activation(u, nl.exp, t)
    return u


def through_hbm(t: Any) -> Any:
    h = fresh(4, 8, buffer=nl.hbm)
    nisa.dma_copy(h, t)
    u = fresh(4, 8)
    nisa.dma_copy(u, h)
    return u


def through_dma_transpose(t: Any) -> Any:
    h = fresh(8, 4, buffer=nl.hbm)
    nisa.dma_copy(h.permute((1, 0)), t)
    u = fresh(4, 8)
    nisa.dma_copy(u, h.permute((1, 0)))
    return u


def through_transposes(t: Any) -> Any:
    turned = fresh(8, 4)
    nisa.nc_transpose(turned, t, engine=nisa.engine.vector)
    back = fresh(4, 8)
    nisa.nc_transpose(back, turned, engine=nisa.engine.vector)
    return back


def through_another_type(t: Any) -> Any:
    u = fresh(4, 8)
    nisa.tensor_copy(u.view(nl.int32), t.view(nl.int32))
    return u


def through_bytes(t: Any) -> Any:
    u = fresh(4, 8)
    nisa.dma_copy(u.view(nl.uint8), t.view(nl.uint8))
    return u


def through_psum(t: Any) -> Any:
    p = fresh(4, 8, buffer=nl.psum)
    nisa.tensor_copy(p, t)
    u = fresh(4, 8)
    nisa.tensor_copy(u, p)
    return u


FLOWS = [
    through_tensor_copy,
    through_several,
    through_tensor_tensor,
    through_activation,
    through_hbm,
    through_dma_transpose,
    through_transposes,
    through_another_type,
    through_bytes,
    through_psum,
]


@pytest.mark.parametrize("flow", FLOWS)
def test_undefined_elements_flow_with_their_origin(flow: Callable[[Any], Any]) -> None:
    def kernel(x: Any) -> Any:
        y = out(4, 8)
        nisa.dma_copy(y, flow(holed()))
        return y

    found = rejects("R-tensor-18", kernel)
    assert "4 of 32 elements" in found.message and "(first: [0, 2])" in found.message
    assert f"was allocated at {__file__}:{line(holed, '# the origin')}" in notes(found)
    assert "first read at" in notes(found)


@pytest.mark.parametrize("flow", FLOWS)
def test_the_rest_of_a_partly_written_tile_may_be_used(flow: Callable[[Any], Any]) -> None:
    def kernel(x: Any) -> Any:
        u = flow(holed())
        y = out(4, 7)
        nisa.dma_copy(y[:, 0:2], u[:, 0:2])
        nisa.dma_copy(y[:, 2:7], u[:, 3:8])
        return y

    assert np.isfinite(accepts(kernel)).all()


@pytest.mark.parametrize("flow", FLOWS)
def test_writing_the_hole_heals_the_tile(flow: Callable[[Any], Any]) -> None:
    def kernel(x: Any) -> Any:
        u = flow(holed())
        nisa.memset(u[:, 2:3], value=0)
        y = out(4, 8)
        nisa.dma_copy(y, u)
        return y

    assert np.isfinite(accepts(kernel)).all()


def test_the_first_reader_is_named_even_when_another_refuses() -> None:
    def kernel(x: Any) -> None:
        t = nl.ndarray((4, 8), nl.float32, nl.sbuf)  # allocated
        u = fresh(4, 8)
        nisa.tensor_copy(u, t)  # first reader
        v = fresh(4, 8)
        nisa.tensor_copy(v, u)
        nisa.tensor_reduce(fresh(4, 1), nl.add, v, axis=1)  # refused

    found = rejects("R-tensor-08", kernel)
    assert found.location is not None and found.location.line == line(kernel, "# refused")
    assert f"{__file__}:{line(kernel, '# allocated')}" in notes(found)
    assert f"{__file__}:{line(kernel, '# first reader')}" in notes(found)


def test_a_row_broadcast_of_an_undefined_scalar_marks_the_row() -> None:
    def kernel(x: Any) -> Any:
        bias = fresh(4, 1)
        nisa.memset(bias[0:1, :], value=0)
        u = fresh(4, 8)
        nisa.tensor_scalar(u, tile((4, 8)), nl.add, bias)
        y = out(4, 8)
        nisa.dma_copy(y, u)
        return y

    assert "24 of 32 elements" in rejects("R-tensor-18", kernel).message


# Where it matters. Each takes a fresh tile and uses it in a place that must be defined.


def as_contraction(t: Any) -> None:
    nisa.nc_matmul(fresh(8, 8, buffer=nl.psum), t, tile((4, 8)))


def as_moving(t: Any) -> None:
    nisa.nc_matmul(fresh(8, 8, buffer=nl.psum), tile((4, 8)), t)


def as_reduction(t: Any) -> None:
    nisa.tensor_reduce(fresh(4, 1), nl.maximum, t, axis=1)


def as_predicate(t: Any) -> None:
    nisa.tensor_copy_predicated(dst=tile((4, 8)), src=tile((4, 8)), predicate=t.view(nl.uint32))


def as_register(t: Any) -> None:
    nisa.register_load(nisa.register_alloc(), t.view(nl.int32)[0:1, 0:1])


def hbm_tile() -> Any:
    h = fresh(4, 8, buffer=nl.hbm)
    nisa.dma_copy(h, tile((4, 8)))
    return h


@pytest.mark.parametrize("use", [as_contraction, as_moving, as_reduction, as_predicate, as_register])
def test_undefined_data_is_refused_where_it_matters(use: Callable[[Any], None]) -> None:
    rejects("R-tensor-08", lambda x: use(fresh(4, 8)))


def as_sum(t: Any) -> Any:
    made = fresh(4, 1)
    nisa.tensor_reduce(made, nl.add, t, axis=1)
    return made


def as_statistics(t: Any) -> Any:
    made = fresh(4, 6)
    nisa.bn_stats(made, t)
    return made


def as_scan(t: Any) -> Any:
    made = fresh(4, 8)
    nisa.tensor_tensor_scan(made, t, tile((4, 8)), 0.0, nl.add, nl.add)
    return made


def as_maxima(t: Any) -> Any:
    made = fresh(4, 8)
    nisa.max8(made, t)
    return made


LANEWISE = [as_sum, as_statistics, as_scan, as_maxima]


@pytest.mark.rule("R-tensor-08", "accept")
@pytest.mark.parametrize("use", LANEWISE)
def test_partitions_that_are_not_written_may_be_reduced_and_left_alone(use: Callable[[Any], Any]) -> None:
    def kernel(x: Any, rows: int) -> Any:
        t = fresh(4, 8)
        nisa.memset(t[0:2], value=1)
        made = use(t)
        y = out(rows, made.shape[1])
        nisa.dma_copy(y, made[0:rows])
        return y

    x = np.zeros((1, 1), np.float32)
    assert np.isfinite(accepts(kernel, x, 2)).all()
    found = rejects("R-tensor-18", kernel, x, 3)
    assert "first read" in notes(found)


@pytest.mark.rule("R-tensor-08", "reject")
@pytest.mark.parametrize("use", LANEWISE)
def test_partitions_that_are_written_in_part_are_not_reduced(use: Callable[[Any], Any]) -> None:
    def kernel(x: Any) -> None:
        t = fresh(4, 8)
        nisa.memset(t[:, 0:4], value=1)
        use(t)

    rejects("R-tensor-08", kernel)


@pytest.mark.parametrize("scalar", [False, True])
def test_undefined_indices_are_refused(scalar: bool) -> None:
    def kernel(x: Any) -> None:
        rows = fresh(4, 1, dtype=nl.int32)
        view = hbm_tile()[nl.ds(rows[0:1], 4)] if scalar else hbm_tile().vector_select(0, rows)
        nisa.dma_copy(fresh(4, 8), view)

    rejects("R-tensor-08", kernel)


@pytest.mark.parametrize("scalar", [False, True])
def test_undefined_indices_of_a_scatter_are_refused(scalar: bool) -> None:
    def kernel(x: Any) -> None:
        rows = fresh(4, 1, dtype=nl.int32)
        view = hbm_tile()[nl.ds(rows[0:1], 4)] if scalar else hbm_tile().vector_select(0, rows)
        nisa.dma_copy(view, tile((4, 8)))

    rejects("R-tensor-08", kernel)


def test_gathered_rows_carry_what_is_undefined_in_them() -> None:
    def kernel(x: Any) -> Any:
        h = fresh(4, 8, buffer=nl.hbm)
        nisa.dma_copy(h[0:2], tile((2, 8)))
        rows = fresh(4, 1, dtype=nl.int32)
        nisa.dma_copy(rows, x)
        y = out(4, 8)
        nisa.dma_copy(y, h.vector_select(0, rows))
        return y

    good = np.array([[0], [1], [1], [0]], np.int32)
    assert accepts(kernel, good).shape == (4, 8)
    bad = np.array([[0], [1], [3], [0]], np.int32)
    assert "8 of 32 elements" in rejects("R-tensor-18", kernel, bad).message


def test_scattered_rows_are_written_and_the_others_are_not() -> None:
    def kernel(x: Any, count: int) -> Any:
        rows = fresh(4, 1, dtype=nl.int32)
        nisa.dma_copy(rows, x)
        y = out(count, 8)
        nisa.dma_copy(y.vector_select(0, rows), tile((4, 8)))
        return y

    rows = np.array([[3], [1], [0], [2]], np.int32)
    assert accepts(kernel, rows, 4).shape == (4, 8)
    assert "8 of 40 elements" in rejects("R-tensor-18", kernel, rows, 5).message


@pytest.mark.rule("R-simulate-03", "reject")
@pytest.mark.rule("R-simulate-03", "accept")
@pytest.mark.parametrize(
    ("dtype", "shown"), [(nl.float32, np.nan), (nl.bfloat16, np.nan), (nl.int32, 4), (nl.uint8, 4)]
)
def test_unwritten_elements_show(dtype: Any, shown: float) -> None:
    """What a kernel that goes on in collecting mode sees: NaN, or 4 for integers."""
    seen: list[np.ndarray] = []

    def kernel(x: Any) -> Any:
        y = out(4, 8, dtype=dtype)
        nisa.dma_copy(y, fresh(4, 8, dtype=dtype))
        return y

    done = full_run(kernel, collect=True)
    assert [d.rule for d in done.diagnostics] == ["R-tensor-18"]
    seen.append(done.result.astype(np.float32))
    np.testing.assert_array_equal(seen[0], np.full((4, 8), shown, np.float32))


def test_reading_does_not_change_what_is_there() -> None:
    """The written halves of an element that is not whole survive being looked at as one."""

    def kernel(x: Any) -> Any:
        t = fresh(4, 8)
        halves = t.view(nl.uint16)
        nisa.memset(halves[:, 1::2], value=0x3F80)
        nisa.tensor_copy(fresh(4, 8), t)
        nisa.memset(halves[:, 0::2], value=0)
        y = out(4, 8)
        nisa.dma_copy(y, t)
        return y

    np.testing.assert_array_equal(accepts(kernel), np.ones((4, 8), np.float32))


def test_each_origin_is_reported_once_while_collecting() -> None:
    def kernel(x: Any) -> Any:
        t, u = fresh(4, 8), fresh(4, 8)
        v = fresh(4, 8)
        nisa.tensor_copy(v, t)
        nisa.tensor_reduce(fresh(4, 1), nl.add, t, axis=1)
        nisa.tensor_reduce(fresh(4, 1), nl.add, v, axis=1)
        nisa.tensor_reduce(fresh(4, 1), nl.add, u, axis=1)

    found = tw.verify(kernel, np.zeros((1, 1), np.float32))
    assert [d.rule for d in found] == ["R-tensor-08", "R-tensor-08"]


def test_a_fresh_tile_in_a_loop_starts_unwritten() -> None:
    def kernel(x: Any) -> Any:
        y = out(2, 4, 8)
        for i in range(2):
            t = fresh(4, 8)
            if i == 0:
                nisa.memset(t, value=1)
            nisa.dma_copy(y[i], t)
        return y

    assert "32 of 64 elements" in rejects("R-tensor-18", kernel).message


def test_memset_of_a_transposed_view_covers_the_tile() -> None:
    def kernel(x: Any) -> Any:
        t = fresh(4, 3, 5)
        nisa.memset(t.permute((0, 2, 1)), value=1)
        y = out(4, 15)
        nisa.dma_copy(y, t.reshape((4, 15)))
        return y

    assert run(kernel).sum() == 60


def transposed(x: Any, columns: int, target_columns: int = 4) -> Any:
    """A tile of which only some columns are written, transposed by the Tensor engine; that many rows are returned."""
    source = nl.ndarray((4, 4), nl.float32, nl.sbuf)
    nisa.memset(source[:, 0:columns], value=3.0)
    identity = nl.ndarray((4, 4), nl.float32, nl.sbuf)
    nisa.dma_copy(identity, x)
    turned = nl.ndarray((4, 4), nl.float32, nl.psum)
    nisa.nc_matmul(turned, source, identity, is_transpose=True)
    copied = nl.ndarray((4, 4), nl.float32, nl.sbuf)
    nisa.tensor_copy(copied, turned)
    y = nl.ndarray((target_columns, 4), nl.float32, nl.shared_hbm)
    nisa.dma_copy(y, copied[0:target_columns])
    return y


def test_a_transpose_on_the_tensor_engine_moves_unwritten_elements() -> None:
    identity = np.eye(4, dtype=np.float32)
    np.testing.assert_array_equal(run(transposed, identity, 2, 2), np.full((2, 4), 3))
    assert "4 of 12" in rejects("R-tensor-18", transposed, identity, 2, 3).message


def test_adding_to_unwritten_elements_keeps_them_unwritten() -> None:
    def kernel(x: Any, rows: int) -> Any:
        source, identity = nl.ndarray((4, 4), nl.float32, nl.sbuf), nl.ndarray((4, 4), nl.float32, nl.sbuf)
        nisa.memset(source[:, 0:2], value=3.0)
        nisa.dma_copy(identity, x)
        total = nl.ndarray((4, 4), nl.float32, nl.psum)
        nisa.nc_matmul(total, source, identity, is_transpose=True, accumulate=False)
        nisa.nc_matmul(total, identity, identity, accumulate=True)
        copied = nl.ndarray((4, 4), nl.float32, nl.sbuf)
        nisa.tensor_copy(copied, total)
        y = nl.ndarray((rows, 4), nl.float32, nl.shared_hbm)
        nisa.dma_copy(y, copied[0:rows])
        return y

    identity = np.eye(4, dtype=np.float32)
    np.testing.assert_array_equal(run(kernel, identity, 2), (identity + 3)[:2])
    assert "8 of 16" in rejects("R-tensor-18", kernel, identity, 4).message


@pytest.mark.parametrize("dtype", [nl.float32, nl.uint8])
def test_lenient_lets_rows_of_padding_pass_as_zeros(dtype: Any) -> None:
    def kernel(rows: Any, columns: Any) -> Any:
        t, whole = fresh(8, 4, dtype=dtype), out(8, 4, dtype=dtype)
        nisa.memset(t[rows, columns], 7)
        nisa.dma_copy(whole, t)
        return whole

    some = slice(0, 2), slice(0, 4)
    rejects("R-tensor-18", kernel, *some)
    done = full_run(kernel, *some, profile="lenient")
    assert [(each.rule, each.severity) for each in done.diagnostics] == [("R-tensor-18", "warning")]
    expected = np.zeros((8, 4))
    expected[:2] = 7
    np.testing.assert_array_equal(run(kernel, *some, profile="lenient"), expected)
    # A hole in a row is no padding, and neither is all of a tensor.
    rejects("R-tensor-18", kernel, slice(0, 8), slice(0, 3), profile="lenient")
    rejects("R-tensor-18", lambda x: out(8, 4, dtype=dtype), np.zeros((1, 1), np.float32), profile="lenient")

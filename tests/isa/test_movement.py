"""dma_copy and dma_compute: what they move, the rules they enforce, run-time indices and their bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit import accepts, full_run, nisa, nl, np, rejects, run, tile
from tilewright.dtypes import as_dtype, round_to
from tilewright.errors import TileError
from tilewright.sim.bounds import NRT_EXEC_OOB, OutOfBoundsError
from tilewright.target import get_target
from tilewright.tile.costed import op_cost

SKIP = nisa.oob_mode.skip


def hbm(shape: tuple[int, ...], dtype: Any = nl.float32) -> Any:
    """Inside a kernel: an output."""
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def load(x: Any, dtype: Any = None) -> Any:
    """Inside a kernel: a tensor in SBUF."""
    made = nl.ndarray(x.shape, dtype=dtype or x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=made, src=x)
    return made


def store(x: Any) -> Any:
    """Inside a kernel: a tile as output."""
    out = hbm(x.shape, x.dtype)
    nisa.dma_copy(dst=out, src=x)
    return out


def random(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).normal(size=shape) * 10
    return values.astype(dtype)


def copying(**options: Any) -> Callable[[Any], Any]:
    """A kernel that loads its argument with these options of dma_copy."""

    def kernel(x: Any) -> Any:
        made = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=made, src=x, **options)
        return store(made)

    return kernel


X = random((8, 16))

# Static copies.


@pytest.mark.rule("R-dma_copy-02", "accept")
@pytest.mark.parametrize(
    ("source", "target"),
    [((128, 64), (128, 64)), ((4, 6, 10), (8, 30)), ((240,), (120, 2)), ((2, 3, 4, 5), (6, 4, 5)), ((1, 7), (7, 1))],
)
def test_elements_keep_their_row_major_order(source: tuple[int, ...], target: tuple[int, ...]) -> None:
    x = random(source)

    def kernel(x: Any) -> Any:
        made = nl.ndarray(target, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(made, x)
        return store(made)

    np.testing.assert_array_equal(accepts(kernel, x), x.reshape(target))


@pytest.mark.rule("R-dma_copy-02", "reject")
def test_other_number_of_elements() -> None:
    def kernel(x: Any) -> None:
        nisa.dma_copy(tile((8, 15)), x)

    assert "dst has 120 elements, but src has 128" in rejects("R-dma_copy-02", kernel, X).message


def test_strided_and_broadcast_views() -> None:
    x = random((16, 12))

    def kernel(x: Any) -> Any:
        out = hbm((3, 16, 4))
        nisa.dma_copy(dst=out, src=x.reshape((16, 3, 4)).permute((1, 0, 2)))
        row = nl.ndarray((5, 12), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=row, src=x[2:3, :].broadcast(0, 5))
        return out, store(row)

    permuted, rows = run(kernel, x)
    np.testing.assert_array_equal(permuted, x.reshape(16, 3, 4).transpose(1, 0, 2))
    np.testing.assert_array_equal(rows, np.repeat(x[2:3], 5, axis=0))


def test_partitions_of_any_start() -> None:
    """DMA is free of the start-partition rules of compute engines."""
    x = random((100, 4))

    def kernel(x: Any) -> Any:
        made = tile((128, 4))
        nisa.dma_copy(dst=made[3:103, :], src=x)
        return store(made)

    expected = np.zeros((128, 4), np.float32)
    expected[3:103] = x
    np.testing.assert_array_equal(accepts(kernel, x), expected)


@pytest.mark.rule("R-dma_copy-01", "accept")
def test_every_pair_of_hbm_and_sbuf() -> None:
    def kernel(x: Any) -> Any:
        between = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.hbm)
        nisa.dma_copy(dst=between, src=x)
        first, second = load(between), tile(x.shape)
        nisa.dma_copy(dst=second, src=first)
        return store(second)

    np.testing.assert_array_equal(accepts(kernel, X), X)


@pytest.mark.req("S3-11")
@pytest.mark.rule("R-dma_copy-01", "reject")
@pytest.mark.rule("R-engine-03", "reject")
def test_psum_is_out_of_reach() -> None:
    def read(x: Any) -> None:
        nisa.dma_copy(dst=hbm(x.shape), src=tile(x.shape, buffer=nl.psum))

    def write(x: Any) -> None:
        nisa.dma_copy(dst=nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.psum), src=x)

    found = rejects("R-dma_copy-01", read, X)
    assert "dma_copy requires HBM or SBUF tensors, got src=MemoryRegion.psum" in str(found)
    assert "tensor_copy" in (found.hint or "")
    assert "got dst=MemoryRegion.psum" in str(rejects("R-dma_copy-01", write, X))


@pytest.mark.req("S3-11")
@pytest.mark.rule("R-engine-03", "accept")
def test_psum_by_way_of_sbuf() -> None:
    def kernel(x: Any) -> Any:
        psum, drained = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.psum), tile(x.shape)
        nisa.tensor_copy(psum, load(x))
        nisa.tensor_copy(drained, psum)
        return store(drained)

    np.testing.assert_array_equal(accepts(kernel, X), X)


@pytest.mark.req("S4-13")
def test_slice_past_the_tensor() -> None:
    def kernel(x: Any) -> None:
        nisa.dma_copy(dst=tile((8, 8)), src=x[:, 12:20])

    def inside(x: Any) -> Any:
        return store(load(x[:, 8:16]))

    assert "12:20" in rejects("R-tensor.index-01", kernel, X).message
    np.testing.assert_array_equal(run(inside, X), X[:, 8:16])


def test_overlapping_views_of_one_tensor() -> None:
    """Descriptors run side by side: what one of them writes, another may still have to read."""

    def kernel(x: Any, start: int) -> Any:
        nisa.dma_copy(dst=x[:, start : start + 16], src=x[:, 0:16])
        return x

    x = random((1, 32))
    rejects("R-engine-16", kernel, x.copy(), 8)
    np.testing.assert_array_equal(run(kernel, x.copy(), 16)[:, 16:], x[:, :16])
    np.testing.assert_array_equal(run(kernel, x.copy(), 0), x)


# Casts.

CASTS = [
    (np.float32, nl.bfloat16),
    (np.float32, nl.float16),
    (np.float32, nl.float8_e4m3),
    (np.float32, nl.float8_e5m2),
    (np.float32, nl.int32),
    (np.float32, nl.uint8),
    (ml_dtypes.bfloat16, nl.float32),
    (np.int32, nl.float32),
    (np.int32, nl.int8),
    (np.float16, nl.bfloat16),
    (ml_dtypes.float8_e5m2, nl.int16),
]


@pytest.mark.rule("R-dma_copy-03", "holds")
@pytest.mark.parametrize(("source", "target"), CASTS)
def test_casts_go_through_float32(source: Any, target: Any) -> None:
    x = random((4, 9), source, seed=3)

    def kernel(x: Any) -> Any:
        return store(load(x, target))

    expected = round_to(x.astype(np.float32), as_dtype(target))
    np.testing.assert_array_equal(run(kernel, x).astype(np.float64), expected.astype(np.float64))


@pytest.mark.rule("R-dma_copy-03", "holds")
@pytest.mark.parametrize(
    "dtype", [np.float32, ml_dtypes.bfloat16, np.int32, np.uint16, ml_dtypes.float8_e4m3, np.bool_]
)
def test_equal_types_keep_their_bits(dtype: Any) -> None:
    size = np.dtype(dtype).itemsize
    bits = np.random.default_rng(1).integers(0, 2 if dtype is np.bool_ else 256, (8, 4 * size)).astype(np.uint8)
    x = bits.view(dtype)
    out = run(lambda x: store(load(x)), x)
    np.testing.assert_array_equal(out.view(np.uint8), bits)


def test_large_integers_are_rounded_with_a_warning() -> None:
    x = np.array([[2**24 + 1, 5]], np.int32)
    done = full_run(lambda x: store(load(x, nl.uint32)), x)
    np.testing.assert_array_equal(done.result, [[2**24, 5]])
    assert [found.code for found in done.diagnostics] == ["W102"]


@pytest.mark.rule("R-dma_copy-05", "accept")
def test_packed_elements_move() -> None:
    x = np.arange(32, dtype=np.uint32).reshape(4, 8)

    def kernel(x: Any) -> Any:
        made = nl.ndarray((4, 8), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
        nisa.dma_copy(dst=made, src=x.view(nl.float8_e4m3fn_x4))
        return store(made.view(nl.uint32))

    np.testing.assert_array_equal(accepts(kernel, x, target="trn3"), x)


@pytest.mark.rule("R-dma_copy-05", "reject")
def test_packed_elements_do_not_cast() -> None:
    def kernel(x: Any) -> None:
        nisa.dma_copy(dst=nl.ndarray(x.shape, dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf), src=x)

    rejects("R-dma_copy-05", kernel, np.zeros((4, 8), np.uint32), target="trn3")


# Modes.


@pytest.mark.rule("R-dma_copy-06", "accept")
@pytest.mark.rule("R-dma_copy-10", "accept")
@pytest.mark.parametrize("mode", [nisa.dge_mode.unknown, nisa.dge_mode.none, nisa.dge_mode.swdge, nisa.dge_mode.hwdge])
def test_descriptor_modes(mode: Any) -> None:
    engines = [nisa.engine.unknown]
    if mode is nisa.dge_mode.hwdge:
        engines += [nisa.engine.sync, nisa.engine.scalar]
    for engine in engines:
        np.testing.assert_array_equal(accepts(copying(dge_mode=mode, engine=engine), X), X)


def test_a_copy_counts_as_dma_whoever_triggers_it() -> None:
    kernel = copying(dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.scalar)
    assert {engine for engine, _, _ in full_run(kernel, X).session.counts.executed} == {"dma"}


@pytest.mark.rule("R-dma_copy-06", "reject")
def test_hardware_descriptors_need_v3() -> None:
    rejects("R-dma_copy-06", copying(dge_mode=nisa.dge_mode.hwdge), X, target="trn1")


@pytest.mark.rule("R-dma_copy-10", "reject")
@pytest.mark.parametrize(
    ("mode", "engine"),
    [(nisa.dge_mode.unknown, nisa.engine.sync), (nisa.dge_mode.swdge, nisa.engine.scalar)]
    + [(nisa.dge_mode.hwdge, engine) for engine in (nisa.engine.vector, nisa.engine.gpsimd, nisa.engine.tensor)],
)
def test_trigger_engines(mode: Any, engine: Any) -> None:
    rejects("R-dma_copy-10", copying(dge_mode=mode, engine=engine), X)


@pytest.mark.rule("R-dma_copy-04", "accept")
@pytest.mark.rule("R-dma_copy-04", "reject")
def test_hardware_descriptors_do_not_cast() -> None:
    def kernel(x: Any, dtype: Any) -> Any:
        made = nl.ndarray(x.shape, dtype=dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=made, src=x, dge_mode=nisa.dge_mode.hwdge)
        return store(made)

    accepts(lambda x: kernel(x, nl.float32), X)
    rejects("R-dma_copy-04", lambda x: kernel(x, nl.bfloat16), X)


@pytest.mark.rule("R-dma_copy-13", "accept")
@pytest.mark.parametrize("level", [None, 0, 3])
def test_priorities(level: int | None) -> None:
    np.testing.assert_array_equal(accepts(copying(priority=level), X, target="trn3"), X)


@pytest.mark.rule("R-dma_copy-13", "reject")
@pytest.mark.parametrize(("level", "target"), [(0, "trn2"), (4, "trn3"), (-1, "trn3")])
def test_priorities_of_v4(level: int, target: str) -> None:
    rejects("R-dma_copy-13", copying(priority=level), X, target=target)


@pytest.mark.rule("R-dma_copy-14", "accept")
@pytest.mark.rule("R-dma_copy-14", "reject")
@pytest.mark.parametrize("option", [{"dst_rmw_op": None}, {"unique_indices": True}])
def test_removed_parameters(option: dict[str, Any]) -> None:
    accepts(copying(), X)
    assert "dma_compute" in (rejects("R-dma_copy-14", copying(**option), X).hint or "")


# Gather and scatter.


def gather(data: Any, indices: Any, start: Any = None, **options: Any) -> Any:
    """rows = data[indices], over what `start` holds."""
    index = load(indices)
    count, width = indices.shape[0], data.shape[1]
    rows = nl.ndarray((count, width), dtype=data.dtype, buffer=nl.sbuf)
    if start is not None:
        nisa.dma_copy(dst=rows, src=start)
    nisa.dma_copy(dst=rows, src=data.ap([[width, count], [1, width]], vector_offset=index, indirect_dim=0), **options)
    return store(rows)


def scatter(data: Any, indices: Any, rows: Any, **options: Any) -> Any:
    """data[indices] = rows, in place."""
    index, tiles = load(indices), load(rows)
    count, width = rows.shape
    nisa.dma_copy(dst=data.ap([[width, count], [1, width]], vector_offset=index, indirect_dim=0), src=tiles, **options)
    return data


DATA = random((50, 12))


def column(values: Any, dtype: Any = np.int32) -> np.ndarray:
    return np.asarray(values).astype(dtype).reshape(-1, 1)


@pytest.mark.rule("R-dma_copy-12", "accept")
@pytest.mark.rule("R-dma_copy-15", "accept")
@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
@pytest.mark.parametrize("mode", [nisa.dge_mode.unknown, nisa.dge_mode.swdge])
def test_gather_and_scatter(dtype: Any, mode: Any) -> None:
    chosen = np.random.default_rng(2).permutation(50)[:30]
    out = accepts(lambda d, i: gather(d, i, dge_mode=mode), DATA, column(chosen, dtype))
    np.testing.assert_array_equal(out, DATA[chosen])
    rows, expected = random((30, 12), seed=5), DATA.copy()
    expected[chosen] = rows
    out = accepts(lambda d, i, r: scatter(d, i, r, dge_mode=mode), DATA.copy(), column(chosen, dtype), rows)
    np.testing.assert_array_equal(out, expected)


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 40), st.integers(1, 20), st.integers(1, 128), st.integers(0, 2**31))
def test_gather_of_any_shape(rows: int, width: int, count: int, seed: int) -> None:
    data = random((rows, width), seed=seed)
    chosen = np.random.default_rng(seed).integers(0, rows, count)
    np.testing.assert_array_equal(run(gather, data, column(chosen)), data[chosen])


def test_rows_of_part_of_the_columns_and_casts() -> None:
    """The row stride comes from the tensor, whatever the pattern's first step says; gathered rows cast as others do."""
    chosen = np.array([7, 0, 49, 7])

    def kernel(data: Any, indices: Any) -> Any:
        rows = nl.ndarray((4, 5), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_copy(dst=rows, src=data.ap([[1, 4], [1, 5]], offset=3, vector_offset=load(indices)))
        return store(rows)

    expected = DATA[chosen, 3:8].astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(run(kernel, DATA, column(chosen)), expected)


def test_scatter_from_gather() -> None:
    chosen, places = np.array([3, 9, 4]), np.array([1, 0, 2])

    def kernel(data: Any, indices: Any, places: Any) -> Any:
        out = hbm((3, 12))
        pattern = [[12, 3], [1, 12]]
        nisa.dma_copy(
            dst=out.ap(pattern, vector_offset=load(places)), src=data.ap(pattern, vector_offset=load(indices))
        )
        return out

    expected = np.empty((3, 12), np.float32)
    expected[places] = DATA[chosen]
    np.testing.assert_array_equal(run(kernel, DATA, column(chosen), column(places)), expected)


def test_scatter_into_overlapping_rows() -> None:
    """A row index into a flat tensor: rows start anywhere; what they cover counts as written."""

    def kernel(rows: Any, indices: Any) -> Any:
        out = hbm((24,))
        nisa.dma_copy(dst=out.ap([[1, 3], [1, 8]], vector_offset=load(indices)), src=load(rows))
        return out

    rows = random((3, 8))
    out = run(kernel, rows, column([16, 0, 8]))
    np.testing.assert_array_equal(out, np.concatenate([rows[1], rows[2], rows[0]]))
    assert "4 of 24" in rejects("R-tensor-18", kernel, rows, column([12, 0, 8])).message


@pytest.mark.rule("R-dma_copy-12", "reject")
def test_index_of_another_size() -> None:
    def kernel(data: Any, indices: Any) -> None:
        nisa.dma_copy(dst=tile((4, 12)), src=data.ap([[12, 4], [1, 12]], vector_offset=load(indices)))

    rejects("R-dma_copy-12", kernel, DATA, column([1] * 8))
    rejects("R-dma_copy-12", kernel, DATA, np.ones((2, 2), np.int32))


@pytest.mark.rule("R-dma_copy-15", "reject")
def test_gather_needs_v3() -> None:
    found = rejects("R-dma_copy-15", gather, DATA, column([1]), target="trn1")
    assert "nc_n_gather" in (found.hint or "")


@pytest.mark.rule("R-dma_copy-07", "accept")
@pytest.mark.rule("R-dma_copy-07", "reject")
@pytest.mark.rule("R-dma_copy-08", "accept")
@pytest.mark.rule("R-dma_copy-08", "reject")
def test_who_gathers() -> None:
    accepts(lambda d, i: gather(d, i, dge_mode=nisa.dge_mode.swdge), DATA, column([1, 2]))
    rejects("R-dma_copy-07", lambda d, i: gather(d, i, dge_mode=nisa.dge_mode.hwdge), DATA, column([1, 2]))
    rejects("R-dma_copy-08", lambda d, i: gather(d, i, dge_mode=nisa.dge_mode.none), DATA, column([1, 2]))


def test_unwritten_indices_are_refused() -> None:
    def kernel(data: Any) -> None:
        index = nl.ndarray((4, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile((4, 12)), src=data.ap([[12, 4], [1, 12]], vector_offset=index))

    rejects("R-tensor-08", kernel, DATA)


# Run-time offsets for the whole access.


def shifted(data: Any, index: Any, **options: Any) -> Any:
    """Four rows of data from row `index` on."""
    made = tile((4, data.shape[1]), value=9)
    width = data.shape[1]
    source = data.ap([[width, 4], [1, width]], scalar_offset=load(index), indirect_dim=0)
    nisa.dma_copy(dst=made, src=source, **options)
    return store(made)


@pytest.mark.rule("R-dma_copy-09", "accept")
@pytest.mark.parametrize("mode", [nisa.dge_mode.unknown, nisa.dge_mode.swdge, nisa.dge_mode.hwdge])
@pytest.mark.parametrize("row", [0, 17, 46])
def test_scalar_offset(mode: Any, row: int) -> None:
    out = accepts(lambda d, i: shifted(d, i, dge_mode=mode), DATA, column([row]))
    np.testing.assert_array_equal(out, DATA[row : row + 4])


@pytest.mark.rule("R-dma_copy-09", "reject")
def test_static_descriptors_have_no_run_time_offset() -> None:
    rejects("R-dma_copy-09", lambda d, i: shifted(d, i, dge_mode=nisa.dge_mode.none), DATA, column([3]))


def test_scalar_offset_of_the_destination() -> None:
    def kernel(data: Any, rows: Any, index: Any) -> Any:
        nisa.dma_copy(dst=data.ap([[12, 4], [1, 12]], scalar_offset=load(index), indirect_dim=0), src=load(rows))
        return data

    rows, expected = random((4, 12), seed=8), DATA.copy()
    expected[11:15] = rows
    np.testing.assert_array_equal(run(kernel, DATA.copy(), rows, column([11])), expected)
    rejects("R-dma_copy-11", kernel, DATA.copy(), rows, column([47]))


# Out of bounds.

BAD = [(-1, np.int32), (50, np.int32), (2**30, np.int32), (0xFFFFFFFF, np.uint32)]


@pytest.mark.req("S0-11")
@pytest.mark.rule("R-dma_copy-11", "reject")
@pytest.mark.parametrize(("index", "dtype"), BAD)
def test_indices_out_of_bounds(index: int, dtype: Any) -> None:
    indices = column([0, 49, index, 3], dtype)
    for found in (
        rejects("R-dma_copy-11", gather, DATA, indices),
        rejects("R-dma_copy-11", scatter, DATA.copy(), indices, np.zeros((4, 12), np.float32)),
        rejects("R-dma_copy-11", shifted, DATA, column([index], dtype)),
    ):
        text = str(found)
        assert all(part in text for part in ("scatter/gather", "indirect memory copy", "out-of-bound", "1006"))
        assert found.code == "E301"
    assert NRT_EXEC_OOB == 1006


@pytest.mark.req("S0-11")
@pytest.mark.rule("R-dma_copy-11", "accept")
def test_first_and_last_row_are_inside() -> None:
    np.testing.assert_array_equal(run(gather, DATA, column([0, 49])), DATA[[0, 49]])


@pytest.mark.req("S0-12")
def test_what_the_error_names() -> None:
    def lookup(data: Any, indices: Any) -> Any:
        return gather(data, indices)

    with pytest.raises(OutOfBoundsError) as caught:
        run(lookup, DATA, column([4, 5, 77, 78], np.uint32))
    error = caught.value
    assert (error.code, error.kernel, error.instruction) == (NRT_EXEC_OOB, "lookup", 2)
    assert (error.lane, error.index, error.bound) == (2, 77, 50)
    assert error.tensor.shape == (50, 12)
    found = error.diagnostic
    assert found.location is not None and found.location.file == __file__
    notes = "\n".join(found.notes)
    assert "kernel lookup, executed instruction 2" in notes
    assert "lane 2, index 77, bound 50; 2 of 4 lanes" in notes
    assert f"tensor {error.tensor.name}: an argument of the kernel" in notes
    assert isinstance(error, IndexError)


@pytest.mark.req("S0-12")
def test_the_error_names_where_the_tensor_was_allocated() -> None:
    def kernel(rows: Any, indices: Any) -> Any:
        scratch = nl.ndarray((8, 12), dtype=nl.float32, buffer=nl.hbm)
        return scatter(scratch, indices, rows)

    found = rejects("R-dma_copy-11", kernel, np.ones((2, 12), np.float32), column([3, 8]))
    assert any(f"allocated at {__file__}" in note for note in found.notes)


@pytest.mark.req("S0-13")
@pytest.mark.rule("R-dma_copy-11", "holds")
@pytest.mark.parametrize("dtype", [np.float32, np.int32, ml_dtypes.bfloat16])
def test_skipped_lanes_of_a_gather_keep_the_destination(dtype: Any) -> None:
    data, start = random((50, 12), dtype, seed=1), random((5, 12), dtype, seed=2)
    indices = column([3, 0xFFFFFFFF, 49, 50, 0], np.uint32)
    out = run(lambda d, i, s: gather(d, i, s, oob_mode=SKIP), data, indices, start)
    expected = start.copy()
    expected[[0, 2, 4]] = data[[3, 49, 0]]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.req("S0-13")
@pytest.mark.rule("R-dma_copy-11", "holds")
def test_skipped_lanes_of_a_scatter_write_nothing() -> None:
    rows, expected = random((4, 12), seed=3), DATA.copy()
    expected[[1, 2]] = rows[[1, 3]]
    out = run(lambda d, i, r: scatter(d, i, r, oob_mode=SKIP), DATA.copy(), column([-1, 1, 50, 2]), rows)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.req("S0-13")
@pytest.mark.rule("R-dma_copy-11", "reject")
def test_error_mode_is_the_default() -> None:
    mode = nisa.oob_mode.error
    rejects("R-dma_copy-11", lambda d, i: gather(d, i, oob_mode=mode), DATA, column([50]))
    rejects("R-dma_copy-11", gather, DATA, column([50]))
    rejects("R-dma_copy-11", scatter, DATA.copy(), column([50]), np.zeros((1, 12), np.float32))


def test_skipped_scalar_offset_leaves_everything() -> None:
    out = run(lambda d, i: shifted(d, i, oob_mode=SKIP), DATA, column([47]))
    np.testing.assert_array_equal(out, np.full((4, 12), 9))
    np.testing.assert_array_equal(run(lambda d, i: shifted(d, i, oob_mode=SKIP), DATA, column([46])), DATA[46:])


def test_skipped_lanes_stay_unwritten() -> None:
    found = rejects("R-tensor-18", lambda d, i: gather(d, i, oob_mode=SKIP), DATA, column([1, 50, 2]))
    assert "12 of 36" in found.message


def test_lanes_skipped_on_either_side() -> None:
    def kernel(data: Any, indices: Any, places: Any, out: Any) -> Any:
        pattern = [[12, 4], [1, 12]]
        source, target = (t.ap(pattern, vector_offset=load(i)) for t, i in ((data, indices), (out, places)))
        nisa.dma_copy(dst=target, src=source, oob_mode=SKIP)
        return out

    out = np.zeros((6, 12), np.float32)
    expected = out.copy()
    expected[0] = DATA[4]
    result = run(kernel, DATA, column([99, 4, 5, 99]), column([1, 0, 6, 9]), out)
    np.testing.assert_array_equal(result, expected)


# Unwritten data.


def test_unwritten_elements_travel() -> None:
    def kernel(x: Any, whole: bool) -> Any:
        part, moved = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.sbuf), hbm((4, 8))
        nisa.dma_copy(dst=part[:, 0:3], src=x)
        nisa.dma_copy(dst=moved, src=part)
        if whole:
            nisa.dma_copy(dst=moved.reshape((8, 4))[:, 3:4], src=x[:, 0:1])
        return moved

    x = random((8, 3))
    found = rejects("R-tensor-18", lambda x: kernel(x, False), x)
    assert "8 of 32" in found.message
    expected = np.concatenate([x, x[:, :1]], axis=1).reshape(4, 8)
    np.testing.assert_array_equal(run(lambda x: kernel(x, True), x), expected)


# dma_compute.


def summing(count: int, shape: tuple[int, ...] = (8, 6), dtype: Any = nl.float32, **options: Any) -> Callable[..., Any]:
    def kernel(*xs: Any) -> Any:
        out = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
        nisa.dma_compute(out, list(xs)[:count], **{"reduce_op": nl.add, **options})
        return store(out)

    return kernel


@pytest.mark.rule("R-dma_compute-01", "accept")
@pytest.mark.rule("R-dma_compute-02", "accept")
@pytest.mark.parametrize("count", [1, 2, 3, 16])
def test_sum_of_sources(count: int) -> None:
    xs = [random((8, 6), seed=i) for i in range(count)]
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    np.testing.assert_array_equal(accepts(summing(count), *xs), total)
    np.testing.assert_array_equal(accepts(summing(count, scales=[1.0] * count), *xs), total)


def test_sum_in_float32_of_other_types() -> None:
    a, b = random((8, 6), ml_dtypes.bfloat16, seed=1), random((4, 12), np.int32, seed=2)
    expected = (a.astype(np.float32) + b.reshape(8, 6).astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(run(summing(2, dtype=nl.float16), a, b), expected)


@pytest.mark.rule("R-dma_compute-01", "reject")
@pytest.mark.parametrize(
    "options", [{"reduce_op": nl.multiply}, {"scales": [1.0, 2.0]}, {"scales": [1.0]}, {"scales": [0.0, 1.0]}]
)
def test_only_plain_sums(options: dict[str, Any]) -> None:
    rejects("R-dma_compute-01", summing(2, **options), *[random((8, 6))] * 2)


@pytest.mark.rule("R-dma_compute-02", "reject")
def test_sources_alike() -> None:
    rejects("R-dma_compute-02", summing(17), *[random((8, 6))] * 17)
    assert "srcs[1]" in rejects("R-dma_compute-02", summing(2), random((8, 6)), random((8, 7))).message


@pytest.mark.rule("R-dma_compute-03", "accept")
@pytest.mark.rule("R-dma_compute-03", "reject")
def test_memories_of_sums() -> None:
    def kernel(x: Any, buffer: Any) -> Any:
        out = hbm(x.shape)
        nisa.dma_compute(out, [x, tile(x.shape, buffer=buffer, value=1)], reduce_op=nl.add)
        return out

    np.testing.assert_array_equal(accepts(lambda x: kernel(x, nl.sbuf), X), X + 1)
    rejects("R-dma_compute-03", lambda x: kernel(x, nl.psum), X)


def adding(data: Any, indices: Any, rows: Any, gathers: bool, **options: Any) -> Any:
    """data[indices] += rows, or rows += data[indices]."""
    index, tiles = load(indices), load(rows)
    count, width = rows.shape
    chosen = data.ap([[width, count], [1, width]], vector_offset=index, indirect_dim=0)
    dst = tiles if gathers else chosen
    nisa.dma_compute(dst=dst, srcs=[chosen, tiles], reduce_op=nl.add, **options)
    return store(tiles) if gathers else data


@pytest.mark.rule("R-dma_compute-04", "accept")
def test_scatter_add_and_gather_add() -> None:
    chosen, rows = np.array([40, 2, 17]), random((3, 12), seed=7)
    expected = DATA.copy()
    expected[chosen] += rows
    out = accepts(lambda d, i, r: adding(d, i, r, False), DATA.copy(), column(chosen), rows)
    np.testing.assert_array_equal(out, expected)
    out = accepts(lambda d, i, r: adding(d, i, r, True), DATA, column(chosen), rows)
    np.testing.assert_array_equal(out, DATA[chosen] + rows)


@pytest.mark.rule("R-dma_compute-04", "reject")
def test_indexed_sums_update_in_place() -> None:
    rows, indices = random((3, 12)), column([1, 2, 3])
    rejects("R-dma_compute-04", lambda d, i, r: adding(d, i, r, True, unique_indices=False), DATA, indices, rows)

    def elsewhere(data: Any, indices: Any, rows: Any) -> None:
        chosen = data.ap([[12, 3], [1, 12]], vector_offset=load(indices))
        nisa.dma_compute(dst=tile((3, 12)), srcs=[chosen, load(rows)], reduce_op=nl.add)

    def three(data: Any, indices: Any, rows: Any) -> None:
        chosen, tiles = data.ap([[12, 3], [1, 12]], vector_offset=load(indices)), load(rows)
        nisa.dma_compute(dst=tiles, srcs=[chosen, tiles, rows], reduce_op=nl.add)

    def from_hbm(data: Any, indices: Any, rows: Any) -> None:
        chosen = data.ap([[12, 3], [1, 12]], vector_offset=load(indices))
        nisa.dma_compute(dst=chosen, srcs=[chosen, rows], reduce_op=nl.add)

    def other_indices(data: Any, indices: Any, rows: Any) -> None:
        a, b = (data.ap([[12, 3], [1, 12]], vector_offset=load(indices)) for _ in range(2))
        nisa.dma_compute(dst=a, srcs=[b, load(rows)], reduce_op=nl.add)

    for kernel in (elsewhere, three, from_hbm, other_indices):
        rejects("R-dma_compute-04", kernel, DATA.copy(), indices, rows)


def test_an_accepted_sum_does_not_vouch_for_another_destination() -> None:
    def kernel(data: Any, indices: Any, rows: Any) -> None:
        chosen, tiles, other = data.ap([[12, 3], [1, 12]], vector_offset=load(indices)), load(rows), load(rows)
        nisa.dma_compute(dst=tiles, srcs=[chosen, tiles], reduce_op=nl.add)
        nisa.dma_compute(dst=other, srcs=[chosen, tiles], reduce_op=nl.add)

    rejects("R-dma_compute-04", kernel, DATA, column([1, 2, 3]), random((3, 12)))


@pytest.mark.rule("R-dma_compute-05", "accept")
def test_skipped_lanes_of_sums() -> None:
    rows, expected = random((3, 12), seed=4), DATA.copy()
    expected[[5, 6]] += rows[[0, 2]]
    out = accepts(lambda d, i, r: adding(d, i, r, False, oob_mode=SKIP), DATA.copy(), column([5, 50, 6]), rows)
    np.testing.assert_array_equal(out, expected)
    out = accepts(lambda d, i, r: adding(d, i, r, True, oob_mode=SKIP), DATA, column([5, -1, 6]), rows)
    np.testing.assert_array_equal(out, np.stack([rows[0] + DATA[5], rows[1], rows[2] + DATA[6]]))
    rejects("R-dma_copy-11", lambda d, i, r: adding(d, i, r, True), DATA, column([5, -1, 6]), rows)


@pytest.mark.rule("R-dma_compute-05", "reject")
def test_skip_needs_indices() -> None:
    rejects("R-dma_compute-05", summing(2, oob_mode=SKIP), *[random((8, 6))] * 2)


@pytest.mark.rule("R-dma_compute-06", "accept")
@pytest.mark.rule("R-dma_compute-06", "reject")
def test_sums_have_static_addresses() -> None:
    def kernel(data: Any, index: Any) -> None:
        part = data.ap([[12, 4], [1, 12]], scalar_offset=load(index), indirect_dim=0)
        nisa.dma_compute(dst=tile((4, 12)), srcs=[part, data[0:4, :]], reduce_op=nl.add)

    rejects("R-dma_compute-06", kernel, DATA, column([3]))
    accepts(lambda d, i, r: adding(d, i, r, True), DATA, column([3]), random((1, 12)))


@pytest.mark.rule("R-dma_compute-07", "accept")
@pytest.mark.rule("R-dma_compute-07", "reject")
def test_scattered_rows_are_distinct() -> None:
    rows = random((3, 12))
    found = rejects("R-dma_compute-07", lambda d, i, r: adding(d, i, r, False), DATA.copy(), column([4, 9, 4]), rows)
    assert "row 4" in found.message and "lanes 0 and 2" in found.message
    # A gather may take a row twice.
    out = accepts(lambda d, i, r: adding(d, i, r, True), DATA, column([4, 9, 4]), rows)
    np.testing.assert_array_equal(out, DATA[[4, 9, 4]] + rows)


# Cost.


def cost_of(kernel: Callable[..., Any], name: str, *arrays: Any, target: str = "trn2", which: int = -1) -> Any:
    """The cost of an instruction of this name that a kernel issued, by default the last."""
    done = full_run(kernel, *arrays, target=target)
    op = [op for op in done.session.graph.body.ops if op.name == name][which]
    return op_cost(op, get_target(target))[1]


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("axis", [0, 1])
def test_copies_cost_more_the_more_they_move(target: str, axis: int) -> None:
    last = 0.0
    for size in (1, 2, 16, 17, 64, 128):
        shape = (size, 40) if axis == 0 else (40, size)
        cost = cost_of(lambda x: store(load(x)), "dma_copy", np.zeros(shape, np.float32), target=target)
        assert cost.interval_ns > 0
        assert cost.latency_ns >= last
        last = cost.latency_ns
        assert sum(size * count for size, count in cost.descriptors) == 4 * np.prod(shape)


def test_who_writes_descriptors_costs() -> None:
    by_mode = {mode: cost_of(copying(dge_mode=mode), "dma_copy", X, which=0) for mode in nisa.dge_mode}
    assert by_mode[nisa.dge_mode.unknown] == by_mode[nisa.dge_mode.hwdge]
    assert len({cost.latency_ns for cost in by_mode.values()}) == 3
    assert "dge:swdge" in cost_of(gather, "dma_copy", DATA, column([1, 2]), which=1).ports
    assert "dge:swdge" in cost_of(lambda x: store(load(x, nl.bfloat16)), "dma_copy", X, which=0).ports


def test_sums_cost() -> None:
    costs = [cost_of(summing(n), "dma_compute", *[random((8, 6))] * n) for n in (1, 2, 3)]
    assert sorted(cost.latency_ns for cost in costs) == [cost.latency_ns for cost in costs]
    assert [len(cost.descriptors) for cost in costs] == [1, 2, 3]


def test_collecting_goes_on_after_a_bad_copy() -> None:
    def kernel(x: Any) -> Any:
        made = nl.ndarray((8, 15), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=made, src=x)
        nisa.dma_copy(dst=nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.psum), src=x)
        return store(made)

    done = full_run(kernel, X, collect=True)
    assert [found.rule for found in done.diagnostics] == ["R-dma_copy-02", "R-dma_copy-01"]
    with pytest.raises(TileError):
        run(kernel, X)

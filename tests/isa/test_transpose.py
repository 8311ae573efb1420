"""dma_transpose and nc_transpose: what they move, which permutations and sizes are legal, engines and cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit import accepts, full_run, nisa, nl, np, rejects, run, tile
from tilewright.target import get_target
from tilewright.tile.costed import op_cost

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3
HWDGE, SWDGE, NONE = nisa.dge_mode.hwdge, nisa.dge_mode.swdge, nisa.dge_mode.none
SKIP = nisa.oob_mode.skip
TENSOR, VECTOR = nisa.engine.tensor, nisa.engine.vector
AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def random(shape: tuple[int, ...], dtype: Any = BF16, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) * 50).astype(dtype)


def load(x: Any) -> Any:
    """Inside a kernel: a tensor in SBUF."""
    made = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=made, src=x)
    return made


def store(x: Any) -> Any:
    """Inside a kernel: a tile as output."""
    if x.buffer == nl.psum:
        copied = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copied, src=x)
        x = copied
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


# dma_transpose.


def swapping(shape: tuple[int, ...] | None = None, dtype: Any = None, **options: Any) -> Callable[[Any], Any]:
    """A kernel that transposes its argument by DMA."""

    def kernel(x: Any) -> Any:
        wanted = shape or tuple(x.shape[axis] for axis in AXES[x.ndim])
        made = nl.ndarray(wanted, dtype=dtype or x.dtype, buffer=nl.sbuf)
        nisa.dma_transpose(made, x, **options)
        return store(made)

    return kernel


@pytest.mark.req("S4-55")
@pytest.mark.rule("R-dma_transpose-01", "accept")
@pytest.mark.rule("R-dma_transpose-02", "accept")
@pytest.mark.rule("R-dma_transpose-03", "accept")
@pytest.mark.rule("R-dma_transpose-04", "accept")
@pytest.mark.parametrize("dtype", [BF16, np.float32, np.int32, np.uint8])
@pytest.mark.parametrize("shape", [(64, 128), (300, 7), (5, 6, 70), (9, 1, 3, 33)])
def test_legal_permutations(shape: tuple[int, ...], dtype: Any) -> None:
    x = random(shape, np.float32).astype(dtype)
    axes = AXES[len(shape)]
    np.testing.assert_array_equal(accepts(swapping(), x), x.transpose(axes))
    np.testing.assert_array_equal(accepts(swapping(axes=list(axes)), x), x.transpose(axes))


@pytest.mark.req("S4-55")
@pytest.mark.rule("R-dma_transpose-01", "reject")
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((4, 6, 8), (0, 2, 1)), ((4, 6, 8), (1, 2, 0)), ((4, 6), (0, 1)), ((2, 3, 4, 5), (3, 2, 1, 0)), ((4, 6), (1,))],
)
def test_other_permutations(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    found = rejects("R-dma_transpose-01", swapping(axes=axes), random(shape))
    assert str(AXES[len(shape)]) in found.message


@pytest.mark.req("S4-55")
def test_ranks_without_a_permutation() -> None:
    rejects("R-dma_transpose-01", swapping((6, 2, 2, 2, 4)), random((4, 2, 2, 2, 6)))


@pytest.mark.rule("R-dma_transpose-02", "reject")
@pytest.mark.parametrize(
    ("source", "target"), [((4, 6), (4, 6)), ((4, 1, 1, 6), (6, 4)), ((4, 6, 8), (8, 4, 6)), ((4, 6), (6, 1, 4))]
)
def test_destination_is_the_transposed_shape(source: tuple[int, ...], target: tuple[int, ...]) -> None:
    rejects("R-dma_transpose-02", swapping(target), random(source))


@pytest.mark.rule("R-dma_transpose-03", "reject")
def test_destination_is_in_sbuf() -> None:
    def kernel(x: Any, where: Any) -> None:
        nisa.dma_transpose(nl.ndarray((6, 4), dtype=x.dtype, buffer=where), x)

    for where in (nl.psum, nl.shared_hbm):
        rejects("R-dma_transpose-03", lambda x, where=where: kernel(x, where), random((4, 6)))

    def from_psum(x: Any) -> None:
        nisa.dma_transpose(tile((6, 4)), tile((4, 6), buffer=nl.psum))

    rejects("R-dma_transpose-03", from_psum)


def test_from_sbuf() -> None:
    def kernel(x: Any) -> Any:
        made = nl.ndarray((6, 100), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_transpose(made, load(x))
        return store(made)

    x = random((100, 6))
    np.testing.assert_array_equal(run(kernel, x), x.T)


@pytest.mark.rule("R-dma_transpose-04", "reject")
def test_types_are_equal() -> None:
    rejects("R-dma_transpose-04", swapping(dtype=nl.float32), random((4, 6)))


@pytest.mark.rule("R-dma_transpose-05", "accept")
@pytest.mark.rule("R-dma_transpose-06", "accept")
@pytest.mark.rule("R-dma_transpose-07", "accept")
@pytest.mark.rule("R-dma_transpose-08", "accept")
@pytest.mark.parametrize("shape", [(16, 128), (16, 1), (1, 16, 5), (4, 8, 64), (8, 3, 2, 128), (16, 1, 1, 7)])
def test_hardware_transposes(shape: tuple[int, ...]) -> None:
    x = random(shape)
    np.testing.assert_array_equal(accepts(swapping(dge_mode=HWDGE), x), x.transpose(AXES[len(shape)]))


@pytest.mark.rule("R-dma_transpose-05", "accept")
def test_transposes_with_descriptors_computed_beforehand() -> None:
    x = random((32, 8))
    np.testing.assert_array_equal(accepts(swapping(dge_mode=NONE), x), x.T)


@pytest.mark.rule("R-dma_transpose-05", "reject")
def test_modes_of_direct_transposes() -> None:
    rejects("R-dma_transpose-05", swapping(dge_mode=SWDGE), random((16, 8)))


@pytest.mark.rule("R-dma_transpose-06", "reject")
@pytest.mark.parametrize("shape", [(32, 8), (8, 8), (3, 16, 8), (32, 1, 8), (4, 3, 8), (8, 16, 1, 8)])
def test_rows_of_hardware_transposes(shape: tuple[int, ...]) -> None:
    rejects("R-dma_transpose-06", swapping(dge_mode=HWDGE), random(shape))


@pytest.mark.rule("R-dma_transpose-07", "reject")
def test_columns_of_hardware_transposes() -> None:
    def kernel(x: Any) -> None:
        nisa.dma_transpose(nl.ndarray((128, 16), dtype=x.dtype, buffer=nl.sbuf), x, dge_mode=HWDGE)

    # No SBUF tile has the 129 partitions that the shape rule asks for, so that this rule never stands alone.
    done = full_run(kernel, random((16, 129)), collect=True)
    assert "R-dma_transpose-07" in [found.rule for found in done.diagnostics]


@pytest.mark.rule("R-dma_transpose-08", "reject")
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_hardware_transposes_two_bytes(dtype: Any) -> None:
    rejects("R-dma_transpose-08", swapping(dge_mode=HWDGE), np.zeros((16, 8), dtype))


def test_modes_and_priorities_of_generations() -> None:
    x = random((16, 8))
    rejects("R-dma_copy-06", swapping(dge_mode=HWDGE), x, target="trn1")
    rejects("R-dma_copy-13", swapping(priority=1), x)
    accepts(swapping(priority=1), x, target="trn3")


def collected(data: Any, indices: Any, dst: Any = None, rows: int = 0, **options: Any) -> Any:
    """data[indices.T.flatten()[:rows]] transposed, over what `dst` holds."""
    index = load(indices)
    rows = rows or index.size
    sizes = (rows, *data.shape[1:])
    steps = [int(np.prod(data.shape[d + 1 :])) for d in range(data.ndim)]
    source = data.ap([[step, size] for step, size in zip(steps, sizes, strict=True)], vector_offset=index)
    made = nl.ndarray(tuple(sizes[axis] for axis in AXES[len(sizes)]), dtype=data.dtype, buffer=nl.sbuf)
    if dst is not None:
        nisa.dma_copy(dst=made, src=dst)
    nisa.dma_transpose(made, source, **options)
    return store(made)


def choose(shape: tuple[int, int], limit: int, dtype: Any = np.uint32) -> np.ndarray:
    return np.random.default_rng(4).integers(0, limit, shape).astype(dtype)


@pytest.mark.rule("R-dma_transpose-09", "accept")
@pytest.mark.rule("R-dma_transpose-10", "accept")
@pytest.mark.rule("R-dma_transpose-11", "accept")
@pytest.mark.rule("R-dma_transpose-12", "accept")
@pytest.mark.parametrize("indices", [(128, 1), (16, 1), (48, 1), (128, 2), (128, 3)])
@pytest.mark.parametrize("shape", [(200, 128), (200, 17), (60, 3, 40), (60, 1, 4, 64), (60, 5, 1, 10)])
def test_gathered_rows(indices: tuple[int, int], shape: tuple[int, ...]) -> None:
    data, chosen = random(shape), choose(indices, shape[0])
    expected = data[chosen.T.flatten()].transpose(AXES[len(shape)])
    for mode in (nisa.dge_mode.unknown, SWDGE):
        out = accepts(lambda d, i, mode=mode: collected(d, i, dge_mode=mode), data, chosen)
        np.testing.assert_array_equal(out, expected)


def test_more_indices_than_rows() -> None:
    data, chosen = random((50, 20)), choose((128, 2), 50)
    out = run(lambda d, i: collected(d, i, rows=144), data, chosen)
    np.testing.assert_array_equal(out, data[chosen.T.flatten()[:144]].T)


@pytest.mark.rule("R-dma_transpose-08", "reject")
def test_gathered_elements_have_two_bytes() -> None:
    rejects("R-dma_transpose-08", collected, random((50, 20), np.float32), choose((16, 1), 50))


@pytest.mark.rule("R-dma_transpose-09", "reject")
@pytest.mark.parametrize(("mode", "target"), [(HWDGE, "trn2"), (NONE, "trn2"), (SWDGE, "trn1")])
def test_who_gathers_rows(mode: Any, target: str) -> None:
    data, chosen = random((50, 20)), choose((16, 1), 50)
    done = full_run(lambda d, i: collected(d, i, dge_mode=mode), data, chosen, target=target, collect=True)
    assert "R-dma_transpose-09" in [found.rule for found in done.diagnostics]


@pytest.mark.rule("R-dma_transpose-10", "reject")
def test_middle_dims_of_gathered_rows() -> None:
    rejects("R-dma_transpose-10", collected, random((50, 2, 3, 20)), choose((16, 1), 50))


@pytest.mark.rule("R-dma_transpose-11", "reject")
def test_size_of_gathered_rows() -> None:
    rejects("R-dma_transpose-11", lambda d, i: collected(d, i, rows=24), random((50, 20)), choose((32, 1), 50))

    def wide(data: Any, indices: Any) -> None:
        source = data.ap([[130, 16], [1, 130]], vector_offset=load(indices))
        nisa.dma_transpose(tile((128, 16), nl.bfloat16), source)

    done = full_run(wide, random((50, 130)), choose((16, 1), 50), collect=True)
    assert "R-dma_transpose-11" in [found.rule for found in done.diagnostics]


@pytest.mark.rule("R-dma_transpose-12", "reject")
@pytest.mark.parametrize(
    ("shape", "dtype", "rows"),
    [((16, 1), np.int32, 16), ((24, 1), np.uint32, 16), ((64, 2), np.uint32, 64), ((16, 2), np.uint32, 32)],
)
def test_indices_of_gathered_rows(shape: tuple[int, int], dtype: Any, rows: int) -> None:
    rejects("R-dma_transpose-12", lambda d, i: collected(d, i, rows=rows), random((50, 20)), choose(shape, 50, dtype))


@pytest.mark.rule("R-dma_transpose-13", "accept")
def test_skipped_rows_keep_their_columns() -> None:
    data, start = random((50, 20)), random((20, 16), seed=1)
    chosen = choose((16, 1), 50)
    chosen[[2, 9], 0] = 50, 0xFFFFFFFF
    out = accepts(lambda d, i, s: collected(d, i, s, oob_mode=SKIP), data, chosen, start)
    expected = data[np.where(chosen < 50, chosen, 0).ravel()].T
    expected[:, [2, 9]] = start[:, [2, 9]]
    np.testing.assert_array_equal(out, expected)
    rejects("R-dma_copy-11", collected, data, chosen, start)


@pytest.mark.rule("R-dma_transpose-13", "accept")
def test_run_time_start() -> None:
    def kernel(data: Any, index: Any, **options: Any) -> Any:
        made = tile((20, 16), nl.bfloat16, value=3)
        source = data.ap([[20, 16], [1, 20]], scalar_offset=load(index), indirect_dim=0)
        nisa.dma_transpose(made, source, **options)
        return store(made)

    data = random((50, 20))
    for mode in (nisa.dge_mode.unknown, HWDGE, SWDGE):
        out = run(lambda d, i, mode=mode: kernel(d, i, dge_mode=mode), data, np.array([[34]], np.int32))
        np.testing.assert_array_equal(out, data[34:].T)
    out = run(lambda d, i: kernel(d, i, oob_mode=SKIP), data, np.array([[35]], np.int32))
    np.testing.assert_array_equal(out, np.full((20, 16), 3))
    rejects("R-dma_copy-09", lambda d, i: kernel(d, i, dge_mode=NONE), data, np.array([[0]], np.int32))


@pytest.mark.rule("R-dma_transpose-13", "reject")
def test_skip_needs_an_index() -> None:
    rejects("R-dma_transpose-13", swapping(oob_mode=SKIP), random((16, 8)))


def test_unwritten_elements_travel_through_a_dma() -> None:
    def kernel(x: Any) -> Any:
        part, made = nl.ndarray((8, 4), dtype=x.dtype, buffer=nl.sbuf), nl.ndarray((4, 8), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=part[:, 0:3], src=x)
        nisa.dma_transpose(made, part)
        return store(made[0:3, :]), store(made)

    assert "8 of 32" in rejects("R-tensor-18", kernel, random((8, 3))).message


# nc_transpose.


def turning(to: Any = nl.psum, dtype: Any = None, shape: tuple[int, ...] | None = None, **options: Any) -> Any:
    """A kernel that transposes its argument on an engine."""

    def kernel(x: Any) -> Any:
        free = int(np.prod(x.shape[1:]))
        made = nl.ndarray(shape or (free, x.shape[0]), dtype=dtype or x.dtype, buffer=to)
        nisa.nc_transpose(made, load(x), **options)
        return store(made)

    return kernel


def bits(shape: tuple[int, int], dtype: Any) -> np.ndarray:
    """Elements with every bit pattern, NaN and infinity among them."""
    raw = np.random.default_rng(1).integers(0, 256, (shape[0], shape[1] * np.dtype(dtype).itemsize))
    return raw.astype(np.uint8).view(dtype)


def same_bits(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_array_equal(np.ascontiguousarray(a).view(np.uint8), np.ascontiguousarray(b).view(np.uint8))


@pytest.mark.rule("R-nc_transpose-01", "accept")
@pytest.mark.rule("R-nc_transpose-02", "accept")
@pytest.mark.rule("R-nc_transpose-03", "accept")
@pytest.mark.rule("R-nc_transpose-04", "accept")
@pytest.mark.parametrize("dtype", [np.float32, BF16, np.float16, np.int32, np.uint8])
@pytest.mark.parametrize("shape", [(128, 128), (1, 128), (128, 3), (70, 50)])
def test_tensor_engine_transposes(dtype: Any, shape: tuple[int, int]) -> None:
    x = bits(shape, dtype)
    same_bits(accepts(turning(), x), x.T)
    same_bits(accepts(turning(engine=TENSOR), x, target="trn3"), x.T)


@pytest.mark.rule("R-nc_transpose-01", "accept")
@pytest.mark.rule("R-nc_transpose-03", "accept")
@pytest.mark.parametrize("to", [nl.sbuf, nl.psum])
@pytest.mark.parametrize("dtype", [np.float32, BF16, np.uint16, E4M3])
@pytest.mark.parametrize("shape", [(32, 32), (1, 32), (32, 5), (17, 9)])
def test_vector_engine_transposes(to: Any, dtype: Any, shape: tuple[int, int]) -> None:
    x = bits(shape, dtype)
    for target in ("trn1", "trn2"):
        same_bits(accepts(turning(to, engine=VECTOR), x, target=target), x.T)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 128), st.integers(1, 128), st.integers(0, 99))
def test_transposes_of_any_size(rows: int, columns: int, seed: int) -> None:
    x = random((rows, columns), np.float32, seed)
    np.testing.assert_array_equal(run(turning(), x), x.T)


def test_free_dims_are_flattened() -> None:
    x = random((30, 4, 5))
    np.testing.assert_array_equal(run(turning(), x), x.reshape(30, 20).T)


def test_strided_views_and_psum_source() -> None:
    x = random((32, 64), np.float32)

    def kernel(x: Any) -> Any:
        psum, made = nl.ndarray((32, 64), dtype=x.dtype, buffer=nl.psum), tile((32, 40))
        nisa.tensor_copy(psum, load(x))
        nisa.nc_transpose(made[:, 0:32], psum[:, 0:64:2])
        return store(made)

    expected = np.zeros((32, 40), np.float32)
    expected[:, :32] = x[:, ::2].T
    np.testing.assert_array_equal(run(kernel, x), expected)


@pytest.mark.rule("R-nc_transpose-07", "holds")
def test_v2_multiplies_by_an_identity() -> None:
    x = random((64, 40), np.float32)
    np.testing.assert_array_equal(run(turning(), x, target="trn1"), x.T)
    x[3, 5] = np.nan
    out = run(turning(), x, target="trn1")
    assert np.isnan(out[5]).all() and np.count_nonzero(np.isnan(out)) == 64
    np.testing.assert_array_equal(run(turning(), x), x.T)


@pytest.mark.rule("R-nc_transpose-06", "accept")
@pytest.mark.rule("R-nc_transpose-06", "reject")
def test_float8_needs_two_bytes_of_psum() -> None:
    x = random((64, 48), E4M3)

    def kernel(x: Any) -> Any:
        made = nl.ndarray((48, 64, 2), dtype=x.dtype, buffer=nl.psum)
        nisa.nc_transpose(made[:, :, 0], load(x))
        return store(made[:, :, 0])

    np.testing.assert_array_equal(accepts(kernel, x), x.T)
    rejects("R-nc_transpose-06", turning(), x)
    np.testing.assert_array_equal(accepts(turning(), x, target="trn1"), x.T)


@pytest.mark.rule("R-nc_transpose-05", "holds")
@pytest.mark.parametrize(
    ("shape", "to", "given_engine", "runs_on"),
    [
        ((128, 128), nl.psum, None, "tensor"),
        ((16, 16), nl.sbuf, None, "vector"),
        ((16, 16), nl.psum, TENSOR, "tensor"),
        ((16, 16), nl.psum, VECTOR, "vector"),
    ],
)
def test_engines(shape: tuple[int, int], to: Any, given_engine: Any, runs_on: str) -> None:
    options = {} if given_engine is None else {"engine": given_engine}
    counts = full_run(turning(to, **options), random(shape)).session.counts.executed
    assert [engine for engine, name, _ in counts if name == "nc_transpose"] == [runs_on]


@pytest.mark.rule("R-nc_transpose-05", "reject")
def test_other_engines() -> None:
    rejects("R-nc_transpose-05", turning(engine=nisa.engine.scalar), random((16, 16)))


@pytest.mark.rule("R-nc_transpose-01", "reject")
@pytest.mark.rule("R-engine-02", "reject")
def test_tensor_engine_goes_from_sbuf_to_psum() -> None:
    rejects("R-nc_transpose-01", turning(nl.sbuf, engine=TENSOR), random((16, 16)))
    rejects("R-nc_transpose-01", turning(nl.shared_hbm), random((16, 16)))

    def kernel(_: Any) -> None:
        made = nl.ndarray((16, 16), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(made, tile((16, 16), buffer=nl.psum), engine=TENSOR)

    rejects("R-nc_transpose-01", kernel)


@pytest.mark.rule("R-nc_transpose-02", "reject")
def test_types_of_engine_transposes() -> None:
    rejects("R-nc_transpose-02", turning(dtype=nl.float32), random((64, 64)))


def test_published_kernels_transpose_into_wider_types() -> None:
    """Attention for trn1 by autocomp: bfloat16 into float32, which holds every one of its values."""
    x = np.random.default_rng(0).standard_normal((64, 32)).astype(nl.bfloat16)
    done = full_run(turning(dtype=nl.float32), x, target="trn2", profile="lenient")
    assert [found.rule for found in done.diagnostics] == ["R-nc_transpose-02"]
    np.testing.assert_array_equal(done.result, x.T.astype(np.float32))


@pytest.mark.rule("R-nc_transpose-03", "reject")
@pytest.mark.parametrize(
    ("shape", "options"),
    [((33, 8), {"engine": VECTOR}), ((8, 33), {"engine": VECTOR}), ((64, 64), {"to": nl.sbuf})],
)
def test_sizes(shape: tuple[int, int], options: dict[str, Any]) -> None:
    rejects("R-nc_transpose-03", turning(**options), random(shape))


@pytest.mark.rule("R-nc_transpose-03", "reject")
def test_size_of_the_tensor_engine() -> None:
    rejects("R-nc_transpose-03", turning(shape=(128, 8)), random((8, 129)))


@pytest.mark.rule("R-nc_transpose-04", "reject")
@pytest.mark.parametrize("shape", [(64, 32), (32, 65), (16, 128)])
def test_shapes(shape: tuple[int, int]) -> None:
    rejects("R-nc_transpose-04", turning(shape=shape), random((64, 32)))


@pytest.mark.parametrize("engine", [TENSOR, VECTOR])
def test_unwritten_elements_travel_through_an_engine(engine: Any) -> None:
    def kernel(x: Any) -> Any:
        part, made = nl.ndarray((8, 4), x.dtype, buffer=nl.sbuf), nl.ndarray((4, 8), x.dtype, buffer=nl.psum)
        nisa.dma_copy(dst=part[:, 0:3], src=x)
        nisa.nc_transpose(made, part, engine=engine)
        return store(made[0:3, :]), store(made)

    for target in ("trn1", "trn2"):
        assert "8 of 32" in rejects("R-tensor-18", kernel, random((8, 3)), target=target).message


# Cost.


def cost_of(kernel: Callable[..., Any], name: str, *arrays: Any, target: str = "trn2") -> Any:
    (op,) = [op for op in full_run(kernel, *arrays, target=target).session.graph.body.ops if op.name == name]
    return op_cost(op, get_target(target))[1]


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("name", "kernel", "limit"),
    [
        ("dma_transpose", swapping(), 128),
        ("nc_transpose", turning(engine=TENSOR), 128),
        ("nc_transpose", turning(engine=VECTOR), 32),
    ],
)
def test_cost_grows_with_both_dims(target: str, axis: int, name: str, kernel: Any, limit: int) -> None:
    last = 0.0
    for size in (1, 7, 16, 31, 64, 128):
        if size > limit:
            break
        shape = (size, 20) if axis == 0 else (20, size)
        cost = cost_of(kernel, name, random(shape, np.float32), target=target)
        assert cost.interval_ns > 0
        assert cost.latency_ns >= last
        last = cost.latency_ns


def test_transposes_between_sbuf_tiles_are_slower() -> None:
    def kernel(x: Any) -> Any:
        made = nl.ndarray((100, 120), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_transpose(made, load(x))
        return store(made)

    x = random((120, 100))
    assert cost_of(kernel, "dma_transpose", x).latency_ns > cost_of(swapping(), "dma_transpose", x).latency_ns


def test_float32_transposes_are_slower() -> None:
    wide, narrow = (cost_of(turning(), "nc_transpose", random((128, 128), d)) for d in (np.float32, BF16))
    assert wide.interval_ns > 1.5 * narrow.interval_ns

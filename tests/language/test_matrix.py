"""Products, transposes, broadcasting, selection and gathering."""

from __future__ import annotations

import ml_dtypes
import pytest

from tests.kit import accepts, full_run, nisa, nl, np, rejects, run, tile
from tests.language.tiles import apply, instructions, random, record, wide, without_result
from tilewright.errors import TileError

BF16 = ml_dtypes.bfloat16


@pytest.mark.rule("R-nl-04", "accept")
@pytest.mark.rule("R-nl-12", "accept")
@pytest.mark.parametrize("dtype", [np.float32, BF16])
@pytest.mark.parametrize("k, m, n", [(128, 128, 512), (32, 16, 8), (1, 1, 1), (128, 5, 7)])
def test_matmul(k, m, n, dtype):
    x, y = random(k, m, dtype=dtype), random(k, n, dtype=dtype, seed=1)
    result = apply(lambda a, b: nl.matmul(a, b, transpose_x=True), x, y)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, wide(x).T @ wide(y), rtol=1e-4, atol=1e-3)


def test_matmul_result_is_in_psum():
    def kernel(a):
        assert nl.is_psum(nl.matmul(tile((8, 4)), tile((8, 6)), transpose_x=True).buffer)

    accepts(kernel)


@pytest.mark.rule("R-nl-04", "reject")
def test_matmul_without_transpose():
    found = rejects("R-nl-04", lambda a: nl.matmul(tile((4, 8)), tile((8, 6))))
    assert found.hint is not None and "transpose_x=True" in found.hint
    x, y = random(40, 60), random(60, 50, seed=1)
    result = record(nl.matmul, x, y, profile="lenient")
    np.testing.assert_allclose(result.result, wide(x) @ wide(y), rtol=1e-4, atol=1e-4)
    assert [(each.rule, each.severity) for each in result.diagnostics] == [("R-nl-04", "warning")]


@pytest.mark.rule("R-nl-12", "reject")
@pytest.mark.parametrize(
    "x, y",
    [
        (((128, 129), nl.sbuf), ((128, 8), nl.sbuf)),
        (((128, 8), nl.sbuf), ((128, 513), nl.sbuf)),
        (((64, 8), nl.sbuf), ((32, 8), nl.sbuf)),
        (((64, 2, 4), nl.sbuf), ((64, 8), nl.sbuf)),
        (((64, 8), nl.psum), ((64, 8), nl.sbuf)),
        (((64, 8), nl.sbuf), ((64, 8), nl.psum)),
    ],
)
def test_matmul_sizes_and_memories(x, y):
    def kernel(a):
        nl.matmul(tile(x[0], buffer=x[1]), tile(y[0], buffer=y[1]), transpose_x=True)

    rejects("R-nl-12", kernel)


@pytest.mark.rule("R-nl-13", "accept")
@pytest.mark.parametrize("dtype", [np.float32, BF16, ml_dtypes.float8_e4m3, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("shape", [(128, 128), (128, 1), (3, 5), (100, 40)])
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_transpose(shape, dtype, target):
    x = random(*shape, dtype=dtype)
    result = apply(nl.transpose, x, target=target)
    assert result.dtype == x.dtype and (wide(result) == wide(x).T).all()


def test_transpose_casts():
    x = random(4, 6)
    assert (apply(lambda t: nl.transpose(t, dtype=nl.bfloat16), x) == x.T.astype(BF16)).all()


@pytest.mark.rule("R-nl-13", "reject")
def test_transpose_of_three_dims():
    rejects("R-nl-13", lambda a: nl.transpose(tile((4, 2, 3))))


@pytest.mark.rule("R-err-size_of_dimension_exceed_arch_limit-01", "reject")
def test_transpose_of_a_wide_tile():
    rejects("R-err-size_of_dimension_exceed_arch_limit-01", lambda a: nl.transpose(tile((64, 129))))


@pytest.mark.rule("R-err-size_of_dimension_exceed_arch_limit-01", "accept")
@pytest.mark.req("S3-09")
def test_transposes_and_nc_matmul():
    """A transpose is in PSUM: refused by nc_matmul, accepted after tensor_copy, two DMAs fewer than through HBM."""

    def direct(a, b):
        psum = nl.ndarray((128, 64), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(psum, nl.transpose(nl.load(a)), nl.load(b))

    def copied(a, b):
        turned = nl.transpose(nl.load(a))
        assert nl.is_psum(turned.buffer)
        stationary = nl.ndarray((128, 128), nl.float32)
        nisa.tensor_copy(stationary, turned)
        return finish(stationary, b)

    def through_hbm(a, b):
        scratch = nl.ndarray((128, 128), nl.float32, buffer=nl.shared_hbm)
        nl.store(scratch, nl.load(a))
        return finish(nl.load_transpose2d(scratch), b)

    def finish(stationary, b):
        psum = nl.ndarray((128, 64), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(psum, stationary, nl.load(b))
        out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(psum))
        return out

    a, b = random(128, 128), random(128, 64, seed=1)
    with pytest.raises(TileError) as caught:
        run(direct, a, b)
    found = caught.value.diagnostic
    assert "stationary" in found.message and "sbuf" in found.message.lower() and "psum" in found.message.lower()
    runs = [full_run(kernel, a, b) for kernel in (copied, through_hbm)]
    for each in runs:
        np.testing.assert_allclose(each.result, a @ b, rtol=1e-4, atol=1e-4)
    assert runs[1].session.counts.dma_transfers - runs[0].session.counts.dma_transfers == 2


@pytest.mark.rule("R-nl-14", "accept")
@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int32])
@pytest.mark.parametrize(
    "old, new",
    [((4, 1), (4, 6)), ((1, 6), (128, 6)), ((1, 1), (50, 3)), ((4, 1, 3), (4, 5, 3)), ((1, 2, 1), (33, 2, 4))],
)
def test_broadcast(old, new, dtype):
    x = random(*old, low=-9, high=9).astype(dtype)
    result = apply(lambda t: nl.broadcast_to(t, new), x)
    assert result.dtype == x.dtype and (result == np.broadcast_to(x, new)).all()


def test_broadcast_to_the_same_shape():
    def kernel(a):
        t = tile((4, 4), value=2.0)
        assert nl.broadcast_to(t, (4, 4)) is t
        cast = nl.broadcast_to(t, (4, 4), dtype=nl.bfloat16)
        assert cast.dtype == nl.bfloat16
        made = nl.broadcast_to(t[:, 0:1], [4, 4])
        assert nl.is_sbuf(made.buffer) and made.is_contiguous()

    accepts(kernel)


def test_broadcast_makes_a_copy():
    def kernel(a):
        t = tile((4, 1), value=2.0)
        made = nl.broadcast_to(t, (4, 3))
        t[...] = 5.0
        nl.store(a, made)
        return a

    assert (accepts(kernel, np.zeros((4, 3), np.float32)) == 2).all()


def test_broadcast_of_psum_and_cast():
    def kernel(a):
        nl.store(a, nl.broadcast_to(tile((1, 3), buffer=nl.psum, value=2.5), (40, 3), dtype=nl.bfloat16))
        return a

    assert (accepts(kernel, np.zeros((40, 3), BF16)) == 2.5).all()


@pytest.mark.rule("R-nl-14", "reject")
@pytest.mark.parametrize("old, new", [((4, 2), (4, 6)), ((4, 1), (4, 1, 6)), ((4, 1, 3), (4, 3)), ((4, 6), (4, 1))])
def test_broadcast_of_other_shapes(old, new):
    rejects("R-nl-14", lambda a: nl.broadcast_to(tile(old), new))


def test_expanded_dims_share_storage():
    def kernel(a):
        t = tile((4, 6), value=1.0)
        wider = nl.expand_dims(t, 1)
        assert wider.shape == (4, 1, 6) and nl.expand_dims(t, -1).shape == (4, 6, 1)
        wider[:, 0, 0:2] = 7.0
        nl.store(a, t)
        return a

    result = accepts(kernel, np.zeros((4, 6), np.float32))
    assert (result[:, :2] == 7).all() and (result[:, 2:] == 1).all()
    rejects("R-tensor.expand_squeeze-01", lambda a: nl.expand_dims(tile((4, 6)), 0))


@pytest.mark.rule("R-nl-19", "accept")
@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int32])
@pytest.mark.parametrize("condition_dtype", [np.float32, BF16, np.uint8, np.int32])
def test_where(dtype, condition_dtype):
    condition = (random(8, 3, 5) > 0).astype(condition_dtype)
    x, y = random(8, 3, 5, seed=1).astype(dtype), random(8, 3, 5, seed=2).astype(dtype)
    result = record(nl.where, condition, x, y)
    assert result.result.dtype == x.dtype and not result.diagnostics
    assert (result.result == np.where(condition != 0, x, y)).all()


def test_where_with_numbers_and_casts():
    condition, x = (random(4, 6) > 0).astype(np.float32), random(4, 6, seed=1)
    chosen = condition != 0
    assert (apply(lambda c, t: nl.where(c, t, 0.0), condition, x) == np.where(chosen, x, 0)).all()
    assert (apply(lambda c, t: nl.where(c, -1.0, t), condition, x) == np.where(chosen, np.float32(-1), x)).all()
    assert (apply(lambda c: nl.where(c, 3.0, 4.0), condition) == np.where(chosen, 3, 4)).all()
    cast = apply(lambda c, t: nl.where(c, t, 0.0, dtype=nl.bfloat16), condition, x)
    assert (cast == np.where(chosen, x, 0).astype(BF16)).all()


@pytest.mark.rule("R-nl-19", "reject")
def test_where_with_other_conditions():
    condition = np.array([[0.5, 0.0, 1.0]], np.float32)
    result = record(lambda c: nl.where(c, 3.0, 4.0), condition)
    assert [(each.rule, each.severity) for each in result.diagnostics] == [("R-nl-19", "warning")]
    assert (result.result == [[3, 4, 3]]).all()


def test_where_does_not_broadcast():
    rejects("R-nl-01", lambda a: nl.where(tile((4, 4)), tile((4, 1)), tile((4, 4))))
    condition, x = (random(8, 4) > 0).astype(np.float32), random(8, 1, seed=1)
    result = apply(lambda c, t: nl.where(c, t, 0.0), condition, x, profile="lenient")
    assert (result == np.where(condition != 0, x, 0)).all()


@pytest.mark.parametrize("index", [np.uint32, np.int32, np.uint16])
@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int32])
def test_gather(dtype, index):
    data = random(16, 4, 5, low=-9, high=9).astype(dtype)
    indices = np.random.default_rng(0).integers(0, 20, (16, 3, 2)).astype(index)
    result = apply(nl.gather_flattened, data, indices)
    expected = np.take_along_axis(data.reshape(16, -1), indices.reshape(16, -1).astype(np.int64), 1)
    assert (result == expected.reshape(16, 3, 2)).all()
    cast = apply(lambda d, i: nl.gather_flattened(d, i, axis=0, dtype=nl.float32), data, indices)
    assert (cast == expected.reshape(16, 3, 2).astype(np.float32)).all()


def test_where_broadcasts_all_three_leniently():
    shapes = ((8, 1), (8, 1), (8, 4))
    for a, b, c in (shapes, shapes[::-1], (shapes[0], shapes[2], shapes[1])):
        condition, x, y = (random(*a) > 0).astype(np.float32), random(*b, seed=1), random(*c, seed=2)
        assert (apply(nl.where, condition, x, y, profile="lenient") == np.where(condition != 0, x, y)).all()


def test_broadcast_of_a_partition_inside_a_quadrant():
    x = random(40, 6)
    for row in (0, 5, 32, 39):
        result = apply(lambda t, row=row: nl.broadcast_to(t[row : row + 1, :], (70, 6)), x)
        assert (result == x[row]).all()


def test_gather_arguments():
    with pytest.raises(TypeError):
        full_run(without_result(lambda a: nl.gather_flattened(tile((4, 4)), tile((4, 4), nl.uint32), axis=1)))
    rejects("R-nc_n_gather-02", lambda a: nl.gather_flattened(tile((4, 4)), tile((4, 4))))
    rejects("R-nc_n_gather-04", lambda a: nl.gather_flattened(tile((4, 4)), tile((4, 4), nl.uint32, value=16)))


def test_broadcast_over_partitions_is_one_instruction_per_quadrant():
    result = record(lambda t: nl.broadcast_to(t, (100, 3)), random(1, 3))
    assert instructions(result)[1:-1] == ["nc_stream_shuffle"] * 4

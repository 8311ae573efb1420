"""Creating, loading, storing and assigning tensors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import pytest

from tests.kit import accepts, full_run, nisa, nl, np, rejects, run, tile
from tests.language.tiles import apply, hint_of, instructions, random, record, without_result
from tilewright.dtypes import as_dtype
from tilewright.errors import TileError
from tilewright.sim.session import Options

BF16 = ml_dtypes.bfloat16


def _stored(make, dtype=nl.float32, **options):
    """What a kernel that makes one tile stores."""

    def kernel(a):
        made = make()
        if nl.is_hbm(made.buffer):
            return made
        out = nl.ndarray(made.shape, made.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(made) if nl.is_psum(made.buffer) else made)
        return out

    return run(kernel, **options)


@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16, nl.float16, nl.float8_e4m3, nl.int32, nl.uint8, nl.int16])
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum, nl.shared_hbm])
@pytest.mark.parametrize("shape", [(128, 8), (3, 2, 5)])
def test_filled_tensors(dtype, buffer, shape):
    for make, value in ((nl.zeros, 0), (nl.ones, 1)):
        result = _stored(lambda make=make: make(shape, dtype, buffer=buffer))
        assert result.shape == shape and result.dtype == dtype.np and (result.astype(np.float32) == value).all()
    result = _stored(lambda: nl.full(shape, 3, dtype, buffer=buffer))
    assert (result.astype(np.float32) == 3).all()


@pytest.mark.parametrize("shape", [(5,), (300, 7), (257,), (2, 3, 4, 5, 6), (128, 5000), (1, 1)])
def test_filled_hbm_of_any_shape(shape):
    result = _stored(lambda: nl.full(shape, 2.5, nl.float32, buffer=nl.shared_hbm))
    assert result.shape == shape and (result == 2.5).all()


def test_fill_of_an_integer_tile_takes_an_integer():
    rejects("R-memset-01", lambda a: nl.full((4, 4), 2.5, nl.int32))


def test_names():
    def kernel(a):
        assert nl.zeros((4, 4), nl.float32, name="acc").name == "acc"
        nl.ones((4, 4), nl.float32, name="acc")

    rejects("R-tensor-20", kernel)


def test_like_another_tensor():
    def kernel(a):
        p = tile((4, 6), nl.bfloat16, nl.psum, 1.0)
        zero = nl.zeros_like(p)
        assert (zero.shape, zero.dtype, zero.buffer) == ((4, 6), nl.bfloat16, nl.sbuf)
        assert nl.zeros_like(a, dtype=nl.int32, buffer=nl.psum).buffer == nl.psum
        empty = nl.empty_like(p)
        assert (empty.shape, empty.dtype, empty.buffer) == ((4, 6), nl.bfloat16, nl.psum)
        assert nl.empty_like(p, dtype=nl.float32, buffer=nl.sbuf).dtype == nl.float32
        nl.store(a, nl.copy(zero, dtype=nl.float32)[0:1, 0:1])
        return a

    assert accepts(kernel) == 0
    wrong: Any = 3
    with pytest.raises(TypeError):
        run(lambda a: nl.zeros_like(wrong))


@pytest.mark.rule("R-tensor-05", "accept")
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum, nl.hbm, nl.private_hbm, nl.shared_hbm])
def test_memories(buffer):
    def kernel(a):
        assert nl.ndarray((4, 4), nl.float32, buffer=buffer).buffer is buffer

    accepts(kernel)


@pytest.mark.rule("R-tensor-05", "reject")
@pytest.mark.parametrize("buffer", ["sbuf", "shared_hbm", None, 3])
def test_memories_are_objects(buffer):
    assert "nl.sbuf" in hint_of(rejects("R-tensor-05", lambda a: nl.ndarray((4, 4), nl.float32, buffer=buffer)))


NL_DTYPES = (
    *("bool_", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32", "bfloat16", "tfloat32"),
    *("float8_e4m3", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"),
    *("float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4"),
)


@pytest.mark.rule("R-tensor-06", "accept")
@pytest.mark.parametrize("name", NL_DTYPES)
def test_dtypes(name):
    import tilewright.nki.language.dtypes as dtypes

    dtype = getattr(nl, name)
    assert as_dtype(name) is dtype and isinstance(dtype, nl.DType)
    assert getattr(dtypes, name) is dtype and nl.dtypes is dtypes
    accepts(without_result(lambda a: nl.ndarray((4, 4), dtype)))


@pytest.mark.rule("R-tensor-06", "reject")
@pytest.mark.parametrize("dtype", [np.float64, "float64", "complex64", np.int64, float, "bf17"])
def test_unknown_dtypes(dtype):
    rejects("R-tensor-06", lambda a: nl.ndarray((4, 4), dtype))


@pytest.mark.rule("R-nl-06", "accept")
@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int32, np.uint8])
@pytest.mark.parametrize("shape", [(128, 16), (1, 4), (5, 2, 3), (2, 2, 2, 2, 2)])
def test_load_and_store(dtype, shape):
    x = random(*shape, low=0, high=9).astype(dtype)
    result = apply(lambda t: t, x)
    assert result.dtype == x.dtype and (result == x).all()


def test_load_casts():
    x = random(8, 8)
    result = apply(lambda t: t, x)
    assert result.dtype == np.float32

    def kernel(a):
        out = nl.ndarray((8, 8), nl.bfloat16, buffer=nl.shared_hbm)
        loaded = nl.load(a, dtype=nl.bfloat16)
        assert loaded.dtype == nl.bfloat16 and nl.is_sbuf(loaded.buffer)
        nl.store(out, loaded)
        return out

    assert (run(kernel, x) == x.astype(BF16)).all()


@pytest.mark.rule("R-nl-06", "reject")
@pytest.mark.parametrize("load", [nl.load, nl.load_transpose2d])
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum])
def test_load_reads_hbm(load, buffer):
    rejects("R-nl-06", lambda a: load(tile((4, 4), buffer=buffer)))

    def kernel(a):
        out = nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, load(tile((4, 4), buffer=buffer, value=2.0)))
        return out

    result = full_run(kernel, profile="lenient")
    assert (result.result == 2).all() and [each.rule for each in result.diagnostics] == ["R-nl-06"]


@pytest.mark.req("S3-19")
@pytest.mark.rule("R-tensor-02", "reject")
def test_load_of_one_dim():
    """A 1-D tile is refused; [m, :, :] of (M, 128, 1) gives (128, 1)."""
    found = rejects("R-tensor-02", lambda a: nl.load(a), np.zeros(128, np.float32))
    assert "(n, 1)" in hint_of(found)
    rejects("R-tensor-02", lambda a: nl.load(a[0, :]), np.zeros((4, 128), np.float32))

    def kernel(a):
        loaded = nl.load(a[1, :, :])
        assert loaded.shape == (128, 1)
        nl.store(a[0, :, :], loaded)
        return a

    x = random(2, 128, 1)
    expected = x[1].copy()
    assert (accepts(kernel, x)[0] == expected).all()


@pytest.mark.rule("R-tensor-01", "reject")
def test_load_of_too_many_rows():
    rejects("R-tensor-01", lambda a: nl.load(a), np.zeros((129, 4), np.float32))


@pytest.mark.req("S3-10")
@pytest.mark.rule("R-err-exceed_max_supported_dimension-01", "accept")
@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int32])
@pytest.mark.parametrize("shape", [(128, 128), (512, 64), (128, 1), (1, 128), (5, 3)])
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_load_transposed(shape, dtype, target):
    """load_transpose2d gives an SBUF tile equal to the transpose, usable by nc_matmul on both sides."""
    x = random(*shape, low=-9, high=9).astype(dtype)

    def kernel(a):
        loaded = nl.load_transpose2d(a)
        assert nl.is_sbuf(loaded.buffer) and loaded.shape == shape[::-1]
        out = nl.ndarray(loaded.shape, loaded.dtype, buffer=nl.shared_hbm)
        nl.store(out, loaded)
        return out

    assert (accepts(kernel, x, target=target) == x.T).all()


@pytest.mark.req("S3-10")
def test_loaded_transposes_multiply():
    def kernel(a, b):
        left, right = nl.load_transpose2d(a), nl.load_transpose2d(b)
        psum = nl.ndarray((64, 48), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(psum, left, right)
        out = nl.ndarray((64, 48), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(psum))
        return out

    a, b = random(64, 32), random(48, 32, seed=1)
    np.testing.assert_allclose(accepts(kernel, a, b), a @ b.T, rtol=1e-5, atol=1e-5)


@pytest.mark.rule("R-err-exceed_max_supported_dimension-01", "reject")
def test_load_transposed_casts_and_needs_two_dims():
    x = random(6, 4)

    def kernel(a):
        out = nl.ndarray((4, 6), nl.bfloat16, buffer=nl.shared_hbm)
        nl.store(out, nl.load_transpose2d(a, dtype=nl.bfloat16))
        return out

    assert (accepts(kernel, x) == x.T.astype(BF16)).all()
    rejects("R-err-exceed_max_supported_dimension-01", lambda a: nl.load_transpose2d(a), random(2, 3, 4))


@pytest.mark.rule("R-nl-20", "accept")
@pytest.mark.rule("R-nl-20", "reject")
def test_dims_of_size_one_behind_what_is_transposed():
    """Published kernels transpose (128, 64, 1): refused, and leniently left away."""

    def kernel(a: Any) -> Any:
        turned = nl.load_transpose2d(a)
        out = nl.ndarray(turned.shape, a.dtype, nl.shared_hbm)
        nl.store(out, turned)
        return out

    array = random(16, 8)
    np.testing.assert_array_equal(accepts(kernel, array), array.T)
    for shape in ((16, 8, 1), (16, 8, 1, 1)):
        rejects("R-nl-20", kernel, array.reshape(shape))
        done = full_run(kernel, array.reshape(shape), profile="lenient")
        assert [found.rule for found in done.diagnostics] == ["R-nl-20"]
        np.testing.assert_array_equal(done.result, array.T)


@pytest.mark.rule("R-nl-05", "accept")
def test_store_from_sbuf():
    assert (accepts(lambda a: (nl.store(a, tile((4, 4), value=2.0)), a)[1], np.zeros((4, 4), np.float32)) == 2).all()


@pytest.mark.rule("R-nl-05", "reject")
def test_store_from_psum():
    def kernel(a):
        nl.store(a, tile((4, 4), buffer=nl.psum, value=2.0))
        return a

    found = rejects("R-nl-05", kernel, np.zeros((4, 4), np.float32))
    assert "nl.copy" in hint_of(found)
    result = full_run(kernel, np.zeros((4, 4), np.float32), profile="lenient")
    assert (result.result == 2).all() and [each.rule for each in result.diagnostics] == ["R-nl-05"]
    rejects("R-nl-05", lambda a: nl.store(tile((4, 4)), tile((4, 4))), profile="lenient")


@pytest.mark.req("S3-21")
def test_store_of_tiles_into_four_dims():
    """(M_tiles, K_max, 128, 1) outputs are stored tile by tile."""

    def kernel(a):
        m_tiles, k_max = 2, 3
        out = nl.ndarray((m_tiles, k_max, 128, 1), nl.float32, buffer=nl.shared_hbm)
        for m in nl.affine_range(m_tiles):
            for k in nl.affine_range(k_max):
                nl.store(out[m, k, :, :], value=nl.add(nl.load(a[m, :, :]), float(k)))
        return out

    x = random(2, 128, 1)
    result = accepts(kernel, x)
    np.testing.assert_array_equal(result.squeeze(-1), x[:, None, :, 0] + np.arange(3, dtype=np.float32)[None, :, None])


@pytest.mark.rule("R-tensor.index-07", "accept")
@pytest.mark.parametrize("source", [nl.sbuf, nl.psum])
def test_assignment(source):
    def kernel(a):
        acc = nl.zeros((4, 3, 5), nl.float32)
        acc[:, 1, :] = tile((4, 5), buffer=source, value=2.0)
        acc[0:2, 2, 0:3] = 7
        acc[...] = nl.add(acc, 1.0)
        a[...] = acc
        other = nl.ndarray((4, 3, 5), nl.float32)
        other[...] = a
        nl.store(a, other)
        return a

    expected = np.zeros((4, 3, 5), np.float32)
    expected[:, 1, :] = 2
    expected[0:2, 2, 0:3] = 7
    assert (accepts(kernel, np.zeros((4, 3, 5), np.float32)) == expected + 1).all()


@pytest.mark.rule("R-tensor.index-07", "reject")
@pytest.mark.parametrize("value", [(4, 4), (4, 1), (1, 5), (4, 1, 5)])
def test_assignment_of_another_shape(value):
    def kernel(a):
        tile((4, 5))[...] = tile(value)

    rejects("R-tensor.index-07", kernel)


@pytest.mark.rule("R-tensor.index-07", "reject")
@pytest.mark.parametrize("value", ["x", None, np.zeros((4, 5)), [1, 2]])
def test_assignment_of_something_else(value):
    def kernel(a):
        tile((4, 5))[...] = value

    rejects("R-tensor.index-07", kernel)


@pytest.mark.req("S3-02")
@pytest.mark.parametrize("form", ["add", "assign", "value", "add_new", "assign_new", "argument"])
def test_results_of_instructions_are_not_values(form):
    """The forms before NKI 0.3 are refused with a TypeError that shows the new form."""

    def kernel(a):
        psum, t = nl.zeros((128, 128), nl.float32, buffer=nl.psum), tile((128, 128))
        if form == "add":
            psum[...] += nisa.nc_matmul(t, t)
        elif form == "assign":
            psum[...] = nisa.nc_matmul(t, t)
        elif form == "value":
            nisa.tensor_copy(t, nisa.nc_matmul(t, t))
        elif form == "add_new":
            psum[...] += nisa.nc_matmul(psum, t, t)
        elif form == "assign_new":
            psum[...] = nisa.nc_matmul(psum, t, t)
        else:
            nl.add(nisa.nc_matmul(psum, t, t), 1.0)

    with pytest.raises(TypeError) as caught:
        run(kernel)
    assert isinstance(caught.value, TileError)
    hint = caught.value.diagnostic.hint
    assert hint is not None and "nisa.nc_matmul(dst, stationary, moving" in hint
    assert caught.value.diagnostic.location is not None
    assert caught.value.diagnostic.location.file == __file__


@pytest.mark.rule("R-nl-16", "accept")
@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int8, np.uint32, ml_dtypes.float8_e5m2])
def test_constants(dtype, tmp_path):
    array = np.arange(24).reshape(4, 6).astype(dtype)

    def kernel(a):
        constant = nl.shared_constant(array)
        assert nl.is_hbm(constant.buffer) and constant.shape == (4, 6)
        out = nl.ndarray((4, 6), constant.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(constant))
        return out

    result = full_run(kernel)
    assert (result.result == array).all()
    (held,) = result.session.constants.values()
    assert (held == array).all()


def test_constant_from_a_file(tmp_path):
    array = random(3, 4)
    np.save(tmp_path / "table.npy", array)
    for path in (tmp_path / "table.npy", str(tmp_path / "table.npy")):
        assert (_stored(lambda path=path: nl.load(nl.shared_constant(path))) == array).all()


@pytest.mark.rule("R-nl-16", "reject")
def test_constant_dtypes():
    rejects("R-nl-16", lambda a: nl.shared_constant(np.zeros((4, 4), bool)))
    rejects("R-nl-16", lambda a: nl.shared_constant(np.zeros((4, 4), ml_dtypes.float8_e4m3)))
    rejects("R-tensor-06", lambda a: nl.shared_constant(np.zeros((4, 4))))
    with pytest.raises(TypeError):
        run(lambda a: nl.shared_constant([1, 2]))


def test_constant_without_values():
    from tilewright.spec import ArraySpec

    def kernel(a):
        nl.store(a, nl.add(nl.load(a), nl.load(nl.shared_constant(np.ones((4, 4), np.float32)))))
        return a

    result = full_run(kernel, ArraySpec((4, 4), nl.float32), options=Options(shapes=True))
    assert not result.diagnostics


@pytest.mark.parametrize("dtype", [nl.uint8, nl.float32, nl.bfloat16])
@pytest.mark.parametrize("n", [1, 32, 128])
def test_identity(n, dtype):
    def kernel(a):
        first = nl.shared_identity_matrix(n, dtype)
        into = nl.ndarray((n, n), dtype)
        assert nl.shared_identity_matrix(n, dtype=dtype, dst=into) is into
        assert nl.is_sbuf(first.buffer) and first.dtype == dtype
        out = nl.ndarray((2, n, n), dtype, buffer=nl.shared_hbm)
        nl.store(out[0], first)
        nl.store(out[1], into)
        return out

    result = full_run(kernel)
    assert (result.result.astype(np.float32) == np.eye(n)).all()
    assert len(result.session.constants) == 1


def test_identity_default_is_uint8():
    assert _stored(lambda: nl.shared_identity_matrix(4)).dtype == np.uint8
    rejects("R-tensor-01", lambda a: nl.shared_identity_matrix(129))


def test_instructions_are_recorded():
    assert instructions(record(lambda t: nl.add(t, 1.0), random(4, 4))) == ["dma_copy", "tensor_scalar", "dma_copy"]

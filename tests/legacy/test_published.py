"""What published kernels of the legacy dialect rely on, and its old compiler takes."""

# pyright: reportOperatorIssue=false, reportAssignmentType=false, reportAttributeAccessIssue=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

import logging

import numpy as np
import pytest

from tests.legacy.kit import nisa, nki, nl, refused, run

RNG = np.random.default_rng(3)


def test_a_product_has_the_free_dims_of_what_moves() -> None:
    """A convolution adds windows of an image, (channels, height, width), to a tile of that shape."""
    weights, image = (RNG.random(shape).astype(np.float32) for shape in ((16, 8), (16, 6, 5)))

    @nki.jit
    def shifted(w, x):
        out = nl.ndarray((8, 5, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        stationary, moving = nl.load(w), nl.load(x)
        total = nl.zeros((8, 5, 4), dtype=nl.float32, buffer=nl.psum)
        for i in nl.affine_range(2):
            for j in nl.affine_range(2):
                total += nisa.nc_matmul(stationary, moving[:, i : i + 5, j : j + 4])
        nl.store(out, total)
        return out

    windows = sum(image[:, i : i + 5, j : j + 4] for i in range(2) for j in range(2))
    expected = np.einsum("km,khw->mhw", weights, windows)
    np.testing.assert_allclose(shifted(weights, image), expected, rtol=1e-5)


@pytest.mark.parametrize("function", ["nl.max", "nisa.tensor_reduce"])
@pytest.mark.parametrize("window", [1, 2])
def test_axes_with_gaps(function: str, window: int) -> None:
    """Pooling of windows of (rows, columns). Documented are the last dims only (R-legacy-04)."""
    x = RNG.random((128, 6 * window, 4 * window)).astype(np.float32)

    @nki.jit
    def pooled(a):
        out = nl.ndarray((128, 6, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(a).reshape((128, 1, 6, window, 4, window))
        if function == "nl.max":
            nl.store(out, nl.max(tile, axis=[3, 5]).reshape((128, 6, 4)))
        else:
            nl.store(out, nisa.tensor_reduce(np.maximum, tile, axis=(3, 5)).reshape((128, 6, 4)))
        return out

    assert refused(pooled, x).rule == "R-legacy-04"
    done = run(pooled, x, profile="lenient")
    np.testing.assert_array_equal(done.result, x.reshape(128, 6, window, 4, window).max(axis=(2, 4)))


def test_a_column_beside_a_tile() -> None:
    """A bias per partition by tensor_tensor (R-legacy-20)."""
    x = RNG.random((128, 6, 4)).astype(np.float32)
    bias = RNG.random((128, 1)).astype(np.float32)

    @nki.jit
    def biased(a, b):
        out = nl.ndarray((128, 6, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nisa.tensor_tensor(nl.load(a), nl.load(b)[:, 0], op=nl.subtract))
        return out

    assert refused(biased, x, bias).rule == "R-legacy-20"
    done = run(biased, x, bias, profile="lenient")
    np.testing.assert_array_equal(done.result, x - bias[:, :, None])


@pytest.mark.parametrize("shape", [(128, 128), (96, 40), (128, 2, 60)])
def test_larger_transposes_by_the_vector_engine(shape: tuple[int, ...]) -> None:
    """The old compiler takes up to 128 x 128; documented are 32 x 32 (R-legacy-21)."""
    x = RNG.random(shape).astype(np.float32)
    x.flat[0] = np.nan
    rows = shape[0]
    columns = x.size // rows

    @nki.jit
    def turned(a):
        out = nl.ndarray((columns, rows), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nisa.nc_transpose(nl.load(a), engine=nisa.vector_engine))
        return out

    found = refused(turned, x)
    assert (found.rule, found.code) == ("R-legacy-21", "err_size_of_dimension_exceed_arch_limit")
    np.testing.assert_array_equal(run(turned, x, profile="lenient").result, x.reshape(rows, columns).T)


def test_free_dims_are_one_in_a_transpose() -> None:
    x = RNG.random((64, 4, 16)).astype(np.float32)

    @nki.jit
    def turned(a):
        out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nisa.nc_transpose(nl.load(a)))
        return out

    np.testing.assert_array_equal(turned(x), x.reshape(64, 64).T)


@pytest.mark.parametrize("taken", [False, True])
def test_a_name_that_a_branch_leaves_without_a_value(taken: bool) -> None:
    x = RNG.random((128, 32)).astype(np.float32)

    @nki.jit
    def summed(a, both):
        out = nl.ndarray((128, 32), dtype=nl.float32, buffer=nl.shared_hbm)
        first = nl.zeros((128, 32), dtype=nl.float32)
        if both:
            second = nl.zeros((128, 32), dtype=nl.float32)
        for _ in nl.affine_range(3):
            first += nl.load(a)
            if both:
                second += nl.load(a)
        nl.store(out, first + second if both else first)
        return out

    np.testing.assert_allclose(summed(x, taken), x * (6 if taken else 3), rtol=1e-6)


def test_the_level_that_silences_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    from tilewright.host import neuronxcc

    monkeypatch.delattr(logging, "OFF", raising=False)
    importlib.reload(neuronxcc)
    assert logging.OFF > logging.CRITICAL


def test_index_tensors_that_kernels_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made outside of the kernel, which only the lenient profile allows."""
    from tilewright.errors import TileError

    with pytest.raises(TileError, match="outside of NKI kernels"):
        nl.arange(128)
    monkeypatch.setenv("TILEWRIGHT_PROFILE", "lenient")
    rows, columns = nl.arange(128)[:, None], nl.arange(16)[None, :]
    grid = nl.mgrid[0:128, 0:16]

    @nki.jit
    def copied(a):
        out = nl.ndarray((128, 32), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out[rows, columns], nl.load(a[rows, columns + 16]))
        nl.store(out[grid.p, grid.x + 16], nl.load(a[grid.p, grid.x]))
        return out

    x = RNG.random((128, 32)).astype(np.float32)
    np.testing.assert_array_equal(copied(x), np.concatenate([x[:, 16:], x[:, :16]], axis=1))


def test_casts_by_the_package_of_the_compiler() -> None:
    """neuronxcc.starfish.support.dtype, from which tests of nki-library and others take static_cast."""
    import subprocess
    import sys

    script = (
        "import tilewright\n"
        "tilewright.activate(force=True)\n"
        "import numpy as np\n"
        "from neuronxcc.starfish.support.dtype import bfloat16, static_cast\n"
        "print(static_cast(np.array([1.00390625], np.float32), bfloat16)[0])\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.stdout.strip() == "1", ran.stderr


def test_a_benchmark_takes_descriptions_of_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The profiler's guide: tensor_exp_kernel_(tensor[[250, 512], nl.float32])."""
    monkeypatch.setattr("tilewright.nki.legacy.kernel.LegacyKernel.predict", lambda run: 5.0)
    from tilewright.nki.legacy.typing import tensor

    def doubled(a, i):
        assert a.shape == (96, 32) and i.dtype == nl.int32
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a) * 2)
        return out

    described = (tensor[[96, 32], nl.float32], tensor[(4, 1), nl.int32])
    timed = nki.benchmark(doubled)
    result = timed(*described)
    assert result.shape == (96, 32) and timed.benchmark_result.nc_latency.get_latency_percentile(50) > 0
    for wrong in (described, (tensor[96, 32], described[1])):
        with pytest.raises(TypeError, match="is a type, tensor"):
            (nki.jit(doubled) if wrong is described else timed)(*wrong)


def test_the_decorator_before_nki_jit() -> None:
    from tilewright.activate import activate, deactivate

    activate(force=True)
    try:
        from torch_neuronx import nki_jit  # pyright: ignore[reportMissingImports]
        from torch_neuronx.xla_impl.ops import nki_jit as again  # pyright: ignore[reportMissingImports]
    finally:
        deactivate()

    def doubled(a, out):
        nl.store(out, nl.load(a) * 2)

    x = RNG.random((8, 4)).astype(np.float32)
    for kernel in (nki_jit(doubled), again()(doubled)[1]):
        y = np.zeros_like(x)
        kernel(x, y)
        np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize("axis", [0, nl.nc(0), nl.spmd_dim(0, nl.nc(2)), nl.spmd_dim(2, nl.nc(0)), -1, "a", 1.5])
def test_a_grid_without_programs_is_refused(axis) -> None:
    """spmd_dim(rows // (128 * cores), nc(cores)) of too few rows: nothing would run, and nothing be written."""

    def doubled(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a) * 2)
        return out

    with pytest.raises(TypeError, match="an axis of the grid is a positive number"):
        nki.jit(doubled)[axis, 1](np.ones((8, 4), np.float32))
    for good in (1, nl.nc(1), nl.spmd_dim(1, nl.nc(2))):
        assert nki.jit(doubled)[good, 1].layout.sizes in ((1, 1), (2, 1))


def test_an_output_that_is_made_of_what_nobody_wrote_names_the_tile() -> None:
    """One block too few is loaded, as by a loop that ends too early."""

    @nki.jit
    def summed(a):
        out = nl.ndarray((128, 32), dtype=nl.float32, buffer=nl.shared_hbm)
        tiles = nl.ndarray((2, nl.par_dim(128), 32), dtype=nl.float32, buffer=nl.sbuf)
        for i in nl.affine_range(1):
            tiles[i] = nl.load(a)
        nl.store(out, nl.add(tiles[0], tiles[1]))
        return out

    (found,) = run(summed, RNG.random((128, 32)).astype(np.float32)).diagnostics
    assert "4096 of 4096 elements are computed from elements of tiles that were never written" in found.message
    assert found.rule == "R-tensor-18" and "write all of tiles" in (found.hint or "")


def test_a_column_outside_of_its_tensor_is_named() -> None:
    @nki.jit
    def scaled(a):
        out = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a) * nl.load(a[1:129, 3]))
        return out

    found = refused(scaled, RNG.random((128, 64)).astype(np.float32))
    assert found.code == "err_tensor_access_out_of_bound"
    assert "on dimension 0: index range [1, 128] exceed dimension size of 128" in found.message

"""nc_matmul: products against float64, accumulation per PSUM element, transpose mode, rules and cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit import accepts, full_run, nisa, nl, np, rejects, run, tile
from tilewright.sim.session import Options
from tilewright.target import get_target
from tilewright.tile.costed import op_cost

BF16, E4M3, E5M2, E4M3FN = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn
DOUBLE = nisa.matmul_perf_mode.double_row
rule = pytest.mark.rule


def random(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def product(stationary: np.ndarray, moving: np.ndarray) -> np.ndarray:
    """stationary.T @ moving in float64."""
    k = stationary.shape[0]
    return stationary.astype(np.float64).reshape(k, -1).T @ moving.astype(np.float64).reshape(k, -1)


def load(x: Any) -> Any:
    """Inside a kernel: a tensor in SBUF."""
    made = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=made, src=x)
    return made


def drain(psum: Any) -> Any:
    """Inside a kernel: a PSUM tile as output."""
    copied = nl.ndarray(psum.shape, dtype=psum.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copied, src=psum)
    out = nl.ndarray(psum.shape, dtype=psum.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=copied)
    return out


def multiplying(shape: tuple[int, ...] | None = None, dtype: Any = nl.float32, **options: Any) -> Callable[..., Any]:
    """A kernel of one matmul with these options."""

    def kernel(a: Any, b: Any) -> Any:
        psum = nl.ndarray(shape or (a.shape[1], b.shape[1]), dtype=dtype, buffer=nl.psum)
        nisa.nc_matmul(psum, load(a), load(b), **options)
        return drain(psum)

    return kernel


A, B = random((128, 64), seed=1), random((128, 96), seed=2)

# Products.


@pytest.mark.req("S3-01")
@pytest.mark.rule("R-nc_matmul-01", "accept")
@pytest.mark.rule("R-nc_matmul-02", "accept")
@pytest.mark.rule("R-nc_matmul-05", "accept")
@pytest.mark.rule("R-engine-02", "accept")
@pytest.mark.parametrize("dtypes", [(np.float32,) * 2, (BF16,) * 2, (np.float16, BF16), (E4M3, BF16), (E5M2, E4M3)])
@pytest.mark.parametrize("shape", [(128, 128, 512), (1, 1, 1), (37, 5, 301), (128, 64, 96)])
def test_products(dtypes: tuple[Any, Any], shape: tuple[int, int, int]) -> None:
    k, m, n = shape
    a, b = random((k, m), dtypes[0], 1), random((k, n), dtypes[1], 2)
    out = accepts(multiplying(), a, b)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, product(a, b), rtol=1e-5, atol=1e-5 * k)


@pytest.mark.req("S3-01")
def test_positions_and_keywords() -> None:
    def positional(a: Any, b: Any) -> Any:
        psum = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(psum, load(a), load(b), False, False, False, False)
        return drain(psum)

    def keywords(a: Any, b: Any) -> Any:
        psum = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(moving=load(b), dst=psum, stationary=load(a), accumulate=False)
        return drain(psum)

    np.testing.assert_array_equal(run(positional, A, B), run(keywords, A, B))


def test_float32_is_exact() -> None:
    """float32 inputs lose nothing before the sum: products of whole numbers up to 2**24 are right to the last bit."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-300, 300, shape).astype(np.float32) for shape in ((128, 64), (128, 96)))
    np.testing.assert_array_equal(run(multiplying(), a, b), product(a, b))


def test_tfloat32() -> None:
    def kernel(a: Any, b: Any) -> Any:
        made = [nl.ndarray(x.shape, dtype=nl.tfloat32, buffer=nl.sbuf) for x in (a, b)]
        for x, y in zip(made, (a, b), strict=True):
            nisa.dma_copy(dst=x, src=y)
        psum = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(psum, *made)
        return drain(psum)

    out = run(kernel, A, B)
    assert 1e-5 < np.abs(out - product(A, B)).max() < 0.1


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 128), st.integers(1, 128), st.integers(1, 512), st.integers(0, 99))
def test_products_of_any_size(k: int, m: int, n: int, seed: int) -> None:
    a, b = random((k, m), seed=seed), random((k, n), seed=seed + 1)
    np.testing.assert_allclose(run(multiplying(), a, b), product(a, b), rtol=1e-5, atol=1e-4)


@pytest.mark.rule("R-nc_matmul-26", "holds")
def test_free_dims_are_flattened() -> None:
    a, b = random((32, 4, 6), seed=1), random((32, 2, 3, 5), seed=2)
    out = run(multiplying((24, 6, 5)), a, b)
    np.testing.assert_allclose(out.reshape(24, 30), product(a, b), rtol=1e-5, atol=1e-4)


@pytest.mark.rule("R-nc_matmul-26", "holds")
def test_convolution_by_overlapping_patterns() -> None:
    image, weights = random((16, 10, 12), seed=1), random((16, 9, 8), seed=2)

    def kernel(image: Any, weights: Any) -> Any:
        x, w = load(image), load(weights)
        psum = nl.ndarray((8, 8, 10), dtype=nl.float32, buffer=nl.psum)
        for i in range(3):
            for j in range(3):
                window = x.ap([[120, 16], [12, 8], [1, 10]], offset=12 * i + j)
                nisa.nc_matmul(psum, w[:, 3 * i + j, :], window)
        return drain(psum)

    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), (3, 3), axis=(1, 2))
    expected = np.einsum("cyxij,cijo->oyx", windows, weights.reshape(16, 3, 3, 8).astype(np.float64))
    np.testing.assert_allclose(run(kernel, image, weights), expected, rtol=1e-5, atol=1e-4)


def test_strided_operands_and_partial_partitions() -> None:
    a, b = random((128, 64), seed=1), random((128, 80), seed=2)

    def kernel(a: Any, b: Any) -> Any:
        x, y = load(a), load(b)
        psum = nl.ndarray((96, 40), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(psum[64:96, 3:23], x[32:64, 0:64:2], y[32:64, 10:70:3])
        return drain(psum[64:96, 3:23])

    np.testing.assert_allclose(run(kernel, a, b), product(a[32:64, ::2], b[32:64, 10:70:3]), rtol=1e-5, atol=1e-4)


def test_unwritten_operands_are_refused() -> None:
    def kernel(a: Any) -> None:
        x = nl.ndarray((128, 96), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=x[:, 0:95], src=a[:, 0:95])
        nisa.nc_matmul(nl.ndarray((96, 96), dtype=nl.float32, buffer=nl.psum), load(a), x)

    assert "128 of 12288" in rejects("R-tensor-08", kernel, B).message


# double_row.


@pytest.mark.rule("R-nc_matmul-12", "accept")
@pytest.mark.rule("R-nc_matmul-13", "accept")
@pytest.mark.rule("R-nc_matmul-14", "accept")
@pytest.mark.parametrize(("k", "m", "n"), [(128, 128, 512), (128, 1, 3), (20, 7, 33)])
def test_double_row(k: int, m: int, n: int) -> None:
    a, b = random((k, 2, m), E4M3, 1), random((k, 2, n), E5M2, 2)
    out = accepts(multiplying((m, n), perf_mode=DOUBLE), a, b)
    expected = sum(product(a[:, row], b[:, row]) for row in (0, 1))
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-3)


# Accumulation.


def accumulating(loops: str, flag: str, **places: Any) -> Callable[[Any, Any], Any]:
    """K tiles of 32 rows summed in one PSUM tile; the columns in one or two tiles."""

    def kernel(a: Any, b: Any) -> Any:
        tiles, halves = a.shape[0] // 32, 2 if loops == "nested" else 1
        width = b.shape[1] // halves
        x, y = [[load(t[32 * i : 32 * i + 32, :]) for i in range(tiles)] for t in (a, b)]
        psum = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum, **places)
        for half in range(halves):
            part = slice(half * width, half * width + width)
            for i in range(tiles):
                chosen = {"explicit": i > 0, "none": None, "overwrite": False}[flag]
                nisa.nc_matmul(psum[:, part], x[i], y[i][:, part], accumulate=chosen)
        return drain(psum)

    return kernel


@pytest.mark.req("S3-04")
@pytest.mark.rule("R-nc_matmul-20", "accept")
@pytest.mark.rule("R-nc_matmul-22", "accept")
@pytest.mark.parametrize("loops", ["single", "tiles", "nested"])
@pytest.mark.parametrize("flag", ["explicit", "none", "overwrite"])
def test_accumulation(loops: str, flag: str) -> None:
    k = 32 if loops == "single" else 128
    a, b = random((k, 64), seed=1), random((k, 96), seed=2)
    first = k - 32 if flag == "overwrite" else 0
    out = accepts(accumulating(loops, flag), a, b)
    np.testing.assert_allclose(out, product(a[first:], b[first:]), rtol=1e-5, atol=1e-4)


@pytest.mark.req("S3-05")
@pytest.mark.parametrize("tiles", [1, 2, 3, 4])
def test_sums_over_k_tiles(tiles: int) -> None:
    a, b = random((128 * tiles, 64), seed=1), random((128 * tiles, 96), seed=2)

    def kernel(a: Any, b: Any) -> Any:
        psum = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.psum)
        for i in range(tiles):
            rows = slice(128 * i, 128 * i + 128)
            nisa.nc_matmul(psum, load(a[rows, :]), load(b[rows, :]))
        return drain(psum)

    scale = np.abs(product(a, b)).max()
    assert np.abs(run(kernel, a, b) - product(a, b)).max() / scale < 1e-5


@pytest.mark.rule("R-nc_matmul-22", "holds")
def test_overlapping_destinations_count_per_element() -> None:
    """The part that an earlier matmul wrote accumulates, the rest starts anew."""
    a, b = random((32, 8), seed=1), random((32, 20), seed=2)

    def kernel(a: Any, b: Any) -> Any:
        x, y = load(a), load(b)
        psum = nl.ndarray((8, 20), dtype=nl.float32, buffer=nl.psum)
        nisa.memset(psum, value=7)
        nisa.nc_matmul(psum[:, 0:12], x, y[:, 0:12])
        nisa.nc_matmul(psum[:, 8:20], x, y[:, 8:20])
        nisa.nc_matmul(psum[:, 0:16:2], x, y[:, 0:8])
        return drain(psum)

    expected = product(a, b)
    expected[:, 8:12] *= 2
    expected[:, 0:16:2] += product(a, b)[:, 0:8]
    np.testing.assert_allclose(run(kernel, a, b), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.rule("R-nc_matmul-22", "holds")
def test_what_starts_a_sum_anew() -> None:
    def kernel(a: Any, b: Any) -> Any:
        x, y = load(a), load(b)
        fresh = []
        for _ in range(2):
            psum = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.psum, address=(0, 0))
            nisa.nc_matmul(psum, x, y)
            fresh.append(drain(psum))
        again = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(again, x, y)
        drain(again)
        nisa.memset(again, value=1)
        nisa.nc_matmul(again, x, y)
        return fresh[0], fresh[1], drain(again)

    first, second, third = run(kernel, A, B)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(third, first + 1, rtol=1e-5, atol=1e-5)


def test_accumulating_onto_overwritten_bytes_is_refused() -> None:
    def kernel(a: Any, b: Any) -> None:
        x, y = load(a), load(b)
        one, two = (nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.psum, address=(0, 2048)) for _ in range(2))
        nisa.nc_matmul(one, x, y)
        nisa.nc_matmul(two, x, y)
        nisa.nc_matmul(one, x, y, accumulate=True)

    rejects("R-tensor.address-04", kernel, A, B)


def on_filled(fill: Any, flag: bool | None = True) -> Callable[[Any, Any], Any]:
    """A matmul into PSUM that holds `fill` in its left half."""

    def kernel(a: Any, b: Any) -> Any:
        psum = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.psum)
        if fill is not None:
            nisa.memset(psum, value=fill)
        nisa.nc_matmul(psum, load(a), load(b), accumulate=flag)
        return drain(psum)

    return kernel


@pytest.mark.req("S3-06")
@pytest.mark.rule("R-nc_matmul-20", "reject")
@pytest.mark.rule("R-nc_matmul-21", "reject")
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_accumulating_onto_what_no_matmul_wrote(target: str) -> None:
    for rule, fill in (("R-nc_matmul-20", None), ("R-nc_matmul-21", 0)):
        found = rejects(rule, on_filled(fill), A, B, target=target)
        assert "accumulate=(k > 0)" in (found.hint or "")
    rejects("R-nc_matmul-20", on_filled(None), A, B, target="trn3")


@pytest.mark.req("S3-06")
@pytest.mark.rule("R-nc_matmul-21", "accept")
def test_later_cores_accumulate_onto_anything() -> None:
    np.testing.assert_allclose(accepts(on_filled(2), A, B, target="trn3"), product(A, B) + 2, rtol=1e-5, atol=1e-4)
    for fill in (None, 2):
        out = accepts(on_filled(fill, None), A, B)
        np.testing.assert_allclose(out, product(A, B), rtol=1e-5, atol=1e-4)


@pytest.mark.req("S3-06")
@pytest.mark.parametrize("fill", [None, 3.0])
@pytest.mark.parametrize("mode", ["add", "overwrite", "poison"])
def test_what_an_illegal_accumulation_does(mode: Any, fill: float | None) -> None:
    done = full_run(on_filled(fill), A, B, profile="lenient", options=Options(illegal_accumulate=mode))
    assert [found.rule for found in done.diagnostics] == ["R-nc_matmul-20" if fill is None else "R-nc_matmul-21"]
    expected = {"add": product(A, B) + (fill or 0), "overwrite": product(A, B), "poison": np.full((64, 96), np.nan)}
    np.testing.assert_allclose(done.result, expected[mode], rtol=1e-5, atol=1e-4)


@pytest.mark.req("S3-06")
@pytest.mark.parametrize("mode", ["add", "overwrite", "poison"])
def test_only_the_illegal_elements_are_affected(mode: Any) -> None:
    def kernel(a: Any, b: Any) -> Any:
        psum = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.psum)
        nisa.memset(psum, value=3)
        x, y = load(a), load(b)
        nisa.nc_matmul(psum[:, 0:48], x, y[:, 0:48], accumulate=False)
        nisa.nc_matmul(psum, x, y, accumulate=True)
        return drain(psum)

    done = full_run(kernel, A, B, profile="lenient", options=Options(illegal_accumulate=mode))
    expected = product(A, B)
    expected[:, :48] *= 2
    if mode != "overwrite":
        expected[:, 48:] += 3 if mode == "add" else np.nan
    np.testing.assert_allclose(done.result, expected, rtol=1e-5, atol=1e-4)


def test_bfloat16_psum() -> None:
    def kernel(a: Any, b: Any) -> Any:
        psum, x, y = nl.ndarray((64, 96), dtype=nl.bfloat16, buffer=nl.psum), load(a), load(b)
        nisa.nc_matmul(psum, x, y)
        nisa.nc_matmul(psum, x, y)
        return drain(psum)

    out = run(kernel, A, B, target="trn3")
    once = run(multiplying(), A, B).astype(BF16).astype(np.float32)
    twice = (once + run(multiplying(), A, B)).astype(BF16)
    np.testing.assert_array_equal(out, twice)


# Transpose mode.

IDENTITY = np.eye(128, dtype=np.float32)


@pytest.mark.rule("R-nc_matmul-23", "accept")
@pytest.mark.rule("R-nc_matmul-05", "accept")
@pytest.mark.parametrize("dtype", [np.float32, BF16, np.float16])
@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_transpose_mode_moves_bits(dtype: Any, target: str) -> None:
    bits = np.random.default_rng(0).integers(0, 256, (128, 60 * np.dtype(dtype).itemsize)).astype(np.uint8)
    a, identity = bits.view(dtype), IDENTITY.astype(dtype)
    out = accepts(multiplying(dtype=a.dtype, is_transpose=True), a, identity, target=target)
    np.testing.assert_array_equal(out.view(np.uint8), np.ascontiguousarray(a.T).view(np.uint8))
    wide = accepts(multiplying(is_transpose=True), a, identity, target=target)
    np.testing.assert_array_equal(wide, a.T.astype(np.float32))


def test_transpose_mode_by_a_permutation() -> None:
    order = np.random.default_rng(1).permutation(128)
    out = run(multiplying(is_transpose=True), A, IDENTITY[:, order])
    np.testing.assert_array_equal(out, A.T[:, order])


@pytest.mark.rule("R-nc_matmul-23", "holds")
def test_transpose_mode_is_a_hint_on_v2() -> None:
    a = A.copy()
    a[3, 5] = np.inf
    out = run(multiplying(is_transpose=True), a, IDENTITY, target="trn1")
    assert out[5, 3] == np.inf and np.isnan(np.delete(out[5], 3)).all()
    np.testing.assert_array_equal(np.delete(out, 5, axis=0), np.delete(a.T, 5, axis=0))
    exact = run(multiplying(is_transpose=True), a, IDENTITY)
    np.testing.assert_array_equal(exact, a.T)


@pytest.mark.rule("R-nc_matmul-23", "reject")
@pytest.mark.parametrize("moving", [2 * IDENTITY, np.ones_like(IDENTITY), np.zeros_like(IDENTITY)])
def test_transpose_mode_needs_an_identity(moving: np.ndarray) -> None:
    rejects("R-nc_matmul-23", multiplying(is_transpose=True), A, moving)
    run(multiplying(is_transpose=True), A, moving, target="trn1")


# Rules.


@pytest.mark.req("S3-07")
@pytest.mark.req("S3-08")
@pytest.mark.rule("R-nc_matmul-01", "reject")
@pytest.mark.rule("R-engine-02", "reject")
@pytest.mark.parametrize(
    ("memories", "text"),
    [
        ((nl.sbuf, nl.sbuf, nl.sbuf), "dst must be in psum"),
        ((nl.psum, nl.psum, nl.sbuf), "stationary must be in sbuf"),
        ((nl.psum, nl.sbuf, nl.psum), "moving must be in sbuf"),
        ((nl.shared_hbm, nl.sbuf, nl.sbuf), "dst must be in psum"),
    ],
)
def test_memories(memories: tuple[Any, Any, Any], text: str) -> None:
    def kernel(a: Any) -> None:
        dst, stationary, moving = (nl.ndarray((64, 64), dtype=nl.float32, buffer=where) for where in memories)
        nisa.nc_matmul(dst, stationary, moving)

    assert text in rejects("R-nc_matmul-01", kernel, A).message


@pytest.mark.req("S3-07")
@pytest.mark.req("S3-08")
def test_legal_memories() -> None:
    np.testing.assert_allclose(run(multiplying(), A, B), product(A, B), rtol=1e-5, atol=1e-4)


def shaped(
    stationary: tuple[Any, ...],
    moving: tuple[Any, ...],
    dst: tuple[Any, ...],
    **options: Any,
) -> Callable[[Any], None]:
    """A kernel of one matmul of zeros: each operand is (shape, dtype)."""

    def kernel(_: Any) -> None:
        made = [tile(*operand) for operand in (stationary, moving)]
        nisa.nc_matmul(nl.ndarray(dst[0], dtype=dst[1], buffer=nl.psum), *made, **options)

    return kernel


F32 = nl.float32


def plain(k: int, m: int, n: int, dtype: Any = F32, out: Any = F32, **options: Any) -> Callable[[Any], None]:
    return shaped(((k, m), dtype), ((k, n), dtype), ((m, n), out), **options)


def doubled(first: int = 2, second: int = 2, dtype: Any = nl.float8_e4m3, **options: Any) -> Callable[[Any], None]:
    inputs = ((64, first, 16), dtype), ((64, second, 32), dtype)
    return shaped(*inputs, ((16, 32), F32), perf_mode=DOUBLE, **options)


def wide(columns: int, dtype: Any = F32) -> Callable[[Any], None]:
    """Moving may be wider than any PSUM tile."""
    return shaped(((64, 16), dtype), ((64, columns), dtype), ((16, 512), dtype))


def mixed(a: Any, b: Any, out: Any = F32, **options: Any) -> Callable[[Any], None]:
    return shaped(((64, 16), a), ((64, 32), b), ((16, 32), out), **options)


def tiling(size: Any, position: Any = (0, 0), k: int = 32, m: int = 32) -> Callable[[Any], None]:
    return plain(k, m, 16, tile_size=size, tile_position=position)


REJECTED = [
    (rule("R-nc_matmul-02", "reject"), mixed(nl.int32, nl.int32), "trn2"),
    (rule("R-nc_matmul-02", "reject"), mixed(nl.bfloat16, nl.uint8), "trn2"),
    (rule("R-tensor.dtype-01", "reject"), mixed(nl.float8_e4m3fn, nl.bfloat16), "trn2"),
    (rule("R-nc_matmul-03", "reject"), mixed(F32, nl.bfloat16), "trn2"),
    (rule("R-nc_matmul-03", "reject"), mixed(nl.float16, nl.tfloat32), "trn3"),
    (rule("R-nc_matmul-04", "reject"), mixed(nl.float8_e4m3, nl.float8_e4m3fn), "trn3"),
    (rule("R-nc_matmul-05", "reject"), mixed(nl.bfloat16, nl.bfloat16, nl.bfloat16), "trn2"),
    (rule("R-nc_matmul-05", "reject"), mixed(nl.bfloat16, nl.bfloat16, nl.float16), "trn3"),
    (rule("R-nc_matmul-05", "reject"), mixed(nl.bfloat16, nl.bfloat16, nl.bfloat16, is_transpose=True), "trn1"),
    (rule("R-nc_matmul-05", "reject"), mixed(nl.bfloat16, nl.bfloat16, nl.float16, is_transpose=True), "trn2"),
    (rule("R-nc_matmul-06", "reject"), shaped(((64, 16), F32), ((32, 32), F32), ((16, 32), F32)), "trn2"),
    (rule("R-nc_matmul-07", "reject"), tiling((64, 128), k=96), "trn2"),
    (rule("R-nc_matmul-08", "reject"), shaped(((64, 129), F32), ((64, 16), F32), ((128, 16), F32)), "trn2"),
    (rule("R-nc_matmul-09", "reject"), wide(513), "trn2"),
    (rule("R-nc_matmul-09", "reject"), wide(4097), "trn3"),
    (rule("R-nc_matmul-09", "reject"), wide(8193, nl.bfloat16), "trn3"),
    (rule("R-nc_matmul-10", "reject"), shaped(((64, 16), F32), ((64, 32), F32), ((32, 16), F32)), "trn2"),
    (rule("R-nc_matmul-10", "reject"), shaped(((64, 16), F32), ((64, 32), F32), ((16, 31), F32)), "trn2"),
    (rule("R-nc_matmul-12", "reject"), doubled(), "trn1"),
    (rule("R-nc_matmul-13", "reject"), doubled(dtype=nl.bfloat16), "trn2"),
    (rule("R-nc_matmul-14", "reject"), doubled(3, 3), "trn2"),
    (rule("R-nc_matmul-14", "reject"), doubled(2, 1), "trn2"),
    (rule("R-nc_matmul-14", "reject"), plain(64, 2, 2, nl.float8_e4m3, perf_mode=DOUBLE), "trn2"),
    (rule("R-nc_matmul-15", "reject"), doubled(is_transpose=True), "trn2"),
    (rule("R-nc_matmul-15", "reject"), doubled(tile_size=(128, 64), tile_position=(0, 0)), "trn2"),
    (rule("R-nc_matmul-16", "reject"), plain(32, 32, 16, tile_size=(64, 64)), "trn2"),
    (rule("R-nc_matmul-16", "reject"), plain(32, 32, 16, tile_position=(0, 0)), "trn2"),
    (rule("R-nc_matmul-16", "reject"), plain(32, 32, 16, tile_position=(0,), tile_size=(64,)), "trn2"),
    (rule("R-nc_matmul-17", "reject"), tiling((32, 128)), "trn1"),
    (rule("R-nc_matmul-17", "reject"), tiling((128, 16), m=16), "trn2"),
    (rule("R-nc_matmul-17", "reject"), tiling((48, 128)), "trn2"),
    (rule("R-nc_matmul-18", "reject"), tiling((64, 128), (32, 0)), "trn2"),
    (rule("R-nc_matmul-18", "reject"), tiling((64, 128), (128, 0)), "trn2"),
    (rule("R-nc_matmul-18", "reject"), tiling((64, 64), (0, -64)), "trn2"),
    (rule("R-nc_matmul-19", "reject"), tiling((64, 64), m=96), "trn2"),
    (rule("R-nc_matmul-25", "reject"), plain(64, 16, 16, psumAccumulateFlag=3), "trn2"),
    (rule("R-nc_matmul-25", "reject"), plain(64, 16, 16, is_moving_zero=True), "trn2"),
]


@pytest.mark.parametrize(
    ("rule_id", "stationary", "moving", "dst", "exchanged"),
    [
        ("R-nc_matmul-10", (64, 16), (64, 32), (32, 16), True),
        ("R-nc_matmul-08", (64, 512), (64, 32), (32, 512), True),
        ("R-nc_matmul-08", (64, 129), (64, 16), (128, 16), False),
        ("R-nc_matmul-10", (64, 16), (64, 32), (16, 31), False),
    ],
)
def test_operands_the_other_way_round_are_told(rule_id: str, stationary: Any, moving: Any, dst: Any, exchanged: bool):
    found = rejects(rule_id, shaped((stationary, F32), (moving, F32), (dst, F32)), np.zeros((1, 1), np.float32))
    assert ("exchange stationary and moving" in str(found.hint)) == exchanged


ACCEPTED = [
    (rule("R-nc_matmul-02", "accept"), mixed(nl.float8_e4m3fn, nl.bfloat16), "trn3"),
    (rule("R-nc_matmul-03", "accept"), mixed(F32, nl.tfloat32), "trn2"),
    (rule("R-nc_matmul-03", "accept"), mixed(nl.bfloat16, nl.float8_e5m2), "trn2"),
    (rule("R-nc_matmul-04", "accept"), mixed(nl.float8_e5m2, nl.float8_e4m3fn), "trn3"),
    (rule("R-nc_matmul-05", "accept"), mixed(nl.bfloat16, nl.bfloat16, nl.bfloat16), "trn3"),
    (rule("R-nc_matmul-06", "accept"), plain(64, 16, 16), "trn2"),
    (rule("R-nc_matmul-07", "accept"), plain(128, 16, 16), "trn2"),
    (rule("R-nc_matmul-07", "accept"), tiling((64, 128), k=64), "trn2"),
    (rule("R-nc_matmul-08", "accept"), plain(64, 128, 16), "trn2"),
    (rule("R-nc_matmul-09", "accept"), plain(64, 16, 512), "trn2"),
    (rule("R-nc_matmul-09", "accept"), plain(64, 16, 4096), "trn3"),
    (rule("R-nc_matmul-09", "accept"), plain(64, 16, 8192, nl.bfloat16, nl.bfloat16), "trn3"),
    (rule("R-nc_matmul-10", "accept"), shaped(((64, 4, 4), F32), ((64, 32), F32), ((16, 2, 16), F32)), "trn2"),
    (rule("R-nc_matmul-11", "accept"), plain(64, 16, 512), "trn2"),
    (rule("R-nc_matmul-11", "accept"), plain(64, 16, 4096), "trn3"),
    (rule("R-nc_matmul-13", "accept"), doubled(dtype=nl.float8_e4m3fn), "trn3"),
    (rule("R-nc_matmul-15", "accept"), doubled(tile_size=(64, 128), tile_position=(64, 0)), "trn2"),
    (rule("R-nc_matmul-16", "accept"), tiling((128, 128)), "trn2"),
    (rule("R-nc_matmul-17", "accept"), tiling((64, 64)), "trn1"),
    (rule("R-nc_matmul-17", "accept"), tiling((32, 32)), "trn2"),
    (rule("R-nc_matmul-18", "accept"), tiling((32, 64), (96, 64)), "trn2"),
    (rule("R-nc_matmul-19", "accept"), tiling((64, 64), m=64), "trn2"),
    (rule("R-nc_matmul-25", "accept"), plain(64, 16, 16, is_moving_onezero=True, is_stationary_onezero=True), "trn2"),
]


def cases(rows: list[Any]) -> list[Any]:
    return [
        pytest.param(mark.args[0], *rest, id=f"{mark.args[0]}-{i}", marks=mark) for i, (mark, *rest) in enumerate(rows)
    ]


@pytest.mark.parametrize(("name", "kernel", "target"), cases(REJECTED))
def test_rejected(name: str, kernel: Callable[..., Any], target: str) -> None:
    rejects(name, kernel, target=target)


def test_an_element_type_that_is_not_taken_can_be_cast() -> None:
    hint = rejects("R-nc_matmul-02", mixed(nl.int32, nl.int32)).hint
    assert hint is not None and "tensor_copy" in hint


@pytest.mark.parametrize(("name", "kernel", "target"), cases(ACCEPTED))
def test_accepted(name: str, kernel: Callable[..., Any], target: str) -> None:
    accepts(kernel, target=target)


@pytest.mark.rule("R-nc_matmul-11", "reject")
def test_one_bank() -> None:
    """A PSUM tensor over more than a bank is refused when it is made; the matmul into it is refused as well."""

    def kernel(a: Any, b: Any) -> None:
        psum = nl.ndarray((64, 96, 8), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(psum[:, :, 0], load(a), load(b))

    rules = [found.rule for found in full_run(kernel, A, B, collect=True).diagnostics]
    assert rules == ["R-tensor-09", "R-nc_matmul-11"]


def test_float8_transposes_are_two_bytes_wide() -> None:
    a, identity = random((64, 32), E4M3), np.eye(64).astype(E4M3)

    def kernel(a: Any, identity: Any, step: int) -> Any:
        psum = nl.ndarray((32, 64 * step), dtype=a.dtype, buffer=nl.psum)
        chosen = psum[:, 0 : 64 * step : step]
        nisa.nc_matmul(chosen, load(a), load(identity), is_transpose=True)
        return drain(chosen)

    np.testing.assert_array_equal(run(lambda a, i: kernel(a, i, 2), a, identity), a.T)
    rejects("R-nc_transpose-06", lambda a, i: kernel(a, i, 1), a, identity)


# Cost.


def cost_of(kernel: Callable[..., Any], target: str = "trn2") -> Any:
    (op,) = [op for op in full_run(kernel, target=target).session.graph.body.ops if op.name == "nc_matmul"]
    return op_cost(op, get_target(target))[1]


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_cost_grows_with_every_dim(target: str, axis: int) -> None:
    last = (0.0, 0.0)
    for size in (1, 20, 64, 100, 128):
        shape = [64, 64, 64]
        shape[axis] = size
        cost = cost_of(plain(*shape), target)
        assert (cost.interval_ns, cost.latency_ns) >= last > (-1, -1)
        assert cost.interval_ns > 0
        last = (cost.interval_ns, cost.latency_ns)


@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16])
def test_products_of_half_of_the_rows_use_less_than_half_of_the_array(dtype: Any):
    """What lies between two products is no use, so that a clock that asks for half does not stay."""
    whole, half = (cost_of(plain(rows, 128, 512, dtype)).activity for rows in (128, 64))
    assert half == pytest.approx(whole / 2)
    assert 0.48 < half < 0.5


def test_cost_of_modes() -> None:
    full = cost_of(plain(128, 128, 512)).interval_ns
    narrow = cost_of(plain(128, 128, 512, nl.bfloat16)).interval_ns
    assert full > 3 * narrow
    assert cost_of(plain(128, 128, 512, is_moving_onezero=True)).interval_ns < full
    assert cost_of(doubled()).interval_ns == cost_of(mixed(nl.float8_e4m3, nl.float8_e4m3)).interval_ns
    # 512 columns of bfloat16 every 518 cycles of 2.4 GHz, as measured on trn2.
    assert narrow == pytest.approx(216, rel=0.01)

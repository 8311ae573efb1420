"""quantize_mx and nc_matmul_mx: rules, scales, products, against values computed in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit import nisa, nl, rejects, run, tile
from tilewright.dtypes import as_dtype
from tilewright.packed import element_type, pack, unpack
from tilewright.target import get_target
from tilewright.tile.memory import PSUM, SBUF, Buffer
from tilewright.tile.record import TABLE, Call
from tilewright.tile.view import whole

RNG = np.random.default_rng(0)
E4, E5, F4 = nl.float8_e4m3fn_x4, nl.float8_e5m2_x4, nl.float4_e2m1fn_x4
GREATEST = {E4: 8, E5: 15}


def on_v4(kernel: Callable[..., Any], *arrays: Any) -> Any:
    return run(kernel, *arrays, target="trn3")


def rows(partitions: int) -> list[int]:
    """Where the scales of each group of 8 partitions lie."""
    return [p // 32 * 32 + p % 32 // 8 for p in range(0, partitions, 8)]


def loaded(x: Any, dtype: Any = None) -> Any:
    t = nl.ndarray(x.shape, dtype or x.dtype, nl.sbuf)
    nisa.dma_copy(t, x)
    return t


def stored(t: Any, dtype: Any = None) -> Any:
    view = t if dtype is None else t.view(dtype)
    y = nl.ndarray(view.shape, view.dtype, nl.shared_hbm)
    nisa.dma_copy(y, view)
    return y


# quantize_mx.


def quantized(x: Any, dtype: Any = E4, scale_dtype: Any = nl.uint8, scale_rows: int | None = None) -> Any:
    """The four bytes of every packed element, and the bytes of the scales in a tile that held 9 before."""
    free = x.shape[1] // 4
    dst = nl.ndarray((x.shape[0], free), dtype, nl.sbuf)
    scale = tile((scale_rows or x.shape[0], free), nl.uint8, value=9)
    nisa.quantize_mx(dst, loaded(x), scale if scale_dtype == nl.uint8 else scale.view(scale_dtype))
    return stored(dst, nl.uint8), stored(scale)


def expected(x: np.ndarray, dtype: Any, scale_rows: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The same, element by element, by the documented formula."""
    partitions, free = x.shape
    data = np.zeros((partitions, free), element_type(dtype))
    scale = np.full((scale_rows or partitions, free // 4), 9, np.uint8)
    for group, row in enumerate(rows(partitions)):
        for f in range(free // 4):
            part = np.s_[8 * group : 8 * group + 8, 4 * f : 4 * f + 4]
            values = x[part].astype(np.float64)
            largest = np.abs(values).max()
            exponent = -127 if largest == 0 else int(np.floor(np.log2(largest))) - (GREATEST[dtype] - 1)
            scale[row, f] = max(exponent, -127) + 127
            data[part] = (values / 2.0 ** max(exponent, -127)).astype(np.float32).astype(data.dtype)
    return data.view(np.uint8), scale


@pytest.mark.rule("R-quantize_mx-01", "accept")
@pytest.mark.rule("R-quantize_mx-03", "accept")
@pytest.mark.rule("R-quantize_mx-05", "holds")
@pytest.mark.parametrize("dtype", [E4, E5])
@pytest.mark.parametrize("src", [ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("shape", [(128, 16), (32, 4), (64, 8), (96, 12)])
def test_scales_and_values(dtype: Any, src: Any, shape: tuple[int, int]) -> None:
    x = (RNG.standard_normal(shape) * 2.0 ** RNG.integers(-8, 8, shape)).astype(src)
    x[0:8, 0:4] = 0
    data, scale = on_v4(lambda a: quantized(a, dtype), x)
    wanted, scales = expected(x, dtype)
    np.testing.assert_array_equal(data, wanted)
    np.testing.assert_array_equal(scale, scales)


@given(st.lists(st.sampled_from([0.0, 1.0, -1.5, 3.9, 2.0**-130, 2.0**100, -(2.0**120)]), min_size=128, max_size=128))
def test_any_values(values: list[float]) -> None:
    x = np.array(values, np.float32).reshape(32, 4).astype(ml_dtypes.bfloat16)
    data, scale = on_v4(quantized, x)
    wanted, scales = expected(x, E4)
    np.testing.assert_array_equal(data, wanted)
    np.testing.assert_array_equal(scale, scales)


def test_values_that_are_not_finite_have_no_scale() -> None:
    x = np.ones((32, 4), ml_dtypes.bfloat16)
    x[3, 1] = np.inf
    x[9, 0] = np.nan
    _, scale = on_v4(quantized, x)
    assert scale[:4, 0].tolist() == [255, 255, 127 - 7, 127 - 7]


@pytest.mark.parametrize("scale_dtype", [nl.uint8, nl.float8_e8m0fnu])
def test_bytes_of_scales_are_the_same_in_both_types(scale_dtype: Any) -> None:
    x = RNG.standard_normal((64, 8)).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(on_v4(lambda a: quantized(a, E4, scale_dtype), x)[1], expected(x, E4)[1])


@pytest.mark.rule("R-nc_matmul_mx-09", "accept")
@pytest.mark.parametrize(("partitions", "scale_partitions"), [(32, 4), (32, 32), (64, 36), (128, 100), (128, 128)])
def test_scales_need_no_more_rows_than_are_used(partitions: int, scale_partitions: int) -> None:
    x = RNG.standard_normal((partitions, 8)).astype(ml_dtypes.bfloat16)
    found = on_v4(lambda a: quantized(a, E4, nl.uint8, scale_partitions), x)[1]
    np.testing.assert_array_equal(found, expected(x, E4, scale_partitions)[1])


def bad_quantize(**change: Any) -> Callable[[Any], None]:
    """A legal call with one tile exchanged."""
    given: dict[str, Any] = {
        "dst": ((32, 4), E4, nl.sbuf),
        "src": ((32, 16), nl.bfloat16, nl.sbuf),
        "dst_scale": ((32, 4), nl.uint8, nl.sbuf),
    } | change
    return lambda x: nisa.quantize_mx(**{name: tile(*each) for name, each in given.items()})


@pytest.mark.rule("R-quantize_mx-01", "reject")
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_quantize_generation(target: str) -> None:
    rejects("R-quantize_mx-01", bad_quantize(), target=target)


@pytest.mark.rule("R-quantize_mx-02", "accept")
@pytest.mark.rule("R-quantize_mx-02", "reject")
def test_quantize_memories() -> None:
    on_v4(lambda x: bad_quantize()(x) and None)
    rejects("R-quantize_mx-02", bad_quantize(src=((32, 16), nl.bfloat16, nl.psum)), target="trn3")
    rejects("R-quantize_mx-02", bad_quantize(dst_scale=((32, 4), nl.uint8, nl.psum)), target="trn3")


@pytest.mark.rule("R-quantize_mx-03", "reject")
@pytest.mark.parametrize(
    "change",
    [
        {"src": ((32, 16), nl.float32, nl.sbuf)},
        {"dst": ((32, 4), F4, nl.sbuf)},
        {"dst": ((32, 4), nl.uint32, nl.sbuf)},
        {"dst_scale": ((32, 4), nl.int8, nl.sbuf)},
    ],
)
def test_quantize_types(change: dict[str, Any]) -> None:
    rejects("R-quantize_mx-03", bad_quantize(**change), target="trn3")


@pytest.mark.rule("R-quantize_mx-04", "accept")
def test_quantize_shapes_with_more_dims() -> None:
    on_v4(lambda x: bad_quantize(src=((32, 4, 4), nl.bfloat16, nl.sbuf))(x) and None)


@pytest.mark.rule("R-quantize_mx-04", "reject")
@pytest.mark.parametrize(
    "change",
    [
        {"src": ((16, 16), nl.bfloat16, nl.sbuf), "dst": ((16, 4), E4, nl.sbuf)},
        {"src": ((32, 18), nl.bfloat16, nl.sbuf)},
        {"dst": ((32, 16), E4, nl.sbuf)},
        {"dst": ((64, 4), E4, nl.sbuf)},
    ],
)
def test_quantize_shapes(change: dict[str, Any]) -> None:
    rejects("R-quantize_mx-04", bad_quantize(**change), target="trn3")


@pytest.mark.rule("R-nc_matmul_mx-09", "reject")
@pytest.mark.parametrize("shape", [(3, 4), (32, 5), (32, 3)])
def test_scales_that_do_not_fit(shape: tuple[int, int]) -> None:
    rejects("R-nc_matmul_mx-09", bad_quantize(dst_scale=(shape, nl.uint8, nl.sbuf)), target="trn3")
    rejects("R-nc_matmul_mx-09", product(stationary_scale=(shape, nl.uint8, nl.sbuf)), target="trn3")


@pytest.mark.rule("R-nc_matmul_mx-10", "accept")
@pytest.mark.rule("R-nc_matmul_mx-10", "reject")
def test_where_scales_start() -> None:
    def kernel(x: Any, start: int) -> None:
        scales = tile((32, 4), nl.uint8)
        nisa.quantize_mx(tile((32, 4), E4), tile((32, 16), nl.bfloat16), scales[start : start + 4])

    for start in (0, 4, 8, 12):
        on_v4(kernel, np.zeros((1, 1), np.float32), start)
    for start in (1, 16, 28):
        rejects("R-nc_matmul_mx-10", kernel, np.zeros((1, 1), np.float32), start, target="trn3")


def test_scales_of_two_tensors_share_a_tile() -> None:
    def kernel(x: Any) -> Any:
        scales, data = nl.ndarray((128, 4), nl.uint8, nl.sbuf), loaded(x)
        for part, start in ((data[:, 0:16], 0), (data[:, 16:32], 4)):
            nisa.quantize_mx(nl.ndarray((128, 4), E4, nl.sbuf), part, scales[start:])
        y = nl.ndarray((32, 4), nl.uint8, nl.shared_hbm)
        for quadrant in range(4):
            nisa.dma_copy(y[8 * quadrant : 8 * quadrant + 8], scales[32 * quadrant : 32 * quadrant + 8])
        return y

    x = RNG.standard_normal((128, 32)).astype(ml_dtypes.bfloat16)
    parts = [expected(np.ascontiguousarray(x[:, 16 * i : 16 * i + 16]), E4)[1][rows(128)] for i in range(2)]
    wanted = np.concatenate([parts[i][4 * q : 4 * q + 4] for q in range(4) for i in range(2)])
    np.testing.assert_array_equal(on_v4(kernel, x), wanted)


def test_unwritten_rows_between_scales_stay_unwritten() -> None:
    def kernel(x: Any, count: int) -> Any:
        scales = nl.ndarray((32, 4), nl.uint8, nl.sbuf)
        nisa.quantize_mx(nl.ndarray((32, 4), E4, nl.sbuf), loaded(x), scales)
        return stored(scales[0:count])

    x = np.ones((32, 16), ml_dtypes.bfloat16)
    on_v4(kernel, x, 4)
    assert "4 of 20" in rejects("R-tensor-18", kernel, x, 5, target="trn3").message


# nc_matmul_mx.


def product(**change: Any) -> Callable[[Any], None]:
    """A legal call of nc_matmul_mx with something exchanged."""
    tiles = {
        "dst": ((16, 8), nl.float32, nl.psum),
        "stationary": ((32, 16), E4, nl.sbuf),
        "moving": ((32, 8), E4, nl.sbuf),
        "stationary_scale": ((32, 16), nl.uint8, nl.sbuf),
        "moving_scale": ((32, 8), nl.uint8, nl.sbuf),
    }
    more = {name: value for name, value in change.items() if name not in tiles}
    tiles |= {name: value for name, value in change.items() if name in tiles}
    return lambda x: nisa.nc_matmul_mx(**{name: tile(*each) for name, each in tiles.items()}, **more)


def multiplied(a: Any, b: Any, a_scale: Any, b_scale: Any, a_dtype: Any, b_dtype: Any, dtype: Any, times: int) -> Any:
    stationary, moving = loaded(a).view(a_dtype), loaded(b).view(b_dtype)
    dst = nl.ndarray((stationary.shape[1], moving.shape[1]), dtype, nl.psum)
    for _ in range(times):
        nisa.nc_matmul_mx(dst, stationary, moving, loaded(a_scale), loaded(b_scale))
    copied = nl.ndarray(dst.shape, nl.float32, nl.sbuf)
    nisa.tensor_copy(copied, dst)
    return stored(copied)


def operand(k: int, free: int, dtype: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bytes of packed data, scales where the hardware expects them, and the values they stand for as [k, 4, free]."""
    packed = pack(RNG.standard_normal((k, 4 * free)) * 2, as_dtype(dtype))
    scale = RNG.integers(120, 132, (k, free)).astype(np.uint8)
    factors = np.repeat(2.0 ** (scale[rows(k)].astype(np.float64) - 127), 8, axis=0)
    values = unpack(packed, as_dtype(dtype)).astype(np.float64).reshape(k, free, 4) * factors[:, :, None]
    return packed.view(np.uint8), scale, values


@pytest.mark.rule("R-nc_matmul_mx-01", "accept")
@pytest.mark.rule("R-nc_matmul_mx-03", "accept")
@pytest.mark.rule("R-nc_matmul_mx-04", "accept")
@pytest.mark.rule("R-nc_matmul_mx-07", "accept")
@pytest.mark.parametrize("types", [(E4, E4), (E5, E5), (F4, F4), (F4, E5), (E4, E5)])
@pytest.mark.parametrize(("k", "m", "n"), [(128, 128, 64), (32, 2, 5), (96, 16, 512)])
def test_products(types: tuple[Any, Any], k: int, m: int, n: int) -> None:
    a, a_scale, a_values = operand(k, m, types[0])
    b, b_scale, b_values = operand(k, n, types[1])
    found = on_v4(multiplied, a, b, a_scale, b_scale, *types, nl.float32, 2)
    wanted = 2 * np.einsum("kmi,kni->mn", a_values, b_values)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def test_a_bfloat16_destination() -> None:
    a, a_scale, a_values = operand(64, 16, E4)
    b, b_scale, b_values = operand(64, 32, E4)
    found = on_v4(multiplied, a, b, a_scale, b_scale, E4, E4, nl.bfloat16, 1)
    wanted = np.einsum("kmi,kni->mn", a_values, b_values)
    np.testing.assert_allclose(found, wanted, rtol=2**-8, atol=2**-8 * np.abs(wanted).max())


def test_quantized_on_the_device_and_multiplied() -> None:
    def kernel(x: Any, w: Any) -> Any:
        tiles: list[Any] = []
        for each in (w, x):
            data = nl.ndarray((each.shape[0], each.shape[1] // 4), E4, nl.sbuf)
            scale = nl.ndarray(data.shape, nl.float8_e8m0fnu, nl.sbuf)
            nisa.quantize_mx(data, loaded(each), scale)
            tiles.append((data, scale))
        (w_data, w_scale), (x_data, x_scale) = tiles
        dst = nl.ndarray((w_data.shape[1], x_data.shape[1]), nl.float32, nl.psum)
        nisa.nc_matmul_mx(dst, w_data, x_data, w_scale, x_scale)
        copied = nl.ndarray(dst.shape, nl.float32, nl.sbuf)
        nisa.tensor_copy(copied, dst)
        return stored(copied)

    x, w = (RNG.standard_normal((128, 4 * free)).astype(ml_dtypes.bfloat16) for free in (32, 16))
    wanted = np.einsum("kmi,kni->mn", *(v.astype(np.float64).reshape(128, -1, 4) for v in (w, x)))
    np.testing.assert_allclose(on_v4(kernel, x, w), wanted, atol=0.1 * np.abs(wanted).max())


@pytest.mark.rule("R-nc_matmul_mx-01", "reject")
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_product_generation(target: str) -> None:
    rejects("R-nc_matmul_mx-01", product(), target=target)


REJECTED: list[tuple[str, dict[str, Any]]] = [
    ("R-nc_matmul_mx-02", {"dst": ((16, 8), nl.float32, nl.sbuf)}),
    ("R-nc_matmul_mx-02", {"moving_scale": ((32, 8), nl.uint8, nl.psum)}),
    ("R-nc_matmul_mx-03", {"stationary": ((32, 16), nl.bfloat16, nl.sbuf)}),
    ("R-nc_matmul_mx-03", {"moving": ((32, 8), nl.float8_e5m2, nl.sbuf)}),
    ("R-nc_matmul_mx-03", {"moving_scale": ((32, 8), nl.float32, nl.sbuf)}),
    ("R-nc_matmul_mx-03", {"dst": ((16, 8), nl.float16, nl.psum)}),
    ("R-nc_matmul_mx-04", {"moving": ((64, 8), E4, nl.sbuf), "moving_scale": ((64, 8), nl.uint8, nl.sbuf)}),
    ("R-nc_matmul_mx-05", {"stationary": ((32, 15), E4, nl.sbuf)}),
    ("R-nc_matmul_mx-05", {"stationary": ((32, 130), E4, nl.sbuf)}),
    ("R-nc_matmul_mx-06", {"moving": ((32, 4097), E4, nl.sbuf)}),
    ("R-nc_matmul_mx-07", {"dst": ((16, 9), nl.float32, nl.psum)}),
    ("R-nc_matmul_mx-07", {"dst": ((8, 8), nl.float32, nl.psum)}),
    ("R-nc_matmul_mx-08", {"tile_position": (0, 0)}),
    ("R-nc_matmul_mx-08", {"tile_position": (0, 0), "tile_size": (128, 64)}),
    ("R-nc_matmul_mx-08", {"tile_position": (0, 32), "tile_size": (32, 128)}),
    ("R-nc_matmul_mx-08", {"tile_position": (32, 0), "tile_size": (64, 128)}),
    ("R-nc_matmul_mx-08", {"tile_position": (128, 0), "tile_size": (32, 128)}),
    (
        "R-nc_matmul_mx-08",
        {
            "tile_position": (0, 0),
            "tile_size": (32, 128),
            **{name: ((64, n), d, nl.sbuf) for name, n, d in (("stationary", 16, E4), ("moving", 8, E4))},
            "stationary_scale": ((64, 16), nl.uint8, nl.sbuf),
            "moving_scale": ((64, 8), nl.uint8, nl.sbuf),
        },
    ),
]


@pytest.mark.parametrize(
    ("rule", "change"), [pytest.param(*r, marks=pytest.mark.rule(r[0], "reject")) for r in REJECTED]
)
def test_refused_products(rule: str, change: dict[str, Any]) -> None:
    rejects(rule, product(**change), target="trn3")


ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    ("R-nc_matmul_mx-02", {}),
    ("R-nc_matmul_mx-05", {"dst": ((2, 8), nl.float32, nl.psum), "stationary": ((32, 2), E5, nl.sbuf)}),
    ("R-nc_matmul_mx-06", {"dst": ((16, 4096), nl.float32, nl.psum), "moving": ((32, 4096), F4, nl.sbuf)}),
    ("R-nc_matmul_mx-08", {"tile_position": (96, 0), "tile_size": (32, 128)}),
    ("R-nc_matmul_mx-08", {"tile_position": (64, 0), "tile_size": (64, 128)}),
]


@pytest.mark.parametrize(
    ("rule", "change"), [pytest.param(*r, marks=pytest.mark.rule(r[0], "accept")) for r in ACCEPTED]
)
def test_legal_products(rule: str, change: dict[str, Any]) -> None:
    sized = {
        f"{name}_scale": (each[0], nl.uint8, nl.sbuf)
        for name, each in change.items()
        if name in ("stationary", "moving")
    }
    on_v4(lambda x: product(**change, **sized)(x) and None)


def test_unwritten_scales_reach_the_row_or_column_they_scale() -> None:
    def kernel(x: Any, stationary: bool, shape: tuple[int, int]) -> Any:
        scales = [tile((32, 16), nl.uint8), tile((32, 8), nl.uint8)]
        part = nl.ndarray((32, 16 if stationary else 8), nl.uint8, nl.sbuf)
        nisa.memset(part[:, 0:4], value=1)
        scales[0 if stationary else 1] = part
        dst = nl.ndarray((16, 8), nl.float32, nl.psum)
        nisa.nc_matmul_mx(dst, tile((32, 16), E4), tile((32, 8), E4), *scales)
        copied = nl.ndarray((16, 8), nl.float32, nl.sbuf)
        nisa.tensor_copy(copied, dst)
        return stored(copied[0 : shape[0], 0 : shape[1]])

    one = np.zeros((1, 1), np.float32)
    on_v4(kernel, one, True, (4, 8))
    on_v4(kernel, one, False, (16, 4))
    assert "8 of 40" in rejects("R-tensor-18", kernel, one, True, (5, 8), target="trn3").message
    assert "16 of 80" in rejects("R-tensor-18", kernel, one, False, (16, 5), target="trn3").message


def cost(name: str, **shapes: tuple[tuple[int, int], Any, Any]) -> Any:
    record = TABLE[name]
    views = [whole(Buffer(as_dtype(shapes[key][1]), shapes[key][0], shapes[key][2])) for key in record.operands]
    call = Call(record, views, dict(record.defaults), get_target("trn3"))
    call.resolve_engine()
    return record.cost(call)


def test_costs_grow_with_the_work() -> None:
    def matmul(n: int) -> float:
        scales = {"stationary_scale": ((128, 128), "uint8", SBUF), "moving_scale": ((128, n), "uint8", SBUF)}
        data = {"stationary": ((128, 128), E4, SBUF), "moving": ((128, n), E4, SBUF)}
        return cost("nc_matmul_mx", dst=((128, n), "float32", PSUM), **data, **scales).interval_ns

    def quantize(n: int) -> float:
        tiles = {"dst": ((128, n), E4, SBUF), "dst_scale": ((128, n), "uint8", SBUF)}
        return cost("quantize_mx", src=((128, 4 * n), "bfloat16", SBUF), **tiles).interval_ns

    for of in (matmul, quantize):
        spent = [of(n) for n in (1, 64, 512, 2048)]
        assert spent == sorted(spent) and 0 < spent[0] < spent[-1]

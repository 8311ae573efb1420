"""Tensor indirection: columns of a tile by offsets that another tile holds (NeuronCore-v4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from tests.kit import full_run, nisa, nl, rejects, run, tile
from tilewright.dtypes import as_dtype
from tilewright.errors import TileError
from tilewright.packed import pack, unpack
from tilewright.sim.bounds import OutOfBoundsError
from tilewright.sim.run import run_graph
from tilewright.target import get_target
from tilewright.tile.costed import op_cost
from tilewright.tile.patterns import pattern_of
from tilewright.tile.record import Record
from tilewright.tile.text import parse_tile
from tilewright.tile.verify import verify_graph

RNG = np.random.default_rng(0)
E4 = nl.float8_e4m3fn_x4
rule = pytest.mark.rule


def on_v4(kernel: Callable[..., Any], *arrays: Any, **options: Any) -> Any:
    return run(kernel, *arrays, target="trn3", **options)


def loaded(x: Any, buffer: Any = nl.sbuf) -> Any:
    t = nl.ndarray(x.shape, x.dtype, nl.sbuf)
    nisa.dma_copy(t, x)
    if buffer == nl.sbuf:
        return t
    moved = nl.ndarray(x.shape, x.dtype, buffer)
    nisa.tensor_copy(moved, t)
    return moved


def stored(t: Any) -> Any:
    y = nl.ndarray(t.shape, t.dtype, nl.shared_hbm)
    nisa.dma_copy(y, t)
    return y


def made(partitions: int, columns: int, dtype: Any = np.float32) -> np.ndarray:
    return (RNG.standard_normal((partitions, columns)) * 4).astype(dtype)


def offsets(partitions: int, columns: int, limit: int, dtype: Any = np.int32) -> np.ndarray:
    return RNG.integers(0, limit, (partitions, columns)).astype(dtype)


def snake(index: np.ndarray, count: int, group: int = 16) -> list[int]:
    """Where the documentation says that the offsets are."""
    return [int(index[i % group, i // group]) for i in range(count)]


# What a view means.


@rule("R-tensor.indirect-01", "accept")
@rule("R-tensor.indirect-02", "accept")
@rule("R-tensor.indirect-03", "holds")
@rule("R-tensor_copy-05", "accept")
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16, np.int32, np.uint8])
@pytest.mark.parametrize("engine", [nisa.engine.vector, nisa.engine.scalar, nisa.engine.unknown])
@pytest.mark.parametrize(
    ("partitions", "width", "columns", "count"), [(128, 50, 4, 64), (16, 9, 3, 48), (40, 33, 2, 17), (4, 8, 2, 3)]
)
def test_gather(dtype: Any, engine: Any, partitions: int, width: int, columns: int, count: int) -> None:
    def kernel(x: Any, index: Any) -> Any:
        view = loaded(x).indirect(loaded(index), count)
        assert view.shape == (partitions, count) and view.dtype == x.dtype and view.is_indirect()
        y = nl.ndarray(view.shape, x.dtype, nl.sbuf)
        nisa.tensor_copy(y, view, engine=engine)
        return stored(y)

    x, index = made(partitions, width, dtype), offsets(partitions, columns, width)
    np.testing.assert_array_equal(on_v4(kernel, x, index), x[:, snake(index, count)])


def test_all_offsets_of_the_index_unless_fewer_are_asked_for() -> None:
    def kernel(x: Any, index: Any) -> Any:
        view = loaded(x).indirect(loaded(index))
        y = nl.ndarray((16, 32), x.dtype, nl.sbuf)
        nisa.tensor_copy(y, view)
        return stored(y)

    x, index = made(16, 10), offsets(16, 2, 10)
    np.testing.assert_array_equal(on_v4(kernel, x, index), x[:, snake(index, 32)])


def scatter(x: Any, index: Any, count: int, buffer: Any, engine: Any) -> Any:
    base = tile((x.shape[0], 40), x.dtype, buffer, value=-1)
    nisa.tensor_copy(base.indirect(loaded(index), count), loaded(x), engine=engine)
    y = nl.ndarray(base.shape, base.dtype, nl.sbuf)
    nisa.tensor_copy(y, base)
    return stored(y)


@rule("R-tensor.indirect-03", "holds")
@rule("R-tensor.indirect-04", "accept")
@rule("R-tensor.indirect-06", "accept")
@rule("R-tensor.indirect-08", "accept")
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum])
@given(st.lists(st.integers(0, 39), min_size=1, max_size=48))
def test_scatter(buffer: Any, chosen: list[int]) -> None:
    x = made(32, len(chosen))
    index = np.full((32, 3), 99, np.uint16)
    for i, offset in enumerate(chosen):
        index[i % 16, i // 16] = offset
    expected = np.full((32, 40), -1, np.float32)
    for i, offset in enumerate(chosen):
        expected[:, offset] = x[:, i]
    np.testing.assert_array_equal(on_v4(scatter, x, index, len(chosen), buffer, nisa.engine.vector), expected)


@pytest.mark.parametrize(
    ("part", "view"),
    [
        (lambda x: x[:, 8:24], lambda t: t[:, 8:24]),
        (lambda x: x[:, 1::3], lambda t: t[:, 1::3]),
        (lambda x: x, lambda t: t.reshape((32, 4, 12))),
        (lambda x: x[:, 12:24], lambda t: t.reshape((32, 4, 12))[:, 1]),
        (lambda x: x[:, 24:48], lambda t: t.reshape((32, 4, 12))[:, 2:4]),
        (lambda x: x.view(np.int32), lambda t: t.view(nl.int32)),
    ],
)
def test_offsets_count_elements_of_the_view_below(part: Any, view: Any) -> None:
    def kernel(x: Any, index: Any) -> Any:
        base = view(loaded(x))
        y = nl.ndarray((32, 20), base.dtype, nl.sbuf)
        nisa.tensor_copy(y, base.indirect(loaded(index), 20))
        return stored(y)

    x = made(32, 48)
    index = offsets(32, 2, part(x).shape[1])
    np.testing.assert_array_equal(on_v4(kernel, x, index), part(x)[:, snake(index, 20)])


# Every instruction that takes indirect views.

P, WIDTH, COUNT = 32, 24, 20

TAKES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "tensor_copy": lambda dst, data, other: nisa.tensor_copy(dst, data),
    "tensor_tensor": lambda dst, data, other: nisa.tensor_tensor(dst, data, other, nl.multiply),
    "tensor_tensor on gpsimd": lambda dst, data, other: nisa.tensor_tensor(
        dst, data, other, nl.add, engine=nisa.engine.gpsimd
    ),
    "tensor_scalar": lambda dst, data, other: nisa.tensor_scalar(dst, data, nl.multiply, 2.0, op1=nl.add, operand1=1.0),
    "tensor_scalar on gpsimd": lambda dst, data, other: nisa.tensor_scalar(dst, data, nl.rsqrt, None),
    "tensor_scalar_cumulative": lambda dst, data, other: nisa.tensor_scalar_cumulative(
        dst, data, nl.multiply, nl.add, 0.5, 0.0, nisa.reduce_cmd.load_reduce
    ),
    "tensor_scalar_reduce": lambda dst, data, other: nisa.tensor_scalar_reduce(
        dst, data, nl.multiply, 2.0, nl.add, tile((P, 1))
    ),
    "activation": lambda dst, data, other: nisa.activation(dst, nl.square, data, bias=tile((P, 1), value=1.0)),
    "activation_reduce": lambda dst, data, other: nisa.activation_reduce(
        dst, nl.square, data, reduce_op=nl.add, reduce_res=tile((P, 1))
    ),
    "activate2": lambda dst, data, other: nisa.activate2(
        dst, nl.square, data, imm0=3.0, imm1=1.0, op0=nl.multiply, op1=nl.add
    ),
    "exponential": lambda dst, data, other: nisa.exponential(dst, data),
    "tensor_copy_predicated": lambda dst, data, other: nisa.tensor_copy_predicated(dst, 7.0, data),
}


def compute(x: Any, other: Any, index: Any, name: str, which: str) -> Any:
    """One instruction whose data or destination is an indirect view, or neither."""
    data = loaded(x).view(nl.uint32) if name == "tensor_copy_predicated" else loaded(x)
    dst = tile((P, WIDTH if which == "dst" else COUNT), value=-1)
    held = loaded(index)
    chosen = {"data": data, "dst": dst}
    if which in chosen:
        chosen[which] = chosen[which].indirect(held, COUNT)
    TAKES[name](chosen["dst"], chosen["data"], loaded(other))
    return stored(dst)


@rule("R-tensor_tensor-07", "accept")
@rule("R-tensor_scalar-10", "accept")
@rule("R-tensor_copy_predicated-05", "accept")
@rule("R-tensor.indirect-05", "accept")
@rule("R-tensor.indirect-09", "accept")
@pytest.mark.parametrize("name", TAKES)
def test_instructions_that_take_indirect_views(name: str) -> None:
    """Against the same instruction on columns that the host chose."""
    x, other = np.where(RNG.random((P, WIDTH)) < 0.3, 0, made(P, WIDTH) ** 2).astype(np.float32), made(P, COUNT)
    index = np.zeros((P, 2), np.int32)
    chosen = RNG.permutation(WIDTH)[:COUNT]
    for i, offset in enumerate(chosen):
        index[i % 16, i // 16] = offset
    gathered = np.ascontiguousarray(x[:, chosen])
    plain = on_v4(compute, gathered, other, index, name, "neither")
    np.testing.assert_array_equal(on_v4(compute, x, other, index, name, "data"), plain)
    expected = np.full((P, WIDTH), -1, np.float32)
    expected[:, chosen] = plain
    np.testing.assert_array_equal(on_v4(compute, gathered, other, index, name, "dst"), expected)


def test_a_reduction_of_chosen_columns() -> None:
    def kernel(x: Any, index: Any) -> Any:
        y = nl.ndarray((P, 1), nl.float32, nl.sbuf)
        nisa.tensor_reduce(y, nl.maximum, loaded(x).indirect(loaded(index), COUNT), axis=1)
        return stored(y)

    x, index = made(P, WIDTH), offsets(P, 2, WIDTH)
    np.testing.assert_array_equal(on_v4(kernel, x, index)[:, 0], x[:, snake(index, COUNT)].max(axis=1))


# The Tensor engine finds offsets over 32 partitions.


def multiplied(a: Any, b: Any, index: Any, which: str, count: int, accumulate: Any) -> Any:
    tiles = {"stationary": loaded(a), "moving": loaded(b)}
    held = loaded(index)
    if which in tiles:
        tiles[which] = tiles[which].indirect(held, count)
    shape = tiles["stationary"].shape[1], 40 if which == "dst" else tiles["moving"].shape[1]
    dst = nl.ndarray(shape, nl.float32, nl.psum)
    if which == "dst":
        nisa.memset(dst, value=-1)
    for _ in range(2):
        nisa.nc_matmul(dst.indirect(held, count) if which == "dst" else dst, **tiles, accumulate=accumulate)
    y = nl.ndarray(shape, nl.float32, nl.sbuf)
    nisa.tensor_copy(y, dst)
    return stored(y)


@rule("R-nc_matmul-24", "accept")
@rule("R-tensor.indirect-03", "holds")
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("which", ["stationary", "moving"])
def test_a_matmul_of_chosen_columns(which: str, dtype: Any) -> None:
    a, b, index = made(64, 48, dtype), made(64, 48, dtype), offsets(64, 2, 48)
    chosen = snake(index, 40, group=32)
    found = on_v4(multiplied, a, b, index, which, 40, None)
    wide_a, wide_b = (x.astype(np.float64) for x in (a, b))
    wanted = wide_a[:, chosen].T @ wide_b if which == "stationary" else wide_a.T @ wide_b[:, chosen]
    np.testing.assert_allclose(found, 2 * wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())


@rule("R-nc_matmul-24", "accept")
@pytest.mark.parametrize(("accumulate", "times"), [(None, 2), (False, 1)])
def test_a_matmul_scatters_its_columns(accumulate: Any, times: int) -> None:
    a, b = made(32, 32, ml_dtypes.bfloat16), made(32, 36, ml_dtypes.bfloat16)
    index = np.zeros((32, 2), np.int32)
    chosen = RNG.permutation(40)[:36]
    for i, offset in enumerate(chosen):
        index[i % 32, i // 32] = offset
    expected = np.full((32, 40), -1, np.float64)
    expected[:, chosen] = times * (a.astype(np.float64).T @ b.astype(np.float64))
    found = on_v4(multiplied, a, b, index, "dst", 36, accumulate)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def test_columns_that_meet_in_psum_are_added() -> None:
    a, b = made(32, 32, ml_dtypes.bfloat16), made(32, 4, ml_dtypes.bfloat16)
    index = np.full((32, 1), 7, np.int32)
    found = on_v4(multiplied, a, b, index, "dst", 4, None)
    wanted = 2 * (a.astype(np.float64).T @ b.astype(np.float64)).sum(axis=1)
    np.testing.assert_allclose(found[:, 7], wanted, rtol=1e-4, atol=1e-3)


def microscaled(a: Any, b: Any, scale_a: Any, scale_b: Any, index: Any, count: int) -> Any:
    held = loaded(index)
    stationary, scales = (loaded(x).view(d).indirect(held, count) for x, d in ((a, E4), (scale_a, nl.uint8)))
    moving = loaded(b).view(E4)
    dst = nl.ndarray((count, moving.shape[1]), nl.float32, nl.psum)
    nisa.nc_matmul_mx(dst, stationary, moving, scales, loaded(scale_b))
    y = nl.ndarray(dst.shape, nl.float32, nl.sbuf)
    nisa.tensor_copy(y, dst)
    return stored(y)


@rule("R-nc_matmul_mx-11", "accept")
def test_microscaled_data_is_gathered_with_its_scales() -> None:
    k, m, n, count = 32, 24, 8, 16
    packed = [pack(made(k, 4 * free), as_dtype(E4)) for free in (m, n)]
    scales = [RNG.integers(124, 130, (k, free)).astype(np.uint8) for free in (m, n)]
    index = offsets(k, 1, m)
    values = [
        unpack(data, as_dtype(E4)).astype(np.float64).reshape(k, -1, 4)
        * np.repeat(2.0 ** (scale[:4].astype(np.float64) - 127), 8, axis=0)[:, :, None]
        for data, scale in zip(packed, scales, strict=True)
    ]
    wanted = np.einsum("kmi,kni->mn", values[0][:, snake(index, count, 32)], values[1])
    found = on_v4(microscaled, *(x.view(np.uint8) for x in packed), *scales, index, count)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


# Data that was never written, offsets outside, addresses that overlap.


def test_only_offsets_that_are_used_must_be_written() -> None:
    def kernel(x: Any, count: int) -> Any:
        index = nl.ndarray((32, 2), nl.int32, nl.sbuf)
        nisa.memset(index[0:16, 0:1], value=3)
        nisa.memset(index[0:4, 1:2], value=5)
        y = nl.ndarray((32, count), nl.float32, nl.sbuf)
        nisa.tensor_copy(y, loaded(x).indirect(index, count))
        return stored(y)

    x = made(32, 8)
    np.testing.assert_array_equal(on_v4(kernel, x, 20), x[:, [3] * 16 + [5] * 4])
    rejects("R-tensor-08", kernel, x, 21, target="trn3")
    assert tw.verify(kernel, tw.spec((32, 8), "float32"), 20, target="trn3") == []
    (found,) = tw.verify(kernel, tw.spec((32, 8), "float32"), 21, target="trn3")
    assert found.rule == "R-tensor-08"


def test_unwritten_columns_flow_and_written_ones_are_known() -> None:
    def kernel(x: Any, index: Any, count: int) -> Any:
        held = loaded(index)
        part = nl.ndarray((16, 8), nl.float32, nl.sbuf)
        nisa.tensor_copy(part.indirect(held, count), loaded(x)[:, 0:count])
        y = nl.ndarray((16, 4), nl.float32, nl.sbuf)
        nisa.tensor_copy(y, part.indirect(held, 4))
        return stored(y)

    x, index = made(16, 8), np.arange(16, dtype=np.int32).reshape(16, 1)[::-1] % 8
    index = np.ascontiguousarray(index)
    np.testing.assert_array_equal(on_v4(kernel, x, index, 4), x[:, 0:4])
    assert "16 of 64" in rejects("R-tensor-18", kernel, x, index, 3, target="trn3").message


@pytest.mark.parametrize("offset", [8, -1, 1000])
def test_offsets_outside_of_the_tensor(offset: int) -> None:
    def kernel(x: Any, index: Any) -> None:
        nisa.tensor_copy(nl.ndarray((16, 6), nl.float32, nl.sbuf), loaded(x)[:, 0:8].indirect(loaded(index), 6))

    index = np.zeros((16, 1), np.int32)
    index[5] = offset
    index[6] = 77
    with pytest.raises(OutOfBoundsError) as caught:
        on_v4(kernel, made(16, 32), index)
    found = caught.value
    assert (found.index, found.bound, found.lane, found.diagnostic.code) == (offset, 8, 5, "E301")


def test_an_overlapping_tile_that_overwrote_a_chosen_column() -> None:
    def kernel(x: Any, index: Any) -> Any:
        a = nl.ndarray((16, 8), nl.float32, nl.sbuf, address=(0, 0))
        b = nl.ndarray((16, 8), nl.float32, nl.sbuf, address=(0, 16))
        nisa.dma_copy(a, x)
        held = loaded(index)
        nisa.memset(b[:, 0:1], value=0)
        y = nl.ndarray((16, 2), nl.float32, nl.sbuf)
        nisa.tensor_copy(y, a.indirect(held, 2))
        return stored(y)

    index = np.zeros((16, 1), np.int32)
    index[:2, 0] = 3, 5
    x = made(16, 8)
    np.testing.assert_array_equal(on_v4(kernel, x, index), x[:, [3, 5]])
    index[1] = 4
    rejects("R-tensor.address-04", kernel, x, index, target="trn3")


# Rules.


def gathers(**change: Any) -> Callable[[Any], None]:
    """A legal copy of columns with something exchanged: the tiles, their parts, or the call."""

    def kernel(x: Any) -> None:
        src = tile(change.get("src", (64, 8)), nl.float32, change.get("buffer", nl.sbuf))
        index = tile(change.get("index", (64, 1)), change.get("dtype", nl.int32), change.get("index_buffer", nl.sbuf))
        part = change.get("part", slice(0, 32))
        view = src[part].indirect(index[change.get("index_part", part)], change.get("count", 4))
        nisa.tensor_copy(tile((32, view.shape[1])), view, engine=change.get("engine", nisa.engine.unknown))

    return kernel


@rule("R-tensor.indirect-02", "reject")
@pytest.mark.parametrize(
    "change",
    [
        {"index_buffer": nl.psum},
        {"index": (64, 1, 2)},
        {"index_part": slice(0, 16)},
        {"dtype": nl.float32},
        {"count": 0},
        {"count": 33},
        {"count": 17},
        {"src": (64, 2, 8), "part": (slice(0, 32), slice(0, 2), slice(0, 4)), "index_part": slice(0, 32)},
    ],
)
def test_indices_of_a_wrong_kind(change: dict[str, Any]) -> None:
    rejects("R-tensor.indirect-02", gathers(**change), target="trn3")


@rule("R-tensor.indirect-02", "reject")
def test_tensors_in_hbm_have_no_columns() -> None:
    rejects("R-tensor.indirect-02", lambda x: x.indirect(tile((1, 1), nl.int32)), target="trn3")


@rule("R-tensor.indirect-01", "reject")
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_earlier_generations(target: str) -> None:
    rejects("R-tensor.indirect-01", gathers(), target=target)


@rule("R-tensor_copy-05", "reject")
def test_copies_of_columns_do_not_run_on_gpsimd() -> None:
    rejects("R-tensor_copy-05", gathers(engine=nisa.engine.gpsimd), target="trn3")


def placed(start: int, shape: tuple[int, int], dtype: Any = nl.float32, buffer: Any = nl.sbuf) -> Any:
    """A tile that starts at this partition."""
    return tile((start + shape[0], shape[1]), dtype, buffer)[start:]


def scatters(dst_index: int, src: int, src_index: int | None = None, buffer: Any = nl.sbuf) -> Callable[[Any], None]:
    """A copy whose tiles start at these partitions; the source is indirect where it has an index."""

    def kernel(x: Any) -> None:
        held = placed(src, (32, 4), nl.float32, buffer)
        if src_index is not None:
            held = held.indirect(placed(src_index, (32, 1), nl.int32), 4)
        dst = tile((32, 8)).indirect(placed(dst_index, (32, 1), nl.int32), 4)
        nisa.tensor_copy(dst, held)

    return kernel


@pytest.mark.parametrize(
    ("broken", "kernel"),
    [
        pytest.param(name, kernel, marks=rule(name, "reject"))
        for name, kernel in (
            ("R-tensor.indirect-04", scatters(16, 0)),
            ("R-tensor.indirect-04", gathers(index_part=slice(16, 48))),
            ("R-tensor.indirect-05", gathers(index_part=slice(32, 64))),
            ("R-tensor.indirect-06", scatters(32, 0)),
            ("R-tensor.indirect-06", scatters(0, 32)),
            ("R-tensor.indirect-07", scatters(0, 32, 32, nl.psum)),
        )
    ],
)
def test_where_tiles_start(broken: str, kernel: Any) -> None:
    rejects(broken, kernel, target="trn3")


@rule("R-tensor.indirect-04", "accept")
@rule("R-tensor.indirect-05", "accept")
@rule("R-tensor.indirect-06", "accept")
@rule("R-tensor.indirect-07", "accept")
@pytest.mark.parametrize(
    "kernel",
    [
        gathers(part=slice(32, 64)),
        scatters(32, 32),
        scatters(64, 64, 64),
        scatters(32, 32, 32, nl.psum),
        scatters(64, 32, None, nl.psum),
    ],
)
def test_tiles_that_start_where_they_may(kernel: Any) -> None:
    on_v4(kernel)


@rule("R-tensor.indirect-08", "reject")
@pytest.mark.parametrize("buffer", [nl.psum, nl.sbuf])
def test_the_scalar_engine_scatters_to_sbuf_only(buffer: Any) -> None:
    def kernel(x: Any) -> None:
        dst = tile((32, 8), buffer=buffer).indirect(tile((32, 1), nl.int32), 4)
        nisa.activation(dst, nl.exp, tile((32, 4)))

    if buffer == nl.sbuf:
        on_v4(kernel)
    else:
        rejects("R-tensor.indirect-08", kernel, target="trn3")


def chosen_tile(dtype: Any = nl.float32, buffer: Any = nl.sbuf, count: int = 4) -> Any:
    return tile((32, 8), dtype, buffer).indirect(tile((32, 1), nl.int32), count)


REFUSED: list[tuple[str, Callable[[], Any]]] = [
    ("R-tensor_tensor-07", lambda: nisa.tensor_tensor(tile((32, 4)), tile((32, 4)), chosen_tile(), nl.add)),
    (
        "R-tensor_copy_predicated-05",
        lambda: nisa.tensor_copy_predicated(tile((32, 4)), chosen_tile(), tile((32, 4), nl.uint8)),
    ),
    ("R-tensor_scalar-10", lambda: nisa.tensor_scalar(tile((32, 4)), tile((32, 4)), nl.add, chosen_tile(count=1))),
    (
        "R-tensor_scalar-10",
        lambda: nisa.tensor_scalar(
            tile((32, 4), nl.int32), chosen_tile(nl.int32), nl.multiply, 2, op1=nl.add, operand1=1
        ),
    ),
    (
        "R-nc_matmul-24",
        lambda: nisa.nc_matmul(
            tile((32, 4), nl.bfloat16, nl.psum),
            tile((32, 32), nl.bfloat16),
            chosen_tile(nl.bfloat16),
            is_transpose=True,
        ),
    ),
    (
        "R-nc_matmul-24",
        lambda: nisa.nc_matmul(
            tile((4, 4), buffer=nl.psum),
            tile((32, 4), nl.bfloat16),
            chosen_tile(nl.bfloat16),
            tile_position=(32, 0),
            tile_size=(32, 32),
        ),
    ),
    ("R-nc_matmul-24", lambda: nisa.nc_matmul(tile((4, 4), buffer=nl.psum), tile((32, 4)), chosen_tile())),
    (
        "R-nc_matmul_mx-11",
        lambda: nisa.nc_matmul_mx(
            tile((4, 8), buffer=nl.psum),
            chosen_tile(E4),
            tile((32, 8), E4),
            tile((32, 4), nl.uint8),
            tile((32, 8), nl.uint8),
        ),
    ),
    (
        "R-nc_matmul_mx-11",
        lambda: nisa.nc_matmul_mx(
            tile((4, 8), buffer=nl.psum),
            chosen_tile(E4),
            tile((32, 8), E4),
            chosen_tile(nl.uint8),
            tile((32, 8), nl.uint8),
        ),
    ),
    ("R-tensor.indirect-09", lambda: nisa.memset(chosen_tile(), value=0)),
    ("R-tensor.indirect-09", lambda: nisa.dma_copy(tile((32, 4)), chosen_tile())),
    ("R-tensor.indirect-09", lambda: nisa.reciprocal(tile((32, 4)), chosen_tile())),
    ("R-tensor.indirect-09", lambda: nisa.activation(tile((32, 4)), nl.exp, tile((32, 4)), bias=chosen_tile(count=1))),
    ("R-tensor.select-02", lambda: chosen_tile().indirect(tile((32, 1), nl.int32), 2)),
    ("R-tensor.select-04", lambda: chosen_tile()[:, 0:2]),
    ("R-tensor.select-04", lambda: chosen_tile()[0:16]),
    ("R-tensor.select-04", lambda: chosen_tile().reshape((32, 2, 2))),
    ("R-tensor.select-04", lambda: chosen_tile().permute((0, 1))),
    ("R-tensor.view-03", lambda: chosen_tile().view(nl.int32)),
    ("R-tensor.ap-09", lambda: chosen_tile().ap([[8, 32], [1, 2]])),
]


@pytest.mark.parametrize(("broken", "made"), [pytest.param(*each, marks=rule(each[0], "reject")) for each in REFUSED])
def test_refused(broken: str, made: Callable[[], Any]) -> None:
    rejects(broken, lambda x: made() and None, target="trn3")


def test_pairs_of_the_same_index_are_told_from_pairs_of_equal_ones() -> None:
    """Verdicts are remembered by what operands look like; whether two tiles are one is not seen by looking at each."""

    def kernel(x: Any, same: bool) -> None:
        index = [tile((32, 1), nl.int32) for _ in range(2)]
        for second in (0, 0 if same else 1):
            nisa.nc_matmul_mx(
                tile((4, 8), buffer=nl.psum),
                tile((32, 8), E4).indirect(index[0], 4),
                tile((32, 8), E4),
                tile((32, 8), nl.uint8).indirect(index[second], 4),
                tile((32, 8), nl.uint8),
            )

    on_v4(kernel, made(1, 1), True)
    rejects("R-nc_matmul_mx-11", kernel, made(1, 1), False, target="trn3")


# Recorded, printed, read, timed.


def recorded(x: Any, index: Any) -> Any:
    held, base = loaded(index), loaded(x)
    y = nl.ndarray((32, 20), nl.float32, nl.sbuf)
    nisa.tensor_copy(y, base.indirect(held, 20))
    nisa.activation(base[:, 4:40].indirect(held, 20), nl.exp, y)
    dst = nl.ndarray((20, 40), nl.float32, nl.psum)
    narrow = nl.ndarray((32, 40), nl.bfloat16, nl.sbuf)
    nisa.tensor_copy(narrow, base)
    nisa.nc_matmul(dst, narrow[:, ::2].indirect(held, 20), narrow)
    z = nl.ndarray((20, 40), nl.float32, nl.sbuf)
    nisa.tensor_copy(z, dst)
    return stored(z)


def test_text_reads_back_and_runs() -> None:
    x, index = made(32, 40), offsets(32, 2, 16)
    done = full_run(recorded, x, index, target="trn3")
    text = str(done.session.graph)
    graph = parse_tile(text)
    assert str(graph) == text and "by columns %t * 2 < 20 dim 1" in text
    assert verify_graph(graph, "trn3") == []
    np.testing.assert_array_equal(run_graph(graph, [x, index], "trn3")[0], done.result)


def test_text_is_checked_as_calls_are() -> None:
    text = """\
kernel pick(%x: f32[32, 8]@hbm, %i: i32[32, 1]@hbm) -> (%y: f32[32, 4]@hbm) {{
  %t = alloc f32[32, 8]@sbuf
  dma_copy %t, %x
  %at = alloc i32[32, 1]@sbuf
  dma_copy %at, %i
  %p = alloc f32[32, 4]@sbuf
  tensor_copy %p, {0}
  dma_copy %y, %p
}}
"""
    legal = "%t@(0; [8, 32], [1, 4] by columns %at * 1 < 8 dim 1)"
    assert verify_graph(parse_tile(text.format(legal)), "trn3") == []
    assert {d.rule for d in verify_graph(parse_tile(text.format(legal)), "trn2")} == {"R-tensor_copy-05"}
    for wrong, broken in (
        ("%t@(0; [8, 32], [1, 4] by columns %at * 1 < 9 dim 1)", "R-tensor.index-01"),
        ("%t@(0; [8, 32], [1, 4] by columns %p * 1 < 8 dim 1)", "R-tensor.indirect-02"),
        ("%t@(0; [8, 32], [1, 4] by columns %at@(0; [1, 1], [1, 1]) * 1 < 8 dim 1)", "R-tensor.indirect-02"),
    ):
        assert [d.rule for d in verify_graph(parse_tile(text.format(wrong)), "trn3")] == [broken]
    for unread in (
        "%x@(0; [8, 32], [1, 4] by columns %at * 1 < 8 dim 1)",
        "%t@(0; [8, 32], [1, 2], [1, 2] by columns %at * 1 < 8 dim 1)",
        "%t@(0; [8, 32], [1, 4] by columns 3 * 1 < 8 dim 1)",
    ):
        with pytest.raises(TileError) as caught:
            parse_tile(text.format(unread))
        assert caught.value.diagnostic.code.startswith("E2")


def test_timing_takes_all_columns_that_may_be_chosen() -> None:
    done = full_run(recorded, made(32, 40), offsets(32, 2, 16), target="trn3")
    view = next(op.operands[0] for op in done.session.graph.body.ops if op.definition.name == "activation")
    assert pattern_of(view, view.offset) == (0, 32, 4 * 4, ((36, 4),), 4)


def test_what_a_gather_waits_for() -> None:
    """For the index, and for a write to any column of the part that it is taken from, but not for other columns."""

    def kernel(x: Any, index: Any, first: int) -> None:
        held, base = loaded(index), loaded(x)
        nisa.activation(base[:, first : first + 1], nl.exp, base[:, first : first + 1])
        y = nl.ndarray((32, 16), nl.float32, nl.sbuf)
        nisa.tensor_copy(y, base[:, 0:20].indirect(held, 16), engine=nisa.engine.vector)

    x, index = made(32, 40), offsets(32, 1, 4)
    inside, outside = (tw.profile(kernel, x, index, first, target="trn3").latency_us for first in (5, 30))
    assert inside > outside


def test_an_indirect_view_costs_as_its_elements_do() -> None:
    done = full_run(recorded, made(32, 40), offsets(32, 2, 16), target="trn3")
    ops = [op for op in done.session.graph.body.ops if isinstance(op.definition, Record)]
    assert all(op_cost(op, get_target("trn3"))[1].interval_ns > 0 for op in ops)

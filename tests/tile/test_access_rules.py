"""The rules of the sections tensor and tensor.*: what each accepts and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from tests.kit import accepts, full_run, nisa, nl, rejects, run, tile
from tilewright.errors import TileAttributeError, TileError, TileIndexError, TileTypeError, TileValueError
from tilewright.tile.access import Slice

Make = Callable[[], Any]
rule = pytest.mark.rule


def sb(*shape: int, dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype, nl.sbuf)


def ps(*shape: int, dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype, nl.psum)


def hbm(*shape: int, dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype, nl.shared_hbm)


def index(value: int = 0, dtype: Any = nl.int32) -> Any:
    return tile((1, 1), dtype, value=value)


def rows(count: int = 4, dtype: Any = nl.int32) -> Any:
    return tile((count, 1), dtype)


ACCEPT: list[tuple[pytest.MarkDecorator, Make]] = [
    (rule("R-tensor-01", "accept"), lambda: sb(128, 4)),
    (rule("R-tensor-02", "accept"), lambda: ps(1, 1)),
    (rule("R-tensor-03", "accept"), lambda: nisa.dma_copy(sb(2, 2, 2, 2, 2), tile((2, 2, 2, 2, 2)))),
    (rule("R-tensor-04", "accept"), lambda: sb(1, 1)),
    (rule("R-tensor-05", "accept"), lambda: nl.ndarray((4, 4), nl.float32, nl.private_hbm)),
    (rule("R-tensor-06", "accept"), lambda: sb(4, 4, dtype=nl.float8_e5m2)),
    (rule("R-tensor-07", "accept"), lambda: sb(128, 4, 4)),
    (rule("R-tensor-09", "accept"), lambda: ps(128, 512)),
    (rule("R-tensor-09", "accept"), lambda: ps(128, 1024, dtype=nl.bfloat16)),
    (
        rule("R-tensor-20", "accept"),
        lambda: [nl.ndarray((4, 4), nl.float32, nl.sbuf, name=name) for name in ("a", "b")],
    ),
    (rule("R-tensor.index-01", "accept"), lambda: sb(8, 16)[0:8, 15:16]),
    (rule("R-tensor.index-01", "accept"), lambda: sb(8, 16)[-8:, -1]),
    (rule("R-tensor.index-04", "accept"), lambda: sb(8, 16)[2:6, ::3]),
    (rule("R-tensor.index-04", "accept"), lambda: sb(8, 16)[2:4:2, :]),
    (rule("R-tensor.index-04", "accept"), lambda: hbm(8, 16)[::2]),
    (rule("R-tensor.index-05", "accept"), lambda: sb(8, 4, 4)[1, ..., -1]),
    (rule("R-tensor.index-05", "accept"), lambda: hbm(8, 4, 4)[Slice(2, 3), np.int32(1), 0:4:2]),
    (rule("R-tensor.permute-01", "accept"), lambda: sb(4, 2, 3).permute((0, 2, 1))),
    (rule("R-tensor.permute-02", "accept"), lambda: hbm(4, 2, 3).permute([2, 0, 1])),
    (rule("R-tensor.broadcast-01", "accept"), lambda: sb(4, 1, 3).broadcast(1, 8)),
    (rule("R-tensor.broadcast-02", "accept"), lambda: hbm(1, 3).broadcast(0, 8)),
    (rule("R-tensor.expand_squeeze-01", "accept"), lambda: sb(4, 3).expand_dim(1).squeeze_dim(1)),
    (rule("R-tensor.expand_squeeze-01", "accept"), lambda: hbm(4, 3).expand_dim(0).squeeze_dim(0)),
    (rule("R-tensor.expand_squeeze-02", "accept"), lambda: sb(4, 1, 3).squeeze_dim(1)),
    (rule("R-tensor.reshape-01", "accept"), lambda: sb(4, 6).reshape((4, 2, 3))),
    (rule("R-tensor.reshape-02", "accept"), lambda: sb(4, 6).reshape(4, 3, 2)),
    (rule("R-tensor.reshape-03", "accept"), lambda: sb(4, 2, 6)[:, 0:1].reshape((4, 6))),
    (
        rule("R-tensor.reshape-04", "holds"),
        lambda: [hbm(4, 6).reshape((24,)), nl.ndarray((4, 6), nl.float32, nl.hbm).reshape((6, 4))],
    ),
    (rule("R-tensor.reshape_dim-01", "accept"), lambda: sb(4, 24).reshape_dim(1, (4, -1))),
    (
        rule("R-tensor.reshape_dim-02", "accept"),
        lambda: [sb(4, 24).reshape_dim(0, (4,)), hbm(4, 6).reshape_dim(0, (2, 2))],
    ),
    (rule("R-tensor.flatten_dims-01", "accept"), lambda: sb(4, 2, 3, 4).flatten_dims(1, 2)),
    (rule("R-tensor.flatten_dims-02", "accept"), lambda: hbm(4, 2, 3).flatten_dims(0, 1)),
    (rule("R-tensor.select-01", "accept"), lambda: sb(4, 8, 3).select(1, 7)),
    (rule("R-tensor.select-02", "accept"), lambda: hbm(4, 8, 3).select(0, index())),
    (rule("R-tensor.select-03", "accept"), lambda: sb(4, 8, 3).select(1, index())),
    (rule("R-tensor.select-04", "accept"), lambda: hbm(4, 8, 3).select(1, index())[0:2, 0:2]),
    (rule("R-tensor.select-04", "accept"), lambda: hbm(8, 6).vector_select(0, rows())[:, 1:4]),
    (rule("R-tensor.vector_select-01", "accept"), lambda: hbm(8, 6).vector_select(0, rows())),
    (
        rule("R-tensor.vector_select-02", "accept"),
        lambda: nl.ndarray((8, 6), nl.float32, nl.hbm).vector_select(0, rows()),
    ),
    (rule("R-tensor.vector_select-03", "accept"), lambda: hbm(8, 6).vector_select(0, rows(5, nl.uint32))),
    (rule("R-tensor.vector_select-04", "accept"), lambda: hbm(8, 6).view(nl.int32).vector_select(0, rows())),
    (rule("R-tensor.view-01", "accept"), lambda: sb(4, 8)[:, 0:4].view(nl.uint8)),
    (rule("R-tensor.view-02", "accept"), lambda: sb(4, 8, dtype=nl.uint8).view(nl.float32)),
    (rule("R-tensor.view-03", "accept"), lambda: hbm(4, 8).view(nl.int32).select(0, index())),
    (rule("R-tensor.ap-01", "accept"), lambda: sb(4, 8).ap([(8, 4), (1, 8)])),
    (rule("R-tensor.ap-02", "accept"), lambda: sb(4, 8).ap([[16, 4], [2, 4]], dtype=nl.bfloat16)),
    (rule("R-tensor.ap-03", "accept"), lambda: sb(4, 8).ap([[8, 2], [-1, 8]], offset=8 + 7)),
    (rule("R-tensor.ap-03", "accept"), lambda: hbm(4, 8).ap([[1, 8], [0, 3], [8, 4]])),
    (rule("R-tensor.ap-04", "accept"), lambda: hbm(8, 6).ap([[6, 4], [1, 6]], vector_offset=rows())),
    (rule("R-tensor.ap-05", "accept"), lambda: hbm(8, 6).ap([[6, 4], [1, 6]], scalar_offset=index())),
    (rule("R-tensor.ap-06", "accept"), lambda: hbm(8, 6).ap([[6, 4], [1, 6]], vector_offset=rows(), indirect_dim=0)),
]


@pytest.mark.parametrize("make", [pytest.param(make, marks=mark) for mark, make in ACCEPT])
def test_accepts(make: Make) -> None:
    def kernel(x: Any) -> None:
        make()

    accepts(kernel)


@rule("R-tensor.ap-10", "accept")
def test_a_start_that_is_whole_elements_of_the_other_type() -> None:
    def kernel(x: Any) -> None:
        sb(4, 8)[:, 2:].ap([[16, 4], [1, 8]], dtype=nl.int16)

    accepts(kernel, warns="R-tensor.ap-09")


REJECT: list[tuple[pytest.MarkDecorator, Make, type[TileError]]] = [
    (rule("R-tensor-01", "reject"), lambda: sb(129, 4), TileError),
    (rule("R-tensor-01", "reject"), lambda: ps(256, 4), TileError),
    (rule("R-tensor-02", "reject"), lambda: sb(128), TileError),
    (rule("R-tensor-02", "reject"), lambda: ps(), TileError),
    (rule("R-tensor-02", "reject"), lambda: sb(4, 1).squeeze_dim(1), TileError),
    (rule("R-tensor-02", "reject"), lambda: sb(4, 1).ap([[1, 4]]), TileError),
    (rule("R-tensor-02", "reject"), lambda: sb(1, 1).reshape((1,)), TileError),
    (
        rule("R-tensor-03", "reject"),
        lambda: nisa.dma_copy(tile((2, 32)), hbm(*(2,) * 6).permute((0, 5, 4, 3, 2, 1))),
        TileError,
    ),
    (rule("R-tensor-03", "reject"), lambda: nisa.memset(sb(*(2,) * 6), value=0.0), TileError),
    (rule("R-tensor-03", "reject"), lambda: nisa.memset(sb(2, 32).reshape((2,) * 6), value=0.0), TileError),
    (rule("R-tensor-04", "reject"), lambda: sb(4, 0), TileError),
    (rule("R-tensor-04", "reject"), lambda: hbm(-1), TileError),
    (rule("R-tensor-04", "reject"), lambda: sb(4, cast(int, 2.5)), TileTypeError),
    (rule("R-tensor-04", "reject"), lambda: sb(4, 1).broadcast(1, 0), TileError),
    (rule("R-tensor-05", "reject"), lambda: nl.ndarray((4, 4), nl.float32, "sbuf"), TileTypeError),
    (rule("R-tensor-06", "reject"), lambda: sb(4, 4, dtype=np.float64), TileTypeError),
    (rule("R-tensor-06", "reject"), lambda: sb(4, 4, dtype="int64"), TileTypeError),
    (rule("R-tensor-07", "reject"), lambda: cast(Any, nl).par_dim(128), TileAttributeError),
    (rule("R-tensor-09", "reject"), lambda: ps(128, 513), TileError),
    (rule("R-tensor-09", "reject"), lambda: ps(128, 1025, dtype=nl.bfloat16), TileError),
    (
        rule("R-tensor-20", "reject"),
        lambda: [nl.ndarray((4, 4), nl.float32, nl.sbuf, name="a") for _ in range(2)],
        TileError,
    ),
    (rule("R-tensor.index-01", "reject"), lambda: sb(8, 16)[0:9], TileIndexError),
    (rule("R-tensor.index-01", "reject"), lambda: sb(8, 16)[:, 16], TileIndexError),
    (rule("R-tensor.index-01", "reject"), lambda: sb(8, 16)[:, -17], TileIndexError),
    (rule("R-tensor.index-01", "reject"), lambda: sb(8, 16)[:, np.int64(16)], TileIndexError),
    (rule("R-tensor.index-01", "reject"), lambda: sb(8, 16)[:, 4:4], TileIndexError),
    (rule("R-tensor.index-01", "reject"), lambda: sb(8, 16)[:, 8:4], TileIndexError),
    (rule("R-tensor.index-01", "reject"), lambda: sb(8, 16)[:, ::-1], TileIndexError),
    (rule("R-tensor.index-01", "reject"), lambda: sb(8, 16)[:, ::0], TileIndexError),
    (rule("R-tensor.index-01", "reject"), lambda: sb(8, 16)[:, Slice(10, 7)], TileIndexError),
    (rule("R-tensor.index-01", "reject"), lambda: sb(8, 16)[:, Slice(index(), 17)], TileIndexError),
    (rule("R-tensor.index-01", "reject"), lambda: hbm(8, 16).slice(1, 0, 17), TileIndexError),
    (rule("R-tensor.index-01", "reject"), lambda: hbm(8, 16).slice(1, -4, 8), TileIndexError),
    (rule("R-tensor.index-01", "reject"), lambda: hbm(8, 16).slice(2, 0, 1), TileIndexError),
    (rule("R-tensor.index-03", "reject"), lambda: hbm(1).squeeze_dim(0), TileError),
    (rule("R-tensor.index-03", "reject"), lambda: hbm(1).reshape(()), TileError),
    (rule("R-tensor.index-04", "reject"), lambda: sb(8, 16)[::2], TileError),
    (rule("R-tensor.index-04", "reject"), lambda: ps(8, 16).slice(0, 0, 8, 2), TileError),
    (rule("R-tensor.index-05", "reject"), lambda: sb(8, 16)[0, 0, 0], TileError),
    (rule("R-tensor.index-05", "reject"), lambda: sb(8, 16)[..., 0, ...], TileError),
    (rule("R-tensor.index-05", "reject"), lambda: sb(8, 16)[[0, 1]], TileTypeError),
    (rule("R-tensor.index-05", "reject"), lambda: sb(8, 16)[np.arange(4)], TileTypeError),
    (rule("R-tensor.index-05", "reject"), lambda: sb(8, 16)[True], TileTypeError),
    (rule("R-tensor.index-05", "reject"), lambda: sb(8, 16)[None], TileTypeError),
    (rule("R-tensor.index-05", "reject"), lambda: sb(8, 16)[:, 1.5], TileTypeError),
    (rule("R-tensor.index-05", "reject"), lambda: sb(8, 16)[:, 0:2.5], TileTypeError),
    (rule("R-tensor.index-05", "reject"), lambda: sb(8, 16)[:, index() : 4], TileTypeError),
    (rule("R-tensor.index-07", "reject"), lambda: sb(8, 16).__setitem__(slice(0, 4), tile((4, 8))), TileError),
    (rule("R-tensor.permute-01", "reject"), lambda: sb(4, 2, 3).permute((0, 1)), TileError),
    (rule("R-tensor.permute-01", "reject"), lambda: hbm(4, 2, 3).permute((0, 1, 1)), TileError),
    (rule("R-tensor.permute-01", "reject"), lambda: hbm(4, 6).rearrange(("a",), ("a",)), TileError),
    (rule("R-tensor.permute-01", "reject"), lambda: hbm(4, 6).rearrange(("a", "b"), ("a", "c")), TileError),
    (rule("R-tensor.permute-01", "reject"), lambda: hbm(4, 6).rearrange(("a", "a"), ("a", "a")), TileError),
    (rule("R-tensor.permute-01", "reject"), lambda: hbm(4, 6).rearrange(("a", "b"), ("b", "a"), {"c": 2}), TileError),
    (rule("R-tensor.permute-02", "reject"), lambda: sb(4, 2, 3).permute((1, 0, 2)), TileError),
    (rule("R-tensor.permute-02", "reject"), lambda: hbm(8, 6).vector_select(0, rows()).permute((1, 0)), TileError),
    (rule("R-tensor.broadcast-01", "reject"), lambda: sb(4, 2, 3).broadcast(1, 4), TileError),
    (rule("R-tensor.broadcast-02", "reject"), lambda: sb(1, 3).broadcast(0, 4), TileError),
    (rule("R-tensor.expand_squeeze-01", "reject"), lambda: sb(4, 3).expand_dim(0), TileError),
    (rule("R-tensor.expand_squeeze-01", "reject"), lambda: sb(1, 4, 3).squeeze_dim(0), TileError),
    (rule("R-tensor.expand_squeeze-01", "reject"), lambda: hbm(8, 6).vector_select(0, rows()).expand_dim(0), TileError),
    (
        rule("R-tensor.expand_squeeze-01", "reject"),
        lambda: hbm(8, 6).vector_select(0, rows(1)).squeeze_dim(0),
        TileError,
    ),
    (rule("R-tensor.expand_squeeze-02", "reject"), lambda: sb(4, 2, 3).squeeze_dim(1), TileError),
    (rule("R-tensor.reshape-01", "reject"), lambda: sb(4, 6).reshape((4, 7)), TileValueError),
    (rule("R-tensor.reshape-01", "reject"), lambda: hbm(4, 6).reshape((4, 2.5)), TileTypeError),
    (rule("R-tensor.reshape-02", "reject"), lambda: sb(4, 6).reshape((2, 12)), TileError),
    (rule("R-tensor.reshape-02", "reject"), lambda: hbm(8, 6).vector_select(0, rows()).reshape((2, 12)), TileError),
    (rule("R-tensor.reshape-03", "reject"), lambda: sb(4, 2, 6)[:, :, 0:3].reshape((4, 6)), TileError),
    (rule("R-tensor.reshape-03", "reject"), lambda: sb(4, 2, 6).permute((0, 2, 1)).reshape((4, 12)), TileError),
    (rule("R-tensor.reshape-03", "reject"), lambda: sb(1, 2, 6)[:, :, 0:3].reshape((1, 6)), TileError),
    (rule("R-tensor.reshape_dim-01", "reject"), lambda: sb(4, 24).reshape_dim(1, (5, -1)), TileValueError),
    (rule("R-tensor.reshape_dim-01", "reject"), lambda: sb(4, 24).reshape_dim(1, (-1, -1)), TileValueError),
    (rule("R-tensor.reshape_dim-02", "reject"), lambda: sb(4, 24).reshape_dim(0, (2, 2)), TileError),
    (
        rule("R-tensor.reshape_dim-02", "reject"),
        lambda: hbm(8, 6).vector_select(0, rows()).reshape_dim(0, (2, 2)),
        TileError,
    ),
    (rule("R-tensor.flatten_dims-01", "reject"), lambda: sb(4, 2, 3).permute((0, 2, 1)).flatten_dims(1, 2), TileError),
    (rule("R-tensor.flatten_dims-01", "reject"), lambda: sb(4, 2, 3).flatten_dims(2, 1), TileError),
    (rule("R-tensor.flatten_dims-02", "reject"), lambda: sb(4, 2, 3).flatten_dims(0, 1), TileError),
    (
        rule("R-tensor.flatten_dims-02", "reject"),
        lambda: hbm(8, 6).vector_select(0, rows()).flatten_dims(0, 1),
        TileError,
    ),
    (rule("R-tensor.select-01", "reject"), lambda: sb(4, 8, 3).select(1, 8), TileIndexError),
    (rule("R-tensor.select-01", "reject"), lambda: sb(4, 8, 3).select(1, -1), TileIndexError),
    (rule("R-tensor.select-02", "reject"), lambda: hbm(4, 8, 3).select(0, index()).select(0, index()), TileError),
    (rule("R-tensor.select-02", "reject"), lambda: hbm(4, 8, 3).select(1, index()).vector_select(0, rows()), TileError),
    (rule("R-tensor.select-02", "reject"), lambda: hbm(8, 6).vector_select(0, rows())[:, Slice(index(), 2)], TileError),
    (
        rule("R-tensor.select-02", "reject"),
        lambda: hbm(8, 6).vector_select(0, rows()).ap([[6, 4], [1, 6]], scalar_offset=index()),
        TileError,
    ),
    (rule("R-tensor.select-03", "reject"), lambda: sb(4, 8).select(0, index()), TileError),
    (rule("R-tensor.select-03", "reject"), lambda: sb(4, 8)[Slice(index(), 2)], TileError),
    (
        rule("R-tensor.select-03", "reject"),
        lambda: sb(4, 8).ap([[8, 1], [1, 8]], scalar_offset=index(), indirect_dim=0),
        TileError,
    ),
    (rule("R-tensor.select-04", "reject"), lambda: hbm(8, 6).vector_select(0, rows())[0:2], TileError),
    (rule("R-tensor.select-04", "reject"), lambda: hbm(8, 6).vector_select(0, rows()).select(0, 1), TileError),
    (rule("R-tensor.select-04", "reject"), lambda: hbm(8, 6)[Slice(index(), 4)][1:3], TileError),
    (rule("R-tensor.select-04", "reject"), lambda: hbm(8, 6)[Slice(index(), 4)].permute((1, 0))[:, 1:3], TileError),
    (rule("R-tensor.select-04", "reject"), lambda: hbm(8, 6)[Slice(index(), 4)].expand_dim(0)[0, 1], TileError),
    (
        rule("R-tensor.select-04", "reject"),
        lambda: hbm(2, 8, 6)[:, Slice(index(), 4)].reshape((2, 4, 3, 2))[:, 1],
        TileError,
    ),
    (rule("R-tensor.select-04", "reject"), lambda: hbm(8, 6).vector_select(0, rows(1)).broadcast(0, 4), TileError),
    (rule("R-tensor.vector_select-01", "reject"), lambda: hbm(8, 6).vector_select(1, rows()), TileError),
    (rule("R-tensor.vector_select-02", "reject"), lambda: sb(8, 6).vector_select(0, rows()), TileError),
    (
        rule("R-tensor.vector_select-03", "reject"),
        lambda: hbm(8, 6).vector_select(0, tile((4, 2), nl.int32)),
        TileError,
    ),
    (
        rule("R-tensor.vector_select-03", "reject"),
        lambda: hbm(8, 6).vector_select(0, hbm(4, 1, dtype=nl.int32)),
        TileError,
    ),
    (rule("R-tensor.vector_select-03", "reject"), lambda: hbm(8, 6).vector_select(0, rows(4, nl.float32)), TileError),
    (rule("R-tensor.vector_select-04", "reject"), lambda: hbm(8, 6).vector_select(0, rows()).view(nl.int32), TileError),
    (rule("R-tensor.view-01", "reject"), lambda: sb(4, 8)[:, ::2].view(nl.uint8), TileError),
    (rule("R-tensor.view-01", "reject"), lambda: sb(4, 2, 3).permute((0, 2, 1)).view(nl.int32), TileError),
    (rule("R-tensor.view-02", "reject"), lambda: sb(4, 6, dtype=nl.uint8).view(nl.float32), TileError),
    (rule("R-tensor.view-02", "reject"), lambda: sb(4, 8, dtype=nl.uint8)[:, 1:5].view(nl.float32), TileError),
    (rule("R-tensor.view-02", "reject"), lambda: sb(4, 6, dtype=nl.uint8)[:, 0:4].view(nl.float32), TileError),
    (rule("R-tensor.view-03", "reject"), lambda: hbm(4, 8).select(0, index()).view(nl.int32), TileError),
    (rule("R-tensor.ap-01", "reject"), lambda: sb(4, 8).ap([]), TileError),
    (rule("R-tensor.ap-01", "reject"), lambda: sb(4, 8).ap([[8, 4], [1]]), TileTypeError),
    (rule("R-tensor.ap-01", "reject"), lambda: sb(4, 8).ap([[8, 4], [1, 0]]), TileTypeError),
    (rule("R-tensor.ap-01", "reject"), lambda: sb(4, 8).ap([8, 4]), TileTypeError),
    (rule("R-tensor.ap-01", "reject"), lambda: sb(4, 8).ap([[8, 4], [1.5, 2]]), TileTypeError),
    (rule("R-tensor.ap-02", "reject"), lambda: sb(16, 32).ap([[64, 8], [1, 32]]), TileError),
    (rule("R-tensor.ap-02", "reject"), lambda: sb(4, 8).ap([[8, 4], [1, 8]], dtype=nl.bfloat16), TileError),
    (rule("R-tensor.ap-03", "reject"), lambda: nisa.dma_copy(hbm(4, 8), sb(4, 8).ap([[8, 4], [1, 9]])), TileIndexError),
    (
        rule("R-tensor.ap-03", "reject"),
        lambda: nisa.dma_copy(hbm(4, 8), sb(4, 8).ap([[8, 4], [1, 8]], offset=1)),
        TileIndexError,
    ),
    (
        rule("R-tensor.ap-03", "reject"),
        lambda: nisa.dma_copy(hbm(4, 8), sb(4, 8).ap([[8, 4], [1, 8]], offset=8)),
        TileIndexError,
    ),
    (
        rule("R-tensor.ap-03", "reject"),
        lambda: nisa.dma_copy(hbm(4, 8), hbm(4, 8).ap([[8, 5], [1, 8]])),
        TileIndexError,
    ),
    (
        rule("R-tensor.ap-03", "reject"),
        lambda: nisa.dma_copy(hbm(4, 8), hbm(4, 8).ap([[-1, 3]], offset=1)),
        TileIndexError,
    ),
    (
        rule("R-tensor.ap-04", "reject"),
        lambda: hbm(8, 6).ap([[6, 4]], scalar_offset=index(), vector_offset=rows()),
        TileError,
    ),
    (
        rule("R-tensor.ap-05", "reject"),
        lambda: hbm(8, 6).ap([[6, 4], [1, 6]], scalar_offset=tile((1, 2), nl.int32)),
        TileError,
    ),
    (
        rule("R-tensor.ap-05", "reject"),
        lambda: hbm(8, 6).ap([[6, 4], [1, 6]], scalar_offset=index(0, nl.float32)),
        TileError,
    ),
    (rule("R-tensor.ap-05", "reject"), lambda: hbm(8, 6).ap([[6, 4], [1, 6]], scalar_offset="3"), TileTypeError),
    (rule("R-tensor.ap-06", "reject"), lambda: sb(8, 6).ap([[6, 4], [1, 6]], vector_offset=rows()), TileError),
    (
        rule("R-tensor.ap-06", "reject"),
        lambda: hbm(8, 6).ap([[6, 4], [1, 6]], vector_offset=rows(), indirect_dim=1),
        TileError,
    ),
    (rule("R-tensor.ap-06", "reject"), lambda: hbm(8, 6).ap([[6, 4], [1, 6]], vector_offset=rows(3)), TileError),
    (
        rule("R-tensor.ap-06", "reject"),
        lambda: hbm(8, 6).ap([[6, 4], [1, 6]], vector_offset=rows(4, nl.float32)),
        TileError,
    ),
    (rule("R-tensor.ap-09", "reject"), lambda: hbm(8, 6).vector_select(0, rows()).ap([[6, 4], [1, 6]]), TileError),
    (
        rule("R-tensor.ap-10", "reject"),
        lambda: sb(4, 8, dtype=nl.uint8)[:, 1:].ap([[2, 4], [1, 1]], dtype=nl.float32),
        TileError,
    ),
    (
        rule("R-tensor.ap-10", "reject"),
        lambda: sb(4, 6, dtype=nl.uint8).ap([[1, 4], [1, 1]], dtype=nl.float32),
        TileError,
    ),
]


@pytest.mark.parametrize(
    ("broken", "make", "error"), [pytest.param(mark.args[0], make, error, marks=mark) for mark, make, error in REJECT]
)
def test_rejects(broken: str, make: Make, error: type[TileError]) -> None:
    def kernel(x: Any) -> None:
        make()

    with pytest.raises(error):
        run(kernel)
    found = rejects(broken, kernel)
    assert found.location is not None and found.location.file == __file__
    assert "/tilewright/" not in str(found)


# Rules of kind sem: what an access means.


@pytest.mark.rule("R-tensor.index-02", "holds")
@pytest.mark.rule("R-tensor.index-02", "accept")
@pytest.mark.parametrize("memory", [nl.sbuf, nl.psum])
def test_integer_indices_on_chip_keep_two_dims(memory: Any) -> None:
    def kernel(x: Any) -> None:
        t = nl.ndarray((8, 4, 3), nl.float32, memory)
        assert t[2].shape == (1, 4, 3) and t[2].offset == 24
        assert t[2, 1].shape == (1, 3)
        assert t[2, 1, 0].shape == (1, 1)
        assert t[:, 1, 2].shape == (8, 1) and t[:, 1, 2].strides == (12, 1)
        assert t.select(0, 2).shape == (1, 4, 3)
        assert nl.ndarray((8, 4), nl.float32, memory)[:, 3].shape == (8, 1)

    run(kernel)


@pytest.mark.rule("R-tensor.index-03", "accept")
def test_integer_indices_in_hbm_drop_dims_down_to_one() -> None:
    def kernel(x: Any) -> None:
        t = hbm(8, 4, 3)
        assert t[2].shape == (4, 3)
        assert t[2, 1].shape == (3,)
        assert t[2, 1, 0].shape == (1,)
        assert t[:, 1, 0].shape == (8,)
        assert t.select(2, 1).shape == (8, 4)

    run(kernel)


@pytest.mark.rule("R-tensor.index-06", "holds")
def test_all_partitions_follow_one_free_pattern() -> None:
    def kernel(x: Any) -> Any:
        t = sb(8, 6)
        nisa.dma_copy(t, x)
        out = hbm(5, 2, 2)
        nisa.dma_copy(out, t.ap([[6, 5], [3, 2], [1, 2]], offset=2 * 6 + 1))
        return out

    x = np.arange(48, dtype=np.float32).reshape(8, 6)
    np.testing.assert_array_equal(run(kernel, x), np.stack([x[2:7, 1:3], x[2:7, 4:6]], axis=1))


@pytest.mark.rule("R-tensor.index-07", "accept")
def test_assignment_copies_a_tile_or_fills_with_a_number() -> None:
    def kernel(x: Any) -> Any:
        t = sb(8, 6)
        t[...] = x
        t[:, 1:3] = 7.0
        t[:, 4:6] = t[:, 0:2]
        out = hbm(8, 6)
        out[...] = t
        return out

    x = np.random.default_rng(0).standard_normal((8, 6)).astype(np.float32)
    expected = x.copy()
    expected[:, 1:3] = 7
    expected[:, 4:6] = expected[:, 0:2]
    np.testing.assert_array_equal(run(kernel, x), expected)


@pytest.mark.rule("R-tensor.ap-07", "holds")
def test_with_a_vector_offset_the_tensor_gives_the_row_stride() -> None:
    def kernel(x: Any, chosen: Any) -> Any:
        at = sb(4, 1, dtype=nl.int32)
        nisa.dma_copy(at, chosen)
        out = hbm(4, 3)
        nisa.dma_copy(out, x.ap([[999, 4], [2, 3]], offset=1, vector_offset=at))
        return out

    x = np.arange(48, dtype=np.float32).reshape(8, 6)
    chosen = np.array([[7], [0], [3], [3]], np.int32)
    np.testing.assert_array_equal(run(kernel, x, chosen), x[chosen[:, 0], 1::2])


@pytest.mark.rule("R-tensor.ap-08", "holds")
@pytest.mark.parametrize("reshaped", [False, True])
def test_a_scalar_offset_counts_in_steps_of_its_dim(reshaped: bool) -> None:
    def kernel(x: Any) -> Any:
        base = x.reshape((16, 3)) if reshaped else x
        out = hbm(2, 3)
        nisa.dma_copy(out, base.ap([[6, 2], [1, 3]], offset=1, scalar_offset=index(3), indirect_dim=0))
        return out

    x = np.arange(48, dtype=np.float32)
    start = 1 + 3 * (3 if reshaped else 6)
    expected = np.stack([x[start : start + 3], x[start + 6 : start + 9]])
    np.testing.assert_array_equal(run(kernel, x.reshape(8, 6)), expected)


@pytest.mark.rule("R-tensor.ap-09", "holds")
@pytest.mark.rule("R-tensor.ap-09", "accept")
def test_ap_on_a_view_adds_the_views_offset_and_warns() -> None:
    def kernel(x: Any) -> Any:
        out = hbm(4, 2)
        nisa.dma_copy(out, x[:, 2:].ap([[6, 4], [1, 2]], offset=1))
        return out

    x = np.arange(48, dtype=np.float32).reshape(8, 6)
    done = full_run(kernel, x)
    np.testing.assert_array_equal(done.result, x[:4, 3:5])
    assert [(d.code, d.rule, d.severity) for d in done.diagnostics] == [("W101", "R-tensor.ap-09", "warning")]


def test_ap_replaces_the_pattern_of_an_earlier_ap() -> None:
    def kernel(x: Any) -> None:
        t = sb(128, 256)
        inner = t.ap(pattern=[[256, 128], [2, 128]])
        outer = inner.ap(pattern=[[256, 128], [1, 64]])
        assert outer.get_pattern() == [[256, 128], [1, 64]] and outer.offset == 0

    assert full_run(kernel).diagnostics == []


def test_the_index_tile_lives_as_long_as_the_view_that_uses_it() -> None:
    def kernel(x: Any) -> Any:
        views = [x.ap([[6, 1], [1, 6]], scalar_offset=index(row)) for row in range(3)]
        views += [x.select(0, index(4)).expand_dim(0), x[Slice(index(5), 1)], x.vector_select(0, rows(1))]
        out = hbm(len(views), 6)
        for position, view in enumerate(views):
            assert view.is_indirect()
            nisa.dma_copy(out[position : position + 1], view)
        return out

    x = np.random.default_rng(0).standard_normal((8, 6)).astype(np.float32)
    np.testing.assert_array_equal(run(kernel, x), x[[0, 1, 2, 4, 5, 0]])


def test_lenient_reshapes_across_partitions_by_a_copy() -> None:
    def kernel(x: Any) -> Any:
        column = sb(8, 1)
        nisa.dma_copy(column, x)
        out = hbm(1, 8)
        nisa.dma_copy(out, column.reshape((1, 8)))
        return out

    x = np.arange(8, dtype=np.float32).reshape(8, 1)
    rejects("R-tensor.reshape-02", kernel, x)
    done = full_run(kernel, x, profile="lenient")
    np.testing.assert_array_equal(done.result, x.T)
    assert [d.rule for d in done.diagnostics] == ["R-tensor.reshape-02"]


@pytest.mark.parametrize("make", [lambda: sb(4, 8)[:, 8], lambda: sb(4, 8).select(1, 8), lambda: sb(4, 8)[:, 3:9]])
def test_what_is_out_of_range_gets_told_the_range(make: Make) -> None:
    with pytest.raises(TileIndexError) as caught:
        run(lambda x: make())
    hint = caught.value.diagnostic.hint
    assert hint is not None and ("0 to 7" in hint or "<= 8" in hint)


def outside(x: Any, use: Callable[[Any], Any] | None) -> None:
    """A pattern that ends one element after its tile, made and perhaps used."""
    t = tile((4, 8))
    made = t.ap([[8, 4], [1, 8]], offset=1)
    if use is not None:
        nisa.tensor_copy(tile((4, 7)), use(made))


@pytest.mark.rule("R-tensor.ap-03", "accept")
@pytest.mark.parametrize("profile", ["strict", "lenient"])
@pytest.mark.parametrize("use", [None, lambda made: made[:, 0:7]])
def test_a_pattern_that_reaches_outside_may_be_made(profile: str, use: Any) -> None:
    accepts(outside, np.zeros((1, 1), np.float32), use, profile=profile)


@pytest.mark.rule("R-tensor.ap-03", "reject")
@pytest.mark.parametrize("profile", ["strict", "lenient"])
def test_a_pattern_that_reaches_outside_is_not_used(profile: str) -> None:
    found = rejects("R-tensor.ap-03", outside, np.zeros((1, 1), np.float32), lambda made: made[:, 1:], profile=profile)
    assert "tensor_copy" in found.message and "elements 2..8" in found.message


@pytest.mark.rule("R-tensor.ap-02", "reject")
def test_a_pattern_of_a_slice_steps_over_partitions_of_the_storage() -> None:
    def kernel(x: Any, step: int) -> Any:
        whole = tile((4, 8))
        nisa.dma_copy(whole, x)
        out = nl.ndarray((4, 3), nl.float32, nl.shared_hbm)
        nisa.dma_copy(out, whole[:, 2:6].ap([[step, 4], [1, 3]], offset=1))
        return out

    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_array_equal(run(kernel, x, 8), x[:, 3:6])
    rejects("R-tensor.ap-02", kernel, x, 4)
    done = full_run(kernel, x, 4, profile="lenient")
    np.testing.assert_array_equal(done.result, x[:, 3:6])
    assert "R-tensor.ap-02" in [found.rule for found in done.diagnostics]
    rejects("R-tensor.ap-02", kernel, x, 5, profile="lenient")


def test_after_a_pattern_that_reaches_outside_checking_goes_on() -> None:
    def kernel(x: Any) -> None:
        outside(x, lambda made: made[:, 1:])
        nisa.tensor_copy(tile((4, 4)), tile((4, 8)))

    found = full_run(kernel, np.zeros((1, 1), np.float32), collect=True).diagnostics
    rules = [d.rule for d in found if d.severity == "error"]
    assert rules[0] == "R-tensor.ap-03" and len(rules) > 1

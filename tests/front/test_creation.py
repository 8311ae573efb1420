"""Making arrays inside a traced function, against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.front.arrays import DTYPES, agreement, sample
from tests.front.kit import BFLOAT16, check, check_error, ops, refused


@pytest.mark.req("S4-44")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arrays_like_another(dtype: np.dtype):
    x = sample(dtype, (2, 3, 4), np.random.default_rng(1))
    options: list[dict[str, Any]] = [{}, {"dtype": "f4"}, {"dtype": np.int8}, {"shape": 5}, {"shape": (5,)}]
    options += [{"shape": (2, 0)}, {"order": "F"}, {"dtype": BFLOAT16, "shape": ()}, {"shape": [2, 2], "subok": False}]
    fills = (0, 1.5, -1, np.nan, np.float32(2.7), 300, True, [1, 2, 3, 4], np.arange(24).reshape(2, 3, 4))
    with agreement() as agree:
        for option in options:
            agree(lambda x, o=option: np.zeros_like(x, **o), x)
            agree(lambda x, o=option: np.ones_like(x, **o), x)
            agree(lambda x, o=option: np.empty_like(x, **o).shape, x)
        for fill, option in zip(fills, options, strict=True):
            agree(lambda x, f=fill: np.full_like(x, f), x)
            agree(lambda x, f=fill, o=option: np.full_like(x, f, **o), x)
        agree(lambda x: np.full_like(x, x[0, 1, 2]), x)
        agree(lambda x: np.full_like(x, x[:, :, :1], dtype=np.float64), x)
        agree(lambda x: np.full_like(x, [1, 2, 3]), x)
        agree(lambda x: np.zeros_like(x, shape=(2, -1)), x)
        agree(lambda x: np.ones_like(x, dtype="no such type"), x)


@pytest.mark.req("S4-44")
def test_arrays_of_a_shape():
    x = np.ones((2, 3), np.float32)
    for shape, dtype in itertools.product((3, (2, 3), (), [2, 0], np.int8(2)), (None, *DTYPES)):
        check(lambda x, s=shape, d=dtype: (np.zeros(s, d, like=x), np.ones(s, dtype=d, order="F", like=x)), x)
        check(lambda x, s=shape, d=dtype: (np.full(s, 7, d, like=x), np.full(s, 2.5, like=x)), x)
    check(lambda x: np.full((4, 3), x[0], like=x), x)
    check(lambda x: np.full(4, x[0, 1], np.int16, like=x), x)
    assert ops(check(lambda x: np.zeros((128, 512), like=x), x).graph) == ["full"]
    check_error(lambda x: np.full((4, 4), x[0], like=x), x)


def test_a_fresh_array_can_be_written_to():
    def rows(x):
        out = np.zeros((3, *x.shape), x.dtype, like=x)
        for i in range(3):
            out[i] = x * i
        return out

    check(rows, np.arange(4, dtype=np.float32))
    check(lambda x: np.add(x, 1, out=np.empty_like(x)), np.arange(4, dtype=np.float32))


@pytest.mark.parametrize("dtype", [None, "f4", np.int8, bool, BFLOAT16], ids=str)
def test_triangles_and_the_identity(dtype: Any):
    x = np.ones(3, np.float32)
    given: dict[str, Any] = {} if dtype is None else {"dtype": dtype}
    shapes: tuple[Any, ...] = ((3,), (3, 4), (4, 2, 1), (3, 3, -1), (0,), (2, 5, 9), (4, 4, np.int8(-2)))
    for args in shapes:
        check(lambda x, a=args: (np.eye(*a, **given, like=x), np.tri(*a, **given, like=x)), x)
        check(lambda x, a=args: np.identity(a[0], **given, like=x), x)
    assert ops(check(lambda x: np.eye(64, like=x), x).graph) == ["band"]
    check_error(lambda x: np.eye(-1, like=x), x)


@pytest.mark.req("S4-45")
def test_ranges():
    x = np.ones(3, np.float32)
    for args in ((3,), (1, 4), (0, 1, 0.25), (5, 0, -1), (0.0, 10), (3, 3)):
        check(lambda x, a=args: (np.arange(*a, like=x), np.arange(*a, dtype=np.float32, like=x)), x)
    assert ops(check(lambda x: np.arange(4096, dtype=np.int32, like=x), x).graph) == ["iota"]
    check(lambda x: np.fromfunction(lambda i, j: 10 * i + j, (2, 3), dtype=int, like=x) + x, x)
    refused("E804", lambda x: np.arange(x[0], like=x), x)


def test_copies():
    x = np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3))

    def changed(x):
        y, z = np.copy(x), x.copy("C")
        y[0], z[1] = 9, 8
        return y, z, np.copy(x, order="F"), np.copy([1, 2]) + x[:, :2]

    check(changed, x)
    check(lambda x: (np.asarray(x, like=x), np.asarray(x, np.float32, like=x), np.array([1, 2, 3], like=x) * x), x)
    check(lambda x: np.array([x, x + 1], dtype=np.float64, like=x), x)
    check(lambda x: np.array(x, ndmin=4, like=x), x)
    check(lambda x: np.ascontiguousarray(x, np.float16, like=x), x)
    check(lambda x: (np.asarray(x, like=x) is x, np.array(x, like=x) is x, np.array(x, copy=None, like=x) is x), x)
    check_error(lambda x: np.asarray(x, np.float32, copy=False, like=x), x)


@pytest.mark.parametrize("options", [{}, {"sparse": True}, {"indexing": "ij"}, {"copy": False}], ids=str)
def test_meshgrid(options: dict[str, Any]):
    rng = np.random.default_rng(2)
    x, y = sample("f4", (5,), rng), sample("i4", (3,), rng)
    check(lambda x, y: np.meshgrid(x, y, **options), x, y)
    check(lambda x, y: np.meshgrid(x, y, [1.5, 2.5], **options), x, y)
    check(lambda x: np.meshgrid(x, **options), x)
    check(lambda x, y: np.meshgrid(x[0], y, **options), x, y)
    check_error(lambda x: np.meshgrid(x, x, indexing="yx"), x)  # type: ignore[call-overload]


@pytest.mark.parametrize("dtype", [np.dtype("f4"), BFLOAT16, np.dtype("i4")], ids=str)
def test_linspace(dtype: np.dtype):
    x = np.array([0, 1.5, 3, -7.25]).astype(np.int8 if dtype.kind in "iu" else dtype).astype(dtype)
    y = x[::-1].copy()
    options: list[dict[str, Any]] = [{}, {"num": 5}, {"num": 5, "endpoint": False}, {"num": 1}, {"num": 0}]
    options += [{"num": 4, "retstep": True}, {"num": 7, "dtype": np.int32}, {"num": 3, "axis": -1}]
    options += [{"num": 3, "axis": 4}, {"num": -1}, {"num": 3, "dtype": np.float32, "axis": 1}]
    with agreement() as agree:
        for option in options:
            agree(lambda x, y, o=option: np.linspace(x, y, **o), x, y)
            agree(lambda x, o=option: np.linspace(0, x, **o), x)
            agree(lambda x, o=option: np.linspace(x[1], 2.5, **o), x)
            agree(lambda x, o=option: np.linspace(x, x, **o), x)

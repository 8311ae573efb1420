# pyright: reportCallIssue=false, reportArgumentType=false
"""Convolution and pooling against direct loops; np.convolve, np.correlate and sliding windows against NumPy."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw

from .kit import check, check_error, ops, refused, run, traced

RNG = np.random.default_rng(3)


def data(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Small integers: sums of products are exact in float32."""
    return np.asarray(RNG.integers(-5, 6, shape)).astype(dtype)


def direct(
    x: np.ndarray, w: np.ndarray, stride: tuple[int, ...], pads: Any, dilation: tuple[int, ...], groups: int
) -> np.ndarray:
    """Convolution by its definition, one product after the other, in float64."""
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *pads])
    kernel = w.shape[2:]
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)]
    out = np.zeros((x.shape[0], w.shape[0], *counts))
    inside, outside = w.shape[1], w.shape[0] // groups
    for o, place in product(range(w.shape[0]), np.ndindex(*counts)):
        first = o // outside * inside
        for c, k in product(range(inside), np.ndindex(*kernel)):
            at = tuple(s * i + d * j for s, i, d, j in zip(stride, place, dilation, k, strict=True))
            out[(slice(None), o, *place)] += x[(slice(None), first + c, *at)] * float(w[(o, c, *k)])
    return out


CONVS = [
    # x, w, stride, padding pairs, dilation, groups
    ((2, 3, 9), (4, 3, 3), (1,), ((0, 0),), (1,), 1),
    ((2, 3, 9), (4, 3, 3), (2,), ((1, 2),), (2,), 1),
    ((1, 4, 9), (4, 1, 2), (1,), ((0, 1),), (1,), 4),
    ((2, 3, 6, 7), (4, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((2, 3, 6, 7), (4, 3, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    ((1, 4, 8, 7), (6, 2, 3, 2), (2, 1), ((1, 0), (0, 2)), (1, 2), 2),
    ((1, 2, 5, 5), (2, 2, 5, 5), (3, 3), ((2, 2), (2, 2)), (1, 1), 1),
    ((1, 3, 4, 6, 6), (5, 3, 2, 3, 3), (1, 1, 1), ((0, 0),) * 3, (1, 1, 1), 1),
    ((1, 3, 4, 5, 5), (2, 3, 2, 3, 3), (2, 1, 2), ((1, 1), (0, 1), (1, 0)), (1, 2, 1), 1),
    ((0, 3, 5, 5), (4, 3, 3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    ((1, 1, 1), (1, 1, 1), (1,), ((0, 0),), (1,), 1),
]


def same_numbers(found: Any, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(np.asarray(found, np.float64), wanted)


@pytest.mark.req("S4-74")
@pytest.mark.parametrize("case", CONVS, ids=str)
def test_convolution(case: Any):
    shape, kernel, stride, pads, dilation, groups = case
    wanted = direct(x := data(*shape), w := data(*kernel), stride, pads, dilation, groups)

    def program(x: Any, w: Any) -> Any:
        return tw.conv(x, w, stride=stride, padding=pads, dilation=dilation, groups=groups)

    same_numbers(program(x, w), wanted)
    found = traced(program, x, w)
    assert ops(found.graph) == ["conv"]
    same_numbers(run(found, x, w), wanted)


@pytest.mark.req("S4-74")
@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32, np.int8, ml_dtypes.bfloat16], ids=str)
def test_convolution_of_other_types(dtype: Any):
    x, w = data(1, 2, 6, 6, dtype=dtype), data(3, 2, 2, 2, dtype=dtype)
    wanted = direct(x, w, (1, 1), ((0, 0), (0, 0)), (1, 1), 1)
    if dtype == np.int8:
        wanted = wanted.astype(np.int64).astype(np.int8).astype(np.float64)
    found = traced(tw.conv, x, w)
    assert found.graph.outputs[0].type.dtype == np.dtype(dtype)
    for result in (run(found, x, w), tw.conv(x, w)):
        assert result.dtype == dtype
        same_numbers(result, wanted)


@pytest.mark.req("S4-74")
def test_bias_and_promotion():
    x, w, b = data(2, 3, 5, 5), data(4, 3, 3, 3, dtype=np.float64), data(4)
    wanted = direct(x, w, (1, 1), ((1, 1), (1, 1)), (1, 1), 1) + b.reshape(4, 1, 1)
    found = traced(lambda x, w, b: tw.conv(x, w, b, padding=1), x, w, b)
    result = run(found, x, w, b)
    assert result.dtype == np.float64 == tw.conv(x, w, b, padding=1).dtype
    same_numbers(result, wanted)
    same_numbers(tw.conv(x, w, b, padding=1), wanted)
    # A kernel that the program holds itself.
    same_numbers(run(traced(lambda x: tw.conv(x, w, padding=1), x), x), wanted - b.reshape(4, 1, 1))


@pytest.mark.req("S4-74")
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation"), [(7, 3, 1, 1), (8, 4, 1, 1), (9, 3, 2, 2), (5, 2, 3, 1)]
)
def test_paddings_by_name(size: int, kernel: int, stride: int, dilation: int):
    x, w = data(1, 2, size), data(3, 2, kernel)
    found = tw.conv(x, w, stride=stride, padding="same", dilation=dilation)
    assert found.shape[2] == -(-size // stride)
    total = max((found.shape[2] - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
    pads = ((total // 2, total - total // 2),)
    same_numbers(found, direct(x, w, (stride,), pads, (dilation,), 1))
    same_numbers(tw.conv(x, w, padding="valid"), direct(x, w, (1,), ((0, 0),), (1,), 1))
    same_numbers(tw.conv(x, w, padding=[1]), direct(x, w, (1,), ((1, 1),), (1,), 1))


CONV_ERRORS = [
    lambda x, w: tw.conv(x, w[:, :2]),
    lambda x, w: tw.conv(x, w, groups=2),
    lambda x, w: tw.conv(x, w, groups=0),
    lambda x, w: tw.conv(x, w[0]),
    lambda x, w: tw.conv(x[0, 0], w[0, 0]),
    lambda x, w: tw.conv(x, w, stride=0),
    lambda x, w: tw.conv(x, w, stride=(1, 1, 1)),
    lambda x, w: tw.conv(x, w, padding=-1),
    lambda x, w: tw.conv(x, w, padding="full"),
    lambda x, w: tw.conv(x, w, padding=((1, 1),)),
    lambda x, w: tw.conv(x, w, dilation=9),
    lambda x, w: tw.conv(x, w, dilation=1.5),
    lambda x, w: tw.conv(x, w, w[0, 0, 0]),
    lambda x, w: tw.conv(x, w[:, :, :0]),
    lambda x, w: tw.max_pool(x, 7),
    lambda x, w: tw.max_pool(x, 2, padding=2),
    lambda x, w: tw.max_pool(x, (2, 2, 2, 2, 2)),
    lambda x, w: tw.avg_pool(x, 0),
    lambda x, w: tw.avg_pool(x, 2, stride=-1),
]


@pytest.mark.req("S4-74")
@pytest.mark.parametrize("case", range(len(CONV_ERRORS)))
def test_arguments_that_do_not_fit(case: int):
    """The same refusal for NumPy arrays and for traced ones."""
    check_error(CONV_ERRORS[case], data(2, 3, 5, 5), data(4, 3, 3, 3))


def test_convolution_of_truths_is_refused():
    refused("E803", tw.conv, data(1, 1, 3, dtype=bool), data(1, 1, 1, dtype=bool))


# Pooling


def pooled(x: np.ndarray, kernel: Any, stride: Any, pads: Any, fill: float, function: Any) -> np.ndarray:
    """Pooling of the last two dims by its definition."""
    x = np.pad(x.astype(np.float64), [(0, 0)] * (x.ndim - 2) + list(pads), constant_values=fill)
    counts = [(n - k) // s + 1 for n, k, s in zip(x.shape[-2:], kernel, stride, strict=True)]
    out = np.zeros((*x.shape[:-2], *counts))
    for i, j in np.ndindex(*counts):
        part = x[..., i * stride[0] : i * stride[0] + kernel[0], j * stride[1] : j * stride[1] + kernel[1]]
        out[..., i, j] = function(part, axis=(-2, -1))
    return out


POOLS = [
    (2, None, 0), ((2, 3), None, 0), (3, 2, 1), ((3, 2), (1, 2), ((1, 1), (0, 1))), (3, 1, "same"), ((4, 4), 4, 0),
    (2, 3, 0),
]  # fmt: skip


@pytest.mark.parametrize("case", POOLS, ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 7, 8), (1, 1, 4, 4)], ids=str)
def test_pooling(case: Any, shape: tuple[int, ...]):
    kernel, stride, padding = case
    x = data(*shape)
    sizes = (kernel, kernel) if isinstance(kernel, int) else kernel
    steps = sizes if stride is None else (stride, stride) if isinstance(stride, int) else stride
    pads = ((1, 1), (1, 1)) if padding in (1, "same") else ((0, 0), (0, 0)) if padding == 0 else padding
    greatest = pooled(x, sizes, steps, pads, -np.inf, np.max)
    mean = pooled(x, sizes, steps, pads, 0, np.mean)
    inside = pooled(np.ones_like(x), sizes, steps, pads, 0, np.sum)
    for function, wanted in (
        (lambda x: tw.max_pool(x, kernel, stride, padding), greatest),
        (lambda x: tw.avg_pool(x, kernel, stride, padding), mean),
        (lambda x: tw.avg_pool(x, kernel, stride, padding, count_include_pad=False), mean * np.prod(sizes) / inside),
    ):
        for found in (function(x), run(traced(function, x), x)):
            assert found.dtype == np.float32 and found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_pooling_of_other_ranks_and_types():
    line = data(2, 3, 9, dtype=np.int16)
    expected = np.max(line[..., :8].reshape(2, 3, 4, 2), axis=-1)
    np.testing.assert_array_equal(tw.max_pool(line, 2), expected)
    np.testing.assert_array_equal(run(traced(lambda x: tw.max_pool(x, (2,)), line), line), expected)
    mean = np.mean(line[..., :8].reshape(2, 3, 4, 2), axis=-1)
    assert tw.avg_pool(line, 2).dtype == np.float64
    np.testing.assert_array_equal(run(traced(lambda x: tw.avg_pool(x, 2), line), line), mean)
    check(lambda x: tw.max_pool(x, 3, 1, 1), data(1, 2, 5, 5, dtype=np.int8))
    check(lambda x: tw.max_pool(x, 3, 2), data(1, 1, 5, 5, 5))
    check(lambda x: tw.avg_pool(x, 2), data(1, 2, 4, 4, dtype=np.float16))
    check(lambda x: tw.avg_pool(x, 3, 1, 1), data(1, 2, 4, 4, dtype=ml_dtypes.bfloat16))
    check(lambda x: tw.max_pool(x, 3, 2), np.array([[[1, np.nan, 3, 4, -np.inf]]], np.float32))


def test_windows_side_by_side_are_one_reduction():
    assert ops(traced(lambda x: tw.max_pool(x, 2), data(2, 3, 8, 8)).graph) == ["reshape", "max"]
    found = ops(traced(lambda x: tw.max_pool(x, 3, 1), data(2, 3, 8, 8)).graph)
    assert found.count("maximum") == 4, "one dim after the other"


# NumPy's own


@pytest.mark.parametrize("mode", ["full", "same", "valid", 0, 1, 2])
@pytest.mark.parametrize("sizes", [(5, 3), (3, 5), (4, 4), (6, 2), (1, 1), (1, 4)], ids=str)
def test_convolve_and_correlate(sizes: tuple[int, int], mode: Any):
    for kinds in ((np.float32, np.float32), (np.int8, np.int16), (np.bool_, np.bool_), (np.int32, np.float16)):
        a, v = (data(n, dtype=kind) for n, kind in zip(sizes, kinds, strict=True))
        check(lambda a, v: np.convolve(a, v, mode), a, v)
        check(lambda a, v: np.correlate(a, v, mode=mode), a, v)
    check(lambda a: np.convolve(a, [1, -2.5]), data(sizes[0]))
    check(lambda a: np.convolve(a[0], a), data(sizes[0]))


def test_integer_convolution_wraps():
    x = RNG.integers(-(2**31), 2**31, 9).astype(np.int32)
    check(lambda x: np.convolve(x, x[:4]), x)


CONVOLVE_ERRORS = [
    lambda a, v: np.convolve(a, v[:0]),
    lambda a, v: np.convolve(a[:0], v),
    lambda a, v: np.correlate(a, v[:0]),
    lambda a, v: np.convolve(a, v, "other"),
    lambda a, v: np.correlate(a, v, 7),
    lambda a, v: np.correlate(a[None], v),
]


@pytest.mark.parametrize("case", range(len(CONVOLVE_ERRORS)))
def test_convolve_errors(case: int):
    check_error(CONVOLVE_ERRORS[case], data(4), data(2))


WINDOWS = [
    lambda x, window: window(x, (1, 2)),
    lambda x, window: window(x, (4, 5)),
    lambda x, window: window(x, 2, axis=1),
    lambda x, window: window(x, (2, 2), axis=(0, 0)),
    lambda x, window: window(x, (2, 3), axis=(-1, 0)),
    lambda x, window: window(np.repeat(x, 9, axis=1), 40, axis=1),
    lambda x, window: np.einsum("ijkl,kl->ij", window(x, (3, 3)), np.ones((3, 3), np.float32)),
]


@pytest.mark.parametrize("case", range(len(WINDOWS)))
def test_sliding_windows(case: int):
    window = np.lib.stride_tricks.sliding_window_view
    check(lambda x: WINDOWS[case](x, window), data(4, 5))


def test_sliding_windows_are_views():
    window = np.lib.stride_tricks.sliding_window_view

    def program(x: Any) -> Any:
        found = window(x, 3)
        x[1] = 9
        return found

    check(program, data(6))
    check_error(lambda x: window(x, 3).__setitem__(0, 1), data(6))
    check_error(lambda x: window(x, 9), data(6))
    check_error(lambda x: window(x, (2, 2)), data(6))
    refused("E803", lambda x: window(x, 3, writeable=True), data(6))


def test_arrays_that_the_function_makes_itself():
    def program(x: Any, w: Any) -> Any:
        frame = np.zeros((1, 2, 6, 6), np.float32)
        frame[:, :, 1:5, 1:5] = x
        square = np.eye(4, dtype=np.float32)
        square += x[0, 0]
        return tw.conv(frame, w), tw.max_pool(frame, 2), tw.avg_pool(frame, 3, 1), tw.linalg.inverse_triangular(square)

    check(program, np.abs(data(1, 2, 4, 4)), data(3, 2, 3, 3), rtol=1e-5, atol=1e-5)

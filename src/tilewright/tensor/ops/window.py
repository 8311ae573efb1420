"""Windows that move over an array: themselves, and convolution."""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tilewright.tensor.record import op
from tilewright.tensor.types import TensorType

Sizes = tuple[int, ...]


def window_counts(sizes: Sizes, kernel: Sizes, stride: Sizes, low: Sizes, high: Sizes, dilation: Sizes) -> Sizes:
    """How many windows fit along each dim; less than 1 where none does."""
    rows = zip(sizes, kernel, stride, low, high, dilation, strict=True)
    return tuple((n + a + b - d * (k - 1) - 1) // s + 1 for n, k, s, a, b, d in rows)


def _windowed(x: TensorType, axes: Sizes, sizes: Sizes, stride: Sizes, dilation: Sizes) -> TensorType:
    assert len(set(axes)) == len(axes), f"windows along axes {axes}"
    counts, zeros = list(x.shape), (0,) * len(axes)
    along = window_counts(tuple(x.shape[a] for a in axes), sizes, stride, zeros, zeros, dilation)
    for axis, count in zip(axes, along, strict=True):
        counts[axis] = count
    assert min(along, default=1) >= 1, f"windows of {sizes} in {x}"
    return x.with_shape((*counts, *sizes))


@op(
    family="window",
    operands="x",
    attrs=("axes", "sizes", "stride", "dilation"),
    infer=_windowed,
    primitive=False,
)
def windows(x: np.ndarray, axes: Sizes, sizes: Sizes, stride: Sizes, dilation: Sizes) -> np.ndarray:
    """out[i, k] = x[stride * i + dilation * k] with i at axes, k as new last dims of these sizes"""
    extents = tuple(d * (k - 1) + 1 for k, d in zip(sizes, dilation, strict=True))
    seen = sliding_window_view(x, extents, axis=axes)
    steps = [slice(None)] * x.ndim
    for axis, step in zip(axes, stride, strict=True):
        steps[axis] = slice(None, None, step)
    return seen[(*steps, *(slice(None, None, d) for d in dilation))]


def _convolved(
    x: TensorType, w: TensorType, stride: Sizes, low: Sizes, high: Sizes, dilation: Sizes, groups: int
) -> TensorType:
    assert x.shape[1] == w.shape[1] * groups and w.shape[0] % groups == 0, f"conv of {x} by {w} in {groups} groups"
    counts = window_counts(x.shape[2:], w.shape[2:], stride, low, high, dilation)
    return x.with_shape((x.shape[0], w.shape[0], *counts))


@op(
    family="window",
    operands="x w",
    attrs=("stride", "low", "high", "dilation", "groups"),
    infer=_convolved,
    primitive=True,
)
def conv(
    x: np.ndarray, w: np.ndarray, stride: Sizes, low: Sizes, high: Sizes, dilation: Sizes, groups: int
) -> np.ndarray:
    """out[b, o, i] = sum over c, k of x[b, first + c, stride * i + dilation * k - low] * w[o, c, k]

    x is [batch, channels, *spatial] with zeros around it (low before, high after), w is [out channels, channels /
    groups, *kernel]; i and k have one number per spatial dim; first is the first channel of o's group.
    """
    wide = np.float32 if x.dtype.kind not in "iu" and x.dtype.itemsize < 4 else x.dtype
    kernel = w.shape[2:]
    spatial = len(kernel)
    around = [(0, 0), (0, 0), *zip(low, high, strict=True)]
    padded = np.pad(x.astype(wide), around)
    extents = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
    views = sliding_window_view(padded, extents, axis=tuple(range(2, 2 + spatial)))
    views = views[(..., *(slice(None, None, s) for s in stride), *(slice(None, None, d) for d in dilation))]
    counts = views.shape[2 : 2 + spatial]
    batch, channels, outs = x.shape[0], w.shape[1], w.shape[0]
    windows, elements = batch * math.prod(counts), channels * math.prod(kernel)
    # [groups, windows, elements of a window] times [groups, elements of a window, out channels of a group]
    views = views.reshape(batch, groups, channels, *counts, *kernel)
    views = np.moveaxis(views, (1, 2), (0, 2 + spatial)).reshape(groups, windows, elements)
    weights = w.astype(wide).reshape(groups, outs // groups, elements).swapaxes(1, 2)
    out = np.matmul(views, weights).reshape(groups, batch, *counts, outs // groups)
    return np.moveaxis(out, (0, -1), (1, 2)).reshape(batch, outs, *counts).astype(x.dtype)

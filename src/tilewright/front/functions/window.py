"""Windows that move over arrays: tw.conv, tw.max_pool, tw.avg_pool."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from tilewright.dtypes import float32, host_dtype
from tilewright.front.functions.apply import apply, given
from tilewright.front.functions.einsum import is_narrow
from tilewright.front.promote import result_type
from tilewright.front.refusal import numpy_error, unsupported
from tilewright.tensor.ops.window import window_counts

Sizes = tuple[int, ...]
Array = Any
"""An array of NumPy, for which the result is computed at once, or a traced array."""


def _per_dim(name: str, given: Any, count: int, least: int) -> Sizes:
    """A number for all spatial dims, or one for each."""
    numbers = tuple(given) if np.iterable(given) and not isinstance(given, str) else (given,) * count
    if len(numbers) != count or not all(isinstance(n, (int, np.integer)) and n >= least for n in numbers):
        raise numpy_error(ValueError, f"{name} = {given!r}: {count} numbers from {least}, or one for all dims")
    return tuple(int(n) for n in numbers)


def _paddings(given: Any, sizes: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes) -> tuple[Sizes, Sizes]:
    """What is added before and after each spatial dim.

    "valid" is nothing; "same" is what gives ceil(size / stride) windows, the odd one after.
    """
    count = len(sizes)
    if isinstance(given, str):
        if given not in ("same", "valid"):
            raise numpy_error(ValueError, f"padding = {given!r}: 'same', 'valid' or numbers")
        if given == "valid":
            return (0,) * count, (0,) * count
        rows = zip(sizes, kernel, stride, dilation, strict=True)
        total = [max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0) for n, k, s, d in rows]
        return tuple(n // 2 for n in total), tuple(n - n // 2 for n in total)
    each = list(given) if np.iterable(given) else []
    if any(np.iterable(pair) for pair in each):
        if len(each) != count:
            raise numpy_error(ValueError, f"padding = {given!r}: a pair for each of {count} spatial dims")
        pairs = [_per_dim("padding", pair, 2, 0) for pair in each]
        return tuple(low for low, _ in pairs), tuple(high for _, high in pairs)
    both = _per_dim("padding", given, count, 0)
    return both, both


def conv(
    x: Array,
    w: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """The convolution (a sliding sum of products, the kernel not turned round) of one or more spatial dims.

    x is [batch, channels, *spatial], w is [out channels, channels / groups, *kernel], bias is [out channels]; the
    result is [batch, out channels, *windows]. stride, padding and dilation are one number or one per spatial dim;
    padding may also be pairs (before, after), "same" or "valid".
    """
    x, w = given(x), given(w)
    spatial = len(x.shape) - 2
    if spatial < 1 or len(w.shape) != spatial + 2:
        message = (
            f"conv: x of shape {x.shape} is no [batch, channels, *spatial], or w of shape {w.shape} no kernel for it"
        )
        raise numpy_error(ValueError, message)
    groups = _per_dim("groups", groups, 1, 1)[0]
    if x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        message = f"conv: {x.shape[1]} channels by a kernel of shape {w.shape} in {groups} groups"
        raise numpy_error(ValueError, message)
    kernel = w.shape[2:]
    stride, dilation = _per_dim("stride", stride, spatial, 1), _per_dim("dilation", dilation, spatial, 1)
    low, high = _paddings(padding, x.shape[2:], kernel, stride, dilation)
    _check_windows("conv", x.shape[2:], kernel, stride, low, high, dilation)
    dtype = _product_type("tw.conv", x, w)
    out = apply(
        "conv", _as(x, dtype), _as(w, dtype), stride=stride, low=low, high=high, dilation=dilation, groups=groups
    )
    if bias is None:
        return out
    added = given(bias)
    if added.shape != w.shape[:1]:
        raise numpy_error(ValueError, f"conv: a bias of shape {added.shape} for {w.shape[0]} channels")
    return out + np.reshape(_as(added, dtype), (-1, *(1,) * spatial))


def _product_type(name: str, *arrays: Any) -> Any:
    dtype = result_type(*arrays)
    if dtype.kind == "b":
        raise unsupported(name, None, "of truths", "convert them to numbers: x.astype(np.float32)")
    return dtype


def _as(x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype.np else x.astype(dtype.np)


def _check_windows(
    name: str, sizes: Sizes, kernel: Sizes, stride: Sizes, low: Sizes, high: Sizes, dilation: Sizes
) -> Sizes:
    if 0 in kernel:
        raise numpy_error(ValueError, f"{name}: a kernel of shape {kernel} has no elements")
    counts = window_counts(sizes, kernel, stride, low, high, dilation)
    if min(counts) < 1:
        padded = tuple(a + n + b for a, n, b in zip(low, sizes, high, strict=True))
        raise numpy_error(
            ValueError, f"{name}: a window of shape {kernel} (dilation {dilation}) is larger than {padded}"
        )
    return counts


# Pooling


def max_pool(
    x: Array, kernel: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: Any = 0
) -> Array:
    """The greatest element of each window of the last dims: x is [..., *spatial], NaN where a window has one.

    kernel, stride (the kernel's size unless given) and padding as for `conv`; padding is never the greatest. One number
    as kernel means [batch, channels, *spatial].
    """
    x = given(x)
    dtype = host_dtype(x.dtype)
    least = dtype.min if dtype.is_integer else -math.inf
    plan = _Pool("max_pool", x.shape, kernel, stride, padding)
    return plan.reduced(x, least, np.maximum, np.max)


def avg_pool(
    x: Array,
    kernel: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: Any = 0,
    count_include_pad: bool = True,
) -> Array:
    """The mean of each window of the last dims; arguments as for `max_pool`.

    Padding counts as zeros, or not at all with count_include_pad=False. Integers give float64, as np.mean does.
    """
    x = given(x)
    dtype = host_dtype(x.dtype)
    plan = _Pool("avg_pool", x.shape, kernel, stride, padding)
    wanted = host_dtype(np.float64) if dtype.is_integer else dtype
    within = float32 if is_narrow(wanted) else wanted
    total = plan.reduced(_as(x, within), 0, np.add, np.sum)
    counts = math.prod(plan.kernel) if count_include_pad else plan.filled_counts().astype(within.np)
    return _as(total / counts, wanted)


class _Pool:
    """Which windows of which dims are reduced."""

    def __init__(self, name: str, shape: Sizes, kernel: Any, stride: Any, padding: Any) -> None:
        spatial = len(tuple(kernel)) if np.iterable(kernel) else len(shape) - 2
        if not 1 <= spatial <= len(shape):
            raise numpy_error(ValueError, f"{name}: x of shape {shape} has no {spatial} spatial dims")
        self.first = len(shape) - spatial
        self.sizes = shape[self.first :]
        self.kernel = _per_dim("kernel", kernel, spatial, 1)
        self.stride = self.kernel if stride is None else _per_dim("stride", stride, spatial, 1)
        ones = (1,) * spatial
        self.low, self.high = _paddings(padding, self.sizes, self.kernel, self.stride, ones)
        if any(max(a, b) >= k for a, b, k in zip(self.low, self.high, self.kernel, strict=True)):
            raise numpy_error(
                ValueError, f"{name}: with padding {padding!r} a window of {self.kernel} could be all padding"
            )
        self.counts = _check_windows(name, self.sizes, self.kernel, self.stride, self.low, self.high, ones)

    def reduced(self, x: Array, outside: float, join: Callable[..., Any], whole: Callable[..., Any]) -> Array:
        """Windows joined element by element; as one reduction where they lie side by side."""
        if any((*self.low, *self.high)):
            widths = [(0, 0)] * self.first + list(zip(self.low, self.high, strict=True))
            x = np.pad(x, widths, constant_values=outside)
        if self.stride == self.kernel:
            box = (..., *(slice(0, n * k) for n, k in zip(self.counts, self.kernel, strict=True)))
            pairs = [n for pair in zip(self.counts, self.kernel, strict=True) for n in pair]
            blocks = np.reshape(x[box], (*x.shape[: self.first], *pairs))
            return whole(blocks, axis=tuple(range(self.first + 1, len(blocks.shape), 2)))
        for axis, (n, k, s) in enumerate(zip(self.counts, self.kernel, self.stride, strict=True), self.first):
            before = (slice(None),) * axis
            x = reduce(join, [x[(*before, slice(i, i + (n - 1) * s + 1, s))] for i in range(k)])
        return x

    def filled_counts(self) -> np.ndarray:
        """How many elements of each window are no padding."""
        found = np.ones((), np.int64)
        for size, k, s, low, n in zip(self.sizes, self.kernel, self.stride, self.low, self.counts, strict=True):
            start = np.arange(n) * s - low
            found = found[..., None] * (np.minimum(start + k, size) - np.maximum(start, 0))
        return found

"""Views by arithmetic: slices, splits, permutations and broadcasts whose starts may depend on loop indices.

On chip, dim 0 is the partition dim; these functions treat it like any other where that is meaningful (a slice of
partitions) and leave the rest to the verifier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tilewright.dtypes import DType, uint32
from tilewright.ir.core import Value
from tilewright.tile.view import View


@dataclass(frozen=True, slots=True)
class Affine:
    """const + sum of index * factor."""

    const: int = 0
    terms: tuple[tuple[Value, int], ...] = ()

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.const + other, self.terms)
        factors = dict(self.terms)
        for value, factor in other.terms:
            factors[value] = factors.get(value, 0) + factor
        return Affine(self.const + other.const, tuple((v, f) for v, f in factors.items() if f))

    __radd__ = __add__

    def __mul__(self, factor: int) -> Affine:
        return Affine(self.const * factor, tuple((v, f * factor) for v, f in self.terms)) if factor else Affine()

    __rmul__ = __mul__


At = int | Affine
"""Where something starts: a number, or a function of loop indices."""


def affine(at: At) -> Affine:
    """The same as an `Affine`."""
    return at if isinstance(at, Affine) else Affine(at)


def index(value: Value, factor: int = 1) -> Affine:
    """A loop index times a factor."""
    return Affine(0, ((value, factor),))


def _with(view: View, offset: Affine, sizes: Sequence[int], strides: Sequence[int]) -> View:
    return View(view.buffer, view.dtype, offset.const, tuple(sizes), tuple(strides), offset.terms, view.dynamic)


def _origin(view: View) -> Affine:
    return Affine(view.offset, view.terms)


def as_type(view: View, dtype: DType) -> View:
    """The same bits under another type of the same size."""
    assert view.dtype.itemsize == dtype.itemsize
    return View(view.buffer, dtype, view.offset, view.sizes, view.strides, view.terms, view.dynamic)


def sliced(view: View, dim: int, start: At, size: int, step: int = 1) -> View:
    """`size` elements of a dim from `start` on, `step` apart."""
    sizes, strides = list(view.sizes), list(view.strides)
    offset = _origin(view) + affine(start) * strides[dim]
    sizes[dim], strides[dim] = size, strides[dim] * step
    return _with(view, offset, sizes, strides)


def picked(view: View, dim: int, at: At) -> View:
    """One element of a dim, which goes away."""
    part = sliced(view, dim, at, 1)
    return _with(part, _origin(part), _without(part.sizes, dim), _without(part.strides, dim))


def _without(items: Sequence[int], at: int) -> list[int]:
    return [*items[:at], *items[at + 1 :]]


def permuted(view: View, perm: Sequence[int]) -> View:
    """The dims in another order."""
    return _with(view, _origin(view), [view.sizes[d] for d in perm], [view.strides[d] for d in perm])


def expanded(view: View, dim: int) -> View:
    """A new dim of size 1 before `dim`."""
    sizes = [*view.sizes[:dim], 1, *view.sizes[dim:]]
    strides = [*view.strides[:dim], 0, *view.strides[dim:]]
    return _with(view, _origin(view), sizes, strides)


def dropped(view: View, dim: int) -> View:
    """Without a dim of size 1."""
    assert view.sizes[dim] == 1, f"{view} has {view.sizes[dim]} entries along dim {dim}"
    return _with(view, _origin(view), _without(view.sizes, dim), _without(view.strides, dim))


def broadcast(view: View, sizes: Sequence[int]) -> View:
    """Dims of size 1 read again and again up to `sizes`, which has as many dims."""
    assert len(sizes) == view.ndim and all(a in (b, 1) for a, b in zip(view.sizes, sizes, strict=True)), (view, sizes)
    strides = [0 if a == 1 and b != 1 else s for a, b, s in zip(view.sizes, sizes, view.strides, strict=True)]
    return _with(view, _origin(view), sizes, strides)


def split(view: View, dim: int, sizes: Sequence[int]) -> View:
    """A dim as several, row-major."""
    assert prod(sizes) == view.sizes[dim], f"{view.sizes[dim]} is not {' x '.join(map(str, sizes))}"
    step, strides = view.strides[dim], []
    for size in reversed(sizes):
        strides.insert(0, step)
        step *= size
    return _with(
        view,
        _origin(view),
        [*view.sizes[:dim], *sizes, *view.sizes[dim + 1 :]],
        [*view.strides[:dim], *strides, *view.strides[dim + 1 :]],
    )


def merged(view: View, first: int, last: int) -> View | None:
    """The dims first..last (inclusive) as one, or None where their elements are not evenly apart."""
    stride, size = None, 1
    for d in range(last, first - 1, -1):
        if view.sizes[d] == 1:
            continue
        if stride is None:
            stride = view.strides[d]
        elif view.strides[d] != stride * size:
            return None
        size *= view.sizes[d]
    return _with(
        view,
        _origin(view),
        [*view.sizes[:first], size, *view.sizes[last + 1 :]],
        [*view.strides[:first], 1 if stride is None else stride, *view.strides[last + 1 :]],
    )


def reshaped(view: View, shape: Sequence[int]) -> View | None:
    """The same elements in row-major order in another shape, or None where no strides give that."""
    assert prod(shape) == view.size, f"{view.sizes} as {shape}"
    old = [(n, s) for n, s in zip(view.sizes, view.strides, strict=True) if n != 1]
    new = [n for n in shape if n != 1]
    strides: list[int] = []
    i = j = 0
    while i < len(old) and j < len(new):
        a, b, i_end, j_end = old[i][0], new[j], i + 1, j + 1
        while a != b:
            if a < b:
                a *= old[i_end][0]
                i_end += 1
            else:
                b *= new[j_end]
                j_end += 1
        for d in range(i, i_end - 1):
            if old[d][1] != old[d + 1][1] * old[d + 1][0]:
                return None
        step, made = old[i_end - 1][1], []
        for n in reversed(new[j:j_end]):
            made.insert(0, step)
            step *= n
        strides += made
        i, j = i_end, j_end
    left = iter(strides)
    return _with(view, _origin(view), shape, [0 if n == 1 else next(left) for n in shape])


def as_shape(view: View, shape: Sequence[int]) -> View:
    """A view in another shape; its elements lie so that there is one."""
    made = reshaped(view, shape)
    assert made is not None
    return made


def bits_of(view: View) -> View:
    """Elements of 32 bits as their bit patterns."""
    return View(view.buffer, uint32, view.offset, view.sizes, view.strides, view.terms, view.dynamic)


def windowed(view: View, dim: int, first: int, sizes: tuple[int, ...], steps: tuple[int, ...]) -> View:
    """A dim from `first` on as several, each with a step of its own, as windows have. They may lie one over the other,
    so that nothing can be written to them."""
    last = first + sum((n - 1) * step for n, step in zip(sizes, steps, strict=True))
    assert first >= 0 and min(steps) >= 0 and last < view.sizes[dim], f"windows to {last} of {view.sizes[dim]}"
    stride = view.strides[dim]
    into = (*view.sizes[:dim], *sizes, *view.sizes[dim + 1 :])
    strides = (*view.strides[:dim], *(step * stride for step in steps), *view.strides[dim + 1 :])
    return _with(view, _origin(view) + first * stride, into, strides)

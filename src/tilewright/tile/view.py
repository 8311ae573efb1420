"""Views: strided access patterns on a buffer.

A view is `offset + sum(i_d * stride_d)` over its dims, counted in elements of its dtype. On chip, dim 0 steps over
partitions, all of which follow one pattern of the other dims (R-tensor.index-06): its stride is the number of elements
a partition of the buffer holds, so that `offset // row` is the first partition and `offset % row` the place within it.
Loop indices add terms to the offset; at most one register, scalar tensor, vector of row indices or tile of column
offsets makes it dynamic.

Views are immutable; every method of this module returns a new one that shares the buffer (R-tensor-13).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tilewright.dtypes import DType
from tilewright.errors import OperandNote
from tilewright.ir.core import Value
from tilewright.tile.memory import Address, Buffer, MemoryRegion, row_major
from tilewright.tile.overlap import Extent


@dataclass(frozen=True, slots=True)
class Dynamic:
    """An offset that is known only when the instruction runs.

    `index` is a register value or a view of an index tile; each unit of it moves the view by `stride` elements.
    kind "scalar": one index for the whole access. kind "vector": one index per entry of dim 0 (gather and scatter of
    rows, HBM only). kind "columns": one offset per entry of dim 1, the same for all partitions (`tile.indirect`, on
    chip only). `limit` is the number of valid index values; `dim` the dim of the tensor that the index replaces; `at`
    where that dim stands in the view now (-1: nowhere), so that nothing slices it again.
    """

    kind: str
    index: View | Value
    stride: int
    limit: int
    dim: int = 0
    at: int = -1

    def values(self) -> tuple[Value, ...]:
        return self.index.values()

    def substitute(self, mapping: Mapping[Value, Value]) -> Dynamic:
        return Dynamic(self.kind, self.index.substitute(mapping), self.stride, self.limit, self.dim, self.at)


# Facts about views and the numbers that stand for them, from 1 on: a memo, which grows with the kinds of accesses of a
# program.
_signatures: dict[tuple, int] = {}


class View:
    """A strided access pattern on a buffer (see the module docstring).

    A view that a refused slice left behind while diagnostics are collected is `broken`: what it touches means nothing.
    One that a pattern led outside of its storage is `outside`: it may be made, but no instruction takes it.
    """

    __slots__ = (
        "broken",
        "buffer",
        "dtype",
        "dynamic",
        "extent_",
        "offset",
        "outside",
        "signature_",
        "sizes",
        "strides",
        "terms",
    )

    def __init__(
        self,
        buffer: Buffer,
        dtype: DType,
        offset: int,
        sizes: tuple[int, ...],
        strides: tuple[int, ...],
        terms: tuple[tuple[Value, int], ...] = (),
        dynamic: Dynamic | None = None,
    ) -> None:
        self.buffer = buffer
        self.dtype = dtype
        self.offset = offset
        self.sizes = sizes
        self.strides = strides
        self.terms = terms
        self.dynamic = dynamic
        self.signature_: int | None = None
        self.extent_: tuple[Address | None, Extent] | None = None
        self.broken = False
        self.outside = False

    # What an operand of an op must answer (ir.core).

    def values(self) -> tuple[Value, ...]:
        """Every value this access uses: its buffer, loop indices and the dynamic index."""
        used: tuple[Value, ...] = (self.buffer,)
        if self.terms:
            used += tuple(value for value, _ in self.terms)
        if self.dynamic is not None:
            used += self.dynamic.values()
        return used

    def substitute(self, mapping: Mapping[Value, Value]) -> View:
        """The same access with values exchanged."""
        buffer = mapping.get(self.buffer, self.buffer)
        assert isinstance(buffer, Buffer)
        terms = tuple((mapping.get(value, value), factor) for value, factor in self.terms)
        dynamic = self.dynamic.substitute(mapping) if self.dynamic is not None else None
        return View(buffer, self.dtype, self.offset, self.sizes, self.strides, terms, dynamic)

    # Queries.

    @property
    def shape(self) -> tuple[int, ...]:
        return self.sizes

    @property
    def ndim(self) -> int:
        return len(self.sizes)

    @property
    def size(self) -> int:
        return prod(self.sizes)

    @property
    def memory(self) -> MemoryRegion:
        return self.buffer.memory

    @property
    def on_chip(self) -> bool:
        return self.buffer.on_chip

    @property
    def partitions(self) -> int:
        """Entries of dim 0: the partitions an on-chip access touches."""
        return self.sizes[0]

    @property
    def free(self) -> int:
        """Elements per partition."""
        return prod(self.sizes[1:])

    @property
    def row(self) -> int:
        """Elements of this dtype that one partition of the buffer holds (all elements in HBM)."""
        return self.buffer.row_bytes // self.dtype.itemsize

    @property
    def steps_over_partitions(self) -> bool:
        """True for an on-chip access whose partitions do not follow each other."""
        return bool(self.sizes) and self.sizes[0] > 1 and self.strides[0] != self.row

    @property
    def start_partition(self) -> int:
        """First physical partition of an on-chip access (0 for buffers that are placed later)."""
        return self.buffer.start_partition + self.offset // self.row

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def signature(self) -> int:
        """A number for all that static rules, engine choice and cost may depend on; equal ones share one verdict."""
        known = self.signature_
        if known is None:
            buffer, dynamic = self.buffer, self.dynamic
            start, steps = -1, False
            if buffer.on_chip:
                start = buffer.start_partition + self.offset * self.dtype.itemsize // buffer.row_bytes
                steps = self.steps_over_partitions
            extra = None
            if dynamic is not None:
                index = dynamic.index
                held = index.signature if isinstance(index, View) else "register"
                extra = (dynamic.kind, held, dynamic.dim, dynamic.limit)
            kind = (buffer.address is not None, self.broken, self.outside, steps)
            facts = (buffer.memory, self.dtype, self.sizes, self.strides, start, kind, extra)
            known = self.signature_ = _signatures.setdefault(facts, len(_signatures) + 1)
        return known

    def reach_outside(self) -> str | None:
        """Where the access reaches outside of its storage, in words; None when all static addresses are inside."""
        # The rows that a vector of indices chooses are checked when it is known.
        first = 1 if self.dynamic is not None and self.dynamic.kind == "vector" else 0
        sizes, strides, row, start = self.sizes[first:], self.strides[first:], self.row, self.offset
        partition = 0
        if self.on_chip:
            partition, start = divmod(self.offset, row)
            sizes, strides = sizes[1:], strides[1:]
        low = start + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True) if s < 0)
        high = start + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True) if s > 0)
        inside = low >= 0 and high < row and partition >= 0
        if not self.on_chip:
            return None if inside else f"elements {low}..{high} of a tensor with {row}"
        if inside and partition + self.partitions <= self.buffer.partitions:
            return None
        reached = f"partitions {partition}..{partition + self.partitions - 1}, elements {low}..{high}"
        return f"{reached} of a tensor with {self.buffer.partitions} partitions of {row} elements"

    def choices(self) -> View:
        """All that a run-time index can choose from, as a view whose dims are the index's and those of one choice."""
        dynamic = self.dynamic
        assert dynamic is not None
        # On chip the partitions stay first.
        first = 1 if self.on_chip else 0
        rest = first if dynamic.kind == "scalar" else first + 1
        sizes = (*self.sizes[:first], dynamic.limit, *self.sizes[rest:])
        strides = (*self.strides[:first], dynamic.stride, *self.strides[rest:])
        return View(self.buffer, self.dtype, self.offset, sizes, strides, self.terms)

    def covers_buffer(self) -> bool:
        """True when the access touches every element of its buffer exactly once."""
        buffer = self.buffer
        if self.offset or self.terms or self.dynamic is not None or self.dtype.itemsize != buffer.dtype.itemsize:
            return False
        if self.sizes is buffer.shape and self.strides is buffer.strides:
            return True
        return self.size == prod(buffer.shape) and is_row_major(self.sizes, self.strides)

    def is_contiguous(self) -> bool:
        """Row-major without gaps; on chip within each partition."""
        if self.on_chip:
            return is_row_major(self.sizes[1:], self.strides[1:])
        return is_row_major(self.sizes, self.strides)

    def note(self, name: str) -> OperandNote:
        """The view as a diagnostic shows it."""
        made = self.buffer.location if self.on_chip else None
        return OperandNote(name, self.sizes, str(self.dtype), self.memory.value, made)

    def __repr__(self) -> str:
        name = self.buffer.name or "?"
        return f"{self.dtype.short}{list(self.sizes)}@{self.memory.value} of {name}"


def same_access(a: View, b: View) -> bool:
    """True when two views name the same elements in the same order, run-time indices included."""
    same = a.buffer is b.buffer and a.dtype is b.dtype and a.offset == b.offset and a.terms == b.terms
    if not same or a.sizes != b.sizes or a.strides != b.strides:
        return False
    one, two = a.dynamic, b.dynamic
    if one is None or two is None:
        return one is two
    if (one.kind, one.stride, one.dim) != (two.kind, two.stride, two.dim):
        return False
    if isinstance(one.index, View) and isinstance(two.index, View):
        return same_access(one.index, two.index)
    return one.index is two.index


def is_row_major(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """True when the dims of size above one have row-major strides."""
    step = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def whole(buffer: Buffer) -> View:
    """The view of all elements of a buffer in its own shape."""
    made = View(buffer, buffer.dtype, 0, buffer.shape, buffer.strides)
    made.broken = buffer.broken
    return made


__all__ = ["Dynamic", "View", "is_row_major", "row_major", "same_access", "whole"]

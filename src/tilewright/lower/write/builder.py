"""Writing tile IR: buffers, loops and instructions at an insertion point, every instruction checked when it is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import nan
from typing import Any

import numpy as np

import tilewright.tile.isa  # noqa: F401  (fills the table)
from tilewright.dtypes import DType
from tilewright.errors import Location
from tilewright.ir.core import Graph, Op, Region, Value
from tilewright.lower.write.dims import with_fewer_dims
from tilewright.lower.write.views import Affine, as_shape, index
from tilewright.rules import OFF, PROFILES, STRICT, Reporter
from tilewright.target import Target
from tilewright.tile.common import computes_outside_psum
from tilewright.tile.costed import cost_of
from tilewright.tile.memory import HBM, PSUM, SBUF, SHARED_HBM, Buffer, MemoryRegion
from tilewright.tile.ops import ALLOC, loop
from tilewright.tile.record import TABLE, Attributes, Call, Record
from tilewright.tile.text import TILE
from tilewright.tile.verdict import Verifier
from tilewright.tile.view import View, whole

STREAMED = "weights"
"""What tiles are called through which an operand passes piece by piece."""


def copies_psum(profile: str) -> bool:
    """True where nothing in PSUM is computed on together with other tensors, as in NKI 0.3: it is copied first."""
    return PROFILES[profile].get(computes_outside_psum.rule) != OFF


def transposed(of: View | Value, memory: MemoryRegion = SBUF) -> str:
    """The name of a tile that holds another tile, or a value, transposed."""
    name = f"{(of.buffer if isinstance(of, View) else of).name or 'rows'}_t"
    return f"{name}_psum" if memory is PSUM else name


class TileBuilder:
    """Builds one kernel. `location` is the source line of what is being lowered.

    profile: whose rules the kernel keeps (`rules.PROFILES`).
    """

    def __init__(self, name: str, target: Target, profile: str = STRICT) -> None:
        self.graph = Graph(name, dialect=TILE)
        self.target = target
        self._copies_psum = copies_psum(profile)
        self.region: Region = self.graph.body
        self.location: Location | None = None
        self.verifier = Verifier(target, Reporter(collect=True), once=True)
        """Says what else an instruction may be."""
        self._depth = 0
        self.copied: list[Buffer] = []
        """Buffers of SBUF in loops that have several copies: how many is settled when it is known what there is."""
        self.levels: dict[Buffer, int] = {}
        """In how many loops each of them is."""
        self.times = 1
        """How often what is written now is executed."""
        self.at_start = 0
        """Ops that were put before all others after these had been written."""

    # The kernel's own tensors.

    def input(self, name: str, dtype: DType, shape: Sequence[int]) -> View:
        """A parameter of the kernel: a tensor in HBM."""
        buffer = Buffer(dtype, tuple(shape), HBM, name)
        self.graph.body.arguments.append(buffer)
        return whole(buffer)

    def output(self, name: str, dtype: DType, shape: Sequence[int]) -> View:
        """A result of the kernel: a tensor in HBM that the body writes."""
        return whole(self.returned(Buffer(dtype, tuple(shape), SHARED_HBM, name)))

    def returned(self, buffer: Buffer) -> Buffer:
        """A tensor in HBM as the next result of the kernel: one of its own, or a parameter that it has changed."""
        self.graph.outputs = [*self.graph.outputs, buffer]
        return buffer

    # Buffers.

    def alloc(
        self, memory: MemoryRegion, shape: Sequence[int], dtype: DType, name: str | None = None, depth: int = 1
    ) -> View:
        """A buffer that lives until its region ends; inside a loop `depth` trips may have their own."""
        held = tuple(shape)
        if memory in (SBUF, PSUM):
            # What has size 1 needs no dim of its own.
            held = (held[0], *[size for size in held[1:] if size != 1])
            held = held if len(held) > 1 else (*held, 1)
        buffer = Buffer(dtype, held, memory, name, None, depth if self._depth else 1, self.location)
        self.region.append(Op(ALLOC, (), (buffer,), location=self.location))
        if buffer.depth > 1 and memory is SBUF:
            self.copied.append(buffer)
            self.levels[buffer] = self._depth
        return as_shape(whole(buffer), tuple(shape))

    def sbuf(self, shape: Sequence[int], dtype: DType, name: str | None = None, depth: int = 1) -> View:
        """A tile in SBUF: partitions, then free dims."""
        return self.alloc(SBUF, shape, dtype, name, depth)

    def psum(self, shape: Sequence[int], dtype: DType, name: str | None = None, depth: int = 1) -> View:
        """A tile in PSUM."""
        return self.alloc(PSUM, shape, dtype, name, depth)

    def hbm(self, shape: Sequence[int], dtype: DType, name: str | None = None) -> View:
        """A tensor in HBM of the kernel's own. One without dims lies in one of a single element: NKI has no others."""
        made = self.alloc(HBM, shape or (1,), dtype, name)
        return made if shape else View(made.buffer, dtype, 0, (), ())

    # Structure.

    def sees(self, buffer: Buffer) -> bool:
        """True for a buffer that was allocated around what is written now."""
        region: Region | None = self.region
        while region is not None:
            if buffer.producer is not None and buffer.producer.parent is region:
                return True
            region = None if region.parent is None else region.parent.parent
        return False

    @contextmanager
    def loop(self, count: int, name: str = "i", step: int = 1) -> Iterator[Affine]:
        """A loop of `count` trips; gives its index times `step`. A single trip is no loop."""
        if count == 1:
            yield Affine()
            return
        op, value = loop(count, name=name)
        op.location = self.location
        self.region.append(op)
        outer, self.region = self.region, op.regions[0]
        self._depth += 1
        self.times *= count
        try:
            yield index(value, step)
        finally:
            self.times //= count
            self.region = outer
            self._depth -= 1

    @property
    def is_in_loop(self) -> bool:
        """True where what is written stands in a loop: its buffers are not there after it."""
        return self._depth > 0

    def since(self, before: Sequence[Op]) -> list[Op]:
        """What the body has beside the ops it had before: in front of them (made once for all) and after them."""
        ops = self.graph.body.ops
        begin = ops.index(before[0]) if before else len(ops)
        return [*ops[:begin], *ops[begin + len(before) :]]

    # Instructions.

    def op(self, name: str, *operands: Any, **attrs: Any) -> None:
        """An instruction by name: operands in the order of its record (missing ones are None), attributes by name."""
        record = TABLE[name]
        given = (*operands, *[None] * (len(record.operands) - len(operands))) if record.many is None else operands
        tidy = tuple([_tidy(x) if isinstance(x, View) else _number(x) for x in given])
        if any(isinstance(x, View) and x.on_chip and x.ndim == 1 for x in tidy):
            # On chip a view has two dims at least (R-tensor-02); what it goes with is a column too.
            tidy = tuple([_column(x) if isinstance(x, View) and x.ndim == 1 else x for x in tidy])
        limit = self.target["limits.max_view_dims"]
        if any(isinstance(x, View) and x.ndim > limit for x in tidy):
            with_fewer_dims(self, name, tidy, attrs, limit)
            return
        if "axis" in attrs:
            # NKI counts dims from the first.
            read = [tidy[step.position] for step in record.steps]
            ndim = next(x.ndim for x in read if isinstance(x, View))
            # Dims of one element are gone: those who have such count from the last.
            assert all(-ndim <= axis < ndim for axis in attrs["axis"]), f"{name}: {attrs['axis']} of {ndim} dims"
            attrs["axis"] = tuple(axis % ndim for axis in attrs["axis"])
        made = self.attributes(record, attrs)
        for first, second in record.apart:
            if _in_psum(tidy[first]) and _in_psum(tidy[second]):
                tidy = (*tidy[:second], self._drained(tidy[second]), *tidy[second + 1 :])
        if self._copies_psum:
            tidy = self._outside_psum(record, tidy, made)
        self.region.append(Op(record, tidy, (), made, location=self.location))

    def _outside_psum(self, record: Record, operands: tuple[Any, ...], attrs: Attributes) -> tuple[Any, ...]:
        """The operands with copies in SBUF for those in PSUM that may only be drained (R-engine-15)."""
        call = Call(record, operands, attrs, self.target)
        call.resolve_engine()
        if computes_outside_psum.test(call) is None:
            return operands
        made = list(operands)
        for spec, (position, operand) in zip(record.operands.values(), enumerate(operands), strict=False):
            if _in_psum(operand) and not spec.writes:
                made[position] = self._drained(operand)
        return tuple(made)

    def _drained(self, view: View) -> View:
        """A copy in SBUF of what is in PSUM."""
        made = self.sbuf(view.sizes, view.dtype, "drained", view.buffer.depth)
        self.op("tensor_copy", made, view)
        return made

    def cost_ns(self, name: str, *operands: Any, **attrs: Any) -> float:
        """How long an engine is taken by an instruction; infinite where the target refuses it."""
        record = TABLE[name]
        settings = self.attributes(record, attrs)
        given = (*operands, *[None] * (len(record.operands) - len(operands)))
        return cost_of(record, given, settings, self.target)[1].interval_ns

    def attributes(self, record: Record, attrs: Mapping[str, Any]) -> Attributes:
        """The attributes of an instruction, those that are left out as its record says."""
        if isinstance(attrs, Attributes):
            return attrs
        assert attrs.keys() <= record.attrs.keys(), (
            f"{record.name} has no attribute {attrs.keys() - record.attrs.keys()}"
        )
        return record.attributes({name: _number(x) for name, x in attrs.items()})


def _in_psum(x: Any) -> bool:
    return isinstance(x, View) and x.memory is PSUM


def _number(x: Any) -> Any:
    """A number as text can say it: there is one NaN."""
    return nan if isinstance(x, (float, np.floating)) and x != x else x


def _tidy(view: View) -> View:
    """A view without the free dims of size 1, except for one that a tile without others keeps."""
    if view.dynamic is not None:
        return view
    kept = [d for d in range(view.ndim) if d == 0 or view.sizes[d] != 1]
    if len(kept) == 1 and view.ndim > 1:
        kept.append(1)
    if len(kept) == view.ndim:
        return view
    sizes = tuple(view.sizes[d] for d in kept)
    strides = tuple(view.strides[d] if view.sizes[d] != 1 else 1 for d in kept)
    return View(view.buffer, view.dtype, view.offset, sizes, (view.strides[0], *strides[1:]), view.terms)


def _column(view: View) -> View:
    """A view of one dim as a column."""
    return View(view.buffer, view.dtype, view.offset, (*view.sizes, 1), (*view.strides, 1), view.terms, view.dynamic)

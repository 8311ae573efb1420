"""Products of matrices inside a group: the left operand's block of rows stands still, the right operand moves past it.

Both need the contracted dim on partitions. The right operand is loaded once, panel by panel while the first block is in
work, and stays; the left one is turned block by block: by the Tensor engine, or by the load itself for 2-byte types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.errors import TileNotImplementedError, fail
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.products.left import Contracted
from tilewright.lower.products.right import RightOperands
from tilewright.lower.regions.roles import PRODUCTS
from tilewright.lower.select.select import REDUCE
from tilewright.lower.select.terms import add_rest
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.block import flat
from tilewright.lower.write.builder import STREAMED
from tilewright.lower.write.views import Affine, At, affine, as_shape, picked, sliced, split
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.nest.blocks import BlockEmitter
    from tilewright.lower.regions.fuse import Step
    from tilewright.lower.write.block import Block


ON_PANELS = ("cast", "add", "subtract", "multiply", "maximum", "minimum")
"""Ops on a product that are done on the banks as they fill."""


@dataclass(frozen=True, slots=True)
class _Work:
    """A product of a block while its panels are written: who reads them, and a reduction made on the way."""

    block: Block
    op: Op
    left: list[Contracted]
    right: Contracted
    result: View | None
    sink: Step | None
    extreme: Step | None
    parts: View | None
    in_mask: bool


class MatmulEmitter(RightOperands):
    """Writes the matmuls of one group."""

    def __init__(self, emitter: BlockEmitter) -> None:
        super().__init__(emitter)
        self._share_banks()

    def _share_banks(self) -> None:
        """Banks of PSUM: two sets for what is turned and two for each product, so that engines overlap."""
        products = sum(step.op.name in PRODUCTS for step in self.e.steps)
        banks = self.b.target["memory.psum_banks"]
        self.depth = 2
        self.single = 2 if products == 1 else 1
        # Banks that one product fills before they are emptied together.
        self.panel_banks = 2 if products == 1 or self.e.group.rows <= self.e.lanes else 1
        if self.depth * (1 + self.panel_banks) > banks:
            self.panel_banks = 1

    def _has_terms(self, op: Op) -> bool:
        """True for a product whose left operand is the sum of several."""
        return op.name == "matmul_split" and not self.is_widened(op)

    def emit(self, step: Step, blocks: Sequence[Block]) -> set[Op]:
        """Write a matmul and, where one op alone reads it, that op on the banks as they fill.

        Several blocks share what passes through a few tiles; they have as many columns.
        """
        op = step.op
        x, y = op.operands
        if not x.type.dtype.is_float:
            raise fail(
                "E501",
                f"{op.name} of {x.type} and {y.type}: the Tensor engine multiplies floats",
                hint="convert the operands to float32 where that holds them exactly",
                location=op.location,
                error=TileNotImplementedError,
            )
        right = self.right[y, self.is_widened(op)]
        block = self.e.block = blocks[0]
        n = block.width(op.result, op.result.type.shape[-1])
        width = self.bank // float32.itemsize
        # The other terms have banks of their own, and all of them are emptied together.
        few = n <= width * self.panel_banks and x.type.shape[-1] >= TUNING.wide_terms * self.e.lanes
        wide = not self._has_terms(op) or (few and self.e.group.rows <= self.e.lanes)
        panel_banks = self.panel_banks if wide else 1
        panel = width * panel_banks
        lefts = [self._lefts(op, each) for each in blocks]
        sink = self._sink(op)
        masked = sink is not None and self.e.causal is not None and self.e.causal.step is sink
        later = self._reduced_later(op, sink)
        spans = [(0, block.open, False), (block.open, n, True)] if masked else [(0, n, self._is_apart(op, sink))]
        if later is not None:
            spans = [(0, block.near, True), (block.near, block.open, False), (max(block.open, block.near), n, True)]
            spans = [span for span in spans if span[0] < span[1]]
        count = sum(-(-(stop - start) // width) for start, stop, _ in spans)
        extreme = self._reduced(op, sink, masked) if later is None else later
        made = [
            self._begin(step, sink, extreme, count, masked, left, right, each)
            for each, left in zip(blocks, lefts, strict=True)
        ]
        number = 0
        for start, stop, in_mask in spans:
            own = None if later is not None and in_mask else extreme
            works = [replace(work, in_mask=in_mask, extreme=own) for work in made]
            whole, rest = divmod(stop - start, panel)
            if whole:
                with self.b.loop(whole, "n") as i:
                    self._panel(works, i * panel_banks + number, i * panel + start, panel)
            number += whole * panel_banks
            if rest:
                self._panel(works, number, start + whole * panel, rest)
            number += -(-rest // width)
            if later is not None and in_mask:
                # Its columns have no places of their own.
                number -= -(-(stop - start) // width)
        done = {sink.op} if sink is not None else set()
        if later is not None:
            for work in made:
                self._leave_rest(work, later, width, spans)
        elif extreme is not None:
            for work in made:
                assert work.parts is not None
                self.e.block = work.block
                out = self.e.destination(extreme.op.result)
                operator = REDUCE[extreme.op.name]
                self.b.op("tensor_reduce", flat(out), work.parts, op=operator, axis=(-1,), negate=extreme.negate)
            done.add(extreme.op)
        return done

    def _lefts(self, op: Op, block: Block) -> list[Contracted]:
        """The left operand of a block, or the terms that it is the sum of."""
        self.e.block = block
        if self._has_terms(op):
            return self._split_left(op.operands[0], op, block)
        return [self._left(op.operands[0], op, block)]

    def _begin(
        self,
        step: Step,
        sink: Step | None,
        extreme: Step | None,
        count: int,
        masked: bool,
        left: list[Contracted],
        right: Contracted,
        block: Block,
    ) -> _Work:
        """What a block needs before its panels: where they go, and what is read besides, not again for each."""
        self.e.block = block
        result = None if sink is not None else self.e.destination(step.result)
        if sink is not None:
            self.e.destination(sink.result)
            if not masked:
                for v in sink.inputs():
                    if v is not step.op.result:
                        self.e.operand(v, sink.op)
        parts = self.b.sbuf((block.partitions, count), float32, "parts", depth=2) if extreme is not None else None
        return _Work(block, step.op, left, right, result, sink, extreme, parts, False)

    def _reduced(self, op: Op, sink: Step | None, masked: bool) -> Step | None:
        """A reduction of the whole row that can be made while the banks are emptied."""
        value = op.result if sink is None else sink.op.result
        if (
            sink is not None
            and not masked
            and not self._is_apart(op, sink)
            and (sink.kind != "scalars" or sink.second is not None or sink.first is None or sink.first[2])
        ):
            return None
        if value.type.dtype is not float32:
            return None
        for step in self.e.steps:
            if step.op.name in REDUCE and step.kind == "op" and step.op.operands[0] is value:
                shape, axes = value.type.shape, set(step.op.attrs["axes"])
                free = {d for d in self.e.group.roles[value].free_dims(len(shape)) if shape[d] != 1}
                if free <= axes and step.op.result.type.dtype is float32:
                    return step
        return None

    def _reduced_later(self, op: Op, sink: Step | None) -> Step | None:
        """The greatest element of each row behind a causal mask that is put on scores when all of them are there: where
        the mask hides nothing, it is looked for while the banks are emptied."""
        causal, value = self.e.causal, op.result if sink is None else sink.op.result
        if causal is None or not causal.apart or causal.product is not op or causal.step.op.name != "where":
            return None
        scaled = sink is None or (
            sink.kind == "scalars" and sink.second is None and sink.first is not None and not sink.first[2]
        )
        plain = value in causal.step.op.operands and len(value.uses) == 1 and value.type.dtype is float32
        if not scaled or not plain or (sink is not None and sink.out is not None):
            return None
        hidden = causal.step.result
        found = [s for s in self.e.steps if s.op.name == "max" and s.kind == "op" and s.op.operands[0] is hidden]
        whole = len(found) == 1 and found[0].op.result.type.dtype is float32 and hidden.type.dtype is float32
        return found[0] if whole and self.e.block.columns else None

    @decision("product: reduced where no mask is, while emptied")
    def _leave_rest(self, work: _Work, later: Step, width: int, spans: Sequence[tuple[int, int, bool]]) -> None:
        """What is known of the greatest elements of a block, and which columns are left to look at."""
        assert work.parts is not None
        places = sum(-(-(stop - start) // width) for start, stop, in_mask in spans if not in_mask)
        rest = [(start, stop - start) for start, stop, in_mask in spans if in_mask]
        work.block.begun[later.op.operands[0]] = sliced(work.parts, 1, 0, places + len(rest)), rest

    def _is_apart(self, op: Op, sink: Step | None) -> bool:
        """True where panels are reduced after a step on them: none waits while a whole row is reduced at once."""
        return sink is not None and sink.kind == "mixed" and op.result.type.shape[-1] * float32.itemsize > self.bank

    def _panel(self, works: Sequence[_Work], number: At, at: At, size: int) -> None:
        """Some columns of the product, of every block."""
        right = works[0].right
        # A loop over panels keeps two sets of banks in turn; a panel by itself needs one.
        depth = self.depth if isinstance(number, Affine) and number.terms else self.single
        # A tensor in PSUM lies in one bank.
        width = self.bank // float32.itemsize

        def made(name: str) -> list[list[View]]:
            return [
                [
                    self.b.psum((work.block.partitions, min(width, size - start)), float32, name, depth=depth)
                    for start in range(0, size, width)
                ]
                for work in works
            ]

        banks = made("acc")
        others = made("rest") if len(works[0].left) > 1 else banks
        if right.once:
            self._stream(right, works, list(zip(banks, others, strict=True)), at, size)
        else:
            column, row = self._places(works[0])
            column = affine(at) + column
            if right.source is not None:
                self._load_once(right, works[0].left[0].k + row, column if column.terms else column.const, size)
            for work, *own in zip(works, banks, others, strict=True):
                self._contract(work, own, column, row // self.e.lanes)
        for work, own, rests in zip(works, banks, others, strict=True):
            self.e.block = work.block
            for i, (bank, rest) in enumerate(zip(own, rests, strict=True)):
                begin = affine(at) + i * width
                place = begin if begin.terms else begin.const
                done = bank if rest is bank else self._added(work, bank, rest, place)
                if done is not None:
                    self._empty(work, done, affine(number) + i, place)

    def _added(self, work: _Work, bank: View, rest: View, begin: At) -> View | None:
        """What the terms gave, added up: the columns of the product themselves where nothing else is done to them."""
        if work.result is not None and work.extreme is None and work.result.dtype is float32:
            into = sliced(work.result, work.result.ndim - 1, begin, bank.sizes[1])
            add_rest(self.e.select, into, *(self._shaped(work.op, view) for view in (bank, rest)))
            return None
        done = self.b.sbuf(bank.sizes, float32, "done", depth=2)
        add_rest(self.e.select, done, bank, rest)
        return done

    def _places(self, work: _Work) -> tuple[int, int]:
        """The first column and the first row of the right operand that a block sees."""
        begin, causal = work.block.begin, self.e.causal
        if not begin or causal is None:
            return 0, 0
        is_scores = work.op is causal.product
        return (begin if is_scores else 0), (begin if work.op.operands[0] in causal.values else 0)

    def _empty(self, work: _Work, bank: View, number: At, begin: At) -> None:
        """Some columns of a block, out of PSUM."""
        op, sink, count = work.op, work.sink, bank.sizes[1]
        if work.extreme is not None:
            self._empty_reducing(work, bank, number, begin, count)
        elif sink is not None and self._is_open(work):
            # Every row sees these columns.
            assert sink.first is not None
            out = self.e.destination(sink.result)
            scale = self.e.scalar(sink.first[1], sink.op)
            into = sliced(out, out.ndim - 1, begin, count)
            self.e.select.scalars(into, self._shaped(op, bank), "multiply", scale)
        elif sink is not None:
            self.e.on_panel(sink, op.result, self._shaped(op, bank), begin, count)
        else:
            assert work.result is not None
            last = work.result.ndim - 1
            self.e.copy(sliced(work.result, last, begin, count), self._shaped(op, bank))

    def _is_open(self, work: _Work) -> bool:
        """True for columns of a causal product that no mask hides from any row."""
        return self.e.causal is not None and self.e.causal.step is work.sink and not work.in_mask

    def _contract(self, work: _Work, banks: Sequence[list[View]], at: At, before: int) -> None:
        """Every block of K into the columns of a panel: the whole ones by a loop where there are many.

        before: blocks of K of the right operand that come before those of the left one.
        """
        left, right = work.left, work.right

        def one(k: At) -> None:
            row = k + before if isinstance(k, int) else affine(k) + before
            for number, term in enumerate(left):
                into = banks[1 if number else 0]
                self._multiply(into, term, k, lambda start, n: right.part(row, affine(at) + start, n), work.block)

        looped = left[0].k // self.e.lanes if left[0].blocks > TUNING.written_blocks else 0
        if looped:
            with self.b.loop(looped, "k") as k:
                one(k)
        for k in range(looped, left[0].blocks):
            one(k)

    def _shaped(self, op: Op, bank: View) -> View:
        """A panel as a tile of the product's rank."""
        ones = self.e.group.roles[op.result].free_dims(op.result.type.rank)[:-1]
        return as_shape(bank, (bank.sizes[0], 1, *[1 for _ in ones], bank.sizes[1]))

    @decision("product: reduced while emptied")
    def _empty_reducing(self, work: _Work, bank: View, number: At, at: At, size: int) -> None:
        """Copy a bank through an operator and reduce it on the way."""
        assert work.extreme is not None and work.parts is not None
        value = work.op.result if work.sink is None else work.sink.result
        if work.in_mask:
            assert work.sink is not None
            self.e.on_panel(work.sink, work.op.result, self._shaped(work.op, bank), at, size)
            done = self.e.destination(value)
            part, done = sliced(work.parts, 1, number, 1), sliced(done, done.ndim - 1, at, size)
            self.e.select.book("tensor_reduce", part, done, op=REDUCE[work.extreme.op.name], axis=(-1,))
            return
        name, scalar = "multiply", 1.0
        if work.sink is not None:
            assert work.sink.first is not None
            name, scalar, _ = work.sink.first
            scalar = self.e.scalar(scalar, work.sink.op)
        full = self.e.destination(value)
        out = sliced(full, full.ndim - 1, at, size)
        part = sliced(work.parts, 1, number, 1)
        reduce_op = REDUCE[work.extreme.op.name]
        self.b.op("tensor_scalar_reduce", out, bank, scalar, None, part, op0=name, reduce_op=reduce_op)

    def _multiply(
        self,
        banks: list[View],
        left: Contracted,
        k: At,
        right: Callable[[int, int], View],
        block: Block,
    ) -> None:
        """One block of K into all columns of a panel."""
        width = self.bank // float32.itemsize
        for i, bank in enumerate(banks):
            stationary = left.part(k, 0, block.partitions)
            self.b.op("nc_matmul", bank, stationary, right(i * width, bank.sizes[1]))

    @decision("right: streamed")
    def _stream(
        self, right: Contracted, works: Sequence[_Work], banks: Sequence[Sequence[list[View]]], at: At, size: int
    ) -> None:
        """A panel whose right operand passes through a few tiles, each of them for all blocks."""
        assert right.source is not None
        lanes = right.view.sizes[0]
        source = sliced(right.source, 1, at, size)
        # A causal left operand may end early.
        whole, rest = divmod(works[0].left[0].k, lanes)
        each = max(min(TUNING.transfer_bytes // (lanes * size * source.dtype.itemsize), whole), 1)

        in_turn = self.is_in_turn(works[0].op)

        def multiply(first: At, tiles: Sequence[View]) -> None:
            # Term by term: the others may come later than the first.
            for number in range(len(works[0].left)):
                for i, tile in enumerate(tiles):
                    k = first + i if isinstance(first, int) else affine(first) + i
                    for work, own in zip(works, banks, strict=True):
                        into, left = own[1 if number else 0], work.left[number]
                        self._multiply(into, left, k, lambda s, n, tile=tile: sliced(tile, 1, s, n), work.block)

        def some(first: At, count: int, copies: int = TUNING.copies) -> None:
            tile = self.b.sbuf((lanes, count, size), source.dtype, STREAMED, depth=copies)
            if in_turn:
                self.b.op("dma_copy", tile, sliced(split(source, 0, (lanes, whole)), 1, first, count))
            # Short pieces are shared by several queues: one moves them too slowly.
            queues = -(-self.b.target["dma.efficient_bytes_minimum"] // (size * source.dtype.itemsize))
            each = -(-count // queues)
            for i in range(0, 0 if in_turn else count, each):
                some = min(each, count - i)
                part = sliced(source, 0, (affine(first) + i) * lanes, some * lanes)
                self._load_blocks(sliced(tile, 1, i, some), part)
            multiply(first, [picked(tile, 1, i) for i in range(count)])

        # Transfers that take turns have a queue each: few rows wait for nothing else.
        few = 2 * self.e.group.rows <= self.e.lanes
        turns = TUNING.together if few and whole // each >= TUNING.together else 1
        trips = whole // (each * turns)
        if trips:
            with self.b.loop(trips, "k", each * turns) as first:
                for i in range(turns):
                    some(affine(first) + i * each if first.terms else i * each, each, -(-TUNING.copies // turns))
        for k in range(trips * turns * each, whole, each):
            some(k, min(each, whole - k))
        if rest:
            tile = self.b.sbuf((rest, size), source.dtype, STREAMED, depth=TUNING.copies)
            self.b.op("dma_copy", tile, sliced(source, 0, whole * lanes, rest))
            multiply(whole, [tile])

    def _sink(self, op: Op) -> Step | None:
        """The only reader of a product, when it works element by element and its other operands are ready."""
        users = self.e.user_of[op.result]
        own = next(s for s in self.e.steps if s.op is op)
        if len(users) != 1 or len(op.result.uses) != 1 or op.result in self.e.whole or own.out is not None:
            return None
        step = users[0]
        if self.e.causal is not None and self.e.causal.apart and self.e.causal.step is step:
            return None
        if step.op.definition.family != "elementwise" or step.total is not None or step.op.name == "where":
            return None
        if step.op.result.type.shape != op.result.type.shape:
            return None
        if step.kind == "op" and step.op.name not in ON_PANELS and not self._is_by_column(step.op, op.result):
            return None
        position = next(i for i, s in enumerate(self.e.steps) if s.op is op)
        ready = {s.result for s in self.e.steps[:position]}
        ready |= {s.total.result for s in self.e.steps[:position] if s.total is not None}
        ready |= set(self.e.block.tiles)
        for v in step.inputs():
            source = self.e.same.get(v, v)
            if v is not op.result and source in self.e.group.roles and source not in ready:
                return None
        return step

    def _is_by_column(self, op: Op, product: Value) -> bool:
        """True for a product divided by a number per row."""
        if op.name != "divide":
            return False
        x, y = op.operands
        return x is product and isinstance(y, Value) and y.type.shape[-1:] in ((), (1,))

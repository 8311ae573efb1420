"""Products of matrices inside a group: the left operand's block of rows stands still, the right operand moves past it.

Both need the contracted dim on partitions. The right operand is loaded once, panel by panel while the first block is in
work, and stays; the left one is turned block by block: by the Tensor engine, or by the load itself for 2-byte types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import ml_dtypes

from tilewright.dtypes import DType, bfloat16, float32
from tilewright.errors import TileNotImplementedError, fail
from tilewright.ir.core import Op, Value
from tilewright.lower.copy import by_block, turn_by_squares
from tilewright.lower.homes import Chip, Hbm
from tilewright.lower.loops import tiled
from tilewright.lower.patterns import identity
from tilewright.lower.pieces import piece_of
from tilewright.lower.roles import PRODUCTS, Roles
from tilewright.lower.select import REDUCE
from tilewright.lower.views import Affine, At, affine, merged, permuted, picked, reshaped, sliced, split
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.block import Block
    from tilewright.lower.blocks import BlockEmitter
    from tilewright.lower.fuse import Step


SMALL_BYTES = 1 << 18
"""A right operand up to this size is loaded as a whole, before the first block."""

CAUSAL_BYTES = 1 << 21
"""The same where the blocks are of many kinds, each of which would have to load its part."""

LOAD_BYTES = 1 << 20
"""What one transfer of a right operand that stays brings."""

STREAM_BYTES = 1 << 19
"""What one transfer of a right operand that is read once brings."""

STREAM_QUEUES = 1

STREAMED = "weights"

STREAM_COPIES = 3
"""Tiles through which such an operand passes."""

LOAD_PIECES = 8
"""Transfers that bring an operand which has to be turned."""

WRITTEN_BLOCKS = 4
"""Blocks of K that are written one by one."""

ON_PANELS = ("cast", "add", "subtract", "multiply", "maximum", "minimum")
"""Ops on a product that are done on the banks as they fill."""

SPLIT_TERMS = 3
"""bfloat16 numbers that add up to a float32 number."""


@dataclass(slots=True)
class Contracted:
    """An operand with the contracted dim on partitions: `view` is [lanes, k blocks, columns], of `k` rows in all.

    source: where it has yet to be loaded from, [k, columns] in HBM; each part is loaded before its first use.
    once: only one block of rows reads it, so that each part gives way to the next (`view` is of that part alone).
    """

    view: View
    k: int
    source: View | None = None
    once: bool = False
    loaded: dict[tuple[At, int], int] = field(default_factory=dict)

    def part(self, block: At, start: At, size: int) -> View:
        """Rows of one block of K, some columns. A block that a loop counts is a whole one."""
        lanes = self.view.sizes[0]
        rows = min(lanes, self.k - block * lanes) if isinstance(block, int) else lanes
        return sliced(sliced(picked(self.view, 1, block), 0, 0, rows), 1, start, size)

    @property
    def blocks(self) -> int:
        """Blocks of K."""
        return self.view.sizes[1]


@dataclass(frozen=True, slots=True)
class _Work:
    """A product while its panels are written: who reads them, and a reduction made on the way."""

    op: Op
    left: list[Contracted]
    right: Contracted
    result: View | None
    sink: Step | None
    extreme: Step | None
    parts: View | None
    in_mask: bool


class MatmulEmitter:
    """Writes the matmuls of one group."""

    def __init__(self, emitter: BlockEmitter) -> None:
        self.e = emitter
        self.b = emitter.b
        self.low = emitter.low
        self.right: dict[Value, Contracted] = {}
        self.bank = self.b.target["memory.psum_bank_bytes"]
        self._share_banks()

    def _share_banks(self) -> None:
        """Banks of PSUM: two sets for what is turned and two for each product, so that engines overlap."""
        products = sum(step.op.name in PRODUCTS for step in self.e.steps)
        banks = self.b.target["memory.psum_banks"]
        self.depth = 2
        self.single = 2 if products == 1 else 1
        # Banks that one product fills before they are emptied together.
        self.panel_banks = 2 if products == 1 or self.e.group.rows <= self.e.lanes else 1
        assert self.depth * (1 + self.panel_banks) <= banks

    @property
    def is_pending(self) -> bool:
        """True while a right operand is yet to be loaded: the first block does that."""
        return any(each.source is not None and not each.once for each in self.right.values())

    def all_loaded(self) -> None:
        """The first block is written."""
        for each in self.right.values():
            each.source = each.source if each.once else None

    # Right operands, before the loop over rows.

    def prepare(self) -> None:
        """Find what every block needs."""
        for step in self.e.steps:
            if step.op.name in PRODUCTS and not self._batched(step.op):
                self._right(step.op, [])

    def prepare_batch(self, batch: Sequence[At]) -> None:
        """Find what every block of one trip of the batch loops needs."""
        for step in self.e.steps:
            if step.op.name in PRODUCTS and self._batched(step.op):
                self._right(step.op, batch)

    def _batched(self, op: Op) -> bool:
        y = op.operands[1]
        return any(n != 1 for n in y.type.shape[:-2])

    def _right(self, op: Op, batch: Sequence[At]) -> None:
        y = op.operands[1]
        if y in self.right:
            return
        k, n = y.type.shape[-2:]
        rank, out_rank = y.type.rank, op.result.type.rank
        home = self.low.moved.get((y, (rank - 2, rank - 1))) or self.low.home(y)
        roles = self.e.group.roles[op.result]
        picks = [batch[roles.batch.index(d + out_rank - rank)] if y.type.shape[d] != 1 else 0 for d in range(rank - 2)]
        lanes = self.e.lanes
        if isinstance(home, Chip) and home.rows in ((rank - 2, rank - 1), (rank - 1, rank)):
            view = home.view
            for at in picks:
                view = picked(view, 2, at)
            turned = home.rows == (rank - 1, rank)
            self.right[y] = self._turned(view, n, k) if turned else Contracted(view, k)
            return
        source = self.low.in_hbm(y)
        for at in picks:
            source = picked(source, 0, at)
        if source.strides[1] == 1 or n == 1:
            if self._is_read_once(op):
                shape = (min(lanes, k), -(-k // lanes), n)
                view = View(source.buffer, source.dtype, 0, shape, (0, 0, 0))
                self.right[y] = Contracted(view, k, source, once=True)
                return
            made = self.b.sbuf((min(lanes, k), -(-k // lanes), n), source.dtype, y.name or "right", depth=2)
            if source.nbytes <= (CAUSAL_BYTES if self.e.causal is not None else SMALL_BYTES):
                self._load_blocks(made, source)
                self.right[y] = Contracted(made, k)
            else:
                self.right[y] = Contracted(made, k, source)
            return
        # Rows of the transposed operand are contiguous: load them and turn them.
        other, rows_of = -(-n // lanes), min(lanes, n)
        staged = self.b.sbuf((rows_of, other, k), source.dtype, y.name or "rows", depth=2)
        rows = permuted(source, (1, 0))
        # In pieces, so that the first can be turned while the others are on their way.
        each = -(-other // LOAD_PIECES)
        for first in range(0, other, each):
            count = min(each, other - first)
            stop = min((first + count) * lanes, n)
            self._load_blocks(sliced(staged, 1, first, count), sliced(rows, 0, first * lanes, stop - first * lanes))
        self.right[y] = self._turned(staged, n, k)

    def _is_read_once(self, op: Op) -> bool:
        """True when a right operand serves a single block of rows and a single product."""
        y = op.operands[1]
        readers = [step.op for step in self.e.steps if step.op.name in PRODUCTS and step.op.operands[1] is y]
        return self.e.group.rows <= self.e.lanes and len(readers) == 1

    def _load_blocks(self, tile: View, source: View) -> None:
        """[n, k] in HBM into [lanes, blocks, k]: whole blocks by one transfer, a shorter one by another."""
        lanes, blocks = tile.sizes[:2]
        whole, rest = divmod(source.sizes[0], lanes)
        if whole:
            rows = permuted(split(sliced(source, 0, 0, whole * lanes), 0, (whole, lanes)), (1, 0, 2))
            self.b.op("dma_copy", sliced(tile, 1, 0, whole), rows)
        if rest:
            part = sliced(picked(tile, 1, blocks - 1), 0, 0, rest)
            self.b.op("dma_copy", part, sliced(source, 0, whole * lanes, rest))

    def _turned(self, rows: View, n: int, k: int) -> Contracted:
        """[n on partitions, blocks, k] as [k on partitions, blocks of k, n]."""
        lanes = self.e.lanes
        made = self.b.sbuf((min(lanes, k), -(-k // lanes), n), rows.dtype, "turned", depth=2)
        whole, rest = divmod(n, rows.sizes[0])
        if whole:
            with self.b.loop(whole, "i") as i:
                self.turn(sliced(made, 2, i * rows.sizes[0], rows.sizes[0]), picked(rows, 1, i), k)
        if rest:
            self.turn(sliced(made, 2, whole * rows.sizes[0], rest), sliced(picked(rows, 1, whole), 0, 0, rest), k)
        return Contracted(made, k)

    def turn(self, out: View, tile: View, k: int) -> None:
        """out[c, block, r] = tile[r, block * lanes + c] by the Tensor engine: several blocks to a bank."""
        lanes, rows = self.e.lanes, tile.sizes[0]
        if not self.b.target["features.transpose_bit_exact"]:
            turn_by_squares(self.low, out, tile, k)
            return
        dtype = self._psum_dtype(tile.dtype)
        whole, rest = divmod(k, lanes)
        each = min(max(self.bank // dtype.itemsize // rows, 1), max(whole, 1))
        trips, left = divmod(whole, each)
        if trips:
            with self.b.loop(trips, "k", each) as first:
                self._turn_some(out, tile, first, each, lanes, dtype)
        if left:
            self._turn_some(out, tile, trips * each, left, lanes, dtype)
        if rest:
            self._turn_some(out, tile, whole, 1, rest, dtype)

    def _turn_some(self, out: View, tile: View, first: At, count: int, width: int, dtype: DType) -> None:
        rows, lanes = tile.sizes[0], self.e.lanes
        depth = self.depth if isinstance(first, Affine) and first.terms else self.single
        bank = self.b.psum((width, count, rows), dtype, "turn", depth=depth)
        unit = self.unit(rows, tile.dtype)
        for i in range(count):
            part = sliced(tile, 1, (affine(first) + i) * lanes, width)
            self.b.op("nc_matmul", picked(bank, 1, i), part, unit, is_transpose=True, is_moving_onezero=True)
        self.e.copy(sliced(sliced(out, 1, first, count), 0, 0, width), bank)

    def _psum_dtype(self, dtype: DType) -> DType:
        return dtype if dtype.itemsize == 2 and self.b.target["features.transpose_16bit_psum"] else float32

    def unit(self, rows: int, dtype: DType) -> View:
        """An identity matrix of the operand's type."""
        return sliced(sliced(identity(self.low, dtype), 0, 0, rows), 1, 0, rows)

    # One block.

    def emit(self, step: Step, block: Block) -> set[Op]:
        """Write a matmul and, where one op alone reads it, that op on the banks as they fill."""
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
        right = self.right[y]
        left = self._split_left(x, op, block) if op.name == "matmul_split" else [self._left(x, op, block)]
        n = block.width(op.result, op.result.type.shape[-1])
        panel = self.bank // float32.itemsize * self.panel_banks
        sink = self._sink(op)
        masked = sink is not None and self.e.causal is not None and self.e.causal.step is sink
        result = None if sink is not None else self.e.destination(step.result)
        if sink is not None:
            self.e.destination(sink.result)
            if not masked:
                # What it reads besides is there before the panels, not again for each.
                for v in sink.inputs():
                    if v is not op.result:
                        self.e.operand(v, sink.op)
        spans = [(0, block.open, False), (block.open, n, True)] if masked else [(0, n, False)]
        width = panel // self.panel_banks
        count = sum(-(-(stop - start) // width) for start, stop, _ in spans)
        extreme = self._reduced(op, sink, masked)
        parts = self.b.sbuf((block.partitions, count), float32, "parts", depth=2) if extreme else None
        number = 0
        for start, stop, in_mask in spans:
            work = _Work(op, left, right, result, sink, extreme, parts, in_mask)
            whole, rest = divmod(stop - start, panel)
            if whole:
                with self.b.loop(whole, "n") as i:
                    self._panel(work, i * self.panel_banks + number, i * panel + start, panel, block)
            number += whole * self.panel_banks
            if rest:
                self._panel(work, number, start + whole * panel, rest, block)
            number += -(-rest // width)
        done = {sink.op} if sink is not None else set()
        if extreme is not None:
            assert parts is not None
            out = self.e.destination(extreme.op.result)
            operator = REDUCE[extreme.op.name]
            self.b.op("tensor_reduce", out, parts, op=operator, axis=(-1,), negate=extreme.negate)
            done.add(extreme.op)
        return done

    def _reduced(self, op: Op, sink: Step | None, masked: bool) -> Step | None:
        """A reduction of the whole row that can be made while the banks are emptied."""
        value = op.result if sink is None else sink.op.result
        if (
            sink is not None
            and not masked
            and (sink.kind != "scalars" or sink.second is not None or sink.first is None or sink.first[2])
        ):
            return None
        if value.type.dtype is not float32:
            return None
        for step in self.e.steps:
            if step.op.name in REDUCE and step.kind == "op" and step.op.operands[0] is value:
                free = self.e.group.roles[value].free_dims(value.type.rank)
                if set(step.op.attrs["axes"]) == set(free) and step.op.result.type.dtype is float32:
                    return step
        return None

    def _panel(self, work: _Work, number: At, at: At, size: int, block: Block) -> None:
        op, left, right, sink = work.op, work.left, work.right, work.sink
        # A loop over panels keeps two sets of banks in turn; a panel by itself needs one.
        depth = self.depth if isinstance(number, Affine) and number.terms else self.single
        # A tensor in PSUM lies in one bank.
        width = self.bank // float32.itemsize
        banks = [
            self.b.psum((block.partitions, min(width, size - start)), float32, "acc", depth=depth)
            for start in range(0, size, width)
        ]
        if right.once:
            self._stream(right, left, banks, at, size, block)
        else:
            if right.source is not None:
                self._load_once(right, left[0].k, at, size)
            self._contract(work, banks, at, block)
        for i, bank in enumerate(banks):
            begin, count = affine(at) + i * width, bank.sizes[1]
            begin = begin if begin.terms else begin.const
            if work.extreme is not None:
                self._empty_reducing(work, bank, affine(number) + i, begin, count)
            elif sink is not None:
                self.e.on_panel(sink, op.result, self._shaped(op, bank), begin, count)
            else:
                assert work.result is not None
                last = work.result.ndim - 1
                self.e.copy(sliced(work.result, last, begin, count), self._shaped(op, bank))

    def _contract(self, work: _Work, banks: list[View], at: At, block: Block) -> None:
        """Every block of K into the columns of a panel: the whole ones by a loop where there are many."""
        left, right = work.left, work.right

        def one(k: At) -> None:
            self._multiply(banks, left, k, lambda start, count: right.part(k, affine(at) + start, count), block)

        looped = left[0].k // self.e.lanes if left[0].blocks > WRITTEN_BLOCKS else 0
        if looped:
            with self.b.loop(looped, "k") as k:
                one(k)
        for k in range(looped, left[0].blocks):
            one(k)

    def _shaped(self, op: Op, bank: View) -> View:
        """A panel as a tile of the product's rank."""
        ones = self.e.group.roles[op.result].free_dims(op.result.type.rank)[:-1]
        tile = reshaped(bank, (bank.sizes[0], 1, *[1 for _ in ones], bank.sizes[1]))
        assert tile is not None
        return tile

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
        self, banks: list[View], left: list[Contracted], k: At, right: Callable[[int, int], View], block: Block
    ) -> None:
        """One block of K into all columns of a panel."""
        width = self.bank // float32.itemsize
        for part in left:
            for i, bank in enumerate(banks):
                stationary = part.part(k, 0, block.partitions)
                self.b.op("nc_matmul", bank, stationary, right(i * width, bank.sizes[1]))

    def _stream(
        self, right: Contracted, left: list[Contracted], banks: list[View], at: At, size: int, block: Block
    ) -> None:
        """A panel whose right operand passes through a few tiles."""
        assert right.source is not None
        lanes = right.view.sizes[0]
        source = sliced(right.source, 1, at, size)
        whole, rest = divmod(right.k, lanes)
        each = max(min(STREAM_BYTES // (lanes * size * source.dtype.itemsize), whole), 1)

        def some(first: At, count: int) -> None:
            tile = self.b.sbuf((lanes, count, size), source.dtype, STREAMED, depth=STREAM_COPIES)
            # By several transfers, each with a queue of its own: one alone does not use all of the bandwidth.
            half = max(count // STREAM_QUEUES, 1)
            for start in range(0, count, half):
                blocks = min(half, count - start)
                rows = sliced(source, 0, (affine(first) + start) * lanes, blocks * lanes)
                self._load_blocks(sliced(tile, 1, start, blocks), rows)
            for i in range(count):
                k = first + i if isinstance(first, int) else affine(first) + i
                self._multiply(banks, left, k, lambda s, n, i=i: sliced(picked(tile, 1, i), 1, s, n), block)

        trips, left_over = divmod(whole, each)
        if trips:
            with self.b.loop(trips, "k", each) as first:
                some(first if first.terms else 0, each)
        if left_over:
            some(trips * each, left_over)
        if rest:
            tile = self.b.sbuf((rest, size), source.dtype, STREAMED, depth=STREAM_COPIES)
            self.b.op("dma_copy", tile, sliced(source, 0, whole * lanes, rest))
            self._multiply(banks, left, whole, lambda s, n, t=tile: sliced(t, 1, s, n), block)

    def _load_once(self, right: Contracted, k: int, at: At, size: int) -> None:
        """Load the rows up to k of some columns, unless they are there."""
        before = right.loaded.get((at, size), 0)
        if k > before:
            right.loaded[at, size] = k
            self._load_panel(right, at, size, before, k)

    def _load_panel(self, right: Contracted, at: At, size: int, start: int, stop: int) -> None:
        """Some columns of a right operand, in transfers of about the size that a DMA moves at full rate."""
        assert right.source is not None
        lanes = right.view.sizes[0]
        source = sliced(right.source, 1, at, size)
        tile = sliced(right.view, 2, at, size)
        each = max(LOAD_BYTES // (lanes * size * source.dtype.itemsize), 1)
        whole = stop // lanes
        for first in range(start // lanes, whole, each):
            count = min(each, whole - first)
            self._load_blocks(sliced(tile, 1, first, count), sliced(source, 0, first * lanes, count * lanes))
        rest = stop - whole * lanes
        if rest:
            part = sliced(picked(tile, 1, whole), 0, 0, rest)
            self.b.op("dma_copy", part, sliced(source, 0, whole * lanes, rest))

    def _sink(self, op: Op) -> Step | None:
        """The only reader of a product, when it works element by element and its other operands are ready."""
        users = self.e.user_of[op.result]
        own = next(s for s in self.e.steps if s.op is op)
        if len(users) != 1 or len(op.result.uses) != 1 or op.result in self.e.kept or own.out is not None:
            return None
        step = users[0]
        if step.op.definition.family != "elementwise" or step.total is not None or step.op.name == "where":
            return None
        if step.op.result.type.shape != op.result.type.shape:
            return None
        if step.kind == "op" and step.op.name not in ON_PANELS and not self._is_by_column(step.op, op.result):
            return None
        position = next(i for i, s in enumerate(self.e.steps) if s.op is op)
        ready = {s.result for s in self.e.steps[:position]} | set(self.e.same)
        ready |= {s.total.result for s in self.e.steps[:position] if s.total is not None}
        ready |= set(self.e.block.tiles)
        for v in step.inputs():
            if v is not op.result and v in self.e.group.roles and v not in ready:
                return None
        return step

    def _is_by_column(self, op: Op, product: Value) -> bool:
        """True for a product divided by a number per row."""
        x, y = op.operands
        return op.name == "divide" and x is product and isinstance(y, Value) and y.type.shape[-1:] in ((), (1,))

    # Left operands.

    def _left(self, x: Value, op: Op, block: Block) -> Contracted:
        """The block's rows of the left operand, with K on partitions."""
        key = ("left", x)
        found = block.loaded.get(key)
        if found is None:
            k, lanes = block.width(x, x.type.shape[-1]), self.e.lanes
            roles = self._left_roles(x, op)
            shape = (min(lanes, k), -(-k // lanes), block.partitions)
            made = self.b.sbuf(shape, x.type.dtype, "left", depth=2)
            if not self._load_turned(x, roles, made, k):
                tile = self.e.whole_tile(x, roles)
                rows = reshaped(tile, (block.partitions, k))
                if rows is None:
                    rows = self.b.sbuf((block.partitions, k), tile.dtype, "rows", depth=2)
                    shaped = reshaped(rows, tile.sizes)
                    assert shaped is not None
                    self.e.copy(shaped, tile)
                self.turn(made, rows, k)
            found = block.loaded[key] = made
        return Contracted(found, block.width(x, x.type.shape[-1]))

    def _split_left(self, x: Value, op: Op, block: Block) -> list[Contracted]:
        """The block's rows as three bfloat16 terms that add up to them, each with K on partitions."""
        key = ("split", x)
        found = block.split.get(key)
        if found is not None:
            return found
        k, lanes = x.type.shape[-1], self.e.lanes
        tile = self.e.whole_tile(x, self._left_roles(x, op))
        rest = reshaped(tile, (block.partitions, k))
        if rest is None:
            copy = self.b.sbuf((block.partitions, k), float32, "rows", depth=2)
            shaped = reshaped(copy, tile.sizes)
            assert shaped is not None
            self.e.copy(shaped, tile)
            rest = copy
        shape = (min(lanes, k), SPLIT_TERMS, -(-k // lanes), block.partitions)
        made = self.b.sbuf(shape, bfloat16, "left", depth=2)
        single = self.e.group.rows <= lanes
        for at, count in tiled(self.b, k, piece_of(k, lanes) if single else k, "c"):
            self._split_piece(sliced(rest, 1, at, count), sliced(made, 2, by_block(at, lanes), -(-count // lanes)))
        terms = [Contracted(picked(made, 1, i), k) for i in range(SPLIT_TERMS)]
        block.split[key] = terms
        return terms

    def _split_piece(self, rest: View, made: View) -> None:
        """Some columns as terms, turned: `made` is [lanes, terms, blocks of K, rows]."""
        lanes, (partitions, k), count = self.e.lanes, rest.sizes, made.sizes[1]
        most = float(ml_dtypes.finfo(bfloat16.np).max)
        terms = self.b.sbuf((partitions, count, k), bfloat16, "terms", depth=2)
        for i in range(count - 1):
            term = picked(terms, 1, i)
            # An infinity stays for the last term: what is left of it is infinite too.
            self.e.select.scalars(term, rest, "minimum", most, "maximum", -most)
            last = i + 2 == count
            left = picked(terms, 1, i + 1) if last else self.b.sbuf((partitions, k), float32, "rest", depth=2)
            self.e.select.two("subtract", left, rest, term)
            rest = left
        if k % lanes == 0 and partitions == lanes and self.b.target["features.dma_transpose"]:
            axes = (2, 1, 0) if k > lanes else None
            for i in range(count):
                blocks = split(picked(terms, 1, i), 1, (k // lanes, lanes))
                self.b.op("dma_transpose", picked(made, 1, i), blocks, axes=axes)
        else:
            for i in range(count):
                self.turn(picked(made, 1, i), picked(terms, 1, i), k)

    def _load_turned(self, x: Value, roles: Roles, made: View, k: int) -> bool:
        """Let the load turn the rows, where it can; says whether it did."""
        if x in self.e.group.roles or not isinstance(self.low.home(x), Hbm) or x in self.e.block.tiles:
            return False
        readers = [step for step in self.e.user_of_any(x) if step.op.name not in PRODUCTS]
        if readers:
            return False
        part = merged(self.e.fetch_view(x, roles), 0, 1)
        if part is None or part.ndim != 2 or x.type.shape[slice(*roles.rows)] == (1,) * (roles.rows[1] - roles.rows[0]):
            return False
        lanes = self.e.lanes
        if part.strides[0] == 1 and part.strides[1] != 1:
            # The rows of K are contiguous as they are.
            self._load_blocks(made, permuted(part, (1, 0)))
            return True
        if part.dtype.itemsize != 2 or part.strides[1] != 1 or k % lanes or part.sizes[0] != lanes:
            return False
        if not self.b.target["features.dma_transpose"]:
            return False
        self.b.op("dma_transpose", made, split(part, 1, (k // lanes, lanes)), axes=(2, 1, 0) if k > lanes else None)
        return True

    def _left_roles(self, x: Value, op: Op) -> Roles:
        if x in self.e.group.roles:
            return self.e.group.roles[x]
        by = op.result.type.rank - x.type.rank
        roles = self.e.group.roles[op.result]
        return Roles((max(roles.rows[0] - by, 0), roles.rows[1] - by), tuple(d - by for d in roles.batch if d >= by))

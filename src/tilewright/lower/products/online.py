"""Attention whose rows do not fit: parts of a row pass, and sums are rescaled when a greater score comes.

    for each chunk of keys and values that fits on chip:
        for each pair of row blocks that sees it:
            for each panel of the chunk's columns:
                scores, their greatest so far, weights relative to it, weights times values, added to what there is

Where there is more than one chunk, sums and greatest scores wait in HBM. What a causal mask makes zero is not computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.dtypes import float32, uint8
from tilewright.lower.decisions import decision
from tilewright.lower.move.copy import blocks_of, by_block, load_as_it_lies, turn_tile
from tilewright.lower.move.join import result_in_hbm
from tilewright.lower.regions.softmax_product import SoftmaxProduct
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.builder import transposed
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import column_numbers, multiples, row_numbers
from tilewright.lower.write.views import Affine, At, affine, permuted, picked, sliced, split
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering

NOTHING_YET = 3e38
"""The negative of the greatest of no scores."""
FAR_BELOW = -1e30
"""As far below as a masked score need be."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Columns on chip, and columns between two rescalings."""

    chunk: int
    panel: int

    def least_bytes(self, found: SoftmaxProduct, lanes: int) -> int:
        """Bytes per partition that there have to be: a chunk of keys and values, a panel of each block of rows."""
        keys, values = found.scores.operands[1].type, found.product.operands[1].type
        weights = found.product.operands[0].type.dtype.itemsize
        held = self.chunk * keys.dtype.itemsize + -(-self.chunk // lanes) * values.shape[-1] * weights
        return held + TUNING.together * self.panel * (float32.itemsize + weights)


@dataclass(frozen=True, slots=True)
class Rows:
    """A block of rows in work: its number and first row, and what is known of its rows so far."""

    number: At
    start: At
    count: int
    left: View
    sums: View
    least: View
    """The negative of the greatest score."""
    total: View


def sizes_of(columns: int) -> Iterator[Sizes]:
    """Sizes to try, the largest first."""
    chunk = columns
    while chunk >= TUNING.least_online_panel:
        panel = min(TUNING.panel, chunk)
        while panel >= min(TUNING.least_online_panel, chunk):
            yield Sizes(chunk, panel)
            panel //= 2
        chunk = -(-chunk // 2 // TUNING.panel) * TUNING.panel if chunk > TUNING.panel else chunk // 2


class OnlineAttention:
    """Writes one attention."""

    def __init__(self, low: Lowering, found: SoftmaxProduct, sizes: Sizes) -> None:
        self.low, self.b, self.found, self.sizes = low, low.b, found, sizes
        self.panel, self.depth = sizes.panel, 2
        self.lanes = low.target["limits.partitions"]
        self.bank = low.target["memory.psum_bank_bytes"] // float32.itemsize
        # What is narrow beside a float32 operand is cast.
        self.dtype = float32 if found.scores.name == "matmul_split" else found.scores.operands[1].type.dtype
        self.weights = found.product.operands[0].type.dtype
        self.rows, self.columns = found.scores.result.type.shape[-2:]

    def write(self) -> None:
        """Write the loops."""
        found, shape = self.found, self.found.result.result.type.shape
        views = [self.low.in_hbm(v) for v in (found.query, found.scores.operands[1], found.product.operands[1])]
        mask = self.low.in_hbm(found.mask) if found.mask is not None and found.band is None else None
        out = result_in_hbm(self.low, found.result, any_order=True)
        chunks = -(-self.columns // self.sizes.chunk)
        saved = None
        if chunks > 1:
            # Sums, their number's negative exponent and total of every row.
            saved = self.b.hbm((self.rows, shape[-1] + 2), float32, "sums")
        with ExitStack() as stack:
            batch: list[At] = []
            inside = max(_loops_around(view, len(shape)) for view in views[1:])
            for n in shape[:-2]:
                if chunks == 1 and len(batch) == inside:
                    keys, values = (_picked(v, batch, len(shape)) for v in views[1:])
                    self._load(keys, values, 0, self.columns)
                batch.append(stack.enter_context(self.b.loop(n, "b")))
            query, keys, values, out = (_picked(v, batch, len(shape)) for v in (*views, out))
            self.query, self.out, self.saved = query, out, saved
            self.mask = None if mask is None else _picked(mask, batch, len(shape))
            if chunks == 1 and len(batch) == inside:
                self._load(keys, values, 0, self.columns)
            if found.causal:
                self._causal(keys, values)
            else:
                self._all(keys, values)

    @decision("attention: all columns")
    def _all(self, keys: View, values: View) -> None:
        """Every row sees every column."""
        step = self.sizes.chunk
        whole, rest = divmod(self.columns, step)
        last = whole - (not rest)
        if last:
            self._load(keys, values, 0, step)
        self._pass(0, self.rows, [(0, min(step, self.columns), self.found.band is not None)], 0, True, not last)
        if last > 1:
            with self.b.loop(last - 1, "c", step) as at:
                self._load(keys, values, at + step, step)
                self._pass(0, self.rows, [(0, step, self.found.band is not None)], at + step, False, False)
        if last:
            count = self.columns - last * step
            self._load(keys, values, last * step, count)
            self._pass(0, self.rows, [(0, count, self.found.band is not None)], last * step, False, True)

    @decision("attention: causal")
    def _causal(self, keys: View, values: View) -> None:
        """Row by row, columns up to the diagonal: superblocks of rows have as many columns as the last of them sees."""
        each = -(-self.rows // TUNING.row_lengths // TUNING.least_online_panel) * TUNING.least_online_panel
        # Whole panels up to the diagonal: no kind of panel is written for what is left of them.
        self.panel = min(self.sizes.panel, each)
        for first in range(0, self.columns, self.sizes.chunk):
            count = min(self.sizes.chunk, self.columns - first)
            if count < self.columns:
                self._load(keys, values, first, count)
            for start in range(first, first + count, each):
                rows, seen = min(each, first + count - start), start - first
                spans = [(0, seen, False)] if seen else []
                self._pass(start, rows, [*spans, (seen, seen + rows, True)], first, not first, True)
            if first + count < self.rows:
                rest = self.rows - first - count
                self._pass(first + count, rest, [(0, count, False)], first, not first, False)

    # What is on chip.

    def _load(self, keys: View, values: View, first: At, count: int) -> None:
        """A chunk of keys, turned to [width, columns], and of values."""
        lanes = self.lanes
        keys, values = sliced(keys, 1, first, count), sliced(values, 0, first, count)
        self.keys = self.b.sbuf((keys.sizes[0], count), self.dtype, "keys")
        self.values = self.b.sbuf((min(lanes, count), -(-count // lanes), values.sizes[1]), self.weights, "values")
        if values.dtype is self.weights:
            load_as_it_lies(self.b, self.values, values)
        else:
            for at, size in tiled(self.b, count, TUNING.online_staged_blocks * lanes, "s"):
                height, blocks = min(lanes, size), -(-size // lanes)
                depth = 2 if isinstance(at, Affine) and at.terms else 1
                staged = self.b.sbuf((height, blocks, values.sizes[1]), values.dtype, "narrow", depth=depth)
                load_as_it_lies(self.b, staged, sliced(values, 0, at, size))
                self._cast_blocks(sliced(self.values, 1, by_block(at, lanes), blocks), staged, size)
        if keys.strides[1] == 1:
            staged = self.keys
            if keys.dtype is not self.dtype:
                staged = self.b.sbuf((keys.sizes[0], count), keys.dtype, "narrow")
            self.b.op("dma_copy", staged, keys)
            if staged is not self.keys:
                self.low.evict(self.keys, staged)
            return
        rows = permuted(keys, (1, 0))
        for at, size in tiled(self.b, count, TUNING.online_staged_blocks * lanes, "s"):
            depth = 2 if isinstance(at, Affine) and at.terms else 1
            shape = (min(lanes, size), -(-size // lanes), rows.sizes[1])
            staged = self.b.sbuf(shape, keys.dtype, "rows", depth=depth)
            load_as_it_lies(self.b, staged, sliced(rows, 0, at, size))
            if keys.dtype is not self.dtype and not self.low.target["features.transpose_bit_exact"]:
                wide = self.b.sbuf(shape, self.dtype, "rows", depth=depth)
                self._cast_blocks(wide, staged, size)
                staged = wide
            for inner, height in tiled(self.b, size, lanes, "t"):
                into = split(sliced(self.keys, 1, affine(at) + inner, height), 1, (1, height))
                block = sliced(picked(staged, 1, by_block(inner, lanes)), 0, 0, height)
                turn_tile(self.low, into, block, rows.sizes[1])

    def _cast_blocks(self, tile: View, staged: View, count: int) -> None:
        """Rows as [lanes, blocks, columns] in another element type."""
        for into, part in zip(*(blocks_of(view, count) for view in (tile, staged)), strict=True):
            self.low.evict(into, part)

    # Rows.

    def _pass(
        self, start: int, rows: int, spans: Sequence[tuple[int, int, bool]], first: At, is_first: bool, is_last: bool
    ) -> None:
        """Some rows and the chunk of columns from `first` on; spans are of the chunk, with whether a mask matters."""
        for at, size in tiled(self.b, rows, TUNING.together * self.lanes, "r"):
            begin = affine(at) + start
            blocks = [self._begin(begin + i, min(self.lanes, size - i), is_first) for i in range(0, size, self.lanes)]
            for from_, to, masked in spans:
                for column, count in tiled(self.b, to - from_, self.panel, "c"):
                    # What is no loop's need not wait for its turn.
                    self.depth = 2 if isinstance(column, Affine) and column.terms else 1
                    self._panel(blocks, affine(column) + from_, count, first, masked)
            for block in blocks:
                self._end(block, is_last)

    def _begin(self, start: At, count: int, is_first: bool) -> Rows:
        """A block of rows with its queries, turned, and what is known of it."""
        width, out = self.query.sizes[1], self.found.product.result.type.shape[-1]
        rows = self.b.sbuf((count, width), self.query.dtype, "query", depth=2)
        self.b.op("dma_copy", rows, sliced(self.query, 0, start, count))
        left = self.b.sbuf((width, 1, count), self.dtype, transposed(rows), depth=2)
        turn_tile(self.low, left, rows, width)
        known = self.b.sbuf((count, out + 2), float32, "known", depth=2)
        sums, least, total = sliced(known, 1, 0, out), sliced(known, 1, out, 1), sliced(known, 1, out + 1, 1)
        if is_first:
            self.b.op("memset", known, value=0.0)
            self.b.op("memset", least, value=NOTHING_YET)
        else:
            assert self.saved is not None
            self.b.op("dma_copy", known, sliced(self.saved, 0, start, count))
        begin = affine(start)
        number = Affine(begin.const // self.lanes, tuple((v, f // self.lanes) for v, f in begin.terms))
        return Rows(number, start, count, picked(left, 1, 0), sums, least, total)

    def _end(self, block: Rows, is_last: bool) -> None:
        """Divide by the totals and store, or put aside what is known."""
        if not is_last:
            assert self.saved is not None
            known = View(
                block.sums.buffer,
                float32,
                block.sums.offset,
                (block.count, block.sums.sizes[1] + 2),
                block.sums.strides,
                block.sums.terms,
            )
            self.b.op("dma_copy", sliced(self.saved, 0, block.start, block.count), known)
            return
        inverse = self.b.sbuf((block.count, 1), float32, "inverse", depth=2)
        self.b.op("reciprocal", inverse, block.total)
        plain = self.out.dtype is float32
        done = block.sums if plain else self.b.sbuf(block.sums.sizes, self.out.dtype, "done", depth=2)
        self.low.selecting.scalars(done, block.sums, "multiply", inverse)
        self.b.op("dma_copy", sliced(self.out, 0, block.start, block.count), done)

    # Columns.

    def _panel(self, blocks: Sequence[Rows], at: Affine, count: int, first: At, masked: bool) -> None:
        """Some columns of the chunk into what is known of each block: stage by stage, so that engines overlap."""
        scores = [self._scores(block, at, count, first, masked) for block in blocks]
        weights = [self._weights(block, *made) for block, made in zip(blocks, scores, strict=True)]
        for block, (tile, factor) in zip(blocks, weights, strict=True):
            self._add(block, tile, factor, at)

    def _scores(self, block: Rows, at: Affine, count: int, first: At, masked: bool) -> tuple[View, View]:
        """Scaled and masked scores, and the negative of the greatest of each row."""
        made = self.b.sbuf((block.count, count), float32, "scores", depth=self.depth)
        parts = self.b.sbuf((block.count, -(-count // self.bank)), float32, "parts", depth=self.depth)
        mask = self._mask(block, at + first, count) if masked or self.mask is not None else None
        for column, width in tiled(self.b, count, self.bank, "n"):
            depth = 2 if isinstance(column, Affine) and column.terms else 1
            bank = self.b.psum((block.count, width), float32, "acc", depth=depth)
            self.b.op("nc_matmul", bank, block.left, sliced(self.keys, 1, at + column, width))
            part, into = sliced(parts, 1, by_block(column, self.bank), 1), sliced(made, 1, column, width)
            scale = self.found.scale
            if mask is None:
                self.b.op("tensor_scalar_reduce", into, bank, scale, None, part, op0="multiply", reduce_op="maximum")
                continue
            other = sliced(mask, 1, column, width)
            if self.found.hides:
                self.low.selecting.scalars(into, bank, "multiply", scale)
                self.b.op("tensor_copy_predicated", into, self._far_below(), other)
            else:
                self.b.op("scalar_tensor_tensor", into, bank, scale, other, op0="multiply", op1="add")
            self.b.op("tensor_reduce", part, into, op="maximum", axis=(-1,))
        least = self.b.sbuf((block.count, 1), float32, "least", depth=self.depth)
        self.b.op("tensor_reduce", least, parts, op="maximum", axis=(-1,), negate=True)
        return made, least

    @decision("attention: masked panel")
    def _mask(self, block: Rows, column: Affine, count: int) -> View:
        """What is added to the scores of some columns, or marks of those that something else takes the place of."""
        marks = self.found.hides
        made = self.b.sbuf((block.count, count), uint8 if marks else float32, "mask", depth=self.depth)
        if self.mask is not None:
            part = sliced(sliced(self.mask, 0, block.start, block.count), 1, column, count)
            if part.dtype is float32:
                self.b.op("dma_copy", made, part)
                return made
            loaded = self.b.sbuf(part.sizes, part.dtype, "mask", depth=self.depth)
            self.b.op("dma_copy", loaded, part)
            self.low.selecting.cast(made, loaded)
            return made
        attrs = self.found.band
        assert attrs is not None
        name, bound = ("greater_equal", attrs["low"]) if attrs["high"] is None else ("less_equal", attrs["high"])
        edge = self._edge(block, bound, column)
        numbers = sliced(
            sliced(column_numbers(self.low, min(self.panel, self.columns)), 0, 0, block.count), 1, 0, count
        )
        if marks:
            self.low.selecting.scalars(made, numbers, name, edge)
        else:
            self.low.selecting.scalars(made, numbers, name, edge, "multiply", self._far_below())
        return made

    def _far_below(self) -> float:
        """What a mask has inside of its band, as a number that can be computed with."""
        assert self.found.band is not None
        return max(float(self.found.band["inside"]), FAR_BELOW)

    def _edge(self, block: Rows, bound: int, column: Affine) -> View:
        """The column, counted from `column`, at which each row's part of a band ends."""
        numbers = sliced(sliced(row_numbers(self.low, self.rows), 0, 0, block.count), 1, block.number, 1)
        edge = self.b.sbuf((block.count, 1), float32, "edge", depth=self.depth)
        # Column numbers of loops are a table: an instruction reads no index.
        terms = [(v, f) for v, f in column.terms if f]
        self.b.op("tensor_scalar", edge, numbers, float(bound - column.const), op0="add")
        for value, factor in terms:
            table = multiples(self.low, -(-self.columns // factor), factor)
            step = sliced(sliced(table, 0, 0, block.count), 1, Affine(0, ((value, 1),)), 1)
            self.b.op("tensor_tensor", edge, edge, step, op="subtract", engine="vector")
        return edge

    def _weights(self, block: Rows, scores: View, least: View) -> tuple[View, View]:
        """exp(scores - greatest so far), and the factor by which what was known before has to be scaled."""
        count, b = block.count, self.b
        both, factor, total = (
            b.sbuf((count, 1), float32, name, depth=self.depth) for name in ("both", "factor", "part")
        )
        b.op("tensor_tensor", both, block.least, least, op="minimum", engine="vector")
        select = self.low.selecting
        select.activation("exp", factor, block.least, -1.0, both)
        b.op("tensor_copy", block.least, both, engine="vector")
        made = scores if self.weights is float32 else b.sbuf(scores.sizes, self.weights, "weights", depth=self.depth)
        select.activation("exp", made, scores, 1.0, both, total)
        b.op("scalar_tensor_tensor", block.total, block.total, factor, total, op0="multiply", op1="add")
        return made, factor

    def _add(self, block: Rows, weights: View, factor: View, at: Affine) -> None:
        """sums = sums * factor + weights @ values"""
        count, lanes = weights.sizes[1], self.lanes
        left = self.b.sbuf(
            (min(lanes, count), -(-count // lanes), block.count), weights.dtype, transposed(weights), depth=self.depth
        )
        turn_tile(self.low, left, weights, count)
        bank = self.b.psum(block.sums.sizes, float32, "sum")
        for k, height in tiled(self.b, count, lanes, "k"):
            stands = sliced(picked(left, 1, by_block(k, lanes)), 0, 0, height)
            moves = sliced(picked(self.values, 1, by_block(at + k, lanes)), 0, 0, height)
            self.b.op("nc_matmul", bank, stands, moves)
        self.b.op("scalar_tensor_tensor", block.sums, block.sums, factor, bank, op0="multiply", op1="add")


def _picked(view: View, batch: Sequence[At], rank: int) -> View:
    """A matrix of the batch; dims of loops that are not begun have size 1."""
    by = rank - view.ndim
    for d in range(view.ndim - 2):
        view = picked(view, 0, batch[d + by] if view.sizes[0] != 1 else 0)
    return view


def _loops_around(view: View, rank: int) -> int:
    """How many of the batch loops, from the outermost on, a matrix of an operand belongs to."""
    by = rank - view.ndim
    return max((d + by + 1 for d in range(view.ndim - 2) if view.sizes[d] != 1), default=0)

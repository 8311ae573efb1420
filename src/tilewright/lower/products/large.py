"""Products of matrices of any size: parts of both operands pass through the chip.

Where all of K fits, one operand's part stays while the other's pass by, and sums are in PSUM only:

    for each panel of columns (or set of row blocks): load it
        for each set of row blocks (or panel of columns): load it, multiply, store

Elsewhere sums are in SBUF:

    for each panel of columns, for each set of row blocks:
        for each part of K: load both, multiply, add to the sums
        store the sums
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tilewright.dtypes import bfloat16, float32
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.move.copy import by_block, load_as_it_lies, turn_tile
from tilewright.lower.move.join import result_in_hbm
from tilewright.lower.products.large_parts import Parts
from tilewright.lower.select.terms import SPLIT_TERMS, add_rest, write_terms
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.views import At, permuted, picked, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


class LargeProduct:
    """Writes one product."""

    def __init__(self, low: Lowering, op: Op, parts: Parts) -> None:
        self.low, self.b, self.op, self.parts = low, low.b, op, parts
        self.lanes = low.target["limits.partitions"]
        self.bank = low.target["memory.psum_bank_bytes"] // float32.itemsize

    def write(self) -> None:
        """Write the loops."""
        op = self.op
        x, y = op.operands
        left, right = self._dense(x), self._dense(y)
        out = result_in_hbm(self.low, op, any_order=True)
        rank = op.result.type.rank
        with ExitStack() as stack:
            batch = [stack.enter_context(self.b.loop(n, "b")) for n in op.result.type.shape[:-2]]
            left, right, out = (self._picked(v, batch, rank) for v in (left, right, out))
            if left.sizes[1] > self.parts.k_blocks * self.lanes:
                for n, columns in tiled(self.b, out.sizes[1], self.parts.columns, "n"):
                    some = sliced(right, 1, n, columns)
                    for m, rows in tiled(self.b, out.sizes[0], self.parts.row_blocks * self.lanes, "m"):
                        into = sliced(sliced(out, 0, m, rows), 1, n, columns)
                        self._added_up(sliced(left, 0, m, rows), some, into, _copies(m, _copies(n, 1)))
            else:
                self._at_once(left, right, out)

    def _dense(self, x: Value) -> View:
        """An operand in HBM in which one of the last two dims is without gaps."""
        view = self.low.in_hbm(x)
        plain = any(view.strides[d] == 1 or view.sizes[d] == 1 for d in (-1, -2))
        return view if plain else self.low.contiguous(x)

    def _picked(self, view: View, batch: Sequence[At], rank: int) -> View:
        by = rank - view.ndim
        for d in range(view.ndim - 2):
            view = picked(view, 0, batch[d + by] if view.sizes[0] != 1 else 0)
        return view

    def _at_once(self, left: View, right: View, out: View) -> None:
        """All of K: one side's part stays while those of the other pass by."""
        first, second = ("m", "n") if self.parts.rows_first else ("n", "m")
        sizes = dict(zip("mn", out.sizes, strict=True))
        steps = {"m": self.parts.row_blocks * self.lanes, "n": self.parts.columns}

        for outer, wide in tiled(self.b, sizes[first], steps[first], first):
            copies = _copies(outer, 1)
            stays = self._side(first, left, right, outer, wide, copies, True)
            for inner, narrow in tiled(self.b, sizes[second], steps[second], second):
                depth = _copies(inner, copies)
                passes = self._side(second, left, right, inner, narrow, depth, False)
                m, rows, n, columns, lefts, panels = inner, narrow, outer, wide, passes, stays
                if self.parts.rows_first:
                    m, rows, n, columns, lefts, panels = outer, wide, inner, narrow, stays, passes
                assert panels is not None
                into = sliced(sliced(out, 0, m, rows), 1, n, columns)
                for r, size in tiled(self.b, rows, self.lanes, "r"):
                    terms = self._block(sliced(left, 0, m, rows), lefts, r, size, _copies(r, depth))
                    self._multiply(terms, panels[0], left.sizes[1], None, sliced(into, 0, r, size), _copies(r, depth))

    def _side(
        self, side: str, left: View, right: View, at: At, count: int, copies: int, stays: bool
    ) -> list[View] | None:
        """A part of an operand; None for rows that are turned block by block as they pass, beside the products."""
        if side == "n":
            return [self._contracted(sliced(right, 1, at, count), "right", copies)]
        if not stays and self._is_turned(left):
            return None
        return self._lefts(sliced(left, 0, at, count), copies)

    def _is_turned(self, left: View) -> bool:
        """True for a left operand in HBM whose rows have gaps between their elements of K."""
        return left.strides[0] != 1 and left.sizes[0] != 1

    def _block(self, left: View, whole: list[View] | None, r: At, size: int, copies: int) -> list[View]:
        """A block of rows of the left operand: of what is here, or loaded and turned."""
        if whole is None:
            return self._lefts(sliced(left, 0, r, size), copies)
        return [sliced(term, 2, r, size) for term in whole]

    def _added_up(self, left: View, right: View, out: View, copies: int) -> None:
        """Some blocks of rows, one panel of columns, K part by part."""
        rows, columns = out.sizes
        k, step = left.sizes[1], self.parts.k_blocks * self.lanes
        height = min(rows, self.lanes)
        sums = self.b.sbuf((height, -(-rows // self.lanes), columns), float32, "sums", depth=copies)
        self.b.op("memset", sums, value=0.0)
        for at, count in tiled(self.b, k, step, "k"):
            depth = _copies(at, copies)
            panel = self._contracted(sliced(right, 0, at, count), "right", depth)
            some = sliced(left, 1, at, count)
            whole = None if self._is_turned(some) else self._lefts(some, depth)
            for r, size in tiled(self.b, rows, self.lanes, "r"):
                into = sliced(picked(sums, 1, by_block(r, self.lanes)), 0, 0, size)
                terms = self._block(some, whole, r, size, _copies(r, depth))
                self._multiply(terms, panel, count, into, sliced(out, 0, r, size), _copies(r, depth))
        for r, size in tiled(self.b, rows, self.lanes, "r"):
            self._store(sliced(picked(sums, 1, by_block(r, self.lanes)), 0, 0, size), sliced(out, 0, r, size))

    def _lefts(self, left: View, copies: int) -> list[View]:
        """Rows of the left operand with K on partitions, as the terms that they are the sum of."""
        return self._terms(self._contracted(permuted(left, (1, 0)), "left", copies), copies)

    def _multiply(self, terms: list[View], panel: View, k: int, sums: View | None, out: View, copies: int) -> None:
        """One block of rows by one panel, over the part of K that is here."""
        rows, columns = out.sizes
        row = self.b.sbuf((rows, columns), out.dtype, "row", depth=copies) if sums is None else None
        for at, count in tiled(self.b, columns, self.bank, "p"):
            bank = self.b.psum((rows, count), float32, "acc", depth=_copies(at, copies))
            rest = self.b.psum((rows, count), float32, "rest", depth=_copies(at, copies)) if len(terms) > 1 else bank
            for i in range(panel.sizes[1]):
                height = min(self.lanes, k - i * self.lanes)
                moving = sliced(sliced(picked(panel, 1, i), 0, 0, height), 1, at, count)
                for number, term in enumerate(terms):
                    into = rest if number else bank
                    self.b.op("nc_matmul", into, sliced(picked(term, 1, i), 0, 0, height), moving)
            if len(terms) > 1:
                done = self.b.sbuf((rows, count), float32, "done", depth=_copies(at, copies))
                add_rest(self.low.selecting, done, bank, rest)
                bank = done
            if sums is not None:
                into = sliced(sums, 1, at, count)
                self.b.op("tensor_tensor", into, into, bank, op="add", engine="vector")
            elif row is not None:
                self.low.evict(sliced(row, 1, at, count), bank)
        if row is not None:
            self.b.op("dma_copy", out, row)

    def _store(self, sums: View, out: View) -> None:
        if sums.dtype is not out.dtype:
            cast = self.b.sbuf(sums.sizes, out.dtype, "row", depth=2)
            self.low.evict(cast, sums)
            sums = cast
        self.b.op("dma_copy", out, sums)

    def _contracted(self, view: View, name: str, copies: int) -> View:
        """[K, columns] in HBM as [lanes, blocks of K, columns]."""
        k, columns = view.sizes
        blocks = -(-k // self.lanes)
        made = self.b.sbuf((min(self.lanes, k), blocks, columns), view.dtype, name, depth=copies)
        if view.strides[1] == 1 or columns == 1:
            load_as_it_lies(self.b, made, view)
            return made
        for at, count in tiled(self.b, columns, self.lanes, "t"):
            rows = self.b.sbuf((count, k), view.dtype, "rows", depth=_copies(at, copies))
            self.b.op("dma_copy", rows, permuted(sliced(view, 1, at, count), (1, 0)))
            turn_tile(self.low, sliced(made, 2, at, count), rows, k)
        return made

    @decision("product: terms of parts")
    def _terms(self, left: View, copies: int) -> list[View]:
        """The left operand, or numbers of fewer bits that add up to it."""
        if self.op.name != "matmul_split":
            return [left]
        made = [self.b.sbuf(left.sizes, bfloat16, "term", depth=copies) for _ in range(SPLIT_TERMS)]
        write_terms(self.low.selecting, left, made)
        return made


def _copies(at: At, around: int) -> int:
    """In a loop of its own a tile has a second copy; what is left after the loop needs one."""
    if isinstance(at, int):
        return 1 if at else around
    return 2 if at.terms else around

"""Products of matrices of any size: parts of both operands pass through the chip, sums stay in SBUF.

for each panel of columns, for each set of row blocks:
    for each part of K:
        load the part of the right operand
        for each row block: load and turn its part, multiply, add to the sums
    store the sums
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.dtypes import bfloat16, float32
from tilewright.ir.core import Op, Value
from tilewright.lower.copy import by_block, turn_tile
from tilewright.lower.decisions import decision
from tilewright.lower.join import result_in_hbm
from tilewright.lower.loops import tiled
from tilewright.lower.terms import SPLIT_TERMS, add_rest, write_terms
from tilewright.lower.tuning import TUNING
from tilewright.lower.views import At, permuted, picked, sliced, split
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


@dataclass(frozen=True, slots=True)
class Parts:
    """What is in work at a time: columns, blocks of rows, blocks of K."""

    columns: int
    row_blocks: int
    k_blocks: int


def parts_of(op: Op, lanes: int, bank: int, room: int) -> Iterator[Parts]:
    """Parts to try that may fit, those that move the fewest bytes first; room: bytes per partition."""
    m, n = op.result.type.shape[-2:]
    left, right = op.operands
    k = left.type.shape[-1]
    most = Parts(
        min(n, TUNING.large_panel),
        min(-(-m // lanes), TUNING.large_row_blocks),
        min(-(-k // lanes), TUNING.large_k_blocks),
    )

    def moved(parts: Parts) -> int:
        again = -(-n // parts.columns) * m * left.type.dtype.itemsize
        return k * (again + -(-m // (parts.row_blocks * lanes)) * n * right.type.dtype.itemsize)

    def held(parts: Parts) -> int:
        sums = parts.row_blocks * parts.columns * float32.itemsize if k > parts.k_blocks * lanes else 0
        sides = parts.columns * right.type.dtype.itemsize + lanes * left.type.dtype.itemsize
        return sums + parts.k_blocks * sides

    every = [
        Parts(columns, row_blocks, k_blocks)
        for columns in _halves(most.columns, bank)
        for row_blocks in _halves(most.row_blocks, 1)
        for k_blocks in _halves(most.k_blocks, 1)
    ]
    # Sums over short parts of K keep the Vector engine as long as the products take.
    long = [each for each in every if each.k_blocks >= min(TUNING.least_k_blocks, most.k_blocks)]
    for some in (long, [each for each in every if each not in long]):
        yield from sorted((each for each in some if held(each) <= room), key=lambda each: (moved(each), -each.k_blocks))
    yield every[-1]


def _halves(most: int, least: int) -> list[int]:
    """A number, half of it, and so on; the last is not below the least, unless the first is."""
    found = [most]
    while found[-1] > least:
        found.append(max(-(-found[-1] // 2), least))
    return found


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
            for n, columns in tiled(self.b, out.sizes[1], self.parts.columns, "n"):
                some = sliced(right, 1, n, columns)
                for m, rows in tiled(self.b, out.sizes[0], self.parts.row_blocks * self.lanes, "m"):
                    into = sliced(sliced(out, 0, m, rows), 1, n, columns)
                    self._set(sliced(left, 0, m, rows), some, into, _copies(m, _copies(n, 1)))

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

    def _set(self, left: View, right: View, out: View, copies: int) -> None:
        """Some blocks of rows, one panel of columns, all of K."""
        rows, columns = out.sizes
        k, step = left.sizes[1], self.parts.k_blocks * self.lanes
        height = min(rows, self.lanes)
        sums = None
        if k > step:
            sums = self.b.sbuf((height, -(-rows // self.lanes), columns), float32, "sums", depth=copies)
            self.b.op("memset", sums, value=0.0)
        for at, count in tiled(self.b, k, step, "k"):
            part = _copies(at, copies)
            panel = self._contracted(sliced(right, 0, at, count), "right", part)
            for m, size in tiled(self.b, rows, self.lanes, "r"):
                block = permuted(sliced(sliced(left, 0, m, size), 1, at, count), (1, 0))
                each = _copies(m, part)
                terms = self._terms(self._contracted(block, "left", each), each)
                into = None if sums is None else sliced(picked(sums, 1, by_block(m, self.lanes)), 0, 0, size)
                self._multiply(terms, panel, count, into, sliced(out, 0, m, size), each)
        if sums is not None:
            for m, size in tiled(self.b, rows, self.lanes, "r"):
                self._store(sliced(picked(sums, 1, by_block(m, self.lanes)), 0, 0, size), sliced(out, 0, m, size))

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
            self._load(made, view)
            return made
        for at, count in tiled(self.b, columns, self.lanes, "t"):
            rows = self.b.sbuf((count, k), view.dtype, "rows", depth=_copies(at, copies))
            self.b.op("dma_copy", rows, permuted(sliced(view, 1, at, count), (1, 0)))
            turn_tile(self.low, sliced(made, 2, at, count), rows, k)
        return made

    def _load(self, tile: View, source: View) -> None:
        whole, rest = divmod(source.sizes[0], tile.sizes[0])
        if whole:
            rows = split(sliced(source, 0, 0, whole * tile.sizes[0]), 0, (whole, tile.sizes[0]))
            self.b.op("dma_copy", sliced(tile, 1, 0, whole), permuted(rows, (1, 0, 2)))
        if rest:
            part = sliced(picked(tile, 1, whole), 0, 0, rest)
            self.b.op("dma_copy", part, sliced(source, 0, whole * tile.sizes[0], rest))

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

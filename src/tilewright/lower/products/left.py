"""Left operands of products: a block of rows that stands still, with the contracted dim on partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.dtypes import DType, bfloat16, float32
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.move.copy import by_block, turn_by_squares
from tilewright.lower.move.rehome import turned_home
from tilewright.lower.regions.roles import PRODUCTS, Roles
from tilewright.lower.select.terms import SPLIT_TERMS, write_terms
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.block import Block
from tilewright.lower.write.builder import transposed
from tilewright.lower.write.homes import Hbm
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import identity
from tilewright.lower.write.views import Affine, At, affine, as_shape, merged, permuted, picked, reshaped, sliced, split
from tilewright.tile.memory import PSUM
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.nest.blocks import BlockEmitter


def piece_of(columns: int, lanes: int) -> int:
    """Columns of a piece: a few pieces, none too short for an instruction."""
    return -(-max(TUNING.least_piece, -(-columns // TUNING.pieces)) // lanes) * lanes


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


class LeftOperands:
    """Turns what the products of one group read, block by block."""

    def __init__(self, emitter: BlockEmitter) -> None:
        self.e = emitter
        self.b = emitter.b
        self.low = emitter.low
        self.bank = self.b.target["memory.psum_bank_bytes"]
        self.depth = 2
        self.single = 1

    def turn(self, out: View, tile: View, k: int) -> None:
        """out[c, block, r] = tile[r, block * lanes + c] by the Tensor engine: several blocks to a bank."""
        lanes, rows = self.e.lanes, tile.sizes[0]
        if not self.b.target["features.transpose_bit_exact"]:
            turn_by_squares(self.low, out, tile, k)
            return
        dtype = self._psum_dtype(tile.dtype)
        whole, rest = divmod(k, lanes)
        each = min(max(self.bank // dtype.itemsize // rows, 1), max(whole, 1))
        for first, count in tiled(self.b, whole, each, "k"):
            self._turn_some(out, tile, first, count, lanes, dtype)
        if rest:
            self._turn_some(out, tile, whole, 1, rest, dtype)

    def _turned(self, rows: View, n: int, k: int) -> Contracted:
        """[n on partitions, blocks, k] as [k on partitions, blocks of k, n]."""
        lanes = self.e.lanes
        made = self.b.sbuf((min(lanes, k), -(-k // lanes), n), rows.dtype, transposed(rows), depth=2)
        whole, rest = divmod(n, rows.sizes[0])
        if whole > 1 and k <= lanes and self.b.target["features.transpose_bit_exact"]:
            self._turn_together(picked(made, 1, 0), sliced(rows, 1, 0, whole), k)
        elif whole:
            with self.b.loop(whole, "i") as i:
                self.turn(sliced(made, 2, i * rows.sizes[0], rows.sizes[0]), picked(rows, 1, i), k)
        if rest:
            self.turn(sliced(made, 2, whole * rows.sizes[0], rest), sliced(picked(rows, 1, whole), 0, 0, rest), k)
        return Contracted(made, k)

    @decision("left: turned several blocks at once")
    def _turn_together(self, out: View, rows: View, k: int) -> None:
        """out[c, block * lanes + r] = rows[r, block, c]: several blocks of rows to a bank of PSUM."""
        lanes, blocks, _ = rows.sizes
        dtype, unit = self._psum_dtype(rows.dtype), self.unit(lanes, rows.dtype)
        each = min(max(self.bank // dtype.itemsize // lanes, 1), blocks)
        for first, count in tiled(self.b, blocks, each, "i"):
            depth = self.depth if isinstance(first, Affine) and first.terms else 1
            bank = self.b.psum((k, count, lanes), dtype, transposed(rows, PSUM), depth=depth)
            for i in range(count):
                part = picked(rows, 1, affine(first) + i)
                self.b.op("nc_matmul", picked(bank, 1, i), part, unit, is_transpose=True, is_moving_onezero=True)
            self.e.copy(split(sliced(out, 1, affine(first) * lanes, count * lanes), 1, (count, lanes)), bank)

    def _turn_some(self, out: View, tile: View, first: At, count: int, width: int, dtype: DType) -> None:
        rows, lanes = tile.sizes[0], self.e.lanes
        depth = self.depth if isinstance(first, Affine) and first.terms else self.single
        bank = self.b.psum((width, count, rows), dtype, transposed(tile, PSUM), depth=depth)
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

    def _left(self, x: Value, op: Op, block: Block) -> Contracted:
        """The block's rows of the left operand, with K on partitions."""
        key = ("left", x)
        found = block.loaded.get(key)
        if found is None:
            k, lanes = block.width(x, x.type.shape[-1]), self.e.lanes
            roles = self._left_roles(x, op)
            kept = self._kept_turned(x)
            if kept is not None:
                return Contracted(sliced(kept, 2, block.start, block.partitions), k)
            ahead = self._turned_ahead(x, roles, k)
            if ahead is not None:
                return Contracted(ahead, k)
            early = self._turned_early(x, roles, k)
            if early is not None:
                return Contracted(sliced(early, 2, block.start, block.partitions), k)
            shape = (min(lanes, k), -(-k // lanes), block.partitions)
            made = self.b.sbuf(shape, x.type.dtype, transposed(x), depth=2)
            if not self._load_turned(x, roles, made, k, self.is_in_turn(op)):
                tile = self.e.whole_tile(x, roles)
                rows = reshaped(tile, (block.partitions, k))
                if rows is None:
                    rows = self.b.sbuf((block.partitions, k), tile.dtype, "rows", depth=2)
                    shaped = as_shape(rows, tile.sizes)
                    self.e.copy(shaped, tile)
                self.turn(made, rows, k)
            found = block.loaded[key] = made
        return Contracted(found, block.width(x, x.type.shape[-1]))

    @decision("left: on chip as it is read", if_found=True)
    def _kept_turned(self, x: Value) -> View | None:
        """[lanes, blocks of K, rows]: a left operand that lies on chip with K on partitions, or was moved there."""
        if x in self.e.group.roles or not self.e.block.is_plain:
            return None
        found = turned_home(self.low, x)
        return None if found is None else found.view

    @decision("left: turned for several trips", if_found=True)
    def _turned_ahead(self, x: Value, roles: Roles, k: int) -> View | None:
        """[lanes, blocks of K, rows]: a left operand that several trips load together, turned for all of them."""
        ahead, home = self.e.ahead, self.low.homes.get(x)
        if ahead is None or x in self.e.group.roles or not isinstance(home, Hbm) or k > self.e.lanes:
            return None
        if home.view.strides[-1] != 1:
            return None
        key = ("turned", x, roles.rows, roles.batch)
        found = ahead.tiles.get(key)
        if found is None:
            rows = ahead.all_trips(x, home.view, roles)
            flat = None if rows is None else reshaped(rows, (*rows.sizes[:2], k))
            if flat is None:
                return None
            with ahead.before():
                found = ahead.tiles[key] = self._turned(flat, flat.sizes[0] * ahead.count, k).view
        size = found.sizes[2] // ahead.count
        return sliced(found, 2, affine(ahead.index) * size, size)

    @decision("left: turned before the loop", if_found=True)
    def _turned_early(self, x: Value, roles: Roles, k: int) -> View | None:
        """[lanes, blocks of K, rows]: all rows of a small left operand, turned before the loop over them."""
        key = ("turned", x, roles.rows, roles.batch)
        found = self.e.early.tiles.get(key)
        home = self.low.homes.get(x)
        if found is not None or x in self.e.group.roles or not isinstance(home, Hbm):
            return found
        lanes, count = self.e.lanes, self.e.group.rows
        if -(-k // lanes) * count * float32.itemsize > TUNING.part_bytes or home.view.strides[-1] != 1:
            return None
        if home.view.dtype.itemsize == 2 and k % lanes == 0 and self.b.target["features.dma_transpose"]:
            # The loads turn it.
            return None
        rows = self.e.early_rows(x, roles)
        flat = None if rows is None else reshaped(rows, (*rows.sizes[:2], k))
        if flat is None:
            return None
        with self.e.early.before():
            made = self._turned(flat, count, k).view
        self.e.early.tiles[key] = made
        return made

    @decision("left: split into terms")
    def _split_left(self, x: Value, op: Op, block: Block) -> list[Contracted]:
        """The block's rows as three bfloat16 terms that add up to them, each with K on partitions."""
        key = ("split", x)
        found = block.split.get(key)
        if found is not None:
            return found
        k, lanes = block.width(x, x.type.shape[-1]), self.e.lanes
        tile = self.e.whole_tile(x, self._left_roles(x, op))
        rest = reshaped(tile, (block.partitions, k))
        if rest is None:
            copy = self.b.sbuf((block.partitions, k), float32, "rows", depth=2)
            shaped = as_shape(copy, tile.sizes)
            self.e.copy(shaped, tile)
            rest = copy
        shape = (min(lanes, k), SPLIT_TERMS, -(-k // lanes), block.partitions)
        made = self.b.sbuf(shape, bfloat16, transposed(x), depth=2)
        single = self.e.group.rows <= lanes
        for at, count in tiled(self.b, k, piece_of(k, lanes) if single else k, "c"):
            self._split_piece(sliced(rest, 1, at, count), sliced(made, 2, by_block(at, lanes), -(-count // lanes)))
        terms = [Contracted(picked(made, 1, i), k) for i in range(SPLIT_TERMS)]
        block.split[key] = terms
        return terms

    def _split_piece(self, rest: View, made: View) -> None:
        """Some columns as terms, turned: `made` is [lanes, terms, blocks of K, rows]."""
        lanes, (partitions, k), count = self.e.lanes, rest.sizes, made.sizes[1]
        terms = self.b.sbuf((partitions, count, k), bfloat16, "terms", depth=2)
        write_terms(self.e.select, rest, [picked(terms, 1, i) for i in range(count)])
        if k % lanes == 0 and partitions == lanes and self.b.target["features.dma_transpose"]:
            axes = (2, 1, 0) if k > lanes else None
            for i in range(count):
                blocks = split(picked(terms, 1, i), 1, (k // lanes, lanes))
                self.b.op("dma_transpose", picked(made, 1, i), blocks, axes=axes)
        else:
            for i in range(count):
                self.turn(picked(made, 1, i), picked(terms, 1, i), k)

    def is_in_turn(self, op: Op) -> bool:
        """True where a partition has rows of K that follow each other in memory: short ones come in long pieces."""
        return False

    @decision("left: loaded turned", if_found=True)
    def _load_turned(self, x: Value, roles: Roles, made: View, k: int, in_turn: bool) -> bool:
        """Let the load turn the rows, where it can; says whether it did."""
        if x in self.e.group.roles or not isinstance(self.low.home(x), Hbm) or x in self.e.block.tiles:
            return False
        readers = [step for step in self.e.user_of_any(x) if step.op.name not in PRODUCTS]
        if readers:
            return False
        first, stop = roles.rows
        if stop - first > 1 and merged(self.low.in_hbm(x), first, stop - 1) is None:
            # Its rows come in runs.
            return False
        part = merged(self.e.fetch_view(x, roles), 0, 1)
        if part is None or part.ndim != 2 or x.type.shape[slice(*roles.rows)] == (1,) * (roles.rows[1] - roles.rows[0]):
            return False
        lanes = self.e.lanes
        if part.strides[0] == 1 and part.strides[1] != 1:
            # The rows of K are contiguous as they are.
            if in_turn:
                self.b.op("dma_copy", made, split(permuted(part, (1, 0)), 0, made.sizes[:2]))
            else:
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

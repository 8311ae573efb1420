"""The tiles of a group whose rows are reduced: of all rows, of a piece of them, and of what is the same for all.

Partition p of P holds J rows: one after the other, row p * J + j, so that short rows make long transfers; or, as values
that stay on chip have them, row j * P + p. What is left has a place of its own behind them, on as many partitions as
there are rows left. What is the same for all rows lies on every partition, or, a column of it on each partition, as
`lines` (`meet.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from tilewright.dtypes import float32
from tilewright.ir.core import Op, Value
from tilewright.lower.kernels.meet import fits_bank, height_of, row_of_lines, spread_lines
from tilewright.lower.nest.columns import ColumnEmitter, Cut
from tilewright.lower.nest.steps import StepWriter
from tilewright.lower.regions.fuse import Step
from tilewright.lower.regions.roles import Roles, row_count
from tilewright.lower.regions.tall import SAME, tall_reads
from tilewright.lower.select.select import ALU, Operand, Twin
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.block import Block
from tilewright.lower.write.homes import Chip, Hbm, device_dtype
from tilewright.lower.write.patterns import once
from tilewright.lower.write.transfers import transfer
from tilewright.lower.write.views import At, as_shape, dropped, expanded, merged, permuted, sliced, split
from tilewright.tile.memory import PSUM, SBUF, Buffer
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.lower.regions.grouping import Group


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of every partition that are in work: places, and how many partitions have them."""

    number: At
    first: At
    count: int
    lanes: int


def layout(rows: int, lanes: int, by_blocks: bool) -> tuple[int, int]:
    """Partitions, and rows on each: equal parts where the partitions are well used, else what is left goes behind."""
    even = next((n for n in range(min(lanes, rows), 0, -1) if rows % n == 0), 1)
    spread = even if not by_blocks and even * 8 >= min(lanes, rows) * 7 else min(lanes, rows)
    return spread, rows // spread


class TallTiles(ColumnEmitter):
    """Where the ops of one group find what they read and put what they make."""

    def most_copies(self) -> int:
        return TUNING.most_copies

    def __init__(self, low: Lowering, group: Group, cut: Cut, pieces: int) -> None:
        assert group.tall is not None
        self.tall = group.tall
        self.piece: Piece | None = None
        super().__init__(low, group, cut)
        self.by_blocks = self.keep = self._lies_by_blocks()
        self.spread, self.each = self._layout()
        self.rest = max(group.rows - self.spread * self.each, 0)
        step = -(-self.each // max(min(pieces, self.each), 1))
        starts = range(0, self.each, step)
        self.pieces = [Piece(i, at, min(step, self.each - at), self.spread) for i, at in enumerate(starts)]
        self.whole_pieces = len(self.pieces)
        if self.rest:
            self.pieces.append(Piece(len(self.pieces), self.each, 1, self.rest))
        self.streamed = False
        """Whether nothing stays on chip from one pass to the next: pieces are loaded again."""
        self.in_pieces: set[Buffer] = set()
        """Tiles that hold one piece."""
        self.passing: set[Value] = set()
        """Values with rows that only one pass touches."""
        self.lines: dict[Value, View] = {}
        self.by_lines = False
        """Whether the step in work is one on lines."""

    def _layout(self) -> tuple[int, int]:
        return layout(self.group.rows, self.lanes, self.by_blocks)

    @property
    def slots(self) -> int:
        """Rows that each partition has room for."""
        return self.each + (1 if self.rest else 0)

    def _lies_by_blocks(self) -> bool:
        """True where rows are long, or parts of them are in work: each is a transfer of its own then anyway."""
        for v in (*self.group.roles, *self.group.reads):
            if self.tall.place(v.type.shape) is None:
                continue
            dims = range(v.type.rank - self.tall.behind, v.type.rank)
            is_cut = any(self.axes.of(v, d) in self.plan.outer for d in dims)
            size = prod(v.type.shape[d] for d in dims) * device_dtype(v.type.dtype).itemsize
            if not is_cut and size < TUNING.by_blocks_bytes:
                return False
        return True

    def _rows_per_partition(self) -> int:
        return 1

    def begin(self) -> None:
        """All rows of the part in work are to be written."""
        self.block = Block([], 0, 0, self.spread, self.slots)
        self.block.is_plain = False
        self.lines.clear()

    def begin_piece(self, piece: Piece | None) -> None:
        """Some of the rows are to be written; None: what is the same for all of them."""
        block, self.piece = self.block, piece
        gone = {v for v, tile in block.tiles.items() if tile.buffer in self.in_pieces}
        block.tiles = {v: tile for v, tile in block.tiles.items() if v not in gone}
        block.fetched = {key: tile for key, tile in block.fetched.items() if key[0] not in gone}

    # Tiles.

    def _new_tile(self, value: Value, roles: Roles, name: str) -> View:
        """A tile of all rows, or of the piece in work where nothing else is needed."""
        lanes, rows = self.spread, 1 if roles == SAME else self.slots
        piece = self.piece if value in self.passing and roles != SAME else None
        if piece is not None:
            lanes, rows = piece.lanes, piece.count
        shape = (lanes, rows, *self.free_sizes(value, roles))
        tile = self.b.sbuf(shape, device_dtype(value.type.dtype), name, depth=self.depth)
        if piece is not None:
            self.in_pieces.add(tile.buffer)
        return tile

    def _in_panel(self, tile: View, x: Value) -> View:
        """What of a tile belongs to the piece in work."""
        if self.piece is None or tile.buffer in self.in_pieces:
            return tile
        tile = sliced(tile, 0, 0, self.piece.lanes)
        return sliced(tile, 1, self.piece.first, self.piece.count) if tile.sizes[1] > 1 else tile

    def destination(self, value: Value) -> View:
        if self.by_lines:
            height, blocks = self._line_sizes(value)
            if value not in self.lines:
                self.lines[value] = self.b.sbuf((height, blocks), float32, value.name or "t", depth=self.depth)
            return as_shape(self.lines[value], (height, 1, blocks))
        tile = self.block.tiles.get(value)
        if tile is None:
            roles = self.group.roles[value]
            held = None if roles == SAME else self._on_chip(value, roles)
            tile = self._new_tile(value, roles, value.name or "t") if held is None else self.cut(held, value, roles)
            self.block.tiles[value] = tile
        return self._in_panel(tile, value)

    def operand(self, x: Any, op: Op) -> Operand:
        if self.by_lines and isinstance(x, Value):
            return self._line_operand(x, op)
        roles = self.group.roles[op.result]
        if not isinstance(x, Value) or roles == SAME or self.group.roles.get(x) != SAME:
            tile = super().operand(x, op)
            if isinstance(tile, View) and isinstance(x, Value) and roles != SAME and not self._has_rows(x):
                self.twin(tile, op)
            return tile
        tile = self.value_tile(x, SAME)
        self.twin(tile, op)
        return self._in_panel(self.beside_rows(tile, x, op), x)

    def _has_rows(self, x: Value) -> bool:
        return self.group.roles.get(x, SAME) != SAME or self.tall.place(x.type.shape) is not None

    def twin(self, tile: View, op: Op) -> None:
        """Put a row that many rows are computed with into PSUM too, where the Vector engine reads it beside them."""
        buffer, size = tile.buffer, prod(tile.buffer.shape[1:])
        known = self.select.twins.get(buffer)
        if known is not None and self.b.sees(known.buffer):
            return
        if buffer.memory is not SBUF or buffer.dtype is not float32:
            return
        if op.name not in (*ALU, "divide") or self.slots < TUNING.twinned or size == 1 or not fits_bank(self.low, size):
            return
        whole = self.b.psum(buffer.shape, float32, "twin")
        self.select.copy(whole, View(buffer, float32, 0, whole.sizes, whole.strides))
        self.select.twins[buffer] = Twin(whole.buffer, lambda: None, is_made=True)

    def _two_input_load(self) -> float:
        # Who is done first is to be seen as they are written.
        return 0.0

    def beside_rows(self, tile: View, x: Value, op: Op) -> View:
        """A tile of what is the same for all rows: without the dims that rows have, and with those that it lacks."""
        roles, rank = self.group.roles[op.result], op.result.type.rank
        by = rank - x.type.rank
        for d in reversed(range(*roles.rows)):
            tile = dropped(tile, 2 + d - by) if d >= by else tile
        for i, d in enumerate(roles.free_dims(rank)):
            tile = expanded(tile, 2 + i) if d < by else tile
        return tile

    def _constant(self, x: Value, roles: Roles) -> View | None:
        op = x.producer
        if op is None or op.name != "full":
            return super()._constant(x, roles)

        def make() -> View:
            made = StepWriter._constant(self, x, roles)
            assert made is not None
            return made

        # Pieces have loops of their own: all of them find it before those.
        return once(self.low, ("full", x, self.block.partitions, roles), make)

    def value_tile(self, x: Value, roles: Roles) -> View:
        x = self.same.get(x, x)
        if x in self.lines and x not in self.block.tiles:
            self.block.tiles[x] = self.spread_beside(x, self.lines[x])
        return super().value_tile(x, roles)

    # Lines.

    def _line_sizes(self, value: Value) -> tuple[int, int]:
        columns = prod(self.free_sizes(value, SAME))
        height = height_of(columns, self.lanes)
        return height, columns // height

    def has_lines(self, value: Value) -> bool:
        """True for what is the same for all rows and has so many columns that they had better share partitions."""
        columns = prod(self.free_sizes(value, SAME))
        return (
            columns > self.lanes
            and height_of(columns, self.lanes) >= TUNING.least_height
            and value.type.dtype is float32
        )

    def is_on_lines(self, step: Step) -> bool:
        """True for a step on what is the same for all rows, of which there are lines."""
        op, shape = step.op, self.free_sizes(step.result, SAME)
        if (
            self.group.roles[step.result] != SAME
            or op.definition.family != "elementwise"
            or not self.has_lines(step.result)
        ):
            return False
        long = [n for n in shape if n != 1]
        inputs = [self.same.get(v, v) for v in step.inputs()]
        found = [v for v in inputs if v in self.lines]
        return bool(found) and all(
            [n for n in self.free_sizes(v, SAME) if n != 1] == long if v in self.lines else v.type.size == 1
            for v in inputs
        )

    def _line_operand(self, x: Value, op: Op) -> View:
        height, blocks = self._line_sizes(op.result)
        x = self.same.get(x, x)
        if x in self.lines:
            return as_shape(self.lines[x], (height, 1, blocks))
        tile = self.value_tile(x, SAME)
        return as_shape(sliced(tile, 0, 0, height), (height, 1, 1))

    def spread_beside(self, x: Value, lines: View) -> View:
        """Lines of a value's columns on every partition, in the value's shape."""
        tile = spread_lines(self.low, self.select, lines, self.spread, self._is_read_beside(x))
        return as_shape(tile, (self.spread, 1, *self.free_sizes(x, SAME)))

    def _is_read_beside(self, x: Value) -> bool:
        """True where the Vector engine alone reads what is spread, beside rows: from PSUM it does so at no cost."""
        users = [step for step in self.steps if self.reads(step, x) and self.group.roles[step.result] != SAME]
        alike = all(step.kind == "op" and step.op.name in (*ALU, "divide") for step in users)
        floats = all(v.type.dtype.is_float for step in users for v in step.op.values())
        return alike and floats and fits_bank(self.low, prod(self.free_sizes(x, SAME)))

    # Between HBM and tiles.

    def _move_operands(self, op: Op) -> None:
        for x, roles in tall_reads(op, self.tall, self.group.roles).items():
            if self._on_chip(x, roles) is not None or x not in self.low.homes:
                continue
            if merged(self.low.in_hbm(x), roles.rows[0], roles.rows[1] - 1) is None:
                self.low.contiguous(x)

    def _on_chip(self, x: Value, roles: Roles) -> View | None:
        """All rows of a value that stays on chip, [partitions, rows, *free], where they lie as they are wanted."""
        home = self.low.homes.get(x)
        return home.view if isinstance(home, Chip) and self.by_blocks and home.rows == roles.rows else None

    def _chip(self, value: Value) -> Chip | None:
        # Who reads it in another order is given it by way of HBM, as are the few who read what is the same for all.
        turned = any(use.name == "transpose" for use in value.uses) and value.type.rank > 2
        return None if turned or self.group.roles[value] == SAME else super()._chip(value)

    def _fetch(self, x: Value, roles: Roles) -> View:
        if row_count(x.type.shape, roles) == 1:
            return super()._fetch(x, roles)
        self.low.home(x)
        held = self._on_chip(x, roles)
        if held is not None:
            return self.cut(held, x, roles)
        source = self.low.in_hbm(x)
        tile = self._new_tile(x, roles, x.name or "x")
        if tile.buffer in self.in_pieces:
            assert self.piece is not None
            self._move(tile, self._of_piece(source, x, roles, self.piece))
            return tile
        for piece in self.pieces:
            held = sliced(sliced(tile, 0, 0, piece.lanes), 1, piece.first, piece.count)
            self._move(held, self._of_piece(source, x, roles, piece))
        return tile

    def _move(self, dst: View, src: View) -> None:
        """A transfer: pieces are several that move at the same time."""
        if len(self.pieces) > 1:
            self.b.op("dma_copy", dst, src)
        else:
            transfer(self.b, dst, src)

    def _of_piece(self, view: View, x: Value, roles: Roles, piece: Piece) -> View:
        """The rows of a piece in HBM: [partitions, rows, *free]."""
        free = roles.free_dims(view.ndim)
        rows = merged(permuted(view, (*range(*roles.rows), *free)), 0, roles.rows[1] - roles.rows[0] - 1)
        assert rows is not None, "rows that are not evenly apart are made contiguous before"
        whole = self.spread * self.each
        if piece.first == self.each:
            part = expanded(sliced(rows, 0, whole, self.rest), 1)
        elif self.by_blocks:
            blocks = split(sliced(rows, 0, 0, whole), 0, (self.each, self.spread))
            part = sliced(permuted(blocks, (1, 0, *range(2, blocks.ndim))), 1, piece.first, piece.count)
        else:
            part = sliced(split(sliced(rows, 0, 0, whole), 0, (self.spread, self.each)), 1, piece.first, piece.count)
        return self.cut(part, x, roles)

    def _store(self, value: Value) -> None:
        """Send what is finished of a value to HBM."""
        low, roles = self.low, self.group.roles[value]
        if value not in self.kept or (value not in self.block.tiles and value not in self.lines):
            return
        home = low.homes[value]
        wanted = list(low.outputs.get(value, []))
        if isinstance(home, Hbm) and all(home.view.buffer is not v.buffer for v in wanted):
            wanted.append(home.view)
        for view in wanted:
            low.delivered[view.buffer] = None
            if roles == SAME:
                self._store_same(value, self.cut(expanded(expanded(view, 0), 0), value, roles))
            else:
                assert self.piece is not None
                self._move(self._of_piece(view, value, roles, self.piece), self.destination(value))

    def _store_same(self, value: Value, out: View) -> None:
        lines = self.lines.get(value)
        if lines is None or lines.sizes[1] > self.low.target["limits.partitions"]:
            row = sliced(self.value_tile(value, SAME), 0, 0, 1)
            if row.buffer.memory is PSUM:
                held = self.b.sbuf(row.sizes, row.dtype, "row", depth=2)
                self.select.copy(held, row)
                row = held
        else:
            row = row_of_lines(self.low, lines)
        self.b.op("dma_copy", out, row)

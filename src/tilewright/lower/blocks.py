"""Emission of a group: its loops, and in them one block of rows after the other.

Every tile of the body is [partitions, J, *free]: J rows lie in each partition (1 unless the group only computes element
by element, where several rows per partition make transfers and instructions longer).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from math import prod
from typing import TYPE_CHECKING, Any

from tilewright.dtypes import bfloat16, float32
from tilewright.ir.core import Op, Value
from tilewright.lower.causal import find_causal
from tilewright.lower.described import described
from tilewright.lower.fuse import Fuser, Step
from tilewright.lower.homes import Chip, Hbm, device_dtype, is_view
from tilewright.lower.inside import INSIDE
from tilewright.lower.matmul import STREAMED, MatmulEmitter
from tilewright.lower.moves import lay_by_rows, load, load_and_spread, replicate
from tilewright.lower.patterns import column_numbers
from tilewright.lower.pieces import run_before_product, write_in_pieces
from tilewright.lower.prepare import NARROW
from tilewright.lower.ranges import range_of
from tilewright.lower.rehome import replicated
from tilewright.lower.roles import PRODUCTS, Roles, operand_roles
from tilewright.lower.select import ACTIVATIONS, ALU, Operand, Selector
from tilewright.lower.tuning import BLOCK_BYTES, MANY_BLOCKS, SHORT_ROW, SPREAD_BYTES, TILE_BYTES
from tilewright.lower.views import (
    Affine,
    At,
    affine,
    broadcast,
    dropped,
    expanded,
    merged,
    permuted,
    picked,
    reshaped,
    sliced,
    split,
)
from tilewright.tile.memory import SBUF
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.grouping import Group
    from tilewright.lower.lowering import Lowering

ELEMENT_BY_ELEMENT = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "negative", "reciprocal")
"""Ops whose instructions may write over what they read."""

MOST_COPIES = 6
"""Copies of a tile that may be alive at once, so that transfers and engines overlap, where there is room for them."""


class Block:
    """One block of rows while its body is written: where it starts, how many rows, and the tiles made so far."""

    def __init__(self, batch: Sequence[At], start: At, number: At, partitions: int, per: int) -> None:
        self.batch = batch
        self.start = start
        self.number = number
        self.partitions = partitions
        self.per = per
        self.tiles: dict[Value, View] = {}
        self.panel: tuple[Value | None, At, int] | None = None
        self.loaded: dict[tuple, View] = {}
        # Values from outside by the dims that they have as rows and in loops: an op may read one in several ways.
        self.fetched: dict[tuple[Value, tuple[int, ...], tuple[int, ...]], tuple[View, list[int]]] = {}
        self.split: dict[tuple, list[Any]] = {}
        # Values whose columns end early, how many they have, and from which on a mask matters.
        self.short: frozenset[Value] = frozenset()
        self.columns = self.open = 0

    def width(self, value: Value, full: int) -> int:
        """Columns of a value in this block."""
        return self.columns if value in self.short else full


class BlockEmitter:
    """Writes one group."""

    def __init__(self, low: Lowering, group: Group, keep: bool = True) -> None:
        self.low = low
        self.b = low.b
        self.group = group
        self.keep = keep
        """Whether results that are read later may stay on chip."""
        self.select = Selector(low.b)
        fuser = Fuser(group)
        self.steps = fuser.steps()
        self.same = fuser.same
        self.lanes = low.target["limits.partitions"]
        self.per = self._rows_per_partition()
        self.depth = 2
        self.kept = group.results
        self.in_batch: dict[Value, View] = {}
        self.causal = find_causal(group, self.steps, self.lanes) if self.per == 1 else None
        self.matmul = MatmulEmitter(self)
        self.user_of = {v: [s for s in self.steps if self.reads(s, v)] for op in group.ops for v in op.results}

    def reads(self, step: Step, value: Value) -> bool:
        """True when a step reads a value, perhaps under another type."""
        return any(v is value or self.same.get(v) is value for v in step.inputs())

    # The loops.

    def _expected_load(self) -> dict[str, float]:
        """Time of each engine for what only it can do, over all blocks, so that the rest can be shared fairly."""
        load = {"vector": 0.0, "scalar": 0.0, "gpsimd": 0.0}
        target = self.low.target
        for step in self.steps:
            columns = step.op.result.type.size / self.lanes
            if step.op.definition.family == "reduction":
                columns = step.op.operands[0].type.size / self.lanes
            if step.kind == "activation":
                load["scalar"] += columns / target["clock_ghz.scalar"]
            elif step.op.name in ("max", "min", "prod", "where", "cumsum", "cumprod"):
                load["vector"] += columns / target["clock_ghz.vector"]
        return load

    def _two_input_load(self) -> float:
        """What the Vector engine is likely to do of the work on two full tiles, which it shares with GpSimd."""
        wide = [step for step in self.steps if step.kind == "mixed" or self._has_two_tiles(step)]
        return sum(step.op.result.type.size for step in wide) / self.lanes / self.low.target["clock_ghz.vector"]

    def _has_two_tiles(self, step: Step) -> bool:
        tiles = [v for v in step.inputs() if v.type.size * 8 >= step.op.result.type.size or v.type.rank == 1]
        return step.kind == "op" and step.op.name in ALU and len(tiles) == 2

    def run(self) -> None:
        """Write the loops and every block."""
        self.select.load = self._expected_load()
        self.select.ahead = {"vector": self._two_input_load()}
        self._make_homes()
        self._make_shared()
        for op in self.group.ops:
            self._move_operands(op)
        self._all_rows()
        self._settle_copies()
        self._finish()

    def _all_rows(self) -> None:
        """The loops, and every block."""
        self.matmul.prepare()
        with ExitStack() as stack:
            batch = [stack.enter_context(self.b.loop(n, "b")) for n in self.group.batch]
            self._load_batch(batch)
            self.matmul.prepare_batch(batch)
            size = self.lanes * self.per
            whole, rest = divmod(self.group.rows, size)
            if self.causal is not None:
                self._causal_rows(batch)
                whole = rest = 0
            first = 0
            if whole > 1 and self.matmul.is_pending:
                # The first block loads what all of them need, part by part as it needs them.
                self._body(Block(batch, 0, 0, self.lanes, self.per))
                self.matmul.all_loaded()
                first = 1
            if whole > first:
                with self.b.loop(whole - first, "r") as i:
                    number = i + first
                    self._body(Block(batch, number * size, number, self.lanes, self.per))
                self.matmul.all_loaded()
            self._rest(batch, whole, whole * size, rest)

    def _load_batch(self, batch: Sequence[At]) -> None:
        """Put values without rows that differ from trip to trip of the batch loops on every partition."""
        self.in_batch.clear()
        self.block = Block(batch, 0, 0, self.lanes, 1)
        for op in self.group.ops:
            if op.definition.family != "elementwise" or self.group.rows == 1:
                continue
            roles, rank = self.group.roles[op.result], op.result.type.rank
            for x in op.values():
                if x in self.group.roles or not self.is_loaded_ahead(x):
                    continue
                own = self._own_roles(x, roles, rank - x.type.rank)
                looped = [d for d in own.batch if x.type.shape[d] != 1]
                if looped and prod(x.type.shape[slice(*own.rows)]) == 1 and x in self.low.homes:
                    self.in_batch[x] = self._replicate(x, own)

    def _causal_rows(self, batch: Sequence[At]) -> None:
        """Rows that look back only: superblock by superblock, each with its own number of columns."""
        causal = self.causal
        assert causal is not None

        def block(number: At, first: int, stop: int) -> Block:
            made = Block(batch, affine(number) * self.lanes, number, self.lanes, 1)
            made.short = causal.values
            made.columns, made.open = causal.end(stop, self.lanes), causal.open(first, self.lanes)
            return made

        for first, stop in causal.superblocks(self.lanes):
            begin = first
            if self.matmul.is_pending:
                self._body(block(first, first, stop))
                begin += 1
            if stop > begin:
                with self.b.loop(stop - begin, "r") as i:
                    self._body(block(i + begin, first, stop))
        self.matmul.all_loaded()

    def _rest(self, batch: Sequence[At], number: int, start: int, rest: int) -> None:
        """The rows that fill no whole block: as many partitions with J rows as there are, then single rows."""
        while rest:
            per = self.per if rest >= self.per else 1
            partitions = min(rest // per, self.lanes)
            self._body(Block(batch, start, number, partitions, per))
            self.matmul.all_loaded()
            start += partitions * per
            rest -= partitions * per
            number += 1

    def _rows_per_partition(self) -> int:
        group = self.group
        described = any(v.producer is not None and v.producer.name in ("iota", "band") for v in group.reads)
        plain = (
            not described
            and all(op.definition.family == "elementwise" and not self._uses_column(op) for op in group.ops)
            and not any(self._reads_chip(op) for op in group.ops)
        )
        outside = [v for v in group.results if self._is_read_later(v) and self._is_worth_keeping(v)]
        if not plain or outside or group.rows <= self.lanes:
            return 1
        widest = max(op.result.type.size // max(group.rows * prod(group.batch), 1) * 4 for op in group.ops)
        tiles = len(group.ops) + len(group.reads)
        budget = self.low.target["memory.sbuf_usable_bytes"] // (4 * max(tiles, 2))
        goal = min(budget, TILE_BYTES)
        per = max(goal // max(widest, 1), 1)
        most = -(-group.rows // self.lanes)
        # At least a few blocks, so that loading, computing and storing overlap.
        blocks = max(-(-most // per), min(4, most * widest // BLOCK_BYTES))
        return max(1, min(per, -(-most // max(blocks, 1))))

    def _reads_chip(self, op: Op) -> bool:
        """True when an op reads rows of a value that only is on chip."""
        roles, rank = self.group.roles[op.result], op.result.type.rank
        for x in op.values():
            if x in self.group.roles or x in self.low.given or not isinstance(self.low.homes.get(x), Chip):
                continue
            if prod(x.type.shape[slice(*self._own_roles(x, roles, rank - x.type.rank).rows)]) != 1:
                return True
        return False

    def _is_read_later(self, value: Value) -> bool:
        return any(use not in self.group.ops and use is not self.low.program.output_op for use in value.uses)

    def _is_worth_keeping(self, value: Value) -> bool:
        """True for a result that fits on chip, other than as a great many short rows."""
        blocks = -(-self.group.rows // self.lanes)
        free = value.type.size // max(self.group.rows, 1)
        size = blocks * free * device_dtype(value.type.dtype).itemsize
        return self.low.may_keep(value, size) and not (blocks > MANY_BLOCKS and free < SHORT_ROW)

    def _settle_copies(self) -> None:
        """As many copies of each tile as there is room for beside what stays."""
        tiles, self.b.copied = self.b.copied, []
        each = sum(buffer.row_bytes for buffer in tiles)
        stays = sum(self.low.resident.values()) + sum(view.buffer.row_bytes for view in self.low.shared.values())
        stays += sum(right.view.buffer.row_bytes for right in self.matmul.right.values() if right.view.on_chip)
        room = self.low.target["memory.sbuf_usable_bytes"] - stays
        copies = max(1, min(MOST_COPIES, room // max(each, 1)))
        for buffer in tiles:
            # What only passes through keeps the few copies it asked for: more would take bandwidth from what is due.
            buffer.depth = min(copies, buffer.depth) if buffer.name == STREAMED else copies

    def _uses_column(self, op: Op) -> bool:
        roles, rank = self.group.roles[op.result], op.result.type.rank
        free = roles.free_dims(rank)
        wide = any(op.result.type.shape[d] != 1 for d in free)
        for x in op.values():
            by = rank - x.type.rank
            rows = any(d >= by and x.type.shape[d - by] != 1 for d in range(*roles.rows))
            if wide and rows and all(d < by or x.type.shape[d - by] == 1 for d in free):
                return True
        return False

    # What every block reads.

    def _make_shared(self) -> None:
        """Put values without rows on every partition, before the loops."""
        group = self.group
        self.block = Block([], 0, 0, self.lanes, 1)
        for op in group.shared:
            self.b.location = op.location
            if self._spread_cast(op):
                continue
            rank = op.result.type.rank
            whole = Roles((0, 0))
            operands = [
                self._align(self._replicated(x, whole, []), rank - x.type.rank) if isinstance(x, Value) else x
                for x in op.operands
            ]
            dst = self.b.sbuf((self.lanes, 1, *op.result.type.shape), device_dtype(op.result.type.dtype), "shared")
            self.select.emit(op, dst, operands)
            self.low.shared["shared", op.result, None] = reshaped_tile(dst, (self.lanes, op.result.type.size))
        for op in group.ops:
            if op.definition.family != "elementwise" or group.rows == 1:
                continue
            roles, rank = group.roles[op.result], op.result.type.rank
            for x in op.values():
                if x in group.roles or (x.producer is not None and x.producer.name in ("full", "iota", "band")):
                    continue
                own = self._own_roles(x, roles, rank - x.type.rank)
                looped = [d for d in own.batch if x.type.shape[d] != 1]
                if prod(x.type.shape[slice(*own.rows)]) == 1 and not looped and self.is_loaded_ahead(x):
                    self._replicated(x, own, [])

    def is_loaded_ahead(self, x: Value) -> bool:
        """True for a value without rows that is put on every partition before the loops."""
        return True

    def _move_operands(self, op: Op) -> None:
        """Bring operands to where the blocks can read them from, before the loops."""
        roles, rank = self.group.roles[op.result], op.result.type.rank
        for i, x in enumerate(op.operands):
            if not isinstance(x, Value) or x in self.group.roles or x not in self.low.homes:
                continue
            if op.definition.family in ("reduction", "scan"):
                own = operand_roles(op, roles)
            elif op.name in PRODUCTS and i == 1:
                self._move_right(x)
                continue
            elif op.name == "take":
                # Its rows are fetched from HBM.
                self.low.in_hbm(x)
                continue
            else:
                own = self._own_roles(x, roles, rank - x.type.rank)
            if op.definition.family in ("reduction", "scan", "index"):
                lay_by_rows(self.low, x, own)
            self._move_rows(x, own)

    def _move_right(self, x: Value) -> None:
        home, last = self.low.homes[x], x.type.rank
        wanted = ((last - 2, last - 1), (last - 1, last))
        if isinstance(home, Chip) and home.rows not in wanted and self.low.with_rows(x, wanted[0]) is None:
            self.low.in_hbm(x)

    def _move_rows(self, x: Value, own: Roles) -> None:
        home, count = self.low.homes[x], prod(x.type.shape[slice(*own.rows)])
        if isinstance(home, Chip):
            looped = any(x.type.shape[d] != 1 for d in own.batch)
            if count == 1 and self.group.rows != 1:
                # On every partition: before the loops, unless it differs from trip to trip.
                moved = None if looped else home
            else:
                moved = home if home.row_count == count == 1 else self.low.with_rows(x, own.rows)
            if moved is None:
                self.low.in_hbm(x)
        elif count != 1 and own.rows[1] - own.rows[0] > 1 and merged(home.view, own.rows[0], own.rows[1] - 1) is None:
            self.low.contiguous(x)

    def _spread_cast(self, op: Op) -> bool:
        """A cast of a row to float32, made by the Tensor engine as it spreads the row; says whether it was one."""
        (x, *more) = op.operands
        if op.name != "cast" or more or op.result.type.dtype is not float32 or x.type.dtype not in NARROW:
            return False
        home = self.low.homes.get(x)
        if not isinstance(home, Hbm) or self.lanes * op.result.type.nbytes < SPREAD_BYTES:
            return False
        tile = load_and_spread(self.low, home.view, self.lanes, "shared")
        self.low.shared["shared", op.result, None] = tile
        return True

    def _align(self, tile: View, by: int) -> View:
        for _ in range(by):
            tile = expanded(tile, 2)
        return tile

    # Results.

    def _make_homes(self) -> None:
        """Decide where each result lives: on chip where something later reads it and there is room, else in HBM."""
        low = self.low
        for value in self.kept:
            later = self._is_read_later(value)
            views = low.outputs.get(value, [])
            if not later:
                low.homes[value] = Hbm(views[0])
                continue
            chip = self._chip(value)
            if chip is not None:
                low.homes[value] = chip
            elif views:
                low.homes[value] = Hbm(views[0])
            else:
                made = self.b.hbm(value.type.shape, device_dtype(value.type.dtype), value.name or "spill")
                low.homes[value] = Hbm(made)

    def _chip(self, value: Value) -> Chip | None:
        roles, shape = self.group.roles[value], value.type.shape
        rows = self.group.rows
        if self.per != 1:
            self.low.refused[value] = f"rows are short: {self.per} of them share a partition in its loads"
            return None
        if not self.keep:
            return None
        lanes = min(rows, self.lanes)
        blocks = -(-rows // self.lanes)
        free = (*shape[: roles.rows[0]], *shape[roles.rows[1] :])
        size = blocks * prod(free) * device_dtype(value.type.dtype).itemsize
        if not self.low.may_keep(value, size):
            return None
        self.low.resident[value] = size
        view = self.b.sbuf((lanes, blocks, *free), device_dtype(value.type.dtype), value.name or "kept")
        return Chip(view, shape, roles.rows)

    def _finish(self) -> None:
        for value in self.group.reads:
            home_value = value
            if all(use in self.group.ops or use.parent is None for use in home_value.uses):
                self.low.release([home_value])

    # One block.

    def _body(self, block: Block) -> None:
        self.block = block
        done: set[Op] = set()
        for i, step in enumerate(self.steps):
            if step.op in done:
                continue
            self.b.location = step.op.location
            if step.op.name in PRODUCTS:
                done |= self.matmul.emit(step, block)
            elif run := run_before_product(self, i):
                write_in_pieces(self, run)
                done |= {each.op for each in run}
            else:
                self.write_step(step)
            self._store(step.result)
            if step.total is not None:
                self._store(step.total.result)
            for each in self.steps:
                if each.op in done:
                    self._store(each.result)

    def _store(self, value: Value) -> None:
        """Send a finished tile to HBM where the value lives there (too)."""
        block, low = self.block, self.low
        if value not in self.kept or value not in block.tiles or ("stored", value) in block.loaded:
            return
        block.loaded["stored", value] = block.tiles[value]
        home = low.homes[value]
        wanted = list(low.outputs.get(value, []))
        if isinstance(home, Hbm) and all(home.view.buffer is not v.buffer for v in wanted):
            wanted.append(home.view)
        for view in wanted:
            roles = self.group.roles[value]
            low.delivered[view.buffer] = None
            self.b.op("dma_copy", self.cut(self.hbm_tile(view, roles), value, roles), block.tiles[value])

    def cut(self, tile: View, x: Value, roles: Roles) -> View:
        """What of a tile [partitions, J, *free] is in work: all of it."""
        return tile

    def free_sizes(self, x: Value, roles: Roles) -> list[int]:
        """The free dims of what is in work."""
        sizes = [x.type.shape[d] for d in roles.free_dims(x.type.rank)]
        if x in self.block.short:
            sizes[-1] = self.block.columns
        return sizes

    def hbm_tile(self, view: View, roles: Roles) -> View:
        """The part of a tensor in HBM that belongs to the block: [partitions, J, *free]."""
        block = self.block
        rank = view.ndim
        free = roles.free_dims(rank)
        part = permuted(view, (*roles.batch, *range(*roles.rows), *free))
        for at in block.batch[: len(roles.batch)]:
            part = picked(part, 0, at)
        count = roles.rows[1] - roles.rows[0]
        if count == 0:
            part = expanded(part, 0)
        else:
            merged_rows = merged(part, 0, count - 1)
            assert merged_rows is not None, "rows that are not evenly apart are made contiguous before"
            part = merged_rows
        part = sliced(part, 0, block.start, block.partitions * block.per)
        return split(part, 0, (block.partitions, block.per))

    def chip_tile(self, chip: Chip, roles: Roles) -> View:
        """The part of a tensor on chip that belongs to the block."""
        block = self.block
        outside = [d for d in range(len(chip.shape)) if not chip.rows[0] <= d < chip.rows[1]]
        part = sliced(chip.view, 0, 0, block.partitions)
        part = picked(part, 1, block.number)
        looped = [d for d in roles.batch if d in outside]
        order = [outside.index(d) + 1 for d in (*looped, *[d for d in outside if d not in looped])]
        part = permuted(part, (0, *order))
        for d in looped:
            part = picked(part, 1, block.batch[roles.batch.index(d)])
        dims = [d for d in outside if d not in roles.batch]
        return with_dims(expanded(part, 1), dims, roles.free_dims(len(chip.shape)))

    def destination(self, value: Value) -> View:
        """The tile an op writes: its place on chip, or a new one."""
        block = self.block
        found = block.tiles.get(value)
        if found is not None:
            return self._in_panel(found, value)
        roles = self.group.roles[value]
        home = self.low.homes.get(value)
        if isinstance(home, Chip):
            tile = self.cut(self.chip_tile(home, roles), value, roles)
        else:
            shape = (block.partitions, block.per, *self.free_sizes(value, roles))
            if not self.user_of[value] and value not in self.kept:
                # Nothing reads it: an instruction writes it on the way to something else.
                scratch = bfloat16 if value.type.dtype is float32 else device_dtype(value.type.dtype)
                tile = block.tiles[value] = self.b.sbuf(shape, scratch, "scratch")
                return tile
            tile = self.b.sbuf(shape, device_dtype(value.type.dtype), value.name or "t", depth=self.depth)
        block.tiles[value] = tile
        return tile

    # Operands.

    def operand(self, x: Any, op: Op) -> Operand:
        """An operand aligned with the tile of an op's result: equal sizes, or 1 where it is read again."""
        if not isinstance(x, Value):
            return x
        roles, rank = self.group.roles[op.result], op.result.type.rank
        by = rank - x.type.rank
        tile = self.value_tile(x, self._own_roles(x, roles, by))
        for i, d in enumerate(roles.free_dims(rank)):
            if d < by:
                tile = expanded(tile, 2 + i)
        return self._in_panel(tile, x)

    def _in_panel(self, tile: View, x: Value) -> View:
        """The columns of a tile that belong to the panel in work."""
        panel = self.block.panel
        if panel is None or x is panel[0] or tile.sizes[-1] == 1:
            return tile
        if self.causal is not None and x.producer is not None and x.producer.name == "band":
            return sliced(tile, tile.ndim - 1, affine(panel[1]) + -self.block.open, panel[2])
        return sliced(tile, tile.ndim - 1, panel[1], panel[2])

    def on_panel(self, step: Step, product: Value, tile: View, at: At, size: int) -> None:
        """A step on some columns of a product, which stand in PSUM."""
        self.block.panel, self.block.tiles[product] = (product, at, size), tile
        self.write_step(step)
        self.block.panel = None
        del self.block.tiles[product]

    def make_room(self, step: Step) -> None:
        """Fetch what a step reads and make the tile that it writes."""
        for x in step.inputs():
            self.operand(x, step.op)
        over = [step.x] if step.kind != "op" else step.op.values() if step.op.name in ELEMENT_BY_ELEMENT else []
        for x in over:
            self._in_place(step, x)
        self.destination(step.result)

    def on_columns(self, step: Step, at: At, size: int) -> None:
        """A step on some columns of its tiles."""
        self.block.panel = (None, at, size)
        self.write_step(step)
        self.block.panel = None

    def _own_roles(self, x: Value, roles: Roles, by: int) -> Roles:
        """Roles of the result as dims of an operand of lower rank."""
        if x in self.group.roles:
            return self.group.roles[x]
        rows = (max(roles.rows[0] - by, 0), max(roles.rows[1] - by, 0))
        return Roles(rows, tuple(d - by for d in roles.batch if d >= by))

    def value_tile(self, x: Value, roles: Roles) -> View:
        """The tile of a value that a member computed, or that is fetched from where it lives."""
        block = self.block
        source = self.same.get(x)
        if source is not None:
            return self.value_tile(source, self.group.roles.get(source, roles))
        found = block.tiles.get(x)
        if found is not None and x in self.group.roles:
            return found
        long = [d for d in range(x.type.rank) if x.type.shape[d] != 1]
        key = (x, tuple(d for d in range(*roles.rows) if d in long), tuple(d for d in roles.batch if d in long))
        free = roles.free_dims(x.type.rank)
        known = block.fetched.get(key)
        if known is None:
            made = self._constant(x, roles) or self._part_of_base(x, roles) or self._fetch(x, roles)
            block.fetched[key] = made, free
            block.tiles.setdefault(x, made)
            return made
        return with_dims(*known, free)

    def whole_tile(self, x: Value, roles: Roles) -> View:
        """The tile of a value with all of its elements, also where they are all the same."""
        tile = self.value_tile(x, roles)
        sizes = (tile.sizes[0], tile.sizes[1], *self.free_sizes(x, roles))
        if tile.sizes == sizes:
            return tile
        made = self.b.sbuf(sizes, tile.dtype, "t", depth=self.depth)
        self.b.op("tensor_copy", made, broadcast(tile, sizes))
        return made

    def _part_of_base(self, x: Value, roles: Roles) -> View | None:
        """A slice of free dims as a view of the whole tile, where the group reads most of that."""
        op = x.producer
        if op is None or op.name != "slice" or x in self.group.roles:
            return None
        base = op.operands[0]
        if not isinstance(self.low.homes.get(base), Hbm) or self.block.per != 1:
            return None
        parts = list(zip(op.attrs["starts"], op.attrs["sizes"], op.attrs["steps"], strict=True))
        if any(part != (0, base.type.shape[d], 1) for d, part in enumerate(parts) if not roles.is_free(d)):
            return None
        siblings = [
            v
            for v in self.group.reads
            if v.producer is not None and v.producer.name == "slice" and v.producer.operands[0] is base
        ]
        if 2 * sum(v.type.size for v in siblings) < base.type.size or base.type.size == 0:
            return None
        tile = self.value_tile(base, roles)
        for i, d in enumerate(roles.free_dims(x.type.rank)):
            tile = sliced(tile, 2 + i, *parts[d])
        return tile

    def operand_tile(self, x: Value, op: Op) -> View:
        """The tile of an operand whose dims have the roles of the result's."""
        return self.value_tile(x, self._own_roles(x, self.group.roles[op.result], 0))

    def _constant(self, x: Value, roles: Roles) -> View | None:
        op = x.producer
        if op is None or op.name != "full":
            return described(self, x, roles)
        free = [x.type.shape[d] for d in roles.free_dims(x.type.rank)]
        tile = self.b.sbuf(
            (self.block.partitions, 1, *[1] * len(free)), device_dtype(x.type.dtype), "c", depth=self.depth
        )
        self.select.fill(tile, op.attrs["value"])
        return tile

    def numbers(self, x: Value, dim: int) -> View:
        """[partitions, elements of a free dim in work]: on every partition the places along that dim."""
        return sliced(column_numbers(self.low, x.type.shape[dim]), 0, 0, self.block.partitions)

    def carry(self, op: Op) -> View | None:
        """What a running sum starts with, one number per line; it goes on from what is written there."""
        return None

    def copy(self, dst: View, src: View) -> None:
        """A copy on the less busy of the engines that can make it."""
        self.select.copy(dst, src)

    def user_of_any(self, x: Value) -> list[Step]:
        """The steps that read a value from outside."""
        return [step for step in self.steps if self.reads(step, x)]

    def fetch_view(self, x: Value, roles: Roles) -> View:
        """The part of a value in HBM that belongs to the block."""
        block, shape = self.block, x.type.shape
        home = self.low.home(x)
        assert isinstance(home, Hbm)
        batch = [block.batch[i] if shape[d] != 1 else 0 for i, d in enumerate(roles.batch)]
        outer, block.batch = block.batch, batch
        part = self.cut(self.hbm_tile(home.view, roles), x, roles)
        block.batch = outer
        return part

    def _fetch(self, x: Value, roles: Roles) -> View:
        block, low = self.block, self.low
        shape = x.type.shape
        looped = [d for d in roles.batch if shape[d] != 1]
        batch = [block.batch[i] if shape[d] != 1 else 0 for i, d in enumerate(roles.batch)]
        row_count = prod(shape[slice(*roles.rows)])
        if row_count == 1 and self.group.rows != 1:
            return self._replicated(x, roles, looped)
        home = low.home(x)
        if isinstance(home, Chip):
            same = (home.rows == roles.rows or home.row_count == row_count == 1) and block.per == 1
            if not same and block.per == 1:
                moved = low.moved.get((x, roles.rows))
                home, same = (moved, True) if moved is not None else (home, False)
            if same:
                outer, block.batch = block.batch, batch
                tile = self.cut(self.chip_tile(home, roles), x, roles)
                block.batch = outer
                return tile
            home = Hbm(low.in_hbm(x))
        view = home.view
        rows = view
        if roles.rows[1] - roles.rows[0] > 1 and merged(view, roles.rows[0], roles.rows[1] - 1) is None:
            rows = low.contiguous(x)
        outer, block.batch = block.batch, batch
        part = self.cut(self.hbm_tile(rows, roles), x, roles)
        block.batch = outer
        tile = self.b.sbuf(part.sizes, part.dtype, x.name or "x", depth=self.depth)
        load(self.low, tile, part)
        return tile

    def _replicated(self, x: Value, roles: Roles, looped: list[int]) -> View:
        """A value without rows, on every partition."""
        low, block = self.low, self.block
        key = ("shared", x, None if not looped else block)
        found = self.in_batch.get(x) if looped else low.shared.get(key)
        free = [x.type.shape[d] for d in roles.free_dims(x.type.rank)]
        chip = low.homes.get(x)
        if found is None and not looped and isinstance(chip, Chip):
            found = replicated(low, chip, self.lanes)
            if found is not None:
                low.shared[key] = found
        if found is None:
            found = low.shared[key] = self._replicate(x, roles)
        tile = sliced(found, 0, 0, block.partitions)
        return reshaped_tile(tile, (block.partitions, 1, *free))

    def _replicate(self, x: Value, roles: Roles) -> View:
        """A value in HBM without rows, loaded to every partition."""
        part = permuted(self.low.in_hbm(x), (*roles.batch, *range(*roles.rows), *roles.free_dims(x.type.rank)))
        for i, d in enumerate(roles.batch):
            part = picked(part, 0, self.block.batch[i] if x.type.shape[d] != 1 else 0)
        for _ in range(*roles.rows):
            part = dropped(part, 0)
        for i, (at, count) in self.window_of(x, roles):
            part = sliced(part, i, at, count)
        return replicate(self.low, part, self.lanes, x.name or "shared")

    def window_of(self, x: Value, roles: Roles) -> list[tuple[int, tuple[At, int]]]:
        """Free dims of which a part is in work, by position, with that part."""
        return []

    # Steps.

    def write_step(self, step: Step) -> None:
        op = step.op
        if step.kind == "op":
            self._single(step)
            return
        x = self.operand(step.x, op)
        self._in_place(step, step.x)
        dst = self.destination(step.result)
        assert isinstance(x, View)
        if step.kind == "activation":
            self._activation(step, dst, x)
        elif step.kind == "scalars":
            assert step.first is not None
            name, scalar, reverse = step.first
            self._scalars(step, dst, x, name, scalar, reverse)
        else:
            self._mixed(step, dst, x)

    def _in_place(self, step: Step, x: Value) -> None:
        """Let a step write over an operand of the same kind that nothing reads afterwards."""
        value, block = step.result, self.block
        x = self.same.get(x, x)
        tile = block.tiles.get(x)
        if (
            tile is None
            or value in block.tiles
            or block.panel is not None
            or isinstance(self.low.homes.get(value), Chip)
        ):
            return
        if (
            x in self.kept
            or isinstance(self.low.homes.get(x), Chip)
            or (x not in self.group.roles and len(tile.sizes) == 0)
        ):
            return
        sizes = self.free_sizes(value, self.group.roles[value])
        same = x.type == value.type and tile.size == prod(sizes) * block.partitions * block.per
        position = next(i for i, each in enumerate(self.steps) if each is step)
        if same and not any(self.reads(later, x) for later in self.steps[position + 1 :]) and not self._is_shared(tile):
            block.tiles[value] = tile

    def _is_shared(self, tile: View) -> bool:
        """True for a tile that other blocks or other values see too."""
        outside = any(tile.buffer is shared.buffer for shared in self.low.shared.values())
        users = [v for v, t in self.block.tiles.items() if t.buffer is tile.buffer]
        return outside or len(users) > 1 or tile.memory is not SBUF or not tile.covers_buffer()

    def _activation(self, step: Step, dst: View, x: View) -> None:
        op = step.op
        scale = 1.0 if step.scale is None else self.scalar(step.scale, op)
        bias = None if step.bias is None else self.scalar(step.bias, op)
        if step.negate_bias and isinstance(bias, View):
            negative = self.b.sbuf(bias.sizes, float32, "negative", depth=self.depth)
            self.select.scalars(negative, bias, "multiply", -1.0)
            bias = negative
        total = None
        if step.total is not None:
            total = flat(self.sum_tile(step.total))
        argument = range_of(op.operands[0])
        self.select.activation(ACTIVATIONS[op.name], flat(dst), flat(spread_tile(x, dst)), scale, bias, total, argument)
        if step.total is not None:
            self.sum_made(step.total)

    def sum_tile(self, op: Op) -> View:
        """Where an activation writes the sum that it makes besides."""
        return self.destination(op.result)

    def sum_made(self, op: Op) -> None:
        """Called when the sum is written."""

    def scalar(self, x: Any, op: Op) -> Operand:
        """A number, or a column [partitions, 1] in float32."""
        tile = self.operand(x, op)
        if not isinstance(tile, View):
            return float(tile)
        column = flat(tile)
        if column.dtype is float32:
            return column
        made = self.b.sbuf(column.sizes, float32, "c", depth=self.depth)
        self.b.op("tensor_copy", made, column)
        return made

    def _scalars(self, step: Step, dst: View, x: View, name: str, scalar: Any, reverse: bool) -> None:
        first = self.scalar(scalar, step.op)
        op1 = operand1 = None
        reverse1 = False
        if step.second is not None:
            op1, given, reverse1 = step.second
            operand1 = self.scalar(given, step.op)
        self.select.scalars(dst, spread_tile(x, dst), name, first, op1, operand1, reverse, reverse1)

    def _mixed(self, step: Step, dst: View, x: View) -> None:
        assert step.first is not None and step.y is not None
        name, scalar, reverse0 = step.first
        y = self.operand(step.y, step.op)
        assert isinstance(y, View)
        scalar_tile = self.scalar(scalar, step.op)
        x, y = spread_tile(x, dst), spread_tile(y, dst)
        self.select.mixed(dst, x, scalar_tile, y, name, step.op.name, reverse0, step.reverse)

    def _single(self, step: Step) -> None:
        op = step.op
        if is_view(op) and op.name != "broadcast_to":
            self.block.tiles[op.result] = self._view(op)
            self._keep_view(op)
        elif op.definition.family == "reduction" and op.name in ("sum", "max", "min", "prod"):
            self._reduce(step)
        elif op.name in INSIDE:
            INSIDE[op.name](self, op)
        else:
            operands = [self.operand(x, op) for x in op.operands]
            if op.name in ELEMENT_BY_ELEMENT:
                for x in op.values():
                    self._in_place(step, x)
            self.select.emit(op, self.destination(step.result), operands)

    def _keep_view(self, op: Op) -> None:
        """A view that something outside reads is copied to where it lives."""
        if op.result not in self.kept:
            return
        tile = self.block.tiles.pop(op.result)
        dst = self.destination(op.result)
        if isinstance(self.low.homes[op.result], Chip) or True:
            self.b.op("tensor_copy", dst, tile)

    def _view(self, op: Op) -> View:
        (x,) = op.operands
        roles, own = self.group.roles[op.result], self._member_roles(x, op)
        tile = self.value_tile(x, own)
        rank = op.result.type.rank
        if op.name == "transpose":
            free = own.free_dims(x.type.rank)
            order = [free.index(op.attrs["perm"][d]) for d in roles.free_dims(rank)]
            return permuted(tile, (0, 1, *[2 + i for i in order]))
        if op.name == "reshape":
            wanted = (*tile.sizes[:2], *self.free_sizes(op.result, roles))
            made = reshaped(tile, wanted)
            if made is None:
                copy = self.b.sbuf(tile.sizes, tile.dtype, "t", depth=self.depth)
                self.b.op("tensor_copy", copy, tile)
                made = reshaped(copy, wanted)
            assert made is not None
            return made
        assert op.name == "slice", op.name
        for i, d in enumerate(own.free_dims(x.type.rank)):
            part = op.attrs["starts"][d], op.attrs["sizes"][d], op.attrs["steps"][d]
            if part != (0, x.type.shape[d], 1):
                tile = sliced(tile, 2 + i, *part)
        return tile

    def _member_roles(self, x: Value, op: Op) -> Roles:
        if x in self.group.roles:
            return self.group.roles[x]
        assert op.definition.family in ("reduction", "scan"), f"{op.name} begins no group"
        return operand_roles(op, self.group.roles[op.result])

    def _reduce(self, step: Step) -> None:
        self.reduce_into(step, self.destination(step.op.result))

    def reduce_into(self, step: Step, dst: View) -> None:
        """A reduction over free dims."""
        op = step.op
        (x,) = op.operands
        roles = self._member_roles(x, op)
        tile = self.value_tile(x, roles)
        free = roles.free_dims(x.type.rank)
        axes = [free.index(a) for a in op.attrs["axes"]]
        kept = [i for i in range(len(free)) if i not in axes]
        axes = [i for i in axes if tile.sizes[2 + i] != 1]
        for i in sorted((i for i in range(len(free)) if i not in kept and i not in axes), reverse=True):
            tile = dropped(tile, 2 + i)
        left = sorted([*kept, *axes])
        order = permuted(tile, (0, 1, *[2 + left.index(i) for i in kept], *[2 + left.index(i) for i in sorted(axes)]))
        names = {"sum": "add", "max": "maximum", "min": "minimum", "prod": "multiply"}
        axis = tuple(range(-len(axes), 0))
        if not axes:
            self.select.scalars(flat(dst), flat(order), "multiply", -1.0) if step.negate else self.select.cast(
                flat(dst), flat(order)
            )
            return
        if x.type.dtype.is_integer:
            lines = reshaped(
                order, (*order.sizes[: order.ndim - len(axes)], prod(order.sizes[order.ndim - len(axes) :]))
            )
            if lines is None:
                dense = self.b.sbuf(order.sizes, order.dtype, "t", depth=self.depth)
                self.b.op("tensor_copy", dense, order)
                lines = reshaped(
                    dense, (*order.sizes[: order.ndim - len(axes)], prod(order.sizes[order.ndim - len(axes) :]))
                )
            assert lines is not None
            self.select.integers.reduce(op.name, reshaped_tile(dst, (*lines.sizes[:-1], 1)), lines)
            return
        reduce = ("tensor_reduce", (dst, order), {"op": names[op.name], "axis": axis, "negate": step.negate}, "vector")
        whole = merged(order, 1, order.ndim - 1)
        if op.name != "sum" or step.negate or kept or whole is None or dst.dtype is not float32:
            self.select.share(reduce)
            return
        # The Scalar engine sums what it copies.
        scratch = self.b.sbuf(whole.sizes, bfloat16, "scratch")
        total = (
            "activation",
            (scratch, whole, None, 1.0, flat(dst)),
            {"op": "copy", "reduce_op": "add", "reduce_cmd": "reset_reduce"},
            "scalar",
        )
        self.select.share(reduce, total)


def flat(tile: View) -> View:
    """A tile as [partitions, elements] where its strides allow, else as it is."""
    made = merged(tile, 1, tile.ndim - 1)
    return tile if made is None else made


def with_dims(tile: View, dims: list[int], wanted: list[int]) -> View:
    """A tile [partitions, J, *dims] with other free dims: those that go or come have size 1."""
    for d in reversed([d for d in dims if d not in wanted]):
        tile = dropped(tile, 2 + dims.index(d))
    for i, d in enumerate(wanted):
        tile = tile if d in dims else expanded(tile, 2 + i)
    return tile


def spread_tile(x: View, dst: View) -> View:
    """A tile read again where the destination is longer."""
    from tilewright.lower.select import spread

    return spread(x, dst)


def reshaped_tile(tile: View, shape: tuple[int, ...]) -> View:
    """A tile in another shape; its elements lie in order."""
    made = reshaped(tile, shape)
    assert made is not None
    return made


_ = (Affine, affine)

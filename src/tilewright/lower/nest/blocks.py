"""Emission of a group: its loops, and in them one block of rows after the other.

Every tile of the body is [partitions, J, *free]: J rows lie in each partition (1 unless the group only computes element
by element, where several rows per partition make transfers and instructions longer).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.ir.core import Op, Value
from tilewright.ir.walk import walk
from tilewright.lower.decisions import decided
from tilewright.lower.indexed.indices import table_of
from tilewright.lower.move.described import DESCRIBED
from tilewright.lower.move.moves import lay_by_rows, load_and_spread, replicate, turn_out
from tilewright.lower.move.rehome import turn_for_later
from tilewright.lower.nest.ahead import Ahead, trips_at_a_time
from tilewright.lower.nest.pieces import run_before_product, write_in_pieces
from tilewright.lower.nest.steps import StepWriter
from tilewright.lower.nest.totals import Total, take_in, taking_in, totals_of
from tilewright.lower.products.matmul import MatmulEmitter
from tilewright.lower.products.side_by_side import RowProducts
from tilewright.lower.regions.axes import SCANNED
from tilewright.lower.regions.causal import find_causal
from tilewright.lower.regions.checks import looks_up
from tilewright.lower.regions.delivery import is_only_delivered
from tilewright.lower.regions.fuse import Step
from tilewright.lower.regions.roles import PRODUCTS, Roles, operand_roles
from tilewright.lower.regions.totals import ADDED_UP
from tilewright.lower.rewrite.prepare import NARROW
from tilewright.lower.select.select import ALU
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.block import Block
from tilewright.lower.write.builder import STREAMED
from tilewright.lower.write.homes import Chip, Hbm, device_dtype, reshaped_rows
from tilewright.lower.write.occupancy import occupancy_of, surely_fits
from tilewright.lower.write.transfers import transfer
from tilewright.lower.write.views import (
    At,
    affine,
    as_shape,
    expanded,
    permuted,
    picked,
)
from tilewright.tile.memory import PSUM, Buffer
from tilewright.tile.ops import ALLOC
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.lower.regions.grouping import Group


class BlockEmitter(StepWriter):
    """Writes one group."""

    def __init__(
        self,
        low: Lowering,
        group: Group,
        keep: bool = True,
        many_rows: bool = False,
        blocks: int = 1,
        rows: int | None = None,
    ) -> None:
        super().__init__(low, group, many_rows)
        self.blocks = blocks
        """How many blocks there are in place of one, at least, where several rows lie in a partition."""
        self.most_rows = 1
        """How many rows can lie in a partition."""
        self.buffers: tuple[int, ...] = ()
        """Copies of tiles that there are to be, of those of a block of rows and of others; none: as many as fit."""
        self.settled: tuple[int, ...] = ()
        """The same as it came out."""
        self.many_rows = many_rows
        """Whether several rows lie in a partition also where ops treat rows by themselves."""
        self.keep = keep
        """Whether results that are read later may stay on chip."""
        self.must_overlap = False
        """Whether it is of no use unless there is room for two blocks of rows."""
        self.over_rows: list[Total] = []
        """Reductions that take in block after block."""
        self.least_passing = 1
        """Tiles that there are at least of what only passes through."""
        likely = self._rows_per_partition()
        self.per = likely if rows is None else rows
        self.causal = find_causal(group, self.steps, self.lanes) if self.per == 1 and not group.totals else None
        self.matmul = RowProducts(self) if self.per > 1 else MatmulEmitter(self)
        self.last_product = max((i for i, step in enumerate(self.steps) if step.op.name in PRODUCTS), default=-1)
        """Where the last product stands among the steps."""

    # The loops.

    def run(self) -> None:
        """Write the loops and every block."""
        self._before_loops()
        for op in self.group.ops:
            self._move_operands(op)
        self.over_rows = totals_of(self)
        self._all_rows()
        self.low.reuse_tiles(self.before)
        self._settle_copies()
        self._settle_banks()
        self._finish()

    def _before_loops(self) -> None:
        """What comes before the loops: homes of results, and what every block reads."""
        self.before = list(self.b.graph.body.ops)
        self.select.load = self._expected_load()
        self.select.ahead = {"vector": self._two_input_load()}
        self._make_homes()
        self._make_shared()

    def _all_rows(self) -> None:
        """The loops, and every block."""
        self.early.end()
        count, by_rows = trips_at_a_time(self)
        self.matmul.loads_first = by_rows and count > 1
        self.matmul.prepare()
        with ExitStack() as stack:
            stack.enter_context(taking_in(self, [total for total in self.over_rows if not total.by_trip]))
            batch: list[At] = []
            for i, n in enumerate(self.group.batch):
                if i + 1 == len(self.group.batch) and count > 1 and not by_rows:
                    first = stack.enter_context(self.b.loop(n // count, "b", count))
                    ahead = stack.enter_context(self._ahead(first, count, by_rows=False))
                    batch.append(affine(first) + ahead.index)
                else:
                    batch.append(stack.enter_context(self.b.loop(n, "b")))
                if len(batch) == len(self.group.batch):
                    self._load_batch(batch)
                self.matmul.prepare_batch(batch)
            self.early.begin()
            with taking_in(self, [total for total in self.over_rows if total.by_trip], batch):
                self._rows(batch, count if by_rows else 1)

    @contextmanager
    def _ahead(self, first: At, count: int, by_rows: bool) -> Iterator[Ahead]:
        """The loop over some trips that load and store together."""
        self.ahead = Ahead(self, first, count, by_rows)
        with self.b.loop(count, "t") as index:
            self.ahead.index = index
            yield self.ahead
        self.ahead.store()
        self.ahead = None

    def _rows(self, batch: Sequence[At], count: int) -> None:
        """Every block of rows, `count` of them with transfers in common."""
        size = self.lanes * self.per
        whole, rest = divmod(self.group.rows, size)
        if self.causal is not None:
            self._causal_rows(batch, rest)
            return
        first = 0
        if count > 1:
            loop = self.b.loop(whole // count, "r", count * size)
            with loop as start, self._ahead(start, count, by_rows=True) as ahead:
                block = Block(batch, affine(start) + ahead.index, 0, self.lanes, 1)
                block.step, block.is_plain = count, False
                self._body(block)
            first = whole // count * count
            # What is left loads its own rows.
            self.early.end()
        elif whole > 1 and self.matmul.is_pending:
            # The first block loads what all of them need, part by part as it needs them.
            self._body(self._block(batch, affine(0)))
            self.matmul.all_loaded()
            first = 1
        if whole > first:
            with self.b.loop(whole - first, "r") as i:
                self._body(self._block(batch, i + first))
            self.matmul.all_loaded()
        if self.is_wide:
            # Blocks that are left, each by itself.
            if rest >= self.lanes:
                with self.b.loop(rest // self.lanes, "r") as i:
                    number = i + whole * self.per
                    self._body(Block(batch, number * self.lanes, number, self.lanes, 1))
            whole, rest, size = self.group.rows // self.lanes, rest % self.lanes, self.lanes
        self._rest(batch, whole, whole * size, rest)

    def _block(self, batch: Sequence[At], number: At) -> Block:
        """One of the blocks in which all partitions are full."""
        if not self.is_wide:
            return Block(batch, number * (self.lanes * self.per), number, self.lanes, self.per)
        number = number * self.per
        block = Block(batch, number * self.lanes, number, self.lanes, self.per)
        block.is_plain = block.is_wide = True
        return block

    def _causal_rows(self, batch: Sequence[At], rest: int) -> None:
        """Rows that look back only: superblock by superblock, each with its own number of columns."""
        causal = self.causal
        assert causal is not None

        def block(number: At, first: int, stop: int, rows: int = self.lanes) -> Block:
            made = Block(batch, affine(number) * self.lanes, number, rows, 1)
            made.short = causal.values
            made.place = (affine(number) + -first, stop - first) if rows == self.lanes else None
            made.begin = causal.begin(first, self.lanes)
            made.columns = causal.end(stop, self.lanes) - made.begin
            made.open = max(causal.open(first, self.lanes) - made.begin, 0)
            made.near = min(max(causal.near(stop, self.lanes) - made.begin, 0), made.columns)
            return made

        for first, stop in reversed(causal.superblocks(self.lanes)):
            begin = first
            if self.matmul.is_pending:
                self._body(block(first, first, stop))
                begin += 1
            if stop > begin:
                with self.b.loop(stop - begin, "r") as i:
                    self._body(block(i + begin, first, stop))
        last = self.group.rows // self.lanes
        if rest:
            self._body(block(last, last, last + 1, rest))
        self.matmul.all_loaded()

    def _rest(self, batch: Sequence[At], number: int, start: int, rest: int) -> None:
        """The rows that fill no whole block: shared out evenly among partitions, then single rows."""
        while rest:
            per = min(-(-rest // self.lanes), self.per)
            partitions = min(rest // per, self.lanes)
            block = Block(batch, start, number, partitions, per)
            block.is_plain = self.per == 1 or self.is_wide
            self._body(block)
            self.matmul.all_loaded()
            start += partitions * per
            rest -= partitions * per
            number += 1

    def _body(self, block: Block) -> None:
        self.write_blocks([block])

    def write_blocks(self, blocks: Sequence[Block]) -> None:
        """Every step for a block of rows, or for several of them at a time."""
        self.block = blocks[0]
        done: dict[Op, Step] = {}
        for i, step in enumerate(self.steps):
            if step.op in done:
                continue
            self.b.location = step.op.location
            with_it: Collection[Op] = ()
            if step.op.name in PRODUCTS:
                with_it = self.matmul.emit(step, blocks)
            elif run := run_before_product(self, i):
                write_in_pieces(self, run)
                with_it = {each.op for each in run}
            else:
                for self.block in blocks:
                    self.write_step(step)
            if with_it:
                done = {each.op: each for each in self.steps if each.op in done or each.op in with_it}
            for self.block in blocks:
                self._store(step.result)
                if step.total is not None:
                    self._store(step.total.result)
                for each in done.values():
                    self._store(each.result)
        for self.block in blocks:
            for total in self.over_rows:
                take_in(self, total)

    def _store(self, value: Value) -> None:
        """Send a finished tile to HBM where the value lives there (too)."""
        block, low = self.block, self.low
        if value not in self.kept or value not in block.tiles or ("stored", value) in block.loaded:
            return
        block.loaded["stored", value] = block.tiles[value]
        if self.ahead is not None and value in self.ahead.made:
            # With those of the other trips.
            return
        for view in self.places(value):
            roles = self.group.roles[value]
            low.delivered[view.buffer] = None
            tile = self.windowed(block.tiles[value], value, roles)
            place = self.cut(self.hbm_tile(view, roles), value, roles)
            if not turn_out(low, place, tile):
                transfer(self.b, place, tile)

    def places(self, value: Value) -> list[View]:
        home = self.low.homes[value]
        return [home.view] if isinstance(home, Hbm) and self._lies_apart(value) else super().places(value)

    # How much at a time.

    def _rows_per_partition(self) -> int:
        group = self.group
        plain = (
            not any(self._counts_rows(op) for op in group.ops)
            and (self.many_rows or all(is_plain(op) and not self._uses_column(op) for op in group.ops))
            and (self.many_rows or not any(op.name in ADDED_UP for op in group.totals))
        )
        if not plain or group.rows <= self.lanes:
            return 1
        outside = any(self._is_read_later(v) and self._is_worth_keeping(v) for v in group.results)
        if outside or any(self.reads_chip(op) for op in group.ops):
            # On chip rows lie side by side.
            if not self.many_rows:
                return 1
            self.is_wide = True
        widest = 4 * longest_row(group)
        tiles = self._alive_at_once()
        budget = self.low.target["memory.sbuf_usable_bytes"] // (4 * max(tiles, 2))
        goal = min(budget, TUNING.tile_bytes)
        per = max(min([goal // max(widest, 1), *self._products_in_a_bank()]), 1)
        most = group.rows // self.lanes if self.is_wide else -(-group.rows // self.lanes)
        self.most_rows = most
        # At least a few blocks, so that loading, computing and storing overlap.
        blocks = max(-(-most // per), min(4, most * widest // TUNING.block_bytes))
        return _even(most, max(blocks, 1) * self.blocks)

    def _products_in_a_bank(self) -> list[int]:
        """How many blocks of rows have their results beside each other in a bank of PSUM, for each product."""
        bank = self.low.target["memory.psum_bank_bytes"] // float32.itemsize
        return [bank // max(op.result.type.shape[-1], 1) for op in self.group.ops if op.name in PRODUCTS]

    def _counts_rows(self, op: Op) -> bool:
        """True for an op that reads an array which a rule describes by the numbers of rows."""
        roles, rank = self.group.roles[op.result], op.result.type.rank
        for x in op.values():
            if x.producer is not None and x.producer.name in DESCRIBED and x not in self.group.roles:
                own = self._own_roles(x, roles, rank - x.type.rank)
                if any(x.type.shape[d] != 1 for d in (*range(*own.rows), *own.batch)):
                    return True
        return False

    def _alive_at_once(self) -> int:
        """The most values that a block has to hold at a time: each from the first op that needs it to the last."""
        first: dict[Value, int] = {}
        last: dict[Value, int] = {}
        for i, op in enumerate(self.group.ops):
            for value in (*op.values(), op.result):
                first.setdefault(value, i)
                last[value] = i
        return max(sum(first[v] <= i <= last[v] for v in first) for i in range(len(self.group.ops)))

    def reads_chip(self, op: Op) -> bool:
        """True when an op reads rows of a value that only is on chip."""
        roles, rank = self.group.roles[op.result], op.result.type.rank
        for x in op.values():
            if x in self.group.roles or x in self.low.given or not isinstance(self.low.homes.get(x), Chip):
                continue
            if prod(x.type.shape[slice(*self._own_roles(x, roles, rank - x.type.rank).rows)]) != 1:
                return True
        return False

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

    def _settle_copies(self) -> None:
        """As many copies of each tile as there is room for beside what stays."""
        tiles, self.b.copied = self.b.copied, []
        asked = {buffer: buffer.depth for buffer in tiles}
        new = self.b.since(self.before)
        stays = [*self.low.kept(), *(view.buffer for view in self.low.shared.values())]
        outer = sum(n > 1 for n in self.group.batch)
        inner = {buffer for buffer in tiles if self.b.levels[buffer] > outer}
        # Where there is no room for two of everything, for two of what each block of rows makes: blocks overlap then.
        ways = [(copies, copies) for copies in range(TUNING.most_copies, 1, -1)] + [(3, 1), (2, 1)]
        ways += [] if self.must_overlap else [(1, 1)]
        if self.buffers:
            ways = [(self.buffers[0], self.buffers[-1])]
        for copies, others in ways:
            self.settled = (copies, others) if tiles else ()
            for buffer, least in asked.items():
                # What only passes through keeps the few copies it asked for: more would take bandwidth from others.
                most = copies if buffer in inner else others
                buffer.depth = min(max(most, self.least_passing), least) if buffer.name == STREAMED else most
            if surely_fits(new, self.low.target, stays):
                return
            if occupancy_of(new, self.low.target, stays).sbuf_bytes <= self.low.target["memory.sbuf_usable_bytes"]:
                return

    def _settle_banks(self) -> None:
        """One copy of each tile in PSUM where there are no banks for more: those that stay free become copies in the
        end."""
        new, target = self.b.since(self.before), self.low.target
        if surely_fits(new, target) or occupancy_of(new, target).psum_banks <= target["memory.psum_banks"]:
            return
        for op in (each for own in new for each in (own, *(x for region in own.regions for x in walk(region)))):
            if op.definition is ALLOC and isinstance(op.result, Buffer) and op.result.memory is PSUM:
                op.result.depth = 1

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
            elif step.op.name in ("max", "min", "prod", "where", *SCANNED):
                load["vector"] += columns / target["clock_ghz.vector"]
        return load

    def _two_input_load(self) -> float:
        """What the Vector engine is likely to do of the work on two full tiles, which it shares with GpSimd."""
        wide = [step for step in self.steps if step.kind == "mixed" or self._has_two_tiles(step)]
        return sum(step.op.result.type.size for step in wide) / self.lanes / self.low.target["clock_ghz.vector"]

    def _has_two_tiles(self, step: Step) -> bool:
        tiles = [v for v in step.inputs() if v.type.size * 8 >= step.op.result.type.size or v.type.rank == 1]
        return step.kind == "op" and step.op.name in ALU and len(tiles) == 2

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
            self.low.shared["shared", op.result, None] = as_shape(dst, (self.lanes, op.result.type.size))
        for op in group.ops:
            if op.name == "take" and looks_up(op):
                self.table(op)
            if op.definition.family != "elementwise" or group.rows == 1:
                continue
            roles, rank = group.roles[op.result], op.result.type.rank
            for x in op.values():
                if x in group.roles or _is_made(x):
                    continue
                own = self._own_roles(x, roles, rank - x.type.rank)
                looped = [d for d in own.batch if x.type.shape[d] != 1]
                if prod(x.type.shape[slice(*own.rows)]) != 1:
                    continue
                if looped:
                    self._hold_for_trips(x, own)
                elif self.is_loaded_ahead(x):
                    self._replicated(x, own, [])
                elif x in self.low.homes:
                    # Loaded part by part, inside of the loops.
                    self.low.in_hbm(x)

    def is_loaded_ahead(self, x: Value) -> bool:
        """True for a value without rows that is put on every partition before the loops."""
        return True

    def _hold_for_trips(self, x: Value, own: Roles) -> None:
        """Put a small value without rows that trips of the batch loops read again on every partition, for all trips."""
        size = x.type.size * device_dtype(x.type.dtype).itemsize
        again = prod(self.group.batch) > prod(x.type.shape[d] for d in own.batch)
        if not again or size > TUNING.part_bytes or x not in self.low.homes or not self.is_loaded_ahead(x):
            return
        key = ("shared", x, "trips")
        if key not in self.low.shared:
            decided("load: once for all trips")
            order = (*own.batch, *range(*own.rows), *own.free_dims(x.type.rank))
            whole = permuted(self.low.in_hbm(x), order)
            self.low.shared[key] = replicate(self.low, whole, self.lanes, x.name or "shared", x in self.low.signed)

    def _held_for_trip(self, x: Value, own: Roles) -> View | None:
        """What is held of a value for the trip in work."""
        found = self.low.shared.get(("shared", x, "trips"))
        if found is None:
            return None
        trips = [x.type.shape[d] for d in own.batch]
        part = as_shape(found, (self.lanes, *trips, x.type.size // prod(trips)))
        for at in self._batch(x.type.shape, own):
            part = picked(part, 1, at)
        return part

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
                    self.in_batch[x] = self._held_for_trip(x, own) or self._replicate(x, own)

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
            elif op.name == "matmul" and roles.rows == (0, 1) and not roles.batch and turn_for_later(self.low, op):
                continue
            elif op.name == "take" and looks_up(op) and i == 0:
                # Every partition has it.
                continue
            elif op.name == "take" and not looks_up(op):
                # Its rows are fetched from HBM.
                table_of(self.low, x)
                continue
            else:
                own = self._own_roles(x, roles, rank - x.type.rank)
            if op.definition.family in ("reduction", "scan", "index", "elementwise"):
                lay_by_rows(self.low, x, own)
            self._move_rows(x, own)

    def _move_right(self, x: Value) -> None:
        home, last = self.low.homes[x], x.type.rank
        wanted = ((last - 2, last - 1), (last - 1, last))
        readers = [use for use in x.uses if use.name in PRODUCTS and use.operands[1] is x and use not in self.low.done]
        if isinstance(home, Chip) and home.rows == wanted[1] and len(readers) > 1:
            # Turned once for all that read it.
            self.low.with_rows(x, wanted[0])
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
            if moved is not None:
                return
        view = self.low.in_hbm(x)
        if count != 1 and self.needs_copy(view, own, self.per):
            self.low.contiguous(x)

    def _spread_cast(self, op: Op) -> bool:
        """A cast of a row to float32, made by the Tensor engine as it spreads the row; says whether it was one."""
        (x, *more) = op.operands
        if op.name != "cast" or more or op.result.type.dtype is not float32 or x.type.dtype not in NARROW:
            return False
        if op.result in self.low.signed:
            return False
        home = self.low.homes.get(x)
        if not isinstance(home, Hbm) or self.lanes * op.result.type.nbytes < TUNING.spread_bytes:
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
            views = self.outputs(value)
            chip = self._chip(value) if later else None
            if chip is not None:
                low.homes[value] = chip
            elif self._lies_apart(value):
                low.homes[value] = Hbm(self._by_rows(value))
            elif views:
                low.homes[value] = Hbm(views[0])
            else:
                made = self.b.hbm(value.type.shape, device_dtype(value.type.dtype), value.name or "spill")
                low.homes[value] = Hbm(made)

    def _lies_apart(self, value: Value) -> bool:
        """True where a store would send element by element: neighbours in memory come from different partitions."""
        shape, roles = value.type.shape, self.group.roles[value]
        rows = [d for d in range(*roles.rows) if shape[d] != 1]
        free = [d for d in roles.free_dims(len(shape)) if shape[d] != 1]
        exact = self.low.target["features.transpose_bit_exact"]
        return exact and value.type.size > TUNING.few_elements and bool(rows and free) and rows[-1] > free[-1]

    def _by_rows(self, value: Value) -> View:
        """A place in HBM with the elements of each row together; who wants another order is given a copy."""
        shape, roles = value.type.shape, self.group.roles[value]
        order = (*roles.batch, *range(*roles.rows), *roles.free_dims(len(shape)))
        made = self.b.hbm(tuple(shape[d] for d in order), device_dtype(value.type.dtype), "rows")
        return permuted(made, tuple(order.index(d) for d in range(len(shape))))

    def _chip(self, value: Value) -> Chip | None:
        roles, shape = self.group.roles[value], value.type.shape
        rows = self.group.rows
        if self.per != 1 and not self.is_wide:
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
        dtype, name = device_dtype(value.type.dtype), value.name or "kept"
        before = roles.rows[0] if _has_rows_merged(value, roles) else 0
        tile = self.b.sbuf((lanes, *free[:before], blocks, *free[before:]), dtype, name)
        order = (0, 1 + before, *range(1, 1 + before), *range(2 + before, tile.ndim))
        return Chip(permuted(tile, order), shape, roles.rows)

    def _is_read_later(self, value: Value) -> bool:
        later = any(use not in self.group.inside and use is not self.low.program.output_op for use in value.uses)
        return later and not (self.outputs(value) and is_only_delivered(value, self.group, self.low.placed))

    def _is_worth_keeping(self, value: Value) -> bool:
        """True for a result that fits on chip, other than as a great many short rows."""
        blocks = -(-self.group.rows // self.lanes)
        free = value.type.size // max(self.group.rows, 1)
        size = blocks * free * device_dtype(value.type.dtype).itemsize
        return self.low.may_keep(value, size) and not (blocks > TUNING.many_blocks and free < TUNING.short_row)

    def _finish(self) -> None:
        for value in self.group.reads:
            if all(use in self.group.inside or use.parent is None for use in value.uses):
                self.low.release([value])


def _has_rows_merged(x: Value, roles: Roles) -> bool:
    """True where the dims before the rows are to be rows as well: the blocks of each of them lie together then."""
    shapes = [use.attrs["shape"] for use in x.uses if use.name == "reshape"]
    return any(
        reshaped_rows(x.type.shape, roles.rows, shape) is None
        and reshaped_rows(x.type.shape, (0, roles.rows[1]), shape) is not None
        for shape in shapes
    )


def longest_row(group: Group) -> int:
    """Elements of the longest row of what a group reads or makes."""
    rows = max(group.rows * prod(group.batch), 1)
    return max(v.type.size // rows for op in group.ops for v in (*op.values(), op.result))


def _even(most: int, blocks: int) -> int:
    """Rows of each partition in so many blocks, or in a few more that leave no rest."""
    even = next((n for n in range(blocks, blocks + max(blocks // 2, 2) + 1) if most % n == 0), blocks)
    return -(-most // even)


def is_plain(op: Op) -> bool:
    """True for an op that computes element by element."""
    return op.definition.family == "elementwise"


def _is_made(x: Value) -> bool:
    """True for what blocks make by themselves, without loading it: a rule describes it along one dim."""
    if x.producer is None or x.producer.name not in ("full", "iota", "band"):
        return False
    return x.producer.name != "band" or sum(n != 1 for n in x.type.shape[-2:]) < 2

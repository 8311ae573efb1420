"""Where the ops of a group find what they read and put what they make: tiles of the block in work.

Every tile is [partitions, J, *free]: J rows lie in each partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from tilewright.dtypes import bfloat16, float32
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decided, decision
from tilewright.lower.move.described import described
from tilewright.lower.move.early import Early
from tilewright.lower.move.moves import load, replicate, spread_table
from tilewright.lower.move.rehome import replicated
from tilewright.lower.regions.causal import Causal
from tilewright.lower.regions.delivery import can_deliver
from tilewright.lower.regions.fuse import Fuser, Step
from tilewright.lower.regions.roles import Roles
from tilewright.lower.select.select import Operand, Selector
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.block import Block, flat, with_dims
from tilewright.lower.write.homes import Chip, Hbm, device_dtype
from tilewright.lower.write.patterns import column_numbers
from tilewright.lower.write.views import (
    Affine,
    At,
    affine,
    as_shape,
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
from tilewright.tile.view import View, whole

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.lower.nest.ahead import Ahead
    from tilewright.lower.regions.grouping import Group


class Operands:
    """The tiles that the ops of one group read and write."""

    causal: Causal | None = None
    block: Block
    is_whole = True
    """Whether all columns of a block are in work at once."""
    is_wide = False
    """Whether several blocks of rows that lie side by side are in work at a time."""
    load_parts = 1
    """Transfers that bring a tile, some columns each."""

    def __init__(self, low: Lowering, group: Group, many_rows: bool = False) -> None:
        self.low = low
        self.b = low.b
        self.group = group
        self.select = Selector(low.b)
        fuser = self.fuser(many_rows)
        self.steps = fuser.steps()
        self.same = fuser.same
        self.lanes = low.target["limits.partitions"]
        self.depth = 2
        self.kept = group.results
        self.whole = {*self.kept, *(x for op in group.totals for x in op.values())}
        """Values whose tiles are read when all steps are done."""
        self.in_batch: dict[Value, View] = {}
        self.early = Early(self)
        self.ahead: Ahead | None = None
        self.user_of = self._users()

    def fuser(self, many_rows: bool) -> Fuser:
        """Who decides the steps of the group."""
        return Fuser(self.group, many_rows)

    def _users(self) -> dict[Value, list[Step]]:
        """The steps that read each value of the group, perhaps under another type."""
        users: dict[Value, dict[int, Step]] = {v: {} for op in self.group.ops for v in op.results}
        for number, step in enumerate(self.steps):
            for read in step.inputs():
                for v in (read, self.same.get(read)):
                    if v in users:
                        users[v][number] = step
        return {v: list(steps.values()) for v, steps in users.items()}

    def reads(self, step: Step, value: Value) -> bool:
        """True when a step reads a value, perhaps under another type."""
        return any(v is value or self.same.get(v) is value for v in step.inputs())

    def user_of_any(self, x: Value) -> list[Step]:
        """The steps that read a value from outside."""
        return [step for step in self.steps if self.reads(step, x)]

    def cut(self, tile: View, x: Value, roles: Roles) -> View:
        """What of a tile [partitions, J, *free] is in work: all of it."""
        return tile

    def windowed(self, tile: View, x: Value, roles: Roles) -> View:
        """The part in work of a tile that may hold whole rows."""
        return tile

    def window_of(self, x: Value, roles: Roles) -> list[tuple[int, tuple[At, int]]]:
        """Free dims of which a part is in work, by position, with that part."""
        return []

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
        for at in self._trips(roles):
            part = picked(part, 0, at)
        count = roles.rows[1] - roles.rows[0]
        if count == 0:
            part = expanded(part, 0)
        else:
            merged_rows = merged(part, 0, count - 1)
            assert merged_rows is not None, "rows that are not evenly apart are made contiguous before"
            part = merged_rows
        part = sliced(part, 0, block.start, block.partitions * block.per, block.step)
        if block.is_wide:
            part = split(part, 0, (block.per, block.partitions))
            return permuted(part, (1, 0, *range(2, part.ndim)))
        return split(part, 0, (block.partitions, block.per))

    def all_rows(self, view: View, roles: Roles) -> View:
        """The rows of all blocks: [rows, 1, *free]."""
        batch = self._batch(view.sizes, roles)
        block, self.block = self.block, Block(batch, 0, 0, self.group.rows, 1)
        part = self.hbm_tile(view, roles)
        self.block = block
        return part

    def chip_tile(self, chip: Chip, roles: Roles) -> View:
        """The part of a tensor on chip that belongs to the block."""
        block = self.block
        outside = [d for d in range(len(chip.shape)) if not chip.rows[0] <= d < chip.rows[1]]
        part = sliced(sliced(chip.view, 0, 0, block.partitions), 1, block.number, block.beside)
        looped = [d for d in roles.batch if d in outside]
        order = [outside.index(d) + 2 for d in (*looped, *[d for d in outside if d not in looped])]
        part = permuted(part, (0, 1, *order))
        for d in looped:
            part = picked(part, 2, self._trips(roles)[roles.batch.index(d)])
        dims = [d for d in outside if d not in roles.batch]
        return with_dims(part, dims, roles.free_dims(len(chip.shape)))

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
        elif self.ahead is not None and value in self.kept and (place := self.ahead.place(value)) is not None:
            tile = place
        elif (join := self.joined(value)) is not None:
            tile = self._in_join(value, *join)
        else:
            shape = (block.partitions, block.per, *self.free_sizes(value, roles))
            if not self.user_of[value] and value not in self.whole:
                # Nothing reads it: an instruction writes it on the way to something else.
                scratch = bfloat16 if value.type.dtype is float32 else device_dtype(value.type.dtype)
                tile = block.tiles[value] = self.b.sbuf(shape, scratch, "scratch")
                return tile
            tile = self.b.sbuf(shape, device_dtype(value.type.dtype), value.name or "t", depth=self.depth)
        block.tiles[value] = tile
        return tile

    def outputs(self, value: Value) -> list[View]:
        """Results of the kernel that a value is written to at once: it is one, or one is a view of it."""
        return [view for view in self.low.outputs.get(value, ()) if can_deliver(self.group, value, view)]

    def places(self, value: Value) -> list[View]:
        """Where in HBM a result goes."""
        home = self.low.homes[value]
        wanted = self.outputs(value)
        if isinstance(home, Hbm) and all(home.view.buffer is not v.buffer for v in wanted):
            wanted.append(home.view)
        return wanted

    def joined(self, value: Value) -> tuple[Op, Value] | None:
        """The join of columns that alone reads a value of the group, whose tile is a part of the join's; and the value
        as it is read there, perhaps with more dims of size 1."""
        if not self.is_whole or value in self.whole or len(value.uses) != 1 or value in self.block.short:
            return None
        op, part = value.uses[0], value
        if op.name == "reshape" and op in self.group.ops and len(op.result.uses) == 1 and op.result not in self.whole:
            part, op = op.result, op.result.uses[0]
        if op.name != "concatenate" or op not in self.group.ops:
            return None
        maker = value.producer
        own = maker is not None and (maker.definition.family == "elementwise" or maker.name == "concatenate")
        alike = op.result.type.dtype is value.type.dtype and self.group.roles[op.result].is_free(op.attrs["axis"])
        long = [[n for n in self._free_shape(x) if n != 1] for x in (part, value)]
        if not own or not alike or long[0] != long[1] or not value.type.size:
            return None
        return op, part

    def _free_shape(self, x: Value) -> list[int]:
        return [x.type.shape[d] for d in self.group.roles[x].free_dims(x.type.rank)]

    def _in_join(self, value: Value, op: Op, part: Value) -> View:
        """The columns of a join that are a value."""
        axis = op.attrs["axis"]
        at = sum(x.type.shape[axis] for x in op.operands[: op.operands.index(part)])
        dim = 2 + self.group.roles[op.result].free_dims(op.result.type.rank).index(axis)
        place = sliced(self.destination(op.result), dim, at, part.type.shape[axis])
        if part is value:
            return place
        made = reshaped(place, (*place.sizes[:2], *self._free_shape(value)))
        assert made is not None, "dims of size 1 come and go"
        return made

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
        return self._in_panel(self._seen(tile, x, op), x)

    def _seen(self, tile: View, x: Value, op: Op) -> View:
        """The columns of a tile that the rows of the block see, where those of the result are no more."""
        block = self.block
        is_masked = op.result in block.short and x not in block.short
        made = x.producer.name if x.producer is not None else ""
        if not is_masked or made == "band" or tile.sizes[-1] in (1, block.columns):
            return tile
        return sliced(tile, tile.ndim - 1, block.begin, block.columns)

    def _in_panel(self, tile: View, x: Value) -> View:
        """The columns of a tile that belong to the panel in work."""
        panel = self.block.panel
        if panel is None or x is panel[0] or tile.sizes[-1] == 1:
            return tile
        if self.causal is not None and x.producer is not None and x.producer.name == "band":
            return sliced(tile, tile.ndim - 1, affine(panel[1]) + -self.block.open, panel[2])
        return sliced(tile, tile.ndim - 1, panel[1], panel[2])

    def _trips(self, roles: Roles) -> Sequence[At]:
        """The loop indices of a value's batch dims: an operand of lower rank lacks the outer ones."""
        return self.block.batch[len(self.block.batch) - len(roles.batch) :]

    def _batch(self, shape: Sequence[int], roles: Roles) -> list[At]:
        """The same, 0 along dims that are repeated: what has no others is read before the loops too."""
        if all(shape[d] == 1 for d in roles.batch):
            return [0] * len(roles.batch)
        trips = zip(roles.batch, self._trips(roles), strict=True)
        return [at if shape[d] != 1 else 0 for d, at in trips]

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

    def operand_tile(self, x: Value, op: Op) -> View:
        """The tile of an operand whose dims have the roles of the result's."""
        return self.value_tile(x, self._own_roles(x, self.group.roles[op.result], 0))

    def _part_of_base(self, x: Value, roles: Roles) -> View | None:
        """A slice of free dims as a view of the whole tile, where the group reads most of that."""
        op = x.producer
        if op is None or op.name != "slice" or x in self.group.roles:
            return None
        base, home = op.operands[0], self.low.homes.get(op.operands[0])
        if not isinstance(home, Hbm) or self.needs_copy(home.view, roles, self.block.per):
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

    def copy(self, dst: View, src: View) -> None:
        """A copy on the less busy of the engines that can make it."""
        self.select.copy(dst, src)

    def fetch_view(self, x: Value, roles: Roles) -> View:
        """The part of a value in HBM that belongs to the block."""
        block, shape = self.block, x.type.shape
        home = self.low.home(x)
        assert isinstance(home, Hbm)
        batch = self._batch(shape, roles)
        outer, block.batch = block.batch, batch
        part = self.cut(self.hbm_tile(home.view, roles), x, roles)
        block.batch = outer
        return part

    def _fetch(self, x: Value, roles: Roles) -> View:
        block, low = self.block, self.low
        shape = x.type.shape
        looped = [d for d in roles.batch if shape[d] != 1]
        batch = self._batch(shape, roles)
        row_count = prod(shape[slice(*roles.rows)])
        if row_count == 1 and self.group.rows != 1:
            return self._replicated(x, roles, looped)
        home = low.home(x)
        if isinstance(home, Chip):
            same = (home.rows == roles.rows or home.row_count == row_count == 1) and block.is_plain
            if not same and block.is_plain:
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
        if not _are_even(view, roles):
            runs = self._fetch_runs(x, view, roles)
            if runs is not None:
                return runs
            rows = low.contiguous(x)
        if self.ahead is not None and (ahead := self.ahead.rows(x, rows, roles)) is not None:
            return ahead
        early = self.early_rows(x, roles)
        if early is not None:
            return sliced(sliced(early, 0, 0, block.partitions), 1, block.number, block.beside)
        outer, block.batch = block.batch, batch
        part = self.cut(self.hbm_tile(rows, roles), x, roles)
        block.batch = outer
        return self._loaded(x, part)

    def _loaded(self, x: Value, part: View) -> View:
        """A tile of some rows in HBM, unless they were loaded in another shape before."""
        line = merged(part, 2, part.ndim - 1) if part.ndim > 2 else None
        key = None if line is None else ("rows", line.buffer, line.offset, line.terms, line.sizes, line.strides)
        if key is not None and key in self.block.loaded:
            decided("load: once for several shapes")
            return as_shape(self.block.loaded[key], part.sizes)
        tile = self.b.sbuf(part.sizes, part.dtype, x.name or "x", depth=self.depth)
        if key is not None:
            self.block.loaded[key] = tile
        columns = part.sizes[-1]
        each = max(-(-columns // self.load_parts), 1)
        for first in range(0, columns, each):
            some = (sliced(view, view.ndim - 1, first, min(each, columns - first)) for view in (tile, part))
            load(self.low, *some)
        return tile

    def needs_copy(self, view: View, roles: Roles, per: int) -> bool:
        """True for rows of several dims that are neither evenly apart nor in runs: before the loops they are copied."""
        if _are_even(view, roles):
            return False
        return self.is_wide or self.runs_of_rows(view, roles, [0 for _ in roles.batch], per) is None

    def runs_of_rows(self, view: View, roles: Roles, batch: Sequence[At], per: int) -> View | None:
        """[runs, rows, *free]: rows of a tensor in HBM that are evenly apart in runs, a few of which make a block."""
        part = permuted(view, (*roles.batch, *range(*roles.rows), *roles.free_dims(view.ndim)))
        for at in batch:
            part = picked(part, 0, at)
        count = roles.rows[1] - roles.rows[0]
        for cut in range(1, count):
            inner = merged(part, cut, count - 1)
            runs = None if inner is None else merged(inner, 0, cut - 1)
            if runs is not None:
                size, length = self.lanes * per, runs.sizes[1]
                fits = size % length == 0 and length % per == 0 and size // length <= TUNING.row_runs
                return runs if fits else None
        return None

    @decision("load: runs of rows", if_found=True)
    def _fetch_runs(self, x: Value, view: View, roles: Roles) -> View | None:
        """The rows of the block, a transfer for each run; None where they are too short."""
        block = self.block
        runs = self.runs_of_rows(view, roles, self._batch(view.sizes, roles), block.per)
        if runs is None or block.step != 1 or block.is_wide:
            return None
        start, length, total = affine(block.start), runs.sizes[1], block.partitions * block.per
        begin = start.const % length
        if (begin % block.per or total % block.per) or any(factor % length for _, factor in start.terms):
            return None
        at = Affine(start.const // length, tuple((index, factor // length) for index, factor in start.terms))
        parts: list[View] = []
        while total:
            count = min(length - begin, total)
            part = split(sliced(picked(runs, 0, at), 0, begin, count), 0, (count // block.per, block.per))
            parts.append(self.cut(part, x, roles))
            at, begin, total = at + 1, 0, total - count
        sizes = (block.partitions, *parts[0].sizes[1:])
        tile = self.b.sbuf(sizes, runs.dtype, x.name or "x", depth=self.depth)
        done = 0
        for part in parts:
            load(self.low, sliced(tile, 0, done, part.sizes[0]), part)
            done += part.sizes[0]
        return tile

    def early_rows(self, x: Value, roles: Roles) -> View | None:
        """[lanes, blocks, *free]: the rows of all blocks, where they are few enough to be loaded before the loop."""
        home = self.low.home(x)
        if not self.is_whole or not isinstance(home, Hbm) or not _are_even(home.view, roles):
            return None
        return self.early.rows(x, home.view, roles)

    def _replicated(self, x: Value, roles: Roles, looped: list[int]) -> View:
        """A value without rows, on every partition."""
        low, block = self.low, self.block
        key = ("shared", x, None if not looped else block)
        found = self.in_batch.get(x) if looped else low.shared.get(key)
        free = [x.type.shape[d] for d in roles.free_dims(x.type.rank)]
        chip = low.homes.get(x)
        if found is None and not looped and isinstance(chip, Chip) and x not in low.signed:
            found = replicated(low, chip, self.lanes)
        if found is None and not looped:
            found = self._replicated_part(x, roles)
        if found is None:
            found = self._replicate(x, roles)
        if not self.b.is_in_loop:
            low.shared.setdefault(key, found)
        tile = sliced(found, 0, 0, block.partitions)
        return as_shape(tile, (block.partitions, self.beside(x, roles), *free))

    def beside(self, x: Value, roles: Roles) -> int:
        """How many lie in a partition of a value without rows: several where members of a batch have their own."""
        return 1

    def table(self, op: Op) -> View:
        """The table that an op looks single numbers up in, on every partition of the block."""
        x, low = op.operands[0], self.low
        key = ("shared", x, None)
        much = self.lanes * x.type.size * device_dtype(x.type.dtype).itemsize >= TUNING.spread_bytes
        if much and not self.b.is_in_loop and key not in low.shared:
            low.shared[key] = spread_table(low, x, self.lanes)
        return flat(self._replicated(x, Roles((0, 0)), []))

    @decision("load: parts of one array together", if_found=True)
    def _replicated_part(self, x: Value, roles: Roles) -> View | None:
        """A value without rows as a part of an array that is on every partition: where a group reads many parts of it,
        as the steps of a loop do, the array is loaded once."""
        low, home = self.low, self.low.homes.get(x)
        if not isinstance(home, Hbm) or self.window_of(x, roles) or self.b.is_in_loop:
            return None
        buffer, part = home.view.buffer, home.view
        size, key = prod(buffer.shape), ("shared", buffer, None)
        # Inputs stay as they are, but for those that are written to.
        changes = any(buffer is view.buffer for view in low.in_place.values())
        if buffer.producer is not None or changes or part.dtype is not buffer.dtype:
            return None
        found = low.shared.get(key)
        if found is None:
            homes = {v: low.homes.get(v) for v in self.group.reads if v.type.size == x.type.size}
            alike = [v for v, at in homes.items() if isinstance(at, Hbm) and at.view.buffer is buffer]
            # What is spread on chip comes as a row of one partition.
            spread = x not in low.signed and self.lanes * part.nbytes >= TUNING.spread_bytes
            least = 2 if not spread and self._is_sparse(part) else TUNING.least_steps
            few = len(alike) < least or 2 * len(alike) * x.type.size < size
            if few or size * part.dtype.itemsize > min(TUNING.part_bytes, low.room()):
                return None
            signed = any(v in low.signed for v in alike)
            found = low.shared[key] = replicate(low, whole(buffer), self.lanes, x.name or "shared", signed)
        flat = View(found.buffer, part.dtype, part.offset, (self.lanes, *part.sizes), (found.row, *part.strides))
        return None if found.dtype is not part.dtype else reshaped(flat, (self.lanes, x.type.size))

    def _is_sparse(self, part: View) -> bool:
        """True for elements that a transfer takes one by one, and that are near enough to each other on chip."""
        steps = [abs(step) for size, step in zip(part.sizes, part.strides, strict=True) if size != 1]
        return (
            bool(steps)
            and part.dtype.itemsize < min(steps) * part.dtype.itemsize < self.low.target["memory.strided_from_bytes"]
        )

    def _replicate(self, x: Value, roles: Roles) -> View:
        """A value in HBM without rows, loaded to every partition."""
        part = permuted(self.low.in_hbm(x), (*roles.batch, *range(*roles.rows), *roles.free_dims(x.type.rank)))
        for at in self._batch(x.type.shape, roles):
            part = picked(part, 0, at)
        for _ in range(*roles.rows):
            part = dropped(part, 0)
        for i, (at, count) in self.window_of(x, roles):
            part = sliced(part, i, at, count)
        return replicate(self.low, part, self.lanes, x.name or "shared", x in self.low.signed)


def _are_even(view: View, roles: Roles) -> bool:
    """True for rows that are evenly apart."""
    first, stop = roles.rows
    return stop - first < 2 or merged(view, first, stop - 1) is not None

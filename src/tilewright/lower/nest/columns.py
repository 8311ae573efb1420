"""Emission of a group whose rows do not fit on chip: along some axes only a part is in work at a time.

An axis that no op combines is an outer loop around everything. Along the others each block of rows is passed over
several times: a reduction is complete after a pass, and what depends on it is computed in the next one, from the
group's operands again. What has no such axis is computed between the passes.

    for each part of the outer axes:
        for each block of rows:
            for each pass:
                what the pass before made possible
                for each part of the inner axes:
                    load, compute, add to the reductions of this pass, store what is ready

Where whole rows of what several passes read fit on chip, they are held there (`Cut.held`): nothing is loaded or made
twice, and everything else takes the room of a part, so that there is room for several blocks in work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.dtypes import float32, int32, uint32
from tilewright.ir.core import Op, Value
from tilewright.lower.nest.blocks import BlockEmitter
from tilewright.lower.regions.axes import COMBINED, SCANNED, Axes, Axis
from tilewright.lower.regions.fuse import Step
from tilewright.lower.regions.roles import PRODUCTS, Roles, operand_roles
from tilewright.lower.select.select import REDUCE, spread, start_of
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.block import Block, flat
from tilewright.lower.write.homes import is_view
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.occupancy import occupancy_of
from tilewright.lower.write.patterns import column_numbers, multiples
from tilewright.lower.write.views import Affine, At, as_shape, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.lower.regions.grouping import Group


@dataclass(frozen=True, slots=True)
class Cut:
    """How the work of a group is cut: axes, and how much of each is in work at a time."""

    axes: Axes
    outer: dict[Axis, int] = field(default_factory=dict)
    inner: dict[Axis, int] = field(default_factory=dict)
    held: bool = False
    """Whether whole rows of what several passes read stay on chip."""


class ColumnEmitter(BlockEmitter):
    """Writes one group part by part."""

    is_whole = False

    def __init__(self, low: Lowering, group: Group, cut: Cut) -> None:
        self.plan = cut
        self.axes = cut.axes
        self.window: dict[Axis, tuple[At, int]] = {}
        super().__init__(low, group, keep=cut.held)
        self.causal = None
        self.held: dict[tuple[Value, tuple[int, ...]], View] = {}
        self.totals: dict[Value, View] = {}
        self.carries: dict[Op, View] = {}
        self._find_passes()

    def most_copies(self) -> int:
        """Copies of a tile that there should be room for."""
        return TUNING.copies

    def _settle_copies(self) -> None:
        """As many copies of each tile as there is room for: tiles of one pass are not there in the others."""
        tiles, self.b.copied = self.b.copied, []
        new = self.b.since(self.before)
        inner = {buffer for buffer in tiles if self.b.levels[buffer] > len(self.group.batch) + 1}
        most = self.most_copies()
        ways = [(copies, copies) for copies in range(most, 0, -1)]
        if self.plan.held:
            # Whole rows take most of the room: two of them let blocks overlap, more of the parts let passes.
            ways = [(most, most), (most, 2), (2, 2), (most, 1), (2, 1), (1, 1)]
        if self.buffers:
            ways = [(self.buffers[0], self.buffers[-1])]
        for parts, rows in ways:
            self.settled = (parts, rows) if tiles else ()
            for buffer in tiles:
                buffer.depth = parts if buffer in inner else rows
            takes = occupancy_of(new, self.low.target, self.low.kept())
            if takes.sbuf_bytes <= self.low.target["memory.sbuf_usable_bytes"]:
                return

    def _rows_per_partition(self) -> int:
        return 1

    # What is cut.

    def cut_axes(self, x: Value, roles: Roles) -> list[tuple[int, Axis]]:
        """Positions among the free dims, with their axis, of a value of which a part is in work."""
        found = ((i, self.axes.of(x, d)) for i, d in enumerate(roles.free_dims(x.type.rank)))
        return [(i, axis) for i, axis in found if axis is not None and axis in self.window]

    def cut(self, tile: View, x: Value, roles: Roles) -> View:
        for i, axis in self.cut_axes(x, roles):
            tile = sliced(tile, 2 + i, *self.window[axis])
        return tile

    def window_of(self, x: Value, roles: Roles) -> list[tuple[int, tuple[At, int]]]:
        return [(i, self.window[axis]) for i, axis in self.cut_axes(x, roles)]

    def free_sizes(self, x: Value, roles: Roles) -> list[int]:
        sizes = super().free_sizes(x, roles)
        for i, axis in self.cut_axes(x, roles):
            sizes[i] = self.window[axis][1]
        return sizes

    def windowed(self, tile: View, x: Value, roles: Roles) -> View:
        for i, axis in self.cut_axes(x, roles):
            at, count = self.window[axis]
            if tile.sizes[2 + i] == axis.size != count:
                tile = sliced(tile, 2 + i, at, count)
        return tile

    def value_tile(self, x: Value, roles: Roles) -> View:
        return self.windowed(super().value_tile(x, roles), x, roles)

    def destination(self, value: Value) -> View:
        return self.windowed(super().destination(value), value, self.group.roles[value])

    def is_part(self, x: Value) -> bool:
        """True for a value that the passes see part by part."""
        return any(self.axes.has(x, axis) for axis in self.plan.inner)

    # Passes.

    def _find_passes(self) -> None:
        """The pass in which each step is done, and after which each value is complete."""
        self.pass_of: dict[int, int] = {}
        ready: dict[Value, int] = {}
        self.combines: dict[int, Op] = {}
        for i, step in enumerate(self.steps):
            first = max((ready.get(self.same.get(v, v), 0) for v in step.inputs()), default=0)
            self.pass_of[i] = ready[step.result] = first
            if step.kind == "op" and step.op.name in COMBINED and self._combines(step.op):
                self.combines[i] = step.op
                ready[step.result] = first + 1
            if step.total is not None:
                ready[step.total.result] = first + (1 if self._combines(step.total) else 0)
                if self._combines(step.total):
                    self.combines[i] = step.total
        self.passes = max(self.pass_of.values()) + 1
        self._put_off()
        self._find_needed()

    def _put_off(self) -> None:
        """What no earlier pass needs is done in the first that does: nothing of it is there before. So are products, as
        what takes them from PSUM may read what is there only then."""
        users: dict[Value, list[int]] = {}
        for i in reversed(range(len(self.steps))):
            step = self.steps[i]
            later = users.get(step.result, [])
            able = self._is_part_step(i) or step.op.name in PRODUCTS
            if later and i not in self.combines and step.result not in self.kept and able:
                self.pass_of[i] = max(min(later), self.pass_of[i])
            for v in step.inputs():
                users.setdefault(self.same.get(v, v), []).append(self.pass_of[i])

    def _combines(self, op: Op) -> bool:
        (x,) = op.values()
        return any(self.axes.of(x, a) in self.plan.inner for a in op.attrs["axes"])

    def _is_part_step(self, i: int) -> bool:
        step = self.steps[i]
        return i in self.combines or self.is_part(step.result)

    def _find_needed(self) -> None:
        """The steps that each pass repeats or does for the first time, in order, and what is held from pass to pass."""
        makes = {self.steps[i].result: i for i in range(len(self.steps)) if self.is_part(self.steps[i].result)}
        self.needed: list[list[int]] = [[] for _ in range(self.passes)]
        self.rows: dict[Value, None] = {}
        read_in: dict[Value, set[int]] = {}
        for number in reversed(range(self.passes)):
            own = [i for i in range(len(self.steps)) if self._is_part_step(i) and self.pass_of[i] == number]
            work = [i for i in own if i in self.combines or self.steps[i].result in (*self.kept, *self.rows)]
            found: set[int] = set()
            while work:
                i = work.pop()
                if i in found:
                    continue
                found.add(i)
                for v in (self.same.get(v, v) for v in self.steps[i].inputs()):
                    if v not in makes:
                        read_in.setdefault(v, set()).add(number)
                    elif self.plan.held and self.pass_of[makes[v]] < number and not is_view(self.steps[makes[v]].op):
                        self.rows[v] = None
                    else:
                        work.append(makes[v])
            self.needed[number] = sorted(found)
        if self.plan.held:
            outside = (v for v, numbers in read_in.items() if len(numbers) > 1 and v not in self.group.roles)
            self.rows.update(dict.fromkeys(v for v in outside if self.is_part(v) and not is_described(v)))

    # The loops.

    def is_loaded_ahead(self, x: Value) -> bool:
        cut = self.plan.outer if self.plan.held else (*self.plan.outer, *self.plan.inner)
        return not any(self.axes.has(x, axis) for axis in cut)

    def _load_outer(self) -> None:
        """Values without rows that only outer axes cut, before the loops over rows."""
        self.held.clear()
        self.block = Block([], 0, 0, self.lanes, 1)
        for op in self.group.ops:
            if op.definition.family != "elementwise" or self.group.rows == 1:
                continue
            roles, rank = self.group.roles[op.result], op.result.type.rank
            for x in op.values():
                own = self._own_roles(x, roles, rank - x.type.rank)
                if x in self.group.roles or self.is_part(x) or not self.cut_axes(x, own) or is_described(x):
                    continue
                if all(x.type.shape[d] == 1 for d in (*range(*own.rows), *own.batch)):
                    self._replicated(x, own, [])

    def _all_rows(self) -> None:
        self._outer(list(self.plan.outer.items()))

    def _outer(self, axes: list[tuple[Axis, int]]) -> None:
        if not axes:
            self._load_outer()
            self._rows_of_part()
            return
        (axis, size), *others = axes
        for at, count in tiled(self.b, axis.size, size, "c"):
            self.window[axis] = at, count
            self._outer(others)
        del self.window[axis]

    def _rows_of_part(self) -> None:
        """All blocks of rows, the part of the outer axes being in work."""
        super()._all_rows()

    def _inner(self, axes: list[tuple[Axis, int]]) -> Iterator[None]:
        """Every part of the inner axes, as a loop and what is left."""
        if not axes:
            yield
            return
        (axis, size), *others = axes
        for at, count in tiled(self.b, axis.size, size, "c"):
            self.window[axis] = at, count
            yield from self._inner(others)
        del self.window[axis]

    def _body(self, block: Block) -> None:
        self.block = block
        before = dict(self.held)
        self._hold_rows()
        done: set[Op] = set()
        for number in range(self.passes):
            for i, step in enumerate(self.steps):
                if not self._is_part_step(i) and self.pass_of[i] == number and step.op not in done:
                    done |= self._whole_step(step)
            needed = self.needed[number]
            if not needed:
                continue
            self._begin(needed, number)
            for _ in self._inner(list(self.plan.inner.items())):
                tiles, fetched, held = dict(block.tiles), dict(block.fetched), dict(self.held)
                for i in needed:
                    self._part_step(i, self.pass_of[i] != number)
                block.tiles, block.fetched, self.held = tiles, fetched, held
            self._end(needed, number)
        self.held = before

    def _hold_rows(self) -> None:
        """Load whole rows of what several passes read, and make room for those that one of them makes."""
        for value in self.rows:
            if value in self.group.roles:
                super().destination(value)
                continue
            step = next(step for step in self.steps if value in [self.same.get(v, v) for v in step.inputs()])
            self.b.location = step.op.location
            read = next(v for v in step.inputs() if self.same.get(v, v) is value)
            # The first pass begins with the first part, while the others are on their way.
            last = self.axes.of(value, value.type.rank - 1)
            self.load_parts = -(-last.size // self.plan.inner[last]) if last in self.plan.inner else 1
            self._fetch_whole(read, step)
            self.load_parts = 1

    def _whole_step(self, step: Step) -> set[Op]:
        """A step on values that the passes do not cut; other steps that it did besides."""
        self.b.location = step.op.location
        done: set[Op] = set()
        if step.op.name in PRODUCTS:
            done = self.matmul.emit(step, [self.block])
        else:
            self.write_step(step)
        made = [step.result, *(each.result for each in self.steps if each.op in done)]
        for value in [*made, step.total.result] if step.total is not None else made:
            self._store(value)
        return done

    def _part_step(self, i: int, again: bool) -> None:
        step = self.steps[i]
        self.b.location = step.op.location
        self.write_step(step)
        if not again and self.is_part(step.result):
            self._store(step.result)
            self.block.loaded.pop(("stored", step.result), None)

    # Reductions and running sums over all parts.

    def _begin(self, needed: Sequence[int], number: int) -> None:
        """Start the reductions that a pass completes, and load what all of its parts read."""
        for i in needed:
            step = self.steps[i]
            for x in step.inputs():
                if x not in self.group.roles and not self.is_part(x) and self.same.get(x) is None:
                    self._fetch_whole(x, step)
            if i in self.combines and self.pass_of[i] == number:
                op = self.combines[i]
                self.totals[op.result] = self._accumulator(op)
            if step.op.name in SCANNED and self._scans_parts(step.op):
                self.carries[step.op] = self._carry(step.op)

    def _fetch_whole(self, x: Value, step: Step) -> None:
        if step.op.name in COMBINED or step.op.name in SCANNED:
            self.value_tile(x, operand_roles(step.op, self.group.roles[step.op.result]))
        else:
            self.operand(x, step.op)

    def _accumulator(self, op: Op) -> View:
        roles, dtype = self.group.roles[op.result], op.operands[0].type.dtype
        held = float32 if dtype.is_float else uint32 if dtype is uint32 else int32
        shape = (self.block.partitions, 1, *self.free_sizes(op.result, roles))
        total = self.b.sbuf(shape, held, "total", depth=self.depth)
        self.select.fill(total, start_of(op.name, dtype))
        return total

    def _end(self, needed: Sequence[int], number: int) -> None:
        """Deliver the reductions that are complete now."""
        for i in needed:
            if i not in self.combines or self.pass_of[i] != number:
                continue
            op, step = self.combines[i], self.steps[i]
            total, dst = self.totals.pop(op.result), self.destination(op.result)
            if step.negate and step.op is op:
                self.select.scalars(flat(dst), flat(total), "multiply", -1.0)
            elif total.dtype.is_integer:
                self.select.integers.store(dst, total)
            else:
                self.select.cast(flat(dst), flat(total))
            self._store(op.result)

    def _add(self, op: Op, part: View) -> None:
        """Take a part's result into the total."""
        total = self.totals[op.result]
        if total.dtype.is_integer:
            self.select.integers.combine(REDUCE[op.name], total, part)
        else:
            self.select.two(REDUCE[op.name], flat(total), flat(total), flat(part))

    def _reduce(self, step: Step) -> None:
        if not self._combines(step.op):
            super()._reduce(step)
            return
        op = step.op
        total = self.totals[op.result]
        part = self.b.sbuf(total.sizes, total.dtype, "part", depth=self.depth)
        negate, step.negate = step.negate, False
        self.reduce_into(step, part)
        step.negate = negate
        self._add(op, part)

    def sum_tile(self, op: Op) -> View:
        if not self._combines(op):
            return super().sum_tile(op)
        shape = (self.block.partitions, 1, *self.free_sizes(op.result, self.group.roles[op.result]))
        self.part = self.b.sbuf(shape, float32, "part", depth=self.depth)
        return self.part

    def sum_made(self, op: Op) -> None:
        # A step that is repeated makes its sum again, which nothing needs.
        if op.result in self.totals:
            self._add(op, self.part)

    def _scans_parts(self, op: Op) -> bool:
        return self.axes.of(op.operands[0], op.attrs["axis"]) in self.plan.inner

    def _carry(self, op: Op) -> View:
        """What the parts before add up to: one number per line."""
        roles, axis = self.group.roles[op.result], op.attrs["axis"]
        sizes = self.free_sizes(op.result, roles)
        sizes[roles.free_dims(op.result.type.rank).index(axis)] = 1
        dtype = op.result.type.dtype
        held = float32 if dtype.is_float else uint32 if dtype is uint32 else int32
        made = self.b.sbuf((self.block.partitions, 1, *sizes), held, "carry", depth=self.depth)
        if op.name == "recurrence":
            self.copy(made, spread(self.operand_tile(op.operands[2], op), made))
        else:
            self.select.fill(made, 0 if op.name == "cumsum" else 1)
        return made

    def carry(self, op: Op) -> View | None:
        return self.carries.get(op)

    # Operands.

    def _part_of_base(self, x: Value, roles: Roles) -> View | None:
        return None

    def _replicated(self, x: Value, roles: Roles, looped: list[int]) -> View:
        axes = self.cut_axes(x, roles)
        if not axes:
            return super()._replicated(x, roles, looped)
        if ("shared", x, None) in self.low.shared:
            window, self.window = self.window, {}
            whole = super()._replicated(x, roles, [])
            self.window = window
            return self.cut(whole, x, roles)
        free = roles.free_dims(x.type.rank)
        key = (x, tuple(free))
        found = self.held.get(key)
        if found is None:
            found = self.held[key] = self._replicate(x, roles)
        tile = sliced(found, 0, 0, self.block.partitions)
        return as_shape(tile, (self.block.partitions, 1, *self.free_sizes(x, roles)))

    def numbers(self, x: Value, dim: int) -> View:
        axis = self.axes.of(x, dim)
        if axis is None or axis not in self.window:
            return super().numbers(x, dim)
        at, count = self.window[axis]
        size = (self.plan.outer.get(axis) or self.plan.inner.get(axis)) or count
        first = sliced(sliced(column_numbers(self.low, size), 0, 0, self.block.partitions), 1, 0, count)
        made = self.b.sbuf(first.sizes, float32, "numbers", depth=self.depth)
        self.select.scalars(made, first, "add", self._start_of(axis, at, size))
        return made

    def _start_of(self, axis: Axis, at: At, size: int) -> View | float:
        """The place of the window's first element."""
        if isinstance(at, int):
            return float(at)
        table = multiples(self.low, axis.size // size, size)
        trip = Affine(at.const // size, tuple((index, factor // size) for index, factor in at.terms))
        return sliced(sliced(table, 0, 0, self.block.partitions), 1, trip, 1)


def is_described(x: Value) -> bool:
    """True for an array that a rule makes on chip."""
    return x.producer is not None and x.producer.name in ("full", "iota", "band")

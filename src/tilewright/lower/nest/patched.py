"""Writes a region of neighbours patch by patch: each partition has a patch with its border, so that neighbours along
any dim lie in the same partition and shifted values are views of one tile.

Every tile is [patches, 1, *places]. Patches are straight code, as many at a time as there are partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dtypes import DType, uint8
from tilewright.ir.core import Op, Value
from tilewright.lower.nest.blocks import BlockEmitter
from tilewright.lower.nest.patch_totals import take_in_patches
from tilewright.lower.nest.totals import taking_in, totals_of
from tilewright.lower.regions.fuse import Fuser, Step
from tilewright.lower.regions.patches import Along, Patches, Run, Span, loads_of, over, size_along
from tilewright.lower.regions.roles import Roles
from tilewright.lower.select.select import Operand, spread
from tilewright.lower.write.block import Block
from tilewright.lower.write.homes import Hbm, device_dtype
from tilewright.lower.write.transfers import transfer
from tilewright.lower.write.views import as_type, broadcast, merged, picked, sliced, split
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.lower.regions.grouping import Group

Cells = list[Span]
"""Patches along each dim: the first, and how many."""


class PatchFuser(Fuser):
    """Decides the steps of a region that is cut into patches."""

    def __init__(self, group: Group, patches: Patches) -> None:
        super().__init__(group)
        self.patches = patches

    def _is_loaded(self, x: Value, op: Op) -> bool:
        # Who reads neighbours looks for the tile of the value that they are of.
        return False

    def is_scalarish(self, x: Any, op: Op) -> bool:
        """As of any group; but patches may have several places of one element that the region makes."""
        if not super().is_scalarish(x, op):
            return False
        if not isinstance(x, Value) or op.result not in self.patches.needs:
            return True
        along = zip(self.patches.dims, self.patches.needs[op.result], strict=True)
        return all(dim.is_fixed(x) or dim.size(op.result) != 1 or last - first == 1 for dim, (first, last) in along)


class PatchEmitter(BlockEmitter):
    """Writes one region."""

    def __init__(self, low: Lowering, group: Group, patches: Patches) -> None:
        self.patches = patches
        self.stencil = patches.stencil
        super().__init__(low, group)
        self.depth = 1
        self.roots: dict[Value, View] = {}
        self.cells: Cells = []

    def fuser(self, many_rows: bool) -> Fuser:
        return PatchFuser(self.group, self.patches)

    def run(self) -> None:
        self._before_loops()
        self.early.end()
        for x in self.group.reads:
            if self.is_patched(x):
                self.low.home(x)
                self.low.in_hbm(x)
        self.over_rows = totals_of(self)
        with taking_in(self, self.over_rows):
            for cells in self._chunks():
                self._patches(cells)
        self.low.reuse_tiles(self.before)
        self._finish()

    def _chunks(self) -> Iterator[Cells]:
        """Patches that are in work at a time, along each dim."""
        order = self.patches.order
        for cells in chunks([self.patches.along[d] for d in order], self.lanes):
            yield [cells[order.index(d)] for d in range(len(order))]

    def _patches(self, cells: Cells) -> None:
        """Some patches, all at once."""
        self.cells, self.roots = cells, {}
        self.block = Block([], 0, 0, prod(count for _, count in cells), 1)
        self.block.is_plain = False
        for step in self.steps:
            if step.op in self.stencil.idle or step.result not in self.patches.needs:
                continue
            self.b.location = step.op.location
            self.write_step(step)
            if step.result in self.kept:
                self._send(step.result)
            for total in self.over_rows:
                if total.op.operands[0] is step.result:
                    take_in_patches(self, total)

    # What belongs to patches.

    def is_patched(self, x: Value) -> bool:
        """True for a value from outside of which each patch has its own part."""
        if x in self.group.roles or x not in self.patches.needs:
            return False
        rank = self.stencil.rank
        for dim, (along, span) in enumerate(zip(self.patches.along, self.patches.needs[x], strict=True)):
            n = size_along(x, dim, rank)
            if n != 1 and (along.count > 1 or span != (0, n) or any(used[dim] != span for used in self._used(x))):
                return True
        # What a part of the region is moved from lies as the region does.
        return any(use in self.moving for use in x.uses)

    def _used(self, x: Value) -> Iterator[Sequence[Span]]:
        """The places of what is made of a value: of one that is needed whole, an op may need a part."""
        made = (use.results[0] for use in x.uses if use in self.group.ops)
        return (self.patches.needs[each] for each in made if each in self.patches.needs)

    @property
    def moving(self) -> set[Op]:
        """Ops that move elements."""
        moved = {*self.stencil.shifted, *self.stencil.assembled}
        return {op for op in self.group.ops if op.result in moved or op in self.stencil.idle}

    def _is_seen(self, op: Op) -> bool:
        # Ops that move elements, and bits, see to themselves.
        return False

    def is_loaded_ahead(self, x: Value) -> bool:
        return not self.is_patched(x)

    def _rows_per_partition(self) -> int:
        return 1

    # Tiles.

    def _root(self, x: Value) -> tuple[Value, list[int], list[int]]:
        """What a value lies in the tile of, how far it is moved there, and how far apart its elements are."""
        rank = self.stencil.rank
        shifts, steps = [0] * rank, [1] * rank
        while True:
            by, step = (0,) * rank, (1,) * rank
            if x in self.stencil.shifted:
                step = self.stencil.steps.get(x, step)
                x, by = self.stencil.shifted[x]
            elif x in self.patches.claimed:
                x, by = self.patches.claimed[x], self.stencil.assembled[x].shifts
            elif (source := self._bits_of(x)) is not None:
                x = source
            else:
                return x, shifts, steps
            shifts = [a * n + b for a, n, b in zip(shifts, step, by, strict=True)]
            steps = [a * n for a, n in zip(steps, step, strict=True)]

    def _bits_of(self, x: Value) -> Value | None:
        """The value of the patches whose bits another one is: they share a tile."""
        op = x.producer
        if op is None or op.name != "bitcast" or x not in self.group.roles:
            return None
        (source,) = op.operands
        if not (source in self.group.roles or self.is_patched(source)) or source not in self.patches.needs:
            return None
        # What is put together around it may need more places than were made of the other value.
        spans = zip(self.patches.held[x], self.patches.needs[source], strict=True)
        return source if all(whole[0] <= own[0] and own[1] <= whole[1] for own, whole in spans) else None

    def _tile(self, x: Value) -> View:
        """The tile of a value that has one, made or loaded when it is first asked for."""
        found = self.roots.get(x)
        if found is None:
            sizes = [stop - first for first, stop in self.patches.held[x]]
            shape = (self.block.partitions, 1, *sizes)
            found = self.roots[x] = self.b.sbuf(shape, device_dtype(x.type.dtype), x.name or "t")
            if x not in self.group.roles:
                self._load(x, found)
        return found

    def window(self, x: Value, spans: Sequence[Span]) -> View:
        """Some places of a value; one where it has the same for all."""
        root, shifts, steps = self._root(x)
        tile = self._tile(root)
        for i, ((first, stop), by, step) in enumerate(zip(spans, shifts, steps, strict=True)):
            if not self.patches.dims[i].is_fixed(root):
                tile = sliced(tile, 2 + i, step * first + by - self.patches.held[root][i][0], stop - first, step)
        return as_type(tile, device_dtype(x.type.dtype))

    def destination(self, value: Value) -> View:
        if value not in self.patches.needs:
            return super().destination(value)
        self.block.tiles[value] = made = self.window(value, self.patches.needs[value])
        return made

    def operand(self, x: Any, op: Op) -> Operand:
        x = self.same.get(x, x) if isinstance(x, Value) else x
        if not isinstance(x, Value) or not (x in self.group.roles or self.is_patched(x)):
            return super().operand(x, op)
        spans = []
        for dim, span in zip(self.patches.dims, self.patches.needs[op.result], strict=True):
            spans.append(span if dim.size(x) == dim.size(op.result) else (0, 1))
        return self.window(x, spans)

    # Ops that move elements.

    def _single(self, step: Step) -> None:
        op = step.op
        if op.result in self.stencil.shifted or self._bits_of(op.result) is not None:
            if op.result in self.kept:
                self.block.tiles[op.result] = self.window(op.result, self.patches.needs[op.result])
            return
        if op.result not in self.stencil.assembled:
            super()._single(step)
            return
        assembly = self.stencil.assembled[op.result]
        if op.result not in self.patches.claimed:
            self._copy_main(op.result)
        for patch in assembly.patches:
            runs = [list(dim.patched(op.result, patch, span, along)) for dim, span, along in self._along(op.result)]
            for parts in product(*runs):
                self._lay_over(op.result, patch.source, [run for run, _ in parts], [span for _, span in parts])

    def _along(self, x: Value) -> Iterator[tuple[Any, Span, Along]]:
        return zip(self.patches.dims, self.patches.needs[x], self.patches.along, strict=True)

    def _copy_main(self, x: Value) -> None:
        """The main part of what has a tile of its own."""
        assembly = self.stencil.assembled[x]
        if assembly.main not in self.patches.needs:
            return
        spans: list[Span] = []
        for i, (dim, span, along) in enumerate(self._along(x)):
            by, n = assembly.shifts[i], dim.size(assembly.main)
            is_whole = along.count == 1 and along.ring is None
            spans.append((max(span[0], -by), min(span[1], n - by)) if is_whole else span)
        if any(first >= stop for first, stop in spans):
            # All that is needed of it lies beside the main part, which something else reads.
            return
        source = self.window(
            assembly.main, [(a + by, b + by) for (a, b), by in zip(spans, assembly.shifts, strict=True)]
        )
        into = self.window(x, spans)
        self.copy(into, spread(source, into))

    def _lay_over(self, x: Value, source: Value | float, runs: list[Run], places: list[Span]) -> None:
        """Some places of some patches, from another value or a number."""
        into = self.window(x, [(run.place, run.place + run.length) for run in runs])
        lanes = self._partitions(runs)
        if not lanes:
            return
        first, count = lanes[0], len(lanes)
        direct = lanes[-1] == first + count - 1 and is_aligned(first, count, self.lanes)
        part = sliced(into, 0, first, count) if direct else into
        if direct and not isinstance(source, Value):
            self.select.fill(part, source)
            return
        given = self.window(source, places) if isinstance(source, Value) else self.number(into.dtype, source, into.ndim)
        if direct:
            self.copy(part, spread(sliced(given, 0, first, count), part))
            return
        mask = broadcast(self.mask(tuple(lanes), into.ndim), into.sizes)
        self.b.op("tensor_copy_predicated", into, broadcast(given, into.sizes), mask)

    def number(self, dtype: DType, value: float, rank: int) -> View:
        """A number on every partition."""
        key = ("patch", dtype, value, rank)
        if key not in self.low.shared:
            made = self.low.shared[key] = self.b.sbuf((self.lanes, *(1 for _ in range(rank - 1))), dtype, "number")
            self.select.fill(made, value)
        return sliced(self.low.shared[key], 0, 0, self.block.partitions)

    def mask(self, lanes: tuple[int, ...], rank: int) -> View:
        """[partitions, 1, ...]: which of them are meant."""
        key = ("mask", lanes, rank)
        if key not in self.low.shared:
            marks = np.zeros((self.lanes, *(1 for _ in range(rank - 1))), np.uint8)
            marks[list(lanes)] = 1
            made = self.low.shared[key] = self.b.sbuf(marks.shape, uint8, "mask")
            self.b.op("dma_copy", made, self.low.constant(marks))
        return sliced(self.low.shared[key], 0, 0, self.block.partitions)

    def _partitions(self, runs: list[Run]) -> list[int]:
        """The partitions of some patches."""
        here = [
            range(max(run.first, first) - first, min(run.first + run.count - first, count))
            for run, (first, count) in zip(runs, self.cells, strict=True)
        ]
        return self.patches.partitions(here, [count for _, count in self.cells])

    # To and from HBM.

    def _load(self, x: Value, tile: View) -> None:
        """All places that patches need of a value from outside."""
        self.low.home(x)
        view = self.low.in_hbm(x)
        is_dense = not view.terms and view.is_contiguous() and view.size == prod(view.buffer.shape)
        for runs in loads_of(self.patches, x, is_dense):
            self._transfer(x, tile, view, runs, to_hbm=False)

    def _send(self, x: Value) -> None:
        """The places that patches make of a result, to HBM."""
        runs: list[list[Run]] = []
        for dim, _, along in self._along(x):
            made, n = dim.made(x, along), dim.size(x)
            runs.append(list(over((0, n), made, along)))
        root, shifts, _ = self._root(x)
        tile = as_type(self._tile(root), device_dtype(x.type.dtype))
        for view in self.places(x):
            self.low.delivered[view.buffer] = None
            for each in product(*runs):
                moved = [
                    Run(r.first, r.count, r.place + by, r.length, r.start, r.step)
                    for r, by in zip(each, shifts, strict=True)
                ]
                self._transfer(root, tile, view, moved, to_hbm=True)

    def _transfer(self, x: Value, tile: View, view: View, runs: Sequence[Run], to_hbm: bool) -> None:
        """Some places of some patches, between a tile and an array."""
        rank, order = self.stencil.rank, self.patches.order
        held, there = split(tile, 0, [self.cells[d][1] for d in order]), view.ndim - rank
        offset, sizes, strides = view.offset, ([], []), ([], [])
        cuts = [dim.own(x, along) for dim, along in zip(self.patches.dims, self.patches.along, strict=True)]
        for d, (run, (first, count), along) in enumerate(zip(runs, self.cells, cuts, strict=True)):
            begin, stop = max(run.first, first), min(run.first + run.count, first + count)
            if begin >= stop:
                return
            held = sliced(held, order.index(d), begin - first, stop - begin)
            held = sliced(held, rank + 1 + d, run.place - self.patches.held[x][d][0], run.length)
            step = view.strides[d + there] if d + there >= 0 else 0
            fixed = self.patches.dims[d].is_fixed(x)
            offset += 0 if fixed else step * (run.start + (begin - run.first) * along.size)
            sizes[0].append(stop - begin)
            sizes[1].append(run.length)
            strides[0].append(0 if fixed else step * along.size)
            strides[1].append(step * run.step)
        outer = [[each[0][d] for d in order] for each in (sizes, strides)]
        part = View(view.buffer, view.dtype, offset, (*outer[0], 1, *sizes[1]), (*outer[1], 0, *strides[1]), view.terms)
        self._move(held, part, rank, to_hbm)

    def _move(self, tile: View, there: View, lanes: int, to_hbm: bool) -> None:
        """A transfer of partitions that are evenly apart; others by parts."""
        together = merged(tile, 0, lanes - 1)
        if together is None or (together.sizes[0] > 1 and together.strides[0] != tile.row):
            for i in range(tile.sizes[0]):
                self._move(picked(tile, 0, i), picked(there, 0, i), lanes - 1, to_hbm)
            return
        pair = (there, tile) if to_hbm else (tile, there)
        transfer(self.b, *pair, lanes=lanes)

    def places(self, value: Value) -> list[View]:
        home = self.low.homes[value]
        assert isinstance(home, Hbm)
        outputs = self.low.outputs.get(value, [])
        return [*outputs, *([] if any(home.view.buffer is v.buffer for v in outputs) else [home.view])]

    def _make_homes(self) -> None:
        for value in self.kept:
            outputs = self.low.outputs.get(value, ())
            made = outputs[0] if outputs else None
            if made is None:
                made = self.b.hbm(value.type.shape, device_dtype(value.type.dtype), value.name or "spill")
            self.low.homes[value] = Hbm(made)

    def _own_roles(self, x: Value, roles: Roles, by: int) -> Roles:
        return Roles((0, 0))


def is_aligned(first: int, count: int, lanes: int) -> bool:
    """True for partitions that an engine can begin with."""
    quarter = max(lanes // 4, 1)
    return first == 0 or (first % quarter == 0 and count <= quarter) or (2 * first == lanes and 2 * count <= lanes)


def chunks(along: Sequence[Along], lanes: int) -> Iterator[Cells]:
    """Patches that are in work at a time: no more than there are partitions, chunks about equally large."""
    inner, cut = 1, len(along)
    while cut and inner * along[cut - 1].count <= lanes:
        cut -= 1
        inner *= along[cut].count
    behind = [(0, each.count) for each in along[cut:]]
    if not cut:
        yield behind
        return
    count = along[cut - 1].count
    parts = -(-count // max(lanes // inner, 1))
    each = -(-count // parts)
    for outer in product(*(range(a.count) for a in along[: cut - 1])):
        for first in range(0, count, each):
            yield [*((at, 1) for at in outer), (first, min(each, count - first)), *behind]


def chunk_count(along: Sequence[Along], lanes: int) -> int:
    """How many times some patches are in work."""
    inner, cut = 1, len(along)
    while cut and inner * along[cut - 1].count <= lanes:
        cut -= 1
        inner *= along[cut].count
    if not cut:
        return 1
    return prod(each.count for each in along[: cut - 1]) * -(-along[cut - 1].count // max(lanes // inner, 1))

"""Regions are computed by rows of an axis that all of their ops treat alike (`row_axis.py`), however it lies in memory.

A value [..., axis, ...] becomes [rows, ..., part of the axis, ...]: each row is a part of the axis with all that is
computed of it, so that slices, joins, reductions and running sums stay within a row. What comes from outside is read in
that order, and results are written from it to their own. What is reduced over the axis is reduced in each row, and then
over the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Any

from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.walk import eliminate_dead_code, sort_topologically
from tilewright.lower.decisions import decided
from tilewright.lower.regions.axes import SCANNED
from tilewright.lower.regions.checks import CHECKS
from tilewright.lower.regions.even import even_parts
from tilewright.lower.rewrite.row_axis import PARTS, RowRegion, Run, is_total, local_dims
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import device_dtype, is_view
from tilewright.target import Target
from tilewright.tensor.build import insert_tree, value


def compute_by_rows(graph: Graph, region: RowRegion, target: Target) -> Graph | None:
    """A copy of a program with a region rewritten; None where its axis has no parts that fit, or is rows already."""
    rows = _rows(region, target)
    if rows is None or _is_by_rows(region, rows):
        return None
    decided("rule: rows of an axis")
    made = graph.clone()
    _Rewriter(region.copied(graph, made), rows).run(made)
    sort_topologically(made.body)
    eliminate_dead_code(made)
    return made


def _rows(region: RowRegion, target: Target) -> int | None:
    """In how many parts the axis is cut: all partitions are at work, a few blocks of them fit on chip side by side."""
    lanes, room = target["limits.partitions"], target["memory.sbuf_usable_bytes"]
    alive = max(_alive(region), 1) / region.size
    widest = max(_bytes(x) for x in region.places) / region.size
    most = min(room / 4 / alive, TUNING.tile_bytes / widest, max(region.size // lanes, 1))
    # A few blocks, so that loading, computing and storing overlap, unless transfers would be short.
    few = region.size / (4 * lanes)
    if few * widest >= TUNING.block_bytes:
        most = min(most, few)
    parts = [n for n in (1, *even_parts(region.size, int(most))) if n <= most]

    def use(part: int) -> float:
        rows = region.size // part
        return rows / (-(-rows // lanes) * lanes)

    best = max(parts, key=lambda n: (round(use(n), 1), n), default=None)
    return None if best is None else region.size // best


def _is_by_rows(region: RowRegion, rows: int) -> bool:
    """True where all that is computed has these rows first, and nothing but dims of one element would change."""
    for op in region.ops:
        x = op.result
        run, shape = region.places.get(x), x.type.shape
        if run is None or is_view(op):
            continue
        made = (rows, *local_dims(shape, run, rows))
        if run.outer * prod(shape[: run.first]) != 1 or [n for n in made if n != 1] != [n for n in shape if n != 1]:
            return False
    return True


def _bytes(x: Value) -> int:
    return x.type.size * device_dtype(x.type.dtype).itemsize


def _alive(region: RowRegion) -> int:
    """Bytes of all values of a region that are there at once, at the most, each from its first op to its last."""
    (body,) = {op.parent for op in region.ops if op.parent is not None}
    order = [op for op in body.ops if op in region.ops]
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for at, op in enumerate(order):
        for x in (*op.values(), op.result):
            if region.places.get(x) is not None:
                first.setdefault(x, at)
                last[x] = at
    change = [0] * (len(order) + 1)
    for x, at in first.items():
        change[at] += _bytes(x)
        change[last[x] + 1] -= _bytes(x)
    most = now = 0
    for step in change:
        now += step
        most = max(most, now)
    return most


def write_anew(
    graph: Graph,
    region: Collection[Op],
    new: dict[Value, Value],
    write: Callable[[Op], Value],
    back: Callable[[Value, Value], Value],
    takes_new: Callable[[Op, Value], bool],
) -> None:
    """Put ops of a region that `write` makes anew beside the old ones, which nothing reads any more.

    new: what takes the place of each result. back: what others read, made of the new value for the old one; takes_new:
    who reads the new value of a result itself.
    """
    for op in [op for op in graph.ops if op in region]:
        made = write(op)
        made.name = op.result.name
        insert_tree(made, op)
        if made.producer is not None and made.producer.location is None:
            made.producer.location = op.location
        new[op.result] = made
        outside = [use for use in dict.fromkeys(op.result.uses) if not takes_new(use, op.result)]
        if outside:
            old = back(made, op.result)
            insert_tree(old, op)
            for use in outside:
                use.replace_operands([old if x is op.result else x for x in use.operands])


class _Rewriter:
    """Writes a region anew, with `rows` as the first dim of every value that has the axis."""

    def __init__(self, region: RowRegion, rows: int) -> None:
        self.region, self.rows = region, rows
        self.new: dict[Value, Value] = {}

    def run(self, graph: Graph) -> None:
        """Put the ops of the region in the new order beside the old ones, which nothing reads any more."""
        ops = self.region.ops
        write_anew(graph, ops, self.new, self._op, self._back, lambda use, x: use in ops and self._has_axis(x))

    def _has_axis(self, x: Value) -> bool:
        return self.region.places[x] is not None

    def _run(self, x: Value) -> Run:
        run = self.region.places[x]
        assert run is not None
        return run

    def _shape(self, x: Value) -> tuple[int, ...]:
        return (self.rows, *local_dims(x.type.shape, self._run(x), self.rows))

    def _local(self, x: Value) -> Value:
        """A value with its rows first."""
        found = self.new.get(x)
        if found is not None:
            return found
        run, shape = self._run(x), x.type.shape
        maker = x.producer
        if maker is not None and maker.name == "full":
            made = value("full", **{**maker.attrs, "shape": self._shape(x)})
        else:
            before, after = shape[: run.first], shape[run.last + 1 :]
            part = self.region.size // self.rows
            apart = shaped(x, (*before, run.outer, self.rows, part * run.inner, *after))
            at = len(before) + 1
            made = moved(apart, (at, *(d for d in range(apart.type.rank) if d != at)))
            made = shaped(made, self._shape(x))
            if self._is_read_in_parts(x):
                # The region's own: it is loaded once, and its parts are views of that.
                made.name = x.name
                made = value("cast", made, dtype=x.type.dtype)
        made.name = x.name
        self.new[x] = made
        return made

    def _is_read_in_parts(self, x: Value) -> bool:
        """True for what the region reads most of, by slices and other views."""
        views = [use.result for use in dict.fromkeys(x.uses) if use in self.region.ops and is_view(use)]
        return 2 * sum(min(view.type.size, x.type.size) for view in views) >= x.type.size

    def _back(self, made: Value, x: Value) -> Value:
        """A value with its dims as they were."""
        if not self._has_axis(x):
            self.region.places[made] = None
            return made
        run, shape = self._run(x), x.type.shape
        before, after = shape[: run.first], shape[run.last + 1 :]
        part = self.region.size // self.rows
        apart = shaped(made, (self.rows, *before, run.outer, part * run.inner, *after))
        at = len(before) + 1
        order = [*range(1, at + 1), 0, *range(at + 1, apart.type.rank)]
        back = shaped(moved(apart, order), shape)
        back.name = x.name
        return back

    # Ops.

    def _op(self, op: Op) -> Value:
        if op.definition.family == "elementwise" or op.name in ("broadcast_to", *CHECKS):
            return self._aligned_op(op)
        if op.name in SCANNED:
            rank = len(self._shape(op.result))
            # Operands of a scan have the same dims, those that are the same for all rows too.
            operands = [_of_rank(self._as_operand(x, op.result), rank) for x in op.values()]
            return value(op.name, *operands, **{**op.attrs, "axis": _moved_dim(op.attrs["axis"], self._run(op.result))})
        if is_total(op, self.region.places[op.values()[0]]):
            return self._total(op)
        return value(op.name, *[self._local(x) for x in op.values()], **self._attrs(op))

    def _total(self, op: Op) -> Value:
        """A reduction over the axis: of the part that each row has, then over the rows."""
        (x,) = op.values()
        run = self._run(x)
        axes = sorted({_moved_dim(run.first if run.first <= d <= run.last else d, run) for d in op.attrs["axes"]})
        parts = value(op.name, self._local(x), axes=tuple(axes), keepdims=False)
        parts.name = op.result.name
        return shaped(value(op.name, parts, axes=(0,), keepdims=False), op.result.type.shape)

    def _aligned_op(self, op: Op) -> Value:
        operands = [self._as_operand(x, op.result) if isinstance(x, Value) else x for x in op.operands]
        attrs = {**op.attrs, "shape": self._shape(op.result)} if op.name == "broadcast_to" else op.attrs
        return value(op.name, *operands, **attrs)

    def _as_operand(self, x: Value, result: Value) -> Value:
        """An operand whose dims are those of the result, counted from the last."""
        by, run = result.type.rank - x.type.rank, self._run(result)
        if self.region.places[x] is not None:
            made = self._local(x)
            return shaped(made, (self.rows, *(1 for _ in range(by)), *made.type.shape[1:])) if by else made
        # The dims of the axis, which it has one element along, are one.
        own = [x.type.shape[d - by] for d in range(by, result.type.rank) if not run.first < d <= run.last]
        return shaped(x, tuple(own))

    def _attrs(self, op: Op) -> dict[str, Any]:
        """The attributes of an op that has other dims than those of the axis in mind."""
        attrs = dict(op.attrs)
        if op.name == "reshape":
            return {"shape": self._shape(op.result)}
        run = self._run(op.values()[0])
        if op.name == "transpose":
            return {"perm": self._perm(op)}
        if op.name in PARTS:
            return self._part_attrs(op, run)
        if "axes" in attrs:
            attrs["axes"] = tuple(_moved_dim(d, run) for d in attrs["axes"])
        else:
            attrs["axis"] = _moved_dim(attrs["axis"], run)
        return attrs

    def _perm(self, op: Op) -> tuple[int, ...]:
        (x,) = op.values()
        source, run = self._run(x), self._run(op.result)
        kept = [d for d in range(op.result.type.rank) if not run.first < d <= run.last]
        return (0, *(_moved_dim(op.attrs["perm"][d], source) for d in kept))

    def _part_attrs(self, op: Op, run: Run) -> dict[str, Any]:
        attrs = dict(op.attrs)
        if op.name == "concatenate":
            return {"axis": _moved_dim(attrs["axis"], run)}
        source, first = op.values()[0].type.shape, run.first
        within = prod(source[first + 1 : run.last + 1])
        for name in ("starts", "low", "high", "steps"):
            if name in attrs:
                given = attrs[name]
                here = given[first] if name == "steps" else given[first] * within // self.rows
                attrs[name] = (int(name == "steps"), *given[:first], here, *given[run.last + 1 :])
        if "sizes" in attrs:
            attrs["sizes"] = self._shape(op.result)
        return attrs


def _of_rank(x: Value, rank: int) -> Value:
    """A value with further dims of one element in front."""
    return shaped(x, (*(1 for _ in range(rank - x.type.rank)), *x.type.shape))


def _moved_dim(d: int, run: Run) -> int:
    """Where a dim stands among those of a row, after the rows and with the dims of the axis as one."""
    return d + 1 if d <= run.first else d + 1 - (run.last - run.first)


def shaped(x: Value, shape: tuple[int, ...]) -> Value:
    """The same elements with other dims."""
    while x.type.shape != shape and (op := x.producer) is not None and op.name == "reshape" and op.parent is None:
        (x,) = op.values()
    return x if x.type.shape == shape else value("reshape", x, shape=shape)


def moved(x: Value, perm: Sequence[int]) -> Value:
    """The dims in another order; those of one element need not move."""
    long = [d for d in perm if x.type.shape[d] != 1]
    if long == sorted(long):
        return shaped(x, tuple(x.type.shape[d] for d in perm))
    return value("transpose", x, perm=tuple(perm))

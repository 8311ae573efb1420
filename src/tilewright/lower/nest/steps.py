"""The steps of a group on the tiles of a block: which instruction writes what."""

from __future__ import annotations

from math import prod
from typing import Any

from tilewright.dtypes import bfloat16, float32
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.indexed.column_tables import ColumnTable
from tilewright.lower.nest.inside import INSIDE
from tilewright.lower.nest.operands import Operands
from tilewright.lower.products.masking import mask_columns
from tilewright.lower.regions.fuse import Step
from tilewright.lower.regions.roles import Roles, operand_roles
from tilewright.lower.select.select import ACTIVATIONS, REDUCE, Operand, spread
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.block import flat
from tilewright.lower.write.homes import Chip, device_dtype, is_view
from tilewright.lower.write.views import (
    At,
    as_shape,
    as_type,
    broadcast,
    dropped,
    merged,
    permuted,
    picked,
    reshaped,
    sliced,
)
from tilewright.tensor.ranges import range_of
from tilewright.tile.view import View


class StepWriter(Operands):
    """Writes the steps of one group."""

    def write_step(self, step: Step) -> None:
        op = step.op
        if self.causal is not None and self.causal.apart and self.causal.step is step:
            mask_columns(self, step)
            return
        if step.kind == "op":
            self._single(step)
            return
        x = self.operand(step.x, op)
        dst = self.destination(step.result)
        assert isinstance(x, View)
        if step.kind == "activation":
            self._activation(step, dst, x)
        elif step.kind == "scalars":
            assert step.first is not None
            name, scalar, reverse = step.first
            self._scalars(step, dst, x, name, scalar, reverse)
        elif step.kind == "bits":
            assert step.first is not None and step.second is not None
            self.select.integers.bits_twice(dst, x, step.first, step.second)
        else:
            self._mixed(step, dst, x)

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
        self.destination(step.result)

    def on_columns(self, step: Step, at: At, size: int) -> None:
        """A step on some columns of its tiles."""
        self.block.panel = (None, at, size)
        self.write_step(step)
        self.block.panel = None

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
        self.select.activation(ACTIVATIONS[op.name], flat(dst), flat(spread(x, dst)), scale, bias, total, argument)
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
        self.select.scalars(dst, spread(x, dst), name, first, op1, operand1, reverse, reverse1)

    def _mixed(self, step: Step, dst: View, x: View) -> None:
        assert step.first is not None and step.y is not None
        name, scalar, reverse0 = step.first
        y = self.operand(step.y, step.op)
        assert isinstance(y, View)
        scalar_tile = self.scalar(scalar, step.op)
        x, y = spread(x, dst), spread(y, dst)
        self.select.mixed(dst, x, scalar_tile, y, name, step.joins, reverse0, step.reverse)

    def _single(self, step: Step) -> None:
        op = step.op
        if self._is_seen(op):
            self.block.tiles[op.result] = self._view(op)
            self._keep_view(op)
        elif op.definition.family == "reduction" and op.name in ("sum", "max", "min", "prod"):
            self._reduce(step)
        elif op.name in INSIDE:
            INSIDE[op.name](self, op)
        else:
            operands = [self.operand(x, op) for x in op.operands]
            self.select.emit(op, self.destination(step.result), operands)

    def _is_seen(self, op: Op) -> bool:
        """True for an op whose result is a view of its operand's tile."""
        if op.name == "bitcast":
            # A product in PSUM is read as what it is.
            return self.block.panel is None
        return is_view(op) and op.name != "broadcast_to"

    def _keep_view(self, op: Op) -> None:
        """A view that something outside reads is copied to where it lives."""
        if op.result not in self.kept:
            return
        if op.name == "bitcast" and self.ahead is None and not isinstance(self.low.homes.get(op.result), Chip):
            # It goes to HBM from where it is.
            return
        tile = self.block.tiles.pop(op.result)
        dst = self.destination(op.result)
        self.b.op("tensor_copy", dst, tile)

    def _view(self, op: Op) -> View:
        (x,) = op.operands
        if op.name == "bitcast":
            return as_type(self.whole_tile(x, self.group.roles[op.result]), device_dtype(op.result.type.dtype))
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
        (x,) = step.op.operands
        if x in self.block.begun:
            self._reduce_rest(step, *self.block.begun.pop(x))
        else:
            self.reduce_into(step, self.destination(step.op.result))

    def _reduce_rest(self, step: Step, parts: View, rest: list[tuple[int, int]]) -> None:
        """A reduction along the row of which only some columns are left."""
        tile = flat(self.value_tile(step.op.operands[0], self._member_roles(step.op.operands[0], step.op)))
        for i, (start, size) in enumerate(rest, parts.sizes[1] - len(rest)):
            part = sliced(tile, 1, start, size)
            self.b.op("tensor_reduce", sliced(parts, 1, i, 1), part, op=REDUCE[step.op.name], axis=(-1,))
        out = flat(self.destination(step.op.result))
        self.b.op("tensor_reduce", out, parts, op=REDUCE[step.op.name], axis=(-1,), negate=step.negate)

    def reduce_into(self, step: Step, dst: View) -> None:
        """A reduction over free dims."""
        op = step.op
        (x,) = op.operands
        if not x.type.size:
            assert op.name in ("sum", "prod"), f"{op.name} of nothing"
            self.select.fill(dst, 1 if op.name == "prod" else 0)
            return
        roles = self._member_roles(x, op)
        tile = self.value_tile(x, roles)
        sizes = (tile.sizes[0], tile.sizes[1], *self.free_sizes(x, roles))
        if tile.sizes != sizes:
            # All elements are the same, and every one of them counts.
            tile = broadcast(tile, sizes)
        free = roles.free_dims(x.type.rank)
        axes = [free.index(a) for a in op.attrs["axes"]]
        kept = [i for i in range(len(free)) if i not in axes]
        axes = [i for i in axes if tile.sizes[2 + i] != 1]
        for i in sorted((i for i in range(len(free)) if i not in kept and i not in axes), reverse=True):
            tile = dropped(tile, 2 + i)
        left = sorted([*kept, *axes])
        order = permuted(tile, (0, 1, *[2 + left.index(i) for i in kept], *[2 + left.index(i) for i in sorted(axes)]))
        axis = tuple(range(-len(axes), 0))
        if not axes:
            self.select.scalars(flat(dst), flat(order), "multiply", -1.0) if step.negate else self.select.cast(
                flat(dst), flat(order)
            )
            return
        if x.type.dtype.is_integer:
            lead = order.ndim - len(axes)
            lines = self.as_shape(order, (*order.sizes[:lead], prod(order.sizes[lead:])))
            self.select.integers.reduce(op.name, as_shape(dst, (*lines.sizes[:-1], 1)), lines)
            return
        if len(axes) == 1 and kept and not step.negate and self._is_folded(order):
            self.fold(REDUCE[op.name], as_shape(dst, order.sizes[:-1]), order)
            return
        reduce = ("tensor_reduce", (dst, order), {"op": REDUCE[op.name], "axis": axis, "negate": step.negate}, "vector")
        whole = merged(order, 1, order.ndim - 1)
        if op.name != "sum" or step.negate or kept or whole is None or dst.dtype is not float32 or tile.sizes[1] != 1:
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

    def as_shape(self, tile: View, shape: tuple[int, ...]) -> View:
        """A tile in another shape, copied where its elements do not lie so."""
        found = reshaped(tile, shape)
        if found is not None:
            return found
        dense = self.b.sbuf(tile.sizes, tile.dtype, "dense", depth=self.depth)
        self.select.copy(dense, tile)
        return as_shape(dense, shape)

    def _is_folded(self, order: View) -> bool:
        """True where lines are short beside what stands between their elements: the Vector engine reads those slowly,
        and two engines can share what is done by halves."""
        beside = [
            n for n, stride in zip(order.sizes[1:-1], order.strides[1:-1], strict=True) if stride < order.strides[-1]
        ]
        return order.sizes[-1] > 1 and prod(beside) >= TUNING.folded_columns and order.dtype is float32

    @decision("reduce: folded by halves")
    def fold(self, alu: str, dst: View, rows: View) -> None:
        """[partitions, ..., elements] by halves of the last dim, whose elements lie apart."""
        last, left = rows.ndim - 1, rows.sizes[-1]
        odd = picked(rows, last, left - 1) if left % 2 else None
        half = left // 2
        low, high = sliced(rows, last, 0, half), sliced(rows, last, half, half)
        if half > 1:
            # In the order of the rows: neighbours stay together.
            made = self.b.sbuf((rows.sizes[0], half, *rows.sizes[1:-1]), float32, "half", depth=self.depth)
            part = permuted(made, (0, *range(2, made.ndim), 1))
            self.select.two(alu, *(_last_first(view) for view in (part, low, high)))
            while half > 2:
                quarter = half // 2
                low, high = sliced(part, last, 0, quarter), sliced(part, last, half - quarter, quarter)
                self.select.two(alu, *(_last_first(view) for view in (low, low, high)))
                half -= quarter
            low, high = sliced(part, last, 0, 1), sliced(part, last, 1, 1)
        if odd is None:
            self.select.two(alu, dst, picked(low, last, 0), picked(high, last, 0))
            return
        first = self.b.sbuf(dst.sizes, float32, "half", depth=self.depth)
        self.select.two(alu, first, picked(low, last, 0), picked(high, last, 0))
        self.select.two(alu, dst, first, odd)

    def column_table(self, op: Op) -> ColumnTable | None:
        """The table that an op looks rows up in, if it is on chip with its columns on partitions."""
        return None

    def carry(self, op: Op) -> View | None:
        """What a running sum starts with, one number per line; it goes on from what is written there."""
        return None


def _last_first(view: View) -> View:
    """A view with its last dim before the other free ones."""
    return permuted(view, (0, view.ndim - 1, *range(1, view.ndim - 1)))

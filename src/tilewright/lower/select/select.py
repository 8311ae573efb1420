"""Instructions for elementwise ops and reductions on tiles: the fewest and widest that do the work.

A tile is a view [partitions, *free]; operands have the rank of the destination with size 1 where they are read again,
or are numbers. A column is an operand whose free dims are all 1: a number per partition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tilewright.dtypes import DType, bool_, float32, int32, uint8, uint32
from tilewright.errors import TileNotImplementedError, fail
from tilewright.ir.core import Op
from tilewright.lower.decisions import decided, decision
from tilewright.lower.select.guards import guarded, is_safe
from tilewright.lower.select.integers import Integers, spread
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.builder import TileBuilder
from tilewright.lower.write.views import as_type, sliced
from tilewright.tensor.ranges import ANY, EXACT, Range, range_of, rounds_to
from tilewright.tile.memory import PSUM, Buffer
from tilewright.tile.view import View

Operand = View | int | float | bool

ACTIVATIONS = {
    **{name: name for name in ("exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "gelu", "square")},
    **{"abs": "abs", "sign": "sign", "relu": "relu", "gelu_tanh": "gelu_apprx_tanh", "sin_near": "sin"},
    "arctan_near": "arctan",
}
"""Ops that the Scalar engine computes in one instruction, with a scale and a bias before."""

ALU = {
    **{name: name for name in ("add", "subtract", "multiply", "maximum", "minimum")},
    **{name: name for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")},
    **{name: name for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")},
}
"""Ops of two operands that the Vector engine computes in one instruction."""

BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
COMMUTES = ("add", "multiply", "maximum", "minimum", "equal", "not_equal", "bitwise_and", "bitwise_or", "bitwise_xor")
REDUCE = {"sum": "add", "max": "maximum", "min": "minimum", "prod": "multiply"}


def is_column(x: Operand, dst: View) -> bool:
    """True for an operand with one number per partition, while the destination has more."""
    return isinstance(x, View) and x.free == 1 and x.partitions == dst.partitions


@dataclass(slots=True)
class Twin:
    """A copy in PSUM of a tile, made when it is first used."""

    buffer: Buffer
    make: Callable[[], None]
    is_made: bool = False

    def use(self) -> None:
        """Make it, unless it is there."""
        if not self.is_made:
            self.is_made = True
            self.make()


class Selector:
    """Emits the instructions of one op at a time."""

    def __init__(self, builder: TileBuilder) -> None:
        self.b = builder
        self.integers = Integers(self)
        self.load = {"vector": 0.0, "scalar": 0.0, "gpsimd": 0.0}
        """Time that each engine has been given so far, to share what several could do."""
        self.ahead: dict[str, float] = {}
        """Time that is likely to be added to an engine's."""
        self.twins: dict[Buffer, Twin] = {}
        """Tiles in SBUF that PSUM has too, where the Vector engine reads faster beside another tile."""

    def book(self, name: str, *operands: Any, **attrs: Any) -> None:
        """An instruction that only one engine has; what such instructions take is in `load` from the start."""
        self.b.op(name, *operands, **attrs)

    def share(self, *choices: tuple[str, tuple[Any, ...], dict[str, Any], str]) -> str:
        """The instruction, of several that do the same, whose engine is done first: (name, operands, attrs, engine).

        Gives that engine.
        """

        def done(choice: tuple[str, tuple[Any, ...], dict[str, Any], str]) -> float:
            name, operands, attrs, engine = choice
            return self.load[engine] + self.b.times * self.b.cost_ns(name, *operands, **attrs)

        best = min(choices, key=lambda choice: done(choice) + self.ahead.get(choice[3], 0.0))
        name, operands, attrs, engine = best
        self.load[engine] = done(best)
        decided(f"engine: {engine}")
        self.b.op(name, *operands, **attrs)
        return engine

    def copy(self, dst: View, src: View) -> None:
        """A copy, rounding to dst's type, on the engine that is done first."""
        choices = [("tensor_copy", (dst, src), {"engine": "vector"}, "vector")]
        if self.b.target["features.scalar_tensor_copy"]:
            choices.append(("tensor_copy", (dst, src), {"engine": "scalar"}, "scalar"))
        self.share(*choices)

    def temp(self, like: View, dtype: DType, name: str = "t") -> View:
        """A tile of the same shape."""
        return self.b.sbuf(like.sizes, dtype, name, depth=2)

    # One op.

    def emit(self, op: Op, dst: View, operands: list[Operand]) -> None:
        """Write an op's result into `dst`."""
        name = op.name
        if self.integers.emit(op, dst, operands):
            return
        if name in ACTIVATIONS:
            argument = range_of(op.operands[0])
            self.activation(ACTIVATIONS[name], dst, self.tile(operands[0], dst), argument=argument)
        elif name in ALU:
            self.binary(ALU[name], dst, operands[0], operands[1])
        elif name == "divide":
            self.divide(dst, operands[0], operands[1])
        elif name == "negative":
            self.scalars(dst, self.tile(operands[0], dst), "multiply", -1.0)
        elif name == "reciprocal":
            self.inverse(dst, self.tile(operands[0], dst))
        elif name == "where":
            self.where(dst, operands[0], operands[1], operands[2])
        elif name == "bitcast":
            x = self.tile(operands[0], dst)
            self.b.op("tensor_copy", dst, as_type(x, dst.dtype))
        elif name == "cast" and op.result.type.dtype is bool_:
            self.scalars(dst, self.tile(operands[0], dst), "not_equal", 0.0)
        elif name == "nearest":
            self._nearest(op, dst, self.tile(operands[0], dst))
        elif name in ("cast", "copy", "broadcast_to"):
            self.cast(dst, self.tile(operands[0], dst))
        elif name in REDUCE:
            self.reduce(op, dst, operands[0])
        else:
            raise fail(
                "E501",
                f"{name} of {op.result.type} is not lowered yet",
                location=op.location,
                error=TileNotImplementedError,
            )

    def tile(self, x: Operand, dst: View) -> View:
        """An operand as a tile of the destination's shape."""
        if isinstance(x, View):
            return spread(x, dst)
        made = self.temp(dst, dst.dtype)
        self.fill(made, x)
        return made

    def fill(self, dst: View, value: float) -> None:
        """Every element the same."""
        self.b.op("memset", dst, value=int(value) if dst.dtype.is_integer else float(value))

    # Families.

    def activation(
        self,
        function: str,
        dst: View,
        x: View,
        scale: Operand = 1.0,
        bias: Operand | None = None,
        total: View | None = None,
        argument: Range = ANY,
    ) -> None:
        """dst = function(x * scale + bias); total is the sum over the free dims."""
        if not is_safe(function, argument, self.b.target):
            guarded(self, function, dst, x, scale, bias, total, argument)
            return
        attrs = {} if total is None else {"reduce_op": "add", "reduce_cmd": "reset_reduce"}
        if isinstance(bias, (int, float)) and (bias == 0 or not self.b.target["features.activation_scalar_bias"]):
            bias = None if bias == 0 else self.column(x.partitions, bias)
        self.book("activation", dst, x, bias, scale, total, op=function, **attrs)

    def column(self, partitions: int, value: float) -> View:
        """A column of one number."""
        made = self.b.sbuf((partitions, 1), float32, "c", depth=2)
        self.fill(made, value)
        return made

    def binary(self, alu: str, dst: View, x: Operand, y: Operand) -> None:
        """dst = alu(x, y)."""
        if not isinstance(x, View) or (is_column(x, dst) and not is_column(y, dst) and isinstance(y, View)):
            self._with_scalar(alu, dst, y, x, reverse=True)
        elif not isinstance(y, View) or is_column(y, dst):
            self._with_scalar(alu, dst, x, y, reverse=False)
        else:
            self.two(alu, dst, spread(x, dst), spread(y, dst))

    def two(self, alu: str, dst: View, x: View, y: View) -> None:
        """dst = alu(x, y) of two full tiles."""
        operands = (dst, x, y)
        near = (dst, x, self._near(y)) if y.buffer in self.twins else (dst, self._near(x), y)
        choices = [("tensor_tensor", near, {"op": alu, "engine": "vector"}, "vector")]
        sbuf = all(view.memory is not PSUM for view in operands)
        if (
            sbuf
            and alu not in BITS
            and not any(view.dtype.is_integer and view.dtype.itemsize == 4 for view in operands)
        ):
            choices.append(("tensor_tensor", operands, {"op": alu, "engine": "gpsimd"}, "gpsimd"))
        if all(view.dtype in ("int32", "uint32") for view in operands) and alu not in BITS:
            # Exact in 32-bit integers on GpSimd alone.
            self.book("tensor_tensor", *operands, op=alu)
            return
        if len(choices) == 2 and dst.sizes[-1] >= TUNING.split_columns:
            self.split(alu, dst, x, y)
        elif self.share(*choices) == "vector":
            for view, used in zip(operands, near, strict=True):
                if view is not used:
                    self.twins[view.buffer].use()

    def _near(self, view: View) -> View:
        """A tile in PSUM, where it has a twin there."""
        twin = self.twins.get(view.buffer)
        if twin is None or (twin.is_made and not self.b.sees(twin.buffer)):
            return view
        return View(twin.buffer, view.dtype, view.offset, view.sizes, view.strides, view.terms)

    @decision("select: two engines share")
    def split(self, alu: str, dst: View, x: View, y: View) -> None:
        """Both engines that can, each as many columns as makes them end together."""
        costs = {
            e: self.b.times * self.b.cost_ns("tensor_tensor", dst, x, y, op=alu, engine=e) for e in ("vector", "gpsimd")
        }
        share = (self.load["gpsimd"] - self.load["vector"] + costs["gpsimd"]) / (costs["vector"] + costs["gpsimd"])
        columns = dst.sizes[-1]
        cut = min(round(columns * share / TUNING.aligned) * TUNING.aligned, columns)
        if not TUNING.least_share <= share <= 1 - TUNING.least_share or cut in (0, columns):
            engine = "vector" if share > 0.5 else "gpsimd"
            self.load[engine] += costs[engine]
            self.b.op("tensor_tensor", dst, x, y, op=alu, engine=engine)
            return
        for engine, start, stop in (("vector", 0, cut), ("gpsimd", cut, columns)):
            parts = [
                view if view.sizes[-1] == 1 else sliced(view, view.ndim - 1, start, stop - start)
                for view in (dst, x, y)
            ]
            self.load[engine] += costs[engine] * (stop - start) / columns
            self.b.op("tensor_tensor", *parts, op=alu, engine=engine)

    def _two_cost(self, alu: str, dst: View, x: View, y: View, engine: str) -> float:
        return self.b.times * self.b.cost_ns("tensor_tensor", dst, x, y, op=alu, engine=engine)

    @decision("select: function with two operators")
    def mixed(
        self, dst: View, x: View, scalar: Operand, y: View, op0: str, op1: str, reverse0: bool, reverse1: bool
    ) -> None:
        """dst = op1(op0(x, scalar), y): by the one instruction that the Vector engine has for it, or by two that others
        share when that ends sooner."""
        attrs = {"op0": op0, "op1": op1, "reverse0": reverse0, "reverse1": reverse1}
        alone = self.b.times * self.b.cost_ns("scalar_tensor_tensor", dst, x, scalar, y, **attrs)
        able = all(view.memory is not PSUM for view in (dst, x, y)) and dst.sizes[-1] >= TUNING.split_columns
        plain = op0 in ("multiply", "add") and dst.dtype.is_float
        share = 1.0
        if able and plain and self.b.target["features.scalar_tensor_scalar"]:
            scaled = View(dst.buffer, dst.dtype, dst.offset, dst.sizes, dst.strides, dst.terms)
            on_scalar = self.b.times * self.b.cost_ns("tensor_scalar", scaled, x, scalar, op0=op0, engine="scalar")
            on_gpsimd = self._two_cost(op1, dst, x, y, "gpsimd")

            def end(part: float) -> float:
                rest = 1 - part
                return max(
                    self.load["vector"] + alone * part,
                    self.load["scalar"] + on_scalar * rest,
                    self.load["gpsimd"] + on_gpsimd * rest,
                )

            share = min((i / TUNING.shares for i in range(TUNING.shares, -1, -1)), key=end)
            self.load["scalar"] += on_scalar * (1 - share)
            self.load["gpsimd"] += on_gpsimd * (1 - share)
        self.load["vector"] += alone * share
        last, columns = dst.ndim - 1, dst.sizes[-1]
        cut = columns if share == 1 else min(round(columns * share / TUNING.aligned) * TUNING.aligned, columns)

        def part(view: View, start: int, stop: int) -> View:
            return (
                view
                if view.sizes[-1] == 1 or (start, stop) == (0, columns)
                else sliced(view, last, start, stop - start)
            )

        if cut:
            one = [part(view, 0, cut) for view in (dst, x, y)]
            self.b.op("scalar_tensor_tensor", one[0], one[1], scalar, one[2], **attrs)
        if cut < columns:
            out, data, other = (part(view, cut, columns) for view in (dst, x, y))
            made = out if out.dtype is float32 else self.temp(out, float32, "scaled")
            self.b.op("tensor_scalar", made, data, scalar, op0=op0, engine="scalar")
            self.b.op("tensor_tensor", out, *((other, made) if reverse1 else (made, other)), op=op1, engine="gpsimd")

    def _with_scalar(self, alu: str, dst: View, data: Any, scalar: Operand, reverse: bool) -> None:
        assert isinstance(data, View), "an op of two numbers is a constant"
        reverse = reverse and alu not in COMMUTES
        self.scalars(dst, spread(data, dst), alu, scalar, reverse0=reverse)

    def scalars(
        self,
        dst: View,
        data: View,
        op0: str,
        operand0: Operand,
        op1: str | None = None,
        operand1: Operand | None = None,
        reverse0: bool = False,
        reverse1: bool = False,
    ) -> None:
        """dst = op1(op0(data, operand0), operand1) with numbers or columns."""
        first, second = self._scalar(op0, operand0), self._scalar(op1, operand1)
        on_scalar = (op0, op1) in (("multiply", "add"), ("multiply", None), ("add", None)) and not (
            reverse0 or reverse1
        )
        if on_scalar and dst.dtype.is_float and data.dtype.is_float and self.b.target["features.scalar_tensor_scalar"]:
            operands, given = (dst, data, first, second), {"op0": op0, "op1": op1}
            self.share(
                ("tensor_scalar", operands, {**given, "engine": "vector"}, "vector"),
                ("tensor_scalar", operands, {**given, "engine": "scalar"}, "scalar"),
            )
            return
        self.b.op("tensor_scalar", dst, data, first, second, op0=op0, op1=op1, reverse0=reverse0, reverse1=reverse1)

    def _scalar(self, op: str | None, x: Operand | None) -> Any:
        """A scalar operand as its instruction takes it: columns of arithmetic are float32."""
        if x is None or not isinstance(x, View):
            return x if x is None or op in BITS else float(x)
        if op in BITS or x.dtype is float32:
            return x
        made = self.b.sbuf((x.partitions, 1), float32, "c", depth=2)
        self.b.op("tensor_copy", made, x)
        return made

    def inverse(self, dst: View, y: View) -> None:
        """dst = 1 / y: by the instruction of that name, or as a power, which has no cost of its own."""
        ways = [("reciprocal", (dst, y), {}), ("tensor_scalar", (dst, y, -1.0), {"op0": "power"})]
        name, operands, attrs = min(ways, key=lambda way: self.b.cost_ns(way[0], *way[1], **way[2]))
        decided(f"inverse: {name}")
        self.b.op(name, *operands, **attrs)

    @decision("select: divide")
    def divide(self, dst: View, x: Operand, y: Operand) -> None:
        """x / y as a product with the inverse of y, in one instruction where y has as many elements as the result."""
        if not isinstance(y, View):
            self.scalars(dst, self.tile(x, dst), *inverse_of(float(y)))
        elif not isinstance(x, View) and x == 1 and y.sizes == dst.sizes:
            self.inverse(dst, y)
        elif y.free < dst.free:
            inverse = self.b.sbuf(y.sizes, float32, "inverse", depth=2)
            self.inverse(inverse, y)
            self.binary("multiply", dst, x, inverse)
        elif not isinstance(x, View) or is_column(x, dst):
            self.scalars(dst, spread(y, dst), "power", -1.0, "multiply", x)
        else:
            self.mixed(dst, spread(y, dst), -1.0, spread(x, dst), "power", "multiply", False, False)

    @decision("select: where")
    def where(self, dst: View, condition: Operand, x: Operand, y: Operand) -> None:
        """dst = x where condition, else y; what is not chosen is never computed with."""
        assert isinstance(condition, View)
        mask = spread(condition, dst)
        if mask.dtype not in ("uint8", "uint16", "uint32"):
            bits = self.temp(dst, uint8, "mask")
            self.scalars(bits, mask, "not_equal", 0.0)
            mask = bits
        if self._select(dst, mask, x, y, False) or self._select(dst, mask, y, x, True):
            return
        # A tile is copied, in place where nothing else reads it, and a number put where it is not chosen.
        swapped = isinstance(x, View) and not isinstance(y, View)
        if swapped:
            x, y = y, x
        if isinstance(y, View):
            self.b.op("tensor_copy", dst, spread(y, dst))
        else:
            self.fill(dst, y)
        if isinstance(x, View) and x.dtype is not dst.dtype:
            same = self.temp(dst, dst.dtype)
            self.b.op("tensor_copy", same, spread(x, dst))
            x = same
        if not isinstance(x, View) and not dst.dtype.is_float and abs(x) > EXACT:
            number, x = x, self.temp(dst, dst.dtype)
            self.fill(x, number)
        chosen = spread(x, dst) if isinstance(x, View) else float(x)
        self.b.op("tensor_copy_predicated", dst, chosen, mask, reverse_pred=swapped)

    @decision("select: one pass", if_found=True)
    def _select(self, dst: View, mask: View, x: Operand, other: Operand, reverse: bool) -> bool:
        """dst = x where the mask is set, or where it is not, else a number, or one of each partition; says whether one
        pass can do it."""
        is_one = not isinstance(other, View) or (other.free == 1 and other.dtype is float32)
        if not is_one or not isinstance(x, View) or not (x.dtype.is_float and dst.dtype.is_float):
            return False
        if mask.dtype is uint32 or (x.memory is PSUM and mask.memory is PSUM):
            return False
        number = sliced(other, 0, 0, dst.sizes[0]) if isinstance(other, View) else float(other)
        self.b.op("select_reduce", dst, mask, spread(x, dst), number, reverse_pred=reverse)
        return True

    def cast(self, dst: View, x: View) -> None:
        """dst = x in dst's element type; floats to integers by truncation."""
        if self.integers.cast(dst, x):
            return
        if dst.dtype.is_integer and x.dtype.is_float:
            self._truncate(dst, x)
        else:
            self.copy(dst, x)

    @decision("select: nearest")
    def _nearest(self, op: Op, dst: View, x: View) -> None:
        """Engines round to the nearest integer, and what lies beyond a type to its last one."""
        if rounds_to(op):
            self.copy(dst, x)
            return
        whole = self.temp(dst, int32, "whole")
        self.copy(whole, x)
        self.integers.store(dst, whole)

    @decision("select: truncated")
    def _truncate(self, dst: View, x: View) -> None:
        """Engines round to nearest: sign(x) * floor(|x|), where floor is nearest less one where that is greater."""
        if dst.dtype is uint32:
            self._truncate_large(dst, x)
            return
        size, near, over = (self.temp(dst, float32, n) for n in ("size", "near", "over"))
        whole = self.temp(dst, int32, "whole")
        self.b.op("activation", size, x, None, 1.0, op="abs")
        self.b.op("tensor_copy", whole, size)
        self.b.op("tensor_copy", near, whole)
        self.b.op("tensor_tensor", over, near, size, op="greater")
        self.b.op("tensor_tensor", near, near, over, op="subtract")
        self.b.op("activation", size, x, None, 1.0, op="sign")
        self.b.op("tensor_tensor", whole, near, size, op="multiply")
        self.integers.store(dst, whole)

    @decision("select: truncated, large")
    def _truncate_large(self, dst: View, x: View) -> None:
        """Half of the numbers without sign are beyond those with one: they are less by that before, and more after."""
        half = 1 << (8 * dst.dtype.itemsize - 1)
        over, low = self.temp(dst, float32, "over"), self.temp(dst, float32, "low")
        self.scalars(over, x, "greater_equal", float(half))
        self.b.op("scalar_tensor_tensor", low, over, float(-half), x, op0="multiply", op1="add")
        whole, upper = self.temp(dst, int32, "whole"), self.temp(dst, int32, "upper")
        self._truncate(whole, low)
        self.b.op("tensor_copy", upper, over)
        self.b.op("tensor_scalar", upper, upper, 8 * dst.dtype.itemsize - 1, op0="left_shift")
        self.b.op("tensor_tensor", as_type(dst, int32), whole, upper, op="bitwise_xor")

    def reduce(self, op: Op, dst: View, x: Operand) -> None:
        """A reduction over the last free dims of a tile; `dst` has a size of 1 or nothing there."""
        assert isinstance(x, View)
        kept = prod(dst.sizes[1:])
        last, size = x.ndim, 1
        while size * kept != x.free:
            last -= 1
            size *= x.sizes[last]
        while last > 1 and x.sizes[last - 1] == 1 and prod(x.sizes[1:last]) != kept:
            last -= 1
        if last == x.ndim:
            self.cast(dst, x)
            return
        axis = tuple(range(last, x.ndim))
        self.b.op("tensor_reduce", dst, x, op=REDUCE[op.name], axis=axis)


_NORMAL = float(np.finfo(np.float32).tiny)
_FAR = 2.0**63


def inverse_of(y: float) -> tuple[Any, ...]:
    """What divides by a number: a product with its inverse, in two steps where no normal float32 is that."""
    if y == 0 or not np.isfinite(y) or _NORMAL <= abs(1.0 / y) <= 1 / _NORMAL:
        return "multiply", 1.0 / y if y else np.copysign(np.inf, y)
    factor = _FAR if abs(y) < 1 else 1 / _FAR
    return "multiply", factor, "multiply", 1.0 / (y * factor)


def start_of(name: str, dtype: Any) -> float | int:
    """What a reduction starts with."""
    if name in ("sum", "prod"):
        return 0 if name == "sum" else 1
    if dtype.is_float:
        return float("-inf") if name == "max" else float("inf")
    wide = uint32 if dtype is uint32 else int32
    bits = 8 * wide.itemsize
    if wide is uint32:
        return 0 if name == "max" else (1 << bits) - 1
    return -(1 << (bits - 1)) if name == "max" else (1 << (bits - 1)) - 1

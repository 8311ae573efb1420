"""Integers and truth values, exactly: in 32 bits on GpSimd, as bit patterns, or by copies that no number can spoil.

Engines other than GpSimd compute in float32, which holds integers up to 24 bits only: those that are known to be no
larger are computed with as they lie. What leaves a small type wraps around as in NumPy, by taking the low bytes of the
32-bit result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.dtypes import DType, bool_, int16, int32, uint32
from tilewright.ir.core import Op
from tilewright.lower.decisions import decision
from tilewright.lower.write.views import as_type, broadcast, sliced
from tilewright.tensor.ranges import EXACT, is_small, range_of_type, unwrapped
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.select.select import Operand, Selector

ARITHMETIC = ("add", "subtract", "multiply", "maximum", "minimum")
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor")
# What arithmetic means for truth values.
TRUTH = {"add": "bitwise_or", "multiply": "bitwise_and", "maximum": "bitwise_or", "minimum": "bitwise_and"}
REDUCTIONS = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}


def is_integer(op: Op) -> bool:
    """True for an op whose operands are integers or truth values."""
    values = op.values()
    return bool(values) and all(v.type.dtype.is_integer for v in values)


class Integers:
    """Writes ops of integers for a selector."""

    def __init__(self, select: Selector) -> None:
        self.s, self.b = select, select.b

    def emit(self, op: Op, dst: View, operands: list[Operand]) -> bool:
        """Write an op if it is one of integers; says whether it was."""
        if not is_integer(op):
            return False
        name = op.name
        truth = op.values()[0].type.dtype is bool_
        if name in BITWISE or (truth and name in TRUTH):
            self.bits(TRUTH.get(name, name), dst, operands[0], operands[1])
        elif self._in_floats(op, dst, operands):
            pass
        elif name in ARITHMETIC:
            self.arithmetic(name, dst, operands)
        elif name in COMPARISONS:
            made = self.wide(dst, self._kind(operands))
            self._two(name, made, operands)
            self.s.b.op("tensor_copy", dst, made)
        elif name in ("left_shift", "right_shift"):
            self.shift(name, dst, operands, op.values()[0].type.dtype)
        elif name == "negative":
            self.arithmetic("subtract", dst, [0, operands[0]])
        elif name == "square":
            self.arithmetic("multiply", dst, [operands[0], operands[0]])
        elif name == "abs":
            self._abs(dst, operands[0])
        elif name == "sign":
            self._sign(dst, operands[0])
        elif name == "reciprocal":
            self._reciprocal(dst, operands[0])
        else:
            return False
        return True

    # Conversions.

    def wide(self, like: View, dtype: DType = int32) -> View:
        """A tile of 32-bit integers of the same shape."""
        return self.s.temp(like, dtype, "wide")

    def _kind(self, operands: list[Operand]) -> DType:
        """32-bit integers with or without sign, as the operands have one."""
        return uint32 if any(isinstance(x, View) and x.dtype is uint32 for x in operands) else int32

    def load(self, x: Operand, like: View, dtype: DType) -> View:
        """An operand as a tile of 32-bit integers."""
        if not isinstance(x, View):
            # One number per partition, which is read again and again.
            made = self.b.sbuf((like.partitions, *[1] * (like.ndim - 1)), dtype, "number", depth=2)
            self.b.op("memset", made, value=int(x))
            return broadcast(made, like.sizes)
        x = spread(x, like)
        if x.dtype is dtype:
            return x
        made = self.wide(like, dtype)
        self.b.op("tensor_copy", made, as_type(x, dtype) if x.dtype.itemsize == dtype.itemsize else x)
        return made

    def store(self, dst: View, made: View) -> None:
        """A 32-bit result into a type that may be smaller: its low bytes."""
        if dst.dtype.itemsize == made.dtype.itemsize:
            self.b.op("tensor_copy", as_type(dst, made.dtype), made)
        else:
            self.b.op("tensor_copy", dst, low_bytes(made, dst.dtype))

    # Families.

    def _two(self, alu: str, out: View, operands: list[Operand]) -> None:
        dtype = out.dtype
        first, second = (self.load(x, out, dtype) for x in operands)
        self.b.op("tensor_tensor", out, first, second, op=alu, engine="gpsimd")

    @decision("integers: in floats", if_found=True)
    def _in_floats(self, op: Op, dst: View, operands: list[Operand]) -> bool:
        """Integers that float32 holds, as what is made of them is: read as they are, by any engine; says whether it was
        such an op. Only results that may leave their type are 32 bits wide first."""
        alu = "multiply" if op.name in ("negative", "square") else op.name
        if not any(isinstance(x, View) for x in operands):
            return False
        if op.name in COMPARISONS:
            # The nearest float of a greater number is no smaller one.
            if not any(is_small(x) for x in op.operands):
                return False
            self.s.binary(alu, dst, *operands)
            return True
        exact = unwrapped(op)
        small = all(is_small(x) for x in op.operands) and exact.is_inside(1 - EXACT, EXACT - 1)
        if alu not in ARITHMETIC or not small:
            return False
        given = [operands[0], -1] if op.name == "negative" else operands * (2 if op.name == "square" else 1)
        inside = exact.is_inside(*range_of_type(op.result))
        made = dst if inside else self.wide(dst)
        self.s.binary(alu, made, *given)
        if not inside:
            self.store(dst, made)
        return True

    @decision("integers: arithmetic")
    def arithmetic(self, alu: str, dst: View, operands: list[Operand]) -> None:
        """dst = alu of two operands, wrapped around to dst's type."""
        direct = dst.dtype in (int32, uint32)
        made = dst if direct else self.wide(dst, self._kind(operands))
        self._two(alu, made, operands)
        if not direct:
            self.store(dst, made)

    @decision("integers: bits")
    def bits(self, alu: str, dst: View, x: Operand, y: Operand) -> None:
        """dst = alu of two bit patterns."""
        if not isinstance(x, View):
            x, y = y, x
        assert isinstance(x, View)
        x = spread(x, dst)
        if isinstance(y, View):
            self.b.op("tensor_tensor", dst, x, spread(y, dst), op=alu)
        else:
            self.b.op("tensor_scalar", dst, x, int(y), op0=alu)

    @decision("integers: shift")
    def shift(self, name: str, dst: View, operands: list[Operand], dtype: DType) -> None:
        """Shifts as NumPy's: arithmetic to the right for types with a sign, nothing left beyond the width."""
        signed = dtype.kind == "i"
        if not isinstance(operands[1], View) and operands[1] >= 0:
            self._shift_by(name == "right_shift", int(operands[1]), dst, operands[0], dtype)
            return
        made, amount = self.wide(dst), self.wide(dst)
        x = self.load(operands[0], dst, int32)
        self._two("minimum", amount, [operands[1], 31])
        if name == "right_shift" and signed:
            # Of a negative number the complement is shifted.
            negative, flipped = self.wide(dst), self.wide(dst)
            self._two("less", negative, [x, 0])
            self._two("subtract", negative, [0, negative])
            self.b.op("tensor_tensor", flipped, x, negative, op="bitwise_xor")
            self.b.op("tensor_tensor", made, flipped, amount, op="right_shift")
            self.b.op("tensor_tensor", made, made, negative, op="bitwise_xor")
        else:
            alu = "left_shift" if name == "left_shift" else "right_shift"
            self.b.op("tensor_tensor", made, x, amount, op=alu)
            # By the whole width or more nothing is left.
            kept = self.wide(dst)
            self._two("less", kept, [operands[1], 8 * dtype.itemsize])
            self._two("multiply", made, [made, kept])
        self.store(dst, made)

    def _shift_by(self, right: bool, amount: int, dst: View, x: Operand, dtype: DType) -> None:
        """A shift by a number, as bit patterns of the type's own width."""
        width, signed = 8 * dst.dtype.itemsize, dtype.kind == "i"
        if amount >= 8 * dtype.itemsize and not (right and signed):
            self.s.fill(dst, 0)
            return
        amount = min(amount, width - 1)
        if not isinstance(x, View) or x.dtype.itemsize != dst.dtype.itemsize:
            x = low_bytes(self.load(x, dst, int32), dst.dtype)
        x = spread(x, dst)
        if not (right and signed):
            self.b.op("tensor_scalar", dst, x, amount, op0="right_shift" if right else "left_shift")
        elif not amount:
            self.b.op("tensor_copy", dst, x)
        else:
            # Numbers from the least one on have no sign; as many as are below the shifted least one have it again.
            below = 1 << (width - 1 - amount)
            self.b.op("tensor_scalar", dst, x, 1 << (width - 1), amount, op0="bitwise_xor", op1="right_shift")
            if 2 * below <= EXACT:
                self.b.op("tensor_scalar", dst, dst, float(-below), op0="add")
            else:
                self._two("subtract", dst, [dst, below])

    @decision("integers: two bit operators")
    def bits_twice(self, dst: View, x: View, first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
        """dst = second(first(x, number), number), in one instruction; shifts to the right are those of types without
        sign."""
        (op0, one, _), (op1, other, _) = first, second
        self.b.op("tensor_scalar", dst, spread(x, dst), one, other, op0=op0, op1=op1)

    def _abs(self, dst: View, x: Operand) -> None:
        assert isinstance(x, View)
        if x.dtype.kind != "i":
            self.b.op("tensor_copy", dst, x)
            return
        negative, made = self.wide(dst), self.wide(dst)
        self._two("subtract", negative, [0, x])
        self._two("maximum", made, [x, negative])
        self.store(dst, made)

    def _sign(self, dst: View, x: Operand) -> None:
        if isinstance(x, View) and x.dtype.kind != "i":
            made = self.wide(dst, self._kind([x]))
            self._two("not_equal", made, [x, 0])
            self.store(dst, made)
            return
        above, below = self.wide(dst), self.wide(dst)
        self._two("greater", above, [x, 0])
        self._two("less", below, [x, 0])
        self._two("subtract", above, [above, below])
        self.store(dst, above)

    def _reciprocal(self, dst: View, x: Operand) -> None:
        """1 and -1 are their own; of larger numbers nothing is left, and 0 gives what NumPy's division does."""
        assert isinstance(x, View)
        made = self.wide(dst, self._kind([x]))
        self._two("equal", made, [x, 1])
        if x.dtype.kind == "i":
            below = self.wide(dst)
            self._two("equal", below, [x, -1])
            self._two("subtract", made, [made, below])
        if x.dtype is int32:
            zero = self.wide(dst)
            self._two("equal", zero, [x, 0])
            self._two("multiply", zero, [zero, -(1 << 31)])
            self._two("add", made, [made, zero])
        self.store(dst, made)

    @decision("integers: reduced")
    def reduce(self, name: str, dst: View, x: View) -> None:
        """A reduction of the last dim by halves; dst is [partitions, ..., 1]."""
        alu, dtype = REDUCTIONS[name], uint32 if x.dtype is uint32 else int32
        size = x.sizes[-1]
        made = self.s.temp(x, dtype, "wide")
        self.b.op("tensor_copy", made, x)
        last = made.ndim - 1
        while size > 1:
            half = size // 2
            low, high = sliced(made, last, 0, half), sliced(made, last, size - half, half)
            self.b.op("tensor_tensor", low, low, high, op=alu, engine="gpsimd")
            size -= half
        self.store(dst, sliced(made, last, 0, 1))

    def combine(self, alu: str, total: View, part: View) -> None:
        """total = alu(total, part) in 32 bits."""
        self.b.op("tensor_tensor", total, total, self.load(part, total, total.dtype), op=alu, engine="gpsimd")

    @decision("integers: scanned")
    def scan(self, name: str, dst: View, x: View, dim: int, carry: View | None) -> None:
        """A running sum or product: each place takes in the one 1, 2, 4, ... places before it."""
        alu, dtype = ("add" if name == "cumsum" else "multiply"), uint32 if dst.dtype is uint32 else int32
        made, other = self.wide(dst, dtype), self.wide(dst, dtype)
        self.b.op("tensor_copy", made, as_type(x, dtype) if x.dtype.itemsize == dtype.itemsize else x)
        size, step = dst.sizes[dim], 1
        if carry is not None:
            first = sliced(made, dim, 0, 1)
            self.b.op("tensor_tensor", first, first, carry, op=alu, engine="gpsimd")
        while step < size:
            before, after = sliced(made, dim, 0, size - step), sliced(made, dim, step, size - step)
            self.b.op("tensor_tensor", sliced(other, dim, step, size - step), before, after, op=alu, engine="gpsimd")
            self.b.op("tensor_copy", sliced(other, dim, 0, step), sliced(made, dim, 0, step))
            made, other, step = other, made, step * 2
        if carry is not None:
            self.b.op("tensor_copy", carry, sliced(made, dim, size - 1, 1))
        self.store(dst, made)

    def cast(self, dst: View, x: View) -> bool:
        """Integers to integers, wrapped around; says whether it was such a cast."""
        if not (dst.dtype.is_integer and x.dtype.is_integer):
            return False
        if x.dtype.itemsize == dst.dtype.itemsize:
            self.b.op("tensor_copy", dst, as_type(x, dst.dtype))
        elif x.dtype.itemsize > dst.dtype.itemsize:
            self.b.op("tensor_copy", dst, low_bytes(x, dst.dtype))
        elif dst.dtype.kind != "i" and x.dtype.kind == "i":
            # The sign fills the upper bits.
            self.b.op("tensor_copy", as_type(dst, int16 if dst.dtype.itemsize == 2 else int32), x)
        else:
            self.b.op("tensor_copy", dst, x)
        return True


def spread(x: View, dst: View) -> View:
    """An operand read again where the destination is longer."""
    return x if x.sizes == dst.sizes else broadcast(x, dst.sizes)


def low_bytes(view: View, dtype: DType) -> View:
    """The low bytes of wider integers, as elements of a smaller type."""
    times = view.dtype.itemsize // dtype.itemsize
    strides = tuple(s * times for s in view.strides)
    terms = tuple((value, factor * times) for value, factor in view.terms)
    return View(view.buffer, dtype, view.offset * times, view.sizes, strides, terms, view.dynamic)

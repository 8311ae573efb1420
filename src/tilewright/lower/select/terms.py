"""Products of float32 with bfloat16 in three passes: what they multiply, and how their results are put together.

A float32 number is the sum of three bfloat16 numbers, whose products with another float32 holds exactly. The first has
the upper half of its bits, so that it is infinite or NaN exactly where the number is, and finite where it is not; the
others are what is left. They may be zero, and zero times infinity is NaN: what they give is added only where what the
first one gives is finite. They are kept `SCALE` times as large, which makes none greater than the number itself. Bits
that the least bfloat16 number is too large for are then those below 2**-140: a number is off by 2**-141 at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.dtypes import bfloat16, float32, uint32
from tilewright.lower.write.views import as_type
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.select.select import Selector

SPLIT_TERMS = 3
"""bfloat16 numbers that add up to a float32 number, the first as it is, the others by SCALE."""
SCALE = 2.0**7


def upper_half(x: View) -> View:
    """The upper 16 bits of float32 numbers, which are bfloat16 numbers: x cut off, not rounded."""
    assert x.dtype is float32 and x.dynamic is None
    times = float32.itemsize // bfloat16.itemsize
    strides = tuple(s * times for s in x.strides)
    terms = tuple((value, factor * times) for value, factor in x.terms)
    # Machines of this kind are little-endian.
    return View(x.buffer, bfloat16, x.offset * times + 1, x.sizes, strides, terms)


def write_terms(select: Selector, x: View, terms: Sequence[View]) -> None:
    """x as `terms`, bfloat16 tiles of its sizes: x = first + (second + third) / SCALE."""
    first, second, third = terms
    rest = select.b.sbuf(x.sizes, float32, "rest", depth=2)
    select.copy(first, upper_half(x))
    select.book("tensor_tensor", rest, x, first, op="subtract", engine="vector")
    select.scalars(second, upper_half(rest), "multiply", SCALE)
    select.book("scalar_tensor_tensor", third, rest, SCALE, second, op0="multiply", op1="subtract")


def add_rest(select: Selector, out: View, first: View, rest: View) -> None:
    """out = first + rest / SCALE where first is finite, and first elsewhere."""
    b = select.b
    held, beyond = (b.sbuf(first.sizes, float32, name, depth=2) for name in ("first", "beyond"))
    # The first term's products are complete before the others': these two need not wait for the rest.
    b.op("activation", held, first, None, 1.0, op="copy")
    # 0, or NaN where it is infinite or NaN: as bits, not 0.
    b.op("activation", beyond, first, None, 0.0, op="abs")
    b.op("scalar_tensor_tensor", out, rest, 1 / SCALE, held, op0="multiply", op1="add")
    b.op("tensor_copy_predicated", out, first, as_type(beyond, uint32))

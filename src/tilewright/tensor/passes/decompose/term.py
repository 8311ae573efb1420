"""Writing decompositions as formulas: a `Term` is a value with Python's operators, each of which makes an op.

    @expands("ceil")
    def ceil(x: Term) -> Term:
        \"\"\"ceil(x) -> -floor(-x)\"\"\"
        return -floor(-x)

Formulas are written for float32. Narrower floats are widened before and rounded once after. A Python number among the
operands comes as a Term of rank 0; `simplify` folds what is made of numbers alone and puts them back as operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.dtypes import DType, bool_, float32, int8, int16, int32
from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import Rule
from tilewright.tensor.build import make
from tilewright.tensor.types import Scalar, TensorType


class Term:
    """A value inside a formula. `ops` lists every op of the formula in the order they were made."""

    __slots__ = ("ops", "value")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Value, ops: list[Op]) -> None:
        self.value = value
        self.ops = ops

    @property
    def type(self) -> TensorType:
        """Shape and element type."""
        return self.value.type

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.value.type.dtype

    def __add__(self, other: Term | Scalar) -> Term:
        return apply("add", self, other)

    def __radd__(self, other: Scalar) -> Term:
        return apply("add", self, other)

    def __sub__(self, other: Term | Scalar) -> Term:
        return apply("subtract", self, other)

    def __rsub__(self, other: Scalar) -> Term:
        return apply("subtract", other, self)

    def __mul__(self, other: Term | Scalar) -> Term:
        return apply("multiply", self, other)

    def __rmul__(self, other: Scalar) -> Term:
        return apply("multiply", self, other)

    def __truediv__(self, other: Term | Scalar) -> Term:
        return apply("divide", self, other)

    def __rtruediv__(self, other: Scalar) -> Term:
        return apply("divide", other, self)

    def __neg__(self) -> Term:
        return apply("negative", self)

    def __abs__(self) -> Term:
        return apply("abs", self)

    def __lt__(self, other: Term | Scalar) -> Term:
        return apply("less", self, other)

    def __le__(self, other: Term | Scalar) -> Term:
        return apply("less_equal", self, other)

    def __gt__(self, other: Term | Scalar) -> Term:
        return apply("greater", self, other)

    def __ge__(self, other: Term | Scalar) -> Term:
        return apply("greater_equal", self, other)

    def __eq__(self, other: Term | Scalar) -> Term:  # type: ignore[override]
        return apply("equal", self, other)

    def __ne__(self, other: Term | Scalar) -> Term:  # type: ignore[override]
        return apply("not_equal", self, other)

    def __and__(self, other: Term | Scalar) -> Term:
        return apply("bitwise_and", self, other)

    def __or__(self, other: Term | Scalar) -> Term:
        return apply("bitwise_or", self, other)

    def __xor__(self, other: Term | Scalar) -> Term:
        return apply("bitwise_xor", self, other)

    def __invert__(self) -> Term:
        return apply("bitwise_xor", self, True if self.dtype is bool_ else self.dtype.max if _unsigned(self) else -1)

    def __lshift__(self, other: Term | Scalar) -> Term:
        return apply("left_shift", self, other)

    def __rshift__(self, other: Term | Scalar) -> Term:
        return apply("right_shift", self, other)

    def named(self, name: str) -> Term:
        """The term, with a name for readers of the kernel unless it has one."""
        self.value.name = self.value.name or name
        return self

    def to(self, dtype: DType) -> Term:
        """The term cast to an element type."""
        return self if dtype is self.dtype else apply("cast", self, dtype=dtype)

    def as_bits(self, dtype: DType) -> Term:
        """The term's bits read as another type of the same width."""
        return apply("bitcast", self, dtype=dtype)


def _unsigned(x: Term) -> bool:
    return x.dtype.kind == "u"


def apply(name: str, *operands: Term | Scalar, **attrs: Any) -> Term:
    """The only result of an op."""
    (out,) = apply_all(name, *operands, **attrs)
    return out


def apply_all(name: str, *operands: Term | Scalar, **attrs: Any) -> tuple[Term, ...]:
    """All results of an op, which joins the formula that its operands are part of."""
    ops = next(x.ops for x in operands if isinstance(x, Term))
    op = make(name, *(x.value if isinstance(x, Term) else x for x in operands), **attrs)
    ops.append(op)
    return tuple(Term(value, ops) for value in op.results)


def create(like: Term, name: str, **attrs: Any) -> Term:
    """The result of an op without operands, in the formula of another term."""
    op = make(name, **attrs)
    like.ops.append(op)
    return Term(op.result, like.ops)


def filled(like: Term, value: Scalar, dtype: DType | None = None, shape: tuple[int, ...] = ()) -> Term:
    """A number as a term, of rank 0 unless a shape is given."""
    return create(like, "full", shape=shape, dtype=dtype or like.dtype, value=value)


def where(condition: Term, x: Term | Scalar, y: Term | Scalar) -> Term:
    """x where the condition holds, else y; one of them at least is a term."""
    return apply("where", condition, x, y)


def maximum(x: Term, y: Term | Scalar) -> Term:
    """The greater one, NaN where either is."""
    return apply("maximum", x, y)


def minimum(x: Term, y: Term | Scalar) -> Term:
    """The lesser one, NaN where either is."""
    return apply("minimum", x, y)


SAME_WIDTH: dict[int, DType] = {1: int8, 2: int16, 4: int32}
"""Signed integers by their bytes: what the bits of a float are read as."""


def bits_of(x: Term) -> Term:
    """The bits of a float as a signed integer: negative exactly where the sign is set."""
    return x.as_bits(SAME_WIDTH[x.dtype.itemsize])


def with_sign(magnitude: Term, sign: Term) -> Term:
    """|magnitude| with the sign bit of `sign`, zeros and NaN included; the magnitude is not negative."""
    integer = SAME_WIDTH[sign.dtype.itemsize]
    signed = bits_of(magnitude) | (bits_of(sign) & integer.min).named("sign")
    return signed.named("signed").as_bits(sign.dtype)


def is_negative(x: Term) -> Term:
    """Whether the sign bit is set."""
    return bits_of(x) < 0


Formula = Callable[..., Any]


def expands(name: str, *, ulp: float | None = None, kinds: str = "f", widen: bool = True) -> Callable[[Formula], Rule]:
    """Declare the decomposition of an op for operands whose element type is of one of `kinds`.

    The formula takes terms and the op's attributes and gives a term, or a tuple of them. `ulp` is its error, of results
    rounded to float32, where it is not exact. Without `widen` narrow floats come as they are.
    """

    def declare(formula: Formula) -> Rule:
        equation = " ".join((formula.__doc__ or "").split())
        assert "->" in equation, f"the docstring of {formula.__name__} must be its equation: left -> right"

        def expand(op: Op) -> Any:
            dtype = next(x.type.dtype for x in op.operands if isinstance(x, Value))
            if dtype.kind not in kinds:
                return None
            ops: list[Op] = []
            terms = [_term(x, dtype, ops, widen) for x in op.operands]
            found = formula(*terms, **op.attrs)
            outs = found if isinstance(found, tuple) else (found,)
            values = [fitted(out, value.type) for out, value in zip(outs, op.results, strict=True)]
            # The ops in their order, so that the driver need not look for them; the values say what replaces what.
            return [*ops, *values]

        return Rule(f"expand_{name}_{kinds}", (name,), expand, equation, ulp is None, ulp)

    return declare


def _term(x: Value | Scalar, dtype: DType, ops: list[Op], widen: bool) -> Term:
    assert dtype.itemsize <= float32.itemsize, f"decompose works on 32 bits at most, not on {dtype}: run narrow first"
    if not isinstance(x, Value):
        op = make("full", shape=(), dtype=dtype, value=x)
        ops.append(op)
        x = op.result
    term = Term(x, ops)
    return term.to(float32) if widen and dtype.is_float and dtype.itemsize < float32.itemsize else term


def fitted(out: Term, type: TensorType) -> Value:
    """The term's value in the element type and shape of the result it stands for."""
    out = out.to(type.dtype)
    return (out if out.type.shape == type.shape else apply("broadcast_to", out, shape=type.shape)).value

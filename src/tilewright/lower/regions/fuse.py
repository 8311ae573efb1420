"""Which ops of a group share an instruction.

An activation takes a scale and a bias before its function and a sum after it; tensor_scalar takes two operators with
numbers or columns; scalar_tensor_tensor one of each kind. A step is what becomes one instruction: the op whose result
is kept, and the ops inside it whose results nothing else needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes

from tilewright.dtypes import DType, bool_, float32
from tilewright.ir.core import Op, Value
from tilewright.lower.regions.grouping import Group
from tilewright.lower.regions.tall import SAME
from tilewright.lower.select.integers import COMPARISONS
from tilewright.lower.select.select import ACTIVATIONS, ALU, BITS, COMMUTES
from tilewright.tensor.ranges import range_of, rounds_to

ROUNDED_ONCE = (
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "negative",
    "matmul",
    "matmul_wide",
    "matmul_split",
)
"""Ops whose last instruction can round to the type of a cast that follows."""

OPERATORS = frozenset({*ALU, "divide", "negative", "reciprocal"} - {*BITS})
"""Ops that are one or two operators of an instruction that takes numbers or columns."""

READS_INTEGERS = frozenset({*ALU, "negative"} - {*BITS})
"""Ops of floats that engines do on integers as well, which they read as floats."""

LOGIC = {"bitwise_and": "multiply", "bitwise_or": "maximum", "bitwise_xor": "not_equal"}
"""What does the same to 0 and 1 as numbers."""

Scalarish = Value | int | float | bool


def rounds_to_infinity(x: Value, wider: DType) -> bool:
    """True where numbers that a wider type holds may be infinite in the type of a value: it has to be rounded to."""
    if not wider.is_float or float(ml_dtypes.finfo(x.type.dtype.np).max) >= float(ml_dtypes.finfo(wider.np).max) / 2:
        return False
    most = float(ml_dtypes.finfo(x.type.dtype.np).max)
    return x.producer is not None and not range_of(x).is_inside(-most, most)


def _is_rounding(op: Op) -> bool:
    """True for a cast of floats that the instruction before it does by writing in another type."""
    (x,), dtype = op.operands, op.result.type.dtype
    if not x.type.dtype.is_float:
        return False
    return rounds_to(op) if op.name == "nearest" else dtype.is_float and not rounds_to_infinity(x, dtype)


def _bits_of_number(op: Op) -> tuple[Value, tuple[str, int, bool]] | None:
    """An op on bit patterns and a number that an engine takes as it is, as (data, (operator, number, reversed))."""
    if op.name not in BITS or op.result.type.dtype is bool_:
        return None
    x, y = op.operands
    shifts = op.name.endswith("shift")
    if not isinstance(x, Value) and not shifts:
        x, y = y, x
    if not isinstance(x, Value) or isinstance(y, Value):
        return None
    width = 8 * x.type.dtype.itemsize
    if shifts and not (0 <= y < width and (op.name == "left_shift" or x.type.dtype.kind == "u")):
        return None
    return x, (op.name, int(y), False)


@dataclass(slots=True)
class Step:
    """One instruction of a group's body (or what a single op takes).

    kind "op": `op` by itself. "activation": function(x * scale + bias), `total` the op that sums it. "scalars":
    op1(op0(x, s0), s1). "bits": the same of bit patterns, with numbers. "mixed": op1(op0(x, s0), y), op1 being `joins`.
    negate: the result of a reduction is wanted with its sign changed.
    """

    op: Op
    kind: str = "op"
    x: Any = None
    scale: Scalarish | None = None
    bias: Scalarish | None = None
    negate_bias: bool = False
    total: Op | None = None
    first: tuple[str, Scalarish, bool] | None = None
    second: tuple[str, Scalarish, bool] | None = None
    y: Value | None = None
    joins: str = ""
    reverse: bool = False
    negate: bool = False
    out: Value | None = None
    """What is kept instead of the op's own result: the same in a narrower type."""

    @property
    def result(self) -> Value:
        """The value that the step makes."""
        return self.op.result if self.out is None else self.out

    def inputs(self) -> list[Value]:
        """Every value that the step reads."""
        if self.kind == "op":
            return self.op.values()
        found = [self.x, self.scale, self.bias, self.y]
        found += [each[1] for each in (self.first, self.second) if each is not None]
        return [v for v in found if isinstance(v, Value)]


class Fuser:
    """Decides the steps of one group."""

    def __init__(self, group: Group, many_rows: bool = False) -> None:
        self.group = group
        self.many_rows = many_rows
        """Whether a partition has several rows: a number for each of them is no number of the partition."""
        self.inside = set(group.ops)
        self.absorbed: set[Op] = set()
        self.same: dict[Value, Value] = {}
        """Values whose tile is another's: casts that instructions make when they read."""

    def steps(self) -> list[Step]:
        """The steps, in an order in which each finds its inputs ready."""
        made: dict[Op, Step] = {}
        # From the end: what the last op can take in is no longer there to take in others.
        for op in reversed(self.group.ops):
            if op not in self.absorbed:
                made[op] = self._step(op)
        steps = [made[op] for op in self.group.ops if op in made and op not in self.absorbed]
        self._share(steps)
        self._casts(steps)
        self._totals(steps)
        self._negated(steps)
        return [step for step in steps if step.op not in self.absorbed]

    # Facts about values.

    def is_scalarish(self, x: Any, op: Op) -> bool:
        """True for a number, or a value with one number per row of the op's result."""
        if not isinstance(x, Value):
            return True
        if not x.type.dtype.is_float:
            return False
        roles, rank = self.group.roles[op.result], op.result.type.rank
        if self.group.tall is not None:
            # A partition has many rows: only what is one number for all of them is.
            numbers = (1, self.group.tall.channels) if roles != SAME else (1,)
            return x.type.size in numbers and x.type.size != op.result.type.size
        if self.many_rows:
            return x.type.size == 1 != op.result.type.size
        by = rank - x.type.rank
        free = roles.free_dims(rank)
        wide = any(op.result.type.shape[d] != 1 for d in free)
        return wide and all(d < by or x.type.shape[d - by] == 1 for d in free)

    def is_absorbable(self, x: Any, user: Op) -> bool:
        """True for the result of an op of this group that only `user` reads, in the same shape."""
        if not isinstance(x, Value) or x.producer is None or x.producer not in self.inside:
            return False
        same = x.type.shape == user.operands[0].type.shape if isinstance(user.operands[0], Value) else True
        alone = len(x.uses) == 1 and x.type.dtype.is_float and not rounds_to_infinity(x, float32)
        return alone and (same or x.type.shape == user.result.type.shape)

    # Patterns.

    def _step(self, op: Op) -> Step:
        if op.name in ACTIVATIONS and op.operands[0].type.dtype.is_float:
            return self._activation(op)
        if op.name in OPERATORS and op.result.type.size > 0:
            return self._operators(op) or Step(op)
        if op.name in BITS and op.result.type.size > 0:
            return self._bits(op) or Step(op)
        return Step(op)

    def _activation(self, op: Op) -> Step:
        x = op.operands[0]
        step = Step(op, "activation", x)
        inner = x.producer
        if not self.is_absorbable(x, op):
            return step
        if inner.name in ("add", "subtract"):
            a, b = inner.operands
            if self.is_scalarish(b, inner) and isinstance(a, Value):
                step.x, step.bias, step.negate_bias = a, b, inner.name == "subtract"
            elif self.is_scalarish(a, inner) and isinstance(b, Value):
                step.x, step.bias = b, a
                step.scale = -1.0 if inner.name == "subtract" else None
            else:
                return step
            self.absorbed.add(inner)
            if isinstance(step.bias, (int, float)) and step.negate_bias:
                step.bias, step.negate_bias = -step.bias, False
            if step.scale is None and self.is_absorbable(step.x, inner):
                inner = step.x.producer
            else:
                return step
        if inner.name == "negative":
            step.x, step.scale = inner.operands[0], -1.0
            self.absorbed.add(inner)
        elif inner.name == "multiply":
            a, b = inner.operands
            if self.is_scalarish(b, inner) and isinstance(a, Value):
                step.x, step.scale = a, b
                self.absorbed.add(inner)
            elif self.is_scalarish(a, inner) and isinstance(b, Value):
                step.x, step.scale = b, a
                self.absorbed.add(inner)
        return step

    def _one(self, op: Op) -> tuple[Value, tuple[str, Scalarish, bool]] | None:
        """An op as (data, (operator, scalar, reversed))."""
        if op.name not in OPERATORS:
            return None
        a, b = op.operands[0], op.operands[-1]
        if op.name == "negative":
            return a, ("multiply", -1.0, False)
        if op.name == "reciprocal" or (op.name == "divide" and not isinstance(a, Value) and a == 1):
            return b, ("power", -1.0, False)
        if op.name == "divide":
            return None
        if op.name == "subtract" and not isinstance(b, Value):
            # What adds a number more engines can do.
            return a, ("add", -float(b), False)
        if isinstance(a, Value) and self.is_scalarish(b, op):
            return a, (op.name, b, False)
        if isinstance(b, Value) and self.is_scalarish(a, op):
            return b, (op.name, a, op.name not in COMMUTES)
        return None

    def _operators(self, op: Op) -> Step | None:
        if not all(v.type.dtype.is_float for v in op.values()):
            return None
        outer = self._one(op)
        if outer is not None:
            data, second = outer
            if data.type.shape != op.result.type.shape:
                return None
            source = data.producer
            inner = self._one(source) if source is not None and self.is_absorbable(data, op) else None
            if source is not None and inner is not None and inner[0].type.shape == data.type.shape:
                self.absorbed.add(source)
                return Step(op, "scalars", inner[0], first=inner[1], second=second)
            if op.name == "negative" and (product := self._product(data, op)) is not None:
                return Step(op, "mixed", product[0], first=second, y=product[1], joins="multiply")
            return Step(op, "scalars", data, first=second)
        if op.name == "divide":
            return self._quotient(op)
        a, b = op.operands
        for data, other, reverse in ((a, b, False), (b, a, True)):
            inner = self._one(data.producer) if self.is_absorbable(data, op) else None
            if inner is None or inner[0].type.shape != op.result.type.shape or other is data:
                continue
            if data.producer in self.absorbed:
                continue
            # Both full operands are read by the Vector engine, which allows only one of them in PSUM.
            self.absorbed.add(data.producer)
            swapped = reverse and op.name not in COMMUTES
            return Step(op, "mixed", inner[0], first=inner[1], y=other, joins=op.name, reverse=swapped)
        return None

    def _product(self, x: Value, user: Op) -> tuple[Value, Value] | None:
        """The factors of a product of which only `user` needs the result, taken in by it."""
        source = x.producer
        if source is None or source.name not in ("multiply", "square") or not self.is_absorbable(x, user):
            return None
        a, b = source.operands[0], source.operands[-1]
        if not isinstance(a, Value) or not isinstance(b, Value) or a.type != x.type or b.type != x.type:
            return None
        self.absorbed.add(source)
        return a, b

    def _share(self, steps: list[Step]) -> None:
        """Numbers that several instructions can take in at once, each for itself, need none of their own: x * c where
        functions alone, or what adds another number, reads it."""
        readers: dict[Value, list[Step]] = {}
        for step in steps:
            for x in step.inputs():
                readers.setdefault(x, []).append(step)
        for step in steps:
            if step.kind != "scalars" or step.second is not None or step.first is None or step.op in self.absorbed:
                continue
            x, (name, number, reverse) = step.result, step.first
            if name != "multiply" or isinstance(number, Value) or reverse or step.x.type != x.type:
                continue
            users = readers.get(x, [])
            inside = all(use in self.inside for use in x.uses) and x not in self.group.results
            if inside and all(self._takes_factor(user, x) for user in users) and not rounds_to_infinity(x, float32):
                for user in users:
                    self._take_factor(user, step.x, number)
                self.absorbed.add(step.op)

    @staticmethod
    def _takes_factor(step: Step, x: Value) -> bool:
        """True for a step that can multiply by a number what it reads, on every engine that has it now."""
        if step.x is not x or step.inputs().count(x) > 1:
            return False
        if step.kind == "activation":
            return step.scale is None
        return step.kind == "scalars" and step.second is None and step.first is not None and step.first[0] == "add"

    @staticmethod
    def _take_factor(step: Step, x: Value, number: Scalarish) -> None:
        step.x = x
        if step.kind == "activation":
            step.scale = number
        else:
            step.first, step.second = ("multiply", number, False), step.first

    def _bits(self, op: Op) -> Step | None:
        """Two operators on bit patterns of one type, each with a number; or of truth values, one of them compared."""
        if op.name in LOGIC and op.result.type.dtype is bool_:
            return self._logic(op)
        outer = _bits_of_number(op)
        inner = None if outer is None else outer[0].producer
        first = None if inner is None or inner not in self.inside else _bits_of_number(inner)
        if outer is None or inner is None or first is None or len(outer[0].uses) != 1:
            return None
        if first[0].type != op.result.type or outer[0].type != op.result.type:
            return None
        self.absorbed.add(inner)
        return Step(op, "bits", first[0], first=first[1], second=outer[1])

    def _logic(self, op: Op) -> Step | None:
        """A comparison of floats with a number, and another truth value of as many elements: both are 0 or 1.

        Numbers of rows stay by themselves: blocks of whole rows could take them in, many rows in a partition could not.
        """
        for data, other in (op.operands, op.operands[::-1]):
            source = data.producer if isinstance(data, Value) else None
            if source is None or source not in self.inside or source in self.absorbed or len(data.uses) != 1:
                continue
            able = source.name in COMPARISONS and all(x.type.dtype.is_float for x in source.values())
            inner = self._one(source) if able else None
            shape = op.result.type.shape
            if inner is None or isinstance(inner[1][1], Value) or not isinstance(other, Value) or other is data:
                continue
            if inner[0].type.shape != shape:
                continue
            if other.type.shape == shape and other.type.dtype is bool_:
                self.absorbed.add(source)
                return Step(op, "mixed", inner[0], first=inner[1], y=other, joins=LOGIC[op.name])
        return None

    def _quotient(self, op: Op) -> Step | None:
        """x / y with as many elements of y as there are results: the inverse of y, times x."""
        x, y = op.operands
        if not isinstance(y, Value) or y.type.shape != op.result.type.shape:
            return None
        if self.is_scalarish(x, op):
            return Step(op, "scalars", y, first=("power", -1.0, False), second=("multiply", x, False))
        if x.type.shape != y.type.shape or x is y:
            return None
        return Step(op, "mixed", y, first=("power", -1.0, False), y=x, joins="multiply")

    # Casts that cost nothing.

    def _casts(self, steps: list[Step]) -> None:
        by_result = {step.op.result: step for step in steps}
        for step in steps:
            op = step.op
            if op.name not in ("cast", "nearest") or op in self.absorbed:
                continue
            (x,) = op.operands
            if op.name == "cast" and (self._is_loaded(x, op) or self._is_seen_as(x, op)):
                # Engines compute in float32 whatever they read.
                self.same[op.result] = x
                self.absorbed.add(op)
                continue
            source = by_result.get(x)
            if source is None or source.op in self.absorbed or source.out is not None:
                continue
            total = self._sum_besides(source, op)
            if len(x.uses) != 1 and total is None:
                continue
            rounds = (source.kind != "op" or source.op.name in ROUNDED_ONCE) and _is_rounding(op)
            # Whoever compares gives 0 and 1 in any type.
            compares = source.op.name in COMPARISONS or source.kind == "mixed"
            rounds |= op.name == "cast" and x.type.dtype is bool_ and compares
            if rounds and source.total is None:
                source.out = op.result
                self.absorbed.add(op)
                if total is not None:
                    source.total = total
                    self.absorbed.add(total)

    def _sum_besides(self, source: Step, cast: Op) -> Op | None:
        """The sum along the whole row of what is cast, where nothing else reads that: an activation gives both, the sum
        of what it has before it rounds."""
        others = [use for use in source.op.result.uses if use is not cast]
        if len(others) != 1 or others[0].name != "sum" or not self._gives_sum(source, others[0]):
            return None
        return others[0]

    def _is_loaded(self, x: Value, op: Op) -> bool:
        """True for a cast that changes nothing, of what comes from outside: who reads it in parts loads it once."""
        same = x.type.dtype is op.result.type.dtype and x.producer not in self.inside
        return same and all(use in self.inside for use in op.result.uses)

    def _is_seen_as(self, x: Value, op: Op) -> bool:
        """True for a cast to float32 that only elementwise ops and reductions of this group read."""
        dtype = x.type.dtype
        if op.result.type.dtype != "float32" or not all(use in self.inside for use in op.result.uses):
            return False
        if dtype.is_integer:
            return x.producer not in self.inside and all(use.name in READS_INTEGERS for use in op.result.uses)
        return dtype.itemsize <= 2 and all(
            use.definition.family in ("elementwise", "reduction") and use.name != "bitcast" for use in op.result.uses
        )

    # What an instruction gives besides.

    def _totals(self, steps: list[Step]) -> None:
        by_result = {step.op.result: step for step in steps}
        for step in steps:
            op = step.op
            if op.name != "sum" or op in self.absorbed:
                continue
            source = by_result.get(op.operands[0])
            if source is not None and self._gives_sum(source, op):
                source.total = op
                self.absorbed.add(op)

    def _gives_sum(self, source: Step, op: Op) -> bool:
        """True where an activation gives a sum of what it makes besides."""
        (x,) = op.operands
        taken = source.total is not None or source.out is not None
        if self.many_rows or source.kind != "activation" or taken or op not in self.inside:
            return False
        roles = self.group.roles[x]
        free = set(roles.free_dims(x.type.rank))
        if self.group.tall is not None:
            if roles == SAME:  # its columns may lie on several partitions
                return False
            free = {d for d in range(x.type.rank) if self.group.tall.channels == 1 or d != roles.rows[1]}
        long = {d for d in free if x.type.shape[d] != 1}
        return long <= set(op.attrs["axes"]) <= free and op.result.type.dtype == "float32"

    def _negated(self, steps: list[Step]) -> None:
        by_result = {step.op.result: step for step in steps}
        for step in steps:
            if not step.negate_bias or not isinstance(step.bias, Value):
                continue
            source = by_result.get(step.bias)
            if source is None or source.op.name not in ("max", "min", "sum") or len(step.bias.uses) != 1:
                continue
            source.negate, step.negate_bias = True, False

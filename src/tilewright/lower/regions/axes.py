"""Dims of a group's values that are one and the same axis, and those along which the work can be cut into parts.

An axis can be cut where every op treats its parts alike (or combines them: reductions, running sums), and where no
value has it on partitions or in a loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.ir.core import Op, Value
from tilewright.lower.regions.checks import looks_up
from tilewright.lower.regions.roles import PRODUCTS, Roles, operand_roles
from tilewright.lower.write.alike import Alike

if TYPE_CHECKING:
    from tilewright.lower.regions.grouping import Group

COMBINED = ("sum", "max", "min", "prod")
SCANNED = ("cumsum", "cumprod", "recurrence")

Place = tuple[Value, int]
"""A dim of a value."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a group: its size, and whether an op combines its elements."""

    number: int
    size: int
    combined: bool


class Axes:
    """The axes of one group."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self._places = Alike[Place]()
        self._bound: set[Place] = set()
        self._combined: set[Place] = set()
        for op in group.ops:
            self._visit(op)
        self._axes = self._name()

    def of(self, value: Value, dim: int) -> Axis | None:
        """The axis of a dim along which the work can be cut, if it is one."""
        return self._axes.get(self._places.root((value, dim))) if value.type.shape[dim] != 1 else None

    @property
    def all(self) -> list[Axis]:
        """Every axis along which the work can be cut, longest first."""
        return sorted(set(self._axes.values()), key=lambda axis: (-axis.size, axis.number))

    def has(self, value: Value, axis: Axis) -> bool:
        """True for a value with such a dim."""
        return any(self.of(value, d) == axis for d in range(value.type.rank))

    # How ops connect dims.

    def _bind(self, *places: Place) -> None:
        self._bound.update(places)

    def _visit(self, op: Op) -> None:
        if len(op.results) != 1:
            self._bind_all(op)
        elif op.definition.family == "elementwise" or op.name == "broadcast_to":
            for x in op.values():
                self._aligned(x, op.result)
        elif op.name in COMBINED or op.name in SCANNED:
            self._reduction(op)
        elif op.name == "transpose":
            for d, source in enumerate(op.attrs["perm"]):
                self._places.join((op.result, d), (op.operands[0], source))
        elif op.name == "reshape":
            self._reshape(op)
        elif op.name in ("slice", "pad", "concatenate", "update_slice"):
            self._parts(op)
        elif op.name in PRODUCTS:
            self._product(op)
        elif op.name == "take" and looks_up(op):
            self._bind((op.operands[0], 0))
            self._aligned(op.operands[1], op.result)
        else:
            self._bind_all(op)

    def _bind_all(self, op: Op) -> None:
        self._bind(*((v, d) for v in (*op.values(), *op.results) for d in range(v.type.rank)))

    def _aligned(self, x: Value, y: Value) -> None:
        """Dims of two values of which one may have fewer, counted from the last."""
        by = y.type.rank - x.type.rank
        for d in range(x.type.rank):
            if x.type.shape[d] == y.type.shape[d + by]:
                self._places.join((x, d), (y, d + by))

    def _reduction(self, op: Op) -> None:
        x = op.values()[0]
        axes = op.attrs["axes"] if "axes" in op.attrs else (op.attrs["axis"],)
        self._combined.update((x, a) for a in axes)
        if op.name in SCANNED:
            for each in op.values():
                self._aligned(each, op.result)
            return
        kept = [d for d in range(x.type.rank) if d not in axes]
        for i, d in enumerate(kept):
            self._places.join((x, d), (op.result, d if op.attrs["keepdims"] else i))

    def _reshape(self, op: Op) -> None:
        (x,) = op.values()
        old = [d for d in range(x.type.rank) if x.type.shape[d] != 1]
        new = [d for d in range(op.result.type.rank) if op.result.type.shape[d] != 1]
        for before, after in equal_products([x.type.shape[d] for d in old], [op.result.type.shape[d] for d in new]):
            if len(before) == len(after) == 1:
                self._places.join((x, old[before[0]]), (op.result, new[after[0]]))
            else:
                self._bind(*((x, old[i]) for i in before), *((op.result, new[i]) for i in after))

    def _parts(self, op: Op) -> None:
        """Ops that work on parts of some dims, and leave others as they are."""
        result = op.result
        for d in range(result.type.rank):
            if is_left_alone(op, d):
                for x in op.values():
                    self._places.join((x, d), (result, d))
            else:
                self._bind((result, d), *((x, d) for x in op.values()))

    def _product(self, op: Op) -> None:
        x, y = op.values()
        result, rank = op.result, op.result.type.rank
        self._bind((x, x.type.rank - 1), (y, y.type.rank - 2), (y, y.type.rank - 1), (result, rank - 1))
        for v in (x, y):
            by = rank - v.type.rank
            for d in range(v.type.rank - (1 if v is x else 2)):
                if v.type.shape[d] == result.type.shape[d + by]:
                    self._places.join((v, d), (result, d + by))

    # The axes that are left.

    def _name(self) -> dict[Place, Axis]:
        fixed = {self._places.root(place) for place in self._bound}
        combined = {self._places.root(place) for place in self._combined}
        for value, roles in self.group.roles.items():
            fixed |= {self._places.root((value, d)) for d in range(value.type.rank) if not roles.is_free(d)}
        # What lies along two dims of a value, as in an outer product of something with itself, is in work as a whole.
        counts = Counter((value, self._places.root((value, dim))) for value, dim in self._places)
        fixed |= {root for (_, root), count in counts.items() if count > 1}
        found: dict[Place, Axis] = {}
        for value, dim in self._places:
            root = self._places.root((value, dim))
            size = value.type.shape[dim]
            if root not in fixed and root not in found and size != 1:
                found[root] = Axis(len(found), size, root in combined)
        return found


def is_left_alone(op: Op, d: int) -> bool:
    """True for a dim of which an op takes all elements as they are."""
    if any(x.type.shape[d] != op.result.type.shape[d] for x in op.values()):
        return False
    if op.name == "concatenate":
        return op.attrs["axis"] != d
    if op.name == "pad":
        return op.attrs["low"][d] == 0
    return op.attrs["starts"][d] == 0 and op.attrs["steps"][d] == 1


def equal_products(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Positions of old and new sizes whose products are equal, in the smallest groups."""
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        before, after, a, b = [i], [j], old[i], new[j]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                a *= old[i]
                before.append(i)
                i += 1
            else:
                b *= new[j]
                after.append(j)
                j += 1
        found.append((before, after))
    return found


def tiles_of(group: Group) -> dict[Value, Roles]:
    """Every value that a group has tiles of, with its roles."""
    found = dict(group.roles)
    for op in group.ops:
        roles, rank = group.roles[op.result], op.result.type.rank
        for x in op.values():
            if x in found:
                continue
            if op.name in COMBINED or op.name in SCANNED:
                found[x] = operand_roles(op, roles)
            elif op.name not in PRODUCTS:
                by = rank - x.type.rank
                rows = (max(roles.rows[0] - by, 0), max(roles.rows[1] - by, 0))
                found[x] = Roles(rows, tuple(d - by for d in roles.batch if d >= by))
    return found

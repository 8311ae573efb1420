"""Which dims of each value are loops, which lie on partitions and which are free, and how ops carry that along.

Inside a group every value has the same rows: `Roles.rows` are neighbouring dims, merged, that lie on partitions, and
`Roles.batch` are dims that loops run over. The rest is free. `carried` says what roles the result of an op has when it
is computed block by block from operands with known roles, or None when the op needs more than the block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from tilewright.dtypes import float32
from tilewright.ir.core import Op, Value
from tilewright.lower.regions.checks import CHECKS, checked_by_readers, looks_up
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import moved_rows, reshaped_rows, trimmed
from tilewright.tensor.types import TensorType

PRODUCTS = ("matmul", "matmul_wide", "matmul_split")
"""Ops that the Tensor engine computes."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Dims of a value: merged neighbours on partitions, and loops in the order of the group's loops."""

    rows: tuple[int, int]
    batch: tuple[int, ...] = ()

    def is_free(self, dim: int) -> bool:
        """True for a dim that is neither on partitions nor a loop."""
        return not self.rows[0] <= dim < self.rows[1] and dim not in self.batch

    def free_dims(self, rank: int) -> list[int]:
        """All free dims in order."""
        return [d for d in range(rank) if self.is_free(d)]

    def shifted(self, by: int) -> Roles:
        """The same roles after so many new leading dims."""
        return Roles((self.rows[0] + by, self.rows[1] + by), tuple(d + by for d in self.batch))


def row_count(shape: tuple[int, ...], roles: Roles) -> int:
    """The number of rows of a value."""
    return prod(shape[slice(*roles.rows)])


def fits(shape: tuple[int, ...], result: tuple[int, ...], roles: Roles) -> bool:
    """True when an operand from outside can be read by blocks: its rows are those of the result, or just one."""
    by = len(result) - len(shape)
    mine = [shape[d - by] if d >= by else 1 for d in range(*roles.rows)]
    wanted = list(result[slice(*roles.rows)])
    return mine == wanted or all(n == 1 for n in mine)


def readable(x: Value, result: tuple[int, ...], roles: Roles) -> bool:
    """True when an operand from outside can be read by blocks, and a described one be made by blocks."""
    op = x.producer
    described = op is not None and op.name in ("iota", "band") and x.type.size > 1
    if described and roles.rows[1] == len(result) and roles.rows[1] - roles.rows[0] > 1:
        # Rows and columns in one: what depends on both would have to be loaded.
        return False
    return fits(x.type.shape, result, roles)


def carried(op: Op, known: Mapping[Value, Roles]) -> Roles | None:
    """The roles of an op's only result when its operands in `known` are members and all others come from outside."""
    rule = _CARRY.get(op.name) or _CARRY.get(op.definition.family)
    if rule is None or len(op.results) != 1:
        return None
    made = rule(op, known)
    return None if made is None else Roles(trimmed(op.result.type.shape, made.rows), made.batch)


def seeds(op: Op) -> list[Roles]:
    """Roles with which an op can begin a group, all operands coming from outside, best guess first."""
    if len(op.results) != 1:
        return []
    shape = op.result.type.shape
    return list(dict.fromkeys(Roles(trimmed(shape, roles.rows), roles.batch) for roles in _seeds(op)))


def _seeds(op: Op) -> list[Roles]:
    shape = op.result.type.shape
    rank = len(shape)
    if op.name in PRODUCTS:
        return _matmul_seeds(op)
    if op.definition.family in ("elementwise", "creation") or op.name in ("concatenate", "pad", "update_slice"):
        found = [Roles((0, k)) for k in range(rank, -1, -1)]
        found += [Roles((k, k + 1), tuple(range(k))) for k in range(rank - 1, 0, -1)]
        # Dims before the rows lie beside each other, the last one stays whole.
        found += [Roles((j, k)) for k in range(2, rank) for j in range(1, k)]
        return [roles for roles in found if seed_fits(op, roles)]
    if op.definition.family in ("reduction", "scan"):
        return _reduction_seeds(op)
    if op.name == "take" and looks_up(op):
        return [Roles((0, k)) for k in range(rank, -1, -1)] + [
            Roles((k, k + 1), tuple(range(k))) for k in range(rank - 1, 0, -1)
        ]
    if op.name == "take":
        return [Roles((0, k)) for k in range(op.operands[1].type.rank, 0, -1)] if _take(op, {}) is not None else []
    if op.definition.family == "index" and op.name in _CARRY:
        found = [Roles((0, k)) for k in range(rank, -1, -1)] + [Roles((k, rank)) for k in range(1, rank)]
        return [roles for roles in found if carried(op, dict.fromkeys(op.operands, roles)) is not None]
    return []


def seed_fits(op: Op, roles: Roles) -> bool:
    """True when every operand from outside can be read by blocks of the result."""
    result = op.result.type.shape
    if op.name in ("concatenate", "pad", "update_slice"):
        made = carried(op, {x: roles for x in op.operands if isinstance(x, Value)})
        return made is not None and made == Roles(trimmed(result, roles.rows), roles.batch)
    return all(readable(x, result, roles) for x in op.operands if isinstance(x, Value))


def _reduction_seeds(op: Op) -> list[Roles]:
    x = op.operands[0]
    axes = op.attrs["axes"] if "axes" in op.attrs else (op.attrs["axis"],)
    rank = x.type.rank
    if op.name == "argmax" and is_long(x.type, op.attrs["axis"]):
        return []
    if op.definition.family == "scan" and scans_rows(op):
        return []
    found: list[Roles] = []
    found += [Roles((0, k)) for k in range(rank, -1, -1) if not any(a < k for a in axes)]
    found += [Roles((k, k + 1), tuple(range(k))) for k in range(rank - 1, 0, -1) if not any(a <= k for a in axes)]
    if 0 in axes and op.definition.family == "reduction" and "axes" in op.attrs and max(x.type.shape) > 1:
        # The rows themselves are reduced.
        return []
    if not any(r.rows[1] > r.rows[0] for r in found):
        # Rows behind the reduced dims.
        found = [Roles((k, k + 1)) for k in range(rank) if k not in axes] + found
    carry = [(roles, carried(op, {x: roles})) for roles in found]
    return [made for _, made in carry if made is not None]


def is_long(x: TensorType, axis: int) -> bool:
    """True for an axis that a search cuts into parts: rows of a group hold it as a whole."""
    size = x.shape[axis]
    return size > TUNING.searched or (size > TUNING.segment and x.size // size < TUNING.few_rows)


def scans_rows(op: Op) -> bool:
    """True for a running sum over rows so long that they are worth an instruction each, and too many for a tile."""
    x, axis = op.operands[0], op.attrs["axis"]
    width = prod(x.type.shape[axis + 1 :])
    many = x.type.shape[axis] * width * float32.itemsize > TUNING.tile_bytes
    return x.type.dtype is float32 and width >= TUNING.scanned_part and x.type.size > TUNING.few_elements and many


def operand_roles(op: Op, result: Roles) -> Roles:
    """The roles that the operand of a reduction has, given those of the result."""
    x = op.operands[0]
    axes = op.attrs["axes"] if "axes" in op.attrs else (op.attrs["axis"],)
    keeps = op.attrs.get("keepdims", True)
    if keeps or op.definition.family == "scan":
        return result
    kept = [d for d in range(x.type.rank) if d not in axes]
    first, stop = result.rows
    if first == stop:
        return Roles((0, 0), tuple(kept[d] for d in result.batch))
    return Roles((kept[first], kept[stop - 1] + 1), tuple(kept[d] for d in result.batch))


def _matmul_seeds(op: Op) -> list[Roles]:
    x, y = op.operands
    rank = op.result.type.rank
    own = _batch_of(y.type, rank)
    batch = tuple(d for d in range(rank - 2) if op.result.type.shape[d] != 1)
    looped = Roles((rank - 2, rank - 1), batch)
    if not own:
        # One right operand for all: the dims before the last may all be rows.
        merged = [Roles((0, rank - 1))] if _covers(x.type, rank, (0, rank - 1)) else []
        return [*merged, looped] if op.result.type.shape[-2] >= TUNING.few_rows or not merged else merged
    # The same where several matrices have one right operand, and few rows each.
    shared = (max(own) + 1, rank - 1)
    few = op.result.type.shape[-2] < TUNING.few_rows and shared != looped.rows and _covers(x.type, rank, shared)
    return [Roles(shared, tuple(d for d in batch if d < shared[0])), looped] if few else [looped]


def _covers(x: TensorType, rank: int, rows: tuple[int, int]) -> bool:
    return x.rank == rank or rows[0] >= rank - x.rank


def _batch_of(y: TensorType, rank: int) -> list[int]:
    """Dims of the result over which the right operand of a matmul differs."""
    by = rank - y.rank
    return [d + by for d in range(y.rank - 2) if y.shape[d] != 1]


# Carrying roles through ops.


def _elementwise(op: Op, known: Mapping[Value, Roles]) -> Roles | None:
    result = op.result.type.shape
    found: Roles | None = None
    for x in op.operands:
        if not isinstance(x, Value) or x not in known:
            continue
        by = len(result) - x.type.rank
        roles = known[x].shifted(by)
        mine = (1,) * by + x.type.shape
        looped = [*range(*roles.rows), *roles.batch]
        if any(mine[d] != result[d] for d in looped) or (found is not None and roles != found):
            return None
        found = roles
    if found is None:
        return None
    outside = [x for x in op.operands if isinstance(x, Value) and x not in known]
    return found if all(readable(x, result, found) for x in outside) else None


def _reduction(op: Op, known: Mapping[Value, Roles]) -> Roles | None:
    x = op.operands[0]
    roles = known[x] if len(op.operands) == 1 else _elementwise(op, known)
    if roles is None:
        return None
    axes = op.attrs["axes"] if "axes" in op.attrs else (op.attrs["axis"],)
    if op.definition.family == "scan" and scans_rows(op):
        return None
    if not all(roles.is_free(a) for a in axes):
        return None
    if op.name == "argmax" and (is_long(x.type, axes[0]) or not _has_few_lines(x.type.shape, roles, axes[0])):
        return None
    if op.attrs.get("keepdims", True) or op.definition.family == "scan":
        return roles

    def moved(d: int) -> int:
        return d - sum(a < d for a in axes)

    first, stop = roles.rows
    if any(first <= a < stop for a in axes):
        return None
    return Roles((moved(first), moved(first) + stop - first), tuple(moved(d) for d in roles.batch))


def _matmul(op: Op, known: Mapping[Value, Roles]) -> Roles | None:
    x, y = op.operands
    if y in known or x not in known:
        return None
    rank, roles = op.result.type.rank, known[x].shifted(op.result.type.rank - x.type.rank)
    first, stop = roles.rows
    own = _batch_of(y.type, rank)
    leading = [d for d in range(rank - 2) if op.result.type.shape[d] != 1]
    looped = set(roles.batch) | set(range(first, stop))
    # Rows may be followed by dims of size 1.
    ends = all(n == 1 for n in op.result.type.shape[stop : rank - 1])
    if (
        not ends
        or stop > rank - 1
        or first >= stop
        or not roles.is_free(rank - 1)
        or any(d not in roles.batch for d in own)
        or not set(leading) <= looped
    ):
        return None
    return roles


def _transpose(op: Op, known: Mapping[Value, Roles]) -> Roles | None:
    (x,) = op.operands
    perm = op.attrs["perm"]
    rows = moved_rows(known[x].rows, perm)
    return None if rows is None else Roles(rows, tuple(perm.index(d) for d in known[x].batch))


def _reshape(op: Op, known: Mapping[Value, Roles]) -> Roles | None:
    (x,) = op.operands
    roles, shape = known[x], op.attrs["shape"]
    if roles.batch:
        return None
    rows = reshaped_rows(x.type.shape, roles.rows, shape)
    return None if rows is None else Roles(rows)


def _slice(op: Op, known: Mapping[Value, Roles]) -> Roles | None:
    (x,) = op.operands
    roles = known[x]
    for d, part in enumerate(zip(op.attrs["starts"], op.attrs["sizes"], op.attrs["steps"], strict=True)):
        if not roles.is_free(d) and part != (0, x.type.shape[d], 1):
            return None
    return roles


def _pad(op: Op, known: Mapping[Value, Roles]) -> Roles | None:
    (x,) = op.operands
    roles = known[x]
    touched = [d for d in range(x.type.rank) if op.attrs["low"][d] or op.attrs["high"][d]]
    return roles if all(roles.is_free(d) for d in touched) else None


def _concatenate(op: Op, known: Mapping[Value, Roles]) -> Roles | None:
    members = {known[x] for x in op.operands if x in known}
    if len(members) != 1:
        return None
    (roles,) = members
    return roles if roles.is_free(op.attrs["axis"]) else None


def _update_slice(op: Op, known: Mapping[Value, Roles]) -> Roles | None:
    x, part = op.operands
    members = {known[v] for v in (x, part) if v in known}
    if len(members) != 1:
        return None
    (roles,) = members
    for d in range(x.type.rank):
        whole = op.attrs["starts"][d] == 0 and op.attrs["steps"][d] == 1 and part.type.shape[d] == x.type.shape[d]
        if not roles.is_free(d) and not whole:
            return None
    return roles


def _along_axis(op: Op, known: Mapping[Value, Roles]) -> Roles | None:
    roles, shape, axis = _elementwise(op, known), op.result.type.shape, op.attrs["axis"]
    if is_sparse(op):
        return None
    return roles if roles is not None and roles.is_free(axis) and _has_few_lines(shape, roles, axis) else None


def is_sparse(op: Op) -> bool:
    """True where a few elements of long rows are meant, which a group would load as a whole."""
    x, index = op.operands[:2]
    size, count = (v.type.shape[op.attrs["axis"]] for v in (x, index))
    if op.name == "put_along_axis":
        return size > TUNING.searched
    return size >= TUNING.sparse * count and _base(x).producer is None


def _base(x: Value) -> Value:
    """What a value is a view of."""
    while x.producer is not None and x.producer.name in ("transpose", "reshape", "slice"):
        x = x.producer.operands[0]
    return x


def _has_few_lines(shape: tuple[int, ...], roles: Roles, axis: int) -> bool:
    """Each line beside the axis is an instruction of its own: they had better be rows."""
    return prod(shape[d] for d in roles.free_dims(len(shape)) if d != axis) <= row_count(shape, roles)


def _take(op: Op, known: Mapping[Value, Roles]) -> Roles | None:
    """Numbers of a small table, wherever their indices are; or rows of a table that are too many to stay on chip: who
    computes with them fetches them block by block."""
    x, index = op.operands
    if looks_up(op):
        return known.get(index) if x not in known else None
    rows = (0, index.type.rank)
    if op.attrs["axis"] != 0 or x in known or not index.type.rank or op.result.type.size < TUNING.gathered:
        return None
    own = known.get(index, Roles(trimmed(index.type.shape, rows)))
    if own == Roles(trimmed(index.type.shape, rows)):
        return Roles(rows)
    # A partition has several indices, and a row for each.
    return own if own.rows[0] == 0 and not own.batch else None


def _checked(op: Op, known: Mapping[Value, Roles]) -> Roles | None:
    return None if checked_by_readers(op) else _elementwise(op, known)


_CARRY: dict[str, Any] = {
    "elementwise": _elementwise,
    "reduction": _reduction,
    "scan": _reduction,
    **dict.fromkeys(PRODUCTS, _matmul),
    "transpose": _transpose,
    "reshape": _reshape,
    "broadcast_to": _elementwise,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "update_slice": _update_slice,
    "take": _take,
    "take_along_axis": _along_axis,
    "put_along_axis": _along_axis,
    **dict.fromkeys(CHECKS, _checked),
}

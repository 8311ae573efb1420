"""Where the values of a program live while it runs, and what view ops make of that without moving anything.

`Hbm`: a tensor in HBM, any strides. `Chip`: a tensor kept in SBUF: some neighbouring dims (`rows`, merged) lie on
partitions in blocks, all others in the free dims of each partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from tilewright.dtypes import DType, bool_, uint8
from tilewright.ir.core import Op
from tilewright.lower.decisions import decision
from tilewright.lower.write.views import broadcast, expanded, merged, permuted, reshaped, sliced
from tilewright.tile.view import View


def device_dtype(dtype: DType) -> DType:
    """The element type that a value has on the device: truth values are bytes."""
    return uint8 if dtype is bool_ else dtype


@dataclass(frozen=True, slots=True)
class Hbm:
    """A tensor in HBM: one dim of `view` per dim of the value."""

    view: View

    @property
    def shape(self) -> tuple[int, ...]:
        """The value's shape."""
        return self.view.sizes


@dataclass(frozen=True, slots=True)
class Chip:
    """A tensor in SBUF. `view` is [partitions, blocks, *free]; free are the dims outside `rows`, in order.

    Row r of the merged rows is partition r % partitions of block r // partitions.
    """

    view: View
    shape: tuple[int, ...]
    rows: tuple[int, int]

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return prod(self.shape[slice(*self.rows)])

    @property
    def free(self) -> tuple[int, ...]:
        """The shape of one row."""
        return (*self.shape[: self.rows[0]], *self.shape[self.rows[1] :])


Home = Hbm | Chip


def trimmed(shape: tuple[int, ...], rows: tuple[int, int]) -> tuple[int, int]:
    """Merged dims without those of size 1 at either end, as long as others are left."""
    first, stop = rows
    while first < stop - 1 and shape[first] == 1:
        first += 1
    while first < stop - 1 and shape[stop - 1] == 1:
        stop -= 1
    return first, stop


def moved_rows(rows: tuple[int, int], perm: tuple[int, ...]) -> tuple[int, int] | None:
    """Where merged dims stand after a permutation, or None where they are torn apart."""
    first, stop = rows
    at = [perm.index(d) for d in range(first, stop)]
    if not at:
        return rows
    return (at[0], at[-1] + 1) if at == list(range(at[0], at[0] + len(at))) else None


def reshaped_rows(old: tuple[int, ...], rows: tuple[int, int], new: tuple[int, ...]) -> tuple[int, int] | None:
    """Where merged dims stand after a reshape that keeps them apart from the others, or None where it does not."""
    before, count = prod(old[: rows[0]]), prod(old[rows[0] : rows[1]])
    seen, first = 1, 0
    while first < len(new) and seen < before:
        seen *= new[first]
        first += 1
    if seen != before:
        return None
    # Dims of size 1 at the border belong to either side; those left of it stay outside, so that positions are unique.
    stop, seen = first, 1
    while stop < len(new) and (seen < count or (count == 1 and stop == first and rows[0] < rows[1])):
        seen *= new[stop]
        stop += 1
    return (first, stop) if seen == count else None


@decision("homes: blocks numbered anew", if_found=True)
def renumbered(chip: Chip, rows: tuple[int, int], lanes: int) -> Chip | None:
    """The same tile where dims in front of the rows number blocks of them, or no longer do: all partitions are full."""
    (first, stop), (was, end), shape = rows, chip.rows, chip.shape
    if stop != end or first == stop or prod(shape[max(first, was) : stop]) % lanes:
        return None
    if first > was:
        apart = reshaped(chip.view, (lanes, *shape[was:first], prod(shape[first:stop]) // lanes, *chip.free))
        if apart is None:
            return None
        # [lanes, dims no longer among the rows, blocks, dims before them, dims behind].
        count = first - was
        order = (0, 1 + count, *range(2 + count, 2 + count + was), *range(1, 1 + count))
        return Chip(permuted(apart, (*order, *range(len(order), apart.ndim))), shape, rows)
    view = permuted(
        chip.view, (0, *range(2 + first, 2 + was), 1, *range(2, 2 + first), *range(2 + was, chip.view.ndim))
    )
    together = merged(view, 1, 1 + was - first)
    return None if together is None else Chip(together, shape, rows)


def renumberings(chip: Chip, lanes: int) -> Iterator[Chip]:
    """The tile with fewer and with more dims among its rows."""
    first, stop = chip.rows
    for start in (*range(first + 1, stop), *range(first - 1, -1, -1)):
        made = renumbered(chip, (start, stop), lanes)
        if made is not None:
            yield made


def view_of(home: Home, op: Op) -> Home | None:
    """What a view op makes of a home, or None where data must move."""
    return _VIEWS[op.name](home, op.attrs) if op.name in _VIEWS else None


def is_view(op: Op) -> bool:
    """True for ops that only describe the same elements anew."""
    return op.name in _VIEWS


def _transposed(home: Home, attrs: Mapping[str, Any]) -> Home | None:
    perm = attrs["perm"]
    if isinstance(home, Hbm):
        return Hbm(permuted(home.view, perm))
    rows = moved_rows(home.rows, perm)
    if rows is None:
        return None
    outside = [d for d in range(len(perm)) if not home.rows[0] <= d < home.rows[1]]
    order = [outside.index(d) + 2 for d in perm if d in outside]
    return Chip(permuted(home.view, (0, 1, *order)), tuple(home.shape[d] for d in perm), rows)


def _reshaped(home: Home, attrs: Mapping[str, Any]) -> Home | None:
    shape = attrs["shape"]
    if isinstance(home, Hbm):
        made = reshaped(home.view, shape)
        return None if made is None else Hbm(made)
    if home.row_count == 1:
        # One row is where it is, whatever dims it has.
        made = reshaped(home.view, (1, 1, *shape))
        return None if made is None else Chip(made, shape, (0, 0))
    rows = reshaped_rows(home.shape, home.rows, shape)
    if rows is None:
        return None
    rows = trimmed(shape, rows)
    free = (*shape[: rows[0]], *shape[rows[1] :])
    if prod(free) != prod(home.free):
        return None
    made = reshaped(home.view, (*home.view.sizes[:2], *free))
    return None if made is None else Chip(made, shape, rows)


def _sliced(home: Home, attrs: Mapping[str, Any]) -> Home | None:
    parts = list(zip(attrs["starts"], attrs["sizes"], attrs["steps"], strict=True))
    if isinstance(home, Hbm):
        view = home.view
        for dim, (start, size, step) in enumerate(parts):
            view = sliced(view, dim, start, size, step)
        return Hbm(view)
    view, at = _sliced_rows(home, parts[slice(*home.rows)]), 2
    if view is None:
        return None
    for dim, (start, size, step) in enumerate(parts):
        if not home.rows[0] <= dim < home.rows[1]:
            view = sliced(view, at, start, size, step)
            at += 1
    return Chip(view, attrs["sizes"], home.rows)


def _sliced_rows(home: Chip, parts: list[tuple[int, int, int]]) -> View | None:
    """Rows that follow each other and begin with a block: its partitions, and the blocks after it."""
    shape, lanes = home.shape[slice(*home.rows)], home.view.sizes[0]
    cut = next((d for d, part in enumerate(parts) if part != (0, shape[d], 1)), None)
    if cut is None:
        return home.view
    (start, size, step), inner = parts[cut], prod(shape[cut + 1 :])
    others = any(n != 1 for n in shape[:cut]) or any(parts[d] != (0, shape[d], 1) for d in range(cut + 1, len(shape)))
    if others or step != 1 or not size or start * inner % lanes:
        return None
    view = sliced(home.view, 1, start * inner // lanes, -(-size * inner // lanes))
    return sliced(view, 0, 0, min(lanes, size * inner))


def _broadcast(home: Home, attrs: Mapping[str, Any]) -> Home | None:
    shape = attrs["shape"]
    added = len(shape) - len(home.shape)
    if isinstance(home, Hbm):
        view = home.view
        for _ in range(added):
            view = expanded(view, 0)
        return Hbm(broadcast(view, shape))
    rows = (home.rows[0] + added, home.rows[1] + added)
    if shape[rows[0] : rows[1]] != home.shape[home.rows[0] : home.rows[1]]:
        return None
    view = home.view
    for _ in range(added):
        view = expanded(view, 2)
    free = (*shape[: rows[0]], *shape[rows[1] :])
    return Chip(broadcast(view, (*view.sizes[:2], *free)), shape, rows)


_VIEWS = {"transpose": _transposed, "reshape": _reshaped, "slice": _sliced, "broadcast_to": _broadcast}

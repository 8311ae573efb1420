"""How two accesses lie to each other: apart, element for element the same, or otherwise over each other.

Engines stream: element i of a source is read before element i of the destination is written, and nothing else is
certain. So two accesses of one instruction are harmless where they are apart, and where they share elements of the same
place only.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from math import prod

import numpy as np

from tilewright.ir.core import Value
from tilewright.tile.memory import Address
from tilewright.tile.overlap import Pattern, offsets, overlaps, search, span
from tilewright.tile.patterns import at_address, pattern_of
from tilewright.tile.view import View, same_access

_COUNTED_UP_TO = 1 << 20  # elements: of larger accesses the worse is assumed


class Relation(Enum):
    """How two accesses lie to each other.

    APART: no common byte. SAME: elements that both have, have the same place in the order of both, as all have where
    the two are one access. COLUMNS: the same within partitions, but not of the same partitions. WITHIN: the second has
    so many elements for each of the first, in order, and those that both have are among their own. OVER: any other way.
    UNKNOWN: it depends on loop indices or on what a run finds; to be taken for OVER by who must be safe.
    """

    APART = "apart"
    SAME = "same"
    COLUMNS = "columns"
    WITHIN = "within"
    OVER = "over"
    UNKNOWN = "unknown"


APART, SAME, COLUMNS, WITHIN, OVER, UNKNOWN = Relation


def relation(a: View, b: View, ranges: Mapping[Value, range] | None = None) -> Relation:
    """How two accesses lie to each other in every execution of an instruction that has both.

    Exact where their offsets have the same terms of loop indices, or none. Where the terms differ, it says APART if
    they are apart whatever the indices are, which `ranges` limits, and else UNKNOWN. Buffers without addresses are
    apart from others; of buffers of which several copies take turns that is not known.
    """
    if a.buffer is not b.buffer and not _comparable(a, b):
        return APART if a.memory is not b.memory or a.buffer.address is None or b.buffer.address is None else UNKNOWN
    if a.dynamic is not None or b.dynamic is not None:
        return SAME if same_access(a, b) else _widened(a, b, ranges)
    if _bytes(a) == _bytes(b):
        return _equal_terms(a, b)
    return _widened(a, b, ranges)


def relation_at(
    a: View, a_offset: int, b: View, b_offset: int, places: tuple[Address, Address] | None = None
) -> Relation:
    """The same of one execution, in which the accesses begin at these elements of their storage.

    places: where the two lie on chip, if they are no views of one storage. What a tile of indices chooses is UNKNOWN.
    """
    first, second = _fixed(a, a_offset), _fixed(b, b_offset)
    if places is not None:
        first, second = at_address(first, places[0]), at_address(second, places[1])
    found = compare(first, second)
    chosen = any(view.dynamic is not None and view.dynamic.kind != "scalar" for view in (a, b))
    return UNKNOWN if chosen and found is not APART else found


def _fixed(view: View, offset: int) -> Pattern:
    """The bytes of an access whose scalar index is part of the offset."""
    if view.dynamic is not None and view.dynamic.kind == "scalar":
        view = View(view.buffer, view.dtype, offset, view.sizes, view.strides)
    return pattern_of(view, offset)


@lru_cache(maxsize=1 << 14)
def compare(a: Pattern, b: Pattern) -> Relation:
    """How two patterns of bytes lie to each other."""
    met = overlaps(a, b) and search(a, b)
    if not met:
        # None: it takes too long to say.
        return UNKNOWN if met is None else APART
    one = a[2] == b[2] and merged(a[3]) == merged(b[3]) and not _comes_back(a)
    run = 1 if one else _run_in_place(a, b)
    if a[4] != b[4] or not run or (run > 1 and a[:2] != b[:2]):
        return OVER
    if run > 1:
        return WITHIN
    return SAME if a[:2] == b[:2] else COLUMNS


def _run_in_place(a: Pattern, b: Pattern) -> int:
    """Elements of b for each of a, if those that both have, of equal size, are among the element's own; else 0.

    Of large accesses that is not found out.
    """
    count, others = (prod(size for size, _ in each[3]) for each in (a, b))
    if (a[2] - b[2]) % a[4] or others % count or others > _COUNTED_UP_TO:
        return 0
    first, second = offsets(a), offsets(b)
    common = np.flatnonzero(np.isin(second, first))
    in_place = np.array_equal(first[common // (others // count)], second[common])
    return others // count if in_place and not _repeats(first[np.isin(first, second)]) else 0


def _repeats(starts: np.ndarray) -> bool:
    return len(np.unique(starts)) < len(starts)


def merged(dims: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """The one way to write an order of elements: neighbouring dims that continue each other as one."""
    kept: list[tuple[int, int]] = []
    for size, stride in dims:
        if size == 1:
            continue
        if kept and kept[-1][1] == size * stride:
            kept[-1] = (kept[-1][0] * size, stride)
        else:
            kept.append((size, stride))
    return tuple(kept)


def _comes_back(pattern: Pattern) -> bool:
    """True when an access names an element more than once: what it wrote there, it then reads."""
    dims = sorted([(abs(stride), size) for size, stride in merged(pattern[3])])
    if not dims:
        return False
    if dims[0][0] >= pattern[4] and all(outer >= inner * size for (inner, size), (outer, _) in pairwise(dims)):
        return False
    count = prod(size for _, size in dims)
    return dims[0][0] < pattern[4] or count > _COUNTED_UP_TO or _repeats(offsets(pattern))


def _comparable(a: View, b: View) -> bool:
    """Two buffers of which each has one place in the same memory."""
    first, second = a.buffer, b.buffer
    placed = first.address is not None and second.address is not None
    return placed and first.memory is second.memory and first.depth == second.depth == 1


def _bytes(view: View) -> dict[Value, int]:
    """Bytes by which loop indices move an access."""
    found: dict[Value, int] = {}
    for value, factor in view.terms:
        found[value] = found.get(value, 0) + factor * view.dtype.itemsize
    return {value: factor for value, factor in found.items() if factor}


def _pattern(view: View) -> Pattern:
    """The bytes of an access whose loop indices are all 0."""
    pattern = pattern_of(view, view.offset)
    place = view.buffer.address
    return pattern if place is None or not view.on_chip else at_address(pattern, place)


def _equal_terms(a: View, b: View) -> Relation:
    """Loop indices move both by the same bytes: only their distance counts.

    On chip it can be seen in two ways: as so many rows and a rest, or as one row more and a rest that leads back. Since
    both accesses stay within their rows, bytes that are common in one way make the other impossible.
    """
    if not a.on_chip or all(factor % view.row == 0 for view in (a, b) for _, factor in view.terms):
        return compare(_pattern(a), _pattern(b))
    if a.buffer is not b.buffer:
        return UNKNOWN
    row = a.buffer.row_bytes
    rows, rest = divmod(b.offset * b.dtype.itemsize - a.offset * a.dtype.itemsize, row)
    first = _from(a, 0, 0)
    ways = [compare(first, _from(b, rows, rest)), compare(first, _from(b, rows + 1, rest - row))]
    return ways[1] if ways[0] is APART else ways[0]


def _from(view: View, partition: int, byte: int) -> Pattern:
    """The bytes of an access on chip that begins at this place."""
    _, partitions, _, dims, itemsize = pattern_of(view, 0)
    return partition, partitions, byte, dims, itemsize


def _widened(a: View, b: View, ranges: Mapping[Value, range] | None) -> Relation:
    """APART when all that the one may reach is apart from all that the other may."""
    both = {*_bytes(a).items()} & {*_bytes(b).items()}
    first, second = _reached(a, both, ranges), _reached(b, both, ranges)
    return APART if first is not None and second is not None and compare(first, second) is APART else UNKNOWN


def _reached(view: View, both: set[tuple[Value, int]], ranges: Mapping[Value, range] | None) -> Pattern | None:
    """All bytes that an access reaches over its loop indices and run-time indices; None when that is not known.

    both: indices that move the other access by the same bytes. They count nothing where they do not lead out of a row.
    """
    offset, sizes, strides = view.offset, [*view.sizes], [*view.strides]
    partitions = 0
    for value, factor in view.terms:
        whole_rows = view.on_chip and factor % view.row == 0
        if (value, factor * view.dtype.itemsize) in both and (whole_rows or not view.on_chip):
            continue
        positions = (ranges or {}).get(value)
        if not positions:
            return None
        offset += factor * positions[0]
        step = factor * positions.step
        if whole_rows:
            offset += min(step * (len(positions) - 1), 0)
            partitions += abs(step // view.row) * (len(positions) - 1)
        else:
            sizes.append(len(positions))
            strides.append(step)
    wide = View(view.buffer, view.dtype, offset, tuple(sizes), tuple(strides), (), view.dynamic)
    first, count, byte, dims, itemsize = pattern_of(wide, offset)
    reached = (first, count + partitions, byte, dims, itemsize)
    low, high = span(reached)
    if view.on_chip and (low < 0 or high > view.buffer.row_bytes):
        # Some step leads into another partition and back within the row.
        return None
    return reached if view.buffer.address is None or not view.on_chip else at_address(reached, view.buffer.address)

"""What kernels of block-sparse attention do when, decided before they run: the mask is known when a kernel is made."""

from __future__ import annotations

import numpy as np

from tilewright.nki.language import tile_size


def pieces_of(blocks: list[int], size: int, length: int) -> tuple:
    """Blocks that a row sees, in pieces that fit one bank of PSUM: (spans of elements, blocks) each.

    Neighbouring blocks are one span.
    """
    most = tile_size.psum_fmax // size
    pieces = []
    for at in range(0, len(blocks), most):
        some = blocks[at : at + most]
        spans: list[tuple[int, int]] = []
        for block in some:
            first, last = block * size, min((block + 1) * size, length)
            if spans and spans[-1][1] == first:
                spans[-1] = spans[-1][0], last
            else:
                spans.append((first, last))
        pieces.append((tuple(spans), tuple(some)))
    return tuple(pieces)


def rows_of(seen: np.ndarray, size: int, length: int) -> tuple:
    """For every row of blocks its pieces."""
    return tuple(pieces_of(np.flatnonzero(row).tolist(), size, length) for row in seen)


def groups_of(rows: tuple, whole: int, most: int) -> tuple:
    """(first, last) rows whose results share a bank of PSUM; one that sees nothing, or that is lower, is alone.

    whole: how many rows are as high as a block.
    """
    groups: list[tuple[int, int]] = []
    for row, pieces in enumerate(rows):
        joins = groups and pieces and rows[row - 1] and row < whole and row - groups[-1][0] < most
        if joins:
            groups[-1] = groups[-1][0], row + 1
        else:
            groups.append((row, row + 1))
    return tuple(groups)


def accumulators(seen: np.ndarray, slots: int) -> tuple:
    """Where the gradients of each block of keys are added up while rows of queries go by.

    PSUM has room for so many blocks at once. For every row and every block that it sees: (block, slot, is new in it,
    what leaves the slot for it, how it ends). What leaves before its time, the block whose next row is furthest away,
    is (its part in SBUF, whether that has something already). A block that no later row sees ends with (its part,), or
    with (-1,) if it has none.
    """
    later = [np.flatnonzero(column).tolist() for column in seen.T]
    inside: dict[int, int] = {}
    parts: dict[int, int] = {}
    plan = []
    for row in seen:
        steps = []
        blocks = np.flatnonzero(row).tolist()
        for at, block in enumerate(blocks):
            later[block].pop(0)
            is_new, left, end = block not in inside, (), ()
            if is_new and len(inside) == slots:
                old = max(inside, key=lambda each: -1 if each in blocks[at:] else later[each][0])
                has_part = old in parts
                left = (parts.setdefault(old, len(parts)), has_part)
                inside[block] = inside.pop(old)
            elif is_new:
                inside[block] = next(slot for slot in range(slots) if slot not in inside.values())
            slot = inside[block]
            if not later[block]:
                end = (parts.get(block, -1),)
                del inside[block]
            steps.append((block, slot, is_new, left, end))
        plan.append(tuple(steps))
    return tuple(plan)


def blocks_in(plan: tuple) -> set[int]:
    """The blocks that some row sees."""
    return {step[0] for steps in plan for step in steps}


def leaving(plan: tuple) -> set[int]:
    """The parts that blocks have in SBUF which left PSUM before their time."""
    return {step[3][0] for steps in plan for step in steps if step[3]}

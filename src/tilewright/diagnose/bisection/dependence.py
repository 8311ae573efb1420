"""A wrong result that takes in other rows of the arguments than the reference's: which rows, and who reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.diagnose.bisection.oracles import expected_of, is_close
from tilewright.diagnose.bisection.outcome import outcome_of
from tilewright.diagnose.bisection.variants import Variant, instructions_of
from tilewright.ir.core import Op, Value
from tilewright.tile.record import Record
from tilewright.tile.view import View

_MOST_GROUPS, _MOST_ARGUMENTS, _MOST_INSTRUCTIONS = 8, 6, 2000
"""Each group of rows is changed once: the cost is so many runs of the kernel."""

_ALIKE = 0.01
"""Of how far a result moves: rounding makes less difference."""

Rows = frozenset[int]


@dataclass(frozen=True)
class _Taken:
    """Of an argument: rows that the kernel's result takes in, and those that the reference's does.

    otherwise: rows that both take in, and that move them by different amounts where others move them alike.
    """

    argument: Value
    found: Rows
    meant: Rows
    otherwise: Rows


def other_rows(variant: Variant, reference: Callable[..., Any]) -> Iterator[str]:
    """What is said of the result that is most wrong: rows that it takes in and should not, and the other way round.

    Groups of rows of each argument are changed, and what that does to the kernel's result and to the reference's tells.
    """
    results = outcome_of(variant).results
    if results is None or len(variant.graphs) > 1 or variant.instructions > _MOST_INSTRUCTIONS:
        return
    place = _most_wrong(results, expected_of(reference, variant.arrays))
    if place is None:
        return
    number, at = place
    shown = f"{variant.graph.outputs[number].name}{list(at)}"
    every = list(_compared(variant, reference, number, at))
    told = [line for taken in every for line in _other(variant, taken, shown)]
    yield from told
    for taken in every:
        # What is multiplied by other rows counts otherwise because of them.
        if taken.otherwise and not told:
            rows = f"rows {_said(taken.otherwise)} of `{taken.argument.name}`"
            readers = _readers(variant, taken.argument, taken.otherwise)
            yield f"In {shown} {rows} count otherwise than in the reference's: read by {readers}."


def _other(variant: Variant, taken: _Taken, shown: str) -> Iterator[str]:
    extra, missing = taken.found - taken.meant, taken.meant - taken.found
    if extra:
        met = _meeting(variant, taken, extra)
        rows = f"rows {_said(extra)} of `{taken.argument.name}`"
        said = f"{shown} takes in {rows}, the reference's does not: read by {_readers(variant, taken.argument, extra)}"
        yield f"{said}; they meet those that it should take in at {met}." if met else f"{said}."
    if missing:
        rows = f"rows {_said(missing)} of `{taken.argument.name}`"
        readers = _readers(variant, taken.argument, None)
        yield f"{shown} does not take in {rows}, the reference's does: they are to be read by {readers}."


def _most_wrong(results: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> tuple[int, tuple[int, ...]] | None:
    for number, (a, b) in enumerate(zip(results, wanted, strict=True)):
        wrong = ~is_close(a, b)
        if wrong.any():
            far = np.where(wrong, np.abs(np.nan_to_num(a.astype(np.float64) - b.astype(np.float64), nan=np.inf)), -1)
            return number, tuple(int(i) for i in np.unravel_index(int(np.argmax(far)), far.shape))
    return None


def _compared(variant: Variant, reference: Callable[..., Any], number: int, at: tuple[int, ...]) -> Iterator[_Taken]:
    """Every argument of floats: groups of its rows are changed, and both results looked at."""

    def both(arrays: tuple[np.ndarray, ...]) -> tuple[Any, Any] | None:
        results = outcome_of(replace(variant, arrays=arrays)).results
        return None if results is None else (results[number][at], expected_of(reference, arrays)[number][at])

    before = both(variant.arrays)
    for place, array in list(enumerate(variant.arrays))[:_MOST_ARGUMENTS]:
        if array.dtype.kind in "iub" or not array.ndim or before is None:
            continue
        groups = [frozenset(rows.tolist()) for rows in np.array_split(np.arange(len(array)), _MOST_GROUPS) if len(rows)]
        moved: list[tuple[float, float]] = []
        for rows in map(sorted, groups):
            changed = array.copy()
            changed[rows] = (array[rows].astype(np.float32) * 1.25 + 0.5).astype(array.dtype)
            after = both((*variant.arrays[:place], changed, *variant.arrays[place + 1 :]))
            if after is None:
                return
            moved.append((float(after[0]) - float(before[0]), float(after[1]) - float(before[1])))
        yield _of_moves(variant.graph.inputs[place], groups, moved)


def _of_moves(argument: Value, groups: Sequence[Rows], moved: Sequence[tuple[float, float]]) -> _Taken:
    """moved: by how much both results go when a group of rows is changed; not at all where they do not take it in."""

    def union(chosen: Sequence[bool]) -> Rows:
        return frozenset[int]().union(*[rows for rows, some in zip(groups, chosen, strict=True) if some])

    both = [one != 0 and other != 0 for one, other in moved]
    alike = [abs(one - other) <= _ALIKE * max(abs(one), abs(other)) for one, other in moved]
    is_told = any(some and same for some, same in zip(both, alike, strict=True))
    otherwise = union([some and not same and is_told for some, same in zip(both, alike, strict=True)])
    found, meant = (union([each[side] != 0 for each in moved]) for side in (0, 1))
    return _Taken(argument, found, meant, otherwise)


def _readers(variant: Variant, argument: Value, rows: Rows | None) -> str:
    """The instructions that read an argument, or rows of it, each line once."""
    every = ((op, view) for op in instructions_of(variant.graph) for view in _read(op) if view.buffer is argument)
    found = [op for op, view in every if rows is None or rows & _rows_of(view)]
    return ", ".join(dict.fromkeys(f"`{op.name}` at {op.location}" for op in found))


def _read(op: Op) -> Iterator[View]:
    if isinstance(op.definition, Record):
        yield from (view for view, _, writes in op.definition.accesses(op.operands) if not writes)


def _rows_of(view: View) -> Rows:
    """The rows of its tensor that an access can reach; all of them where only a run knows."""
    shape = view.buffer.shape
    if view.dynamic is not None or view.terms:
        return frozenset(range(shape[0]))
    row = _row(shape)
    rows = np.array([view.offset // row])
    inside = view.offset % row
    for size, stride in zip(view.sizes, view.strides, strict=True):
        if stride % row:
            # Within rows, and into the next ones where they end.
            inside += (size - 1) * abs(stride)
        else:
            rows = np.unique((rows[:, None] + np.arange(size) * (stride // row)).reshape(-1))
    reach = np.arange(inside // row + 1)
    return frozenset((rows[:, None] + reach).reshape(-1).tolist())


def _row(shape: Sequence[int]) -> int:
    return max(1, int(np.prod(shape[1:])))


def _meeting(variant: Variant, taken: _Taken, extra: Rows) -> str | None:
    """The first instruction whose result takes in both: rows of the argument that are right and rows that are not."""
    held: dict[Value, frozenset[bool]] = {}
    for op in instructions_of(variant.graph):
        if not isinstance(op.definition, Record):
            continue
        sources = [_marks(view, taken, extra, held) for view in _read(op)]
        for view in (view for view, _, writes in op.definition.accesses(op.operands) if writes):
            before = held.get(view.buffer, frozenset())
            adds = op.definition.accumulates and op.attrs.get("accumulate") is not False
            made = frozenset[bool]().union(*sources, before if adds else ())
            if len(made) == 2 and all(len(each) < 2 for each in (*sources, before)):
                return f"`{op.name}` at {op.location}"
            held[view.buffer] = made if view.size == int(np.prod(view.buffer.shape)) else made | before
    return None


def _marks(view: View, taken: _Taken, extra: Rows, held: dict[Value, frozenset[bool]]) -> frozenset[bool]:
    """Of what an access reads: whether rows that are right are in it, and rows that are not."""
    if view.buffer is not taken.argument:
        return held.get(view.buffer, frozenset())
    rows = _rows_of(view)
    return frozenset(right for right, some in ((True, taken.meant), (False, extra)) if rows & some)


def _said(rows: Rows) -> str:
    """Rows as ranges: 0 to 15, 32."""
    every = sorted(rows)
    starts = [row for row in every if row - 1 not in rows]
    ends = [row for row in every if row + 1 not in rows]
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in zip(starts, ends, strict=True))

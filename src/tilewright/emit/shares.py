"""Work that engines share: instructions in a row that write parts of one tile, side by side, each on its engine.

tensor_tensor(dst=x[:, 0:256], engine=vector)       # columns 0 to 255 on vector, 256 to 1023 on gpsimd
tensor_tensor(dst=x[:, 256:1024], engine=gpsimd)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from tilewright.emit.slices import slices
from tilewright.ir.core import Op, Region, Value
from tilewright.target import Target
from tilewright.tile.costed import op_cost
from tilewright.tile.memory import Buffer
from tilewright.tile.record import Record
from tilewright.tile.view import View

_MOST = 3
"""Parts that a comment lists: more are borders of images and the like, each of which is plain by itself."""


@dataclass(slots=True)
class _Shared:
    """A tile that is being written in parts: where each begins and ends, on which engines."""

    first: Op
    extent: int
    rank: int
    axis: int
    parts: dict[tuple[int, int], list[str]] = field(default_factory=dict)

    def takes(self, axis: int, start: int, stop: int) -> bool:
        """Whether a part is one of these, or lies apart from all of them."""
        return axis == self.axis and all(
            (start, stop) == each or stop <= each[0] or each[1] <= start for each in self.parts
        )

    @property
    def words(self) -> str | None:
        """Who does what; None unless a few parts make up the whole, neighbours of different engines."""
        parts = sorted(self.parts)
        ends = [0, *(stop for _, stop in parts)]
        told = [_listed(self.parts[each]) for each in parts]
        whole = ends[:-1] == [start for start, _ in parts] and ends[-1] == self.extent
        if not whole or not 1 < len(parts) <= _MOST or any(a == b for a, b in pairwise(told)):
            return None
        what = "columns" if self.axis == self.rank - 1 else f"of dim {self.axis},"
        each = [f"{a} to {b - 1} on {names}" for (a, b), names in zip(parts, told, strict=True)]
        return f"{what} {', '.join(each)}"


def _listed(names: list[str]) -> str:
    return " and ".join((*([", ".join(names[:-1])] if names[1:] else []), names[-1]))


def shares(region: Region, target: Target) -> dict[Op, str]:
    """What to say before the first of the instructions that share a tile."""
    found: list[_Shared] = []
    _look_through(region.ops, target, found)
    return {each.first: each.words for each in found if each.words is not None}


def _look_through(ops: Iterable[Op], target: Target, found: list[_Shared]) -> None:
    being: dict[Value, _Shared] = {}
    for op in ops:
        for inner in op.regions:
            _look_through(inner.ops, target, found)
        if op.regions or not isinstance(op.definition, Record) or "dma" in op.definition.engines:
            continue
        for view, _, writes in op.definition.accesses(op.operands):
            if writes and view.on_chip:
                _written(op, view, target, being, found)


def _written(op: Op, view: View, target: Target, being: dict[Value, _Shared], found: list[_Shared]) -> None:
    part = _part(view)
    if part is None:
        being.pop(view.buffer, None)
        return
    axis, start, stop, extent = part
    shared = being.get(view.buffer)
    if shared is None or not shared.takes(axis, start, stop):
        shared = being[view.buffer] = _Shared(op, extent, len(view.buffer.shape), axis)
        found.append(shared)
    engine, _ = op_cost(op, target)
    engines = shared.parts.setdefault((start, stop), [])
    if engine not in engines:
        engines.append(engine)


def _part(view: View) -> tuple[int, int, int, int] | None:
    """The one axis of its tile that a view does not walk along as a whole: from where to where, and how long it is."""
    buffer = view.buffer
    if not isinstance(buffer, Buffer) or view.terms or view.dynamic is not None or view.dtype is not buffer.dtype:
        return None
    placed = next(slices(view, buffer.shape, {}), None)
    if placed is None or placed.shape != buffer.shape:
        return None
    partial = [(axis, part) for axis, part in enumerate(placed.parts) if not part.is_whole]
    if len(partial) != 1 or partial[0][0] == 0 or partial[0][1].step != 1 or partial[0][1].size is None:
        return None
    axis, part = partial[0]
    start = part.start.constant
    return axis, start, start + (part.size or 0), part.extent

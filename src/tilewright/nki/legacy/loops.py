"""Loops and the grid of the legacy nl: affine_range, sequential_range, static_range, program_id, loop_reduce."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilewright.errors import TileTypeError, fail
from tilewright.nki.legacy.elementwise import FUNCTIONS
from tilewright.nki.legacy.independence import check_overlaps
from tilewright.nki.legacy.loop_index import Loop, LoopIndex
from tilewright.nki.legacy.produce import operator_of, regions
from tilewright.nki.legacy.session import LegacySession, Scope, legacy_session
from tilewright.nki.legacy.tensor import LegacyTensor
from tilewright.rules import violate
from tilewright.sim.session import running_session


class LoopRange:
    """A range of loop indices. Iterations of an affine one may run in any order; each kind has a scope of its own."""

    __slots__ = ("kind", "values")

    def __init__(self, kind: str, values: range) -> None:
        self.kind = kind
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: Any) -> Any:
        return self.values[place]

    def __iter__(self) -> Iterator[Any]:
        session = running_session()
        if not isinstance(session, LegacySession) or self.kind == "static":
            yield from self.values
            return
        loop = Loop(self.kind, self.values)
        if self.kind == "affine":
            loop.outcome = {}
        session.flush()
        session.nest.append(loop)
        created = len(session.in_loops)
        scope = session.enter()
        terms = ((loop, 1),)
        try:
            for value in self.values:
                loop.iteration = value
                yield LoopIndex(value, terms, 0)
            session.flush()
            if loop.outcome:
                check_overlaps(loop)
        finally:
            _leave(session, loop, scope, created)


def _leave(session: LegacySession, loop: Loop, scope: Scope, created: int) -> None:
    if loop in session.nest:
        # What was left by an error or a break inside goes with it.
        depth = session.nest.index(loop)
        del session.nest[depth:]
        for buffer in session.in_loops[created:]:
            if buffer in session.born:
                session.born[buffer] = depth
        if depth == 0:
            del session.in_loops[created:]
    session.leave(scope)


def _values(api: str, args: tuple[Any, ...]) -> range:
    if not 1 <= len(args) <= 3 or any(not hasattr(arg, "__index__") or isinstance(arg, LegacyTensor) for arg in args):
        violate(
            "R-affine_range-01",
            f"nl.{api}{args}: bounds are integers known at compile time",
            hint="loop over shapes and numbers",
            error=TileTypeError,
            final=True,
        )
    return range(*[int(arg) for arg in args])


def affine_range(*args: Any, **kwargs: Any) -> LoopRange:
    """A loop whose iterations are independent of each other."""
    return LoopRange("affine", _values("affine_range", args))


def sequential_range(*args: Any, **kwargs: Any) -> LoopRange:
    """A loop whose iterations run one after the other."""
    return LoopRange("sequential", _values("sequential_range", args))


def static_range(*args: Any) -> LoopRange:
    """A loop that is unrolled while the kernel is traced."""
    return LoopRange("static", _values("static_range", args))


def program_id(axis: int) -> Any:
    """This program's number along an axis of the launch grid."""
    session = legacy_session("nl.program_id")
    number = _axis(session, axis)
    along = Loop("grid", range(session.grid[number] if session.grid else 1))
    return LoopIndex(session.place[number] if session.grid else 0, ((along, 1),), 0)


def _axis(session: LegacySession, axis: Any) -> int:
    count = max(len(session.grid), 1)
    if not isinstance(axis, int) or not -count <= axis < count:
        raise fail(
            "E108",
            f"nl.program_id({axis!r}): the launch grid has {len(session.grid)} axes",
            hint="launch the kernel as kernel[rows, columns](...)",
            error=TileTypeError,
        )
    return axis % count


def num_programs(axes: Any = None) -> int:
    """Programs along an axis of the grid, or along several; all of them without an argument."""
    session = legacy_session("nl.num_programs")
    if not session.grid:
        return 1
    chosen = range(len(session.grid)) if axes is None else axes if isinstance(axes, (tuple, list)) else (axes,)
    count = 1
    for axis in chosen:
        count *= session.grid[_axis(session, axis)]
    return count


def program_ndim() -> int:
    """Axes of the launch grid."""
    return len(legacy_session("nl.program_ndim").grid)


class Total:
    """A reduction over iterations: the first one writes, the others add.

    Which has come first is known by the destination that the value is assigned to; without one, a tile of the
    reduction's own, outside of the loop, holds it.
    """

    def __init__(self, op: Any, loops: tuple[Loop, ...]) -> None:
        self.op = op
        self.loops = loops

    def add_to(self, session: LegacySession, target: LegacyTensor, value: LegacyTensor) -> None:
        """Add a value to a destination, or put it there when it is the first one of its loops."""
        from tilewright.nki.legacy.assignment import place

        value._total = None
        assert target._tile is not None
        view = target._tile
        key = ("total", view.buffer, view.offset, view.sizes, view.strides)
        known = _seen(session, self.loops)
        if value._boxes is not None and not value._boxes:
            return
        session.adding = True
        try:
            again = key in known
            if again:
                name = operator_of(self.op).op_name
                value = FUNCTIONS[name](target, value, dtype=target.dtype)
            known.add(key)
            place(session, target, value, again)
            session.flush()
        finally:
            session.adding = False

    def settled(self, value: LegacyTensor) -> LegacyTensor:
        """The value as a tile of its own, where nothing was assigned."""
        value._total = None
        return value


_totals: dict[Loop, set[Any]] = {}


def _seen(session: LegacySession, loops: tuple[Loop, ...]) -> set[Any]:
    """Destinations that the present run of the reduced loops has written."""
    key = loops[0] if loops else Loop("static", range(0))
    for old in [loop for loop in _totals if loop not in session.nest]:
        del _totals[old]
    return _totals.setdefault(key, set())


def loop_reduce(
    x: Any, op: Any, loop_indices: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any
) -> LegacyTensor:
    """Reduce a tile over the iterations of loops: `total[...] = nl.loop_reduce(tile, np.add, loop_indices=[i])`."""
    legacy_session("nl.loop_reduce").flush()
    indices = loop_indices if isinstance(loop_indices, (tuple, list)) else (loop_indices,)
    loops = tuple(loop for index in indices if isinstance(index, LoopIndex) and index.terms for loop, _ in index.terms)
    made = LegacyTensor(x._tile, x._handle, x._scope)
    made._boxes = x._boxes
    boxes = None if mask is None else regions(mask, x.shape)
    if boxes is not None:
        made._boxes = boxes
    made._total = Total(op, loops)
    return made


def all_reduce(x: Any, op: Any, program_axes: Any, **kwargs: Any) -> Any:
    """Reductions over the programs of a grid are not simulated: programs run one after the other."""
    raise fail(
        "E501",
        "nl.all_reduce over programs of a grid is not simulated",
        hint="write partial results to a tensor in nl.shared_hbm and add them in another kernel",
    )

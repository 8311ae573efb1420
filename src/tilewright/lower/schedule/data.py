"""What a schedule is: steps with their ops and layouts, the way each is written, and which values stay on chip.

Nothing here knows a program: values, ops and axes are names, so that a schedule is text (`text.py`) and back.
`taken.py` makes one of a kernel that was lowered, `given.py` finds what one means for a program and refuses what is not
legal.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tilewright.errors import TileTypeError, fail

PARTITION, LOOP, FREE = "partition", "loop", "free"
ROLES = (PARTITION, LOOP, FREE)
"""What a dim of a value may be: on partitions, a loop, or beside each other in each partition."""

REPLICATED, ACCUMULATED = "replicated", "accumulated"
"""Ops without a layout of their own: computed on every partition before the loops; over all rows, block by block."""

REDUCED_ROWS, CHANNELS, PATCHES = "reduced rows", "channels", "patches"
LAYOUTS = (REDUCED_ROWS, CHANNELS, PATCHES)
"""Steps that are no blocks of rows: all rows at once as they are reduced, channels on partitions, patches."""

RESIDENT, IN_HBM, SPILLED = "resident", "hbm", "spilled"
PLACES = (RESIDENT, IN_HBM, SPILLED)
"""Where a value lives from step to step; spilled: it was to stay on chip, and a step sends it to HBM."""

PLAIN = "plain"
"""The form of a program that it has when nothing but what always helps was rewritten."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a step is written.

    kind: which of the ways there are (`choose.kinds`). sizes: what it is cut into, by name; an axis of the step has its
    letter. buffers: how many copies of each tile take turns; a second number is for tiles outside of the innermost
    loop; none: as many as fit. spills: values that go to HBM before. alone: all of them do. overlap: two blocks have to
    fit.
    """

    kind: str
    sizes: tuple[tuple[str, int], ...] = ()
    buffers: tuple[int, ...] = ()
    spills: tuple[str, ...] = ()
    alone: bool = False
    overlap: bool = False
    line: int = field(default=0, compare=False)

    def with_buffers(self, buffers: tuple[int, ...]) -> Way:
        """The way as it came out, with so many copies of tiles: one number where all have as many."""
        return replace(self, buffers=buffers[:1] if len(set(buffers)) == 1 else buffers, overlap=False)

    def size(self, name: str) -> int | None:
        """A size by its name, if it is told."""
        return dict(self.sizes).get(name)


@dataclass(frozen=True, slots=True)
class Dim:
    """A dim of a value: its size, its role, and the letter of its axis where the work can be cut along it."""

    size: int
    role: str = FREE
    axis: str = ""


@dataclass(frozen=True, slots=True)
class ScheduledOp:
    """An op of a step by its results. dims: how the result lies, where that is told; place: where it has no rows."""

    values: tuple[str, ...]
    name: str
    dims: tuple[Dim, ...] | None = None
    place: str = ""
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Step:
    """Ops that share a loop nest, or an op by itself, and how they are written.

    way: None where it is to be searched for, and for views. layout: where it is no blocks of rows. steps: what it is
    divided into.
    """

    ops: tuple[ScheduledOp, ...]
    way: Way | None = None
    layout: str = ""
    steps: tuple[Step, ...] = ()
    is_view: bool = False
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Home:
    """Where a value lives from step to step."""

    value: str
    place: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a program is lowered; what it does not tell is searched for.

    program: name and arguments. form: what was rewritten before. frugal: nothing stays on chip from step to step.
    `str` is its text, `Schedule.parse` reads that back.
    """

    program: str = ""
    target: str = ""
    form: str = ""
    steps: tuple[Step, ...] = ()
    homes: tuple[Home, ...] = ()
    frugal: bool = False
    line: int = field(default=0, compare=False)
    file: str = field(default="<text>", compare=False)

    def __str__(self) -> str:
        from tilewright.lower.schedule.text import show

        return show(self)

    @staticmethod
    def parse(text: str, file: str = "<text>") -> Schedule:
        """A schedule from its text; E850 with the line where it cannot be read."""
        from tilewright.lower.schedule.text import parse

        if not isinstance(text, str):
            hint = "give what str(k.schedule) is, or --print schedule prints"
            raise fail(
                "E108", f"the text of a schedule is of type {type(text).__name__}", hint=hint, error=TileTypeError
            )
        return parse(text, file)

"""The text of a schedule, and back.

```
schedule = [ "schedule" PROGRAM "on" TARGET ] [ "form" NAME ] [ "nothing resident" ] entry*
entry    = step | "view" results "=" OP | ( "resident" | "hbm" | "spilled" ) VALUE
step     = "step" [ LAYOUT ] op* [ "write" way ] step*              indented below it
op       = results "=" OP [ "[" dim, ... "]" | "replicated" | "accumulated" ]
dim      = SIZE ( "partition" | "loop" | "free" [ AXIS ] )
way      = KIND ( "," detail )*
detail   = NAME SIZE | "buffers" COUNT [ "and" COUNT ] | "spill" VALUE+ | "alone" | "overlap"
```

`#` starts a comment. Steps below a step, indented deeper, are what it is divided into.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from tilewright.errors import Location, fail
from tilewright.lower.schedule.data import (
    ACCUMULATED,
    FREE,
    LAYOUTS,
    PLACES,
    REPLICATED,
    ROLES,
    Dim,
    Home,
    Schedule,
    ScheduledOp,
    Step,
    Way,
)

_INDENT = "  "
_VALUE = re.compile(r"\w+", re.ASCII)
_WORDS = re.compile(r"[a-z]+(?: [a-z]+)*")
_FORM = re.compile(r"[a-z]+(?: [a-z]+)*(?:, [a-z]+(?: [a-z0-9]+)*)*")
_HEAD = re.compile(r"schedule (?P<program>.+) on (?P<target>\S+)")
_OP = re.compile(r"(?P<values>\w+(?:, \w+)*) = (?P<op>\w+)(?: (?:\[(?P<dims>[^\[\]]*)\]|(?P<place>[a-z]+)))?", re.ASCII)
_DIM = re.compile(r"(?P<size>\d+) (?P<role>[a-z]+)(?: (?P<axis>[a-z]\d*))?", re.ASCII)
_BUFFERS = re.compile(r"buffers (\d+)(?: and (\d+))?", re.ASCII)
_SIZE = re.compile(r"([a-z]\w*) (\d+)", re.ASCII)
_ALONE, _OVERLAP, _SPILL, _NOTHING = "alone", "overlap", "spill ", "nothing resident"


# Writing.


def show(schedule: Schedule) -> str:
    """The text of a schedule."""
    return "".join(f"{line}\n" for line in _lines(schedule))


def _lines(schedule: Schedule) -> Iterator[str]:
    if schedule.program:
        yield f"schedule {schedule.program} on {schedule.target}"
    if schedule.form:
        yield f"form {schedule.form}"
    if schedule.frugal:
        yield _NOTHING
    for step in schedule.steps:
        yield from _step_lines(step, "")
    for home in schedule.homes:
        yield f"{home.place} {home.value}"


def _step_lines(step: Step, indent: str) -> Iterator[str]:
    if step.is_view:
        yield f"{indent}view {_op_text(step.ops[0])}"
        return
    yield f"{indent}step {step.layout}".rstrip()
    inner = indent + _INDENT
    for op in step.ops:
        yield f"{inner}{_op_text(op)}"
    if step.way is not None:
        yield f"{inner}write {way_text(step.way)}"
    for each in step.steps:
        yield from _step_lines(each, inner)


def _op_text(op: ScheduledOp) -> str:
    text = f"{', '.join(op.values)} = {op.name}"
    if op.dims is not None:
        return f"{text} [{', '.join(map(_dim_text, op.dims))}]"
    return f"{text} {op.place}" if op.place else text


def _dim_text(dim: Dim) -> str:
    return f"{dim.size} {dim.role} {dim.axis}".rstrip()


def way_text(way: Way) -> str:
    """A way as a schedule has it."""
    parts = [way.kind, *(f"{name} {size}" for name, size in way.sizes)]
    if way.buffers:
        parts.append(f"buffers {' and '.join(map(str, way.buffers))}")
    if way.spills:
        parts.append(_SPILL + " ".join(way.spills))
    return ", ".join([*parts, *[_ALONE] * way.alone, *[_OVERLAP] * way.overlap])


# Reading.


@dataclass(slots=True)
class _Open:
    """A step that is being read."""

    indent: int
    line: int
    layout: str
    ops: list[ScheduledOp] = field(default_factory=list)
    way: Way | None = None
    steps: list[Step] = field(default_factory=list)

    def closed(self) -> Step:
        """The step, once all of its lines are read."""
        return Step(tuple(self.ops), self.way, self.layout, tuple(self.steps), line=self.line)


def parse(text: str, file: str = "<text>") -> Schedule:
    """A schedule from its text; E850 where it cannot be read."""
    return _Reader(text, file).schedule()


class _Reader:
    """Reads line by line; steps that are open, outermost first, have lines below them."""

    def __init__(self, text: str, file: str) -> None:
        self.lines, self.file = text.splitlines(), file
        self.number = 0
        self.open: list[_Open] = []
        self.steps: list[Step] = []
        self.homes: list[Home] = []
        self.program = self.target = self.form = ""
        self.frugal = False

    def schedule(self) -> Schedule:
        """All of it."""
        first = 0
        for number, line in enumerate(self.lines, 1):
            self.number = number
            content = line.partition("#")[0].rstrip()
            if content.strip():
                first = first or number
                self._line(len(content) - len(content.lstrip()), content.strip())
        self._close(0)
        made = tuple(self.steps), tuple(self.homes), self.frugal
        return Schedule(self.program, self.target, self.form, *made, line=first, file=self.file)

    def wrong(self, message: str, hint: str) -> NoReturn:
        """E850 at the line in work."""
        raise fail("E850", message, hint=hint, location=Location(self.file, self.number))

    def _line(self, indent: int, line: str) -> None:
        word, *others = line.split()
        # A value may be called as a line begins.
        word = "" if others[:1] == ["="] else word
        if word == "write":
            self._way(line, indent)
        elif word in ("step", "view"):
            self._close(indent)
            self._step(line, indent)
        elif self.open and indent > self.open[-1].indent:
            self.open[-1].ops.append(self._op(line))
        else:
            self._close(0)
            self._plain(line, word)

    def _plain(self, line: str, word: str) -> None:
        """A line that belongs to no step."""
        head = _HEAD.fullmatch(line)
        if head is not None:
            self.program, self.target = head["program"], head["target"]
        elif word == "form" and _FORM.fullmatch(line[len(word) + 1 :]):
            self.form = line[len(word) + 1 :]
        elif line == _NOTHING:
            self.frugal = True
        elif word in PLACES and _VALUE.fullmatch(line[len(word) + 1 :]):
            self.homes.append(Home(line[len(word) + 1 :], word, self.number))
        else:
            known = ("schedule ... on ...", "form ...", _NOTHING, "step", "view", *(f"{each} VALUE" for each in PLACES))
            self.wrong(f"{line!r} is no line of a schedule", f"lines outside of steps are: {', '.join(known)}")

    def _step(self, line: str, indent: int) -> None:
        word, _, rest = line.partition(" ")
        if word == "view":
            made = Step((self._op(rest),), is_view=True, line=self.number)
            (self.open[-1].steps if self.open else self.steps).append(made)
            return
        if rest and rest not in LAYOUTS:
            self.wrong(
                f"a step has no layout {rest!r}", f"it is one of {', '.join(LAYOUTS)}, or left out: blocks of rows"
            )
        self.open.append(_Open(indent, self.number, rest))

    def _close(self, indent: int) -> None:
        """End the steps that a line with this indent is not below."""
        while self.open and self.open[-1].indent >= indent:
            done = self.open.pop().closed()
            if not done.ops:
                self.number = done.line
                self.wrong("a step without ops", "name its ops below it, indented: e = exp")
            (self.open[-1].steps if self.open else self.steps).append(done)

    def _op(self, line: str) -> ScheduledOp:
        found = _OP.fullmatch(line)
        if found is None or found["place"] not in (None, REPLICATED, ACCUMULATED):
            self.wrong(
                f"{line!r} is no op",
                "an op is RESULT = NAME, with the layout of its result: e = exp [512 partition, 64 free]",
            )
        values = tuple(found["values"].split(", "))
        dims = None if found["dims"] is None else tuple(self._dims(found["dims"]))
        return ScheduledOp(values, found["op"], dims, found["place"] or "", self.number)

    def _dims(self, text: str) -> Iterator[Dim]:
        for part in text.split(", ") if text else ():
            found = _DIM.fullmatch(part)
            if found is None or found["role"] not in ROLES or (found["axis"] and found["role"] != FREE):
                self.wrong(
                    f"{part!r} is no dim",
                    f"a dim is a size and one of {', '.join(ROLES)}; a free one may name its axis",
                )
            yield Dim(int(found["size"]), found["role"], found["axis"] or "")

    def _way(self, line: str, indent: int) -> None:
        if not self.open or indent <= self.open[-1].indent:
            self.wrong("a way to write no step", "write stands below its step, indented as its ops are")
        if self.open[-1].way is not None:
            self.wrong(
                "a second way to write a step", "give one; smaller steps stand below, indented, with ways of their own"
            )
        kind, *parts = line[len("write ") :].split(", ")
        if not _WORDS.fullmatch(kind):
            self.wrong(f"{kind!r} is no kind of way", "write KIND, NAME SIZE, buffers COUNT")
        self.open[-1].way = self._way_of(kind, parts)

    def _way_of(self, kind: str, parts: list[str]) -> Way:
        sizes: dict[str, int] = {}
        buffers: tuple[int, ...] = ()
        spills: tuple[str, ...] = ()
        for part in parts:
            if (counts := _BUFFERS.fullmatch(part)) is not None:
                buffers = tuple(int(count) for count in counts.groups() if count is not None)
            elif part.startswith(_SPILL) and all(map(_VALUE.fullmatch, part[len(_SPILL) :].split())):
                spills = tuple(part[len(_SPILL) :].split())
            elif (size := _SIZE.fullmatch(part)) is not None and size[1] not in sizes:
                sizes[size[1]] = int(size[2])
            elif part not in (_ALONE, _OVERLAP):
                known = ("NAME SIZE (each once)", "buffers COUNT", "buffers COUNT and COUNT", "spill VALUE ...")
                hint = f"it is one of: {', '.join((*known, _ALONE, _OVERLAP))}"
                self.wrong(f"{part!r} says nothing about a way", hint)
        return Way(kind, tuple(sizes.items()), buffers, spills, _ALONE in parts, _OVERLAP in parts, self.number)

"""Schedules that are refused: each with a code of its own, a hint, and the line of its text."""

from __future__ import annotations

from tilewright.errors import Location, TileError, fail

UNREADABLE = "E850"
OTHER_PROGRAM = "E851"
UNKNOWN = "E852"
TWICE_OR_MISSING = "E853"
ORDER = "E854"
NEST = "E855"
WAY = "E856"
SIZE = "E857"
FIT = "E858"
HOME = "E859"
FORM = "E860"


def refused(code: str, message: str, hint: str, file: str, line: int) -> TileError:
    """The error to raise for a line of a schedule; one that was made as data has no lines."""
    return fail(code, message, hint=hint, location=Location(file, line) if line else None)

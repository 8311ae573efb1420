"""Undefined data: where it comes from, what reading it shows, and the diagnostic where it matters.

Unwritten elements flow through copies and elementwise instructions; every one remembers its allocation. They are
refused where they reach an output, an index, a predicate, a register, a reduction or a contraction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.dtypes import DType
from tilewright.errors import RUN, Diagnostic, Location
from tilewright.rules import CODE_OF_KIND, Reporter, load_rules
from tilewright.sim.storage import Codes, Storage
from tilewright.tile.view import View

INTEGER_MARKER = 4  # What NKI's own simulator shows in unwritten integers (R-simulate-03).


@dataclass(slots=True)
class Origin:
    """An allocation whose unwritten elements somebody read, and the first instruction that did."""

    name: str
    allocated: Location | None
    first_read: Location | None
    reported: bool = False

    def birth(self, code: str, rule: str) -> Diagnostic:
        """Where undefined data begins."""
        read = () if self.first_read is None else (f"first read at {self.first_read}",)
        message = f"{self.name} was allocated, but not all of it was written"
        return Diagnostic(code, message, rule, "note", location=self.allocated, notes=read, phase=RUN)


class Origins:
    """All origins of undefined data of a run; their numbers start at 1."""

    def __init__(self) -> None:
        self._known: list[Origin] = []

    def number(self, storage: Storage, location: Location | None) -> int:
        """The number of a storage as an origin; its first reader is whoever asks first."""
        if not storage.number:
            buffer = storage.buffer
            self._known.append(Origin(buffer.name or "tensor", buffer.location, location))
            storage.number = len(self._known)
        return storage.number

    def report(
        self,
        reporter: Reporter,
        view: View,
        hole: Hole,
        location: Location | None,
        rule: str = "R-tensor-08",
        final: bool = False,
    ) -> None:
        """The diagnostic for undefined elements that reach something that matters, once per origin."""
        origins = [self._known[number - 1] for number in hole.numbers]
        if all(origin.reported for origin in origins):
            return
        for origin in origins:
            origin.reported = True
        first = origins[0]
        name = view.buffer.name or "tensor"
        notes = [f"{first.name} was allocated at {first.allocated}"] if first.allocated is not None else []
        if first.first_read not in (None, location):
            notes.append(f"its unwritten elements were first read at {first.first_read}")
        returned = f"the kernel returns {name}, of which {hole.count} of {view.size} elements"
        if rule == "R-tensor-08":
            message = f"{hole.count} of {view.size} elements of {name} are used but were never written"
            hint = "write the whole tile first (memset, dma_copy), or access only the part that was written"
        elif (first.name, first.allocated) == (name, view.buffer.location):
            message = f"{returned} were never written"
            hint = "write every element of an output before the kernel returns it"
        else:
            message = f"{returned} are computed from elements of {first.name} that were never written"
            hint = f"write all of {first.name} before it is read: look at the loops and masks that fill it"
        code = CODE_OF_KIND[load_rules()[rule].kind]
        reporter.violate(
            rule,
            f"{message} (first: {list(hole.first)})",
            hint=hint,
            location=location,
            operands=[view.note(name)],
            notes=notes,
            births=[origin.birth(code, rule) for origin in origins],
            final=final,
        )


@dataclass(frozen=True, slots=True)
class Hole:
    """The undefined elements of an access: how many, the first, and the numbers of their origins, its own first."""

    count: int
    first: tuple[int, ...]
    numbers: tuple[int, ...]


def hole_in(codes: Codes) -> Hole:
    """The hole that these origins make."""
    first = tuple(int(i) for i in np.argwhere(codes)[0])
    numbers = dict.fromkeys([int(codes[first]), *np.unique(codes[codes != 0]).tolist()])
    return Hole(int(np.count_nonzero(codes)), first, tuple(numbers))


def are_whole_lanes(codes: Codes) -> bool:
    """Whether all of some partitions is undefined and nothing of the others, of which there are some."""
    undefined = codes.reshape(codes.shape[0], -1) != 0
    some = undefined.any(axis=1)
    return bool((some == undefined.all(axis=1)).all() and not some.all())


def shown(array: np.ndarray, dtype: DType, codes: Codes) -> np.ndarray:
    """A copy in which undefined elements show: NaN, or a marker for integers (S3-39)."""
    copy = array.copy()
    copy[codes != 0] = np.nan if dtype.is_float else INTEGER_MARKER
    return copy

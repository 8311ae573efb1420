"""What a run was doing when it found a bad value: where the value stands, so that its history can be looked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.errors import Location
from tilewright.ir.core import Value
from tilewright.tile.view import View


@dataclass(frozen=True, slots=True)
class Evidence:
    """Bad elements that a diagnostic is about.

    parts: accesses and which of their elements are bad; a register is bad as a whole (None). limit: valid indices are
    below it. core, clock: the executed instruction that found them, before which they were made.
    """

    rule: str
    location: Location | None
    core: int
    clock: int
    parts: tuple[tuple[View | Value, np.ndarray | None], ...]
    limit: int

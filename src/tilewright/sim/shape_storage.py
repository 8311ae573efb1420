"""A storage without bytes, for shape mode: it remembers what was written, and no more of it than needed."""

from __future__ import annotations

import numpy as np

from tilewright.sim.coverage import Boxes, box_of
from tilewright.sim.storage import EVERYTHING, NOTHING, Codes, Storage
from tilewright.sim.undefined import Hole, hole_in
from tilewright.tile.memory import Buffer
from tilewright.tile.view import View

_NO_BYTES = np.empty(0, np.uint8)
# Elements above which a tensor in HBM is remembered as boxes instead of one entry per element.
_LARGE = 1 << 20


class ShapeStorage(Storage):
    """Where boxes stand for elements, an access that is no box counts as written when written, and when asked for."""

    __slots__ = ("boxes",)

    def __init__(self, buffer: Buffer) -> None:
        super().__init__(buffer, _NO_BYTES)
        large = not buffer.on_chip and buffer.row > _LARGE
        self.boxes: Boxes | None = Boxes() if large else None

    def untouched(self) -> bool:
        """True when nothing at all has been written."""
        return self.written is NOTHING and not self.boxes

    def is_written(self, view: View, offset: int) -> bool:
        """True when every element of the access has been written."""
        if self.boxes is None or self.written is EVERYTHING:
            return super().is_written(view, offset)
        box = box_of(view, offset)
        return box is None or self.boxes.missing(box) is None

    def mark_written(self, view: View, offset: int, undefined: Codes | None = None) -> None:
        """Note that the access was written."""
        if self.boxes is None or self.written is EVERYTHING:
            super().mark_written(view, offset, undefined)
            return
        box = box_of(view, offset)
        if box is None or view.covers_buffer():
            self.written = EVERYTHING
        else:
            self.boxes.add(box)

    def hole(self, view: View, offset: int) -> Hole:
        """What of the access was never written; asked only where something is."""
        if self.boxes is None:
            return hole_in(self.undefined(view, offset))
        box = box_of(view, offset)
        missing = None if box is None else self.boxes.missing(box)
        assert missing is not None
        return Hole(missing.count, missing.first, (self.number,))

"""Bytes of one buffer, with what the machine remembers of each element: written or not, accumulated by a matmul or not.

State is kept as one of NOTHING, EVERYTHING or a mask, because most tiles are written whole: the mask costs only where
a kernel writes a tile piece by piece.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tilewright.errors import Location
from tilewright.tile.memory import Buffer
from tilewright.tile.view import View

NOTHING, EVERYTHING = "nothing", "everything"
Mask = np.ndarray
State = str | Mask

INTEGER_MARKER = 4  # What NKI's own simulator shows in unwritten integers (R-simulate-03).


class Storage:
    """The bytes of a buffer. `pitch` is the distance between partitions, larger than a row for addressed buffers."""

    __slots__ = (
        "accumulated",
        "accumulated_grain",
        "buffer",
        "data",
        "first_reader",
        "first_write",
        "grain",
        "last_access",
        "origin",
        "owned",
        "pitch",
        "pending",
        "row_bytes",
        "start",
        "written",
    )

    def __init__(self, buffer: Buffer, data: np.ndarray | None = None, start: int = 0, pitch: int = 0) -> None:
        self.buffer = buffer
        self.row_bytes = buffer.row_bytes
        self.data = np.empty(self.row_bytes * buffer.partitions, np.uint8) if data is None else data
        self.start = start
        self.pitch = pitch or self.row_bytes
        self.grain = buffer.dtype.itemsize
        self.written: State = NOTHING
        self.accumulated: State = NOTHING
        self.accumulated_grain = self.grain
        self.pending = 0
        self.first_write = -1
        self.last_access = -1
        # Where unwritten elements come from: the allocation, or what flowed in from another buffer.
        self.origin: Location | None = buffer.location
        self.first_reader: Location | None = None
        self.owned = False

    def array(self, view: View, offset: int) -> np.ndarray:
        """The elements of an access as a NumPy view on the bytes."""
        itemsize = view.dtype.itemsize
        if view.buffer.on_chip:
            partition, byte = divmod(offset * itemsize, self.row_bytes)
            strides = (self.pitch, *[s * itemsize for s in view.strides[1:]])
            return np.ndarray(view.sizes, view.dtype.np, self.data, self.start + partition * self.pitch + byte, strides)
        strides = tuple([s * itemsize for s in view.strides])
        return np.ndarray(view.sizes, view.dtype.np, self.data, self.start + offset * itemsize, strides)

    # Written or not.

    def is_written(self, view: View, offset: int) -> bool:
        """True when every element of the access has been written."""
        if self.written is EVERYTHING:
            return True
        if self.written is NOTHING:
            return False
        mask = self._mask(view, offset)
        if not mask.all():
            return False
        self._settle()
        return True

    def written_mask(self, view: View, offset: int) -> Mask:
        """Which elements of the access have been written, in the shape of the view."""
        if self.written is NOTHING:
            return np.zeros(view.sizes, bool)
        if self.written is EVERYTHING:
            return np.ones(view.sizes, bool)
        mask = self._mask(view, offset)
        return np.asarray(mask.all(axis=-1)) if mask.ndim > view.ndim else mask

    def mark_written(self, view: View, offset: int, where: Mask | None = None) -> None:
        """Note that the access was written; with `where`, that only those elements now hold defined values."""
        if self.written is EVERYTHING and where is None:
            return
        if where is None and view.covers_buffer():
            self.written = EVERYTHING
            return
        mask = self._mask(view, offset)
        if where is None:
            mask[...] = True
            self.pending += view.size
        else:
            mask[...] = where[..., None] if mask.ndim > view.ndim else where

    def mark_rows(self, view: View, offset: int, rows: np.ndarray, where: Mask | None = None) -> None:
        """Note that these entries of dim 0 of the access were written; the rows may overlap in memory."""
        if self.written is EVERYTHING and where is None:
            return
        mask = self._mask(view, offset)
        if where is None:
            mask[rows] = True
            self.pending += rows.size * prod(view.sizes[1:])
        else:
            mask[rows] = where[..., None] if mask.ndim > view.ndim else where

    def _settle(self) -> None:
        """Forget a mask that has become all true. Looked at only after enough elements were written."""
        assert isinstance(self.written, np.ndarray)
        if self.pending * self.grain < self.row_bytes * self.buffer.partitions:
            return
        if self.written.all():
            self.written = EVERYTHING
        self.pending = 0

    def _mask(self, view: View, offset: int) -> Mask:
        if isinstance(self.written, str):
            count = self.row_bytes * self.buffer.partitions // self.grain
            self.written = np.full(count, self.written is EVERYTHING, bool)
        itemsize = view.dtype.itemsize
        if itemsize < self.grain:
            self.written = np.repeat(self.written, self.grain // itemsize)
            self.grain = itemsize
        return strided_mask(self.written, view, offset, itemsize // self.grain)

    def fill_unwritten(self, view: View, offset: int, array: np.ndarray, mask: Mask) -> None:
        """Give unwritten elements a value that shows: NaN, or a marker for integers (S3-39)."""
        floating = view.dtype.is_float
        array[~mask] = np.nan if floating and view.dtype != "float8_e8m0fnu" else INTEGER_MARKER

    # Accumulated or not (PSUM, R-nc_matmul-20 to -22).

    def accumulated_mask(self, view: View, offset: int) -> State:
        """NOTHING, EVERYTHING, or which elements of the access a matmul has written."""
        if isinstance(self.accumulated, str):
            return self.accumulated
        mask = self._accumulated(self.accumulated, view, offset)
        if mask.all():
            return EVERYTHING
        if not mask.any():
            return NOTHING
        return np.asarray(mask.all(axis=-1)) if mask.ndim > view.ndim else mask

    def mark_accumulated(self, view: View, offset: int) -> None:
        """Note that a matmul wrote the access."""
        if self.accumulated is EVERYTHING:
            return
        if view.covers_buffer():
            self.accumulated = EVERYTHING
            return
        mask = self.accumulated
        if isinstance(mask, str):
            mask = np.zeros(self.row_bytes * self.buffer.partitions // self.accumulated_grain, bool)
        self._accumulated(mask, view, offset)[...] = True

    def _accumulated(self, mask: Mask, view: View, offset: int) -> Mask:
        itemsize = view.dtype.itemsize
        if itemsize < self.accumulated_grain:
            mask = np.repeat(mask, self.accumulated_grain // itemsize)
            self.accumulated_grain = itemsize
        self.accumulated = mask
        return strided_mask(mask, view, offset, itemsize // self.accumulated_grain)


def strided_mask(mask: Mask, view: View, offset: int, ratio: int) -> Mask:
    """The entries of a flat per-grain mask that an access covers; a trailing dim holds the grains of an element."""
    if ratio == 1:
        return np.ndarray(view.sizes, bool, mask, offset, view.strides)
    strides = tuple([s * ratio for s in view.strides])
    return np.ndarray((*view.sizes, ratio), bool, mask, offset * ratio, (*strides, 1))

"""Bytes of one buffer, with what the machine remembers of each element: written or not, accumulated by a matmul or not.

State is kept as one of NOTHING, EVERYTHING or a mask, because most tiles are written whole: the mask costs only where
a kernel writes a tile piece by piece. A mask has one entry per grain: the smallest element that accessed the buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.errors import Location
from tilewright.tile.memory import PSUM, Buffer
from tilewright.tile.overlap import Extent
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.sim.places import Place
    from tilewright.sim.undo import Undo

NOTHING, EVERYTHING = "nothing", "everything"
MOST_ARRAYS = 256
Mask = np.ndarray
State = str | Mask
Codes = np.ndarray
"""Per element: 0 where it is defined, else the number of the allocation whose unwritten contents it holds."""


class Storage:
    """The bytes of a buffer. `pitch` is the distance between partitions, larger than a row for addressed buffers."""

    __slots__ = (
        "accumulated",
        "accumulated_grain",
        "arrays",
        "buffer",
        "data",
        "drained",
        "first_write",
        "flowed",
        "grain",
        "last_access",
        "number",
        "pending",
        "pitch",
        "place",
        "row_bytes",
        "start",
        "undo",
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
        # Of PSUM: which accesses were read since a matmul overwrote their elements, and where.
        self.drained: dict[Extent, Location | None] | None = {} if buffer.memory is PSUM else None
        self.first_write = -1
        self.last_access = -1
        # Number of this allocation as an origin of undefined data; 0 until somebody reads what was never written.
        self.number = 0
        # Where undefined elements that were copied into this buffer come from, per grain.
        self.flowed: Codes | None = None
        self.place: Place | None = None
        # Of arguments: what they were before.
        self.undo: Undo | None = None
        # Accesses by signature and offset: a loop comes back to the same ones.
        self.arrays: dict[tuple[int, int], np.ndarray] = {}

    def array(self, view: View, offset: int) -> np.ndarray:
        """The elements of an access as a NumPy view on the bytes."""
        key = (view.signature_ or view.signature, offset)
        known = self.arrays.get(key)
        if known is not None:
            return known
        buffer, dtype = self.buffer, view.dtype
        itemsize = dtype.itemsize
        if buffer.on_chip:
            partition, byte = divmod(offset * itemsize, self.row_bytes)
            strides = (self.pitch, *[s * itemsize for s in view.strides[1:]])
            start = self.start + partition * self.pitch + byte
        else:
            strides = tuple([s * itemsize for s in view.strides])
            start = self.start + offset * itemsize
        made = np.ndarray(view.sizes, dtype.np, self.data, start, strides)
        if len(self.arrays) >= MOST_ARRAYS:
            self.arrays.clear()
        self.arrays[key] = made
        return made

    def element(self, view: View) -> DType:
        """The type in which elements of an access are held."""
        return view.dtype

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

    def undefined(self, view: View, offset: int) -> Codes:
        """The origin of every element of the access that is not defined; what never was written comes from here."""
        assert self.number, "an origin has a number before its elements are looked at"
        if isinstance(self.written, str):
            return np.full(view.sizes, 0 if self.written is EVERYTHING else self.number, np.int32)
        mask = self._mask(view, offset)
        codes = np.where(mask, 0, self.number)
        if self.flowed is not None:
            flowed = _strided(self.flowed, view, offset, view.dtype.itemsize // self.grain)
            codes = np.where(mask | (flowed == 0), codes, flowed)
        return codes.max(axis=-1) if codes.ndim > view.ndim else codes

    def mark_written(self, view: View, offset: int, undefined: Codes | None = None) -> None:
        """Note that the access was written; with `undefined`, that some of its elements hold nobody's data."""
        if undefined is None:
            if self.written is EVERYTHING:
                return
            if view.covers_buffer():
                self.written, self.flowed = EVERYTHING, None
                return
            self._mask(view, offset)[...] = True
            self.pending += view.nbytes
            return
        mask = self._mask(view, offset)
        if mask.ndim > view.ndim:
            undefined = undefined[..., None]
        mask[...] = undefined == 0
        self._flowed(view, offset)[...] = undefined

    def mark_chosen(self, view: View, offset: int, chosen: Any, undefined: Codes | None = None) -> None:
        """Note that these entries of the access (a NumPy index) were written; they may overlap in memory."""
        if self.written is EVERYTHING and undefined is None:
            return
        mask = self._mask(view, offset)
        if undefined is None:
            mask[chosen] = True
            self.pending += mask[chosen].size * self.grain
            return
        if mask.ndim > view.ndim:
            undefined = undefined[..., None]
        mask[chosen] = undefined == 0
        self._flowed(view, offset)[chosen] = undefined

    def _settle(self) -> None:
        """Forget a mask that has become all true. Looked at only after enough bytes were written."""
        assert isinstance(self.written, np.ndarray)
        if self.pending < self.row_bytes * self.buffer.partitions:
            return
        if self.written.all():
            self.written, self.flowed = EVERYTHING, None
        self.pending = 0

    def _mask(self, view: View, offset: int) -> Mask:
        if isinstance(self.written, str):
            count = self.row_bytes * self.buffer.partitions // self.grain
            self.written = np.full(count, self.written is EVERYTHING, bool)
        itemsize = view.dtype.itemsize
        if itemsize < self.grain:
            self.written = np.repeat(self.written, self.grain // itemsize)
            if self.flowed is not None:
                self.flowed = np.repeat(self.flowed, self.grain // itemsize)
            self.grain = itemsize
        return _strided(self.written, view, offset, itemsize // self.grain)

    def _flowed(self, view: View, offset: int) -> Codes:
        assert isinstance(self.written, np.ndarray), "marked first"
        if self.flowed is None:
            self.flowed = np.zeros(self.written.size, np.int32)
        return _strided(self.flowed, view, offset, view.dtype.itemsize // self.grain)

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
        return _strided(mask, view, offset, itemsize // self.accumulated_grain)


def _strided(entries: np.ndarray, view: View, offset: int, ratio: int) -> np.ndarray:
    """The entries of a flat per-grain array that an access covers; a trailing dim holds the grains of an element."""
    size = entries.itemsize * ratio
    strides = view.strides if size == 1 else tuple([s * size for s in view.strides])
    if ratio == 1:
        return np.ndarray(view.sizes, entries.dtype, entries, offset * size, strides)
    return np.ndarray((*view.sizes, ratio), entries.dtype, entries, offset * size, (*strides, entries.itemsize))

"""What an argument held before a kernel wrote to it, for whoever runs the kernel once more.

Kernels update a few rows of caches that are large: only what they overwrite is kept, until that is as much as the rest.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

import numpy as np

from tilewright.sim.contest import Part


class Undo:
    """The bytes of an argument, which all cores work on, and how to get back what they were.

    A later launch that writes to the same bytes has an undo of its own, which comes first on the way back.
    """

    __slots__ = ("__weakref__", "_before", "_data", "_kept", "_later", "nbytes")

    def __init__(self, data: np.ndarray) -> None:
        self._data = data
        self._kept: list[tuple[Part, np.ndarray]] = []
        self._before: np.ndarray | None = None
        self._later: Undo | None = None
        self.nbytes = 0
        """How much is kept."""
        address = data.__array_interface__["data"][0]
        earlier = _latest.get(address)
        if earlier is not None:
            earlier._later = self
        _latest[address] = self

    @property
    def written(self) -> bool:
        """Whether anything was written."""
        return self.nbytes > 0

    def keep(self, part: Part) -> None:
        """A part is about to be written."""
        if self._before is not None:
            return
        held = part.of(self._data).copy()
        self._kept.append((part, held))
        self.nbytes += held.nbytes
        if 2 * self.nbytes > self._data.nbytes:
            self.keep_all()

    def keep_all(self) -> None:
        """Anything may be written."""
        self._before = self.before()
        self._kept.clear()
        self.nbytes = self._before.nbytes

    def before(self) -> np.ndarray:
        """All bytes as they were; not to be written to."""
        if self._before is not None:
            return self._before
        data = (self._data if self._later is None else self._later.before()).copy()
        for part, held in reversed(self._kept):
            part.put(data, held)
        return data


_latest: WeakValueDictionary[int, Undo] = WeakValueDictionary()
"""By address. Bytes that have an undo are alive, so that no others lie there."""

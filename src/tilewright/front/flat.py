"""x.flat: the elements of an array in row-major order, however it lies in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewright.front.array import TracedArray, as_traced, new
from tilewright.front.assign import fill
from tilewright.front.indexing import get_item, set_item
from tilewright.front.refusal import numpy_error
from tilewright.front.registry import call
from tilewright.front.storage import reshaped


class Flat:
    """What x.flat gives."""

    __slots__ = ("base",)

    def __init__(self, base: TracedArray) -> None:
        self.base = base

    def _line(self) -> TracedArray:
        return new(reshaped(self.base.value, (self.base.size,)))

    def __len__(self) -> int:
        return self.base.size

    def __iter__(self) -> Iterator[Any]:
        line = self._line()
        return (line[place] for place in range(self.base.size))

    def __getitem__(self, key: Any) -> Any:
        found = get_item(self._line(), key)
        return found if found.is_scalar else new(found.value)

    def __setitem__(self, key: Any, value: Any) -> None:
        line = self._line()
        part = get_item(line, key)
        given = as_traced(value)
        if not given.size:
            raise numpy_error(ValueError, "Error setting single item of array.")
        # What is too short is repeated, what is too long is cut off.
        set_item(line, key, call(np.resize, given, part.shape) if given.ndim and part.size else given)
        fill(self.base, reshaped_like(line, self.base))


def reshaped_like(line: TracedArray, like: TracedArray) -> TracedArray:
    """All elements of `line` in the shape of another array."""
    return new(reshaped(line.value, like.shape))

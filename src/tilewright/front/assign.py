"""What an assignment writes: a value in the element type and the shape of the place it goes to."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.front.array import TracedArray, new
from tilewright.front.lift import constant_of
from tilewright.front.promote import as_input, cast, shape_of
from tilewright.front.refusal import ask, numpy_error
from tilewright.front.storage import reshaped
from tilewright.front.trace import emit
from tilewright.ir.core import Value


def fill(target: TracedArray, value: Any) -> None:
    """target[...] = value: converted to the target's type whatever is lost, and broadcast to its shape."""
    target.assign(content_for(value, target))


def content_for(value: Any, like: TracedArray, shape: tuple[int, ...] | None = None) -> Value:
    """What an assignment writes: the value in the element type and the shape of the place it goes to."""
    shape = like.shape if shape is None else shape
    dtype = like.type.dtype
    given = as_input(value)
    if not isinstance(given, TracedArray):
        # NumPy knows what a number is in another type, and which ones it refuses.
        host = np.empty(shape_of(given), dtype.np)
        ask(host.__setitem__, ..., given)
        if not host.ndim:
            number = host.item() if dtype.is_integer else float(host)
            return emit("full", shape=shape, dtype=dtype, value=number)
        given = new(constant_of(host))
    content = cast(given.value, dtype)
    return _stretched(content, shape)


def _stretched(content: Value, shape: tuple[int, ...]) -> Value:
    """Broadcast as an assignment does: dims of size 1 before those of the target are dropped."""
    given = content.type.shape
    extra = len(given) - len(shape)
    trimmed = given[extra:] if extra > 0 and set(given[:extra]) <= {1} else given
    fits = len(trimmed) <= len(shape) and all(
        a in (1, b) for a, b in zip(reversed(trimmed), reversed(shape), strict=False)
    )
    if not fits:
        raise numpy_error(ValueError, f"could not broadcast input array from shape {given} into shape {shape}")
    content = reshaped(content, trimmed)
    return content if trimmed == shape else emit("broadcast_to", content, shape=shape)

"""Writing into arrays as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.front.array import TracedArray, new
from tilewright.front.functions.shape import array_of
from tilewright.front.indexing import fill
from tilewright.front.promote import is_weak
from tilewright.front.refusal import ask, numpy_error
from tilewright.front.registry import implements
from tilewright.front.trace import emit
from tilewright.front.ufunc import host_target


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """np.copyto"""
    if not isinstance(dst, TracedArray):
        if isinstance(dst, np.ndarray):
            raise host_target()
        raise numpy_error(TypeError, f"copyto() argument 1 must be numpy.ndarray, not {type(dst).__name__}")
    # NumPy says what it makes of a number, and which types it takes.
    sample = np.empty((), dst.dtype)
    if is_weak(src):
        ask(np.copyto, sample, src, casting)
        src = sample
    else:
        src = array_of(src)
        ask(np.copyto, sample[None], np.empty(1, src.dtype), casting)
    if where is True:
        fill(dst, src)
        return
    mask = array_of(where)
    ask(np.copyto, np.empty(1), 0, where=np.empty(1, mask.dtype))
    ask(np.broadcast_to, mask.shadow, dst.shape)
    whole = new(dst.value)
    fill(whole, src)
    dst.assign(emit("where", mask.value, whole.value, dst.value))

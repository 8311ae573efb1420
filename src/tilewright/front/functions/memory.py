"""Questions about memory and casts: NumPy answers them by the shadows of traced arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.front.array import TracedArray
from tilewright.front.refusal import ask
from tilewright.front.registry import implements


def _shared(a: Any, b: Any, max_work: Any, answer: Any) -> bool:
    if not (isinstance(a, TracedArray) and isinstance(b, TracedArray)):
        return False
    # Arrays of different owners share nothing; shadows of one owner lie in memory as the arrays would.
    return a.storage.root is b.storage.root and bool(ask(answer, a.shadow, b.shadow, max_work))


@implements(np.shares_memory)
def shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """np.shares_memory"""
    return _shared(a, b, max_work, np.shares_memory)


@implements(np.may_share_memory)
def may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """np.may_share_memory"""
    return _shared(a, b, max_work, np.may_share_memory)


@implements(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """np.can_cast"""
    return ask(np.can_cast, from_.dtype if isinstance(from_, TracedArray) else from_, to, casting)


@implements(np.min_scalar_type)
def min_scalar_type(a: Any) -> np.dtype:
    """np.min_scalar_type: an array keeps its type"""
    return a.dtype


@implements(np.array_repr, np.array_str, np.array2string, note="shape and element type, no numbers")
def array_repr(a: Any, *args: Any, **kwargs: Any) -> str:
    """np.array_repr"""
    return repr(a)


@implements(np.ndenumerate)
def ndenumerate(arr: Any) -> Any:
    """np.ndenumerate"""
    return ((place, arr[place]) for place in np.ndindex(*arr.shape))

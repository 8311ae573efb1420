"""Calls of kernels that arrays take over: traced or lazy ones, of which no numbers are known yet.

An array whose class has `__call_kernel__(kernel, args, kwargs)` is asked instead of running the kernel. That is how a
kernel called on such an array becomes a part of a program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

TAKES_CALLS = "__call_kernel__"

DEEPEST = 99
"""How deep tuples, lists and dicts of arguments and results may be nested."""


def taker_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The first array among arguments that takes calls over, at any depth of tuples, lists and dicts; else None."""
    return next((x for x in _leaves((args, kwargs)) if hasattr(type(x), TAKES_CALLS)), None)


def hand_over(taker: Any, kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Let an array take a call over; what it returns is the result of the call."""
    return getattr(type(taker), TAKES_CALLS)(taker, kernel, args, kwargs)


def _leaves(tree: Any) -> Iterator[Any]:
    left = [(tree, 0)]
    while left:
        tree, depth = left.pop()
        held = tree.values() if isinstance(tree, Mapping) else tree if isinstance(tree, (tuple, list)) else None
        if held is None:
            yield tree
        elif depth <= DEEPEST:
            left += reversed([(each, depth + 1) for each in held])

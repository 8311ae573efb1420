"""Calls of kernels that arrays take over: traced or lazy ones, of which no numbers are known yet.

An array whose class has `__call_kernel__(kernel, args, kwargs)` is asked instead of running the kernel. That is how a
kernel called on such an array becomes a part of a program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

TAKES_CALLS = "__call_kernel__"


def taker_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The first array among arguments that takes calls over, at any depth of tuples, lists and dicts; else None."""
    return next((x for x in _leaves((args, kwargs)) if hasattr(type(x), TAKES_CALLS)), None)


def hand_over(taker: Any, kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Let an array take a call over; what it returns is the result of the call."""
    return getattr(type(taker), TAKES_CALLS)(taker, kernel, args, kwargs)


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, (tuple, list)):
        for each in tree:
            yield from _leaves(each)
    elif isinstance(tree, Mapping):
        for each in tree.values():
            yield from _leaves(each)
    else:
        yield tree

"""Arrays for tests against NumPy: every element type, with the values that go wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tests.front.kit import BFLOAT16, check, check_error, quiet_numpy

BOOL = np.dtype(bool)
INTEGERS = tuple(np.dtype(name) for name in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"))
FLOATS = (np.dtype("f2"), np.dtype("f4"), np.dtype("f8"), BFLOAT16)
DTYPES = (BOOL, *INTEGERS, *FLOATS)

# Every type with itself, with its neighbour and with two farther ones: each kind meets each other kind.
PAIRS = tuple((x, DTYPES[(i + step) % len(DTYPES)]) for i, x in enumerate(DTYPES) for step in (0, 1, 4, 9))

SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -2.5, 1e-7, 1e-45, 6e4, 3e38, 2**31 + 0.5, -(2.0**23))


def sample(dtype: Any, shape: tuple[int, ...], rng: np.random.Generator, special: bool = True) -> np.ndarray:
    """Numbers of an element type, half of them special: limits, zeros of both signs, infinities, NaN."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        plain = np.asarray(rng.integers(max(info.min, -20), 20, shape)).astype(kind)
        edges = np.array([0, 1, 2, 7, info.max, info.max - 1, info.min, info.min + 1], kind)
    else:
        plain = np.asarray(rng.standard_normal(shape) * 4).astype(kind)
        with np.errstate(all="ignore"):
            edges = np.array(SPECIAL).astype(kind)
    if not special:
        return plain
    return np.asarray(np.where(rng.random(shape) < 0.5, rng.choice(edges, shape), plain), kind)


def every(dtype: Any) -> np.ndarray:
    """All numbers of an element type of one or two bytes."""
    kind = np.dtype(dtype)
    return np.arange(2 ** (8 * kind.itemsize), dtype=f"u{kind.itemsize}").view(kind)


def refuses(function: Callable[..., Any], *args: Any) -> bool:
    """Whether NumPy refuses a call; then tracing must refuse it too, with the same class."""
    try:
        with quiet_numpy():
            function(*copy.deepcopy(args))
    except (TypeError, ValueError, OverflowError, IndexError):
        check_error(function, *args)
        return True
    return False


@contextmanager
def agreement(**tolerance: float) -> Iterator[Callable[..., bool]]:
    """Collect calls, `agree(function, *arrays)`, that all give what NumPy gives, or are refused as NumPy refuses them.

    Those that NumPy computes are traced as one program. Calls tell whether NumPy refused.
    """
    calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def agree(function: Callable[..., Any], *args: Any) -> bool:
        if refuses(function, *args):
            return True
        calls.append((function, args))
        return False

    yield agree
    if not calls:
        return
    try:
        check(
            lambda groups: [each(*group) for (each, _), group in zip(calls, groups, strict=True)],
            [a for _, a in calls],
            **tolerance,
        )
    except AssertionError:
        # One by one, so that the message is about the call that differs.
        for each, args in calls:
            check(each, *args, **tolerance)
        raise

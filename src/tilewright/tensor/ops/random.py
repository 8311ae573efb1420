"""Threefry-2x32 with 20 rounds (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011): a bijection of
two words under a key of two words. Counters in, random bits out; the same everywhere, in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilewright.dtypes import uint32
from tilewright.tensor.record import op
from tilewright.tensor.types import TensorType

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
"""By how many bits the second word turns, round by round."""

PARITY = 0x1BD11BDA
"""Skein's key schedule parity constant, cut to 32 bits."""

ROUNDS = 20
"""Rounds of the variant that is used."""

_KEY_EVERY = 4


def mix(k0: Any, k1: Any, x0: Any, x1: Any, rotate: Callable[[Any, int], Any]) -> Iterator[tuple[Any, Any]]:
    """The two words after the first key and after every round, for anything that adds and xors as uint32 does."""
    keys = (k0, k1, k0 ^ k1 ^ PARITY)
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for number in range(ROUNDS):
        x0 = x0 + x1
        x1 = rotate(x1, ROTATIONS[number % len(ROTATIONS)]) ^ x0
        if number % _KEY_EVERY == _KEY_EVERY - 1:
            block = number // _KEY_EVERY + 1
            x0, x1 = x0 + keys[block % 3], x1 + keys[(block + 1) % 3] + block
        yield x0, x1


def rotate_left(x: Any, bits: int) -> Any:
    """x turned by bits, for words of 32 bits."""
    return (x << bits) | (x >> (uint32.itemsize * 8 - bits))


def _words(key: TensorType, x0: TensorType, x1: TensorType) -> tuple[TensorType, TensorType]:
    return x0, x1


@op(family="random", operands="key x0 x1", infer=_words, primitive=False)
def threefry2x32(key: np.ndarray, x0: np.ndarray, x1: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """out0, out1 = the words x0, x1 after 20 rounds under key, all uint32; key has 2 elements, x0 and x1 one shape"""
    with np.errstate(over="ignore"):
        *_, (out0, out1) = mix(key[0], key[1], x0, x1, rotate_left)
    return out0, out1

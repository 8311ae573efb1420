"""Kernels of every op, shape and element type: the verifier finds nothing, they fit, and none is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import TARGETS, fits

Function = Callable[..., Any]
SHAPES = [(), (7,), (130, 33), (1, 700), (300, 1), (3, 5, 40), (2, 1, 3, 2, 5)]
UNARY: list[Function] = [
    *(np.negative, np.abs, np.sign, np.floor, np.ceil, np.rint, np.square, np.exp, np.log, np.sqrt, np.tanh),
    *(np.sin, np.cos, np.arctan, np.reciprocal, np.expm1, np.log1p, np.isnan, np.isfinite, np.logical_not),
]
BINARY: list[Function] = [
    *(np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum, np.floor_divide, np.mod, np.power),
    *(np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, np.logical_and, np.logical_or),
]
INTEGER: list[Function] = [
    *(np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.equal, np.less, np.bitwise_and, np.bitwise_or),
    *(np.bitwise_xor, np.floor_divide, np.mod),
]
REDUCTIONS: list[Function] = [np.sum, np.max, np.min, np.mean, np.prod, np.cumsum, np.argmax, np.argmin]
MOVES: list[Function] = [
    *(lambda x: x.T, lambda x: x.reshape(-1), lambda x: np.flip(x, 0), lambda x: np.concatenate([x, x * 2])),
    *(lambda x: x[1:], lambda x: np.roll(x, 1, 0), lambda x: np.repeat(x, 2, 0), lambda x: np.sort(x, axis=-1)),
]
MOVED = [(7,), (130, 33), (3, 5, 40)]


def batches() -> list[tuple[str, list[Function], list[tuple[int, ...]], str, int]]:
    """Functions that make one kernel together: name, functions, shapes, element type, arguments."""
    made: list[tuple[str, list[Function], list[tuple[int, ...]], str, int]] = []
    for dtype in ("float32", "bfloat16", "float16"):
        made += [("unary", UNARY, [shape], dtype, 1) for shape in SHAPES]
        made += [("binary", BINARY, [shape], dtype, 2) for shape in SHAPES]
    for dtype in ("int32", "uint8"):
        made += [("integer", INTEGER, [shape], dtype, 2) for shape in SHAPES]
    for dtype in ("float32", "bfloat16", "int32"):
        made += [("reductions", REDUCTIONS, [shape], dtype, 1) for shape in MOVED]
        made += [("moves", MOVES, [shape], dtype, 1) for shape in MOVED]
    return made


BATCHES = batches()


@pytest.mark.req("S4-21")
def test_there_are_a_thousand_cases():
    assert sum(len(functions) for _, functions, _, _, _ in BATCHES) >= 1000


@pytest.mark.req("S4-21")
@pytest.mark.parametrize("place", range(len(BATCHES)))
def test_kernels_are_clean(place: int):
    _, functions, (shape,), dtype, count = BATCHES[place]
    target = list(TARGETS)[place % len(TARGETS)]
    axis = {} if functions is not REDUCTIONS else {"axis": place % len(shape)}

    def every(*arrays: Any) -> Any:
        return [function(*arrays, **axis) for function in functions]

    fits(every, *(tw.spec(shape, dtype) for _ in range(count)), target=target)

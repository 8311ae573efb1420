"""NumPy's functions one by one, compiled and compared: as many as other compilers for Trainium list, and none fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw

RNG = np.random.default_rng(0)
SHAPES = ((7,), (130, 5), (2, 3, 4))
UNARY = (
    *(np.negative, np.abs, np.square, np.exp, np.tanh, np.sin, np.cos, np.arctan, np.sign, np.floor, np.ceil),
    *(np.rint, np.trunc, np.expm1, np.logical_not, np.isfinite),
)
POSITIVE = (np.sqrt, np.log, np.log1p, np.reciprocal)
BINARY = (
    *(np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum, np.equal, np.not_equal, np.less),
    *(np.less_equal, np.greater, np.greater_equal, np.logical_and, np.logical_or, np.logical_xor),
)
INTEGER = (
    np.bitwise_and,
    np.bitwise_or,
    np.bitwise_xor,
    np.left_shift,
    np.add,
    np.multiply,
    np.maximum,
    np.floor_divide,
)
REDUCTIONS = (np.sum, np.mean, np.max, np.min, np.var, np.std, np.prod, np.any, np.all, np.argmax, np.argmin)
MOVED: dict[str, Callable[..., Any]] = {
    "transpose": lambda a, b: np.transpose(a, (1, 0)),
    "reshape": lambda a, b: a.reshape(-1, 6),
    "ravel": lambda a, b: np.ravel(a),
    "concatenate": lambda a, b: np.concatenate([a, b], axis=1),
    "stack": lambda a, b: np.stack([a, b]),
    "split": lambda a, b: np.split(a, 3, axis=1)[1],
    "broadcast_to": lambda a, b: np.broadcast_to(a[:1], (4, a.shape[1])),
    "repeat": lambda a, b: np.repeat(a, 2, axis=0),
    "expand_dims": lambda a, b: np.expand_dims(a, 1),
    "squeeze": lambda a, b: np.squeeze(a[:1]),
    "swapaxes": lambda a, b: np.swapaxes(a, 0, 1),
    "take": lambda a, b: np.take(a, np.array([2, 0]), axis=0),
    "flip": lambda a, b: np.flip(a, 0),
    "roll": lambda a, b: np.roll(a, 1, axis=1),
    "where": lambda a, b: np.where(a > b, a, b),
    "clip": lambda a, b: np.clip(a, -0.5, 0.5),
    "pad": lambda a, b: np.pad(a, ((1, 0), (0, 2))),
    "slice": lambda a, b: a[1:5:2, ::-1],
    "copy": lambda a, b: np.copy(a),
    "zeros_like": lambda a, b: a + np.zeros_like(b),
    "tri": lambda a, b: a @ np.tri(a.shape[1], dtype=a.dtype),
}
CONTRACTED: dict[str, Callable[..., Any]] = {
    "matmul": lambda a, b: a @ b.T,
    "dot": lambda a, b: np.dot(a, np.transpose(b)),
    "einsum": lambda a, b: np.einsum("ij,kj->ki", a, b),
    "outer": lambda a, b: np.outer(a[0], b[0]),
    "tensordot": lambda a, b: np.tensordot(a, b, axes=([1], [1])),
    "inner": lambda a, b: np.inner(a, b),
    "cumsum": lambda a, b: np.cumsum(a, axis=1),
    "sort": lambda a, b: np.sort(a, axis=1),
}


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def cases() -> dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]]:
    """Name -> function and arguments."""
    found: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {}
    for shape in SHAPES:
        for op in UNARY:
            found[f"{op.__name__}-{shape}"] = op, (normal(*shape),)
        for op in POSITIVE:
            found[f"{op.__name__}-{shape}"] = op, (np.abs(normal(*shape)) + np.float32(0.1),)
        for op in BINARY:
            a = normal(*shape)
            b = np.where(normal(*shape) > 0, a, normal(*shape))  # some elements are equal
            found[f"{op.__name__}-{shape}"] = op, (a, b)
    for op in INTEGER:
        found[f"{op.__name__}-int32"] = op, (np.arange(-20, 22, dtype=np.int32), np.arange(42, dtype=np.int32) % 5 + 1)
    for op in REDUCTIONS:
        for axis in (0, 1):
            found[f"{op.__name__}-axis{axis}"] = (lambda a, op=op, axis=axis: op(a, axis=axis)), (normal(130, 6),)
    for name, function in (MOVED | CONTRACTED).items():
        found[name] = function, (normal(8, 6), normal(8, 6))
    return found


CASES = cases()


def test_there_are_as_many_as_others_list() -> None:
    """The first list of the kind had 135, one of which failed."""
    names = {name.split("-")[0] for name in CASES}
    assert len(CASES) >= 135 and len(names) >= 75, (len(CASES), len(names))


@pytest.mark.req("S4-96")
@pytest.mark.parametrize("name", CASES)
def test_parity(name: str) -> None:
    function, arguments = CASES[name]
    wanted = np.asarray(function(*arguments))
    made = np.asarray(tw.compile(function, *arguments, target="trn2", check="off")(*arguments))
    assert made.shape == wanted.shape and made.dtype == wanted.dtype
    np.testing.assert_allclose(made, wanted, rtol=2e-5, atol=2e-6)

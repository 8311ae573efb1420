"""Methods, attributes and protocols of traced arrays: NumPy's results, or a diagnostic that says what to do."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.front.kit import check, check_error, refused
from tilewright.front.function import trace

X = np.array([[3, 1, 2, 1], [0, 5, -4, 2], [7, 7, 0, 1]], np.float32)
I = np.array([[3, 1], [0, 2]], np.int16)

WORKS: dict[str, Callable[[Any], Any]] = {
    "T": lambda x: x.T,
    "all": lambda x: (x.all(), x.all(axis=0), x.all(1, keepdims=True)),
    "any": lambda x: (x.any(), x.any(axis=(0, 1)), x.any(-1)),
    "argmax": lambda x: (x.argmax(), x.argmax(0), x.argmax(axis=1, keepdims=True)),
    "argmin": lambda x: (x.argmin(), x.argmin(axis=-1)),
    "argpartition": lambda x: x.argpartition(2, axis=0)[2].shape,
    "argsort": lambda x: (x.argsort(kind="stable"), x.argsort(axis=0, kind="stable")),
    "astype": lambda x: (x.astype(int), x.astype(np.float16), x.astype("f8"), x.astype(bool), x.astype(x.dtype)),
    "choose": lambda x: (x[:2] > 1).astype(int).choose([x[0], x[1]]),
    "clip": lambda x: (x.clip(0, 2), x.clip(min=1), x.clip(None, 3)),
    "compress": lambda x: (x.compress([True, False, True], axis=0), x.compress([False, True])),
    "conj": lambda x: x.conj(),
    "conjugate": lambda x: x.conjugate(),
    "copy": lambda x: x.copy(),
    "cumprod": lambda x: (x.cumprod(), x.cumprod(axis=1)),
    "cumsum": lambda x: (x.cumsum(), x.cumsum(0), x.cumsum(axis=1, dtype=np.float64)),
    "device": lambda x: (x, x.device),
    "diagonal": lambda x: (x.diagonal(), x.diagonal(1)),
    "dot": lambda x: x.dot(x.T),
    "dtype": lambda x: (x, x.dtype),
    "fill": lambda x: x.fill(3),
    "flags": lambda x: (x.flags.c_contiguous, x.T.flags.c_contiguous, x[:, 1:].flags["F_CONTIGUOUS"]),
    "flat": lambda x: (x.flat[3], x.T.flat[1:5], len(x.flat), list(x[0].flat)),
    "flatten": lambda x: (x.flatten(), x.flatten("F"), x.T.flatten()),
    "imag": lambda x: x.imag,
    "itemsize": lambda x: x.itemsize,
    "mT": lambda x: x.mT,
    "max": lambda x: (x.max(), x.max(0), x.max(axis=1, keepdims=True), x.max(initial=9.0)),
    "mean": lambda x: (x.mean(), x.mean(axis=0, dtype=np.float64)),
    "min": lambda x: (x.min(), x.min(axis=(0, 1), keepdims=True)),
    "nbytes": lambda x: x.nbytes,
    "ndim": lambda x: x.ndim,
    "prod": lambda x: (x.prod(), x.prod(axis=0)),
    "put": lambda x: x.put([0, -1], [9, 8]),
    "ravel": lambda x: (x.ravel(), x.ravel("F"), x.T.ravel("K")),
    "real": lambda x: (x.real, x.real is x),
    "repeat": lambda x: (x.repeat(2), x.repeat([1, 2, 0], axis=0)),
    "reshape": lambda x: (x.reshape(4, 3), x.reshape((2, -1)), x.reshape(-1), x.reshape(12, order="F")),
    "round": lambda x: ((x / 3).round(2), (x / 3).round()),
    "searchsorted": lambda x: np.sort(x[0]).searchsorted([0.5, 2.5]),
    "shape": lambda x: x.shape,
    "size": lambda x: x.size,
    "sort": lambda x: (x.sort(), x.sort(axis=0)),
    "squeeze": lambda x: (x[None].squeeze(), x[:1].squeeze(0), x[:1, :1].squeeze()),
    "std": lambda x: x.std(axis=1, ddof=1),
    "strides": lambda x: (x.strides, x.T.strides, x[::-1, ::2].strides),
    "sum": lambda x: (x.sum(), x.sum(1), x.sum(axis=0, keepdims=True), x.sum(dtype=np.float64), x.sum(where=x > 1)),
    "swapaxes": lambda x: x.swapaxes(0, -1),
    "take": lambda x: (x.take([0, 5]), x.take([1], axis=1), x.take(3)),
    "to_device": lambda x: x.to_device("cpu"),
    "trace": lambda x: (x.trace(), x.trace(1)),
    "transpose": lambda x: (x.transpose(), x.transpose(1, 0), x.transpose((1, 0)), x.transpose(None)),
    "var": lambda x: x.var(),
    "view": lambda x: (x.view(), x.view(np.int32)),
}

NUMBERS = ["ctypes", "data", "dump", "dumps", "item", "tobytes", "tofile", "tolist"]
MISSING = ["base", "byteswap", "getfield", "resize", "setfield"]
ELSEWHERE = ["nonzero", "partition", "setflags"]


def test_every_name_of_numpys_arrays_is_known():
    names = {name for name in dir(np.ndarray) if not name.startswith("_")}
    assert names == {*WORKS, *NUMBERS, *MISSING, *ELSEWHERE}


@pytest.mark.parametrize("name", WORKS)
def test_methods(name: str):
    tolerance = 1e-6 if name in ("std", "var", "mean") else None
    check(WORKS[name], X, rtol=tolerance)


@pytest.mark.parametrize("name", NUMBERS)
def test_methods_that_need_numbers(name: str):
    error = refused("E802", lambda x: getattr(x, name)(), X)
    assert name in error.diagnostic.message and isinstance(error, NotImplementedError)


@pytest.mark.parametrize("name", MISSING)
def test_methods_that_cannot_be_traced(name: str):
    error = refused("E803", lambda x: getattr(x, name)(), X)
    assert isinstance(error, NotImplementedError) and name in error.diagnostic.message


def test_flags_and_partitions():
    def partition(x):
        x.partition(1)
        return x[:, 1]

    def frozen(x):
        y = x.copy()
        y.setflags(write=False)
        y[0] = 1

    check(partition, np.array([[3.0, 1, 2], [9, 8, 7]]).copy())
    check_error(frozen, X)
    refused("E804", lambda x: x.nonzero(), X)


def test_unknown_attributes():
    assert check(lambda x: hasattr(x, "nonsense"), X).result is False
    check_error(lambda x: x.nonsense, X)


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "float(x)": lambda x: float(x[0, 0]),
    "int(x)": lambda x: int(x.sum()),
    "complex(x)": lambda x: complex(x[0, 0]),
    "round": lambda x: math.floor(x[0, 0]),
    "as an index": lambda x: [1, 2, 3][x[0, 0].astype(int)],
    "as a size": lambda x: np.zeros(x[0, 0].astype(int)),
    "as a bound": lambda x: x[: x[0, 0].astype(int)],
    "range": lambda x: range(x[0, 0].astype(int)),
    "math.sqrt": lambda x: math.sqrt(x[0, 0]),
    "format": lambda x: f"{x[0, 0]:.2f}",
    "a type of NumPy": lambda x: np.float32(x),
    "a type of NumPy, of one number": lambda x: np.int32(x.sum()) + 1,
    "the type of elements": lambda x: x.dtype.type(x),
    "a type of another library": lambda x: ml_dtypes.bfloat16(x.sum()),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions(name: str):
    error = refused("E802", CONVERSIONS[name], X)
    found = error.diagnostic
    assert isinstance(error, TypeError) and found.hint and found.location is not None
    assert found.location.file == __file__
    assert "type" not in name or ".astype(" in found.hint


def test_what_arrays_cannot_do_either_is_said_as_python_says_it():
    with pytest.raises(TypeError, match="not callable"):
        trace(lambda x: x(1), [X], {})


CONTROL: dict[str, Callable[[Any], Any]] = {
    "if": lambda x: x if x.sum() > 0 else -x,
    "while": lambda x: [None for _ in iter(lambda: bool(x[0, 0] > 1), False)],
    "and": lambda x: (x[0, 0] > 1) and x,
    "not": lambda x: not x.any(),
    "in": lambda x: 3 in x,
    "chain": lambda x: 0 < x[0, 0] < 5,
    "max": lambda x: max(x[0, 0], x[0, 1]),
    "all": lambda x: all(x[0] > 1),
    "sorted": lambda x: sorted(x[0]),
    "one element": lambda x: bool(x[:1, :1]),
}


@pytest.mark.parametrize("name", CONTROL)
def test_control_flow_by_data(name: str):
    error = refused("E801", CONTROL[name], X)
    assert "np.where" in (error.diagnostic.hint or "")


def test_truth_of_several_elements_is_numpys_error():
    check_error(lambda x: bool(x), X)
    check_error(lambda x: x[0] > 1 and x, X)
    check_error(lambda x: bool(x[:0]), X)


def test_control_flow_by_shapes_and_types():
    def program(x):
        if x.shape[0] > 2 and x.ndim == 2 and x.dtype == np.float32 and len(x) == 3 and isinstance(x.size, int):
            for row in x[:2]:
                x = x + row
        return list(x), list(x[0]), [*x[1:]]

    check(program, X)
    check_error(lambda x: len(x[0, 0]), X)
    check_error(lambda x: list(x[0, 0]), X)
    check_error(lambda x: [*x[0, 0, ...]], X)


def test_copies():
    def program(x):
        y, z = copy.copy(x), copy.deepcopy({"x": x})["x"]
        y[0], z[1] = 1, 2
        return x, y, z

    check(program, X)


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "floor": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "divmod": lambda a, b: divmod(a, b),
    "power": lambda a, b: a**b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "left": lambda a, b: a << b,
    "right": lambda a, b: a >> b,
    "equal": lambda a, b: a == b,
    "unequal": lambda a, b: a != b,
    "less": lambda a, b: a < b,
    "at most": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "at least": lambda a, b: a >= b,
}
OTHERS: list[Any] = [
    2,
    True,
    np.int8(3),
    np.uint16(2),
    np.array([1, 2], np.int32),
    [2, 1],
    (1, 3),
    np.array([[1], [2]]),
]


@pytest.mark.req("S4-26")
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_and_their_reflections(name: str):
    function = OPERATORS[name]
    for other in OTHERS:
        check(lambda x, other=other: function(x, other), I)
        check(lambda x, other=other: function(other, x + 1), I)
    check(lambda x: (-x, +x, ~x, abs(x)), I)


def test_comparisons_with_things_that_are_no_numbers():
    check(lambda x: (x == None, x != None, x == "a", x[0, 0] == None), I)  # noqa: E711
    check_error(lambda x: x < None, I)


def test_matmul_operators():
    check(lambda x: (x @ x.T, x @ np.ones((4, 2), np.float32), np.ones(3, np.float32) @ x, [1.0, 2, 3] @ x), X)

    def in_place(x):
        x @= np.eye(4, dtype=np.float32)

    check(in_place, X)


def test_other_classes_decide_themselves():
    class Unit:
        __array_ufunc__ = None

        def __radd__(self, other):
            return "mine"

    assert check(lambda x: (x, x + Unit()), X).result[1] == "mine"
    check_error(lambda x: x + object(), X)
    check_error(lambda x: x + None, X)
    check_error(lambda x: x + "a", X)
    refused("E803", lambda x: x + 1j, X)


def test_shown():
    shown: list[str] = []
    trace(lambda x: (x, shown.append(f"{x} {x.sum()!r}")), (X,), {})
    assert shown == ["<traced array float32[3, 4]> <traced scalar float32[]>"]

"""64-bit integers in 32 bits: what intervals tell, what is followed, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.front.fuzz import function_of, generate, quiet
from tilewright.errors import TileError
from tilewright.front.function import trace
from tilewright.ir.core import Op, Value
from tilewright.tensor.fitting import check_integers, open_ops
from tilewright.tensor.interpret import interpret, run_op
from tilewright.tensor.intervals import Interval, interval_of_array, intervals_of
from tilewright.tensor.passes.narrow import Narrowed, narrow

SMALL = np.arange(-6, 6).reshape(3, 4)
LARGE = np.array([[40_000, -40_000], [3, 46_340]])
FEW = np.array([1, 2, 3])

TOLD: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "sum": (lambda x: x.sum() + x.sum(axis=0), [SMALL]),
    "running": (lambda x: np.cumsum(x, axis=1), [SMALL]),
    "product": (lambda x: np.prod(x % 2, axis=1), [SMALL]),
    "matmul": (lambda x: x @ x.T, [SMALL]),
    "square": (lambda x: x // 10 * (x // 10), [LARGE]),
    "positions": (lambda x: np.argsort(x, axis=1) + np.argmax(x, axis=1)[:, None], [LARGE]),
    "remainder": (lambda x: (x * 7) % 1000 + np.fmod(x, 10), [LARGE]),
    "choice": (lambda x: np.where(x > 0, x, -x) + np.clip(x, -3, 3), [LARGE]),
    "bits": (lambda x: (x & 255) | (x ^ 7), [LARGE]),
    "shifts": (lambda x: (x << 4) >> 2, [SMALL]),
    "moved": (lambda x: np.concatenate([x.T, x[:, ::-1]], axis=1) + np.pad(x, 1)[:2, 2:].sum(), [LARGE]),
    "made": (lambda x: x + np.arange(4) + np.ones(4, np.int64) * 5, [SMALL]),
    "chosen": (lambda x: np.take(x, np.array([1, 0]), axis=0)[:, [1, -1]], [SMALL]),
    "counted": (lambda x: np.count_nonzero(x > 0, axis=0) + np.bincount(x.ravel() % 5, minlength=5)[:4], [SMALL]),
    "power": (lambda x: x**5, [np.array([70, -70])]),
    "nothing": (lambda x: x.sum(axis=0), [np.zeros((0, 3), np.int64)]),
}
"""Programs of which the intervals of the arguments tell that all integers fit."""

FOLLOWED: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "cancels": (lambda x: x * x[:, ::-1], [np.array([[50_000, 1], [2, 60_000]])]),
    "of floats": (lambda x: np.floor(x).astype(np.int64) * 2, [np.array([1.5, -7.25], np.float32)]),
    "product": (lambda x: np.prod(x, axis=0), [np.array([[2000, 2], [2, 2000], [1, 1]])]),
    "sum": (lambda x: x.sum(axis=1), [np.array([[2**30, -5], [-(2**30), 5]])]),
}
"""Programs whose integers fit although their intervals do not."""

REFUSED: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "argument": (lambda x: x + 1, [np.array([2**31])]),
    "sum": (lambda x: x.sum(), [np.full(3, 2**30)]),
    "product": (lambda x: x * x, [LARGE * 2]),
    "within": (lambda x: x * x // (x * x), [np.array([46_341])]),
    "power": (lambda x: x**5, [np.array([74])]),
    "matmul": (lambda x: x @ x, [LARGE]),
    "of floats": (lambda x: x.astype(np.int64), [np.array([3e9], np.float32)]),
    "of infinity": (lambda x: x.astype(np.int64), [np.array([np.inf], np.float32)]),
    "shift": (lambda x: x << 30, [FEW]),
    "unsigned": (lambda x: x - np.uint64(2), [FEW.astype(np.uint64)]),
    "added": (lambda x: _added(x), [np.array([2**30, 1])]),
}


def _added(x: np.ndarray) -> np.ndarray:
    np.add.at(x, np.array([0, 0, 1]), x[np.array([0, 0, 0])])
    return x


def narrowed(function: Callable[..., Any], arrays: list[np.ndarray]) -> Narrowed:
    return narrow(trace(function, [x.copy() for x in arrays], {}).graph)


@pytest.mark.parametrize("name", TOLD)
def test_intervals_tell_that_integers_fit(name: str):
    function, arrays = TOLD[name]
    assert open_ops(narrowed(function, arrays), arrays) == []
    np.testing.assert_array_equal(tw.compile(function, *arrays)(*arrays), function(*arrays))


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_intervals_leave_open_is_followed(name: str):
    function, arrays = FOLLOWED[name]
    assert open_ops(narrowed(function, arrays), arrays)
    result = tw.compile(function, *arrays)(*arrays)
    assert result.dtype == np.int64
    np.testing.assert_array_equal(result, function(*arrays))


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name: str):
    function, arrays = REFUSED[name]
    kernel = tw.compile(function, *[x.copy() for x in arrays])
    with pytest.raises(TileError) as caught:
        kernel(*[x.copy() for x in arrays])
    assert caught.value.diagnostic.code == "E805"
    with pytest.raises(TileError) as same:
        kernel.interpret(*[x.copy() for x in arrays])
    assert same.value.diagnostic.message == caught.value.diagnostic.message


def test_refusals_name_the_line():
    kernel = tw.compile(lambda x: x * x, LARGE * 2)
    with pytest.raises(TileError) as caught:
        kernel(LARGE * 2)
    location = caught.value.diagnostic.location
    assert location is not None and location.file == __file__


def test_only_what_is_open_is_followed(monkeypatch: pytest.MonkeyPatch):
    """The rest of the program is not computed twice."""
    followed: list[str] = []
    follow = Narrowed.follow
    monkeypatch.setattr(
        Narrowed,
        "follow",
        lambda self, arrays, ops: (followed.extend(op.name for op in ops), follow(self, arrays, ops))[1],
    )
    x = np.array([60_000, 2])
    check_integers(narrowed(lambda x: (x * x[::-1], np.tanh(x), x + 1), [x]), [x])
    assert sorted(followed) == ["multiply", "slice"]


def test_intervals_hold():
    """Of random programs: every integer of a run lies between the numbers that its interval says."""
    rules = 0
    for seed in range(120):
        program = generate(seed + 7_000, 12)
        if program.refused is not None:
            continue
        arrays = [x.copy() for x in program.inputs.values()]
        with quiet():
            graph = trace(function_of(program), arrays, {}).graph
        known: dict[Value, Interval] = {v: interval_of_array(x) for v, x in zip(graph.inputs, arrays, strict=True)}

        def run(op: Op, values: dict[Value, np.ndarray], known: dict[Value, Interval] = known) -> Any:
            nonlocal rules
            found = run_op(op, values)
            intervals = intervals_of(op, [known[x] if isinstance(x, Value) else x for x in op.operands])
            for value, array, interval in zip(op.results, found, intervals, strict=True):
                known[value] = interval
                if array.size and array.dtype.kind in "biu":
                    rules += 1
                    assert interval.low <= int(array.min()) and int(array.max()) <= interval.high, str(op)
            return found

        interpret(graph, arrays, run)
    assert rules > 500

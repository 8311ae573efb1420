"""Gather, scatter, sorting, searching, Threefry and collectives as ops: meanings against NumPy or brute force."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright.tensor.ops  # noqa: F401  (fills the table)
from tilewright.dtypes import int32, int64
from tilewright.errors import TileError, TileIndexError, TileNotImplementedError
from tilewright.ir.build import Builder
from tilewright.ir.core import Graph, Value
from tilewright.ir.rewrite import rewrite, rules_of
from tilewright.ir.verify import check
from tilewright.tensor.build import emit_all
from tilewright.tensor.interpret import interpret
from tilewright.tensor.ops.collective import REDUCE
from tilewright.tensor.passes import expand_index
from tilewright.tensor.ranks import interpret_ranks
from tilewright.tensor.text import TENSOR, parse_tensor
from tilewright.tensor.types import type_of

RNG = np.random.default_rng(4)


def program(name: str, *arrays: np.ndarray, **attrs: Any) -> Graph:
    """A graph of one op, verified, as it comes back from its text."""
    inputs = [Value(type_of(a), f"x{i}") for i, a in enumerate(arrays)]
    graph = Graph("one", inputs, dialect=TENSOR)
    graph.outputs = emit_all(Builder(graph), name, *inputs, **attrs)
    check(graph)
    again = parse_tensor(str(graph))
    assert str(again) == str(graph)
    return again


def run(name: str, *arrays: np.ndarray, **attrs: Any) -> Any:
    """The results of one op, which stay the same when it is expanded into primitive ops."""
    graph = program(name, *arrays, **attrs)
    found = interpret(graph, arrays)
    rewrite(graph, rules_of(expand_index))
    check(graph)
    assert all(op.definition.primitive for op in graph.ops)
    again = interpret(graph, arrays)
    assert [x.tobytes() for x in again] == [x.tobytes() for x in found]
    return found[0] if len(found) == 1 else found


def total_order(row: np.ndarray, descending: bool) -> list[int]:
    """Positions by value, NaN greatest, equal ones in order: Python's own stable sort."""

    def key(i: int) -> tuple[bool, float]:
        value = float(row[i])
        nan = value != value
        return nan, 0.0 if nan else value

    keys = [key(i) for i in range(len(row))]
    sign = -1 if descending else 1
    return sorted(range(len(row)), key=lambda i: (sign * keys[i][0], sign * keys[i][1]))


@pytest.mark.req("S4-81")
@pytest.mark.parametrize("bad", [-4, 3, 2**31])
@pytest.mark.parametrize(
    "name", ["checked_index", "bounded_index", "take", "take_along_axis", "put_rows", "put_along_axis"]
)
def test_indices_outside_are_an_error(name: str, bad: int):
    index = np.array([0, bad, 1])
    x, part = np.zeros(3, np.float32), np.zeros(3, np.float32)
    operands = {"checked_index": (index,), "bounded_index": (index,), "take": (x, index), "take_along_axis": (x, index)}
    attrs = {"checked_index": {"size": 3}, "bounded_index": {"size": 3}, "put_rows": {}}.get(name, {"axis": 0})
    with pytest.raises(TileIndexError) as error:
        run(name, *operands.get(name, (x, index, part)), **attrs)
    assert error.value.diagnostic.code == "E301" and str(bad) in str(error.value)


def test_checked_index_counts_from_the_end():
    assert run("checked_index", np.array([-3, -1, 0, 2], np.int32), size=3).tolist() == [0, 2, 0, 2]


@pytest.mark.req("S4-82")
def test_rows_last_of_equal_indices_wins():
    x, index = np.zeros((4, 2), np.int32), np.array([1, 3, 1])
    part = np.array([[1, 2], [3, 4], [5, 6]], np.int32)
    assert run("put_rows", x, index, part).tolist() == [[0, 0], [5, 6], [0, 0], [3, 4]]
    assert run("combine_rows", x, index, part, combine="add").tolist() == [[0, 0], [6, 8], [0, 0], [3, 4]]
    assert not x.any()


@pytest.mark.parametrize("size", [0, 3, 9])
def test_nonzero(size: int):
    x = np.array([0, 2, 0, 3, 4, 0, 5])
    assert run("nonzero", x, size=size, fill=7, dtype=int64).tolist() == ([1, 3, 4, 6] + [7] * 5)[:size]


DATA = [
    np.array([3, 1, 2, 1, 3], np.int32),
    np.array([np.nan, 1, -np.inf, np.inf, 1, np.nan, -0.0, 0.0], np.float32),
    np.array([np.nan, 1, 3, 1, 2], ml_dtypes.bfloat16),
    np.array([True, False, True]),
    np.zeros(0, np.float32),
    np.array([2**63, 2**63 + 1, 0], np.uint64),
]


@pytest.mark.req("S4-69")
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("x", DATA, ids=lambda x: f"{x.dtype}{x.shape}")
def test_order(x: np.ndarray, descending: bool):
    """NaN is greatest, equal elements keep their order, indices are distinct."""
    wanted = total_order(x, descending) if x.dtype.kind != "u" else [2, 0, 1][:: -1 if descending else 1]
    assert run("argsort", x, axis=0, descending=descending, dtype=int32).tolist() == wanted
    assert run("sort", x, axis=0, descending=descending).tobytes() == x[wanted].tobytes()
    for k in (0, 1, x.size):
        values, index = run("topk", x, k=min(k, x.size), axis=0, largest=descending)
        assert index.dtype == np.uint32 and index.tolist() == wanted[: min(k, x.size)]
        assert values.tobytes() == x[index].tobytes()


def test_order_along_an_axis():
    x = RNG.integers(0, 5, (3, 7, 2))
    for axis in range(3):
        np.testing.assert_array_equal(run("sort", x, axis=axis, descending=False), np.sort(x, axis))
        np.testing.assert_array_equal(run("sort", x, axis=axis, descending=True), -np.sort(-x, axis))
        np.testing.assert_array_equal(
            run("argsort", x, axis=axis, descending=True, dtype=int64), np.argsort(-x, axis, kind="stable")
        )


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(right: bool):
    x = np.array([-np.inf, 0, 1, 1, 2, np.nan], np.float32)
    v = np.array([[-np.inf, -1, 0, 1], [1.5, 2, 3, np.nan]], np.float32)
    side = "right" if right else "left"
    np.testing.assert_array_equal(run("searchsorted", x, v, right=right, dtype=int64), np.searchsorted(x, v, side=side))


ONES = 2**32 - 1
KNOWN_ANSWERS = [
    # key, counter, result: the known answers that Random123 publishes for threefry2x32 with 20 rounds
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((ONES, ONES), (ONES, ONES), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("key", "counter", "wanted"), KNOWN_ANSWERS)
def test_threefry(key: tuple[int, int], counter: tuple[int, int], wanted: tuple[int, int]):
    x0, x1 = (np.full((2, 1), word, np.uint32) for word in counter)
    out = run("threefry2x32", np.array(key, np.uint32), x0, x1)
    assert [set(each.ravel().tolist()) for each in out] == [{wanted[0]}, {wanted[1]}]


@pytest.mark.req("S4-87")
@pytest.mark.parametrize("world", [2, 4, 8])
def test_collectives(world: int):
    """Distinct data per rank; what each rank gets is computed from all of them."""
    shape = (8, 3, 16)
    ranks = [RNG.standard_normal(shape).astype(np.float32) for _ in range(world)]
    everything = np.stack(ranks)
    for name, ufunc in REDUCE.items():
        total = ufunc.reduce(everything)
        out = gathered("all_reduce", ranks, combine=name, world=world)
        assert all(np.array_equal(each, total) for each in out)
        for axis in (0, 2):
            parts = gathered("reduce_scatter", ranks, combine=name, axis=axis, world=world)
            np.testing.assert_array_equal(np.concatenate(parts, axis), total)
    for axis in range(3):
        assert (
            program("all_gather", ranks[0], axis=axis, world=world).outputs[0].type.shape[axis] == shape[axis] * world
        )
        out = gathered("all_gather", ranks, axis=axis, world=world)
        assert all(np.array_equal(each, np.concatenate(ranks, axis)) for each in out)
    out = gathered("all_to_all", ranks, split_axis=0, concat_axis=1, world=world)
    step = 8 // world
    for rank, each in enumerate(out):
        wanted = [x[rank * step : (rank + 1) * step] for x in ranks]
        np.testing.assert_array_equal(each, np.concatenate(wanted, 1))


def gathered(name: str, ranks: list[np.ndarray], **attrs: Any) -> list[np.ndarray]:
    """What each rank gets from a collective."""
    graph = program(name, ranks[0], **attrs)
    return [out for (out,) in interpret_ranks(graph, [[x] for x in ranks])]


def test_collectives_need_all_ranks():
    x = np.zeros((4, 2), np.float32)
    with pytest.raises(TileNotImplementedError, match="E501"):
        run("all_reduce", x, combine="add", world=2)
    with pytest.raises(TileError, match="among 2 ranks, arrays of 3"):
        gathered("all_reduce", [x, x, x], combine="add", world=2)

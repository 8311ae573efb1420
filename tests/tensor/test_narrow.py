"""narrow: 64-bit types computed in 32 bits, floats rounded, integers right or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.front.kit import same
from tilewright.front.function import trace
from tilewright.front.pytree import leaves
from tilewright.ir.verify import verify
from tilewright.tensor.passes.narrow import narrow
from tilewright.tensor.text import parse_tensor

BIG = 2**31


def refused(function: Any, *args: Any) -> tw.Diagnostic:
    with pytest.raises(tw.TileError) as caught:
        tw.compile(function, *args)(*args)
    assert caught.value.diagnostic.code == "E805", str(caught.value)
    return caught.value.diagnostic


def test_no_64_bit_type_is_left():
    def program(x, i):
        y = np.cumsum(x * 1.5) + np.arange(4) + np.eye(4)[1]
        return y, x[i], np.argmax(x), np.where(x > 0, i, 7), y.astype(np.float32), np.array([0.1, 0.2, 0.4, 0.5]) @ x

    traced = trace(program, (np.ones(4), np.array([0, 1, 2, 3])), {})
    narrowed = narrow(traced.graph)
    values = [*narrowed.graph.inputs, *(value for op in narrowed.graph.ops for value in op.results)]
    assert not {str(value.type.dtype) for value in values} & {"float64", "int64", "uint64"}
    assert verify(narrowed.graph) == []
    assert str(parse_tensor(str(narrowed.graph))) == str(narrowed.graph)
    assert len(traced.graph.ops) == len(narrowed.graph.ops)


def test_results_are_widened_to_numpys_types():
    def program(x, i):
        return x / 3, np.sum(x), i + 1, np.argmax(x), x.astype(np.float32), x > 1, np.uint64(3) * i.astype(np.uint64)

    x, i = np.linspace(0, 1, 5), np.arange(5)
    for mine, theirs in zip(tw.compile(program, x, i)(x, i), program(x, i), strict=True):
        same(mine, theirs, rtol=1e-6)


def test_places_are_named():
    def program(x, y):
        z = x * 2.5
        return z.astype(np.float32) + y

    compiled = tw.compile(program, np.ones(3), np.ones(3, np.float32))
    line = program.__code__.co_firstlineno
    assert [(p.name, str(p.old), str(p.new), p.location and p.location.line) for p in compiled.narrowed] == [
        ("argument x", "float64", "float32", line),
        ("multiply", "float64", "float32", line + 1),
    ]
    assert str(compiled.narrowed[1]) == f"multiply: float64 computed as float32 at {__file__}:{line + 1}"
    assert tw.compile(lambda x: x * 2.5, np.ones(3, np.float32)).narrowed == ()


INTEGERS = {
    "add": (lambda x: x + x, BIG // 2, BIG // 2 - 1),
    "add a number": (lambda x: x + 5, BIG - 5, BIG - 6),
    "subtract": (lambda x: -5 - x, BIG - 4, BIG - 5),
    "multiply": (lambda x: x * x, 46341, 46340),
    "power": (lambda x: x**3, 1291, 1290),
    "sum": (lambda x: np.sum(x), BIG // 3 + 1, BIG // 3 - 1),
    "cumsum": (lambda x: np.cumsum(x), BIG // 3 + 1, BIG // 3 - 1),
    "prod": (lambda x: np.prod(x), 1291, 1290),
    "shift": (lambda x: x << 20, 2048, 2047),
    "matmul": (lambda x: x @ x, 26755, 26754),
    "negative": (lambda x: -(-x - 1) + 0 * x, BIG - 1, BIG - 2),
    "indices": (lambda x: np.arange(3) * x, BIG // 2, BIG // 2 - 1),
    "unsigned": (lambda x: x.astype(np.uint64) * np.uint64(4), 2**30, 2**30 - 1),
    "cast of a float": (lambda x: (x.astype(np.float32) * 2).astype(np.int64), 2**30, 2**30 - 128),
    "negative as unsigned": (lambda x: (x - 5).astype(np.uint64), 4, 5),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_right_or_refused(name: str):
    function, bad, good = INTEGERS[name]
    for number, fits in (bad, False), (good, True):
        x = np.full(3, number)
        if fits:
            same(tw.compile(function, x)(x), function(x))
        else:
            found = refused(function, x)
            assert found.location is not None and found.location.file == __file__


def test_arguments_that_do_not_fit():
    for bad in (
        np.array([1, BIG]),
        np.array([-BIG - 1]),
        np.array([2**32], np.uint64),
        np.array([1e39]),
        np.array(-1e300),
    ):
        assert "argument x" in refused(lambda x: x, bad).message or bad.dtype.kind == "f"
    for good in (np.array([BIG - 1, -BIG]), np.array([2**32 - 1], np.uint64), np.array([np.inf, np.nan, 3e38])):
        same(tw.compile(lambda x: x[::-1], good)(good), good[::-1], rtol=1e-6)


def test_constants_that_do_not_fit():
    x, i = np.ones(3), np.arange(3)
    for function, argument in (
        (lambda x: x * 1e39, x),
        (lambda x: x + np.array([1.0, 2e40, 3.0]), x),
        (lambda x: np.full_like(x, -1e300), x),
        (lambda x: np.where(x > 0, x, np.finfo(np.float64).min), x),
        (lambda i: i & 0xFFFFFFFF, i),
        (lambda i: i + np.array([0, 1, 2**40]), i),
        (lambda i: np.full_like(i, 2**35), i),
        (lambda i: i + np.arange(3) * 2**31, i),
        (lambda x: np.tri(3) * 1e100 + x, x),
    ):
        with pytest.raises(tw.TileError) as caught:
            tw.compile(function, argument)(argument)
        assert caught.value.diagnostic.code == "E805"


def test_types_that_the_hardware_has_wrap_as_numpys():
    def program(i):
        return i * i, np.cumsum(i, dtype=np.int32), i << 20, -i - i

    i = np.array([2**30, -(2**31), 70_000], np.int32)
    for mine, theirs in zip(tw.compile(program, i)(i), program(i), strict=True):
        same(mine, theirs)


def test_bits_of_64_bit_types():
    refused(lambda x: x.view(np.int64), np.ones(3))
    same(
        tw.compile(lambda x: x.view(np.int32), np.ones(3, np.float32))(np.ones(3, np.float32)),
        np.full(3, 0x3F800000, np.int32),
    )


@pytest.mark.req("S4-63")
def test_positions_and_counts_are_exact():
    i = np.array([2**24, 2**24 + 1, 2**24 - 1], np.int32)
    j = i.astype(np.int64)

    def program(x):
        return np.argmax(x), np.argmin(x), np.max(x), np.sum(x > 2**24), x - 1, x % 7, x // 3

    for x in (i, j):
        for mine, theirs in zip(tw.compile(program, x)(x), program(x), strict=True):
            same(mine, theirs)


WHOLE = np.array([2**24 + 1, 2**24 - 1, 2**30 + 1, 2**31 - 1, -1, 0, -(2**24) - 1, 2**25 + 3, 123456789], np.int32)
"""Integers that lie beside what float32 holds, and some that it holds."""
BESIDE = np.array([2**24, 2**24, 2**30, 2**31, -1 + 2**-24, 0, -(2**24), 2**25 + 4, np.inf], np.float32)


def test_integers_are_compared_with_floats_as_in_float64():
    def program(i, u, x):
        beside = (i < x, i <= x, i == x, i[:, None] > x, x >= i, u != x, i.astype(np.int64) < x, x[::-1] > u[::-1].T)
        numbers = (i < 2**24 + 0.5, u == 2.0**24 + 1, i > 1e300, i != 0.1, i < 3 - 1e-12, i < np.array([2**24 + 0.5]))
        return *beside, *numbers, i.astype(float) < u.astype(float), i > np.nan

    arguments = WHOLE, np.abs(WHOLE).astype(np.uint32) + np.uint32(2**31), BESIDE
    for mine, theirs in zip(tw.compile(program, *arguments, check="off")(*arguments), program(*arguments), strict=True):
        same(mine, theirs)


def test_what_is_left_of_integers_less_floats():
    def program(i, x):
        return i - x, x - i, i - 16777216.0, np.sign(i - x), i + -x[::-1]

    x = np.where(np.isinf(BESIDE), 0, BESIDE)
    for mine, theirs in zip(tw.compile(program, WHOLE, x, check="off")(WHOLE, x), program(WHOLE, x), strict=True):
        same(mine, theirs, rtol=1e-6)


def test_ops_that_depend_on_the_last_digit_of_an_integer():
    for function in (
        lambda i: i % 7.0,
        np.sin,
        lambda i: np.maximum(i, 0.5) == i,
        lambda i: np.searchsorted(np.array([0.5, 16777216.5]), i),
        lambda i: np.argmax(i.astype(float)),
        np.frexp,
    ):
        small = WHOLE % 2**20
        for mine, theirs in zip(leaves(tw.compile(function, small)(small)), leaves(function(small)), strict=True):
            same(mine[1], theirs[1], rtol=1e-5, atol=1e-6)
        assert "float32 does not hold it" in refused(function, WHOLE).message

"""Elementwise functions end to end: every broadcast, every kind of number, results that are views or arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import TARGETS, check, floats
from tilewright.ir.walk import walk
from tilewright.target import get_target

PAIRS = [
    ((), ()),
    ((7,), ()),
    ((1,), (300,)),
    ((300, 5), (5,)),
    ((300, 5), (300, 1)),
    ((1, 5), (130, 1)),
    ((129, 1, 3), (4, 3)),
    ((2, 129, 3), (2, 1, 1)),
    ((2, 3, 130), (3, 1)),
    ((2, 1, 4, 1), (3, 1, 5)),
    ((2, 3, 2, 3, 5), (2, 1, 2, 1, 5)),
    ((1, 1, 1000), (3, 2, 1)),
]


@pytest.mark.req("S4-26")
@pytest.mark.req("S4-37")
@pytest.mark.req("S4-56")
@pytest.mark.parametrize(("one", "other"), PAIRS, ids=str)
def test_broadcasts(one: tuple[int, ...], other: tuple[int, ...]):
    """Two operands of any shapes, several functions of them, in both orders."""
    x, y = floats(*one), floats(*other, seed=1)

    def function(x: Any, y: Any) -> Any:
        return x + y, y - x, x * y, np.maximum(y, x), x > y, np.where(x < y, x, 1.5), y / (x * x + 1)

    check(function, x, y, tolerance=1e-6)


EDGES = (
    np.concatenate(
        [
            np.array(
                [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 0.5, 2.5, -7.25, 3.0, 0.9999, 1.0001]
            ),
            np.array([1e-45, -1e-45, 1e-40, 1.2e-38, 2.0**-64, 2.0**-66, 1e-30, 1e-10, 2.0**64, 2.0**66, 1e30, 1e10]),
            np.array([88.0, -88.0, 104.0]),
        ]
    )
    .astype(np.float32)
    .reshape(5, 6)
)
UNARY: tuple[tuple[Callable[[Any], Any], float], ...] = (
    (np.negative, 0),
    (np.abs, 0),
    (np.sign, 0),
    (np.square, 0),
    (np.reciprocal, 1e-6),
    (np.exp, 1e-6),
    (np.log, 1e-6),
    (np.sqrt, 1e-6),
    (lambda x: 1 / np.sqrt(x), 1e-6),
    (np.tanh, 1e-6),
    (np.arctan, 1e-6),
    (np.log1p, 1e-6),
    (np.log2, 1e-6),
    (np.expm1, 1e-6),
    (np.isnan, 0),
    (np.isfinite, 0),
    (np.logical_not, 0),
)


@pytest.mark.req("S4-25")
@pytest.mark.req("S4-35")
@pytest.mark.req("S4-41")
@pytest.mark.parametrize(("function", "tolerance"), UNARY)
def test_every_kind_of_number(function: Callable[[Any], Any], tolerance: float):
    """Zeros, infinities, NaN, numbers near both ends of the range: also where an engine's own function is not valid."""
    with np.errstate(all="ignore"):
        expected = function(EDGES)
    for target in TARGETS:
        actual = tw.compile(function, EDGES, target=target).simulate(EDGES)
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=1e-44)


@pytest.mark.req("S4-28")
@pytest.mark.req("S4-32")
@pytest.mark.req("S4-38")
def test_rounding():
    """Halves go to even numbers, large numbers and -0.0 stay."""
    wide = np.array(
        [0.5, 1.5, 2.5, -0.5, -1.5, 2**23 + 1, 2**31, 2**31 + 512, -(2.0**40), 1e38, 0.49999997], np.float32
    )
    x = np.concatenate([EDGES.ravel(), wide])
    for function in (np.floor, np.ceil, np.rint, np.trunc):
        kernel = check(function, x)
        zero = np.array([-0.0, -0.3, 0.3], np.float32)
        np.testing.assert_array_equal(np.signbit(tw.compile(function, zero).simulate(zero)), np.signbit(function(zero)))
        assert kernel.tile_ir


@pytest.mark.req("S4-29")
@pytest.mark.req("S4-30")
@pytest.mark.req("S4-31")
def test_quotients_and_remainders():
    a = np.array([7.0, -7.0, 2.0, 6.0, 1e6, 0.3, -0.0, 5.5, np.inf, 3.0], np.float32)
    b = np.array([2.0, 2.0, 1.0, -3.0, 7.0, 0.1, 5.0, -2.5, 2.0, np.inf], np.float32)
    check(lambda a, b: (a // b, a % b), a, b, tolerance=1e-6)
    q, n = np.arange(-100, 100, dtype=np.float32), np.array([[3.0], [7.0], [-11.0], [0.1]], np.float32)
    check(lambda a, b: a // b, (q * n).astype(np.float32), n)
    i = np.array([2**30 + 7, -(2**30) - 7, 2**24 + 1, -1, 17, 0], np.int32)
    check(lambda a, b: (a // b, a % b), i, np.array([10, 10, -3, 2**24, -5, 9], np.int32))


@pytest.mark.req("S4-33")
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, -1, 2.5])
def test_powers(exponent: float):
    x = np.linspace(-3, 3, 31, dtype=np.float32)
    check(lambda x: x**exponent, x, tolerance=1e-5)


@pytest.mark.req("S4-39")
@pytest.mark.req("S4-40")
def test_choices():
    """What is not chosen may be infinite or NaN; conditions of any type and rank."""
    x = floats(130, 6)
    mask = np.array([True, False, True, True, False, True])
    check(lambda x: np.where(mask, x, -np.inf), x)
    check(lambda x: np.where(x > 0, np.log(x), 0.0), x, tolerance=1e-6)
    check(lambda x, c: np.where(c, x, 2.0), x, np.arange(6, dtype=np.int32) % 2)
    check(lambda x, c: np.where(c, 1, x), x, np.array([0.0, 0.5, np.nan, -1.0, 0.0, 2.0], np.float32))
    check(lambda x, y: np.where(x > y, x, y), np.full((3, 4), np.inf, np.float32), np.full((3, 1), np.nan, np.float32))


@pytest.mark.req("S4-24")
def test_numbers_and_nothing():
    """Arrays of rank 0 and of no elements."""
    x, none = np.float32(3.0), np.zeros((0, 4), np.float32)
    check(lambda x: (x + 1, np.sum(x), x.reshape(1, 1)), np.asarray(x))
    check(lambda x, n: (n, n * 2, n.sum(0), np.concatenate([n, x]), n.T @ n, np.pad(n, 1)), floats(2, 4), none)


@pytest.mark.req("S4-43")
def test_results_that_are_arguments_constants_or_each_other():
    x = floats(130, 5)
    table = np.arange(15, dtype=np.float32).reshape(3, 5)
    check(lambda x: (x, x[3:7], x.T, table, np.zeros((2, 3)), np.arange(7), x), x)
    check(lambda x: [y := x * 2, y, y[::2], y.reshape(5, 130)], x)


@pytest.mark.req("S4-85")
def test_writing_through_views():
    def function(a: Any, b: Any) -> Any:
        view = a[0:5, :]
        before = view.sum()
        inner = view[1:4, ::2]
        inner[1:3, 1:2] = b
        view *= 2
        a[::3] += 1
        return before, inner + 0, a.sum(0)

    check(function, floats(140, 6), floats(2, 1, seed=1), tolerance=1e-6)


def test_many_readers():
    """A value that many ops read, and ops that read one value several times."""

    def function(x: Any) -> Any:
        y = np.exp(x)
        return [y * i + x for i in range(6)], y * y + y, (y - x) / (y + x * x + 1)

    check(function, floats(200, 9), tolerance=1e-6)


def test_limits_are_those_of_the_target():
    """What the Scalar engine does itself needs no more instructions than that."""
    assert get_target("trn2")["limits.activation_range.log"][0] > 0
    kernel = check(lambda x: np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1)), floats(128, 50), tolerance=1e-6)
    assert kernel.report.instructions <= 6


@pytest.mark.parametrize("rows", [257, 386, 389])
def test_single_rows_after_several_to_a_partition(rows: int):
    """An input that is kept on chip in blocks of one row per partition, read by a group that takes several."""
    check(lambda x: (x.min(axis=0), np.abs(x) * 2 + x.min(axis=0)), floats(rows, 7), tolerance=1e-6)


def _rotated(x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    first, second = x[:, :, :half], x[:, :, half:]
    c, s = np.expand_dims(cos, 1), np.expand_dims(sin, 1)
    return np.concatenate([first * c - second * s, first * s + second * c], axis=-1)


@pytest.mark.parametrize("rows", [129, 256, 300])
def test_small_tables_beside_full_tiles(rows: int):
    """Tables are loaded for all rows at once, and what is joined is made in its place."""
    kernel = check(_rotated, floats(rows, 4, 128), floats(rows, 64, seed=1), floats(rows, 64, seed=2), tolerance=1e-6)
    blocks = -(-rows // 128)
    assert kernel.report.instructions <= 8 * blocks + 8


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_joins_within_joins_are_made_in_their_place(dtype: Any):
    """Each part is written once, integers too: no join is copied into another."""
    x = np.random.default_rng(0).integers(0, 99, (128, 300)).astype(dtype)

    def beside(x: Any) -> Any:
        before = np.concatenate([x[:, :1], x[:, :-1]], axis=1)
        return np.stack([before, x], axis=-1).reshape(128, -1) + dtype(1)

    kernel = check(beside, x)
    copies = [op for op in walk(kernel.tile_ir) if op.name == "tensor_copy"]
    assert sum(op.operands[0].size for op in copies) <= 128 * 600
    check(lambda x: np.concatenate([np.concatenate([x + dtype(1), x], 1), x * dtype(2)], 1), x)


def test_bits_are_read_where_they_are():
    x = tw.spec((256, 512), np.float32)
    for function in (np.rint, np.sin, lambda x: np.where(np.signbit(x), x * 2, 1 - x), lambda x: x.view(np.int32) << 3):
        kernel = tw.compile(function, x, check="off")
        copies = [op for op in walk(kernel.tile_ir) if op.name == "tensor_copy" and op.operands[1].dtype == "int32"]
        assert not [op for op in copies if op.operands[0].dtype == "int32"]


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint32])
def test_shifts_by_numbers(dtype: Any):
    info = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(info.min, info.max, (70, 33), endpoint=True).astype(dtype)
    x[0, :3] = info.min, info.max, 0
    amounts = [0, 1, 4, 7, 8, info.bits - 1, info.bits, info.bits + 3]
    check(lambda x: tuple(x << dtype(n) for n in amounts) + tuple(x >> dtype(n) for n in amounts), x)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32])
def test_two_operators_on_bits(dtype: Any):
    """In one instruction, unless another reads the first result or a number has a sign that a shift would spread."""
    info = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(info.min, info.max, (64, 32), endpoint=True).astype(dtype)

    def once(x: Any) -> Any:
        return ((x << dtype(3)) | dtype(5), (x & dtype(60)) << dtype(2), (dtype(7) ^ x) & dtype(13))

    def apart(x: Any) -> Any:
        low = x & dtype(15)
        return low, low << dtype(4), (x >> dtype(4)) & dtype(15), (x >> dtype(info.bits - 1)) ^ dtype(1)

    kernel = check(once, x)
    assert kernel.report.instructions_by_name["tensor_scalar"] == 3
    assert "tensor_copy" not in kernel.report.instructions_by_name
    check(apart, x)


def test_bit_patterns_have_two_engines():
    """What bits are does not depend on who computes them; arithmetic of 32-bit integers does."""
    x = np.random.default_rng(0).integers(0, 1 << 32, (512, 2048), np.uint32)

    def scramble(x: Any) -> Any:
        for _ in range(2):
            x = x ^ (x << np.uint32(13))
            x = x ^ (x >> np.uint32(17))
        return x

    kernel = check(scramble, x)
    assert kernel.report.instructions_by_engine["gpsimd"]
    assert kernel.report.engine_busy_us["vector"] < 1.5 * kernel.report.engine_busy_us["gpsimd"]
    check(lambda x: (x + (x << np.uint32(3)), x * x), x[:130, :70])


def test_a_number_is_chosen_in_one_pass():
    """Where one side is a number, or one of each row, nothing is copied first."""
    x = floats(128, 90)
    x[:, ::7] = np.nan
    for function in (
        lambda x: np.where(x > 0, x, 0.5),
        lambda x: np.where(x > 0, -np.inf, x),
        lambda x: np.where(x > 0, x[:, :1], x),
    ):
        kernel = check(function, x)
        assert kernel.report.instructions_by_name.get("select_reduce")
        assert "tensor_copy_predicated" not in kernel.report.instructions_by_name
    check(lambda x: np.where(x > 0, x, ml_dtypes.bfloat16(2)), x.astype(ml_dtypes.bfloat16))


def _instructions(function: Any, *arrays: np.ndarray) -> int:
    """Instructions of one tile, transfers left out."""
    counts = check(function, *arrays, tolerance=1e-6).report.instructions_by_engine
    return sum(n for engine, n in counts.items() if engine != "dma")


def test_signs_and_factors_need_no_instructions_of_their_own():
    x, y = floats(128, 300), floats(128, 300, seed=1)
    assert _instructions(lambda x: np.exp(-x * x), x) == 2
    assert _instructions(lambda x, y: -x * y, x, y) == 1
    assert _instructions(lambda x, y: y + (-x) * y, x, y) == 2
    # Functions multiply by a number what they read.
    assert _instructions(lambda x: np.sign(x * np.float32(0.7)) * np.abs(x * np.float32(0.7)), x) == 3
    # What adds one can multiply before: 0.7 x and 0.7 x + 1.
    assert _instructions(lambda x: np.tanh(x * np.float32(0.7)) * (x * np.float32(0.7) + 1), x) <= 3


def test_logarithms_of_what_is_known_need_less():
    x = floats(128, 300)
    above, below, any_x = (lambda x: np.log(np.exp(x) + 1), lambda x: np.log(np.minimum(x, 1)), np.log)
    assert _instructions(above, x) < _instructions(any_x, np.abs(x))
    assert _instructions(below, np.abs(x)) <= _instructions(any_x, np.abs(x))
    assert _instructions(lambda x: np.log1p(np.exp(-np.abs(x))), x) <= 8


def test_comparisons_beside_other_truth_values_are_one_pass():
    def function(x: Any, y: Any) -> Any:
        b = y > 0
        inside, outside = (x > -1) & b, b | (x <= 0.5)
        return inside, outside, (b ^ (x == 0)).astype(np.int8), np.where((x > 2) & (y < x), x, y)

    x, y = floats(200, 60), floats(200, 60, seed=1)
    x[0, :9] = [0, -0.0, np.nan, np.inf, -np.inf, 2, 0.5, -1, np.nan]
    y[0, :9] = [np.nan, 1, 1, 1, np.nan, 0, -0.0, np.inf, 0]
    kernel = check(function, x, y)
    mixed = [op for op in walk(kernel.tile_ir) if op.name == "scalar_tensor_tensor"]
    assert {op.attrs["op1"] for op in mixed} == {"multiply", "maximum", "not_equal"}
    assert not [op for op in walk(kernel.tile_ir) if op.attrs.get("op") in ("bitwise_or", "bitwise_and", "bitwise_xor")]

"""The least work of the engines: products in their cheapest exact form, passes at the best split, chains."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.bounds.kit import bound_of, spec, tensor_us
from tilewright.bounds.rates import Rates, function
from tilewright.target import get_target

N = 512
COLUMNS = N**3 / (128 * 128)
BF16 = ml_dtypes.bfloat16
F8 = ml_dtypes.float8_e4m3
NOISE = np.random.default_rng(0).standard_normal((N, N)).astype(np.float32)


def wide(x):
    return x.astype(np.float32)


A, B = spec(N, N), spec(N, N)
HALF = spec(N, N, dtype=BF16)
PRODUCTS = {
    "float32": (lambda a, b: a @ b, (A, B), 4),
    "float32 and bfloat16": (lambda a, b: a @ b, (A, HALF), 3),
    "bfloat16": (lambda a, b: a @ b, (HALF, HALF), 1),
    "bfloat16, transposed": (lambda a, b: a.T @ b, (HALF, HALF), 1),
    "bfloat16, result in float32": (lambda a, b: wide(a) @ wide(b), (HALF, HALF), 1),
    "bfloat16, cast and moved": (lambda a, b: wide(a).T[::-1] @ wide(b), (HALF, HALF), 1),
    "bfloat16, chosen and clipped": (lambda a, b: np.maximum(wide(a), 0) @ wide(b), (HALF, HALF), 1),
    "integers of 8 bits": (
        lambda a, b: a.astype(np.int32) @ b.astype(np.int32),
        (spec(N, N, dtype=np.int8), spec(N, N, dtype=np.int8)),
        1,
    ),
    "scaled by columns": (lambda a, b, c: a @ (wide(b) * c), (A, spec(N, N, dtype=np.int8), spec(N)), 3),
    "scaled by rows, turned": (lambda a, b, c: a @ (wide(b) / c).T, (A, spec(N, N, dtype=np.int8), spec(N, 1)), 3),
    "scaled along the sum": (lambda a, b, c: a @ (wide(b) * c), (A, spec(N, N, dtype=np.int8), spec(N, 1)), 4),
    "truth values": (lambda a, b: wide(a > 0) @ b, (A, B), 2),
    "two of truth values": (lambda a, b: wide(a > 0) @ wide(b > 0), (A, B), 0.5),
    "a lower triangle": (lambda a, b: np.tril(a) @ b, (A, B), 4 * (N + 1) / (2 * N)),
    "triangle of the result": (lambda a, b: np.tril(a @ b), (A, B), 4 * (N + 1) / (2 * N)),
    "a quarter of the rows": (lambda a, b: (a @ b)[: N // 4], (A, B), 1),
    "zeros around it": (lambda a, b: np.pad(a[: N // 4], ((0, 3 * N // 4), (0, 0))) @ b, (A, B), 1),
    "a block-diagonal constant": (
        lambda b: (np.kron(np.eye(4), np.ones((N // 4, N // 4))).astype(np.float32) * NOISE) @ b,
        (B,),
        1,
    ),
    "the same product twice": (lambda a, b: (a @ b) * (b.T @ a.T).T, (A, B), 4),
    "rows that repeat": (lambda a, b: np.tile(a[: N // 4], (4, 1)) @ b, (A, B), 1),
    "a factor that does not vary": (lambda b: np.ones((N, N), np.float32) @ b, (B,), 0),
    "heads in a loop": (
        lambda a, b: np.stack([a[i : i + 128] @ b[i : i + 128].T for i in range(0, N, 128)]),
        (A, B),
        1,
    ),
}


@pytest.mark.parametrize("case", PRODUCTS)
def test_products(case: str):
    """Cycles per column are those of N**3 multiplications."""
    made, args, cycles = PRODUCTS[case]
    assert bound_of(made, *args).us(get_target("trn2"))["tensor"] == pytest.approx(tensor_us(COLUMNS, cycles))


@pytest.mark.parametrize(("precision", "cycles"), [("float32", 4), ("bf16x3", 3), ("bf16", 1)])
def test_precision_decides_the_form(precision: str, cycles: float):
    found = bound_of(lambda a, b: a @ b, A, B, precision=precision)
    assert found.tensor_ns / 1e3 == pytest.approx(tensor_us(COLUMNS, cycles))


def masked(mask):
    def attention(q, k, v):
        s = mask(q @ k.T / 8)
        e = np.exp(s - s.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True)) @ v

    return attention


I, J = np.arange(N)[:, None], np.arange(N)[None, :]
CAUSAL = N * (N + 1) / 2
WINDOW = CAUSAL - (N - 64) * (N - 63) / 2
"""Each row sees 64 columns, its own the last."""
DENSE = np.random.default_rng(1).random((N, N)) < 0.25
MASKS = {
    "where": (masked(lambda s: np.where(J <= I, s, -1e30)), CAUSAL),
    "tri": (masked(lambda s: np.where(np.tri(N, dtype=bool), s, -np.inf)), CAUSAL),
    "added": (masked(lambda s: s + np.triu(np.full((N, N), -1e9, np.float32), 1)), CAUSAL),
    "window": (masked(lambda s: np.where((J <= I) & (I - J < 64), s, -1e30)), WINDOW),
    "window, added": (masked(lambda s: s + np.where((J <= I) & (I - J < 64), 0, -np.inf).astype(np.float32)), WINDOW),
    "any constant": (masked(lambda s: np.where(DENSE, s, -np.inf)), float(DENSE.sum())),
}


@pytest.mark.parametrize("case", MASKS)
def test_work_that_masks_make_zero_is_left_out(case: str):
    made, seen = MASKS[case]
    found = bound_of(made, spec(N, 64), spec(N, 64), spec(N, 64))
    assert found.tensor_ns / 1e3 == pytest.approx(tensor_us(2 * seen * 64 / (128 * 128), 4))
    whole = bound_of(masked(lambda s: s), spec(N, 64), spec(N, 64), spec(N, 64))
    assert found.work.least_ns <= whole.work.least_ns * seen / N**2 * 1.01


def gathered(q, k, v, i):
    blocks, width = i.shape[1] * k.shape[1], k.shape[-1]
    keys, values = (x[i].reshape(len(i), blocks, width) for x in (k, v))
    s = q @ np.swapaxes(keys, 1, 2) / 8
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)) @ values


@pytest.mark.parametrize(("chosen", "of"), [(4, 16), (4, 8), (8, 4)])
def test_attention_over_gathered_blocks_counts_its_exponentials(chosen: int, of: int):
    """Each block of queries with the keys that indices choose: all of them may differ, up to as many as there are."""
    blocks, rows, d = 16, 64, 64
    args = spec(blocks, rows, d), spec(of, rows, d), spec(of, rows, d), spec(blocks, chosen, dtype=np.int32)
    found = bound_of(gathered, *args)
    keys = chosen * rows if chosen <= of else rows
    scalar = blocks * rows * keys / 128 / get_target("trn2")["clock_ghz.scalar"]
    assert scalar <= found.work.least_ns <= 2 * scalar


def test_the_same_block_for_many_rows_counts_once_where_nothing_else_tells_them_apart():
    scalar = 64 * 64 / LANES / get_target("trn2")["clock_ghz.scalar"]
    args = spec(1, 64, 64), spec(9, dtype=np.int32)
    assert passes_ns(lambda k, i: np.exp(k[i]), *args) == pytest.approx(scalar)
    assert passes_ns(lambda k, i: np.exp((k[i] * 2).reshape(9 * 64, 64).T), *args) == pytest.approx(scalar)
    assert passes_ns(lambda k, i: np.exp(k[i] @ k[i]), *args) == pytest.approx(scalar)


MIXED = np.random.default_rng(0).permutation(N)
ROWS = {
    "in another order": (lambda x, i: np.exp(x[MIXED]), N),
    "each twice": (lambda x, i: np.exp(x[MIXED // 2]), N // 2),
    "each twice, several dims": (lambda x, i: np.exp(x[(MIXED // 2).reshape(-1, 2)]), N // 2),
    "some, several dims": (lambda x, i: np.exp(x[MIXED[:48].reshape(4, 12)]), 48),
    "along an axis, each twice": (
        lambda x, i: np.exp(np.take_along_axis(x, np.repeat(MIXED[:, None] // 2, N, 1), 0)),
        N // 2,
    ),
    "of rows and of columns": (lambda x, i: np.exp(x[np.ix_(MIXED[:16], np.repeat(MIXED[:16], 4))]), 16 * 16 / N),
    "of few rows a few columns": (lambda x, i: np.exp(x[MIXED // 64][:, MIXED[:16]]), 8 * 16 / N),
    "and all of them": (lambda x, i: (np.exp(x), np.exp(x[MIXED])), N),
    "in two orders": (lambda x, i: (np.exp(x[MIXED]), np.exp(x[MIXED[::-1]])), N),
    "given, and all of them": (lambda x, i: (np.exp(x), np.exp(x[i])), N),
    "given, of a few": (lambda x, i: np.exp(x[i % 5]), 5),
    "given, a few many times": (lambda x, i: np.exp(x[np.broadcast_to(i[:4], (64, 4))]), 4),
    "given, some": (lambda x, i: np.exp(x[i[::2]]), N // 2),
}
"""What is made of rows that are picked, and how many rows there are to compute."""


@pytest.mark.parametrize("case", ROWS)
def test_rows_that_are_picked_more_than_once_are_computed_once(case: str):
    made, rows = ROWS[case]
    # Which of the rows that are left are equal is not followed.
    least = 0.0 if case == "of few rows a few columns" else 0.6
    most = bound_of(lambda x: np.exp(x), spec(N, N)).work.least_ns * rows / N
    found = bound_of(made, spec(N, N), spec(N, dtype=np.int32)).work.least_ns
    assert most * least <= found <= most * 1.01


def test_convolutions_count_the_windows_that_lie_inside():
    def padded(x, w):
        import tilewright as tw

        return tw.conv(x, w, padding=1)

    found = bound_of(padded, spec(1, 64, 16, 16), spec(64, 64, 3, 3))
    inside = (3 * 16 - 2) ** 2
    assert found.tensor_ns / 1e3 == pytest.approx(tensor_us(64 * 64 * inside / (128 * 128), 4))


LANES = 128
ELEMENTS = N * N / LANES


def passes_ns(made, *args, target: str = "trn2") -> float:
    return bound_of(made, *args, target=target).work.least_ns


def test_a_function_takes_the_scalar_engine_and_what_it_does_on_the_way_nothing():
    scalar = ELEMENTS / get_target("trn2")["clock_ghz.scalar"]
    assert passes_ns(lambda a: np.exp(a), A) == pytest.approx(scalar)
    assert passes_ns(lambda a: np.exp(2 * a + 1).sum(1), A) == pytest.approx(scalar)
    assert passes_ns(lambda a, c: (np.exp(a * c) + c).astype(BF16), A, spec(N)) == pytest.approx(scalar)
    assert passes_ns(lambda a: np.tanh(np.exp(a)), A) == pytest.approx(2 * scalar)
    assert passes_ns(lambda a: (np.exp(a), np.exp(a.T), np.exp(a[::-1])), A) == pytest.approx(scalar)
    assert passes_ns(lambda a: (np.exp(a[:128]), np.exp(a[128:])), A) == pytest.approx(scalar)
    assert passes_ns(lambda c: np.exp(np.broadcast_to(c, (N, N))), spec(N)) == pytest.approx(scalar / N)
    assert passes_ns(lambda t, i: np.exp(t[i]), spec(4, N), spec(N, dtype=np.int32)) == pytest.approx(scalar * 4 / N)
    assert passes_ns(lambda a: np.exp(a)[:8], A) == pytest.approx(scalar * 8 / N)


def test_passes_are_split_over_the_engines_that_have_them():
    target = get_target("trn2")
    vector, gpsimd = target["clock_ghz.vector"], target["clock_ghz.gpsimd"] / 2
    split = ELEMENTS / (vector + gpsimd)
    assert passes_ns(lambda a, b: a * b, A, B) == pytest.approx(split, rel=0.03)
    assert passes_ns(lambda a, b: a * b, A, B) <= split * (1 + 1e-9)
    both = passes_ns(lambda a, b: np.exp(a) * np.maximum(a, b), A, B)
    assert split <= both <= 2 * split + ELEMENTS / target["clock_ghz.scalar"]


@pytest.mark.parametrize(
    "made",
    [
        lambda a, b: a.T,
        lambda a, b: 2 * a + 1,
        lambda a, b: a.sum(0),
        lambda a, b: a @ b + a,
        lambda a, b: a * a,
        lambda a, b: np.where(np.tri(N, dtype=bool), a, 0),
        lambda a, b: np.concatenate([a, b]),
        lambda a, b: a + np.roll(a, 1, 0),
        lambda a, b: a * b[0] + b[:, :1],
        lambda a, b: np.exp(NOISE),
    ],
)
def test_what_moves_or_rides_along_is_free(made):
    assert passes_ns(made, A, B) == 0


def test_columns_are_operands_of_any_engine():
    """Less than an instruction takes besides: kernels may do it elsewhere."""
    few = spec(1, 3, 1), spec(1, 3, 1)
    assert passes_ns(lambda a, b: a.transpose(1, 0, 2) + b.transpose(1, 0, 2) * 2, *few) == 0
    assert passes_ns(lambda a: np.exp(a), spec(1, 3, 1)) > 0


def test_reductions_count_unless_a_pass_before_them_does_them():
    assert passes_ns(lambda a: a.max(1), A) > 0
    assert passes_ns(lambda a: np.exp(a).max(1), A) == passes_ns(lambda a: np.exp(a), A)
    assert passes_ns(lambda a: np.cumsum(a, 1), A) > 0


def test_rates_are_those_of_the_records():
    """A faster Scalar engine makes functions cheaper by as much."""
    target = get_target("trn2")
    clock = target["clock_ghz.scalar"]
    probes = function("tanh")
    each = Rates(target).per_element("tanh", probes, True)
    assert each == {"scalar": pytest.approx(1 / clock / LANES)}
    faster = target.replace({"clock_ghz.scalar": 2 * clock})
    assert Rates(faster).per_element("tanh", probes, True)["scalar"] == pytest.approx(each["scalar"] / 2)


def test_a_chain_of_functions_counts_each_and_a_linear_run_once():
    def chain(made) -> float:
        return bound_of(made, spec(8, 8), spec(8, 8)).chain_ns

    def recurrent(steps: int):
        def made(h, w):
            for _ in range(steps):
                h = np.tanh(h @ w)
            return h

        return made

    def linear(steps: int):
        def made(h, w):
            for _ in range(steps):
                h = h * w + w
            return h

        return made

    once, twice = chain(recurrent(1)), chain(recurrent(2))
    assert chain(recurrent(9)) == pytest.approx(once + 8 * (twice - once)) and twice > once + 300
    assert chain(linear(9)) == chain(linear(1)) < once
    assert chain(lambda h, w: h.T) < chain(lambda h, w: h + 1) < chain(lambda h, w: h @ w)

"""Compulsory bytes: every input and output once, and of each only what the program needs."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.bounds.kit import bound_of, spec
from tilewright.bounds.literals import essential
from tilewright.dtypes import float32

N = 256
X = N * N * 4


def update_row(cache: np.ndarray, row: np.ndarray) -> np.ndarray:
    cache[-1] = row
    return cache.sum(axis=0)


def update_twice(cache: np.ndarray, row: np.ndarray):
    cache[:2] = row
    cache[1:3] = 2 * row


def put(cache: np.ndarray, index: np.ndarray, rows: np.ndarray):
    cache[index] = rows


CASES = {
    "all": (lambda x: np.exp(x), (spec(N, N),), 2 * X),
    "a slice": (lambda x: np.exp(x)[:16], (spec(N, N),), 2 * X // 16),
    "every other column": (lambda x: np.exp(x[:, ::2]), (spec(N, N),), X),
    "a slice of a sum along rows": (lambda x: x.sum(axis=1)[:16], (spec(N, N),), X // 16 + 64),
    "rows of a product": (lambda x, y: (x @ y)[:16], (spec(N, N), spec(N, N)), X + 2 * X // 16),
    "columns of a product": (lambda x, y: (x @ y)[:, :16], (spec(N, N), spec(N, N)), X + 2 * X // 16),
    "positions along an axis of one element": (lambda x: np.argmax(x, axis=0), (spec(1, N),), N * 4),
    "a triangle": (lambda x: np.tril(x), (spec(N, N),), X + N * (N + 1) // 2 * 4),
    "rows that a table of constants chooses": (lambda x: x[np.array([3, 9, 3, 200])] * 2, (spec(N, N),), 7 * N * 4),
    "a gather": (lambda x, i: x[i] + 1, (spec(N, N), spec(32, dtype=np.int32)), 2 * 32 * N * 4 + 128),
    "a gather of more rows than there are": (
        lambda x, i: x[i] + 1,
        (spec(16, N), spec(32, dtype=np.int32)),
        48 * N * 4 + 128,
    ),
    "a row written in place": (update_row, (spec(N, N), spec(N)), X - N * 4 + 3 * N * 4),
    "rows written in place twice": (update_twice, (spec(N, N), spec(N)), 4 * N * 4),
    "rows scattered in place": (
        put,
        (spec(N, N), spec(8, dtype=np.int32), spec(8, N)),
        2 * 8 * N * 4 + 32,
    ),
    "truth values": (lambda x: x > 0, (spec(N, N),), X + N * N),
    "64 bits are 32": (lambda x: x * 2, (spec(N, N, dtype=np.float64),), 2 * X),
    "an output twice": (lambda x: (np.exp(x), np.exp(x)), (spec(N, N),), 2 * X),
    "an argument given back": (lambda x: x, (spec(N, N),), 0),
    "no elements": (lambda x: x.sum(), (spec(0, 4),), 4),
}


@pytest.mark.parametrize("case", CASES)
def test_compulsory_bytes(case: str):
    function, args, wanted = CASES[case]
    assert bound_of(function, *args).compulsory_bytes == wanted


def test_masked_scores_need_no_key_that_no_query_sees():
    """Of a window at the begin of the keys, the other keys and values are not read."""
    seen = np.zeros((64, N), bool)
    seen[:, :32] = True

    def attention(q, k, v):
        e = np.exp(np.where(seen, q @ k.T, -1e30))
        return e @ v

    found = bound_of(attention, spec(64, 64), spec(N, 64), spec(N, 64)).compulsory_bytes
    assert 2 * 64 * 64 * 4 <= found <= (2 * 64 + 2 * N) * 64 * 4


ROWS, COLUMNS = np.arange(N)[:, None].astype(np.float32), np.arange(N)[None, :].astype(np.float32)
SLOPES = (2.0 ** -np.arange(1, 9)).astype(np.float32)[:, None, None]
NOISE = np.random.default_rng(0).standard_normal((N, N)).astype(np.float32)
CONSTANTS = {
    "distances": (COLUMNS - ROWS, 0),
    "how far apart": (np.abs(COLUMNS - ROWS), 0),
    "distances times slopes": (SLOPES * (COLUMNS - ROWS), 8),
    "a causal mask with distances": (np.where(COLUMNS <= ROWS, COLUMNS - ROWS, -np.inf).astype(np.float32), 0),
    "identity": (np.eye(N, dtype=np.float32), 0),
    "noise": (NOISE, N * N),
    "a row of noise everywhere": (np.tile(NOISE[0], (N, 3)), N),
    "noise by rows and columns": (NOISE[0] * NOISE[:, :1], 2 * N),
    "sum of noise by rows and columns": (NOISE[0].astype(np.float64) + NOISE[:, :1], 2 * N),
    "elements repeated": (np.repeat(NOISE[0], 4), N),
}


@pytest.mark.parametrize("case", CONSTANTS)
def test_constants_that_arithmetic_makes(case: str):
    array, wanted = CONSTANTS[case]
    assert essential(array.astype(np.float32), float32) <= wanted
    assert wanted == 0 or essential(array.astype(np.float32), float32) >= wanted / 2


def test_constants_count_once_and_as_far_as_they_are_needed():
    table = np.random.default_rng(1).standard_normal((N, N)).astype(np.float32)
    assert bound_of(lambda x: x * table, spec(N, N)).compulsory_bytes == 3 * X
    assert bound_of(lambda x: x + (COLUMNS - ROWS), spec(N, N)).compulsory_bytes == 2 * X
    assert bound_of(lambda x: (x * table)[:16], spec(N, N)).compulsory_bytes == 3 * X // 16


def test_numbers_that_are_searched_can_stand_in_instructions():
    bins = np.array([-1.0, 0.0, 0.5, 2.0], dtype=np.float32)
    assert bound_of(lambda x: np.digitize(x, bins), spec(N, N)).compulsory_bytes == 2 * X
    assert bound_of(np.searchsorted, spec(4), spec(N, N)).compulsory_bytes > 2 * X


def test_what_is_known_without_the_input_needs_none_of_it():
    """NumPy's quotient of integers by zero is zero."""
    for function in (lambda x: x // 0, lambda x: x % 0, lambda x: x % -1, lambda x: np.fmod(x, 1)):
        assert bound_of(function, spec(N, N, dtype=np.int32)).compulsory_bytes == X


def test_copies_pass_the_dma_engines_once():
    """What is only moved is read and written by one transfer, unless its runs are so short that this takes longer."""
    moved = bound_of(lambda x, y: np.concatenate([x, y]), spec(N, N), spec(N, N))
    assert moved.compulsory_bytes == 4 * X and moved.moved_bytes == 2 * X
    turned = bound_of(lambda x: x.T, spec(N, N))
    assert turned.compulsory_bytes == turned.moved_bytes == 2 * X
    both = bound_of(lambda x: (x.reshape(-1), np.exp(x)), spec(N, N))
    assert both.compulsory_bytes == 3 * X and both.moved_bytes == 3 * X
    assert tw.compile(lambda x: np.concatenate([x, x]), np.ones((512, 1024), np.float32)).report.bound_error == 0

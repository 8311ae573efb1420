"""Block-sparse attention and its gradients against dense attention under the mask, in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.kernels.near import error, normal
from tilewright.kernels.block_plan import accumulators

FORWARD, BACKWARD = tw.kernels.block_sparse_attention, tw.kernels.block_sparse_attention_backward


def ragged(rows: int, columns: int, most: int, seed: int = 0) -> np.ndarray:
    """A mask with 1 to `most` blocks in every row, `most` in the first."""
    rng = np.random.default_rng(seed)
    mask = np.zeros((rows, columns), bool)
    for row in range(rows):
        mask[row, rng.permutation(columns)[: most if row == 0 else rng.integers(1, most + 1)]] = True
    return mask


def both(arrays: list[np.ndarray], mask: np.ndarray, block: int, **options: Any) -> tuple[float, float]:
    """Errors of the forward pass and of the gradients; the gradients are given the exact forward results."""
    q, k, v = arrays
    out, lse = FORWARD(q, k, v, mask, block=block, **options)
    exact = FORWARD.exact(q, k, v, mask, block=block)
    seen = np.repeat(mask.any(1), block)[: q.shape[-2]]
    forward = error((out, lse[..., seen]), (exact[0], exact[1][..., seen]))
    assert (lse[..., ~seen] == np.finfo(np.float32).min).all()
    dout = normal(*out.shape, seed=9).astype(q.dtype)
    given = exact[0].astype(q.dtype), exact[1].astype(np.float32), dout
    made = BACKWARD(q, k, v, *given, mask, block=block, **options)
    return forward, error(made, BACKWARD.exact(q, k, v, *given, mask, block=block))


def heads(batch: int, queries: int, keys: int, d: int, width: int) -> list[np.ndarray]:
    shapes = (batch, queries, d), (batch, keys, d), (batch, keys, width)
    return [normal(*shape, seed=i) for i, shape in enumerate(shapes)]


@pytest.mark.req("S3-25")
@pytest.mark.req("S3-29")
@pytest.mark.req("S3-31")
@pytest.mark.parametrize("most", [1, 2, 3, 4])
@pytest.mark.parametrize("d", [32, 64])
def test_up_to_so_many_blocks_in_a_row(most: int, d: int) -> None:
    forward, backward = both(heads(1, 128, 128, d, d), ragged(4, 4, most, seed=most), 32)
    assert forward < 2e-6 and backward < 5e-6


@pytest.mark.req("S3-22")
@pytest.mark.req("S3-25")
@pytest.mark.req("S3-30")
@pytest.mark.parametrize("d", [128, 256, 512])
def test_wide_heads_and_whole_blocks(d: int) -> None:
    """A head as wide as a block is high (128) is no special case."""
    forward, backward = both(heads(1, 256, 256, d, d), ragged(2, 2, 2), 128)
    assert forward < 2e-6 and backward < 5e-6


@pytest.mark.req("S3-27")
@pytest.mark.parametrize("mask", ["110 111 011", "1110 1111 1111 0111", "101 010 101"])
def test_rows_with_fewer_blocks_are_not_padded(mask: str) -> None:
    """Windows and a dilated pattern; where rows are filled up with block 0 and nothing is masked, results are wrong."""
    seen = np.array([list(map(int, row)) for row in mask.split()], bool)
    arrays = heads(1, 32 * len(seen), 32 * len(seen), 32, 32)
    forward, backward = both(arrays, seen, 32)
    assert forward < 2e-6 and backward < 5e-6
    most = seen.sum(axis=1).max()
    slots = [[*np.flatnonzero(row), *[0] * most][:most] for row in seen]
    q, k, v = (each.reshape(len(seen), 32, 32) for each in arrays)
    scores = q @ k[slots].reshape(len(seen), -1, 32).swapaxes(1, 2) * 32**-0.5
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    padded = (weights @ v[slots].reshape(len(seen), -1, 32)).reshape(1, -1, 32)
    assert error(padded, FORWARD.exact(*arrays, seen, block=32)[0]) > 0.05


@pytest.mark.parametrize("block", [32, 128])
def test_scores_of_any_size(block: int) -> None:
    """Exponentials overflow unless the greatest score of each query is taken off first, over all pieces of a row."""
    q, k, v = heads(1, 2 * block, 6 * block, 32, 32)
    forward, backward = both([q * 30, k, v], ragged(2, 6, 6), block)
    assert forward < 5e-5 and backward < 5e-4


def test_ends_that_are_no_whole_block_and_queries_that_see_nothing() -> None:
    mask = ragged(5, 7, 3)
    mask[1] = False
    mask[:, 2] = False
    forward, backward = both(heads(2, 290, 420, 40, 24), mask, 64)
    assert forward < 2e-6 and backward < 5e-6


@pytest.mark.parametrize(("queries", "keys"), [(5, 70), (70, 5), (3, 2)])
def test_fewer_positions_than_a_block(queries: int, keys: int) -> None:
    mask = np.ones((-(-queries // 32), -(-keys // 32)), bool)
    forward, backward = both(heads(1, queries, keys, 24, 40), mask, 32)
    assert forward < 2e-6 and backward < 5e-6


def test_neighbouring_blocks_are_more_than_one_product_takes() -> None:
    forward, backward = both(heads(1, 32, 640, 16, 16), np.ones((1, 20), bool), 32)
    assert forward < 2e-6 and backward < 5e-6


def test_more_blocks_than_psum_has_room_for() -> None:
    """Heads 128 wide leave room for four blocks of keys: the gradients of others wait in SBUF, some more than once."""
    mask = np.random.default_rng(3).random((9, 8)) < 0.6
    steps = [step for row in accumulators(mask, 4) for step in row]
    assert any(left and left[1] for _, _, _, left, _ in steps)
    forward, backward = both(heads(1, 140, 126, 128, 100), mask, 16)
    assert forward < 2e-6 and backward < 5e-6


@pytest.mark.parametrize("seed", range(6))
def test_the_plan_adds_every_block_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mask, slots = rng.random((7, 9)) < rng.uniform(0.1, 0.9), int(rng.integers(1, 5))
    inside: list[list[int]] = [[] for _ in range(slots)]
    parts: dict[int, list[int]] = {}
    whole: dict[int, list[int]] = {}
    for row, steps in enumerate(accumulators(mask, slots)):
        for block, slot, is_new, left, end in steps:
            if left:
                assert left[1] == (left[0] in parts) and is_new
                parts.setdefault(left[0], []).extend(inside[slot])
            inside[slot] = [*([] if is_new else inside[slot]), row]
            if end:
                whole[block] = sorted([*inside[slot], *(parts[end[0]] if end[0] >= 0 else [])])
    assert whole == {block: rows.tolist() for block in range(9) if len(rows := np.flatnonzero(mask[:, block]))}


def test_sixteen_bits() -> None:
    """Transfers turn these arrays, blocks of other sizes and heads of other widths than the partitions included."""
    given = [each.astype(ml_dtypes.bfloat16) for each in heads(1, 100, 150, 136, 24)]
    forward, backward = both(given, ragged(4, 5, 3), 32, target="trn2")
    assert forward < 1e-2 and backward < 2e-2


@pytest.mark.parametrize("target", ["trn1", "trn3"])
def test_other_generations(target: str) -> None:
    forward, backward = both(heads(1, 96, 96, 32, 32), ragged(3, 3, 2), 32, target=target)
    assert forward < 2e-6 and backward < 5e-6


@pytest.mark.req("S3-33")
def test_gradients_are_those_of_finite_differences_of_the_dense_reference() -> None:
    """The reference of the gradients is not the kernel's own forward pass, and agrees with its own differences."""
    q, k, v = (each.astype(np.float64) for each in heads(1, 12, 12, 4, 4))
    mask, dout = ragged(3, 3, 2), normal(1, 12, 4, seed=9).astype(np.float64)
    out, lse = FORWARD.reference(q, k, v, mask, block=4)
    wanted = BACKWARD.reference(q, k, v, out, lse, dout, mask, block=4)
    step = 1e-6
    for which, gradient in enumerate(wanted):
        for place in ((0, 1, 2), (0, 7, 0), (0, 11, 3)):
            ends = []
            for sign in (1, -1):
                moved = [each.copy() for each in (q, k, v)]
                moved[which][place] += sign * step
                ends.append((FORWARD.reference(*moved, mask, block=4)[0] * dout).sum())
            assert abs((ends[0] - ends[1]) / (2 * step) - gradient[place]) < 1e-6


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda a: a | {"mask": np.ones((2, 3), bool)}, "E103"),
        (lambda a: a | {"mask": np.ones((2, 2), int)}, "E102"),
        (lambda a: a | {"block": 129, "mask": np.ones((1, 1), bool)}, "E108"),
        (lambda a: a | {"q": normal(64, 513), "k": normal(64, 513)}, "E103"),
        (lambda a: a | {"q": normal(64, 8).astype(np.float16)}, "E102"),
    ],
)
def test_refusals(change: Any, code: str) -> None:
    given = {"q": normal(64, 8), "k": normal(64, 8), "v": normal(64, 8), "mask": np.ones((2, 2), bool), "block": 32}
    with pytest.raises(tw.TileError) as caught:
        FORWARD(**change(given))
    assert caught.value.diagnostic.code == code

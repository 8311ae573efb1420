"""Batches of small matrices: several members side by side in each instruction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats
from tests.lower.test_attention import softmax
from tilewright.ir.walk import walk
from tilewright.lower.choose import fit, ways
from tilewright.lower.lowering import Lowering
from tilewright.lower.regions.grouping import Group

Function = Callable[..., Any]


def turned(x: np.ndarray) -> np.ndarray:
    """Rows and columns of each matrix exchanged."""
    return x.swapaxes(-1, -2)


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, *bias: np.ndarray) -> np.ndarray:
    """Attention, perhaps with a bias on the scores."""
    return softmax(sum(bias, q @ turned(k) * np.float32(0.3))) @ v


def attend_heads(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Attention of [batch, positions, heads, dims]."""
    return attend(*(np.transpose(x, (0, 2, 1, 3)) for x in (q, k, v))).transpose(0, 2, 1, 3)


def scaled(x: np.ndarray, w: np.ndarray, by: np.ndarray) -> np.ndarray:
    """A product, and a factor that not all of its dims have."""
    return np.tanh(x @ w) * by


def centred(x: np.ndarray) -> np.ndarray:
    """Covariances."""
    rest = x - x.mean(axis=1, keepdims=True)
    return turned(rest) @ rest


def masked(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Scores below the diagonal."""
    return np.where(np.tril(np.ones((20, 20), bool)), q @ turned(k), np.float32(-9))


CASES: dict[str, tuple[Function, list[tuple[int, ...]]]] = {
    "odd batch": (attend, [(7, 20, 8), (7, 24, 8), (7, 24, 12)]),
    "some are left": (attend, [(23, 20, 8), (23, 24, 8), (23, 24, 12)]),
    "bias of each head": (attend, [(3, 5, 20, 8), (3, 5, 24, 8), (3, 5, 24, 12), (1, 5, 20, 24)]),
    "bias of each window": (attend, [(3, 5, 20, 8), (3, 5, 24, 8), (3, 5, 24, 12), (3, 1, 20, 24)]),
    "heads inside": (attend_heads, [(2, 20, 6, 8), (2, 20, 6, 8), (2, 20, 6, 8)]),
    "a row of each member": (scaled, [(6, 30, 16), (6, 16, 24), (6, 1, 24)]),
    "a row of each inner member": (scaled, [(4, 6, 30, 16), (4, 6, 16, 24), (6, 1, 24)]),
    "a column of each member": (scaled, [(4, 6, 30, 16), (4, 6, 16, 24), (6, 30, 1)]),
    "a number of each member": (scaled, [(4, 6, 30, 16), (4, 6, 16, 24), (6, 1, 1)]),
    "one left operand": (lambda x, w: np.tanh(x @ w) @ turned(w), [(30, 16), (6, 16, 24)]),
    "one right operand": (lambda x, w, u: np.tanh(x @ w) @ u, [(6, 30, 16), (6, 16, 24), (24, 20)]),
    "one right operand of some": (lambda x, w, u: (x @ w) @ u, [(3, 6, 30, 16), (3, 6, 16, 24), (3, 1, 24, 20)]),
    "long contraction": (lambda x, w: np.maximum(x @ w, 0), [(6, 30, 300), (6, 300, 24)]),
    "operands as they lie": (lambda x, w: turned(x) @ w, [(6, 200, 30), (6, 200, 24)]),
    "operands turned": (lambda x, w: np.tanh(x @ turned(w)), [(6, 30, 200), (6, 24, 200)]),
    "products of products": (lambda a, b, c: (a @ b) @ (b @ c), [(9, 20, 20), (9, 20, 20), (9, 20, 20)]),
    "members in parts of the array": (attend, [(2, 8, 20, 32), (2, 8, 64, 32), (2, 8, 64, 24)]),
    "operands of parts as they lie": (lambda x, w: turned(x) @ w, [(8, 32, 30), (8, 32, 24)]),
    "a left operand of one number, in parts": (lambda y: np.full((16, 20, 32), 0.5, np.float32) @ y + 1, [(16, 32, 3)]),
    "heads in parts of the array": (attend_heads, [(2, 20, 4, 32), (2, 20, 4, 32), (2, 20, 4, 32)]),
    "covariance": (centred, [(9, 30, 20)]),
    "mask": (masked, [(9, 20, 8), (9, 20, 8)]),
    "one row": (lambda x, w: x @ w + 1, [(9, 1, 20), (9, 20, 30)]),
    "best of a row": (lambda x, w: np.argmax(x @ w, axis=-1), [(8, 12, 20), (8, 20, 30)]),
    "two results": (lambda x, w: (x @ w, np.exp(x @ w).sum(axis=-1)), [(8, 12, 20), (8, 20, 30)]),
    "each with each": (lambda x, w: x[:, None] @ w[None], [(3, 12, 20), (4, 20, 30)]),
    "dims of one element": (lambda x, w: np.tanh(x @ w), [(2, 3, 1, 5, 12, 20), (2, 3, 1, 5, 20, 30)]),
}


@pytest.mark.parametrize("name", CASES)
def test_members_side_by_side(name: str, monkeypatch: pytest.MonkeyPatch):
    function, shapes = CASES[name]

    def only(low: Lowering, group: Group) -> Iterator[Any]:
        found = list(ways._members(low, group))
        return iter(found[:1]) if found else ways.ways(low, group)

    monkeypatch.setattr(fit, "ways", only)
    kernel = check(function, *(floats(*shape, seed=i) for i, shape in enumerate(shapes)), tolerance=2e-5)
    assert "members of a batch side by side" in str(kernel.plan)


def test_window_attention_shares_instructions():
    """What is not a product is done for all heads of a window at once."""
    shape = (16, 4, 49, 32)
    args = [tw.spec(each, "float32") for each in (shape, shape, shape, (1, 4, 49, 49))]
    kernel = tw.compile(attend, *args, target="trn2")
    assert "4 members of a batch side by side" in str(kernel.plan)
    report = kernel.report
    assert report.hbm_bytes == report.compulsory_bytes
    products = 5 * 16 * 4
    assert report.instructions < 1.8 * products


def test_members_in_parts_of_the_array():
    """One instruction turns the heads of all parts, whose products run at the same time."""
    args = [tw.spec((128, 32, 32), "float32")] * 3
    kernel = tw.compile(attend, *args, target="trn2")
    products = [op for op in walk(kernel.tile_ir) if op.name == "nc_matmul"]
    assert {op.attrs["tile_position"] for op in products} == {(), *((32 * i, 0) for i in range(4))}
    assert all(op.attrs["is_transpose"] for op in products if not op.attrs["tile_position"])
    assert kernel.report.latency_us < 3 * kernel.report.roofline_us


def test_products_that_are_quick_by_themselves_stay():
    """A head of many rows keeps every partition at work."""
    args = [tw.spec((2, 256, 128), "float32")] * 3
    assert "side by side" not in str(tw.compile(attend, *args, target="trn2").plan).split("written as")[-1]

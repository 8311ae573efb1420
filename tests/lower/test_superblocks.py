"""Products whose right operands pass through a few tiles, several blocks of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats
from tests.lower.test_attention import softmax
from tilewright.lower.choose import fit, superblocks, ways
from tilewright.lower.lowering import Lowering
from tilewright.lower.regions.grouping import Group

Function = Callable[..., np.ndarray]
BF16 = ml_dtypes.bfloat16


def feed_forward(x: np.ndarray, w: np.ndarray, up: np.ndarray, down: np.ndarray) -> np.ndarray:
    """Normed rows, two products, a third of both, added to the rows."""
    normed = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(1e-6)) * w
    hidden = normed @ up
    half = hidden.shape[-1] // 2
    return x + (np.tanh(hidden[:, :half]) * hidden[:, half:]) @ down


def classify(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A row is reduced while its product is made."""
    return softmax(x @ w + b)


def chain(x: np.ndarray, *weights: np.ndarray) -> np.ndarray:
    """Product after product."""
    for w in weights:
        x = np.maximum(x @ w, 0)
    return x


def arrays(*shapes: tuple[int, ...], narrow: str = "") -> tuple[np.ndarray, ...]:
    """Arguments, of which `narrow` has the numbers of those in bfloat16."""
    made = [
        floats(*shape, seed=i) / np.float32(max(shape[0] if len(shape) > 1 else 1, 1) ** 0.5 if i else 1)
        for i, shape in enumerate(shapes)
    ]
    return tuple(x.astype(BF16) if str(i) in narrow else x for i, x in enumerate(made))


CASES: dict[str, tuple[Function, tuple[np.ndarray, ...]]] = {
    "feed forward": (feed_forward, arrays((512, 96), (96,), (96, 1400), (700, 96))),
    "odd rows": (feed_forward, arrays((700, 130), (130,), (130, 1100), (550, 130))),
    "reduced": (classify, arrays((300, 200), (200, 1100), (1100,))),
    "chain": (chain, arrays((390, 200), (200, 700), (700, 300), (300, 700))),
    "narrow": (chain, arrays((390, 200), (200, 1300), (1300, 520), narrow="12")),
    "all narrow": (feed_forward, arrays((390, 128), (128,), (128, 1400), (700, 128), narrow="0123")),
}


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", CASES)
def test_several_blocks_at_a_time(name: str, count: int, monkeypatch: pytest.MonkeyPatch):
    function, args = CASES[name]

    def only(low: Lowering, group: Group) -> Iterator[Any]:
        found = list(ways._superblocks(low, group))
        return iter(found[:1]) if found else ways.ways(low, group)

    monkeypatch.setattr(fit, "ways", only)
    monkeypatch.setattr(ways, "together", lambda group, lanes: [count] if [*superblocks.together(group, lanes)] else [])
    # Rows of bfloat16 are rounded by each op that NumPy computes.
    kernel = check(function, *args, tolerance=5e-2 if args[0].dtype == BF16 else 2e-5)
    assert f"{count} blocks of whole rows at a time" in str(kernel.plan)


def test_weights_are_read_once():
    """They do not fit beside the rows, which stay."""
    shapes = [(512, 1024), (1024,), (1024, 6144), (3072, 1024)]
    report = tw.compile(feed_forward, *(tw.spec(shape, "float32") for shape in shapes), target="trn2").report
    assert report.hbm_bytes <= 1.1 * report.compulsory_bytes
    assert report.latency_us <= 1.25 * report.roofline_us


def test_few_rows_wait_for_weights_alone():
    """They come by two queues in turn."""
    shapes = [(1, 2048), (2048, 4096)]
    report = tw.compile(np.matmul, *(tw.spec(shape, "bfloat16") for shape in shapes), target="trn2").report
    assert report.latency_us <= 1.2 * report.roofline_us

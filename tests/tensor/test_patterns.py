"""Softmax, norms and attention found in simplified programs, in many forms; and not found where they are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.tensor.models import MODELS, W, layer_norm, random, rms_norm, softmax
from tilewright.front.function import trace
from tilewright.ir.core import Graph
from tilewright.tensor.passes.patterns import find_attentions, find_norms, find_softmaxes, inner
from tilewright.tensor.passes.pipeline import run

X, ROW, COLUMN = random((8, 16), 0), random((16,), 1), random((8, 1), 2)


def passed(function: Callable[..., Any], *arrays: np.ndarray) -> Graph:
    """A function after all passes."""
    return run(trace(function, [*arrays], {}).graph).graph


@pytest.mark.req("S4-41")
@pytest.mark.parametrize(
    "function",
    [
        softmax,
        lambda x: np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True),
        lambda x: np.exp(x - x.max(-1)[:, None]) * (1 / np.exp(x - x.max(-1)[:, None]).sum(-1)[:, None]),
        lambda x: softmax(x * 0.5)[:, 2:],
    ],
)
def test_softmax(function: Callable[..., Any]):
    (found,) = find_softmaxes(passed(function, X))
    assert found.axes == (1,) and found.shift is not None and found.x.type.shape == (8, 16)
    assert {op.name for op in found.ops} <= {"max", "subtract", "exp", "sum", "divide", "reciprocal", "multiply"}
    assert found.ops[-1].result is found.result and found.exponentials in inner(found.ops)


def test_softmax_without_a_shift():
    (found,) = find_softmaxes(passed(lambda x: np.exp(x) / np.sum(np.exp(x), axis=0, keepdims=True), X))
    assert found.axes == (0,) and found.shift is None


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.exp(x) / np.sum(np.exp(x) + 1, axis=-1, keepdims=True),
        lambda x: np.exp(x) / np.sum(np.exp(x * 2), axis=-1, keepdims=True),
        lambda x: np.exp(x) / np.max(np.exp(x), axis=-1, keepdims=True),
    ],
)
def test_no_softmax(function: Callable[..., Any]):
    assert not find_softmaxes(passed(function, X))


def test_what_is_read_elsewhere_is_not_inner():
    def both(x: Any) -> Any:
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        return e / np.sum(e, axis=-1, keepdims=True), e

    (found,) = find_softmaxes(passed(both, X))
    assert found.exponentials not in inner(found.ops) and found.total in inner(found.ops)


NORMS: list[tuple[Callable[..., Any], tuple[bool, float, bool, bool]]] = [
    (rms_norm, (False, 1e-6, True, False)),
    (layer_norm, (True, 1e-5, True, True)),
    (lambda x, w, b: x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True)), (False, 0.0, False, False)),
    (lambda x, w, b: w * (x * (1 / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-3))), (False, 1e-3, True, False)),
    (
        lambda x, w, b: b + w * ((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)),
        (True, 1e-5, True, True),
    ),
    (lambda x, w, b: (x - x.mean(1)[:, None]) / np.sqrt(x.var(1)[:, None] + 1e-5), (True, 1e-5, False, False)),
    (
        lambda x, w, b: (x.astype(np.float32) * (1 / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1.0))) * w,
        (False, 1.0, True, False),
    ),
]


@pytest.mark.parametrize(("function", "wanted"), NORMS)
def test_norms(function: Callable[..., Any], wanted: tuple[bool, float, bool, bool]):
    arrays = (X, ROW) if function is rms_norm else (X, ROW, ROW)
    (found,) = find_norms(passed(function, *arrays))
    said = found.centred, found.epsilon, found.weight is not None, found.bias is not None
    assert said == wanted and found.axes == (1,) and found.x.name == "x"


def test_a_weight_along_another_axis_is_none():
    (found,) = find_norms(passed(rms_norm, X, COLUMN))
    assert found.weight is None


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x / np.sqrt(np.mean(np.abs(x), axis=-1, keepdims=True) + 1e-6),
        lambda x: (x + 1) / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6),
        lambda x: x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) * 0.3 + 1e-6),
    ],
)
def test_no_norm(function: Callable[..., Any]):
    assert not find_norms(passed(function, X))


def test_attention():
    function, arrays = MODELS["causal_attention"]
    (found,) = find_attentions(passed(function, *arrays))
    assert (found.q.name, found.k.name, found.v.name, found.transposed) == ("q", "k", "v", True)
    assert found.scale == pytest.approx(1 / math.sqrt(arrays[0].shape[-1]))
    assert [m.kind for m in found.masks] == ["add"] and found.masks[0].value.type.shape == (8, 8)
    assert len(inner(found.ops)) == len(found.ops) - 1


def test_attention_with_a_choice_as_mask():
    function, arrays = MODELS["masked_attention"]
    (found,) = find_attentions(passed(function, *arrays))
    assert [(m.kind, m.fill) for m in found.masks] == [("where", -math.inf)]
    assert found.scale == 1.0 and found.k.name == "k" and found.v.name == "v"


def test_attention_of_heads():
    function, arrays = MODELS["heads"]
    (found,) = find_attentions(passed(function, *arrays))
    assert found.scale == 0.5 and not found.masks and found.q.type.shape == (4, 8, 4)


def test_no_attention():
    graph = passed(lambda x, w: softmax(x) @ w, X, W[0])
    assert len(find_softmaxes(graph)) == 1 and not find_attentions(graph)

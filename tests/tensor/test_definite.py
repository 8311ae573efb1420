"""Matrices that are positive semidefinite by the way they are made, and some that only look so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.front.function import trace
from tilewright.spec import spec
from tilewright.tensor.definite import is_semidefinite
from tilewright.tensor.passes.pipeline import run

MADE = {
    "gram": lambda x, w, m: x.T @ x,
    "outer": lambda x, w, m: x @ x.T,
    "weighted left": lambda x, w, m: (x * np.exp(w)[:, None]).T @ x,
    "weighted right": lambda x, w, m: x.T @ (np.square(w)[:, None] * x),
    "weighted twice": lambda x, w, m: (x * w[:, None]).T @ (x * w[:, None]),
    "over weights": lambda x, w, m: (x / np.abs(w)[:, None]).T @ x,
    "scaled": lambda x, w, m: 3 * (x.T @ x) / np.float32(7),
    "ridge": lambda x, w, m: x.T @ x + 0.1 * np.eye(4, dtype=np.float32),
    "diagonal": lambda x, w, m: x.T @ x + np.eye(4, dtype=np.float32) * np.exp(x[0]),
    "between": lambda x, w, m: m @ (x.T @ x) @ m.T + np.eye(4, dtype=np.float32),
    "centred": lambda x, w, m: (x - x.mean(0)).T @ (x - x.mean(0)) / 5,
    "turned": lambda x, w, m: (x.T @ x + np.eye(4, dtype=np.float32)).T,
    "batch": lambda x, w, m: np.stack([x, 2 * x]).swapaxes(1, 2) @ np.stack([x, 2 * x]),
}
OTHERS = {
    "any": lambda x, w, m: m,
    "product": lambda x, w, m: m @ m,
    "signed weights": lambda x, w, m: (x * w[:, None]).T @ x,
    "negative": lambda x, w, m: -(x.T @ x),
    "less": lambda x, w, m: x.T @ x - np.eye(4, dtype=np.float32),
    "minus a number": lambda x, w, m: -2 * x.T @ x,
    "columns weighed": lambda x, w, m: (x * np.exp(m[0])).T @ x,
    "other side": lambda x, w, m: m @ (x.T @ x) @ m,
    "a sum with any": lambda x, w, m: x.T @ x + m,
    "signed diagonal": lambda x, w, m: x.T @ x + np.eye(4, dtype=np.float32) * x[0],
    "upper diagonal": lambda x, w, m: x.T @ x + np.eye(4, k=1, dtype=np.float32),
}


def found(function: Callable[..., Any]) -> bool:
    args = [spec(shape, "float32") for shape in ((9, 4), (9,), (4, 4))]
    graph = trace(function, args, {}).graph
    graph = run(graph, stop_after="simplify").graph
    return is_semidefinite(graph.outputs[0])


@pytest.mark.parametrize("name", MADE)
def test_known_to_be(name: str):
    assert found(MADE[name])
    rng = np.random.default_rng(0)
    for _ in range(5):
        args = [rng.standard_normal(shape) for shape in ((9, 4), (9,), (4, 4))]
        made = np.asarray(MADE[name](*args))
        assert np.allclose(made, made.swapaxes(-1, -2))
        assert np.linalg.eigvalsh(made).min() > -1e-5 * np.abs(made).max()


@pytest.mark.parametrize("name", OTHERS)
def test_not_known_to_be(name: str):
    assert not found(OTHERS[name])

"""NumPy programs: the emitted source has the instructions of the lowered kernel, and its bits."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.emit.kit import check_subset, load, same_stream
from tilewright.emit import Header, emit
from tilewright.front.function import trace
from tilewright.lower.lowering import lower
from tilewright.nki.kernel import run_kernel
from tilewright.sim.run import run_graph
from tilewright.target import get_target
from tilewright.tensor.passes import pipeline

RNG = np.random.default_rng(0)
BF16 = ml_dtypes.bfloat16


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def rmsnorm(x, w):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(1e-6)) * w


def attention(q, k, v):
    return softmax(q @ k.T * np.float32(0.125)) @ v


def swiglu(x, a, b):
    y = x @ a
    return (y / (1 + np.exp(-y))) * (x @ b)


PROGRAMS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "softmax": (softmax, [f32(300, 200)]),
    "rmsnorm": (rmsnorm, [f32(130, 256), f32(256)]),
    "matmul": (np.matmul, [f32(200, 300), f32(300, 600)]),
    "matmul_bf16": (np.matmul, [f32(256, 256).astype(BF16), f32(256, 128).astype(BF16)]),
    "attention": (attention, [f32(256, 64), f32(256, 64), f32(256, 64)]),
    "swiglu": (swiglu, [f32(128, 128), f32(128, 256), f32(128, 256)]),
    "transpose": (lambda x: x.transpose(0, 2, 1) + np.float32(1), [f32(3, 40, 130)]),
    "sum_rows": (lambda x: x.sum(axis=0), [f32(300, 70)]),
    "numbers": (lambda x: x + np.arange(40, dtype=np.float32), [f32(5, 40)]),
    "scalar": (lambda x: x.sum() * np.float32(2), [f32(17)]),
    "join": (lambda x, y: np.concatenate([x, y * np.float32(2)], axis=1), [f32(130, 20), f32(130, 30)]),
    "constant": (lambda x: x * np.linspace(0, 1, 48, dtype=np.float32).reshape(6, 8) ** 2, [f32(6, 8)]),
    "pair": (lambda x: (np.tanh(x), np.maximum(x, np.float32(0))), [f32(4, 5, 6)]),
}


@pytest.mark.req("S4-22")
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_source_of_a_program_is_its_kernel(name: str, target: str) -> None:
    function, arguments = PROGRAMS[name]
    program = pipeline.run(trace(function, tuple(copy.deepcopy(arguments)), {}).graph)
    lowered = lower(program.graph, get_target(target))
    graph = lowered.graph
    arrays = [*arguments, *lowered.constants]
    source = emit(graph, get_target(target), Header(name, (), len(lowered.constants)))
    assert source == emit(graph, get_target(target), Header(name, (), len(lowered.constants)))
    check_subset(source)
    # A kernel of the compiler's may use PSUM tiles of several banks.
    made = run_kernel(load(source, name), [array.copy() for array in arrays], {}, target, "strict")
    same_stream(graph, made.session.graph)
    results = made.result if isinstance(made.result, tuple) else (made.result,)
    for mine, theirs in zip(results, run_graph(graph, arrays, target), strict=True):
        assert (mine.dtype, mine.shape, mine.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes())

"""Emitted source takes what was predicted: every figure of its run's report is that of the compiled kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.emit.kit import load
from tests.front.fuzz import function_of, generate, quiet
from tests.lower.fuzz import sizes_of, target_of

BF16 = ml_dtypes.bfloat16

# What names lines of the source, and so differs between the NumPy program and the kernel; what is necessary is the
# program's on one side and the kernel's on the other.
LINES = {"kernel", "places", "critical_path", "choices", "advice", "warnings", "removable"}
STATIC = {"static_instructions", "static_by_engine", "static_by_name"}
ROOFLINE = {"roofline_us", "peak_roofline_us", "binding", "bounds_us", "peak_bounds_us", "compulsory_bytes"}
ROOFLINE |= {"bound_error", "bound_errors"}


def ones(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.ones(shape, dtype)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layernorm(x, w, b):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(1e-6)) * w + b


def attention(q, k, v):
    return softmax(q @ k.T * np.float32(0.125)) @ v


def causal(q, k, v):
    scores = q @ k.T * np.float32(0.125)
    return softmax(np.where(np.tri(len(q), dtype=bool), scores, np.float32(-1e9))) @ v


def heads(q, k, v):
    scores = q @ k.transpose(0, 2, 1) * np.float32(0.125)
    return softmax(scores) @ v


def swiglu(x, a, b, c):
    y = x @ a
    return (y / (1 + np.exp(-y)) * (x @ b)) @ c


def rope(x, c, s):
    lo, hi = x[..., :32], x[..., 32:]
    return np.concatenate([lo * c - hi * s, hi * c + lo * s], axis=-1)


PROGRAMS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "gelu": (lambda x: x * (1 + np.tanh(np.float32(0.8) * x)), [ones(1000, 700)]),
    "softmax": (softmax, [ones(1100, 900)]),
    "layernorm": (layernorm, [ones(640, 1024), ones(1024), ones(1024)]),
    "matmul": (np.matmul, [ones(600, 500), ones(500, 1100)]),
    "matmul_bf16": (np.matmul, [ones(768, 1024, dtype=BF16), ones(1024, 1024, dtype=BF16)]),
    "attention": (attention, [ones(700, 64), ones(900, 64), ones(900, 64)]),
    "causal": (causal, [ones(768, 64), ones(768, 64), ones(768, 64)]),
    "heads": (heads, [ones(4, 256, 64), ones(4, 256, 64), ones(4, 256, 64)]),
    "swiglu": (swiglu, [ones(128, 512), ones(512, 1024), ones(512, 1024), ones(1024, 512)]),
    "rope": (rope, [ones(300, 8, 64), ones(300, 1, 32), ones(300, 1, 32)]),
    "turned": (lambda x: x.transpose(0, 1, 3, 2) + np.float32(1), [ones(2, 100, 8, 64)]),
    "moved": (lambda x: np.ascontiguousarray(x.transpose(0, 1, 3, 2)), [ones(2, 100, 8, 64)]),
    "sum_rows": (lambda x: x.sum(axis=0), [ones(2000, 300)]),
    "cumsum": (lambda x: np.cumsum(x, axis=1), [ones(300, 500)]),
    "argmax": (lambda x: x.argmax(axis=1), [ones(500, 700)]),
    "topk": (lambda x: tw.topk(x, 20), [ones(200, 400)]),
    "rows": (lambda x, i: x[i] * np.float32(2), [ones(1000, 64), np.arange(300, dtype=np.int32)]),
    "conv": (lambda x, w: tw.conv(x, w, padding=1), [ones(1, 32, 20, 20), ones(48, 32, 3, 3)]),
    "scalar": (lambda x: x.sum() * np.float32(2), [ones(17)]),
}


CASES = [(name, "trn2") for name in PROGRAMS]
CASES += [(name, target) for name in ("softmax", "matmul", "causal", "swiglu", "conv") for target in ("trn1", "trn3")]


@pytest.mark.parametrize(("name", "target"), CASES)
def test_the_source_has_the_report_of_the_kernel(name: str, target: str) -> None:
    function, arguments = PROGRAMS[name]
    same_report(tw.compile(function, *arguments, target=target))


@pytest.mark.parametrize("seed", range(400, 412))
def test_random_programs_have_the_report_of_their_kernel(seed: int) -> None:
    program = generate(seed, 8, sizes_of(seed))
    if program.refused is not None:
        return
    with quiet():
        kernel = tw.compile(function_of(program), *program.inputs.values(), target=target_of(seed))
        empty = any(
            not value.type.size for graph in (kernel.passes.graph,) for value in (*graph.inputs, *graph.outputs)
        )
        if not empty:  # NKI has no tensors without elements
            same_report(kernel)


def same_report(kernel: tw.Compiled) -> None:
    """Every figure of a compiled kernel is that of its source."""
    target = kernel.target
    specs = [tw.spec(each.type.shape, str(each.type.dtype)) for each in kernel.tile_ir.inputs]
    predicted, made = kernel.report, tw.profile(load(kernel.source), *specs, target=target)
    one, two = predicted.to_dict(), made.to_dict()
    for figure in one.keys() - LINES - STATIC - ROOFLINE - {"sbuf_at_peak", "psum_at_peak"}:
        assert one[figure] == _close(two[figure]), figure
    for at_peak in ("sbuf_at_peak", "psum_at_peak"):
        assert [each["bytes"] for each in one[at_peak]] == [each["bytes"] for each in two[at_peak]]
    assert _shares(predicted) == _close(_shares(made))
    assert _removable(predicted) == _removable(made)
    assert predicted.roofline_us <= predicted.latency_us and predicted.bound_error == made.bound_error == 0
    for sample in predicted.occupancy:
        assert sample.sbuf_bytes <= predicted.sbuf_usable_bytes and sample.psum_banks <= predicted.psum_banks


def _close(figure: Any) -> Any:
    if isinstance(figure, (float, int)):
        return pytest.approx(figure)
    if isinstance(figure, dict) and all(isinstance(each, (float, int)) for each in figure.values()):
        return pytest.approx(figure)
    if isinstance(figure, list):
        return [_close(each) for each in figure]
    return figure


def _removable(report: tw.Report) -> dict[str, int]:
    """How often the compiler may leave something out, by what it is."""
    found: dict[str, int] = {}
    for each in report.removable:
        found[each.what] = found.get(each.what, 0) + each.executed
    return found


def _shares(report: tw.Report) -> dict[str, float]:
    """How much of the critical path each instruction takes."""
    found: dict[str, float] = {}
    for step in report.critical_path:
        found[step.instruction] = found.get(step.instruction, 0.0) + step.share
    return found

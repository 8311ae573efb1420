"""Kernels against the bound of their program: none goes below it, and one that did would say so."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from bench.calibration.cases import CASES
from bench.calibration.predict import build
from tests.bounds.fuzz import CRASHED, LONG, REFUSED, broken
from tests.bounds.kit import bound_of, spec
from tilewright.bounds.program import CHAIN, LANES, TENSOR, bound, with_bound
from tilewright.dtypes import as_dtype
from tilewright.ir.build import Builder
from tilewright.ir.core import Graph, Value
from tilewright.report.timing import time_run
from tilewright.target import get_target
from tilewright.tensor.build import emit_all
from tilewright.tensor.record import TABLE, OpRecord
from tilewright.tensor.text import TENSOR as DIALECT
from tilewright.tensor.types import type_of

BF16 = ml_dtypes.bfloat16
PART = 12
MOST = 20_000
"""Instructions of a random kernel that is timed."""


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention(q, k, v):
    return softmax(q @ k.T * 0.125) @ v


def recurrent(h, w):
    for _ in range(40):
        h = np.tanh(h @ w)
    return h


def window(q, k, v):
    i = np.arange(512)
    seen = (i[:, None] >= i[None, :]) & (i[:, None] - i[None, :] < 128)
    return softmax(np.where(seen, q @ k.T / 8, -1e30)) @ v


KERNELS = {
    "dma": (lambda x, y: x + y, (spec(2048, 2048), spec(2048, 2048)), "dma"),
    "tensor": (lambda a, b: a @ b, (spec(1024, 1024), spec(1024, 1024, dtype=BF16)), TENSOR),
    "tensor, transposed": (lambda a, b: a.T @ b, (spec(1024, 1024, dtype=BF16), spec(1024, 1024, dtype=BF16)), TENSOR),
    "lanes": (lambda x: np.tanh(np.exp(np.sin(np.log(np.tanh(np.exp(x)))))), (spec(1024, 1024),), LANES),
    "chain": (recurrent, (spec(8, 8), spec(8, 8)), CHAIN),
    "window": (window, (spec(512, 64),) * 3, CHAIN),
}


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("case", KERNELS)
def test_what_binds(case: str, target: str):
    made, args, binding = KERNELS[case]
    report = tw.compile(made, *args, target=target).report
    assert report.bound_error == 0 and report.bound_errors == {} and report.roofline_us <= report.latency_us
    assert report.binding == binding or target != "trn2"
    assert report.to_dict()["bound_error"] == 0
    assert report.roofline_us == pytest.approx(report.launch_us + max(report.bounds_us.values()))


@pytest.mark.parametrize("part", range(4))
def test_random_programs_keep_to_their_bound(part: int):
    """A few of those that `python -m tests.bounds.fuzz` runs by the thousand."""
    found = [broken(seed, MOST) for seed in range(50_000 + part * PART, 50_000 + (part + 1) * PART)]
    kernels = [each for each in found if each not in (REFUSED, CRASHED, LONG)]
    assert not any(kernels), "\n".join(filter(None, kernels))
    assert len(kernels) > PART // 3


def test_a_kernel_below_the_bound_says_so():
    """Where the bound is put higher than what the kernel does, each part of it is named."""
    made = tw.compile(attention, *(spec(512, 64),) * 3, target="trn2")
    report, target = made.report, made.target
    assert report.bound_error == 0
    least, kernel = made.bounds, tw.profile(made.tile_ir, target="trn2").timing

    def errors(**changed: Any) -> dict[str, float]:
        return with_bound(kernel, replace(least, **changed), report.hbm_bytes, target).bound_errors

    assert set(errors(compulsory_bytes=2 * report.hbm_bytes)) == {"bytes"}
    assert errors(compulsory_bytes=2 * report.hbm_bytes)["bytes"] == pytest.approx(0.5)
    assert "dma" in errors(moved_bytes=10**8) and "latency" in errors(moved_bytes=10**8)
    assert set(errors(tensor_ns=1e6)) == {"latency", TENSOR}
    assert set(errors(work=replace(least.work, least_ns=1e6))) == {"latency", LANES}
    assert set(errors(chain_ns=1e6)) == {"latency"}
    assert with_bound(kernel, replace(least, chain_ns=1e6), report.hbm_bytes, target).bound_error > 0.9


PROGRAMS = {
    "softmax": (softmax, lambda n: (spec(n, 2 * n),)),
    "attention": (attention, lambda n: (spec(n, 64), spec(2 * n, 64), spec(2 * n, 64))),
    "layer norm": (
        lambda x, w: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w,
        lambda n: (spec(n, n), spec(n)),
    ),
    "product": (lambda a, b: np.tanh(a @ b), lambda n: (spec(n, n), spec(n, n, dtype=BF16))),
    "gather": (lambda t, i: np.exp(t[i]), lambda n: (spec(4 * n, n), spec(n, dtype=np.int32))),
    "sorted": (lambda x: np.sort(x, axis=-1)[:, :8], lambda n: (spec(n, n),)),
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_larger_programs_need_more(case: str):
    made, args = PROGRAMS[case]
    target = get_target("trn2")
    found = [bound_of(made, *args(n)).us(target) for n in (64, 100, 256, 1000)]
    for smaller, larger in pairwise(found):
        assert all(smaller[name] <= larger[name] * (1 + 1e-9) for name in smaller), (smaller, larger)


@pytest.mark.parametrize("case", PROGRAMS)
def test_work_that_nothing_needs_is_not_counted(case: str):
    made, args = PROGRAMS[case]

    def busy(*arrays):
        for array in arrays:
            np.tanh(np.exp(array.astype(np.float32))).sum()
        return made(*arrays)

    assert bound_of(busy, *args(256)) == bound_of(made, *args(256))


@pytest.mark.parametrize("case", PROGRAMS)
def test_a_further_output_only_raises_the_bound(case: str):
    made, args = PROGRAMS[case]

    def more(*arrays):
        found = made(*arrays)
        return found, np.exp(found).sum(), arrays[0][:2] * 2

    target = get_target("trn2")
    one, two = bound_of(made, *args(256)).us(target), bound_of(more, *args(256)).us(target)
    assert all(one[name] <= two[name] * (1 + 1e-9) for name in one), (one, two)


def _elements(name: str) -> int:
    return sum(int(np.prod(each.shape)) for each in CASES[name].args)


def _smallest() -> list[str]:
    """The smallest and fastest case of every kernel, unless that takes long to run."""
    found: dict[str, str] = {}
    for name in sorted(CASES, key=lambda name: (_elements(name), CASES[name].entry.us)):
        found.setdefault(CASES[name].kernel, name)
    return [name for name in found.values() if _elements(name) < 1 << 20]


@pytest.mark.parametrize("name", _smallest())
def test_kernels_of_the_calibration_set(name: str):
    timing, _ = time_run(build(CASES[name]))
    assert timing.bound_error == 0 and timing.roofline_us <= timing.latency_us


ELEMENTWISE = [record for record in TABLE.values() if record.family == "elementwise"]


@pytest.mark.parametrize("record", ELEMENTWISE, ids=lambda record: record.name)
def test_every_elementwise_op_has_a_bound(record: OpRecord):
    """Those of several results (frexp) too: it has to read and to write each element once."""
    kind = np.int32 if record.name.startswith(("bitwise", "left", "right", "gcd", "lcm", "invert")) else np.float32
    kinds = [bool if name == "condition" else kind for name in record.operands]
    graph = Graph("one", [Value(type_of(np.zeros((64, 32), each))) for each in kinds], dialect=DIALECT)
    attrs = {name: as_dtype(np.int32) for name in record.attrs}
    graph.outputs = emit_all(Builder(graph), record.name, *graph.inputs, **attrs)
    sizes = [value.type.size * value.type.dtype.itemsize for value in (*graph.inputs, *graph.outputs)]
    assert bound(graph, get_target("trn2")).compulsory_bytes == sum(sizes)

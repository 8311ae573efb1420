"""Moving data about: reshapes, transposes, slices, joins, paddings and updates of any rank and extent."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import TARGETS, check, fits, floats
from tilewright.ir.walk import walk
from tilewright.lower.decisions import noted
from tilewright.spec import spec

Function = Callable[..., Any]


@pytest.mark.req("S4-50")
@pytest.mark.req("S4-52")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((3, 100, 8), (300, 8)),
        ((300, 8), (3, 100, 8)),
        ((525, 4), (5, 105, 4)),
        ((7, 75, 4), (525, 4)),
        ((256, 1), (1, 256)),
        ((6, 35), (15, 14)),
        ((130, 6), (780,)),
        ((2, 3, 4, 5), (6, 20)),
        ((), (1, 1)),
        ((1, 1), ()),
    ],
    ids=str,
)
def test_reshapes(old: tuple[int, ...], new: tuple[int, ...]):
    x = floats(*old)
    check(lambda x: x.reshape(new), x)
    check(lambda x: (x * 2).reshape(new) + 1, x, targets=("trn1", "trn3"))


@pytest.mark.req("S4-51")
@pytest.mark.req("S4-54")
def test_few_instructions():
    """Moves are transfers, not instructions per row."""
    kernel = fits(lambda x: x.reshape(1152, 1536), spec((1152, 2, 16, 16, 3), "float32"))
    assert kernel.report.instructions <= 36
    kernel = fits(lambda x: x.reshape(4, 16, 4, 16, 8), spec((64, 64, 8), "float32"))
    assert kernel.report.instructions <= 4
    kernel = fits(lambda x: x.transpose(0, 2, 3, 4, 1), spec((1152, 3, 2, 16, 16), "float32"))
    assert kernel.report.instructions <= 72


@pytest.mark.req("S4-54")
@pytest.mark.parametrize("shape", [(140, 5), (5, 130, 3), (2, 3, 40, 5), (2, 3, 2, 5, 4)], ids=str)
def test_every_permutation(shape: tuple[int, ...]):
    x = floats(*shape)
    orders = list(permutations(range(len(shape))))
    for i, order in enumerate(orders[:: max(1, len(orders) // 12)]):
        check(lambda x, order=order: x.transpose(order), x, targets=(TARGETS[i % 3],))
        check(lambda x, order=order: np.exp(x).transpose(order) + 1, x, targets=(TARGETS[i % 2],), tolerance=1e-6)


@pytest.mark.req("S4-54")
@pytest.mark.parametrize(
    ("shape", "order", "instructions"),
    [
        ((8, 16, 32, 8), (3, 1, 0, 2), 8),
        ((4, 64, 12, 64), (0, 2, 1, 3), 8),
        ((2, 3, 224, 224), (0, 2, 3, 1), 20),
        ((2, 224, 224, 3), (0, 3, 1, 2), 20),
        ((16, 128, 7, 7), (0, 2, 3, 1), 8),
        ((12, 20, 30, 40), (3, 2, 1, 0), 20),
        ((6, 7, 8, 9, 10), (4, 3, 2, 1, 0), 16),
        ((6, 7, 8, 9, 10), (2, 4, 0, 3, 1), 16),
        ((100_003, 3), (1, 0), 24),
        ((1024, 1024), (1, 0), 100),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_any_order_is_near_the_limit(shape: tuple[int, ...], order: tuple[int, ...], instructions: int, dtype: str):
    """Runs are long on both sides, of x that is read once (a little more of small ones) and of the result."""
    report = fits(lambda x: x.transpose(order), spec(shape, dtype)).report
    assert report.hbm_bytes <= 1.1 * report.compulsory_bytes + (1 << 17)
    assert report.latency_us <= 2.5 * report.roofline_us
    assert report.instructions <= instructions


@pytest.mark.req("S4-54")
@pytest.mark.parametrize("shape", [(300, 200), (3, 260, 130)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_rows_that_lie_across_memory(shape: tuple[int, ...], dtype: str):
    """They are turned when they are loaded, bit for bit."""
    x, y = floats(*shape), floats(*shape[:-2], shape[-1], shape[-2], seed=1)
    x.flat[3], x.flat[700] = np.inf, -np.inf
    x, y = ((np.nan_to_num(a, posinf=9, neginf=-9) * 99 if dtype == "int32" else a).astype(dtype) for a in (x, y))
    check(lambda x, y: np.maximum(np.swapaxes(x, -1, -2), y), x, y)


@pytest.mark.req("S4-54")
def test_transposes_of_every_type():
    """Larger ones too, bit for bit: infinities and NaN stay where they are."""
    x = floats(200, 270)
    x[3, 5], x[100, 200], x[7, 7] = np.inf, np.nan, -np.inf
    check(lambda x: x.T, x)
    check(lambda x: x.transpose(0, 1, 3, 2), floats(2, 100, 8, 64), targets=("trn2",))
    for dtype in ("int8", "uint16", "int32", "float16"):
        check(
            lambda x: x.T, (x[:140, 20:160] * 99).astype(dtype, casting="unsafe") if dtype == "float16" else ints(dtype)
        )


def ints(dtype: str) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.default_rng(0).integers(info.min, info.max, (140, 150), dtype, endpoint=True)


@pytest.mark.req("S4-59")
def test_slices_with_steps():
    kernel = check(lambda x: x[:, :, 2:30:2, 3:31:2], floats(1, 16, 32, 32), targets=("trn2",))
    assert kernel.report.instructions <= 48
    check(lambda x: x[::-1, ::2] + x[:, 1::2], floats(130, 8))
    check(lambda x: x[5:300:7, 1], floats(300, 4))


@pytest.mark.req("S4-77")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[-1],
        lambda x: x[3:200],
        lambda x: x[np.int64(2), ..., None],
        lambda x: x[None, 5:9, :, -2:],
        lambda x: x[..., 0],
        lambda x: x[131:, 1:, ::3],
        lambda x: x[0, 1, 2],
        lambda x: x[10:10],
        lambda x: x[::-1, ::-1, ::-1],
    ],
)
def test_indexing(function: Function):
    check(function, floats(260, 3, 7))
    check(lambda x: function(x * 2) + 1, floats(260, 3, 7), targets=("trn2",))


@pytest.mark.req("S4-57")
@pytest.mark.req("S4-58")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.concatenate([x, x * 2, x[:3]]),
        lambda x: np.concatenate([x, x + 1], axis=-1),
        lambda x: np.stack([x, -x], axis=1),
        lambda x: np.split(x, [3, 200], axis=0),
        lambda x: np.split(x + 1, 3, axis=1),
        lambda x: np.repeat(x, 3, axis=1),
        lambda x: np.tile(x, (2, 2)),
        lambda x: np.flip(x),
        lambda x: np.roll(x, 5, axis=0),
        lambda x: np.roll(x, (1, -2), axis=(0, 1)),
        lambda x: np.diff(x, axis=0),
        lambda x: np.pad(x, ((1, 2), (3, 0))),
        lambda x: np.pad(x, 2, mode="reflect"),
        lambda x: np.pad(x, 1, mode="edge") * 2,
        lambda x: np.pad(x, 3, mode="wrap"),
        lambda x: np.pad(x, 2, constant_values=-7.5),
        lambda x: np.outer(x[:, 0], x[0]),
        lambda x: np.triu(x, -2) + np.eye(260, 6),
        lambda x: np.meshgrid(x[0], x[:, 0]),
    ],
)
def test_joins_and_paddings(function: Function):
    check(function, floats(260, 6), tolerance=1e-6)


@pytest.mark.req("S4-57")
@pytest.mark.req("S4-58")
@pytest.mark.req("S4-59")
@pytest.mark.parametrize(
    ("function", "shape", "instructions"),
    [
        (lambda x: x[:, ::-1], (1024, 1024), 50),
        (lambda x: np.flip(x), (513, 1000), 60),
        (lambda x: x[::-1], (100_003,), 24),
        (lambda x: x[:, ::2], (1024, 1024), 40),
        (lambda x: x[::3, 1::3], (1024, 1024), 40),
        (lambda x: x[..., 1], (1024, 256, 4), 40),
        (lambda x: np.stack([x, x[:, ::-1]], -1), (512, 512), 20),
        (lambda x: np.concatenate([x, x[:, :1]], 1), (65536, 3), 20),
        (lambda x: np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=2), (8, 16, 28, 28), 12),
        (lambda x: np.broadcast_to(x[:, None], (4096, 64)), (4096,), 12),
        (lambda x: update(x, x[:, 1::2], where=np.s_[:, ::2]), (1024, 1024), 40),
        (lambda x: np.pad(x, ((1, 2), (2, 2), (2, 1), (0, 1))), (32, 16, 75, 1), 24),
        (lambda x: np.repeat(x, 2, axis=-1), (1024, 512), 40),
        (lambda x: np.repeat(x, 4, axis=1), (4, 8, 256, 64), 12),
        (lambda x: np.tile(x, (2, 2)), (512, 512), 20),
        (lambda x: np.roll(x, 5), (512, 512), 4),
        (lambda x: np.rot90(x), (1024, 1024), 110),
        (lambda x: x[..., [2, 1, 0, 3]], (256, 256, 4), 24),
        (lambda x: x.transpose(0, 2, 3, 1).mean((1, 2)), (8, 64, 28, 28), 24),
        (lambda x: x.reshape(2, 14, 16, 14, 16, 3).swapaxes(2, 3).reshape(2, 196, 768), (2, 224, 224, 3), 12),
        (lambda x: np.exp(x[:, ::-1]) * x, (1024, 1024), 40),
        (lambda x: np.cumsum(x.T, axis=1), (512, 512), 60),
        (lambda x: x.T.reshape(512, 1024) + x.reshape(512, 1024), (1024, 512), 100),
        (lambda x: (np.exp(x) / np.exp(x).sum(-1, keepdims=True)).T, (512, 384), 48),
        (lambda x: np.tanh(x @ x.T)[:, ::-1], (384, 512), 72),
    ],
)
def test_short_runs_are_near_the_limit(function: Function, shape: tuple[int, ...], instructions: int):
    """Elements that lie apart, or the other way round: read in long runs and put in order on chip."""
    kernel = fits(function, spec(shape, "float32"))
    report, graph = kernel.report, kernel.traced.graph
    assert report.latency_us <= 2 * report.roofline_us
    # Of what a step leaves out, whole runs are read.
    assert report.hbm_bytes <= 1.6 * sum(x.type.size * 4 for x in (*graph.inputs, *graph.outputs))
    assert report.instructions <= instructions


def update(x: Any, y: Any, *, where: Any) -> Any:
    x = x.copy()
    x[where] = y
    return x


@pytest.mark.req("S4-84")
@pytest.mark.parametrize(
    ("where", "shape"),
    [
        (np.s_[3:140], (137, 6)),
        (np.s_[:, 2:4], (260, 2)),
        (np.s_[::3, ::2], (87, 3)),
        (np.s_[-1], (6,)),
        (np.s_[5, 2], ()),
        (np.s_[129:131, 1:], (2, 5)),
    ],
    ids=str,
)
def test_updates(where: Any, shape: tuple[int, ...]):
    x, y = floats(260, 6), floats(*shape, seed=1)
    check(lambda x, y: update(x, y, where=where), x, y)
    check(lambda x, y: update(x * 2, y + 1, where=where).sum(-1), x, y, tolerance=1e-5, targets=("trn2",))
    check(lambda x: update(x, 4.0, where=where), x, targets=("trn1",))


def _wavelet(a: Any, b: Any) -> Any:
    out = np.empty((2 * a.shape[0], 2 * a.shape[1]), a.dtype)
    out[0::2, 0::2], out[0::2, 1::2] = a + b, a - b
    out[1::2, 0::2], out[1::2, 1::2] = b - a, b
    return out


def _zeros_between(a: Any, b: Any) -> Any:
    out = np.zeros((2 * a.shape[0], 3 * a.shape[1]), a.dtype)
    out[1::2, 2::3] = a * b
    return out


def _written_over(a: Any, b: Any) -> Any:
    out = np.zeros((*a.shape, 2), a.dtype)
    out[..., 1] = a
    out[0::2, 1::2, 1] = b[1::2, 0::2]
    out[0::2, 0::2, 0] = a[0::2, 1::2] + 1
    return out


@pytest.mark.parametrize("put", [_wavelet, _zeros_between, _written_over])
def test_updates_of_every_other_element(put: Any):
    """They are put in place on chip: a transfer would take an element at a time."""
    check(put, floats(130, 8), floats(130, 8, seed=1))
    report = fits(put, spec((256, 128), "float32"), spec((256, 128), "float32")).report
    assert report.latency_us <= 3 * report.roofline_us


def _rows_of_a_triangle(x: Any) -> Any:
    out = np.zeros(x.shape, x.dtype)
    for k in range(8):
        row = np.tanh(x[k] * k)
        out[k, k], out[k, k + 1 :] = row[0], row[: x.shape[1] - k - 1]
    return out


def _read_between(x: Any) -> Any:
    """What was there before an update is read after it, as a copy and as a view."""
    out = np.zeros(x.shape, x.dtype)
    out[3, 1] = np.tanh(x[0, 0])
    before, top = out.copy(), out[:5] * 2
    out[4:6, :7] = np.exp(x[1:3, 1:8])
    return out, before, top


def _shifted_within(x: Any) -> Any:
    """A part of the value itself is written over it."""
    out = np.zeros(x.shape, x.dtype)
    out[2, 2:9] = np.tanh(x[0, :7])
    out[1:9] = out[:8]
    out[:, 1:9] = out[:, :8]
    return out, out.T


@pytest.mark.parametrize("put", [_rows_of_a_triangle, _read_between, _shifted_within])
def test_updates_one_after_the_other(put: Any):
    check(put, floats(48, 48))


def test_updates_change_what_nothing_else_reads_in_its_place():
    """Each moves its part alone: the whole was copied every time."""
    with noted() as decisions:
        report = fits(_rows_of_a_triangle, spec((48, 48), "float32")).report
    assert "update: in place" in decisions
    assert report.hbm_bytes <= 2 * report.compulsory_bytes


@pytest.mark.req("S4-48")
@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16"])
def test_counting(dtype: str):
    kind = np.float32 if dtype == "bfloat16" else dtype
    check(lambda x: x + np.arange(300).astype(kind)[:, None] * 2, floats(300, 4).astype(kind))
    check(lambda x: x * np.arange(4, 8).astype(kind), floats(300, 4).astype(kind))
    fits(lambda x: x + np.arange(128_256, dtype=np.float32), spec((1, 128_256), "float32"))


def _substituted(x: Any) -> Any:
    t = (x @ x.T) * 0.1
    for i in range(1, t.shape[0]):
        row = t[i : i + 1, :]
        t[i : i + 1, :] = row + row @ (t * 0.01)
    return t + 1


def _replaced(x: Any) -> Any:
    t = np.maximum(x, -2.0)
    t[3:4, :] = np.tanh(t[0:1, :]) + t[1:2, :]
    t[7:8, 2:6] = t[0:1, 1:5] * 2 + t[2:3, 3:7]
    return t * t


@pytest.mark.parametrize("size", [9, 33])
def test_rows_one_after_the_other(size: int):
    """Each row needs all rows before it: they are written on chip, without transfers in between."""
    kernel = check(_substituted, floats(size, size), tolerance=1e-5)
    assert kernel.report.hbm_bytes == kernel.report.compulsory_bytes


def test_rows_that_are_written_over():
    x = floats(20, 20)
    x[3], x[7, 3] = np.inf, np.inf
    check(_replaced, x, tolerance=1e-6)


def butterflies(x: Any) -> Any:
    for h in (1, 2, 4):
        z = x.reshape(x.shape[0], -1, 2, h)
        x = np.stack([z[:, :, 0] + z[:, :, 1], z[:, :, 0] - z[:, :, 1]], 2).reshape(x.shape)
    return x


def stacked(x: Any) -> Any:
    twice, other = x * 2, np.tanh(x)
    return np.stack([twice, twice, other + 1], 1), np.stack([x + 1, other], -1), np.stack([x - 1, x * x], 0).sum(-1)


@pytest.mark.parametrize("function", [butterflies, stacked])
@pytest.mark.parametrize("rows", [5, 200])
def test_what_is_stacked_is_made_in_its_place(function: Any, rows: int):
    check(function, floats(rows, 24), tolerance=1e-6)


def test_stacks_take_no_copies():
    kernel = tw.compile(butterflies, tw.spec((256, 512), np.float32), check="off")
    ops = list(walk(kernel.tile_ir))
    made = {op.operands[0].buffer for op in ops if op.name == "tensor_tensor"}
    # What comes from HBM is picked out of the rows that were loaded.
    touched = {x.buffer for op in ops if op.name == "tensor_copy" for x in op.operands}
    assert made and made.isdisjoint(touched)
    assert kernel.report.latency_us < 30

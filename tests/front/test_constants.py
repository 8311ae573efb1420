"""Host arrays that meet traced ones: structured ones are recognised, all keep their bits."""

from __future__ import annotations

import time

import ml_dtypes
import numpy as np
import pytest

from tests.front.kit import BFLOAT16, check, ops, traced
from tilewright.dtypes import host_dtype
from tilewright.front.structure import rule_of
from tilewright.spec import spec
from tilewright.tensor.ops.creation import band, full, iota
from tilewright.tensor.passes.simplify import simplify

MEANING = {"full": full, "iota": iota, "band": band}

ARRAYS = {
    "zeros": (np.zeros((3, 4), np.float32), "full"),
    "minus zero": (np.full((3, 4), -0.0, np.float32), "full"),
    "infinity": (np.full((3, 4), -np.inf, np.float16), "full"),
    "nan": (np.full(5, np.nan), "full"),
    "number": (np.array(3.5, BFLOAT16), "full"),
    "one element": (np.array([[7]], np.uint64), "full"),
    "bools": (np.ones((2, 2, 2), bool), "full"),
    "empty": (np.zeros((2, 0), np.int8), "full"),
    "repeated": (np.broadcast_to(np.float32(3), (10**4, 10**5)), "full"),
    "arange": (np.arange(10), "iota"),
    "arange floats": (np.arange(1.5, 9, 0.5, dtype=np.float32), "iota"),
    "arange down": (np.arange(10, -10, -3, dtype=np.int16), "iota"),
    "rows": (np.broadcast_to(np.arange(8)[:, None], (8, 5)), "iota"),
    "columns": (np.tile(np.arange(6, dtype=np.uint8), (4, 3, 1)), "iota"),
    "range of bfloat16": (np.arange(12).astype(BFLOAT16), "iota"),
    "eye": (np.eye(5, dtype=np.float32), "band"),
    "wide eye": (np.eye(4, 7, k=2, dtype=np.int32), "band"),
    "tril": (np.tril(np.ones((6, 6), np.float32)), "band"),
    "triu": (np.triu(np.full((5, 8), -1e9, np.float32), k=1), "band"),
    "causal": (np.triu(np.ones((8, 8), bool), k=1), "band"),
    "two values": (np.where(np.tri(4, 5) > 0, 2.5, -3.5), "band"),
    "window": (np.tril(np.triu(np.ones((9, 9)), -2), 1), "band"),
    "batched": (np.tile(np.tri(6, dtype=np.float32), (2, 3, 1, 1)), "band"),
    "strided": (np.tile(np.eye(8), 2)[:, ::2], None),
    "transposed": (np.triu(np.ones((6, 4))).T, "band"),
    "float8": (np.tri(4).astype(ml_dtypes.float8_e5m2), "band"),
    "corner": (np.pad(np.ones((1, 1)), ((0, 3), (3, 0))), "band"),
    "random": (np.random.default_rng(0).normal(size=(7, 7)), None),
    "one off": (np.arange(100) + (np.arange(100) == 57), None),
    "band with a hole": (np.tri(40) - np.pad(np.ones((1, 1)), ((25, 14), (3, 36))), None),
    "almost uniform": (np.pad(np.ones((64, 64)), ((0, 1), (0, 0))), None),
    "zeros of both signs": (np.array([0.0, -0.0, 0.0]), None),
    "nan of other bits": (np.array([0x7FC00001] * 3, np.uint32).view(np.float32), None),
    "three values": (np.tri(5) + np.eye(5), None),
    "not monotonous": (np.array([0, 1, 2, 2, 3]), None),
    "linspace": (np.linspace(0, 1, 11, dtype=np.float32), None),
    "beyond float64": (np.arange(3, dtype=np.uint64) + np.uint64(2**63 + 1), None),
}


@pytest.mark.req("S4-45")
@pytest.mark.parametrize("name", ARRAYS)
def test_recognition(name: str):
    array, op = ARRAYS[name]
    rule = rule_of(array, host_dtype(array.dtype))
    assert (None if rule is None else rule.op) == op
    if rule is not None and array.size < 10**6:
        made = MEANING[rule.op].meaning(**rule.attrs)
        assert made.dtype == array.dtype and made.shape == array.shape
        assert np.ascontiguousarray(made).tobytes() == np.ascontiguousarray(array).tobytes()


@pytest.mark.req("S4-45")
@pytest.mark.parametrize("name", [name for name, (array, _) in ARRAYS.items() if array.size < 10**6])
def test_constants_keep_their_bits(name: str):
    array, _ = ARRAYS[name]
    check(lambda x: np.where(x, array, array), np.array(True))


@pytest.mark.req("S4-46")
def test_a_causal_mask_is_a_band():
    def attend(scores):
        size = len(scores)
        return scores + np.triu(np.full((size, size), -1e9, dtype=np.float32), k=1)

    assert ops(check(attend, np.ones((16, 16), np.float32)).graph) == ["band", "add"]


@pytest.mark.req("S4-47")
@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e4m3fn", "float8_e5m2", "float8_e3m4", "bfloat16"])
def test_every_code_of_small_floats(dtype: str):
    kind = np.dtype(getattr(ml_dtypes, dtype))
    codes = np.arange(256 if kind.itemsize == 1 else 65536).astype(f"u{kind.itemsize}").view(kind)
    found = traced(lambda x: np.where(x, codes, codes), np.array(True))
    (constant,) = [op for op in found.graph.ops if op.name == "constant"][:1]
    assert constant.attrs["value"].array.tobytes() == codes.tobytes()


def test_large_masks_are_recognised_quickly():
    mask = np.triu(np.full((4096, 4096), -1e9, np.float32), 1)
    start = time.process_time()
    rule = rule_of(mask, host_dtype(mask.dtype))
    assert rule is not None and rule.op == "band"
    assert time.process_time() - start < 1.0


LARGE = 1 << 15


@pytest.mark.parametrize(
    ("make", "low", "high", "inside", "outside"),
    [
        (lambda: np.triu(np.full((LARGE, LARGE), -1e9, dtype=np.float32), k=1), 1, None, -1e9, 0),
        (lambda: np.tril(np.ones((LARGE, LARGE), np.float32)), None, 0, 1, 0),
        (lambda: np.where(np.tri(LARGE, dtype=bool), np.float32(0), np.float32(-2)), 1, None, -2, 0),
        (lambda: np.eye(LARGE, dtype=np.float32), 0, 0, 1, 0),
    ],
)
def test_masks_that_are_too_large_to_make_are_described(make, low, high, inside, outside):
    program = traced(lambda x: x + make(), spec((LARGE, LARGE), "float32"))
    simplify(program.graph)
    (found,) = (op.attrs for op in program.graph.ops if op.name == "band")
    assert (found["low"], found["high"], found["inside"], found["outside"]) == (low, high, inside, outside)

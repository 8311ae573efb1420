"""Dims of one element that are dropped after a product and put back before the next: they stay meanwhile."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats
from tests.tensor.models import softmax

BF16 = ml_dtypes.bfloat16


def one_token(q: Any, k: Any, v: Any) -> Any:
    s = np.einsum("hd,shd->hs", q.astype(np.float32), k.astype(np.float32)) / math.sqrt(q.shape[-1])
    return np.einsum("hs,shd->hd", softmax(s), v.astype(np.float32))


def with_scores(q: Any, k: Any, v: Any) -> Any:
    """What stands between the products is needed elsewhere too."""
    s = np.einsum("hd,hsd->hs", q, k)
    p = softmax(s)
    return np.einsum("hs,hsd->hd", p, v), s, p.max(1), p.sum(0)


def masked(q: Any, k: Any, v: Any, m: Any, c: Any) -> Any:
    s = np.einsum("hd,hsd->hs", q, k) * c[:, None] + m
    return np.einsum("hs,hsd->hd", np.exp(s - s.max(-1, keepdims=True)), v)


def other(q: Any, k: Any, v: Any) -> Any:
    """No product before."""
    return np.einsum("hs,hsd->hd", np.tanh(q @ np.ones((q.shape[1], k.shape[1]), np.float32)), v)


PROGRAMS = [
    (one_token, (floats(3, 16).astype(BF16), floats(40, 3, 16).astype(BF16), floats(40, 3, 16).astype(BF16))),
    (one_token, (floats(5, 8), floats(150, 5, 8), floats(150, 5, 8))),
    (with_scores, (floats(3, 16), floats(3, 20, 16), floats(3, 20, 16))),
    (masked, (floats(3, 16), floats(3, 20, 16), floats(3, 20, 16), floats(20), floats(3))),
    (masked, (floats(3, 16), floats(3, 20, 16), floats(3, 20, 16), floats(3, 20), floats(3))),
    (other, (floats(4, 7), floats(4, 9, 5), floats(4, 9, 5))),
]


@pytest.mark.parametrize(("function", "args"), PROGRAMS)
def test_results_are_the_same(function: Any, args: tuple[Any, ...]):
    check(function, *args, tolerance=1e-5)


@pytest.mark.parametrize("dims", ["shd", "hsd"])
def test_a_token_of_many_heads_is_one_step(dims: str):
    shape = tuple({"s": 2048, "h": 16, "d": 128}[d] for d in dims)

    def heads(q: Any, k: Any, v: Any) -> Any:
        s = np.einsum(f"hd,{dims}->hs", q.astype(np.float32), k.astype(np.float32)) / math.sqrt(128)
        return np.einsum(f"hs,{dims}->hd", softmax(s), v.astype(np.float32))

    k = tw.compile(heads, tw.spec((16, 128), BF16), *[tw.spec(shape, BF16)] * 2, target="trn2", check="off")
    assert k.report.hbm_bytes < 1.05 * k.report.compulsory_bytes
    assert k.report.latency_us < 2 * k.report.roofline_us


def cached(q: Any, kc: Any, vc: Any, k: Any, v: Any) -> Any:
    kc[-1], vc[-1] = k, v
    return one_token(q, kc, vc)


def joined(q: Any, kc: Any, vc: Any, k: Any, v: Any) -> Any:
    return one_token(q, np.concatenate([kc, k[None]]), np.concatenate([vc, v[None]]))


@pytest.mark.parametrize("function", [cached, joined])
def test_a_cache_is_there_before_what_reads_it(function: Any):
    check(function, floats(3, 16), floats(40, 3, 16), floats(40, 3, 16), floats(3, 16), floats(3, 16), tolerance=1e-5)
    cache, new = tw.spec((2048, 16, 128), BF16), tw.spec((16, 128), BF16)
    k = tw.compile(function, new, cache, cache, new, new, target="trn2", check="off")
    assert str(k.plan).count("written as keys on partitions, for few queries") == 1
    assert k.report.latency_us < 3 * k.report.roofline_us

"""Rows of products that are several dims, in any order and spelling: what is large stays in the order it is made in."""

from __future__ import annotations

from itertools import count
from math import inf
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.fuzzing.toys import Setting, toys
from tests.lower.kit import check, fits, floats
from tilewright.front.function import trace
from tilewright.ir.verify import verify
from tilewright.lower import forms
from tilewright.lower.rewrite import one_order
from tilewright.lower.rewrite.one_order import keep_one_order
from tilewright.target import get_target
from tilewright.tensor.interpret import interpret
from tilewright.tensor.passes.pipeline import run


def softmax(s: Any, axis: int = -1) -> Any:
    e = np.exp(s - s.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def by_einsum(q: Any, k: Any, v: Any) -> Any:
    b, s, h, d = q.shape
    g = k.shape[2]
    a = softmax(np.einsum("bsgrd,btgd->bgrst", q.reshape(b, s, g, h // g, d), k) * 0.25)
    return np.einsum("bgrst,btgd->bsgrd", a, v).reshape(b, s, h * d)


def rows_by_hand(q: Any, k: Any, v: Any) -> Any:
    """A causal mask between rows merged as (head, query)."""
    b, s, h, d = q.shape
    g = k.shape[2]
    rows = q.reshape(b, s, g, h // g, d).transpose(0, 2, 3, 1, 4).reshape(b, g, -1, d)
    a = (rows @ k.transpose(0, 2, 3, 1) * 0.25).reshape(b, h, s, -1)
    a = softmax(np.where(np.tri(s, k.shape[1], dtype=bool), a, -1e9)).reshape(b, g, -1, k.shape[1])
    return (a @ v.transpose(0, 2, 1, 3)).reshape(b, h, s, d).swapaxes(1, 2).reshape(b, s, h * d)


def groups_inside(q: Any, k: Any, v: Any) -> Any:
    """The group varies fastest."""
    b, s, h, d = q.shape
    g = k.shape[2]
    a = softmax(np.einsum("bsrgd,btgd->brgst", q.reshape(b, s, h // g, g, d), k) * 0.25)
    return np.einsum("brgst,btgd->bsrgd", a, v).reshape(b, s, h, d)


def keys_first(q: Any, k: Any, v: Any) -> Any:
    """Scores with keys as rows, which the softmax goes along."""
    k, v = (np.repeat(x, q.shape[2] // x.shape[2], 2).swapaxes(1, 2) for x in (k, v))
    p = softmax(k @ q.transpose(0, 2, 3, 1) * 0.25, -2)
    return (p.swapaxes(-1, -2) @ v).swapaxes(1, 2)


def keys_between(q: Any, k: Any, v: Any) -> Any:
    """Softmax over the first dim of [t, h, s, b]."""
    k, v = (np.repeat(x, q.shape[2] // x.shape[2], 2) for x in (k, v))
    return np.einsum("thsb,bthd->bshd", softmax(np.einsum("bshd,bthd->thsb", q, k) * 0.25, 0), v)


def one_key_head(q: Any, k: Any, v: Any) -> Any:
    """Rows merged as (query, head), which is how the queries lie."""
    b, s, h, d = q.shape
    a = softmax((q.reshape(b, s * h, d) @ k[:, :, 0].swapaxes(1, 2) * 0.25).reshape(b, s, h, -1))
    return (a.reshape(b, s * h, -1) @ v[:, :, 0]).reshape(b, s, h * d)


def sequence_first(q: Any, k: Any, v: Any) -> Any:
    """Heads and batch merged behind the sequence."""
    b, s, h, d = q.shape
    q, k, v = (np.repeat(x, h // x.shape[2], 2).transpose(1, 0, 2, 3).reshape(-1, b * h, d) for x in (q, k, v))
    a = (q.swapaxes(0, 1) @ k.transpose(1, 2, 0)).reshape(b, h, s, -1) * 0.25
    o = softmax(a).reshape(b * h, s, -1) @ v.swapaxes(0, 1)
    return o.swapaxes(0, 1).reshape(s, b, h * d)


def with_itself(q: Any, k: Any, v: Any) -> Any:
    """Rows and columns that are the same dim of one value, as are those of the second product."""
    x = np.tanh(q).transpose(0, 2, 1, 3)
    p = softmax(x @ x.swapaxes(-1, -2))
    return (p @ p.swapaxes(-1, -2)).transpose(2, 0, 1, 3).reshape(q.shape[1], -1) * k.sum() + v.max()


def windows(q: Any, k: Any, v: Any) -> Any:
    """Windows of a picture as the batch, their pixels as rows."""
    b, n, h, d = q.shape
    x = q.reshape(b, n // 4, 4, h // 2, 2, d).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 8, d)
    y = softmax(x @ x.swapaxes(1, 2)).reshape(b, -1, 8, 8) + k[0, :8, 0, :8]
    y = y.reshape(-1, 8, 8) @ np.tanh(x)
    return y.reshape(b, n // 4, h // 2, 4, 2, d).transpose(0, 1, 3, 2, 4, 5).reshape(q.shape) + q, v


def spread_of_clusters(q: Any, k: Any, v: Any) -> Any:
    """Weighted sums over all rows, of what is computed for each row and cluster: products of one row each."""
    x, centres = q.reshape(-1, q.shape[-1]), k[0, :3, 0]
    weights = softmax(x @ centres.T)
    distance = (x[:, None] - centres) ** 2
    return np.einsum("nk,nkd->kd", weights, distance) / weights.sum(0)[:, None], np.einsum(
        "nkd,nk->dk", distance, weights
    )


SPELLINGS = {
    f.__name__: f
    for f in (
        *(by_einsum, rows_by_hand, groups_inside, keys_first, keys_between),
        *(one_key_head, sequence_first, with_itself, windows, spread_of_clusters),
    )
}


def take_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """This form alone, whether or not less is moved and less time is taken."""
    all_of, falling = forms._other_forms, count(-1, -1)  # pyright: ignore[reportPrivateUsage]

    def others(*given: Any) -> Any:
        return (form for form in all_of(*given) if form.name == forms.ONE_ORDER)

    monkeypatch.setattr(one_order, "moved", lambda _: next(falling))
    monkeypatch.setattr(forms, "_other_forms", others)
    monkeypatch.setattr(forms, "_wanting", lambda *_: [])
    monkeypatch.setattr(forms, "_sent_away", lambda *_: [])
    monkeypatch.setattr(forms, "_is_sooner", lambda *_: True)
    monkeypatch.setattr(forms, "_most_ns", lambda *_: inf)


@pytest.mark.parametrize("name", SPELLINGS)
def test_every_spelling_is_right(name: str, monkeypatch: pytest.MonkeyPatch):
    """Whether or not it is the form that takes less time."""
    take_one_order(monkeypatch)
    kernel = check(SPELLINGS[name], floats(2, 16, 4, 8), floats(2, 16, 2, 8), floats(2, 16, 2, 8), tolerance=1e-5)
    assert kernel.schedule.form == forms.ONE_ORDER


@pytest.mark.parametrize("toy", toys())
def test_on_a_few_partitions(toy: str, monkeypatch: pytest.MonkeyPatch):
    take_one_order(monkeypatch)
    with Setting(toy).in_force():
        check(
            *(rows_by_hand, floats(1, 6, 4, 4), floats(1, 6, 2, 4), floats(1, 6, 2, 4)),
            tolerance=1e-5,
            targets=(toys()[toy],),
        )


@pytest.mark.parametrize("name", ["by_einsum", "rows_by_hand", "groups_inside", "keys_first", "one_key_head"])
def test_weights_of_heads_stay_on_chip(name: str):
    """Weights of two heads for each key head are 4 MB; what is read and written is 0.5 MB."""
    kernel = fits(SPELLINGS[name], floats(1, 512, 4, 32), floats(1, 512, 2, 32), floats(1, 512, 2, 32))
    assert kernel.report.hbm_bytes <= 2.1 * kernel.report.compulsory_bytes


def test_terms_of_long_sums_stay_on_chip():
    """The squares are 32 times the rows."""
    x, centres = floats(8192, 1, 1, 8), floats(1, 3, 1, 8)
    report = fits(spread_of_clusters, x, centres, centres).report
    assert report.hbm_bytes <= 1.5 * report.compulsory_bytes


def heads_of_windows(x: Any, w: Any) -> Any:
    q, k, v = (x @ w).reshape(*x.shape[:2], 3, 4, -1).transpose(2, 0, 3, 1, 4)
    return softmax(q @ k.swapaxes(-1, -2)) @ v


@pytest.mark.parametrize("tokens", [64, 32])
def test_windows_lie_as_their_heads_are_read(tokens: int):
    """Tokens of two windows that share the partitions would be taken apart by way of HBM, for each of q, k and v."""
    x, w = floats(16, tokens, 64), floats(64, 192, seed=1) * np.float32(0.1)
    kernel = check(heads_of_windows, x, w, tolerance=2e-5, targets=("trn2",))
    assert kernel.report.hbm_bytes <= 1.1 * kernel.report.compulsory_bytes


class Chain:
    """A random function of three arrays: views, products, sums along dims, and what is computed element by element."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, *arrays: Any) -> Any:
        self.draw = Random(self.seed)
        known = list(arrays)
        for _ in range(self.draw.randint(3, 12)):
            step = self.draw.choice((self.turn, self.merge, self.less_max, self.total, self.add, self.product))
            step = self.draw.choice((step, step, self.contract, self.twice, self.part, self.scan))
            made = step(self.draw.choice(known[-3:]), known)
            if made.ndim <= 6 and made.size <= 30000:
                known.append(made)
        return known[-1], known[-2]

    def axis(self, x: Any) -> int:
        return self.draw.randrange(max(x.ndim, 1))

    def turn(self, x: Any, known: list[Any]) -> Any:
        return x.transpose(self.draw.sample(range(x.ndim), x.ndim))

    def merge(self, x: Any, known: list[Any]) -> Any:
        shape = list(x.shape)
        if x.ndim > 1 and self.draw.random() < 0.5:
            i = self.draw.randrange(x.ndim - 1)
            shape[i : i + 2] = [shape[i] * shape[i + 1]]
        elif x.ndim:
            i = self.axis(x)
            factors = [n for n in (2, 3, 4, 6) if shape[i] % n == 0]
            shape[i : i + 1] = [n := self.draw.choice([1, *factors]), shape[i] // n]
        return x.reshape(shape)

    def less_max(self, x: Any, known: list[Any]) -> Any:
        return x - x.max(self.axis(x), keepdims=True) if x.ndim else x

    def total(self, x: Any, known: list[Any]) -> Any:
        axes = tuple(sorted(self.draw.sample(range(x.ndim), self.draw.randint(0, max(x.ndim - 1, 0)))))
        return x.sum(axes, keepdims=self.draw.random() < 0.3) * 0.25

    def add(self, x: Any, known: list[Any]) -> Any:
        return x + self.draw.choice([y for y in known if y.shape == x.shape])

    def product(self, x: Any, known: list[Any]) -> Any:
        if x.ndim < 2:
            return np.tanh(x)
        fitting = [y for y in known if y.ndim > 1 and y.shape[-2] == x.shape[-1] and y.shape[:-2] in ((), x.shape[:-2])]
        return x @ self.draw.choice([x.swapaxes(-1, -2), *fitting]) * 0.1

    def contract(self, x: Any, known: list[Any]) -> Any:
        y = self.draw.choice(known)
        mine = [chr(ord("a") + i) for i in range(x.ndim)]
        theirs = [chr(ord("n") + i) for i in range(y.ndim)]
        for j, n in enumerate(y.shape):
            alike = [a for a, m in zip(mine, x.shape, strict=True) if m == n and a not in theirs]
            if alike and self.draw.random() < 0.8:
                theirs[j] = self.draw.choice(alike)
        sizes = dict(zip(mine + theirs, x.shape + y.shape, strict=True))
        out = [a for a in sizes if a not in theirs or a not in mine or self.draw.random() < 0.6]
        self.draw.shuffle(out)
        large = np.prod([sizes[a] for a in out]) > 20000
        return x if large else np.einsum(f"{''.join(mine)},{''.join(theirs)}->{''.join(out)}", x, y) * 0.1

    def twice(self, x: Any, known: list[Any]) -> Any:
        return np.repeat(x, 2, self.axis(x)) if x.ndim and x.size < 5000 else x

    def part(self, x: Any, known: list[Any]) -> Any:
        if not x.ndim or x.shape[axis := self.axis(x)] == 1:
            return x
        half = x.shape[axis] // 2
        one, other = np.take(x, 0, axis), [np.moveaxis(np.moveaxis(x, axis, 0)[i:], 0, axis) for i in (half, half)]
        return self.draw.choice([one, other[0], np.concatenate([other[0], other[1] * 2], axis)])

    def scan(self, x: Any, known: list[Any]) -> Any:
        return np.cumsum(x, self.axis(x)) * 0.3 if x.ndim else x[None]


def random_arrays(seed: int) -> list[np.ndarray]:
    draw = Random(seed)
    shapes = [tuple(draw.choice((2, 3, 4, 6, 8)) for _ in range(draw.randint(2, 4))) for _ in range(3)]
    shapes[1] = draw.choice(shapes[:2])
    return [floats(*shape, seed=seed + i) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_random_programs_keep_their_meaning(first: int, monkeypatch: pytest.MonkeyPatch):
    """Written anew whether or not less is moved then, for few lanes and for many."""
    monkeypatch.setattr(one_order, "moved", lambda graph: len(graph.ops))
    for seed in range(first, first + 40):
        arrays = random_arrays(seed)
        graph = run(trace(Chain(seed), arrays, {}).graph).graph
        other, lanes = graph.clone(), Random(seed).choice((1, 4, 128))
        keep_one_order(other, get_target("trn2").replace({"limits.partitions": lanes}))
        assert not verify(other)
        for one, wanted in zip(interpret(other, arrays), interpret(graph, arrays), strict=True):
            assert one.dtype == wanted.dtype
            np.testing.assert_allclose(one, wanted, atol=1e-4 * (1 + np.abs(wanted).max(initial=0)), err_msg=f"{seed}")

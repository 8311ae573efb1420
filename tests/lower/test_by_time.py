"""Ways that the clock chooses: rows held on chip while passes go by parts, several short rows in a partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check
from tests.tensor.models import layer_norm, softmax
from tilewright.lower.choose import fit
from tilewright.lower.choose.ways import Candidate, ways
from tilewright.lower.lowering import Lowering
from tilewright.lower.regions.grouping import Group


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


def losses(logits: Any, y: Any) -> Any:
    p = softmax(logits)
    onehot = (np.arange(logits.shape[1])[None, :] == y[:, None]).astype(np.float32)
    return -np.log((p * onehot).sum(-1) + 1e-9), (p - onehot) / 3


def spread(x: Any) -> Any:
    low, high = x.min(-1, keepdims=True), x.max(-1, keepdims=True)
    unit = (x - low) / (high - low)
    return unit, (unit * unit).sum(-1), np.abs(x - unit.mean(-1, keepdims=True)).max(-1)


ROWS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (softmax, (normal(150, 700),)),
    (lambda x: softmax(x.astype(np.float32)), (normal(130, 256, dtype=ml_dtypes.bfloat16),)),
    (lambda x: layer_norm(x, np.float32(2), np.float32(1)), (normal(64, 515),)),
    (losses, (normal(140, 600), np.arange(140, dtype=np.int32))),
    (spread, (normal(3, 50, 384),)),
    (lambda x, w: softmax(x * w) * w, (normal(200, 512), normal(512))),
    (lambda x: (x.sum(1), np.exp(x - x.max(1, keepdims=True)).sum(1)), (normal(129, 640),)),
]


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Write groups one way where they can be written so."""

    def choose(kind: str) -> None:
        def some(low: Lowering, group: Group) -> Iterator[Candidate]:
            every = list(ways(low, group))
            yield from [way for way in every if way.kind == kind] or every

        monkeypatch.setattr(fit, "ways", some)

    return choose


@pytest.mark.parametrize("kind", ["held rows", "many rows"])
@pytest.mark.parametrize(("function", "arguments"), ROWS)
def test_every_way_gives_the_same(function: Callable[..., Any], arguments: tuple, kind: str, only: Callable) -> None:
    only(kind)
    if kind == "many rows":
        # Rows that are short, and many.
        arguments = tuple(
            np.ascontiguousarray(a[..., :24]) if a.ndim == 1 and a.size == 512 else a[..., :24] if a.ndim > 1 else a
            for a in arguments
        )
        arguments = tuple(np.tile(a, (3,) + (1,) * (a.ndim - 1)) if len(a) != 24 else a for a in arguments)
    kernel = check(function, *arguments, targets=("trn1", "trn2"), tolerance=1e-5)
    words = {"held rows": "rows on chip", "many rows": "rows in each partition"}[kind]
    assert words in str(kernel.plan)


def test_short_rows_share_instructions() -> None:
    kernel = tw.compile(softmax, tw.spec((65536, 16), "float32"), target="trn2")
    assert kernel.report.instructions < 100 and "rows in each partition" in str(kernel.plan)


def test_long_rows_overlap(only: Callable) -> None:
    arguments = tw.spec((512, 8000), "float32"), tw.spec((512,), "int32")
    report = tw.compile(losses, *arguments, target="trn2").report
    only("whole rows")
    assert report.latency_us < 0.7 * tw.compile(losses, *arguments, target="trn2").report.latency_us
    assert report.hbm_bytes < 1.01 * report.compulsory_bytes


def test_what_a_group_waits_for_comes_first() -> None:
    def nearest(q: Any, x: Any) -> Any:
        d = (q * q).sum(1)[:, None] - 2 * q @ x.T + (x * x).sum(1)
        return d.argmin(1), d.min(1)

    check(nearest, normal(150, 20), normal(20, 1, 300)[:, 0].T, targets=("trn2",), tolerance=1e-4)
    report = tw.compile(nearest, tw.spec((1024, 64), "float32"), tw.spec((4096, 64), "float32")).report
    assert report.hbm_bytes < 2 * report.compulsory_bytes


def test_what_steps_of_a_recurrence_read_stays_on_chip() -> None:
    def recur(h: Any, w: Any, xs: Any) -> Any:
        for t in range(xs.shape[0]):
            h = np.tanh(xs[t] + h @ w)
        return h

    shapes = (64, 256), (256, 256), (6, 64, 256)
    report = tw.compile(recur, *(tw.spec(shape, "float32") for shape in shapes), target="trn2").report
    assert report.hbm_bytes <= 1.01 * report.compulsory_bytes


def test_heads_lie_beside_each_other() -> None:
    def turned(q: Any, c: Any, s: Any) -> Any:
        a, b = q[..., :16], q[..., 16:]
        return np.concatenate([a * c - b * s, b * c + a * s], -1)

    kernel = check(turned, normal(2, 3, 200, 32), normal(200, 16), normal(200, 16), targets=("trn1", "trn2"))
    assert "200 rows, 16]" in str(kernel.plan)


def test_the_best_way_is_the_one_that_is_written() -> None:
    """A way that keeps an engine busy all the time is not good for that."""
    kernel = tw.compile(lambda x: np.cumsum(x.T, axis=1), tw.spec((512, 512), "float32"), target="trn2")
    assert kernel.report.latency_us <= 2 * kernel.report.roofline_us
    assert kernel.plan.steps[0].hbm_bytes == kernel.report.hbm_bytes


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Group, str]]:
    """The ways that are tried, each with the group that it is one of."""
    noted: list[tuple[Group, str]] = []

    own: Callable[..., str | None] = fit._Choice._try

    def noting(self: Any, way: Candidate, *bound: Any) -> str | None:
        noted.append((self.group, way.name))
        return own(self, way, *bound)

    monkeypatch.setattr(fit._Choice, "_try", noting)
    return noted


def test_the_best_way_is_written_once(tries: list[tuple[Group, str]]) -> None:
    """The way that is taken stands aside while others are tried, and is put back as it was."""
    check(losses, normal(512, 6000), np.arange(512, dtype=np.int32), targets=("trn2",), tolerance=1e-5)
    for group in {id(group): group for group, _ in tries}.values():
        names = [name for tried, name in tries if tried is group]
        assert len(names) == len(set(names)) > 1


def test_layers_that_are_alike_are_searched_once(tries: list[tuple[Group, str]]) -> None:
    """Ways are compared for the first of them; the others are written as it was."""

    def layers(x: Any, w: Any) -> Any:
        for _ in range(6):
            x = softmax(np.tanh(x @ w) * 3).T
        return x

    x, w = normal(256, 256), normal(256, 256)
    check(layers, x, w / 16, targets=("trn2",), tolerance=1e-4)
    counts = Counter(id(group) for group, _ in tries if group.batch == () and len(group.inside) > 7)
    assert sorted(counts.values())[:3] == [1, 1, 1] and max(counts.values()) > 1


def polynomial(x: Any, c: Any) -> Any:
    y = np.zeros_like(x)
    for i in range(len(c)):
        y = y * x * 0.01 + c[i]
    return y


def test_steps_that_cannot_win_are_not_all_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that is divided is given up once it is worse than what is known, and the kernel is the same."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", "off")
    arrays = tw.spec((1024, 16), "float32"), tw.spec((24,), "float32")
    given_up = tw.compile(polynomial, *arrays, target="trn2")
    assert "divided into smaller steps" in str(given_up.plan)
    assert "before all of it is written" in str(given_up.plan)
    monkeypatch.setattr(fit, "_loses_to", lambda best: None)
    written = tw.compile(polynomial, *arrays, target="trn2")
    assert "before all of it is written" not in str(written.plan)
    assert str(written.tile_ir) == str(given_up.tile_ir)

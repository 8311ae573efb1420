"""Regions of neighbours in patches with a border: every spelling gives NumPy's numbers, however it is cut."""

from __future__ import annotations

from functools import reduce
from math import inf
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.fuzzing.toys import small_tuning, toys
from tests.lower.kit import TARGETS, check, floats, sampled
from tilewright.lower.decisions import noted
from tilewright.lower.regions.patches import Along, loads
from tilewright.lower.tuning import tuned


def inside(u: Any) -> Any:
    for _ in range(3):
        v = u.copy()
        v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        u = v
    return u


def shrinking(u: Any) -> Any:
    for _ in range(3):
        u = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return u


def ring(u: Any) -> Any:
    v = np.zeros_like(u)
    for _ in range(2):
        v = v + np.float32(0.1) * (np.roll(u, 1, 0) + np.roll(u, -2, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u)
        u = u + v
    return u, v


def edges(x: Any) -> Any:
    p = np.pad(x, ((2, 2), (1, 0)), mode="edge")
    return (p[:-4, 1:] + p[1:-3, :-1] + p[4:, 1:]) * 0.5


def zeros(u: Any) -> Any:
    for _ in range(2):
        p = np.pad(u, 1)
        u = u + np.float32(0.1) * (p[2:, 1:-1, 1:-1] + p[:-2, 1:-1, 1:-1] - p[1:-1, 2:, 1:-1] + p[1:-1, 1:-1, :-2])
    return u


def slopes(x: Any) -> Any:
    down, along = np.gradient(x)
    return np.sqrt(down * down + along * along), np.abs(down)


def middle(x: Any) -> Any:
    a, b, c = x[:, :-2], x[:, 1:-1], x[:, 2:]
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def mirrored(x: Any) -> Any:
    """Joins of what lies in another order: a few elements, a half that looks like a roll, and every other one."""
    p = np.pad(np.pad(x, ((2, 3), (0, 0)), mode="symmetric"), ((0, 0), (2, 1)), mode="reflect")
    n = x.shape[0] // 2
    turned = np.concatenate([x[n:0:-1], x[:n]])
    others = np.concatenate([x, x[:-n:-2], x[1:6:2]])
    return p[5:, 3:] - p[:-5, :-3] * x, turned[1:] + turned[:-1], others[1:] * others[:-1]


def weighted(x: Any, w: Any, bias: Any) -> Any:
    p, out = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), 0
    for i in range(3):
        for j in range(3):
            out = out + p[:, i : i + x.shape[1], j : j + x.shape[2]] * w[i, j]
    return np.tanh(out + bias)


def of_columns(x: Any, c: Any) -> Any:
    return (x[1:] - x[:-1]) * c[1:] + x[1:, :1]


def rolled(x: Any) -> Any:
    return 0.5 + np.roll(x, -3, 0)


def counted(x: Any) -> Any:
    n = sum(np.roll(np.roll(x, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
    return ((n == 3) | ((x == 1) & (n == 2))).astype(np.int32)


def by_rows(x: Any, w: Any) -> Any:
    p = np.pad(x, ((3, 0), (0, 0)))
    y = sum(p[i : i + x.shape[0]] * w[i] for i in range(4))
    return y / (1 + np.exp(-y))


def in_batches(x: Any, w: Any) -> Any:
    p = np.pad(x, ((0, 0), (1, 1), (0, 0)))
    return np.tanh(p[:, :-2] * w[0] + p[:, 1:-1] * w[1] + p[:, 2:] * w[2]) + 1


def of_channels(x: Any, w: Any) -> Any:
    return tw.conv(x, w, padding=1, groups=x.shape[1]) * 0.5


def of_turned_channels(x: Any, w: Any) -> Any:
    y = tw.conv(np.transpose(x, (0, 3, 1, 2)), w, padding=(1, 0), dilation=2, groups=x.shape[3])
    return np.maximum(np.transpose(y, (0, 2, 3, 1)), 0), y.sum(axis=3)


def beside_others(x: Any, w: Any) -> Any:
    return x @ w, np.exp(x).max(axis=0), x[1:] - x[:-1]


def along_few_rows(x: Any, h: Any) -> Any:
    """Shifts along the last dim alone."""
    n = x.shape[-1] - 4
    return np.tanh(sum(h[k] * np.abs(x[:, k : k + n]) for k in range(5)))


def beyond_a_part_of_the_greatest(x: Any) -> Any:
    """What is compared with a number made of all of it is no part of its region."""
    p = np.pad(x, 1, mode="edge")
    m = np.abs(p[2:, 1:-1] - p[:-2, 1:-1]) + np.abs(p[1:-1, 2:] - p[1:-1, :-2])
    return np.where(m > 0.5 * m.max(), m, np.float32(0))


def medians(x: Any) -> Any:
    """Neighbours side by side in a dim of their own, whose parts have dims of one element."""
    p = np.pad(x, 1, mode="reflect")
    h, w = x.shape
    return np.median(np.stack([p[i : i + h, j : j + w] for i in range(3) for j in range(3)], axis=-1), axis=-1)


def greatest_of_turned(x: Any) -> Any:
    """The same in the middle, and what is not computed of parts of one array alone."""
    around = np.stack([np.roll(x, n, 0) for n in (-1, 0, 1)], axis=1)
    return np.tanh(around).max(1) + np.exp(x[:, None])[:, 0], np.sqrt(np.abs(x[1:] - x[:-1]))


def parts_computed(x: Any, y: Any) -> Any:
    """What is computed of parts: of overlapping ones once, of others, and of two arrays, where the parts are alike."""
    once = np.exp(x[:-2]) + np.exp(x[1:-1]) * 2 + np.exp(x[2:])
    pairs = np.where(x[:-1] > y[:-1], x[:-1], 3) - np.where(x[1:] > y[1:], x[1:], 3)
    return once, pairs, np.tanh(x[:5]) + np.tanh(x[-5:]), np.where(x[2:] > y[:-2], x[2:], y[1:-1])


def descent(b: Any, x: Any) -> Any:
    """Numbers made of everything between passes over neighbours, and passes that read none."""

    def around(p: Any) -> Any:
        q = 4 * p
        q[1:] -= p[:-1]
        q[:-1] -= p[1:]
        q[:, 1:] -= p[:, :-1]
        q[:, :-1] -= p[:, 1:]
        return q

    left = b - around(x)
    p, rest = left, (left * left).sum()
    q = around(p)
    step = rest / (p * q).sum()
    x, left = x + step * p, left - step * q
    p = left + (left * left).sum() / rest * p
    return x, (p * around(p)).sum(), np.abs(left).max()


def settling(u: Any) -> Any:
    """Rings, and extremes of what is smaller than the rest of the region."""
    for _ in range(2):
        near = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 3, 1)
        u = u + near / (1 + np.abs(near).max())
    inner = u[2:-1, 1:] - u[1:-2, :-1]
    return u, inner.min(), u.mean(), np.tanh(inner).sum(keepdims=True)


def pooled(x: Any) -> Any:
    p = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
    h, w = x.shape[1:3]
    return reduce(np.maximum, [p[:, i : i + h : 2, j : j + w : 2] for i in range(3) for j in range(3)])


def of_every_third(x: Any, y: Any) -> Any:
    """Steps that differ by dim, with and without neighbours, of two arrays, and of what was computed."""
    z = np.exp(-x * x)
    n, m = y.shape
    a, b, c = (
        z[1 : 1 + 3 * n : 3, 0 : 2 * m : 2],
        z[4 : 4 + 3 * n : 3, 1 : 1 + 2 * m : 2],
        z[0 : 3 * n : 3, 4 : 4 + 2 * m : 2],
    )
    return a * y - b + c, np.abs(b[1:, 1:] - a[:-1, :-1])


def smaller_twice(x: Any) -> Any:
    """A pyramid: every other element of what was made of every other one."""
    for _ in range(2):
        p = np.pad(x, 1, mode="edge")
        h = x.shape[0]
        rows = 0.25 * p[: h - 1 : 2, 1:-1] + 0.5 * p[1:h:2, 1:-1] + 0.25 * p[2 : h + 1 : 2, 1:-1]
        x = rows[:, :-1:2] + rows[:, 1::2]
    return x


def of_one(x: Any) -> Any:
    """A batch of one, and channels of one: every way to move elements."""
    h, w = x.shape[1:3]
    p = np.pad(x, ((0, 0), (1, 1), (2, 0), (0, 0)), mode="edge")
    y = p[:, :-2, 1:-1] + p[:, 2:, :-2] * p[:, 1:-1, 2:]
    y[:, 1:-1] -= 0.5 * x[:, 2:]
    q = np.concatenate([y[:, :3] * 2, np.pad(y, ((0, 0), (0, 2), (0, 0), (0, 0)))], 1)
    return q[:, : h - 1, 1:] - q[:, 1:h, : w - 1]


def both(x: Any) -> Any:
    """Every other element, and all of them: no one region has both."""
    y = x[1:] - x[:-1]
    return y * 2 + x[1:], np.tanh(x[::2] - x[1::2]), (y[1:] + y[:-1])[::2, ::2]


TAPS: list[tuple[Any, tuple[Any, ...]]] = [
    (by_rows, (floats(70, 12), floats(4, 12, seed=1))),
    (in_batches, (floats(3, 40, 8), floats(3, 8, seed=1))),
    (of_channels, (floats(2, 5, 9, 8), floats(5, 1, 3, 3, seed=1))),
    (of_turned_channels, (floats(2, 11, 9, 4), floats(4, 1, 3, 2, seed=1))),
]

PROGRAMS: list[tuple[Any, tuple[Any, ...]]] = [
    (inside, (floats(36, 20),)),
    (shrinking, (floats(25, 31),)),
    (ring, (floats(20, 13),)),
    (edges, (floats(131, 9),)),
    (zeros, (floats(9, 12, 6),)),
    (slopes, (floats(30, 17),)),
    (middle, (floats(3, 50, 20),)),
    (mirrored, (floats(18, 13),)),
    (weighted, (floats(2, 8, 5, 3), floats(3, 3, 3, seed=1), floats(3, seed=2))),
    (of_columns, (floats(70, 24), floats(70, 1, seed=3))),
    (beside_others, (floats(40, 24), floats(24, 8, seed=4))),
    (rolled, (floats(48, 15),)),
    (along_few_rows, (floats(3, 200), floats(5, seed=5))),
    (beyond_a_part_of_the_greatest, (floats(40, 14),)),
    (medians, (floats(21, 17),)),
    (descent, (floats(13, 11), floats(13, 11, seed=6))),
    (settling, (floats(17, 12),)),
    (greatest_of_turned, (floats(40, 9),)),
    (parts_computed, (floats(30, 11), floats(30, 11, seed=2))),
    (pooled, (floats(2, 12, 10, 4),)),
    (pooled, (floats(1, 9, 13, 3),)),
    (of_every_third, (floats(34, 30), floats(10, 13, seed=7))),
    (smaller_twice, (floats(24, 20),)),
    (both, (floats(26, 12),)),
    (of_one, (floats(1, 23, 14, 1),)),
    (counted, ((np.random.default_rng(0).random((20, 14)) < 0.4).astype(np.int32),)),
]


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patches are taken wherever they fit, however long they take."""
    monkeypatch.setattr("tilewright.lower.forms._is_sooner", lambda *_: True)
    monkeypatch.setattr("tilewright.lower.forms._most_ns", lambda *_: inf)


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize(("function", "arguments"), PROGRAMS)
def test_patches(function: Any, arguments: tuple[Any, ...]):
    target = TARGETS[[each for each, _ in PROGRAMS].index(function) % len(TARGETS)]
    with tuned(few_elements=8), noted() as notes:
        check(function, *arguments, targets=[target], tolerance=1e-5)
    assert "way: patches" in notes


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize(("function", "arguments"), sampled(PROGRAMS))
def test_patches_of_toys(function: Any, arguments: tuple[Any, ...]):
    target = ("toy2", "toy3")[[each for each, _ in PROGRAMS].index(function) // 2 % 2]
    with tuned(**{**small_tuning(), "few_elements": 8, "patch_chunks": 64}):
        check(function, *arguments, targets=[toys()[target]], tolerance=1e-5)


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize(("function", "arguments"), TAPS)
def test_convolutions_of_single_channels_as_sums(function: Any, arguments: tuple[Any, ...]):
    target = TARGETS[[each for each, _ in TAPS].index(function) % len(TARGETS)]
    with tuned(few_elements=8), noted() as notes:
        check(function, *arguments, targets=[target], tolerance=1e-5)
    assert {"rule: taps of a convolution", "way: patches"} <= set(notes)


def test_sequences_of_vectors_stay_as_they_lie():
    arrays = tw.spec((8192, 128), np.float32), tw.spec((4, 128), np.float32)
    report = tw.compile(by_rows, *arrays, target="trn2", check="off").report
    assert report.hbm_bytes <= 1.3 * report.compulsory_bytes
    assert report.latency_us <= 2.2 * report.roofline_us


@pytest.mark.parametrize("ring", [False, True])
def test_every_place_comes_from_its_element(ring: bool):
    generator = np.random.default_rng(7)
    for _ in range(200):
        n, size = int(generator.integers(1, 40)), int(generator.integers(1, 12))
        low, high = (int(each) for each in generator.integers(0, 15, 2))
        along = Along(size, -(-n // size), n if ring else None)
        found: dict[tuple[int, int], int] = {}
        for run in loads(n, (-low, size + high), along):
            for b in range(run.count):
                for i in range(run.length):
                    place = run.first + b, run.place + i
                    assert place not in found
                    found[place] = run.start + b * size + i * run.step
        assert len(found) == along.count * (low + size + high)
        for (b, place), element in found.items():
            wanted = b * size + place
            assert 0 <= element < n and (element == wanted % n or not (ring or 0 <= wanted < n))


def test_windows_with_steps_are_read_once():
    kernel = tw.compile(pooled, tw.spec((8, 112, 112, 64), np.float32), target="trn2", check="off")
    assert kernel.report.hbm_bytes <= 2.2 * kernel.report.compulsory_bytes
    assert kernel.report.latency_us <= 2.7 * kernel.report.roofline_us


def smoothed(x: Any) -> Any:
    """Weights of columns and of rows."""
    k, p = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16), np.pad(x, ((0, 0), (2, 2), (2, 2)))
    lines: Any = sum(k[i] * p[:, i : i + x.shape[1]] for i in range(5))
    return sum(k[i] * lines[:, :, i : i + x.shape[2]] for i in range(5))


def test_patches_leave_room_for_the_next_ones():
    """Parts of patches each of which fills the chip by itself took 296 us."""
    kernel = tw.compile(smoothed, tw.spec((12, 512, 512), np.float32), target="trn2", check="off")
    assert kernel.report.latency_us <= 260


def test_rows_and_their_neighbours_are_read_once():
    def difference(x: Any) -> Any:
        return x[1:] - x[:-1]

    kernel = tw.compile(difference, tw.spec((4096, 1024), np.float32), target="trn2", check="off")
    assert kernel.report.hbm_bytes <= 1.1 * kernel.report.compulsory_bytes
    assert kernel.report.latency_us <= 1.15 * kernel.report.roofline_us
    assert "patch by patch" in str(kernel.plan)


def test_what_is_no_sooner_stays_in_rows():
    def columns(x: Any) -> Any:
        return x[:, 1:] - x[:, :-1]

    kernel = tw.compile(columns, tw.spec((1024, 1024), np.float32), target="trn2", check="off")
    assert "patch by patch" not in str(kernel.plan)


def test_bits_of_neighbours_are_read_where_they_are():
    def direction(x: Any) -> Any:
        p = np.pad(x, 1, mode="edge")
        return np.arctan2(p[2:, 1:-1] - p[:-2, 1:-1], p[1:-1, 2:] - p[1:-1, :-2])

    check(direction, floats(300, 260), tolerance=1e-6)
    kernel = tw.compile(direction, tw.spec((512, 512), np.float32), target="trn2", check="off")
    assert "patch by patch" in str(kernel.plan)
    assert kernel.report.hbm_bytes <= 1.3 * kernel.report.compulsory_bytes


def test_what_is_computed_of_overlapping_parts_is_computed_once():
    """NaN are looked for in every pixel once, not once for each place in a window."""
    kernel = tw.compile(medians, tw.spec((512, 512), np.float32), target="trn2")
    assert str(kernel.schedule).count("= not_equal") <= 3 and "form patches" in str(kernel.schedule)
    assert kernel.report.hbm_bytes < 1.4 * kernel.report.compulsory_bytes
    assert kernel.report.latency_us < 135

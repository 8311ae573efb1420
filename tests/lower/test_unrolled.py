"""Loops that tracing unrolled: what every step does by itself is done for all steps at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats
from tilewright.lower.decisions import noted


def state_space(x: Any, dt: Any, a: Any, b: Any, c: Any) -> Any:
    h, ys = np.zeros(a.shape, np.float32), []
    for t in range(x.shape[0]):
        h = np.exp(dt[t][:, None] * a) * h + dt[t][:, None] * b[t][None, :] * x[t][:, None]
        ys.append((h * c[t][None, :]).sum(-1))
    return np.stack(ys)


def cell(x: Any, wx: Any, wh: Any) -> Any:
    h, out = np.zeros((x.shape[1], wh.shape[0]), np.float32), []
    for t in range(x.shape[0]):
        h = np.tanh(x[t] @ wx + h @ wh)
        out.append(h)
    return np.stack(out), h


def heads(x: Any, w: Any) -> Any:
    """Columns of each head by themselves, results in another order."""
    parts = [np.exp(x[:, 8 * i : 8 * i + 8] * w) - 1 for i in range(5)]
    return np.concatenate(parts[::-1], axis=1), parts[2].max(1)


def neighbours(x: Any) -> Any:
    """Each step with the one after it, the last one without."""
    return np.stack([np.sqrt(np.abs(x[t])) * x[t + 1] for t in range(x.shape[0] - 1)])


def smoothed(x: Any) -> Any:
    """A recurrence, and what is read of it later."""
    y, out = x[0], []
    for t in range(1, x.shape[0]):
        y = 0.9 * y + 0.1 * x[t]
        out.append(np.tanh(y) * x[t])
    return sum(out)


def gaps(x: Any) -> Any:
    """Some steps do something else."""
    return [np.exp(x[t]) if t % 3 else np.log(np.abs(x[t]) + 1) for t in range(x.shape[0])]


def twice(x: Any, y: Any) -> Any:
    """The same slices in two places, along two dims, and a step that reads itself."""
    rows = [np.sin(x[t]) + y[:, t] for t in range(6)]
    columns = [np.cos(x[:, t : t + 1]) * x[t, 0] for t in range(6)]
    return np.stack(rows), np.concatenate(columns, 1), rows[3] * rows[4]


def sums(x: Any) -> Any:
    return [x[t].reshape(3, 4).T.sum(1) / (1 + np.arange(4)) for t in range(7)]


def updated(x: Any) -> Any:
    out = np.zeros_like(x)
    for t in range(x.shape[0]):
        out[t] = np.exp(x[t]) / (1 + np.exp(x[t]))
    return out


PROGRAMS = [
    (state_space, (floats(9, 20), floats(9, 20), floats(20, 3), floats(9, 3), floats(9, 3))),
    (cell, (floats(6, 2, 16), floats(16, 24), floats(24, 24))),
    (cell, (floats(5, 40, 16), floats(16, 24), floats(24, 24))),
    (heads, (floats(30, 40), floats(30, 8))),
    (neighbours, (floats(8, 33),)),
    (smoothed, (floats(8, 21),)),
    (gaps, (floats(9, 12),)),
    (twice, (floats(6, 6), floats(6, 6))),
    (sums, (floats(7, 12),)),
    (updated, (floats(6, 50),)),
]


@pytest.mark.parametrize(("function", "args"), PROGRAMS)
def test_results_are_those_of_the_steps(function: Any, args: tuple[Any, ...]):
    check(function, *args, tolerance=1e-5)


def fired(function: Any, *args: Any) -> int:
    with noted() as decisions:
        assert tw.compile(function, *args, check="off").tile_ir
    return decisions.count("rule: unrolled")


def test_where_steps_belong_together():
    assert fired(state_space, *PROGRAMS[0][1])
    assert fired(heads, *PROGRAMS[3][1])
    # Too few of them.
    assert not fired(lambda x: [np.exp(x[t]) for t in range(3)], floats(3, 8))
    # Each needs the one before.
    assert not fired(lambda x: np.tanh(np.tanh(np.tanh(x[0] + x[1]) + x[2]) + x[3]), floats(4, 8))


def test_the_recurrence_alone_stays_step_by_step():
    args = [tw.spec(s, np.float32) for s in ((64, 512), (64, 512), (512, 16), (64, 16), (64, 16))]
    k = tw.compile(state_space, *args, target="trn2", check="off")
    # A product and a sum for each step, not ten instructions.
    assert k.report.static_instructions < 6 * 64
    assert k.report.latency_us < 300

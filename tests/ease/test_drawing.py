"""What `compile --check` draws: numbers that suit their use, those of --range, arrays of files; several times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.cli.kit import CommandLine
from tilewright.cli.drawing import Drawing
from tilewright.front.function import trace

X = tw.spec((12, 64), "float32")
ROWS = tw.spec((5,), "int32")
FULL = tw.spec((12, 64), "int32")


def added(x: Any, i: Any) -> Any:
    out = np.zeros((100, 64), np.float32)
    np.add.at(out, i, x[:5])
    return out


def assigned(x: Any, i: Any) -> Any:
    x[i] = 0
    return x


USES = {
    "a row": (lambda x, i: x[i], ROWS, 0, 11, "an index"),
    "along an axis": (lambda x, i: np.take_along_axis(x, i, axis=1), FULL, 0, 63, "an index"),
    "an index that is computed": (lambda x, i: x[2 * (i + 1)], ROWS, -1, 4, "an index"),
    "an index of a float": (lambda x, i: x[i.astype(np.int32)], tw.spec((5,), "float32"), 0, 11, "an index"),
    "two uses": (lambda x, i: x[i] + x[:, i].sum(), ROWS, 0, 11, "an index"),
    "added to rows": (added, ROWS, 0, 99, "an index"),
    "counted": (lambda x, i: np.bincount(i, minlength=16), ROWS, 0, 15, "an index"),
    "assigned to": (assigned, ROWS, 0, 11, "an index"),
    "a mask": (lambda x, i: np.where(i, x, 0), FULL, 0, 1, "a mask"),
    "a mask by comparison": (lambda x, i: np.where(i > 7, x, 0), FULL, 5, 9, "a mask"),
    "a count": (lambda x, i: np.where(np.arange(64) < i[:, None], x[:5], 0), ROWS, 0, 64, "a count"),
    "a shift": (lambda x, i: np.left_shift(3, i), FULL, 0, 31, "a shift"),
    "a divisor": (lambda x, i: 7 // i, FULL, 1, 9, "a divisor"),
    "no use that is known": (lambda x, i: x * i, FULL, -99, 99, ""),
    "bytes": (lambda x, i: x * i, tw.spec((12, 64), "uint8"), 0, 99, ""),
}


@pytest.mark.parametrize("name", USES)
def test_integers_suit_their_use(name: str):
    function, given, low, high, use = USES[name]
    drawing = Drawing(trace(function, (X, given), {}), (X, given), {}, {})
    drawn = [args[1] for args, _ in drawing.calls(40)]
    values = np.unique(np.concatenate([each.ravel() for each in drawn]))
    assert low <= values.min() and values.max() <= high and len(values) > min(3, high - low)
    assert drawing.said() == [f"i from {low}..{high}" + (f" ({use})" if use else "")]
    assert not np.array_equal(drawn[0], drawn[1])


SORTED = {
    "looked up": (lambda x, t: np.searchsorted(t, x), "float32", "t in rising order"),
    "scaled and cast": (
        lambda x, t: np.searchsorted((2 * t - 1).astype(np.float32) / 3, x),
        "int32",
        "in rising order",
    ),
    "turned": (lambda x, t: np.searchsorted(t[::-1], x), "float32", "t in falling order"),
    "turned by its sign": (lambda x, t: np.searchsorted(1 - t, x), "float32", "t in falling order"),
    "turned twice": (lambda x, t: np.searchsorted((-t)[::-1], x), "float32", "t in rising order"),
    "a part": (lambda x, t: np.searchsorted(t[3:-2], x), "float32", "t in rising order"),
    "interpolated": (lambda x, t: np.interp(x, t, np.arange(40.0)), "float32", "t in rising order"),
}


@pytest.mark.parametrize("name", SORTED)
def test_what_is_looked_up_in_is_sorted(name: str):
    """NumPy's answer for other arrays means nothing."""
    function, dtype, said = SORTED[name]
    given = tw.spec((40,), dtype)
    drawing = Drawing(trace(function, (X, given), {}), (X, given), {}, {})
    for (x, table), _ in drawing.calls(3):
        steps = np.diff(table) * (1 if "rising" in said else -1)
        assert np.all(steps >= 0) and np.ptp(table) > 1 and not np.all(np.diff(x.ravel()) >= 0)
    assert drawing.said()[-1].endswith(said)


def test_what_is_in_another_order_is_drawn_as_it_is():
    plain = [
        lambda x, t: np.searchsorted(np.sort(t), x),
        lambda x, t: x + t[:, None],
    ]
    for function in plain:
        given = tw.spec((12,), "float32")
        drawing = Drawing(trace(function, (X, given), {}), (X, given), {}, {})
        assert drawing.said() == []


def test_check_says_what_it_drew_and_how_often(tilewright: CommandLine, tmp_path: Path):
    (tmp_path / "model.py").write_text("def taken(x, rows):\n    return x[rows]\n", encoding="utf-8")
    command = f"compile {tmp_path / 'model.py'}:taken --arg 40x8 --arg 12:int32 --check"
    result = tilewright(command)
    assert result.code == 0 and "agrees with NumPy on random arrays; largest" in result.out
    assert "; rows from 0..39 (an index)" in result.out
    result = tilewright(f"{command} --seeds 3 --range rows=-2..2 --range x=1..2")
    assert result.code == 0 and "on random arrays, 3 times" in result.out
    assert "x from 1..2 (--range); rows from -2..2 (--range)" in result.out
    refused = tilewright(f"{command} --range rows=30..41")
    assert refused.code == 1 and refused.codes() == ["E301"]
    np.save(tmp_path / "rows.npy", np.array([39, 0, 7], np.int32))
    result = tilewright(f"compile {tmp_path / 'model.py'}:taken --arg 40x8 --arg {tmp_path / 'rows.npy'} --check")
    assert result.code == 0 and "rows from" not in result.out


@pytest.mark.parametrize(
    "wrong",
    ["rows=3..1", "rows=0.2..0.8", "rows=0..3000000000", "rows=-inf..3", "rows=nan..3", "other=0..1", "rows=4", "=0.."],
)
def test_ranges_that_say_nothing_are_refused(wrong: str, tilewright: CommandLine, tmp_path: Path):
    (tmp_path / "model.py").write_text("def taken(x, rows):\n    return x[rows]\n", encoding="utf-8")
    command = f"compile {tmp_path / 'model.py'}:taken --arg 40x8 --arg 12:int32"
    result = tilewright(f"{command} --check --range {wrong}")
    assert result.code == 2 and result.codes() == ["E704"]
    assert tilewright(f"{command} --range rows=0..1").code == 2, "nothing is drawn without --check"

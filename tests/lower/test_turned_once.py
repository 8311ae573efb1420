"""Matrices that several products read from the left, on chip with their columns on partitions: beside their rows, or
in their place where there is no room for both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.fuzzing.toys import Setting, toys
from tests.lower.kit import check, fits, floats
from tilewright.lower.decisions import noted
from tilewright.spec import spec

IN_PLACE = "rehome: turned in place"


def ranks(a: Any, p: Any) -> Any:
    m = np.abs(a) / np.abs(a).sum(0)
    for _ in range(3):
        p = 0.8 * (m @ p) + 0.1
    return p


def rows_later(a: Any, p: Any) -> Any:
    """What reads the rows comes last, so that both are needed."""
    m = np.exp(a)
    for _ in range(3):
        p = (m @ p) / 100
    return p, m.max(1) * p[:, 0], m[3]


def both_sides(a: Any, p: Any) -> Any:
    m = np.tanh(a)
    return m @ (m @ p), p.T @ m


def given(a: Any, p: Any) -> Any:
    for _ in range(3):
        p = np.tanh(a @ p / 10)
    return p, a + 1


PROGRAMS = {"ranks": ranks, "rows later": rows_later, "both sides": both_sides, "given": given}


@pytest.mark.parametrize("toy", toys())
@pytest.mark.parametrize("name", PROGRAMS)
def test_on_few_partitions(name: str, toy: str):
    target = toys()[toy]
    lanes, room = target["limits.partitions"], target["memory.sbuf_usable_bytes"]
    # The matrix takes more than half of the room, and less than all of it.
    blocks = next(n for n in range(64, 0, -1) if n * n * lanes * 4 < 0.7 * room)
    n = blocks * lanes
    # So many columns that they are not multiplied one by one.
    with Setting(toy).in_force(), noted() as decisions:
        check(PROGRAMS[name], floats(n, n), floats(n, 9, seed=1), tolerance=2e-5, targets=(target,))
    if name == "ranks" and target["features.transpose_bit_exact"]:
        assert IN_PLACE in decisions


def test_no_room_for_both():
    with noted() as decisions:
        report = fits(ranks, spec((2048, 2048), "float32"), spec((2048, 1), "float32")).report
    assert IN_PLACE in decisions
    # 256 squares of 128 elements are turned once, and multiplied three times.
    assert report.instructions_by_engine["tensor"] < 256 + 3 * 256 + 300
    assert report.hbm_bytes < 1.01 * report.compulsory_bytes


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_numpy(name: str):
    check(PROGRAMS[name], floats(2048, 2048) / 8, floats(2048, 1, seed=1), tolerance=2e-5, targets=("trn2",))

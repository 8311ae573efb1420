"""Arguments that a program changes: only what changes is moved, and whoever reads the old value gets it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.emit.kit import run_source
from tests.lower.kit import check
from tilewright.compiler import Compiled


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def places(below: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, below, shape).astype(np.int32)


def row(x: Any, new: Any) -> None:
    x[7] = new


def appended(cache: Any, new: Any, q: Any) -> Any:
    cache[:, -1] = new
    return np.einsum("hd,hsd->hs", q, cache)


def columns(x: Any) -> None:
    x[:, :4] *= 2


def every_other(x: Any) -> None:
    x[::2] += 1


def rows_by_index(x: Any, i: Any, new: Any) -> None:
    x[i] = new


def added(x: Any, i: Any, new: Any) -> None:
    np.add.at(x, i, new)


def greatest(x: Any, i: Any, new: Any) -> None:
    np.maximum.at(x, i, new)


def along(x: Any, i: Any, new: Any) -> None:
    np.put_along_axis(x, i, new, 1)


def flat(x: Any, new: Any) -> None:
    x.reshape(-1)[100:600] = new


def turned(x: Any, new: Any) -> None:
    x.T[5] = new


def diagonal(x: Any) -> None:
    i = np.arange(256)
    x[i, i] += 1


def given_back(x: Any) -> Any:
    x[3] = 1
    return x


def truths(x: Any, i: Any) -> None:
    x[i] = True


INDEX = np.random.default_rng(2).permutation(256)[:40].astype(np.int32)

IN_PLACE: list[tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = [
    (row, (normal(256, 512), normal(512, seed=1))),
    (appended, (normal(4, 512, 64), normal(4, 64, seed=1), normal(4, 64, seed=2))),
    (columns, (normal(512, 512),)),
    (every_other, (normal(512, 512),)),
    (rows_by_index, (normal(256, 512), INDEX, normal(40, 512, seed=1))),
    (added, (normal(2000, 64), places(2000, 300), normal(300, 64, seed=1))),
    (greatest, (normal(8000, 64), places(8000, 300), normal(300, 64, seed=1))),
    (flat, (normal(256, 512), normal(500, seed=1))),
    (turned, (normal(256, 512), normal(256, seed=1))),
    (diagonal, (normal(256, 256),)),
    (given_back, (normal(256, 512),)),
    (truths, (np.zeros(5000, bool), INDEX)),
]


def writes_to_arguments(kernel: Compiled) -> bool:
    return not set(kernel.tile_ir.inputs).isdisjoint(kernel.tile_ir.outputs)


@pytest.mark.parametrize(("function", "args"), IN_PLACE, ids=[function.__name__ for function, _ in IN_PLACE])
def test_only_what_changes_is_moved(function: Callable[..., Any], args: tuple[np.ndarray, ...]) -> None:
    kernel = check(function, *args, tolerance=1e-5)
    assert writes_to_arguments(kernel)
    report = kernel.report
    assert report.bound_error == 0
    assert report.hbm_bytes < args[0].nbytes // 2 or report.hbm_bytes < 1.2 * report.compulsory_bytes


def test_the_source_changes_its_argument() -> None:
    args = normal(256, 512), normal(512, seed=1)
    kernel = tw.compile(row, *args)
    assert "    return x\n" in kernel.source and "x: float32[256, 512], changed in place" in kernel.source
    given = [each.copy() for each in args]
    made = run_source(kernel.source, given, kernel.target).result
    row(*args)
    assert np.array_equal(made, args[0])


def copied(x: Any) -> Any:
    old = x.copy()
    x[3] = 7
    return old


def read_before(x: Any) -> Any:
    made = x[2:6] * 2
    x[3:5] = 1
    return made, x[2:6] * 3


def read_together(x: Any, y: Any) -> Any:
    before = x[0:8] - y
    x[0:8] = y
    return before + x[0:8]


def moved(x: Any) -> None:
    x[1:] = x[:-1].copy()


def one_after_the_other(x: Any, y: Any) -> Any:
    x[2:5] = y
    total = x.sum(axis=1)
    x[4:9] *= 2
    x[5] = total[:64]
    return np.tanh(x)


def exchanged(x: Any) -> None:
    first = x[0].copy()
    x[0] = x[1]
    x[1] = first


def twice(x: Any, i: Any, new: Any) -> Any:
    x[i] = new
    taken = x[i[::-1]]
    np.add.at(x, i, taken)
    return taken


def neighbours(x: Any) -> None:
    for _ in range(2):
        x[1:-1] = 0.5 * (x[2:] + x[:-2])


def eliminated(a: Any) -> None:
    for j in range(4):
        a[j + 1 :] -= a[j + 1 :, j : j + 1] * a[j] * 0.1


def views(x: Any, new: Any) -> Any:
    turned, tail = x.T, x[10:]
    turned[0] = new
    made = tail.sum(axis=0)
    tail[1] = 5
    return made, turned[:, 11]


def crossed(x: Any, y: Any) -> Any:
    """Neither update can wait for the readers of what it changes: each needs the other one."""
    one, other = x[1:3].copy(), y[1:3].copy()
    x[0] = 1
    y[0] = 1
    return one * y[:2], other * x[:2]


READ: list[tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = [
    (copied, (normal(16, 64),)),
    (read_before, (normal(16, 64),)),
    (read_together, (normal(64, 32), normal(8, 32, seed=1))),
    (moved, (normal(64, 128),)),
    (crossed, (normal(64, 128), normal(64, 128, seed=1))),
    (one_after_the_other, (normal(64, 64), normal(3, 64, seed=1))),
    (exchanged, (normal(8, 512),)),
    (twice, (normal(256, 64), INDEX, normal(40, 64, seed=1))),
    (neighbours, (normal(200, 64),)),
    (eliminated, (normal(64, 64),)),
    (views, (normal(40, 64), normal(40, seed=1))),
    (along, (normal(64, 100), np.argsort(normal(64, 100), axis=1)[:, :5].astype(np.int32), normal(64, 5, seed=1))),
]


@pytest.mark.parametrize(("function", "args"), READ, ids=[function.__name__ for function, _ in READ])
def test_who_reads_the_old_value_gets_it(function: Callable[..., Any], args: tuple[np.ndarray, ...]) -> None:
    check(function, *args, tolerance=1e-5)


def steps_before_and_after(x: Any, y: Any, i: Any, new: Any) -> Any:
    for t in range(8):
        y = np.tanh(y * x[t] + x[t + 1])
    x[i] = new
    for t in range(8):
        y = np.tanh(y * x[t] + x[t + 1])
    return y


def test_what_was_loaded_before_is_loaded_again() -> None:
    """Parts of an argument that every row needs are loaded together, and are others once it was changed."""
    args = normal(9, 256), normal(512, 256, seed=1), np.array([2, 5], np.int32), normal(2, 256, seed=2)
    schedule = str(check(steps_before_and_after, *args, targets=["trn2"], tolerance=1e-4).schedule)
    assert "resident x" in schedule
    kernel = tw.compile(steps_before_and_after, *args, schedule=schedule.replace("resident x", "hbm x"), check="off")
    assert writes_to_arguments(kernel)
    np.testing.assert_allclose(kernel(*[each.copy() for each in args]), steps_before_and_after(*args), atol=1e-4)


def small_steps(a: Any) -> None:
    for j in range(11):
        a[j + 1 :, j] /= a[j, j]
        a[j + 1 :, j + 1 :] -= np.outer(a[j + 1 :, j], a[j, j + 1 :])


def test_small_arguments_are_computed_with_on_chip() -> None:
    """Step by step in HBM, each would wait for the one before."""
    a = normal(12, 12) + 12 * np.eye(12, dtype=np.float32)
    kernel = check(small_steps, a, targets=["trn2"], tolerance=1e-5)
    assert not writes_to_arguments(kernel)
    assert "arguments copied" in str(kernel.schedule)
    again = tw.compile(small_steps, a, schedule=str(kernel.schedule))
    assert str(again.tile_ir) == str(kernel.tile_ir)


def test_arguments_that_are_not_written_to_stay() -> None:
    """A copy has the same updates, and is no argument."""

    def changed(x: Any) -> Any:
        y = x.copy()
        y[7] = 1
        return y

    kernel = check(changed, normal(256, 512))
    assert not writes_to_arguments(kernel)


def test_in_programs_others_still_read_the_old_value() -> None:
    def program(x: Any, new: Any) -> Any:
        before = np.tanh(x)
        kernel(x, new)
        return before, np.tanh(x)

    x, new = normal(256, 512), normal(512, seed=1)
    kernel = tw.jit(row)
    made = tw.program(program, x.copy(), new)
    mine, theirs = x.copy(), x.copy()
    before, after = made(mine, new)
    theirs[7] = new
    assert np.array_equal(mine, theirs)
    np.testing.assert_allclose(before, np.tanh(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(after, np.tanh(theirs), rtol=1e-5, atol=1e-6)

"""Steps that follow from each other: state, matrices and sums stay on chip as the next step reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats
from tilewright.ir.walk import walk
from tilewright.lower.decisions import noted


def power(a: Any, v: Any) -> Any:
    for _ in range(4):
        v = a @ v
        v = v / np.sqrt((v * v).sum() + 1)
    return v


def power_of_rows(a: Any, v: Any) -> Any:
    for _ in range(3):
        v = v @ a
        v = v / (np.abs(v).max() + 1)
    return v


def both_sides(a: Any, x: Any) -> Any:
    for _ in range(3):
        x = np.tanh(a.T @ x) + a @ x
    return x


def likelihood(e: Any, a: Any) -> Any:
    p, logs = e[0] / e[0].sum(), []
    for t in range(1, len(e)):
        p = (p @ a) * e[t]
        s = p.sum()
        p = p / s
        logs.append(np.log(s))
    return np.stack(logs)


def totals(x: Any, y: Any) -> Any:
    z = np.tanh(x @ y)
    return z * z.sum() + z.max(), z.reshape(-1).sum()


PROGRAMS = [
    (power, (floats(150, 150) * np.float32(0.1), floats(150))),
    (power, (floats(5, 5), floats(5, 1))),
    (power_of_rows, (floats(130, 130) * np.float32(0.1), floats(130))),
    (both_sides, (floats(140, 140) * np.float32(0.1), floats(140, 3))),
    (likelihood, (np.abs(floats(5, 20)) + 1, np.abs(floats(20, 20)))),
    (totals, (floats(130, 7), floats(7, 9))),
    (totals, (floats(1, 7), floats(7, 9))),
]


@pytest.mark.parametrize(("function", "args"), PROGRAMS)
def test_results_are_the_same(function: Any, args: tuple[Any, ...]):
    check(function, *args, tolerance=1e-5)


@pytest.mark.parametrize("function", [power, power_of_rows])
def test_a_state_never_leaves_the_chip(function: Any):
    report = tw.compile(function, floats(256, 256), floats(256), target="trn2", check="off").report
    assert report.hbm_bytes == report.compulsory_bytes


def test_a_matrix_is_turned_once_for_all_steps():
    kernel = tw.compile(power, floats(256, 256), floats(256), target="trn2", check="off")
    turned = [op for op in walk(kernel.tile_ir) if op.name == "nc_matmul" and op.attrs["is_transpose"]]
    squares = [op for op in turned if op.operands[1].sizes == (128, 128)]
    assert len(squares) <= 4


def test_a_matrix_that_lies_as_it_is_read_is_not_turned():
    def steps(a: Any, x: Any) -> Any:
        for _ in range(4):
            x = np.tanh(a.T @ x)
        return x

    with noted() as decisions:
        kernel = tw.compile(steps, floats(256, 256), floats(256, 16), target="trn2", check="off")
        assert not [op for op in walk(kernel.tile_ir) if op.name == "nc_matmul" and op.attrs["is_transpose"]]
    assert "left: on chip as it is read" in decisions


def test_few_elements_change_partitions_by_the_tensor_engine():
    with noted() as decisions:
        kernel = tw.compile(power, floats(256, 256), floats(256), target="trn2", check="off").tile_ir
    moves = [op for op in walk(kernel) if op.name == "dma_copy" and all(view.on_chip for view in op.operands[:2])]
    assert "rehome: by the Tensor engine" in decisions and not moves

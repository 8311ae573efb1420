"""Kernels whose loops run as often as data say: captured for these numbers, and again for others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl


@nki.jit
def first_rows(x: Any, count: Any) -> Any:
    """The sum of as many rows as `count` says."""
    held = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=held, src=count)
    total = nl.ndarray((1, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(total, value=0.0)
    register = nisa.register_alloc()
    nisa.register_load(register, held)
    for i in nl.dynamic_range(0, register):
        row = nl.ndarray((1, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        pattern = [[x.shape[1], 1], [1, x.shape[1]]]
        nisa.dma_copy(dst=row, src=x.ap(pattern=pattern, scalar_offset=i, indirect_dim=0))
        nisa.tensor_tensor(dst=total, data1=total, data2=row, op=nl.add)
    out = nl.ndarray((1, x.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=total)
    return out


X = np.arange(32 * 16, dtype=np.float32).reshape(32, 16)


def number(n: int) -> np.ndarray:
    return np.array([[n]], np.int32)


@pytest.mark.req("S0-20")
def test_a_loop_runs_as_often_as_the_numbers_say(tmp_path: Path) -> None:
    p = tw.program(lambda x, n: first_rows(x * 3, n + 2), X, number(5), target="trn2")
    for n in (5, 0, 9):
        assert (p(X, number(n))[0] == 3 * X[: n + 2].sum(0)).all()
    assert [op.operands[0].type.shape for op in p.reads] == [(1, 1)], "only the count decides"
    again = tw.load_program(p.save(tmp_path))
    assert (again.replay()[0] == 3 * X[:7].sum(0)).all()
    with pytest.raises(tw.TileError) as caught:
        again(X, number(6))
    assert caught.value.diagnostic.code == "E901"


def test_shapes_alone_do_not_say_how_often() -> None:
    specs = tw.spec(X.shape, "float32"), tw.spec((1, 1), "int32")
    with pytest.raises(tw.TileError) as caught:
        tw.program(lambda x, n: first_rows(x, n), *specs, target="trn2")
    assert caught.value.diagnostic.code == "E901" and "depends on data" in caught.value.diagnostic.message


def test_the_host_can_read_an_input_before_anything_runs() -> None:
    def twice(x: Any, n: Any) -> Any:
        return first_rows(x, n) * float(n.item())

    p = tw.program(twice, X, number(2), target="trn2")
    assert (p(X, number(2))[0] == 2 * X[:2].sum(0)).all()


def test_too_many_rounds_are_bisected(tmp_path: Path) -> None:
    found = tw.bisect(first_rows, X, number(40), folder=tmp_path)
    assert "R-dma_copy-11" in found.looked_for and "index 32" in found.report

"""Results that a reference does not have: the rows of arguments that they take in and should not, or miss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tests.kit import nisa, nki, nl
from tests.provenance.kit import line_of, loaded, stored

RNG = np.random.default_rng(0)


def array(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def told(kernel: Any, *arrays: np.ndarray, reference: Any, folder: Path) -> list[str]:
    """The evidence besides the instructions that are left."""
    report = tw.bisect(nki.jit(kernel), *arrays, reference=reference, folder=folder).report
    evidence = report.split("## Key evidence")[1].split("## Smallest kernel")[0].strip().splitlines()
    return [line for line in evidence if "the reference's" in line]


def finished(bank: Any, columns: int) -> Any:
    tile = nl.ndarray((bank.shape[0], columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(tile, bank)
    return tile


def test_a_wrong_index_that_is_in_bounds_misses_rows(tmp_path: Path) -> None:
    def kernel(a: Any, b: Any) -> Any:
        out = nl.ndarray((16, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        for m in range(2):
            bank = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)
            for k in range(2):
                left = loaded(a[k * 32 : k * 32 + 32, m * 8 : m * 8 + 8])
                right = nl.ndarray((32, 8), dtype=nl.float32, buffer=nl.sbuf)
                nisa.dma_copy(right, b[m * 32 : m * 32 + 32, :])  # wrong
                nisa.nc_matmul(bank, left, right)
            nisa.dma_copy(out[m * 8 : m * 8 + 8, :], finished(bank, 8))
        return out

    [line] = told(kernel, array(64, 16), array(64, 8), reference=lambda a, b: a.T @ b, folder=tmp_path)
    assert "does not take in rows" in line and "of `b`" in line
    assert line.endswith(f"test_dependence.py:{line_of(kernel, '# wrong')}.")


def test_a_sum_that_is_not_begun_anew_takes_in_others(tmp_path: Path) -> None:
    def kernel(a: Any, b: Any) -> Any:
        out = nl.ndarray((3, 8, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        bank = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)
        for i in range(3):
            nisa.nc_matmul(bank, loaded(a[i]), loaded(b[i]), accumulate=i > 0)  # goes on
            nisa.dma_copy(out[i], finished(bank, 8))
        return out

    def right(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a.swapaxes(1, 2) @ b

    lines = told(kernel, array(3, 32, 8), array(3, 32, 8), reference=right, folder=tmp_path)
    assert len(lines) == 2 and all("takes in rows 0" in line for line in lines)
    assert all("they meet those that it should take in at `nc_matmul`" in line for line in lines)
    assert all(line.endswith(f"test_dependence.py:{line_of(kernel, '# goes on')}.") for line in lines)


def test_rows_of_an_earlier_turn_count_twice(tmp_path: Path) -> None:
    def kernel(x: Any) -> Any:
        ones, tile = (nl.ndarray((32, size), dtype=nl.float32, buffer=nl.sbuf) for size in (1, 8))
        nisa.memset(ones, 1.0)
        bank = nl.ndarray((1, 8), dtype=nl.float32, buffer=nl.psum)
        for start in (0, 32, 64):
            rows = min(32, 80 - start)
            nisa.dma_copy(tile[0:rows, :], x[start : start + rows, :])  # the last turn leaves rows
            nisa.nc_matmul(bank, ones, tile)
        return stored(finished(bank, 8))

    [line] = told(kernel, array(80, 8), reference=lambda x: x.sum(0, keepdims=True), folder=tmp_path)
    assert "rows 40 to 69 of `x` count otherwise" in line
    assert line.endswith(f"test_dependence.py:{line_of(kernel, '# the last turn')}.")


def test_a_function_that_is_wrong_everywhere_is_not_about_rows(tmp_path: Path) -> None:
    def kernel(x: Any) -> Any:
        t = loaded(x)
        nisa.activation(t, nl.exp, t)
        return stored(t)

    assert told(kernel, array(16, 8), reference=lambda x: np.exp(x) + x, folder=tmp_path) == []

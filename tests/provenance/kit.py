"""Small kernels whose indices and values have a history."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.kit import nisa, nl, run
from tilewright.errors import Diagnostic, TileError

P = 128
TABLE = np.zeros((64, 64), np.float32)


def loaded(x: Any, dtype: Any = nl.float32) -> Any:
    """Inside a kernel: an argument in SBUF."""
    t = nl.ndarray(x.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(t, x)
    return t


def stored(t: Any) -> Any:
    """Inside a kernel: a tile as a result."""
    out = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, t)
    return out


def gathered(table: Any, index: Any) -> Any:
    """Inside a kernel: the rows of a table that a column of indices chooses."""
    rows, columns = index.shape[0], table.shape[1]
    t = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    pattern = [[columns, rows], [1, columns]]
    nisa.dma_copy(t, table.ap(pattern=pattern, offset=0, vector_offset=index, indirect_dim=0))
    return t


def routed(scores: Any, table: Any) -> Any:
    """Inside a kernel: the rows of a table that stand where each row of scores is largest."""
    rows = scores.shape[0]
    most = nl.ndarray((rows, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.max8(most, scores)
    index = nl.ndarray((rows, 8), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.nc_find_index8(index, scores, most)
    return gathered(table, index[:, 0:1])


def failure(kernel: Callable[..., Any], *arrays: Any) -> Diagnostic:
    """The diagnostic with which a kernel fails."""
    with pytest.raises(TileError) as caught:
        run(kernel, *arrays)
    return caught.value.diagnostic


def line_of(kernel: Any, mark: str) -> int:
    """The line of a function that carries a mark."""
    lines, first = inspect.getsourcelines(getattr(kernel, "__wrapped__", kernel))
    [found] = [first + i for i, text in enumerate(lines) if mark in text]
    return found

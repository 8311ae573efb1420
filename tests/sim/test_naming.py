"""Tensors without a name are called what the kernel calls them; those of helpers, by who calls these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit import full_run, nisa, nl, np, rejects
from tilewright.errors import TileError


def test_a_tensor_is_called_what_its_line_assigns_it_to() -> None:
    def kernel(x):
        keys = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf)
        queries: object = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf, name="chosen")
        several = [nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2)]
        for tile in (keys, queries, *several):
            nisa.memset(tile, value=0)

    text = str(full_run(kernel).session.graph)
    assert "%keys = alloc" in text and "%chosen = alloc" in text
    assert "%several = alloc" in text and "%several_1 = alloc" in text


def test_diagnostics_speak_the_names_of_the_kernel() -> None:
    def kernel(x):
        weights = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(total, nl.add, weights, axis=1)

    assert "of weights are used" in rejects("R-tensor-08", kernel, np.zeros((1, 1), np.float32)).message


def fresh(shape: tuple[int, ...], dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def scratch(size: int) -> Any:
    """A helper of a kernel that calls another one."""
    made = fresh((128, size))
    assert made.shape == (128, size)
    return made


def line_of(text: str) -> int:
    """Where this file has a text."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line and "line_of" not in line)


def test_tiles_of_helpers_have_the_lines_that_called_them() -> None:
    """A helper that allocates is no place to look at: who asked for so much is."""

    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        first = fresh((128, 30000))
        second = scratch(30000)  # the other half
        nisa.memset(second, 2.0)
        nisa.memset(first, 1.0)
        nisa.tensor_tensor(first, first, second, nl.add)
        nisa.dma_copy(out, first[:, 0:512])
        return out

    done = full_run(kernel, np.zeros((128, 512), np.float32))
    (found,) = [each for each in done.diagnostics if each.code == "W302"]
    told = "\n".join(found.notes)
    helper, inner = line_of("return nl.ndarray(shape, dtype=dtype"), line_of("made = fresh((128, size))")
    assert f"made (120000 B, {__file__}:{helper} (called at line {inner}, line {line_of('# the other half')}))" in told


def copied(dst: Any, src: Any) -> None:
    nisa.tensor_copy(dst, src)


def test_what_a_helper_is_refused_for_has_the_line_that_called_it() -> None:
    def kernel(x: Any) -> Any:
        tile = fresh(x.shape, x.dtype)
        nisa.dma_copy(tile, x)
        copied(tile[:, 0:64], tile[:, 0:128])  # too wide
        return tile

    with pytest.raises(TileError) as caught:
        full_run(kernel, np.zeros((128, 512), np.float32))
    found = caught.value.diagnostic
    assert found.location is not None and found.location.line == line_of("nisa.tensor_copy(dst, src)")
    assert found.notes == (
        f"called at {__file__}:{line_of('# too wide')}: copied(tile[:, 0:64], tile[:, 0:128])  # too wide",
    )

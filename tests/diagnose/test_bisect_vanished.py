"""An infinity that is gone when something goes wrong: 1/inf is zero, and zero is divided by later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.kit import nisa, nki, nl
from tests.provenance.kit import loaded, stored

RNG = np.random.default_rng(4)


def tile(x: Any, columns: int | None = None) -> Any:
    return nl.ndarray((x.shape[0], columns or x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)


@nki.jit
def element_by_element(x: Any) -> Any:
    e, inverse, back = loaded(x), tile(x), tile(x)
    nisa.activation(e, nl.exp, e)  # the cause
    nisa.reciprocal(inverse, e)
    nisa.reciprocal(back, inverse)
    nisa.tensor_tensor(back, inverse, back, nl.multiply)
    return stored(back)


@nki.jit
def by_rows(x: Any) -> Any:
    e, inverse, total, out = loaded(x), tile(x), tile(x, 1), tile(x)
    nisa.activation(e, nl.exp, e)  # the cause
    nisa.reciprocal(inverse, e)
    nisa.tensor_reduce(total, nl.add, inverse, axis=1)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(out, inverse, nl.multiply, total)
    return stored(out)


@pytest.mark.parametrize("kernel", [element_by_element, by_rows])
def test_the_instruction_that_overflowed_stays(kernel: Any, tmp_path: Path) -> None:
    x = RNG.random((8, 6)).astype(np.float32)
    x[3] = 95
    found = tw.bisect(kernel, x, folder=tmp_path)
    lines = Path(__file__).read_text().splitlines()
    names = [op.name for op in found.kernel.ops]
    assert found.axis == "inputs" and "activation" in names
    at = next(op.location for op in found.kernel.ops if op.name == "activation")
    assert at is not None and "# the cause" in lines[at.line - 1]
    assert "activation turns finite inputs into NaN or infinity" in found.report and "from 95" in found.report
    assert all(place[0] == 3 for place in found.inputs["x"])

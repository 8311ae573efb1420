"""Products of one matrix with a few columns each are one product, unless one is made of another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.lower.kit import check, floats
from tilewright.lower.decisions import noted


def pairs(a: Any, b: Any, x: Any, y: Any) -> Any:
    """Steps with complex numbers as pairs."""
    for _ in range(2):
        x, y = (a @ x - b @ y) / 9, (a @ y + b @ x) / 9
    return x, y


def rows(a: Any, b: Any, x: Any, y: Any) -> Any:
    return x @ a, y @ a + 1, np.tanh(x) @ b


def one_after_the_other(a: Any, b: Any, x: Any, y: Any) -> Any:
    x = np.tanh(a @ x)
    return a @ x, b @ y


def many(a: Any, b: Any, x: Any, y: Any) -> Any:
    """More than fit into one product, and one that is made of two of them."""
    found = [a @ (x * i) for i in range(20)]
    return sum(found), a @ np.tanh(found[0] + found[3])


SQUARE = floats(150, 150) * np.float32(0.1), floats(150, 150, seed=1) * np.float32(0.1)


@pytest.mark.parametrize("shape", [(150,), (150, 1), (150, 5)])
def test_columns_are_multiplied_together(shape: tuple[int, ...]):
    with noted() as decisions:
        check(pairs, *SQUARE, floats(*shape), floats(*shape, seed=1), tolerance=1e-5)
    assert "rule: joined products" in decisions


def test_rows_are_multiplied_together():
    with noted() as decisions:
        check(rows, *SQUARE, floats(3, 150), floats(4, 150, seed=1), tolerance=1e-5)
    assert "rule: joined products" in decisions


def test_what_is_made_of_a_product_waits_for_it():
    with noted() as decisions:
        check(one_after_the_other, *SQUARE, floats(150), floats(150, seed=1), tolerance=1e-5)
    assert "rule: joined products" not in decisions


def test_as_many_as_there_is_room_for():
    with noted() as decisions:
        check(many, *SQUARE, floats(150), floats(150, seed=1), tolerance=1e-5)
    assert decisions.count("rule: joined products") >= 1

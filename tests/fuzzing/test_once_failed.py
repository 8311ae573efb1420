"""Programs that random ones showed to fail, at their smallest."""

from __future__ import annotations

import pytest

from tests.fuzzing.check import check
from tests.fuzzing.program import Program, Spec
from tests.fuzzing.toys import Setting

FLOAT = "float32"
INDEX = "int32"
CASES: dict[str, tuple[str, str, dict[str, Spec]]] = {
    "more lines of columns than partitions": (
        "toy2",
        "np.prod(x, axis=0) - np.any(x, axis=(0, 1))",
        {"x": Spec((6, 54), FLOAT)},
    ),
    "indices left over, more than partitions": (
        "toy2",
        "x[abs(y) % 9]",
        {"x": Spec((9,), FLOAT), "y": Spec((93,), INDEX)},
    ),
    "the same on the hardware": ("trn2", "x[abs(y) % 9]", {"x": Spec((9,), FLOAT), "y": Spec((22000,), INDEX)}),
    "a sum of what all rows gave": (
        "trn2",
        "np.exp(np.max(x, axis=0)).sum(axis=-1, keepdims=True)",
        {"x": Spec((128, 256), FLOAT)},
    ),
    "a product with few banks of PSUM": (
        "toy2-few-banks",
        "x @ y",
        {"x": Spec((20, 7), FLOAT), "y": Spec((7, 9), FLOAT)},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_programs_that_once_failed(case: str):
    target, text, inputs = CASES[case]
    outcome = check(Program(0, inputs, [f"v0 = {text}"], ["v0"], Setting(target)), source=True)
    assert outcome.refused is None

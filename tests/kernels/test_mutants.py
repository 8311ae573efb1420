"""Faults put into the kernels are found: one of each kernel here, all of them by `python -m tests.kernels.mutants`."""

from __future__ import annotations

import pytest

import tilewright as tw
from tests.kernels.mutants import CASES, Case, mutant, off


def test_every_kernel_has_four_mutants() -> None:
    assert {case.kernel for case in CASES} == set(tw.kernels.__all__)
    assert all(len(case.faults) == 4 and len(set(case.faults)) == 4 for case in CASES)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.kernel for case in CASES])
def test_a_fault_is_found(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    case: Case = CASES[number]
    arguments = case.arguments()
    assert off(getattr(tw.kernels, case.kernel), arguments) <= case.most
    changed = mutant(case, case.faults[number % 4])
    assert off(getattr(changed, case.kernel), arguments) > case.most

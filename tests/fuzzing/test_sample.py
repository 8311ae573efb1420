"""A few hundred of the programs that `make fuzz` runs by the thousand, the same every time."""

from __future__ import annotations

import pytest

from tests.fuzzing.__main__ import program_of, variant_of
from tests.fuzzing.check import Failure, check
from tests.fuzzing.sample import SAMPLE

PARTS = 12


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part: int):
    """Kernel, NumPy and, of some, the emitted source agree; few programs are refused."""
    refused: list[str] = []
    programs = SAMPLE[part::PARTS]
    for sizes, seed in programs:
        program = program_of(seed, sizes)
        try:
            outcome = check(program, seed % 10 == 0 and sizes == "toy", variant_of(program))
        except Failure as failure:
            raise AssertionError(f"{failure}\n{program}") from failure
        if outcome.refused is not None:
            refused.append(outcome.refused)
    assert len(refused) <= len(programs) // 5, refused

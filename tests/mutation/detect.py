"""Runs the random programs of `make test` until one fails: exit code 1 and what it is, or 0."""

from __future__ import annotations

import sys

import tests.mutation.inject  # noqa: F401  (before anything of lowering)
from tests.fuzzing.__main__ import program_of, variant_of
from tests.fuzzing.check import Failure, check
from tests.fuzzing.sample import SAMPLE


def main() -> int:
    """Every program of the sample, as the tests run them."""
    refused = 0
    for sizes, seed in SAMPLE:
        program = program_of(seed, sizes)
        try:
            refused += check(program, False, variant_of(program)).refused is not None
        except Failure as failure:
            print(f"program {seed} ({sizes}): {failure.kind}")
            return 1
    if refused > len(SAMPLE) // 20:
        print(f"{refused} programs refused")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs programs of the sample, "toy 17 small 3", until one fails: exit code 1 and what it is, or 0."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import tests.mutation.inject  # noqa: F401  (before anything of lowering)
from tests.fuzzing.__main__ import program_of, variant_of
from tests.fuzzing.check import Failure, check


def main(arguments: Sequence[str]) -> int:
    """Programs as the tests run them; none of them is refused without a fault."""
    for sizes, seed in zip(arguments[::2], arguments[1::2], strict=True):
        program = program_of(int(seed), sizes)
        try:
            refused = check(program, False, variant_of(program)).refused
        except Failure as failure:
            print(f"program {seed} ({sizes}): {failure.kind}")
            return 1
        if refused is not None:
            print(f"program {seed} ({sizes}): refused")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Runs tests with a fault: pytest's own plugins come after it, some of which import lowering.

Assertions stay as they are written: pytest would load the modules of tilewright, whose plugin it knows, by a loader of
its own, without the fault. A run in which lowering was loaded without it ends with an error of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest

from tests.mutation import inject  # before anything of lowering

PLAIN = ("--assert=plain", "-p", "no:cacheprovider")
WITHOUT = 70
"""Exit code of a run that never had the fault in it."""


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 where all tests pass with the fault in place."""
    code = int(pytest.main(["-q", "-x", *PLAIN, *arguments]))
    return code if inject.is_active() else WITHOUT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

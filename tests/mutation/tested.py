"""Runs tests with a fault: pytest's own plugins come after it, some of which import lowering."""

from __future__ import annotations

import sys

import pytest

import tests.mutation.inject  # noqa: F401  (before anything of lowering)

if __name__ == "__main__":
    sys.exit(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *sys.argv[1:]]))

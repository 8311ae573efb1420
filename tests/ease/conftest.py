"""Fixtures of these tests: the command line, and a script to run with it."""

from tests.cli.conftest import script, tilewright

__all__ = ["script", "tilewright"]

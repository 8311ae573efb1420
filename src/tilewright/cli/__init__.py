"""The command line. `main` is the console script; every command has its own module."""

from tilewright.cli.main import main

__all__ = ["main"]

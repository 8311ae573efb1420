"""BLAS threads while a kernel runs: one.

A product of two tiles is too small to share between threads: on a busy machine the threads wait for each other longer
than they compute.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    # Finding the libraries takes some ten milliseconds: once per process, when the first kernel runs.
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let NumPy's matrix products run on one thread."""
    with _controller().limit(limits=1):
        yield

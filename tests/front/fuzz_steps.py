"""Steps of random NumPy programs: each writes one line of Python about the variables there are."""

from __future__ import annotations

from collections.abc import Callable

from tests.front.fuzz_choices import Choices, Step
from tests.front.fuzz_math import (
    binary,
    call,
    cast,
    choice,
    contraction,
    network,
    product,
    reduction,
    statistics,
    unary,
)
from tests.front.fuzz_moves import index, join, make, order, scatter, shape, write

STEPS: list[tuple[Callable[[Choices], Step], int]] = [
    *((unary, 4), (binary, 6), (call, 2), (choice, 2), (cast, 2), (reduction, 4), (statistics, 1)),
    *(
        (contraction, 2),
        (product, 1),
        (network, 1),
        (shape, 5),
        (join, 2),
        (index, 4),
        (order, 2),
        (make, 1),
        (write, 4),
        (scatter, 1),
    ),
]
"""Kinds of steps, and how often each is tried."""

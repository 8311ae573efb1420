"""neuronxcc.nki: the legacy dialect of SDK 2.21 to 2.26 on tilewright's simulator.

A legacy call is another spelling of the instructions of the table (`tile.isa`): same rules, costs and reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.nki.legacy import compiler, isa, language, typing
from tilewright.nki.legacy.entry import FrameworkKernel, baremetal, benchmark, profile, simulate_kernel, trace
from tilewright.nki.legacy.kernel import jit
from tilewright.nki.legacy.tensor import LegacyTensor as tensor
from tilewright.nki.missing import missing_in_legacy

__all__ = [
    "FrameworkKernel",
    "baremetal",
    "benchmark",
    "compiler",
    "isa",
    "jit",
    "language",
    "profile",
    "simulate_kernel",
    "tensor",
    "trace",
    "typing",
]


# Hidden from type checkers, which would take every name for one of the package's.
if not TYPE_CHECKING:

    def __getattr__(name):
        """Names that the package does not have; modules below it are found after this has failed."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise missing_in_legacy("neuronxcc.nki", name, __all__)

"""The nki package: NKI kernels on tilewright's simulator."""

from __future__ import annotations

from typing import Any

from tilewright.nki import dtype, isa, language
from tilewright.nki.kernel import Kernel, jit
from tilewright.nki.simulation import Simulation

__version__ = "0.6.0"


def simulate(kernel: Any) -> Any:
    """Run a kernel, or a plain function, on the simulator: nki.simulate(kernel)(*arrays) (R-simulate-02)."""
    return Simulation(kernel)


cpu_simulate = simulate

__all__ = ["Kernel", "cpu_simulate", "dtype", "isa", "jit", "language", "simulate"]

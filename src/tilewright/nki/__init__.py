"""The nki package: NKI kernels on tilewright's simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.nki import dtype, isa, language
from tilewright.nki.kernel import Kernel, jit
from tilewright.nki.missing import missing_in_package
from tilewright.nki.simulation import Simulation

__version__ = "0.6.0"


def simulate(kernel: Any) -> Any:
    """Run a kernel, or a plain function, on the simulator: nki.simulate(kernel)(*arrays) (R-simulate-02)."""
    return Simulation(kernel)


cpu_simulate = simulate

__all__ = ["Kernel", "cpu_simulate", "dtype", "isa", "jit", "language", "simulate"]


# Hidden from type checkers, which would take every name for one of the package's.
if not TYPE_CHECKING:

    def __getattr__(name):
        """Names that the package does not have; modules below it are found after this has failed."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise missing_in_package(name, __all__)

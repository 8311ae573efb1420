"""nki.compiler.frontend: what tools call to build a kernel. Building one here runs it on the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.nki.kernel import Run, as_kernel, run_kernel


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel that was built: `run` holds its instruction stream and diagnostics, `outputs` what it returned."""

    run: Run

    @property
    def outputs(self) -> Any:
        return self.run.result


class NKIFrontend:
    """Builds kernels for a target."""

    def compile(
        self, kernel: Any, inputs: Mapping[str, Any], target: str | None = None, lnc: int = 1, **options: Any
    ) -> CompiledKernel:
        """Run `kernel(**inputs)` on the simulator; options about artefacts have no meaning here."""
        chosen = as_kernel(kernel)
        return CompiledKernel(run_kernel(chosen[lnc] if lnc > 1 else chosen, (), dict(inputs), target))


class ParserFrontend(NKIFrontend):
    """The front end that parses the kernel's source; here the kernel runs as Python either way."""


class TracerFrontend(NKIFrontend):
    """The front end that traces the kernel; here the kernel runs as Python either way."""


__all__ = ["CompiledKernel", "NKIFrontend", "ParserFrontend", "TracerFrontend"]

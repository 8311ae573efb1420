"""neuronxcc.nki.compiler: direct allocation, and decorators that tell the old compiler what to leave alone."""

from __future__ import annotations

from typing import Any

from tilewright.nki.legacy.allocation import psum, sbuf
from tilewright.nki.legacy.kernel import LegacyKernel, as_legacy
from tilewright.rules import violate


def _marked(function: Any, **marks: Any) -> Any:
    kernel = as_legacy(function)
    made = kernel.with_grid(kernel.axes)
    made.flags |= marks
    return made


def skip_middle_end_transformations(func: Any = None) -> Any:
    """Keep the order of the source: what the simulator does anyway."""
    return _marked(func, skip_middle_end=True) if func is not None else skip_middle_end_transformations


def enable_stack_allocator(func: Any = None, log_level: int = 50) -> Any:
    """Place tiles on a stack (R-legacy-16: together with skip_middle_end_transformations)."""
    if func is None:
        return enable_stack_allocator
    if not (isinstance(func, LegacyKernel) and func.flags.get("skip_middle_end")):
        violate(
            "R-legacy-16",
            "enable_stack_allocator without skip_middle_end_transformations",
            hint="put @nki.compiler.skip_middle_end_transformations below it",
        )
    return _marked(func)


def force_auto_alloc(func: Any = None) -> Any:
    """Ignore the places that the kernel gives to its tiles."""
    return _marked(func, force_auto_alloc=True) if func is not None else force_auto_alloc


__all__ = ["enable_stack_allocator", "force_auto_alloc", "psum", "sbuf", "skip_middle_end_transformations"]
